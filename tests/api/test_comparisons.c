/* tern_isclose, tern_allclose and tern_equal: what PyTorch's answer for the same values. */
#include <math.h>

#include "tests/support/check.h"

#define OF(...)                                \
    tern_from_data(((float[]){ __VA_ARGS__ }), \
                   TERN_SHAPE((int64_t)(sizeof((float[]){ __VA_ARGS__ }) / 4)))

static void test_close_elements(void **state)
{
    (void)state;
    TERN_SCOPE;
    const float inf = INFINITY, nan = NAN;
    tern_tensor *x = OF(1, 1, 0, inf, inf, 1, nan, -inf);
    tern_tensor *y = OF(1.000005f, 1.0001f, 1e-9f, inf, -inf, inf, nan, -inf);
    tern_tensor *close = tern_isclose(x, y);
    assert_int_equal(tern_dtype(close), TERN_BOOL);
    check_elements(close, (const float[]){ 1, 0, 1, 1, 0, 0, 0, 1 }, 8);
    check_elements(tern_isclose(x, y, .equal_nan = true), (const float[]){ 1, 0, 1, 1, 0, 0, 1, 1 },
                   8);
    check_elements(tern_isclose(x, y, .rtol = TERN_ZERO, .atol = TERN_ZERO),
                   (const float[]){ 0, 0, 0, 1, 0, 0, 0, 1 }, 8);
    check_elements(tern_isclose(x, y, .rtol = TERN_ZERO, .atol = 0.001),
                   (const float[]){ 1, 1, 1, 1, 0, 0, 0, 1 }, 8);
    /* the tolerance is y's */
    check_elements(tern_isclose(OF(10, 11), OF(11, 10), .rtol = 0.095), (const float[]){ 1, 0 }, 2);
    check_elements(tern_isclose(OF(1, 2), tern_ones(TERN_SCALAR_SHAPE)), (const float[]){ 1, 0 },
                   2);
    assert_no_error();
}

static void test_close_integers(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_cast(OF(100, 200, 3), TERN_U8), *y = tern_cast(OF(101, 250, 3), TERN_U8);
    check_elements(tern_isclose(x, y, .rtol = 0.01), (const float[]){ 1, 0, 1 }, 3);
    check_elements(tern_isclose(y, x), (const float[]){ 0, 0, 1 }, 3);
    tern_tensor *truths = tern_cast(OF(1, 0), TERN_BOOL);
    check_elements(tern_isclose(truths, tern_logical_not(truths)), (const float[]){ 0, 0 }, 2);
    assert_true(tern_allclose(truths, truths, .equal_nan = true));
}

static void test_all_close(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(tern_randn(TERN_SHAPE(3, 4)), true);
    assert_true(tern_allclose(x, tern_mul(x, 1.000001)));
    assert_false(tern_allclose(x, tern_add(x, 0.01)));
    assert_true(tern_allclose(x, tern_add(x, 0.01), .atol = 0.02));
    assert_true(tern_allclose(tern_empty(TERN_SHAPE(0, 3)), tern_empty(TERN_SHAPE(0, 3))));
    assert_false(tern_requires_grad(tern_isclose(x, x)));
    assert_false(tern_allclose(OF(NAN), OF(NAN)));
    assert_true(tern_allclose(OF(NAN), OF(NAN), .equal_nan = true));
    assert_no_error();
}

static void test_equal_tensors(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = OF(1, 2, 3, 4);
    assert_true(tern_equal(x, tern_clone(x)));
    assert_false(tern_equal(x, OF(1, 2, 3, 5)));
    assert_false(tern_equal(x, tern_view(x, TERN_SHAPE(2, 2))));
    assert_false(tern_equal(x, tern_slice(x, 0, 2)));
    assert_true(tern_equal(tern_transpose(tern_view(x, TERN_SHAPE(2, 2)), 0, 1),
                           tern_view(OF(1, 3, 2, 4), TERN_SHAPE(2, 2))));
    assert_true(tern_equal(tern_empty(TERN_SHAPE(0)), tern_empty(TERN_SHAPE(0))));
    assert_false(tern_equal(tern_empty(TERN_SHAPE(0, 2)), tern_empty(TERN_SHAPE(0, 3))));
    tern_tensor *none = OF(NAN);
    assert_false(tern_equal(none, none));
    assert_true(tern_equal(x, tern_cast(x, TERN_I16)));
    assert_no_error();
}

static void test_refusals_name_the_function(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = OF(1, 2), *y = OF(1, 2, 3);
    check_refusal(tern_allclose(x, y), "allclose: in ");
    check_refusal(tern_allclose(x, tern_cast(x, TERN_F64)),
                  "allclose: in isclose: x is f32 and y f64");
    check_refusal(tern_isclose(x, tern_cast(x, TERN_F64)) != NULL, "\n  try tern_cast of one");
    check_refusal(tern_isclose(x, x, .rtol = -1.0) != NULL, "isclose: rtol is -1 and atol 1e-08");
    check_refusal(tern_isclose(x, x, .atol = (double)NAN) != NULL, "atol nan");
    check_refusal(tern_equal(x, NULL), "equal: in eq: ");
    (void)tern_add(x, y); /* while an error is pending nothing is equal */
    assert_false(tern_equal(x, x));
    assert_false(tern_allclose(x, x));
    assert_error(TERN_ERR_SHAPE, "add");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_elements),
        cmocka_unit_test(test_close_integers),
        cmocka_unit_test(test_all_close),
        cmocka_unit_test(test_equal_tensors),
        cmocka_unit_test(test_refusals_name_the_function),
    };
    return check_run(tests, NULL, NULL);
}
