/* Tiles of attention in shared memory: how rows get there and back, and products of them. A warp owns R rows of a tile,
 * its lanes are columns. */
#ifndef TERN_BACKEND_CUDA_ATTENTION_TILE_CUH
#define TERN_BACKEND_CUDA_ATTENTION_TILE_CUH

#include "backend_cuda/launch.h"
#include "backend_cuda/pack.cuh"

namespace cuda
{

constexpr int WARPS = CUDA_ATTENTION_WARPS;
constexpr int THREADS = 32 * WARPS;
constexpr int WEIGHTS = CUDA_ATTENTION_WEIGHTS; /* a row of a tile's weights */

template <typename T> constexpr int WIDE = 16 / (int)sizeof(T); /* elements of 16 bytes */

__device__ __forceinline__ int warp_of()
{
    return (int)threadIdx.x / 32;
}
__device__ __forceinline__ int lane_of()
{
    return (int)threadIdx.x % 32;
}
/* Row j of this warp. */
__device__ __forceinline__ int64_t row_of(int j)
{
    return warp_of() + WARPS * j;
}

template <typename S>
__device__ __forceinline__ S *row_at(const cuda_attention_rows &o, int64_t b, int64_t h,
                                     int64_t row)
{
    return (S *)o.data + b * o.stride[0] + h * o.stride[1] + row * o.stride[2];
}

/* N elements of memory become as many of shared memory, 16 bytes at a time. */
template <typename S, int N>
__device__ __forceinline__ void put(real<S> *to, const pack<S, N> &some)
{
    constexpr int W = WIDE<real<S>>;
#pragma unroll
    for (int i = 0; i < N; i += W) {
        pack<real<S>, W> part;
#pragma unroll
        for (int k = 0; k < W; k++)
            part.at[k] = widen(some.at[i + k]);
        *(pack<real<S>, W> *)(to + i) = part;
    }
}

/* `room` rows of `width` elements, `ld` apart, of which the first `count` exist and the others are 0; a thread has
 * several loads under way. */
template <typename S>
__device__ __forceinline__ void load_tile(real<S> *to, int64_t ld, const cuda_attention_rows &o,
                                          int64_t b, int64_t h, int64_t first, int64_t count,
                                          int64_t room, int64_t width)
{
    constexpr int AT_ONCE = 4, N = 16 / (int)sizeof(S);
    const S *from = row_at<S>(o, b, h, first);
    const int64_t step = o.stride[2];
    if (width % N == 0 && (((uintptr_t)from | (uintptr_t)(step * (int64_t)sizeof(S))) & 15u) == 0) {
        const int per_row = (int)(width / N), all = (int)room * per_row;
        for (int first_pack = (int)threadIdx.x; first_pack < all; first_pack += THREADS * AT_ONCE) {
            pack<S, N> some[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int i = first_pack + THREADS * k, r = i / per_row;
                some[k] = {};
                if (i < all && r < count)
                    some[k] = *(const pack<S, N> *)(from + r * step + (i - r * per_row) * N);
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int i = first_pack + THREADS * k, r = i / per_row;
                if (i < all)
                    put(to + r * ld + (i - r * per_row) * N, some[k]);
            }
        }
        return;
    }
    for (int64_t r0 = warp_of(); r0 < room; r0 += WARPS * AT_ONCE)
        for (int64_t c = lane_of(); c < width; c += 32) {
            real<S> some[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int64_t r = r0 + WARPS * k;
                some[k] = r < count ? widen(from[r * step + c]) : (real<S>)0;
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (r0 + WARPS * k < room)
                    to[(r0 + WARPS * k) * ld + c] = some[k];
        }
}

template <typename S>
__device__ __forceinline__ void store_tile(const real<S> *from, const real<S> *factor,
                                           const cuda_attention_rows &o, int64_t b, int64_t h,
                                           int64_t first, int64_t count, int64_t width)
{
    for (int64_t r = warp_of(); r < count; r += WARPS)
        for (int64_t c = lane_of(); c < width; c += 32)
            row_at<S>(o, b, h, first + r)[c] =
                narrow<S>(from[r * width + c] * (factor != nullptr ? factor[r] : (real<S>)1));
}

/* sum[j] = row j of this warp times the column; rows are `ld` apart, and all begin at 16 bytes. */
template <int R, typename T>
__device__ __forceinline__ void dot_rows(const T *rows, int64_t ld, const T *column, int64_t n,
                                         T (&sum)[R])
{
    constexpr int W = WIDE<T>;
    int64_t i = 0;
#pragma unroll
    for (int j = 0; j < R; j++)
        sum[j] = 0;
    for (; i + W <= n; i += W) {
        const pack<T, W> some = *(const pack<T, W> *)(column + i);
#pragma unroll
        for (int j = 0; j < R; j++) {
            const pack<T, W> x = *(const pack<T, W> *)(rows + row_of(j) * ld + i);
#pragma unroll
            for (int k = 0; k < W; k++)
                sum[j] += x.at[k] * some.at[k];
        }
    }
    for (; i < n; i++)
#pragma unroll
        for (int j = 0; j < R; j++)
            sum[j] += rows[row_of(j) * ld + i] * column[i];
}

/* to[r] = to[r] factor[r] + weights[r] x for the rows of this warp; x has `count` rows, `ld` apart. */
template <int R, typename T>
__device__ __forceinline__ void mix(T *to, int64_t width, const T *weights, const T *x, int64_t ld,
                                    int count, const T *factor)
{
    constexpr int W = WIDE<T>;
    for (int64_t c = lane_of(); c < width; c += 64) {
        const int64_t d = c + 32 < width ? c + 32 : c; /* the second column, if there is one */
        T sum[R] = {}, other[R] = {};
        int i = 0;
        for (; i + W <= count; i += W) {
            T some[W], more[W];
#pragma unroll
            for (int k = 0; k < W; k++) {
                some[k] = x[(i + k) * ld + c];
                more[k] = x[(i + k) * ld + d];
            }
#pragma unroll
            for (int j = 0; j < R; j++) {
                const pack<T, W> w = *(const pack<T, W> *)(weights + row_of(j) * WEIGHTS + i);
#pragma unroll
                for (int k = 0; k < W; k++) {
                    sum[j] += w.at[k] * some[k];
                    other[j] += w.at[k] * more[k];
                }
            }
        }
        for (; i < count; i++)
#pragma unroll
            for (int j = 0; j < R; j++) {
                sum[j] += weights[row_of(j) * WEIGHTS + i] * x[i * ld + c];
                other[j] += weights[row_of(j) * WEIGHTS + i] * x[i * ld + d];
            }
#pragma unroll
        for (int j = 0; j < R; j++) {
            T *cell = to + row_of(j) * width;
            const T f = factor != nullptr ? factor[j] : (T)1;
            cell[c] = cell[c] * f + sum[j];
            if (d != c)
                cell[d] = cell[d] * f + other[j];
        }
    }
}

} // namespace cuda

#endif
