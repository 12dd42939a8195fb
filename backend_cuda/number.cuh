/* What sums and products are computed in: half types in f32, integers and bool in i64. */
#ifndef TERN_BACKEND_CUDA_NUMBER_CUH
#define TERN_BACKEND_CUDA_NUMBER_CUH

#include "backend_cuda/types.cuh"

namespace cuda
{

template <typename S> __device__ __forceinline__ int64_t number_of(S x)
{
    return (int64_t)x;
}
__device__ __forceinline__ int64_t number_of(bool8 x)
{
    return x.value;
}
__device__ __forceinline__ float number_of(float x)
{
    return x;
}
__device__ __forceinline__ double number_of(double x)
{
    return x;
}
__device__ __forceinline__ float number_of(__half x)
{
    return widen(x);
}
__device__ __forceinline__ float number_of(__nv_bfloat16 x)
{
    return widen(x);
}

} // namespace cuda

#endif
