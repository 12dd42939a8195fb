/* gather: out = in taken at index along one dimension; its gradient and scatter_add add with atomics, so
 * that the order of equal indices is not fixed; scatter writes. Any strides; the walk's operands are index,
 * dense (out, or what is added) and sparse (in, or the sums) without its own dimension. A thread takes
 * one element; in the *_lines kernels, whose results repeat, all of them along the dimension. */
#include "backend_cuda/fault.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/walk.cuh"

using namespace cuda;

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_gather(S *out, const S *in, const int64_t *index, cuda_walk walk, int64_t far_stride,
             int64_t far_size, cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        const int64_t k = index[at[0]];
        const bool inside = k >= 0 && k < far_size;
        if (!inside)
            note_fault(slot, CUDA_FAULT_INDEX, k, at[0], far_size);
        out[at[1]] = inside ? in[at[2] + k * far_stride] : S{};
    }
}

extern "C" cudaError_t cuda_launch_gather(const cuda_gather_args *g, int64_t size,
                                          cudaStream_t stream)
{
    return size_switch(size, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(g->walk->numel, stream);
        return cudaLaunchKernelEx(&c, k_gather<S>, (S *)g->out, (const S *)g->in, g->index,
                                  *g->walk, g->far_stride, g->far_size, g->slot);
    });
}

/* ---- scatter ----------------------------------------------------------------------------------- */

/* What elements are added in: integers of up to 32 bits in i32, converted back they wrap. */
template <typename S> struct sum_of {
    using type = int32_t;
    static __device__ __forceinline__ int32_t of(S x)
    {
        return (int32_t)x;
    }
};
template <> struct sum_of<bool8> {
    using type = int32_t;
    static __device__ __forceinline__ int32_t of(bool8 x)
    {
        return x.value != 0;
    }
};
template <> struct sum_of<int64_t> {
    using type = unsigned long long;
    static __device__ __forceinline__ unsigned long long of(int64_t x)
    {
        return (unsigned long long)x;
    }
};
template <typename S, typename T> struct sum_of_real {
    using type = T;
    static __device__ __forceinline__ T of(S x)
    {
        return widen(x);
    }
};
template <> struct sum_of<float> : sum_of_real<float, float> {
};
template <> struct sum_of<double> : sum_of_real<double, double> {
};
template <> struct sum_of<__half> : sum_of_real<__half, float> {
};
template <> struct sum_of<__nv_bfloat16> : sum_of_real<__nv_bfloat16, float> {
};

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_scatter(S *out, const S *in, const int64_t *index, cuda_walk walk, int64_t far_stride,
              int64_t far_size, cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        const int64_t k = index[at[0]];
        if (k < 0 || k >= far_size)
            note_fault(slot, CUDA_FAULT_INDEX, k, at[0], far_size);
        else
            out[at[2] + k * far_stride] = in[at[1]];
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_scatter_add(typename sum_of<S>::type *out, const S *in, const int64_t *index, cuda_walk walk,
                  int64_t far_stride, int64_t far_size, cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        const int64_t k = index[at[0]];
        if (k < 0 || k >= far_size)
            note_fault(slot, CUDA_FAULT_INDEX, k, at[0], far_size);
        else
            atomicAdd(&out[at[2] + k * far_stride], sum_of<S>::of(in[at[1]]));
    }
}

/* The walk goes over lines; elements of one are line.step apart. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_scatter_lines(S *out, const S *in, const int64_t *index, cuda_walk walk, int64_t far_stride,
                    int64_t far_size, cuda_gather_line line, cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        for (int64_t j = 0; j < line.count; j++) {
            const int64_t k = index[at[0] + j * line.index_step];
            if (k < 0 || k >= far_size)
                note_fault(slot, CUDA_FAULT_INDEX, k, at[0] + j * line.index_step, far_size);
            else
                out[at[2] + k * far_stride] = in[at[1] + j * line.step];
        }
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_scatter_add_lines(typename sum_of<S>::type *out, const S *in, const int64_t *index,
                        cuda_walk walk, int64_t far_stride, int64_t far_size, cuda_gather_line line,
                        cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        for (int64_t j = 0; j < line.count; j++) {
            const int64_t k = index[at[0] + j * line.index_step];
            if (k < 0 || k >= far_size)
                note_fault(slot, CUDA_FAULT_INDEX, k, at[0] + j * line.index_step, far_size);
            else
                out[at[2] + k * far_stride] += sum_of<S>::of(in[at[1] + j * line.step]);
        }
    }
}

extern "C" cudaError_t cuda_launch_scatter(const cuda_gather_args *g, int64_t size,
                                           cudaStream_t stream)
{
    return size_switch(size, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(g->walk->numel, stream);
        if (g->line.count > 0)
            return cudaLaunchKernelEx(&c, k_scatter_lines<S>, (S *)g->out, (const S *)g->in,
                                      g->index, *g->walk, g->far_stride, g->far_size, g->line,
                                      g->slot);
        return cudaLaunchKernelEx(&c, k_scatter<S>, (S *)g->out, (const S *)g->in, g->index,
                                  *g->walk, g->far_stride, g->far_size, g->slot);
    });
}

extern "C" cudaError_t cuda_launch_scatter_add(const cuda_gather_args *g, int dtype,
                                               cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for(g->walk->numel, stream);
    const auto launch = [&](auto zero) {
        using S = decltype(zero);
        using T = typename sum_of<S>::type;
        if (g->line.count > 0)
            return cudaLaunchKernelEx(&c, k_scatter_add_lines<S>, (T *)g->out, (const S *)g->in,
                                      g->index, *g->walk, g->far_stride, g->far_size, g->line,
                                      g->slot);
        return cudaLaunchKernelEx(&c, k_scatter_add<S>, (T *)g->out, (const S *)g->in, g->index,
                                  *g->walk, g->far_stride, g->far_size, g->slot);
    };
    if (dtype == TERN_BOOL)
        return launch(bool8{});
    return tern_dtype_is_float((tern_dtype_t)dtype) ? float_switch(dtype, launch)
                                                    : integer_switch(dtype, launch);
}
