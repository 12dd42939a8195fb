/* Pitfall 8: the whole data set goes to the device in every epoch. */
#include <stdlib.h>
#include <tern/tern.h>

enum { EPOCHS = 10, SAMPLES = 2000, FEATURES = 64 };

static double mean_of_products(tern_tensor *data, tern_tensor *w)
{
    return tern_item(tern_mean(tern_matmul(data, w)));
}

int main(void)
{
    setenv("TERN_SIM_DEVICES", "2", 0); /* simulated devices, on any machine */
    tern_dev_t dev = TERN_CUDA(0);
    tern_tensor *data = tern_randn(TERN_SHAPE(SAMPLES, FEATURES));
    tern_tensor *w = tern_ones(TERN_SHAPE(FEATURES, 1), .device = dev);
    double sum = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        TERN_SCOPE;
        sum += mean_of_products(tern_to(data, dev), w);
    }
    char text[2000];
    printf("%.3f\n%s", sum / EPOCHS, tern_transfers_text(text, sizeof text));
    return tern_finish();
}
