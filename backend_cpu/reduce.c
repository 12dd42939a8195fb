/* sum, mean, var, std, norm, prod, amax, amin, max, min, argmax, argmin over any dims of any strides.
 *
 * Elements are f32 (half types widened to it), f64 or i64 (shorter integers and bool widened); sums
 * are kept in f64 or i64. The kept dimensions are cut into blocks, the reduced ones into chunks of
 * fixed length; a unit is one block and one chunk. Units leave cells, and the cells of a block are
 * combined in the order of chunks: neither threads nor layouts that are walked alike change bits.
 *
 * A block is a run of neighbouring outputs along kept dim 0. When that dimension has no gaps in the
 * input, all of a block are reduced side by side (columns); else one after the other (rows). */
#include <math.h>

#include "backend_cpu/kernels.h"
#include "backend_cpu/reduce_plan.h"
#include "backend_cpu/strided.h"
#include "tern/op_attr.h"

/* Elements per chunk of rows; a quarter of a megabyte of f32 stays in the second level cache for
 * the second pass of var. */
enum { CHUNK = 1 << 16 };

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct place {
    int64_t in; /* bytes from the first input element */
    char *out[2];
    int64_t columns;
} place;

static place find_block(const reduce_plan *p, int64_t block)
{
    const int64_t in_row = block % p->blocks_per_row * p->block;
    const int64_t index = block / p->blocks_per_row * p->kept.shape[0] + in_row;
    cpu_cursor at;
    cpu_cursor_init(&at, &p->kept, index);
    const int64_t left = p->kept.shape[0] - in_row;
    const int64_t columns = left < p->block ? left : p->block;
    return (place){ at.data[0] - p->kept.data[0], { at.data[1], at.data[2] }, columns };
}

/* One chunk: blocks begin .. end from start to finish. */
static void run_blocks(void *context, int64_t begin, int64_t end)
{
    const reduce_plan *p = context;
    reduce_number memory[2 * CPU_BLOCK];
    for (; begin < end; begin++) {
        const place at = find_block(p, begin);
        const reduce_cells c = reduce_cells_at((char *)memory, 0, p->block);
        cpu_reduce_unit(p, at.in, at.columns, 0, c);
        cpu_reduce_finish(p, at.out, at.columns, c);
    }
}

static void run_units(void *context, int64_t begin, int64_t end)
{
    const reduce_plan *p = context;
    for (; begin < end; begin++) {
        const place at = find_block(p, begin / p->chunks);
        cpu_reduce_unit(p, at.in, at.columns, begin % p->chunks,
                        reduce_cells_at(p->cells, begin, p->block));
    }
}

static void combine_blocks(void *context, int64_t begin, int64_t end)
{
    const reduce_plan *p = context;
    for (; begin < end; begin++) {
        const place at = find_block(p, begin);
        const reduce_cells total = reduce_cells_at(p->cells, begin * p->chunks, p->block);
        for (int64_t chunk = 1; chunk < p->chunks; chunk++)
            cpu_reduce_combine(p, total,
                               reduce_cells_at(p->cells, begin * p->chunks + chunk, p->block),
                               at.columns, chunk);
        cpu_reduce_finish(p, at.out, at.columns, total);
    }
}

/* ---- planning -------------------------------------------------------------------------------- */

static void plan_types(reduce_plan *p, int dtype)
{
    /* half types; and short integers compare as f32, which holds them, faster than as i64 */
    const bool narrow = dtype == TERN_F16 || dtype == TERN_BF16 ||
                        (reduce_is_extreme(p) && cpu_dtype_size(dtype) <= 2);
    p->type = dtype == TERN_F64 ? TERN_F64 : narrow || dtype == TERN_F32 ? TERN_F32 : TERN_I64;
    p->acc = p->type == TERN_I64 ? TERN_I64 : TERN_F64;
    p->type_size = cpu_dtype_size(p->type);
    p->size = cpu_dtype_size(dtype);
    /* what is mapped is first copied */
    p->widen = dtype == p->type && !p->map ? NULL : cpu_converter(p->type, dtype);
    const int loops = p->type == TERN_F64   ? CPU_REDUCE_F64
                      : p->type == TERN_F32 ? CPU_REDUCE_F32
                                            : CPU_REDUCE_I64;
    p->loops = &CPU_ISA_PICK(cpu_reductions)[loops];
    p->extreme = p->least ? &p->loops->least : &p->loops->greatest;
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

static void plan_walks(reduce_plan *p, const tern_call *call, uint32_t dims, bool keepdim)
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

static void plan_units(reduce_plan *p)
{
    const bool rows = p->reduced.stride[0][0] == p->size && p->reduced.shape[0] > 1;
    p->columns = !rows && p->kept.stride[0][0] == p->size && p->kept.shape[0] > 1;
    p->whole_rows = rows && p->reduced.ndim == 1;
    p->plain_rows = p->whole_rows && !p->widen;
    p->first_size = reduce_is_extreme(p) ? p->type_size : 8;
    /* as many rows as make a unit worth claiming; threads share what is left of kept dim 0 */
    const int64_t fitting = CHUNK / 16 / (p->reduced_count + 1) + 1;
    p->block = p->columns || fitting > CPU_BLOCK ? CPU_BLOCK : fitting;
    if (p->block > p->kept.shape[0])
        p->block = p->kept.shape[0];
    p->blocks_per_row = (p->kept.shape[0] + p->block - 1) / p->block;
    p->blocks = p->kept_count / p->kept.shape[0] * p->blocks_per_row;
    p->chunk = p->columns ? CHUNK / p->block : CHUNK;
    p->chunks = (p->reduced_count + p->chunk - 1) / p->chunk;
    if (p->chunks == 0)
        p->chunks = 1;
}

static tern_status_t run_plan(reduce_plan *p, const tern_call *call, uint32_t dims, bool keepdim)
{
    const tern_view *in = call->in[0];
    if (call->out[0]->numel == 0)
        return TERN_OK;
    plan_types(p, in->dtype);
    plan_walks(p, call, dims, keepdim);
    if (p->reduced_count == 0 && reduce_is_extreme(p))
        return call->host->fail(TERN_ERR_SHAPE, "no elements to take the greatest or least of");
    plan_units(p);
    for (int i = 0; i < call->n_out; i++)
        p->out_dtype[i] = call->out[i]->dtype;
    const int threads = cpu_threads(call, in->numel * p->size, in->numel);
    if (p->chunks == 1) {
        cpu_parallel(threads, p->blocks, 1, run_blocks, p);
        return TERN_OK;
    }
    const int64_t units = p->blocks * p->chunks;
    p->cells = call->host->scratch(call, units * p->block * 2 * (int64_t)sizeof(reduce_number));
    if (!p->cells)
        return TERN_ERR_OOM;
    cpu_parallel(threads, units, 1, run_units, p);
    cpu_parallel(1, p->blocks, 1, combine_blocks, p);
    return TERN_OK;
}

/* ---- kernels --------------------------------------------------------------------------------- */

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
    [f32 ? CPU_REDUCE_F32 : CPU_REDUCE_F64].sum(&sum, in->data, in->numel, 1, 0);
    if (mean)
        sum /= (double)in->numel;
    if (f32)
        *(float *)out->data = (float)sum;
    else
        *(double *)out->data = sum;
    return true;
}

static tern_status_t reduce(const tern_call *call, reduce_plan p)
{
    const tern_attr_reduce *attr = call->attr;
    p.correction = attr->correction;
    p.has_value = true;
    return run_plan(&p, call, attr->dims, attr->keepdim != 0);
}

tern_status_t cpu_sum(const tern_call *call)
{
    return run_small(call, false) ? TERN_OK : reduce(call, (reduce_plan){ .kind = KIND_SUM });
}

tern_status_t cpu_mean(const tern_call *call)
{
    return run_small(call, true) ? TERN_OK : reduce(call, (reduce_plan){ .kind = KIND_MEAN });
}

tern_status_t cpu_var(const tern_call *call)
{
    return reduce(call, (reduce_plan){ .kind = KIND_VAR });
}

tern_status_t cpu_std(const tern_call *call)
{
    return reduce(call, (reduce_plan){ .kind = KIND_VAR, .root = 2 });
}

tern_status_t cpu_prod(const tern_call *call)
{
    return reduce(call, (reduce_plan){ .kind = KIND_PROD });
}

tern_status_t cpu_amax(const tern_call *call)
{
    return reduce(call, (reduce_plan){ .kind = KIND_EXTREME });
}

tern_status_t cpu_amin(const tern_call *call)
{
    return reduce(call, (reduce_plan){ .kind = KIND_EXTREME, .least = true });
}

/* (sum of |x|^p)^(1/p); infinities are the greatest and the least |x|, 0 counts what is not 0. */
tern_status_t cpu_norm(const tern_call *call)
{
    const tern_attr_vector_norm *attr = call->attr;
    const double p = attr->p;
    const bool whole_power = p == 0 || p == 1 || isinf(p);
    const int loops = call->in[0]->dtype == TERN_F64 ? CPU_REDUCE_F64 : CPU_REDUCE_F32;
    reduce_plan plan = { .kind = isinf(p)   ? KIND_EXTREME
                                 : p == 2.0 ? KIND_SQUARES
                                            : KIND_SUM,
                         .least = p < 0,
                         .power = p,
                         .root = whole_power ? 0 : p,
                         .has_value = true };
    if (p != 2)
        plan.map = CPU_ISA_PICK(cpu_reductions)[loops].map[p == 0        ? CPU_MAP_IS_THERE
                                                           : whole_power ? CPU_MAP_ABSOLUTE
                                                                         : CPU_MAP_POWER];
    return run_plan(&plan, call, attr->dims, attr->keepdim != 0);
}

/* Along one dimension; of a 0-dim input the one element is the extreme and its place is 0. */
static tern_status_t reduce_dim(const tern_call *call, bool least, bool value)
{
    const tern_attr_dim *attr = call->attr;
    reduce_plan p = { .kind = KIND_PLACE, .least = least, .has_value = value, .has_place = true };
    return run_plan(&p, call, call->in[0]->ndim ? 1u << attr->dim : 0u, attr->keepdim != 0);
}

tern_status_t cpu_max(const tern_call *call)
{
    return reduce_dim(call, false, true);
}

tern_status_t cpu_min(const tern_call *call)
{
    return reduce_dim(call, true, true);
}

tern_status_t cpu_argmax(const tern_call *call)
{
    return reduce_dim(call, false, false);
}

tern_status_t cpu_argmin(const tern_call *call)
{
    return reduce_dim(call, true, false);
}
