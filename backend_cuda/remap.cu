/* flip, roll, pad, tril, triu: a thread finds where its few elements of the result come from and moves them as
 * bits. */
#include <string.h>

#include "backend_cuda/launch.h"
#include "backend_cuda/lines.cuh"
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
static __device__ __forceinline__ int64_t source_of(const cuda_remap_dim &dim, int64_t at)
{
    return found(dim.outside, dim.flipped ? dim.extent - 1 - at : at + dim.start, dim.extent);
}

/* What the elements of a line have in common. */
struct remap_line {
    int64_t to, from;
    bool inside;
};
static __device__ __forceinline__ remap_line line_of(const cuda_remap_args &a, int64_t number)
{
    remap_line line = { 0, 0, true };
    for (int d = 1; d < a.ndim; d++) {
        const cuda_remap_dim &dim = a.dims[d];
        const int64_t next = quotient(number, dim.size), at = number - next * dim.size.number;
        const int64_t k = source_of(dim, at);
        number = next;
        line.inside = line.inside && k >= 0;
        line.to += at * dim.out_stride;
        line.from += k * dim.in_stride;
    }
    return line;
}

template <typename S>
__global__ void __launch_bounds__(BLOCK) k_remap(S *out, const S *in, S value, cuda_remap_args a)
{
    const cuda_remap_dim &inner = a.dims[0];
    for (int64_t i = first_item() * FEW<S>; i < a.numel; i += item_step() * FEW<S>) {
        pack<S, FEW<S>> some = {};
        each_in_lines<FEW<S>>(
            i, a.numel, inner.size, [&](int64_t number) { return line_of(a, number); },
            [&](int k, int64_t at, const remap_line &line) {
                const int64_t from = source_of(inner, at);
                some.at[k] =
                    line.inside && from >= 0 ? in[line.from + from * inner.in_stride] : value;
                if (!a.dense)
                    out[line.to + at * inner.out_stride] = some.at[k];
            });
        if (a.dense)
            store_pack<S, FEW<S>>(out + i, a.numel - i, some);
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
        const cudaLaunchConfig_t c = shape_for_few<S>(args->numel, stream);
        return cudaLaunchKernelEx(&c, k_remap<S>, (S *)out, (const S *)in, (S)bits, *args);
    });
}

/* Row-major matrices. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_triangle(S *out, const S *in, int64_t n, cuda_divisor rows, cuda_divisor columns,
               int64_t diagonal, int upper)
{
    for (int64_t i = first_item() * FEW<S>; i < n; i += item_step() * FEW<S>) {
        uint32_t kept = 0;
        each_in_lines<FEW<S>>(
            i, n, columns,
            [&](int64_t line) { return line - quotient(line, rows) * rows.number + diagonal; },
            [&](int k, int64_t column, int64_t edge) {
                kept |= (upper ? column >= edge : column <= edge) ? 1u << k : 0u;
            });
        pack<S, FEW<S>> some = {};
        if (kept != 0)
            some = load_pack<S, FEW<S>>(in + i, n - i);
#pragma unroll
        for (int k = 0; k < FEW<S>; k++)
            some.at[k] = (kept >> k & 1u) != 0 ? some.at[k] : S{};
        store_pack<S, FEW<S>>(out + i, n - i, some);
    }
}

extern "C" cudaError_t cuda_launch_triangle(void *out, const void *in, int64_t size, int64_t n,
                                            int64_t rows, int64_t columns, int64_t diagonal,
                                            int upper, cudaStream_t stream)
{
    return size_switch(size, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for_few<S>(n, stream);
        return cudaLaunchKernelEx(&c, k_triangle<S>, (S *)out, (const S *)in, n,
                                  cuda_divisor_of(rows, n), cuda_divisor_of(columns, n), diagonal,
                                  upper);
    });
}
