/* Clipping of gradients. */
#include "tests/support/check.h"

#include <math.h>

static tern_tensor *with_gradient(double first, double second)
{
    tern_tensor *p = tern_zeros(TERN_SHAPE(2), TERN_F64, .requires_grad = true);
    const double values[2] = { first, second };
    tern_set_grad(p, tern_from_data(values, TERN_SHAPE(2), TERN_F64));
    return p;
}

static void expect_gradient(tern_tensor *p, double first, double second)
{
    double values[2];
    tern_read(tern_grad_of(p), TERN_F64, values, sizeof values);
    assert_no_error();
    assert_close(values[0], first, 1e-12);
    assert_close(values[1], second, 1e-12);
}

static void test_clip_grad_norm_scales_all_gradients_as_one(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *a = with_gradient(3, -4);
    tern_tensor *b = with_gradient(0, 12);
    tern_tensor *without = tern_zeros(TERN_SHAPE(2), TERN_F64, .requires_grad = true);
    const tern_tensors_t all = TERN_TENSORS(a, b, without);
    assert_close(tern_item(tern_clip_grad_norm(all, 20)), 13, 1e-12);
    expect_gradient(a, 3, -4); /* short enough */
    assert_close(tern_item(tern_clip_grad_norm(all, 6.5)), 13, 1e-12);
    const double factor = 6.5 / (13 + 1e-6);
    expect_gradient(a, 3 * factor, -4 * factor);
    expect_gradient(b, 0, 12 * factor);
    assert_null(tern_grad_of(without));
    assert_true(tern_item(tern_clip_grad_norm(TERN_TENSORS(without), 1)) == 0);
}

typedef struct clip_part {
    tern_dtype_t dtype;
    int64_t size;
    double value; /* of each element of the gradient */
} clip_part;

/* Norm of all parts as one vector, and what each element is then, beside double precision. */
static void check_clip(double exponent, double max_norm, int count, const clip_part *parts)
{
    TERN_SCOPE;
    tern_tensor *params[3];
    double sum = 0;
    for (int i = 0; i < count; i++) {
        const clip_part *c = &parts[i];
        params[i] = tern_zeros(TERN_SHAPE(c->size), c->dtype, .requires_grad = true);
        tern_tensor *grad = tern_full(c->value, TERN_SHAPE(c->size), .dtype = c->dtype);
        tern_set_grad(params[i], grad);
        const double value = tern_item(tern_select(grad, 0, 0)); /* rounded */
        sum = isinf(exponent) ? fmax(sum, value) : sum + (double)c->size * pow(value, exponent);
    }
    const double want = isinf(exponent) ? sum : pow(sum, 1 / exponent);
    const tern_tensors_t all = { .tensors = params, .count = count };
    tern_tensor *norm = tern_clip_grad_norm(all, max_norm, exponent);
    assert_no_error();
    assert_int_equal(tern_dtype(norm), TERN_F32);
    assert_close(tern_item(norm), want, 2e-6 * want);
    for (int i = 0; i < count; i++) {
        /* PyTorch's devices round the factor to the gradient's dtype, too */
        const double rounding = parts[i].dtype == TERN_BF16  ? 0x1p-7
                                : parts[i].dtype == TERN_F16 ? 0x1p-10
                                                             : 2e-6;
        const double clipped = parts[i].value * fmin(1, max_norm / (want + 1e-6));
        tern_tensor *last = tern_select(tern_grad_of(params[i]), 0, parts[i].size - 1);
        assert_close(tern_item(last), clipped, rounding * clipped);
    }
}

/* In f16 squares and cubes of these overflow, and so does the norm itself of some. */
static void test_clip_grad_norm_of_half_types(void **unused)
{
    (void)unused;
    static const double exponents[] = { 1, 2, 3, INFINITY };
    for (int i = 0; i < 4; i++) {
        const double p = exponents[i];
        check_clip(p, 16, 1, (clip_part[]){ { TERN_F16, 4, 300 } });
        check_clip(p, 4096, 1, (clip_part[]){ { TERN_F16, 5000, 300 } });
        check_clip(p, 4096, 2, (clip_part[]){ { TERN_F16, 4, 40000 }, { TERN_F16, 3, 60000 } });
        check_clip(p, 16, 1, (clip_part[]){ { TERN_BF16, 1000, 3 } });
        check_clip(
            p, 16, 3,
            (clip_part[]){ { TERN_F16, 7, 300 }, { TERN_F32, 9, 300 }, { TERN_BF16, 4, 300 } });
        check_clip(p, 1e9, 2, (clip_part[]){ { TERN_BF16, 7, 300 }, { TERN_F16, 9, 0.001 } });
    }
}

/* Sums of many elements, one after the other in f32, would be off by 5e-4. */
static void test_clip_grad_norm_of_many_elements(void **unused)
{
    (void)unused;
    check_clip(2, 1, 1, (clip_part[]){ { TERN_F32, 100000, 300 } });
    check_clip(2, 1, 2, (clip_part[]){ { TERN_F32, 100000, 0.3 }, { TERN_F32, 1, 7 } });
}

static void test_clip_grad_norm_takes_other_norms(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *a = with_gradient(3, -4);
    assert_close(tern_item(tern_clip_grad_norm(TERN_TENSORS(a), 2, .norm_type = INFINITY)), 4,
                 1e-12);
    expect_gradient(a, 3 * 2 / (4 + 1e-6), -4 * 2 / (4 + 1e-6));
    tern_tensor *b = with_gradient(3, -4);
    assert_close(tern_item(tern_clip_grad_norm(TERN_TENSORS(b), 3.5, .norm_type = 1)), 7, 1e-12);
    expect_gradient(b, 3 * 3.5 / (7 + 1e-6), -4 * 3.5 / (7 + 1e-6));
}

/* The squares of such gradients are beyond f16, and their norm is none of bf16's. */
static void test_clip_grad_norm_is_the_same_in_autocast_regions(void **unused)
{
    (void)unused;
    static const tern_dtype_t lows[] = { TERN_F16, TERN_BF16 };
    static const float g[4] = { 1000, 1001, 1002, 1003 };
    const double norm = sqrt(1e6 + 1001.0 * 1001 + 1002.0 * 1002 + 1003.0 * 1003);
    for (int k = 0; k < 2; k++) {
        TERN_SCOPE;
        float got[4];
        tern_tensor *w = tern_zeros(TERN_SHAPE(4), .requires_grad = true);
        tern_set_grad(w, tern_from_data(g, TERN_SHAPE(4)));
        TERN_AUTOCAST(tern_device(w), lows[k]);
        tern_tensor *found = tern_clip_grad_norm(TERN_TENSORS(w), 1000);
        assert_close(tern_item(found), norm, 1e-3);
        assert_int_equal(tern_dtype(found), TERN_F32);
        assert_true(tern_autocast_enabled(tern_device(w)));
        tern_read(tern_grad_of(w), TERN_F32, got, sizeof got);
        assert_no_error();
        for (int i = 0; i < 4; i++)
            assert_close(got[i], g[i] * 1000 / norm, 1e-3);
    }
}

static void test_a_norm_that_is_not_finite_can_be_an_error(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *a = with_gradient(3, INFINITY);
    assert_null(tern_clip_grad_norm(TERN_TENSORS(a), 1, .error_if_nonfinite = true));
    assert_error(TERN_ERR_ARGUMENT, "is not finite");
    double values[2];
    tern_read(tern_grad_of(a), TERN_F64, values, sizeof values);
    assert_true(values[0] == 3);
    assert_null(tern_clip_grad_norm(TERN_TENSORS(a)));
    assert_error(TERN_ERR_ARGUMENT, "max_norm = 0");
    assert_null(tern_clip_grad_norm(TERN_TENSORS(NULL), 1));
    assert_error(TERN_ERR_ARGUMENT, "parameter 0 is NULL");
}

/* As PyTorch takes it. A max_norm of 0 is one that was not given, elsewhere, too. */
static void test_a_limit_of_zero(void **unused)
{
    (void)unused;
    const double zeros[] = { TERN_ZERO, -0.0 };
    for (int i = 0; i < 2; i++) {
        TERN_SCOPE;
        tern_tensor *a = with_gradient(3, -4), *b = with_gradient(3, -4);
        assert_close(tern_item(tern_clip_grad_norm(TERN_TENSORS(a), zeros[i])), 5, 1e-12);
        expect_gradient(a, 0, 0);
        assert_int_equal(tern_clip_grad_value(TERN_TENSORS(b), zeros[i]), TERN_OK);
        expect_gradient(b, 0, 0);
    }
    TERN_SCOPE;
    tern_tensor *a = with_gradient(3, -4);
    assert_int_equal(tern_clip_grad_value(TERN_TENSORS(a), 0), TERN_OK);
    expect_gradient(a, 0, 0);
    assert_null(tern_clip_grad_norm(TERN_TENSORS(a), 1, .norm_type = TERN_ZERO));
    assert_error(TERN_ERR_ARGUMENT, "norm_type = 0: it must be positive");
    assert_null(tern_clip_grad_norm(TERN_TENSORS(a), NAN));
    assert_error(TERN_ERR_ARGUMENT, "max_norm = ");
    assert_int_equal(tern_clip_grad_value(TERN_TENSORS(a), NAN), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "value = ");
}

static void test_clip_grad_value_limits_each_element(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *a = with_gradient(3, -0.25);
    tern_tensor *b = with_gradient(-7, 0.5);
    assert_int_equal(tern_clip_grad_value(TERN_TENSORS(a, b), 0.5), TERN_OK);
    expect_gradient(a, 0.5, -0.25);
    expect_gradient(b, -0.5, 0.5);
    tern_clip_grad_value(TERN_TENSORS(a), -1);
    assert_error(TERN_ERR_ARGUMENT, "value = -1");
}

/* A gradient that is expanded is found before another one is written. */
static void test_gradients_that_cannot_be_written_are_found_first(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *a = with_gradient(3, -4), *b = with_gradient(0, 12);
    const tern_tensors_t all = TERN_TENSORS(a, b);
    tern_set_grad(b, tern_expand(tern_full(12.0, TERN_SHAPE(1), TERN_F64), TERN_SHAPE(2)));
    assert_null(tern_clip_grad_norm(all, 1));
    assert_error(TERN_ERR_ARGUMENT, "gradient of parameter 1, which is written, share one place");
    expect_gradient(a, 3, -4);
    assert_int_equal(tern_clip_grad_value(all, 0.5), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "clip_grad_value: elements of the gradient of parameter 1");
    expect_gradient(a, 3, -4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clip_grad_norm_scales_all_gradients_as_one),
        cmocka_unit_test(test_clip_grad_norm_of_half_types),
        cmocka_unit_test(test_clip_grad_norm_of_many_elements),
        cmocka_unit_test(test_clip_grad_norm_takes_other_norms),
        cmocka_unit_test(test_clip_grad_norm_is_the_same_in_autocast_regions),
        cmocka_unit_test(test_a_norm_that_is_not_finite_can_be_an_error),
        cmocka_unit_test(test_a_limit_of_zero),
        cmocka_unit_test(test_clip_grad_value_limits_each_element),
        cmocka_unit_test(test_gradients_that_cannot_be_written_are_found_first),
    };
    return check_run(tests, NULL, NULL);
}
