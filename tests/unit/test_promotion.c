/* In which dtype operands meet: PyTorch's torch.promote_types and torch.result_type. */
#include "tests/support/check.h"

#include <math.h>

#include "core/promote.h"

/* Rows and columns: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64 (as torch.promote_types prints them). */
static const char *const lattice[10][10] = {
    { "bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64" },
    { "u8", "u8", "i16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64" },
    { "i8", "i16", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64" },
    { "i16", "i16", "i16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64" },
    { "i32", "i32", "i32", "i32", "i32", "i64", "f16", "bf16", "f32", "f64" },
    { "i64", "i64", "i64", "i64", "i64", "i64", "f16", "bf16", "f32", "f64" },
    { "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f32", "f32", "f64" },
    { "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "f32", "bf16", "f32", "f64" },
    { "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64" },
    { "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64" },
};

static void test_promote_follows_the_lattice(void **state)
{
    (void)state;
    for (int a = 0; a < 10; a++)
        for (int b = 0; b < 10; b++)
            assert_string_equal(
                tern_dtype_name(tern_promote((tern_dtype_t)(a + 1), (tern_dtype_t)(b + 1))),
                lattice[a][b]);
    assert_int_equal(tern_promote(TERN_DTYPE_NONE, TERN_F32), TERN_DTYPE_NONE);
    assert_int_equal(tern_promote(TERN_F32, TERN_DTYPES), TERN_DTYPE_NONE);
}

static void test_names_and_sizes_agree(void **state)
{
    (void)state;
    static const int64_t bytes[] = { 0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8 };
    for (int d = 1; d < TERN_DTYPES; d++) {
        assert_int_equal(tern_dtype_parse(tern_dtype_name((tern_dtype_t)d)), d);
        assert_int_equal(tern_dtype_size((tern_dtype_t)d), bytes[d]);
    }
    assert_int_equal(tern_dtype_parse("float"), TERN_DTYPE_NONE);
    assert_int_equal(tern_dtype_parse(NULL), TERN_DTYPE_NONE);
    assert_string_equal(tern_dtype_name((tern_dtype_t)99), "?");
    assert_int_equal(tern_dtype_size((tern_dtype_t)-1), 0);
}

static tern_tensor *vector(tern_dtype_t dtype)
{
    return tern_ones(TERN_SHAPE(2), .dtype = dtype);
}

static tern_tensor *zero_dim(tern_dtype_t dtype)
{
    return tern_ones(TERN_SCALAR_SHAPE, .dtype = dtype);
}

static void test_a_zero_dim_tensor_changes_the_kind_only(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_int_equal(tern_dtype(tern_add(vector(TERN_F16), zero_dim(TERN_F64))), TERN_F16);
    assert_int_equal(tern_dtype(tern_add(zero_dim(TERN_F64), vector(TERN_F16))), TERN_F16);
    assert_int_equal(tern_dtype(tern_add(vector(TERN_I8), zero_dim(TERN_I64))), TERN_I8);
    assert_int_equal(tern_dtype(tern_add(vector(TERN_I64), zero_dim(TERN_F16))), TERN_F16);
    assert_int_equal(tern_dtype(tern_add(vector(TERN_BOOL), zero_dim(TERN_I16))), TERN_I16);
    assert_int_equal(tern_dtype(tern_add(zero_dim(TERN_F16), zero_dim(TERN_F64))), TERN_F64);
    assert_no_error();
}

static void test_a_number_changes_the_kind_only(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_int_equal(tern_dtype(tern_mul(vector(TERN_BF16), 2.5)), TERN_BF16);
    assert_int_equal(tern_dtype(tern_mul(vector(TERN_U8), 2)), TERN_U8);
    assert_int_equal(tern_dtype(tern_mul(vector(TERN_I64), 2.5)), TERN_F32);
    assert_int_equal(tern_dtype(tern_mul(vector(TERN_BOOL), 2)), TERN_I64);
    assert_int_equal(tern_dtype(tern_mul(vector(TERN_BOOL), (bool)true)), TERN_BOOL);
    assert_int_equal(tern_dtype(tern_mul(zero_dim(TERN_I32), 2)), TERN_I32);
    assert_int_equal(tern_dtype(tern_mul(2, 2.5)), TERN_F32);
    assert_int_equal(tern_dtype(tern_mul(2, 3)), TERN_I64);
    assert_int_equal(tern_dtype(tern_where(tern_gt(vector(TERN_F32), 0), 1, 0.5)), TERN_F32);
    assert_no_error();
}

static void test_numbers_take_the_default_float(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_int_equal(tern_set_default_dtype(TERN_F64), TERN_OK);
    const tern_dtype_t product = tern_dtype(tern_mul(vector(TERN_I64), 2.5));
    const tern_dtype_t quotient = tern_dtype(tern_div(vector(TERN_I64), vector(TERN_I64)));
    const tern_dtype_t root = tern_dtype(tern_sqrt(vector(TERN_U8)));
    const tern_dtype_t kept = tern_dtype(tern_mul(vector(TERN_F32), 2.5));
    tern_set_default_dtype(TERN_F32);
    assert_int_equal(product, TERN_F64);
    assert_int_equal(quotient, TERN_F64);
    assert_int_equal(root, TERN_F64);
    assert_int_equal(kept, TERN_F32);
}

static void test_division_is_true_and_comparisons_are_bool(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *three = tern_full(3, TERN_SCALAR_SHAPE, .dtype = TERN_I32);
    tern_tensor *half = tern_div(three, 2);
    assert_int_equal(tern_dtype(half), TERN_F32);
    assert_true(tern_item(half) == 1.5);
    assert_int_equal(tern_dtype(tern_lt(three, 3.5)), TERN_BOOL);
    assert_int_equal(tern_item_int(tern_lt(three, 3.5)), 1);
    assert_int_equal(tern_item_int(tern_eq(three, 3.5)), 0);
}

static bool same(tern_tensor *a, tern_tensor *b)
{
    return tern_dtype(a) == tern_dtype(b) && tern_item(tern_all(tern_eq(a, b))) == 1;
}

/* What PyTorch 2.15's pow does with numbers, for each dtype. */
static void test_no_difference_of_bool(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2)), *truth = tern_gt(x, 0), *one = tern_any(truth);
    const bool yes = true;
#define NO_DIFFERENCE(call, name)                                                \
    do {                                                                         \
        assert_null(call);                                                       \
        assert_error(TERN_ERR_DTYPE, "sub: " name " is bool; accepted are: u8"); \
    } while (0)
    NO_DIFFERENCE(tern_sub(truth, truth), "a");
    NO_DIFFERENCE(tern_sub(truth, x), "a");
    NO_DIFFERENCE(tern_sub(x, truth), "b");
    NO_DIFFERENCE(tern_sub(x, one), "b");
    NO_DIFFERENCE(tern_sub(1, truth), "b");
    NO_DIFFERENCE(tern_sub(truth, 1.5), "a");
    NO_DIFFERENCE(tern_sub(truth, yes), "a");
    NO_DIFFERENCE(tern_sub(x, yes), "b");
    NO_DIFFERENCE(tern_sub_(x, truth), "b");
    NO_DIFFERENCE(tern_sub_(x, yes), "b");
#undef NO_DIFFERENCE
    assert_close(tern_item(tern_sum(tern_sub(x, 1))), 0, 0);
}

static void test_powers_by_numbers(void **state)
{
    (void)state;
    TERN_SCOPE;
    const double values[] = { 1, 0, 2, 3 };
    for (int d = 1; d <= 10; d++) {
        const tern_dtype_t dtype = (tern_dtype_t)d;
        const bool truth = dtype == TERN_BOOL, real = tern_dtype_is_float(dtype);
        const tern_dtype_t whole = truth ? TERN_I64 : dtype, fraction = real ? dtype : TERN_F32;
        tern_tensor *x = tern_cast(tern_from_data(values, TERN_SHAPE(4), TERN_F64), dtype);
        assert_int_equal(tern_dtype(tern_pow(x, (bool)1)), dtype);
        assert_int_equal(tern_dtype(tern_pow(x, (bool)0)), dtype);
        assert_true(same(tern_pow(x, (bool)1), x));
        assert_true(same(tern_pow(x, (bool)0), tern_ones(TERN_SHAPE(4), dtype)));
        assert_int_equal(tern_dtype(tern_pow(x, 2)), whole);
        assert_int_equal(tern_dtype(tern_pow(x, -1.0)), fraction);
        assert_int_equal(tern_dtype(tern_pow(2, x)), whole);
        assert_int_equal(tern_dtype(tern_pow(0.5, x)), fraction);
        assert_no_error();
        assert_true((tern_pow(x, -1) != NULL) == real);
        tern_error_clear();
        assert_true((tern_pow(x, 300) != NULL) == (dtype != TERN_U8 && dtype != TERN_I8));
        tern_error_clear();
        assert_true((tern_pow(x, 70000) != NULL) ==
                    (truth || tern_dtype_size(dtype) > 2 || dtype == TERN_BF16));
        tern_error_clear();
        assert_true((tern_pow_(x, 2) != NULL) == !truth);
        tern_error_clear();
        assert_true((tern_pow_(x, 0.5) != NULL) == real);
        tern_error_clear();
        assert_ptr_equal(tern_pow_(x, (bool)0), x);
        assert_true(same(x, tern_ones(TERN_SHAPE(4), dtype)));
    }
    tern_tensor *b = tern_ones(TERN_SHAPE(2), TERN_BOOL),
                *half = tern_ones(TERN_SHAPE(2), TERN_BF16);
    assert_null(tern_pow(b, b));
    assert_error(TERN_ERR_DTYPE, "pow: a is bool");
    assert_null(tern_pow((bool)1, b));
    assert_error(TERN_ERR_DTYPE, "pow: a is bool");
    assert_null(tern_pow(half, 1e39));
    assert_error(TERN_ERR_ARGUMENT, "pow: 1e+39 is beyond what bf16 can be");
    assert_null(tern_pow(tern_ones(TERN_SHAPE(2), TERN_I16), 40000));
    assert_error(TERN_ERR_ARGUMENT, "pow: 40000 is beyond what i16 can be");
    assert_non_null(tern_pow(tern_ones(TERN_SHAPE(2)), 1e39));
    assert_no_error();
}

/* Up to the greatest, though some numbers above it would be rounded to it. */
static void test_a_number_is_at_most_the_greatest_of_a_float_dtype(void **state)
{
    (void)state;
    static const struct {
        tern_dtype_t dtype;
        double greatest, above;
    } ends[] = { { TERN_F16, 65504, 65505 },
                 { TERN_BF16, 0x1.fep127, 0x1.fe8p127 },
                 { TERN_F32, 0x1.fffffep127, 0x1.fffffe8p127 } };
    TERN_SCOPE;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        tern_tensor *x = tern_ones(TERN_SHAPE(2), .dtype = ends[i].dtype);
        for (int sign = -1; sign <= 1; sign += 2) {
            assert_non_null(tern_pow(x, sign * ends[i].greatest));
            assert_non_null(tern_full(sign * ends[i].greatest, TERN_SHAPE(2), ends[i].dtype));
            assert_no_error();
            assert_null(tern_full(sign * ends[i].above, TERN_SHAPE(2), ends[i].dtype));
            assert_error(TERN_ERR_ARGUMENT, "is beyond what");
            assert_true((tern_pow(x, sign * ends[i].above) != NULL) == (ends[i].dtype == TERN_F32));
            tern_error_clear();
        }
    }
    assert_null(tern_pow(tern_ones(TERN_SHAPE(2), .dtype = TERN_F16), 65505));
    assert_error(TERN_ERR_ARGUMENT, "pow: 65505 is beyond what f16 can be");
}

static void test_in_place_needs_a_kind_that_holds_the_result(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *i = vector(TERN_I32), *b = vector(TERN_BOOL), *h = vector(TERN_F16);
    assert_null(tern_add_(i, 1.5));
    assert_error(TERN_ERR_DTYPE, "the result is f32");
    assert_null(tern_div_(i, i));
    assert_error(TERN_ERR_DTYPE, "i32 cannot take");
    assert_null(tern_add_(b, 1));
    assert_error(TERN_ERR_DTYPE, "bool");
    assert_ptr_equal(tern_add_(i, vector(TERN_I64)), i);
    assert_ptr_equal(tern_mul_(h, vector(TERN_F64)), h);
    assert_int_equal(tern_dtype(h), TERN_F16);
    assert_int_equal(tern_item_int(tern_select(i, 0, 0)), 2);
    assert_no_error();
}

static void test_elements_convert_both_ways(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++)
        for (int d = TERN_F16; d <= TERN_BF16; d++) {
            const uint16_t in = (uint16_t)bits;
            uint16_t out;
            const double value = core_load_double(&in, (tern_dtype_t)d);
            core_store_double(&out, (tern_dtype_t)d, value);
            if (!isnan(value))
                assert_int_equal(in, out);
            else
                assert_true(isnan(core_load_double(&out, (tern_dtype_t)d)));
        }
}

/* Halfway cases go to the even neighbour, large values to infinity. */
static void test_halves_round_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        double value;
        uint16_t f16;
    } cases[] = {
        { 1.0 + 1.0 / 2048, 0x3C00 },
        { 1.0 + 3.0 / 2048, 0x3C02 },
        { 65519.0, 0x7BFF },
        { 65520.0, 0x7C00 },
        { 1e9, 0x7C00 },
        { -1e9, 0xFC00 },
        { 0x1p-24, 0x0001 },
        { 0x1p-25, 0x0000 },
        { 0x1.8p-24, 0x0002 },
        { 0x1.ffcp-15, 0x0400 },
        { -0.0, 0x8000 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t out;
        core_store_double(&out, TERN_F16, cases[i].value);
        assert_int_equal(out, cases[i].f16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promote_follows_the_lattice),
        cmocka_unit_test(test_names_and_sizes_agree),
        cmocka_unit_test(test_a_zero_dim_tensor_changes_the_kind_only),
        cmocka_unit_test(test_a_number_changes_the_kind_only),
        cmocka_unit_test(test_numbers_take_the_default_float),
        cmocka_unit_test(test_division_is_true_and_comparisons_are_bool),
        cmocka_unit_test(test_no_difference_of_bool),
        cmocka_unit_test(test_powers_by_numbers),
        cmocka_unit_test(test_a_number_is_at_most_the_greatest_of_a_float_dtype),
        cmocka_unit_test(test_in_place_needs_a_kind_that_holds_the_result),
        cmocka_unit_test(test_elements_convert_both_ways),
        cmocka_unit_test(test_halves_round_to_nearest_even),
    };
    return check_run(tests, NULL, NULL);
}
