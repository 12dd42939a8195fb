/* Owned mode, as bindings have it: what the library makes on its way is not handed to a caller who does not know of
 * it. */
#include "tests/support/check.h"

static int clear(void **state)
{
    (void)state;
    tern_set_owned_mode(false);
    tern_error_clear();
    return 0;
}

static int64_t live_after_a_pass(tern_dataset *data)
{
    tern_loader *loader = tern_loader_open(data, .batch = 8);
    tern_batch b;
    int batches = 0;
    while (tern_loader_next(loader, &b))
        batches++;
    assert_int_equal(batches, 8);
    tern_loader_close(loader);
    return tern_live_tensors();
}

static void test_datasets_and_batches_leave_nothing(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    tern_set_owned_mode(true);
    tern_tensor *x = tern_ones(TERN_SHAPE(4, 64)), *y = tern_zeros(TERN_SHAPE(64));
    tern_tensor *turned = tern_transpose(x, 0, 1);
    tern_dataset *data = tern_dataset_from_tensors(turned, y);
    assert_no_error();
    tern_release(x);
    tern_release(y);
    tern_release(turned);
    const int64_t with = tern_live_tensors();
    assert_int_equal(live_after_a_pass(data), with);
    tern_dataset_free(data);
    assert_int_equal(tern_live_tensors(), before);
    tern_dataset *digits = tern_digits(20, 1);
    tern_dataset_free(digits);
    assert_int_equal(tern_live_tensors(), before);
}

static void test_a_root_that_is_a_leaf_leaves_its_gradient_alone(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    tern_set_owned_mode(true);
    tern_tensor *v = tern_ones(TERN_SCALAR_SHAPE, .requires_grad = true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tern_backward(v, .create_graph = i == 2), TERN_OK);
    tern_tensor *grad = tern_grad_of(v);
    assert_close(tern_item(grad), 3, 0);
    tern_release(v);
    assert_int_equal(tern_live_tensors(), before);
}

static void test_a_gradient_of_another_dtype_leaves_nothing(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    tern_set_owned_mode(true);
    tern_tensor *w = tern_ones(TERN_SCALAR_SHAPE, .requires_grad = true);
    tern_tensor *v = tern_mul(w, 2.0), *g = tern_ones(TERN_SCALAR_SHAPE, .dtype = TERN_F64);
    assert_int_equal(tern_backward(v, g), TERN_OK);
    assert_close(tern_item(tern_grad_of(w)), 2, 0);
    tern_release(v);
    tern_release(g);
    tern_release(w);
    assert_int_equal(tern_live_tensors(), before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_datasets_and_batches_leave_nothing),
        TEST(test_a_root_that_is_a_leaf_leaves_its_gradient_alone),
        TEST(test_a_gradient_of_another_dtype_leaves_nothing),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
