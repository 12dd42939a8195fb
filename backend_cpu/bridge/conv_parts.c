/* Shares a convolution out over its images: each part is a convolution of its own on one thread,
 * with that thread's primitives and scratch. Parts depend on `threads` and not on who runs them.
 * Gradients of weights are summed over parts in their order. */
#include "backend_cpu/bridge/conv_private.h"

#if TERN_HAVE_ONEDNN

/* A part of less than this costs more than it brings. */
static const double flops_per_part = 2.5e5;

static double flops(const cpu_conv2d_shape *s)
{
    double pixels = (double)s->batch * ((double)s->in_h / (double)s->stride_h) *
                    ((double)s->in_w / (double)s->stride_w);
    double taps = (double)s->kernel_h * (double)s->kernel_w * (double)s->in_channels;
    return 2 * pixels * taps * (double)s->out_channels / (double)s->groups;
}

conv_split conv_split_of(const cpu_conv2d_call *call)
{
    conv_split split = { call->threads, 1 };
    const cpu_conv2d_shape *s = &call->shape;
    if (call->threads < 2 || s->stride_h < 1 || s->stride_w < 1 || s->groups < 1 ||
        flops(s) < 2 * flops_per_part) {
        split.parts = 1;
        return split;
    }
    if (flops(s) < flops_per_part * (double)split.parts)
        split.parts = (int64_t)(flops(s) / flops_per_part);
    if (split.parts <= s->batch)
        return split;
    /* One or a few large images: only oneDNN can cut those. */
    if (call->pass == CPU_CONV_FORWARD && !bridge_inside_team())
        split.inner_threads = (int)split.parts;
    split.parts = split.inner_threads > 1 || s->batch < 1 ? 1 : s->batch;
    return split;
}

int64_t conv_first_image(const cpu_conv2d_call *call, const conv_split *split, int64_t part)
{
    return call->shape.batch * part / split->parts;
}

typedef struct conv_work {
    const cpu_conv2d_call *call;
    conv_split split;
    int64_t x_image, y_image; /* bytes per image */
    int64_t w_count;
    float *partials; /* gradients of parts 1 and up: w, then bias */
    int status;      /* the worst */
} conv_work;

static int64_t partial_count(const conv_work *work)
{
    /* Whole cache lines, so that parts do not share one. */
    return (work->w_count + work->call->shape.out_channels + 15) / 16 * 16;
}

static void run_part(void *context, int64_t part)
{
    conv_work *work = context;
    cpu_conv2d_call call = *work->call;
    int64_t first = conv_first_image(work->call, &work->split, part);
    call.shape.batch = conv_first_image(work->call, &work->split, part + 1) - first;
    call.x = (char *)call.x + first * work->x_image;
    call.y = (char *)call.y + first * work->y_image;
    if (call.pass == CPU_CONV_BACKWARD_WEIGHTS && part > 0) {
        float *partial = work->partials + (part - 1) * partial_count(work);
        call.w = partial;
        call.bias = call.bias ? partial + work->w_count : NULL;
    }
    int status = (int)conv_run(&call, 1);
    if (status != CPU_BLAS_OK)
        __atomic_store_n(&work->status, status, __ATOMIC_RELAXED);
}

static void add_partials(const conv_work *work)
{
    const cpu_conv2d_call *call = work->call;
    float *w = call->w;
    float *bias = call->bias;
    for (int64_t part = 1; part < work->split.parts; part++) {
        const float *partial = work->partials + (part - 1) * partial_count(work);
        for (int64_t i = 0; i < work->w_count; i++)
            w[i] += partial[i];
        for (int64_t i = 0; bias && i < call->shape.out_channels; i++)
            bias[i] += partial[work->w_count + i];
    }
}

static cpu_blas_status run_parts(conv_work *work)
{
    bool sums = work->call->pass == CPU_CONV_BACKWARD_WEIGHTS;
    if (sums) {
        conv_cache *cache = conv_cache_here();
        size_t bytes = (size_t)((work->split.parts - 1) * partial_count(work)) * sizeof(float);
        work->partials = cache ? conv_buffer_get(cache, CONV_BUFFER_PARTIALS, bytes) : NULL;
        if (!work->partials)
            return CPU_BLAS_FAILED;
    }
    bridge_run_parts(work->split.parts, run_part, work);
    if (sums && work->status == CPU_BLAS_OK)
        add_partials(work);
    return (cpu_blas_status)work->status;
}

cpu_blas_status bridge_conv2d(const cpu_conv2d_call *call)
{
    const cpu_conv2d_shape *s = &call->shape;
    conv_split split = conv_split_of(call);
    if (split.parts == 1)
        return conv_run(call, split.inner_threads);
    int64_t out_h = conv_out_size(s->in_h, s->kernel_h, s->stride_h, s->pad_h, s->dilation_h);
    int64_t out_w = conv_out_size(s->in_w, s->kernel_w, s->stride_w, s->pad_w, s->dilation_w);
    int64_t size = s->dtype == CPU_BLAS_F32 ? 4 : 2;
    conv_work work = { call,
                       split,
                       s->in_channels * s->in_h * s->in_w * size,
                       s->out_channels * out_h * out_w * size,
                       s->out_channels * (s->in_channels / s->groups) * s->kernel_h * s->kernel_w,
                       NULL,
                       CPU_BLAS_OK };
    return run_parts(&work);
}

#else

cpu_blas_status bridge_conv2d(const cpu_conv2d_call *call)
{
    (void)call;
    return CPU_BLAS_UNSUPPORTED;
}

const char *bridge_conv2d_kernel(const cpu_conv2d_call *call)
{
    (void)call;
    return NULL;
}
#endif
