/* Trains ResNet-20 (He et al. 2015) on CIFAR-10, or on drawn pictures: three stages of three blocks, SGD
 * with momentum and a cosine. --augment moves and mirrors the images. Options: --help. */
#include "common/common.h"

/* Two convolutions that the input goes around: relu(x + f(x)). */
typedef struct block {
    tern_module base;
    tern_module *conv1, *bn1, *conv2, *bn2;
    tern_module *shortcut; /* brings x to the result's shape; NULL: it has it */
} block;

static tern_tensor *block_forward(tern_module *self, tern_tensor *x)
{
    const block *b = (const block *)self;
    tern_tensor *y = tern_relu(tern_forward(b->bn1, tern_forward(b->conv1, x)));
    y = tern_forward(b->bn2, tern_forward(b->conv2, y));
    return tern_relu(tern_add(y, b->shortcut ? tern_forward(b->shortcut, x) : x));
}

static tern_module *make_block(int64_t in, int64_t out, int64_t stride)
{
    block *b = TERN_MODULE(block, block_forward);
    TERN_CHILD(b, conv1,
               tern_conv2d_layer(in, out, 3, .stride = stride, .padding = 1, .no_bias = true));
    TERN_CHILD(b, bn1, tern_batch_norm2d_layer(out));
    TERN_CHILD(b, conv2, tern_conv2d_layer(out, out, 3, .padding = 1, .no_bias = true));
    TERN_CHILD(b, bn2, tern_batch_norm2d_layer(out));
    if (in != out)
        TERN_CHILD(b, shortcut,
                   tern_sequential(tern_conv2d_layer(in, out, 1, .stride = stride, .no_bias = true),
                                   tern_batch_norm2d_layer(out)));
    return b ? &b->base : NULL;
}

static tern_module *make_net(void)
{
    tern_module *net = tern_sequential(tern_conv2d_layer(3, 16, 3, .padding = 1, .no_bias = true),
                                       tern_batch_norm2d_layer(16), tern_relu_layer());
    int64_t in = 16;
    for (int64_t out = 16; out <= 64; out *= 2)
        for (int i = 0; i < 3; i++, in = out)
            tern_sequential_add(net, NULL, make_block(in, out, in == out ? 1 : 2));
    tern_sequential_add(net, NULL, tern_avg_pool2d_layer(8));
    tern_sequential_add(net, NULL, tern_flatten_layer());
    tern_sequential_add(net, NULL, tern_linear_layer(64, 10));
    return net;
}

int main(int argc, char **argv)
{
    example run =
        example_start(argc, argv, .epochs = 20, .batch = 128, .lr = 0.1, .kind = EXAMPLE_PICTURES);
    tern_dataset *train = example_data(&run, TERN_TRAIN);
    tern_dataset *test = example_data(&run, TERN_TEST);

    tern_module *net = make_net();
    tern_module_to(net, run.device);
    tern_optimizer *opt =
        tern_sgd(tern_parameters(net), .lr = run.lr, .momentum = 0.9, .weight_decay = 1e-4);
    tern_schedule *rate = tern_cosine_schedule(opt, .steps = example_planned_steps(&run, train));
    example_resume(&run, net, opt, rate);

    while (example_next_epoch(&run)) {
        tern_loader *batches =
            tern_loader_open(train, .batch = run.batch, .shuffle = true, .device = run.device,
                             .augment = { .crop = run.augment ? 4 : 0, .flip = run.augment },
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
            tern_scaler_step(run.scaler, opt);
            tern_scaler_update(run.scaler);
            tern_schedule_step(rate);
            tern_zero_grad(opt);
            tern_loader_report(batches, "loss", loss);
        }
        example_end_epoch(&run, batches, net, test);
    }
    return example_finish(&run, net, test);
}
