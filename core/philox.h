/* Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): 128 random
 * bits from a key and a counter. Inline, so that backends compile it into their kernels. */
#ifndef TERN_CORE_PHILOX_H
#define TERN_CORE_PHILOX_H

#include <stdint.h>

/* One of ten rounds on the counter c0..c3; k0, k1: this round's key, which becomes the next's. */
#define CORE_PHILOX_ROUND(c0, c1, c2, c3, k0, k1)              \
    do {                                                       \
        const uint64_t product0_ = (uint64_t)0xD2511F53u * c0; \
        const uint64_t product1_ = (uint64_t)0xCD9E8D57u * c2; \
        c0 = (uint32_t)(product1_ >> 32) ^ c1 ^ k0;            \
        c2 = (uint32_t)(product0_ >> 32) ^ c3 ^ k1;            \
        c1 = (uint32_t)product1_;                              \
        c3 = (uint32_t)product0_;                              \
        k0 += 0x9E3779B9u;                                     \
        k1 += 0xBB67AE85u;                                     \
    } while (0)
#define CORE_PHILOX_TWO(c0, c1, c2, c3, k0, k1)    \
    do {                                           \
        CORE_PHILOX_ROUND(c0, c1, c2, c3, k0, k1); \
        CORE_PHILOX_ROUND(c0, c1, c2, c3, k0, k1); \
    } while (0)

/* Key: seed. Counter: (block, call), low words first. */
static inline void core_philox(uint64_t seed, uint64_t call, uint64_t block, uint32_t out_bits[4])
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
    uint32_t c2 = (uint32_t)call, c3 = (uint32_t)(call >> 32);
    CORE_PHILOX_TWO(c0, c1, c2, c3, k0, k1);
    CORE_PHILOX_TWO(c0, c1, c2, c3, k0, k1);
    CORE_PHILOX_TWO(c0, c1, c2, c3, k0, k1);
    CORE_PHILOX_TWO(c0, c1, c2, c3, k0, k1);
    CORE_PHILOX_TWO(c0, c1, c2, c3, k0, k1);
    out_bits[0] = c0;
    out_bits[1] = c1;
    out_bits[2] = c2;
    out_bits[3] = c3;
}

#endif
