/* The same mixed-precision program on a machine without CUDA: regions and scaler for CUDA switch
 * themselves off with a warning, and it trains on the CPU in f32. Row F014. */
#include <stdlib.h>

#include "tests/support/check.h"

enum { STEPS = 5 };

static int warnings;

static void listen(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)site, (void)user;
    warnings += level == TERN_LOG_WARNING && strstr(text, "no CUDA device") != NULL;
}

/* Weights after some steps, with mixed precision for CUDA or without. */
static void train(bool amp, float weights[8])
{
    TERN_SCOPE;
    tern_seed(1);
    tern_dev_t dev = TERN_CUDA(0);
    tern_module *net = tern_linear_layer(4, 2, .no_bias = true);
    tern_module_to(net, dev);
    tern_optimizer *opt = tern_sgd(tern_parameters(net), .lr = 0.1);
    tern_grad_scaler *scaler = tern_grad_scaler_create(.device = dev, .disabled = !amp);
    assert_false(tern_scaler_enabled(scaler));
    for (int i = 0; i < STEPS; i++) {
        TERN_SCOPE;
        tern_tensor *x = tern_randn(TERN_SHAPE(8, 4), .device = dev), *y = NULL;
        {
            TERN_AUTOCAST(dev, TERN_F16, .disabled = !amp);
            y = tern_forward(net, x);
        }
        assert_int_equal(tern_dtype(y), TERN_F32);
        tern_backward(tern_scaler_scale(scaler, tern_sum(tern_mul(y, y))));
        tern_scaler_step(scaler, opt);
        tern_scaler_update(scaler);
        tern_zero_grad(opt);
    }
    assert_int_equal(
        tern_read(tern_parameters(net).tensors[0], TERN_F32, weights, 8 * sizeof *weights),
        TERN_OK);
    tern_grad_scaler_free(scaler);
    assert_no_error();
}

static void test_it_trains_in_f32_and_says_so(void **state) /* F014 */
{
    (void)state;
    float plain[8], mixed[8];
    train(false, plain);
    assert_int_equal(warnings, 0);
    train(true, mixed);
    assert_memory_equal(plain, mixed, sizeof plain);
    assert_true(warnings >= 2); /* the scaler's, the regions' */
}

int main(void)
{
    (void)setenv("CUDA_VISIBLE_DEVICES", "", 1);
    tern_log_set_callback(listen, NULL);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_it_trains_in_f32_and_says_so) };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tern_log_set_callback(NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
