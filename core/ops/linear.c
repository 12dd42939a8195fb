/* linear: x weight^T + bias. The row takes [M, K]; other shapes are folded to that without a copy
 * where their strides allow. */
#include "core/compose.h"
#include "core/op_table.h"
#include "core/tape.h"

/* ---- the row --------------------------------------------------------------------------------- */

static bool check_bias(core_call *call, int64_t outputs)
{
    if (call->in[2] == NULL)
        return true;
    const tern_view *bias = core_view(call, 2);
    if (bias->ndim != 1 || bias->shape[0] != outputs)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "the bias has to be [%lld], one for each row of "
                         "the weight",
                         (long long)outputs);
    return core_check_same_dtype(call, 2, 0);
}

static bool check_linear(core_call *call, const tern_view *x, const tern_view *weight)
{
    if (x->ndim == 0)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "x needs at least one dimension, the features");
    if (weight->ndim != 2)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "the weight has to be [out, in]; it has %d dimensions", weight->ndim);
    if (x->shape[x->ndim - 1] != weight->shape[1])
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "x has %lld features (its last dimension) and the weight takes %lld",
                         (long long)x->shape[x->ndim - 1], (long long)weight->shape[1]);
    return core_check_same_dtype(call, 1, 0) && check_bias(call, weight->shape[0]);
}

bool rule_linear(core_call *call)
{
    const tern_view *x = core_view(call, 0), *weight = core_view(call, 1);
    if (!check_linear(call, x, weight))
        return false;
    if (x->ndim != 2)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "the row takes x [rows, features]");
    const int64_t dims[2] = { x->shape[0], weight->shape[0] };
    return core_out(call, 0, (tern_dtype_t)x->dtype, 2, dims);
}

/* x goes before its gradient, which is as large, is made. */
void back_linear(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_matmul(tern_transpose(grad, 0, 1), core_saved_in(ctx, 0));
    core_saved_done(ctx, 0);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = tern_matmul(grad, core_saved_in(ctx, 1));
    if (tern_needs_grad(ctx, 2))
        grad_in[2] = tern_sum(grad, .dims = TERN_DIMS(0));
}

/* ---- other shapes ---------------------------------------------------------------------------- */

/* x as [rows, features], and the result back in x's shape with the last extent replaced. */
static tern_tensor *folded(tern_tensor *x, tern_tensor *weight, tern_tensor *bias)
{
    tern_shape_t shape = tern_shape(x);
    int64_t rows = 1;
    for (int d = 0; d < shape.ndim - 1; d++)
        rows *= shape.dims[d];
    tern_tensor *flat = tern_reshape(x, TERN_SHAPE(rows, shape.dims[shape.ndim - 1]));
    tern_tensor *out = core_op3(TERN_OP_linear, TERN_HERE, NULL, flat, weight, bias);
    shape.dims[shape.ndim - 1] = tern_size(weight, 0);
    return tern_view(out, shape);
}

tern_tensor *tern_linear_at(tern_site_t site, tern_tensor *x, tern_tensor *weight,
                            tern_tensor *bias)
{
    if (x == NULL || weight == NULL || x->view.ndim == 2)
        return core_op3(TERN_OP_linear, site, NULL, x, weight, bias);
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_linear, site, 3, (tern_tensor *[]){ x, weight, bias });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame) && core_compose_cast(&frame) &&
        check_linear(&frame.call, &frame.call.in[0]->view, &frame.call.in[1]->view))
        out = folded(frame.call.in[0], frame.call.in[1], frame.call.in[2]);
    return core_compose_end(&frame, out);
}
