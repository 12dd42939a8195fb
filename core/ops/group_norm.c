/* group_norm and instance_norm: layer_norm of rows that are groups, batch_norm of a batch of one. Half
 * types are widened on the way, so that results are rounded once. */
#include "core/compose.h"
#include "core/error.h"
#include "core/ops/image.h"
#include "core/option.h"

static bool is_half(const tern_tensor *t)
{
    const tern_dtype_t dtype = tern_dtype(t);
    return dtype == TERN_F16 || dtype == TERN_BF16;
}

static tern_tensor *widened(tern_tensor *t)
{
    return is_half(t) ? tern_cast(t, TERN_F32) : t;
}

/* [C], where given, of x's dtype or f32 beside half types. */
static bool check_channels(core_call *call, int first, int last)
{
    const tern_view *x = core_view(call, 0);
    const bool half = is_half(call->in[0]);
    char name[CORE_OPERAND_BYTES];
    for (int i = first; i <= last; i++) {
        if (call->in[i] == NULL)
            continue;
        const tern_view *p = core_view(call, i);
        if (p->ndim != 1 || p->shape[0] != x->shape[1])
            return core_fail(call, TERN_ERR_SHAPE, NULL,
                             "%s has to be [%lld], one for each channel of x (dimension 1)",
                             core_operand_name(call->op, i, name), (long long)x->shape[1]);
        if (!(half && p->dtype == TERN_F32) && !core_check_same_dtype(call, i, 0))
            return false;
    }
    return true;
}

/* It goes on to other ops as it was given: their default is the same. */
static bool check_eps(core_call *call, double eps)
{
    return core_given(eps, 0) >= 0 ||
           core_fail(call, TERN_ERR_ARGUMENT, NULL,
                     "eps is negative or NaN; it is added to the variance");
}

/* What was computed row by row, in the memory format of x. */
static tern_tensor *laid_as(tern_tensor *y, const tern_view *x)
{
    return y != NULL && image_channels_last(x) ? tern_to(y, .format = TERN_FORMAT_CHANNELS_LAST)
                                               : y;
}

/* x [N, C, ...] times and plus one number per channel. */
static tern_tensor *scale_channels(tern_tensor *x, tern_tensor *weight, tern_tensor *bias)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = tern_ndim(x) - 1 };
    for (int d = 0; d < shape.ndim; d++)
        shape.dims[d] = d == 0 ? tern_size(x, 1) : 1;
    if (weight != NULL)
        x = tern_mul(x, tern_reshape(widened(weight), shape));
    return bias != NULL ? tern_add(x, tern_reshape(widened(bias), shape)) : x;
}

/* Nothing is normalised; weight and bias have gradients all the same, which are 0. */
static tern_tensor *of_nothing(const core_call *call)
{
    tern_tensor *y = scale_channels(call->in[0], call->in[1], call->in[2]);
    return y == NULL ? NULL : tern_cast(y, tern_dtype(call->in[0]));
}

/* ---- group_norm ------------------------------------------------------------------------------ */

static tern_tensor *group_norm(core_frame *frame, int64_t groups, double eps)
{
    core_call *call = &frame->call;
    char shape[160];
    if (!core_compose_check(frame) || !core_compose_cast(frame) ||
        !core_check_dtype(call, 0, DT_FLOATS))
        return NULL;
    const tern_view *x = core_view(call, 0);
    if (x->ndim < 2 || groups < 1 || x->shape[1] % groups != 0) {
        core_fail(call, TERN_ERR_SHAPE, NULL,
                  "expected [N, C, ...] with a number of channels that groups divide, but got %s "
                  "and groups=%lld",
                  core_shape_text(x->ndim, x->shape, shape, sizeof shape), (long long)groups);
        return NULL;
    }
    if (!check_channels(call, 1, 2) || !check_eps(call, eps))
        return NULL;
    if (x->numel == 0)
        return of_nothing(call);
    const int64_t rows = x->shape[0] * groups;
    if (x->numel == groups) { /* as torch.nn.functional.group_norm, which counts over the batch */
        core_fail(call, TERN_ERR_SHAPE, NULL,
                  "expected more than one value per group, but got %s and groups=%lld",
                  core_shape_text(x->ndim, x->shape, shape, sizeof shape), (long long)groups);
        return NULL;
    }
    tern_tensor *y = tern_reshape(widened(call->in[0]), TERN_SHAPE(rows, x->numel / rows));
    y = tern_reshape(tern_layer_norm(y, .eps = eps), tern_shape(call->in[0]));
    y = laid_as(y, x);
    if (y != NULL)
        y = scale_channels(y, call->in[1], call->in[2]);
    return y != NULL ? tern_cast(y, (tern_dtype_t)x->dtype) : NULL;
}

tern_tensor *tern_group_norm_at(tern_site_t site, const tern_group_norm_args *args)
{
    if (args == NULL || args->size_ < sizeof *args) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "group_norm",
                     "x is missing\n  try tern_group_norm(x, 8, weight, bias)");
        return NULL;
    }
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_group_norm, site, 3,
                       (tern_tensor *[]){ args->x, args->weight, args->bias });
    return core_compose_end(&frame, group_norm(&frame, args->groups, args->eps));
}

/* ---- instance_norm --------------------------------------------------------------------------- */

/* [C] as [N C], sample after sample. */
static tern_tensor *repeated(tern_tensor *t, int64_t n)
{
    if (t == NULL)
        return NULL;
    const int64_t channels = tern_size(t, 0);
    return tern_reshape(tern_expand(t, TERN_SHAPE(n, channels)), TERN_SHAPE(n * channels));
}

/* A copy for batch_norm to write. */
static tern_tensor *statistics(tern_tensor *t, int64_t n)
{
    TERN_NO_GRAD;
    return t == NULL ? NULL : tern_clone(repeated(t, n));
}

/* The mean over samples of what batch_norm wrote. */
static void take_statistics(tern_tensor *t, tern_tensor *of_samples, int64_t n)
{
    TERN_NO_GRAD;
    if (t != NULL && of_samples != NULL)
        tern_copy(t, tern_mean(tern_view(of_samples, TERN_SHAPE(n, tern_size(t, 0))),
                               .dims = TERN_DIMS(0)));
}

static tern_tensor *by_samples(const tern_instance_norm_args *a, double eps)
{
    const tern_shape_t shape = tern_shape(a->x);
    const int64_t n = shape.dims[0];
    tern_shape_t flat = shape;
    flat.dims[0] = 1;
    flat.dims[1] = n * shape.dims[1];
    tern_tensor *mean = statistics(a->running_mean, n), *var = statistics(a->running_var, n);
    tern_tensor *y =
        tern_batch_norm(tern_reshape(a->x, flat), repeated(a->weight, n), repeated(a->bias, n),
                        mean, var, .training = true, .momentum = a->momentum, .eps = eps);
    if (y == NULL)
        return NULL;
    take_statistics(a->running_mean, mean, n);
    take_statistics(a->running_var, var, n);
    return laid_as(tern_reshape(y, shape), &a->x->view);
}

static tern_tensor *instance_norm(core_frame *frame, const tern_instance_norm_args *a)
{
    core_call *call = &frame->call;
    const double eps = a->eps;
    char shape[160];
    if (!core_compose_check(frame) || !core_check_dtype(call, 0, DT_FLOATS))
        return NULL;
    const tern_view *x = core_view(call, 0);
    if (x->ndim < 3) {
        core_fail(call, TERN_ERR_SHAPE, NULL,
                  "expected [N, C, ...] of at least 3 dimensions, got %s",
                  core_shape_text(x->ndim, x->shape, shape, sizeof shape));
        return NULL;
    }
    if (!check_channels(call, 1, 4) || !check_eps(call, eps))
        return NULL;
    if (a->use_running)
        return tern_batch_norm(a->x, a->weight, a->bias, a->running_mean, a->running_var,
                               .eps = eps);
    const int64_t each = x->numel / (x->shape[0] * x->shape[1] > 0 ? x->shape[0] * x->shape[1] : 1);
    if (each == 1) {
        core_fail(call, TERN_ERR_SHAPE, NULL,
                  "expected more than 1 spatial element, got input size %s",
                  core_shape_text(x->ndim, x->shape, shape, sizeof shape));
        return NULL;
    }
    return x->numel == 0 ? of_nothing(call) : by_samples(a, eps);
}

tern_tensor *tern_instance_norm_at(tern_site_t site, const tern_instance_norm_args *args)
{
    if (args == NULL || args->size_ < sizeof *args) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "instance_norm",
                     "x is missing\n  try tern_instance_norm(x, weight, bias)");
        return NULL;
    }
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_instance_norm, site, 5,
                       (tern_tensor *[]){ args->x, args->weight, args->bias, args->running_mean,
                                          args->running_var });
    return core_compose_end(&frame, instance_norm(&frame, args));
}
