/* Pitfall 3, right: the name goes on with the copy. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_dev_t dev = TERN_CUDA(0);
    tern_tensor *w = tern_randn(TERN_SHAPE(784, 10), .device = dev);

    tern_tensor *x = tern_randn(TERN_SHAPE(64, 784));
    x = tern_to(x, dev);
    tern_tensor *y = tern_matmul(x, w);
    char name[TERN_DEV_NAME_BYTES];
    if (y != NULL)
        printf("y lies on %s\n", tern_dev_name(tern_device(y), name));
    return tern_finish();
}
