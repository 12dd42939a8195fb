/* Pitfall 3: the result of tern_to is thrown away. A tensor is not moved: a copy is made. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_dev_t dev = TERN_CUDA(0);
    tern_tensor *w = tern_randn(TERN_SHAPE(784, 10), .device = dev);

    tern_tensor *x = tern_randn(TERN_SHAPE(64, 784));
    tern_to(x, dev); /* x stays where it is; the compiler warns of this line */
    tern_tensor *y = tern_matmul(x, w);
    if (y != NULL)
        tern_print(y);
    return tern_finish();
}
