/* softmax and log_softmax along one dimension. Their gradients are rows of their own, so that
 * gradients of gradients are backward functions like any other. */
#include "core/op_table.h"

tern_tensor *tern_softmax_at(tern_site_t site, tern_tensor *x, int dim)
{
    tern_attr_dim attr = { .dim = dim };
    return core_op1(TERN_OP_softmax, site, &attr, x);
}

tern_tensor *tern_log_softmax_at(tern_site_t site, tern_tensor *x, int dim)
{
    tern_attr_dim attr = { .dim = dim };
    return core_op1(TERN_OP_log_softmax, site, &attr, x);
}

bool rule_softmax(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    tern_attr_dim *attr = core_attr(call);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !core_normalise_dim(call, &attr->dim, x->ndim))
        return false;
    return core_out(call, 0, (tern_dtype_t)x->dtype, x->ndim, x->shape);
}

/* (gradient, y) -> gradient of x */
bool rule_softmax_grad(core_call *call)
{
    const tern_view *g = core_view(call, 0);
    const tern_view *y = core_view(call, 1);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !core_check_same_dtype(call, 1, 0))
        return false;
    if (!core_view_same_shape(g, y))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "gradient and result differ in shape");
    return core_out(call, 0, (tern_dtype_t)y->dtype, y->ndim, y->shape);
}

void back_softmax(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_dim attr = core_ctx_attr(ctx, tern_attr_dim);
    grad_in[0] = core_op2(TERN_OP_softmax_grad, TERN_HERE, &attr, grad, core_saved_out(ctx, 0));
}

void back_log_softmax(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_dim attr = core_ctx_attr(ctx, tern_attr_dim);
    grad_in[0] = core_op2(TERN_OP_log_softmax_grad, TERN_HERE, &attr, grad, core_saved_out(ctx, 0));
}

static tern_tensor *sum_along(tern_tensor *x, int dim)
{
    return tern_sum(x, .dims = TERN_DIMS(dim), .keepdim = true);
}

/* gx = y (g - s) with s = sum(g y). With u the gradient of gx:
 * of g: y (u - sum(u y)), the same row again; of y: u (g - s) - g sum(u y). */
void back_softmax_grad(tern_op_ctx *ctx, tern_tensor *u, tern_tensor **grad_in)
{
    tern_attr_dim attr = core_ctx_attr(ctx, tern_attr_dim);
    tern_tensor *g = core_saved_in(ctx, 0);
    tern_tensor *y = core_saved_in(ctx, 1);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = core_op2(TERN_OP_softmax_grad, TERN_HERE, &attr, u, y);
    if (tern_needs_grad(ctx, 1)) {
        tern_tensor *centred = tern_sub(g, sum_along(tern_mul(g, y), attr.dim));
        grad_in[1] =
            tern_sub(tern_mul(u, centred), tern_mul(g, sum_along(tern_mul(u, y), attr.dim)));
    }
}

/* gx = g - exp(y) sum(g). With u the gradient of gx: of g: u - sum(u exp(y)); of y:
 * -u exp(y) sum(g). */
void back_log_softmax_grad(tern_op_ctx *ctx, tern_tensor *u, tern_tensor **grad_in)
{
    const tern_attr_dim attr = core_ctx_attr(ctx, tern_attr_dim);
    tern_tensor *weighted = tern_mul(u, tern_exp(core_saved_in(ctx, 1)));
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = tern_sub(u, sum_along(weighted, attr.dim));
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_neg(tern_mul(weighted, sum_along(core_saved_in(ctx, 0), attr.dim)));
}
