/* Normalisation; and the list of all lists. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define STATISTIC(lo, hi, n) { INPUT_F32, 1, { n }, lo, hi }

static tern_tensor *run_layer_norm(tern_tensor **in)
{
    return tern_layer_norm(in[0], 1, in[1], in[2]);
}
static value ref_layer_norm_1(const value *in)
{
    return ref_layer_norm(&in[0], 1, &in[1], &in[2], 1e-5);
}
static tern_tensor *run_layer_norm_2(tern_tensor **in)
{
    return tern_layer_norm(in[0], 2, in[1], in[2]);
}
static value ref_layer_norm_2(const value *in)
{
    return ref_layer_norm(&in[0], 2, &in[1], &in[2], 1e-5);
}
static tern_tensor *run_batch_norm(tern_tensor **in)
{
    return tern_batch_norm(in[0], in[1], in[2], .training = true);
}
static value ref_batch_norm_train(const value *in)
{
    return ref_batch_norm(&in[0], &in[1], &in[2], 1e-5);
}
static tern_tensor *run_batch_norm_eval(tern_tensor **in)
{
    return tern_batch_norm(in[0], in[1], in[2], in[3], in[4]);
}
static value ref_batch_norm_eval(const value *in)
{
    value out = value_copy(&in[0]);
    for (int64_t i = 0; i < out.numel; i++) {
        const int64_t c = i / (in[0].dims[2] * in[0].dims[3]) % in[0].dims[1];
        out.data[i] = (in[0].data[i] - in[3].data[c]) / sqrt(in[4].data[c] + 1e-5) * in[1].data[c] +
                      in[2].data[c];
    }
    return out;
}

/* ---- the gradient rows: (gradient, x, weight, mean, 1 / deviation) -> x's ---- */

static tern_tensor *run_grad_row(tern_op_id id, tern_tensor **in, int32_t dims)
{
    tern_attr_norm attr = { .eps = 1e-5, .dims = dims, .training = 1 };
    tern_tensor *out = NULL, *w = NULL, *b = NULL, **want[] = { &out, &w, &b };
    (void)core_opn(id, TERN_HERE, &attr, 5, in, 3, want);
    return out;
}
static tern_tensor *run_layer_norm_grad(tern_tensor **in)
{
    return run_grad_row(TERN_OP_layer_norm_grad, in, 1);
}
static tern_tensor *run_batch_norm_grad(tern_tensor **in)
{
    return run_grad_row(TERN_OP_batch_norm_grad, in, 0);
}

/* rows of `n` elements that share a statistic: element k of row r lies at place(r, k) */
static void norm_slope(const value *in, int64_t n, int64_t row, double weight_of(const value *, int64_t),
                       int64_t (*place)(const value *, int64_t, int64_t), value *out)
{
    const double mean = in[3].data[row], r = in[4].data[row];
    double sum = 0, dot = 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = place(&in[1], row, k);
        const double g = in[0].data[i] * weight_of(&in[2], i);
        sum += g;
        dot += g * (in[1].data[i] - mean) * r;
    }
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = place(&in[1], row, k);
        const double g = in[0].data[i] * weight_of(&in[2], i);
        out->data[i] = r * (g - sum / (double)n - (in[1].data[i] - mean) * r * dot / (double)n);
    }
}
static int64_t place_in_row(const value *x, int64_t row, int64_t k) { return row * x->dims[1] + k; }
static double weight_of_column(const value *w, int64_t i) { return w->data[i % w->numel]; }
static value ref_layer_norm_grad(const value *in)
{
    value out = value_new(2, in[1].dims);
    for (int64_t row = 0; row < in[1].dims[0]; row++)
        norm_slope(in, in[1].dims[1], row, weight_of_column, place_in_row, &out);
    return out;
}
enum { INNER = 6 }; /* 2 x 3 images */
static int64_t place_in_channel(const value *x, int64_t c, int64_t k)
{
    return (k / INNER * x->dims[1] + c) * INNER + k % INNER;
}
static double weight_of_channel(const value *w, int64_t i) { return w->data[i / INNER % w->numel]; }
static value ref_batch_norm_grad(const value *in)
{
    value out = value_new(4, in[1].dims);
    for (int64_t c = 0; c < in[1].dims[1]; c++)
        norm_slope(in, in[1].dims[0] * INNER, c, weight_of_channel, place_in_channel, &out);
    return out;
}

const opinfo opinfo_norm[] = {
    { OPINFO(layer_norm), .label = "last", .in = { REAL(4, 7), REAL(7), REAL(7) }, .run = run_layer_norm,
      .ref = ref_layer_norm_1, .differentiable = 7, .order = 2, .floor = 4 },
    { OPINFO(layer_norm), .label = "plain", .in = { REAL(4, 7) }, .run = run_layer_norm,
      .ref = ref_layer_norm_1, .differentiable = 1, .order = 2, .floor = 4 },
    { OPINFO(layer_norm), .label = "no columns", .in = { REAL(4, 0), REAL(0), REAL(0) },
      .run = run_layer_norm, .ref = ref_layer_norm_1, .differentiable = 7, .order = 2 },
    { OPINFO(batch_norm), .label = "no places", .in = { REAL(3, 4, 0, 3), REAL(4), REAL(4) },
      .run = run_batch_norm, .ref = ref_batch_norm_train, .differentiable = 7, .order = 2 },
    { OPINFO(layer_norm), .label = "two", .in = { REAL(3, 2, 5), REAL(2, 5), REAL(2, 5) },
      .run = run_layer_norm_2, .ref = ref_layer_norm_2, .differentiable = 7, .order = 2, .floor = 4 },
    { OPINFO(layer_norm), .label = "long", .in = { REAL(5, 300), REAL(300), REAL(300) },
      .run = run_layer_norm, .ref = ref_layer_norm_1, .floor = 4 },
    { OPINFO(layer_norm_grad), .label = "",
      .in = { REAL(4, 7), REAL(4, 7), REAL(7), STATISTIC(-1, 1, 4), STATISTIC(0.5, 2, 4) },
      .run = run_layer_norm_grad, .ref = ref_layer_norm_grad, .floor = 16 },
    { OPINFO(batch_norm), .label = "train", .in = { REAL(3, 4, 2, 3), REAL(4), REAL(4) },
      .run = run_batch_norm, .ref = ref_batch_norm_train, .differentiable = 7, .order = 2, .floor = 4 },
    { OPINFO(batch_norm), .label = "2-D", .in = { REAL(9, 5), REAL(5), REAL(5) },
      .run = run_batch_norm, .ref = ref_batch_norm_train, .differentiable = 7, .order = 2, .floor = 4 },
    { OPINFO(batch_norm), .label = "eval",
      .in = { REAL(3, 4, 2, 3), REAL(4), REAL(4), STATISTIC(-1, 1, 4), STATISTIC(0.5, 2, 4) },
      .run = run_batch_norm_eval, .ref = ref_batch_norm_eval, .differentiable = 7, .order = 2,
      .floor = 4 },
    { OPINFO(batch_norm_grad), .label = "",
      .in = { REAL(3, 4, 2, 3), REAL(3, 4, 2, 3), REAL(4), STATISTIC(-1, 1, 4), STATISTIC(0.5, 2, 4) },
      .run = run_batch_norm_grad, .ref = ref_batch_norm_grad, .floor = 16 },
};
const int opinfo_norm_count = sizeof opinfo_norm / sizeof *opinfo_norm;

