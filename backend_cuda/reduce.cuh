/* Reductions over a warp and a block; every kernel's come from here. */
#ifndef TERN_BACKEND_CUDA_REDUCE_CUH
#define TERN_BACKEND_CUDA_REDUCE_CUH

#include "backend_cuda/types.cuh"

namespace cuda
{

constexpr unsigned FULL_MASK = 0xFFFFFFFFu;

/* The sum of all lanes, in every lane; always added in the same order. */
template <typename T> __device__ __forceinline__ T warp_sum(T x)
{
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_xor_sync(FULL_MASK, x, d);
    return x;
}

/* NaN if one is. */
template <typename T> __device__ __forceinline__ T warp_max(T x)
{
    for (int d = 16; d > 0; d /= 2) {
        const T other = __shfl_xor_sync(FULL_MASK, x, d);
        x = other > x || other != other ? other : x;
    }
    return x;
}

/* cells[0] becomes all threads' cells merged, in the order of threads; C has merge(const C &). For a
 * block of BLOCK threads, all of which call it; thread 0 may read cells[0] afterwards. */
template <typename C> __device__ __forceinline__ void block_merge(C *cells, const C &own)
{
    const int t = (int)threadIdx.x;
    cells[t] = own;
    __syncthreads();
    if (t >= 32)
        return;
    C sum = cells[t * (BLOCK / 32)];
    for (int i = 1; i < BLOCK / 32; i++)
        sum.merge(cells[t * (BLOCK / 32) + i]);
    __syncwarp(FULL_MASK);
    cells[t] = sum;
    __syncwarp(FULL_MASK);
    if (t != 0)
        return;
    for (int i = 1; i < 32; i++)
        sum.merge(cells[i]);
    cells[0] = sum;
}

} // namespace cuda

#endif
