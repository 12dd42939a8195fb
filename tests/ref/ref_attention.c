/* Attention from its definition, and its gradients, in double precision. See ref.h. */
#include <math.h>
#include <stdlib.h>

#include "tests/ref/ref.h"

/* Row-major [B, H, rows, columns]. */
static double *row(const value *v, int64_t b, int64_t h, int64_t r)
{
    return v->data + ((b * v->dims[1] + h) * v->dims[2] + r) * v->dims[3];
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Weights of query t; zeros where it sees nothing. */
static void weigh(const ref_heads *a, int64_t b, int64_t h, int64_t t, double *weights)
{
    const int64_t keys = a->k->dims[2], g = h / (a->q->dims[1] / a->k->dims[1]);
    double top = -INFINITY, sum = 0;
    for (int64_t s = 0; s < keys; s++) {
        const int64_t at[4] = { b, h, t, s };
        weights[s] = dot(row(a->q, b, h, t), row(a->k, b, g, s), a->q->dims[3]) * a->scale;
        if (a->mask->data != NULL) {
            const double m = a->mask->data[ref_place(a->mask, 4, at)];
            weights[s] = a->additive ? weights[s] + m : m != 0 ? weights[s] : -INFINITY;
        }
        if (a->causal && s > t)
            weights[s] = -INFINITY;
        top = fmax(top, weights[s]);
    }
    for (int64_t s = 0; s < keys; s++) {
        weights[s] = top > -INFINITY ? exp(weights[s] - top) : 0;
        sum += weights[s];
    }
    for (int64_t s = 0; s < keys && sum > 0; s++)
        weights[s] /= sum;
}

value ref_attend(const ref_heads *a)
{
    const value *q = a->q;
    const int64_t keys = a->k->dims[2], wide = a->v->dims[3], each = q->dims[1] / a->k->dims[1];
    value y = value_new(4, (int64_t[]){ q->dims[0], q->dims[1], q->dims[2], wide });
    double *weights = malloc((size_t)(keys + 1) * sizeof *weights);
    for (int64_t b = 0; b < q->dims[0]; b++)
        for (int64_t h = 0; h < q->dims[1]; h++)
            for (int64_t t = 0; t < q->dims[2]; t++) {
                weigh(a, b, h, t, weights);
                for (int64_t s = 0; s < keys; s++)
                    for (int64_t e = 0; e < wide; e++)
                        row(&y, b, h, t)[e] += weights[s] * row(a->v, b, h / each, s)[e];
            }
    free(weights);
    return y;
}

/* The part of one query: P its weights, gP = g v^T, gS = P (gP - sum(gP P)). */
static void add_gradients(const ref_heads *a, const double *grad, int64_t b, int64_t h, int64_t t,
                          value out[3])
{
    const int64_t keys = a->k->dims[2], deep = a->q->dims[3], wide = a->v->dims[3];
    const int64_t g = h / (a->q->dims[1] / a->k->dims[1]);
    double *weights = malloc((size_t)(2 * keys + 1) * sizeof *weights), *slopes = weights + keys;
    double mean = 0;
    weigh(a, b, h, t, weights);
    for (int64_t s = 0; s < keys; s++) {
        slopes[s] = dot(grad, row(a->v, b, g, s), wide);
        mean += slopes[s] * weights[s];
    }
    for (int64_t s = 0; s < keys; s++) {
        const double slope = weights[s] * (slopes[s] - mean) * a->scale;
        for (int64_t d = 0; d < deep; d++) {
            row(&out[0], b, h, t)[d] += slope * row(a->k, b, g, s)[d];
            row(&out[1], b, g, s)[d] += slope * row(a->q, b, h, t)[d];
        }
        for (int64_t e = 0; e < wide; e++)
            row(&out[2], b, g, s)[e] += weights[s] * grad[e];
    }
    free(weights);
}

value ref_attend_grad(const ref_heads *a, const value *grad, int which)
{
    const value *in[3] = { a->q, a->k, a->v };
    value out[3];
    for (int i = 0; i < 3; i++)
        out[i] = value_new(4, in[i]->dims);
    for (int64_t b = 0; b < a->q->dims[0]; b++)
        for (int64_t h = 0; h < a->q->dims[1]; h++)
            for (int64_t t = 0; t < a->q->dims[2]; t++)
                add_gradients(a, row(grad, b, h, t), b, h, t, out);
    for (int i = 0; i < 3; i++)
        if (i != which)
            value_free(&out[i]);
    return out[which];
}
