/* max_pool2d, avg_pool2d and their gradients. */
#include "backend_cuda/cudnn.h"
#include "backend_cuda/kernels.h"

/* From the views of x and y (or of their gradients) and of the index, which may be missing. */
static cuda_pool_shape shape_of(const tern_view *x, const tern_view *y, const tern_view *index,
                                const tern_attr_pool *attr)
{
    cuda_pool_shape s = { .n = x->shape[0],
                          .c = x->shape[1],
                          .include_pad = attr->count_include_pad != 0,
                          .narrow_index = index != NULL && index->dtype == TERN_U8 };
    for (int d = 0; d < 2; d++) {
        s.in[d] = x->shape[2 + d];
        s.out[d] = y->shape[2 + d];
        s.kernel[d] = attr->kernel[d];
        s.stride[d] = attr->stride[d];
        s.padding[d] = attr->padding[d];
        s.dilation[d] = attr->dilation[d] > 0 ? attr->dilation[d] : 1;
        s.out_by[d] = cuda_divisor_of(s.out[d], y->numel);
        s.in_by[d] = cuda_divisor_of(s.in[d], x->numel);
        s.stride_by[d] = cuda_divisor_of(s.stride[d], s.in[d] + s.padding[d]);
    }
    s.c_by = cuda_divisor_of(s.c, x->numel > y->numel ? x->numel : y->numel);
    for (int d = 0; d < 4; d++) {
        s.x_stride[d] = x->stride[d];
        s.y_stride[d] = y->stride[d];
        s.index_stride[d] = index != NULL ? index->stride[d] : 0;
    }
    return s;
}

tern_status_t cuda_max_pool2d(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[0], *y = call->out[0], *index = call->out[1];
    const cuda_pool_shape s = shape_of(x, y, index, call->attr);
    if (y->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call,
                         cuda_launch_max_pool(y->data, index->data, x->data, x->dtype, &s, stream),
                         "max_pool2d");
}

tern_status_t cuda_max_pool2d_grad(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *y = call->in[0], *index = call->in[1], *x = call->out[0];
    const cuda_pool_shape s = shape_of(x, y, index, call->attr);
    if (x->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(
        call, cuda_launch_max_pool_grad(x->data, y->data, index->data, x->dtype, &s, stream),
        "max_pool2d_grad");
}

tern_status_t cuda_avg_pool2d(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[0], *y = call->out[0];
    const cuda_pool_shape s = shape_of(x, y, NULL, call->attr);
    if (y->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    bool done = false;
    const bool rows = (x->flags & y->flags & TERN_VIEW_CONTIGUOUS) != 0;
    if (rows || !((x->flags | y->flags) & TERN_VIEW_CONTIGUOUS))
        CUDA_TRY(cuda_dnn_average(call, stream, &s, x->dtype, !rows, x->data, y->data, &done));
    if (done)
        return TERN_OK;
    return cuda_launched(call, cuda_launch_avg_pool(y->data, x->data, x->dtype, &s, stream),
                         "avg_pool2d");
}

tern_status_t cuda_avg_pool2d_grad(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *y = call->in[0], *x = call->out[0];
    const cuda_pool_shape s = shape_of(x, y, NULL, call->attr);
    if (x->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, cuda_launch_avg_pool_grad(x->data, y->data, x->dtype, &s, stream),
                         "avg_pool2d_grad");
}
