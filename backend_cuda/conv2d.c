/* conv2d and its gradients: by cuDNN where it is there and takes them, else by own kernels. The bias and
 * its gradient are always own kernels: passes over memory that cuDNN would not make faster, and which sum
 * half types in f32. */
#include "backend_cuda/cudnn.h"
#include "backend_cuda/image.h"
#include "backend_cuda/kernels.h"

enum { MOST_GROUPS = 65535, MOST_COLUMNS = 65535 * 64 };

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

/* Positions are numbered in 31 bits, the cells that a sum goes over in 32, groups and tiles of columns (channels, or a
 * filter's cells) in 16. */
static bool fits(const tern_call *call, const cuda_conv_shape *s, int64_t columns, int64_t cells)
{
    const int64_t results = s->n * s->out[0] * s->out[1], inputs = s->n * s->in[0] * s->in[1];
    if (results > INT32_MAX || inputs > INT32_MAX)
        (void)call->host->fail(TERN_ERR_UNSUPPORTED,
                               "the convolution has 2^31 positions or more; use smaller batches");
    else if (cells > UINT32_MAX)
        (void)call->host->fail(TERN_ERR_UNSUPPORTED,
                               "the convolution has 2^32 cells in a filter or more; split its "
                               "channels, and add up");
    else if (s->groups > MOST_GROUPS)
        (void)call->host->fail(TERN_ERR_UNSUPPORTED, "the convolution has more than %d groups",
                               MOST_GROUPS);
    else if (columns > MOST_COLUMNS)
        (void)call->host->fail(TERN_ERR_UNSUPPORTED,
                               "the convolution has more than %d channels or cells in a filter",
                               MOST_COLUMNS);
    else
        return true;
    return false;
}

/* ---- by cuDNN -------------------------------------------------------------------------------- */

/* It wants one layout for all three, that of `like`, and addresses that are multiples of 16 bytes; what lies
 * otherwise is copied. Doubles in channels last are not its kind. */
static tern_status_t by_cudnn(const tern_call *call, cudaStream_t stream, cuda_dnn_pass pass,
                              const tern_view *like, const tern_view *const views[3],
                              const cuda_conv_shape *s, bool *out_done)
{
    void *data[3], *own = NULL;
    const int made = pass == CUDA_DNN_FORWARD ? 2 : pass == CUDA_DNN_GRAD_INPUT ? 0 : 1;
    const bool last = !cuda_image_lies(like, false);
    if (!cuda_dnn_usable(call) || (last && like->dtype == TERN_F64))
        return TERN_OK;
    for (int i = 0; i < 3; i++) {
        if (views[i]->numel == 0)
            return TERN_OK;
        if (i != made)
            CUDA_TRY(cuda_image_as(call, stream, views[i], last, &data[i]));
    }
    if (!cuda_image_is_ready(views[made], last)) {
        own = cuda_scratch(call, views[made]->numel * cuda_dtype_size(like->dtype));
        if (own == NULL)
            return TERN_ERR_OOM;
    }
    data[made] = own != NULL ? own : views[made]->data;
    const cuda_dnn_conv conv = { s, like->dtype, last, data[0], data[1], data[2] };
    CUDA_TRY(cuda_dnn_convolve(call, stream, pass, &conv, out_done));
    return *out_done && own != NULL ? cuda_image_from(call, stream, views[made], last, own)
                                    : TERN_OK;
}

tern_status_t cuda_conv2d(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[0], *w = call->in[1], *bias = call->in[2], *y = call->out[0];
    const cuda_conv_shape s = shape_of(x, w, y, call->attr);
    bool done = false;
    if (y->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    CUDA_TRY(
        by_cudnn(call, stream, CUDA_DNN_FORWARD, y, (const tern_view *[]){ x, w, y }, &s, &done));
    if (done)
        return bias == NULL
                   ? TERN_OK
                   : cuda_launched(
                         call, cuda_launch_conv2d_bias(y->data, bias->data, x->dtype, &s, stream),
                         "conv2d's bias");
    if (!fits(call, &s, s.o / s.groups, s.c / s.groups * s.kernel[0] * s.kernel[1]))
        return TERN_ERR_UNSUPPORTED;
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
    bool done = false;
    if (x->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    CUDA_TRY(by_cudnn(call, stream, CUDA_DNN_GRAD_INPUT, x, (const tern_view *[]){ x, w, y }, &s,
                      &done));
    if (done)
        return TERN_OK;
    if (!fits(call, &s, s.c / s.groups, s.o / s.groups * s.kernel[0] * s.kernel[1]))
        return TERN_ERR_UNSUPPORTED;
    return cuda_launched(
        call, cuda_launch_conv2d_grad_input(x->data, y->data, w->data, x->dtype, &s, stream),
        "conv2d_grad_input");
}

/* Sums of the gradient's channels. */
static tern_status_t grad_bias(const tern_call *call)
{
    static const tern_attr_reduce all_but_channels = { .dims = 1u << 0 | 1u << 2 | 1u << 3 };
    tern_call sum = *call;
    sum.attr = &all_but_channels;
    sum.n_in = sum.n_out = 1;
    sum.out = call->out + 1;
    return call->out[1]->numel > 0 ? cuda_sum(&sum) : TERN_OK;
}

/* (gradient, x) -> gradients of weight and bias */
tern_status_t cuda_conv2d_grad_weight(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *y = call->in[0], *x = call->in[1], *w = call->out[0];
    const cuda_conv_shape s = shape_of(x, w, y, call->attr);
    bool done = false;
    CUDA_TRY(cuda_enter(call, &stream));
    CUDA_TRY(by_cudnn(call, stream, CUDA_DNN_GRAD_WEIGHT, x, (const tern_view *[]){ x, w, y }, &s,
                      &done));
    if (!done && !fits(call, &s, s.c / s.groups * s.kernel[0] * s.kernel[1], 0))
        return TERN_ERR_UNSUPPORTED;
    if (!done && w->numel > 0)
        CUDA_TRY(cuda_launched(
            call, cuda_launch_conv2d_grad_weight(w->data, y->data, x->data, x->dtype, &s, stream),
            "conv2d_grad_weight"));
    return grad_bias(call);
}
