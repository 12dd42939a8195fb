/* Pitfall 1, right: every tensor is made where it is used. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_dev_t dev = TERN_CUDA(0);

    tern_set_default_device(dev); /* or .device = dev in each call */
    tern_tensor *x = tern_randn(TERN_SHAPE(64, 784));
    tern_tensor *w = tern_randn(TERN_SHAPE(784, 128));
    tern_tensor *y = tern_relu(tern_matmul(x, w));
    char name[TERN_DEV_NAME_BYTES];
    if (y != NULL)
        printf("y lies on %s\n", tern_dev_name(tern_device(y), name));
    return tern_finish();
}
