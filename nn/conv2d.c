/* Convolution layer. */
#include <math.h>
#include <stdio.h>

#include "nn/internal.h"

typedef struct conv2d_layer {
    tern_module base;
    tern_conv2d_args op; /* all but x */
    tern_conv2d_layer_args args;
} conv2d_layer;

static tern_tensor *forward(tern_module *self, tern_tensor *x)
{
    tern_conv2d_args args = ((const conv2d_layer *)self)->op;
    args.x = x;
    return tern_conv2d_at(TERN_HERE, &args);
}

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const conv2d_layer *layer = (const conv2d_layer *)self;
    const tern_conv2d_args *op = &layer->op;
    snprintf(buffer, bytes,
             "in=%lld, out=%lld, kernel=%lldx%lld, stride=%lldx%lld, padding=%lldx%lld, "
             "dilation=%lldx%lld, groups=%lld%s",
             (long long)layer->args.in, (long long)layer->args.out, (long long)layer->args.kernel,
             (long long)layer->args.kernel_w, (long long)op->stride[0], (long long)op->stride[1],
             (long long)nn_given(op->padding[0], 0), (long long)nn_given(op->padding[1], 0),
             (long long)op->dilation[0], (long long)op->dilation[1], (long long)op->groups,
             op->bias ? "" : ", no bias");
}

static bool check(tern_site_t site, tern_conv2d_layer_args *args)
{
    static const char what[] = "conv2d_layer";
    args->stride = nn_given(args->stride, 1);
    args->padding = nn_given(args->padding, 0);
    args->dilation = nn_given(args->dilation, 1);
    args->groups = nn_given(args->groups, 1);
    args->kernel_w = nn_given(args->kernel_w, args->kernel);
    args->stride_w = nn_given(args->stride_w, args->stride);
    args->padding_w = nn_given(args->padding_w, args->padding);
    args->dilation_w = nn_given(args->dilation_w, args->dilation);
    if (!nn_require_positive(site, what, "in", args->in) ||
        !nn_require_positive(site, what, "out", args->out) ||
        !nn_require_positive(site, what, "kernel", args->kernel) ||
        !nn_require_positive(site, what, "kernel_w", args->kernel_w) ||
        !nn_require_positive(site, what, "stride", args->stride) ||
        !nn_require_positive(site, what, "stride_w", args->stride_w) ||
        !nn_require_positive(site, what, "dilation", args->dilation) ||
        !nn_require_positive(site, what, "dilation_w", args->dilation_w) ||
        !nn_require_positive(site, what, "groups", args->groups))
        return false;
    if (args->padding < 0 || args->padding_w < 0)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "'padding' is %lld, %lld: it must not be negative", (long long)args->padding,
                     (long long)args->padding_w);
    if (args->in % args->groups != 0 || args->out % args->groups != 0)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "groups = %lld must divide in = %lld and out = %lld", (long long)args->groups,
                     (long long)args->in, (long long)args->out);
    return !tern_failed();
}

static void add_parameters(conv2d_layer *layer)
{
    const tern_conv2d_layer_args *args = &layer->args;
    const nn_origin origin = { args->device, args->dtype, args->generator };
    const int64_t depth = args->in / args->groups;
    const double bound = 1 / sqrt((double)depth * (double)args->kernel * (double)args->kernel_w);
    tern_module *m = &layer->base;
    nn_uniform_parameter(m, "weight", TERN_SHAPE(args->out, depth, args->kernel, args->kernel_w),
                         origin, bound);
    if (!args->no_bias)
        nn_uniform_parameter(m, "bias", TERN_SHAPE(args->out), origin, bound);
    nn_bind_tensor(m, "weight", &layer->op.weight);
    nn_bind_tensor(m, "bias", &layer->op.bias);
}

tern_module *tern_conv2d_layer_at(tern_site_t site, const tern_conv2d_layer_args *given)
{
    NN_ARGS(site, "conv2d_layer", tern_conv2d_layer_args, args, given);
    if (!args_given || !check(site, &args))
        return NULL;
    nn_frame frame = nn_layer_begin(site, "conv2d_layer");
    conv2d_layer *layer =
        (conv2d_layer *)tern_module_create_at(site, sizeof *layer, "conv2d", forward);
    if (layer) {
        layer->base.describe = describe;
        layer->args = args;
        layer->op =
            (tern_conv2d_args){ .size_ = sizeof layer->op,
                                .stride = { args.stride, args.stride_w },
                                .padding = { nn_exact(args.padding), nn_exact(args.padding_w) },
                                .dilation = { args.dilation, args.dilation_w },
                                .groups = args.groups };
        add_parameters(layer);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}
