/* softmax and log_softmax along one dimension of a row-major tensor [outer, n, inner], and their
 * gradients: softmax g -> y (g - sum(g y)), log_softmax g -> g - exp(y) sum(g).
 *
 * A warp owns a row where its elements lie beside each other (inner = 1), else a thread does and its
 * neighbours take the columns beside it. Rows that fit are held in registers and their exponentials made once: read
 * three times they stay in no first-level cache when a multiprocessor has all its warps. f32 inside (f64 for
 * f64); deterministic, and held or not the same sums in the same order. */
#include "backend_cuda/ahead.cuh"
#include "backend_cuda/formulas.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/reduce.cuh"

using namespace cuda;

/* Where a row begins. */
static __device__ __forceinline__ int64_t begin_of(int64_t row, int64_t n, int64_t inner)
{
    return inner == 1 ? row * n : row / inner * n * inner + row % inner;
}

template <bool by_warp> static __device__ __forceinline__ int64_t first_row()
{
    return by_warp ? first_item() / 32 : first_item();
}
template <bool by_warp> static __device__ __forceinline__ int64_t row_step()
{
    return by_warp ? item_step() / 32 : item_step();
}

template <typename S, bool by_warp>
__global__ void __launch_bounds__(BLOCK)
    k_softmax(S *out, const S *x, bool logarithm, int64_t rows, int64_t n, int64_t inner)
{
    using T = real<S>;
    const int lane = by_warp ? (int)(threadIdx.x % 32) : 0, lanes = by_warp ? 32 : 1;
    const int64_t step = by_warp ? 1 : inner;
    for (int64_t row = first_row<by_warp>(); row < rows; row += row_step<by_warp>()) {
        const int64_t begin = begin_of(row, n, step);
        const S *from = x + begin;
        T largest = -(T)INFINITY, sum = 0;
        each_ahead(from, step, lane, n, lanes, [&](int64_t, S v) {
            largest = widen(v) > largest || widen(v) != widen(v) ? widen(v) : largest;
        });
        if (by_warp)
            largest = warp_max(largest);
        each_ahead(from, step, lane, n, lanes,
                   [&](int64_t, S v) { sum += exp_of(widen(v) - largest); });
        if (by_warp)
            sum = warp_sum(sum);
        /* largest and logarithm are not one number: rounded to large logits, it would lose the latter */
        const T last = logarithm ? log_of(sum) : (T)1 / sum;
        each_ahead(from, step, lane, n, lanes, [&](int64_t i, S v) {
            const T below = widen(v) - largest;
            out[begin + i * step] = narrow<S>(logarithm ? below - last : exp_of(below) * last);
        });
    }
}

/* Rows of at most 32 HELD elements that lie beside each other, a warp each. */
template <typename S, int HELD>
__global__ void __launch_bounds__(BLOCK)
    k_softmax_held(S *out, const S *x, bool logarithm, int64_t rows, int n)
{
    using T = real<S>;
    const int lane = (int)threadIdx.x % 32;
    for (int64_t row = first_row<true>(); row < rows; row += row_step<true>()) {
        const S *from = x + row * n;
        S *const to = out + row * n;
        T held[HELD], largest = -(T)INFINITY, sum = 0;
#pragma unroll
        for (int k = 0; k < HELD; k++)
            held[k] = lane + 32 * k < n ? widen(from[lane + 32 * k]) : -(T)INFINITY;
#pragma unroll
        for (int k = 0; k < HELD; k++)
            largest = held[k] > largest || held[k] != held[k] ? held[k] : largest;
        largest = warp_max(largest);
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            const T below = held[k] - largest, weight = exp_of(below);
            sum += lane + 32 * k < n ? weight : (T)0;
            held[k] = logarithm ? below : weight;
        }
        sum = warp_sum(sum);
        const T last = logarithm ? log_of(sum) : (T)1 / sum;
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (lane + 32 * k < n)
                to[lane + 32 * k] = narrow<S>(logarithm ? held[k] - last : held[k] * last);
    }
}

template <typename S, bool by_warp>
__global__ void __launch_bounds__(BLOCK)
    k_softmax_grad(S *out, const S *grad, const S *y, bool logarithm, int64_t rows, int64_t n,
                   int64_t inner)
{
    using T = real<S>;
    const int lane = by_warp ? (int)(threadIdx.x % 32) : 0, lanes = by_warp ? 32 : 1;
    const int64_t step = by_warp ? 1 : inner;
    for (int64_t row = first_row<by_warp>(); row < rows; row += row_step<by_warp>()) {
        const int64_t begin = begin_of(row, n, step);
        const S *grads = grad + begin, *results = y + begin;
        T sum = 0;
        each_ahead(grads, results, step, lane, n, lanes,
                   [&](int64_t, S g, S v) { sum += logarithm ? widen(g) : widen(g) * widen(v); });
        if (by_warp)
            sum = warp_sum(sum);
        each_ahead(grads, results, step, lane, n, lanes, [&](int64_t i, S g, S v) {
            out[begin + i * step] = narrow<S>(logarithm ? widen(g) - exp_of(widen(v)) * sum
                                                        : widen(v) * (widen(g) - sum));
        });
    }
}

extern "C" cudaError_t cuda_launch_softmax(const cuda_softmax_args *s, cudaStream_t stream)
{
    const int64_t rows = s->outer * s->inner;
    return float_switch(s->dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(s->inner == 1 ? rows * 32 : rows, stream);
        if (s->inner == 1)
            return held_switch<S>(s->n, [&](auto held) {
                constexpr int HELD = decltype(held)::value;
                if constexpr (HELD > 0)
                    return cudaLaunchKernelEx(&c, k_softmax_held<S, HELD>, (S *)s->out,
                                              (const S *)s->x, s->logarithm, rows, (int)s->n);
                else
                    return cudaLaunchKernelEx(&c, k_softmax<S, true>, (S *)s->out, (const S *)s->x,
                                              s->logarithm, rows, s->n, s->inner);
            });
        return cudaLaunchKernelEx(&c, k_softmax<S, false>, (S *)s->out, (const S *)s->x,
                                  s->logarithm, rows, s->n, s->inner);
    });
}

extern "C" cudaError_t cuda_launch_softmax_grad(const cuda_softmax_args *s, cudaStream_t stream)
{
    const int64_t rows = s->outer * s->inner;
    return float_switch(s->dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(s->inner == 1 ? rows * 32 : rows, stream);
        if (s->inner == 1)
            return cudaLaunchKernelEx(&c, k_softmax_grad<S, true>, (S *)s->out, (const S *)s->x,
                                      (const S *)s->y, s->logarithm, rows, s->n, s->inner);
        return cudaLaunchKernelEx(&c, k_softmax_grad<S, false>, (S *)s->out, (const S *)s->x,
                                  (const S *)s->y, s->logarithm, rows, s->n, s->inner);
    });
}
