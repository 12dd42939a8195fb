/* Sequences, transposed convolution, pooling to a size, interpolation, normalisation by groups. */
#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define STATISTIC(lo, hi, n) { INPUT_F32, 1, { n }, lo, hi }

static const int64_t zero[2] = { 0, 0 }, one[2] = { 1, 1 };

/* A value without its dimension of extent 1 at `dim`, or with one more: the same numbers. */
static value squeezed(value v, int dim)
{
    for (int d = dim; d + 1 < v.ndim; d++)
        v.dims[d] = v.dims[d + 1];
    v.ndim--;
    return v;
}
static value unsqueezed(value v, int dim)
{
    for (int d = v.ndim; d > dim; d--)
        v.dims[d] = v.dims[d - 1];
    v.dims[dim] = 1;
    v.ndim++;
    return v;
}

/* ---- sequences ---- */

static tern_tensor *run_conv1d(tern_tensor **in) { return tern_conv1d(in[0], in[1], in[2]); }
static tern_tensor *run_conv1d_options(tern_tensor **in)
{
    return tern_conv1d(in[0], in[1], in[2], .stride = 2, .padding = 1, .groups = 2);
}
static value conv1d(const value *in, const int64_t stride[2], const int64_t padding[2], int64_t groups)
{
    const value x = unsqueezed(in[0], 2), w = unsqueezed(in[1], 2);
    return squeezed(ref_conv2d(&x, &w, &in[2], stride, padding, one, groups), 2);
}
static value ref_conv1d(const value *in) { return conv1d(in, one, zero, 1); }
static value ref_conv1d_options(const value *in)
{
    return conv1d(in, (int64_t[]){ 1, 2 }, (int64_t[]){ 0, 1 }, 2);
}
static tern_tensor *run_conv_transpose1d(tern_tensor **in)
{
    return tern_conv_transpose1d(in[0], in[1], in[2], .stride = 3, .padding = 1, .output_padding = 1);
}
static value ref_conv_transpose1d(const value *in)
{
    const value x = unsqueezed(in[0], 2), w = unsqueezed(in[1], 2);
    return squeezed(ref_conv_transpose2d(&x, &w, &in[2], (int64_t[]){ 1, 3 }, (int64_t[]){ 0, 1 },
                                         (int64_t[]){ 0, 1 }, 1), 2);
}
static tern_tensor *run_conv_transpose2d(tern_tensor **in)
{
    return tern_conv_transpose2d(in[0], in[1], in[2]);
}
static value ref_conv_transpose_plain(const value *in)
{
    return ref_conv_transpose2d(&in[0], &in[1], &in[2], one, zero, zero, 1);
}
static tern_tensor *run_conv_transpose_options(tern_tensor **in)
{
    return tern_conv_transpose2d(in[0], in[1], in[2], .stride = { 2, 3 }, .padding = { 1 },
                                 .output_padding = { 1, 2 }, .groups = 2);
}
static value ref_conv_transpose_options(const value *in)
{
    return ref_conv_transpose2d(&in[0], &in[1], &in[2], (int64_t[]){ 2, 3 }, one, (int64_t[]){ 1, 2 }, 2);
}

/* ---- sizes ---- */

static const int64_t three_two[2] = { 3, 2 };
static tern_tensor *run_adaptive_avg(tern_tensor **in) { return tern_adaptive_avg_pool2d(in[0], { 3, 2 }); }
static value ref_adaptive_avg(const value *in) { return ref_adaptive_pool2d(&in[0], three_two, 1); }
static tern_tensor *run_adaptive_max(tern_tensor **in) { return tern_adaptive_max_pool2d(in[0], { 3, 2 }); }
static value ref_adaptive_max(const value *in) { return ref_adaptive_pool2d(&in[0], three_two, 0); }
static tern_tensor *run_adaptive_avg1d(tern_tensor **in) { return tern_adaptive_avg_pool1d(in[0], 3); }
static tern_tensor *run_adaptive_max1d(tern_tensor **in) { return tern_adaptive_max_pool1d(in[0], 3); }
static value adaptive1d(const value *in, int mode)
{
    const value x = unsqueezed(in[0], 2);
    return squeezed(ref_adaptive_pool2d(&x, (int64_t[]){ 1, 3 }, mode), 2);
}
static value ref_adaptive_avg1d(const value *in) { return adaptive1d(in, 1); }
static value ref_adaptive_max1d(const value *in) { return adaptive1d(in, 0); }

static const int64_t seven_five[2] = { 7, 5 };
static tern_tensor *run_bilinear(tern_tensor **in)
{
    return tern_interpolate(in[0], { 7, 5 }, .mode = TERN_BILINEAR);
}
static value ref_bilinear_7_5(const value *in) { return ref_bilinear(&in[0], seven_five, false); }
static tern_tensor *run_corners(tern_tensor **in)
{
    return tern_interpolate(in[0], { 7, 5 }, .mode = TERN_BILINEAR, .align_corners = true);
}
static value ref_corners(const value *in) { return ref_bilinear(&in[0], seven_five, true); }
static tern_tensor *run_doubled(tern_tensor **in)
{
    return tern_interpolate(in[0], .scale = { 2 }, .mode = TERN_BILINEAR);
}
static value ref_doubled(const value *in)
{
    return ref_bilinear(&in[0], (int64_t[]){ 2 * in[0].dims[2], 2 * in[0].dims[3] }, false);
}
static value ref_bytes(const value *in) { return ref_bilinear_bytes(&in[0], seven_five, false); }
static value ref_bytes_corners(const value *in) { return ref_bilinear_bytes(&in[0], seven_five, true); }
static tern_tensor *run_resample_forward(tern_tensor **in)
{
    tern_attr_resample attr = { .size = { 7, 5 }, .mode = TERN_RESAMPLE_LINEAR };
    return core_op1(TERN_OP_resample2d, TERN_HERE, &attr, in[0]);
}
static tern_tensor *run_nearest(tern_tensor **in) { return tern_interpolate(in[0], { 7, 5 }); }
static value ref_nearest_7_5(const value *in) { return ref_nearest(&in[0], seven_five, 0); }
/* Twice as many cells as there were, at places that are not those of twice. */
static tern_tensor *run_line_by_scale(tern_tensor **in) { return tern_interpolate(in[0], .scale = { 2.05 }); }
static value ref_line_by_scale(const value *in)
{
    const value *x = &in[0];
    const int64_t length = 2 * x->dims[2];
    value out = value_new(3, (int64_t[]){ x->dims[0], x->dims[1], length });
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = x->data[i / length * x->dims[2] + (int64_t)((double)(i % length) / 2.05)];
    return out;
}
static tern_tensor *run_exact(tern_tensor **in)
{
    return tern_interpolate(in[0], { 7, 5 }, .mode = TERN_NEAREST_EXACT);
}
static value ref_exact(const value *in) { return ref_nearest(&in[0], seven_five, 0.5); }
static tern_tensor *run_linear(tern_tensor **in)
{
    return tern_interpolate(in[0], { 9 }, .mode = TERN_LINEAR);
}
static value ref_linear_9(const value *in)
{
    const value x = unsqueezed(in[0], 2);
    return squeezed(ref_bilinear(&x, (int64_t[]){ 1, 9 }, false), 2);
}
static tern_tensor *run_resample(tern_tensor **in)
{
    tern_attr_resample attr = { .size = { 4, 3 }, .mode = TERN_RESAMPLE_LINEAR, .transposed = 1 };
    return core_op1(TERN_OP_resample2d, TERN_HERE, &attr, in[0]);
}
static value ref_resample(const value *in) { return ref_bilinear_grad(&in[0], (int64_t[]){ 4, 3 }); }

/* ---- groups ---- */

static tern_tensor *run_group_norm(tern_tensor **in) { return tern_group_norm(in[0], 2, in[1], in[2]); }
static value ref_group_norm_2(const value *in) { return ref_group_norm(&in[0], 2, &in[1], &in[2], 1e-5); }
static tern_tensor *run_instance_norm(tern_tensor **in) { return tern_instance_norm(in[0], in[1], in[2]); }
static value ref_instance_norm(const value *in)
{
    return ref_group_norm(&in[0], in[0].dims[1], &in[1], &in[2], 1e-5);
}
static tern_tensor *run_rms_norm(tern_tensor **in) { return tern_rms_norm(in[0], 1, in[1], 1e-3); }
static value ref_rms_norm_1(const value *in) { return ref_rms_norm(&in[0], 1, &in[1], 1e-3); }
static tern_tensor *run_rms_norm_2(tern_tensor **in) { return tern_rms_norm(in[0], 2, in[1], 1e-3); }
static value ref_rms_norm_2(const value *in) { return ref_rms_norm(&in[0], 2, &in[1], 1e-3); }
static tern_tensor *run_rms_norm_grad(tern_tensor **in)
{
    tern_attr_norm attr = { .eps = 1e-5, .dims = 1, .training = 1 };
    tern_tensor *out = NULL, *w = NULL, **want[] = { &out, &w };
    (void)core_opn(TERN_OP_rms_norm_grad, TERN_HERE, &attr, 4, in, 2, want);
    return out;
}

/* x [2, 8, ...] <-> [2, 2, ...], factor 2 */
static tern_tensor *run_pixel_shuffle(tern_tensor **in) { return tern_pixel_shuffle(in[0], 2); }
static tern_tensor *run_pixel_unshuffle(tern_tensor **in) { return tern_pixel_unshuffle(in[0], 2); }
static bool from_channel(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    (void)x;
    (void)user;
    from[0] = at[0];
    from[1] = 4 * at[1] + 2 * (at[2] % 2) + at[3] % 2;
    from[2] = at[2] / 2;
    from[3] = at[3] / 2;
    return true;
}
static bool from_pixel(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    (void)x;
    (void)user;
    from[0] = at[0];
    from[1] = at[1] / 4;
    from[2] = 2 * at[2] + at[1] % 4 / 2;
    from[3] = 2 * at[3] + at[1] % 2;
    return true;
}
static value ref_pixel_shuffle(const value *in)
{
    const int64_t *x = in[0].dims;
    return ref_taken(&in[0], 4, (int64_t[]){ x[0], x[1] / 4, 2 * x[2], 2 * x[3] }, from_channel, NULL);
}
static value ref_pixel_unshuffle(const value *in)
{
    const int64_t *x = in[0].dims;
    return ref_taken(&in[0], 4, (int64_t[]){ x[0], 4 * x[1], x[2] / 2, x[3] / 2 }, from_pixel, NULL);
}

#define CONV(op, label_, x, w, b, run_, reference)                                          \
    { OPINFO(op), .label = label_, .in = { x, w, b }, .run = run_, .ref = reference,         \
      .differentiable = 7, .order = 2, .floor = 8 }
#define ONE(op, label_, x, run_, reference)                                                 \
    { OPINFO(op), .label = label_, .in = { x }, .run = run_, .ref = reference,               \
      .differentiable = 1, .order = 2, .floor = 2 }
#define SMOOTH(op, label_, x, run_, reference)                                              \
    { OPINFO(op), .label = label_, .in = { x }, .run = run_, .ref = reference,               \
      .differentiable = 1, .order = 2, .floor = 2, .skip_dtypes = B(TERN_U8),                \
      .why = "bytes are rounded after each dimension, and have no gradient" }
#define BYTES(op, label_, x, run_, reference)                                               \
    { OPINFO(op), .label = label_, .in = { x }, .run = run_, .ref = reference,               \
      .skip_dtypes = ~B(TERN_U8), .why = "the reference rounds to bytes" }
#define NORM(op, label_, x, w, b, run_, reference)                                          \
    { OPINFO(op), .label = label_, .in = { x, w, b }, .run = run_, .ref = reference,         \
      .differentiable = 7, .order = 2, .floor = 4 }

const opinfo opinfo_image[] = {
    CONV(conv1d, "plain", REAL(2, 3, 9), REAL(4, 3, 3), REAL(4), run_conv1d, ref_conv1d),
    CONV(conv1d, "stride, padding, groups", REAL(2, 4, 7), REAL(6, 2, 3), REAL(6), run_conv1d_options,
         ref_conv1d_options),
    CONV(conv_transpose1d, "stride, padding", REAL(2, 3, 5), REAL(3, 4, 3), REAL(4), run_conv_transpose1d,
         ref_conv_transpose1d),
    CONV(conv_transpose2d, "plain", REAL(2, 3, 4, 3), REAL(3, 4, 3, 2), REAL(4), run_conv_transpose2d,
         ref_conv_transpose_plain),
    CONV(conv_transpose2d, "stride, padding, groups", REAL(2, 4, 3, 4), REAL(4, 3, 3, 3), REAL(6),
         run_conv_transpose_options, ref_conv_transpose_options),
    { OPINFO(conv_transpose2d), .label = "many channels",
      .in = { REAL(2, 32, 7, 6), REAL(32, 16, 3, 3), REAL(16) }, .run = run_conv_transpose2d,
      .ref = ref_conv_transpose_plain, .floor = 32 },
    ONE(adaptive_avg_pool2d, "uneven", REAL(2, 3, 7, 5), run_adaptive_avg, ref_adaptive_avg),
    ONE(adaptive_avg_pool2d, "even", REAL(2, 3, 6, 4), run_adaptive_avg, ref_adaptive_avg),
    ONE(adaptive_avg_pool2d, "larger", REAL(2, 3, 2, 1), run_adaptive_avg, ref_adaptive_avg),
    ONE(adaptive_avg_pool2d, "empty", REAL(0, 3, 7, 5), run_adaptive_avg, ref_adaptive_avg),
    ONE(adaptive_max_pool2d, "uneven", REAL(2, 3, 7, 5), run_adaptive_max, ref_adaptive_max),
    ONE(adaptive_max_pool2d, "even", REAL(2, 3, 6, 4), run_adaptive_max, ref_adaptive_max),
    ONE(adaptive_avg_pool1d, "uneven", REAL(2, 3, 7), run_adaptive_avg1d, ref_adaptive_avg1d),
    ONE(adaptive_max_pool1d, "uneven", REAL(2, 3, 7), run_adaptive_max1d, ref_adaptive_max1d),
    SMOOTH(interpolate, "bilinear", REAL(2, 3, 4, 3), run_bilinear, ref_bilinear_7_5),
    SMOOTH(interpolate, "smaller", REAL(2, 3, 12, 9), run_bilinear, ref_bilinear_7_5),
    SMOOTH(interpolate, "corners", REAL(2, 3, 4, 3), run_corners, ref_corners),
    ONE(interpolate, "one cell", REAL(2, 3, 1, 1), run_corners, ref_corners),
    SMOOTH(interpolate, "doubled", REAL(1, 2, 4, 3), run_doubled, ref_doubled),
    ONE(interpolate, "nearest", REAL(2, 3, 4, 3), run_nearest, ref_nearest_7_5),
    ONE(interpolate, "nearest of more", REAL(2, 3, 11, 13), run_nearest, ref_nearest_7_5),
    ONE(interpolate, "nearest of a line, by a scale", REAL(2, 3, 7), run_line_by_scale, ref_line_by_scale),
    ONE(interpolate, "exact", REAL(2, 3, 4, 3), run_exact, ref_exact),
    SMOOTH(interpolate, "linear", REAL(2, 3, 4), run_linear, ref_linear_9),
    BYTES(interpolate, "bytes", REAL(2, 3, 4, 3), run_bilinear, ref_bytes),
    BYTES(interpolate, "smaller, bytes", REAL(2, 3, 12, 9), run_bilinear, ref_bytes),
    BYTES(interpolate, "corners, bytes", REAL(2, 5, 4, 3), run_corners, ref_bytes_corners),
    BYTES(interpolate, "one cell, bytes", REAL(2, 3, 1, 1), run_bilinear, ref_bytes),
    ONE(pixel_shuffle, "", REAL(2, 8, 3, 5), run_pixel_shuffle, ref_pixel_shuffle),
    ONE(pixel_unshuffle, "", REAL(2, 2, 6, 4), run_pixel_unshuffle, ref_pixel_unshuffle),
    SMOOTH(resample2d, "transposed", REAL(2, 3, 7, 5), run_resample, ref_resample),
    BYTES(resample2d, "bytes", REAL(2, 3, 4, 3), run_resample_forward, ref_bytes),
    NORM(group_norm, "image", REAL(2, 4, 3, 2), REAL(4), REAL(4), run_group_norm, ref_group_norm_2),
    NORM(group_norm, "2-D", REAL(3, 6), REAL(6), REAL(6), run_group_norm, ref_group_norm_2),
    ONE(group_norm, "plain", REAL(2, 4, 5), run_group_norm, ref_group_norm_2),
    { OPINFO(group_norm), .label = "empty", .in = { REAL(0, 4, 5), REAL(4), REAL(4) },
      .run = run_group_norm, .ref = ref_group_norm_2 },
    NORM(instance_norm, "image", REAL(2, 3, 3, 2), REAL(3), REAL(3), run_instance_norm, ref_instance_norm),
    ONE(instance_norm, "plain", REAL(2, 3, 5), run_instance_norm, ref_instance_norm),
    { OPINFO(rms_norm), .label = "last", .in = { REAL(4, 7), REAL(7) }, .run = run_rms_norm,
      .ref = ref_rms_norm_1, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(rms_norm), .label = "plain", .in = { REAL(4, 7) }, .run = run_rms_norm,
      .ref = ref_rms_norm_1, .differentiable = 1, .order = 2, .floor = 4 },
    { OPINFO(rms_norm), .label = "no columns", .in = { REAL(4, 0), REAL(0) }, .run = run_rms_norm,
      .ref = ref_rms_norm_1, .differentiable = 3, .order = 2 },
    { OPINFO(rms_norm), .label = "two", .in = { REAL(3, 2, 5), REAL(2, 5) }, .run = run_rms_norm_2,
      .ref = ref_rms_norm_2, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(rms_norm), .label = "long", .in = { REAL(3, 5000), REAL(5000) }, .run = run_rms_norm,
      .ref = ref_rms_norm_1, .floor = 4 },
    { OPINFO(rms_norm_grad), .label = "",
      .in = { REAL(4, 7), REAL(4, 7), REAL(7), STATISTIC(0.5, 2, 4) },
      .run = run_rms_norm_grad, .ref = ref_rms_norm_grad, .floor = 16 },
};
const int opinfo_image_count = sizeof opinfo_image / sizeof *opinfo_image;
