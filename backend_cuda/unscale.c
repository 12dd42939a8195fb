/* unscale and scale_update: the gradient scaler's work, all on the device. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

static void *data_of(const tern_call *call, int i)
{
    return call->in[i] != NULL ? call->in[i]->data : NULL;
}

tern_status_t cuda_unscale(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *g = call->in[0];
    const tern_attr_unscale *attr = call->attr;
    const int64_t parts = cuda_walk_parts(1, &g);
    const int64_t size = cuda_dtype_size(g->dtype);
    if (parts == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    for (int64_t i = 0; i < parts; i++) {
        cuda_walk_part part;
        cuda_walk_plan(1, &g, i, &part);
        const cuda_unscale_args a = { .g = (char *)g->data + part.offset[0] * size,
                                      .dtype = g->dtype,
                                      .walk = &part.walk,
                                      .inverse = data_of(call, 1),
                                      .found = data_of(call, 2),
                                      .cause = data_of(call, 3),
                                      .index = (int32_t)attr->index };
        CUDA_TRY(cuda_launched(call, cuda_launch_unscale(&a, stream), "unscale"));
    }
    return TERN_OK;
}

tern_status_t cuda_scale_update(const tern_call *call)
{
    cudaStream_t stream = NULL;
    CUDA_TRY(cuda_enter(call, &stream));
    const cuda_scale_args a = { .scale = data_of(call, 0),
                                .tracker = data_of(call, 1),
                                .found = data_of(call, 2),
                                .skipped = data_of(call, 3),
                                .cause = data_of(call, 4),
                                .log = data_of(call, 5),
                                .log_numel = call->in[5] != NULL ? call->in[5]->numel : 0 };
    return cuda_launched(call, cuda_launch_scale_update(&a, call->attr, stream), "scale_update");
}
