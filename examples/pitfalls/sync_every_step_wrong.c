/* Pitfall 7: the loss is read in every step. Each time the host waits until the device is done, and the
 * device then waits for the host. */
#include <stdlib.h>
#include <tern/tern.h>

enum { STEPS = 50 };

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_set_default_device(TERN_CUDA(0));
    tern_module *net = tern_linear_layer(20, 1);
    tern_optimizer *opt = tern_sgd(tern_parameters(net), .lr = 0.01);
    double sum = 0;
    for (int i = 0; i < STEPS; i++) {
        TERN_SCOPE;
        tern_tensor *y = tern_forward(net, tern_randn(TERN_SHAPE(8, 20)));
        tern_tensor *loss = tern_mean(tern_mul(y, y));
        tern_backward(loss);
        tern_step(opt);
        tern_zero_grad(opt);
        sum += tern_item(loss);
    }
    char text[2000];
    printf("mean loss %.3f\n%s", sum / STEPS, tern_transfers_text(text, sizeof text));
    return tern_finish();
}
