/* What test_undefined_reads.sh runs under valgrind, on a simulated device:
 *     undefined_reads copy     a tensor that nobody filled is copied to the host
 *     undefined_reads index    a kernel looks its indices up in such a tensor
 *     undefined_reads none     a training step that reads only what was written */
#include <stdio.h>
#include <string.h>

#include <tern/tern.h>

static void copy(tern_dev_t dev)
{
    /* integers: with assertions tern_empty writes NaN into floats */
    tern_tensor *x = tern_empty(TERN_SHAPE(10), .dtype = TERN_I32, .device = dev);
    tern_tensor *here = tern_cpu(x);
    (void)here;
}

static void look_up(tern_dev_t dev)
{
    tern_tensor *indices = tern_empty(TERN_SHAPE(4), .dtype = TERN_I64, .device = dev);
    (void)tern_embedding(tern_ones(TERN_SHAPE(8, 4), .device = dev), indices);
    (void)tern_dev_synchronize(dev);
}

static void train(tern_dev_t dev)
{
    tern_module *net = tern_sequential(
        tern_conv2d_layer(1, 3, 3, .padding = 1), tern_relu_layer(), tern_max_pool2d_layer(2),
        tern_flatten_layer(), tern_linear_layer(48, 16), tern_layer_norm_layer(16),
        tern_gelu_layer(), tern_dropout_layer(0.25), tern_linear_layer(16, 10));
    tern_module_to(net, dev);
    tern_optimizer *opt = tern_adam(tern_parameters(net), .lr = 1e-3);
    tern_tensor *x = tern_randn(TERN_SHAPE(5, 1, 8, 8), .device = dev);
    tern_tensor *y = tern_arange(0, 5, .dtype = TERN_I64, .device = dev);
    for (int step = 0; step < 2; step++) {
        TERN_SCOPE;
        tern_tensor *loss = tern_cross_entropy(tern_forward(net, x), y);
        tern_backward(loss);
        (void)tern_clip_grad_norm(tern_parameters(net), 1.0);
        tern_step(opt);
        tern_zero_grad(opt);
        printf("%.3f\n", tern_item(loss));
    }
    tern_optimizer_free(opt);
    tern_module_free(net);
}

int main(int argc, char **argv)
{
#if !TERN_HAVE_VALGRIND
    puts("tern: cannot be watched: the simulator was built without valgrind's header");
#endif
    const char *what = argc > 1 ? argv[1] : "none";
    const tern_dev_t dev = TERN_CUDA(0);
    TERN_SCOPE;
    if (strcmp(what, "copy") == 0)
        copy(dev);
    else if (strcmp(what, "index") == 0)
        look_up(dev);
    else
        train(dev);
    return tern_finish();
}
