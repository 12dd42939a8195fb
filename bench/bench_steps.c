/* Whole training steps: forward, loss, backward, optimizer, zero_grad, on resident data.
 *   mlp1  784-128-10, batch 64, SGD          mlp2  784-512-512-10, batch 128, Adam
 *   lenet LeNet-5, batch 64, SGD momentum    cnn   the network of examples/cnn_mnist.c, batch 64, Adam
 *   tiny  4-16-4, batch 8, SGD
 * bench_steps [--threads N] [work ...] */
#include <stdlib.h>
#include <string.h>

#include "common/bench.h"
#include "tern/tern.h"

typedef struct workload {
    tern_module *net;
    tern_optimizer *opt;
    tern_tensor *x, *y;
} workload;

static void steps(void *user, int64_t repeats)
{
    workload *w = user;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        tern_tensor *loss = tern_cross_entropy(tern_forward(w->net, w->x), w->y);
        tern_backward(loss);
        tern_step(w->opt);
        tern_zero_grad(w->opt);
    }
}

static tern_module *make_mlp1(void)
{
    return tern_sequential(tern_linear_layer(784, 128), tern_relu_layer(),
                           tern_linear_layer(128, 10));
}
static tern_module *make_mlp2(void)
{
    return tern_sequential(tern_linear_layer(784, 512), tern_relu_layer(),
                           tern_linear_layer(512, 512), tern_relu_layer(),
                           tern_linear_layer(512, 10));
}
static tern_module *make_lenet(void)
{
    return tern_sequential(
        tern_conv2d_layer(1, 6, 5, .padding = 2), tern_relu_layer(), tern_max_pool2d_layer(2),
        tern_conv2d_layer(6, 16, 5), tern_relu_layer(), tern_max_pool2d_layer(2),
        tern_flatten_layer(), tern_linear_layer(400, 120), tern_relu_layer(),
        tern_linear_layer(120, 84), tern_relu_layer(), tern_linear_layer(84, 10));
}
static tern_module *make_cnn(void)
{
    return tern_sequential(tern_conv2d_layer(1, 32, 3, .padding = 1), tern_relu_layer(),
                           tern_max_pool2d_layer(2), tern_conv2d_layer(32, 64, 3, .padding = 1),
                           tern_relu_layer(), tern_max_pool2d_layer(2), tern_flatten_layer(),
                           tern_linear_layer(3136, 128), tern_relu_layer(),
                           tern_linear_layer(128, 10));
}
static tern_module *make_tiny(void)
{
    return tern_sequential(tern_linear_layer(4, 16), tern_relu_layer(), tern_linear_layer(16, 4));
}

static tern_optimizer *sgd(tern_module *net)
{
    return tern_sgd(tern_parameters(net), .lr = 0.01);
}
static tern_optimizer *momentum(tern_module *net)
{
    return tern_sgd(tern_parameters(net), .lr = 0.01, .momentum = 0.9);
}
static tern_optimizer *adam(tern_module *net)
{
    return tern_adam(tern_parameters(net), .lr = 1e-3);
}

static const struct {
    const char *name;
    tern_module *(*make)(void);
    tern_optimizer *(*optimizer)(tern_module *net);
    tern_shape_t input;
    int64_t classes;
} workloads[] = {
    { "mlp1", make_mlp1, sgd, { 1, 2, { 64, 784 } }, 10 },
    { "mlp2", make_mlp2, adam, { 1, 2, { 128, 784 } }, 10 },
    { "lenet", make_lenet, momentum, { 1, 4, { 64, 1, 28, 28 } }, 10 },
    { "cnn", make_cnn, adam, { 1, 4, { 64, 1, 28, 28 } }, 10 },
    { "tiny", make_tiny, sgd, { 1, 2, { 8, 4 } }, 4 },
};

static void run(size_t i)
{
    TERN_SCOPE;
    tern_seed(1);
    workload w;
    w.net = workloads[i].make();
    w.opt = workloads[i].optimizer(w.net);
    w.x = tern_randn(workloads[i].input);
    w.y = tern_argmax(tern_randn(TERN_SHAPE(workloads[i].input.dims[0], workloads[i].classes)), 1);
    steps(&w, 3);
    bench_check();
    const int64_t before = tern_memory(TERN_CPU).system_alloc_count;
    bench_print(workloads[i].name, "tern", bench_run(steps, &w, 0.05, 11));
    if (tern_memory(TERN_CPU).system_alloc_count != before)
        bench_print(workloads[i].name, "takes memory from the system", (bench_result){ 0, 0, 0 });
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
