/* Layers without parameters that hold one op of one tensor. */
#include <stdio.h>

#include "nn/internal.h"

#define ACTIVATION(name)                                                                \
    static tern_tensor *forward_##name(tern_module *self, tern_tensor *x)               \
    {                                                                                   \
        (void)self;                                                                     \
        return tern_##name(x);                                                          \
    }                                                                                   \
    tern_module *tern_##name##_layer_at(tern_site_t site)                               \
    {                                                                                   \
        return tern_module_create_at(site, sizeof(tern_module), #name, forward_##name); \
    }

/* tern_relu_layer_at and so on */
ACTIVATION(relu)
ACTIVATION(gelu)
ACTIVATION(gelu_tanh)
ACTIVATION(silu)
ACTIVATION(tanh)
ACTIVATION(sigmoid)
ACTIVATION(relu6)
ACTIVATION(hardswish)
ACTIVATION(mish)

typedef struct slope_layer {
    tern_module base;
    double slope;
} slope_layer;

static tern_tensor *forward_leaky_relu(tern_module *self, tern_tensor *x)
{
    return tern_leaky_relu(x, .slope = ((const slope_layer *)self)->slope);
}

static void describe_slope(const tern_module *self, char *buffer, size_t bytes)
{
    snprintf(buffer, bytes, "slope=%g", nn_option(((const slope_layer *)self)->slope, 0.01));
}

tern_module *tern_leaky_relu_layer_at(tern_site_t site, double slope)
{
    slope_layer *layer =
        (slope_layer *)tern_module_create_at(site, sizeof *layer, "leaky_relu", forward_leaky_relu);
    if (!layer)
        return NULL;
    layer->base.describe = describe_slope;
    layer->slope = slope;
    return &layer->base;
}

/* ---- ops along dimensions --------------------------------------------------------------------- */

typedef struct dims_layer {
    tern_module base;
    int first, last;
} dims_layer;

static tern_module *make(tern_site_t site, const char *type, tern_forward_fn forward,
                         void (*describe)(const tern_module *, char *, size_t), int first, int last)
{
    dims_layer *layer = (dims_layer *)tern_module_create_at(site, sizeof *layer, type, forward);
    if (!layer)
        return NULL;
    layer->base.describe = describe;
    layer->first = first;
    layer->last = last;
    return &layer->base;
}

static void describe_dim(const tern_module *self, char *buffer, size_t bytes)
{
    snprintf(buffer, bytes, "dim=%d", ((const dims_layer *)self)->first);
}

static void describe_range(const tern_module *self, char *buffer, size_t bytes)
{
    const dims_layer *layer = (const dims_layer *)self;
    snprintf(buffer, bytes, "dims %d to %d", layer->first, layer->last);
}

static tern_tensor *forward_softmax(tern_module *self, tern_tensor *x)
{
    return tern_softmax(x, ((const dims_layer *)self)->first);
}

static tern_tensor *forward_log_softmax(tern_module *self, tern_tensor *x)
{
    return tern_log_softmax(x, ((const dims_layer *)self)->first);
}

static tern_tensor *forward_flatten(tern_module *self, tern_tensor *x)
{
    const dims_layer *layer = (const dims_layer *)self;
    return tern_flatten(x, layer->first, layer->last);
}

tern_module *tern_softmax_layer_at(tern_site_t site, int dim)
{
    return make(site, "softmax", forward_softmax, describe_dim, dim, dim);
}

tern_module *tern_log_softmax_layer_at(tern_site_t site, int dim)
{
    return make(site, "log_softmax", forward_log_softmax, describe_dim, dim, dim);
}

tern_module *tern_flatten_layer_at(tern_site_t site, int first, int last)
{
    return make(site, "flatten", forward_flatten, describe_range, first, last);
}
