/* Embedding layer: rows of a table. */
#include <stdio.h>

#include "nn/internal.h"

typedef struct embedding_layer {
    tern_module base;
    tern_tensor *weight;
    int64_t rows, size;
} embedding_layer;

static tern_tensor *forward(tern_module *self, tern_tensor *x)
{
    return tern_embedding(((const embedding_layer *)self)->weight, x);
}

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const embedding_layer *layer = (const embedding_layer *)self;
    snprintf(buffer, bytes, "rows=%lld, size=%lld", (long long)layer->rows, (long long)layer->size);
}

tern_module *tern_embedding_layer_at(tern_site_t site, const tern_embedding_layer_args *given)
{
    NN_ARGS(site, "embedding_layer", tern_embedding_layer_args, args, given);
    if (!args_given || !nn_require_positive(site, "embedding_layer", "rows", args.rows) ||
        !nn_require_positive(site, "embedding_layer", "size", args.size))
        return NULL;
    nn_frame frame = nn_enter(site);
    embedding_layer *layer =
        (embedding_layer *)tern_module_create_at(site, sizeof *layer, "embedding", forward);
    if (layer) {
        layer->base.describe = describe;
        layer->rows = args.rows;
        layer->size = args.size;
        tern_tensor *weight = tern_randn(TERN_SHAPE(args.rows, args.size), .dtype = args.dtype,
                                         .device = args.device, .generator = args.generator);
        layer->weight = tern_module_add_parameter(&layer->base, "weight", weight);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}
