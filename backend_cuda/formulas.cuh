/* exp, log, sigmoid and tanh as the CPU's formulas have them, by type. */
#ifndef TERN_BACKEND_CUDA_FORMULAS_CUH
#define TERN_BACKEND_CUDA_FORMULAS_CUH

#include <cuda_runtime.h>

#define FORMULA static __device__ __forceinline__
#include "backend_cpu/formulas.h"

namespace cuda
{

static __device__ __forceinline__ float exp_of(float x)
{
    return f32_exp(x);
}
static __device__ __forceinline__ double exp_of(double x)
{
    return f64_exp(x);
}
static __device__ __forceinline__ float log_of(float x)
{
    return f32_log(x);
}
static __device__ __forceinline__ double log_of(double x)
{
    return f64_log(x);
}
static __device__ __forceinline__ float sigmoid_of(float x)
{
    return f32_sigmoid(x);
}
static __device__ __forceinline__ double sigmoid_of(double x)
{
    return f64_sigmoid(x);
}
static __device__ __forceinline__ float tanh_of(float x)
{
    return f32_tanh(x);
}
static __device__ __forceinline__ double tanh_of(double x)
{
    return f64_tanh(x);
}

} // namespace cuda

#endif
