/* Small networks of three kinds learn in bf16, and in f16 with a scaler, as they do in f32; with
 * TERN_TEST_DEVICE=cuda also there as on the CPU, although the two have different lists of ops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/sanitizer.h"

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

/* A network and what it is given; the first CLASSES features of a row say its class. */
typedef struct lesson {
    const char *name;
    tern_module *(*make)(void);
    tern_shape_t input;
} lesson;

static tern_module *make_mlp(void)
{
    return tern_sequential(tern_linear_layer(FEATURES, 32), tern_gelu_layer(),
                           tern_linear_layer(32, CLASSES));
}

static tern_module *make_cnn(void)
{
    return tern_sequential(tern_conv2d_layer(1, 16, 3, .padding = 1), tern_relu_layer(),
                           tern_max_pool2d_layer(2), tern_conv2d_layer(16, 16, 3, .padding = 1),
                           tern_batch_norm2d_layer(16), tern_relu_layer(), tern_flatten_layer(),
                           tern_linear_layer(144, CLASSES));
}

static tern_module *make_transformer(void)
{
    return tern_sequential(tern_linear_layer(8, 16),
                           tern_transformer_encoder_layer(16, 2, 32, .dropout = -0.0,
                                                          .norm_first = true, .causal = true),
                           tern_flatten_layer(), tern_linear_layer(64, CLASSES));
}

static const lesson tasks[] = {
    { "mlp", make_mlp, { TERN_GIVEN_, 2, { ROWS, FEATURES } } },
    { "cnn", make_cnn, { TERN_GIVEN_, 4, { 8, 1, 6, 6 } } },
    { "transformer", make_transformer, { TERN_GIVEN_, 3, { 12, 4, 8 } } },
};
enum { TASKS = sizeof tasks / sizeof *tasks };

/* One mode: dtype NONE is f32. */
static result train(const lesson *task, tern_dev_t dev, tern_dtype_t dtype, uint64_t seed)
{
    TERN_SCOPE;
    result r = { 0 };
    tern_seed(seed);
    tern_module *net = task->make();
    tern_tensor *x = tern_randn(task->input);
    tern_tensor *y = tern_argmax(tern_slice(tern_flatten(x, 1, -1), 1, 0, CLASSES), 1);
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
    if (getenv("TERN_TEST_DEVICE") != NULL)
        return; /* the program has been run without */
    for (int i = 0; i < TASKS; i++) {
        double full = 0, bf16 = 0, f16 = 0, begun = 0;
        for (uint64_t seed = 1; seed <= 3; seed++) {
            const result r = train(&tasks[i], TERN_CPU, TERN_DTYPE_NONE, seed);
            const result scaled = train(&tasks[i], TERN_CPU, TERN_F16, seed);
            full += r.last / 3;
            begun += r.mean / 3;
            bf16 += train(&tasks[i], TERN_CPU, TERN_BF16, seed).last / 3;
            f16 += scaled.last / 3;
            assert_true(scaled.skips < 5);
        }
        print_message("%s: f32 %.4f, bf16 %.4f, f16 %.4f\n", tasks[i].name, full, bf16, f16);
        assert_true(full < 0.7 * begun);
        assert_close(bf16, full, 0.02);
        assert_close(f16, full, 0.02);
    }
}

static void test_a_device_learns_as_the_cpu_does(void **state)
{
    (void)state;
    if (getenv("TERN_TEST_DEVICE") == NULL)
        return; /* the test before has run what there is */
    assert_true(tern_dev_available(TERN_CUDA(0)));
    static const tern_dtype_t modes[] = { TERN_DTYPE_NONE, TERN_BF16, TERN_F16 };
    for (int i = 0; i < 3 * TASKS; i += RUNS_ARE_SHORT ? 4 : 1) { /* each task, each mode */
        const lesson *task = &tasks[i / 3];
        const tern_dtype_t mode = modes[i % 3];
        const result here = train(task, TERN_CPU, mode, 1);
        const result there = train(task, TERN_CUDA(0), mode, 1);
        print_message("%s, %s: %.5f, on the device %.5f\n", task->name, tern_dtype_name(mode),
                      here.mean, there.mean);
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
