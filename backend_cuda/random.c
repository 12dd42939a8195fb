/* rand, randn, dropout and its gradient. */
#include <math.h>

#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

typedef cudaError_t (*draw_fn)(void *out, int dtype, uint64_t seed, uint64_t draw, int64_t n,
                               cudaStream_t stream);

/* Row-major into the output, or by way of scratch memory. */
static tern_status_t run(const tern_call *call, draw_fn launch, const char *name)
{
    cudaStream_t stream = NULL;
    const tern_attr_random *attr = call->attr;
    const tern_view *out = call->out[0];
    void *data = out->data;
    if (out->numel == 0)
        return TERN_OK;
    if (!(out->flags & TERN_VIEW_CONTIGUOUS))
        data = cuda_scratch(call, out->numel * cuda_dtype_size(out->dtype));
    if (data == NULL)
        return TERN_ERR_OOM;
    CUDA_TRY(cuda_enter(call, &stream));
    CUDA_TRY(cuda_launched(
        call, launch(data, out->dtype, attr->seed, attr->call, out->numel, stream), name));
    return data == out->data ? TERN_OK : cuda_from_row_major(call, out, data);
}

tern_status_t cuda_rand(const tern_call *call)
{
    return run(call, cuda_launch_rand, "rand");
}

tern_status_t cuda_randn(const tern_call *call)
{
    return run(call, cuda_launch_randn, "randn");
}

static double scale_of(const tern_attr_dropout *attr)
{
    return attr->p < 1.0 ? 1.0 / (1.0 - attr->p) : 0.0;
}

tern_status_t cuda_dropout(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_attr_dropout *attr = call->attr;
    const tern_view *x = call->in[0];
    if (x->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call,
                         cuda_launch_dropout(call->out[0]->data, call->out[1]->data, x->data,
                                             x->dtype, attr->seed, attr->call,
                                             (int32_t)ceil(attr->p * 0x1p24), scale_of(attr),
                                             x->numel, stream),
                         "dropout");
}

tern_status_t cuda_dropout_grad(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *grad = call->in[0];
    if (grad->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call,
                         cuda_launch_dropout_grad(call->out[0]->data, grad->data, call->in[1]->data,
                                                  grad->dtype, scale_of(call->attr), grad->numel,
                                                  stream),
                         "dropout_grad");
}
