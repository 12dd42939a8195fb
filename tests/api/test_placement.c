/* Where tensors live: tern_to, copies, dtypes, memory formats, scopes. T rows. */
#include <math.h>

#include "tests/support/check.h"

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

static void test_to_gives_the_same_tensor_when_nothing_changes(void **state) /* T001, T002, T011 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 3));
    assert_ptr_equal(tern_to(x, tern_default_device()), x);
    assert_ptr_equal(tern_to(x, tern_default_device(), .non_blocking = true), x);
    assert_ptr_equal(tern_to(x, .dtype = TERN_F32), x);
    assert_true((tern_cpu(x) == x) == check_on_cpu());
    assert_ptr_equal(tern_to(x, .format = TERN_FORMAT_CONTIGUOUS), x);
    assert_ptr_not_equal(tern_to(x, .dtype = TERN_F64), x);
}

static void test_an_index_on_the_cpu_changes_nothing(void **state) /* T005: normalised */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2), .device = TERN_CPU);
    assert_ptr_equal(tern_to(x, TERN_DEV_(TERN_KIND_CPU, 0)), x);
}

static void test_copy_is_always_a_new_storage(void **state) /* T003 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    tern_tensor *y = tern_to(x, .copy = true);
    assert_ptr_not_equal(y, x);
    assert_false(tern_shares_storage(x, y));
    assert_true(tern_requires_grad(y));
    tern_backward(tern_sum(tern_mul(y, 3)));
    assert_no_error();
    assert_close(tern_item(tern_sum(tern_grad_of(x))), 6, 0);
}

static void test_integers_carry_no_gradient(void **state) /* T007 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    assert_false(tern_requires_grad(tern_to(x, .dtype = TERN_I32)));
    assert_true(tern_requires_grad(tern_to(x, .dtype = TERN_F16)));
}

static void test_a_dense_source_keeps_its_strides(void **state) /* T009 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_transpose(tern_ones(TERN_SHAPE(2, 3)), 0, 1);
    tern_tensor *y = tern_to(x, .dtype = TERN_F64);
    assert_int_equal(tern_stride(y, 0), 1);
    assert_int_equal(tern_stride(y, 1), 3);
    assert_true(tern_is_contiguous(tern_to(x, .format = TERN_FORMAT_CONTIGUOUS)));
    /* of one with gaps the order of the dimensions: 6, 1, 2 */
    tern_tensor *gaps = tern_slice(tern_ones(TERN_SHAPE(2, 3, 4)), 2, 0, 4, 2);
    tern_tensor *packed = tern_to(tern_transpose(gaps, 1, 2), .dtype = TERN_F64);
    assert_int_equal(tern_stride(packed, 0), 6);
    assert_int_equal(tern_stride(packed, 1), 1);
    assert_int_equal(tern_stride(packed, 2), 2);
    /* one that was expanded between them does not part the others: 1, 0, 3 */
    tern_tensor *wide = tern_expand(tern_unsqueeze(x, 1), TERN_SHAPE(3, 4, 2));
    packed = tern_to(wide, .dtype = TERN_F64);
    assert_int_equal(tern_stride(packed, 0), 1);
    assert_int_equal(tern_stride(packed, 1), 3);
    assert_int_equal(tern_stride(packed, 2), 12);
}

static void test_channels_last_is_a_format_of_the_same_values(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_view(tern_arange(0, 24, .dtype = TERN_F32), TERN_SHAPE(1, 2, 3, 4));
    tern_tensor *y = tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST);
    assert_true(tern_is_channels_last(y));
    assert_false(tern_is_contiguous(y));
    assert_ptr_equal(tern_to(y, .format = TERN_FORMAT_CHANNELS_LAST), y); /* T001 */
    assert_ptr_not_equal(tern_to(y, .format = TERN_FORMAT_CONTIGUOUS), y);
    assert_close(tern_item(tern_sum(tern_abs(tern_sub(x, y)))), 0, 0);
    assert_true(tern_is_channels_last(tern_relu(y))); /* elementwise ops keep it */
}

static void test_copy_converts_and_broadcasts(void **state) /* T016 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *dst = tern_zeros(TERN_SHAPE(2, 3), TERN_I32);
    const float row[3] = { 1.9f, -1.9f, 3 };
    assert_ptr_equal(tern_copy(dst, tern_from_data(row, TERN_SHAPE(3))), dst);
    int32_t got[6];
    assert_int_equal(tern_read(dst, TERN_I32, got, sizeof got), TERN_OK);
    const int32_t expected[6] = { 1, -1, 3, 1, -1, 3 };
    assert_memory_equal(got, expected, sizeof got);
    assert_null(tern_copy(dst, tern_zeros(TERN_SHAPE(4))));
    assert_error(TERN_ERR_SHAPE, "[2, 3]");
}

static void test_a_copy_onto_itself_changes_nothing(void **state) /* T026 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_arange(0, 4, .dtype = TERN_F32);
    tern_copy(x, x);
    assert_no_error();
    assert_close(tern_item(tern_sum(x)), 6, 0);
}

static void test_item_wants_one_element(void **state) /* T028 */
{
    (void)state;
    TERN_SCOPE;
    assert_close(tern_item(tern_full(2.5, TERN_SHAPE(1, 1))), 2.5, 0);
    assert_true(isnan(tern_item(tern_ones(TERN_SHAPE(2)))));
    assert_true(isnan(tern_item(tern_ones(TERN_SHAPE(1))))); /* while an error is pending */
    tern_error_clear();
}

static void test_while_an_error_is_pending_nothing_runs(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 3)), *y = tern_ones(TERN_SHAPE(2, 3));
    assert_null(tern_relu(tern_matmul(x, y)));
    assert_true(tern_failed());
    assert_null(tern_add(x, y));
    assert_non_null(strstr(tern_error_text(), "test_placement.c:"));
    assert_non_null(strstr(tern_error_text(), "[2, 3]"));
    assert_error(TERN_ERR_SHAPE, "matmul");
    assert_non_null(tern_add(x, y));
}

static void test_scopes_release_keep_and_drop(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    tern_scope outer = tern_scope_begin();
    tern_tensor *kept = NULL, *retained = NULL;
    for (int i = 0; i < 3; i++) {
        TERN_SCOPE;
        (void)tern_ones(TERN_SHAPE(2));
        if (i == 1)
            kept = tern_keep(tern_full(7, TERN_SHAPE(1)));
        if (i == 2)
            retained = tern_retain(tern_full(8, TERN_SHAPE(1)));
        tern_drop(tern_ones(TERN_SHAPE(2)));
    }
    assert_int_equal(tern_live_tensors() - before, 2);
    assert_close(tern_item(kept), 7, 0);
    tern_scope_end(&outer);
    assert_int_equal(tern_live_tensors() - before, 1);
    assert_close(tern_item(retained), 8, 0);
    tern_release(retained);
    assert_int_equal(tern_live_tensors(), before);
}

static void test_owned_mode_is_for_bindings(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    assert_false(tern_set_owned_mode(true));
    tern_tensor *x = tern_ones(TERN_SHAPE(2)), *y = tern_add(x, 1);
    tern_release(x);
    tern_tensor *sum = tern_sum(y);
    assert_close(tern_item(sum), 4, 0);
    tern_release(sum);
    tern_release(y);
    assert_true(tern_set_owned_mode(false));
    tern_scope_end(&(tern_scope){ 0 });
    tern_scope_end(NULL);
    assert_int_equal(tern_live_tensors(), before);
}

static void test_sizes_that_overflow_are_errors(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_null(tern_zeros(TERN_SHAPE(1LL << 40, 1LL << 40)));
    assert_error(TERN_ERR_SHAPE, "[1099511627776, 1099511627776]");
    assert_null(tern_zeros(TERN_SHAPE(-1)));
    assert_true(tern_failed());
    tern_error_clear();
    assert_null(tern_empty(TERN_SHAPE(1LL << 50)));
    assert_error(TERN_ERR_OOM, check_on_cpu() ? "out of memory on cpu" : "out of memory on cuda:");
    assert_non_null(tern_empty(TERN_SHAPE(16))); /* an OOM is an answer, not an end */
    assert_null(tern_ones(.dtype = TERN_F32));   /* no shape */
    assert_error(TERN_ERR_ARGUMENT, "shape");
}

static void test_random_numbers_repeat(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_seed(42);
    tern_tensor *a = tern_rand(TERN_SHAPE(1000)), *b = tern_rand(TERN_SHAPE(1000));
    tern_seed(42);
    tern_tensor *c = tern_rand(TERN_SHAPE(1000));
    assert_close(tern_item(tern_sum(tern_abs(tern_sub(a, c)))), 0, 0);
    assert_true(tern_item(tern_sum(tern_abs(tern_sub(a, b)))) > 100);
    uint64_t seed, call;
    tern_generator_state(NULL, &seed, &call);
    assert_int_equal(seed, 42);
    assert_int_equal(call, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_to_gives_the_same_tensor_when_nothing_changes),
        TEST(test_an_index_on_the_cpu_changes_nothing),
        TEST(test_copy_is_always_a_new_storage),
        TEST(test_integers_carry_no_gradient),
        TEST(test_a_dense_source_keeps_its_strides),
        TEST(test_channels_last_is_a_format_of_the_same_values),
        TEST(test_copy_converts_and_broadcasts),
        TEST(test_a_copy_onto_itself_changes_nothing),
        TEST(test_item_wants_one_element),
        TEST(test_while_an_error_is_pending_nothing_runs),
        TEST(test_scopes_release_keep_and_drop),
        TEST(test_owned_mode_is_for_bindings),
        TEST(test_sizes_that_overflow_are_errors),
        TEST(test_random_numbers_repeat),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
