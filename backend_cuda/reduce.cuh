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

/* x of the lane whose number differs in the bits of `lanes`. */
template <typename T> __device__ __forceinline__ T shuffled(T x, int lanes)
{
    return __shfl_xor_sync(FULL_MASK, x, lanes);
}

/* All lanes' cells merged, always in the same order; of use in lane 0. C has merge(const C &), and across(lanes): the
 * cell of another lane, as shuffled's. */
template <typename C> __device__ __forceinline__ C warp_merge(C own)
{
    for (int d = 16; d > 0; d /= 2)
        own.merge(own.across(d));
    return own;
}

/* cells[0] becomes all threads' cells merged, always in the same order. For a block of BLOCK threads, all of
 * which call it; cells: one per warp. Thread 0 may read cells[0] afterwards. */
template <typename C> __device__ __forceinline__ void block_merge(C *cells, const C &own)
{
    C sum = warp_merge(own);
    if (threadIdx.x % 32 == 0)
        cells[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int w = 1; w < BLOCK / 32; w++)
        sum.merge(cells[w]);
    cells[0] = sum;
}

} // namespace cuda

#endif
