/* Convolutions by the library, which wants channels_last: other tensors are turned, whole for f32, some
 * images at a time for half types, whose gradients of weights are summed in f32 and rounded once. */
#include "backend_cpu/conv2d.h"

#include "backend_cpu/bridge.h"
#include "backend_cpu/half.h"
#include "backend_cpu/transpose.h"

enum {
    /* Below this many channels the library pads to whole vectors or has slow kernels only. */
    LIBRARY_CHANNELS = 16,
    /* Elements of half types that are turned at a time and thread: half of a second-level cache. */
    TURNED_BLOCK = 1 << 18
};

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

/* oneDNN 2.6.3 on a Xeon with AMX gives gradients of bf16 weights that are far off, 1e13 and NaN among them:
 * of dilated kernels (x [2, 32, 28, 56], depthwise, 3 x 3, dilation 2, padding 2; x [2, 33, 28, 64], 1 x 1,
 * stride (1, 2), dilation (2, 1)), and of depthwise ones that go more than two pixels at a time along a
 * row, where it is narrower than they are (x [2, 33, 8, 1], 2 x 4, stride 3, padding (0, 2)). */
static bool weights_come_wrong(const cpu_conv *conv, int pass, bool depthwise)
{
    const tern_attr_conv *a = conv->attr;
    if (pass != CPU_CONV_BACKWARD_WEIGHTS || conv->x->dtype == TERN_F32)
        return false;
    return a->dilation[0] > 1 || a->dilation[1] > 1 || (depthwise && a->stride[1] > 2);
}

static bool library_suits(const cpu_conv *conv, int pass)
{
    const int64_t groups = conv->attr->groups;
    const bool depthwise = groups == conv->in_channels && groups == conv->out_channels;
    if (conv->x->dtype == TERN_F64 || !tern_dtype_is_float((tern_dtype_t)conv->x->dtype) ||
        conv->in_channels < LIBRARY_CHANNELS || conv->out_channels < LIBRARY_CHANNELS ||
        weights_come_wrong(conv, pass, depthwise))
        return false;
    return depthwise || (conv->group_in >= LIBRARY_CHANNELS && conv->group_out >= LIBRARY_CHANNELS);
}

static int32_t library_dtype(const cpu_conv *conv)
{
    const int dtype = conv->x->dtype;
    return dtype == TERN_BF16 ? CPU_BLAS_BF16 : dtype == TERN_F16 ? CPU_BLAS_F16 : CPU_BLAS_F32;
}

static cpu_conv2d_shape library_shape(const cpu_conv *conv)
{
    const tern_attr_conv *a = conv->attr;
    return (cpu_conv2d_shape){ .format = CPU_CONV_NHWC,
                               .weights = (conv->weight->flags & TERN_VIEW_CONTIGUOUS)
                                              ? CPU_CONV_OIHW
                                              : CPU_CONV_OHWI,
                               .dtype = library_dtype(conv),
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

/* ---- tensors in channels_last ---------------------------------------------------------------- */

/* A tensor as the library sees some of its images. */
typedef struct seen {
    const tern_view *view;
    char *room; /* channels_last; NULL: the view's memory is */
    int64_t image_bytes;
    bool written; /* else read */
} seen;

static bool make_turned(const cpu_conv *conv, const tern_view *view, bool written, int64_t images,
                        seen *out)
{
    const int64_t size = cpu_dtype_size(view->dtype);
    *out = (seen){ .view = view,
                   .image_bytes = view->numel / view->shape[0] * size,
                   .written = written };
    if (is_channels_last(view))
        return true;
    out->room = conv->call->host->scratch(conv->call, images * out->image_bytes + 64);
    return out->room != NULL;
}

typedef struct turning {
    const seen *t;
    int64_t first; /* image */
} turning;

static void turn_f32(const seen *t, float *plain, float *last)
{
    const int64_t channels = t->view->shape[1], pixels = t->view->shape[2] * t->view->shape[3];
    if (t->written)
        cpu_turn_rows(plain, pixels, last, channels, pixels, channels);
    else
        cpu_turn_rows(last, channels, plain, pixels, channels, pixels);
}

static void turn_half(const seen *t, char *plain, char *last)
{
    const int64_t channels = t->view->shape[1], pixels = t->view->shape[2] * t->view->shape[3];
    if (t->written)
        cpu_transpose(plain, 2 * pixels, last, 2 * channels, pixels, channels, 2);
    else
        cpu_transpose(last, 2 * channels, plain, 2 * pixels, channels, pixels, 2);
}

static void turn_images(void *context, int64_t begin, int64_t end)
{
    const turning *turn = context;
    const seen *t = turn->t;
    for (int64_t i = begin; i < end; i++) {
        char *plain = (char *)t->view->data + (turn->first + i) * t->image_bytes;
        char *last = t->room + i * t->image_bytes;
        if (t->view->dtype == TERN_F32)
            turn_f32(t, (float *)(void *)plain, (float *)(void *)last);
        else
            turn_half(t, plain, last);
    }
}

static void turn(const cpu_conv *conv, const seen *t, int64_t first, int64_t images)
{
    turning context = { t, first };
    if (t->room != NULL)
        cpu_parallel(conv->threads, images, 1, turn_images, &context);
}

static void *images_at(const seen *t, int64_t first)
{
    return t->room != NULL ? t->room : (char *)t->view->data + first * t->image_bytes;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* A call that is made for `block` images at a time. */
typedef struct library_run {
    const cpu_conv *conv;
    const cpu_blas_table *blas;
    cpu_conv2d_call call;
    seen x, y; /* in the library's sense: see turned_shape */
    int64_t block;
    /* gradients of half weights, then of the bias: the sum so far and what a block adds */
    float *sums;
    int64_t sum_count;
} library_run;

static bool is_half_run(const library_run *run)
{
    return run->call.shape.dtype != CPU_BLAS_F32;
}

/* All images at once where nothing is turned: the library goes through them one by one. */
static int64_t block_of(const library_run *run)
{
    const int64_t images = run->conv->images;
    if (!is_half_run(run) || (is_channels_last(run->x.view) && is_channels_last(run->y.view)))
        return images;
    const int64_t image = (run->x.view->numel + run->y.view->numel) / images;
    const int64_t block = (TURNED_BLOCK / (image + 1) + 1) * run->conv->threads;
    return block < images ? block : images;
}

static bool take_scratch(library_run *run)
{
    const cpu_conv *conv = run->conv;
    const cpu_conv_pass pass = run->call.pass;
    if (is_half_run(run) && pass == CPU_CONV_BACKWARD_WEIGHTS) {
        run->sum_count = conv->weight->numel + conv->out_channels;
        run->sums = conv->call->host->scratch(conv->call, 2 * run->sum_count * 4 + 64);
        if (run->sums == NULL)
            return false;
    }
    return make_turned(conv, run->x.view, pass == CPU_CONV_BACKWARD_DATA, run->block, &run->x) &&
           make_turned(conv, run->y.view, pass == CPU_CONV_FORWARD, run->block, &run->y);
}

/* Is there a kernel? Decides how many images at a time, which the library asks for. */
static bool has_kernel(library_run *run)
{
    if (run->blas == NULL)
        return false;
    run->block = block_of(run);
    run->call.shape.batch = run->block;
    return run->blas->conv2d_kernel(&run->call) != NULL;
}

static cpu_blas_status run_block(library_run *run, int64_t first, int64_t images)
{
    cpu_conv2d_call *call = &run->call;
    call->shape.batch = images;
    call->x = images_at(&run->x, first);
    call->y = images_at(&run->y, first);
    if (run->sums != NULL) {
        float *to = first == 0 ? run->sums : run->sums + run->sum_count;
        call->w = to;
        call->bias = to + run->conv->weight->numel;
    }
    if (!run->x.written)
        turn(run->conv, &run->x, first, images);
    if (!run->y.written)
        turn(run->conv, &run->y, first, images);
    const uint32_t before = cpu_flush_begin();
    const cpu_blas_status status = run->blas->conv2d(call);
    cpu_flush_end(before);
    if (status != CPU_BLAS_OK)
        return status;
    if (run->x.written)
        turn(run->conv, &run->x, first, images);
    if (run->y.written)
        turn(run->conv, &run->y, first, images);
    if (run->sums != NULL && first > 0) {
        CPU_INDEPENDENT
        for (int64_t i = 0; i < run->sum_count; i++)
            run->sums[i] += run->sums[run->sum_count + i];
    }
    return status;
}

static void round_sums(const library_run *run)
{
    const tern_view *weight = run->conv->weight;
    cpu_from_f32(weight->data, weight->dtype, run->sums, weight->numel);
    if (run->conv->bias != NULL)
        cpu_from_f32(run->conv->bias, weight->dtype, run->sums + weight->numel,
                     run->conv->out_channels);
}

/* Weights that are reordered once for all blocks of a call. */
static uint64_t next_key(void)
{
    static uint64_t last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

static cpu_conv_outcome run_blocks(library_run *run)
{
    const int64_t images = run->conv->images;
    if (!take_scratch(run))
        return CPU_CONV_NO_MEMORY;
    if (run->block < images && run->call.pass != CPU_CONV_BACKWARD_WEIGHTS)
        run->call.weights_key = next_key();
    for (int64_t i = 0; i < images; i += run->block) {
        const int64_t some = images - i < run->block ? images - i : run->block;
        if (run_block(run, i, some) != CPU_BLAS_OK)
            return CPU_CONV_NOT_DONE;
    }
    if (run->sums != NULL)
        round_sums(run);
    return CPU_CONV_DONE;
}

cpu_conv_outcome cpu_conv_library(const cpu_conv *conv, int pass)
{
    library_run run = { .conv = conv,
                        .blas = library_suits(conv, pass) ? cpu_blas() : NULL,
                        .x = { .view = conv->x },
                        .y = { .view = conv->y } };
    run.call = (cpu_conv2d_call){ .shape = library_shape(conv),
                                  .pass = (cpu_conv_pass)pass,
                                  .threads = conv->threads,
                                  .w = conv->weight->data,
                                  .bias = conv->bias };
    return has_kernel(&run) ? run_blocks(&run) : CPU_CONV_NOT_DONE;
}

/* ---- the weight turned ----------------------------------------------------------------------- */

/* With few channels and short rows the library's gradient of x is faster than its convolution: 3 x 3,
 * 128 images, Zen 5: 16 channels, 32 x 32 pixels, 2.6 against 3.4 ms; 32 channels, 16 x 16, 2.4 against
 * 2.9; from rows of 64 pixels on it is the other way round. It is the same sum with the weight turned:
 * [O][C] to [C][O], taps back to front. */
enum { TURN_CHANNELS = 32, TURN_WIDTH = 32 };

static bool turning_pays(const cpu_conv *conv)
{
    const tern_attr_conv *a = conv->attr;
    bool suits = cpu_isa() == CPU_ISA_AVX512 && a->groups == 1 && conv->bias == NULL &&
                 conv->x->dtype == TERN_F32 && conv->in_channels <= TURN_CHANNELS &&
                 conv->out_channels <= TURN_CHANNELS && conv->out[1] <= TURN_WIDTH;
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

static cpu_conv_outcome run_turned(const cpu_conv *conv)
{
    library_run run = { .conv = conv,
                        .blas = library_suits(conv, CPU_CONV_BACKWARD_DATA) ? cpu_blas() : NULL,
                        .x = { .view = conv->y },
                        .y = { .view = conv->x } };
    run.call = (cpu_conv2d_call){ .shape = turned_shape(conv),
                                  .pass = CPU_CONV_BACKWARD_DATA,
                                  .threads = conv->threads };
    if (!has_kernel(&run))
        return CPU_CONV_NOT_DONE;
    run.call.w = turned_weight(conv);
    return run.call.w != NULL ? run_blocks(&run) : CPU_CONV_NO_MEMORY;
}

cpu_conv_outcome cpu_conv_library_forward(const cpu_conv *conv)
{
    const cpu_conv_outcome turned = turning_pays(conv) ? run_turned(conv) : CPU_CONV_NOT_DONE;
    return turned != CPU_CONV_NOT_DONE ? turned : cpu_conv_library(conv, CPU_CONV_FORWARD);
}
