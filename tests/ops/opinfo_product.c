/* Matrix products, convolution, pooling, optimizer steps. */
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
    tern_attr_conv attr = { { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, { 2, 3, 6, 5 } };
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
    tern_attr_pool attr = { { 2, 2 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, 0, 1, { 2, 3, 4, 6 } };
    tern_tensor *y = NULL, *index = NULL, **want[] = { &y, &index }, *x = tern_detach(in[1]);
    if (!core_opn(TERN_OP_max_pool2d, TERN_HERE, &attr, 1, &x, 2, want))
        return NULL;
    return core_op2(TERN_OP_max_pool2d_grad, TERN_HERE, &attr, in[0], index);
}
static value ref_max_pool2d_grad(const value *in)
{
    value out = value_new(4, in[1].dims);
    int64_t at[4] = { 0 }, i = 0;
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
    tern_attr_pool attr = { { 2, 2 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, 0, 1, { 2, 3, 4, 6 } };
    return core_op1(TERN_OP_avg_pool2d_grad, TERN_HERE, &attr, in[0]);
}
static value ref_avg_pool2d_grad(const value *in)
{
    value out = value_new(4, (int64_t[]){ 2, 3, 4, 6 });
    int64_t at[4] = { 0 }, i = 0;
    do {
        const int64_t half[4] = { at[0], at[1], at[2] / 2, at[3] / 2 };
        out.data[i++] = in[0].data[ref_place(&in[0], 4, half)] / 4;
    } while (ref_next(4, out.dims, at));
    return out;
}

/* ---- optimizer steps, second one, so that states matter ---- */

static tern_tensor *run_sgd_step(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *buffer = tern_clone(in[2]);
    tern_attr_sgd o = { .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = 1 };
    (void)tern_sgd_step_at(TERN_HERE, p, in[1], buffer, &o);
    return tern_stack(0, p, buffer);
}
static value ref_sgd_step(const value *in)
{
    value out = value_new(2, (int64_t[]){ 2, in[0].numel });
    for (int64_t i = 0; i < in[0].numel; i++) {
        const double g = in[1].data[i] + 0.01 * in[0].data[i], b = 0.9 * in[2].data[i] + g;
        out.data[i] = in[0].data[i] - 0.1 * (g + 0.9 * b);
        out.data[in[0].numel + i] = b;
    }
    return out;
}
static tern_tensor *run_unscale(tern_tensor **in)
{
    tern_tensor *g = tern_clone(in[0]);
    tern_tensor *inverse = tern_cast(in[1], TERN_F32), *found = tern_cast(in[2], TERN_F32);
    return tern_unscale(g, inverse, found) == TERN_OK ? g : NULL;
}
static value ref_unscale(const value *in)
{
    value out = value_new(in[0].ndim, in[0].dims);
    for (int64_t i = 0; i < in[0].numel; i++)
        out.data[i] = in[0].data[i] * (double)(float)in[1].data[0];
    return out;
}
/* one step before the scale grows, and one where it backs off */
static tern_tensor *run_scale_update(tern_tensor **in)
{
    tern_tensor *scale = tern_clone(in[0]), *shrunk = tern_clone(in[0]);
    const tern_dev_t dev = tern_device(scale);
    tern_tensor *tracker = tern_full(2, TERN_SCALAR_SHAPE, .dtype = TERN_I32, .device = dev);
    const tern_attr_scale o = { .growth = 2, .backoff = 0.5, .interval = 3 };
    (void)tern_scale_update(scale, tracker, tern_zeros(TERN_SCALAR_SHAPE, .device = dev), &o);
    (void)tern_scale_update(shrunk, tracker, tern_ones(TERN_SCALAR_SHAPE, .device = dev), &o);
    return tern_stack(0, scale, shrunk);
}
static value ref_scale_update(const value *in)
{
    value out = value_new(1, (int64_t[]){ 2 });
    out.data[0] = 2 * in[0].data[0];
    out.data[1] = in[0].data[0] / 2;
    return out;
}
static tern_tensor *run_adam_step(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *m = tern_clone(in[2]), *v = tern_clone(in[3]);
    tern_attr_adam o = { .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01,
                         .step = 3, .decoupled = 1 };
    (void)tern_adam_step_at(TERN_HERE, p, in[1], m, v, &o);
    return tern_stack(0, p, m, v);
}
/* Scale 4; one step that is left out, then the third one (two are done), by the count on the device. */
static tern_step_scaling scaling_for(const tern_tensor *p, double found, double done)
{
    const tern_dev_t dev = tern_device(p);
    return (tern_step_scaling){
        tern_full(4, TERN_SCALAR_SHAPE, .dtype = TERN_F32, .device = dev),
        tern_full(found, TERN_SCALAR_SHAPE, .dtype = TERN_F32, .device = dev),
        tern_full(done, TERN_SHAPE(2), .dtype = TERN_I64, .device = dev),
    };
}
static tern_tensor *run_sgd_step_scaled(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *buffer = tern_clone(in[2]), *g = tern_clone(in[1]);
    tern_attr_sgd o = { .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = 1, .first = 1 };
    const tern_step_scaling out = scaling_for(p, 1, 1), step = scaling_for(p, 0, 1);
    (void)tern_sgd_step_scaled_at(TERN_HERE, p, g, buffer, &out, &o);
    o.turn = 1;
    (void)tern_sgd_step_scaled_at(TERN_HERE, p, g, buffer, &step, &o);
    return tern_stack(0, p, buffer, g);
}
static value ref_sgd_step_scaled(const value *in)
{
    value out = value_new(2, (int64_t[]){ 3, in[0].numel });
    for (int64_t i = 0; i < in[0].numel; i++) {
        const double g = in[1].data[i] / 4 + 0.01 * in[0].data[i], b = 0.9 * in[2].data[i] + g;
        out.data[i] = in[0].data[i] - 0.1 * (g + 0.9 * b);
        out.data[in[0].numel + i] = b;
        out.data[2 * in[0].numel + i] = in[1].data[i] / 4;
    }
    return out;
}
static tern_tensor *run_adam_step_scaled(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *m = tern_clone(in[2]), *v = tern_clone(in[3]);
    tern_tensor *g = tern_mul(in[1], 4.0);
    tern_attr_adam o = { .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01,
                         .step = 100, .decoupled = 1 };
    tern_step_scaling s = scaling_for(p, 1, 2);
    (void)tern_adam_step_scaled_at(TERN_HERE, p, g, m, v, &s, &o);
    s.found = NULL;
    o.turn = 1;
    (void)tern_adam_step_scaled_at(TERN_HERE, p, g, m, v, &s, &o);
    return tern_stack(0, p, m, v);
}
static value ref_adam_step(const value *in)
{
    const int64_t n = in[0].numel;
    value out = value_new(2, (int64_t[]){ 3, n });
    for (int64_t i = 0; i < n; i++) {
        const double g = in[1].data[i], m = 0.9 * in[2].data[i] + 0.1 * g;
        const double v = 0.999 * in[3].data[i] + 0.001 * g * g;
        const double step = m / (1 - pow(0.9, 3)) / (sqrt(v / (1 - pow(0.999, 3))) + 1e-8);
        out.data[i] = in[0].data[i] * (1 - 0.1 * 0.01) - 0.1 * step;
        out.data[n + i] = m;
        out.data[2 * n + i] = v;
    }
    return out;
}

#define HALF_STATE .skip_dtypes = B(TERN_F16) | B(TERN_BF16), .why = "states round at every step"
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
      .ref = ref_max_pool, .differentiable = 1, .order = 1, .skip_dtypes = B(TERN_U8),
      .why = "max_pool2d's gradient is not differentiable twice" },
    { OPINFO(max_pool2d), .label = "3x2, padded", .in = { REAL(2, 3, 7, 6) }, .run = run_max_pool_wide,
      .ref = ref_max_pool_wide, .differentiable = 1, .order = 1, .skip_dtypes = B(TERN_U8),
      .why = "max_pool2d's gradient is not differentiable twice" },
    { OPINFO(max_pool2d_grad), .label = "2x2", .in = { REAL(2, 3, 2, 3), REAL(2, 3, 4, 6) },
      .run = run_max_pool2d_grad, .ref = ref_max_pool2d_grad },
    { OPINFO(avg_pool2d), .label = "whole window", .in = { REAL(2, 3, 7, 6) }, .run = run_avg_pool2d,
      .ref = ref_avg_pool, .differentiable = 1, .order = 2 },
    { OPINFO(avg_pool2d), .label = "cells inside", .in = { REAL(2, 3, 7, 6) },
      .run = run_avg_pool_inside, .ref = ref_avg_pool_inside, .differentiable = 1, .order = 2 },
    { OPINFO(avg_pool2d_grad), .label = "2x2", .in = { REAL(2, 3, 2, 3) }, .run = run_avg_pool2d_grad,
      .ref = ref_avg_pool2d_grad, .differentiable = 1, .order = 2 },
    { OPINFO(sgd_step), .label = "nesterov", .in = { REAL(37), REAL(37), REAL(37) },
      .run = run_sgd_step, .ref = ref_sgd_step, HALF_STATE },
    { OPINFO(adam_step), .label = "decoupled",
      .in = { REAL(37), REAL(37), REAL(37), { INPUT_REAL, 1, { 37 }, 0.1, 2 } },
      .run = run_adam_step, .ref = ref_adam_step, HALF_STATE },
    { OPINFO(sgd_step_scaled), .label = "left out, then second", .in = { REAL(37), REAL(37), REAL(37) },
      .run = run_sgd_step_scaled, .ref = ref_sgd_step_scaled, HALF_STATE },
    { OPINFO(adam_step_scaled), .label = "left out, then third",
      .in = { REAL(37), REAL(37), REAL(37), { INPUT_REAL, 1, { 37 }, 0.1, 2 } },
      .run = run_adam_step_scaled, .ref = ref_adam_step, HALF_STATE },
    { OPINFO(unscale), .label = "2-D", .in = { REAL(5, 7), { INPUT_F32, 0, { 0 }, 0.1, 2 },
      { INPUT_F32, 0, { 0 }, 0, 0.5 } }, .run = run_unscale, .ref = ref_unscale },
    { OPINFO(scale_update), .label = "grows and backs off", .in = { { INPUT_REAL, 0, { 0 }, 1, 2 } },
      .run = run_scale_update, .ref = ref_scale_update },
};
const int opinfo_product_count = sizeof opinfo_product / sizeof *opinfo_product;
