/* f16 and bf16 as bits, for the simulator's headers and its libraries: ties to even, subnormals kept,
 * as the toolkit's conversions (NaN payloads may differ). C and C++. */
#ifndef TERN_SIM_HALF_H
#define TERN_SIM_HALF_H

#include <stdint.h>
#include <string.h>

static inline float sim_half_to_float(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000u) << 16;
    const uint32_t body = x & 0x7FFFu;
    uint32_t bits;
    if (body >= 0x7C00u) {
        bits = sign | 0x7F800000u | (body & 0x3FFu) << 13;
    } else if (body >= 0x0400u) {
        bits = sign | ((body << 13) + 0x38000000u);
    } else {
        const float small = (float)body * 0x1p-24f;
        memcpy(&bits, &small, sizeof bits);
        bits |= sign;
    }
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint16_t sim_float_to_half(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t body = bits & 0x7FFFFFFFu;
    uint32_t half;
    if (body > 0x7F800000u) {
        half = 0x7FFFu;
    } else if (body >= 0x477FF000u) { /* 65520 and more round to infinity */
        half = 0x7C00u;
    } else if (body >= 0x38800000u) {
        half = (body - 0x38000000u + 0xFFFu + (body >> 13 & 1u)) >> 13;
    } else {
        /* the sum's last place is 2^-24, so that the addition rounds as a subnormal half does */
        float size;
        memcpy(&size, &body, sizeof size);
        size += 0.5f;
        memcpy(&half, &size, sizeof half);
        half -= 0x3F000000u;
    }
    return (uint16_t)(sign | half);
}

static inline float sim_bf16_to_float(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint16_t sim_float_to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return 0x7FFFu;
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

#endif
