/* Batch norm layers: running statistics are buffers, as in torch's state dictionaries. */
#include <stdio.h>

#include "nn/internal.h"

typedef struct batch_norm_layer {
    tern_module base;
    tern_batch_norm_args op; /* all but x and training */
    tern_tensor *batches;    /* num_batches_tracked: i64, 0-dim */
    int64_t features;
    int images; /* 1: 2-D or 3-D inputs, 2: 4-D */
} batch_norm_layer;

static bool check_input(const batch_norm_layer *layer, const tern_tensor *x)
{
    const int ndim = tern_ndim(x);
    const bool fine = layer->images == 2 ? ndim == 4 : ndim == 2 || ndim == 3;
    if (!fine)
        nn_fail_operand(
            TERN_ERR_SHAPE, layer->base.type, "input", x, "an input of %d dimensions; %s", ndim,
            layer->images == 2 ? "it takes [N, C, H, W]" : "it takes [N, C] or [N, C, L]");
    return fine;
}

static tern_tensor *forward(tern_module *self, tern_tensor *x)
{
    const batch_norm_layer *layer = (const batch_norm_layer *)self;
    if (!check_input(layer, x))
        return NULL;
    tern_batch_norm_args args = layer->op;
    args.x = x;
    args.training = self->training || !args.running_mean;
    /* first, as a checkpoint's second run may end with the op */
    if (layer->batches && self->training)
        tern_add_(layer->batches, 1);
    return tern_batch_norm_at(TERN_HERE, &args);
}

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const batch_norm_layer *layer = (const batch_norm_layer *)self;
    snprintf(buffer, bytes, "features=%lld, eps=%g, momentum=%g%s%s", (long long)layer->features,
             nn_option(layer->op.eps, 1e-5), nn_option(layer->op.momentum, 0.1),
             layer->op.weight ? "" : ", no weight",
             layer->op.running_mean ? "" : ", no running statistics");
}

static void add_running(tern_module *m, tern_shape_t shape, nn_origin origin)
{
    tern_module_add_buffer(m, "running_mean",
                           tern_zeros(shape, .dtype = origin.dtype, .device = origin.device));
    tern_module_add_buffer(m, "running_var",
                           tern_ones(shape, .dtype = origin.dtype, .device = origin.device));
    tern_module_add_buffer(
        m, "num_batches_tracked",
        tern_zeros(TERN_SCALAR_SHAPE, .dtype = TERN_I64, .device = origin.device));
}

void nn_add_statistics(tern_module *m, int64_t features, nn_origin origin, bool affine,
                       bool running, nn_statistics fields)
{
    const tern_shape_t shape = TERN_SHAPE(features);
    if (affine) {
        nn_constant_parameter(m, "weight", shape, origin, 1);
        nn_constant_parameter(m, "bias", shape, origin, 0);
    }
    if (running)
        add_running(m, shape, origin);
    nn_bind_tensor(m, "weight", fields.weight);
    nn_bind_tensor(m, "bias", fields.bias);
    nn_bind_tensor(m, "running_mean", fields.mean);
    nn_bind_tensor(m, "running_var", fields.var);
    if (fields.batches)
        nn_bind_tensor(m, "num_batches_tracked", fields.batches);
}

static tern_module *make(tern_site_t site, const char *type, int images,
                         const tern_batch_norm_layer_args *given)
{
    char what[32];
    (void)snprintf(what, sizeof what, "%s_layer", type);
    NN_ARGS(site, what, tern_batch_norm_layer_args, args, given);
    if (!args_given || !nn_require_positive(site, what, "features", args.features))
        return NULL;
    nn_frame frame = nn_layer_begin(site, what);
    batch_norm_layer *layer =
        (batch_norm_layer *)tern_module_create_at(site, sizeof *layer, type, forward);
    if (layer) {
        layer->base.describe = describe;
        layer->features = args.features;
        layer->images = images;
        layer->op.size_ = sizeof layer->op;
        layer->op.eps = args.eps;
        layer->op.momentum = args.momentum;
        nn_add_statistics(&layer->base, args.features, (nn_origin){ args.device, args.dtype, NULL },
                          !args.no_affine, !args.no_running,
                          (nn_statistics){ &layer->op.weight, &layer->op.bias,
                                           &layer->op.running_mean, &layer->op.running_var,
                                           &layer->batches });
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}

tern_module *tern_batch_norm1d_layer_at(tern_site_t site, const tern_batch_norm_layer_args *args)
{
    return make(site, "batch_norm1d", 1, args);
}

tern_module *tern_batch_norm2d_layer_at(tern_site_t site, const tern_batch_norm_layer_args *args)
{
    return make(site, "batch_norm2d", 2, args);
}
