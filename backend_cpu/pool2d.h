/* Pooling in two dimensions: what pool2d.c and isa/pool2d.c share.
 *
 * max_pool2d's second output says for each result which cell of the window it came from, row by row
 * from 0, dilation not counted: u8 where the window has at most 256 cells, else i32. NaN beats
 * numbers, a later NaN an earlier one; else the first of equal values wins. */
#ifndef TERN_BACKEND_CPU_POOL2D_H
#define TERN_BACKEND_CPU_POOL2D_H

#include "backend_cpu/cpu.h"
#include "tern/op_attr.h"

/* One pooling; all its tensors lie in one way: plane after plane (row-major), or channels_last.
 * In a gradient x and y are the gradients of x and y. */
typedef struct cpu_pool {
    const tern_attr_pool *attr;
    void *x, *y, *index;
    bool channels_last;
    bool narrow_index; /* u8 */
    int64_t channels;  /* channels_last only */
    int64_t in[2], out[2];
} cpu_pool;

/* Computes units [begin, end): forward a row of results of an image (channels_last) or a plane,
 * backward an image or a plane, which is overwritten. */
typedef void cpu_pool_fn(const cpu_pool *pool, int64_t begin, int64_t end);
CPU_ISA_DECLARE(void, cpu_max_pool_f32, const cpu_pool *pool, int64_t begin, int64_t end);
CPU_ISA_DECLARE(void, cpu_max_pool_f64, const cpu_pool *pool, int64_t begin, int64_t end);
CPU_ISA_DECLARE(void, cpu_max_pool_grad_f32, const cpu_pool *pool, int64_t begin, int64_t end);
CPU_ISA_DECLARE(void, cpu_max_pool_grad_f64, const cpu_pool *pool, int64_t begin, int64_t end);
CPU_ISA_DECLARE(void, cpu_avg_pool_f32, const cpu_pool *pool, int64_t begin, int64_t end);
CPU_ISA_DECLARE(void, cpu_avg_pool_f64, const cpu_pool *pool, int64_t begin, int64_t end);
CPU_ISA_DECLARE(void, cpu_avg_pool_grad_f32, const cpu_pool *pool, int64_t begin, int64_t end);
CPU_ISA_DECLARE(void, cpu_avg_pool_grad_f64, const cpu_pool *pool, int64_t begin, int64_t end);

/* ---- geometry -------------------------------------------------------------------------------- */

typedef struct cpu_range {
    int64_t begin, end;
} cpu_range;

/* Cells of the window of result `at` along dimension d that lie inside; none where a dilated window
 * steps over all of x: its maximum is the lowest value, and its gradient goes nowhere. */
static inline cpu_range cpu_pool_cells(const cpu_pool *pool, int d, int64_t at)
{
    const tern_attr_pool *a = pool->attr;
    const int64_t first = at * a->stride[d] - a->padding[d], step = a->dilation[d];
    const int64_t room = pool->in[d] - first; /* from the first cell to the edge */
    cpu_range cells = { first < 0 ? (-first + step - 1) / step : 0, 0 };
    cells.end = room <= 0 ? 0 : (room + step - 1) / step;
    if (cells.end > a->kernel[d])
        cells.end = a->kernel[d];
    return cells;
}

/* The results of rows of planes are made in chunks, so that they stay in the nearest cache. What a
 * chunk's columns have in common in all rows and planes is found once: */
enum { CPU_POOL_CHUNK = 256, CPU_POOL_CELLS = 64 };
typedef struct cpu_pool_chunk {
    int64_t begin, end;               /* results along W */
    cpu_range cells;                  /* columns of the window that are inside for any of them */
    cpu_range inside[CPU_POOL_CELLS]; /* of the first cells: the results for which each is inside */
} cpu_pool_chunk;

/* Results of a chunk for which column `cell` of the window lies inside. */
static inline cpu_range cpu_pool_results(const cpu_pool *pool, int64_t cell, int64_t begin,
                                         int64_t end)
{
    const tern_attr_pool *a = pool->attr;
    const int64_t shift = cell * a->dilation[1] - a->padding[1], stride = a->stride[1];
    const int64_t first = shift < 0 ? (-shift + stride - 1) / stride : 0;
    const int64_t room = pool->in[1] - shift;
    const int64_t last = room <= 0 ? 0 : (room + stride - 1) / stride;
    cpu_range results = { first > begin ? first : begin, last < end ? last : end };
    if (results.end < results.begin)
        results.end = results.begin;
    return results;
}

static inline cpu_range cpu_pool_inside(const cpu_pool *pool, const cpu_pool_chunk *chunk,
                                        int64_t cell)
{
    return cell < CPU_POOL_CELLS ? chunk->inside[cell]
                                 : cpu_pool_results(pool, cell, chunk->begin, chunk->end);
}

static inline cpu_pool_chunk cpu_pool_chunk_at(const cpu_pool *pool, int64_t begin)
{
    const int64_t cells = pool->attr->kernel[1], end = begin + CPU_POOL_CHUNK;
    cpu_pool_chunk chunk;
    chunk.begin = begin;
    chunk.end = end < pool->out[1] ? end : pool->out[1];
    chunk.cells.begin = cpu_pool_cells(pool, 1, chunk.end - 1).begin;
    chunk.cells.end = cpu_pool_cells(pool, 1, begin).end;
    for (int64_t i = 0; i < cells && i < CPU_POOL_CELLS; i++)
        chunk.inside[i] = cpu_pool_results(pool, i, begin, chunk.end);
    return chunk;
}

/* What an average along dimension d counts: with padding, the window cut where padding ends. */
static inline int64_t cpu_pool_counted(const cpu_pool *pool, int d, int64_t at)
{
    const tern_attr_pool *a = pool->attr;
    const int64_t first = at * a->stride[d] - a->padding[d];
    if (first >= 0 && first + a->kernel[d] <= pool->in[d])
        return a->kernel[d];
    if (!a->count_include_pad) {
        const cpu_range cells = cpu_pool_cells(pool, d, at);
        return cells.end - cells.begin;
    }
    const int64_t edge = pool->in[d] + a->padding[d];
    return first + a->kernel[d] < edge ? a->kernel[d] : edge - first;
}

#endif
