/* Optimizers whose parameters move between devices, and whose saved state comes from another one.
 * Rows T048, T050. */
#include <stdlib.h>

#include "tern/debug.h"
#include "tests/support/check.h"

static const tern_dev_t dev0 = { TERN_KIND_CUDA, 0 }, dev1 = { TERN_KIND_CUDA, 1 };

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

static void one_step(tern_module *net, tern_optimizer *opt, tern_dev_t dev)
{
    TERN_SCOPE;
    tern_zero_grad(opt);
    tern_backward(tern_sum(tern_forward(net, tern_ones(TERN_SHAPE(2, 3), .device = dev))));
    tern_step(opt);
}

static tern_module *net_of(uint64_t seed)
{
    tern_seed(seed);
    return tern_linear_layer(3, 2);
}

static double weights(tern_module *net)
{
    TERN_SCOPE;
    return tern_item(tern_sum(tern_parameters(net).tensors[0]));
}

/* The module moves in place, and the optimizer keeps its parameters; their state stays behind. */
static void test_state_does_not_follow_a_module(void **state) /* T048 */
{
    (void)state;
    TERN_SCOPE;
    tern_module *net = net_of(3);
    tern_optimizer *opt = tern_adam(tern_parameters(net), .lr = 0.1);
    one_step(net, opt, TERN_CPU);
    assert_no_error();
    tern_module_to(net, dev0);
    tern_tensor *weight = tern_optimizer_params(opt, 0).tensors[0];
    assert_true(tern_dev_equal(tern_device(weight), dev0));
    assert_true(
        tern_dev_equal(tern_device(tern_optimizer_state(opt, weight, "exp_avg")), TERN_CPU));
    const double before = weights(net);
    one_step(net, opt, dev0);
    assert_error(TERN_ERR_STATE, "tern_optimizer_move");
    assert_close(weights(net), before, 0); /* nothing half-done */
    assert_int_equal(tern_optimizer_move(opt), TERN_OK);
    assert_true(tern_dev_equal(tern_device(tern_optimizer_state(opt, weight, "exp_avg")), dev0));
    one_step(net, opt, dev0);
    assert_no_error();
}

/* What was saved on one device goes on on another, to the last place that both compute alike. */
static void test_saved_state_comes_to_its_parameters(void **state) /* T050 */
{
    (void)state;
    TERN_SCOPE;
    tern_module *a = net_of(5), *b = net_of(5);
    tern_module_to(a, dev1);
    tern_optimizer *from = tern_adam(tern_parameters(a), .lr = 0.1);
    tern_optimizer *to = tern_adam(tern_parameters(b), .lr = 0.1);
    tern_state *saved = tern_state_create();
    one_step(a, from, dev1);
    one_step(b, to, TERN_CPU);
    tern_optimizer_store(from, saved, "opt");
    tern_module_to(b, dev0);
    assert_int_equal(tern_optimizer_restore(to, saved, "opt"), TERN_OK);
    tern_tensor *weight = tern_optimizer_params(to, 0).tensors[0];
    tern_tensor *average = tern_optimizer_state(to, weight, "exp_avg");
    assert_true(tern_dev_equal(tern_device(average), dev0));
    assert_int_equal(tern_dtype(average), tern_dtype(weight));
    one_step(a, from, dev1);
    one_step(b, to, dev0);
    assert_close(weights(a), weights(b), 1e-6);
    tern_module_to(b, dev0, .dtype = TERN_F64); /* state of f32 for parameters of f64 */
    assert_int_equal(tern_optimizer_restore(to, saved, "opt"), TERN_OK);
    average = tern_optimizer_state(to, weight, "exp_avg");
    assert_true(tern_dev_equal(tern_device(average), dev0));
    assert_int_equal(tern_dtype(average), TERN_F64);
    assert_no_error();
    tern_state_free(saved);
}

/* A scaled step counts on its device; the count is there when a step on the CPU reads it. */
static void test_a_count_of_steps_comes_to_the_cpu(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *moved = net_of(7), *stayed = net_of(7);
    tern_module_to(moved, dev0);
    tern_optimizer *opt = tern_adam(tern_parameters(moved), .lr = 0.1);
    tern_optimizer *like = tern_adam(tern_parameters(stayed), .lr = 0.1);
    tern_grad_scaler *scaler = tern_grad_scaler_create(.device = dev0, .init_scale = 8);
    for (int i = 0; i < 3; i++) {
        tern_tensor *y = tern_forward(moved, tern_ones(TERN_SHAPE(2, 3), .device = dev0));
        tern_zero_grad(opt);
        tern_backward(tern_scaler_scale(scaler, tern_sum(y)));
        tern_scaler_step(scaler, opt);
        tern_scaler_update(scaler);
        one_step(stayed, like, TERN_CPU);
    }
    tern_module_to(moved, TERN_CPU);
    assert_int_equal(tern_optimizer_move(opt), TERN_OK);
    one_step(moved, opt, TERN_CPU);
    one_step(stayed, like, TERN_CPU);
    assert_close(weights(moved), weights(stayed), 1e-6);
    assert_no_error();
}

static tern_tensor *with_gradient(tern_dev_t dev)
{
    tern_tensor *p = tern_ones(TERN_SHAPE(2), .device = dev, .requires_grad = true);
    tern_set_grad(p, tern_full(3.0, TERN_SHAPE(2), .dtype = TERN_F32, .device = dev));
    return p;
}

/* False when allocation k was not reached, so that both gradients were clipped. */
static bool clip_fails_cleanly(int64_t k)
{
    TERN_SCOPE;
    tern_tensor *a = with_gradient(dev0), *b = with_gradient(dev1);
    tern_debug_fail_allocation(k);
    const bool done = tern_clip_grad_norm(TERN_TENSORS(a, b), 1) != NULL;
    const bool reached = tern_debug_allocations_left() <= 0;
    tern_debug_fail_allocation(0);
    assert_true(done == !tern_failed());
    tern_error_clear();
    const double first = tern_item(tern_sum(tern_grad_of(a)));
    const double second = tern_item(tern_sum(tern_grad_of(b)));
    assert_close(first, done ? 1 : 6, 1e-6);
    assert_close(second, done ? 1 : 6, 1e-6);
    return reached;
}

static void test_gradients_on_two_devices_are_clipped_or_stay(void **state)
{
    (void)state;
    int64_t k = 1;
    while (clip_fails_cleanly(k))
        k++;
    assert_true(k > 10);
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_state_does_not_follow_a_module, clear),
        cmocka_unit_test_teardown(test_saved_state_comes_to_its_parameters, clear),
        cmocka_unit_test_teardown(test_a_count_of_steps_comes_to_the_cpu, clear),
        cmocka_unit_test_teardown(test_gradients_on_two_devices_are_clipped_or_stay, clear),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
