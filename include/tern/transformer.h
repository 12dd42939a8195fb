/* Layers of transformers, with PyTorch's names, defaults and initial values; batches come first.
 *
 * Masks say what is seen: true, or what is added to the scores (torch.nn's boolean masks say what is
 * hidden). A mask broadcasts to [N, heads, T, S]; a padding mask is bool [N, S], true where there is a
 * key. Masks may be NULL. */
#ifndef TERN_TRANSFORMER_H
#define TERN_TRANSFORMER_H

#include "tern/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tern_multihead_attention_layer_args {
    size_t size_;
    int64_t width, heads;           /* required; heads divides width */
    int64_t key_width, value_width; /* default: width */
    double dropout;                 /* of the weights, in training */
    bool no_bias;
    bool causal; /* query t sees keys 0 .. t only */
    tern_dev_t device;
    tern_dtype_t dtype;
    tern_generator *generator; /* of the initial values, and of dropout */
} tern_multihead_attention_layer_args;
/* tern_forward(m, x): x [N, T, width] attends to itself. tern_forward_args: query [N, T, width], key
 * [N, S, key_width] (default: the query), value [N, S, value_width] (default: the key), mask, padding mask.
 * -> [N, T, width]. in_proj_weight [3 width, width] (q_proj_weight, k_proj_weight and v_proj_weight where
 * widths differ), in_proj_bias, out_proj.weight, out_proj.bias. torch.nn.MultiheadAttention. */
TERN_API tern_module *tern_multihead_attention_layer_at(
    tern_site_t site, const tern_multihead_attention_layer_args *args);
#define tern_multihead_attention_layer(...) TERN_LAYER_(multihead_attention, __VA_ARGS__)

typedef struct tern_transformer_layer_args {
    size_t size_;
    int64_t width, heads; /* required; heads divides width */
    int64_t hidden;       /* of the two linear layers; default 2048 */
    double dropout;       /* default 0.1; TERN_ZERO: none */
    double eps;           /* of the norms; default 1e-5 */
    bool gelu;            /* between the linear layers; default: relu */
    bool norm_first;      /* x + f(norm(x)); default: norm(x + f(x)) */
    bool no_bias;
    bool causal; /* self attention */
    tern_dev_t device;
    tern_dtype_t dtype;
    tern_generator *generator; /* of the initial values, and of dropout */
} tern_transformer_layer_args;
/* tern_forward(m, x), or tern_forward_args: x [N, T, width], mask, padding mask -> [N, T, width]. Children
 * self_attn, linear1, linear2, norm1, norm2. torch.nn.TransformerEncoderLayer. */
TERN_API tern_module *tern_transformer_encoder_layer_at(tern_site_t site,
                                                        const tern_transformer_layer_args *args);
/* tern_forward_args: x [N, T, width], memory [N, S, width], mask, mask of the memory, padding mask,
 * padding mask of the memory -> [N, T, width]. Children self_attn, multihead_attn, linear1, linear2,
 * norm1, norm2, norm3. torch.nn.TransformerDecoderLayer. */
TERN_API tern_module *tern_transformer_decoder_layer_at(tern_site_t site,
                                                        const tern_transformer_layer_args *args);
#define tern_transformer_encoder_layer(...)      \
    tern_transformer_encoder_layer_at(TERN_HERE, \
                                      TERN_OPTIONS_(tern_transformer_layer_args, __VA_ARGS__))
#define tern_transformer_decoder_layer(...)      \
    tern_transformer_decoder_layer_at(TERN_HERE, \
                                      TERN_OPTIONS_(tern_transformer_layer_args, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
