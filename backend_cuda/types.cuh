/* Types of kernels: what lies in memory (S), what is computed with (T), and launches. */
#ifndef TERN_BACKEND_CUDA_TYPES_CUH
#define TERN_BACKEND_CUDA_TYPES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "tern/base.h"

namespace cuda
{

constexpr int BLOCK = 256; /* threads of most kernels: full occupancy at up to 32 registers */

/* Storage types: C++ has one per dtype but for bool, which is not u8 (1 + 1 is 1). */
struct bool8 {
    uint8_t value;
};

template <typename S> struct real_of;
template <> struct real_of<float> {
    using type = float;
};
template <> struct real_of<double> {
    using type = double;
};
template <> struct real_of<__half> {
    using type = float;
};
template <> struct real_of<__nv_bfloat16> {
    using type = float;
};
/* The type that a float is computed in: half types accumulate in f32. */
template <typename S> using real = typename real_of<S>::type;

__host__ __device__ __forceinline__ float widen(float x)
{
    return x;
}
__host__ __device__ __forceinline__ double widen(double x)
{
    return x;
}
__host__ __device__ __forceinline__ float widen(__half x)
{
    return __half2float(x);
}
__host__ __device__ __forceinline__ float widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

/* narrow<S>(x): rounded once to what memory holds. On the host too, for numbers that a launcher passes. */
template <typename S> struct narrow_to {
    template <typename T> static __host__ __device__ __forceinline__ S run(T x)
    {
        return (S)x;
    }
};
template <> struct narrow_to<__half> {
    template <typename T> static __host__ __device__ __forceinline__ __half run(T x)
    {
        return __float2half_rn((float)x);
    }
};
template <> struct narrow_to<__nv_bfloat16> {
    template <typename T> static __host__ __device__ __forceinline__ __nv_bfloat16 run(T x)
    {
        return __float2bfloat16_rn((float)x);
    }
};
template <typename S, typename T> __host__ __device__ __forceinline__ S narrow(T x)
{
    return narrow_to<S>::run(x);
}

/* ---- launches -------------------------------------------------------------------------------- */

inline cudaLaunchConfig_t shape(int64_t blocks, int threads, cudaStream_t stream)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.stream = stream;
    return config;
}

/* Blocks so that each thread takes one of `count` items; kernels loop over what is left. */
inline cudaLaunchConfig_t shape_for(int64_t count, cudaStream_t stream)
{
    const int64_t blocks = (count + BLOCK - 1) / BLOCK;
    return shape(blocks < (1 << 20) ? blocks : (1 << 20), BLOCK, stream);
}

/* This thread's number in the grid, and the number of threads. */
__device__ __forceinline__ int64_t first_item()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t item_step()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* cuda::float_switch(dtype, [](auto zero) { using S = decltype(zero); ... }); dtypes that the op's row
 * does not take never get here. */
template <typename F> inline cudaError_t float_switch(int dtype, F run)
{
    switch (dtype) {
    case TERN_F16:
        return run(__half{});
    case TERN_BF16:
        return run(__nv_bfloat16{});
    case TERN_F32:
        return run(float{});
    case TERN_F64:
        return run(double{});
    default:
        return cudaErrorInvalidValue;
    }
}

template <typename F> inline cudaError_t integer_switch(int dtype, F run)
{
    switch (dtype) {
    case TERN_U8:
        return run(uint8_t{});
    case TERN_I8:
        return run(int8_t{});
    case TERN_I16:
        return run(int16_t{});
    case TERN_I32:
        return run(int32_t{});
    case TERN_I64:
        return run(int64_t{});
    default:
        return cudaErrorInvalidValue;
    }
}

/* What a thread moves of elements that lie beside each other. */
struct alignas(16) bytes16 {
    uint64_t at[2];
};

/* By size alone: moves of elements. */
template <typename F> inline cudaError_t size_switch(int64_t bytes, F run)
{
    switch (bytes) {
    case 1:
        return run(uint8_t{});
    case 2:
        return run(uint16_t{});
    case 4:
        return run(uint32_t{});
    default:
        return run(uint64_t{});
    }
}

} // namespace cuda

#endif
