/* conv2d and its gradients: which way each call takes. See conv2d.h. */
#include "backend_cpu/conv2d.h"
#include "backend_cpu/bridge.h"
#include "backend_cpu/half.h"
#include "backend_cpu/kernels.h"

/* ---- the kernels ----------------------------------------------------------------------------- */

static cpu_conv describe(const tern_call *call, const tern_view *x, const tern_view *weight,
                         const tern_view *y)
{
    const tern_attr_conv *attr = call->attr;
    cpu_conv conv = { .call = call,
                      .attr = attr,
                      .x = x,
                      .weight = weight,
                      .y = y,
                      .images = y->shape[0],
                      .in_channels = x->shape[1],
                      .out_channels = y->shape[1],
                      .in = { x->shape[2], x->shape[3] },
                      .out = { y->shape[2], y->shape[3] },
                      .kernel = { weight->shape[2], weight->shape[3] },
                      .group_in = weight->shape[1],
                      .group_out = y->shape[1] / attr->groups };
    const int64_t bytes = (x->numel + weight->numel + y->numel) * cpu_dtype_size(x->dtype);
    conv.threads = cpu_threads(
        call, bytes, y->numel * weight->shape[1] * weight->shape[2] * weight->shape[3] / 2);
    return conv;
}

/* Offsets of taps in staged planes are 32-bit; in the input gradient they are planes of y. */
static bool direct_suits(const cpu_conv *conv)
{
    const tern_attr_conv *a = conv->attr;
    const int64_t rows = cpu_times(conv->kernel[0] - 1, a->dilation[0]) + 1;
    const int64_t taps = cpu_times(conv->kernel[1], a->dilation[1]);
    const int64_t padded = conv->in[1] + 2 * (a->padding[1] + taps) + a->stride[1] + 16;
    const int64_t channels =
        conv->group_in > conv->out_channels ? conv->group_in : conv->out_channels;
    return conv->x->dtype == TERN_F32 && cpu_times(cpu_times(channels, rows), padded) < (1 << 28);
}

static tern_status_t status_of(bool done)
{
    return done ? TERN_OK : TERN_ERR_OOM;
}

static void fill_zero(const tern_view *v)
{
    if (v->numel > 0)
        memset(v->data, 0, (size_t)(v->numel * cpu_dtype_size(v->dtype)));
}

static bool is_half(const tern_view *v)
{
    return v->dtype == TERN_F16 || v->dtype == TERN_BF16;
}

/* The library computes half types by instructions of their own only where a table says that it pays. */
static bool asks_library(const cpu_conv *conv, cpu_half_class class)
{
    return !is_half(conv->x) || cpu_half_conv_way(conv->x->dtype, class) == CPU_HALF_LIBRARY;
}

static tern_status_t library_status(const cpu_conv *conv, cpu_conv_outcome outcome)
{
    if (outcome == CPU_CONV_DONE && is_half(conv->x))
        cpu_half_count(CPU_HALF_LIBRARY, 1);
    return status_of(outcome == CPU_CONV_DONE);
}

/* x, weight, bias? -> y */
tern_status_t cpu_conv2d(const tern_call *call)
{
    cpu_conv conv = describe(call, call->in[0], call->in[1], call->out[0]);
    if (conv.y->numel == 0)
        return TERN_OK;
    conv.bias = call->in[2] != NULL ? call->in[2]->data : NULL;
    const cpu_conv_outcome library =
        asks_library(&conv, CPU_HALF_CONV) ? cpu_conv_library_forward(&conv) : CPU_CONV_NOT_DONE;
    if (library != CPU_CONV_NOT_DONE)
        return library_status(&conv, library);
    if (is_half(conv.x))
        return cpu_conv2d_half(call);
    return status_of(direct_suits(&conv) ? cpu_conv_direct_forward(&conv)
                                         : cpu_conv_columns_forward(&conv));
}

static bool own_grad_input(const cpu_conv *conv)
{
    const tern_attr_conv *a = conv->attr;
    bool turns = true;
    for (int d = 0; d < 2; d++)
        turns =
            turns && a->stride[d] == 1 && a->padding[d] <= a->dilation[d] * (conv->kernel[d] - 1);
    if (a->groups > 1 || !direct_suits(conv))
        return cpu_conv_columns_grad_input(conv);
    if (conv->in_channels <= CPU_CONV_FEW && a->dilation[1] == 1)
        return cpu_conv_scatter_grad_input(conv);
    return turns ? cpu_conv_turned_grad_input(conv) : cpu_conv_columns_grad_input(conv);
}

/* gradient of y, weight -> gradient of x */
tern_status_t cpu_conv2d_grad_input(const tern_call *call)
{
    cpu_conv conv = describe(call, call->out[0], call->in[1], call->in[0]);
    if (conv.x->numel == 0)
        return TERN_OK;
    if (conv.y->numel == 0) {
        fill_zero(conv.x);
        return TERN_OK;
    }
    const cpu_conv_outcome library = asks_library(&conv, CPU_HALF_CONV_INPUT)
                                         ? cpu_conv_library(&conv, CPU_CONV_BACKWARD_DATA)
                                         : CPU_CONV_NOT_DONE;
    if (library != CPU_CONV_NOT_DONE)
        return library_status(&conv, library);
    if (is_half(conv.x))
        return cpu_conv2d_grad_input_half(call);
    return status_of(own_grad_input(&conv));
}

/* gradient of y, x -> gradients of weight and bias */
tern_status_t cpu_conv2d_grad_weight(const tern_call *call)
{
    cpu_conv conv = describe(call, call->in[1], call->out[0], call->in[0]);
    if (conv.y->numel == 0 || conv.x->numel == 0) {
        fill_zero(call->out[0]);
        fill_zero(call->out[1]);
        return TERN_OK;
    }
    conv.bias = call->out[1]->data;
    const cpu_conv_outcome library = asks_library(&conv, CPU_HALF_CONV_WEIGHT)
                                         ? cpu_conv_library(&conv, CPU_CONV_BACKWARD_WEIGHTS)
                                         : CPU_CONV_NOT_DONE;
    if (library != CPU_CONV_NOT_DONE)
        return library_status(&conv, library);
    if (is_half(conv.x))
        return cpu_conv2d_grad_weight_half(call);
    return status_of(direct_suits(&conv) ? cpu_conv_direct_grad_weight(&conv)
                                         : cpu_conv_columns_grad_weight(&conv));
}
