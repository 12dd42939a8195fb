/* batch_norm: each channel (dimension 1) to mean 0 and deviation 1 over all other dimensions when
 * training, by running statistics when evaluating; then weight and bias. */
#include "core/ops/norm.h"
#include "core/option.h"

static bool fill_attr(tern_site_t site, const tern_batch_norm_args *args, tern_attr_norm *attr)
{
    const char *problem = NULL;
    if (args == NULL || args->size_ < sizeof *args)
        problem =
            "x is missing\n  try tern_batch_norm(x, weight, bias, mean, var, .training = true)";
    else if ((args->running_mean == NULL) != (args->running_var == NULL))
        problem = "running_mean and running_var belong together, one is missing";
    else if (!args->training && args->running_mean == NULL)
        problem = "evaluating needs running_mean and running_var\n"
                  "  try .training = true for the statistics of x itself";
    else if (!(core_given(args->eps, 0) >= 0.0))
        problem = "eps is negative or NaN; it is added to the variance";
    else if (!(core_given(args->momentum, 0) >= 0.0 && args->momentum <= 1.0))
        problem = "momentum is the weight of the new statistics; it lies in [0, 1]";
    if (problem != NULL)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "batch_norm", "%s", problem) == TERN_OK;
    *attr = (tern_attr_norm){ .eps = core_given(args->eps, 1e-5),
                              .momentum = core_given(args->momentum, 0.1),
                              .training = args->training };
    return true;
}

tern_tensor *tern_batch_norm_at(tern_site_t site, const tern_batch_norm_args *args)
{
    tern_attr_norm attr;
    if (tern_failed() || !fill_attr(site, args, &attr))
        return NULL;
    tern_tensor *in[5] = { args->x, args->weight, args->bias, args->running_mean,
                           args->running_var };
    tern_tensor *y = NULL;
    tern_tensor **out[3] = { &y, NULL, NULL };
    core_opn(TERN_OP_batch_norm, site, &attr, 5, in, 3, out);
    return y;
}

static bool check_x(core_call *call, const tern_view *x)
{
    if (x->ndim < 2)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "x has to be [N, C] or [N, C, ...]");
    return true;
}

/* Kernels write the running statistics, so a packed copy of them would be lost. */
static bool check_running(core_call *call, int i, const char *name)
{
    if (call->in[i] == NULL || (core_view(call, i)->flags & TERN_VIEW_CONTIGUOUS))
        return true;
    return core_fail(call, TERN_ERR_ARGUMENT, "tern_contiguous once, where the buffer is made",
                     "%s has gaps between its elements", name);
}

static bool check_parameters(core_call *call, const int64_t *channels)
{
    static const char *const names[] = { NULL, "the weight", "the bias", "running_mean",
                                         "running_var" };
    for (int i = 1; i < 5; i++)
        if (!norm_check_parameter(call, i < 3 ? 1 : 3, i, names[i], 1, channels))
            return false;
    const bool written = ((const tern_attr_norm *)core_attr(call))->training;
    return !written || (check_running(call, 3, names[3]) && check_running(call, 4, names[4]));
}

static bool out_like_image(core_call *call, int i, const tern_view *x)
{
    if (x->ndim == 4 && !(x->flags & TERN_VIEW_CONTIGUOUS) && core_view_channels_last(x))
        return core_out_image(call, i, (tern_dtype_t)x->dtype, x->shape, true);
    return core_out(call, i, (tern_dtype_t)x->dtype, x->ndim, x->shape);
}

bool rule_batch_norm(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    const tern_attr_norm *attr = core_attr(call);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !check_x(call, x))
        return false;
    if (attr->training && x->shape[1] > 0 && x->numel == x->shape[1])
        return core_fail(call, TERN_ERR_SHAPE, ".training = false, or a batch of 2 or more",
                         "training needs more than one value per channel");
    const int64_t channels = x->shape[1];
    const tern_dtype_t statistics = norm_statistics_dtype(x);
    return check_parameters(call, &channels) && norm_match_bias(call) &&
           out_like_image(call, 0, x) && core_out(call, 1, statistics, 1, &channels) &&
           core_out(call, 2, statistics, 1, &channels);
}

/* (gradient, x, weight?, mean, 1 / deviation) -> gradients of x, weight, bias */
bool rule_batch_norm_grad(core_call *call)
{
    const tern_view *g = core_view(call, 0);
    const tern_view *x = core_view(call, 1);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !core_check_same_dtype(call, 1, 0) ||
        !check_x(call, x))
        return false;
    if (!core_view_same_shape(g, x))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "gradient and x differ in shape");
    const int64_t channels = x->shape[1];
    const tern_dtype_t statistics = norm_statistics_dtype(x);
    for (int i = 3; i < 5; i++) {
        if (!core_check_dtype(call, i, B(statistics)))
            return false;
        if (core_view(call, i)->numel != channels)
            return core_fail(call, TERN_ERR_SHAPE, NULL, "%lld channels need as many statistics",
                             (long long)channels);
    }
    if (!norm_check_parameter(call, 2, 2, "the weight", 1, &channels))
        return false;
    const uint8_t parameter = call->in[2] != NULL ? core_view(call, 2)->dtype : x->dtype;
    return out_like_image(call, 0, x) && core_out(call, 1, (tern_dtype_t)parameter, 1, &channels) &&
           core_out(call, 2, (tern_dtype_t)parameter, 1, &channels);
}

void back_batch_norm(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    norm_backward(ctx, TERN_OP_batch_norm_grad, grad, grad_in);
}

void back_batch_norm_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)grad; /* NULL when only a parameter's gradient is differentiated */
    const tern_attr_norm attr = core_ctx_attr(ctx, tern_attr_norm);
    const tern_view *x = core_input_view(ctx, 1);
    norm_geometry geometry = { .eps = attr.eps, .fixed = !attr.training };
    geometry.together = (tern_dims_t){ .set_ = TERN_GIVEN_ };
    for (int d = 0; d < x->ndim; d++)
        if (d != 1)
            geometry.together.dims[geometry.together.ndim++] = d;
    geometry.apart = geometry.together;
    geometry.parameter = TERN_SHAPE(x->shape[1]);
    geometry.parameter_in_x = (tern_shape_t){ .set_ = TERN_GIVEN_, .ndim = x->ndim };
    for (int d = 0; d < x->ndim; d++)
        geometry.parameter_in_x.dims[d] = d == 1 ? x->shape[1] : 1;
    norm_grad_backward(ctx, &geometry, grad_in);
}
