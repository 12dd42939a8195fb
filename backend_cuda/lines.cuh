/* A row-major result whose threads make a few elements each that lie beside each other: what those of a line have in
 * common is computed once, and as many loads are under way at once. */
#ifndef TERN_BACKEND_CUDA_LINES_CUH
#define TERN_BACKEND_CUDA_LINES_CUH

#include "backend_cuda/pack.cuh"
#include "backend_cuda/walk.cuh"

namespace cuda
{

/* Elements of a thread: at most 16 bytes. */
template <typename S> constexpr int FEW = sizeof(S) == 8 ? 2 : 4;

template <typename S> inline cudaLaunchConfig_t shape_for_few(int64_t count, cudaStream_t stream)
{
    return shape_for((count + FEW<S> - 1) / FEW<S>, stream);
}

/* run(k, at, line) for element i + k of each k below N, where there are `count` elements in all: `at` is its place
 * in its line, of `length` elements, and line what line_of(number of the line) is. */
template <int N, typename L, typename F>
__device__ __forceinline__ void each_in_lines(int64_t i, int64_t count, const cuda_divisor &length,
                                              L line_of, F run)
{
    int64_t number = quotient(i, length), at = i - number * length.number;
    auto line = line_of(number);
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (i + k >= count)
            break;
        if (at == length.number) {
            at = 0;
            line = line_of(++number);
        }
        run(k, at++, line);
    }
}

} // namespace cuda

#endif
