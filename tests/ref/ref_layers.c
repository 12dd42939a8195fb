/* References: convolution, pooling, normalisation, softmax, loss. See ref.h. */
#include <math.h>

#include "tests/ref/ref.h"

static double at4(const value *x, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return x->data[((n * x->dims[1] + c) * x->dims[2] + h) * x->dims[3] + w];
}

value ref_conv2d(const value *x, const value *w, const value *bias, const int64_t stride[2],
                 const int64_t padding[2], const int64_t dilation[2], int64_t groups)
{
    int64_t dims[4] = { x->dims[0], w->dims[0], 0, 0 }, at[4] = { 0 };
    for (int k = 0; k < 2; k++)
        dims[2 + k] =
            (x->dims[2 + k] + 2 * padding[k] - dilation[k] * (w->dims[2 + k] - 1) - 1) / stride[k] +
            1;
    value out = value_new(4, dims);
    const int64_t per_group = w->dims[1], out_per_group = w->dims[0] / groups;
    int64_t i = 0;
    if (out.numel == 0)
        return out;
    do {
        double sum = bias->data != NULL ? bias->data[at[1]] : 0;
        for (int64_t c = 0; c < per_group; c++)
            for (int64_t kh = 0; kh < w->dims[2]; kh++)
                for (int64_t kw = 0; kw < w->dims[3]; kw++) {
                    const int64_t h = at[2] * stride[0] - padding[0] + kh * dilation[0];
                    const int64_t v = at[3] * stride[1] - padding[1] + kw * dilation[1];
                    if (h < 0 || v < 0 || h >= x->dims[2] || v >= x->dims[3])
                        continue;
                    sum += at4(x, at[0], at[1] / out_per_group * per_group + c, h, v) *
                           at4(w, at[1], c, kh, kw);
                }
        out.data[i++] = sum;
    } while (ref_next(4, dims, at));
    return out;
}

value ref_pool2d(const value *x, const int64_t kernel[2], const int64_t stride[2],
                 const int64_t padding[2], int mode)
{
    int64_t dims[4] = { x->dims[0], x->dims[1], 0, 0 }, at[4] = { 0 }, i = 0;
    for (int k = 0; k < 2; k++)
        dims[2 + k] = (x->dims[2 + k] + 2 * padding[k] - kernel[k]) / stride[k] + 1;
    value out = value_new(4, dims);
    if (out.numel == 0)
        return out;
    do {
        double top = -INFINITY, sum = 0;
        int64_t inside = 0;
        for (int64_t kh = 0; kh < kernel[0]; kh++)
            for (int64_t kw = 0; kw < kernel[1]; kw++) {
                const int64_t h = at[2] * stride[0] - padding[0] + kh;
                const int64_t v = at[3] * stride[1] - padding[1] + kw;
                if (h < 0 || v < 0 || h >= x->dims[2] || v >= x->dims[3])
                    continue;
                top = fmax(top, at4(x, at[0], at[1], h, v));
                sum += at4(x, at[0], at[1], h, v);
                inside++;
            }
        out.data[i++] =
            mode == 0 ? top : sum / (double)(mode == 1 ? inside : kernel[0] * kernel[1]);
    } while (ref_next(4, dims, at));
    return out;
}

/* Splits a shape around `dim`: outer x extent x inner. */
static void split(const value *x, int dim, int64_t *outer, int64_t *extent, int64_t *inner)
{
    *outer = *inner = 1;
    *extent = x->ndim > 0 ? x->dims[dim] : 1;
    for (int d = 0; d < x->ndim; d++)
        if (d < dim)
            *outer *= x->dims[d];
        else if (d > dim)
            *inner *= x->dims[d];
}

value ref_softmax(const value *x, int dim, bool logarithm)
{
    int64_t outer, n, inner;
    split(x, dim, &outer, &n, &inner);
    value out = value_new(x->ndim, x->dims);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            const double *in = x->data + o * n * inner + i;
            double *to = out.data + o * n * inner + i;
            double top = -INFINITY, sum = 0;
            for (int64_t k = 0; k < n; k++)
                top = fmax(top, in[k * inner]);
            for (int64_t k = 0; k < n; k++)
                sum += exp(in[k * inner] - top);
            for (int64_t k = 0; k < n; k++)
                to[k * inner] =
                    logarithm ? in[k * inner] - top - log(sum) : exp(in[k * inner] - top) / sum;
        }
    return out;
}

value ref_cross_entropy(const value *x, const value *target, const value *weight, int reduction,
                        double smoothing, int64_t ignore)
{
    const int64_t classes = x->dims[1], inner = x->dims[2];
    value p = ref_softmax(x, 1, true), each = value_new(target->ndim, target->dims);
    double total = 0, share = 0;
    for (int64_t i = 0; i < target->numel; i++) {
        const int64_t t = (int64_t)target->data[i], n = i / inner, s = i % inner;
        if (t == ignore)
            continue;
        for (int64_t c = 0; c < classes; c++) {
            const double w = weight->data != NULL ? weight->data[c] : 1;
            const double q = (c == t) * (1 - smoothing) + smoothing / (double)classes;
            each.data[i] -= q * w * p.data[(n * classes + c) * inner + s];
        }
        total += each.data[i];
        share += weight->data != NULL ? weight->data[t] : 1;
    }
    value_free(&p);
    if (reduction == TERN_NONE)
        return each;
    value_free(&each);
    value out = value_new(0, NULL);
    out.data[0] = reduction == TERN_SUM ? total : total / share;
    return out;
}

value ref_layer_norm(const value *x, int dims, const value *weight, const value *bias, double eps)
{
    int64_t n = 1;
    for (int d = x->ndim - dims; d < x->ndim; d++)
        n *= x->dims[d];
    value out = value_new(x->ndim, x->dims);
    for (int64_t row = 0; row < x->numel; row += n) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < n; i++)
            mean += x->data[row + i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            var += (x->data[row + i] - mean) * (x->data[row + i] - mean) / (double)n;
        for (int64_t i = 0; i < n; i++)
            out.data[row + i] = (x->data[row + i] - mean) / sqrt(var + eps) *
                                    (weight->data != NULL ? weight->data[i] : 1) +
                                (bias->data != NULL ? bias->data[i] : 0);
    }
    return out;
}

value ref_batch_norm(const value *x, const value *weight, const value *bias, double eps)
{
    int64_t outer, channels, inner;
    split(x, 1, &outer, &channels, &inner);
    value out = value_new(x->ndim, x->dims);
    const double n = (double)(outer * inner);
    for (int64_t c = 0; c < channels; c++) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < outer * inner; i++)
            mean += x->data[(i / inner * channels + c) * inner + i % inner] / n;
        for (int64_t i = 0; i < outer * inner; i++) {
            const double d = x->data[(i / inner * channels + c) * inner + i % inner] - mean;
            var += d * d / n;
        }
        for (int64_t i = 0; i < outer * inner; i++) {
            const int64_t at = (i / inner * channels + c) * inner + i % inner;
            out.data[at] = (x->data[at] - mean) / sqrt(var + eps) *
                               (weight->data != NULL ? weight->data[c] : 1) +
                           (bias->data != NULL ? bias->data[c] : 0);
        }
    }
    return out;
}
