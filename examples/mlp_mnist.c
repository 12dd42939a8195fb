/* Trains a perceptron with two hidden layers on MNIST (or on the built-in digits): 784-512-512-10,
 * Adam with a cosine. Options: --help. */
#include "common/common.h"

static tern_module *make_net(void)
{
    return tern_sequential(tern_flatten_layer(), tern_linear_layer(784, 512), tern_relu_layer(),
                           tern_linear_layer(512, 512), tern_relu_layer(),
                           tern_linear_layer(512, 10));
}

int main(int argc, char **argv)
{
    example run = example_start(argc, argv, .epochs = 5, .batch = 128, .lr = 1e-3);
    tern_dataset *train = example_data(&run, TERN_TRAIN);
    tern_dataset *test = example_data(&run, TERN_TEST);

    tern_module *net = make_net();
    tern_module_to(net, run.device);
    tern_optimizer *opt = tern_adam(tern_parameters(net), .lr = run.lr);
    int64_t steps = example_planned_steps(&run, train);
    tern_schedule *rate = tern_cosine_schedule(opt, .steps = steps);
    example_resume(&run, net, opt, rate); /* --load: goes on where --save stopped */

    while (example_next_epoch(&run)) {
        tern_loader *batches =
            tern_loader_open(train, .batch = run.batch, .shuffle = true, .device = run.device,
                             .epoch_steps = run.epoch_steps, .progress = true, .quiet = run.quiet,
                             .label = run.label);
        example_resume_epoch(&run, batches);
        tern_batch b;
        while (tern_loader_next(batches, &b)) {
            TERN_SCOPE;
            tern_tensor *loss;
            {
                TERN_SCOPE; /* the scores go before the gradients come */
                TERN_AUTOCAST(tern_device(b.x), run.low, .disabled = run.full);
                loss = tern_keep(tern_cross_entropy(tern_forward(net, b.x), b.y));
            }
            tern_backward(tern_scaler_scale(run.scaler, loss));
            tern_scaler_step(run.scaler, opt); /* --amp fp16 scales, else these only step */
            tern_scaler_update(run.scaler);
            tern_schedule_step(rate);
            tern_zero_grad(opt);
            tern_loader_report(batches, "loss", loss);
        }
        example_end_epoch(&run, batches, net, test);
    }
    return example_finish(&run, net, test);
}
