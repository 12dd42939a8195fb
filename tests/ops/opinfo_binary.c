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

#define CASE2(name, label_, a, b, grads)                                                     \
    { OPINFO(name), .label = label_, .in = { a, b }, .run = run_##name, .ref = ref_##name,    \
      .differentiable = (grads) > 0 ? 3 : 0, .order = grads }
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
    CASE2(logical_and, "", SMALL, SMALL, 0),
    CASE2(logical_or, "row", SMALL, REAL(5), 0),
    CASE2(logical_xor, "column", SMALL, REAL(3, 1), 0),
    CASE2(bitwise_and, "", SMALL, SMALL, 0),
    CASE2(bitwise_or, "row", SMALL, REAL(5), 0),
    CASE2(bitwise_xor, "", SMALL, SMALL, 0),
    CASE2(bitwise_left_shift, "", SMALL, RANGE(0, 1, 3, 5), 0),
    CASE2(bitwise_right_shift, "row", SMALL, RANGE(0, 1, 5), 0),
};
const int opinfo_binary_count = sizeof opinfo_binary / sizeof *opinfo_binary;
