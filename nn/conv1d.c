/* Layers of sequences and of transposed convolution. */
#include <math.h>
#include <stdio.h>

#include "nn/internal.h"

/* What convolutions are made with, for the checks and the text that they share. */
typedef struct conv_options {
    int64_t in, out, kernel, stride, padding, dilation, output_padding, groups;
    bool transposed;
} conv_options;

typedef struct conv1d_layer {
    tern_module base;
    tern_conv1d_args op; /* all but x */
    conv_options options;
} conv1d_layer;

typedef struct conv_transpose_layer {
    tern_module base;
    tern_conv_transpose1d_args line; /* one of the two: all but x */
    tern_conv_transpose2d_args image;
    conv_options options;
} conv_transpose_layer;

static bool check(tern_site_t site, const char *what, conv_options *o)
{
    o->stride = nn_given(o->stride, 1);
    o->padding = nn_given(o->padding, 0);
    o->dilation = nn_given(o->dilation, 1);
    o->output_padding = nn_given(o->output_padding, 0);
    o->groups = nn_given(o->groups, 1);
    if (!nn_require_positive(site, what, "in", o->in) ||
        !nn_require_positive(site, what, "out", o->out) ||
        !nn_require_positive(site, what, "kernel", o->kernel) ||
        !nn_require_positive(site, what, "stride", o->stride) ||
        !nn_require_positive(site, what, "dilation", o->dilation) ||
        !nn_require_positive(site, what, "groups", o->groups))
        return false;
    if (o->padding < 0)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "'padding' is %lld: it must not be negative",
                     (long long)o->padding);
    if (o->output_padding < 0 ||
        (o->output_padding >= o->stride && o->output_padding >= o->dilation))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "'output_padding' is %lld: it must be from 0 to below the stride of %lld or "
                     "the dilation of %lld",
                     (long long)o->output_padding, (long long)o->stride, (long long)o->dilation);
    if (o->in % o->groups != 0 || o->out % o->groups != 0)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "groups = %lld must divide in = %lld and out = %lld", (long long)o->groups,
                     (long long)o->in, (long long)o->out);
    return !tern_failed();
}

static void write_options(const conv_options *o, bool has_bias, char *buffer, size_t bytes)
{
    snprintf(buffer, bytes,
             "in=%lld, out=%lld, kernel=%lld, stride=%lld, padding=%lld, dilation=%lld, "
             "groups=%lld",
             (long long)o->in, (long long)o->out, (long long)o->kernel, (long long)o->stride,
             (long long)o->padding, (long long)o->dilation, (long long)o->groups);
    if (o->output_padding != 0)
        nn_describe_more(buffer, bytes, ", output_padding=%lld", (long long)o->output_padding);
    if (!has_bias)
        nn_describe_more(buffer, bytes, ", no bias");
}

/* Adds weight and bias to a layer that has them in these fields: [a, b, kernel], or with a second kernel. */
static void add_parameters(tern_module *m, const conv_options *o, nn_origin origin, int dims,
                           bool no_bias, tern_tensor **weight, tern_tensor **bias)
{
    const int64_t rows = o->transposed ? o->in : o->out;
    const int64_t depth = (o->transposed ? o->out : o->in) / o->groups;
    const double cells = dims == 2 ? (double)o->kernel * (double)o->kernel : (double)o->kernel;
    const double bound = 1 / sqrt((double)depth * cells);
    nn_uniform_parameter(m, "weight",
                         dims == 2 ? TERN_SHAPE(rows, depth, o->kernel, o->kernel)
                                   : TERN_SHAPE(rows, depth, o->kernel),
                         origin, bound);
    if (!no_bias)
        nn_uniform_parameter(m, "bias", TERN_SHAPE(o->out), origin, bound);
    nn_bind_tensor(m, "weight", weight);
    nn_bind_tensor(m, "bias", bias);
}

/* ---- conv1d ----------------------------------------------------------------------------------- */

static tern_tensor *forward(tern_module *self, tern_tensor *x)
{
    tern_conv1d_args args = ((const conv1d_layer *)self)->op;
    args.x = x;
    return tern_conv1d_at(TERN_HERE, &args);
}

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const conv1d_layer *layer = (const conv1d_layer *)self;
    write_options(&layer->options, layer->op.bias != NULL, buffer, bytes);
}

tern_module *tern_conv1d_layer_at(tern_site_t site, const tern_conv1d_layer_args *given)
{
    NN_ARGS(site, "conv1d_layer", tern_conv1d_layer_args, args, given);
    conv_options o = { args.in,       args.out, args.kernel, args.stride, args.padding,
                       args.dilation, 0,        args.groups, false };
    if (!args_given || !check(site, "conv1d_layer", &o))
        return NULL;
    nn_frame frame = nn_layer_begin(site, "conv1d_layer");
    conv1d_layer *layer =
        (conv1d_layer *)tern_module_create_at(site, sizeof *layer, "conv1d", forward);
    if (layer) {
        layer->base.describe = describe;
        layer->options = o;
        layer->op = (tern_conv1d_args){ .size_ = sizeof layer->op,
                                        .stride = o.stride,
                                        .padding = o.padding,
                                        .dilation = o.dilation,
                                        .groups = o.groups };
        add_parameters(&layer->base, &o, (nn_origin){ args.device, args.dtype, args.generator }, 1,
                       args.no_bias, &layer->op.weight, &layer->op.bias);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}

/* ---- transposed ------------------------------------------------------------------------------- */

static tern_tensor *forward_line(tern_module *self, tern_tensor *x)
{
    tern_conv_transpose1d_args args = ((const conv_transpose_layer *)self)->line;
    args.x = x;
    return tern_conv_transpose1d_at(TERN_HERE, &args);
}

static tern_tensor *forward_image(tern_module *self, tern_tensor *x)
{
    tern_conv_transpose2d_args args = ((const conv_transpose_layer *)self)->image;
    args.x = x;
    return tern_conv_transpose2d_at(TERN_HERE, &args);
}

static void describe_transposed(const tern_module *self, char *buffer, size_t bytes)
{
    const conv_transpose_layer *layer = (const conv_transpose_layer *)self;
    write_options(&layer->options, layer->line.bias || layer->image.bias, buffer, bytes);
}

static tern_module *make_transposed(tern_site_t site, const char *type, int dims,
                                    const tern_conv_transpose_layer_args *given)
{
    char what[32];
    (void)snprintf(what, sizeof what, "%s_layer", type);
    NN_ARGS(site, what, tern_conv_transpose_layer_args, args, given);
    conv_options o = { args.in,      args.out,      args.kernel,         args.stride,
                       args.padding, args.dilation, args.output_padding, args.groups,
                       true };
    if (!args_given || !check(site, what, &o))
        return NULL;
    nn_frame frame = nn_layer_begin(site, what);
    conv_transpose_layer *layer = (conv_transpose_layer *)tern_module_create_at(
        site, sizeof *layer, type, dims == 2 ? forward_image : forward_line);
    if (layer) {
        layer->base.describe = describe_transposed;
        layer->options = o;
        layer->line = (tern_conv_transpose1d_args){
            sizeof layer->line, NULL,     NULL,      NULL, o.stride, o.padding,
            o.output_padding,   o.groups, o.dilation
        };
        layer->image = (tern_conv_transpose2d_args){ .size_ = sizeof layer->image,
                                                     .stride = { o.stride },
                                                     .padding = { o.padding },
                                                     .output_padding = { o.output_padding },
                                                     .groups = o.groups,
                                                     .dilation = { o.dilation } };
        const bool is_image = dims == 2;
        add_parameters(&layer->base, &o, (nn_origin){ args.device, args.dtype, args.generator },
                       dims, args.no_bias, is_image ? &layer->image.weight : &layer->line.weight,
                       is_image ? &layer->image.bias : &layer->line.bias);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}

tern_module *tern_conv_transpose1d_layer_at(tern_site_t site,
                                            const tern_conv_transpose_layer_args *args)
{
    return make_transposed(site, "conv_transpose1d", 1, args);
}

tern_module *tern_conv_transpose2d_layer_at(tern_site_t site,
                                            const tern_conv_transpose_layer_args *args)
{
    return make_transposed(site, "conv_transpose2d", 2, args);
}
