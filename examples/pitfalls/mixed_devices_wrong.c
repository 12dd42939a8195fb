/* Pitfall 1: two tensors meet that lie on different devices. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_dev_t dev = TERN_CUDA(0);

    tern_tensor *x = tern_randn(TERN_SHAPE(64, 784)); /* the default device: the CPU */
    tern_tensor *w = tern_randn(TERN_SHAPE(784, 128), .device = dev);
    tern_tensor *y = tern_relu(tern_matmul(x, w)); /* nothing runs after the first error */
    if (y != NULL)
        tern_print(y);
    return tern_finish(); /* prints the error */
}
