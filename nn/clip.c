/* Clipping of gradients, without reading anything back from their devices. */
#include <math.h>
#include <stdlib.h>

#include "nn/internal.h"
#include "tern/amp.h"

/* The norm of one gradient: of half types in f32, since in f16 the norm itself may overflow. */
static tern_tensor *norm_of(tern_tensor *grad, double exponent)
{
    TERN_SCOPE;
    const tern_dtype_t dtype = tern_dtype(grad);
    const bool half = dtype == TERN_F16 || dtype == TERN_BF16;
    return tern_keep(tern_norm(grad, .p = exponent, .dtype = half ? TERN_F32 : TERN_DTYPE_NONE));
}

/* The norm of all gradients as one vector is the norm of their norms, on the first one's device. NULL:
 * there is no gradient, or an error. */
static tern_tensor *total_norm(tern_site_t site, tern_tensors_t params, double exponent)
{
    tern_tensor **parts = nn_alloc(site, "clip_grad_norm", params.count, sizeof(tern_tensor *));
    tern_tensor *total = NULL;
    int64_t n = 0;
    for (int64_t i = 0; i < params.count && !tern_failed(); i++) {
        tern_tensor *grad = tern_grad_of(params.tensors[i]);
        if (!grad || tern_numel(grad) == 0)
            continue;
        tern_tensor *part = norm_of(grad, exponent);
        parts[n] = n > 0 && part ? tern_to(part, tern_device(parts[0])) : part;
        n++;
    }
    if (n == 1)
        total = parts[0];
    else if (n > 1 && !tern_failed())
        total = tern_norm(tern_stack_at(TERN_HERE, parts, n, 0), .p = exponent);
    free(parts);
    return tern_failed() ? NULL : total;
}

/* The factor where each gradient is, before the first gradient is written. */
static bool bring_factors(tern_tensors_t params, tern_tensor *factor, tern_tensor **factors)
{
    for (int64_t i = 0; i < params.count && !tern_failed(); i++) {
        const tern_tensor *grad = tern_grad_of(params.tensors[i]);
        factors[i] = grad ? tern_to(factor, tern_device(grad)) : NULL;
    }
    return !tern_failed();
}

static void scale_all(tern_site_t site, tern_tensors_t params, tern_tensor *norm, double max_norm)
{
    tern_tensor **factors = nn_alloc(site, "clip_grad_norm", params.count, sizeof(tern_tensor *));
    tern_tensor *factor = tern_minimum(tern_div(max_norm, tern_add(norm, 1e-6)), 1.0);
    const bool ready = factors && bring_factors(params, factor, factors);
    for (int64_t i = 0; i < params.count && ready; i++)
        if (factors[i])
            tern_mul_(tern_grad_of(params.tensors[i]), factors[i]);
    free(factors);
}

static bool check_params(tern_site_t site, const char *what, tern_tensors_t params)
{
    if (params.count > 0 && !params.tensors)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the list of parameters is NULL");
    for (int64_t i = 0; i < params.count && !tern_failed(); i++)
        if (!params.tensors[i])
            tern_fail_at(site, TERN_ERR_ARGUMENT, what, "parameter %lld is NULL", (long long)i);
    for (int64_t i = 0; i < params.count && !tern_failed(); i++)
        nn_check_written_grad(site, what, params, i);
    return !tern_failed();
}

/* Reads the numbers, of which max_norm has no default. */
static bool check(tern_site_t site, tern_clip_args *args)
{
    static const char what[] = "clip_grad_norm";
    const double max_norm = nn_option(args->max_norm, -1);
    if (!(max_norm >= 0))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "max_norm = %g: it must be positive, or a zero that is given (TERN_ZERO)",
                     args->max_norm);
    args->max_norm = max_norm;
    args->norm_type = nn_option(args->norm_type, 2);
    if (!(args->norm_type > 0))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "norm_type = %g: it must be positive",
                     args->norm_type);
    return check_params(site, what, args->params);
}

static tern_tensor *clip(tern_site_t site, const tern_clip_args *args)
{
    tern_tensor *norm = total_norm(site, args->params, args->norm_type);
    if (!norm && !tern_failed())
        return tern_zeros(TERN_SCALAR_SHAPE);
    if (norm && args->error_if_nonfinite && !isfinite(tern_item(norm)) && !tern_failed())
        tern_fail(TERN_ERR_ARGUMENT, "clip_grad_norm",
                  "the norm of the gradients is not finite, so they cannot be clipped");
    if (!tern_failed())
        scale_all(site, args->params, norm, args->max_norm);
    return tern_failed() ? NULL : norm;
}

/* A region would take the squares in its own dtype: of f16 they overflow, and clip everything to 0. A
 * kind of device that was switched off is not found on again, so that each has one entry. */
static int autocast_off(tern_tensors_t params, tern_autocast_region *off)
{
    int n = 0;
    for (int64_t i = 0; i < params.count; i++) {
        const tern_tensor *grad = tern_grad_of(params.tensors[i]);
        if (grad && tern_autocast_enabled(tern_device(grad)))
            off[n++] = tern_autocast_begin(.device = tern_device(grad), .disabled = true);
    }
    return n;
}

tern_tensor *tern_clip_grad_norm_at(tern_site_t site, const tern_clip_args *given)
{
    NN_ARGS(site, "clip_grad_norm", tern_clip_args, args, given);
    if (!args_given || !check(site, &args))
        return NULL;
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    tern_autocast_region off[TERN_KINDS];
    int regions = autocast_off(args.params, off);
    tern_tensor *norm = clip(site, &args);
    while (regions > 0)
        tern_autocast_end(&off[--regions]);
    tern_set_grad_enabled(recording);
    return nn_leave_with(&frame, norm);
}

tern_status_t tern_clip_grad_value_at(tern_site_t site, tern_tensors_t params, double value)
{
    value = nn_option(value, 0);
    if (!(value >= 0))
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "clip_grad_value",
                            "value = %g: it must not be negative", value);
    if (!check_params(site, "clip_grad_value", params))
        return tern_error_code();
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    for (int64_t i = 0; i < params.count && !tern_failed(); i++) {
        tern_tensor *grad = tern_grad_of(params.tensors[i]);
        if (grad)
            tern_clamp_(grad, -value, value);
    }
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return tern_error_code();
}
