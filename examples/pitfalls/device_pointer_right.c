/* Pitfall 5, right: tern_data_as, which gives host pointers only, on a copy. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_seed(1);
    tern_tensor *x = tern_randn(TERN_SHAPE(4, 5), .device = TERN_CUDA(0));

    const float *values = tern_data_as(float, tern_cpu(x)); /* lives until x's scope ends */
    if (values != NULL)
        printf("the eleventh value: %.3f\n", (double)values[10]);
    return tern_finish();
}
