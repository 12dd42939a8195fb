/* Linear layer: y = x weight^T + bias. */
#include <math.h>
#include <stdio.h>

#include "nn/internal.h"

typedef struct linear_layer {
    tern_module base;
    tern_tensor *weight, *bias;
    int64_t in, out;
} linear_layer;

static tern_tensor *forward(tern_module *self, tern_tensor *x)
{
    const linear_layer *layer = (const linear_layer *)self;
    return tern_linear(x, layer->weight, layer->bias);
}

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const linear_layer *layer = (const linear_layer *)self;
    snprintf(buffer, bytes, "in=%lld, out=%lld%s", (long long)layer->in, (long long)layer->out,
             layer->bias ? "" : ", no bias");
}

tern_module *tern_linear_layer_at(tern_site_t site, const tern_linear_layer_args *given)
{
    NN_ARGS(site, "linear_layer", tern_linear_layer_args, args, given);
    if (!args_given || !nn_require_positive(site, "linear_layer", "in", args.in) ||
        !nn_require_positive(site, "linear_layer", "out", args.out))
        return NULL;
    nn_frame frame = nn_layer_begin(site, "linear_layer");
    linear_layer *layer =
        (linear_layer *)tern_module_create_at(site, sizeof *layer, "linear", forward);
    if (layer) {
        const nn_origin origin = { args.device, args.dtype, args.generator };
        const double bound = 1 / sqrt((double)args.in);
        tern_module *m = &layer->base;
        m->describe = describe;
        layer->in = args.in;
        layer->out = args.out;
        nn_uniform_parameter(m, "weight", TERN_SHAPE(args.out, args.in), origin, bound);
        if (!args.no_bias)
            nn_uniform_parameter(m, "bias", TERN_SHAPE(args.out), origin, bound);
        nn_bind_tensor(m, "weight", &layer->weight);
        nn_bind_tensor(m, "bias", &layer->bias);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}
