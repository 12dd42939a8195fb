/* See kernels.h. */
#include "tests/sim/kernels.h"

#include <cuda_runtime.h>

extern __shared__ __align__(16) unsigned char dyn_smem[];

namespace
{

constexpr int BLOCK = 256;
constexpr unsigned FULL = 0xFFFFFFFFu;

cudaLaunchConfig_t shape(int blocks, int threads, size_t dynamic_bytes, cudaStream_t stream)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = dynamic_bytes;
    config.stream = stream;
    return config;
}

__global__ void k_axpy(float *out, const float *x, float a, int n)
{
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n;
         i += (int)(gridDim.x * blockDim.x))
        out[i] += a * x[i];
}

__global__ void k_block_sum(float *out, const float *x, int n)
{
    __shared__ float partial[BLOCK / 32];
    const int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    float sum = i < n ? x[i] : 0;
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_down_sync(FULL, sum, d);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    sum = threadIdx.x < BLOCK / 32 ? partial[threadIdx.x] : 0;
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(FULL, sum, d);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

__global__ void k_tree_sum(float *out, const float *x, int n)
{
    float *cells = (float *)dyn_smem;
    const int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    cells[threadIdx.x] = i < n ? x[i] : 0;
    for (unsigned half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            cells[threadIdx.x] += cells[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = cells[0];
}

__global__ void k_missing_barrier(float *out)
{
    float *cells = (float *)dyn_smem;
    cells[threadIdx.x] = 1;
    for (unsigned half = BLOCK / 2; half > 0; half /= 2)
        if (threadIdx.x < half)
            cells[threadIdx.x] += cells[threadIdx.x + half];
    if (threadIdx.x == 0)
        out[0] = cells[0];
}

__global__ void k_count(int *out)
{
    atomicAdd(&out[0], 1);
    const unsigned odd = __ballot_sync(FULL, threadIdx.x % 2 == 1);
    const int any = __any_sync(FULL, threadIdx.x % 32 == 3);
    const int all = __all_sync(FULL, threadIdx.x % 32 < 32);
    if (threadIdx.x == 0)
        atomicExch(&out[1], odd == 0xAAAAAAAAu && __popc(odd) == 16 && any && all ? 1 : 0);
}

__global__ void k_rows(float *out, kernel_rows table)
{
    out[threadIdx.x] = table.rows[threadIdx.x][0];
}

__global__ void k_number(float *out, kernel_number number)
{
    for (int i = 0; i < number.n; i++)
        out[i] = (float)number.value;
}

__global__ void k_indirect(float *out, float *const *slot)
{
    *out = **slot;
}

__global__ void k_divergent(float *out)
{
    if (threadIdx.x < 64)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}

/* A type that compilers move by instructions that want alignment, in every build. */
typedef float four_floats __attribute__((vector_size(16)));

__global__ void k_misaligned(float *out)
{
    const four_floats ones = { 1, 1, 1, 1 };
    *(four_floats *)(void *)(out + 1) = ones;
}

__global__ void k_absent_lane(float *out)
{
    if (threadIdx.x == 7)
        return;
    out[threadIdx.x] = __shfl_sync(FULL, out[threadIdx.x], 7);
}

__global__ void k_not_in_mask(float *out)
{
    out[threadIdx.x] = __shfl_sync(0xFFFEu, out[threadIdx.x], 1);
}

__global__ void k_deadlock(float *out)
{
    if (threadIdx.x == 0)
        __syncthreads();
    out[threadIdx.x] = __shfl_sync(FULL, out[threadIdx.x], 1);
}

__global__ void k_past_end(float *out, int n, int far)
{
    out[threadIdx.x == 24 ? n + far : n - 1] = 1;
}

__global__ void k_before(float *out)
{
    if (threadIdx.x == 31)
        out[-1] = 1;
}

__global__ void k_null(float *out)
{
    out[threadIdx.x] = 1;
}

__device__ __noinline__ float deep(float *out, int n)
{
    volatile float room[256];
    room[n % 256] = out[0];
    return n == 0 ? room[0] : deep(out, n - 1) + room[n % 256];
}

__global__ void k_deep(float *out)
{
    out[0] = deep(out, 1 << 16);
}

} // namespace

extern "C" cudaError_t launch_axpy(float *out, const float *x, float a, int n, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape(4, BLOCK, 0, stream);
    return cudaLaunchKernelEx(&c, k_axpy, out, x, a, n);
}

extern "C" cudaError_t launch_block_sum(float *out, const float *x, int n, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape((n + BLOCK - 1) / BLOCK, BLOCK, 0, stream);
    return cudaLaunchKernelEx(&c, k_block_sum, out, x, n);
}

extern "C" cudaError_t launch_tree_sum(float *out, const float *x, int n, cudaStream_t stream)
{
    const cudaLaunchConfig_t c =
        shape((n + BLOCK - 1) / BLOCK, BLOCK, BLOCK * sizeof(float), stream);
    return cudaLaunchKernelEx(&c, k_tree_sum, out, x, n);
}

extern "C" cudaError_t launch_count(int *out, int blocks, int threads, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape(blocks, threads, 0, stream);
    return cudaLaunchKernelEx(&c, k_count, out);
}

extern "C" cudaError_t launch_rows(float *out, kernel_rows table, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape(1, 4, 0, stream);
    return cudaLaunchKernelEx(&c, k_rows, out, table);
}

extern "C" cudaError_t launch_number(float *out, kernel_number number, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape(1, 1, 0, stream);
    return cudaLaunchKernelEx(&c, k_number, out, number);
}

extern "C" cudaError_t launch_indirect(float *out, float *const *slot, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape(1, 1, 0, stream);
    return cudaLaunchKernelEx(&c, k_indirect, out, slot);
}

extern "C" cudaError_t launch_broken(broken_kernel which, float *out, int n, cudaStream_t stream)
{
    const cudaLaunchConfig_t warp = shape(1, 32, 0, stream);
    const cudaLaunchConfig_t block = shape(1, 128, 0, stream);
    const cudaLaunchConfig_t tree = shape(1, BLOCK, BLOCK * sizeof(float), stream);
    switch (which) {
    case BROKEN_DIVERGENT_BARRIER:
        return cudaLaunchKernelEx(&block, k_divergent, out);
    case BROKEN_ABSENT_LANE:
        return cudaLaunchKernelEx(&warp, k_absent_lane, out);
    case BROKEN_NOT_IN_MASK:
        return cudaLaunchKernelEx(&warp, k_not_in_mask, out);
    case BROKEN_DEADLOCK:
        return cudaLaunchKernelEx(&warp, k_deadlock, out);
    case BROKEN_PAST_END:
        return cudaLaunchKernelEx(&warp, k_past_end, out, n, 4096);
    case BROKEN_OFF_BY_ONE:
        return cudaLaunchKernelEx(&warp, k_past_end, out, n, 0);
    case BROKEN_BEFORE:
        return cudaLaunchKernelEx(&warp, k_before, out);
    case BROKEN_NULL:
        return cudaLaunchKernelEx(&warp, k_null, (float *)nullptr);
    case BROKEN_MISALIGNED:
        return cudaLaunchKernelEx(&warp, k_misaligned, out);
    case BROKEN_MISSING_BARRIER:
        return cudaLaunchKernelEx(&tree, k_missing_barrier, out);
    default:
        return cudaLaunchKernelEx(&warp, k_deep, out);
    }
}
