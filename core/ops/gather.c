/* gather, index_select: elements along one dimension by their numbers. The gradient adds into zeros.
 * scatter, scatter_add: into places along one dimension by their numbers. */
#include <string.h>

#include "core/compose.h"
#include "core/op_table.h"
#include "core/promote.h"
#include "core/rules.h"

tern_tensor *tern_gather_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor *index)
{
    tern_attr_dim attr = { .dim = dim };
    if (x == NULL || index == NULL || x->view.ndim != 0 || index->view.ndim != 1)
        return core_op2(TERN_OP_gather, site, &attr, x, index);
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_gather, site, 2, (tern_tensor *[]){ x, index });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame))
        out = core_op2(TERN_OP_gather, site, &attr, tern_unsqueeze(x, 0), index);
    return core_compose_end(&frame, out);
}

/* Kernels read i64; i32, which PyTorch takes too, becomes that. Last of the checks: errors show what was given. */
static bool check_index(core_call *call)
{
    const tern_dtype_t dtype = (tern_dtype_t)core_view(call, 1)->dtype;
    if (dtype == TERN_I64 || dtype == TERN_I32)
        return core_cast_input(call, 1, TERN_I64);
    return core_fail(call, TERN_ERR_DTYPE, "tern_cast(index, TERN_I64)",
                     "the index is %s; it has to be i64 or i32", tern_dtype_name(dtype));
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
    tern_attr_dim *attr = core_attr(call);
    if (!core_normalise_dim(call, &attr->dim, x->ndim) ||
        !check_extents(call, attr->dim, x->ndim, x->shape) || !check_index(call))
        return false;
    const tern_view *index = core_view(call, 1);
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

/* ---- index_select ------------------------------------------------------------------------------ */

tern_tensor *tern_index_select_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor *index)
{
    tern_attr_dim attr = { .dim = dim };
    return core_op2(TERN_OP_index_select, site, &attr, x, index);
}

bool rule_index_select(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    const tern_view *index = core_view(call, 1);
    tern_attr_dim *attr = core_attr(call);
    int64_t dims[TERN_MAX_DIMS] = { 0 };
    if (!core_normalise_dim(call, &attr->dim, x->ndim))
        return false;
    if (index->ndim > 1 || (x->ndim == 0 && index->numel != 1))
        return core_fail(call, TERN_ERR_SHAPE, "tern_index, or tern_reshape on the index",
                         "the index has to be 1-D or 0-dim%s",
                         x->ndim == 0 ? ", and of one element for a 0-dim tensor" : "");
    if (!check_index(call))
        return false;
    for (int d = 0; d < x->ndim; d++)
        dims[d] = d == attr->dim ? index->numel : x->shape[d];
    attr->size = x->ndim > 0 ? x->shape[attr->dim] : 1;
    return core_out(call, 0, (tern_dtype_t)x->dtype, x->ndim, dims);
}

tern_tensor *core_spread_index(tern_tensor *index, int dim, const tern_view *over)
{
    tern_shape_t thin = { .set_ = TERN_GIVEN_, .ndim = over->ndim }, shape = thin;
    for (int d = 0; d < over->ndim; d++) {
        thin.dims[d] = d == dim ? over->shape[d] : 1;
        shape.dims[d] = over->shape[d];
    }
    return tern_expand(tern_reshape(index, thin), shape);
}

void back_index_select(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    tern_attr_gather_grad attr = { .dim = core_ctx_attr(ctx, tern_attr_dim).dim, .ndim = x->ndim };
    tern_tensor *index = core_saved_in(ctx, 1);
    memcpy(attr.dims, x->shape, (size_t)x->ndim * sizeof *attr.dims);
    if (index != NULL)
        grad_in[0] = core_op2(TERN_OP_gather_grad, TERN_HERE, &attr, grad,
                              core_spread_index(index, attr.dim, &grad->view));
}

/* ---- scatter ----------------------------------------------------------------------------------- */

bool rule_scatter(core_call *call)
{
    const tern_view *x = core_view(call, 0), *src = core_view(call, 2);
    tern_attr_dim *attr = core_attr(call);
    if (x->dtype != src->dtype)
        return core_fail(call, TERN_ERR_DTYPE, "tern_cast on src", "x is %s and src %s",
                         tern_dtype_name((tern_dtype_t)x->dtype),
                         tern_dtype_name((tern_dtype_t)src->dtype));
    if (!core_normalise_dim(call, &attr->dim, x->ndim) ||
        !check_extents(call, attr->dim, x->ndim, x->shape) || !check_index(call))
        return false;
    if (!core_view_same_shape(core_view(call, 1), src))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "src is smaller than the index somewhere");
    if (call->preset && (!core_check_destination(call) || !core_separate_input(call, 1) ||
                         !core_separate_input(call, 2)))
        return false;
    attr->size = x->ndim > 0 ? x->shape[attr->dim] : 1;
    return core_out_like(call, 0, x, (tern_dtype_t)x->dtype);
}

tern_tensor *core_number_like(tern_tensor *x, tern_operand number)
{
    const bool real = number.kind_ == TERN_NUMBER_FLOAT;
    tern_attr_fill attr = { .value = { (int32_t)number.kind_, 0,
                                       real ? number.value_.f : (double)number.value_.i,
                                       real ? 0 : number.value_.i } };
    return core_op0(TERN_OP_fill, TERN_HERE, &attr, x->view.dev, (tern_dtype_t)x->view.dtype, 0,
                    NULL);
}

/* A number as often as the index wants it; of a tensor what the index reaches. */
static tern_tensor *source_of(tern_tensor *x, tern_tensor *index, tern_operand src)
{
    tern_tensor *t = src.value_.tensor;
    if (src.kind_ != 0)
        return tern_expand(core_number_like(x, src), tern_shape(index));
    for (int d = 0; t != NULL && t->view.ndim == index->view.ndim && d < t->view.ndim; d++) {
        tern_attr_slice part = { .dim = d, .length = index->view.shape[d], .step = 1 };
        if (t->view.shape[d] > part.length)
            t = core_op1(TERN_OP_slice, TERN_HERE, &part, t);
    }
    return t;
}

static tern_tensor *scatter(tern_op_id id, tern_site_t site, tern_tensor *x, int dim,
                            tern_tensor *index, tern_operand src, bool writes)
{
    core_frame frame;
    tern_attr_dim attr = { .dim = dim };
    tern_tensor *out = NULL;
    core_compose_begin(&frame, id, site, 2, (tern_tensor *[]){ x, index });
    if (core_compose_check(&frame) &&
        core_require_number(frame.call.self, site, frame.call.op->name, src, tern_dtype(x))) {
        tern_tensor *in[3] = { x, index, source_of(x, index, src) };
        out = writes ? core_opn_inplace(id, site, &attr, 3, in)
                     : core_op3(id, site, &attr, in[0], in[1], in[2]);
    }
    if (!writes)
        return core_compose_end(&frame, out);
    (void)core_compose_end(&frame, NULL);
    return out;
}

tern_tensor *tern_scatter_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor *index,
                             tern_operand src)
{
    return scatter(TERN_OP_scatter, site, x, dim, index, src, false);
}

tern_tensor *tern_scatter_add_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor *index,
                                 tern_operand src)
{
    return scatter(TERN_OP_scatter_add, site, x, dim, index, src, false);
}

tern_tensor *tern_scatter_inplace_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor *index,
                                     tern_operand src)
{
    return scatter(TERN_OP_scatter, site, x, dim, index, src, true);
}

tern_tensor *tern_scatter_add_inplace_at(tern_site_t site, tern_tensor *x, int dim,
                                         tern_tensor *index, tern_operand src)
{
    return scatter(TERN_OP_scatter_add, site, x, dim, index, src, true);
}

/* What was written over has no gradient. */
void back_scatter(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const int dim = core_ctx_attr(ctx, tern_attr_dim).dim;
    tern_tensor *index = core_saved_in(ctx, 1);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = tern_scatter(grad, dim, index, 0);
    if (tern_needs_grad(ctx, 2))
        grad_in[2] = tern_gather(grad, dim, index);
}

void back_scatter_add(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = grad;
    if (tern_needs_grad(ctx, 2))
        grad_in[2] =
            tern_gather(grad, core_ctx_attr(ctx, tern_attr_dim).dim, core_saved_in(ctx, 1));
}
