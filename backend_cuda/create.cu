/* fill and arange. A thread writes one element. */
#include "backend_cuda/launch.h"
#include "backend_cuda/walk.cuh"

using namespace cuda;

template <typename S>
__global__ void __launch_bounds__(BLOCK) k_fill(S *out, S value, cuda_walk walk)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[1];
        offsets<1>(walk, (uint32_t)i, at);
        out[at[0]] = value;
    }
}

extern "C" cudaError_t cuda_launch_fill(void *out, int dtype, const tern_number *value,
                                        const cuda_walk *walk, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for(walk->numel, stream);
    if (dtype == TERN_BOOL) {
        const bool8 b = { (uint8_t)(value->kind == TERN_NUMBER_FLOAT ? value->f != 0
                                                                     : value->i != 0) };
        return cudaLaunchKernelEx(&c, k_fill<bool8>, (bool8 *)out, b, *walk);
    }
    if (tern_dtype_is_float((tern_dtype_t)dtype))
        return float_switch(dtype, [&](auto zero) {
            using S = decltype(zero);
            return cudaLaunchKernelEx(&c, k_fill<S>, (S *)out, narrow<S>((real<S>)value->f), *walk);
        });
    return integer_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const int64_t whole = value->kind == TERN_NUMBER_FLOAT ? (int64_t)value->f : value->i;
        return cudaLaunchKernelEx(&c, k_fill<S>, (S *)out, (S)whole, *walk);
    });
}

/* Integers wrap, floats are rounded once from double. */
template <typename S>
__global__ void __launch_bounds__(BLOCK) k_arange_real(S *out, double start, double step, int64_t n)
{
    for (int64_t i = first_item(); i < n; i += item_step())
        out[i] = narrow<S>(start + (double)i * step);
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
