/* What all kernels of attention agree on: which scores are hidden, how they round, what dropout keeps. */
#ifndef TERN_BACKEND_CUDA_ATTENTION_SCORE_CUH
#define TERN_BACKEND_CUDA_ATTENTION_SCORE_CUH

#include "backend_cuda/attention_tile.cuh"
#include "backend_cuda/formulas.cuh"
#include "backend_cuda/philox.cuh"
#include "backend_cuda/reduce.cuh"

namespace cuda
{

/* A head of a batch; of q, and the one of k and v that serves it. */
struct head {
    int64_t b, h, g;
};

/* Never one fma with what follows. */
__device__ __forceinline__ float rounded_product(float x, float y)
{
    return __fmul_rn(x, y);
}
__device__ __forceinline__ double rounded_product(double x, double y)
{
    return __dmul_rn(x, y);
}

/* The scaled score of query t and key s, which backward rounds as forward did, since it subtracts the logarithm of
 * forward's; -infinity where it is hidden or there is none. */
template <typename S>
__device__ __forceinline__ real<S> score_of(const cuda_attention_args &a, const head &p, int64_t t,
                                            int64_t s, real<S> product)
{
    const real<S> hidden = -(real<S>)INFINITY;
    if (t >= a.t || s >= a.s || (a.causal && s > t))
        return hidden;
    const real<S> score = rounded_product(product, (real<S>)a.scale);
    if (a.mask == nullptr)
        return score;
    const int64_t at = p.b * a.mask_stride[0] + p.h * a.mask_stride[1] + t * a.mask_stride[2] +
                       s * a.mask_stride[3];
    if (a.mask_is_bool)
        return ((const uint8_t *)a.mask)[at] != 0 ? score : hidden;
    return score + widen(((const S *)a.mask)[at]);
}

/* What dropout multiplies a weight by. */
template <typename T>
__device__ __forceinline__ T kept(const cuda_attention_args &a, const head &p, int64_t t, int64_t s)
{
    if (!a.drops)
        return 1;
    const int64_t element = ((p.b * a.heads + p.h) * a.t + t) * a.s + s;
    return (int32_t)uniform24(a.seed, a.draw, element) >= a.least ? (T)a.keep_scale : (T)0;
}

__device__ __forceinline__ int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

__device__ __forceinline__ head head_of(const cuda_attention_args &a, int64_t row)
{
    return { row / a.heads, row % a.heads, row % a.heads / (a.heads / a.groups) };
}

/* A query that saw nothing has weights exp(-infinity). */
template <typename T> __device__ __forceinline__ T shift_of(T lse)
{
    return lse == -(T)INFINITY ? (T)INFINITY : lse;
}

/* Sum of gradient times result of query t, in every lane. */
template <typename S>
__device__ __forceinline__ real<S> delta_of(const cuda_attention_args &a, const head &p, int64_t t)
{
    real<S> sum = 0;
    if (t < a.t) {
        const S *y = row_at<S>(a.y, p.b, p.h, t), *g = row_at<S>(a.grad, p.b, p.h, t);
        for (int64_t i = threadIdx.x % 32; i < a.e; i += 32)
            sum += widen(y[i]) * widen(g[i]);
    }
    return warp_sum(sum);
}

} // namespace cuda

#endif
