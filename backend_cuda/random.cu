/* rand, randn, randint, bernoulli, dropout: element i of a draw depends on (seed, draw, i) alone (docs/design/random.md), so
 * that every device makes the same numbers. A thread makes the four elements (two of eight bytes) that one Philox
 * block is for. */
#include <string.h>

#include "backend_cuda/fault.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/pack.cuh"
#include "backend_cuda/philox.cuh"

using namespace cuda;

/* Elements of a Philox block. */
template <typename S> constexpr int EACH = sizeof(S) == 8 ? 2 : 4;

static __device__ __forceinline__ uint64_t bits64(const uint32_t *lanes)
{
    return (uint64_t)lanes[1] << 32 | lanes[0];
}

/* Element k of the block. */
static __device__ __forceinline__ void uniform(float *out, const uint32_t *lanes, int k)
{
    *out = (float)(lanes[k] >> 8) * 0x1p-24f;
}
/* As many bits as a half type has below 1; rounding an f32 could give 1. */
static __device__ __forceinline__ void uniform(__half *out, const uint32_t *lanes, int k)
{
    *out = __float2half_rn((float)(lanes[k] >> 21) * 0x1p-11f);
}
static __device__ __forceinline__ void uniform(__nv_bfloat16 *out, const uint32_t *lanes, int k)
{
    *out = __float2bfloat16_rn((float)(lanes[k] >> 24) * 0x1p-8f);
}
static __device__ __forceinline__ void uniform(double *out, const uint32_t *lanes, int k)
{
    *out = (double)(bits64(lanes + 2 * k) >> 11) * 0x1p-53;
}

/* Box-Muller in double: rounded once within 2 ulp of each other on all devices, f64 within about 5. */
static __device__ __forceinline__ void pair_of(double u, double turns, double *out)
{
    const double r = sqrt(-2.0 * log(u)), angle = turns * 6.28318530717958647692;
    out[0] = r * cos(angle);
    out[1] = r * sin(angle);
}

template <typename S> static __device__ __forceinline__ void normals(S *out, const uint32_t *lanes)
{
    for (int k = 0; k < 4; k += 2) {
        double two[2];
        pair_of(((double)lanes[k] + 0.5) * 0x1p-32, (double)lanes[k + 1] * 0x1p-32, two);
        out[k] = narrow<S>((float)two[0]);
        out[k + 1] = narrow<S>((float)two[1]);
    }
}
static __device__ __forceinline__ void normals(double *out, const uint32_t *lanes)
{
    pair_of((double)((bits64(lanes) >> 11) + 1) * 0x1p-53,
            (double)(bits64(lanes + 2) >> 11) * 0x1p-53, out);
}

template <typename S>
__global__ void __launch_bounds__(BLOCK) k_rand(S *out, uint64_t seed, uint64_t draw, int64_t n)
{
    for (int64_t b = first_item(); b * EACH<S> < n; b += item_step()) {
        uint32_t lanes[4];
        pack<S, EACH<S>> made;
        core_philox(seed, draw, (uint64_t)b, lanes);
        for (int k = 0; k < EACH<S>; k++)
            uniform(made.at + k, lanes, k);
        store_pack(out + b * EACH<S>, n - b * EACH<S>, made);
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK) k_randn(S *out, uint64_t seed, uint64_t draw, int64_t n)
{
    for (int64_t b = first_item(); b * EACH<S> < n; b += item_step()) {
        uint32_t lanes[4];
        pack<S, EACH<S>> made;
        core_philox(seed, draw, (uint64_t)b, lanes);
        normals(made.at, lanes);
        store_pack(out + b * EACH<S>, n - b * EACH<S>, made);
    }
}

__global__ void __launch_bounds__(BLOCK)
    k_randint(int64_t *out, uint64_t seed, uint64_t draw, int64_t low, uint64_t range, int64_t n)
{
    for (int64_t b = first_item(); b * 2 < n; b += item_step()) {
        uint32_t lanes[4];
        pack<int64_t, 2> made;
        core_philox(seed, draw, (uint64_t)b, lanes);
        for (int k = 0; k < 2; k++)
            made.at[k] = (int64_t)((uint64_t)low + __umul64hi(bits64(lanes + 2 * k), range));
        store_pack(out + b * 2, n - b * 2, made);
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
    constexpr int N = EACH<S>;
    for (int64_t b = first_item(); b * N < n; b += item_step()) {
        uint32_t lanes[4];
        const int64_t i = b * N;
        const pack<S, N> chances = load_pack<S, N>(p + i, n - i);
        pack<S, N> made;
        core_philox(seed, draw, (uint64_t)b, lanes);
        for (int k = 0; k < N; k++) {
            real<S> u;
            const real<S> chance = widen(chances.at[k]);
            uniform(&u, lanes, k);
            if (!(chance >= 0 && chance <= 1))
                note_fault(slot, CUDA_FAULT_CHANCE, double_bits((double)chance), i + k, 0);
            made.at[k] = narrow<S>((real<S>)(u < chance ? 1 : 0));
        }
        store_pack(out + i, n - i, made);
    }
}

/* Blocks of four for all: f64, too, draws 24 bits per element. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_dropout(S *out, uint8_t *mask, const S *x, uint64_t seed, uint64_t draw, int32_t least,
              real<S> scale, int64_t n)
{
    for (int64_t b = first_item(); b * 4 < n; b += item_step()) {
        uint32_t lanes[4];
        const int64_t i = b * 4;
        pack<S, 4> some = load_pack<S, 4>(x + i, n - i);
        pack<uint8_t, 4> stays;
        core_philox(seed, draw, (uint64_t)b, lanes);
        for (int k = 0; k < 4; k++) {
            stays.at[k] = (int32_t)(lanes[k] >> 8) >= least;
            some.at[k] = stays.at[k] ? narrow<S>(widen(some.at[k]) * scale) : narrow<S>((real<S>)0);
        }
        store_pack(mask + i, n - i, stays);
        store_pack(out + i, n - i, some);
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_dropout_grad(S *out, const S *grad, const uint8_t *mask, real<S> scale, int64_t n)
{
    for (int64_t i = first_item() * 4; i < n; i += item_step() * 4) {
        pack<S, 4> some = load_pack<S, 4>(grad + i, n - i);
        const pack<uint8_t, 4> stays = load_pack<uint8_t, 4>(mask + i, n - i);
        for (int k = 0; k < 4; k++)
            some.at[k] = stays.at[k] ? narrow<S>(widen(some.at[k]) * scale) : narrow<S>((real<S>)0);
        store_pack(out + i, n - i, some);
    }
}

extern "C" cudaError_t cuda_launch_rand(void *out, int dtype, uint64_t seed, uint64_t draw,
                                        int64_t n, cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for((n + EACH<S> - 1) / EACH<S>, stream);
        return cudaLaunchKernelEx(&c, k_rand<S>, (S *)out, seed, draw, n);
    });
}

extern "C" cudaError_t cuda_launch_randn(void *out, int dtype, uint64_t seed, uint64_t draw,
                                         int64_t n, cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for((n + EACH<S> - 1) / EACH<S>, stream);
        return cudaLaunchKernelEx(&c, k_randn<S>, (S *)out, seed, draw, n);
    });
}

extern "C" cudaError_t cuda_launch_randint(int64_t *out, uint64_t seed, uint64_t draw, int64_t low,
                                           uint64_t range, int64_t n, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for((n + 1) / 2, stream);
    return cudaLaunchKernelEx(&c, k_randint, out, seed, draw, low, range, n);
}

extern "C" cudaError_t cuda_launch_bernoulli(void *out, const void *p, int dtype, uint64_t seed,
                                             uint64_t draw, int64_t n, cuda_fault_slot *slot,
                                             cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for((n + EACH<S> - 1) / EACH<S>, stream);
        return cudaLaunchKernelEx(&c, k_bernoulli<S>, (S *)out, (const S *)p, seed, draw, n, slot);
    });
}

extern "C" cudaError_t cuda_launch_dropout(void *out, uint8_t *mask, const void *x, int dtype,
                                           uint64_t seed, uint64_t draw, int32_t least,
                                           double scale, int64_t n, cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for((n + 3) / 4, stream);
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
        const cudaLaunchConfig_t c = shape_for((n + 3) / 4, stream);
        return cudaLaunchKernelEx(&c, k_dropout_grad<S>, (S *)out, (const S *)grad, mask,
                                  (real<S>)scale, n);
    });
}
