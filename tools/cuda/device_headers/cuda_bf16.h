/* See cuda_runtime.h in this folder. */
#ifndef TERN_LINT_CUDA_BF16_H
#define TERN_LINT_CUDA_BF16_H

#include <cuda_runtime.h>

struct __nv_bfloat16 {
    unsigned short x;
};
__host__ __device__ float __bfloat162float(__nv_bfloat16 h);
__host__ __device__ __nv_bfloat16 __float2bfloat16_rn(float f);

#endif
