/* Group and instance norm layers. */
#include <stdio.h>

#include "nn/internal.h"

typedef struct group_norm_layer {
    tern_module base;
    tern_group_norm_args op; /* all but x */
    int64_t channels;
} group_norm_layer;

typedef struct instance_norm_layer {
    tern_module base;
    tern_instance_norm_args op; /* all but x and use_running */
    int64_t features;
} instance_norm_layer;

static bool check_channels(const char *type, const tern_tensor *x, int64_t channels)
{
    if (tern_ndim(x) >= 2 && tern_size(x, 1) == channels)
        return true;
    nn_fail_operand(TERN_ERR_SHAPE, type, "input", x, "the input is not [N, %lld, ...]",
                    (long long)channels);
    return false;
}

/* ---- group norm ------------------------------------------------------------------------------- */

static tern_tensor *forward_group(tern_module *self, tern_tensor *x)
{
    const group_norm_layer *layer = (const group_norm_layer *)self;
    if (!check_channels(self->type, x, layer->channels))
        return NULL;
    tern_group_norm_args args = layer->op;
    args.x = x;
    return tern_group_norm_at(TERN_HERE, &args);
}

static void describe_group(const tern_module *self, char *buffer, size_t bytes)
{
    const group_norm_layer *layer = (const group_norm_layer *)self;
    snprintf(buffer, bytes, "groups=%lld, channels=%lld, eps=%g%s", (long long)layer->op.groups,
             (long long)layer->channels, nn_option(layer->op.eps, 1e-5),
             layer->op.weight ? "" : ", no weight");
}

tern_module *tern_group_norm_layer_at(tern_site_t site, const tern_group_norm_layer_args *given)
{
    static const char what[] = "group_norm_layer";
    NN_ARGS(site, what, tern_group_norm_layer_args, args, given);
    if (!args_given || !nn_require_positive(site, what, "groups", args.groups) ||
        !nn_require_positive(site, what, "channels", args.channels))
        return NULL;
    if (args.channels % args.groups != 0) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "groups = %lld must divide channels = %lld",
                     (long long)args.groups, (long long)args.channels);
        return NULL;
    }
    nn_frame frame = nn_layer_begin(site, what);
    group_norm_layer *layer =
        (group_norm_layer *)tern_module_create_at(site, sizeof *layer, "group_norm", forward_group);
    if (layer) {
        const nn_origin origin = { args.device, args.dtype, NULL };
        const tern_shape_t shape = TERN_SHAPE(args.channels);
        layer->base.describe = describe_group;
        layer->channels = args.channels;
        layer->op = (tern_group_norm_args){ .size_ = sizeof layer->op,
                                            .groups = args.groups,
                                            .eps = args.eps };
        if (!args.no_affine) {
            nn_constant_parameter(&layer->base, "weight", shape, origin, 1);
            nn_constant_parameter(&layer->base, "bias", shape, origin, 0);
        }
        nn_bind_tensor(&layer->base, "weight", &layer->op.weight);
        nn_bind_tensor(&layer->base, "bias", &layer->op.bias);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}

/* ---- instance norm ---------------------------------------------------------------------------- */

static tern_tensor *forward_instance(tern_module *self, tern_tensor *x)
{
    const instance_norm_layer *layer = (const instance_norm_layer *)self;
    if (!check_channels(self->type, x, layer->features))
        return NULL;
    tern_instance_norm_args args = layer->op;
    args.x = x;
    args.use_running = args.running_mean && !self->training;
    return tern_instance_norm_at(TERN_HERE, &args);
}

static void describe_instance(const tern_module *self, char *buffer, size_t bytes)
{
    const instance_norm_layer *layer = (const instance_norm_layer *)self;
    snprintf(buffer, bytes, "features=%lld, eps=%g, momentum=%g%s%s", (long long)layer->features,
             nn_option(layer->op.eps, 1e-5), nn_option(layer->op.momentum, 0.1),
             layer->op.weight ? "" : ", no weight",
             layer->op.running_mean ? "" : ", no running statistics");
}

tern_module *tern_instance_norm_layer_at(tern_site_t site,
                                         const tern_instance_norm_layer_args *given)
{
    static const char what[] = "instance_norm_layer";
    NN_ARGS(site, what, tern_instance_norm_layer_args, args, given);
    if (!args_given || !nn_require_positive(site, what, "features", args.features))
        return NULL;
    nn_frame frame = nn_layer_begin(site, what);
    instance_norm_layer *layer = (instance_norm_layer *)tern_module_create_at(
        site, sizeof *layer, "instance_norm", forward_instance);
    if (layer) {
        const nn_origin origin = { args.device, args.dtype, NULL };
        layer->base.describe = describe_instance;
        layer->features = args.features;
        layer->op.size_ = sizeof layer->op;
        layer->op.eps = args.eps;
        layer->op.momentum = args.momentum;
        nn_add_statistics(&layer->base, args.features, origin, args.affine, args.running,
                          (nn_statistics){ &layer->op.weight, &layer->op.bias,
                                           &layer->op.running_mean, &layer->op.running_var, NULL });
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}
