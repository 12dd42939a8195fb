/* cross_entropy and its gradient; formulas in core/ops/cross_entropy.c. Logits [blocks, classes,
 * inner], target and lse [blocks, inner].
 *
 * A warp owns a position; its loss and weight go to scratch, and one block adds them up in f64 in a
 * fixed order. A target that is no class is noted, and counts as ignored. */
#include "backend_cuda/ahead.cuh"
#include "backend_cuda/fault.cuh"
#include "backend_cuda/formulas.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/reduce.cuh"

using namespace cuda;

/* Beyond it a step of f32 is 7.6e-6 and more: half of that is what probabilities may be off by. */
enum { LOSS_ROUNDED = 64 };

struct loss_shape {
    int64_t positions, classes, inner;
    int64_t ignore_index;
    int reduction;
};

/* What the target and each class get; found on the host, since f64 is slow on GPUs for graphics. */
template <typename T> struct smoothed {
    T rest, share;
};

template <typename S>
static __device__ __forceinline__ real<S> weight_of(const S *weight, int64_t c)
{
    return weight == nullptr ? (real<S>)1 : widen(weight[c]);
}

/* Whether position p counts; what is no class is noted, if `notes`: once a position is enough. */
static __device__ __forceinline__ bool counts(int64_t t, const loss_shape &s, int64_t p, bool notes,
                                              cuda_fault_slot *slot)
{
    if (t == s.ignore_index)
        return false;
    if (t >= 0 && t < s.classes)
        return true;
    if (notes)
        note_fault(slot, CUDA_FAULT_CLASS, t, p, s.classes);
    return false;
}

/* The largest of a position's logits, for all of its warp. */
template <typename S>
static __device__ __forceinline__ real<S> largest_of(const S *row, const loss_shape &s, int lane)
{
    using T = real<S>;
    T largest = -(T)INFINITY;
    each_ahead(row, s.inner, lane, s.classes, 32, [&](int64_t, S x) {
        largest = widen(x) > largest || widen(x) != widen(x) ? widen(x) : largest;
    });
    return warp_max(largest);
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_loss(S *out, real<S> *lse, double *sums, const S *x, const S *weight, const int64_t *target,
           loss_shape s, smoothed<real<S>> part, cuda_fault_slot *slot)
{
    using T = real<S>;
    const int lane = (int)(threadIdx.x % 32);
    for (int64_t p = first_item() / 32; p < s.positions; p += item_step() / 32) {
        const S *row = x + p / s.inner * s.classes * s.inner + p % s.inner;
        T sum = 0, spread = 0, weights = 0;
        const T largest = largest_of(row, s, lane);
        const T shift = largest > -(T)INFINITY || largest != largest ? largest : (T)0;
        each_ahead(row, s.inner, lane, s.classes, 32, [&](int64_t c, S x) {
            const T v = widen(x);
            sum += exp_of(v - shift);
            if (part.share > 0) {
                spread += weight_of(weight, c) * (largest - v);
                weights += weight_of(weight, c);
            }
        });
        const T log_sum = log_of(warp_sum(sum));
        spread = warp_sum(spread);
        weights = warp_sum(weights);
        if (lane != 0)
            continue;
        const int64_t t = target[p];
        const bool counted = counts(t, s, p, true, slot);
        T loss = 0;
        if (counted) {
            const T below = largest - widen(row[t * s.inner]);
            loss = part.rest * ((below + log_sum) * weight_of(weight, t));
            if (part.share > 0)
                loss += part.share * (spread + weights * log_sum);
        }
        lse[p] = largest + log_sum;
        if (out != nullptr)
            out[p] = narrow<S>(loss);
        if (sums != nullptr) {
            sums[2 + 2 * p] = (double)loss;
            sums[3 + 2 * p] = counted ? (double)weight_of(weight, t) : 0.0;
        }
    }
}

struct two_sums {
    double loss, weight;
    __device__ void merge(const two_sums &other)
    {
        loss += other.loss;
        weight += other.weight;
    }
    __device__ two_sums across(int lanes) const
    {
        return { shuffled(loss, lanes), shuffled(weight, lanes) };
    }
};

/* One block: sums[0], sums[1], and the loss. */
template <typename S>
__global__ void __launch_bounds__(BLOCK) k_loss_total(S *out, const double *sums, loss_shape s)
{
    __shared__ two_sums cells[BLOCK / 32];
    two_sums own = { 0, 0 };
    each_ahead((const two_sums *)(sums + 2), 1, threadIdx.x, s.positions, BLOCK,
               [&](int64_t, const two_sums &one) { own.merge(one); });
    block_merge(cells, own);
    if (threadIdx.x == 0)
        *out =
            narrow<S>((real<S>)(s.reduction == TERN_REDUCTION_MEAN ? cells[0].loss / cells[0].weight
                                                                   : cells[0].loss));
}

/* One block: sums[0] = gradient of each loss, if they share one, sums[1] = weight of all classes. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_loss_weights(double *sums, const S *grad, const S *weight, const int64_t *target,
                   loss_shape s)
{
    __shared__ two_sums cells[BLOCK / 32];
    two_sums own = { 0, 0 };
    each_ahead(target, 1, threadIdx.x, s.positions, BLOCK, [&](int64_t, int64_t t) {
        if (t != s.ignore_index && t >= 0 && t < s.classes)
            own.loss += (double)weight_of(weight, t);
    });
    for (int64_t c = threadIdx.x; c < s.classes; c += BLOCK)
        own.weight += (double)weight_of(weight, c);
    block_merge(cells, own);
    if (threadIdx.x == 0) {
        const double g = (double)widen(*grad);
        sums[0] = s.reduction == TERN_REDUCTION_MEAN ? g / cells[0].loss : g;
        sums[1] = cells[0].weight;
    }
}

/* A class's probability is exp(x - base[2 p] - base[2 p + 1]). One number, forward's logarithm, is enough
 * where it is small; a large one is rounded to a step that each probability would be off by. Then the
 * largest logit, whose distance to the others is exact, and the logarithm beyond it are found again. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_loss_base(real<S> *base, const real<S> *lse, const S *x, loss_shape s)
{
    using T = real<S>;
    const int lane = (int)(threadIdx.x % 32);
    for (int64_t p = first_item() / 32; p < s.positions; p += item_step() / 32) {
        T shift = lse[p], rest = 0;
        if (shift > (T)LOSS_ROUNDED || shift < -(T)LOSS_ROUNDED) {
            const S *row = x + p / s.inner * s.classes * s.inner + p % s.inner;
            T sum = 0;
            shift = largest_of(row, s, lane);
            for (int64_t c = lane; c < s.classes; c += 32)
                sum += exp_of(widen(row[c * s.inner]) - shift);
            rest = log_of(warp_sum(sum));
        }
        if (lane == 0) {
            base[2 * p] = shift;
            base[2 * p + 1] = rest;
        }
    }
}

/* Element (p, c): p[c] slope - soft w[c], and hard less at the target. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_loss_grad(S *out, const S *grad, const real<S> *base, const double *sums, const S *x,
                const S *weight, const int64_t *target, loss_shape s, smoothed<real<S>> part,
                cuda_fault_slot *slot)
{
    using T = real<S>;
    const int64_t n = s.positions * s.classes;
    for (int64_t e = first_item(); e < n; e += item_step()) {
        const int64_t c = e / s.inner % s.classes;
        const int64_t p = e / (s.inner * s.classes) * s.inner + e % s.inner;
        const int64_t t = target[p];
        if (!counts(t, s, p, c == 0, slot)) {
            out[e] = narrow<S>((T)0);
            continue;
        }
        const bool separate = s.reduction == TERN_REDUCTION_NONE;
        const T scale = separate ? widen(grad[p]) : (T)sums[0];
        const T hard = scale * (part.rest * weight_of(weight, t));
        const T soft = scale * part.share;
        const T slope = hard + soft * (T)sums[1];
        const T probability = exp_of(widen(x[e]) - base[2 * p] - base[2 * p + 1]);
        const T v = probability * slope - soft * weight_of(weight, c);
        out[e] = narrow<S>(c == t ? v - hard : v);
    }
}

static loss_shape shape_of(const cuda_loss_args *l)
{
    return { l->blocks * l->inner, l->classes, l->inner, l->ignore_index, l->reduction };
}

template <typename T> static smoothed<T> smoothed_of(const cuda_loss_args *l)
{
    return { (T)(1 - l->smoothing), (T)(l->smoothing / (double)l->classes) };
}

extern "C" cudaError_t cuda_launch_loss(const cuda_loss_args *l, cudaStream_t stream)
{
    const loss_shape s = shape_of(l);
    const bool separate = l->reduction == TERN_REDUCTION_NONE;
    return float_switch(l->dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(s.positions * 32, stream);
        return cudaLaunchKernelEx(&c, k_loss<S>, separate ? (S *)l->out : (S *)nullptr,
                                  (real<S> *)l->lse, separate ? (double *)nullptr : l->sums,
                                  (const S *)l->x, (const S *)l->weight, l->target, s,
                                  smoothed_of<real<S>>(l), l->slot);
    });
}

extern "C" cudaError_t cuda_launch_loss_total(const cuda_loss_args *l, cudaStream_t stream)
{
    return float_switch(l->dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape(1, BLOCK, stream);
        return cudaLaunchKernelEx(&c, k_loss_total<S>, (S *)l->out, (const double *)l->sums,
                                  shape_of(l));
    });
}

extern "C" cudaError_t cuda_launch_loss_weights(const cuda_loss_args *l, cudaStream_t stream)
{
    return float_switch(l->dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape(1, BLOCK, stream);
        return cudaLaunchKernelEx(&c, k_loss_weights<S>, l->sums, (const S *)l->grad,
                                  (const S *)l->weight, l->target, shape_of(l));
    });
}

extern "C" cudaError_t cuda_launch_loss_base(const cuda_loss_args *l, cudaStream_t stream)
{
    const loss_shape s = shape_of(l);
    return float_switch(l->dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(s.positions * 32, stream);
        return cudaLaunchKernelEx(&c, k_loss_base<S>, (real<S> *)l->base, (const real<S> *)l->lse,
                                  (const S *)l->x, s);
    });
}

extern "C" cudaError_t cuda_launch_loss_grad(const cuda_loss_args *l, cudaStream_t stream)
{
    const loss_shape s = shape_of(l);
    return float_switch(l->dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(s.positions * s.classes, stream);
        return cudaLaunchKernelEx(&c, k_loss_grad<S>, (S *)l->out, (const S *)l->grad,
                                  (const real<S> *)l->base, (const double *)l->sums,
                                  (const S *)l->x, (const S *)l->weight, l->target, s,
                                  smoothed_of<real<S>>(l), l->slot);
    });
}
