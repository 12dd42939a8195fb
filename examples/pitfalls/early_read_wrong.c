/* Pitfall 6: a copy that does not block is read before it is done. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_tensor *x = tern_full(3, TERN_SHAPE(1000), .device = TERN_CUDA(0));
    tern_tensor *y = tern_mul(x, x);

    tern_tensor *back = tern_to(y, TERN_CPU, .non_blocking = true); /* only queued */
    const float *values = tern_data_as(float, back);
    printf("3 * 3 = %g\n", (double)values[0]);
    return tern_finish();
}
