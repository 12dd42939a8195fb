/* Pitfall 9: no device is visible (here by this program itself, else by a batch system or a profile).
 * Elsewhere such a program would run on the CPU without a word; here one line on stderr says why. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0);      /* simulated devices, on any machine */
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1); /* a list that hides them */

    tern_tensor *x = tern_randn(TERN_SHAPE(64, 784), .device = TERN_CUDA(0));
    tern_tensor *y = tern_matmul(x, tern_ones(TERN_SHAPE(784, 10), .device = TERN_CUDA(0)));
    printf("%lld results, computed on the GPU\n", (long long)tern_numel(y)); /* is that so? */
    return tern_finish();
}
