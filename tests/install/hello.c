/* The first program of the guide, built outside the tree against the installed library. */
#include <tern/tern.h>

int main(void)
{
    tern_dev_t dev = tern_dev_auto();
    tern_tensor *a = tern_randn(TERN_SHAPE(100, 100), .device = dev);
    tern_tensor *b = tern_randn(TERN_SHAPE(100, 100), .device = dev);
    tern_tensor *c = tern_matmul(a, b);
    tern_print(c);
    return tern_finish();
}
