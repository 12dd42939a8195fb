/* tern's own matrix product: what is used below the size where a library's call pays, and
 * everywhere when there is no library. cpu_product_run (gemm.c) chooses. */
#ifndef TERN_BACKEND_CPU_GEMM_H
#define TERN_BACKEND_CPU_GEMM_H

#include "backend_cpu/cpu.h"
#include "backend_cpu/half.h"

/* C [m, n] = A [m, k] B [k, n] (+ bias [n] in each row, or + C). All of one dtype, f32 or f64.
 * A and B have any strides, in elements; the columns of C are adjacent. C overlaps nothing. */
typedef struct cpu_product {
    int64_t m, n, k;
    const void *a, *b;
    const void *bias; /* NULL: none */
    void *c;
    int64_t a_row, a_col, b_row, b_col, c_row;
    bool accumulate; /* C is added to; then there is no bias */
    bool native;     /* bf16: by instructions of its own, as cpu_half_native has said */
} cpu_product;

/* Scratch that a call has taken so far and later products may use again; zero at first. */
typedef struct cpu_room {
    void *data;
    int64_t bytes;
} cpu_room;
typedef struct cpu_product_room {
    cpu_room own;
} cpu_product_room;
/* NULL: there was none, and the host has said so. */
void *cpu_room_take(const tern_call *call, cpu_room *room, int64_t bytes);

/* Runs one product of `dtype` (f32, f64) on up to `threads` threads, by the library or by own
 * kernels. False: no scratch. */
bool cpu_product_run(const tern_call *call, int dtype, const cpu_product *product, int threads,
                     cpu_product_room *room);
/* The same for every dtype of numbers: half types are summed in f32 and rounded once (they do not
 * accumulate), integers wrap. */
bool cpu_product_any(const tern_call *call, int dtype, const cpu_product *product, int threads,
                     cpu_product_room *room);
bool cpu_product_half(const tern_call *call, int dtype, const cpu_product *product, int threads,
                      cpu_product_room *room);
/* One product by own kernels on the calling thread. Dtypes f32, f64, f16, bf16. */
void cpu_product_alone(int dtype, const cpu_product *product, void *piece);
int64_t cpu_product_piece_bytes(int dtype, const cpu_product *product);
/* How many threads `count` such products should use. */
int cpu_product_threads(const tern_call *call, int dtype, const cpu_product *product,
                        int64_t count);
/* Rows [begin, end) of C, or its columns. */
cpu_product cpu_product_part(const cpu_product *product, int dtype, bool by_rows, int64_t begin,
                             int64_t end);

/* Own kernels, one thread. `scratch`: cpu_gemm_scratch(...) bytes, aligned to 64. */
CPU_ISA_DECLARE(void, cpu_gemm_f32, const cpu_product *product, void *scratch);
CPU_ISA_DECLARE(void, cpu_gemm_f64, const cpu_product *product, void *scratch);
/* Half types; `scratch`: cpu_half_sizes_of(...).floats floats. By f32 arithmetic (step 1), or bf16 by
 * AVX512-BF16 (pairs, step 2), where cpu_half_native says so. */
CPU_ISA_DECLARE(void, cpu_gemm_f16, const cpu_product *product, void *scratch);
CPU_ISA_DECLARE(void, cpu_gemm_bf16, const cpu_product *product, void *scratch);
CPU_ISA_DECLARE(void, cpu_gemm_bf16_pairs, const cpu_product *product, void *scratch);

/* Block sizes: a packed block of B fills half of a 1 MiB second-level cache. All instruction sets'
 * tiles (8 x 48 elements and less) divide them. */
enum { CPU_GEMM_KC = 256, CPU_GEMM_NC = 480, CPU_GEMM_MC = 96, CPU_GEMM_ALIGN = 48 };

/* Elements of scratch for a product of these sizes. */
static inline int64_t cpu_gemm_scratch(int64_t m, int64_t n, int64_t k)
{
    const int64_t kc = k < CPU_GEMM_KC ? k : CPU_GEMM_KC;
    const int64_t mc = m < CPU_GEMM_MC ? m : CPU_GEMM_MC;
    const int64_t columns = (n + CPU_GEMM_ALIGN - 1) / CPU_GEMM_ALIGN * CPU_GEMM_ALIGN;
    const int64_t nc = columns < CPU_GEMM_NC ? columns : CPU_GEMM_NC;
    return kc * (nc + mc) + 16;
}

/* How a product of half types is cut. */
typedef struct cpu_half_sizes {
    int64_t kc, columns; /* of a packed block of B, in elements of 4 bytes */
    int64_t range;       /* rows of A whose sums wait for the next block of k */
    bool waits;
    int64_t floats; /* of scratch */
} cpu_half_sizes;
enum { CPU_HALF_SUMS = 1 << 17, CPU_HALF_STRIP = 8 };

static inline cpu_half_sizes cpu_half_sizes_of(int64_t m, int64_t n, int64_t k, int64_t step)
{
    cpu_half_sizes s = { .kc = (k + step - 1) / step, .range = m };
    s.columns = (n + CPU_GEMM_ALIGN - 1) / CPU_GEMM_ALIGN * CPU_GEMM_ALIGN;
    s.columns = s.columns < CPU_GEMM_NC ? s.columns : CPU_GEMM_NC;
    s.waits = s.kc > CPU_GEMM_KC;
    s.kc = s.waits ? CPU_GEMM_KC : s.kc;
    const int64_t most = CPU_HALF_SUMS / (s.columns + 1) / CPU_HALF_STRIP * CPU_HALF_STRIP;
    if (s.waits && m > most)
        s.range = most;
    const int64_t rows = s.waits ? s.range : CPU_HALF_STRIP;
    s.floats = s.kc * (s.columns + CPU_HALF_STRIP) + (rows + 1) * s.columns + 16;
    return s;
}

#endif
