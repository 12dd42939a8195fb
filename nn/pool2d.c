/* Pooling layers. */
#include <stdio.h>

#include "nn/internal.h"

typedef struct pool2d_layer {
    tern_module base;
    tern_pool2d_args op; /* all but x */
} pool2d_layer;

static tern_tensor *forward_max(tern_module *self, tern_tensor *x)
{
    tern_pool2d_args args = ((const pool2d_layer *)self)->op;
    args.x = x;
    return tern_max_pool2d_at(TERN_HERE, &args);
}

static tern_tensor *forward_avg(tern_module *self, tern_tensor *x)
{
    tern_pool2d_args args = ((const pool2d_layer *)self)->op;
    args.x = x;
    return tern_avg_pool2d_at(TERN_HERE, &args);
}

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const tern_pool2d_args *op = &((const pool2d_layer *)self)->op;
    snprintf(buffer, bytes, "kernel=%lldx%lld, stride=%lldx%lld, padding=%lldx%lld",
             (long long)op->kernel[0], (long long)op->kernel[1], (long long)op->stride[0],
             (long long)op->stride[1], (long long)nn_given(op->padding[0], 0),
             (long long)nn_given(op->padding[1], 0));
    if (nn_given(op->dilation[0], 1) != 1 || nn_given(op->dilation[1], 1) != 1)
        nn_describe_more(buffer, bytes, ", dilation=%lldx%lld", (long long)op->dilation[0],
                         (long long)op->dilation[1]);
    if (op->ceil_mode)
        nn_describe_more(buffer, bytes, ", ceil mode");
    if (op->exclude_pad)
        nn_describe_more(buffer, bytes, ", exclude pad");
}

static bool check(tern_site_t site, const char *what, tern_pool2d_layer_args *args, bool is_max)
{
    if (!is_max && (args->dilation || args->dilation_w))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "'dilation' is for max pooling only");
    if (is_max && args->exclude_pad)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "'exclude_pad' is for average pooling only");
    args->kernel_w = nn_given(args->kernel_w, args->kernel);
    args->stride_w = nn_given(args->stride_w, nn_given(args->stride, args->kernel_w));
    args->stride = nn_given(args->stride, args->kernel);
    args->dilation = nn_given(args->dilation, 1);
    args->dilation_w = nn_given(args->dilation_w, args->dilation);
    args->padding = nn_given(args->padding, 0);
    args->padding_w = nn_given(args->padding_w, args->padding);
    nn_require_positive(site, what, "kernel", args->kernel);
    nn_require_positive(site, what, "kernel_w", args->kernel_w);
    nn_require_positive(site, what, "stride", args->stride);
    nn_require_positive(site, what, "stride_w", args->stride_w);
    nn_require_positive(site, what, "dilation", args->dilation);
    nn_require_positive(site, what, "dilation_w", args->dilation_w);
    if (args->padding < 0 || args->padding > args->kernel / 2 || args->padding_w < 0 ||
        args->padding_w > args->kernel_w / 2)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "'padding' must be from 0 to half of the kernel");
    return !tern_failed();
}

static tern_module *make(tern_site_t site, const char *type, tern_forward_fn forward,
                         const tern_pool2d_layer_args *given)
{
    char what[32];
    (void)snprintf(what, sizeof what, "%s_layer", type);
    NN_ARGS(site, what, tern_pool2d_layer_args, args, given);
    if (!args_given || !check(site, what, &args, forward == forward_max))
        return NULL;
    pool2d_layer *layer = (pool2d_layer *)tern_module_create_at(site, sizeof *layer, type, forward);
    if (!layer)
        return NULL;
    layer->base.describe = describe;
    layer->op = (tern_pool2d_args){ .size_ = sizeof layer->op,
                                    .kernel = { args.kernel, args.kernel_w },
                                    .stride = { args.stride, args.stride_w },
                                    .padding = { nn_exact(args.padding), nn_exact(args.padding_w) },
                                    .ceil_mode = args.ceil_mode,
                                    .exclude_pad = args.exclude_pad };
    if (forward == forward_max) {
        layer->op.dilation[0] = args.dilation;
        layer->op.dilation[1] = args.dilation_w;
    }
    return &layer->base;
}

tern_module *tern_max_pool2d_layer_at(tern_site_t site, const tern_pool2d_layer_args *args)
{
    return make(site, "max_pool2d", forward_max, args);
}

tern_module *tern_avg_pool2d_layer_at(tern_site_t site, const tern_pool2d_layer_args *args)
{
    return make(site, "avg_pool2d", forward_avg, args);
}
