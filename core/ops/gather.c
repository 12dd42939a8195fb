/* gather: elements along one dimension by their numbers. The gradient adds into zeros. */
#include "core/op_table.h"

tern_tensor *tern_gather_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor *index)
{
    tern_attr_dim attr = { .dim = dim };
    return core_op2(TERN_OP_gather, site, &attr, x, index);
}

static bool check_index(core_call *call)
{
    const tern_dtype_t dtype = (tern_dtype_t)core_view(call, 1)->dtype;
    if (dtype == TERN_I64)
        return true;
    return core_fail(call, TERN_ERR_DTYPE, "tern_cast(index, TERN_I64)",
                     "the index is %s; it has to be i64", tern_dtype_name(dtype));
}

/* Everywhere but along `dim` the index reaches no further than `dims`. */
static bool check_extents(core_call *call, int dim, int ndim, const int64_t *dims)
{
    const tern_view *index = core_view(call, 1);
    if (index->ndim != ndim)
        return core_fail(call, TERN_ERR_SHAPE, "tern_unsqueeze on the index",
                         "x has %d dimensions and the index %d", ndim, index->ndim);
    for (int d = 0; d < ndim; d++)
        if (d != dim && index->shape[d] > dims[d])
            return core_fail(call, TERN_ERR_SHAPE, NULL,
                             "the index has %lld in dimension %d where x has %lld",
                             (long long)index->shape[d], d, (long long)dims[d]);
    return true;
}

bool rule_gather(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    const tern_view *index = core_view(call, 1);
    tern_attr_dim *attr = core_attr(call);
    if (!check_index(call) || !core_normalise_dim(call, &attr->dim, x->ndim) ||
        !check_extents(call, attr->dim, x->ndim, x->shape))
        return false;
    attr->size = x->ndim > 0 ? x->shape[attr->dim] : 1;
    return core_out(call, 0, (tern_dtype_t)x->dtype, index->ndim, index->shape);
}

/* (gradient, index) -> gradient of x, attr->dims */
bool rule_gather_grad(core_call *call)
{
    const tern_view *g = core_view(call, 0);
    tern_attr_gather_grad *attr = core_attr(call);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !check_index(call) ||
        !core_normalise_dim(call, &attr->dim, attr->ndim) ||
        !check_extents(call, attr->dim, attr->ndim, attr->dims))
        return false;
    if (!core_view_same_shape(g, core_view(call, 1)))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "gradient and index differ in shape");
    return core_out(call, 0, (tern_dtype_t)g->dtype, attr->ndim, attr->dims);
}

void back_gather(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    tern_attr_gather_grad attr = { .dim = core_ctx_attr(ctx, tern_attr_dim).dim, .ndim = x->ndim };
    for (int d = 0; d < x->ndim; d++)
        attr.dims[d] = x->shape[d];
    grad_in[0] = core_op2(TERN_OP_gather_grad, TERN_HERE, &attr, grad, core_saved_in(ctx, 1));
}

void back_gather_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const int dim = core_ctx_attr(ctx, tern_attr_gather_grad).dim;
    grad_in[0] = tern_gather(grad, dim, core_saved_in(ctx, 1));
}
