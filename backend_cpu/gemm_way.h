/* Which way a matrix product goes: by own kernels or a library, and how threads cut it. From sizes, strides and
 * the CPU alone, so that a program repeats its results. */
#ifndef TERN_BACKEND_CPU_GEMM_WAY_H
#define TERN_BACKEND_CPU_GEMM_WAY_H

#include "backend_cpu/gemm.h"

static inline int64_t cpu_product_flops(const cpu_product *g)
{
    return 2 * g->m * g->n * g->k;
}

static inline bool cpu_is_half(int dtype)
{
    return dtype == TERN_F16 || dtype == TERN_BF16;
}

enum {
    /* Products up to this are own: below, a library's call costs more than its kernels win. */
    CPU_PRODUCT_SMALL = 1400000,
    /* Narrow products above this go to a library. */
    CPU_PRODUCT_NARROW = 300000,
    /* f32 by AVX-512: 0.9 to 1.04 of the faster library's time, and a program needs neither library before it
     * has larger ones: oneDNN takes 20 ms to load and to write its first code. */
    CPU_PRODUCT_OWN = 400000000
};

/* What a fitted table asks about a product (tools/fit_gemm.py). */
typedef struct cpu_gemm_size {
    int64_t m, n, k;
    int64_t a, b, c; /* elements of each */
    int64_t work;    /* m n k */
    int64_t rest;    /* columns in the last vector of 16 */
} cpu_gemm_size;
typedef bool (*cpu_gemm_owns)(const cpu_gemm_size *s);

/* Does TERN_CPU_GEMM name the way of all products of f32? */
bool cpu_product_is_forced(void);
/* Own kernels for a product of f32 or f64 on `threads`? */
bool cpu_product_own_is_best(int dtype, const cpu_product *g, int threads);
/* What of a product on one thread lies beyond the second-level cache; own kernels of f32 and f64. */
cpu_gemm_far cpu_product_far(int dtype, const cpu_product *g);
/* Is a product on one thread made as the transposed product? The same bits; own kernels of f32. */
bool cpu_product_turns(int dtype, const cpu_product *g);
/* Do `threads` share out rows of C? Else columns. */
bool cpu_product_parts_are_rows(int dtype, const cpu_product *g, int threads);

#endif
