/* Reductions, softmax, losses, dropout. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define INDEX(hi, ...) \
    { INPUT_INDEX, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ }, .low = 0, .high = hi }

static tern_tensor *run_sum(tern_tensor **in) { return tern_sum(in[0]); }
static value ref_sum_all(const value *in) { return ref_sum(&in[0], (1u << in[0].ndim) - 1); }
static tern_tensor *run_sum_middle(tern_tensor **in) { return tern_sum(in[0], TERN_DIMS(1)); }
static value ref_sum_middle(const value *in) { return ref_sum(&in[0], 2); }
static tern_tensor *run_sum_first(tern_tensor **in) { return tern_sum(in[0], TERN_DIMS(0)); }
static value ref_sum_first(const value *in) { return ref_sum(&in[0], 1); }
static tern_tensor *run_sum_ends(tern_tensor **in) { return tern_sum(in[0], TERN_DIMS(0, -1)); }
static value ref_sum_ends(const value *in) { return ref_sum(&in[0], 5); }
static tern_tensor *run_sum_keep(tern_tensor **in)
{
    return tern_squeeze(tern_sum(in[0], TERN_DIMS(1), .keepdim = true), 1);
}
static tern_tensor *run_mean(tern_tensor **in) { return tern_mean(in[0], TERN_DIMS(-1)); }
static value ref_mean_last(const value *in) { return ref_mean(&in[0], 1u << (in[0].ndim - 1)); }
static tern_tensor *run_mean_all(tern_tensor **in) { return tern_mean(in[0]); }
static value ref_mean_all(const value *in) { return ref_mean(&in[0], (1u << in[0].ndim) - 1); }
static tern_tensor *run_amax(tern_tensor **in) { return tern_amax(in[0], TERN_DIMS(0)); }
static value ref_amax_first(const value *in) { return ref_amax(&in[0], 1); }
static tern_tensor *run_var(tern_tensor **in) { return tern_var(in[0], TERN_DIMS(-1)); }
static value ref_var_last(const value *in) { return ref_var(&in[0], 1u << (in[0].ndim - 1), 1); }
static tern_tensor *run_var_biased(tern_tensor **in)
{
    return tern_var(in[0], TERN_DIMS(0), .no_correction = true);
}
static value ref_var_biased(const value *in) { return ref_var(&in[0], 1, 0); }
static tern_tensor *run_max(tern_tensor **in) { return tern_max(in[0], 1, NULL); }
static value ref_max(const value *in) { return ref_amax(&in[0], 2); }
static tern_tensor *run_max_places(tern_tensor **in)
{
    tern_tensor *places = NULL;
    (void)tern_max(in[0], 1, &places);
    return places;
}
static tern_tensor *run_argmax(tern_tensor **in) { return tern_argmax(in[0], 1); }
static value ref_argmax_1(const value *in) { return ref_argmax(&in[0], 1); }

static tern_tensor *run_softmax(tern_tensor **in) { return tern_softmax(in[0], -1); }
static value ref_softmax_last(const value *in) { return ref_softmax(&in[0], in[0].ndim - 1, false); }
static tern_tensor *run_softmax_first(tern_tensor **in) { return tern_softmax(in[0], 0); }
static value ref_softmax_first(const value *in) { return ref_softmax(&in[0], 0, false); }
static tern_tensor *run_log_softmax(tern_tensor **in) { return tern_log_softmax(in[0], 1); }
static value ref_log_softmax(const value *in) { return ref_softmax(&in[0], 1, true); }

/* y (g - sum(g y)) and g - exp(y) sum(g), along dim 1 of [R, C] */
static value softmax_slope(const value *in, bool logarithm)
{
    const int64_t n = in[0].dims[1];
    value out = value_new(2, in[0].dims);
    for (int64_t r = 0; r < in[0].dims[0]; r++) {
        double sum = 0;
        for (int64_t c = 0; c < n; c++)
            sum += in[0].data[r * n + c] * (logarithm ? 1 : in[1].data[r * n + c]);
        for (int64_t c = 0; c < n; c++) {
            const double g = in[0].data[r * n + c], y = in[1].data[r * n + c];
            out.data[r * n + c] = logarithm ? g - exp(y) * sum : y * (g - sum);
        }
    }
    return out;
}
static value ref_softmax_grad(const value *in) { return softmax_slope(in, false); }
static value ref_log_softmax_grad(const value *in) { return softmax_slope(in, true); }
static tern_tensor *run_softmax_grad(tern_tensor **in)
{
    tern_attr_dim attr = { .dim = 1 };
    return core_op2(TERN_OP_softmax_grad, TERN_HERE, &attr, in[0], in[1]);
}
static tern_tensor *run_log_softmax_grad(tern_tensor **in)
{
    tern_attr_dim attr = { .dim = 1 };
    return core_op2(TERN_OP_log_softmax_grad, TERN_HERE, &attr, in[0], in[1]);
}

/* ---- losses ---- */

static const value nothing = { 0 };
static tern_tensor *run_cross_entropy(tern_tensor **in) { return tern_cross_entropy(in[0], in[1]); }
static value classes_last(const value *x)
{
    value out = value_copy(x);
    out.ndim = 3;
    out.dims[2] = 1;
    return out;
}
static value ref_xent(const value *in)
{
    value x = classes_last(&in[0]), out = ref_cross_entropy(&x, &in[1], &nothing, TERN_MEAN, 0, -100);
    value_free(&x);
    return out;
}
static tern_tensor *run_cross_entropy_options(tern_tensor **in)
{
    return tern_cross_entropy(in[0], in[1], in[2], .label_smoothing = 0.1, .ignore_index = 2,
                              .ignore = true);
}
static tern_tensor *run_cross_entropy_u8(tern_tensor **in)
{
    return tern_cross_entropy(in[0], tern_cast(in[1], TERN_U8), in[2], .label_smoothing = 0.1,
                              .ignore_index = 2, .ignore = true);
}
static value ref_xent_options(const value *in)
{
    return ref_cross_entropy(&in[0], &in[1], &in[2], TERN_MEAN, 0.1, 2);
}
static tern_tensor *run_cross_entropy_each(tern_tensor **in)
{
    return tern_cross_entropy(in[0], in[1], .reduction = TERN_NONE);
}
static value ref_xent_each(const value *in)
{
    return ref_cross_entropy(&in[0], &in[1], &nothing, TERN_NONE, 0, -100);
}
static tern_tensor *run_cross_entropy_grad(tern_tensor **in)
{
    tern_attr_loss attr = { .reduction = TERN_REDUCTION_SUM, .ignore_index = -100 };
    tern_tensor *all[] = { in[0], in[1], in[2], NULL, in[3] }, *out = NULL, **want[] = { &out };
    (void)core_opn(TERN_OP_cross_entropy_grad, TERN_HERE, &attr, 5, all, 1, want);
    return out;
}
static value ref_cross_entropy_grad(const value *in)
{
    value out = value_new(3, in[1].dims);
    const int64_t inner = in[1].dims[2], classes = in[1].dims[1];
    for (int64_t i = 0; i < out.numel; i++) {
        const int64_t row = i / inner / classes * inner + i % inner, c = i / inner % classes;
        out.data[i] = in[0].data[0] * (exp(in[1].data[i] - in[3].data[row]) - (c == (int64_t)in[2].data[row]));
    }
    return out;
}
static tern_tensor *run_bce(tern_tensor **in)
{
    return tern_binary_cross_entropy(in[0], in[1]);
}
static tern_tensor *run_bce_weighted(tern_tensor **in)
{
    return tern_binary_cross_entropy(in[0], in[1], .weight = in[2], .reduction = TERN_SUM);
}
static tern_tensor *run_bce_logits(tern_tensor **in)
{
    return tern_binary_cross_entropy_with_logits(in[0], in[1], .pos_weight = in[2]);
}
static double bce(double x, double t)
{
    return -(t * fmax(log(x), -100) + (1 - t) * fmax(log1p(-x), -100));
}
static value ref_bce(const value *in)
{
    value each = ref_map2(&in[0], &in[1], bce), out = ref_mean(&each, 3);
    value_free(&each);
    return out;
}
/* weights [5] of [3, 5] */
static value ref_bce_weighted(const value *in)
{
    value out = value_new(0, NULL);
    for (int64_t i = 0; i < in[0].numel; i++)
        out.data[0] += bce(in[0].data[i], in[1].data[i]) * in[2].data[i % 5];
    return out;
}
static value ref_bce_logits(const value *in)
{
    value out = value_new(0, NULL);
    for (int64_t i = 0; i < in[0].numel; i++) {
        const double x = in[0].data[i], t = in[1].data[i];
        const double weight = in[2].data != NULL ? in[2].data[i % 5] : 1;
        out.data[0] += weight * t * log1p(exp(-x)) + (1 - t) * (x + log1p(exp(-x)));
    }
    out.data[0] /= (double)in[0].numel;
    return out;
}
static tern_tensor *run_mse_loss(tern_tensor **in) { return tern_mse_loss(in[0], in[1], TERN_MEAN); }
static double squared(double a, double b) { return (a - b) * (a - b); }
static value ref_mse(const value *in)
{
    value each = ref_map2(&in[0], &in[1], squared), out = ref_mean(&each, 3);
    value_free(&each);
    return out;
}

/* ---- dropout: kept where the documented draw is at least p ---- */

static tern_tensor *run_dropout(tern_tensor **in)
{
    tern_seed(11);
    return tern_dropout(in[0], 0.4);
}
static value ref_dropout(const value *in)
{
    value out = value_copy(&in[0]);
    for (int64_t i = 0; i < out.numel; i++) {
        uint32_t bits[4];
        tern_philox(11, 0, (uint64_t)i / 4, bits);
        out.data[i] = (double)(bits[i % 4] >> 8) * 0x1p-24 >= 0.4 ? in[0].data[i] / 0.6 : 0;
    }
    return out;
}
static tern_tensor *run_dropout_grad(tern_tensor **in)
{
    tern_attr_dropout attr = { .p = 0.4 };
    tern_tensor *mask = tern_to(in[1], .dtype = TERN_U8);
    return core_op2(TERN_OP_dropout_grad, TERN_HERE, &attr, in[0], mask);
}
static double masked(double g, double m) { return m != 0 ? g / 0.6 : 0; }
static value ref_dropout_grad(const value *in) { return ref_map2(&in[0], &in[1], masked); }

#define CASE1(name, label_, input, run_, reference, grads)                                   \
    { OPINFO(name), .label = label_, .in = { input }, .run = run_, .ref = reference,          \
      .differentiable = (grads) > 0, .order = grads }

const opinfo opinfo_reduce[] = {
    CASE1(sum, "all", REAL(3, 5, 4), run_sum, ref_sum_all, 2),
    CASE1(sum, "0-dim", { .kind = INPUT_REAL }, run_sum, ref_sum_all, 2),
    CASE1(sum, "empty", REAL(3, 0), run_sum, ref_sum_all, 0),
    CASE1(sum, "middle", REAL(3, 5, 4), run_sum_middle, ref_sum_middle, 2),
    CASE1(sum, "ends", REAL(3, 5, 4), run_sum_ends, ref_sum_ends, 2),
    CASE1(sum, "keepdim", REAL(3, 5, 4), run_sum_keep, ref_sum_middle, 2),
    CASE1(sum, "columns", REAL(200, 260), run_sum_first, ref_sum_first, 0),
    CASE1(argmax, "columns", REAL(1, 130, 256), run_argmax, ref_argmax_1, 0),
    CASE1(var, "columns", REAL(130, 257), run_var_biased, ref_var_biased, 0),
    CASE1(sum, "channels", REAL(2, 6, 9, 5), run_sum_middle, ref_sum_middle, 1),
    CASE1(sum, "no middle", REAL(3, 0, 4), run_sum_middle, ref_sum_middle, 2),
    CASE1(mean, "of nothing", REAL(3, 0), run_mean, ref_mean_last, 2),
    CASE1(amax, "no columns", REAL(4, 0), run_amax, ref_amax_first, 2),
    CASE1(var, "of nothing", REAL(3, 0), run_var, ref_var_last, 2),
    CASE1(softmax, "of nothing", REAL(4, 0), run_softmax, ref_softmax_last, 2),
    CASE1(log_softmax, "of nothing", REAL(3, 0, 4), run_log_softmax, ref_log_softmax, 2),
    { OPINFO(cross_entropy), .label = "no places", .in = { REAL(2, 5, 0), INDEX(5, 2, 0) },
      .run = run_cross_entropy_each, .ref = ref_xent_each, .differentiable = 1, .order = 2 },
    CASE1(mean, "last", REAL(3, 5), run_mean, ref_mean_last, 2),
    CASE1(mean, "all", REAL(40, 50), run_mean_all, ref_mean_all, 0),
    { OPINFO(amax), .label = "first", .in = { REAL(4, 5) }, .run = run_amax, .ref = ref_amax_first,
      .differentiable = 1, .order = 2 },
    CASE1(var, "last", REAL(3, 6), run_var, ref_var_last, 2),
    CASE1(var, "biased", REAL(5, 3), run_var_biased, ref_var_biased, 2),
    CASE1(max, "", REAL(3, 5, 2), run_max, ref_max, 2),
    CASE1(max, "places", REAL(3, 5, 2), run_max_places, ref_argmax_1, 0),
    CASE1(argmax, "", REAL(3, 5, 2), run_argmax, ref_argmax_1, 0),
    CASE1(softmax, "last", REAL(4, 7), run_softmax, ref_softmax_last, 2),
    CASE1(softmax, "long", REAL(5, 301), run_softmax, ref_softmax_last, 0),
    CASE1(softmax, "first", REAL(4, 7), run_softmax_first, ref_softmax_first, 2),
    CASE1(log_softmax, "middle", REAL(3, 5, 4), run_log_softmax, ref_log_softmax, 2),
    { OPINFO(log_softmax), .label = "far from 0", .in = { { INPUT_REAL, 2, { 4, 40 }, 2000, 2004 } },
      .run = run_log_softmax, .ref = ref_log_softmax, .differentiable = 1, .order = 2 },
    { OPINFO(softmax_grad), .label = "", .in = { REAL(3, 5), REAL(3, 5) }, .run = run_softmax_grad,
      .ref = ref_softmax_grad, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(log_softmax_grad), .label = "", .in = { REAL(3, 5), REAL(3, 5) },
      .run = run_log_softmax_grad, .ref = ref_log_softmax_grad, .differentiable = 3, .order = 2,
      .floor = 8 },
    { OPINFO(cross_entropy), .label = "", .in = { REAL(4, 5), INDEX(5, 4) }, .run = run_cross_entropy,
      .ref = ref_xent, .differentiable = 1, .order = 2 },
    { OPINFO(cross_entropy), .label = "each", .in = { REAL(2, 5, 3), INDEX(5, 2, 3) },
      .run = run_cross_entropy_each, .ref = ref_xent_each, .differentiable = 1, .order = 2 },
    { OPINFO(cross_entropy), .label = "options",
      .in = { REAL(2, 5, 3), INDEX(5, 2, 3), { INPUT_REAL, 1, { 5 }, 0.5, 2 } },
      .run = run_cross_entropy_options, .ref = ref_xent_options, .differentiable = 1, .order = 2 },
    { OPINFO(cross_entropy), .label = "u8, options",
      .in = { REAL(2, 5, 3), INDEX(5, 2, 3), { INPUT_REAL, 1, { 5 }, 0.5, 2 } },
      .run = run_cross_entropy_u8, .ref = ref_xent_options, .differentiable = 1, .order = 2 },
    { OPINFO(cross_entropy_grad), .label = "",
      .in = { { .kind = INPUT_F32 }, REAL(2, 5, 3), INDEX(5, 2, 3), { INPUT_F32, 2, { 2, 3 }, 2, 4 } },
      .run = run_cross_entropy_grad, .ref = ref_cross_entropy_grad, .floor = 4,
      .skip_dtypes = B(TERN_F16) | B(TERN_BF16), .why = "the incoming gradient has the logits' dtype" },
    { OPINFO(binary_cross_entropy), .label = "mean",
      .in = { { INPUT_REAL, 2, { 3, 5 }, 0.05, 0.95 }, { INPUT_REAL, 2, { 3, 5 }, 0, 1 } },
      .run = run_bce, .ref = ref_bce, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(binary_cross_entropy), .label = "weights, sum",
      .in = { { INPUT_REAL, 2, { 3, 5 }, 0.05, 0.95 }, { INPUT_REAL, 2, { 3, 5 }, 0, 1 },
              { INPUT_REAL, 1, { 5 }, 0.5, 2 } },
      .run = run_bce_weighted, .ref = ref_bce_weighted, .differentiable = 7, .order = 2, .floor = 32 },
    { OPINFO(binary_cross_entropy_with_logits), .label = "mean",
      .in = { REAL(3, 5), { INPUT_REAL, 2, { 3, 5 }, 0, 1 } },
      .run = run_bce_logits, .ref = ref_bce_logits, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(binary_cross_entropy_with_logits), .label = "weights of positives",
      .in = { REAL(3, 5), { INPUT_REAL, 2, { 3, 5 }, 0, 1 }, { INPUT_REAL, 1, { 5 }, 0.5, 2 } },
      .run = run_bce_logits, .ref = ref_bce_logits, .differentiable = 7, .order = 2, .floor = 4 },
    { OPINFO(mse_loss), .label = "mean", .in = { REAL(3, 5), REAL(3, 5) }, .run = run_mse_loss,
      .ref = ref_mse, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(dropout), .label = "0.4", .in = { REAL(9, 7) }, .run = run_dropout, .ref = ref_dropout,
      .differentiable = 1, .order = 2, .floor = 4 },
    { OPINFO(dropout_grad), .label = "0.4", .in = { REAL(9, 7), { .kind = INPUT_BOOL, .ndim = 2, .dims = { 9, 7 } } },
      .run = run_dropout_grad, .ref = ref_dropout_grad, .differentiable = 1, .order = 2, .floor = 4 },
};
const int opinfo_reduce_count = sizeof opinfo_reduce / sizeof *opinfo_reduce;
