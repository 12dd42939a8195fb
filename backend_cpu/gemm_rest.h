/* Products whose last vector of columns is half full at most, where the CPU makes half a vector in half the time. */
#ifndef TERN_BACKEND_CPU_GEMM_REST_H
#define TERN_BACKEND_CPU_GEMM_REST_H

#include <stdbool.h>
#include <stdint.h>

/* Zen 4 works through 512 bits in two steps, so that a tile of whole vectors takes as long for 1 column of a vector as
 * for 16; OpenBLAS's kernels without packing, which have rests of 8, 4, 2 and 1, take 0.65 (17 columns) to 0.95 (97) of
 * the time, of up to 16 columns 0.7 of oneDNN's. Of a transposed B, whose columns they sum one by one, only of
 * deeper products, and up to 12 columns. Rows are 8 and more: few leave those kernels' tiles empty. */
enum {
    CPU_REST_ROWS = 8,
    CPU_REST_LEAST = 9, /* columns */
    CPU_REST_MOST = 104,
    CPU_REST_DEPTH = 33,
    CPU_REST_DEPTH_TURNED = 64,
    CPU_REST_FEW = 16, /* columns, of any rest */
    CPU_REST_FEW_TURNED = 12
};

static inline bool cpu_product_has_small_rest(int64_t m, int64_t n, int64_t k, bool turned)
{
    return m >= CPU_REST_ROWS && n >= CPU_REST_LEAST && n <= CPU_REST_MOST &&
           k >= (turned ? CPU_REST_DEPTH_TURNED : CPU_REST_DEPTH) &&
           (n <= (turned ? CPU_REST_FEW_TURNED : CPU_REST_FEW) || (n - 1) % 16 < 8);
}

#endif
