/* Pitfall 6, right: other work first, then a wait for the event behind the copy. */
#include <stdlib.h>
#include <tern/tern.h>

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_dev_t dev = TERN_CUDA(0);
    tern_tensor *x = tern_full(3, TERN_SHAPE(1000), .device = dev);
    tern_tensor *y = tern_mul(x, x);

    tern_tensor *back = tern_to(y, TERN_CPU, .non_blocking = true);
    tern_event *copied = tern_event_create();
    tern_event_record(copied, tern_current_stream(dev));
    tern_tensor *z = tern_mul(y, x); /* the host goes on, and so does the device */
    tern_event_synchronize(copied);
    tern_event_release(copied);
    const float *values = tern_data_as(float, back);
    printf("3 * 3 = %g, 3 * 3 * 3 = %g\n", (double)values[0], tern_item(tern_mean(z)));
    return tern_finish();
}
