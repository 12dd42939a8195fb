/* Kernels' side of walk.h. */
#ifndef TERN_BACKEND_CUDA_WALK_CUH
#define TERN_BACKEND_CUDA_WALK_CUH

#include "backend_cuda/types.cuh"
#include "backend_cuda/walk.h"

namespace cuda
{

/* i / d; i is not negative. */
__device__ __forceinline__ int64_t quotient(int64_t i, const cuda_divisor &d)
{
    return d.shift >= 0
               ? (int64_t)(((uint64_t)__umulhi((uint32_t)i, d.magic) + (uint32_t)i) >> d.shift)
               : i / d.number;
}

/* Element offsets of N operands at linear position i, among the dimensions from `first` on. */
template <int N>
__device__ __forceinline__ void offsets(const cuda_walk &w, uint32_t i, int64_t (&at)[N],
                                        int first = 0)
{
    for (int k = 0; k < N; k++)
        at[k] = 0;
/* Of three dimensions at most, as a rule: what nvcc would unroll by four is not reached, and half of the code. */
#pragma unroll 1
    for (int d = first; d < w.ndim; d++) {
        const uint32_t next = (uint32_t)(((uint64_t)__umulhi(i, w.magic[d]) + i) >> w.shift[d]);
        const uint32_t index = i - next * w.shape[d];
        i = next;
        for (int k = 0; k < N; k++)
            at[k] += (int64_t)index * w.stride[d][k];
    }
}

} // namespace cuda

#endif
