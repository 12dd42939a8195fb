/* embedding: out[i][j] = table[index[i]][j]; its gradient adds rows into sums with atomics, so that the
 * order of equal indices is not fixed. All row-major. A thread takes one element,
 * or 16 bytes of rows that can be cut so. An index outside the table is noted and its row becomes zero. */
#include "backend_cuda/fault.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/walk.cuh"

using namespace cuda;

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_embedding(S *out, const S *table, const void *indices, int wide, int64_t rows, int64_t width,
                cuda_divisor by, int64_t n, cuda_fault_slot *slot)
{
    for (int64_t e = first_item(); e < n * width; e += item_step()) {
        const int64_t i = quotient(e, by), j = e - i * width;
        const int64_t row = read_index(indices, wide, i);
        if (row < 0 || row >= rows) {
            if (j == 0)
                note_fault(slot, CUDA_FAULT_ROW, row, i, rows);
            out[e] = S{};
            continue;
        }
        out[e] = table[row * width + j];
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_embedding_grad(real<S> *sums, const S *grad, const void *indices, int wide, int64_t rows,
                     int64_t width, cuda_divisor by, int64_t n, cuda_fault_slot *slot)
{
    for (int64_t e = first_item(); e < n * width; e += item_step()) {
        const int64_t i = quotient(e, by), j = e - i * width;
        const int64_t row = read_index(indices, wide, i);
        if (row >= 0 && row < rows)
            atomicAdd(&sums[row * width + j], widen(grad[e]));
        else if (j == 0)
            note_fault(slot, CUDA_FAULT_ROW, row, i, rows);
    }
}

extern "C" cudaError_t cuda_launch_embedding(void *out, const void *table, const void *indices,
                                             int index_dtype, int64_t rows, int64_t width,
                                             int64_t size, int64_t n, cuda_fault_slot *slot,
                                             cudaStream_t stream)
{
    const int wide = index_dtype == TERN_I64 ? 1 : 0;
    const auto launch = [&](auto zero, int64_t each) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(n * each, stream);
        return cudaLaunchKernelEx(&c, k_embedding<S>, (S *)out, (const S *)table, indices, wide,
                                  rows, each, cuda_divisor_of(each, n * each), n, slot);
    };
    if ((((uintptr_t)out | (uintptr_t)table | (uintptr_t)(width * size)) & 15u) == 0)
        return launch(bytes16{}, width * size / 16);
    return size_switch(size, [&](auto zero) { return launch(zero, width); });
}

extern "C" cudaError_t cuda_launch_embedding_grad(void *sums, const void *grad, int dtype,
                                                  const void *indices, int index_dtype,
                                                  int64_t rows, int64_t width, int64_t n,
                                                  cuda_fault_slot *slot, cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(n * width, stream);
        return cudaLaunchKernelEx(&c, k_embedding_grad<S>, (real<S> *)sums, (const S *)grad,
                                  indices, index_dtype == TERN_I64 ? 1 : 0, rows, width,
                                  cuda_divisor_of(width, n * width), n, slot);
    });
}
