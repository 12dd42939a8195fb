/* Pitfall 4, right: move first, step later; or move the state, too. */
#include <stdlib.h>
#include <tern/tern.h>

static void train_step(tern_module *net, tern_optimizer *opt, tern_dev_t dev)
{
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(32, 20), .device = dev);
    tern_backward(tern_mean(tern_pow(tern_forward(net, x), 2)));
    tern_step(opt);
    tern_zero_grad(opt);
}

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_module *net = tern_linear_layer(20, 10);
    tern_optimizer *opt = tern_adam(tern_parameters(net), .lr = 1e-3);
    train_step(net, opt, TERN_CPU);

    tern_module_to(net, TERN_CUDA(0)); /* in place: the optimizer still has the parameters */
    tern_optimizer_move(opt);          /* and now its state is beside them */
    train_step(net, opt, TERN_CUDA(0));
    if (!tern_failed())
        puts("one step on each device");
    return tern_finish();
}
