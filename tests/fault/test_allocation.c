/* Every allocation of a training step fails in turn: each failure is an error, nothing is leaked,
 * parameters are not half updated, and the next step works. */
#include "tern/debug.h"
#include "tests/support/check.h"

typedef struct model {
    tern_module *net;
    tern_optimizer *opt;
    tern_tensor *x, *y;
} model;

static double weight_sum(const model *m)
{
    double sum = 0;
    TERN_SCOPE;
    TERN_NO_GRAD;
    tern_tensor *out = tern_forward(m->net, tern_ones(TERN_SHAPE(1, 1, 8, 8)));
    sum = tern_item(tern_sum(out));
    return sum;
}

static void step(const model *m)
{
    TERN_SCOPE;
    tern_tensor *loss = tern_cross_entropy(tern_forward(m->net, m->x), m->y);
    tern_backward(loss);
    tern_step(m->opt);
    tern_zero_grad(m->opt);
}

static model make(void)
{
    model m;
    tern_seed(5);
    m.net =
        tern_sequential(tern_conv2d_layer(1, 4, 3, .padding = 1), tern_relu_layer(),
                        tern_max_pool2d_layer(2), tern_flatten_layer(), tern_linear_layer(64, 10));
    m.opt = tern_adam(tern_parameters(m.net), .lr = 1e-2);
    m.x = tern_retain(tern_randn(TERN_SHAPE(6, 1, 8, 8)));
    m.y = tern_retain(tern_argmax(tern_randn(TERN_SHAPE(6, 10)), 1));
    return m;
}

static void test_each_allocation_of_a_step_may_fail(void **state)
{
    (void)state;
    const model m = make();
    step(&m); /* optimizer state exists from here on */
    assert_no_error();
    double before = weight_sum(&m);
    int64_t k = 1;
    for (;; k++) {
        const int64_t live = tern_live_tensors();
        tern_debug_fail_allocation(k);
        step(&m);
        const bool reached = tern_debug_allocations_left() <= 0;
        tern_debug_fail_allocation(0);
        if (!reached)
            break;
        if (tern_error_code() != TERN_ERR_OOM)
            fail_msg("allocation %lld failed without an error", (long long)k);
        tern_error_clear();
        tern_zero_grad(m.opt);
        assert_no_error();
        if (tern_live_tensors() > live)
            fail_msg("allocation %lld leaks %lld tensors", (long long)k,
                     (long long)(tern_live_tensors() - live));
        if (weight_sum(&m) != before) {
            /* all or nothing: the step was complete before something later failed */
            before = weight_sum(&m);
        }
    }
    print_message("%lld allocations in a step\n", (long long)k - 1);
    assert_true(k > 20);
    assert_no_error();
    assert_true(weight_sum(&m) != before);
    tern_release(m.x);
    tern_release(m.y);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_allocation_of_a_step_may_fail) };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
