/* Pitfall 4: a model is moved after its optimizer has stepped. The parameters go, the optimizer's
 * state (Adam's means) stays behind. */
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
    train_step(net, opt, TERN_CPU); /* the first step makes the state, on the CPU */

    tern_module_to(net, TERN_CUDA(0));
    train_step(net, opt, TERN_CUDA(0));
    return tern_finish();
}
