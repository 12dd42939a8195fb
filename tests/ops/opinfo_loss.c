/* Losses by element and of classes. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define RANGE(lo, hi, ...) \
    { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ }, .low = lo, .high = hi }
#define INDEX(high_, ...) \
    { INPUT_INDEX, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ }, .low = 0, .high = high_ }

/* A loss of pairs: the call, what each pair gives, the reduction. */
#define PAIRS(name, call, reduction, expression)                                             \
    static tern_tensor *run_##name(tern_tensor **in) { return call; }                        \
    static double f_##name(double x, double t) { return expression; }                        \
    static value ref_##name(const value *in)                                                 \
    {                                                                                        \
        return ref_reduced_loss(ref_map2(&in[0], &in[1], f_##name), reduction);              \
    }

static double huber(double d, double delta)
{
    return fabs(d) < delta ? 0.5 * d * d : delta * (fabs(d) - 0.5 * delta);
}
/* the rows behind both: width 1.5, slope 0.75 from there on */
static tern_attr_numbers widths(void) { return (tern_attr_numbers){ .f = { 1.5, 0.75 } }; }
static tern_tensor *run_huber_row(tern_tensor **in)
{
    tern_attr_numbers attr = widths();
    return core_op2(TERN_OP_huber, TERN_HERE, &attr, in[0], in[1]);
}
static double half_huber(double x, double t) { return 0.5 * huber(x - t, 1.5); }
static value ref_huber_row(const value *in) { return ref_map2(&in[0], &in[1], half_huber); }
static tern_tensor *run_huber_grad(tern_tensor **in)
{
    tern_attr_numbers attr = widths();
    return core_op3(TERN_OP_huber_grad, TERN_HERE, &attr, in[0], in[1], in[2]);
}
static double half_cut(double x, double t) { return 0.5 * fmax(-1.5, fmin(1.5, x - t)); }
static double times(double a, double b) { return a * b; }
static value ref_huber_grad(const value *in)
{
    value slope = ref_map2(&in[1], &in[2], half_cut), out = ref_map2(&in[0], &slope, times);
    value_free(&slope);
    return out;
}

static double divergence(double x, double t) { return t > 0 ? t * (log(t) - x) : 0; }

PAIRS(l1, tern_l1_loss(in[0], in[1], TERN_MEAN), TERN_MEAN, fabs(x - t))
PAIRS(l1_each, tern_l1_loss(in[0], in[1], TERN_NONE), TERN_NONE, fabs(x - t))
PAIRS(smooth_l1, tern_smooth_l1_loss(in[0], in[1]), TERN_MEAN, huber(x - t, 1))
PAIRS(smooth_l1_beta, tern_smooth_l1_loss(in[0], in[1], TERN_SUM, .beta = 0.25), TERN_SUM,
      huber(x - t, 0.25) / 0.25)
PAIRS(huber, tern_huber_loss(in[0], in[1]), TERN_MEAN, huber(x - t, 1))
PAIRS(huber_delta, tern_huber_loss(in[0], in[1], TERN_NONE, .delta = 1.5), TERN_NONE,
      huber(x - t, 1.5))
PAIRS(kl_div, tern_kl_div(in[0], in[1]), TERN_MEAN, divergence(x, t))
PAIRS(kl_div_each, tern_kl_div(in[0], in[1], TERN_NONE), TERN_NONE, divergence(x, t))
PAIRS(kl_div_log, tern_kl_div(in[0], in[1], TERN_BATCH_MEAN, .log_target = true), TERN_BATCH_MEAN,
      exp(t) * (t - x))

static tern_tensor *run_nll(tern_tensor **in) { return tern_nll_loss(in[0], in[1]); }
static value ref_nll(const value *in)
{
    return ref_nll_loss(&in[0], &in[1], &in[2], TERN_MEAN, -100);
}
static tern_tensor *run_nll_each(tern_tensor **in)
{
    return tern_nll_loss(in[0], in[1], in[2], TERN_NONE);
}
static value ref_nll_each(const value *in)
{
    return ref_nll_loss(&in[0], &in[1], &in[2], TERN_NONE, -100);
}
static tern_tensor *run_nll_options(tern_tensor **in)
{
    return tern_nll_loss(in[0], in[1], in[2], .ignore = true, .ignore_index = 2);
}
static value ref_nll_options(const value *in)
{
    return ref_nll_loss(&in[0], &in[1], &in[2], TERN_MEAN, 2);
}
static tern_tensor *run_nll_u8(tern_tensor **in)
{
    return tern_nll_loss(in[0], tern_cast(in[1], TERN_U8), in[2], .ignore = true, .ignore_index = 2);
}
static tern_tensor *run_cosine(tern_tensor **in)
{
    return tern_cosine_similarity(in[0], in[1], 1, 0);
}
static value ref_cosine(const value *in) { return ref_cosine_similarity(&in[0], &in[1]); }

#define CASE(op, label_, a, b, run_, reference)                                              \
    { OPINFO(op), .label = label_, .in = { a, b }, .run = run_, .ref = reference,             \
      .differentiable = 3, .order = 2, .floor = 4 }

const opinfo opinfo_loss[] = {
    CASE(l1_loss, "mean", REAL(3, 5), REAL(3, 5), run_l1, ref_l1),
    CASE(l1_loss, "row", REAL(3, 5), REAL(5), run_l1_each, ref_l1_each),
    CASE(l1_loss, "empty", REAL(3, 0), REAL(3, 0), run_l1_each, ref_l1_each),
    CASE(smooth_l1_loss, "mean", REAL(3, 5), REAL(3, 5), run_smooth_l1, ref_smooth_l1),
    CASE(smooth_l1_loss, "beta, sum", REAL(3, 5), REAL(3, 1), run_smooth_l1_beta, ref_smooth_l1_beta),
    CASE(huber_loss, "mean", REAL(3, 5), REAL(3, 5), run_huber, ref_huber),
    CASE(huber_loss, "delta, each", REAL(3, 5), REAL(3, 5), run_huber_delta, ref_huber_delta),
    CASE(huber, "row", REAL(3, 5), REAL(3, 5), run_huber_row, ref_huber_row),
    CASE(huber, "long", REAL(67, 31), REAL(31), run_huber_row, ref_huber_row),
    { OPINFO(huber_grad), .label = "", .in = { REAL(3, 5), REAL(3, 5), REAL(3, 5) },
      .run = run_huber_grad, .ref = ref_huber_grad, .differentiable = 7, .order = 2, .floor = 4 },
    CASE(kl_div, "mean", RANGE(-4, 0, 3, 5), RANGE(0.1, 1, 3, 5), run_kl_div, ref_kl_div),
    CASE(kl_div, "long, each", RANGE(-4, 0, 67, 31), RANGE(0.1, 1, 31), run_kl_div_each, ref_kl_div_each),
    CASE(kl_div, "logarithms, batch", RANGE(-4, 0, 3, 5), RANGE(-4, 0, 3, 5), run_kl_div_log,
         ref_kl_div_log),
    { OPINFO(nll_loss), .label = "mean", .in = { REAL(4, 5), INDEX(5, 4) }, .run = run_nll,
      .ref = ref_nll, .differentiable = 1, .order = 2 },
    { OPINFO(nll_loss), .label = "places, weights, each",
      .in = { REAL(2, 5, 3), INDEX(5, 2, 3), RANGE(0.5, 2, 5) },
      .run = run_nll_each, .ref = ref_nll_each, .differentiable = 1, .order = 2, .floor = 4 },
    { OPINFO(nll_loss), .label = "weights, one class ignored",
      .in = { REAL(2, 5, 3), INDEX(5, 2, 3), RANGE(0.5, 2, 5) },
      .run = run_nll_options, .ref = ref_nll_options, .differentiable = 1, .order = 2, .floor = 4 },
    { OPINFO(nll_loss), .label = "u8, weights, one class ignored",
      .in = { REAL(2, 5, 3), INDEX(5, 2, 3), RANGE(0.5, 2, 5) },
      .run = run_nll_u8, .ref = ref_nll_options, .differentiable = 1, .order = 2, .floor = 4 },
    CASE(cosine_similarity, "rows", REAL(3, 5), REAL(3, 5), run_cosine, ref_cosine),
    CASE(cosine_similarity, "with one", REAL(3, 5), REAL(5), run_cosine, ref_cosine),
};
const int opinfo_loss_count = sizeof opinfo_loss / sizeof *opinfo_loss;
