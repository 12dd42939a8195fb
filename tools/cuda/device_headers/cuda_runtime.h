/* The kernel language for `clang++ -x cuda --cuda-device-only` without a toolkit (tools/cuda/check_device.sh):
 * declarations alone, so that a call of a host function in a kernel is an error. The simulator cannot
 * see that, since all of its functions are the host's. */
#ifndef TERN_LINT_CUDA_RUNTIME_H
#define TERN_LINT_CUDA_RUNTIME_H

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))

#include <cuda_runtime_api.h>

#include <math.h>
#include <string.h>
#include <type_traits>

extern const __device__ uint3 threadIdx, blockIdx;
extern const __device__ dim3 blockDim, gridDim;
constexpr int warpSize = 32;

__device__ void __syncthreads();
__device__ void __syncwarp(unsigned mask = 0xffffffffu);
__device__ void __threadfence();
__device__ void __threadfence_block();
__device__ void __threadfence_system();
__device__ unsigned __ballot_sync(unsigned mask, int test);
__device__ int __any_sync(unsigned mask, int test);
__device__ int __all_sync(unsigned mask, int test);
__device__ int __popc(unsigned x);
__device__ unsigned __umulhi(unsigned a, unsigned b);
__device__ float exp2f(float x);
__device__ void __trap(void);
__device__ size_t __cvta_generic_to_shared(const void *p);
__device__ unsigned long long __umul64hi(unsigned long long a, unsigned long long b);
__device__ double __dadd_rn(double a, double b);
__device__ double __dmul_rn(double a, double b);
__device__ float __fmul_rn(float a, float b);
template <typename T> __device__ T __shfl_sync(unsigned mask, T value, int lane, int width = 32);
template <typename T>
__device__ T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32);
template <typename T>
__device__ T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32);
template <typename T>
__device__ T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32);
template <typename T> __device__ T __ldg(const T *at);

/* clang-format off */
/* Those types alone that the hardware has. */
#define LINT_ATOMICS(T)                     \
    __device__ T atomicAdd(T *at, T value); \
    __device__ T atomicExch(T *at, T value);
LINT_ATOMICS(int)
LINT_ATOMICS(unsigned)
LINT_ATOMICS(unsigned long long)
LINT_ATOMICS(float)
__device__ double atomicAdd(double *at, double value);
#define LINT_ATOMIC_INTEGERS(T)             \
    __device__ T atomicMax(T *at, T value); \
    __device__ T atomicMin(T *at, T value); \
    __device__ T atomicOr(T *at, T value);  \
    __device__ T atomicCAS(T *at, T expected, T value); \
    __device__ T atomicCAS_system(T *at, T expected, T value);
LINT_ATOMIC_INTEGERS(int)
LINT_ATOMIC_INTEGERS(unsigned)
LINT_ATOMIC_INTEGERS(unsigned long long)

#define LINT_MATH(name)               \
    __device__ double name(double x); \
    __device__ float name##f(float x);
LINT_MATH(sqrt)
LINT_MATH(exp) LINT_MATH(log) LINT_MATH(tanh) LINT_MATH(fabs) LINT_MATH(floor) LINT_MATH(ceil)
    LINT_MATH(erf) LINT_MATH(erfc) LINT_MATH(rsqrt) LINT_MATH(log1p) LINT_MATH(expm1)
        LINT_MATH(rint) LINT_MATH(sin) LINT_MATH(cos) LINT_MATH(cospi) LINT_MATH(sinpi)
            LINT_MATH(trunc) LINT_MATH(tan) LINT_MATH(asin) LINT_MATH(acos) LINT_MATH(atan)
                LINT_MATH(sinh) LINT_MATH(cosh) LINT_MATH(log2) LINT_MATH(log10)
#undef LINT_MATH
#define LINT_MATH(name)                         \
    __device__ double name(double x, double y); \
    __device__ float name##f(float x, float y);
            LINT_MATH(pow) LINT_MATH(fmax) LINT_MATH(fmin) LINT_MATH(fmod) LINT_MATH(copysign)
                LINT_MATH(atan2) LINT_MATH(hypot)
#undef LINT_MATH
    /* clang-format on */
    __device__ double fma(double x, double y, double z);
__device__ float fmaf(float x, float y, float z);
__device__ void *memcpy(void *to, const void *from, size_t bytes);

template <typename... P, typename... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...args);

#endif
