/* Pitfall 9, right: results say where they come from, and why. (To stop instead, set
 * TERN_DEVICE_POLICY=require, or tern_set_device_policy(TERN_REQUIRE).) */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0);      /* simulated devices, on any machine */
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1); /* a list that hides them */

    char name[TERN_DEV_NAME_BYTES];
    tern_fallback_t why;
    tern_dev_t dev = TERN_CUDA(0);
    if (tern_dev_fallback(&why)) {
        printf("no CUDA: %s [%s]\nnext: %s\n", why.text, why.code, why.next_step);
        dev = TERN_CPU;
    }
    tern_tensor *x = tern_randn(TERN_SHAPE(64, 784), .device = dev);
    tern_tensor *y = tern_matmul(x, tern_ones(TERN_SHAPE(784, 10), .device = dev));
    printf("%lld results, computed on %s\n", (long long)tern_numel(y),
           tern_dev_name(tern_device(y), name));
    return tern_finish();
}
