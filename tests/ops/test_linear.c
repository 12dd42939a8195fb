/* linear: shapes it folds, what it says about shapes it does not take, gradients. */
#include "tests/support/check.h"

static void test_linear_keeps_leading_dimensions(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 3, 4, 5)), *w = tern_randn(TERN_SHAPE(6, 5));
    tern_tensor *b = tern_randn(TERN_SHAPE(6));
    tern_tensor *y = tern_linear(x, w, b);
    tern_tensor *rows = tern_linear(tern_reshape(x, TERN_SHAPE(24, 5)), w, b);
    assert_no_error();
    assert_int_equal(tern_ndim(y), 4);
    assert_int_equal(tern_size(y, 3), 6);
    assert_close(tern_item(tern_sum(tern_abs(tern_sub(tern_reshape(y, TERN_SHAPE(24, 6)), rows)))),
                 0, 0);
}

static void test_linear_takes_one_row_without_a_batch(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *y = tern_linear(tern_ones(TERN_SHAPE(5)), tern_ones(TERN_SHAPE(3, 5)), NULL);
    assert_no_error();
    assert_int_equal(tern_ndim(y), 1);
    assert_close(tern_item(tern_select(y, 0, 2)), 5, 0);
}

static void test_linear_of_no_rows_is_empty(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *y = tern_linear(tern_ones(TERN_SHAPE(0, 5)), tern_ones(TERN_SHAPE(3, 5)), NULL);
    assert_no_error();
    assert_int_equal(tern_numel(y), 0);
    assert_int_equal(tern_size(y, 1), 3);
}

static void test_linear_names_what_does_not_fit(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 5)), *w = tern_ones(TERN_SHAPE(3, 4));
    assert_null(tern_linear(x, w, NULL));
    assert_error(TERN_ERR_SHAPE, "x has 5 features");
    w = tern_ones(TERN_SHAPE(3, 5));
    assert_null(tern_linear(x, w, tern_ones(TERN_SHAPE(2))));
    assert_error(TERN_ERR_SHAPE, "the bias has to be [3]");
    assert_null(tern_linear(x, tern_ones(TERN_SHAPE(5)), NULL));
    assert_error(TERN_ERR_SHAPE, "[out, in]");
    assert_null(tern_linear(x, tern_cast(w, TERN_F64), NULL));
    assert_error(TERN_ERR_DTYPE, "x and weight have different dtypes: f32 and f64\n");
    assert_null(tern_linear(tern_full(1.0, TERN_SCALAR_SHAPE), w, NULL));
    assert_error(TERN_ERR_SHAPE, "at least one dimension");
    assert_null(tern_linear(NULL, w, NULL));
    assert_error(TERN_ERR_ARGUMENT, "x is NULL");
}

static tern_tensor *three_dimensions(tern_tensor *const *in, void *user)
{
    (void)user;
    return tern_linear(in[0], in[1], in[2]);
}

static void test_linear_gradients_of_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *in[3] = {
        tern_randn(TERN_SHAPE(2, 3, 4), .dtype = TERN_F64, .requires_grad = true),
        tern_randn(TERN_SHAPE(5, 4), .dtype = TERN_F64, .requires_grad = true),
        tern_randn(TERN_SHAPE(5), .dtype = TERN_F64, .requires_grad = true),
    };
    tern_gradcheck(three_dimensions, in, 3, .order = 2);
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_keeps_leading_dimensions),
        cmocka_unit_test(test_linear_takes_one_row_without_a_batch),
        cmocka_unit_test(test_linear_of_no_rows_is_empty),
        cmocka_unit_test(test_linear_names_what_does_not_fit),
        cmocka_unit_test(test_linear_gradients_of_gradients),
    };
    return check_run(tests, NULL, NULL);
}
