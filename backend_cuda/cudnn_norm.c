/* Pooling and batch normalisation by cuDNN.
 *
 * Of pooling it makes averages forward only. max_pool2d's second result says where each maximum came
 * from, which cuDNN does not tell, and its rule for NaN is another; the gradient of averages wants x and
 * y, which tern does not save for it. Windows that hang over in ceil mode are divided by other counts.
 *
 * Batch normalisation is cuDNN's where it is PyTorch's: f32, f64, and f16 with f32 parameters, row-major
 * images with weight and bias. bf16 and channels last stay with own kernels: there cuDNN's fast path
 * wants memory carried from the forward pass to the backward one. */
#include "backend_cuda/cudnn_calls.h"

enum { AVERAGE = CUDA_DNN_GRAD_WEIGHT + 1, NORMALISE };
enum { MOST_TRAINED = 880801, MOST_EVALUATED = 65535 }; /* images, as PyTorch limits it */

/* ---- averages -------------------------------------------------------------------------------- */

static cudnnStatus_t describe_average(dnn_plan *p, const cuda_pool_shape *s, int dtype)
{
    const bool last = p->key.channels_last;
    DNN_TRY(dnn_describe_tensor(&p->x, dtype, last,
                                (const int64_t[4]){ s->n, s->c, s->in[0], s->in[1] }));
    DNN_TRY(dnn_describe_tensor(&p->y, dtype, last,
                                (const int64_t[4]){ s->n, s->c, s->out[0], s->out[1] }));
    DNN_TRY(dnn.cudnnCreatePoolingDescriptor(&p->pool));
    return dnn.cudnnSetPooling2dDescriptor(
        p->pool,
        s->include_pad ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                       : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
        CUDNN_PROPAGATE_NAN, (int)s->kernel[0], (int)s->kernel[1], (int)s->padding[0],
        (int)s->padding[1], (int)s->stride[0], (int)s->stride[1]);
}

/* Every window lies inside the padded input, and cuDNN would count as many. */
static bool takes_average(const cuda_pool_shape *s, int dtype, bool channels_last)
{
    if (channels_last && dtype == TERN_F64)
        return false;
    for (int d = 0; d < 2; d++) {
        const int64_t room = s->in[d] + 2 * s->padding[d] - s->kernel[d];
        if (s->stride[d] > INT32_MAX || s->kernel[d] > INT32_MAX / 4 || room < 0 ||
            s->out[d] != room / s->stride[d] + 1)
            return false;
    }
    return dnn_takes((const int64_t[4]){ s->n, s->c, s->in[0], s->in[1] }) &&
           dnn_takes((const int64_t[4]){ s->n, s->c, s->out[0], s->out[1] });
}

static dnn_key average_key(const tern_call *call, const cuda_pool_shape *s, int dtype, bool last)
{
    const int64_t numbers[] = { s->n,          s->c,         s->in[0],      s->in[1],
                                s->out[0],     s->out[1],    s->kernel[0],  s->kernel[1],
                                s->stride[0],  s->stride[1], s->padding[0], s->padding[1],
                                s->include_pad };
    dnn_key key = { AVERAGE, call->dev.index, dtype, last, 0, { 0 } };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        key.number[i] = (int32_t)numbers[i];
    return key;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* The plan after its descriptors were made, or NULL: an own kernel needs none. */
static dnn_plan *made(const tern_call *call, const char *op, dnn_plan *plan, cudnnStatus_t status)
{
    bool done = false;
    if (status == CUDNN_STATUS_SUCCESS)
        return dnn_keep(plan);
    if (dnn_settle(call, op, "making a descriptor", status, plan, &done) == TERN_OK)
        return dnn_keep(plan);
    call->host->forget();
    dnn_drop(plan);
    return NULL;
}

static bool is_refused(const dnn_plan *plan)
{
    return plan == NULL || __atomic_load_n(&plan->refused, __ATOMIC_RELAXED);
}

typedef struct average_args {
    const void *x;
    void *y;
} average_args;

static cudnnStatus_t run_average(dnn_plan *p, cudnnHandle_t handle, const void *args)
{
    const average_args *a = args;
    return dnn.cudnnPoolingForward(handle, p->pool, dnn_one(p->key.dtype), p->x, a->x,
                                   dnn_zero(p->key.dtype), p->y, a->y);
}

tern_status_t cuda_dnn_average(const tern_call *call, cudaStream_t stream,
                               const cuda_pool_shape *shape, int dtype, bool channels_last,
                               const void *x, void *y, bool *out_done)
{
    static const char op[] = "avg_pool2d";
    if (!cuda_dnn_usable(call) || !takes_average(shape, dtype, channels_last) ||
        !dnn_takes_address(x) || !dnn_takes_address(y))
        return TERN_OK;
    const dnn_key key = average_key(call, shape, dtype, channels_last);
    dnn_plan *plan = dnn_find(&key);
    if (plan == NULL && (plan = dnn_new(&key)) != NULL)
        plan = made(call, op, plan, describe_average(plan, shape, dtype));
    const average_args args = { x, y };
    tern_status_t code = TERN_OK;
    if (!is_refused(plan))
        code = dnn_run(call, stream, op, "cudnnPoolingForward", plan, run_average, &args, out_done);
    dnn_drop(plan);
    return code;
}

/* ---- batch normalisation --------------------------------------------------------------------- */

static void dims_of(const cuda_norm_args *a, int64_t dims[4])
{
    dims[0] = a->n;
    dims[1] = a->c;
    dims[2] = a->inner;
    dims[3] = 1;
}

static bool takes_norm(const cuda_norm_args *a)
{
    int64_t dims[4];
    dims_of(a, dims);
    const bool half = a->dtype == TERN_F16;
    return a->dtype != TERN_BF16 && a->weight != NULL && !a->channels_last &&
           !a->grad_channels_last && a->images && half == (a->wide != 0) &&
           a->eps >= CUDNN_BN_MIN_EPSILON && dnn_takes_address(a->x) &&
           dnn_takes_address(a->grad) && dnn_takes_address(a->out) &&
           a->n <= (a->training ? MOST_TRAINED : MOST_EVALUATED) && dnn_takes(dims);
}

static cudnnStatus_t describe_norm(dnn_plan *p, const cuda_norm_args *a)
{
    int64_t dims[4];
    dims_of(a, dims);
    DNN_TRY(dnn_describe_tensor(&p->x, a->dtype, false, dims));
    return dnn_describe_tensor(&p->parameters, a->dtype == TERN_F16 ? TERN_F32 : a->dtype, false,
                               (const int64_t[4]){ 1, a->c, 1, 1 });
}

/* NULL where cuDNN is not to do it. */
static dnn_plan *norm_plan(const tern_call *call, const char *op, const cuda_norm_args *a,
                           bool backward)
{
    const dnn_key key = {
        NORMALISE, call->dev.index,
        a->dtype,  0,
        0,         { (int32_t)a->n, (int32_t)a->c, (int32_t)a->inner, backward, a->training }
    };
    dnn_plan *plan = dnn_find(&key);
    if (plan == NULL && (plan = dnn_new(&key)) != NULL)
        plan = made(call, op, plan, describe_norm(plan, a));
    if (!is_refused(plan))
        return plan;
    dnn_drop(plan);
    return NULL;
}

static cudnnStatus_t forward(dnn_plan *p, cudnnHandle_t handle, const void *args)
{
    const cuda_norm_args *a = args;
    const void *one = dnn_one(a->dtype), *zero = dnn_zero(a->dtype);
    if (a->training)
        return dnn.cudnnBatchNormalizationForwardTraining(
            handle, CUDNN_BATCHNORM_SPATIAL, one, zero, p->x, a->x, p->x, a->out, p->parameters,
            a->weight, a->bias, a->momentum, a->running_mean, a->running_var, a->eps, a->mean,
            a->rstd);
    return dnn.cudnnBatchNormalizationForwardInference(
        handle, CUDNN_BATCHNORM_SPATIAL, one, zero, p->x, a->x, p->x, a->out, p->parameters,
        a->weight, a->bias, a->running_mean, a->running_var, a->eps);
}

tern_status_t cuda_dnn_normalise(const tern_call *call, cudaStream_t stream,
                                 const cuda_norm_args *a, bool *out_done)
{
    static const char op[] = "batch_norm";
    const bool running = a->running_mean != NULL;
    if (!cuda_dnn_usable(call) || !takes_norm(a) || a->bias == NULL ||
        (running && (a->dtype == TERN_F16) != (a->wide_running != 0)))
        return TERN_OK;
    dnn_plan *plan = norm_plan(call, op, a, false);
    tern_status_t code = TERN_OK;
    if (plan != NULL)
        code = dnn_run(call, stream, op,
                       a->training ? "cudnnBatchNormalizationForwardTraining"
                                   : "cudnnBatchNormalizationForwardInference",
                       plan, forward, a, out_done);
    dnn_drop(plan);
    return code;
}

static cudnnStatus_t backward(dnn_plan *p, cudnnHandle_t handle, const void *args)
{
    const cuda_norm_args *a = args;
    const void *one = dnn_one(a->dtype), *zero = dnn_zero(a->dtype);
    return dnn.cudnnBatchNormalizationBackward(
        handle, CUDNN_BATCHNORM_SPATIAL, one, zero, one, zero, p->x, a->x, p->x, a->grad, p->x,
        a->out, p->parameters, a->weight, a->weight_grad, a->bias_grad, a->eps, a->mean, a->rstd);
}

tern_status_t cuda_dnn_normalise_grad(const tern_call *call, cudaStream_t stream,
                                      const cuda_norm_args *a, bool *out_done)
{
    static const char op[] = "batch_norm_grad";
    if (!cuda_dnn_usable(call) || !takes_norm(a) || !a->training)
        return TERN_OK;
    dnn_plan *plan = norm_plan(call, op, a, true);
    tern_status_t code = TERN_OK;
    if (plan != NULL)
        code = dnn_run(call, stream, op, "cudnnBatchNormalizationBackward", plan, backward, a,
                       out_done);
    dnn_drop(plan);
    return code;
}
