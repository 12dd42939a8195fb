/* Rows of one operand: elementary functions, rounding, tests, activations and their gradients. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define RANGE(lo, hi, ...) \
    { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ }, .low = lo, .high = hi }
#define SMALL REAL(3, 5)
#define POSITIVE RANGE(0.5, 3, 3, 5)

#define UNARY(name, expression)                                                              \
    static tern_tensor *run_##name(tern_tensor **in) { return tern_##name(in[0]); }          \
    static double f_##name(double x) { return expression; }                                  \
    static value ref_##name(const value *in) { return ref_map(&in[0], f_##name); }
/* The same in place, on a copy: integers, whose results do not fit, go the ordinary way. */
#define INPLACE(name)                                                                        \
    static tern_tensor *run_##name##_inplace(tern_tensor **in)                               \
    {                                                                                        \
        tern_tensor *copy = tern_clone(in[0]);                                               \
        return tern_##name##_(copy);                                                         \
    }

static double logistic(double x) { return 1 / (1 + exp(-x)); }
static double half_even(double x)
{
    const double low = floor(x), rest = x - low;
    return rest < 0.5 || (rest == 0.5 && fmod(low, 2) == 0) ? low : low + 1;
}
static double softplus(double x, double beta) { return log(1 + exp(beta * x)) / beta; }
static double mish(double x) { return x * tanh(softplus(x, 1)); }
static double between(double x, double low, double high) { return fmin(fmax(x, low), high); }

UNARY(expm1, exp(x) - 1)
UNARY(log1p, log(1 + x))
UNARY(log2, log(x) / M_LN2)
UNARY(log10, log(x) / M_LN10)
UNARY(rsqrt, pow(x, -0.5))
UNARY(reciprocal, 1 / x)
UNARY(square, x *x)
UNARY(sin, sin(x))
UNARY(cos, cos(x))
UNARY(tan, sin(x) / cos(x))
UNARY(asin, asin(x))
UNARY(acos, M_PI / 2 - asin(x))
UNARY(atan, atan(x))
UNARY(sinh, (exp(x) - exp(-x)) / 2)
UNARY(cosh, (exp(x) + exp(-x)) / 2)
UNARY(erf, erf(x))
UNARY(floor, floor(x))
UNARY(ceil, ceil(x))
UNARY(round, half_even(x))
UNARY(trunc, x < 0 ? ceil(x) : floor(x))
UNARY(frac, x - (x < 0 ? ceil(x) : floor(x)))
UNARY(isnan, x != x)
UNARY(isinf, isinf(x))
UNARY(isfinite, isfinite(x))
UNARY(logical_not, x == 0)
UNARY(relu6, between(x, 0, 6))
UNARY(hardswish, x *between(x + 3, 0, 6) / 6)
UNARY(mish, mish(x))
UNARY(logsigmoid, -softplus(-x, 1))
INPLACE(log1p)
INPLACE(sin)
INPLACE(square)
INPLACE(expm1)
INPLACE(frac)
INPLACE(relu6)
INPLACE(mish)
INPLACE(logsigmoid)

static tern_tensor *run_bitwise_not(tern_tensor **in) { return tern_bitwise_not(in[0]); }
static double minus_one_less(double x) { return -1 - x; }
static value ref_bitwise_not(const value *in) { return ref_map(&in[0], minus_one_less); }

/* ---- with options ---- */

#define OPTIONS(name, row, call, expression)                                                 \
    static tern_tensor *run_##name(tern_tensor **in) { return call; }                        \
    static double f_##name(double x) { return expression; }                                  \
    static value ref_##name(const value *in) { return ref_map(&in[0], f_##name); }
OPTIONS(leaky_relu, leaky_relu, tern_leaky_relu(in[0]), x > 0 ? x : 0.01 * x)
OPTIONS(leaky_relu_rising, leaky_relu, tern_leaky_relu(in[0], .slope = -0.5), x > 0 ? x : -0.5 * x)
OPTIONS(leaky_relu_inplace, leaky_relu, tern_leaky_relu_(tern_clone(in[0]), .slope = 0.25), x > 0 ? x : 0.25 * x)
OPTIONS(elu, elu, tern_elu(in[0]), x > 0 ? x : exp(x) - 1)
OPTIONS(elu_alpha, elu, tern_elu(in[0], .alpha = 0.5), x > 0 ? x : 0.5 * (exp(x) - 1))
OPTIONS(elu_inplace, elu, tern_elu_(tern_clone(in[0]), .alpha = 2), x > 0 ? x : 2 * (exp(x) - 1))
OPTIONS(softplus, softplus, tern_softplus(in[0]), softplus(x, 1))
OPTIONS(softplus_options, softplus, tern_softplus(in[0], .beta = 3, .threshold = 2), 3 * x > 2 ? x : softplus(x, 3))
OPTIONS(hardtanh, hardtanh, tern_hardtanh(in[0]), between(x, -1, 1))
OPTIONS(hardtanh_options, hardtanh, tern_hardtanh(in[0], .min = -0.0, .max = 3), between(x, 0, 3))
OPTIONS(clamp, clamp, tern_clamp(in[0], -1, 1), between(x, -1, 1))
OPTIONS(clamp_min, clamp, tern_clamp_min(in[0], 1), fmax(x, 1))
OPTIONS(clamp_max, clamp, tern_clamp_max_(tern_clone(in[0]), 1), fmin(x, 1))
OPTIONS(clamp_crossed, clamp, tern_clamp(in[0], 1, -1), x * 0 - 1)

/* ---- fused gradients: (gradient, saved) ---- */

#define WITH(p, q) &(tern_attr_numbers){ .f = { p, q } }
#define FUSED(name, attr, expression)                                                        \
    static tern_tensor *run_##name(tern_tensor **in)                                         \
    {                                                                                        \
        return core_op2(TERN_OP_##name, TERN_HERE, attr, in[0], in[1]);                      \
    }                                                                                        \
    static double f_##name(double g, double x) { return expression; }                        \
    static value ref_##name(const value *in) { return ref_map2(&in[0], &in[1], f_##name); }
static double mish_slope(double x)
{
    const double w = tanh(softplus(x, 1));
    return w + x * (1 - w * w) * logistic(x);
}
FUSED(leaky_relu_grad, WITH(0.25, 0), x > 0 ? g : 0.25 * g)
FUSED(elu_grad, WITH(0.5, 0), x > 0 ? g : 0.5 * exp(x) * g)
FUSED(softplus_grad, WITH(3, 4), 3 * x > 4 ? g : g *logistic(3 * x))
FUSED(hardtanh_grad, WITH(-1, 1), x > -1 && x < 1 ? g : 0)
FUSED(clamp_grad, WITH(-1, 1), x > -1 && x < 1 ? g : 0)
FUSED(hardswish_grad, NULL, x <= -3 ? 0 : x >= 3 ? g : g *(x / 3 + 0.5))
FUSED(mish_grad, NULL, g *mish_slope(x))

#define CASE(name, label_, input, grads)                                                     \
    { OPINFO(name), .label = label_, .in = { input }, .run = run_##name, .ref = ref_##name,   \
      .differentiable = (grads) > 0, .order = grads }
#define NAMED(name, label_, input, runs, grads)                                              \
    { OPINFO(name), .label = label_, .in = { input }, .run = run_##runs, .ref = ref_##runs,   \
      .differentiable = (grads) > 0, .order = grads }
#define IN_PLACE(name, input, grads)                                                         \
    { OPINFO(name), .label = "in place", .in = { input }, .run = run_##name##_inplace,        \
      .ref = ref_##name, .differentiable = (grads) > 0, .order = grads }
/* Gradients of g alone: that of x is 0. */
#define FLAT(name) \
    { OPINFO(name), .label = "", .in = { SMALL, SMALL }, .run = run_##name, .ref = ref_##name, \
      .differentiable = 1, .order = 2 }
#define CURVED(name) \
    { OPINFO(name), .label = "", .in = { SMALL, SMALL }, .run = run_##name, .ref = ref_##name, \
      .differentiable = 3, .order = 2 }

const opinfo opinfo_unary[] = {
    CASE(expm1, "", SMALL, 2),
    CASE(expm1, "long", REAL(67, 31), 0),
    CASE(log1p, "", POSITIVE, 2),
    CASE(log1p, "long", RANGE(-0.9, 30, 67, 31), 0),
    CASE(log2, "", POSITIVE, 2),
    CASE(log2, "long", RANGE(1e-3, 1e3, 67, 31), 0),
    CASE(log10, "", POSITIVE, 2),
    CASE(log10, "long", RANGE(1e-3, 1e3, 67, 31), 0),
    CASE(rsqrt, "", POSITIVE, 2),
    CASE(reciprocal, "", POSITIVE, 2),
    CASE(square, "", SMALL, 2),
    CASE(square, "4-D", REAL(2, 3, 4, 5), 1),
    CASE(sin, "", SMALL, 2),
    CASE(sin, "long", RANGE(-50, 50, 67, 31), 0),
    CASE(cos, "", SMALL, 2),
    CASE(cos, "long", RANGE(-50, 50, 67, 31), 0),
    CASE(tan, "", RANGE(-1, 1, 3, 5), 2),
    CASE(tan, "long", RANGE(-1.2, 1.2, 67, 31), 0),
    CASE(asin, "", RANGE(-0.8, 0.8, 3, 5), 2),
    CASE(asin, "long", RANGE(-0.99, 0.99, 67, 31), 0),
    CASE(acos, "", RANGE(-0.8, 0.8, 3, 5), 2),
    CASE(acos, "long", RANGE(-0.99, 0.99, 67, 31), 0),
    CASE(atan, "", SMALL, 2),
    CASE(atan, "long", RANGE(-20, 20, 67, 31), 0),
    CASE(sinh, "", SMALL, 2),
    CASE(cosh, "", SMALL, 2),
    CASE(erf, "", SMALL, 2),
    CASE(erf, "long", RANGE(-4, 4, 67, 31), 0),
    CASE(floor, "", SMALL, 0),
    CASE(ceil, "", SMALL, 0),
    CASE(round, "", SMALL, 0),
    CASE(trunc, "", SMALL, 0),
    CASE(frac, "", SMALL, 2),
    CASE(isnan, "", SMALL, 0),
    CASE(isinf, "", SMALL, 0),
    CASE(isfinite, "", SMALL, 0),
    CASE(logical_not, "", SMALL, 0),
    { OPINFO(bitwise_not), .label = "", .in = { SMALL }, .run = run_bitwise_not,
      .ref = ref_bitwise_not, .skip_dtypes = B(TERN_BOOL), .why = "not -1 - x" },
    IN_PLACE(log1p, POSITIVE, 2),
    IN_PLACE(sin, SMALL, 2),
    IN_PLACE(square, SMALL, 2),
    IN_PLACE(expm1, SMALL, 2),
    IN_PLACE(frac, SMALL, 2),
    IN_PLACE(mish, SMALL, 2),
    CASE(relu6, "", RANGE(-3, 9, 3, 5), 2),
    IN_PLACE(relu6, RANGE(-3, 9, 3, 5), 2),
    CASE(hardswish, "", RANGE(-5, 5, 3, 5), 2),
    CASE(hardswish, "long", RANGE(-5, 5, 67, 31), 0),
    CASE(mish, "", SMALL, 2),
    CASE(mish, "long", RANGE(-20, 30, 67, 31), 0),
    CASE(logsigmoid, "", SMALL, 2),
    CASE(logsigmoid, "long", RANGE(-60, 30, 67, 31), 0),
    IN_PLACE(logsigmoid, SMALL, 2),
    CASE(leaky_relu, "", SMALL, 2),
    NAMED(leaky_relu, "rising", SMALL, leaky_relu_rising, 2),
    NAMED(leaky_relu, "in place", SMALL, leaky_relu_inplace, 2),
    CASE(elu, "", SMALL, 2),
    NAMED(elu, "alpha", SMALL, elu_alpha, 2),
    NAMED(elu, "in place", SMALL, elu_inplace, 2),
    CASE(softplus, "", SMALL, 2),
    CASE(softplus, "long", RANGE(-30, 19, 67, 31), 0),
    NAMED(softplus, "options", RANGE(-2, 0.6, 3, 5), softplus_options, 2),
    CASE(hardtanh, "", SMALL, 2),
    NAMED(hardtanh, "options", RANGE(-2, 5, 3, 5), hardtanh_options, 2),
    CASE(clamp, "", SMALL, 2),
    NAMED(clamp, "min", SMALL, clamp_min, 2),
    NAMED(clamp, "max", SMALL, clamp_max, 2),
    { OPINFO(clamp), .label = "crossed", .in = { SMALL }, .run = run_clamp_crossed,
      .ref = ref_clamp_crossed, .skip_dtypes = B(TERN_U8), .why = "no u8 is as small as -1" },
    FLAT(leaky_relu_grad),
    CURVED(elu_grad),
    CURVED(softplus_grad),
    FLAT(hardtanh_grad),
    FLAT(clamp_grad),
    CURVED(hardswish_grad),
    CURVED(mish_grad),
};
const int opinfo_unary_count = sizeof opinfo_unary / sizeof *opinfo_unary;
