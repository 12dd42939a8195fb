/* A machine that gets crowded in the middle of a run makes threads work without their teams: no bit of a
 * result changes (backend_cpu/crowd.h). */
#include "backend_cpu/crowd.h"
#include "tests/support/check.h"

enum { STEPS = 6, BATCH = 48 };

static tern_module *make_net(void)
{
    return tern_sequential(tern_conv2d_layer(1, 8, 3, .padding = 1), tern_batch_norm2d_layer(8),
                           tern_relu_layer(), tern_max_pool2d_layer(2), tern_conv2d_layer(8, 16, 3),
                           tern_relu_layer(), tern_flatten_layer(),
                           tern_linear_layer(16 * 12 * 12, 64), tern_layer_norm_layer(64),
                           tern_linear_layer(64, 10));
}

/* Losses of a run on two threads. `crowded`: bit i says that step i starts without a team. */
static void train(unsigned crowded, float *out_losses)
{
    TERN_SCOPE;
    tern_seed(11);
    tern_set_num_threads(2);
    tern_module *net = make_net();
    tern_optimizer *opt = tern_adam(tern_parameters(net), .lr = 1e-2);
    tern_tensor *x = tern_randn(TERN_SHAPE(BATCH, 1, 28, 28));
    tern_tensor *y = tern_argmax(tern_randn(TERN_SHAPE(BATCH, 10)), 1);
    for (int i = 0; i < STEPS; i++) {
        TERN_SCOPE;
        cpu_crowd_here()->alone_until = crowded >> i & 1 ? INT64_MAX : 0;
        tern_tensor *loss = tern_cross_entropy(tern_forward(net, x), y);
        tern_backward(loss);
        tern_step(opt);
        tern_zero_grad(opt);
        out_losses[i] = (float)tern_item(loss);
    }
    cpu_crowd_here()->alone_until = 0;
    assert_no_error();
    tern_optimizer_free(opt);
    tern_module_free(net);
}

static void test_a_crowd_changes_no_bit(void **state)
{
    (void)state;
    float with_teams[STEPS], alone[STEPS], in_turns[STEPS];
    train(0, with_teams);
    train(~0U, alone);
    train(0x2a, in_turns);
    assert_true(with_teams[STEPS - 1] < with_teams[0]);
    assert_memory_equal(with_teams, alone, sizeof alone);
    assert_memory_equal(with_teams, in_turns, sizeof alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_crowd_changes_no_bit),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
