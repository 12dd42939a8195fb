/* sum, mean, var, amax, max, argmax over any dims of any strides.
 *
 * Elements are f32 (half types widened to it), f64 or i64 (shorter integers and bool widened); sums
 * are kept in f64 or i64. The kept dimensions are cut into blocks, the reduced ones into chunks of
 * fixed length; a unit is one block and one chunk. Units leave cells, and the cells of a block are
 * combined in the order of chunks: neither threads nor layouts that are walked alike change bits.
 *
 * A block is one output when reduced elements are walked as rows, and up to CPU_BLOCK neighbouring
 * outputs when it is the kept dimension that has no gaps (columns). */
#include "backend_cpu/reduce.h"

#include <math.h>

#include "backend_cpu/kernels.h"
#include "backend_cpu/strided.h"
#include "tern/op_attr.h"

/* Elements per chunk of rows; a quarter of a megabyte of f32 stays in the second level cache for
 * the second pass of var. */
enum { CHUNK = 1 << 16 };

typedef enum kind { KIND_SUM, KIND_MEAN, KIND_VAR, KIND_AMAX, KIND_PLACE } kind;

typedef union number {
    double f64;
    int64_t i64;
    float f32; /* greatest of f32 */
} number;

typedef struct plan {
    kind kind;
    const cpu_reduce_loops *loops;
    int type; /* dtype that the loops see: TERN_F32, TERN_F64, TERN_I64 */
    int acc;  /* dtype of sums */
    int64_t type_size;
    cpu_convert_fn widen; /* NULL: as they lie */
    int64_t size;         /* of an input element */
    cpu_walk kept;        /* 0: input, 1: out[0], 2: out[1] or out[0] */
    cpu_walk reduced;     /* 0: input */
    int64_t kept_count, reduced_count;
    bool columns;
    int64_t block, blocks_per_row, blocks; /* outputs per block; blocks along kept dim 0; in all */
    int64_t chunk, chunks;                 /* reduced elements per chunk; chunks */
    char *cells;                           /* scratch: chunks > 1 */
    double correction;
    int out_dtype[2];
    bool has_value, has_place;
} plan;

/* What a unit leaves: first block of numbers (sum or greatest), second (squares or places). */
typedef struct cells {
    number *first;
    number *second;
} cells;

static cells cells_at(char *memory, int64_t index, int64_t block)
{
    number *first = (number *)(void *)memory + index * 2 * block;
    return (cells){ first, first + block };
}

/* ---- units ------------------------------------------------------------------------------------ */

typedef struct piece {
    const void *x;
    int64_t n, stride; /* columns: n rows, `stride` bytes apart */
    int64_t at;        /* reduced index of the first */
} piece;

typedef void (*piece_fn)(const plan *p, const piece *x, int64_t columns, cells c,
                         const double *means);

static void sum_piece(const plan *p, const piece *x, int64_t columns, cells c, const double *means)
{
    (void)means;
    if (p->columns)
        p->loops->sum_rows(c.first, x->x, columns, x->n, x->stride);
    else
        p->loops->sum(c.first, x->x, x->n);
}

static void spread_piece(const plan *p, const piece *x, int64_t columns, cells c,
                         const double *means)
{
    if (p->columns)
        p->loops->spread_rows(&c.second->f64, x->x, columns, x->n, x->stride, means);
    else
        p->loops->spread(&c.second->f64, x->x, x->n, *means);
}

/* The greatest of a block lie one behind the other in T. */
static void amax_piece(const plan *p, const piece *x, int64_t columns, cells c, const double *means)
{
    (void)means;
    if (c.second->i64 < 0)
        memcpy(c.first, x->x, (size_t)(columns * p->type_size));
    c.second->i64 = 0;
    if (p->columns)
        p->loops->amax_rows(c.first, x->x, columns, x->n, x->stride);
    else
        p->loops->amax(c.first, x->x, x->n);
}

static void place_piece(const plan *p, const piece *x, int64_t columns, cells c,
                        const double *means)
{
    (void)means;
    if (c.second->i64 < 0) {
        memcpy(c.first, x->x, (size_t)(columns * p->type_size));
        for (int64_t i = 0; i < columns; i++)
            c.second[i].i64 = x->at;
    }
    if (p->columns) {
        p->loops->argmax_rows(c.first, &c.second->i64, x->x, columns, x->n, x->stride, x->at);
        return;
    }
    number before = *c.first, greatest = before;
    p->loops->amax(&greatest, x->x, x->n);
    if (p->loops->find(&greatest, &before, 1) == 0)
        return; /* the one before is as great, and earlier */
    *c.first = greatest;
    c.second->i64 = x->at + p->loops->find(&greatest, x->x, x->n);
}

/* Buffers of one thread for elements that must be packed or widened. */
typedef struct buffers {
    _Alignas(64) char packed[CPU_BLOCK * 8];
    _Alignas(64) char wide[4 * CPU_BLOCK * 8];
} buffers;

/* Takes the next elements of a chunk, `left` of them, as they lie or by way of the buffers. */
static piece next_rows(const plan *p, const cpu_cursor *at, int64_t left, buffers *b)
{
    const int64_t row = p->reduced.shape[0] - at->at[0];
    piece x = { at->data[0], row < left ? row : left, p->size, 0 };
    if (p->reduced.stride[0][0] != p->size && x.n > 1) {
        x.n = left < CPU_BLOCK ? left : CPU_BLOCK;
        x.x = cpu_pack(at, 0, p->size, x.n, b->packed);
    }
    if (p->widen) {
        x.n = x.n < CPU_BLOCK ? x.n : CPU_BLOCK;
        p->widen(b->wide, x.x, x.n);
        x.x = b->wide;
    }
    return x;
}

static piece next_columns(const plan *p, const cpu_cursor *at, int64_t left, int64_t columns,
                          buffers *b)
{
    const int64_t row = p->reduced.shape[0] - at->at[0];
    piece x = { at->data[0], row < left ? row : left, p->reduced.stride[0][0], 0 };
    if (p->widen) {
        x.n = x.n < 4 ? x.n : 4;
        for (int64_t r = 0; r < x.n; r++)
            p->widen(b->wide + r * CPU_BLOCK * p->type_size, at->data[0] + r * x.stride, columns);
        x.x = b->wide;
        x.stride = CPU_BLOCK * p->type_size;
    }
    return x;
}

/* Reduced elements begin .. end of a block whose first input element is `offset` bytes in. */
static void run_span(const plan *p, piece_fn run, int64_t offset, int64_t columns, int64_t begin,
                     int64_t end, cells c, const double *means)
{
    buffers b;
    cpu_cursor at;
    cpu_cursor_init(&at, &p->reduced, begin);
    at.data[0] += offset;
    while (begin < end) {
        piece x = p->columns ? next_columns(p, &at, end - begin, columns, &b)
                             : next_rows(p, &at, end - begin, &b);
        x.at = begin;
        run(p, &x, columns, c, means);
        cpu_cursor_advance(&at, x.n);
        begin += x.n;
    }
}

static void run_unit(const plan *p, int64_t offset, int64_t columns, int64_t chunk, cells c)
{
    const int64_t begin = chunk * p->chunk;
    const int64_t end = begin + p->chunk < p->reduced_count ? begin + p->chunk : p->reduced_count;
    memset(c.first, 0, (size_t)columns * sizeof *c.first);
    memset(c.second, 0, (size_t)columns * sizeof *c.second);
    if (p->kind == KIND_AMAX || p->kind == KIND_PLACE) {
        c.second->i64 = -1; /* nothing seen */
        run_span(p, p->kind == KIND_AMAX ? amax_piece : place_piece, offset, columns, begin, end, c,
                 NULL);
        return;
    }
    run_span(p, sum_piece, offset, columns, begin, end, c, NULL);
    if (p->kind != KIND_VAR)
        return;
    double means[CPU_BLOCK];
    for (int64_t i = 0; i < columns; i++)
        means[i] = c.first[i].f64 / (double)(end - begin);
    run_span(p, spread_piece, offset, columns, begin, end, c, means);
}

/* ---- combining and storing -------------------------------------------------------------------- */

/* Numbers of the two parts that stand before and in a chunk. Chan, Golub, LeVeque 1979. */
static void combine_spread(const plan *p, cells total, cells part, int64_t columns, int64_t chunk)
{
    const double before = (double)(chunk * p->chunk);
    const int64_t rest = p->reduced_count - chunk * p->chunk;
    const double count = (double)(rest < p->chunk ? rest : p->chunk);
    for (int64_t i = 0; i < columns; i++) {
        const double apart = part.first[i].f64 / count - total.first[i].f64 / before;
        total.second[i].f64 +=
            part.second[i].f64 + apart * apart * (before * count / (before + count));
        total.first[i].f64 += part.first[i].f64;
    }
}

static void combine(const plan *p, cells total, cells part, int64_t columns, int64_t chunk)
{
    if (p->kind == KIND_VAR) {
        combine_spread(p, total, part, columns, chunk);
    } else if (p->kind == KIND_AMAX) {
        p->loops->amax_rows(total.first, part.first, columns, 1, 0);
    } else if (p->kind == KIND_PLACE) {
        const char *from = (const char *)part.first;
        char *to = (char *)total.first;
        for (int64_t i = 0; i < columns; i++, from += p->type_size, to += p->type_size)
            p->loops->argmax_rows(to, &total.second[i].i64, from, 1, 1, 0, part.second[i].i64);
    } else if (p->acc == TERN_I64) {
        for (int64_t i = 0; i < columns; i++)
            total.first[i].i64 =
                (int64_t)((uint64_t)total.first[i].i64 + (uint64_t)part.first[i].i64);
    } else {
        for (int64_t i = 0; i < columns; i++)
            total.first[i].f64 += part.first[i].f64;
    }
}

static void store(char *out, int64_t stride, int dtype, const void *values, int from,
                  int64_t columns)
{
    const int64_t size = cpu_dtype_size(dtype);
    _Alignas(64) char converted[CPU_BLOCK * 8];
    if (stride == size || columns == 1) {
        cpu_converter(dtype, from)(out, values, columns);
        return;
    }
    cpu_converter(dtype, from)(converted, values, columns);
    for (int64_t i = 0; i < columns; i++)
        memcpy(out + i * stride, converted + i * size, (size_t)size);
}

static void finish(const plan *p, char *const *out, int64_t columns, cells c)
{
    const double n = (double)p->reduced_count;
    if (p->kind == KIND_MEAN || p->kind == KIND_VAR) {
        const double freedom = n - p->correction > 0 ? n - p->correction : 0;
        for (int64_t i = 0; i < columns; i++)
            c.first[i].f64 = p->kind == KIND_MEAN ? c.first[i].f64 / n : c.second[i].f64 / freedom;
    }
    const bool sums = p->kind != KIND_AMAX && p->kind != KIND_PLACE;
    const int place = p->has_value ? 1 : 0;
    if (p->has_value)
        store(out[0], p->kept.stride[1][0], p->out_dtype[0], c.first, sums ? p->acc : p->type,
              columns);
    if (p->has_place)
        store(out[place], p->kept.stride[1 + place][0], p->out_dtype[place], c.second, TERN_I64,
              columns);
}

/* ---- blocks ----------------------------------------------------------------------------------- */

typedef struct place {
    int64_t in; /* bytes from the first input element */
    char *out[2];
    int64_t columns;
} place;

static place find_block(const plan *p, int64_t block)
{
    const int64_t in_row = block % p->blocks_per_row * p->block;
    const int64_t index = block / p->blocks_per_row * p->kept.shape[0] + in_row;
    cpu_cursor at;
    cpu_cursor_init(&at, &p->kept, p->columns ? index : block);
    const int64_t left = p->kept.shape[0] - in_row;
    const int64_t columns = !p->columns ? 1 : left < p->block ? left : p->block;
    return (place){ at.data[0] - p->kept.data[0], { at.data[1], at.data[2] }, columns };
}

/* One chunk: blocks begin .. end from start to finish. */
static void run_blocks(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    number memory[2 * CPU_BLOCK];
    for (; begin < end; begin++) {
        const place at = find_block(p, begin);
        const cells c = cells_at((char *)memory, 0, p->block);
        run_unit(p, at.in, at.columns, 0, c);
        finish(p, at.out, at.columns, c);
    }
}

static void run_units(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    for (; begin < end; begin++) {
        const place at = find_block(p, begin / p->chunks);
        run_unit(p, at.in, at.columns, begin % p->chunks, cells_at(p->cells, begin, p->block));
    }
}

static void combine_blocks(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    for (; begin < end; begin++) {
        const place at = find_block(p, begin);
        const cells total = cells_at(p->cells, begin * p->chunks, p->block);
        for (int64_t chunk = 1; chunk < p->chunks; chunk++)
            combine(p, total, cells_at(p->cells, begin * p->chunks + chunk, p->block), at.columns,
                    chunk);
        finish(p, at.out, at.columns, total);
    }
}

/* ---- planning --------------------------------------------------------------------------------- */

static void plan_types(plan *p, int dtype)
{
    const bool half = dtype == TERN_F16 || dtype == TERN_BF16;
    p->type = dtype == TERN_F64 ? TERN_F64 : half || dtype == TERN_F32 ? TERN_F32 : TERN_I64;
    p->acc = p->type == TERN_I64 ? TERN_I64 : TERN_F64;
    p->type_size = cpu_dtype_size(p->type);
    p->size = cpu_dtype_size(dtype);
    p->widen = dtype == p->type ? NULL : cpu_converter(p->type, dtype);
    const int loops = p->type == TERN_F64   ? CPU_REDUCE_F64
                      : p->type == TERN_F32 ? CPU_REDUCE_F32
                                            : CPU_REDUCE_I64;
    p->loops = &CPU_ISA_PICK(cpu_reductions)[loops];
}

/* Out's strides spread over the input's dimensions (reduced ones: extent 1). */
static tern_view spread_out(const tern_view *in, const tern_view *out, uint32_t dims, bool keepdim)
{
    tern_view v = *in;
    int from = 0;
    v.data = out->data;
    v.dtype = out->dtype;
    v.numel = out->numel;
    for (int d = 0; d < in->ndim; d++) {
        const bool gone = (dims >> d & 1) != 0;
        v.shape[d] = gone ? 1 : in->shape[d];
        v.stride[d] = gone ? 0 : out->stride[from];
        from += !gone || keepdim;
    }
    return v;
}

static void plan_walks(plan *p, const tern_call *call, uint32_t dims, bool keepdim)
{
    const tern_view *in = call->in[0];
    const tern_view *last = call->out[call->n_out - 1];
    const tern_view first_out = spread_out(in, call->out[0], dims, keepdim);
    const tern_view last_out = spread_out(in, last, dims, keepdim);
    tern_view kept = *in, reduced = *in;
    p->kept_count = p->reduced_count = 1;
    for (int d = 0; d < in->ndim; d++) {
        const bool gone = (dims >> d & 1) != 0;
        kept.shape[d] = gone ? 1 : in->shape[d];
        reduced.shape[d] = gone ? in->shape[d] : 1;
        p->kept_count *= kept.shape[d];
        p->reduced_count *= reduced.shape[d];
    }
    kept.numel = p->kept_count;
    reduced.numel = p->reduced_count;
    const tern_view *const views[3] = { &kept, &first_out, &last_out };
    const tern_view *const reduced_views[1] = { &reduced };
    cpu_walk_init(&p->kept, 3, views);
    for (int d = 0; p->reduced_count == 0 && d < in->ndim; d++)
        reduced.shape[d] = 1; /* a place to start from, where no element is */
    cpu_walk_init(&p->reduced, 1, reduced_views);
}

static void plan_units(plan *p)
{
    const bool rows = p->reduced.stride[0][0] == p->size && p->reduced.shape[0] > 1;
    p->columns = !rows && p->kept.stride[0][0] == p->size && p->kept.shape[0] > 1;
    p->block = !p->columns ? 1 : p->kept.shape[0] < CPU_BLOCK ? p->kept.shape[0] : CPU_BLOCK;
    p->blocks_per_row = p->columns ? (p->kept.shape[0] + p->block - 1) / p->block : 1;
    p->blocks = p->columns ? p->kept_count / p->kept.shape[0] * p->blocks_per_row : p->kept_count;
    p->chunk = CHUNK / p->block;
    p->chunks = (p->reduced_count + p->chunk - 1) / p->chunk;
    if (p->chunks == 0)
        p->chunks = 1;
}

static tern_status_t run_plan(plan *p, const tern_call *call, uint32_t dims, bool keepdim)
{
    const tern_view *in = call->in[0];
    if (call->out[0]->numel == 0)
        return TERN_OK;
    plan_types(p, in->dtype);
    plan_walks(p, call, dims, keepdim);
    if (p->reduced_count == 0 && (p->kind == KIND_AMAX || p->kind == KIND_PLACE))
        return call->host->fail(TERN_ERR_SHAPE, "no elements to take the greatest of");
    plan_units(p);
    for (int i = 0; i < call->n_out; i++)
        p->out_dtype[i] = call->out[i]->dtype;
    const int threads = cpu_threads(call, in->numel * p->size, in->numel);
    if (p->chunks == 1) {
        cpu_parallel(threads, p->blocks, 1, run_blocks, p);
        return TERN_OK;
    }
    const int64_t units = p->blocks * p->chunks;
    p->cells = call->host->scratch(call, units * p->block * 2 * (int64_t)sizeof(number));
    if (!p->cells)
        return TERN_ERR_OOM;
    cpu_parallel(threads, units, 1, run_units, p);
    cpu_parallel(1, p->blocks, 1, combine_blocks, p);
    return TERN_OK;
}

/* ---- kernels ---------------------------------------------------------------------------------- */

/* All of a small contiguous f32 or f64 tensor to one number: what most losses end in. */
static bool run_small(const tern_call *call, bool mean)
{
    const tern_view *in = call->in[0], *out = call->out[0];
    if (out->numel != 1 || in->numel > CHUNK / 16 || out->dtype != in->dtype ||
        !cpu_is_contiguous(in) || (in->dtype != TERN_F32 && in->dtype != TERN_F64))
        return false;
    const bool f32 = in->dtype == TERN_F32;
    double sum = 0;
    CPU_ISA_PICK(cpu_reductions)
    [f32 ? CPU_REDUCE_F32 : CPU_REDUCE_F64].sum(&sum, in->data, in->numel);
    if (mean)
        sum /= (double)in->numel;
    if (f32)
        *(float *)out->data = (float)sum;
    else
        *(double *)out->data = sum;
    return true;
}

static tern_status_t reduce(const tern_call *call, kind what)
{
    const tern_attr_reduce *attr = call->attr;
    plan p = { .kind = what, .correction = attr->correction, .has_value = true };
    return run_plan(&p, call, attr->dims, attr->keepdim != 0);
}

tern_status_t cpu_sum(const tern_call *call)
{
    return run_small(call, false) ? TERN_OK : reduce(call, KIND_SUM);
}

tern_status_t cpu_mean(const tern_call *call)
{
    return run_small(call, true) ? TERN_OK : reduce(call, KIND_MEAN);
}

tern_status_t cpu_var(const tern_call *call)
{
    return reduce(call, KIND_VAR);
}

tern_status_t cpu_amax(const tern_call *call)
{
    return reduce(call, KIND_AMAX);
}

/* Along one dimension; of a 0-dim input the one element is the greatest and its place is 0. */
static tern_status_t reduce_dim(const tern_call *call, bool value)
{
    const tern_attr_dim *attr = call->attr;
    plan p = { .kind = KIND_PLACE, .has_value = value, .has_place = true };
    return run_plan(&p, call, call->in[0]->ndim ? 1u << attr->dim : 0u, attr->keepdim != 0);
}

tern_status_t cpu_max(const tern_call *call)
{
    return reduce_dim(call, true);
}

tern_status_t cpu_argmax(const tern_call *call)
{
    return reduce_dim(call, false);
}
