/* rand, randn, randint, bernoulli, dropout: element i of a draw depends on (seed, draw, i) alone (docs/design/random.md), so
 * that every device makes the same numbers. A thread makes one element; Philox is cheaper than the
 * memory it would save. */
#include <string.h>

#include "backend_cuda/fault.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/philox.cuh"

using namespace cuda;

static __device__ __forceinline__ uint64_t bits64(const uint32_t *lanes)
{
    return (uint64_t)lanes[1] << 32 | lanes[0];
}

static __device__ __forceinline__ void uniform(float *out, uint64_t seed, uint64_t draw, int64_t i)
{
    *out = (float)uniform24(seed, draw, i) * 0x1p-24f;
}
/* As many bits as a half type has below 1; rounding an f32 could give 1. */
static __device__ __forceinline__ void uniform(__half *out, uint64_t seed, uint64_t draw, int64_t i)
{
    *out = __float2half_rn((float)(uniform24(seed, draw, i) >> 13) * 0x1p-11f);
}
static __device__ __forceinline__ void uniform(__nv_bfloat16 *out, uint64_t seed, uint64_t draw,
                                               int64_t i)
{
    *out = __float2bfloat16_rn((float)(uniform24(seed, draw, i) >> 16) * 0x1p-8f);
}
static __device__ __forceinline__ void uniform(double *out, uint64_t seed, uint64_t draw, int64_t i)
{
    uint32_t lanes[4];
    core_philox(seed, draw, (uint64_t)i / 2, lanes);
    *out = (double)(bits64(lanes + 2 * (i % 2)) >> 11) * 0x1p-53;
}

static __device__ __forceinline__ double turn(double r, double turns, bool odd)
{
    const double angle = turns * 6.28318530717958647692;
    return r * (odd ? sin(angle) : cos(angle));
}

/* Box-Muller in double: rounded once within 2 ulp of each other on all devices, f64 within about 5. */
template <typename S>
static __device__ __forceinline__ void normal(S *out, uint64_t seed, uint64_t draw, int64_t i)
{
    uint32_t lanes[4];
    core_philox(seed, draw, (uint64_t)i / 4, lanes);
    const int pair = 2 * (int)(i / 2 % 2);
    const double u = ((double)lanes[pair] + 0.5) * 0x1p-32;
    const double x = turn(sqrt(-2.0 * log(u)), (double)lanes[pair + 1] * 0x1p-32, i % 2 != 0);
    *out = narrow<S>((float)x);
}
template <>
__device__ __forceinline__ void normal(double *out, uint64_t seed, uint64_t draw, int64_t i)
{
    uint32_t lanes[4];
    core_philox(seed, draw, (uint64_t)i / 2, lanes);
    const double u = (double)((bits64(lanes) >> 11) + 1) * 0x1p-53;
    *out = turn(sqrt(-2.0 * log(u)), (double)(bits64(lanes + 2) >> 11) * 0x1p-53, i % 2 != 0);
}

template <typename S>
__global__ void __launch_bounds__(BLOCK) k_rand(S *out, uint64_t seed, uint64_t draw, int64_t n)
{
    for (int64_t i = first_item(); i < n; i += item_step())
        uniform(out + i, seed, draw, i);
}

template <typename S>
__global__ void __launch_bounds__(BLOCK) k_randn(S *out, uint64_t seed, uint64_t draw, int64_t n)
{
    for (int64_t i = first_item(); i < n; i += item_step())
        normal(out + i, seed, draw, i);
}

__global__ void __launch_bounds__(BLOCK)
    k_randint(int64_t *out, uint64_t seed, uint64_t draw, int64_t low, uint64_t range, int64_t n)
{
    for (int64_t i = first_item(); i < n; i += item_step()) {
        uint32_t lanes[4];
        core_philox(seed, draw, (uint64_t)i / 2, lanes);
        const uint64_t below = __umul64hi(bits64(lanes + 2 * (i % 2)), range);
        out[i] = (int64_t)((uint64_t)low + below);
    }
}

static __device__ __forceinline__ long long double_bits(double x)
{
    long long bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_bernoulli(S *out, const S *p, uint64_t seed, uint64_t draw, int64_t n, cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < n; i += item_step()) {
        real<S> u;
        const real<S> chance = widen(p[i]);
        uniform(&u, seed, draw, i);
        if (!(chance >= 0 && chance <= 1))
            note_fault(slot, CUDA_FAULT_CHANCE, double_bits((double)chance), i, 0);
        out[i] = narrow<S>((real<S>)(u < chance ? 1 : 0));
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_dropout(S *out, uint8_t *mask, const S *x, uint64_t seed, uint64_t draw, int32_t least,
              real<S> scale, int64_t n)
{
    for (int64_t i = first_item(); i < n; i += item_step()) {
        const bool stays = (int32_t)uniform24(seed, draw, i) >= least;
        mask[i] = stays;
        out[i] = stays ? narrow<S>(widen(x[i]) * scale) : narrow<S>((real<S>)0);
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_dropout_grad(S *out, const S *grad, const uint8_t *mask, real<S> scale, int64_t n)
{
    for (int64_t i = first_item(); i < n; i += item_step())
        out[i] = mask[i] != 0 ? narrow<S>(widen(grad[i]) * scale) : narrow<S>((real<S>)0);
}

extern "C" cudaError_t cuda_launch_rand(void *out, int dtype, uint64_t seed, uint64_t draw,
                                        int64_t n, cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(n, stream);
        return cudaLaunchKernelEx(&c, k_rand<S>, (S *)out, seed, draw, n);
    });
}

extern "C" cudaError_t cuda_launch_randn(void *out, int dtype, uint64_t seed, uint64_t draw,
                                         int64_t n, cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(n, stream);
        return cudaLaunchKernelEx(&c, k_randn<S>, (S *)out, seed, draw, n);
    });
}

extern "C" cudaError_t cuda_launch_randint(int64_t *out, uint64_t seed, uint64_t draw, int64_t low,
                                           uint64_t range, int64_t n, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for(n, stream);
    return cudaLaunchKernelEx(&c, k_randint, out, seed, draw, low, range, n);
}

extern "C" cudaError_t cuda_launch_bernoulli(void *out, const void *p, int dtype, uint64_t seed,
                                             uint64_t draw, int64_t n, cuda_fault_slot *slot,
                                             cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(n, stream);
        return cudaLaunchKernelEx(&c, k_bernoulli<S>, (S *)out, (const S *)p, seed, draw, n, slot);
    });
}

extern "C" cudaError_t cuda_launch_dropout(void *out, uint8_t *mask, const void *x, int dtype,
                                           uint64_t seed, uint64_t draw, int32_t least,
                                           double scale, int64_t n, cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(n, stream);
        return cudaLaunchKernelEx(&c, k_dropout<S>, (S *)out, mask, (const S *)x, seed, draw, least,
                                  (real<S>)scale, n);
    });
}

extern "C" cudaError_t cuda_launch_dropout_grad(void *out, const void *grad, const uint8_t *mask,
                                                int dtype, double scale, int64_t n,
                                                cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(n, stream);
        return cudaLaunchKernelEx(&c, k_dropout_grad<S>, (S *)out, (const S *)grad, mask,
                                  (real<S>)scale, n);
    });
}
