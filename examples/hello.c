/* The first program: two random matrices and their product, on the GPU where there is one. */
#include <stdio.h>
#include <tern/tern.h>

int main(void)
{
    tern_dev_t dev = tern_dev_auto(); /* cuda:0, or the CPU and one line that says why */
    tern_tensor *a = tern_randn(TERN_SHAPE(1000, 1000), .device = dev);
    tern_tensor *b = tern_randn(TERN_SHAPE(1000, 1000), .device = dev);
    tern_tensor *c = tern_matmul(a, b);
    tern_print(c); /* shape, dtype, device, a few values: the copy to the CPU is its own */
    /* releases all, reports a pending error or a leak; a full disk is no run that went well either */
    return tern_finish() != 0 || fflush(stdout) != 0;
}
