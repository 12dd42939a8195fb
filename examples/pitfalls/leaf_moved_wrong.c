/* Pitfall 11: the copy of a leaf is no leaf, and only leaves keep a gradient. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_dev_t dev = TERN_CUDA(0);
    tern_tensor *x = tern_randn(TERN_SHAPE(64, 784), .device = dev);

    tern_tensor *w = tern_to(tern_randn(TERN_SHAPE(784, 10), .requires_grad = true), dev);
    tern_backward(tern_mean(tern_square(tern_matmul(x, w))));
    tern_tensor *step = tern_mul(tern_grad_of(w), 0.1);
    if (step != NULL)
        printf("a step for %lld weights\n", (long long)tern_numel(step));
    return tern_finish();
}
