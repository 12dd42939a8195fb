/* resample2d: first the cells and weights of both dimensions as small tables, then a thread for a few
 * results, or for gradients per cell, so that nothing is added by atomics: deterministic. */
#include "backend_cuda/launch.h"
#include "backend_cuda/lines.cuh"

#define RESAMPLE_FN static __device__ __forceinline__
#include "backend_cpu/resample.h"

using namespace cuda;

/* What a result is made of: cells begin .. end - 1, the first of them with its own weight. */
template <typename T> struct made_of {
    int32_t begin, end;
    T first, rest;
};

/* Both dimensions: by result, and by cell the first result that the cell may be part of. */
template <typename T> struct tables {
    made_of<T> *results[2];
    int32_t *firsts[2];
};

struct axes {
    resample_axis a[2];
};

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    k_resample_tables(tables<T> t, axes axis, int transposed, int64_t count)
{
    for (int64_t n = first_item(); n < count; n += item_step()) {
        for (int d = 0; d < 2; d++) {
            const resample_axis a = axis.a[d];
            if (n < a.out) {
                const resample_cells cells = resample_at(&a, (int32_t)n);
                t.results[d][n] = { cells.begin, cells.end,
                                    (T)resample_weight(&a, &cells, cells.begin), (T)cells.second };
            }
            if (transposed && n < a.in)
                t.firsts[d][n] = resample_first(&a, (int32_t)n);
        }
    }
}

template <typename T>
static __device__ __forceinline__ T weight_of(const made_of<T> &r, int32_t cell)
{
    return cell == r.begin ? r.first : r.rest;
}

/* What the results of a line have in common. */
template <typename S> struct result_line {
    const S *from;
    int64_t to;
    made_of<real<S>> rows;
};

/* One result. SINGLE: it has one cell, so that nothing waits for the end of a loop. */
template <bool SINGLE, typename S>
static __device__ __forceinline__ S result_of(const result_line<S> &line,
                                              const made_of<real<S>> &columns,
                                              const cuda_resample_shape &s)
{
    using T = real<S>;
    const int32_t row_end = SINGLE ? line.rows.begin + 1 : line.rows.end;
    const int32_t column_end = SINGLE ? columns.begin + 1 : columns.end;
    T sum = 0;
    for (int32_t row = line.rows.begin; row < row_end; row++) {
        T along = 0;
        for (int32_t column = columns.begin; column < column_end; column++)
            along += weight_of(columns, column) *
                     widen(line.from[row * s.x_stride[2] + column * s.x_stride[3]]);
        sum += weight_of(line.rows, row) * along;
    }
    return narrow<S>(sum);
}

template <bool SINGLE, typename S>
__global__ void __launch_bounds__(BLOCK)
    k_resample(S *y, const S *x, tables<real<S>> t, cuda_resample_shape s, int64_t count)
{
    for (int64_t i = first_item() * FEW<S>; i < count; i += item_step() * FEW<S>) {
        pack<S, FEW<S>> some = {};
        each_in_lines<FEW<S>>(
            i, count, s.to_by[1],
            [&](int64_t number) {
                const int64_t plane = quotient(number, s.to_by[0]), h = number - plane * s.to[0];
                const int64_t n = quotient(plane, s.c_by), c = plane - n * s.c;
                return result_line<S>{ x + n * s.x_stride[0] + c * s.x_stride[1],
                                       n * s.y_stride[0] + c * s.y_stride[1] + h * s.y_stride[2],
                                       t.results[0][h] };
            },
            [&](int k, int64_t w, const result_line<S> &line) {
                some.at[k] = result_of<SINGLE>(line, t.results[1][w], s);
                if (!s.dense)
                    y[line.to + w * s.y_stride[3]] = some.at[k];
            });
        if (s.dense)
            store_pack<S, FEW<S>>(y + i, count - i, some);
    }
}

/* x has the results, y the cells. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_resample_transposed(S *y, const S *x, tables<real<S>> t, cuda_resample_shape s, int64_t count)
{
    using T = real<S>;
    for (int64_t i = first_item(); i < count; i += item_step()) {
        const int64_t line = quotient(i, s.to_by[1]), plane = quotient(line, s.to_by[0]);
        const int32_t w = (int32_t)(i - line * s.to[1]), h = (int32_t)(line - plane * s.to[0]);
        const int64_t n = quotient(plane, s.c_by), c = plane - n * s.c;
        const S *from = x + n * s.x_stride[0] + c * s.x_stride[1];
        T sum = 0;
        for (int32_t row = t.firsts[0][h]; row < s.from[0] && t.results[0][row].begin <= h; row++) {
            T along = 0;
            for (int32_t column = t.firsts[1][w];
                 column < s.from[1] && t.results[1][column].begin <= w; column++)
                along += weight_of(t.results[1][column], w) *
                         widen(from[row * s.x_stride[2] + column * s.x_stride[3]]);
            sum += weight_of(t.results[0][row], h) * along;
        }
        y[n * s.y_stride[0] + c * s.y_stride[1] + h * s.y_stride[2] + w * s.y_stride[3]] =
            narrow<S>(sum);
    }
}

/* The room that the tables of f64, the widest, take. */
extern "C" int64_t cuda_resample_table_bytes(const cuda_resample_shape *s)
{
    const int64_t most = s->from[0] + s->from[1] + s->to[0] + s->to[1];
    return most * (int64_t)(sizeof(made_of<double>) + sizeof(int32_t));
}

template <typename T> static tables<T> lay_out(void *memory, const axes &axis)
{
    tables<T> t;
    t.results[0] = (made_of<T> *)memory;
    t.results[1] = t.results[0] + axis.a[0].out;
    t.firsts[0] = (int32_t *)(t.results[1] + axis.a[1].out);
    t.firsts[1] = t.firsts[0] + axis.a[0].in;
    return t;
}

extern "C" cudaError_t cuda_launch_resample(void *y, const void *x, void *table, int dtype,
                                            const cuda_resample_shape *s, cudaStream_t stream)
{
    axes axis;
    int64_t most = 0;
    for (int d = 0; d < 2; d++) {
        const int64_t in = s->transposed ? s->to[d] : s->from[d];
        const int64_t out = s->transposed ? s->from[d] : s->to[d];
        axis.a[d] = { (int32_t)in,      (int32_t)out,      s->step[d], s->mode,
                      s->align_corners, dtype != TERN_F64, s->strict };
        most = most > in ? most : in;
        most = most > out ? most : out;
    }
    const int64_t count = s->n * s->c * s->to[0] * s->to[1];
    const cudaLaunchConfig_t small = shape_for(most, stream), large = shape_for(count, stream);
    const bool single = s->mode == TERN_RESAMPLE_NEAREST || s->mode == TERN_RESAMPLE_NEAREST_EXACT;
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const tables<real<S>> t = lay_out<real<S>>(table, axis);
        const cudaError_t code =
            cudaLaunchKernelEx(&small, k_resample_tables<real<S>>, t, axis, s->transposed, most);
        if (code != cudaSuccess)
            return code;
        if (s->transposed)
            return cudaLaunchKernelEx(&large, k_resample_transposed<S>, (S *)y, (const S *)x, t, *s,
                                      count);
        const cudaLaunchConfig_t few = shape_for_few<S>(count, stream);
        return cudaLaunchKernelEx(&few, single ? k_resample<true, S> : k_resample<false, S>, (S *)y,
                                  (const S *)x, t, *s, count);
    });
}
