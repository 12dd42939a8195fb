/* conv2d and its gradients. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

static const int64_t most_rows = INT64_C(65535) * 64;

/* From the views of x, weight and y (or of gradients in their place). */
static cuda_conv_shape shape_of(const tern_view *x, const tern_view *w, const tern_view *y,
                                const tern_attr_conv *attr)
{
    cuda_conv_shape s = {
        .n = x->shape[0], .c = x->shape[1], .o = y->shape[1], .groups = attr->groups
    };
    for (int d = 0; d < 2; d++) {
        s.in[d] = x->shape[2 + d];
        s.out[d] = y->shape[2 + d];
        s.kernel[d] = w->shape[2 + d];
        s.stride[d] = attr->stride[d];
        s.padding[d] = attr->padding[d];
        s.dilation[d] = attr->dilation[d];
    }
    for (int d = 0; d < 4; d++) {
        s.x_stride[d] = x->stride[d];
        s.w_stride[d] = w->stride[d];
        s.y_stride[d] = y->stride[d];
    }
    return s;
}

/* Tiles are numbered in 16 bits, positions in 31. */
static bool fits(const tern_call *call, const cuda_conv_shape *s)
{
    const int64_t results = s->n * s->out[0] * s->out[1], inputs = s->n * s->in[0] * s->in[1];
    if (results <= most_rows && inputs <= most_rows && s->o <= most_rows && s->groups <= 65535)
        return true;
    (void)call->host->fail(TERN_ERR_UNSUPPORTED,
                           "the convolution has more than %lld positions; use smaller batches",
                           (long long)most_rows);
    return false;
}

tern_status_t cuda_conv2d(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[0], *w = call->in[1], *bias = call->in[2], *y = call->out[0];
    const cuda_conv_shape s = shape_of(x, w, y, call->attr);
    if (y->numel == 0)
        return TERN_OK;
    if (!fits(call, &s))
        return TERN_ERR_UNSUPPORTED;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call,
                         cuda_launch_conv2d(y->data, x->data, w->data,
                                            bias != NULL ? bias->data : NULL, x->dtype, &s, stream),
                         "conv2d");
}

/* (gradient, weight) -> gradient of x */
tern_status_t cuda_conv2d_grad_input(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *y = call->in[0], *w = call->in[1], *x = call->out[0];
    const cuda_conv_shape s = shape_of(x, w, y, call->attr);
    if (x->numel == 0)
        return TERN_OK;
    if (!fits(call, &s))
        return TERN_ERR_UNSUPPORTED;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(
        call, cuda_launch_conv2d_grad_input(x->data, y->data, w->data, x->dtype, &s, stream),
        "conv2d_grad_input");
}

/* (gradient, x) -> gradients of weight and bias */
tern_status_t cuda_conv2d_grad_weight(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *y = call->in[0], *x = call->in[1], *w = call->out[0], *bias = call->out[1];
    const cuda_conv_shape s = shape_of(x, w, y, call->attr);
    if (!fits(call, &s))
        return TERN_ERR_UNSUPPORTED;
    CUDA_TRY(cuda_enter(call, &stream));
    if (w->numel > 0)
        CUDA_TRY(cuda_launched(
            call, cuda_launch_conv2d_grad_weight(w->data, y->data, x->data, x->dtype, &s, stream),
            "conv2d_grad_weight"));
    if (bias->numel == 0)
        return TERN_OK;
    return cuda_launched(call,
                         cuda_launch_conv2d_grad_bias(bias->data, y->data, y->dtype, &s, stream),
                         "conv2d's bias gradient");
}
