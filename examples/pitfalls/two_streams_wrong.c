/* Pitfall 10: one stream makes a tensor, another one uses it, and nothing orders them. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_dev_t dev = TERN_CUDA(0);
    tern_stream_t side = tern_stream_from_pool(dev);

    tern_tensor *x = tern_ones(TERN_SHAPE(1000), .device = dev), *y = NULL;
    {
        TERN_STREAM(side); /* to the end of the block work goes there */
        y = tern_mul(x, 3);
    }
    tern_tensor *sum = tern_sum(y); /* on the default stream, perhaps before y is made */
    printf("1000 * 3 = %g\n", tern_item(sum));
    return tern_finish();
}
