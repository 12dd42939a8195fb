/* softmax and log_softmax along one dimension of a row-major tensor [outer, n, inner], and their
 * gradients: softmax g -> y (g - sum(g y)), log_softmax g -> g - exp(y) sum(g).
 *
 * A warp owns a row where its elements lie beside each other (inner = 1), else a thread does and its
 * neighbours take the columns beside it. f32 inside (f64 for f64); deterministic. */
#include "backend_cuda/formulas.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/reduce.cuh"

using namespace cuda;

/* A row's elements that this thread takes: lane, lane + lanes, ... */
struct row_part {
    int64_t base, step, n;
    int lane, lanes;
};

template <bool by_warp>
static __device__ __forceinline__ row_part part_of(int64_t row, int64_t n, int64_t inner)
{
    row_part p;
    p.base = row / inner * n * inner + row % inner;
    p.step = inner;
    p.n = n;
    p.lane = by_warp ? (int)(threadIdx.x % 32) : 0;
    p.lanes = by_warp ? 32 : 1;
    return p;
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
    for (int64_t row = first_row<by_warp>(); row < rows; row += row_step<by_warp>()) {
        const row_part p = part_of<by_warp>(row, n, inner);
        T largest = -(T)INFINITY, sum = 0;
        for (int64_t i = p.lane; i < n; i += p.lanes) {
            const T v = widen(x[p.base + i * p.step]);
            largest = v > largest || v != v ? v : largest;
        }
        if (by_warp)
            largest = warp_max(largest);
        for (int64_t i = p.lane; i < n; i += p.lanes)
            sum += exp_of(widen(x[p.base + i * p.step]) - largest);
        if (by_warp)
            sum = warp_sum(sum);
        /* largest and logarithm are not one number: rounded to large logits, it would lose the latter */
        const T last = logarithm ? log_of(sum) : (T)1 / sum;
        for (int64_t i = p.lane; i < n; i += p.lanes) {
            const int64_t at = p.base + i * p.step;
            const T v = widen(x[at]) - largest;
            out[at] = narrow<S>(logarithm ? v - last : exp_of(v) * last);
        }
    }
}

template <typename S, bool by_warp>
__global__ void __launch_bounds__(BLOCK)
    k_softmax_grad(S *out, const S *grad, const S *y, bool logarithm, int64_t rows, int64_t n,
                   int64_t inner)
{
    using T = real<S>;
    for (int64_t row = first_row<by_warp>(); row < rows; row += row_step<by_warp>()) {
        const row_part p = part_of<by_warp>(row, n, inner);
        T sum = 0;
        for (int64_t i = p.lane; i < n; i += p.lanes) {
            const int64_t at = p.base + i * p.step;
            sum += logarithm ? widen(grad[at]) : widen(grad[at]) * widen(y[at]);
        }
        if (by_warp)
            sum = warp_sum(sum);
        for (int64_t i = p.lane; i < n; i += p.lanes) {
            const int64_t at = p.base + i * p.step;
            const T g = widen(grad[at]), v = widen(y[at]);
            out[at] = narrow<S>(logarithm ? g - exp_of(v) * sum : v * (g - sum));
        }
    }
}

extern "C" cudaError_t cuda_launch_softmax(const cuda_softmax_args *s, cudaStream_t stream)
{
    const int64_t rows = s->outer * s->inner;
    return float_switch(s->dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(s->inner == 1 ? rows * 32 : rows, stream);
        if (s->inner == 1)
            return cudaLaunchKernelEx(&c, k_softmax<S, true>, (S *)s->out, (const S *)s->x,
                                      s->logarithm, rows, s->n, s->inner);
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
