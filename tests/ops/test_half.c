/* Half tensors beside plain numbers and wider tensors: what is rounded when, to the last bit as
 * PyTorch has it. Multiplying and dividing keep the number in f32, other ops round it first; in place
 * the arithmetic is done where the operands meet, and rounded once. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

#include <stdio.h>

typedef tern_tensor *(*half_op)(tern_tensor *x, tern_tensor *w);

#define OP(name, expression)                                       \
    static tern_tensor *run_##name(tern_tensor *x, tern_tensor *w) \
    {                                                              \
        (void)w;                                                   \
        return expression;                                         \
    }
OP(mul, tern_mul(x, 0.1))
OP(mul_first, tern_mul(0.1, x))
OP(mul_in_place, tern_mul_(tern_clone(x), 0.1))
OP(div, tern_div(x, 0.1))
OP(div_in_place, tern_div_(tern_clone(x), 0.1))
OP(add, tern_add(x, 0.1))
OP(add_in_place, tern_add_(tern_clone(x), 0.1))
OP(sub, tern_sub(x, 0.1))
OP(pow, tern_pow(x, 0.1))
OP(le, tern_cast(tern_le(x, 1.7), tern_dtype(x)))
OP(mul_scalar, tern_mul(x, tern_full(0.1, TERN_SCALAR_SHAPE, .device = TERN_CPU)))
OP(mul_scalar_f64, tern_mul(x, tern_full(0.1, TERN_SCALAR_SHAPE, TERN_F64, TERN_CPU)))
OP(scalar_mul, tern_mul(tern_full(0.1, TERN_SCALAR_SHAPE, .device = TERN_CPU), x))
OP(div_scalar, tern_div(x, tern_full(0.1, TERN_SCALAR_SHAPE, .device = TERN_CPU)))
OP(add_wide, tern_add_(tern_clone(x), w))
OP(sub_wide, tern_sub_(tern_clone(x), w))
OP(mul_wide, tern_mul_(tern_clone(x), w))
OP(div_wide, tern_div_(tern_clone(x), w))

static const struct {
    const char *test;
    half_op run;
    double ulps; /* of the largest value; 0: the same bits */
} rows[] = {
    { "mul", run_mul, 0 },
    { "mul", run_mul_first, 0 },
    { "mul", run_mul_in_place, 0 },
    { "div", run_div, 0 },
    { "div", run_div_in_place, 0 },
    { "add", run_add, 0 },
    { "add", run_add_in_place, 0 },
    { "sub", run_sub, 0 },
    { "pow", run_pow, 1 }, /* a function of the C library of each side */
    { "le", run_le, 0 },
    { "mul_scalar", run_mul_scalar, 0 },
    { "mul_scalar", run_mul_scalar_f64, 0 },
    { "scalar_mul", run_scalar_mul, 0 },
    { "div_scalar", run_div_scalar, 0 },
    { "add_wide", run_add_wide, 0 },
    { "sub_wide", run_sub_wide, 0 },
    { "mul_wide", run_mul_wide, 0 },
    { "div_wide", run_div_wide, 0 },
};

static const golden_array *find(tern_dtype_t dtype, const char *test, const char *array)
{
    char name[48];
    (void)snprintf(name, sizeof name, "half_%s_%s", dtype == TERN_F16 ? "float16" : "bfloat16",
                   test);
    return golden_find(name, array);
}

static void check(tern_dtype_t dtype, const char *test, const char *array, tern_tensor *got,
                  double ulps)
{
    assert_no_error();
    assert_int_equal(tern_dtype(got), dtype);
    const golden_array *want = find(dtype, test, array);
    assert_non_null(want);
    value v = value_of(got);
    const double distance = value_distance(&v, &want->v, 1);
    value_free(&v);
    if (!(distance <= ulps * 2 * dtype_epsilon(dtype) + 1e-11)) /* 12 digits are in the file */
        fail_msg("%s %s: %s is off by %g", tern_dtype_name(dtype), test, array, distance);
}

static void run_rows(tern_dtype_t dtype, layout l)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TERN_SCOPE;
        const golden_array *x = find(dtype, rows[i].test, "x"), *w = find(dtype, rows[i].test, "w");
        tern_tensor *wide = w == NULL ? NULL : value_tensor(&w->v, TERN_F32, l);
        check(dtype, rows[i].test, "y", rows[i].run(value_tensor(&x->v, dtype, l), wide),
              rows[i].ulps);
    }
}

static void test_numbers_beside_half_tensors(void **state)
{
    (void)state;
    run_rows(TERN_F16, LAYOUT_ROW_MAJOR);
    run_rows(TERN_BF16, LAYOUT_ROW_MAJOR);
    run_rows(TERN_F16, LAYOUT_SLICED);
    run_rows(TERN_BF16, LAYOUT_SLICED);
}

static void test_the_gradient_keeps_the_number_too(void **state)
{
    (void)state;
    for (tern_dtype_t dtype = TERN_F16; dtype <= TERN_BF16; dtype++) {
        TERN_SCOPE;
        tern_tensor *x = value_tensor(&find(dtype, "mul_grad", "x")->v, dtype, LAYOUT_ROW_MAJOR);
        tern_tensor *gy = value_tensor(&find(dtype, "mul_grad", "gy")->v, dtype, LAYOUT_ROW_MAJOR);
        tern_set_requires_grad(x, true);
        tern_backward(tern_mul(x, 0.1), .gradient = gy);
        check(dtype, "mul_grad", "gx", tern_grad_of(x), 0);
    }
}

/* One value of f16 as a leaf. */
static tern_tensor *leaf_of(double number)
{
    return tern_full(number, TERN_SHAPE(1), TERN_F16, .requires_grad = true);
}

/* The gradient times the factor is beyond f16, and the factor times a beyond it, too; what comes out is not. */
static void test_gradients_of_products_with_a_factor_do_not_overflow(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf_of(0), *a = leaf_of(1), *b = leaf_of(0.001);
    tern_tensor *g = tern_full(1000, TERN_SHAPE(1), TERN_F16);
    tern_backward(tern_addcmul(x, a, b, 100), .gradient = g);
    assert_no_error();
    assert_close(tern_item(tern_grad_of(x)), 1000, 0);
    assert_close(tern_item(tern_grad_of(a)), 100.0625, 0); /* PyTorch's */
    tern_tensor *of[2], *in[2] = { leaf_of(1), leaf_of(200) };
    tern_grad(tern_addcdiv(x, in[0], in[1], 100), in, 2, of, .gradient = g);
    assert_no_error();
    assert_int_equal(tern_dtype(of[0]), TERN_F16);
    assert_close(tern_item(of[0]), 500, 0);
    assert_close(tern_item(of[1]), -2.5, 0);
    in[0] = leaf_of(1000);
    g = tern_full(0.001, TERN_SHAPE(1), TERN_F16);
    tern_grad(tern_addcdiv(x, in[0], in[1], 100), in, 2, of, .gradient = g);
    assert_no_error();
    assert_close(tern_item(of[1]), -0.0025, 2e-6);
}

/* f32 *= f64 is one product in f64; each operand's gradient comes back in its own dtype. */
static void test_wider_operands_in_place(void **state)
{
    (void)state;
    TERN_SCOPE;
    const double factor = 1 + 0x1p-30;
    tern_tensor *x = tern_full(0x1p24 - 1, TERN_SHAPE(2), .requires_grad = true);
    tern_tensor *w = tern_full(1.5 * factor, TERN_SHAPE(2), TERN_F64, .requires_grad = true);
    tern_tensor *y = tern_mul(x, 1.0);
    const uint32_t version = tern_version(y);
    assert_ptr_equal(tern_mul_(y, w), y);
    assert_no_error();
    assert_int_equal(tern_version(y), version + 1);
    assert_int_equal(tern_dtype(y), TERN_F32);
    assert_true(tern_item(tern_select(y, 0, 0)) == (double)(float)((0x1p24 - 1) * 1.5 * factor));
    tern_backward(tern_sum(y));
    assert_no_error();
    assert_int_equal(tern_dtype(tern_grad_of(x)), TERN_F32);
    assert_int_equal(tern_dtype(tern_grad_of(w)), TERN_F64);
    assert_close(tern_item(tern_sum(tern_grad_of(x))), 3, 1e-6);
    assert_close(tern_item(tern_sum(tern_grad_of(w))), 0x1p25 - 2, 0);
    assert_null(tern_add_(x, w));
    assert_error(TERN_ERR_GRAD, "leaf");
    assert_null(tern_add_(tern_ones(TERN_SHAPE(2), TERN_F16), tern_ones(TERN_SHAPE(3))));
    assert_error(TERN_ERR_SHAPE, "add");
    assert_null(tern_add_(tern_ones(TERN_SHAPE(2), TERN_F16), tern_ones(TERN_SHAPE(2, 2))));
    assert_error(TERN_ERR_SHAPE, "cannot take in place");
}

static double largest(tern_tensor *t)
{
    return tern_item(tern_amax(tern_abs(tern_cast(t, TERN_F32))));
}

/* Converted block by block: 4100 x 2100 weights take 34 MB in f32, a block of them half of that. */
static void test_large_products_need_no_whole_copy_in_f32(void **state)
{
    (void)state;
    check_cpu_only("blocks of weights are the CPU's way");
    static const tern_dtype_t dtypes[] = { TERN_BF16, TERN_F16 };
    for (int i = 0; i < 2; i++) {
        TERN_SCOPE;
        tern_seed(3);
        tern_tensor *x = tern_randn(TERN_SHAPE(5, 2100), .dtype = dtypes[i]);
        tern_tensor *w = tern_randn(TERN_SHAPE(4100, 2100), .dtype = dtypes[i]);
        tern_tensor *bias = tern_randn(TERN_SHAPE(4100), .dtype = dtypes[i]);
        tern_memory_reset_peak(TERN_CPU);
        const int64_t before = tern_memory(TERN_CPU).allocated_bytes;
        tern_tensor *y = tern_linear(x, w, bias);
        assert_true(tern_memory(TERN_CPU).peak_allocated_bytes - before < 20 << 20);
        tern_tensor *wide =
            tern_linear(tern_cast(x, TERN_F32), tern_cast(w, TERN_F32), tern_cast(bias, TERN_F32));
        const double step = dtypes[i] == TERN_BF16 ? 1 / 256.0 : 1 / 2048.0;
        assert_no_error();
        assert_close(largest(tern_sub(tern_cast(y, TERN_F32), wide)), 0, step * largest(wide));
        tern_tensor *turned = tern_matmul(x, tern_transpose(w, 0, 1));
        assert_close(largest(tern_sub(tern_add(turned, bias), y)), 0, 3 * step * largest(wide));
    }
    assert_no_error();
}

int main(void)
{
    golden_use("golden", NULL, 0, "");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_beside_half_tensors),
        cmocka_unit_test(test_the_gradient_keeps_the_number_too),
        cmocka_unit_test(test_wider_operands_in_place),
        cmocka_unit_test(test_large_products_need_no_whole_copy_in_f32),
        cmocka_unit_test(test_gradients_of_products_with_a_factor_do_not_overflow),
    };
    return check_run(tests, golden_setup, golden_teardown);
}
