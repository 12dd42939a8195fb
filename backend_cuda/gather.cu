/* gather: out = in taken at index along one dimension; its gradient adds with atomics, so that the order
 * of equal indices is not fixed. Any strides; the walk's operands are index, dense (out, or the
 * gradient) and sparse (in, or the sums) without its own dimension. A thread takes one element. */
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
            note_fault(slot, CUDA_FAULT_INDEX, k, i, far_size);
        out[at[1]] = inside ? in[at[2] + k * far_stride] : S{};
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_gather_grad(real<S> *out, const S *in, const int64_t *index, cuda_walk walk,
                  int64_t far_stride, int64_t far_size, cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        const int64_t k = index[at[0]];
        if (k < 0 || k >= far_size)
            note_fault(slot, CUDA_FAULT_INDEX, k, i, far_size);
        else
            atomicAdd(&out[at[2] + k * far_stride], widen(in[at[1]]));
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

extern "C" cudaError_t cuda_launch_gather_grad(const cuda_gather_args *g, int dtype,
                                               cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(g->walk->numel, stream);
        return cudaLaunchKernelEx(&c, k_gather_grad<S>, (real<S> *)g->out, (const S *)g->in,
                                  g->index, *g->walk, g->far_stride, g->far_size, g->slot);
    });
}
