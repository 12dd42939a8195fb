/* Between the reductions (reduce.c) and their inner loops (isa/reduce.c). */
#ifndef TERN_BACKEND_CPU_REDUCE_H
#define TERN_BACKEND_CPU_REDUCE_H

#include "backend_cpu/cpu.h"

/* Loops for T = float, double or int64_t; accumulators are double, double, int64_t (which wraps).
 * Rows: n elements without gaps. Columns: `rows` rows of `columns` elements without gaps, `stride`
 * bytes apart; accumulators are arrays of `columns`. NaN is greater than everything. */
typedef struct cpu_reduce_loops {
    /* *sum += the elements */
    void (*sum)(void *sum, const void *x, int64_t n);
    /* *sum += (x - mean)^2; not for integers */
    void (*spread)(double *sum, const void *x, int64_t n, double mean);
    /* *best (T) = the greatest of *best and the elements */
    void (*amax)(void *best, const void *x, int64_t n);
    /* place of the first element that equals *value (T; NaN equals NaN), or n */
    int64_t (*find)(const void *value, const void *x, int64_t n);
    void (*sum_rows)(void *sums, const void *x, int64_t columns, int64_t rows, int64_t stride);
    void (*spread_rows)(double *sums, const void *x, int64_t columns, int64_t rows, int64_t stride,
                        const double *means);
    void (*amax_rows)(void *best, const void *x, int64_t columns, int64_t rows, int64_t stride);
    /* *best of each column, and in `places` first + its row; the first of equals stays */
    void (*argmax_rows)(void *best, int64_t *places, const void *x, int64_t columns, int64_t rows,
                        int64_t stride, int64_t first);
} cpu_reduce_loops;

enum { CPU_REDUCE_F32, CPU_REDUCE_F64, CPU_REDUCE_I64, CPU_REDUCE_TYPES };
CPU_ISA_DECLARE_TABLE(const cpu_reduce_loops, cpu_reductions, CPU_REDUCE_TYPES);

#endif
