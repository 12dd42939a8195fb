/* Attention made of simple ops, and its gradient, both differentiable as often as one likes. They hold
 * matrices of T x S. */
#include <math.h>

#include "core/ops/attention.h"
#include "core/rules.h"

/* Heads of k or v as often as queries share them. */
static tern_tensor *repeat_heads(tern_tensor *x, int64_t heads)
{
    const int64_t b = tern_size(x, 0), groups = tern_size(x, 1);
    if (groups == heads)
        return x;
    const int64_t s = tern_size(x, 2), d = tern_size(x, 3), each = groups > 0 ? heads / groups : 0;
    tern_tensor *wide = tern_expand(tern_unsqueeze(x, 2), TERN_SHAPE(b, groups, each, s, d));
    return tern_reshape(wide, TERN_SHAPE(b, heads, s, d));
}

static tern_tensor *sum_heads(tern_tensor *x, int64_t groups)
{
    const int64_t heads = tern_size(x, 1);
    if (groups == heads)
        return x;
    tern_tensor *split =
        tern_reshape(x, TERN_SHAPE(tern_size(x, 0), groups, groups > 0 ? heads / groups : 0,
                                   tern_size(x, 2), tern_size(x, 3)));
    return tern_sum(split, .dims = TERN_DIMS(2));
}

/* True where query t must not see key s > t; [T, S]. */
static tern_tensor *later_keys(tern_tensor *scores)
{
    const tern_dev_t device = tern_device(scores);
    tern_tensor *t = core_numbers_to(device, tern_size(scores, 2));
    tern_tensor *s = core_numbers_to(device, tern_size(scores, 3));
    return tern_gt(tern_unsqueeze(s, 0), tern_unsqueeze(t, 1));
}

/* Weights before dropout. A row in which nothing is seen becomes zeros: its scores are replaced before
 * softmax, whose own NaN would come back in gradients. */
static tern_tensor *weights_of(const tern_attr_attention *attr, const attention_operands *in,
                               tern_tensor *keys)
{
    tern_tensor *scores = tern_mul(tern_matmul(in->q, tern_transpose(keys, -1, -2)), attr->scale);
    if (in->mask != NULL)
        scores = tern_dtype(in->mask) == TERN_BOOL ? tern_where(in->mask, scores, -INFINITY)
                                                   : tern_add(scores, in->mask);
    if (attr->causal)
        scores = tern_where(later_keys(scores), -INFINITY, scores);
    if ((in->mask == NULL && !attr->causal) || tern_numel(scores) == 0)
        return tern_softmax(scores, -1);
    tern_tensor *best = tern_amax(tern_detach(scores), TERN_DIMS(-1), .keepdim = true);
    tern_tensor *blind = tern_eq(best, -INFINITY);
    return tern_where(blind, 0.0, tern_softmax(tern_where(blind, 0.0, scores), -1));
}

/* The same elements as the fused kernels drop. *out_kept: NULL without dropout. */
static tern_tensor *drop(const tern_attr_attention *attr, tern_tensor *weights,
                         tern_tensor **out_kept)
{
    tern_attr_dropout dropout = { .seed = attr->seed, .call = attr->call, .p = attr->p };
    tern_tensor *y = NULL;
    *out_kept = NULL;
    if (!(attr->p > 0.0))
        return weights;
    tern_tensor **out[2] = { &y, out_kept };
    core_opn(TERN_OP_dropout, TERN_HERE, &dropout, 1, &weights, 2, out);
    return y;
}

tern_tensor *attention_composed(tern_attr_attention *attr, attention_operands in)
{
    tern_tensor *kept;
    const int64_t heads = tern_size(in.q, 1);
    tern_tensor *weights = weights_of(attr, &in, repeat_heads(in.k, heads));
    return tern_matmul(drop(attr, weights, &kept), repeat_heads(in.v, heads));
}

/* With P the weights, P' after dropout and S the scaled scores:
 * gv = P'^T g, gP = dropout's part of g v^T, gS = P (gP - sum(gP P)), gq = gS k, gk = gS^T q. */
void attention_grad_composed(tern_attr_attention *attr, tern_tensor *grad, attention_operands in,
                             tern_tensor **out_grads)
{
    tern_attr_dropout dropout = { .seed = attr->seed, .call = attr->call, .p = attr->p };
    tern_attr_dim along = { .dim = 3 };
    const int64_t heads = tern_size(in.q, 1), groups = tern_size(in.k, 1);
    tern_tensor *keys = repeat_heads(in.k, heads), *kept;
    tern_tensor *weights = weights_of(attr, &in, keys);
    tern_tensor *dropped = drop(attr, weights, &kept);
    tern_tensor *g = tern_matmul(grad, tern_transpose(repeat_heads(in.v, heads), -1, -2));
    if (kept != NULL)
        g = core_op2(TERN_OP_dropout_grad, TERN_HERE, &dropout, g, kept);
    g = tern_mul(core_op2(TERN_OP_softmax_grad, TERN_HERE, &along, g, weights), attr->scale);
    out_grads[0] = tern_matmul(g, keys);
    out_grads[1] = sum_heads(tern_matmul(tern_transpose(g, -1, -2), in.q), groups);
    out_grads[2] = sum_heads(tern_matmul(tern_transpose(dropped, -1, -2), grad), groups);
}
