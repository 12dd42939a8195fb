/* p-norms over any dimensions: torch.linalg.vector_norm. */
#include <math.h>

#include "core/compose.h"
#include "core/op_table.h"
#include "core/option.h"
#include "core/ops/reduce.h"
#include "core/rules.h"

bool rule_norm(core_call *call)
{
    const tern_attr_vector_norm *attr = core_attr(call);
    if ((attr->p < 0 || isinf(attr->p)) && !reduce_check_extents(call, attr->dims))
        return false;
    return reduce_out(call, attr->dims, attr->keepdim != 0,
                      (tern_dtype_t)core_view(call, 0)->dtype);
}

static bool check_p(core_call *call, double p)
{
    if (p == p)
        return true;
    return core_fail(call, TERN_ERR_ARGUMENT, "2, 1, INFINITY or another number", "p is NaN");
}

tern_tensor *tern_norm_at(tern_site_t site, const tern_norm_args *args)
{
    args = core_whole_options(args);
    tern_tensor *x = args->x, *out = NULL;
    tern_attr_vector_norm attr = { .keepdim = args->keepdim };
    attr.p = core_given(args->p, 2);
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_norm, site, 1, &x);
    if (core_compose_check(&frame) && check_p(&frame.call, attr.p) &&
        reduce_mask(&frame.call, &x->view, args->dims, &attr.dims)) {
        if (args->dtype != TERN_DTYPE_NONE)
            x = tern_cast(x, args->dtype);
        out = core_op1(TERN_OP_norm, site, &attr, x);
    }
    return core_compose_end(&frame, out);
}

/* The greatest (least) |x|, and those that are NaN, share equally. `norm` and `grad` have x's dimensions. */
static tern_tensor *extreme_grad(tern_tensor *x, tern_tensor *norm, tern_tensor *grad,
                                 uint32_t reduced)
{
    tern_tensor *first = tern_logical_or(tern_eq(tern_abs(x), norm), tern_isnan(x));
    return tern_mul(tern_sign(x), reduce_share(first, grad, reduced));
}

/* What the gradient is multiplied by; 0 where the norm is. `norm` has x's dimensions. */
static tern_tensor *slope(tern_tensor *x, tern_tensor *norm, double p)
{
    if (p == 1)
        return tern_sign(x);
    tern_tensor *s;
    if (p == 2) /* by infinity instead of 0: that is 0, and so are its gradients */
        return tern_div(x, tern_where(tern_eq(norm, 0.0), (double)INFINITY, norm));
    if (p < 1) {
        s = tern_mul(tern_sign(x), tern_pow(tern_abs(x), p - 1));
        return tern_mul(tern_where(tern_eq(x, 0.0), 0.0, s), tern_pow(norm, 1 - p));
    }
    s = p < 2 ? tern_mul(tern_sign(x), tern_pow(tern_abs(x), p - 1))
              : tern_mul(x, tern_pow(tern_abs(x), p - 2));
    /* the division is by 1 there: by 0 its own gradient would be NaN, even where nothing flows */
    tern_tensor *none = tern_eq(norm, 0.0);
    tern_tensor *divisor = tern_pow(tern_where(none, 1.0, norm), p - 1);
    return tern_where(none, 0.0, tern_div(s, divisor));
}

void back_norm(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *x = core_saved_in(ctx, 0), *norm = core_saved_out(ctx, 0);
    const tern_attr_vector_norm attr = core_ctx_attr(ctx, tern_attr_vector_norm);
    if (x == NULL || norm == NULL)
        return;
    if (attr.p == 0) {
        grad_in[0] = core_zeros_like(&x->view);
        return;
    }
    const tern_view *v = &x->view;
    norm = reduce_with_dims(norm, v, attr.dims);
    grad = reduce_with_dims(grad, v, attr.dims);
    grad_in[0] = isinf(attr.p) ? extreme_grad(x, norm, grad, attr.dims)
                               : tern_mul(slope(x, norm, attr.p), grad);
}
