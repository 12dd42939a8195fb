/* See cuda_runtime.h in this folder. */
#ifndef TERN_LINT_CUDA_FP16_H
#define TERN_LINT_CUDA_FP16_H

#include <cuda_runtime.h>

struct __half {
    unsigned short x;
};
__host__ __device__ float __half2float(__half h);
__host__ __device__ __half __float2half_rn(float f);

#endif
