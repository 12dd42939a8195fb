/* conv2d and its gradients: which way each call takes. See conv2d.h. */
#include "backend_cpu/conv2d.h"
#include "backend_cpu/bridge.h"
#include "backend_cpu/kernels.h"

/* ---- the library ----------------------------------------------------------------------------- */

/* Below this many channels the library pads to whole vectors or has slow kernels only. */
enum { LIBRARY_CHANNELS = 16 };

static bool is_channels_last(const tern_view *v)
{
    int64_t expected = 1;
    static const int order[4] = { 1, 3, 2, 0 };
    for (int i = 0; i < 4; i++) {
        const int d = order[i];
        if (v->shape[d] != 1 && v->stride[d] != expected)
            return false;
        expected *= v->shape[d];
    }
    return true;
}

static bool library_suits(const cpu_conv *conv)
{
    const int64_t groups = conv->attr->groups;
    const bool depthwise = groups == conv->in_channels && groups == conv->out_channels;
    if (conv->x->dtype != TERN_F32 || conv->in_channels < LIBRARY_CHANNELS ||
        conv->out_channels < LIBRARY_CHANNELS)
        return false;
    return depthwise || (conv->group_in >= LIBRARY_CHANNELS && conv->group_out >= LIBRARY_CHANNELS);
}

typedef struct turning {
    const tern_view *view;
    float *turned; /* channels_last */
    bool back;
} turning;

static void turn_images(void *context, int64_t begin, int64_t end)
{
    const turning *t = context;
    const int64_t channels = t->view->shape[1], pixels = t->view->shape[2] * t->view->shape[3];
    for (int64_t i = begin; i < end; i++) {
        float *plain = (float *)t->view->data + i * channels * pixels;
        float *turned = t->turned + i * channels * pixels;
        if (t->back)
            cpu_turn_rows(plain, pixels, turned, channels, pixels, channels);
        else
            cpu_turn_rows(turned, channels, plain, pixels, channels, pixels);
    }
}

/* The view's memory in channels_last: its own, or scratch filled from it when `read`. NULL: no
 * scratch. */
static float *channels_last_of(const cpu_conv *conv, const tern_view *view, bool read)
{
    if (is_channels_last(view))
        return view->data;
    turning t = { .view = view,
                  .turned = conv->call->host->scratch(conv->call, view->numel * 4 + 64) };
    if (t.turned != NULL && read)
        cpu_parallel(conv->threads, conv->images, 1, turn_images, &t);
    return t.turned;
}

static void write_back(const cpu_conv *conv, const tern_view *view, float *turned)
{
    if (turned == view->data)
        return;
    turning t = { .view = view, .turned = turned, .back = true };
    cpu_parallel(conv->threads, conv->images, 1, turn_images, &t);
}

static cpu_conv2d_shape library_shape(const cpu_conv *conv)
{
    const tern_attr_conv *a = conv->attr;
    return (cpu_conv2d_shape){ .format = CPU_CONV_NHWC,
                               .weights = (conv->weight->flags & TERN_VIEW_CONTIGUOUS)
                                              ? CPU_CONV_OIHW
                                              : CPU_CONV_OHWI,
                               .dtype = CPU_BLAS_F32,
                               .batch = conv->images,
                               .in_channels = conv->in_channels,
                               .in_h = conv->in[0],
                               .in_w = conv->in[1],
                               .out_channels = conv->out_channels,
                               .kernel_h = conv->kernel[0],
                               .kernel_w = conv->kernel[1],
                               .stride_h = a->stride[0],
                               .stride_w = a->stride[1],
                               .pad_h = a->padding[0],
                               .pad_w = a->padding[1],
                               .dilation_h = a->dilation[0],
                               .dilation_w = a->dilation[1],
                               .groups = a->groups };
}

/* With few channels and short rows the library's gradient of x is faster than its convolution: 3 x 3,
 * 128 images, Zen 5: 16 channels, 32 x 32 pixels, 2.6 against 3.4 ms; 32 channels, 16 x 16, 2.4 against
 * 2.9; from rows of 64 pixels on it is the other way round. It is the same sum with the weight turned:
 * [O][C] to [C][O], taps back to front. */
enum { TURN_CHANNELS = 32, TURN_WIDTH = 32 };

static bool turning_pays(const cpu_conv *conv)
{
    const tern_attr_conv *a = conv->attr;
    bool suits = cpu_isa() == CPU_ISA_AVX512 && a->groups == 1 && conv->bias == NULL &&
                 conv->in_channels <= TURN_CHANNELS && conv->out_channels <= TURN_CHANNELS &&
                 conv->out[1] <= TURN_WIDTH;
    for (int d = 0; d < 2; d++)
        suits = suits && a->stride[d] == 1 && a->dilation[d] == 1 && conv->kernel[d] == 3 &&
                a->padding[d] < conv->kernel[d];
    return suits;
}

static float *turned_weight(const cpu_conv *conv)
{
    const tern_view *w = conv->weight;
    const int64_t taps = conv->kernel[0] * conv->kernel[1];
    float *turned = conv->call->host->scratch(conv->call, w->numel * (int64_t)sizeof *turned);
    if (turned == NULL)
        return NULL;
    for (int64_t o = 0; o < conv->out_channels; o++)
        for (int64_t c = 0; c < conv->in_channels; c++) {
            const float *from = (const float *)w->data + o * w->stride[0] + c * w->stride[1];
            float *to = turned + (c * conv->out_channels + o) * taps;
            for (int64_t tap = 0; tap < taps; tap++)
                to[taps - 1 - tap] = from[tap / conv->kernel[1] * w->stride[2] +
                                          tap % conv->kernel[1] * w->stride[3]];
        }
    return turned;
}

/* The forward pass as a gradient of y's place by x's: roles of x and y are exchanged. */
static cpu_conv2d_shape turned_shape(const cpu_conv *conv)
{
    cpu_conv2d_shape s = library_shape(conv);
    s.weights = CPU_CONV_OIHW;
    s.in_channels = conv->out_channels;
    s.out_channels = conv->in_channels;
    s.in_h = conv->out[0];
    s.in_w = conv->out[1];
    s.pad_h = conv->kernel[0] - 1 - conv->attr->padding[0];
    s.pad_w = conv->kernel[1] - 1 - conv->attr->padding[1];
    return s;
}

typedef enum outcome { DONE, NOT_DONE, NO_MEMORY } outcome;

static outcome run_turned(const cpu_conv *conv)
{
    const cpu_blas_table *blas = library_suits(conv) ? cpu_blas() : NULL;
    if (blas == NULL)
        return NOT_DONE;
    cpu_conv2d_call call = { .shape = turned_shape(conv),
                             .pass = CPU_CONV_BACKWARD_DATA,
                             .threads = conv->threads };
    if (blas->conv2d_kernel(&call) == NULL)
        return NOT_DONE;
    call.w = turned_weight(conv);
    call.y = channels_last_of(conv, conv->x, true);
    call.x = channels_last_of(conv, conv->y, false);
    if (call.w == NULL || call.x == NULL || call.y == NULL)
        return NO_MEMORY;
    const uint32_t before = cpu_flush_begin();
    const cpu_blas_status status = blas->conv2d(&call);
    cpu_flush_end(before);
    if (status != CPU_BLAS_OK)
        return NOT_DONE;
    write_back(conv, conv->y, call.x);
    return DONE;
}

static outcome run_library(const cpu_conv *conv, cpu_conv_pass pass)
{
    const cpu_blas_table *blas = library_suits(conv) ? cpu_blas() : NULL;
    if (blas == NULL)
        return NOT_DONE;
    cpu_conv2d_call call = { .shape = library_shape(conv),
                             .pass = pass,
                             .threads = conv->threads,
                             .w = conv->weight->data,
                             .bias = conv->bias };
    if (blas->conv2d_kernel(&call) == NULL)
        return NOT_DONE;
    call.x = channels_last_of(conv, conv->x, pass != CPU_CONV_BACKWARD_DATA);
    call.y = channels_last_of(conv, conv->y, pass != CPU_CONV_FORWARD);
    if (call.x == NULL || call.y == NULL)
        return NO_MEMORY;
    const uint32_t before = cpu_flush_begin();
    const cpu_blas_status status = blas->conv2d(&call);
    cpu_flush_end(before);
    if (status != CPU_BLAS_OK)
        return NOT_DONE;
    if (pass == CPU_CONV_FORWARD)
        write_back(conv, conv->y, call.y);
    else if (pass == CPU_CONV_BACKWARD_DATA)
        write_back(conv, conv->x, call.x);
    return DONE;
}

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
    const int64_t rows = (conv->kernel[0] - 1) * a->dilation[0] + 1;
    const int64_t padded =
        conv->in[1] + 2 * (a->padding[1] + a->dilation[1] * conv->kernel[1]) + 16;
    const int64_t channels =
        conv->group_in > conv->out_channels ? conv->group_in : conv->out_channels;
    return conv->x->dtype == TERN_F32 && channels * rows * padded < (1 << 28);
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

/* x, weight, bias? -> y */
tern_status_t cpu_conv2d(const tern_call *call)
{
    cpu_conv conv = describe(call, call->in[0], call->in[1], call->out[0]);
    if (conv.y->numel == 0)
        return TERN_OK;
    if (is_half(conv.x))
        return cpu_conv2d_half(call);
    conv.bias = call->in[2] != NULL ? call->in[2]->data : NULL;
    outcome library = turning_pays(&conv) ? run_turned(&conv) : NOT_DONE;
    if (library == NOT_DONE)
        library = run_library(&conv, CPU_CONV_FORWARD);
    if (library != NOT_DONE)
        return status_of(library == DONE);
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
    if (is_half(conv.x))
        return cpu_conv2d_grad_input_half(call);
    const outcome library = run_library(&conv, CPU_CONV_BACKWARD_DATA);
    if (library != NOT_DONE)
        return status_of(library == DONE);
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
    if (is_half(conv.x))
        return cpu_conv2d_grad_weight_half(call);
    conv.bias = call->out[1]->data;
    const outcome library = run_library(&conv, CPU_CONV_BACKWARD_WEIGHTS);
    if (library != NOT_DONE)
        return status_of(library == DONE);
    return status_of(direct_suits(&conv) ? cpu_conv_direct_grad_weight(&conv)
                                         : cpu_conv_columns_grad_weight(&conv));
}
