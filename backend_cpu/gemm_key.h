/* What tells one shape of a matrix product from another, where ways are kept by shape. */
#ifndef TERN_BACKEND_CPU_GEMM_KEY_H
#define TERN_BACKEND_CPU_GEMM_KEY_H

#include <string.h>

#include "backend_cpu/gemm.h"

/* Bytes are compared, so it has no padding. */
typedef struct cpu_gemm_key {
    int64_t m, n, k, a_row, a_col, b_row, b_col, c_row;
    int32_t dtype, threads;
    int32_t biased, accumulates;
} cpu_gemm_key;

static inline cpu_gemm_key cpu_gemm_key_of(int dtype, const cpu_product *g, int threads)
{
    return (cpu_gemm_key){ .m = g->m,
                           .n = g->n,
                           .k = g->k,
                           .a_row = g->a_row,
                           .a_col = g->a_col,
                           .b_row = g->b_row,
                           .b_col = g->b_col,
                           .c_row = g->c_row,
                           .dtype = dtype,
                           .threads = threads,
                           .biased = g->bias != NULL,
                           .accumulates = g->accumulate };
}

static inline bool cpu_gemm_key_is(const cpu_gemm_key *a, const cpu_gemm_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static inline uint64_t cpu_gemm_key_hash(const cpu_gemm_key *key)
{
    uint64_t words[sizeof *key / sizeof(uint64_t)], hash = 0;
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15u; /* 2^64 over the golden ratio (Knuth) */
    return hash ^ hash >> 32;
}

#endif
