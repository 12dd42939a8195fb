/* Uniform draws on the device: element i of a draw depends on (seed, draw, i) alone. */
#ifndef TERN_BACKEND_CUDA_PHILOX_CUH
#define TERN_BACKEND_CUDA_PHILOX_CUH

#include "backend_cuda/types.cuh"
#define inline inline __device__
#include "core/philox.h"
#undef inline

namespace cuda
{

/* In units of 2^-24. */
static __device__ __forceinline__ uint32_t uniform24(uint64_t seed, uint64_t draw, int64_t i)
{
    uint32_t lanes[4];
    core_philox(seed, draw, (uint64_t)i / 4, lanes);
    return lanes[i % 4] >> 8;
}

} // namespace cuda

#endif
