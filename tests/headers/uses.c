/* Every macro that takes any number of arguments, with as few as it makes sense with and with options:
 * lint compiles this as strict C17 with gcc and clang. It is never run. */
#include "tern/tern.h"

static double factor(int64_t step, void *user)
{
    (void)user;
    return 1.0 / (double)(step + 1);
}

static bool fetch(void *user, int64_t index, void *x, void *y)
{
    (void)user;
    *(float *)x = (float)index;
    *(int64_t *)y = index;
    return true;
}

static void tensors(tern_dev_t dev, float *data)
{
    TERN_SCOPE;
    tern_tensor *x = tern_empty(TERN_SHAPE(2, 3));
    x = tern_zeros(TERN_SCALAR_SHAPE, TERN_F64, dev, true);
    x = tern_ones(TERN_SHAPE(2, 3), .dtype = TERN_I64, .device = dev);
    x = tern_rand(TERN_SHAPE(2), .requires_grad = true);
    x = tern_randn(TERN_SHAPE(2), .format = TERN_FORMAT_CONTIGUOUS);
    x = tern_full(1, TERN_SHAPE(2));
    x = tern_full(1, TERN_SHAPE(2), TERN_I32);
    x = tern_arange(.end = 3);
    x = tern_arange(0, 3, 1, TERN_F32, dev);
    x = tern_randperm(5);
    x = tern_randperm(5, .dtype = TERN_I32);
    x = tern_from_data(data, TERN_SHAPE(2));
    x = tern_from_data(data, TERN_SHAPE(2), .dtype = TERN_F32);
    x = tern_from_data(((int64_t[]){ 1, 2 }), TERN_SHAPE(2));
    x = tern_from_data(((const double[2][1]){ { 1 }, { 2 } }), TERN_SHAPE(2, 1));
    x = tern_from_memory(data, NULL, NULL, TERN_SHAPE(2));
    x = tern_to(x, dev);
    x = tern_to(x, dev, .non_blocking = true, .copy = true);
    x = tern_to(x, .dtype = TERN_F16);
    x = tern_view(x, TERN_SHAPE(2, 1));
    x = tern_permute(x, TERN_DIMS(1, 0));
    const float *elements = tern_data_as(float, x);
    if (elements != NULL)
        tern_print(x);
}

static void ops(tern_tensor *x, tern_tensor *w)
{
    TERN_SCOPE;
    x = tern_slice(x);
    x = tern_slice(x, 0, 1, TERN_ZERO, .step = 2);
    x = tern_cat(0, x);
    x = tern_stack(0, x, x, x);
    x = tern_sum(x);
    x = tern_mean(x, TERN_DIMS(0), .keepdim = true);
    x = tern_amax(x, .dims = TERN_DIMS(0, 1));
    x = tern_var(x, .no_correction = true);
    x = tern_conv2d(x, w);
    x = tern_conv2d(x, w, NULL, { 2, 2 }, .padding = { 1, TERN_ZERO });
    x = tern_max_pool2d(x, { 2 });
    x = tern_avg_pool2d(x, .kernel = { 2, 3 }, .stride = { 1 });
    x = tern_batch_norm(x);
    x = tern_layer_norm(x, 2, .eps = 1e-3);
    x = tern_dropout(x, 0.5);
    x = tern_cross_entropy(x, w);
    x = tern_cross_entropy(x, w, .label_smoothing = 0.1);
    x = tern_add(1, tern_mul(x, 2.0f));
    x = tern_where(w, x, true);
    tern_backward(x);
    tern_backward(x, .gradient = w, .retain_graph = true);
}

static tern_tensor *identity(tern_op_ctx *ctx, tern_tensor **in)
{
    (void)ctx;
    return in[0];
}

static tern_tensor *checked(tern_tensor *const *in, void *user)
{
    static const tern_op op = { "identity", .inputs = 1, .forward = identity };
    (void)user;
    return tern_apply(&op, in[0]);
}

static void gradients(tern_tensor *x)
{
    tern_tensor *grad = NULL;
    TERN_NO_GRAD;
    tern_grad(x, &x, 1, &grad);
    tern_grad(x, &x, 1, &grad, .create_graph = true);
    tern_gradcheck(checked, &x, 1);
    tern_gradcheck(checked, &x, 1, .order = 2);
}

static tern_module *layers(void)
{
    return tern_sequential(
        tern_sequential(), tern_linear_layer(2, 3), tern_linear_layer(2, 3, .no_bias = true),
        tern_conv2d_layer(1, 2, 3),
        tern_conv2d_layer(1, 2, 3, .padding = 1, .padding_w = TERN_ZERO),
        tern_batch_norm1d_layer(3), tern_batch_norm2d_layer(3, .eps = 1e-3), tern_relu_layer(),
        tern_layer_norm_layer(4), tern_layer_norm_layer(.shape = TERN_SHAPE(2, 3)),
        tern_embedding_layer(10, 4), tern_embedding_layer(10, 4, .dtype = TERN_F64),
        tern_max_pool2d_layer(2), tern_avg_pool2d_layer(3, 2, .exclude_pad = true));
}

static void modules(tern_module *net, tern_state *state, tern_dataset *data, tern_dev_t dev)
{
    tern_names_t missing;
    tern_module_to(net, dev);
    tern_module_to(net, .dtype = TERN_BF16);
    tern_module_restore(net, state);
    tern_module_restore(net, state, NULL);
    tern_module_restore(net, state, "model", .partial = true, .out_missing = &missing);
    tern_module_load(net, "net.safetensors");
    tern_module_load(net, "net.safetensors", .partial = true);
    tern_accuracy(net, data);
    tern_accuracy(net, data, .batch = 512);
    tern_init_kaiming_uniform(tern_parameters(net).tensors[0]);
    tern_init_xavier_normal(tern_parameters(net).tensors[0], .gain = 2);
}

static void training(tern_module *net)
{
    tern_optimizer *opt = tern_sgd(tern_parameters(net));
    opt = tern_adam(tern_parameters(net), 1e-3, .weight_decay = 1e-2);
    opt = tern_adamw(tern_parameters(net), .lr = 1e-3);
    tern_add_group(opt, tern_parameters(net));
    tern_add_group(opt, tern_parameters(net), .lr = 1);
    tern_zero_grad(opt);
    tern_zero_grad(opt, .in_place = true);
    tern_clip_grad_norm(tern_parameters(net), 1);
    tern_clip_grad_norm(tern_parameters(net), 1, .norm_type = 1);
    tern_schedule *schedule = tern_step_schedule(opt, 10);
    schedule = tern_exponential_schedule(opt, .gamma = 0.9);
    schedule = tern_cosine_schedule(opt, 10, .min_lr = 1e-5);
    schedule = tern_warmup_schedule(opt, 10, .warmup = 2);
    schedule = tern_custom_schedule(opt, .factor = factor);
    tern_schedule_step(schedule);
    tern_use_deterministic_algorithms(true, .warn_only = true);
    tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction(false, .no_splitk = true);
}

static void data(tern_tensor *x, tern_tensor *y)
{
    tern_dataset *set = tern_dataset_from_tensors(x);
    set = tern_dataset_from_tensors(x, y);
    set = tern_dataset_from_callback(10, fetch, TERN_SHAPE(1));
    set = tern_dataset_normalize(set);
    set = tern_dataset_normalize(set, .mean = { 0.5 }, .deviation = { 0.25 });
    tern_loader *loader = tern_loader_open(set);
    loader = tern_loader_open(set, 64, true, .workers = 2);
    tern_loader_close(loader);
}

int main(void)
{
    float values[2] = { 0 };
    tensors(TERN_CPU, values);
    tern_tensor *x = tern_ones(TERN_SHAPE(2));
    ops(x, x);
    gradients(x);
    tern_module *net = layers();
    modules(net, tern_state_create(), tern_digits(10, 1), TERN_CUDA(0));
    training(net);
    data(x, x);
    tern_fail(TERN_ERR_STATE, "main", "done");
    tern_fail(TERN_ERR_STATE, "main", "done %d times", 2);
    return tern_finish();
}
