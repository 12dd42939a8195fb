/* Transposes of 1, 2, 4 and 8 byte elements.
 *
 * A vector holds LANES pieces of 16 bytes, each from another row: piece p of vector k comes from
 * row k + p * (elements per piece). Interleaving neighbours log2(elements) times then transposes
 * all pieces at once without crossing lanes, and each result is a run of an output row. */
#include "backend_cpu/transpose.h"

#if defined(__AVX2__)
enum { LANES = 2 };
#define LOW_4(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_4(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_8(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define HIGH_8(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#define LOW_2(a, b) \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27)
#define HIGH_2(a, b) \
    __builtin_shufflevector(a, b, 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31)
#else
enum { LANES = 1 };
#define LOW_4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LOW_8(a, b) __builtin_shufflevector(a, b, 0, 2)
#define HIGH_8(a, b) __builtin_shufflevector(a, b, 1, 3)
#define LOW_2(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_2(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#endif

typedef uint16_t vector_2 __attribute__((vector_size(16 * LANES)));
typedef uint32_t vector_4 __attribute__((vector_size(16 * LANES)));
typedef uint64_t vector_8 __attribute__((vector_size(16 * LANES)));

/* One interleaving step over N vectors: k meets k + N / 2. */
#define STEP(bytes, N, to, from)                                \
    for (int k = 0; k < N / 2; k++) {                           \
        to[2 * k] = LOW_##bytes(from[k], from[k + N / 2]);      \
        to[2 * k + 1] = HIGH_##bytes(from[k], from[k + N / 2]); \
    }

/* N rows per piece, `steps` turns a into the result in `last`. */
#define BLOCK(bytes, N, steps, last)                                                              \
    static inline __attribute__((always_inline)) void block_##bytes(                              \
        char *out, int64_t out_stride, const char *in, int64_t in_stride)                         \
    {                                                                                             \
        vector_##bytes a[N], b[N];                                                                \
        (void)b;                                                                                  \
        for (int k = 0; k < N; k++) {                                                             \
            for (int p = 0; p < LANES; p++)                                                       \
                memcpy((char *)&a[k] + 16 * p, in + (k + p * N) * in_stride, 16);                 \
        }                                                                                         \
        steps for (int k = 0; k < N; k++) memcpy(out + k * out_stride, &last[k], sizeof last[k]); \
    }
BLOCK(2, 8, STEP(2, 8, b, a) STEP(2, 8, a, b) STEP(2, 8, b, a), b)
BLOCK(4, 4, STEP(4, 4, b, a) STEP(4, 4, a, b), a)
BLOCK(8, 2, STEP(8, 2, b, a), b)

static void edge(char *out, int64_t out_stride, const char *in, int64_t in_stride, int64_t ni,
                 int64_t nj, size_t size)
{
    for (int64_t j = 0; j < nj; j++) {
        for (int64_t i = 0; i < ni; i++)
            memcpy(out + j * out_stride + i * (int64_t)size, in + i * in_stride + j * (int64_t)size,
                   size);
    }
}

#define EDGE(bytes)                                                                            \
    static void edge_##bytes(char *out, int64_t out_stride, const char *in, int64_t in_stride, \
                             int64_t ni, int64_t nj)                                           \
    {                                                                                          \
        edge(out, out_stride, in, in_stride, ni, nj, bytes);                                   \
    }
EDGE(1)
EDGE(2)
EDGE(4)
EDGE(8)

/* Rows of a whole cache line at a time, so that a line of the output is written at once. */
#define TRANSPOSE(bytes)                                                                      \
    static void transpose_##bytes(char *out, int64_t out_stride, const char *in,              \
                                  int64_t in_stride, int64_t ni, int64_t nj)                  \
    {                                                                                         \
        enum { WIDE = 16 * LANES / bytes, COLUMNS = 16 / bytes };                             \
        const int64_t whole_i = ni - ni % WIDE, whole_j = nj - nj % COLUMNS;                  \
        for (int64_t i = 0; i < whole_i; i += 64 / bytes) {                                   \
            const int64_t end = i + 64 / bytes < whole_i ? i + 64 / bytes : whole_i;          \
            for (int64_t j = 0; j < whole_j; j += COLUMNS) {                                  \
                for (int64_t k = i; k < end; k += WIDE)                                       \
                    block_##bytes(out + j * out_stride + k * bytes, out_stride,               \
                                  in + k * in_stride + j * bytes, in_stride);                 \
            }                                                                                 \
        }                                                                                     \
        edge_##bytes(out + whole_j * out_stride, out_stride, in + whole_j * bytes, in_stride, \
                     whole_i, nj - whole_j);                                                  \
        edge_##bytes(out + whole_i * bytes, out_stride, in + whole_i * in_stride, in_stride,  \
                     ni - whole_i, nj);                                                       \
    }
TRANSPOSE(2)
TRANSPOSE(4)
TRANSPOSE(8)

const cpu_transpose_fn CPU_ISA_NAME(cpu_transposes)[4] = { edge_1, transpose_2, transpose_4,
                                                           transpose_8 };
