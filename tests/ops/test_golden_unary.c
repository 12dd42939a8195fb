/* Elementary functions, rounding, tests, activations and clamp agree with PyTorch: tests/golden/unary.txt. */
#include <math.h>

#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

GOLDEN_OP(expm1, tern_expm1(in[0]))
GOLDEN_OP(log1p, tern_log1p(in[0]))
GOLDEN_OP(log2, tern_log2(in[0]))
GOLDEN_OP(log10, tern_log10(in[0]))
GOLDEN_OP(rsqrt, tern_rsqrt(in[0]))
GOLDEN_OP(reciprocal, tern_reciprocal(in[0]))
GOLDEN_OP(square, tern_square(in[0]))
GOLDEN_OP(sin, tern_sin(in[0]))
GOLDEN_OP(cos, tern_cos(in[0]))
GOLDEN_OP(tan, tern_tan(in[0]))
GOLDEN_OP(asin, tern_asin(in[0]))
GOLDEN_OP(acos, tern_acos(in[0]))
GOLDEN_OP(atan, tern_atan(in[0]))
GOLDEN_OP(sinh, tern_sinh(in[0]))
GOLDEN_OP(cosh, tern_cosh(in[0]))
GOLDEN_OP(erf, tern_erf(in[0]))
GOLDEN_OP(floor, tern_floor(in[0]))
GOLDEN_OP(ceil, tern_ceil(in[0]))
GOLDEN_OP(round, tern_round(in[0]))
GOLDEN_OP(trunc, tern_trunc(in[0]))
GOLDEN_OP(frac, tern_frac(in[0]))
GOLDEN_OP(isnan, tern_isnan(in[0]))
GOLDEN_OP(isinf, tern_isinf(in[0]))
GOLDEN_OP(isfinite, tern_isfinite(in[0]))
GOLDEN_OP(logical_not, tern_logical_not(in[0]))
GOLDEN_OP(bitwise_not, tern_bitwise_not(in[0]))
GOLDEN_OP(square_bool, tern_square(tern_cast(in[0], TERN_BOOL)))
GOLDEN_OP(hardswish, tern_hardswish(in[0]))
GOLDEN_OP(mish, tern_mish(in[0]))
GOLDEN_OP(logsigmoid, tern_logsigmoid(in[0]))
GOLDEN_OP(relu6, tern_relu6(in[0]))
GOLDEN_OP(leaky_relu, tern_leaky_relu(in[0]))
GOLDEN_OP(leaky_relu_rising, tern_leaky_relu(in[0], .slope = -0.5))
GOLDEN_OP(elu, tern_elu(in[0]))
GOLDEN_OP(elu_alpha, tern_elu(in[0], .alpha = 0.5))
GOLDEN_OP(softplus, tern_softplus(in[0]))
GOLDEN_OP(softplus_options, tern_softplus(in[0], .beta = 2, .threshold = 5))
GOLDEN_OP(hardtanh, tern_hardtanh(in[0]))
GOLDEN_OP(hardtanh_options, tern_hardtanh(in[0], .min = -0.0, .max = 3))
GOLDEN_OP(clamp, tern_clamp(in[0], -1, 1.5))
GOLDEN_OP(clamp_min, tern_clamp_min(in[0], 0.25))
GOLDEN_OP(clamp_max, tern_clamp_max(in[0], -0.25))
GOLDEN_OP(clamp_crossed, tern_clamp(in[0], 1, -1))
GOLDEN_OP(clamp_nan, tern_clamp(in[0], (double)NAN, 1))
GOLDEN_OP(clamp_whole, tern_clamp(in[0], -3, 4))
GOLDEN_OP(clamp_promoted, tern_clamp(in[0], -3, 2.5))
GOLDEN_OP(hardtanh_whole, tern_hardtanh(in[0], .min = -2.5, .max = 3.5))

GOLDEN_OP(clamp_tensors, tern_clamp(in[0], in[1], in[2]))
GOLDEN_OP(clamp_in_place,
          tern_clamp_min_(tern_slice(tern_clone(in[0]), .start = 1), tern_slice(in[1], .start = 1)))

/* clang-format off */
#define FUNCTION(name, error) { #name, "x", run_##name, error }, { #name "_special", "x", run_##name, error }, \
    { #name "_ends", "x", run_##name, error }
#define TEST_OF(name) { #name, "x", run_##name, 0 }
#define ACTIVATION(name, error) \
    { #name, "x", run_##name, error }, { #name "_joints", "x", run_##name, error }, \
    { #name "_special", "x", run_##name, error }, { #name "_ends", "x", run_##name, error }
#define SECOND(name) GOLDEN_SECOND_ORDER(#name, run_##name)
/* clang-format on */

static const golden_row rows[] = {
    FUNCTION(expm1, 16),
    FUNCTION(log1p, 16),
    FUNCTION(log2, 16),
    FUNCTION(log10, 16),
    FUNCTION(rsqrt, 16),
    FUNCTION(reciprocal, 16),
    FUNCTION(square, 16),
    FUNCTION(sin, 16),
    FUNCTION(cos, 16),
    FUNCTION(tan, 16),
    FUNCTION(asin, 16),
    FUNCTION(acos, 16),
    FUNCTION(atan, 16),
    FUNCTION(sinh, 16),
    FUNCTION(cosh, 16),
    FUNCTION(erf, 16),
    FUNCTION(floor, 0),
    FUNCTION(ceil, 0),
    FUNCTION(round, 0),
    FUNCTION(trunc, 0),
    FUNCTION(frac, 16),
    { "round_ties", "x", run_round, 0 },
    { "sin_far", "x", run_sin, 16 },
    { "cos_far", "x", run_cos, 16 },
    { "tan_far", "x", run_tan, 16 },
    TEST_OF(isnan),
    TEST_OF(isinf),
    TEST_OF(isfinite),
    TEST_OF(logical_not),
    TEST_OF(bitwise_not),
    TEST_OF(square_bool),
    ACTIVATION(hardswish, 16),
    ACTIVATION(mish, 16),
    ACTIVATION(logsigmoid, 16),
    ACTIVATION(relu6, 16),
    ACTIVATION(leaky_relu, 16),
    ACTIVATION(leaky_relu_rising, 16),
    ACTIVATION(elu, 16),
    ACTIVATION(elu_alpha, 16),
    ACTIVATION(softplus, 16),
    ACTIVATION(softplus_options, 16),
    ACTIVATION(hardtanh, 16),
    ACTIVATION(hardtanh_options, 16),
    ACTIVATION(clamp, 16),
    ACTIVATION(clamp_min, 16),
    ACTIVATION(clamp_max, 16),
    ACTIVATION(clamp_crossed, 16),
    ACTIVATION(clamp_nan, 16),
    { "clamp_whole", "x", run_clamp_whole, 0 },
    { "clamp_promoted", "x", run_clamp_promoted, 0 },
    { "hardtanh_whole", "x", run_hardtanh_whole, 0 },
    { "clamp_tensors", "x low high", run_clamp_tensors, 0 },
    { "clamp_in_place", "x low", run_clamp_in_place, 0 },
    SECOND(expm1),
    SECOND(log1p),
    SECOND(log2),
    SECOND(log10),
    SECOND(rsqrt),
    SECOND(reciprocal),
    SECOND(square),
    SECOND(sin),
    SECOND(cos),
    SECOND(tan),
    SECOND(asin),
    SECOND(acos),
    SECOND(atan),
    SECOND(sinh),
    SECOND(cosh),
    SECOND(erf),
    SECOND(hardswish),
    SECOND(mish),
    SECOND(elu),
    SECOND(elu_alpha),
    SECOND(softplus),
    SECOND(softplus_options),
    SECOND(logsigmoid),
};

int main(void)
{
    golden_use("unary", rows, sizeof rows / sizeof *rows, "");
    const struct CMUnitTest tests[] = { GOLDEN_TESTS };
    return check_run(tests, golden_setup, golden_teardown);
}
