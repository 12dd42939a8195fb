/* Half precision for kernels on simulated devices: storage and conversions, bit for bit the
 * toolkit's (ties to even, subnormals kept; NaN payloads may differ). */
#ifndef TERN_SIM_CUDA_FP16_H
#define TERN_SIM_CUDA_FP16_H

#include <cuda_runtime.h>

#include <string.h>

struct __half {
    unsigned short x;
};

static inline float __half2float(__half h)
{
    const uint32_t sign = (uint32_t)(h.x & 0x8000u) << 16;
    const uint32_t body = h.x & 0x7FFFu;
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

static inline __half __float2half_rn(float f)
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
    __half h;
    h.x = (unsigned short)(sign | half);
    return h;
}

#endif
