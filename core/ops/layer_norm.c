/* layer_norm: the last dimensions of each row to mean 0 and deviation 1, then weight and bias. */
#include "core/ops/norm.h"
#include "core/option.h"

static bool fill_attr(tern_site_t site, const tern_layer_norm_args *args, tern_attr_norm *attr)
{
    const char *problem = NULL;
    if (args == NULL || args->size_ < sizeof *args)
        problem = "x is missing\n  try tern_layer_norm(x, .weight = weight, .bias = bias)";
    else if (args->dims < 0)
        problem = "dims is negative; it counts the last dimensions, 1 at least";
    else if (!(core_given(args->eps, 0) >= 0.0))
        problem = "eps is negative or NaN; it is added to the variance";
    if (problem != NULL)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "layer_norm", "%s", problem) == TERN_OK;
    *attr = (tern_attr_norm){ .eps = core_given(args->eps, 1e-5),
                              .dims = args->dims > 0 ? args->dims : 1,
                              .training = 1 };
    return true;
}

tern_tensor *tern_layer_norm_at(tern_site_t site, const tern_layer_norm_args *args)
{
    tern_attr_norm attr;
    if (tern_failed() || !fill_attr(site, args, &attr))
        return NULL;
    tern_tensor *in[3] = { args->x, args->weight, args->bias };
    tern_tensor *y = NULL;
    tern_tensor **out[3] = { &y, NULL, NULL };
    core_opn(TERN_OP_layer_norm, site, &attr, 3, in, 3, out);
    return y;
}

bool rule_layer_norm(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    const tern_attr_norm *attr = core_attr(call);
    if (!core_check_dtype(call, 0, DT_FLOATS))
        return false;
    if (attr->dims > x->ndim)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "the last %d dimensions of %d cannot be normalised", attr->dims, x->ndim);
    const int outer = x->ndim - attr->dims;
    const tern_dtype_t statistics = norm_statistics_dtype(x);
    return norm_check_parameter(call, 1, 1, "the weight", attr->dims, x->shape + outer) &&
           norm_check_parameter(call, 1, 2, "the bias", attr->dims, x->shape + outer) &&
           norm_match_bias(call) && core_out(call, 0, (tern_dtype_t)x->dtype, x->ndim, x->shape) &&
           core_out(call, 1, statistics, outer, x->shape) &&
           core_out(call, 2, statistics, outer, x->shape);
}

/* (gradient, x, weight?, mean, 1 / deviation) -> gradients of x, weight, bias */
bool rule_layer_norm_grad(core_call *call)
{
    const tern_view *g = core_view(call, 0);
    const tern_view *x = core_view(call, 1);
    const tern_attr_norm *attr = core_attr(call);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !core_check_same_dtype(call, 1, 0))
        return false;
    if (!core_view_same_shape(g, x) || attr->dims > x->ndim)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "gradient and x differ in shape");
    const int outer = x->ndim - attr->dims;
    const tern_dtype_t statistics = norm_statistics_dtype(x);
    if (!norm_check_parameter(call, 2, 2, "the weight", attr->dims, x->shape + outer) ||
        !core_check_dtype(call, 3, B(statistics)) || !core_check_dtype(call, 4, B(statistics)))
        return false;
    const int64_t rows = core_numel(outer, x->shape);
    if (core_view(call, 3)->numel != rows || core_view(call, 4)->numel != rows)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "%lld rows need as many means and deviations",
                         (long long)rows);
    const uint8_t parameter = call->in[2] != NULL ? core_view(call, 2)->dtype : x->dtype;
    return core_out(call, 0, (tern_dtype_t)x->dtype, x->ndim, x->shape) &&
           core_out(call, 1, (tern_dtype_t)parameter, attr->dims, x->shape + outer) &&
           core_out(call, 2, (tern_dtype_t)parameter, attr->dims, x->shape + outer);
}

void back_layer_norm(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    norm_backward(ctx, TERN_OP_layer_norm_grad, grad, grad_in);
}

void back_layer_norm_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)grad; /* NULL when only a parameter's gradient is differentiated */
    const tern_attr_norm attr = core_ctx_attr(ctx, tern_attr_norm);
    const norm_geometry geometry = norm_last_dimensions(core_input_view(ctx, 1), &attr);
    norm_grad_backward(ctx, &geometry, grad_in);
}
