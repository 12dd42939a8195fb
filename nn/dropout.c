/* Dropout layer: heeds the module's mode. */
#include <stdio.h>

#include "nn/internal.h"

typedef struct dropout_layer {
    tern_module base;
    double p;
    tern_generator *generator;
} dropout_layer;

static tern_tensor *forward(tern_module *self, tern_tensor *x)
{
    const dropout_layer *layer = (const dropout_layer *)self;
    return tern_dropout(x, layer->p, .evaluating = !self->training, .generator = layer->generator);
}

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    snprintf(buffer, bytes, "p=%g", ((const dropout_layer *)self)->p);
}

tern_module *tern_dropout_layer_at(tern_site_t site, double p, tern_generator *generator)
{
    if (!(p >= 0 && p <= 1)) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "dropout_layer", "p = %g is not in [0, 1]", p);
        return NULL;
    }
    dropout_layer *layer =
        (dropout_layer *)tern_module_create_at(site, sizeof *layer, "dropout", forward);
    if (!layer)
        return NULL;
    layer->base.describe = describe;
    layer->p = p;
    layer->generator = generator;
    return &layer->base;
}
