/* A network that PyTorch trained, run here: its weights from a safetensors file of the Python library,
 * by the names that PyTorch gives them. In Python:
 *
 *   net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
 *                       nn.Flatten(), nn.Linear(64, 10))
 *   safetensors.torch.save_file(net.state_dict(), "net.safetensors")
 *   safetensors.torch.save_file({"x": x, "logits": net.eval()(x)}, "sample.safetensors")
 *
 * tests/golden/make_safetensors.py made the two files beside it so. Options: both paths. */
#include <stdio.h>
#include <tern/tern.h>

static tern_module *make_net(void)
{
    return tern_sequential(tern_conv2d_layer(1, 4, 3, .padding = 1), tern_batch_norm2d_layer(4),
                           tern_relu_layer(), tern_max_pool2d_layer(2), tern_flatten_layer(),
                           tern_linear_layer(64, 10));
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s NET.safetensors SAMPLE.safetensors\n", argv[0]);
        return 2;
    }
    tern_dev_t dev = tern_dev_auto();
    tern_module *net = make_net();
    tern_module_load(net, argv[1]);
    tern_module_to(net, dev);
    tern_eval(net);

    tern_state *sample = tern_state_load(argv[2]);
    tern_tensor *x = tern_state_get(sample, "x");
    tern_tensor *expected = tern_state_get(sample, "logits");
    if (sample && (!x || !expected)) {
        tern_fail(TERN_ERR_FORMAT, "load", "'%s' holds no %s", argv[2], x ? "logits" : "x");
    }
    tern_set_grad_enabled(false);
    tern_tensor *logits = tern_forward(net, tern_to(x, dev));
    tern_tensor *difference = tern_amax(tern_abs(tern_sub(tern_cpu(logits), expected)));
    double largest = tern_item(difference);
    if (!tern_failed()) {
        tern_print(logits);
        printf("largest difference from PyTorch's logits: %.1e\n", largest);
    }
    tern_state_free(sample);
    return tern_finish() != 0 || !(largest < 1e-5) || fflush(stdout) != 0;
}
