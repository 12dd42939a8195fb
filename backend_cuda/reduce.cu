/* sum, mean, var, std, prod, norm, amax, amin, max, min over any dimensions of any strides.
 *
 * `kept` walks the outputs, `gone` what each of them is made of. A thread makes an output where
 * neighbours lie beside each other or there is little to reduce, a warp where many outputs are made of some
 * thousand elements at most, else a block does; outputs that are few and long are cut into chunks (a thread's or
 * a block's), whose cells a second launch merges. f32 and half types accumulate in f32, f64 in f64, integers in
 * i64; the order is fixed, so that results repeat bit for bit. */
#include <cmath>
#include <type_traits>

#include "backend_cuda/ahead.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/number.cuh"
#include "backend_cuda/reduce.cuh"
#include "backend_cuda/reduce_cells.cuh"
#include "backend_cuda/walk.cuh"

using namespace cuda;

enum { FEW_CELLS = 32 }; /* of an output, that a thread merges alone */

/* ---- elements -------------------------------------------------------------------------------- */

template <typename O, typename A> struct write_as {
    static __device__ __forceinline__ O run(A x)
    {
        return narrow<O>(x);
    }
};
template <typename A> struct write_as<bool8, A> {
    static __device__ __forceinline__ bool8 run(A x)
    {
        return bool8{ (uint8_t)(x != 0) };
    }
};

template <typename C, typename O>
static __device__ __forceinline__ void write_out(const C &c, O *out, int64_t *place,
                                                 const int64_t (&at)[3], finish f)
{
    const auto x = c.value(f);
    if (out != nullptr)
        out[at[0]] = write_as<O, decltype(c.value(f))>::run(x);
    if (place != nullptr)
        place[at[1]] = c.place();
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Adds elements begin, begin + step, ... below end of an output, whose first lies at `base`; of none `in` may be
 * NULL. */
template <typename C, typename S>
static __device__ __forceinline__ void fold(C &c, const S *in, int64_t base, const cuda_walk &gone,
                                            int64_t begin, int64_t end, int64_t step)
{
    if (begin >= end)
        return;
    in += base;
    using A = typename C::number;
    const auto add = [&](int64_t k, S x) { c.add((A)number_of(x), k); };
    if (gone.ndim <= 1) {
        const int64_t stride = gone.ndim == 1 ? gone.stride[0][0] : 0;
        if constexpr (std::is_same<C, var_cell<A>>::value)
            several_ahead(
                in, stride, begin, end, step,
                [&](int64_t, const S(&some)[AHEAD<S>]) {
                    A numbers[AHEAD<S>];
#pragma unroll
                    for (int k = 0; k < AHEAD<S>; k++)
                        numbers[k] = (A)number_of(some[k]);
                    c.add_all(numbers);
                },
                add);
        else
            each_ahead(in, stride, begin, end, step, add);
        return;
    }
    for (int64_t k = begin; k < end; k += step) {
        int64_t at[1];
        offsets<1>(gone, (uint32_t)k, at);
        add(k, in[at[0]]);
    }
}

template <typename C, typename S, typename O>
__global__ void __launch_bounds__(BLOCK)
    k_reduce_by_thread(O *out, int64_t *place, const S *in, C *cells, cuda_walk kept,
                       cuda_walk gone, finish f, int64_t count, int chunks)
{
    for (int64_t i = first_item(); i < (int64_t)kept.numel * chunks; i += item_step()) {
        const int64_t chunk = i / kept.numel, output = i - chunk * kept.numel;
        const int64_t begin = count * chunk / chunks, end = count * (chunk + 1) / chunks;
        int64_t at[3];
        offsets<3>(kept, (uint32_t)output, at);
        C c;
        c.start(f);
        fold(c, in, at[2], gone, begin, end, 1);
        if (cells != nullptr)
            cells[i] = c;
        else
            write_out(c, out, place, at, f);
    }
}

/* Groups of `width` threads, a warp or a block: (output, chunk); cells NULL: one chunk, written at once. */
template <typename C, typename S, typename O>
__global__ void __launch_bounds__(BLOCK)
    k_reduce_by_group(O *out, int64_t *place, const S *in, C *cells, cuda_walk kept, cuda_walk gone,
                      finish f, int64_t count, int chunks, int width)
{
    __shared__ unsigned char memory[BLOCK / 32 * sizeof(C)] __attribute__((aligned(16)));
    C *shared = (C *)memory;
    const int64_t group = width == BLOCK ? (int64_t)blockIdx.x : first_item() / 32;
    if (group >= (int64_t)kept.numel * chunks) /* warps of the last block */
        return;
    int64_t output = group, chunk = 0, begin = 0, end = count, at[3];
    if (chunks > 1) { /* divisions take longer than a short row */
        output = group / chunks;
        chunk = group - output * chunks;
        begin = count * chunk / chunks;
        end = count * (chunk + 1) / chunks;
    }
    offsets<3>(kept, (uint32_t)output, at);
    C c;
    c.start(f);
    fold(c, in, at[2], gone, begin + threadIdx.x % (unsigned)width, end, width);
    if (width == BLOCK) {
        block_merge(shared, c);
        if (threadIdx.x == 0)
            c = shared[0];
    } else {
        c = warp_merge(c);
    }
    if (threadIdx.x % (unsigned)width != 0)
        return;
    if (cells != nullptr)
        cells[chunk * kept.numel + output] = c;
    else
        write_out(c, out, place, at, f);
}

template <typename C, typename O>
__global__ void __launch_bounds__(BLOCK)
    k_reduce_cells(O *out, int64_t *place, const C *cells, cuda_walk kept, finish f, int chunks)
{
    for (int64_t i = first_item(); i < kept.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(kept, (uint32_t)i, at);
        C c = cells[i];
        for (int64_t k = i + kept.numel; k < (int64_t)kept.numel * chunks; k += kept.numel)
            c.merge(cells[k]);
        write_out(c, out, place, at, f);
    }
}

/* A block an output: a thread alone would wait for thousands of cells one after the other. */
template <typename C, typename O>
__global__ void __launch_bounds__(BLOCK)
    k_reduce_cells_by_block(O *out, int64_t *place, const C *cells, cuda_walk kept, finish f,
                            int chunks)
{
    __shared__ unsigned char memory[BLOCK / 32 * sizeof(C)] __attribute__((aligned(16)));
    C *shared = (C *)memory;
    const int64_t output = blockIdx.x;
    C c;
    c.start(f);
    for (int64_t k = threadIdx.x; k < chunks; k += BLOCK)
        c.merge(cells[k * kept.numel + output]);
    block_merge(shared, c);
    if (threadIdx.x != 0)
        return;
    int64_t at[3];
    offsets<3>(kept, (uint32_t)output, at);
    write_out(shared[0], out, place, at, f);
}

/* ---- launchers ------------------------------------------------------------------------------- */

static finish finish_of(const cuda_reduce_args *r)
{
    finish f = {};
    f.share = r->kind == CUDA_MEAN ? 1.0 / (double)r->count : 1.0;
    f.correction = r->correction;
    f.p = r->p;
    f.least = r->least;
    f.root = r->kind == CUDA_STD;
    f.fold = FOLD_PRODUCT;
    if (r->kind == CUDA_NORM)
        f.fold = isinf(r->p)   ? (r->p > 0 ? FOLD_GREATEST : FOLD_LEAST)
                 : r->p == 2.0 ? FOLD_SQUARES
                 : r->p == 1.0 ? FOLD_SIZES
                 : r->p == 0.0 ? FOLD_COUNT
                               : FOLD_POWERS;
    return f;
}

template <typename C, typename S, typename O>
static cudaError_t launch_cells(const cuda_reduce_args *r, cudaStream_t stream)
{
    static_assert(sizeof(C) <= CUDA_CELL_BYTES, "scratch is counted in cells of this size");
    static_assert(BLOCK == CUDA_BLOCK, "widths are threads of a block");
    const finish f = finish_of(r);
    const cuda_walk &kept = *r->kept;
    O *out = (O *)r->out;
    const S *in = (const S *)r->in;
    const int64_t pieces = (int64_t)kept.numel * r->chunks;
    const cudaLaunchConfig_t c =
        r->width == 1 ? shape_for(pieces, stream)
                      : shape((pieces * r->width + BLOCK - 1) / BLOCK, BLOCK, stream);
    C *cells = r->chunks > 1 ? (C *)r->cells : nullptr;
    const cudaError_t code =
        r->width == 1 ? cudaLaunchKernelEx(&c, k_reduce_by_thread<C, S, O>, out, r->place, in,
                                           cells, kept, *r->gone, f, r->count, (int)r->chunks)
                      : cudaLaunchKernelEx(&c, k_reduce_by_group<C, S, O>, out, r->place, in, cells,
                                           kept, *r->gone, f, r->count, (int)r->chunks, r->width);
    if (code != cudaSuccess || cells == nullptr)
        return code;
    if (r->width > 1 && r->chunks > FEW_CELLS) { /* so outputs are few */
        const cudaLaunchConfig_t blocks = shape(kept.numel, BLOCK, stream);
        return cudaLaunchKernelEx(&blocks, k_reduce_cells_by_block<C, O>, out, r->place,
                                  (const C *)cells, kept, f, (int)r->chunks);
    }
    const cudaLaunchConfig_t second = shape_for(kept.numel, stream);
    return cudaLaunchKernelEx(&second, k_reduce_cells<C, O>, out, r->place, (const C *)cells, kept,
                              f, (int)r->chunks);
}

/* Floats reduce to their own type, integers to i64 (sums, products) or to their own (extremes). */
template <typename S, typename A, typename O>
static cudaError_t launch_kind(const cuda_reduce_args *r, cudaStream_t stream)
{
    if (r->kind == CUDA_PLACE)
        return launch_cells<extreme_cell<A>, S, S>(r, stream);
    if (r->kind == CUDA_EXTREME) {
        constexpr bool fits = std::is_same<A, int64_t>::value && sizeof(S) < 8;
        return launch_cells<peak_cell<std::conditional_t<fits, int32_t, A>>, S, S>(r, stream);
    }
    if (r->kind == CUDA_PROD || r->kind == CUDA_NORM)
        return launch_cells<fold_cell<A>, S, O>(r, stream);
    if constexpr (!std::is_same<A, int64_t>::value)
        if (r->kind == CUDA_VAR || r->kind == CUDA_STD)
            return launch_cells<var_cell<A>, S, O>(r, stream);
    return launch_cells<sum_cell<A>, S, O>(r, stream);
}

extern "C" cudaError_t cuda_launch_reduce(const cuda_reduce_args *r, cudaStream_t stream)
{
    if (r->in_dtype == TERN_BOOL)
        return launch_kind<bool8, int64_t, int64_t>(r, stream);
    if (tern_dtype_is_float((tern_dtype_t)r->in_dtype))
        return float_switch(r->in_dtype, [&](auto zero) {
            using S = decltype(zero);
            return launch_kind<S, real<S>, S>(r, stream);
        });
    return integer_switch(r->in_dtype, [&](auto zero) {
        using S = decltype(zero);
        return launch_kind<S, int64_t, int64_t>(r, stream);
    });
}
