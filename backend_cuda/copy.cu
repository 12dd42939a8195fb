/* copy: any strides, any dtypes. Elements of one dtype are moved by size; conversions are told at run
 * time which types they have (a hundred pairs would fill the binary): half types go through f32, integers keep
 * 64 bits. A thread takes one element of a walk, or a few of a line. The casts of mixed precision, between
 * f32 and half types without gaps, have kernels of their own: four elements a thread, and no f64, which is slow on many
 * GPUs. */
#include "backend_cuda/launch.h"
#include "backend_cuda/lines.cuh"

using namespace cuda;

template <typename S>
__global__ void __launch_bounds__(BLOCK) k_move(S *out, const S *in, cuda_walk walk)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[2];
        offsets<2>(walk, (uint32_t)i, at);
        out[at[0]] = in[at[1]];
    }
}

struct move_line {
    int64_t at[2]; /* out, in */
};

/* Lines whose elements lie beside each other in `out`, and in `in`, too, or are one that repeats. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_move_lines(S *out, const S *in, cuda_walk walk, cuda_divisor length, int dense)
{
    const int64_t step = walk.stride[0][1];
    for (int64_t i = first_item() * FEW<S>; i < walk.numel; i += item_step() * FEW<S>) {
        pack<S, FEW<S>> some = {};
        each_in_lines<FEW<S>>(
            i, walk.numel, length,
            [&](int64_t number) {
                move_line line;
                offsets<2>(walk, (uint32_t)number, line.at, 1);
                return line;
            },
            [&](int k, int64_t at, const move_line &line) {
                some.at[k] = in[line.at[1] + at * step];
                if (!dense)
                    out[line.at[0] + at] = some.at[k];
            });
        if (dense)
            store_pack<S, FEW<S>>(out + i, walk.numel - i, some);
    }
}

struct anything {
    double f;
    int64_t i;
    bool whole;
};

static __device__ __forceinline__ anything load_any(const void *in, int dtype, int64_t k)
{
    switch (dtype) {
    case TERN_BOOL:
    case TERN_U8:
        return { 0, ((const uint8_t *)in)[k], true };
    case TERN_I8:
        return { 0, ((const int8_t *)in)[k], true };
    case TERN_I16:
        return { 0, ((const int16_t *)in)[k], true };
    case TERN_I32:
        return { 0, ((const int32_t *)in)[k], true };
    case TERN_I64:
        return { 0, ((const int64_t *)in)[k], true };
    case TERN_F16:
        return { (double)widen(((const __half *)in)[k]), 0, false };
    case TERN_BF16:
        return { (double)widen(((const __nv_bfloat16 *)in)[k]), 0, false };
    case TERN_F32:
        return { (double)((const float *)in)[k], 0, false };
    default:
        return { ((const double *)in)[k], 0, false };
    }
}

/* What lies outside becomes the least value, as on the CPU. */
static __device__ __forceinline__ int32_t to_i32(const anything &v)
{
    if (v.whole)
        return (int32_t)v.i;
    return v.f > -2147483649.0 && v.f < 2147483648.0 ? (int32_t)v.f : (int32_t)(-2147483647 - 1);
}
static __device__ __forceinline__ int64_t to_i64(const anything &v)
{
    if (v.whole)
        return v.i;
    return v.f >= -9223372036854775808.0 && v.f < 9223372036854775808.0
               ? (int64_t)v.f
               : (int64_t)(-9223372036854775807LL - 1);
}
static __device__ __forceinline__ float to_f32(const anything &v)
{
    return v.whole ? (float)v.i : (float)v.f;
}

static __device__ __forceinline__ void store_any(void *out, int dtype, int64_t k, const anything &v)
{
    switch (dtype) {
    case TERN_BOOL:
        ((uint8_t *)out)[k] = v.whole ? v.i != 0 : v.f != 0;
        break;
    case TERN_U8:
        ((uint8_t *)out)[k] = (uint8_t)to_i32(v);
        break;
    case TERN_I8:
        ((int8_t *)out)[k] = (int8_t)to_i32(v);
        break;
    case TERN_I16:
        ((int16_t *)out)[k] = (int16_t)to_i32(v);
        break;
    case TERN_I32:
        ((int32_t *)out)[k] = to_i32(v);
        break;
    case TERN_I64:
        ((int64_t *)out)[k] = to_i64(v);
        break;
    case TERN_F16:
        ((__half *)out)[k] = narrow<__half>(to_f32(v));
        break;
    case TERN_BF16:
        ((__nv_bfloat16 *)out)[k] = narrow<__nv_bfloat16>(to_f32(v));
        break;
    case TERN_F32:
        ((float *)out)[k] = to_f32(v);
        break;
    default:
        ((double *)out)[k] = v.whole ? (double)v.i : v.f;
    }
}

static __global__ void __launch_bounds__(BLOCK)
    k_convert(void *out, int out_dtype, const void *in, int in_dtype, cuda_walk walk)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[2];
        offsets<2>(walk, (uint32_t)i, at);
        store_any(out, out_dtype, at[0], load_any(in, in_dtype, at[1]));
    }
}

/* ---- casts of mixed precision ------------------------------------------------------------------ */

enum { CAST = 4 }; /* elements of a thread: 16 bytes of f32 */
template <typename S> struct alignas(sizeof(S) * CAST) four {
    S at[CAST];
};

template <typename O, typename S>
__global__ void __launch_bounds__(BLOCK) k_cast(O *out, const S *in, int64_t n)
{
    for (int64_t i = first_item() * CAST; i < n; i += item_step() * CAST) {
        if (i + CAST > n) {
            for (int64_t k = i; k < n; k++)
                out[k] = narrow<O>((float)widen(in[k]));
            continue;
        }
        const four<S> x = *(const four<S> *)(in + i);
        four<O> y;
#pragma unroll
        for (int k = 0; k < CAST; k++)
            y.at[k] = narrow<O>((float)widen(x.at[k]));
        *(four<O> *)(out + i) = y;
    }
}

static bool is_cast(int dtype)
{
    return dtype == TERN_F32 || dtype == TERN_F16 || dtype == TERN_BF16;
}

static bool is_dense(const cuda_walk *w)
{
    return w->ndim == 0 || (w->ndim == 1 && w->stride[0][0] == 1 && w->stride[0][1] == 1);
}

template <typename S> static bool takes_fours(const void *p)
{
    return (uintptr_t)p % sizeof(four<S>) == 0;
}

/* *out_done false: the walk has to do it. */
static cudaError_t launch_cast(void *out, int out_dtype, const void *in, int in_dtype,
                               const cuda_walk *walk, cudaStream_t stream, bool *out_done)
{
    *out_done = false;
    if (!is_cast(out_dtype) || !is_cast(in_dtype) || !is_dense(walk))
        return cudaSuccess;
    const cudaLaunchConfig_t c = shape_for((walk->numel + CAST - 1) / CAST, stream);
    return float_switch(in_dtype, [&](auto from) {
        using S = decltype(from);
        return float_switch(out_dtype, [&](auto to) {
            using O = decltype(to);
            if constexpr (std::is_same<S, O>::value || sizeof(S) == 8 || sizeof(O) == 8) {
                return cudaSuccess;
            } else {
                if (!takes_fours<S>(in) || !takes_fours<O>(out))
                    return cudaSuccess;
                *out_done = true;
                return cudaLaunchKernelEx(&c, k_cast<O, S>, (O *)out, (const S *)in,
                                          (int64_t)walk->numel);
            }
        });
    });
}

static bool has_lines(const cuda_walk *w)
{
    return w->ndim > 0 && w->stride[0][0] == 1 && (w->stride[0][1] == 0 || w->stride[0][1] == 1);
}

static bool is_row_major(const cuda_walk *w)
{
    int64_t stride = 1;
    for (int d = 0; d < w->ndim; d++) {
        if (w->stride[d][0] != stride)
            return false;
        stride *= w->shape[d];
    }
    return true;
}

extern "C" cudaError_t cuda_launch_copy(void *out, int out_dtype, const void *in, int in_dtype,
                                        const cuda_walk *walk, cudaStream_t stream)
{
    bool done;
    const cudaError_t code = launch_cast(out, out_dtype, in, in_dtype, walk, stream, &done);
    if (done)
        return code;
    const cudaLaunchConfig_t c = shape_for(walk->numel, stream);
    if (out_dtype != in_dtype)
        return cudaLaunchKernelEx(&c, k_convert, out, out_dtype, in, in_dtype, *walk);
    return size_switch(cuda_dtype_size(in_dtype), [&](auto zero) {
        using S = decltype(zero);
        if (has_lines(walk)) {
            const cudaLaunchConfig_t few = shape_for_few<S>(walk->numel, stream);
            return cudaLaunchKernelEx(&few, k_move_lines<S>, (S *)out, (const S *)in, *walk,
                                      cuda_divisor_of(walk->shape[0], walk->numel),
                                      is_row_major(walk) ? 1 : 0);
        }
        return cudaLaunchKernelEx(&c, k_move<S>, (S *)out, (const S *)in, *walk);
    });
}
