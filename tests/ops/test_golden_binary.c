/* Ops with two and three operands against golden vectors: tests/golden/make_binary.py. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

#define BINARY(name) GOLDEN_OP(name, tern_##name(in[0], in[1]))
#define SHIFT(dtype, DTYPE)                                                              \
    GOLDEN_OP(left_##dtype,                                                              \
              tern_bitwise_left_shift(tern_cast(in[0], DTYPE), tern_cast(in[1], DTYPE))) \
    GOLDEN_OP(right_##dtype,                                                             \
              tern_bitwise_right_shift(tern_cast(in[0], DTYPE), tern_cast(in[1], DTYPE)))

BINARY(fmod)
BINARY(remainder)
BINARY(floor_div)
BINARY(atan2)
BINARY(hypot)
BINARY(logical_and)
BINARY(logical_or)
BINARY(logical_xor)
BINARY(bitwise_and)
BINARY(bitwise_or)
BINARY(bitwise_xor)
GOLDEN_OP(isclose, tern_isclose(in[0], in[1]))
GOLDEN_OP(isclose_nan, tern_isclose(in[0], in[1], .equal_nan = true))
GOLDEN_OP(isclose_wide, tern_isclose(in[0], in[1], .rtol = 0.1, .atol = 0.01))
GOLDEN_OP(isclose_exact, tern_isclose(in[0], in[1], .rtol = TERN_ZERO, .atol = TERN_ZERO))
GOLDEN_OP(isclose_whole, tern_isclose(in[0], in[1], .rtol = 0.01))
GOLDEN_OP(addcmul, tern_addcmul(in[0], in[1], in[2], 1))
GOLDEN_OP(addcmul_value, tern_addcmul(in[0], in[1], in[2], -2.5))
GOLDEN_OP(addcmul_whole, tern_addcmul(in[0], in[1], in[2], 2))
GOLDEN_OP(addcdiv, tern_addcdiv(in[0], in[1], in[2], 1))
GOLDEN_OP(addcdiv_value, tern_addcdiv(in[0], in[1], in[2], 0.25))
GOLDEN_OP(lerp, tern_lerp(in[0], in[1], in[2]))
GOLDEN_OP(lerp_number, tern_lerp(in[0], in[1], 0.75))
GOLDEN_OP(masked_fill, tern_masked_fill(in[0], tern_ne(in[1], 0), 2.5))
GOLDEN_OP(masked_fill_tensor, tern_masked_fill(in[0], tern_ne(in[2], 0), in[1]))
SHIFT(uint8, TERN_U8)
SHIFT(int8, TERN_I8)
SHIFT(int16, TERN_I16)
SHIFT(int32, TERN_I32)
SHIFT(int64, TERN_I64)

/* clang-format off */
#define REAL(name) { #name, "a b", run_##name, 32 }, { #name "_outer", "a b", run_##name, 32 }, \
                   { #name "_edges", "a b", run_##name, 8 }
#define EXACT(name) { #name, "a b", run_##name, 0 }
#define SHIFTS(dtype) { "shift_left_" #dtype, "a b", run_left_##dtype, 0 }, \
                      { "shift_right_" #dtype, "a b", run_right_##dtype, 0 }
/* clang-format on */

static const golden_row rows[] = {
    REAL(fmod),
    REAL(remainder),
    REAL(atan2),
    REAL(hypot),
    EXACT(floor_div),
    { "floor_div_edges", "a b", run_floor_div, 0 },
    EXACT(isclose),
    EXACT(isclose_nan),
    EXACT(isclose_wide),
    EXACT(isclose_exact),
    EXACT(isclose_whole),
    EXACT(logical_and),
    EXACT(logical_or),
    EXACT(logical_xor),
    { "whole_fmod", "a b", run_fmod, 0 },
    { "whole_remainder", "a b", run_remainder, 0 },
    { "whole_floor_div", "a b", run_floor_div, 0 },
    EXACT(bitwise_and),
    EXACT(bitwise_or),
    EXACT(bitwise_xor),
    { "addcmul", "x a b", run_addcmul, 16 },
    { "addcmul_value", "x a b", run_addcmul_value, 32 },
    { "addcdiv", "x a b", run_addcdiv, 16 },
    { "addcdiv_value", "x a b", run_addcdiv_value, 16 },
    { "lerp", "x a b", run_lerp, 16 },
    { "lerp_number", "x a", run_lerp_number, 8 },
    { "masked_fill", "x m", run_masked_fill, 8 },
    { "masked_fill_tensor", "x v m", run_masked_fill_tensor, 16 },
    { "whole_addcmul", "x a b", run_addcmul_whole, 0 },
    { "whole_masked_fill", "x m", run_masked_fill, 0 },
    SHIFTS(uint8),
    SHIFTS(int8),
    SHIFTS(int16),
    SHIFTS(int32),
    SHIFTS(int64),
};

int main(void)
{
    golden_use("binary", rows, sizeof rows / sizeof *rows, "");
    const struct CMUnitTest tests[] = { GOLDEN_TESTS };
    return check_run(tests, golden_setup, golden_teardown);
}
