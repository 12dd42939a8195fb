/* References of images in other sizes, and of normalisation by groups. */
#include <math.h>
#include <string.h>

#include "tests/ref/ref.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static double *at4(const value *v, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return &v->data[((n * v->dims[1] + c) * v->dims[2] + h) * v->dims[3] + w];
}

/* Adds x times the weight around its place in a plane of `out`. */
static void spread(value *out, const value *w, int64_t n, int64_t in, int64_t o, int64_t top,
                   int64_t left, int64_t channel, double x)
{
    for (int64_t kh = 0; kh < w->dims[2]; kh++)
        for (int64_t kw = 0; kw < w->dims[3]; kw++)
            if (top + kh >= 0 && top + kh < out->dims[2] && left + kw >= 0 &&
                left + kw < out->dims[3])
                *at4(out, n, channel, top + kh, left + kw) += x * *at4(w, in, o, kh, kw);
}

value ref_conv_transpose2d(const value *x, const value *w, const value *bias,
                           const int64_t stride[2], const int64_t padding[2],
                           const int64_t output_padding[2], int64_t groups)
{
    int64_t dims[4] = { x->dims[0], w->dims[1] * groups, 0, 0 }, at[4] = { 0 };
    for (int d = 0; d < 2; d++)
        dims[2 + d] =
            (x->dims[2 + d] - 1) * stride[d] - 2 * padding[d] + w->dims[2 + d] + output_padding[d];
    value out = value_new(4, dims);
    memset(out.data, 0, (size_t)out.numel * sizeof *out.data);
    for (int64_t i = 0; bias->data != NULL && i < out.numel; i++)
        out.data[i] = bias->data[i / (dims[2] * dims[3]) % dims[1]];
    if (x->numel == 0)
        return out;
    const int64_t per_group = x->dims[1] / groups;
    do {
        for (int64_t o = 0; o < w->dims[1]; o++)
            spread(&out, w, at[0], at[1], o, at[2] * stride[0] - padding[0],
                   at[3] * stride[1] - padding[1], at[1] / per_group * w->dims[1] + o,
                   *at4(x, at[0], at[1], at[2], at[3]));
    } while (ref_next(4, x->dims, at));
    return out;
}

value ref_adaptive_pool2d(const value *x, const int64_t size[2], int mode)
{
    const int64_t dims[4] = { x->dims[0], x->dims[1], size[0], size[1] };
    value out = value_new(4, dims);
    int64_t at[4] = { 0 }, i = 0;
    if (out.numel == 0)
        return out;
    do {
        int64_t begin[2], end[2];
        for (int d = 0; d < 2; d++) {
            begin[d] = (int64_t)floor((double)(at[2 + d] * x->dims[2 + d]) / (double)size[d]);
            end[d] = (int64_t)ceil((double)((at[2 + d] + 1) * x->dims[2 + d]) / (double)size[d]);
        }
        double sum = 0, most = -INFINITY;
        for (int64_t h = begin[0]; h < end[0]; h++)
            for (int64_t w = begin[1]; w < end[1]; w++) {
                sum += *at4(x, at[0], at[1], h, w);
                most = fmax(most, *at4(x, at[0], at[1], h, w));
            }
        out.data[i++] =
            mode == 0 ? most : sum / (double)((end[0] - begin[0]) * (end[1] - begin[1]));
    } while (ref_next(4, dims, at));
    return out;
}

/* The place of result i among `in` cells, and the weight of the cell after it. */
static int64_t place_of(int64_t i, int64_t in, int64_t out, bool corners, double *after)
{
    double place = corners ? (out > 1 ? (double)(i * (in - 1)) / (double)(out - 1) : 0)
                           : ((double)i + 0.5) * (double)in / (double)out - 0.5;
    place = fmax(place, 0);
    const int64_t cell = least((int64_t)place, in - 1);
    *after = place - (double)cell;
    return cell;
}

value ref_bilinear(const value *x, const int64_t size[2], bool corners)
{
    const int64_t dims[4] = { x->dims[0], x->dims[1], size[0], size[1] };
    value out = value_new(4, dims);
    int64_t at[4] = { 0 }, i = 0;
    if (out.numel == 0)
        return out;
    do {
        double down, right;
        const int64_t h = place_of(at[2], x->dims[2], size[0], corners, &down);
        const int64_t w = place_of(at[3], x->dims[3], size[1], corners, &right);
        const int64_t below = least(h + 1, x->dims[2] - 1), beside = least(w + 1, x->dims[3] - 1);
        const int64_t n = at[0], c = at[1];
        out.data[i++] = (1 - down) * (1 - right) * *at4(x, n, c, h, w) +
                        (1 - down) * right * *at4(x, n, c, h, beside) +
                        down * (1 - right) * *at4(x, n, c, below, w) +
                        down * right * *at4(x, n, c, below, beside);
    } while (ref_next(4, dims, at));
    return out;
}

/* A weight as a whole number of 2^-bits, as many as leave the largest of the dimension below 2^15. */
static double whole_weight(double weight, int bits)
{
    return floor(0.5 + ldexp(weight, bits));
}

static int bits_of(int64_t in, int64_t out, bool corners)
{
    double most = 0, after;
    int bits = 0;
    for (int64_t i = 0; i < out; i++) {
        const bool is_last = place_of(i, in, out, corners, &after) == in - 1;
        most = fmax(most, is_last ? 1 : fmax(after, 1 - after));
    }
    while (bits < 22 && whole_weight(most, bits + 1) < 32768)
        bits++;
    return bits;
}

/* Along dimension d (2 or 3), rounded. */
static value bytes_along(const value *x, int d, int64_t size, bool corners)
{
    int64_t dims[4] = { x->dims[0], x->dims[1], x->dims[2], x->dims[3] }, at[4] = { 0 }, i = 0;
    const int bits = bits_of(dims[d], size, corners);
    dims[d] = size;
    value out = value_new(4, dims);
    do {
        double after;
        int64_t from[4] = { at[0], at[1], at[2], at[3] };
        from[d] = place_of(at[d], x->dims[d], size, corners, &after);
        const bool is_last = from[d] == x->dims[d] - 1;
        double sum = whole_weight(is_last ? 1 : 1 - after, bits) * x->data[ref_place(x, 4, from)];
        from[d]++;
        if (!is_last)
            sum += whole_weight(after, bits) * x->data[ref_place(x, 4, from)];
        out.data[i++] = fmin(255, floor(ldexp(sum, -bits) + 0.5));
    } while (ref_next(4, dims, at));
    return out;
}

value ref_bilinear_bytes(const value *x, const int64_t size[2], bool corners)
{
    value across = bytes_along(x, 3, size[1], corners);
    const value out = bytes_along(&across, 2, size[0], corners);
    value_free(&across);
    return out;
}

value ref_bilinear_grad(const value *g, const int64_t size[2])
{
    const int64_t dims[4] = { g->dims[0], g->dims[1], size[0], size[1] };
    value out = value_new(4, dims);
    int64_t at[4] = { 0 }, i = 0;
    memset(out.data, 0, (size_t)out.numel * sizeof *out.data);
    if (g->numel == 0)
        return out;
    do {
        double down, right;
        const int64_t h = place_of(at[2], size[0], g->dims[2], false, &down);
        const int64_t w = place_of(at[3], size[1], g->dims[3], false, &right);
        const int64_t below = least(h + 1, size[0] - 1), beside = least(w + 1, size[1] - 1);
        const double v = g->data[i++];
        *at4(&out, at[0], at[1], h, w) += (1 - down) * (1 - right) * v;
        *at4(&out, at[0], at[1], h, beside) += (1 - down) * right * v;
        *at4(&out, at[0], at[1], below, w) += down * (1 - right) * v;
        *at4(&out, at[0], at[1], below, beside) += down * right * v;
    } while (ref_next(4, g->dims, at));
    return out;
}

value ref_nearest(const value *x, const int64_t size[2], double shift)
{
    const int64_t dims[4] = { x->dims[0], x->dims[1], size[0], size[1] };
    value out = value_new(4, dims);
    int64_t at[4] = { 0 }, i = 0;
    do {
        int64_t from[2];
        for (int d = 0; d < 2; d++)
            from[d] = least(
                (int64_t)(((double)at[2 + d] + shift) * (double)x->dims[2 + d] / (double)size[d]),
                x->dims[2 + d] - 1);
        out.data[i++] = *at4(x, at[0], at[1], from[0], from[1]);
    } while (ref_next(4, dims, at));
    return out;
}

value ref_group_norm(const value *x, int64_t groups, const value *weight, const value *bias,
                     double eps)
{
    value out = value_new(x->ndim, x->dims);
    const int64_t rows = x->dims[0] * groups, n = rows > 0 ? x->numel / rows : 0;
    const int64_t inner = x->dims[0] * x->dims[1] > 0 ? x->numel / (x->dims[0] * x->dims[1]) : 0;
    for (int64_t row = 0; row < rows; row++) {
        double mean = 0, var = 0;
        for (int64_t i = row * n; i < (row + 1) * n; i++)
            mean += x->data[i] / (double)n;
        for (int64_t i = row * n; i < (row + 1) * n; i++)
            var += (x->data[i] - mean) * (x->data[i] - mean) / (double)n;
        for (int64_t i = row * n; i < (row + 1) * n; i++) {
            const int64_t c = i / inner % x->dims[1];
            out.data[i] = (x->data[i] - mean) / sqrt(var + eps) *
                              (weight->data != NULL ? weight->data[c] : 1) +
                          (bias->data != NULL ? bias->data[c] : 0);
        }
    }
    return out;
}

value ref_rms_norm(const value *x, int dims, const value *weight, double eps)
{
    int64_t n = 1;
    for (int d = x->ndim - dims; d < x->ndim; d++)
        n *= x->dims[d];
    value out = value_new(x->ndim, x->dims);
    for (int64_t row = 0; row < x->numel; row += n) {
        double square = 0;
        for (int64_t i = row; i < row + n; i++)
            square += x->data[i] * x->data[i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            out.data[row + i] = x->data[row + i] / sqrt(square + eps) *
                                (weight->data != NULL ? weight->data[i] : 1);
    }
    return out;
}

value ref_rms_norm_grad(const value *in)
{
    value out = value_new(2, in[1].dims);
    const int64_t n = in[1].dims[1];
    for (int64_t row = 0; row < in[1].dims[0]; row++) {
        const double *g = in[0].data + row * n, *x = in[1].data + row * n, r = in[3].data[row];
        double dot = 0;
        for (int64_t i = 0; i < n; i++)
            dot += g[i] * in[2].data[i] * x[i] * r / (double)n;
        for (int64_t i = 0; i < n; i++)
            out.data[row * n + i] = r * (g[i] * in[2].data[i] - x[i] * r * dot);
    }
    return out;
}
