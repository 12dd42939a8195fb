/* scaled_dot_product_attention: the row, its rules, and backward. Other shapes and the form made of
 * simple ops are in attention_shapes.c. */
#include "core/ops/attention.h"

#include "core/rules.h"

/* ---- rules ------------------------------------------------------------------------------------ */

/* Kernels read rows of adjacent elements. */
static bool make_rows_adjacent(core_call *call, int i)
{
    const tern_view *v = core_view(call, i);
    const int last = v->ndim - 1;
    if (last < 0 || v->stride[last] == 1 || v->shape[last] <= 1 || v->numel == 0)
        return true;
    return core_replace_input(call, i,
                              core_copied(call->self, call->site, call->op->name, call->in[i],
                                          v->dev, (tern_dtype_t)v->dtype, v->ndim, v->shape, NULL));
}

static bool check_operands(core_call *call, int first)
{
    const tern_view *q = core_view(call, first);
    const tern_view *k = core_view(call, first + 1);
    const tern_view *v = core_view(call, first + 2);
    if (!core_check_dtype(call, first, DT_FLOATS) ||
        !core_check_same_dtype(call, first + 1, first) ||
        !core_check_same_dtype(call, first + 2, first))
        return false;
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "the row takes q, k, v of four dimensions");
    if (q->shape[3] != k->shape[3])
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "queries have %lld features (q's last dimension) and keys %lld",
                         (long long)q->shape[3], (long long)k->shape[3]);
    if (k->shape[2] != v->shape[2])
        return core_fail(call, TERN_ERR_SHAPE, NULL, "%lld keys need as many values; v has %lld",
                         (long long)k->shape[2], (long long)v->shape[2]);
    if (q->shape[0] != k->shape[0] || q->shape[0] != v->shape[0] || k->shape[1] != v->shape[1])
        return core_fail(call, TERN_ERR_SHAPE, NULL, "q, k and v differ in their batches");
    const int64_t heads = q->shape[1], groups = k->shape[1];
    if (groups != heads && (groups == 0 || heads % groups != 0))
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "%lld heads of q cannot share %lld heads of k and v evenly",
                         (long long)heads, (long long)groups);
    return make_rows_adjacent(call, first) && make_rows_adjacent(call, first + 1) &&
           make_rows_adjacent(call, first + 2);
}

static bool take_mask(core_call *call, int i, const tern_view *q, const tern_view *k)
{
    if (call->in[i] == NULL)
        return true;
    const int64_t dims[4] = { q->shape[0], q->shape[1], q->shape[2], k->shape[2] };
    const uint8_t dtype = core_view(call, i)->dtype;
    if (!core_check_dtype(call, i, DT_FLOATS | B(TERN_BOOL)) ||
        (dtype != TERN_BOOL && !core_cast_input(call, i, (tern_dtype_t)q->dtype)))
        return false;
    const tern_view *mask = core_view(call, i);
    bool fits = mask->ndim <= 4;
    for (int d = 0; fits && d < mask->ndim; d++)
        fits = mask->shape[d] == 1 || mask->shape[d] == dims[4 - mask->ndim + d];
    if (!fits)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "the mask does not broadcast to [%lld, %lld, %lld, %lld]: batch, heads, "
                         "queries, keys",
                         (long long)dims[0], (long long)dims[1], (long long)dims[2],
                         (long long)dims[3]);
    return core_expand_input(call, i, 4, dims);
}

/* Output i: dims [4], rows of features without gaps, which kernels write as one; they lie in the order in which those
 * of `like` do. */
static bool out_as(core_call *call, int i, const tern_view *like, const int64_t *dims)
{
    tern_view rows = *like;
    int64_t strides[TERN_MAX_DIMS];
    if (call->preset || (like->flags & TERN_VIEW_CONTIGUOUS) || core_numel(4, dims) <= 0)
        return core_out(call, i, (tern_dtype_t)like->dtype, 4, dims);
    rows.ndim = 3;
    core_dense_strides(&rows, strides);
    for (int d = 0; d < 3; d++)
        strides[d] *= dims[3];
    strides[3] = 1;
    return core_out_strided(call, i, (tern_dtype_t)like->dtype, 4, dims, strides);
}

static tern_dtype_t statistics_dtype(const tern_view *q)
{
    return q->dtype == TERN_F64 ? TERN_F64 : TERN_F32;
}

bool rule_attention(core_call *call)
{
    if (!check_operands(call, 0))
        return false;
    const tern_view *q = core_view(call, 0), *v = core_view(call, 2);
    if (!take_mask(call, 3, q, core_view(call, 1)))
        return false;
    const int64_t dims[4] = { q->shape[0], q->shape[1], q->shape[2], v->shape[3] };
    return out_as(call, 0, q, dims) && core_out(call, 1, statistics_dtype(q), 3, dims);
}

bool rule_attention_grad(core_call *call)
{
    if (!check_operands(call, 1))
        return false;
    const tern_view *q = core_view(call, 1), *k = core_view(call, 2), *v = core_view(call, 3);
    if (!core_check_same_dtype(call, 0, 1) || !take_mask(call, 4, q, k) ||
        !core_check_same_dtype(call, 5, 1) || !core_check_dtype(call, 6, B(statistics_dtype(q))) ||
        !make_rows_adjacent(call, 0) || !make_rows_adjacent(call, 5))
        return false;
    const tern_view *y = core_view(call, 5);
    bool fits = y->ndim == 4 && core_view(call, 6)->ndim == 3 && y->shape[3] == v->shape[3] &&
                core_view_same_shape(core_view(call, 0), y);
    for (int d = 0; fits && d < 3; d++)
        fits = y->shape[d] == q->shape[d] && core_view(call, 6)->shape[d] == q->shape[d];
    if (!fits)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "gradient, result and operands do not fit");
    return out_as(call, 0, q, q->shape) && out_as(call, 1, k, k->shape) &&
           out_as(call, 2, v, v->shape);
}

/* ---- backward --------------------------------------------------------------------------------- */

/* A backward that is recorded itself needs what it is made of, so it is made of ops that can be: its
 * own gradient would be a kernel of twice the size for something that is rarely asked. */
void back_attention(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_attention attr = core_ctx_attr(ctx, tern_attr_attention);
    tern_tensor *q = core_saved_in(ctx, 0), *k = core_saved_in(ctx, 1), *v = core_saved_in(ctx, 2);
    tern_tensor *mask = core_saved_in(ctx, 3);
    tern_tensor *made[3] = { NULL, NULL, NULL };
    if (tern_grad_enabled()) {
        attention_grad_composed(&attr, grad, (attention_operands){ q, k, v, mask }, made);
    } else {
        tern_tensor *in[7] = {
            grad, q, k, v, mask, core_saved_out(ctx, 0), core_saved_out(ctx, 1)
        };
        tern_tensor **out[3] = { &made[0], &made[1], &made[2] };
        core_opn(TERN_OP_scaled_dot_product_attention_grad, TERN_HERE, &attr, 7, in, 3, out);
    }
    for (int i = 0; i < 3; i++)
        if (tern_needs_grad(ctx, i))
            grad_in[i] = made[i];
}
