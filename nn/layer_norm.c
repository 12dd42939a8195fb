/* Layer norm and rms norm over the last dimensions. */
#include <math.h>
#include <stdio.h>

#include "nn/internal.h"

/* Of both kinds; dims, weight, bias and eps of the op. */
typedef struct layer_norm_layer {
    tern_module base;
    tern_layer_norm_args op; /* all but x */
    tern_shape_t shape;
    double eps; /* as a value, to be shown; NaN: that of the dtype */
} layer_norm_layer;

/* Without a weight the op alone could not tell that the input has other extents. */
static bool check_input(const layer_norm_layer *layer, const tern_tensor *x)
{
    const int first = tern_ndim(x) - layer->shape.ndim;
    bool same = first >= 0;
    char text[512];
    for (int i = 0; same && i < layer->shape.ndim; i++)
        same = tern_size(x, first + i) == layer->shape.dims[i];
    if (!same)
        tern_fail(TERN_ERR_SHAPE, layer->base.type,
                  "the input's last dimensions are not those of the layer (%d, the last of %lld)\n"
                  "    input      %s",
                  (int)layer->shape.ndim, (long long)layer->shape.dims[layer->shape.ndim - 1],
                  nn_summary(x, text, sizeof text));
    return same;
}

static tern_tensor *forward(tern_module *self, tern_tensor *x)
{
    const layer_norm_layer *layer = (const layer_norm_layer *)self;
    if (!check_input(layer, x))
        return NULL;
    tern_layer_norm_args args = layer->op;
    args.x = x;
    return tern_layer_norm_at(TERN_HERE, &args);
}

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const layer_norm_layer *layer = (const layer_norm_layer *)self;
    for (int i = 0; i < layer->shape.ndim; i++)
        nn_describe_more(buffer, bytes, "%s%lld",
                         i ? "x" : "size=", (long long)layer->shape.dims[i]);
    if (!isnan(layer->eps))
        nn_describe_more(buffer, bytes, ", eps=%g", layer->eps);
    if (!layer->op.weight)
        nn_describe_more(buffer, bytes, ", no weight");
    else if (!layer->op.bias && strcmp(self->type, "layer_norm") == 0)
        nn_describe_more(buffer, bytes, ", no bias");
}

static tern_tensor *forward_rms(tern_module *self, tern_tensor *x)
{
    const layer_norm_layer *layer = (const layer_norm_layer *)self;
    const tern_layer_norm_args *op = &layer->op;
    if (!check_input(layer, x))
        return NULL;
    return tern_rms_norm(x, op->dims, op->weight, op->eps);
}

static bool take_shape(tern_site_t site, const char *what, int64_t size, tern_shape_t *shape)
{
    if (tern_shape_is_bare_(shape))
        return tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                            "'shape' is bare numbers\n  try TERN_SHAPE(2, 3)") == TERN_OK;
    if (!shape->set_) {
        *shape = TERN_SHAPE(size);
        return nn_require_positive(site, what, "size", size);
    }
    if (size)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "both 'size' and 'shape' are given");
    if (shape->ndim < 1)
        tern_fail_at(site, TERN_ERR_SHAPE, what, "'shape' has no dimension");
    else if (shape->ndim > TERN_MAX_DIMS)
        tern_fail_at(site, TERN_ERR_SHAPE, what, "'shape' has %d dimensions; a tensor has 0 to 8",
                     (int)shape->ndim);
    for (int i = 0; !tern_failed() && i < shape->ndim; i++)
        nn_require_positive(site, what, "shape", shape->dims[i]);
    return !tern_failed();
}

tern_module *tern_layer_norm_layer_at(tern_site_t site, const tern_layer_norm_layer_args *given)
{
    NN_ARGS(site, "layer_norm_layer", tern_layer_norm_layer_args, args, given);
    if (!args_given || !take_shape(site, "layer_norm_layer", args.size, &args.shape))
        return NULL;
    nn_frame frame = nn_layer_begin(site, "layer_norm_layer");
    layer_norm_layer *layer =
        (layer_norm_layer *)tern_module_create_at(site, sizeof *layer, "layer_norm", forward);
    if (layer) {
        const nn_origin origin = { args.device, args.dtype, NULL };
        tern_module *m = &layer->base;
        m->describe = describe;
        layer->shape = args.shape;
        layer->op.size_ = sizeof layer->op;
        layer->op.dims = args.shape.ndim;
        layer->op.eps = args.eps;
        layer->eps = nn_option(args.eps, 1e-5);
        if (!args.no_affine)
            nn_constant_parameter(m, "weight", args.shape, origin, 1);
        if (!args.no_affine && !args.no_bias)
            nn_constant_parameter(m, "bias", args.shape, origin, 0);
        nn_bind_tensor(m, "weight", &layer->op.weight);
        nn_bind_tensor(m, "bias", &layer->op.bias);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}

tern_module *tern_rms_norm_layer_at(tern_site_t site, const tern_rms_norm_layer_args *given)
{
    NN_ARGS(site, "rms_norm_layer", tern_rms_norm_layer_args, args, given);
    if (!args_given || !take_shape(site, "rms_norm_layer", args.size, &args.shape))
        return NULL;
    nn_frame frame = nn_layer_begin(site, "rms_norm_layer");
    layer_norm_layer *layer =
        (layer_norm_layer *)tern_module_create_at(site, sizeof *layer, "rms_norm", forward_rms);
    if (layer) {
        layer->base.describe = describe;
        layer->shape = args.shape;
        layer->op.dims = args.shape.ndim;
        layer->op.eps = args.eps;
        layer->eps = nn_option(args.eps, (double)NAN);
        if (!args.no_affine)
            nn_constant_parameter(&layer->base, "weight", args.shape,
                                  (nn_origin){ args.device, args.dtype, NULL }, 1);
        nn_bind_tensor(&layer->base, "weight", &layer->op.weight);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}
