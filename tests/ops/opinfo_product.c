/* Matrix products, convolution, pooling. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }

/* ---- products ---- */

static tern_tensor *run_gemm(tern_tensor **in)
{
    return core_op2(TERN_OP_gemm, TERN_HERE, NULL, in[0], in[1]);
}
static tern_tensor *run_matmul(tern_tensor **in) { return tern_matmul(in[0], in[1]); }
static value ref_product(const value *in) { return ref_matmul(&in[0], &in[1]); }

/* 1-D operands become a row or a column, which disappears again */
static value ref_vectors(const value *in)
{
    value a = value_copy(&in[0]), b = value_copy(&in[1]);
    if (a.ndim == 1) {
        a.ndim = 2;
        a.dims[1] = a.dims[0];
        a.dims[0] = 1;
    }
    if (b.ndim == 1) {
        b.ndim = 2;
        b.dims[1] = 1;
    }
    value out = ref_matmul(&a, &b);
    if (in[0].ndim == 1) {
        out.dims[0] = out.dims[1];
        out.ndim--;
    }
    if (in[1].ndim == 1)
        out.ndim--;
    value_free(&a);
    value_free(&b);
    return out;
}

static tern_tensor *run_linear(tern_tensor **in) { return tern_linear(in[0], in[1], in[2]); }
static value ref_linear(const value *in)
{
    const int64_t rows = in[0].dims[0], depth = in[0].dims[1], columns = in[1].dims[0];
    value out = value_new(2, (int64_t[]){ rows, columns });
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = in[2].data != NULL ? in[2].data[j] : 0;
            for (int64_t k = 0; k < depth; k++)
                sum += in[0].data[i * depth + k] * in[1].data[j * depth + k];
            out.data[i * columns + j] = sum;
        }
    return out;
}

/* ---- convolution ---- */

static const int64_t one[2] = { 1, 1 }, two[2] = { 2, 2 }, zero[2] = { 0, 0 };

static tern_tensor *run_conv2d(tern_tensor **in) { return tern_conv2d(in[0], in[1], in[2]); }
static value ref_conv_plain(const value *in)
{
    return ref_conv2d(&in[0], &in[1], &in[2], one, zero, one, 1);
}
static tern_tensor *run_conv_padded(tern_tensor **in)
{
    return tern_conv2d(in[0], in[1], in[2], .padding = { 1 }, .stride = { 2, 1 });
}
static value ref_conv_padded(const value *in)
{
    return ref_conv2d(&in[0], &in[1], &in[2], (int64_t[]){ 2, 1 }, one, one, 1);
}
static tern_tensor *run_conv_groups(tern_tensor **in)
{
    return tern_conv2d(in[0], in[1], in[2], .padding = { 2 }, .dilation = { 2 }, .groups = 2);
}
static value ref_conv_groups(const value *in)
{
    return ref_conv2d(&in[0], &in[1], &in[2], one, two, two, 2);
}

/* Transposes of the plain convolution, from its definition: each product x w adds to one output. */
static value conv_scatter(const value *g, const value *other, bool to_input)
{
    const int64_t *xd = to_input ? NULL : other->dims;
    int64_t dims[4];
    if (to_input) {
        dims[0] = g->dims[0];
        dims[1] = other->dims[1];
        dims[2] = g->dims[2] + other->dims[2] - 1;
        dims[3] = g->dims[3] + other->dims[3] - 1;
    } else {
        dims[0] = g->dims[1];
        dims[1] = xd[1];
        dims[2] = xd[2] - g->dims[2] + 1;
        dims[3] = xd[3] - g->dims[3] + 1;
    }
    value out = value_new(4, dims);
    const int64_t kh = to_input ? other->dims[2] : dims[2], kw = to_input ? other->dims[3] : dims[3];
    int64_t at[4] = { 0 }, i = 0;
    if (g->numel == 0)
        return out;
    do { /* over the gradient's elements: n, o, h, v */
        const double grad = g->data[i++];
        for (int64_t c = 0; c < dims[1]; c++)
            for (int64_t p = 0; p < kh; p++)
                for (int64_t q = 0; q < kw; q++) {
                    const int64_t x[4] = { at[0], c, at[2] + p, at[3] + q }, w[4] = { at[1], c, p, q };
                    out.data[ref_place(&out, 4, to_input ? x : w)] +=
                        grad * other->data[ref_place(other, 4, to_input ? w : x)];
                }
    } while (ref_next(4, g->dims, at));
    return out;
}
static tern_tensor *run_conv2d_grad_input(tern_tensor **in)
{
    tern_attr_conv attr = { { 1, 1 }, { 0, 0 }, { 1, 1 }, 1,
                           { tern_size(in[0], 0), 3, 6, 5 } };
    return core_op2(TERN_OP_conv2d_grad_input, TERN_HERE, &attr, in[0], in[1]);
}
static value ref_conv2d_grad_input(const value *in) { return conv_scatter(&in[0], &in[1], true); }
static tern_tensor *run_conv2d_grad_weight(tern_tensor **in)
{
    tern_attr_conv attr = { { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, { 4, 3, 3, 2 } };
    return core_op2(TERN_OP_conv2d_grad_weight, TERN_HERE, &attr, in[0], in[1]);
}
static value ref_conv2d_grad_weight(const value *in) { return conv_scatter(&in[0], &in[1], false); }

/* ---- pooling ---- */

static tern_tensor *run_max_pool2d(tern_tensor **in) { return tern_max_pool2d(in[0], { 2 }); }
static value ref_max_pool(const value *in) { return ref_pool2d(&in[0], two, two, zero, 0); }
static tern_tensor *run_max_pool_wide(tern_tensor **in)
{
    return tern_max_pool2d(in[0], { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 1 });
}
static value ref_max_pool_wide(const value *in)
{
    return ref_pool2d(&in[0], (int64_t[]){ 3, 2 }, (int64_t[]){ 2, 1 }, one, 0);
}
static tern_tensor *run_avg_pool2d(tern_tensor **in)
{
    return tern_avg_pool2d(in[0], { 3 }, .stride = { 2 }, .padding = { 1 });
}
static value ref_avg_pool(const value *in)
{
    return ref_pool2d(&in[0], (int64_t[]){ 3, 3 }, two, one, 2);
}
static tern_tensor *run_avg_pool_inside(tern_tensor **in)
{
    return tern_avg_pool2d(in[0], { 3 }, .stride = { 2 }, .padding = { 1 }, .exclude_pad = true);
}
static value ref_avg_pool_inside(const value *in)
{
    return ref_pool2d(&in[0], (int64_t[]){ 3, 3 }, two, one, 1);
}
/* The index's coding is the backend's own, so the gradient row runs on what the forward row made. */
static tern_tensor *run_max_pool2d_grad(tern_tensor **in)
{
    tern_attr_pool attr = { { 2, 2 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, 0, 1,
                            { tern_size(in[0], 0), 3, 4, 6 } };
    tern_tensor *y = NULL, *index = NULL, **want[] = { &y, &index }, *x = tern_detach(in[1]);
    if (!core_opn(TERN_OP_max_pool2d, TERN_HERE, &attr, 1, &x, 2, want))
        return NULL;
    return core_op2(TERN_OP_max_pool2d_grad, TERN_HERE, &attr, in[0], index);
}
static value ref_max_pool2d_grad(const value *in)
{
    value out = value_new(4, in[1].dims);
    int64_t at[4] = { 0 }, i = 0;
    if (in[0].numel == 0)
        return out;
    do {
        int64_t best = -1;
        for (int64_t k = 0; k < 4; k++) {
            const int64_t x[4] = { at[0], at[1], 2 * at[2] + k / 2, 2 * at[3] + k % 2 };
            const int64_t place = ref_place(&in[1], 4, x);
            if (best < 0 || in[1].data[place] > in[1].data[best])
                best = place;
        }
        out.data[best] += in[0].data[i++];
    } while (ref_next(4, in[0].dims, at));
    return out;
}
static tern_tensor *run_avg_pool2d_grad(tern_tensor **in)
{
    tern_attr_pool attr = { { 2, 2 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, 0, 1,
                            { tern_size(in[0], 0), 3, 4, 6 } };
    return core_op1(TERN_OP_avg_pool2d_grad, TERN_HERE, &attr, in[0]);
}
static value ref_avg_pool2d_grad(const value *in)
{
    value out = value_new(4, (int64_t[]){ in[0].dims[0], 3, 4, 6 });
    int64_t at[4] = { 0 }, i = 0;
    do {
        const int64_t half[4] = { at[0], at[1], at[2] / 2, at[3] / 2 };
        out.data[i++] = in[0].data[ref_place(&in[0], 4, half)] / 4;
    } while (ref_next(4, out.dims, at));
    return out;
}

#define CONV(label_, x, w, b, run_, reference)                                               \
    { OPINFO(conv2d), .label = label_, .in = { x, w, b }, .run = run_, .ref = reference,      \
      .differentiable = 7, .order = 2, .floor = 8 }

const opinfo opinfo_product[] = {
    { OPINFO(gemm), .label = "2-D", .in = { REAL(5, 7), REAL(7, 3) }, .run = run_gemm,
      .ref = ref_product, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(gemm), .label = "batched", .in = { REAL(3, 5, 4), REAL(3, 4, 6) }, .run = run_gemm,
      .ref = ref_product, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(gemm), .label = "large", .in = { REAL(70, 130), REAL(130, 65) }, .run = run_gemm,
      .ref = ref_product, .floor = 32 },
    { OPINFO(gemm), .label = "no depth", .in = { REAL(3, 0), REAL(0, 2) }, .run = run_gemm,
      .ref = ref_product },
    { OPINFO(matmul), .label = "row", .in = { REAL(4), REAL(4, 3) }, .run = run_matmul,
      .ref = ref_vectors, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(matmul), .label = "column", .in = { REAL(3, 4), REAL(4) }, .run = run_matmul,
      .ref = ref_vectors, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(matmul), .label = "dot", .in = { REAL(4), REAL(4) }, .run = run_matmul,
      .ref = ref_vectors, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(matmul), .label = "batch grows", .in = { REAL(1, 3, 4), REAL(2, 4, 5) }, .run = run_matmul,
      .ref = ref_product, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(matmul), .label = "no depth", .in = { REAL(3, 0), REAL(0) }, .run = run_matmul,
      .ref = ref_vectors, .differentiable = 3, .order = 2 },
    { OPINFO(linear), .label = "no depth", .in = { REAL(5, 0), REAL(3, 0), REAL(3) }, .run = run_linear,
      .ref = ref_linear, .differentiable = 7, .order = 2 },
    { OPINFO(linear), .label = "bias", .in = { REAL(5, 7), REAL(3, 7), REAL(3) }, .run = run_linear,
      .ref = ref_linear, .differentiable = 7, .order = 2, .floor = 4 },
    { OPINFO(linear), .label = "no bias", .in = { REAL(5, 7), REAL(3, 7) }, .run = run_linear,
      .ref = ref_linear, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(linear), .label = "large", .in = { REAL(64, 200), REAL(100, 200), REAL(100) },
      .run = run_linear, .ref = ref_linear, .floor = 32 },
    CONV("plain", REAL(2, 3, 6, 5), REAL(4, 3, 3, 2), REAL(4), run_conv2d, ref_conv_plain),
    CONV("one channel", REAL(2, 1, 8, 8), REAL(6, 1, 5, 5), REAL(6), run_conv2d, ref_conv_plain),
    CONV("stride, padding", REAL(2, 3, 6, 5), REAL(4, 3, 3, 3), REAL(4), run_conv_padded, ref_conv_padded),
    CONV("groups, dilation", REAL(2, 4, 5, 6), REAL(6, 2, 3, 3), REAL(6), run_conv_groups, ref_conv_groups),
    { OPINFO(conv2d), .label = "many channels", .in = { REAL(3, 16, 9, 9), REAL(32, 16, 3, 3), REAL(32) },
      .run = run_conv2d, .ref = ref_conv_plain, .floor = 32 },
    { OPINFO(conv2d), .label = "empty batch", .in = { REAL(0, 3, 6, 5), REAL(4, 3, 3, 2) },
      .run = run_conv2d, .ref = ref_conv_plain },
    { OPINFO(conv2d_grad_input), .label = "", .in = { REAL(2, 4, 4, 4), REAL(4, 3, 3, 2) },
      .run = run_conv2d_grad_input, .ref = ref_conv2d_grad_input, .differentiable = 3, .order = 2,
      .floor = 8 },
    { OPINFO(conv2d_grad_weight), .label = "", .in = { REAL(2, 4, 4, 4), REAL(2, 3, 6, 5) },
      .run = run_conv2d_grad_weight, .ref = ref_conv2d_grad_weight, .differentiable = 3, .order = 2,
      .floor = 8 },
    { OPINFO(max_pool2d), .label = "2x2", .in = { REAL(2, 3, 4, 6) }, .run = run_max_pool2d,
      .ref = ref_max_pool, .differentiable = 1, .order = 2 },
    { OPINFO(max_pool2d), .label = "3x2, padded", .in = { REAL(2, 3, 7, 6) }, .run = run_max_pool_wide,
      .ref = ref_max_pool_wide, .differentiable = 1, .order = 2 },
    { OPINFO(max_pool2d_grad), .label = "2x2", .in = { REAL(2, 3, 2, 3), REAL(2, 3, 4, 6) },
      .run = run_max_pool2d_grad, .ref = ref_max_pool2d_grad, .differentiable = 1, .order = 2 },
    { OPINFO(avg_pool2d), .label = "whole window", .in = { REAL(2, 3, 7, 6) }, .run = run_avg_pool2d,
      .ref = ref_avg_pool, .differentiable = 1, .order = 2 },
    { OPINFO(avg_pool2d), .label = "cells inside", .in = { REAL(2, 3, 7, 6) },
      .run = run_avg_pool_inside, .ref = ref_avg_pool_inside, .differentiable = 1, .order = 2 },
    { OPINFO(avg_pool2d_grad), .label = "2x2", .in = { REAL(2, 3, 2, 3) }, .run = run_avg_pool2d_grad,
      .ref = ref_avg_pool2d_grad, .differentiable = 1, .order = 2 },
};
const int opinfo_product_count = sizeof opinfo_product / sizeof *opinfo_product;
