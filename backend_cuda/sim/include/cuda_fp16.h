/* Half precision for kernels on simulated devices: storage and conversions. */
#ifndef TERN_SIM_CUDA_FP16_H
#define TERN_SIM_CUDA_FP16_H

#include <cuda_runtime.h>
#include <sim_half.h>

struct __half {
    unsigned short x;
};

static inline float __half2float(__half h)
{
    return sim_half_to_float(h.x);
}

static inline __half __float2half_rn(float f)
{
    __half h;
    h.x = sim_float_to_half(f);
    return h;
}

#endif
