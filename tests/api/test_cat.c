/* cat and stack of few and many tensors, with gradients: more than an op has inputs, and the empty
 * 1-D tensors that cat passes over. */
#include "tests/support/check.h"

enum { MOST = 70 };

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

/* Tensor i is [2, i % 3] of i + 1, some without gradient. */
static int64_t make_parts(tern_tensor **parts, int count)
{
    int64_t columns = 0;
    for (int i = 0; i < count; i++) {
        parts[i] = tern_full(i + 1, TERN_SHAPE(2, i % 3), .requires_grad = i % 5 != 4);
        columns += i % 3;
    }
    return columns;
}

/* Every column of the result has a gradient of its own, which its part must get. */
static void check_gradients(tern_tensor **parts, int count)
{
    int64_t column = 0;
    for (int i = 0; i < count; i++) {
        tern_tensor *grad = tern_grad_of(parts[i]);
        if (i % 5 == 4) {
            assert_null(grad);
        } else {
            assert_non_null(grad);
            assert_int_equal(tern_size(grad, 1), i % 3);
            for (int64_t j = 0; j < i % 3; j++)
                assert_close(tern_item(tern_select(tern_select(grad, 0, 1), 0, j)),
                             (double)(column + j + 1), 0);
        }
        column += i % 3;
    }
}

static void test_cat_of_many_tensors_gives_each_its_gradient(void **state)
{
    (void)state;
    static const int counts[] = { 1, 2, 8, 9, 10, 16, 17, 64, 65, MOST };
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        TERN_SCOPE;
        tern_tensor *parts[MOST];
        const int64_t columns = make_parts(parts, counts[k]);
        tern_tensor *whole = tern_cat_at(TERN_HERE, parts, counts[k], 1);
        assert_no_error();
        assert_int_equal(tern_size(whole, 1), columns);
        double sum = 0;
        for (int i = 0; i < counts[k]; i++)
            sum += 2.0 * (i % 3) * (i + 1);
        assert_close(tern_item(tern_sum(whole)), sum, 0);
        tern_backward(tern_sum(tern_mul(whole, tern_arange(1, (double)columns + 1))));
        assert_no_error();
        check_gradients(parts, counts[k]);
    }
}

static void test_stack_of_many_tensors_gives_each_its_gradient(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *parts[MOST];
    for (int i = 0; i < MOST; i++)
        parts[i] = tern_full(i, TERN_SHAPE(3), .requires_grad = true);
    tern_tensor *whole = tern_stack_at(TERN_HERE, parts, MOST, 1);
    assert_no_error();
    assert_int_equal(tern_size(whole, 1), MOST);
    tern_backward(tern_sum(tern_mul(whole, tern_arange(0, MOST))));
    assert_no_error();
    for (int i = 0; i < MOST; i++)
        assert_close(tern_item(tern_sum(tern_grad_of(parts[i]))), 3.0 * i, 0);
}

/* As in PyTorch, what is passed over takes part with nothing: its gradient is empty, not absent. */
static void test_what_cat_passes_over_has_an_empty_gradient(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *matrix = tern_ones(TERN_SHAPE(2, 3), .requires_grad = true);
    tern_tensor *nothing = tern_empty(TERN_SHAPE(0), TERN_F64, .requires_grad = true);
    tern_tensor *narrow = tern_empty(TERN_SHAPE(2, 0), .requires_grad = true);
    tern_tensor *whole = tern_cat(1, nothing, matrix, narrow);
    assert_int_equal(tern_dtype(whole), TERN_F64);
    tern_backward(tern_sum(whole));
    assert_no_error();
    assert_int_equal(tern_ndim(tern_grad_of(nothing)), 1);
    assert_int_equal(tern_size(tern_grad_of(nothing), 0), 0);
    assert_int_equal(tern_dtype(tern_grad_of(nothing)), TERN_F64);
    assert_int_equal(tern_size(tern_grad_of(narrow), 0), 2);
    assert_int_equal(tern_size(tern_grad_of(narrow), 1), 0);
    assert_close(tern_item(tern_sum(tern_grad_of(matrix))), 6, 0);
    tern_tensor *vector = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    tern_tensor *empty = tern_empty(TERN_SHAPE(0), .requires_grad = true);
    tern_backward(tern_sum(tern_cat(0, empty, vector)));
    assert_no_error();
    assert_int_equal(tern_numel(tern_grad_of(empty)), 0);
    assert_close(tern_item(tern_sum(tern_grad_of(vector))), 2, 0);
}

/* A group of nothing but tensors that are passed over, among more than one op takes. */
static void test_many_of_them_are_passed_over(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *parts[20];
    for (int i = 0; i < 20; i++)
        parts[i] = i < 18 ? tern_empty(TERN_SHAPE(0), .requires_grad = true)
                          : tern_ones(TERN_SHAPE(2, 2), .requires_grad = true);
    tern_tensor *whole = tern_cat_at(TERN_HERE, parts, 20, 0);
    assert_no_error();
    assert_int_equal(tern_size(whole, 0), 4);
    tern_backward(tern_sum(whole));
    assert_no_error();
    for (int i = 0; i < 20; i++)
        assert_int_equal(tern_numel(tern_grad_of(parts[i])), i < 18 ? 0 : 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_cat_of_many_tensors_gives_each_its_gradient, clear),
        cmocka_unit_test_teardown(test_stack_of_many_tensors_gives_each_its_gradient, clear),
        cmocka_unit_test_teardown(test_what_cat_passes_over_has_an_empty_gradient, clear),
        cmocka_unit_test_teardown(test_many_of_them_are_passed_over, clear),
    };
    return check_run(tests, NULL, NULL);
}
