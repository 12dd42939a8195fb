/* A training step in f32, bf16, f16, and f16 with the gradient scaler: time, peak memory, casts.
 *   mlp  784-512-512-10, batch 128, Adam     wide  1024-1024-1024-1024, batch 256, SGD
 *   cnn  the network of examples/cnn_mnist.c, batch 64, Adam
 * bench_amp [--threads N] [work ...] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bench.h"
#include "tern/tern.h"

typedef struct workload {
    tern_module *net;
    tern_optimizer *opt;
    tern_tensor *x, *y;
    tern_dtype_t dtype; /* NONE: f32 */
    tern_grad_scaler *scaler;
} workload;

static void steps(void *user, int64_t repeats)
{
    workload *w = user;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        tern_tensor *loss;
        {
            TERN_AUTOCAST(TERN_CPU, w->dtype, .disabled = w->dtype == TERN_DTYPE_NONE);
            loss = tern_cross_entropy(tern_forward(w->net, w->x), w->y);
        }
        tern_backward(tern_scaler_scale(w->scaler, loss));
        tern_scaler_step(w->scaler, w->opt);
        tern_scaler_update(w->scaler);
        tern_zero_grad(w->opt);
    }
}

static tern_module *make_mlp(void)
{
    return tern_sequential(tern_linear_layer(784, 512), tern_relu_layer(),
                           tern_linear_layer(512, 512), tern_relu_layer(),
                           tern_linear_layer(512, 10));
}
static tern_module *make_wide(void)
{
    return tern_sequential(tern_linear_layer(1024, 1024), tern_relu_layer(),
                           tern_linear_layer(1024, 1024), tern_relu_layer(),
                           tern_linear_layer(1024, 1024));
}
static tern_module *make_cnn(void)
{
    return tern_sequential(tern_conv2d_layer(1, 32, 3, .padding = 1), tern_relu_layer(),
                           tern_max_pool2d_layer(2), tern_conv2d_layer(32, 64, 3, .padding = 1),
                           tern_relu_layer(), tern_max_pool2d_layer(2), tern_flatten_layer(),
                           tern_linear_layer(3136, 128), tern_relu_layer(),
                           tern_linear_layer(128, 10));
}

static const struct {
    const char *name;
    tern_module *(*make)(void);
    tern_shape_t input;
    int64_t classes;
    bool adam;
} workloads[] = {
    { "mlp", make_mlp, { 1, 2, { 128, 784 } }, 10, true },
    { "wide", make_wide, { 1, 2, { 256, 1024 } }, 1024, false },
    { "cnn", make_cnn, { 1, 4, { 64, 1, 28, 28 } }, 10, true },
};

static const struct {
    const char *name;
    tern_dtype_t dtype;
    bool scales;
} modes[] = {
    { "f32", TERN_DTYPE_NONE, false },
    { "bf16", TERN_BF16, false },
    { "f16", TERN_F16, false },
    { "f16 and scaler", TERN_F16, true },
};

static void print_counts(const char *work, const char *mode, int64_t bytes)
{
    const tern_amp_counts c = tern_amp_counted();
    printf("{\"work\": \"%s\", \"variant\": \"%s\", \"peak_bytes\": %lld, \"casts\": %lld, "
           "\"cast_bytes\": %lld}\n",
           work, mode, (long long)bytes, (long long)c.casts, (long long)c.cast_bytes);
}

static void run_mode(size_t i, size_t m, workload *w)
{
    w->dtype = modes[m].dtype;
    w->scaler = tern_grad_scaler_create(.disabled = !modes[m].scales, .init_scale = 256);
    steps(w, 2);
    bench_check();
    tern_amp_reset();
    tern_memory_reset_peak(TERN_CPU);
    const int64_t before = tern_memory(TERN_CPU).allocated_bytes;
    steps(w, 1);
    print_counts(workloads[i].name, modes[m].name,
                 tern_memory(TERN_CPU).peak_allocated_bytes - before);
    bench_print(workloads[i].name, modes[m].name, bench_run(steps, w, 0.05, 11));
    tern_grad_scaler_free(w->scaler);
}

static void run(size_t i)
{
    TERN_SCOPE;
    tern_seed(1);
    workload w = { .net = workloads[i].make() };
    const tern_tensors_t params = tern_parameters(w.net);
    w.opt = workloads[i].adam ? tern_adam(params, .lr = 1e-3) : tern_sgd(params, .lr = 0.01);
    w.x = tern_randn(workloads[i].input);
    w.y = tern_argmax(tern_randn(TERN_SHAPE(workloads[i].input.dims[0], workloads[i].classes)), 1);
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        run_mode(i, m, &w);
    tern_optimizer_free(w.opt);
    tern_module_free(w.net);
}

int main(int argc, char **argv)
{
    int named = 0;
    for (int a = 1; a < argc; a++)
        if (strcmp(argv[a], "--threads") == 0 && a + 1 < argc)
            tern_set_num_threads(atoi(argv[++a]));
        else if (strcmp(argv[a], "--json") != 0)
            named++;
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        int wanted = named == 0;
        for (int a = 1; a < argc; a++)
            wanted |= strcmp(argv[a], workloads[i].name) == 0;
        if (wanted)
            run(i);
    }
    return tern_finish();
}
