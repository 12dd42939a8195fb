/* Pitfall 7, right: the sum stays on the device and is read once. tern_loader_report does it so. */
#include <stdlib.h>
#include <tern/tern.h>

enum { STEPS = 50 };

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_set_default_device(TERN_CUDA(0));
    tern_module *net = tern_linear_layer(20, 1);
    tern_optimizer *opt = tern_sgd(tern_parameters(net), .lr = 0.01);
    tern_tensor *sum = tern_zeros(TERN_SCALAR_SHAPE);
    for (int i = 0; i < STEPS; i++) {
        TERN_SCOPE;
        tern_tensor *y = tern_forward(net, tern_randn(TERN_SHAPE(8, 20)));
        tern_tensor *loss = tern_mean(tern_mul(y, y));
        tern_backward(loss);
        tern_step(opt);
        tern_zero_grad(opt);
        tern_add_(sum, tern_detach(loss)); /* queued like any other work */
    }
    char text[2000];
    printf("mean loss %.3f\n", tern_item(sum) / STEPS);
    fputs(tern_transfers_text(text, sizeof text), stdout);
    return tern_finish();
}
