/* Backward over several streams and devices: each gradient arrives where it is used, in order. A wait that
 * is missing is a stream race, which the simulator reports. Rows T060-T062. */
#include <stdlib.h>

#include "tests/support/check.h"

static const tern_dev_t dev0 = { TERN_KIND_CUDA, 0 }, dev1 = { TERN_KIND_CUDA, 1 };
static tern_stream_t side, other;

static int setup(void **state)
{
    (void)state;
    side = tern_stream_from_pool(dev0);
    other = tern_stream_from_pool(dev0);
    return tern_failed() ? -1 : 0;
}

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    tern_dev_synchronize(dev0);
    tern_dev_synchronize(dev1);
    return 0;
}

static void follow(tern_stream_t stream, tern_stream_t before)
{
    assert_int_equal(tern_stream_wait_stream(stream, before), TERN_OK);
}

static double sum_of(tern_tensor *t)
{
    return tern_item(tern_sum(t));
}

static tern_tensor *leaf(int64_t n)
{
    return tern_ones(TERN_SHAPE(n), .device = dev0, .requires_grad = true);
}

static void test_backward_runs_where_forward_ran(void **state) /* T060 T061 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t main = tern_current_stream(dev0);
    tern_tensor *x = leaf(1000), *y, *loss;
    follow(side, main);
    {
        TERN_STREAM(side);
        y = tern_mul(x, x);
    }
    follow(main, side);
    loss = tern_sum(tern_mul(y, 3));
    assert_int_equal(tern_backward(loss), TERN_OK);
    assert_close(sum_of(tern_grad_of(x)), 6000, 0); /* on the caller's stream, without a wait */
    assert_no_error();
    assert_true(tern_stream_equal(tern_current_stream(dev0), main));
}

/* The same gradient goes to two streams, where one would like to write into it. */
static void test_shared_gradients_are_not_overwritten(void **state) /* T060 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t main = tern_current_stream(dev0);
    tern_tensor *x = leaf(1000), *a, *b;
    follow(side, main);
    follow(other, main);
    {
        TERN_STREAM(side);
        a = tern_relu(tern_mul(x, 2));
    }
    {
        TERN_STREAM(other);
        b = tern_relu(tern_mul(x, 3));
    }
    follow(main, side);
    follow(main, other);
    tern_tensor *loss = tern_sum(tern_add(tern_add(a, b), tern_relu(a)));
    assert_int_equal(tern_backward(loss), TERN_OK);
    assert_close(sum_of(tern_grad_of(x)), 7000, 0);
    assert_no_error();
}

static void test_a_caller_on_a_side_stream_may_use_the_gradients(void **state) /* T061 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t main = tern_current_stream(dev0);
    tern_tensor *x = leaf(1000);
    tern_tensor *loss = tern_sum(tern_mul(x, x));
    follow(side, main);
    {
        TERN_STREAM(side);
        assert_int_equal(tern_backward(loss), TERN_OK);
        assert_non_null(tern_add(tern_grad_of(x), 1));
    }
    assert_no_error();
    assert_null(tern_add(tern_grad_of(x), 1)); /* another stream has to wait */
    assert_error(TERN_ERR_BACKEND, "stream race (read after write)");
    follow(main, side);
    assert_close(sum_of(tern_grad_of(x)), 2000, 0);
    assert_no_error();
}

static void test_everything_on_one_side_stream(void **state) /* T060 T061 */
{
    (void)state;
    TERN_SCOPE;
    TERN_STREAM(side);
    tern_tensor *x = leaf(500);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tern_backward(tern_sum(tern_mul(x, x))), TERN_OK);
    assert_close(sum_of(tern_grad_of(x)), 2000, 0);
    assert_no_error();
}

static void test_a_first_gradient_of_another_stream(void **state) /* T062 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t main = tern_current_stream(dev0);
    tern_tensor *x = leaf(100), *y = tern_mul(x, 2), *start;
    follow(side, main);
    {
        TERN_STREAM(side);
        start = tern_full(5, TERN_SHAPE(100), .device = dev0);
    }
    follow(main, side);
    assert_int_equal(tern_record_stream(start, main), TERN_OK);
    assert_int_equal(tern_backward(y, start), TERN_OK);
    assert_close(sum_of(tern_grad_of(x)), 1000, 0);
    assert_no_error();
}

static void test_chosen_gradients_come_to_the_caller(void **state) /* T061 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t main = tern_current_stream(dev0);
    tern_tensor *x = leaf(100), *y, *grads[2];
    follow(side, main);
    {
        TERN_STREAM(side);
        y = tern_mul(x, 2);
        y = tern_mul(y, y);
    }
    follow(main, side);
    tern_tensor *inputs[2] = { x, y };
    tern_grad(tern_sum(tern_mul(y, 3)), inputs, 2, grads);
    assert_no_error();
    assert_close(sum_of(grads[0]), 2400, 0);
    assert_close(sum_of(grads[1]), 300, 0);
    assert_no_error();
}

static void test_over_two_devices(void **state) /* T025 T060 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t main = tern_current_stream(dev0), far = tern_stream_from_pool(dev1);
    tern_tensor *x = leaf(1000), *y;
    follow(side, main);
    {
        TERN_STREAM(side);
        y = tern_mul(x, 2);
        TERN_STREAM(far);
        y = tern_mul(tern_to(y, dev1), 5);
        follow(tern_default_stream(dev1), far);
    }
    assert_int_equal(tern_backward(tern_sum(tern_mul(y, y))), TERN_OK);
    assert_close(sum_of(tern_grad_of(x)), 1000 * 2 * 10 * 10, 0);
    assert_no_error();
}

static tern_tensor *over_both(tern_tensor *const *in, int64_t count, void *user)
{
    (void)count;
    (void)user;
    return tern_tanh(tern_mul(tern_to(tern_tanh(tern_mul(in[0], in[1])), dev1), in[2]));
}

/* The second run of a checkpoint has forward's streams, which its inputs were made on. */
static void test_a_checkpoint_runs_again_on_its_streams(void **state) /* T060 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w[] = { leaf(1000),
                         tern_ones(TERN_SHAPE(1000), .device = dev1, .requires_grad = true) };
    tern_stream_t far = tern_stream_from_pool(dev1);
    double sums[2][2];
    for (int again = 0; again < 2; again++) {
        follow(side, tern_default_stream(dev0));
        follow(far, tern_default_stream(dev1));
        TERN_STREAM(side);
        TERN_STREAM(far);
        tern_tensor *x = tern_mul(tern_full(0.5, TERN_SHAPE(1000), .device = dev0), 0.7);
        tern_tensor *in[] = { x, w[0], w[1] };
        tern_tensor *y = again == 0 ? over_both(in, 3, NULL)
                                    : tern_checkpoint(over_both, .inputs = in, .count = 3);
        assert_int_equal(tern_backward(tern_sum(y)), TERN_OK);
        for (int i = 0; i < 2; i++) {
            sums[again][i] = sum_of(tern_grad_of(w[i]));
            tern_set_grad(w[i], NULL);
        }
    }
    assert_no_error();
    for (int i = 0; i < 2; i++)
        assert_close(sums[1][i], sums[0][i], 0);
    assert_true(sums[0][0] > 250 && sums[0][1] > 250);
}

/* Memory that a gradient leaves is not given out while another stream reads it. */
static void test_gradients_outlive_their_readers(void **state) /* T060 S025 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t main = tern_current_stream(dev0);
    tern_tensor *x = leaf(5000), *y;
    for (int step = 0; step < 4; step++) {
        TERN_SCOPE;
        follow(side, main);
        {
            TERN_STREAM(side);
            y = tern_mul(x, x);
            (void)tern_record_stream(x, side);
        }
        follow(main, side);
        (void)tern_record_stream(y, main);
        assert_int_equal(tern_backward(tern_sum(tern_mul(y, 3))), TERN_OK);
        (void)tern_mul(tern_ones(TERN_SHAPE(5000), .device = dev0), 4);
    }
    assert_close(sum_of(tern_grad_of(x)), 4 * 6 * 5000, 0);
    assert_no_error();
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_backward_runs_where_forward_ran),
        TEST(test_shared_gradients_are_not_overwritten),
        TEST(test_a_caller_on_a_side_stream_may_use_the_gradients),
        TEST(test_everything_on_one_side_stream),
        TEST(test_a_first_gradient_of_another_stream),
        TEST(test_chosen_gradients_come_to_the_caller),
        TEST(test_over_two_devices),
        TEST(test_a_checkpoint_runs_again_on_its_streams),
        TEST(test_gradients_outlive_their_readers),
    };
    const int failed = cmocka_run_group_tests(tests, setup, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
