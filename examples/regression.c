/* The smallest complete program that learns: a network of 32 hidden units finds the curve behind 200
 * noisy points, which are drawn together at the end. */
#include <stdio.h>
#include <tern/tern.h>

#include "common/plot.h"

enum { POINTS = 200, STEPS = 600 };

int main(void)
{
    tern_dev_t dev = tern_dev_auto();
    tern_seed(1);
    tern_tensor *x = tern_mul(tern_randn(TERN_SHAPE(POINTS, 1), .device = dev), 1.2);
    tern_tensor *curve = tern_mul(tern_mul(x, 2.0), tern_exp(tern_mul(tern_mul(x, x), -0.5)));
    tern_tensor *noise = tern_randn(TERN_SHAPE(POINTS, 1), .device = dev);
    tern_tensor *y = tern_add(curve, tern_mul(noise, 0.1));

    tern_module *net =
        tern_sequential(tern_linear_layer(1, 32), tern_tanh_layer(), tern_linear_layer(32, 1));
    tern_module_to(net, dev);
    tern_optimizer *opt = tern_adam(tern_parameters(net), .lr = 0.01);
    for (int step = 1; step <= STEPS; step++) {
        TERN_SCOPE;
        tern_tensor *loss = tern_mse_loss(tern_forward(net, x), y, TERN_MEAN);
        tern_backward(loss);
        tern_step(opt);
        tern_zero_grad(opt);
        if (step % 100 == 0) {
            printf("step %d: loss %.4f\n", step, tern_item(loss));
        }
    }

    float xs[POINTS], ys[POINTS], fit[POINTS];
    tern_read(x, TERN_F32, xs, sizeof xs);
    tern_read(y, TERN_F32, ys, sizeof ys);
    tern_read(tern_forward(net, x), TERN_F32, fit, sizeof fit);
    if (!tern_failed()) {
        example_plot(&(example_plot_data){ POINTS, xs, ys, fit, "regression.svg" });
    }
    return tern_finish() != 0 || fflush(stdout) != 0;
}
