/* bfloat16 for kernels on simulated devices: storage and conversions. */
#ifndef TERN_SIM_CUDA_BF16_H
#define TERN_SIM_CUDA_BF16_H

#include <cuda_runtime.h>
#include <sim_half.h>

struct __nv_bfloat16 {
    unsigned short x;
};

static inline float __bfloat162float(__nv_bfloat16 h)
{
    return sim_bf16_to_float(h.x);
}

static inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
    __nv_bfloat16 h;
    h.x = sim_float_to_bf16(f);
    return h;
}

#endif
