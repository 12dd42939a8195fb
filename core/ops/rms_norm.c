/* rms_norm: rows divided by the root of their mean square; layer_norm without the mean. */
#include <float.h>

#include "core/ops/norm.h"
#include "core/option.h"

tern_tensor *tern_rms_norm_at(tern_site_t site, const tern_rms_norm_args *args)
{
    const char *problem = NULL;
    if (args == NULL || args->size_ < sizeof *args)
        problem = "x is missing\n  try tern_rms_norm(x, .weight = weight)";
    else if (args->dims < 0)
        problem = "dims is negative; it counts the last dimensions, 1 at least";
    else if (!(core_given(args->eps, 0) >= 0.0))
        problem = "eps is negative or NaN; it is added to the mean square";
    if (problem != NULL) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "rms_norm", "%s", problem);
        return NULL;
    }
    const bool is_f64 = args->x != NULL && args->x->view.dtype == TERN_F64;
    tern_attr_norm attr = { .eps =
                                core_given(args->eps, is_f64 ? DBL_EPSILON : (double)FLT_EPSILON),
                            .dims = args->dims > 0 ? args->dims : 1,
                            .training = 1 };
    tern_tensor *in[2] = { args->x, args->weight };
    tern_tensor *y = NULL;
    tern_tensor **out[2] = { &y, NULL };
    core_opn(TERN_OP_rms_norm, site, &attr, 2, in, 2, out);
    return y;
}

static bool check_x(core_call *call, const tern_view *x)
{
    const tern_attr_norm *attr = core_attr(call);
    return attr->dims <= x->ndim ||
           core_fail(call, TERN_ERR_SHAPE, NULL,
                     "the last %d dimensions of %d cannot be normalised", attr->dims, x->ndim);
}

bool rule_rms_norm(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !check_x(call, x))
        return false;
    const int dims = ((const tern_attr_norm *)core_attr(call))->dims, outer = x->ndim - dims;
    return norm_check_parameter(call, 1, 1, "the weight", dims, x->shape + outer) &&
           core_out(call, 0, (tern_dtype_t)x->dtype, x->ndim, x->shape) &&
           core_out(call, 1, norm_statistics_dtype(x), outer, x->shape);
}

/* (gradient, x, weight?, 1 / root of the mean square) -> gradients of x, weight */
bool rule_rms_norm_grad(core_call *call)
{
    const tern_view *g = core_view(call, 0), *x = core_view(call, 1), *r = core_view(call, 3);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !core_check_same_dtype(call, 1, 0) ||
        !check_x(call, x))
        return false;
    const int dims = ((const tern_attr_norm *)core_attr(call))->dims, outer = x->ndim - dims;
    if (!norm_check_parameter(call, 2, 2, "the weight", dims, x->shape + outer) ||
        !core_check_dtype(call, 3, B(norm_statistics_dtype(x))))
        return false;
    if (!core_view_same_shape(g, x) || r->numel != core_numel(outer, x->shape))
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "gradient, x and roots do not belong together");
    const uint8_t parameter = call->in[2] != NULL ? core_view(call, 2)->dtype : x->dtype;
    return core_out(call, 0, (tern_dtype_t)x->dtype, x->ndim, x->shape) &&
           core_out(call, 1, (tern_dtype_t)parameter, dims, x->shape + outer);
}

void back_rms_norm(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_norm attr = core_ctx_attr(ctx, tern_attr_norm);
    tern_tensor *in[4] = { grad, core_saved_in(ctx, 0), core_saved_in(ctx, 1),
                           core_saved_out(ctx, 1) };
    tern_tensor **out[2];
    for (int i = 0; i < 2; i++)
        out[i] = tern_needs_grad(ctx, i) ? &grad_in[i] : NULL;
    core_opn(TERN_OP_rms_norm_grad, TERN_HERE, &attr, 4, in, 2, out);
}

void back_rms_norm_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)grad; /* NULL when only the weight's gradient is differentiated */
    const tern_attr_norm attr = core_ctx_attr(ctx, tern_attr_norm);
    norm_geometry geometry = norm_last_dimensions(core_input_view(ctx, 1), &attr);
    geometry.about_zero = true;
    norm_grad_backward(ctx, &geometry, grad_in);
}
