/* fill, arange, linspace. A thread writes one element, of a fill without gaps 16 bytes. */
#include <type_traits>

#include "backend_cuda/launch.h"
#include "backend_cuda/pack.cuh"
#include "backend_cuda/walk.cuh"

using namespace cuda;

template <typename S>
__global__ void __launch_bounds__(BLOCK) k_fill_walk(S *out, S value, cuda_walk walk)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[1];
        offsets<1>(walk, (uint32_t)i, at);
        out[at[0]] = value;
    }
}

template <typename S> __global__ void __launch_bounds__(BLOCK) k_fill(S *out, S value, int64_t n)
{
    constexpr int N = 16 / (int)sizeof(S);
    pack<S, N> some;
    for (int k = 0; k < N; k++)
        some.at[k] = value;
    for (int64_t i = first_item() * N; i < n; i += item_step() * N)
        store_pack(out + i, n - i, some);
}

template <typename S>
static cudaError_t launch_fill(void *out, S value, const cuda_walk *walk, cudaStream_t stream)
{
    const int64_t n = walk->numel, each = 16 / (int64_t)sizeof(S);
    if (walk->ndim == 0 || (walk->ndim == 1 && walk->stride[0][0] == 1)) {
        const cudaLaunchConfig_t packs = shape_for((n + each - 1) / each, stream);
        return cudaLaunchKernelEx(&packs, k_fill<S>, (S *)out, value, n);
    }
    const cudaLaunchConfig_t c = shape_for(n, stream);
    return cudaLaunchKernelEx(&c, k_fill_walk<S>, (S *)out, value, *walk);
}

extern "C" cudaError_t cuda_launch_fill(void *out, int dtype, const tern_number *value,
                                        const cuda_walk *walk, cudaStream_t stream)
{
    if (dtype == TERN_BOOL) {
        const bool8 b = { (uint8_t)(value->kind == TERN_NUMBER_FLOAT ? value->f != 0
                                                                     : value->i != 0) };
        return launch_fill(out, b, walk, stream);
    }
    if (tern_dtype_is_float((tern_dtype_t)dtype))
        return float_switch(dtype, [&](auto zero) {
            using S = decltype(zero);
            return launch_fill(out, narrow<S>((real<S>)value->f), walk, stream);
        });
    return integer_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const int64_t whole = value->kind == TERN_NUMBER_FLOAT ? (int64_t)value->f : value->i;
        return launch_fill(out, (S)whole, walk, stream);
    });
}

/* The product is rounded first, as on the CPU: by one fma whole numbers come out just beside themselves, and are cut to
 * the one before. */
static __device__ __forceinline__ double place(double from, double step, int64_t i)
{
    return __dadd_rn(from, __dmul_rn(step, (double)i));
}

/* Integers wrap, floats are rounded once from double. */
template <typename S>
__global__ void __launch_bounds__(BLOCK) k_arange_real(S *out, double start, double step, int64_t n)
{
    for (int64_t i = first_item(); i < n; i += item_step())
        out[i] = narrow<S>(place(start, step, i));
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_arange_whole(S *out, uint64_t start, uint64_t step, int64_t n)
{
    for (int64_t i = first_item(); i < n; i += item_step())
        out[i] = (S)(start + (uint64_t)i * step);
}

extern "C" cudaError_t cuda_launch_arange(void *out, int dtype, const tern_attr_arange *attr,
                                          int64_t n, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for(n, stream);
    if (tern_dtype_is_float((tern_dtype_t)dtype))
        return float_switch(dtype, [&](auto zero) {
            using S = decltype(zero);
            return cudaLaunchKernelEx(&c, k_arange_real<S>, (S *)out, attr->f_start, attr->f_step,
                                      n);
        });
    return integer_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        return cudaLaunchKernelEx(&c, k_arange_whole<S>, (S *)out, (uint64_t)attr->i_start,
                                  (uint64_t)attr->i_step, n);
    });
}

template <typename S> static __device__ __forceinline__ S cut(double x)
{
    if constexpr (std::is_integral<S>::value)
        return (S)(int64_t)x;
    else
        return narrow<S>(x);
}

/* From both ends, so that the last value is `end`. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_linspace(S *out, double start, double end, double step, int64_t steps)
{
    for (int64_t i = first_item(); i < steps; i += item_step()) {
        const double x =
            i < steps / 2 || steps == 1 ? place(start, step, i) : place(end, -step, steps - 1 - i);
        out[i] = cut<S>(x);
    }
}

extern "C" cudaError_t cuda_launch_linspace(void *out, int dtype, const tern_attr_linspace *attr,
                                            cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for(attr->steps, stream);
    const double step = attr->steps > 1 ? (attr->end - attr->start) / (double)(attr->steps - 1) : 0;
    const auto launch = [&](auto zero) {
        using S = decltype(zero);
        return cudaLaunchKernelEx(&c, k_linspace<S>, (S *)out, attr->start, attr->end, step,
                                  attr->steps);
    };
    return tern_dtype_is_float((tern_dtype_t)dtype) ? float_switch(dtype, launch)
                                                    : integer_switch(dtype, launch);
}
