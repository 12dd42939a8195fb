/* Attention. The common rules of tern/ops.h hold. */
#ifndef TERN_ATTENTION_H
#define TERN_ATTENTION_H

#include "tern/base.h"
#include "tern/op_attr.h"
#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tern_scaled_dot_product_attention_args {
    size_t size_;
    tern_tensor *q; /* required: [..., heads, T, D] */
    tern_tensor *k; /* required: [..., key heads, S, D] */
    tern_tensor *v; /* required: [..., key heads, S, E] */
    /* Broadcasts to [..., heads, T, S]. bool: where false, a query does not see the key. Float: added to
     * the scores; -INFINITY hides. */
    tern_tensor *mask;
    bool causal;     /* query t sees keys 0 .. t only; with a mask, what both let it see */
    double scale;    /* of the scores; default: 1 / sqrt(D); TERN_ZERO is a real zero */
    double dropout;  /* chance in [0, 1] that a weight becomes 0; the others grow by 1 / (1 - p) */
    bool evaluating; /* then no dropout */
    struct tern_generator *generator; /* of dropout; default: the thread's */
} tern_scaled_dot_product_attention_args;
/* softmax(q k^T scale + mask) v, [..., heads, T, E], laid out as q is. The heads of k and v divide those
 * of q: each serves heads / key heads neighbours (grouped queries). A query that sees no key gives zeros.
 * No matrix of T x S is held in memory, in either direction, unless the mask requires a gradient or the
 * gradient is itself recorded (create_graph): then the same is made of simple ops, with the same dropout.
 * torch.nn.functional.scaled_dot_product_attention; operands of two dimensions are one head. */
TERN_API tern_tensor *tern_scaled_dot_product_attention_at(
    tern_site_t, const tern_scaled_dot_product_attention_args *args);
#define tern_scaled_dot_product_attention(...) \
    tern_scaled_dot_product_attention_at(      \
        TERN_HERE, TERN_OPTIONS_(tern_scaled_dot_product_attention_args, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
