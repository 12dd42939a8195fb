/* Pitfall 10, right: each stream waits for the one whose results it uses. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_dev_t dev = TERN_CUDA(0);
    tern_stream_t side = tern_stream_from_pool(dev), usual = tern_default_stream(dev);

    tern_tensor *x = tern_ones(TERN_SHAPE(1000), .device = dev), *y = NULL;
    tern_stream_wait_stream(side, usual); /* x is made there */
    {
        TERN_STREAM(side);
        y = tern_mul(x, 3);
    }
    tern_record_stream(x, side); /* its memory is not used again before side is done with it */
    tern_record_stream(y, usual);
    tern_stream_wait_stream(usual, side);
    printf("1000 * 3 = %g\n", tern_item(tern_sum(y)));
    return tern_finish();
}
