/* Philox 4x32-10 (core/philox.h) for one block per 64-bit lane. Only for files in backend_cpu/isa/.
 *
 * A word of the state sits in the low half of its lane. What is in the high half does not
 * matter: the multiplication reads low halves only, and gives the product's two words without a
 * shuffle. */
#ifndef TERN_BACKEND_CPU_ISA_PHILOX_LANES_H
#define TERN_BACKEND_CPU_ISA_PHILOX_LANES_H

#include "backend_cpu/isa/lanes.h"

TILE_INLINE u64_lanes u64_lanes_product(u64_lanes a, uint32_t m)
{
#if defined(__AVX512F__)
    return (u64_lanes)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(m));
#elif defined(__AVX2__)
    return (u64_lanes)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(m));
#elif defined(__SSE2__)
    return (u64_lanes)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(m));
#else
    return (a & 0xFFFFFFFFu) * m;
#endif
}

/* Lane i of out[w]: word w of block first + i, below 32 bits of no meaning. `first` is a
 * multiple of the lanes, so that counting up carries nowhere. */
TILE_INLINE void u64_lanes_philox(uint64_t seed, uint64_t call, uint64_t first, u64_lanes out[4])
{
    const u64_lanes zero = { 0 };
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    u64_lanes c0 = (u64_lanes)f64_lanes_iota() + (uint64_t)(uint32_t)first;
    u64_lanes c1 = zero + (first >> 32);
    u64_lanes c2 = zero + (uint64_t)(uint32_t)call;
    u64_lanes c3 = zero + (call >> 32);
    TILE_UNROLL
    for (int round = 0; round < 10; round++) {
        const u64_lanes product0 = u64_lanes_product(c0, 0xD2511F53u);
        const u64_lanes product1 = u64_lanes_product(c2, 0xCD9E8D57u);
        c0 = (product1 >> 32) ^ c1 ^ (zero + k0);
        c2 = (product0 >> 32) ^ c3 ^ (zero + k1);
        c1 = product1;
        c3 = product0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

#endif
