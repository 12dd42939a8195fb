/* A small network learns in bf16, and in f16 with a scaler, as it does in f32; with TERN_TEST_DEVICE=cuda
 * also there as on the CPU, although the two have different lists of ops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/check.h"

enum { STEPS = 50, ROWS = 24, FEATURES = 20, CLASSES = 5 };

typedef struct result {
    double mean; /* of all losses */
    double last; /* mean of the last ten */
    int64_t skips;
} result;

static tern_tensor *forward_loss(tern_module *net, tern_tensor *x, tern_tensor *y)
{
    return tern_cross_entropy(tern_forward(net, x), y);
}

/* One mode: dtype NONE is f32. */
static result train(tern_dev_t dev, tern_dtype_t dtype, uint64_t seed)
{
    TERN_SCOPE;
    result r = { 0 };
    tern_seed(seed);
    tern_module *net = tern_sequential(tern_linear_layer(FEATURES, 32), tern_gelu_layer(),
                                       tern_linear_layer(32, CLASSES));
    tern_tensor *x = tern_randn(TERN_SHAPE(ROWS, FEATURES));
    tern_tensor *y = tern_argmax(tern_slice(x, 1, 0, CLASSES), 1);
    x = tern_to(x, dev);
    y = tern_to(y, dev);
    tern_module_to(net, dev);
    tern_optimizer *opt = tern_adam(tern_parameters(net), .lr = 0.01);
    tern_grad_scaler *scaler = tern_grad_scaler_create(.disabled = dtype != TERN_F16);
    for (int step = 0; step < STEPS; step++) {
        TERN_SCOPE;
        tern_tensor *loss;
        {
            TERN_AUTOCAST(dev, dtype, .disabled = dtype == TERN_DTYPE_NONE);
            loss = forward_loss(net, x, y);
        }
        tern_backward(tern_scaler_scale(scaler, loss));
        tern_scaler_step(scaler, opt);
        tern_scaler_update(scaler);
        tern_zero_grad(opt);
        const double now = tern_item(loss);
        r.mean += now / STEPS;
        r.last += step >= STEPS - 10 ? now / 10 : 0;
    }
    r.skips = tern_scaler_skip_count(scaler);
    tern_grad_scaler_free(scaler);
    tern_optimizer_free(opt);
    tern_module_free(net);
    assert_no_error();
    return r;
}

static void test_half_types_learn_as_f32_does(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const result full = train(TERN_CPU, TERN_DTYPE_NONE, seed);
        const result bf16 = train(TERN_CPU, TERN_BF16, seed), f16 = train(TERN_CPU, TERN_F16, seed);
        assert_true(full.last < 0.7 * full.mean);
        assert_close(bf16.last, full.last, 0.02);
        assert_close(f16.last, full.last, 0.02);
        assert_true(f16.skips < 5);
    }
}

static void test_a_device_learns_as_the_cpu_does(void **state)
{
    (void)state;
    if (getenv("TERN_TEST_DEVICE") == NULL)
        return; /* the test before has run what there is */
    assert_true(tern_dev_available(TERN_CUDA(0)));
    static const tern_dtype_t modes[] = { TERN_DTYPE_NONE, TERN_BF16, TERN_F16 };
    for (int i = 0; i < 3; i++) {
        const result here = train(TERN_CPU, modes[i], 1), there = train(TERN_CUDA(0), modes[i], 1);
        print_message("%s: %.5f, on the device %.5f\n", tern_dtype_name(modes[i]), here.mean,
                      there.mean);
        assert_close(there.mean, here.mean, 2e-2 * here.mean);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_types_learn_as_f32_does),
        cmocka_unit_test(test_a_device_learns_as_the_cpu_does),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 || failed;
}
