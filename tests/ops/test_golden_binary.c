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
    EXACT(logical_and),
    EXACT(logical_or),
    EXACT(logical_xor),
    { "whole_fmod", "a b", run_fmod, 0 },
    { "whole_remainder", "a b", run_remainder, 0 },
    { "whole_floor_div", "a b", run_floor_div, 0 },
    EXACT(bitwise_and),
    EXACT(bitwise_or),
    EXACT(bitwise_xor),
    SHIFTS(uint8),
    SHIFTS(int8),
    SHIFTS(int16),
    SHIFTS(int32),
    SHIFTS(int64),
};
enum { ROWS = sizeof rows / sizeof *rows };

static void test_binary_ops_agree_with_golden_vectors(void **state)
{
    (void)state;
    golden_check_rows(rows, ROWS);
}

static void test_every_case_has_a_test(void **state)
{
    (void)state;
    static const char *const elsewhere[] = { NULL };
    golden_check_complete(rows, ROWS, elsewhere);
}

static int open_golden(void **state)
{
    (void)state;
    return golden_open_or_say("binary");
}

static int close_golden(void **state)
{
    (void)state;
    golden_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binary_ops_agree_with_golden_vectors),
        cmocka_unit_test(test_every_case_has_a_test),
    };
    return check_run(tests, open_golden, close_golden);
}
