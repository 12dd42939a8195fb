/* Convolutions of half types by the f32 kernels: some of the channels and some images at a time are
 * converted, computed and rounded. At most WEIGHT_BLOCK weights are there in f32 at a time (of one channel,
 * if it has more), of x and y what HALF_BLOCK says, but at least an image: all of a small batch, or of one
 * image. Gradients of weights are summed in f32 over all images, and rounded once. */
#include "backend_cpu/conv2d.h"
#include "backend_cpu/gemm.h"
#include "backend_cpu/half.h"
#include "backend_cpu/kernels.h"

enum {
    /* f32 elements of x and y that are converted at a time and thread: half of a second-level cache. */
    HALF_BLOCK = 1 << 17,
    /* f32 elements of weights that are converted at a time. Where there are more, every block of them
     * converts x or y anew, and takes as many elements of x and y at a time. */
    WEIGHT_BLOCK = 1 << 19,
    PIECE_ALIGN = 16 /* channels: the lanes of all kernels */
};

/* ---- tensors --------------------------------------------------------------------------------- */

/* A tensor's f32 stand-in for some of its first two dimensions, row-major or channels_last as it is. */
typedef struct stand_in {
    tern_view view;
    const tern_view *of;
    int64_t first[2];
} stand_in;

static bool is_row_major(const tern_view *v)
{
    return (v->flags & TERN_VIEW_CONTIGUOUS) != 0;
}

static stand_in stand_in_of(const tern_view *of)
{
    stand_in s = { .view = *of, .of = of };
    s.view.dtype = TERN_F32;
    return s;
}

/* Takes [first, first + count) of dimension 0 or 1. */
static void cut(stand_in *s, int dim, int64_t first, int64_t count)
{
    static const int order[2][4] = { { 1, 3, 2, 0 }, { 3, 2, 1, 0 } };
    int64_t step = 1;
    s->first[dim] = first;
    s->view.shape[dim] = count;
    for (int i = 0; i < 4; i++) {
        const int d = order[is_row_major(s->of)][i];
        s->view.stride[d] = step;
        step *= s->view.shape[d];
    }
    s->view.numel = step;
}

static bool take_room(const tern_call *call, stand_in *s)
{
    s->view.data = call->host->scratch(call, s->view.numel * 4 + 64);
    return s->view.data != NULL;
}

/* Of the half tensor: lines of `run` elements, `pitch` from one to the next. */
typedef struct conversion {
    char *half;
    float *wide;
    int dtype;
    int64_t run, pitch;
    bool back;
} conversion;

static void convert_range(void *context, int64_t begin, int64_t end)
{
    const conversion *c = context;
    for (int64_t i = begin, n; i < end; i += n) {
        const int64_t at = i % c->run;
        char *half = c->half + (i / c->run * c->pitch + at) * 2;
        n = c->run - at < end - i ? c->run - at : end - i;
        if (c->back)
            cpu_from_f32(half, c->dtype, c->wide + i, n);
        else
            cpu_to_f32(c->wide + i, half, c->dtype, n);
    }
}

static void convert(const stand_in *s, bool back, int threads)
{
    const tern_view *of = s->of;
    const int64_t pixels = of->shape[2] * of->shape[3];
    const int64_t adjacent = is_row_major(of) ? pixels : 1; /* elements of a channel */
    const int64_t first = s->first[0] * of->shape[1] * pixels + s->first[1] * adjacent;
    conversion c = { .half = (char *)of->data + first * 2,
                     .wide = s->view.data,
                     .dtype = of->dtype,
                     .run = s->view.shape[1] * adjacent,
                     .pitch = of->shape[1] * adjacent,
                     .back = back };
    if (c.run == c.pitch)
        c.run = s->view.numel;
    cpu_parallel(threads, s->view.numel, CPU_BLOCK, convert_range, &c);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef enum half_pass { HALF_FORWARD, HALF_INPUT, HALF_WEIGHT } half_pass;

/* Some groups or, of a single one, some of the channels that the pass computes: those of x in its
 * gradient, else y's. */
typedef struct piece {
    int64_t group, groups, channel, channels;
} piece;

/* Calls of an f32 kernel, one per block. What it takes as scratch is taken again by the next. */
enum { MOST_ROOMS = 16 };
typedef struct half_conv {
    tern_call part; /* first: what the host's function is given */
    tern_host host;
    tern_attr_conv attr;
    const tern_call *call;
    struct {
        void *data;
        int64_t bytes;
    } rooms[MOST_ROOMS];
    int taken; /* in this block */
    half_pass pass;
    stand_in x, weight, y;
    const tern_view *half_bias; /* NULL: none */
    tern_view bias;
    float *sums; /* gradients of weights and bias: the sum so far, then what a block adds */
    int64_t group_in, group_out, images;
    int64_t groups, channels, block; /* of a piece and images of a block, at most */
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

static int64_t computed_channels(const half_conv *h)
{
    return h->pass == HALF_INPUT ? h->group_in : h->group_out;
}

static void enter_piece(half_conv *h, const piece *p)
{
    const bool input = h->pass == HALF_INPUT;
    const int64_t in = p->groups * (input ? p->channels : h->group_in);
    const int64_t out = p->groups * (input ? h->group_out : p->channels);
    const int64_t first_in = p->group * h->group_in + (input ? p->channel : 0);
    const int64_t first_out = p->group * h->group_out + (input ? 0 : p->channel);
    h->attr.groups = p->groups;
    cut(&h->x, 1, first_in, in);
    cut(&h->y, 1, first_out, out);
    cut(&h->weight, 0, first_out, out);
    cut(&h->weight, 1, input ? p->channel : 0, input ? p->channels : h->group_in);
    h->bias.numel = h->bias.shape[0] = out;
}

/* How many groups or channels and how many images are taken at a time. */
static void plan_blocks(half_conv *h)
{
    const int64_t all = h->weight.of->numel, of_group = all / h->attr.groups;
    int64_t elements = HALF_BLOCK;
    h->groups = h->attr.groups;
    h->channels = computed_channels(h);
    if (all > WEIGHT_BLOCK) {
        elements = WEIGHT_BLOCK;
        h->groups = of_group > WEIGHT_BLOCK ? 1 : cpu_gemm_even(h->groups, elements / of_group, 1);
    }
    if (of_group > WEIGHT_BLOCK) {
        const int64_t most = elements / (of_group / h->channels);
        const int64_t whole = most / PIECE_ALIGN * PIECE_ALIGN;
        h->channels = whole > 0  ? cpu_gemm_even(h->channels, whole, PIECE_ALIGN)
                      : most > 0 ? most
                                 : 1;
        if (h->channels > computed_channels(h))
            h->channels = computed_channels(h);
    }
    enter_piece(h, &(piece){ 0, h->groups, 0, h->channels });
    const int64_t image = (h->x.view.numel + h->y.view.numel) / h->images;
    h->block = elements / (image + 1) + 1;
    h->block *= h->call->threads > 0 ? h->call->threads : 1;
    h->block = h->block < h->images ? h->block : h->images;
}

static void enter_images(half_conv *h, int64_t first, int64_t images)
{
    h->taken = 0;
    cut(&h->x, 0, first, images);
    cut(&h->y, 0, first, images);
}

/* For the largest block, which is the first. */
static bool take_rooms(half_conv *h)
{
    const tern_call *call = h->call;
    const int64_t weights = h->weight.view.numel, bias = h->bias.numel;
    enter_images(h, 0, h->block);
    if (!take_room(call, &h->x) || !take_room(call, &h->y))
        return false;
    if (h->pass == HALF_WEIGHT) {
        h->sums = call->host->scratch(call, 2 * (weights + bias) * 4 + 64);
        return h->sums != NULL;
    }
    h->bias.data = h->half_bias != NULL ? call->host->scratch(call, bias * 4 + 64) : NULL;
    return take_room(call, &h->weight) && (h->half_bias == NULL || h->bias.data != NULL);
}

static bool begin_blocks(half_conv *h, const tern_call *call, half_pass pass, const tern_view *x,
                         const tern_view *weight, const tern_view *y, const tern_view *bias)
{
    *h = (half_conv){ .part = *call,
                      .host = *call->host,
                      .attr = *(const tern_attr_conv *)call->attr,
                      .call = call,
                      .pass = pass,
                      .x = stand_in_of(x),
                      .weight = stand_in_of(weight),
                      .y = stand_in_of(y),
                      .half_bias = bias,
                      .group_in = weight->shape[1],
                      .images = y->shape[0] };
    cpu_half_count(CPU_HALF_F32, 1);
    h->host.scratch = scratch_again;
    h->part.host = &h->host;
    h->part.attr = &h->attr;
    h->group_out = weight->shape[0] / h->attr.groups;
    if (bias != NULL) {
        h->bias = *bias;
        h->bias.dtype = TERN_F32;
    }
    plan_blocks(h);
    return take_rooms(h);
}

/* ---- passes ---------------------------------------------------------------------------------- */

typedef tern_status_t (*conv_kernel)(const tern_call *call);

static char *half_bias_at(const half_conv *h)
{
    return (char *)h->half_bias->data + h->y.first[1] * 2;
}

/* What all images share: weights, or the place of their sums. */
static void begin_piece(half_conv *h)
{
    const int64_t all = h->weight.view.numel + h->bias.numel;
    if (h->pass == HALF_WEIGHT) {
        memset(h->sums, 0, (size_t)all * sizeof *h->sums);
        h->weight.view.data = h->sums + all;
        h->bias.data = h->sums + all + h->weight.view.numel;
        return;
    }
    convert(&h->weight, false, h->call->threads);
    if (h->half_bias != NULL)
        cpu_to_f32(h->bias.data, half_bias_at(h), h->half_bias->dtype, h->bias.numel);
}

static void end_piece(half_conv *h)
{
    if (h->pass != HALF_WEIGHT)
        return;
    h->weight.view.data = h->sums;
    convert(&h->weight, true, h->call->threads);
    cpu_from_f32(half_bias_at(h), h->half_bias->dtype, h->sums + h->weight.view.numel,
                 h->bias.numel);
}

/* sum += part */
static void add_up(float *sum, const float *part, int64_t n)
{
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        sum[i] += part[i];
}

static tern_status_t run_images(half_conv *h, int64_t first, int64_t images, conv_kernel kernel)
{
    const int threads = h->call->threads;
    const int64_t all = h->weight.view.numel + h->bias.numel;
    enter_images(h, first, images);
    if (h->pass != HALF_INPUT)
        convert(&h->x, false, threads);
    if (h->pass != HALF_FORWARD)
        convert(&h->y, false, threads);
    const tern_status_t status = kernel(&h->part);
    if (h->pass == HALF_FORWARD)
        convert(&h->y, true, threads);
    else if (h->pass == HALF_INPUT)
        convert(&h->x, true, threads);
    else
        add_up(h->sums, h->sums + all, all);
    return status;
}

static tern_status_t run_piece(half_conv *h, const piece *p, conv_kernel kernel)
{
    tern_status_t status = TERN_OK;
    enter_piece(h, p);
    begin_piece(h);
    for (int64_t i = 0; i < h->images && status == TERN_OK; i += h->block)
        status = run_images(h, i, h->images - i < h->block ? h->images - i : h->block, kernel);
    end_piece(h);
    return status;
}

static tern_status_t run_pieces(half_conv *h, conv_kernel kernel)
{
    const int64_t groups = ((const tern_attr_conv *)h->call->attr)->groups;
    const int64_t channels = computed_channels(h);
    tern_status_t status = TERN_OK;
    for (int64_t g = 0; g < groups; g += h->groups)
        for (int64_t c = 0; c < channels && status == TERN_OK; c += h->channels) {
            const piece p = { g, groups - g < h->groups ? groups - g : h->groups, c,
                              channels - c < h->channels ? channels - c : h->channels };
            status = run_piece(h, &p, kernel);
        }
    return status;
}

tern_status_t cpu_conv2d_half(const tern_call *call)
{
    half_conv h;
    if (!begin_blocks(&h, call, HALF_FORWARD, call->in[0], call->in[1], call->out[0], call->in[2]))
        return TERN_ERR_OOM;
    const tern_view *in[3] = { &h.x.view, &h.weight.view, h.half_bias != NULL ? &h.bias : NULL };
    const tern_view *out[1] = { &h.y.view };
    h.part.in = in;
    h.part.out = out;
    return run_pieces(&h, cpu_conv2d);
}

tern_status_t cpu_conv2d_grad_input_half(const tern_call *call)
{
    half_conv h;
    if (!begin_blocks(&h, call, HALF_INPUT, call->out[0], call->in[1], call->in[0], NULL))
        return TERN_ERR_OOM;
    const tern_view *in[2] = { &h.y.view, &h.weight.view }, *out[1] = { &h.x.view };
    h.part.in = in;
    h.part.out = out;
    return run_pieces(&h, cpu_conv2d_grad_input);
}

tern_status_t cpu_conv2d_grad_weight_half(const tern_call *call)
{
    half_conv h;
    if (!begin_blocks(&h, call, HALF_WEIGHT, call->in[1], call->out[0], call->in[0], call->out[1]))
        return TERN_ERR_OOM;
    const tern_view *in[2] = { &h.y.view, &h.x.view }, *out[2] = { &h.weight.view, &h.bias };
    h.part.in = in;
    h.part.out = out;
    return run_pieces(&h, cpu_conv2d_grad_weight);
}
