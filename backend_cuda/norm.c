/* batch_norm, layer_norm, rms_norm and their gradients. */
#include "backend_cuda/cudnn.h"
#include "backend_cuda/kernels.h"

static const void *data_of(const tern_view *view)
{
    return view != NULL ? view->data : NULL;
}

/* Parameters beside half types may be f32. */
static int is_wide(const tern_view *parameter, const tern_view *x)
{
    return parameter != NULL && parameter->dtype != x->dtype;
}

static tern_status_t zero(const tern_call *call, const tern_view *view, cudaStream_t stream)
{
    const int64_t bytes = view->numel * cuda_dtype_size(view->dtype);
    return bytes == 0
               ? TERN_OK
               : cuda_check(call->dev.index, cudaMemsetAsync(view->data, 0, (size_t)bytes, stream),
                            "cudaMemsetAsync");
}

/* (gradient, x, weight?, mean, 1 / deviation) -> gradients of x, weight and bias */
static cuda_norm_args gradient_args(const tern_call *call)
{
    const tern_view *grad = call->in[0], *x = call->in[1], *weight = call->in[2];
    return (cuda_norm_args){ .out = call->out[0]->data,
                             .mean = call->in[3]->data,
                             .rstd = call->in[4]->data,
                             .grad = grad->data,
                             .weight = data_of(weight),
                             .weight_grad = call->out[1]->data,
                             .bias_grad = call->out[2]->data,
                             .wide = is_wide(weight, x) };
}

/* ---- batch_norm ------------------------------------------------------------------------------ */

static void set_batch(cuda_norm_args *a, const tern_view *x, const tern_attr_norm *attr)
{
    a->x = x->data;
    a->dtype = x->dtype;
    a->n = x->shape[0];
    a->c = x->shape[1];
    a->inner = 1;
    for (int d = 2; d < x->ndim; d++)
        a->inner *= x->shape[d];
    a->images = x->ndim > 2;
    a->channels_last = !(x->flags & TERN_VIEW_CONTIGUOUS);
    a->eps = attr->eps;
    a->momentum = attr->momentum;
    a->training = attr->training;
}

/* Channels that lie beside each other are read so; `last`: all that is read is channels last. */
static tern_status_t cut(const tern_call *call, cuda_norm_args *a, bool last)
{
    a->chunks = last || a->inner == 1 ? cuda_chunks_of_columns(a->c, a->n * a->inner) : 1;
    if (a->chunks > 1)
        a->cells = cuda_scratch(call, a->c * a->chunks * CUDA_NORM_CELL_BYTES);
    return a->chunks > 1 && a->cells == NULL ? TERN_ERR_OOM : TERN_OK;
}

tern_status_t cuda_batch_norm(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[0], *weight = call->in[1], *bias = call->in[2];
    const tern_view *running = call->in[3];
    cuda_norm_args a = { .out = call->out[0]->data,
                         .mean = call->out[1]->data,
                         .rstd = call->out[2]->data,
                         .weight = data_of(weight),
                         .bias = data_of(bias),
                         .running_mean = running != NULL ? running->data : NULL,
                         .running_var = call->in[4] != NULL ? call->in[4]->data : NULL };
    set_batch(&a, x, call->attr);
    a.wide = is_wide(weight, x) || is_wide(bias, x);
    a.wide_running = is_wide(running, x);
    if (a.c == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    if (x->numel == 0) { /* no statistics, and the running ones stay; all bits set is NaN */
        for (int i = 1; i < 3; i++) {
            const tern_view *out = call->out[i];
            const size_t bytes = (size_t)(out->numel * cuda_dtype_size(out->dtype));
            CUDA_TRY(cuda_check(call->dev.index, cudaMemsetAsync(out->data, 0xFF, bytes, stream),
                                "cudaMemsetAsync"));
        }
        return TERN_OK;
    }
    bool done = false;
    CUDA_TRY(cuda_dnn_normalise(call, stream, &a, &done));
    if (!done && a.training)
        CUDA_TRY(cut(call, &a, a.channels_last != 0));
    if (!done || !a.training)
        CUDA_TRY(cuda_launched(call, cuda_launch_batch_statistics(&a, stream), "batch_norm"));
    return done ? TERN_OK : cuda_launched(call, cuda_launch_batch_norm(&a, stream), "batch_norm");
}

tern_status_t cuda_batch_norm_grad(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[1];
    cuda_norm_args a = gradient_args(call);
    set_batch(&a, x, call->attr);
    a.grad_channels_last = !(call->in[0]->flags & TERN_VIEW_CONTIGUOUS);
    CUDA_TRY(cuda_enter(call, &stream));
    if (x->numel == 0) {
        CUDA_TRY(zero(call, call->out[1], stream));
        return zero(call, call->out[2], stream);
    }
    bool done = false;
    CUDA_TRY(cuda_dnn_normalise_grad(call, stream, &a, &done));
    if (done)
        return TERN_OK;
    a.sums = cuda_scratch(call, a.c * 2 * (int64_t)sizeof(double));
    if (a.sums == NULL)
        return TERN_ERR_OOM;
    CUDA_TRY(cut(call, &a, a.channels_last && a.grad_channels_last));
    return cuda_launched(call, cuda_launch_batch_norm_grad(&a, stream), "batch_norm_grad");
}

/* ---- layer_norm ------------------------------------------------------------------------------ */

static void set_rows(cuda_norm_args *a, const tern_view *x, const tern_attr_norm *attr)
{
    a->x = x->data;
    a->dtype = x->dtype;
    a->eps = attr->eps;
    a->c = a->inner = 1;
    for (int d = x->ndim - attr->dims; d < x->ndim; d++)
        a->c *= x->shape[d];
    a->n = x->numel > 0 ? x->numel / a->c : 0;
}

tern_status_t cuda_layer_norm(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[0], *weight = call->in[1], *bias = call->in[2];
    cuda_norm_args a = { .out = call->out[0]->data,
                         .mean = call->out[1]->data,
                         .rstd = call->out[2]->data,
                         .weight = data_of(weight),
                         .bias = data_of(bias) };
    set_rows(&a, x, call->attr);
    a.wide = is_wide(weight, x) || is_wide(bias, x);
    if (a.n == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, cuda_launch_layer_norm(&a, stream), "layer_norm");
}

static tern_status_t rows_grad(const tern_call *call, cuda_norm_args *a, const char *name)
{
    cudaStream_t stream = NULL;
    set_rows(a, call->in[1], call->attr);
    if (a->c == 0)
        return TERN_OK;
    CUDA_TRY(cut(call, a, true));
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, cuda_launch_layer_norm_grad(a, stream), name);
}

tern_status_t cuda_layer_norm_grad(const tern_call *call)
{
    cuda_norm_args a = gradient_args(call);
    return rows_grad(call, &a, "layer_norm_grad");
}

/* ---- rms_norm: layer_norm about 0 ------------------------------------------------------------ */

tern_status_t cuda_rms_norm(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[0], *weight = call->in[1];
    cuda_norm_args a = { .out = call->out[0]->data,
                         .rstd = call->out[1]->data,
                         .weight = data_of(weight),
                         .wide = is_wide(weight, x) };
    set_rows(&a, x, call->attr);
    if (a.n == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, cuda_launch_layer_norm(&a, stream), "rms_norm");
}

/* (gradient, x, weight?, 1 / root of the mean square) -> gradients of x and weight */
tern_status_t cuda_rms_norm_grad(const tern_call *call)
{
    const tern_view *x = call->in[1], *weight = call->in[2];
    cuda_norm_args a = { .out = call->out[0]->data,
                         .rstd = call->in[3]->data,
                         .grad = call->in[0]->data,
                         .weight = data_of(weight),
                         .weight_grad = call->out[1]->data,
                         .wide = is_wide(weight, x) };
    return rows_grad(call, &a, "rms_norm_grad");
}
