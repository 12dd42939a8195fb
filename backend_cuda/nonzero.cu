/* nonzero: a block counts one chunk, one block adds the counts up, a block writes the places of one chunk;
 * index_offset. All row-major. */
#include "backend_cuda/fault.cuh"
#include "backend_cuda/launch.h"
#include "tern/op_attr.h"

using namespace cuda;

template <typename S>
static __device__ __forceinline__ bool is_set(const cuda_nonzero_args &a, int64_t i)
{
    return i < a.numel && (((const S *)a.x)[i] & (S)a.mask) != 0;
}

/* Inclusive sums over the block's threads; the last is the block's. */
static __device__ __forceinline__ int sum_up(int value, int *shared)
{
    const int t = (int)threadIdx.x;
    shared[t] = value;
    __syncthreads();
    for (int step = 1; step < BLOCK; step *= 2) {
        const int before = t >= step ? shared[t - step] : 0;
        __syncthreads();
        shared[t] += before;
        __syncthreads();
    }
    return shared[t];
}

template <typename S> __global__ void __launch_bounds__(BLOCK) k_count(cuda_nonzero_args a)
{
    __shared__ int shared[BLOCK];
    for (int64_t chunk = blockIdx.x; chunk < a.chunks; chunk += gridDim.x) {
        int count = 0;
        for (int k = (int)threadIdx.x; k < TERN_NONZERO_CHUNK; k += BLOCK)
            count += is_set<S>(a, chunk * TERN_NONZERO_CHUNK + k) ? 1 : 0;
        const int sum = sum_up(count, shared);
        if (threadIdx.x == BLOCK - 1)
            a.starts[chunk] = sum;
        __syncthreads();
    }
}

/* One block: counts of chunks become how many come before. A thread takes a stretch of chunks. */
__global__ void __launch_bounds__(BLOCK) k_starts(int64_t *starts, int64_t chunks)
{
    __shared__ int64_t sums[BLOCK];
    const int t = (int)threadIdx.x;
    const int64_t share = (chunks + BLOCK - 1) / BLOCK;
    const int64_t begin = t * share < chunks ? t * share : chunks;
    const int64_t end = begin + share < chunks ? begin + share : chunks;
    int64_t sum = 0;
    for (int64_t c = begin; c < end; c++)
        sum += starts[c];
    sums[t] = sum;
    __syncthreads();
    int64_t before = 0;
    for (int k = 0; k < t; k++)
        before += sums[k];
    for (int64_t c = begin; c < end; c++) {
        const int64_t count = starts[c];
        starts[c] = before;
        before += count;
    }
    if (t == BLOCK - 1)
        starts[chunks] = before;
}

template <typename S> __global__ void __launch_bounds__(BLOCK) k_places(cuda_nonzero_args a)
{
    __shared__ int shared[BLOCK];
    for (int64_t chunk = blockIdx.x; chunk < a.chunks; chunk += gridDim.x) {
        int64_t next = a.starts[chunk];
        for (int k = 0; k < TERN_NONZERO_CHUNK; k += BLOCK) {
            int64_t i = chunk * TERN_NONZERO_CHUNK + k + (int)threadIdx.x;
            const bool set = is_set<S>(a, i);
            const int rank = sum_up(set ? 1 : 0, shared);
            int64_t *place = a.places + (next + rank - 1) * a.ndim;
            for (int d = a.ndim - 1; set && d >= 0; d--) {
                place[d] = i % a.shape[d];
                i /= a.shape[d];
            }
            next += shared[BLOCK - 1];
            __syncthreads();
        }
    }
}

static cudaLaunchConfig_t by_chunk(const cuda_nonzero_args *a, cudaStream_t stream)
{
    return shape(a->chunks < 65536 ? a->chunks : 65536, BLOCK, stream);
}

extern "C" cudaError_t cuda_launch_nonzero_starts(const cuda_nonzero_args *a, cudaStream_t stream)
{
    if (a->chunks > 0) {
        const cudaError_t code = size_switch(a->size, [&](auto zero) {
            using S = decltype(zero);
            const cudaLaunchConfig_t c = by_chunk(a, stream);
            return cudaLaunchKernelEx(&c, k_count<S>, *a);
        });
        if (code != cudaSuccess)
            return code;
    }
    const cudaLaunchConfig_t one = shape(1, BLOCK, stream);
    return cudaLaunchKernelEx(&one, k_starts, a->starts, a->chunks);
}

extern "C" cudaError_t cuda_launch_nonzero(const cuda_nonzero_args *a, cudaStream_t stream)
{
    return size_switch(a->size, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = by_chunk(a, stream);
        return cudaLaunchKernelEx(&c, k_places<S>, *a);
    });
}

__global__ void __launch_bounds__(BLOCK)
    k_index_offset(int64_t *out, const int64_t *index, const int64_t *sum, int64_t size, int64_t n,
                   cuda_fault_slot *slot)
{
    for (int64_t i = first_item(); i < n; i += item_step()) {
        const int64_t k = index[i] < 0 ? index[i] + size : index[i];
        const int64_t before = sum != nullptr ? sum[i] : 0;
        const bool bad = k < 0 || k >= size;
        if (bad)
            note_fault(slot, CUDA_FAULT_INDEX, index[i], i, size);
        out[i] = bad || before < 0 ? CUDA_NOWHERE : before * size + k;
    }
}

extern "C" cudaError_t cuda_launch_index_offset(int64_t *out, const int64_t *index,
                                                const int64_t *sum, int64_t size, int64_t n,
                                                cuda_fault_slot *slot, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for(n, stream);
    return cudaLaunchKernelEx(&c, k_index_offset, out, index, sum, size, n, slot);
}
