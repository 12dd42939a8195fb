/* Encoder and decoder layers of transformers: attention and two linear layers, each added to what went
 * in, normalised before or after. */
#include <stdio.h>

#include "nn/internal.h"
#include "tern/transformer.h"

typedef struct transformer_layer {
    tern_module base;
    tern_module *self_attn, *multihead_attn; /* the latter: decoders */
    tern_module *linear1, *linear2;
    tern_module *norms[3];
    tern_transformer_layer_args options;
} transformer_layer;

/* ---- forward ------------------------------------------------------------------------------------ */

static tern_tensor *drop(const transformer_layer *layer, tern_tensor *x)
{
    return tern_dropout(x, layer->options.dropout, .evaluating = !layer->base.training,
                        .generator = layer->options.generator);
}

static tern_tensor *feed(const transformer_layer *layer, tern_tensor *x)
{
    tern_tensor *hidden = tern_forward(layer->linear1, x);
    hidden = layer->options.gelu ? tern_gelu(hidden) : tern_relu(hidden);
    return tern_forward(layer->linear2, drop(layer, hidden));
}

/* One step: x + f(norm(x)), or norm(x + f(x)); attention: what f is, NULL: the linear layers. */
static tern_tensor *step(const transformer_layer *layer, int norm, tern_tensor *x,
                         tern_module *attention, tern_tensor *memory, tern_tensor *mask,
                         tern_tensor *padding)
{
    tern_tensor *in = layer->options.norm_first ? tern_forward(layer->norms[norm], x) : x;
    tern_tensor *y;
    if (attention) {
        tern_args args = TERN_ARGS(in, memory, memory, mask, padding);
        y = tern_forward_args(attention, &args);
    } else {
        y = feed(layer, in);
    }
    y = tern_add(x, drop(layer, y));
    return layer->options.norm_first ? y : tern_forward(layer->norms[norm], y);
}

static void encode(tern_module *self, tern_args *args)
{
    const transformer_layer *layer = (const transformer_layer *)self;
    tern_tensor *x = step(layer, 0, args->in[0], layer->self_attn, NULL, args->in[1], args->in[2]);
    args->out[0] = step(layer, 1, x, NULL, NULL, NULL, NULL);
}

static void decode(tern_module *self, tern_args *args)
{
    const transformer_layer *layer = (const transformer_layer *)self;
    if (!args->in[1]) {
        tern_fail(TERN_ERR_ARGUMENT, "transformer_decoder",
                  "the memory is missing\n  try tern_forward_args(decoder, &args) with "
                  "TERN_ARGS(x, memory)");
        return;
    }
    tern_tensor *x = step(layer, 0, args->in[0], layer->self_attn, NULL, args->in[2], args->in[4]);
    x = step(layer, 1, x, layer->multihead_attn, args->in[1], args->in[3], args->in[5]);
    args->out[0] = step(layer, 2, x, NULL, NULL, NULL, NULL);
}

/* ---- making ------------------------------------------------------------------------------------- */

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const tern_transformer_layer_args *o = &((const transformer_layer *)self)->options;
    snprintf(buffer, bytes, "width=%lld, heads=%lld, hidden=%lld, dropout=%g, %s%s%s",
             (long long)o->width, (long long)o->heads, (long long)o->hidden, o->dropout,
             o->gelu ? "gelu" : "relu", o->norm_first ? ", norm first" : "",
             o->causal ? ", causal" : "");
}

static tern_module *attention_of(const tern_transformer_layer_args *o, bool causal)
{
    return tern_multihead_attention_layer(
        o->width, o->heads, .dropout = o->dropout, .no_bias = o->no_bias, .causal = causal,
        .device = o->device, .dtype = o->dtype, .generator = o->generator);
}

static tern_module *linear_of(const tern_transformer_layer_args *o, int64_t in, int64_t out)
{
    return tern_linear_layer(in, out, .no_bias = o->no_bias, .device = o->device, .dtype = o->dtype,
                             .generator = o->generator);
}

static void add_children(transformer_layer *layer, bool decoder)
{
    static const char *const names[] = { "norm1", "norm2", "norm3" };
    const tern_transformer_layer_args *o = &layer->options;
    tern_module *m = &layer->base;
    nn_bind_child(m, "self_attn", attention_of(o, o->causal), &layer->self_attn);
    if (decoder)
        nn_bind_child(m, "multihead_attn", attention_of(o, false), &layer->multihead_attn);
    nn_bind_child(m, "linear1", linear_of(o, o->width, o->hidden), &layer->linear1);
    nn_bind_child(m, "linear2", linear_of(o, o->hidden, o->width), &layer->linear2);
    for (int i = 0; i < (decoder ? 3 : 2); i++)
        nn_bind_child(m, names[i],
                      tern_layer_norm_layer(o->width, .eps = o->eps, .no_bias = o->no_bias,
                                            .device = o->device, .dtype = o->dtype),
                      &layer->norms[i]);
}

static tern_module *make(tern_site_t site, const tern_transformer_layer_args *given, bool decoder)
{
    const char *what = decoder ? "transformer_decoder_layer" : "transformer_encoder_layer";
    NN_ARGS(site, what, tern_transformer_layer_args, args, given);
    if (!args_given || !nn_require_positive(site, what, "width", args.width) ||
        !nn_require_positive(site, what, "heads", args.heads))
        return NULL;
    args.hidden = nn_given(args.hidden, 2048);
    args.dropout = nn_option(args.dropout, 0.1);
    nn_frame frame = nn_layer_begin(site, what);
    transformer_layer *layer = (transformer_layer *)tern_module_create_args_at(
        site, sizeof *layer, decoder ? "transformer_decoder" : "transformer_encoder",
        decoder ? decode : encode);
    if (layer) {
        layer->base.describe = describe;
        layer->options = args;
        add_children(layer, decoder);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}

tern_module *tern_transformer_encoder_layer_at(tern_site_t site,
                                               const tern_transformer_layer_args *args)
{
    return make(site, args, false);
}

tern_module *tern_transformer_decoder_layer_at(tern_site_t site,
                                               const tern_transformer_layer_args *args)
{
    return make(site, args, true);
}
