/* Pooling: half types become f32 some images at a time, everything else runs as it is. */
#include "backend_cpu/pool2d.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/transpose.h"

#define IS_NAN(v) 0
#define T uint8_t
#define FN(name) name##_u8
#define LOWEST 0
#include "backend_cpu/pool2d_max.inc"
#undef T
#undef FN
#undef LOWEST
#define T int8_t
#define FN(name) name##_i8
#define LOWEST INT8_MIN
#include "backend_cpu/pool2d_max.inc"
#undef T
#undef FN
#undef LOWEST
#define T int16_t
#define FN(name) name##_i16
#define LOWEST INT16_MIN
#include "backend_cpu/pool2d_max.inc"
#undef T
#undef FN
#undef LOWEST
#define T int32_t
#define FN(name) name##_i32
#define LOWEST INT32_MIN
#include "backend_cpu/pool2d_max.inc"
#undef T
#undef FN
#undef LOWEST
#define T int64_t
#define FN(name) name##_i64
#define LOWEST INT64_MIN
#include "backend_cpu/pool2d_max.inc"

/* ---- running --------------------------------------------------------------------------------- */

typedef struct pool_run {
    const cpu_pool *pool;
    cpu_pool_fn *run;
} pool_run;

static void run_units(void *context, int64_t begin, int64_t end)
{
    const pool_run *r = context;
    r->run(r->pool, begin, end);
}

static bool is_channels_last(const tern_view *v)
{
    return (v->flags & TERN_VIEW_CONTIGUOUS) == 0;
}

/* x: the larger tensor, y: the smaller one, or their gradients. */
static cpu_pool describe(const tern_call *call, const tern_view *x, const tern_view *y)
{
    return (cpu_pool){ .attr = call->attr,
                       .x = x->data,
                       .y = y->data,
                       .channels_last = is_channels_last(x),
                       .channels = x->shape[1],
                       .in = { x->shape[2], x->shape[3] },
                       .out = { y->shape[2], y->shape[3] } };
}

static int64_t units_of(const cpu_pool *pool, const tern_view *x, bool backward)
{
    if (!pool->channels_last)
        return x->shape[0] * x->shape[1];
    return x->shape[0] * (backward ? 1 : pool->out[0]);
}

static int threads_of(const tern_call *call, const tern_view *x, const tern_view *y)
{
    const tern_attr_pool *attr = call->attr;
    const int64_t bytes = (x->numel + y->numel) * cpu_dtype_size(x->dtype);
    int64_t cells = y->numel; /* of windows, as far as they are inside */
    for (int d = 0; d < 2; d++)
        cells *= attr->kernel[d] < x->shape[2 + d] ? attr->kernel[d] : x->shape[2 + d];
    return cpu_threads(call, bytes, cells);
}

/* Half types: a part makes some planes or images (channels_last) at a time in f32. */
typedef struct half_run {
    const cpu_pool *pool;
    cpu_pool_fn *run;
    const tern_view *x, *y;
    bool backward;
    int64_t groups, x_group, y_group; /* planes or images; elements of one */
    int64_t units;                    /* of a group */
    int64_t block, parts;             /* groups at a time */
    float *rooms;                     /* one for each part */
} half_run;

enum { HALF_BLOCK = 1 << 15 }; /* f32 elements of a block: they stay near */

static void run_half_block(const half_run *h, float *room, int64_t first, int64_t count)
{
    cpu_pool pool = *h->pool;
    const int64_t cell = pool.narrow_index ? 1 : 4;
    char *x = (char *)h->x->data + first * h->x_group * 2;
    char *y = (char *)h->y->data + first * h->y_group * 2;
    pool.x = room;
    pool.y = room + h->block * h->x_group;
    if (pool.index != NULL)
        pool.index = (char *)pool.index + first * h->y_group * cell;
    if (h->backward)
        cpu_to_f32(pool.y, y, h->y->dtype, count * h->y_group);
    else
        cpu_to_f32(pool.x, x, h->x->dtype, count * h->x_group);
    h->run(&pool, 0, count * h->units);
    if (h->backward)
        cpu_from_f32(x, h->x->dtype, pool.x, count * h->x_group);
    else
        cpu_from_f32(y, h->y->dtype, pool.y, count * h->y_group);
}

static void run_half_parts(void *context, int64_t begin, int64_t end)
{
    const half_run *h = context;
    for (int64_t part = begin; part < end; part++) {
        float *room = h->rooms + part * h->block * (h->x_group + h->y_group);
        const int64_t last = (part + 1) * h->groups / h->parts;
        for (int64_t i = part * h->groups / h->parts; i < last; i += h->block)
            run_half_block(h, room, i, last - i < h->block ? last - i : h->block);
    }
}

static tern_status_t run_half(const tern_call *call, const cpu_pool *pool, const tern_view *x,
                              const tern_view *y, cpu_pool_fn *run, bool backward)
{
    const int threads = threads_of(call, x, y);
    half_run h = { .pool = pool, .run = run, .x = x, .y = y, .backward = backward };
    h.groups = pool->channels_last ? x->shape[0] : x->shape[0] * x->shape[1];
    h.x_group = x->numel / h.groups;
    h.y_group = y->numel / h.groups;
    h.units = units_of(pool, x, backward) / h.groups;
    h.parts = threads == 1 ? 1 : 4 * threads;
    h.parts = h.parts < h.groups ? h.parts : h.groups;
    const int64_t share = (h.groups + h.parts - 1) / h.parts;
    h.block = HALF_BLOCK / (h.x_group + h.y_group) + 1;
    h.block = h.block < share ? h.block : share;
    const int64_t room = h.block * (h.x_group + h.y_group) * (int64_t)sizeof *h.rooms;
    h.rooms = call->host->scratch(call, h.parts * room);
    if (h.rooms == NULL)
        return TERN_ERR_OOM;
    cpu_parallel(threads, h.parts, 1, run_half_parts, &h);
    return TERN_OK;
}

static tern_status_t run_pool(const tern_call *call, cpu_pool *pool, const tern_view *x,
                              const tern_view *y, cpu_pool_fn *run, bool backward)
{
    if (x->dtype == TERN_F16 || x->dtype == TERN_BF16)
        return run_half(call, pool, x, y, run, backward);
    pool_run r = { pool, run };
    cpu_parallel(threads_of(call, x, y), units_of(pool, x, backward), 1, run_units, &r);
    return TERN_OK;
}

static cpu_pool_fn *max_pool_of(int dtype)
{
    switch (dtype) {
    case TERN_U8:
        return max_pool_u8;
    case TERN_I8:
        return max_pool_i8;
    case TERN_I16:
        return max_pool_i16;
    case TERN_I32:
        return max_pool_i32;
    case TERN_I64:
        return max_pool_i64;
    case TERN_F64:
        return CPU_ISA_PICK(cpu_max_pool_f64);
    default:
        return CPU_ISA_PICK(cpu_max_pool_f32);
    }
}

/* ---- averages of i64 ------------------------------------------------------------------------- */

/* A window of x, whose columns are `step` elements apart. Sums wrap; what is behind the point goes. */
static int64_t average_window(const cpu_pool *pool, const int64_t *x, int64_t step, int64_t oh,
                              int64_t ow)
{
    const tern_attr_pool *a = pool->attr;
    const cpu_range rows = cpu_pool_cells(pool, 0, oh), columns = cpu_pool_cells(pool, 1, ow);
    const int64_t top = oh * a->stride[0] - a->padding[0], left = ow * a->stride[1] - a->padding[1];
    uint64_t sum = 0;
    for (int64_t h = top + rows.begin; h < top + rows.end; h++)
        for (int64_t w = left + columns.begin; w < left + columns.end; w++)
            sum += (uint64_t)x[(h * pool->in[1] + w) * step];
    return (int64_t)sum / (cpu_pool_counted(pool, 0, oh) * cpu_pool_counted(pool, 1, ow));
}

static void average_planes_i64(const cpu_pool *pool, int64_t begin, int64_t end)
{
    for (int64_t plane = begin; plane < end; plane++) {
        const int64_t *x = (const int64_t *)pool->x + plane * pool->in[0] * pool->in[1];
        int64_t *y = (int64_t *)pool->y + plane * pool->out[0] * pool->out[1];
        for (int64_t i = 0; i < pool->out[0] * pool->out[1]; i++)
            y[i] = average_window(pool, x, 1, i / pool->out[1], i % pool->out[1]);
    }
}

/* channels_last: rows of results, image after image. */
static void average_rows_i64(const cpu_pool *pool, int64_t begin, int64_t end)
{
    const int64_t channels = pool->channels, pixels = pool->in[0] * pool->in[1];
    for (int64_t row = begin; row < end; row++) {
        const int64_t *x = (const int64_t *)pool->x + row / pool->out[0] * pixels * channels;
        int64_t *y = (int64_t *)pool->y + row * pool->out[1] * channels;
        for (int64_t i = 0; i < pool->out[1] * channels; i++)
            y[i] =
                average_window(pool, x + i % channels, channels, row % pool->out[0], i / channels);
    }
}

static cpu_pool_fn *avg_pool_of(int dtype, bool channels_last)
{
    if (dtype == TERN_I64)
        return channels_last ? average_rows_i64 : average_planes_i64;
    return dtype == TERN_F64 ? CPU_ISA_PICK(cpu_avg_pool_f64) : CPU_ISA_PICK(cpu_avg_pool_f32);
}

/* ---- a gradient whose memory order is not that of the index ---------------------------------- */

typedef struct reorder {
    const tern_view *from;
    char *to;
    bool channels_last; /* what `to` becomes */
} reorder;

static void reorder_images(void *context, int64_t begin, int64_t end)
{
    const reorder *r = context;
    const tern_view *v = r->from;
    const int64_t size = cpu_dtype_size(v->dtype), pixels = v->shape[2] * v->shape[3];
    const int64_t rows = r->channels_last ? v->shape[1] : pixels;
    const int64_t columns = r->channels_last ? pixels : v->shape[1];
    for (int64_t n = begin; n < end; n++) {
        const char *from = (const char *)v->data + n * rows * columns * size;
        char *to = r->to + n * rows * columns * size;
        cpu_transpose(to, rows * size, from, columns * size, rows, columns, size);
    }
}

/* v's elements in channels_last or row-major order: its own memory, or scratch. NULL: no
 * scratch. */
static void *ordered(const tern_call *call, const tern_view *v, bool channels_last)
{
    if (is_channels_last(v) == channels_last)
        return v->data;
    reorder r = { .from = v, .channels_last = channels_last };
    const int64_t bytes = v->numel * cpu_dtype_size(v->dtype);
    r.to = call->host->scratch(call, bytes);
    if (r.to != NULL)
        cpu_parallel(cpu_threads(call, 4 * bytes, 0), v->shape[0], 1, reorder_images, &r);
    return r.to;
}

/* ---- the kernels ----------------------------------------------------------------------------- */

/* x -> y, index */
tern_status_t cpu_max_pool2d(const tern_call *call)
{
    const tern_view *x = call->in[0], *y = call->out[0], *index = call->out[1];
    if (y->numel == 0)
        return TERN_OK;
    cpu_pool pool = describe(call, x, y);
    pool.index = index->data;
    pool.narrow_index = index->dtype == TERN_U8;
    return run_pool(call, &pool, x, y, max_pool_of(x->dtype), false);
}

/* gradient of y, index -> gradient of x */
tern_status_t cpu_max_pool2d_grad(const tern_call *call)
{
    const tern_view *index = call->in[1], *x = call->out[0];
    tern_view y = *call->in[0];
    if (x->numel == 0)
        return TERN_OK;
    cpu_pool pool = describe(call, x, &y);
    y.data = ordered(call, call->in[0], pool.channels_last);
    pool.index = ordered(call, index, pool.channels_last);
    if (y.data == NULL || pool.index == NULL)
        return TERN_ERR_OOM;
    pool.y = y.data;
    pool.narrow_index = index->dtype == TERN_U8;
    return run_pool(call, &pool, x, &y,
                    x->dtype == TERN_F64 ? CPU_ISA_PICK(cpu_max_pool_grad_f64)
                                         : CPU_ISA_PICK(cpu_max_pool_grad_f32),
                    true);
}

/* x -> y */
tern_status_t cpu_avg_pool2d(const tern_call *call)
{
    const tern_view *x = call->in[0], *y = call->out[0];
    if (y->numel == 0)
        return TERN_OK;
    cpu_pool pool = describe(call, x, y);
    return run_pool(call, &pool, x, y, avg_pool_of(x->dtype, pool.channels_last), false);
}

/* gradient of y -> gradient of x */
tern_status_t cpu_avg_pool2d_grad(const tern_call *call)
{
    const tern_view *x = call->out[0];
    tern_view y = *call->in[0];
    if (x->numel == 0)
        return TERN_OK;
    cpu_pool pool = describe(call, x, &y);
    pool.y = y.data = ordered(call, call->in[0], pool.channels_last);
    if (y.data == NULL)
        return TERN_ERR_OOM;
    return run_pool(call, &pool, x, &y,
                    x->dtype == TERN_F64 ? CPU_ISA_PICK(cpu_avg_pool_grad_f64)
                                         : CPU_ISA_PICK(cpu_avg_pool_grad_f32),
                    true);
}
