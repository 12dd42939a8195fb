/* dropout: which elements stay, and the multiplication. */
#include "backend_cpu/isa/philox_lanes.h"
#include "backend_cpu/rows.h"

typedef uint32_t half_lanes __attribute__((vector_size(TILE_BYTES / 2)));

/* The four elements of a block are the four bytes of a word of the mask, so nothing is reordered.
 * `least` is a bound on the top 24 of 32 bits. */
TILE_INLINE half_lanes mask_words(uint64_t seed, uint64_t call, uint64_t block, int32_t least)
{
    u64_lanes bits[4];
    u64_lanes_philox(seed, call, block, bits);
    u32_lanes words = { 0 };
    TILE_UNROLL
    for (int w = 0; w < 4; w++)
        words |= (u32_lanes)((i32_lanes)((u32_lanes)bits[w] >> 8) >= least) & (1u << 8 * w);
    return __builtin_convertvector((u64_lanes)words, half_lanes);
}

void CPU_ISA_NAME(cpu_dropout_mask)(uint8_t *mask, uint64_t seed, uint64_t call, int64_t first,
                                    int64_t n, int32_t least)
{
    enum { ELEMENTS = 4 * TILE_F64_LANES };
    int64_t i = 0;
    for (; i + ELEMENTS <= n; i += ELEMENTS) {
        const half_lanes words = mask_words(seed, call, (uint64_t)(first + i) / 4, least);
        memcpy(mask + i, &words, ELEMENTS);
    }
    if (i < n) {
        const half_lanes words = mask_words(seed, call, (uint64_t)(first + i) / 4, least);
        memcpy(mask + i, &words, (size_t)(n - i));
    }
}

#define DROPOUT_APPLY(T, suffix)                                                                   \
    void CPU_ISA_NAME(cpu_dropout_apply_##suffix)(T * y, const T *x, const uint8_t *mask, T scale, \
                                                  int64_t n)                                       \
    {                                                                                              \
        CPU_INDEPENDENT                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T kept = x[i] * scale;                                                           \
            y[i] = mask[i] != 0 ? kept : 0;                                                        \
        }                                                                                          \
    }
DROPOUT_APPLY(float, f32)
DROPOUT_APPLY(double, f64)
