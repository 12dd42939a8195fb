/* bfloat16 for kernels on simulated devices: storage and conversions. */
#ifndef TERN_SIM_CUDA_BF16_H
#define TERN_SIM_CUDA_BF16_H

#include <cuda_runtime.h>

#include <string.h>

struct __nv_bfloat16 {
    unsigned short x;
};

static inline float __bfloat162float(__nv_bfloat16 h)
{
    const uint32_t bits = (uint32_t)h.x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    __nv_bfloat16 h;
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        h.x = 0x7FFFu;
    else
        h.x = (unsigned short)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
    return h;
}

#endif
