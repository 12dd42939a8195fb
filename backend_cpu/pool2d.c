/* Pooling: half types become f32 image by image, everything else runs as it is. */
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

/* Half types: `wide` has room for all of x and y in f32, one after the other. */
static float *widened(const tern_call *call, cpu_pool *pool, const tern_view *x, const tern_view *y)
{
    float *wide = call->host->scratch(call, (x->numel + y->numel) * (int64_t)sizeof *wide);
    pool->x = wide;
    pool->y = wide + x->numel;
    return wide;
}

static tern_status_t run_pool(const tern_call *call, cpu_pool *pool, const tern_view *x,
                              const tern_view *y, cpu_pool_fn *run, bool backward)
{
    const tern_view *from = backward ? y : x, *to = backward ? x : y;
    const bool half = x->dtype == TERN_F16 || x->dtype == TERN_BF16;
    if (half) {
        if (widened(call, pool, x, y) == NULL)
            return TERN_ERR_OOM;
        cpu_to_f32(backward ? pool->y : pool->x, from->data, from->dtype, from->numel);
    }
    const int64_t cells = pool->attr->kernel[0] * pool->attr->kernel[1];
    const int64_t bytes = (x->numel + y->numel) * cpu_dtype_size(x->dtype);
    pool_run r = { pool, run };
    cpu_parallel(cpu_threads(call, bytes, y->numel * cells), units_of(pool, x, backward), 1,
                 run_units, &r);
    if (half)
        cpu_from_f32(to->data, to->dtype, backward ? pool->x : pool->y, to->numel);
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
    return run_pool(call, &pool, x, y,
                    x->dtype == TERN_F64 ? CPU_ISA_PICK(cpu_avg_pool_f64)
                                         : CPU_ISA_PICK(cpu_avg_pool_f32),
                    false);
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
