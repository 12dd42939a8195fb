/* Rows with two and three operands beside arithmetic and comparisons. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define RANGE(lo, hi, ...) \
    { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ }, .low = lo, .high = hi }
#define NUMBER { INPUT_REAL, .ndim = 0 }

#define BINARY(name, expression)                                                             \
    static tern_tensor *run_##name(tern_tensor **in) { return tern_##name(in[0], in[1]); }   \
    static double f_##name(double x, double y) { return expression; }                        \
    static value ref_##name(const value *in) { return ref_map2(&in[0], &in[1], f_##name); }

/* ---- division with a whole quotient ---- */

static double floored(double x, double y)
{
    const double rest = fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
static double whole_quotient(double x, double y) { return rint((x - floored(x, y)) / y); }

BINARY(fmod, fmod(x, y))
BINARY(remainder, floored(x, y))
BINARY(floor_div, whole_quotient(x, y))
static tern_tensor *run_remainder_inplace(tern_tensor **in)
{
    return tern_remainder_(tern_clone(in[0]), tern_detach(in[1]));
}

/* ---- angles and lengths ---- */

BINARY(atan2, atan2(x, y))
BINARY(hypot, sqrt(x * x + y * y))

/* ---- truth and bits ---- */

BINARY(logical_and, x != 0 && y != 0)
BINARY(logical_or, x != 0 || y != 0)
BINARY(logical_xor, (x != 0) != (y != 0))
BINARY(bitwise_and, (double)((int64_t)x & (int64_t)y))
BINARY(bitwise_or, (double)((int64_t)x | (int64_t)y))
BINARY(bitwise_xor, (double)((int64_t)x ^ (int64_t)y))
BINARY(bitwise_left_shift, x * exp2(y))
BINARY(bitwise_right_shift, floor(x / exp2(y)))

/* ---- within a tolerance ---- */

static tern_tensor *run_isclose(tern_tensor **in)
{
    return tern_isclose(in[0], in[1], .rtol = 0.25, .atol = TERN_ZERO);
}
/* Exact in every dtype of inputs from 16 to 32. */
static double f_isclose(double x, double y) { return fabs(x - y) <= 0.25 * fabs(y); }
static value ref_isclose(const value *in) { return ref_map2(&in[0], &in[1], f_isclose); }

/* ---- three operands ---- */

static double plus(double a, double b) { return a + b; }
/* x + scale f(a, b), broadcast */
static value sum_of(const value *x, const value *a, const value *b, double (*f)(double, double))
{
    value part = ref_map2(a, b, f), out = ref_map2(x, &part, plus);
    value_free(&part);
    return out;
}
static double thrice(double a, double b) { return 3 * a * b; }
static double half_of_ratio(double a, double b) { return 0.5 * a / b; }
static double minus(double a, double b) { return a - b; }
static double times(double a, double b) { return a * b; }

static tern_tensor *run_addcmul(tern_tensor **in) { return tern_addcmul(in[0], in[1], in[2], 3); }
static value ref_addcmul(const value *in) { return sum_of(&in[0], &in[1], &in[2], thrice); }
static tern_tensor *run_addcmul_inplace(tern_tensor **in)
{
    return tern_addcmul_(tern_clone(in[0]), in[1], in[2], 3);
}
static tern_tensor *run_addcdiv(tern_tensor **in) { return tern_addcdiv(in[0], in[1], in[2], 0.5); }
static value ref_addcdiv(const value *in) { return sum_of(&in[0], &in[1], &in[2], half_of_ratio); }

static tern_tensor *run_lerp(tern_tensor **in) { return tern_lerp(in[0], in[1], in[2]); }
static tern_tensor *run_lerp_inplace(tern_tensor **in)
{
    return tern_lerp_(tern_clone(in[0]), in[1], in[2]);
}
static value ref_lerp(const value *in)
{
    value way = ref_map2(&in[1], &in[0], minus), out = sum_of(&in[0], &way, &in[2], times);
    value_free(&way);
    return out;
}
static tern_tensor *run_lerp_number(tern_tensor **in) { return tern_lerp(in[0], in[1], 0.25); }
static double quarter(double x, double end) { return x + 0.25 * (end - x); }
static value ref_lerp_number(const value *in) { return ref_map2(&in[0], &in[1], quarter); }

static tern_tensor *run_masked_fill(tern_tensor **in) { return tern_masked_fill(in[0], in[1], 1); }
static tern_tensor *run_masked_fill_inplace(tern_tensor **in)
{
    return tern_masked_fill_(tern_clone(in[0]), in[1], 1);
}
static double one_where(double x, double mask) { return mask != 0 ? 1 : x; }
static value ref_masked_fill(const value *in) { return ref_map2(&in[0], &in[1], one_where); }

#define CASE2(name, label_, a, b, grads)                                                     \
    { OPINFO(name), .label = label_, .in = { a, b }, .run = run_##name, .ref = ref_##name,    \
      .differentiable = (grads) > 0 ? 3 : 0, .order = grads }
#define CASE3(name, label_, a, b, c, run_, reference, grads)                                 \
    { OPINFO(name), .label = label_, .in = { a, b, c }, .run = run_, .ref = reference,        \
      .differentiable = (grads) > 0 ? 7 : 0, .order = grads, .floor = 4 }
#define BOOL(...) { INPUT_BOOL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define SMALL REAL(3, 5)
/* integers: never 0 */
#define DIVISORS RANGE(1, 3, 3, 5)

const opinfo opinfo_binary[] = {
    CASE2(fmod, "", RANGE(-7, 9, 3, 5), DIVISORS, 1),
    CASE2(fmod, "row", RANGE(-7, 9, 3, 5), RANGE(1, 3, 5), 0),
    CASE2(fmod, "long", RANGE(-70, 90, 67, 31), RANGE(1, 3, 67, 31), 0),
    CASE2(remainder, "", RANGE(-7, 9, 3, 5), DIVISORS, 1),
    CASE2(remainder, "0-dim", RANGE(-70, 90, 67, 31), RANGE(1, 3, 1), 0),
    { OPINFO(remainder), .label = "in place", .in = { RANGE(-7, 9, 3, 5), DIVISORS },
      .run = run_remainder_inplace, .ref = ref_remainder, .differentiable = 1, .order = 1 },
    CASE2(floor_div, "", RANGE(-7, 9, 3, 5), DIVISORS, 0),
    CASE2(floor_div, "column", RANGE(-70, 90, 67, 31), RANGE(1, 3, 67, 1), 0),
    CASE2(atan2, "", SMALL, SMALL, 2),
    CASE2(atan2, "row", SMALL, REAL(5), 2),
    CASE2(atan2, "long", REAL(67, 31), REAL(67, 31), 0),
    CASE2(hypot, "", RANGE(0.2, 2, 3, 5), SMALL, 2),
    CASE2(hypot, "0-dim", RANGE(0.2, 2, 3, 5), NUMBER, 2),
    CASE2(hypot, "long", REAL(67, 31), REAL(67, 31), 0),
    CASE2(isclose, "", RANGE(16, 32, 3, 5), RANGE(16, 32, 3, 5), 0),
    CASE2(isclose, "row", RANGE(16, 32, 3, 5), RANGE(16, 32, 5), 0),
    CASE2(isclose, "empty", REAL(3, 0), REAL(3, 0), 0),
    CASE2(isclose, "long", RANGE(16, 32, 67, 31), RANGE(16, 32, 67, 31), 0),
    CASE2(logical_and, "", SMALL, SMALL, 0),
    CASE2(logical_or, "row", SMALL, REAL(5), 0),
    CASE2(logical_xor, "column", SMALL, REAL(3, 1), 0),
    CASE2(bitwise_and, "", SMALL, SMALL, 0),
    CASE2(bitwise_or, "row", SMALL, REAL(5), 0),
    CASE2(bitwise_xor, "", SMALL, SMALL, 0),
    CASE2(bitwise_left_shift, "", SMALL, RANGE(0, 1, 3, 5), 0),
    CASE2(bitwise_right_shift, "row", SMALL, RANGE(0, 1, 5), 0),
    CASE3(addcmul, "", SMALL, SMALL, SMALL, run_addcmul, ref_addcmul, 2),
    CASE3(addcmul, "all grow", REAL(3, 1), REAL(4, 1, 5), REAL(5), run_addcmul, ref_addcmul, 2),
    CASE3(addcmul, "long", REAL(67, 31), REAL(67, 1), NUMBER, run_addcmul, ref_addcmul, 0),
    CASE3(addcmul, "empty", REAL(3, 0), REAL(3, 0), NUMBER, run_addcmul, ref_addcmul, 0),
    CASE3(addcmul, "in place", SMALL, SMALL, REAL(5), run_addcmul_inplace, ref_addcmul, 1),
    CASE3(addcdiv, "", SMALL, SMALL, RANGE(0.5, 2, 3, 5), run_addcdiv, ref_addcdiv, 2),
    CASE3(addcdiv, "column", REAL(67, 31), REAL(31), RANGE(0.5, 2, 67, 1), run_addcdiv, ref_addcdiv, 0),
    CASE3(lerp, "", SMALL, SMALL, RANGE(-1, 2, 3, 5), run_lerp, ref_lerp, 2),
    CASE3(lerp, "row", SMALL, REAL(3, 1), RANGE(0, 1, 5), run_lerp, ref_lerp, 2),
    CASE3(lerp, "long", REAL(67, 31), REAL(67, 31), REAL(67, 31), run_lerp, ref_lerp, 0),
    CASE3(lerp, "in place", SMALL, SMALL, RANGE(0, 1, 3, 5), run_lerp_inplace, ref_lerp, 1),
    { OPINFO(lerp), .label = "number", .in = { SMALL, SMALL }, .run = run_lerp_number,
      .ref = ref_lerp_number, .differentiable = 3, .order = 2 },
    { OPINFO(masked_fill), .label = "", .in = { SMALL, BOOL(3, 5) }, .run = run_masked_fill,
      .ref = ref_masked_fill, .differentiable = 1, .order = 2 },
    { OPINFO(masked_fill), .label = "both grow", .in = { REAL(5), BOOL(3, 1) },
      .run = run_masked_fill, .ref = ref_masked_fill, .differentiable = 1, .order = 2 },
    { OPINFO(masked_fill), .label = "in place", .in = { SMALL, BOOL(5) },
      .run = run_masked_fill_inplace, .ref = ref_masked_fill, .differentiable = 1, .order = 1 },
};
const int opinfo_binary_count = sizeof opinfo_binary / sizeof *opinfo_binary;
