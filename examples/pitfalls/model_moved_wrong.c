/* Pitfall 2: the model was moved, its input was not. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_module *net =
        tern_sequential(tern_linear_layer(784, 128), tern_relu_layer(), tern_linear_layer(128, 10));
    tern_module_to(net, TERN_CUDA(0)); /* a module is moved in place */

    tern_tensor *x = tern_randn(TERN_SHAPE(64, 784));
    tern_tensor *scores = tern_forward(net, x);
    if (scores != NULL)
        printf("%lld scores\n", (long long)tern_numel(scores));
    return tern_finish();
}
