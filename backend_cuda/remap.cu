/* flip, roll, pad, tril, triu: a thread finds where its element of the result comes from and moves it as
 * bits. */
#include <string.h>

#include "backend_cuda/launch.h"
#include "backend_cuda/walk.cuh"
#include "tern/op_attr.h"

using namespace cuda;

/* The input's place of place j in a dimension of n elements, or -1: none. */
static __device__ __forceinline__ int64_t found(int rule, int64_t j, int64_t n)
{
    if (j >= 0 && j < n)
        return j;
    if (rule == TERN_OUTSIDE_REFLECT)
        return j < 0 ? -j : 2 * (n - 1) - j;
    if (rule == TERN_OUTSIDE_NEAREST)
        return j < 0 ? 0 : n - 1;
    if (rule == TERN_OUTSIDE_WRAP)
        return j < 0 ? j + n : j - n;
    return -1;
}

template <typename S>
__global__ void __launch_bounds__(BLOCK) k_remap(S *out, const S *in, S value, cuda_remap_args a)
{
    for (int64_t i = first_item(); i < a.numel; i += item_step()) {
        int64_t rest = i, to = 0, from = 0;
        bool inside = true;
        for (int d = 0; d < a.ndim; d++) {
            const cuda_remap_dim &dim = a.dims[d];
            const int64_t next = quotient(rest, dim.size);
            const int64_t at = rest - next * dim.size.number;
            const int64_t place = dim.flipped ? dim.extent - 1 - at : at + dim.start;
            const int64_t k = found(dim.outside, place, dim.extent);
            rest = next;
            inside = inside && k >= 0;
            to += at * dim.out_stride;
            from += k * dim.in_stride;
        }
        out[to] = inside ? in[from] : value;
    }
}

/* A number as the bits of an element, on the host. */
template <typename T> static uint64_t bits_of(T element)
{
    uint64_t bits = 0;
    memcpy(&bits, &element, sizeof element);
    return bits;
}

static cudaError_t element_bits(int dtype, const tern_number *value, uint64_t *out_bits)
{
    const int64_t whole = value->kind == TERN_NUMBER_FLOAT ? (int64_t)value->f : value->i;
    if (dtype == TERN_BOOL) {
        *out_bits = value->kind == TERN_NUMBER_FLOAT ? value->f != 0 : whole != 0;
        return cudaSuccess;
    }
    if (!tern_dtype_is_float((tern_dtype_t)dtype)) {
        *out_bits = (uint64_t)whole; /* the low bytes of it */
        return cudaSuccess;
    }
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        *out_bits = bits_of(narrow<S>((real<S>)value->f));
        return cudaSuccess;
    });
}

extern "C" cudaError_t cuda_launch_remap(void *out, const void *in, int dtype,
                                         const tern_number *value, const cuda_remap_args *args,
                                         cudaStream_t stream)
{
    uint64_t bits = 0;
    const cudaError_t code = element_bits(dtype, value, &bits);
    if (code != cudaSuccess)
        return code;
    return size_switch(cuda_dtype_size(dtype), [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(args->numel, stream);
        return cudaLaunchKernelEx(&c, k_remap<S>, (S *)out, (const S *)in, (S)bits, *args);
    });
}

/* Row-major matrices. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_triangle(S *out, const S *in, int64_t n, cuda_divisor rows, cuda_divisor columns,
               int64_t diagonal, int upper)
{
    for (int64_t i = first_item(); i < n; i += item_step()) {
        const int64_t line = quotient(i, columns), column = i - line * columns.number;
        const int64_t row = line - quotient(line, rows) * rows.number;
        const int64_t above = column - row - diagonal; /* > 0: on the upper side */
        out[i] = (upper ? above >= 0 : above <= 0) ? in[i] : S{};
    }
}

extern "C" cudaError_t cuda_launch_triangle(void *out, const void *in, int64_t size, int64_t n,
                                            int64_t rows, int64_t columns, int64_t diagonal,
                                            int upper, cudaStream_t stream)
{
    return size_switch(size, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(n, stream);
        return cudaLaunchKernelEx(&c, k_triangle<S>, (S *)out, (const S *)in, n,
                                  cuda_divisor_of(rows, n), cuda_divisor_of(columns, n), diagonal,
                                  upper);
    });
}
