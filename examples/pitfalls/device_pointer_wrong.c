/* Pitfall 5: the host follows a pointer into a device's memory. On a real GPU that is a bare crash. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_tensor *x = tern_randn(TERN_SHAPE(4, 5), .device = TERN_CUDA(0));

    const float *values = tern_data_ptr(x); /* an address of the device, for kernels */
    printf("the eleventh value: %g\n", (double)values[10]);
    return tern_finish();
}
