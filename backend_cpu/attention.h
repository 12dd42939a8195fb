/* Rows of a block of attention's scores, between the products (backend_cpu/attention.c). */
#ifndef TERN_BACKEND_CPU_ATTENTION_H
#define TERN_BACKEND_CPU_ATTENTION_H

#include "backend_cpu/cpu.h"

/* A block of scores, q k^T: rows are queries, columns keys. Arrays are float, or double for f64; matrices
 * have rows of `ld` elements. */
typedef struct cpu_attention_rows {
    int64_t rows, columns, ld;
    int64_t seen; /* row r sees the first seen + r columns, as many as there are */
    double scale;
    void *scores;        /* become weights, 0 where nothing is seen */
    const void *bias;    /* added to scaled scores; NULL: none */
    const uint8_t *keep; /* weights that dropout leaves; NULL: all */
    double keep_scale;
    /* forward, by row: the largest score and the sum of exponentials so far, which are updated, and
     * what earlier results have to be multiplied by */
    void *largest, *sum, *factor;
    /* backward, by row: the log of the sum, and gradient times result. grad: the weights' gradient, which
     * becomes that of the unscaled scores */
    const void *lse, *delta;
    void *grad;
} cpu_attention_rows;

CPU_ISA_DECLARE(void, cpu_attention_weigh_f32, const cpu_attention_rows *a);
CPU_ISA_DECLARE(void, cpu_attention_weigh_f64, const cpu_attention_rows *a);
CPU_ISA_DECLARE(void, cpu_attention_slopes_f32, const cpu_attention_rows *a);
CPU_ISA_DECLARE(void, cpu_attention_slopes_f64, const cpu_attention_rows *a);
/* Row r of x, `columns` elements, times factor[r]; times 1 / factor[r], or 0 where that is 0. */
CPU_ISA_DECLARE(void, cpu_attention_multiply_f32, float *x, int64_t ld, int64_t rows,
                int64_t columns, const float *factor, bool divide);
CPU_ISA_DECLARE(void, cpu_attention_multiply_f64, double *x, int64_t ld, int64_t rows,
                int64_t columns, const double *factor, bool divide);
/* out[r] = sum over columns of x[r] y[r] */
CPU_ISA_DECLARE(void, cpu_attention_dots_f32, float *out, const float *x, int64_t x_row,
                const float *y, int64_t y_row, int64_t rows, int64_t columns);
CPU_ISA_DECLARE(void, cpu_attention_dots_f64, double *out, const double *x, int64_t x_row,
                const double *y, int64_t y_row, int64_t rows, int64_t columns);

#endif
