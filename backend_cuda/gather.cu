/* gather: out = in taken at index along one dimension; its gradient and scatter_add add with atomics, so
 * that the order of equal indices is not fixed; scatter writes. Any strides; the walk's operands are index,
 * dense (out, or what is added) and sparse (in, or the sums) without its own dimension. A thread takes
 * a few elements, or 16 bytes of lines that have one index and can be cut so; in the *_lines kernels, whose results
 * repeat, all of them along the dimension. */
#include "backend_cuda/fault.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/walk.cuh"

using namespace cuda;

/* Elements of a thread, whose loads are under way at once. */
template <typename S> constexpr int GATHERED = sizeof(S) > 8 ? 2 : 4;

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_gather(S *out, const S *in, const int64_t *index, cuda_walk walk, int64_t far_stride,
             int64_t far_size, int64_t index_start, cuda_fault_slot *slot)
{
    constexpr int EACH = GATHERED<S>;
    const int64_t own = (int64_t)blockIdx.x * BLOCK * EACH + threadIdx.x;
    for (int64_t first = own; first < walk.numel; first += item_step() * EACH) {
        int64_t at[EACH][3], place[EACH] = {};
        S some[EACH] = {};
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (first + k * BLOCK < walk.numel) {
                offsets<3>(walk, (uint32_t)(first + k * BLOCK), at[k]);
                place[k] = index[at[k][0]];
            }
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (first + k * BLOCK < walk.numel) {
                if (place[k] >= 0 && place[k] < far_size)
                    some[k] = in[at[k][2] + place[k] * far_stride];
                else
                    note_fault(slot, CUDA_FAULT_INDEX, place[k], index_start + at[k][0], far_size);
            }
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (first + k * BLOCK < walk.numel)
                out[at[k][1]] = some[k];
    }
}

/* 16 bytes as one element, where a line has one index and may be cut so; false: it may not. */
static bool cut_in_16(const cuda_gather_args *g, int64_t size, cuda_walk *walk, int64_t *far_stride)
{
    const int64_t some = 16 / size;
    *walk = *g->walk;
    *far_stride = g->far_stride / some;
    int64_t rest = g->far_stride % some;
    if (walk->ndim == 0 || walk->stride[0][0] != 0 || walk->stride[0][1] != 1 ||
        walk->stride[0][2] != 1)
        return false;
    for (int d = 1; d < walk->ndim; d++)
        for (int k = 1; k < 3; k++) {
            rest |= walk->stride[d][k] % some;
            walk->stride[d][k] /= some;
        }
    rest |= walk->shape[0] % some;
    walk->shape[0] /= (uint32_t)some;
    walk->numel /= (uint32_t)some;
    const cuda_divisor by = cuda_divisor_of(walk->shape[0], 0);
    walk->magic[0] = by.magic;
    walk->shift[0] = (uint32_t)by.shift;
    return rest == 0 && (((uintptr_t)g->out | (uintptr_t)g->in) & 15u) == 0;
}

/* run(zero, walk, far_stride): by 16 bytes, or by elements. */
template <typename F> static cudaError_t by_size(const cuda_gather_args *g, int64_t size, F run)
{
    cuda_walk walk;
    int64_t far_stride;
    if (cut_in_16(g, size, &walk, &far_stride))
        return run(bytes16{}, walk, far_stride);
    return size_switch(size, [&](auto zero) { return run(zero, *g->walk, g->far_stride); });
}

extern "C" cudaError_t cuda_launch_gather(const cuda_gather_args *g, int64_t size,
                                          cudaStream_t stream)
{
    return by_size(g, size, [&](auto zero, const cuda_walk &walk, int64_t far_stride) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c =
            shape_for((walk.numel + GATHERED<S> - 1) / GATHERED<S>, stream);
        return cudaLaunchKernelEx(&c, k_gather<S>, (S *)g->out, (const S *)g->in, g->index, walk,
                                  far_stride, g->far_size, g->index_start, g->slot);
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
              int64_t far_size, int64_t index_start, cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        const int64_t k = index[at[0]];
        if (k < 0 || k >= far_size)
            note_fault(slot, CUDA_FAULT_INDEX, k, index_start + at[0], far_size);
        else
            out[at[2] + k * far_stride] = in[at[1]];
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_scatter_add(typename sum_of<S>::type *out, const S *in, const int64_t *index, cuda_walk walk,
                  int64_t far_stride, int64_t far_size, int64_t index_start, cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        const int64_t k = index[at[0]];
        if (k < 0 || k >= far_size)
            note_fault(slot, CUDA_FAULT_INDEX, k, index_start + at[0], far_size);
        else
            atomicAdd(&out[at[2] + k * far_stride], sum_of<S>::of(in[at[1]]));
    }
}

/* The walk goes over lines; elements of one are line.step apart. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_scatter_lines(S *out, const S *in, const int64_t *index, cuda_walk walk, int64_t far_stride,
                    int64_t far_size, int64_t index_start, cuda_gather_line line,
                    cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        for (int64_t j = 0; j < line.count; j++) {
            const int64_t k = index[at[0] + j * line.index_step];
            if (k < 0 || k >= far_size)
                note_fault(slot, CUDA_FAULT_INDEX, k, index_start + at[0] + j * line.index_step,
                           far_size);
            else
                out[at[2] + k * far_stride] = in[at[1] + j * line.step];
        }
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_scatter_add_lines(typename sum_of<S>::type *out, const S *in, const int64_t *index,
                        cuda_walk walk, int64_t far_stride, int64_t far_size, int64_t index_start,
                        cuda_gather_line line, cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        for (int64_t j = 0; j < line.count; j++) {
            const int64_t k = index[at[0] + j * line.index_step];
            if (k < 0 || k >= far_size)
                note_fault(slot, CUDA_FAULT_INDEX, k, index_start + at[0] + j * line.index_step,
                           far_size);
            else
                out[at[2] + k * far_stride] += sum_of<S>::of(in[at[1] + j * line.step]);
        }
    }
}

extern "C" cudaError_t cuda_launch_scatter(const cuda_gather_args *g, int64_t size,
                                           cudaStream_t stream)
{
    if (g->line.count > 0)
        return size_switch(size, [&](auto zero) {
            using S = decltype(zero);
            const cudaLaunchConfig_t c = shape_for(g->walk->numel, stream);
            return cudaLaunchKernelEx(&c, k_scatter_lines<S>, (S *)g->out, (const S *)g->in,
                                      g->index, *g->walk, g->far_stride, g->far_size,
                                      g->index_start, g->line, g->slot);
        });
    return by_size(g, size, [&](auto zero, const cuda_walk &walk, int64_t far_stride) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(walk.numel, stream);
        return cudaLaunchKernelEx(&c, k_scatter<S>, (S *)g->out, (const S *)g->in, g->index, walk,
                                  far_stride, g->far_size, g->index_start, g->slot);
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
                                      g->index, *g->walk, g->far_stride, g->far_size,
                                      g->index_start, g->line, g->slot);
        return cudaLaunchKernelEx(&c, k_scatter_add<S>, (T *)g->out, (const S *)g->in, g->index,
                                  *g->walk, g->far_stride, g->far_size, g->index_start, g->slot);
    };
    if (dtype == TERN_BOOL)
        return launch(bool8{});
    return tern_dtype_is_float((tern_dtype_t)dtype) ? float_switch(dtype, launch)
                                                    : integer_switch(dtype, launch);
}
