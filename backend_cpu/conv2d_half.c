/* Convolutions of half types by the f32 kernels: some images at a time are converted, computed and
 * rounded, so that neither x nor y is there in f32 as a whole. Weights are, as where they are packed;
 * their gradient is summed in f32 over all images and rounded once. */
#include "backend_cpu/conv2d.h"
#include "backend_cpu/half.h"
#include "backend_cpu/kernels.h"

/* f32 elements of x and y that are converted at a time and thread: half of a second-level cache. */
enum { HALF_BLOCK = 1 << 17 };

/* A tensor's f32 stand-in for some of its images, row-major or channels_last as it is. */
typedef struct stand_in {
    tern_view view;
    const tern_view *of;
    int64_t image; /* elements */
} stand_in;

static bool make_stand_in(const tern_call *call, const tern_view *of, int64_t images, stand_in *out)
{
    *out = (stand_in){ .view = *of, .of = of, .image = of->numel / of->shape[0] };
    out->view.dtype = TERN_F32;
    out->view.data = call->host->scratch(call, images * out->image * 4 + 64);
    return out->view.data != NULL;
}

static void set_images(stand_in *s, int64_t images)
{
    s->view.shape[0] = images;
    s->view.numel = images * s->image;
}

typedef struct conversion {
    const stand_in *s;
    int64_t first; /* image */
    bool back;
} conversion;

static void convert_images(void *context, int64_t begin, int64_t end)
{
    const conversion *c = context;
    const stand_in *s = c->s;
    char *half = (char *)s->of->data + (c->first * s->image + begin) * 2;
    float *wide = (float *)s->view.data + begin;
    if (c->back)
        cpu_from_f32(half, s->of->dtype, wide, end - begin);
    else
        cpu_to_f32(wide, half, s->of->dtype, end - begin);
}

static void convert(const stand_in *s, int64_t first, bool back, int threads)
{
    conversion c = { s, first, back };
    cpu_parallel(threads, s->view.numel, CPU_BLOCK, convert_images, &c);
}

/* A call of an f32 kernel, once per block. What it takes as scratch is taken again by the next. */
enum { MOST_ROOMS = 16 };
typedef struct half_conv {
    tern_call part; /* first: what the host's function is given */
    tern_host host;
    const tern_call *call;
    struct {
        void *data;
        int64_t bytes;
    } rooms[MOST_ROOMS];
    int taken; /* in this block */
    stand_in by_image[2];
    bool written[2]; /* else read */
    int64_t images, block;
} half_conv;

static void *scratch_again(const tern_call *part, int64_t bytes)
{
    half_conv *h = (half_conv *)(uintptr_t)part;
    const int i = h->taken < MOST_ROOMS ? h->taken++ : MOST_ROOMS - 1;
    if (h->rooms[i].bytes >= bytes && h->taken < MOST_ROOMS)
        return h->rooms[i].data;
    h->rooms[i].data = h->call->host->scratch(h->call, bytes);
    h->rooms[i].bytes = h->rooms[i].data != NULL ? bytes : 0;
    return h->rooms[i].data;
}

static bool begin_blocks(half_conv *h, const tern_call *call, const tern_view *a, bool a_written,
                         const tern_view *b, bool b_written)
{
    const int64_t image = (a->numel + b->numel) / a->shape[0];
    *h = (half_conv){ .part = *call,
                      .host = *call->host,
                      .call = call,
                      .written = { a_written, b_written },
                      .images = a->shape[0] };
    cpu_half_count(CPU_HALF_F32, 1);
    h->host.scratch = scratch_again;
    h->part.host = &h->host;
    h->block = HALF_BLOCK / (image + 1) + 1;
    h->block *= call->threads > 0 ? call->threads : 1;
    h->block = h->block < h->images ? h->block : h->images;
    return make_stand_in(call, a, h->block, &h->by_image[0]) &&
           make_stand_in(call, b, h->block, &h->by_image[1]);
}

/* Images [first, first + block) or what is left of them. */
static void enter_block(half_conv *h, int64_t first)
{
    h->taken = 0;
    for (int i = 0; i < 2; i++) {
        set_images(&h->by_image[i], h->images - first < h->block ? h->images - first : h->block);
        if (!h->written[i])
            convert(&h->by_image[i], first, false, h->call->threads);
    }
}

static void leave_block(half_conv *h, int64_t first)
{
    for (int i = 0; i < 2; i++)
        if (h->written[i])
            convert(&h->by_image[i], first, true, h->call->threads);
}

/* A whole tensor in f32; *out_view is the caller's. NULL in: NULL. False: no scratch. */
static bool widen_whole(const tern_call *call, const tern_view *in, tern_view *out_view)
{
    *out_view = *in;
    out_view->dtype = TERN_F32;
    out_view->data = call->host->scratch(call, in->numel * 4 + 64);
    if (out_view->data != NULL)
        cpu_to_f32(out_view->data, in->data, in->dtype, in->numel);
    return out_view->data != NULL;
}

tern_status_t cpu_conv2d_half(const tern_call *call)
{
    half_conv h;
    tern_view weight, bias;
    const bool has_bias = call->in[2] != NULL;
    if (!begin_blocks(&h, call, call->in[0], false, call->out[0], true) ||
        !widen_whole(call, call->in[1], &weight) ||
        (has_bias && !widen_whole(call, call->in[2], &bias)))
        return TERN_ERR_OOM;
    const tern_view *in[3] = { &h.by_image[0].view, &weight, has_bias ? &bias : NULL };
    const tern_view *out[1] = { &h.by_image[1].view };
    h.part.in = in;
    h.part.out = out;
    tern_status_t status = TERN_OK;
    for (int64_t i = 0; i < h.images && status == TERN_OK; i += h.block) {
        enter_block(&h, i);
        status = cpu_conv2d(&h.part);
        leave_block(&h, i);
    }
    return status;
}

tern_status_t cpu_conv2d_grad_input_half(const tern_call *call)
{
    half_conv h;
    tern_view weight;
    if (!begin_blocks(&h, call, call->in[0], false, call->out[0], true) ||
        !widen_whole(call, call->in[1], &weight))
        return TERN_ERR_OOM;
    const tern_view *in[2] = { &h.by_image[0].view, &weight }, *out[1] = { &h.by_image[1].view };
    h.part.in = in;
    h.part.out = out;
    tern_status_t status = TERN_OK;
    for (int64_t i = 0; i < h.images && status == TERN_OK; i += h.block) {
        enter_block(&h, i);
        status = cpu_conv2d_grad_input(&h.part);
        leave_block(&h, i);
    }
    return status;
}

/* sum += part */
static void add_up(float *sum, const float *part, int64_t n)
{
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        sum[i] += part[i];
}

tern_status_t cpu_conv2d_grad_weight_half(const tern_call *call)
{
    half_conv h;
    const tern_view *weight = call->out[0], *bias = call->out[1];
    const int64_t n = weight->numel, all = n + bias->numel;
    float *sums = call->host->scratch(call, 2 * all * 4 + 64);
    if (sums == NULL || !begin_blocks(&h, call, call->in[0], false, call->in[1], false))
        return TERN_ERR_OOM;
    tern_view wide[2] = { *weight, *bias };
    wide[0].dtype = wide[1].dtype = TERN_F32;
    wide[0].data = sums + all;
    wide[1].data = sums + all + n;
    const tern_view *in[2] = { &h.by_image[0].view, &h.by_image[1].view };
    const tern_view *out[2] = { &wide[0], &wide[1] };
    h.part.in = in;
    h.part.out = out;
    memset(sums, 0, (size_t)all * sizeof *sums);
    tern_status_t status = TERN_OK;
    for (int64_t i = 0; i < h.images && status == TERN_OK; i += h.block) {
        enter_block(&h, i);
        status = cpu_conv2d_grad_weight(&h.part);
        add_up(sums, sums + all, all);
    }
    cpu_from_f32(weight->data, weight->dtype, sums, n);
    cpu_from_f32(bias->data, bias->dtype, sums + n, bias->numel);
    return status;
}
