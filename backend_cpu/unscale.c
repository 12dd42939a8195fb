/* The gradient scaler's kernels: unscale (gradient, 1 / scale?, found, cause?) and scale_update (scale,
 * tracker, found?, skipped?, cause?, log?). Half types are computed in f32 in blocks. */
#include "backend_cpu/unscale.h"

#include <math.h>

#include "backend_cpu/kernels.h"
#include "backend_cpu/strided.h"
#include "tern/op_attr.h"

typedef struct job {
    cpu_unscale_fn unscale;
    cpu_convert_fn widen, narrow; /* half types */
    double factor;
    float *found;
    int32_t *cause; /* NULL: not given */
    int32_t index;
    int64_t size;
    cpu_walk walk;
} job;

typedef struct block {
    _Alignas(64) char bytes[CPU_BLOCK * 8];
} block;

static bool run_block(const job *j, char *at, int64_t n)
{
    block wide;
    if (j->widen == NULL)
        return j->unscale(at, n, j->factor);
    j->widen(wide.bytes, at, n);
    const bool bad = j->unscale(wide.bytes, n, j->factor);
    if (j->factor != 1)
        j->narrow(at, wide.bytes, n);
    return bad;
}

/* Several threads may find something: all write the same bits. */
static void report(const job *j, bool bad)
{
    float one = 1;
    if (bad)
        __atomic_store(j->found, &one, __ATOMIC_RELAXED);
    if (bad && j->cause != NULL && __atomic_load_n(j->cause, __ATOMIC_RELAXED) > j->index)
        __atomic_store_n(j->cause, j->index, __ATOMIC_RELAXED);
}

static void run_linear(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const int64_t most = j->widen != NULL ? CPU_BLOCK : end - begin;
    bool bad = false;
    while (begin < end) {
        const int64_t n = end - begin < most ? end - begin : most;
        bad |= run_block(j, j->walk.data[0] + begin * j->size, n);
        begin += n;
    }
    report(j, bad);
}

static void run_packed(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    block packed;
    bool bad = false;
    cpu_cursor cursor;
    cpu_cursor_init(&cursor, &j->walk, begin);
    for (; begin < end; begin += CPU_BLOCK) {
        const int64_t n = end - begin < CPU_BLOCK ? end - begin : CPU_BLOCK;
        char *at = cpu_pack(&cursor, 0, j->size, n, packed.bytes);
        bad |= run_block(j, at, n);
        if (at == packed.bytes)
            cpu_unpack(&cursor, 0, j->size, n, at);
        cpu_cursor_advance(&cursor, n);
    }
    report(j, bad);
}

tern_status_t cpu_unscale(const tern_call *call)
{
    const tern_view *g = call->in[0];
    const bool half = g->dtype == TERN_F16 || g->dtype == TERN_BF16;
    const tern_attr_unscale *attr = call->attr;
    job j = { .size = cpu_dtype_size(g->dtype),
              .found = call->in[2]->data,
              .cause = call->in[3] != NULL ? call->in[3]->data : NULL,
              .index = (int32_t)attr->index };
    if (g->numel == 0)
        return TERN_OK;
    j.factor = call->in[1] != NULL ? (double)*(const float *)call->in[1]->data : 1;
    j.unscale =
        CPU_ISA_PICK(cpu_unscales)[g->dtype == TERN_F64 ? CPU_UNSCALE_F64 : CPU_UNSCALE_F32];
    j.widen = half ? cpu_converter(TERN_F32, g->dtype) : NULL;
    j.narrow = half ? cpu_converter(g->dtype, TERN_F32) : NULL;
    j.walk.data[0] = g->data;
    const bool linear = (g->flags & TERN_VIEW_DENSE) != 0;
    if (!linear)
        cpu_walk_init(&j.walk, 1, call->in);
    const int threads = cpu_threads(call, 2 * g->numel * j.size, g->numel);
    cpu_parallel(threads, g->numel, CPU_BLOCK, linear ? run_linear : run_packed, &j);
    return TERN_OK;
}

static void move_scale(const tern_attr_scale *attr, float *scale, int32_t *tracker, bool found)
{
    const double now = (double)*scale;
    if (found) {
        *scale = (float)(now * attr->backoff);
        *tracker = 0;
    } else if (*tracker + 1 == attr->interval) {
        const float grown = (float)(now * attr->growth);
        *scale = isfinite(grown) ? grown : *scale;
        *tracker = 0;
    } else {
        ++*tracker;
    }
}

static void write_log(float *log, int64_t numel, int64_t slot, float skipped, float scale,
                      float cause)
{
    log[3 * slot] = skipped;
    log[3 * slot + 1] = scale;
    log[3 * slot + 2] = cause;
    log[numel - 2] += skipped;
    if (skipped > 0)
        log[numel - 1] = cause;
}

tern_status_t cpu_scale_update(const tern_call *call)
{
    const tern_attr_scale *attr = call->attr;
    const tern_view *const *in = call->in;
    float *scale = in[0]->data;
    if (!attr->keep)
        move_scale(attr, scale, in[1]->data, *(const float *)in[2]->data != 0);
    if (in[5] != NULL)
        write_log(in[5]->data, in[5]->numel, attr->slot,
                  in[3] != NULL ? *(const float *)in[3]->data : 0, *scale,
                  in[4] != NULL ? (float)*(const int32_t *)in[4]->data : -1);
    return TERN_OK;
}
