/* resample2d. */
#include "backend_cuda/cuda.h"
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

tern_status_t cuda_resample2d(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[0], *y = call->out[0];
    const tern_attr_resample *attr = call->attr;
    cuda_resample_shape s = { .n = x->shape[0],
                              .c = x->shape[1],
                              .mode = attr->mode,
                              .align_corners = attr->align_corners,
                              .transposed = attr->transposed,
                              .strict = attr->strict,
                              .dense = (y->flags & TERN_VIEW_CONTIGUOUS) != 0 };
    for (int d = 0; d < 2; d++) {
        s.from[d] = x->shape[2 + d];
        s.to[d] = y->shape[2 + d];
        s.step[d] = attr->step[d];
        s.to_by[d] = cuda_divisor_of(s.to[d], y->numel);
    }
    s.c_by = cuda_divisor_of(s.c, y->numel);
    for (int d = 0; d < 4; d++) {
        s.x_stride[d] = x->stride[d];
        s.y_stride[d] = y->stride[d];
    }
    if (y->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    void *table = cuda_scratch(call, cuda_resample_table_bytes(&s));
    if (table == NULL)
        return TERN_ERR_OOM;
    return cuda_launched(call, cuda_launch_resample(y->data, x->data, table, x->dtype, &s, stream),
                         "resample2d");
}
