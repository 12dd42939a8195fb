/* cumsum, cumprod and linear_scan along one dimension of a row-major tensor.
 *
 * Blocks are widened to f64 (or are i64), scanned, and narrowed. A row is cut into chunks of fixed
 * length: each chunk is also scanned from nothing, and the next chunk starts from what the chunks before
 * it make together. So a thread that has the whole row and threads that share it out make the same
 * bits. Rows of several columns (dimensions behind the scanned one) go side by side. */
#include <math.h>

#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

enum { CHUNK = 1 << 14 };

typedef enum scan_kind { SCAN_SUM, SCAN_PRODUCT, SCAN_LINEAR } scan_kind;

/* y -> slope y + shift: what some elements do to the running value. */
typedef struct part {
    double slope, shift;
    uint64_t whole; /* of integers */
} part;

typedef struct scan {
    scan_kind kind;
    bool whole;   /* i64, else floats */
    bool reverse; /* from the last element on */
    int dtype;
    int64_t size, outer, n, inner;
    const char *x, *factor; /* factor: linear_scan only */
    char *out;
    cpu_convert_fn widen, narrow;
    int64_t chunks; /* of a row */
    part *parts;    /* scratch: of each row's chunks; NULL: a thread has whole rows */
} scan;

typedef union values {
    double f[CPU_BLOCK];
    uint64_t i[CPU_BLOCK];
} values;

/* ---- steps ----------------------------------------------------------------------------------- */

static part nothing(void)
{
    return (part){ 1, 0, 0 };
}

/* First one, then the other. */
static part then(const scan *s, part one, part other)
{
    if (s->kind == SCAN_SUM)
        return (part){ 1, one.shift + other.shift, one.whole + other.whole };
    if (s->kind == SCAN_PRODUCT)
        return (part){ one.slope * other.slope, 0, (one.whole + 1) * (other.whole + 1) - 1 };
    return (part){ one.slope * other.slope, other.slope * one.shift + other.shift, 0 };
}

/* Scans n elements in place from element `at` on in steps of `step`, going on from *running; *own is the
 * same from nothing. */
static void scan_floats(const scan *s, double *x, const double *factor, int64_t at, int64_t step,
                        int64_t n, part *running, part *own)
{
    double all = s->kind == SCAN_PRODUCT ? running->slope : running->shift;
    double slope = own->slope, shift = own->shift;
    if (s->kind == SCAN_SUM) {
        for (; n > 0; n--, at += step) {
            shift += x[at];
            x[at] = all += x[at];
        }
    } else if (s->kind == SCAN_PRODUCT) {
        for (; n > 0; n--, at += step) {
            slope *= x[at];
            x[at] = all *= x[at];
        }
    } else {
        for (; n > 0; n--, at += step) {
            slope *= factor[at];
            shift = shift * factor[at] + x[at];
            x[at] = all = all * factor[at] + x[at];
        }
    }
    *own = (part){ slope, shift, 0 };
    *running = s->kind == SCAN_PRODUCT ? (part){ all, 0, 0 } : (part){ 1, all, 0 };
}

/* Integers wrap; of a product `whole` holds one less, so that nothing is 0 for both. */
static void scan_integers(const scan *s, uint64_t *x, int64_t at, int64_t step, int64_t n,
                          part *running, part *own)
{
    const bool product = s->kind == SCAN_PRODUCT;
    uint64_t all = running->whole + product, alone = own->whole + product;
    for (; n > 0; n--, at += step) {
        alone = product ? alone * x[at] : alone + x[at];
        all = product ? all * x[at] : all + x[at];
        x[at] = all;
    }
    own->whole = alone - product;
    running->whole = all - product;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The elements begin .. end of a row, counted in the order of the scan. store: results are wanted. */
static void run_elements(const scan *s, int64_t row, int64_t begin, int64_t end, part *running,
                         part *own, bool store)
{
    values x, factor;
    while (begin < end) {
        const int64_t n = end - begin < CPU_BLOCK ? end - begin : CPU_BLOCK;
        const int64_t first = s->reverse ? s->n - begin - n : begin;
        const int64_t place = (row * s->n + first) * s->size;
        const int64_t at = s->reverse ? n - 1 : 0, step = s->reverse ? -1 : 1;
        s->widen(&x, s->x + place, n);
        if (s->factor)
            s->widen(&factor, s->factor + place, n);
        if (s->whole)
            scan_integers(s, x.i, at, step, n, running, own);
        else
            scan_floats(s, x.f, factor.f, at, step, n, running, own);
        if (store)
            s->narrow(s->out + place, &x, n);
        begin += n;
    }
}

static int64_t chunk_end(const scan *s, int64_t chunk)
{
    return (chunk + 1) * CHUNK < s->n ? (chunk + 1) * CHUNK : s->n;
}

/* ---- four chunks side by side ------------------------------------------------------------------ */

/* Each step of a scan waits for the one before, but chunks do not wait for each other. */
#define LANES(T, type)                                                                      \
    static inline __attribute__((always_inline)) void lanes_##type(                         \
        char *const *x_data, char *const *out_data, double *value, int64_t n, int64_t step, \
        bool product, bool store)                                                           \
    {                                                                                       \
        const T *x[4];                                                                      \
        T *out[4];                                                                          \
        double all[4];                                                                      \
        for (int j = 0; j < 4; j++) {                                                       \
            x[j] = (const T *)(void *)x_data[j];                                            \
            out[j] = (T *)(void *)out_data[j];                                              \
            all[j] = value[j];                                                              \
        }                                                                                   \
        for (int64_t i = 0, at = 0; i < n; i++, at += step) {                               \
            for (int j = 0; j < 4; j++) {                                                   \
                all[j] = product ? all[j] * (double)x[j][at] : all[j] + (double)x[j][at];   \
                if (store)                                                                  \
                    out[j][at] = (T)all[j];                                                 \
            }                                                                               \
        }                                                                                   \
        memcpy(value, all, sizeof all);                                                     \
    }                                                                                       \
    static void four_##type(char *const *x, char *const *out, double *value, int64_t n,     \
                            int64_t step, bool product, bool store)                         \
    {                                                                                       \
        if (product && store)                                                               \
            lanes_##type(x, out, value, n, step, true, true);                               \
        else if (product)                                                                   \
            lanes_##type(x, out, value, n, step, true, false);                              \
        else if (store)                                                                     \
            lanes_##type(x, out, value, n, step, false, true);                              \
        else                                                                                \
            lanes_##type(x, out, value, n, step, false, false);                             \
    }
LANES(float, f32)
LANES(double, f64)

static int64_t chunk_length(const scan *s, int64_t chunk)
{
    return chunk_end(s, chunk) - chunk * CHUNK;
}

/* Scans chunks unit .. unit + 3 of all rows' chunks, going on from `last`, which become the last ones.
 * False: they are not alike, or no loop is made for them. */
static bool run_four(const scan *s, int64_t unit, double *last, bool store)
{
    char *x[4], *out[4];
    const int64_t n = chunk_length(s, unit % s->chunks);
    if (s->kind == SCAN_LINEAR || (s->dtype != TERN_F32 && s->dtype != TERN_F64))
        return false;
    for (int j = 0; j < 4; j++) {
        const int64_t row = (unit + j) / s->chunks, chunk = (unit + j) % s->chunks;
        const int64_t first = s->reverse ? s->n - 1 - chunk * CHUNK : chunk * CHUNK;
        if (chunk_length(s, chunk) != n)
            return false;
        x[j] = (char *)(uintptr_t)s->x + (row * s->n + first) * s->size;
        out[j] = s->out + (row * s->n + first) * s->size;
    }
    const int64_t step = s->reverse ? -1 : 1;
    const bool product = s->kind == SCAN_PRODUCT;
    if (s->dtype == TERN_F32)
        four_f32(x, out, last, n, step, product, store);
    else
        four_f64(x, out, last, n, step, product, store);
    return true;
}

static inline double value_of(const scan *s, const part *p)
{
    return s->kind == SCAN_PRODUCT ? p->slope : p->shift;
}

static inline part part_of(const scan *s, double value)
{
    return s->kind == SCAN_PRODUCT ? (part){ value, 0, 0 } : (part){ 1, value, 0 };
}

/* The parts of chunks unit .. unit + 3. */
static bool parts_of_four(const scan *s, int64_t unit, part *out_parts)
{
    double last[4];
    for (int j = 0; j < 4; j++) {
        const part none = nothing();
        last[j] = value_of(s, &none);
    }
    if (!run_four(s, unit, last, false))
        return false;
    for (int j = 0; j < 4; j++)
        out_parts[j] = part_of(s, last[j]);
    return true;
}

/* ---- rows and chunks --------------------------------------------------------------------------- */

/* What is after chunk `unit` when `before` is before it, and alone it makes `own`. Products that overflow
 * (or end at 0) alone may not do so from there, as after a 0: then the chunk is run. */
static part after_chunk(const scan *s, int64_t unit, part before, part own)
{
    const part both = then(s, before, own);
    const double from = value_of(s, &before), value = value_of(s, &both);
    const bool vanished = s->kind == SCAN_PRODUCT && value == 0 && from != 0;
    const bool stays = isnan(from) || (isinf(from) && value == from);
    if (s->whole || stays || (isfinite(value) && !vanished))
        return both;
    part running = before, alone = nothing();
    const int64_t chunk = unit % s->chunks;
    run_elements(s, unit / s->chunks, chunk * CHUNK, chunk_end(s, chunk), &running, &alone, false);
    return running;
}

/* Four chunks of a row, the first of which comes after *before. */
static bool run_next_four(const scan *s, int64_t unit, part *before)
{
    part own[4];
    double last[4];
    if (!parts_of_four(s, unit, own))
        return false;
    for (int j = 0; j < 4; j++) {
        last[j] = value_of(s, before);
        *before = after_chunk(s, unit + j, *before, own[j]);
    }
    return run_four(s, unit, last, true);
}

static void run_row(const scan *s, int64_t row)
{
    part before = nothing();
    for (int64_t chunk = 0; chunk < s->chunks;) {
        if (chunk + 4 <= s->chunks && run_next_four(s, row * s->chunks + chunk, &before)) {
            chunk += 4;
            continue;
        }
        part running = before, own = nothing();
        run_elements(s, row, chunk * CHUNK, chunk_end(s, chunk), &running, &own, true);
        before = after_chunk(s, row * s->chunks + chunk, before, own);
        chunk++;
    }
}

static void run_rows(void *context, int64_t begin, int64_t end)
{
    const scan *s = context;
    const part none = nothing();
    while (begin < end) {
        const double first = value_of(s, &none);
        double last[4] = { first, first, first, first };
        if (s->chunks == 1 && begin + 4 <= end && run_four(s, begin, last, true))
            begin += 4;
        else
            run_row(s, begin++);
    }
}

static void run_parts(void *context, int64_t begin, int64_t end)
{
    const scan *s = context;
    while (begin < end) {
        if (begin + 4 <= end && parts_of_four(s, begin, s->parts + begin)) {
            begin += 4;
            continue;
        }
        const int64_t chunk = begin % s->chunks;
        part running = nothing(), own = nothing();
        run_elements(s, begin / s->chunks, chunk * CHUNK, chunk_end(s, chunk), &running, &own,
                     false);
        s->parts[begin++] = own;
    }
}

static void run_chunks(void *context, int64_t begin, int64_t end)
{
    const scan *s = context;
    while (begin < end) {
        double last[4];
        for (int j = 0; j < 4 && begin + j < end; j++)
            last[j] = value_of(s, &s->parts[begin + j]);
        if (begin + 4 <= end && run_four(s, begin, last, true)) {
            begin += 4;
            continue;
        }
        const int64_t chunk = begin % s->chunks;
        part running = s->parts[begin], own = nothing();
        run_elements(s, begin / s->chunks, chunk * CHUNK, chunk_end(s, chunk), &running, &own,
                     true);
        begin++;
    }
}

/* Chunks are shared out: first each one alone, then each from what is before it. */
static tern_status_t share_chunks(scan *s, const tern_call *call, int threads)
{
    const int64_t count = s->outer * s->chunks;
    s->parts = call->host->scratch(call, count * (int64_t)sizeof(part));
    if (!s->parts)
        return TERN_ERR_OOM;
    cpu_parallel(threads, count, 4, run_parts, s);
    for (int64_t i = 0; i < count; i += s->chunks) {
        part before = nothing();
        for (int64_t chunk = 0; chunk < s->chunks; chunk++) {
            const part own = s->parts[i + chunk];
            s->parts[i + chunk] = before;
            before = after_chunk(s, i + chunk, before, own);
        }
    }
    cpu_parallel(threads, count, 4, run_chunks, s);
    return TERN_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

enum { COLUMNS = 128 };

/* One step of `width` columns; state: running values. */
static void step_columns(const scan *s, values *state, values *x, const double *factor,
                         int64_t width)
{
    double *all = state->f;
    uint64_t *whole = state->i;
    if (s->whole && s->kind == SCAN_SUM) {
        for (int64_t j = 0; j < width; j++)
            x->i[j] = whole[j] += x->i[j];
    } else if (s->whole) {
        for (int64_t j = 0; j < width; j++)
            x->i[j] = whole[j] *= x->i[j];
    } else if (s->kind == SCAN_SUM) {
        for (int64_t j = 0; j < width; j++)
            x->f[j] = all[j] += x->f[j];
    } else if (s->kind == SCAN_PRODUCT) {
        for (int64_t j = 0; j < width; j++)
            x->f[j] = all[j] *= x->f[j];
    } else {
        for (int64_t j = 0; j < width; j++)
            x->f[j] = all[j] = all[j] * factor[j] + x->f[j];
    }
}

static void run_columns(void *context, int64_t begin, int64_t end)
{
    const scan *s = context;
    const int64_t per_block = (s->inner + COLUMNS - 1) / COLUMNS;
    values state, x, factor;
    for (; begin < end; begin++) {
        const int64_t first = begin % per_block * COLUMNS;
        const int64_t width = s->inner - first < COLUMNS ? s->inner - first : COLUMNS;
        for (int64_t j = 0; j < COLUMNS; j++) {
            if (s->whole)
                state.i[j] = s->kind == SCAN_PRODUCT;
            else
                state.f[j] = s->kind == SCAN_PRODUCT;
        }
        for (int64_t k = 0; k < s->n; k++) {
            const int64_t t = s->reverse ? s->n - 1 - k : k;
            const int64_t place = ((begin / per_block * s->n + t) * s->inner + first) * s->size;
            s->widen(&x, s->x + place, width);
            if (s->factor)
                s->widen(&factor, s->factor + place, width);
            step_columns(s, &state, &x, factor.f, width);
            s->narrow(s->out + place, &x, width);
        }
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

static tern_status_t run(const tern_call *call, scan_kind kind)
{
    const tern_view *x = call->in[0];
    const tern_attr_scan *attr = call->attr;
    if (x->numel == 0)
        return TERN_OK;
    scan s = { .kind = kind,
               .whole = x->dtype == TERN_I64,
               .reverse = attr->reverse != 0,
               .dtype = x->dtype,
               .size = cpu_dtype_size(x->dtype),
               .n = x->ndim > 0 ? x->shape[attr->dim] : 1,
               .inner = 1,
               .x = x->data,
               .factor = kind == SCAN_LINEAR ? call->in[1]->data : NULL,
               .out = call->out[0]->data };
    for (int d = attr->dim + 1; d < x->ndim; d++)
        s.inner *= x->shape[d];
    s.outer = x->numel / (s.n * s.inner);
    s.chunks = (s.n + CHUNK - 1) / CHUNK;
    s.widen = cpu_converter(s.whole ? TERN_I64 : TERN_F64, s.dtype);
    s.narrow = cpu_converter(s.dtype, s.whole ? TERN_I64 : TERN_F64);
    const int64_t bytes = x->numel * s.size * (call->n_in + 1), flops = x->numel * 8;
    const int threads = cpu_threads(call, bytes, flops);
    if (s.inner > 1)
        cpu_rows_run(call, bytes, flops, s.outer * ((s.inner + COLUMNS - 1) / COLUMNS),
                     cpu_rows_grain(s.n * COLUMNS), run_columns, &s);
    else if (s.chunks > 1 && s.outer < threads)
        return share_chunks(&s, call, threads);
    else
        cpu_rows_run(call, bytes, flops, s.outer, cpu_rows_grain(s.n), run_rows, &s);
    return TERN_OK;
}

tern_status_t cpu_cumsum(const tern_call *call)
{
    return run(call, SCAN_SUM);
}

tern_status_t cpu_cumprod(const tern_call *call)
{
    return run(call, SCAN_PRODUCT);
}

tern_status_t cpu_linear_scan(const tern_call *call)
{
    return run(call, SCAN_LINEAR);
}
