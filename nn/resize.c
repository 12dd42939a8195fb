/* Layers that bring images to a size: adaptive pooling, interpolation. */
#include <stdio.h>

#include "nn/internal.h"

typedef struct adaptive_layer {
    tern_module base;
    tern_adaptive_pool2d_args op; /* all but x */
} adaptive_layer;

typedef struct upsample_layer {
    tern_module base;
    tern_interpolate_args op; /* all but x */
} upsample_layer;

static tern_tensor *forward_avg(tern_module *self, tern_tensor *x)
{
    tern_adaptive_pool2d_args args = ((const adaptive_layer *)self)->op;
    args.x = x;
    return tern_adaptive_avg_pool2d_at(TERN_HERE, &args);
}

static tern_tensor *forward_max(tern_module *self, tern_tensor *x)
{
    tern_adaptive_pool2d_args args = ((const adaptive_layer *)self)->op;
    args.x = x;
    return tern_adaptive_max_pool2d_at(TERN_HERE, &args);
}

static void describe_adaptive(const tern_module *self, char *buffer, size_t bytes)
{
    const tern_adaptive_pool2d_args *op = &((const adaptive_layer *)self)->op;
    snprintf(buffer, bytes, "size=%lldx%lld", (long long)op->size[0], (long long)op->size[1]);
}

static tern_module *make_adaptive(tern_site_t site, const char *type, tern_forward_fn forward,
                                  int64_t height, int64_t width)
{
    if (height < -1 || height == 0 || width < -1 || width == 0) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, type,
                     "the size is %lldx%lld: extents are positive, or -1 for that of the input",
                     (long long)height, (long long)width);
        return NULL;
    }
    adaptive_layer *layer =
        (adaptive_layer *)tern_module_create_at(site, sizeof *layer, type, forward);
    if (!layer)
        return NULL;
    layer->base.describe = describe_adaptive;
    layer->op = (tern_adaptive_pool2d_args){ .size_ = sizeof layer->op, .size = { height, width } };
    return &layer->base;
}

tern_module *tern_adaptive_avg_pool2d_layer_at(tern_site_t site, int64_t height, int64_t width)
{
    return make_adaptive(site, "adaptive_avg_pool2d", forward_avg, height, width);
}

tern_module *tern_adaptive_max_pool2d_layer_at(tern_site_t site, int64_t height, int64_t width)
{
    return make_adaptive(site, "adaptive_max_pool2d", forward_max, height, width);
}

/* ---- interpolation ---------------------------------------------------------------------------- */

static tern_tensor *forward_upsample(tern_module *self, tern_tensor *x)
{
    tern_interpolate_args args = ((const upsample_layer *)self)->op;
    args.x = x;
    return tern_interpolate_at(TERN_HERE, &args);
}

static void describe_upsample(const tern_module *self, char *buffer, size_t bytes)
{
    static const char *const modes[] = { "nearest", "nearest", "nearest-exact", "linear",
                                         "bilinear" };
    const tern_interpolate_args *op = &((const upsample_layer *)self)->op;
    if (op->size[0])
        snprintf(buffer, bytes, "size=%lldx%lld, mode=%s", (long long)op->size[0],
                 (long long)nn_given(op->size[1], op->size[0]), modes[op->mode]);
    else
        snprintf(buffer, bytes, "scale=%g, mode=%s", op->scale[0], modes[op->mode]);
    if (op->align_corners)
        nn_describe_more(buffer, bytes, ", align corners");
}

tern_module *tern_upsample_layer_at(tern_site_t site, const tern_upsample_layer_args *given)
{
    static const char what[] = "upsample_layer";
    NN_ARGS(site, what, tern_upsample_layer_args, args, given);
    if (!args_given)
        return NULL;
    if ((args.height != 0) == (args.scale != 0) || (args.width != 0 && args.scale != 0) ||
        args.height < 0 || args.width < 0 || args.scale < 0 || args.mode < 0 ||
        args.mode > TERN_BILINEAR) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "it wants either a height (and width) or a scale, positive, and a mode\n"
                     "  try tern_upsample_layer(.scale = 2, .mode = TERN_BILINEAR)");
        return NULL;
    }
    upsample_layer *layer =
        (upsample_layer *)tern_module_create_at(site, sizeof *layer, "upsample", forward_upsample);
    if (!layer)
        return NULL;
    layer->base.describe = describe_upsample;
    layer->op = (tern_interpolate_args){ .size_ = sizeof layer->op,
                                         .size = { args.height, args.width },
                                         .scale = { args.scale },
                                         .mode = args.mode,
                                         .align_corners = args.align_corners };
    return &layer->base;
}
