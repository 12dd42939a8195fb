/* unscale and scale_update: the gradient scaler's work, all on the device. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

tern_status_t cuda_unscale(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *g = call->in[0];
    const int64_t parts = cuda_walk_parts(1, &g);
    const int64_t size = cuda_dtype_size(g->dtype);
    if (parts == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    for (int64_t i = 0; i < parts; i++) {
        cuda_walk_part part;
        cuda_walk_plan(1, &g, i, &part);
        const cudaError_t code =
            cuda_launch_unscale((char *)g->data + part.offset[0] * size, g->dtype, &part.walk,
                                call->in[1]->data, call->in[2]->data, stream);
        CUDA_TRY(cuda_launched(call, code, "unscale"));
    }
    return TERN_OK;
}

tern_status_t cuda_scale_update(const tern_call *call)
{
    cudaStream_t stream = NULL;
    CUDA_TRY(cuda_enter(call, &stream));
    const cudaError_t code = cuda_launch_scale_update(call->in[0]->data, call->in[1]->data,
                                                      call->in[2]->data, call->attr, stream);
    return cuda_launched(call, code, "scale_update");
}
