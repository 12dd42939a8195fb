/* Loops that wait for memory once for several elements: loads of AHEAD elements are under way
 * before the first is used. */
#ifndef TERN_BACKEND_CUDA_AHEAD_CUH
#define TERN_BACKEND_CUDA_AHEAD_CUH

#include <type_traits>

#include "backend_cuda/types.cuh"

namespace cuda
{

/* Elements whose registers are few. */
template <typename S> constexpr int AHEAD = sizeof(S) <= 4 ? 8 : 4;

/* x is loaded here: what comes before in the text is under way when what follows begins. Else the compiler moves a load
 * down to where it is used, behind the arithmetic of the elements before it. */
template <typename S> __device__ __forceinline__ void loaded(S &x)
{
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(S) == 8)
        asm volatile("" : "+l"(reinterpret_cast<unsigned long long &>(x)));
    else if constexpr (sizeof(S) == 4)
        asm volatile("" : "+r"(reinterpret_cast<unsigned &>(x)));
    else if constexpr (sizeof(S) == 2)
        asm volatile("" : "+h"(reinterpret_cast<unsigned short &>(x)));
#else
    (void)x;
#endif
}

template <typename S, int N> __device__ __forceinline__ void all_loaded(S (&x)[N])
{
#pragma unroll
    for (int k = 0; k < N; k++)
        loaded(x[k]);
}

/* several(i, elements i, i + step, ... of x) for AHEAD of them at a time, then run(i, x[i * stride]) for those that are
 * left of i = begin, begin + step, ... below end, in this order; x is not written meanwhile. */
template <typename S, typename G, typename F>
__device__ __forceinline__ void several_ahead(const S *x, int64_t stride, int64_t begin,
                                              int64_t end, int64_t step, G several, F run)
{
    constexpr int SOME = AHEAD<S>;
    int64_t i = begin;
    for (; i + (SOME - 1) * step < end; i += SOME * step) {
        S some[SOME];
#pragma unroll
        for (int k = 0; k < SOME; k++)
            some[k] = x[(i + k * step) * stride];
        all_loaded(some);
        several(i, some);
    }
    for (; i < end; i += step)
        run(i, x[i * stride]);
}

/* run(i, x[i * stride]) for each, likewise. */
template <typename S, typename F>
__device__ __forceinline__ void each_ahead(const S *x, int64_t stride, int64_t begin, int64_t end,
                                           int64_t step, F run)
{
    const auto each = [&](int64_t i, const S(&some)[AHEAD<S>]) {
#pragma unroll
        for (int k = 0; k < AHEAD<S>; k++)
            run(i + k * step, some[k]);
    };
    several_ahead(x, stride, begin, end, step, each, run);
}

/* run(i, x[i * stride], y[i * stride]), likewise. */
template <typename S, typename F>
__device__ __forceinline__ void each_ahead(const S *x, const S *y, int64_t stride, int64_t begin,
                                           int64_t end, int64_t step, F run)
{
    constexpr int SOME = AHEAD<S> / 2;
    int64_t i = begin;
    for (; i + (SOME - 1) * step < end; i += SOME * step) {
        S one[SOME], other[SOME];
#pragma unroll
        for (int k = 0; k < SOME; k++) {
            one[k] = x[(i + k * step) * stride];
            other[k] = y[(i + k * step) * stride];
        }
        all_loaded(one);
        all_loaded(other);
#pragma unroll
        for (int k = 0; k < SOME; k++)
            run(i + k * step, one[k], other[k]);
    }
    for (; i < end; i += step)
        run(i, x[i * stride], y[i * stride]);
}

/* The elements of a row that a thread takes: lane, lane + lanes, ..., `step` apart in memory. HELD: as many registers
 * keep them, if that is enough for all, and all lanes of a warp have the row; 0: they are read whenever they are
 * asked for. */
template <typename S, int HELD> struct lane_row {
    const S *x;
    int64_t step, n;
    int lane, lanes;
    S at[HELD > 0 ? HELD : 1];

    __device__ __forceinline__ lane_row(const S *x, int64_t step, int64_t n, int lane, int lanes)
        : x(x), step(step), n(n), lane(lane), lanes(lanes)
    {
#pragma unroll
        for (int k = 0; k < HELD; k++)
            at[k] = has(k) ? x[place(k) * step] : S{};
    }
    /* The number of the element that register k holds; is there one? */
    __device__ __forceinline__ int64_t place(int k) const
    {
        return lane + k * lanes;
    }
    __device__ __forceinline__ bool has(int k) const
    {
        return place(k) < n;
    }
    /* run(i, element i) */
    template <typename F> __device__ __forceinline__ void each(F run) const
    {
        if constexpr (HELD == 0) {
            each_ahead(x, step, lane, n, lanes, run);
        } else {
#pragma unroll
            for (int k = 0; k < HELD; k++) {
                if (has(k))
                    run(place(k), at[k]);
                pause_after(k);
            }
        }
    }
    /* run(i, element i, the other row's) */
    template <typename F> __device__ __forceinline__ void each(const lane_row &other, F run) const
    {
        if constexpr (HELD == 0) {
            each_ahead(x, other.x, step, lane, n, lanes, run);
        } else {
#pragma unroll
            for (int k = 0; k < HELD; k++) {
                if (has(k))
                    run(place(k), at[k], other.at[k]);
                pause_after(k);
            }
        }
    }
    /* What `run` loads for many elements at once would leave no registers for the row. */
    static __device__ __forceinline__ void pause_after(int k)
    {
        if (k % 8 == 7)
            __syncwarp(0xFFFFFFFFu);
    }
};

/* Blocks of BLOCK threads that a multiprocessor has room for, of kernels that hold `rows` rows. */
constexpr int blocks_with(int held, int rows)
{
    return held * rows <= 16 ? 4 : 2;
}

/* run(HELD) for rows of n elements that a warp has, as std::integral_constant. */
template <typename S, typename F> inline cudaError_t held_switch(int64_t n, F run)
{
    if constexpr (sizeof(S) <= 4) {
        if (n <= 32 * 8)
            return run(std::integral_constant<int, 8>{});
        if (n <= 32 * 32)
            return run(std::integral_constant<int, 32>{});
    }
    return run(std::integral_constant<int, 0>{});
}

} // namespace cuda

#endif
