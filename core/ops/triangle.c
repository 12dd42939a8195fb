/* tril, triu: one side of a diagonal of matrices. */
#include "core/op_table.h"

bool rule_triangle(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    if (x->ndim < 2)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "the input has %d dimensions; a matrix has at least 2", x->ndim);
    return core_out(call, 0, (tern_dtype_t)x->dtype, x->ndim, x->shape);
}

tern_tensor *tern_tril_at(tern_site_t site, tern_tensor *x, int64_t diagonal)
{
    tern_attr_triangle attr = { diagonal };
    return core_op1(TERN_OP_tril, site, &attr, x);
}

tern_tensor *tern_triu_at(tern_site_t site, tern_tensor *x, int64_t diagonal)
{
    tern_attr_triangle attr = { diagonal };
    return core_op1(TERN_OP_triu, site, &attr, x);
}

void back_tril(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_tril(grad, core_ctx_attr(ctx, tern_attr_triangle).diagonal);
}

void back_triu(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_triu(grad, core_ctx_attr(ctx, tern_attr_triangle).diagonal);
}
