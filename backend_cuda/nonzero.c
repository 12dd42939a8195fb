/* nonzero in its two steps, and index_offset. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

static cuda_nonzero_args args_of(const tern_view *x, int64_t chunks)
{
    const int64_t size = cuda_dtype_size(x->dtype);
    const uint64_t all = size == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * size) - 1;
    cuda_nonzero_args a = { .x = x->data,
                            .numel = x->numel,
                            .chunks = chunks,
                            .size = size,
                            .mask = tern_dtype_is_float((tern_dtype_t)x->dtype) ? all >> 1 : all,
                            .ndim = x->ndim };
    for (int d = 0; d < x->ndim; d++)
        a.shape[d] = x->shape[d];
    return a;
}

tern_status_t cuda_nonzero_starts(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *out = call->out[0];
    cuda_nonzero_args a = args_of(call->in[0], out->numel - 1);
    a.starts = out->data;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, cuda_launch_nonzero_starts(&a, stream), "nonzero_starts");
}

tern_status_t cuda_nonzero(const tern_call *call)
{
    cudaStream_t stream = NULL;
    cuda_nonzero_args a = args_of(call->in[0], call->in[1]->numel - 1);
    if (call->out[0]->numel == 0)
        return TERN_OK;
    a.starts = call->in[1]->data;
    a.places = call->out[0]->data;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, cuda_launch_nonzero(&a, stream), "nonzero");
}

tern_status_t cuda_index_offset(const tern_call *call)
{
    cudaStream_t stream = NULL;
    cuda_fault_slot *slot = NULL;
    const tern_view *out = call->out[0], *index = call->in[0], *sum = call->in[1];
    if (out->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter_noting(call, &stream, &slot));
    return cuda_launched(call,
                         cuda_launch_index_offset(
                             out->data, index->data, sum != NULL ? sum->data : NULL,
                             ((const tern_attr_dim *)call->attr)->size, out->numel, slot, stream),
                         "index_offset");
}
