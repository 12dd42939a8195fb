/* References: elementwise, reductions, products. See ref.h. */
#include <math.h>

#include "tests/ref/ref.h"

int64_t ref_place(const value *v, int ndim, const int64_t *at)
{
    int64_t place = 0;
    for (int d = 0; d < v->ndim; d++) {
        const int64_t i = at[ndim - v->ndim + d];
        place = place * v->dims[d] + (v->dims[d] == 1 ? 0 : i);
    }
    return place;
}

bool ref_next(int ndim, const int64_t *dims, int64_t *at)
{
    for (int d = 0; d < ndim; d++)
        if (dims[d] == 0)
            return false;
    for (int d = ndim - 1; d >= 0; d--) {
        if (++at[d] < dims[d])
            return true;
        at[d] = 0;
    }
    return false;
}

value ref_map(const value *a, double (*f)(double))
{
    value out = value_new(a->ndim, a->dims);
    for (int64_t i = 0; i < a->numel; i++)
        out.data[i] = f(a->data[i]);
    return out;
}

value ref_map2(const value *a, const value *b, double (*f)(double, double))
{
    const int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    int64_t dims[TERN_MAX_DIMS], at[TERN_MAX_DIMS] = { 0 };
    for (int d = 0; d < ndim; d++) {
        const int64_t x = d >= ndim - a->ndim ? a->dims[d - ndim + a->ndim] : 1;
        const int64_t y = d >= ndim - b->ndim ? b->dims[d - ndim + b->ndim] : 1;
        dims[d] = x == 1 ? y : x;
    }
    value out = value_new(ndim, dims);
    int64_t i = 0;
    if (out.numel > 0)
        do
            out.data[i++] = f(a->data[ref_place(a, ndim, at)], b->data[ref_place(b, ndim, at)]);
        while (ref_next(ndim, dims, at));
    return out;
}

/* The result's shape, and for each element of `a` the place in the result it belongs to. */
static value reduced(const value *a, uint32_t dims)
{
    int64_t kept[TERN_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < a->ndim; d++)
        if (!(dims & (1u << d)))
            kept[n++] = a->dims[d];
    return value_new(n, kept);
}

static int64_t target(const value *a, uint32_t dims, const int64_t *at)
{
    int64_t place = 0;
    for (int d = 0; d < a->ndim; d++)
        if (!(dims & (1u << d)))
            place = place * a->dims[d] + at[d];
    return place;
}

value ref_sum(const value *a, uint32_t dims)
{
    value out = reduced(a, dims);
    int64_t at[TERN_MAX_DIMS] = { 0 }, i = 0;
    if (a->numel > 0)
        do
            out.data[target(a, dims, at)] += a->data[i++];
        while (ref_next(a->ndim, a->dims, at));
    return out;
}

value ref_mean(const value *a, uint32_t dims)
{
    value out = ref_sum(a, dims);
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] /= (double)a->numel / (double)out.numel;
    return out;
}

value ref_var(const value *a, uint32_t dims, double correction)
{
    value mean = ref_mean(a, dims), out = reduced(a, dims);
    int64_t at[TERN_MAX_DIMS] = { 0 }, i = 0;
    if (a->numel > 0)
        do {
            const int64_t t = target(a, dims, at);
            const double x = a->data[i++] - mean.data[t];
            out.data[t] += x * x;
        } while (ref_next(a->ndim, a->dims, at));
    const double n = (double)a->numel / (double)out.numel;
    for (int64_t k = 0; k < out.numel; k++)
        out.data[k] /= fmax(n - correction, 0);
    value_free(&mean);
    return out;
}

value ref_amax(const value *a, uint32_t dims)
{
    value out = reduced(a, dims);
    for (int64_t k = 0; k < out.numel; k++)
        out.data[k] = -INFINITY;
    int64_t at[TERN_MAX_DIMS] = { 0 }, i = 0;
    if (a->numel > 0)
        do {
            double *top = &out.data[target(a, dims, at)];
            const double x = a->data[i++];
            if (x > *top || isnan(x))
                *top = x;
        } while (ref_next(a->ndim, a->dims, at));
    return out;
}

value ref_argmax(const value *a, int dim)
{
    value top = ref_amax(a, 1u << dim), out = reduced(a, 1u << dim);
    for (int64_t k = 0; k < out.numel; k++)
        out.data[k] = -1;
    int64_t at[TERN_MAX_DIMS] = { 0 }, i = 0;
    if (a->numel > 0)
        do {
            const int64_t t = target(a, 1u << dim, at);
            if (a->data[i++] == top.data[t] && out.data[t] < 0)
                out.data[t] = (double)at[dim];
        } while (ref_next(a->ndim, a->dims, at));
    value_free(&top);
    return out;
}

value ref_matmul(const value *a, const value *b)
{
    const int ndim = a->ndim;
    const int64_t m = a->dims[ndim - 2], k = a->dims[ndim - 1], n = b->dims[b->ndim - 1];
    const int64_t batch_a = ndim == 3 ? a->dims[0] : 1, batch_b = b->ndim == 3 ? b->dims[0] : 1;
    const int64_t batch = batch_a > batch_b ? batch_a : batch_b;
    value out = value_new(ndim, ndim == 3 ? (int64_t[]){ batch, m, n } : (int64_t[]){ m, n });
    for (int64_t p = 0; p < batch; p++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum += a->data[(p % batch_a * m + i) * k + l] *
                           b->data[(p % batch_b * k + l) * n + j];
                out.data[(p * m + i) * n + j] = sum;
            }
    return out;
}
