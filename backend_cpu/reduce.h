/* Between the reductions (reduce.c) and their inner loops (isa/reduce.c). */
#ifndef TERN_BACKEND_CPU_REDUCE_H
#define TERN_BACKEND_CPU_REDUCE_H

#include "backend_cpu/cpu.h"

/* The greatest, or the least. NaN is beyond everything. */
typedef struct cpu_extreme_loops {
    /* best[r] (T) = the extreme of best[r] and the elements of row r */
    void (*best)(void *best, const void *x, int64_t n, int64_t rows, int64_t stride);
    void (*best_rows)(void *best, const void *x, int64_t columns, int64_t rows, int64_t stride);
    /* *best of each column, and in `places` first + its row; the first of equals stays */
    void (*place_rows)(void *best, int64_t *places, const void *x, int64_t columns, int64_t rows,
                       int64_t stride, int64_t first);
} cpu_extreme_loops;

/* In place, what a norm adds up: |x|, x != 0, |x|^p. */
enum { CPU_MAP_ABSOLUTE, CPU_MAP_IS_THERE, CPU_MAP_POWER, CPU_MAPS };
typedef void (*cpu_map_fn)(void *x, int64_t n, double p);

/* Sums of (x - about)^2 and of x - about. */
typedef struct cpu_spread {
    double squares, away;
} cpu_spread;

/* Loops for T = float, double or int64_t; accumulators are double, double, int64_t (which wraps).
 * Rows: n elements without gaps, each with an accumulator of its own; `rows` of them, `stride` bytes apart. Columns:
 * `rows` rows of `columns` elements without gaps, `stride` bytes apart; accumulators are arrays of `columns`. */
typedef struct cpu_reduce_loops {
    /* sums[r] += the elements of row r */
    void (*sum)(void *sums, const void *x, int64_t n, int64_t rows, int64_t stride);
    /* adds up x - about and its squares; not for integers. `about` is a number of T. */
    void (*spread)(cpu_spread *sum, const void *x, int64_t n, double about);
    /* sums[r] += the squares of the elements of row r; not for integers */
    void (*squares)(double *sums, const void *x, int64_t n, int64_t rows, int64_t stride);
    /* products[r] *= the elements of row r */
    void (*prod)(void *products, const void *x, int64_t n, int64_t rows, int64_t stride);
    /* place of the first element that equals *value (T; NaN equals NaN), or n */
    int64_t (*find)(const void *value, const void *x, int64_t n);
    void (*sum_rows)(void *sums, const void *x, int64_t columns, int64_t rows, int64_t stride);
    /* `away` may be NULL, if not wanted */
    void (*spread_rows)(double *squares, double *away, const void *x, int64_t columns, int64_t rows,
                        int64_t stride, const double *about);
    void (*prod_rows)(void *products, const void *x, int64_t columns, int64_t rows, int64_t stride);
    cpu_extreme_loops greatest, least;
    cpu_map_fn map[CPU_MAPS]; /* not for integers */
} cpu_reduce_loops;

enum { CPU_REDUCE_F32, CPU_REDUCE_F64, CPU_REDUCE_I64, CPU_REDUCE_TYPES };
CPU_ISA_DECLARE_TABLE(const cpu_reduce_loops, cpu_reductions, CPU_REDUCE_TYPES);

#endif
