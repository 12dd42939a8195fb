/* Embedding layer: rows of a table. */
#include <stdio.h>

#include "nn/internal.h"

typedef struct embedding_layer {
    tern_module base;
    tern_tensor *weight;
    int64_t rows, size;
    int64_t padding_idx; /* counted from 0; of no meaning without `padding` */
    bool padding;
} embedding_layer;

static tern_tensor *forward(tern_module *self, tern_tensor *x)
{
    const embedding_layer *layer = (const embedding_layer *)self;
    return tern_embedding(layer->weight, x, .padding_idx = layer->padding_idx,
                          .padding = layer->padding);
}

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const embedding_layer *layer = (const embedding_layer *)self;
    const int length = snprintf(buffer, bytes, "rows=%lld, size=%lld", (long long)layer->rows,
                                (long long)layer->size);
    if (layer->padding && length >= 0 && (size_t)length < bytes)
        snprintf(buffer + length, bytes - (size_t)length, ", padding_idx=%lld",
                 (long long)layer->padding_idx);
}

/* From N(0, 1), but for the row of padding. */
static tern_tensor *first_weight(const tern_embedding_layer_args *args, int64_t padding_idx)
{
    tern_tensor *weight = tern_randn(TERN_SHAPE(args->rows, args->size), .dtype = args->dtype,
                                     .device = args->device, .generator = args->generator);
    if (args->padding)
        (void)tern_fill(tern_select(weight, 0, padding_idx), 0);
    return weight;
}

tern_module *tern_embedding_layer_at(tern_site_t site, const tern_embedding_layer_args *given)
{
    NN_ARGS(site, "embedding_layer", tern_embedding_layer_args, args, given);
    if (!args_given || !nn_require_positive(site, "embedding_layer", "rows", args.rows) ||
        !nn_require_positive(site, "embedding_layer", "size", args.size))
        return NULL;
    args.padding_idx = args.padding_idx == TERN_ZERO ? 0 : args.padding_idx;
    if (!args.padding && args.padding_idx != 0) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "embedding_layer",
                     "padding_idx = %lld counts only beside padding = true",
                     (long long)args.padding_idx);
        return NULL;
    }
    const int64_t padding_idx =
        args.padding_idx < 0 ? args.padding_idx + args.rows : args.padding_idx;
    if (args.padding && (padding_idx < 0 || padding_idx >= args.rows)) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "embedding_layer",
                     "padding_idx %lld is outside the table, which has %lld rows, numbered from 0",
                     (long long)args.padding_idx, (long long)args.rows);
        return NULL;
    }
    nn_frame frame = nn_layer_begin(site, "embedding_layer");
    embedding_layer *layer =
        (embedding_layer *)tern_module_create_at(site, sizeof *layer, "embedding", forward);
    if (layer) {
        layer->base.describe = describe;
        layer->rows = args.rows;
        layer->size = args.size;
        layer->padding_idx = padding_idx;
        layer->padding = args.padding;
        tern_module_add_parameter(&layer->base, "weight", first_weight(&args, padding_idx));
        nn_bind_tensor(&layer->base, "weight", &layer->weight);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}
