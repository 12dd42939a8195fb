/* The optimizers' steps: one pass over parameter p, gradient g and state, any strides, one dtype. f32 inside (f64 for f64), rounded once per tensor. A thread takes one
 * element of a walk.
 *
 * The scaled rows find three things on the device: g's scale, a flag that leaves the step out, and the
 * count of steps. All blocks read one of its two numbers and one thread writes the other. */
#include "backend_cuda/launch.h"
#include "backend_cuda/walk.cuh"

using namespace cuda;

struct scaling {
    const float *scale, *found;
    int64_t *count;
    int turn;
};

static scaling scaling_of(const cuda_step_args *s, int32_t turn)
{
    return { s->scale, s->found, s->count, turn & 1 };
}

/* Before its elements a thread of a scaled step computes in f64, 1/32 or 1/64 as fast on GPUs for graphics: no
 * more threads than run at once, with more elements each. */
static cudaLaunchConfig_t shape_of(const cuda_step_args *s, cudaStream_t stream)
{
    constexpr int64_t AT_ONCE = 1 << 18;
    const int64_t n = s->walk->numel;
    return shape_for((s->scale != nullptr || s->count != nullptr) && n > AT_ONCE ? AT_ONCE : n,
                     stream);
}

/* For all threads alike: is the step left out? */
__device__ __forceinline__ bool left_out(const scaling &s)
{
    const bool out = s.found != nullptr && *s.found != 0.0f;
    if (s.count != nullptr && blockIdx.x == 0 && threadIdx.x == 0)
        s.count[1 - s.turn] = s.count[s.turn] + !out;
    return out;
}

/* 1 / scale, rounded once from double, as the gradient scaler's. */
template <typename T> __device__ __forceinline__ T inverse_of(const scaling &s)
{
    return s.scale != nullptr ? (T)(float)(1.0 / (double)*s.scale) : (T)1;
}

/* An element of the gradient, unscaled where it lies. */
template <typename S>
__device__ __forceinline__ real<S> slope_at(S *g, const scaling &s, real<S> inverse)
{
    real<S> value = widen(*g);
    if (s.scale != nullptr) {
        const S kept = narrow<S>(value * inverse);
        *g = kept;
        value = value * inverse;
    }
    return value;
}

/* torch.optim leaves a term out where its factor is 0: 0 times an infinity is NaN. */
template <typename T> __device__ __forceinline__ T decayed(T slope, T decay, T param)
{
    return slope + decay * (decay != (T)0 ? param : (T)0);
}

/* torch.lerp: from whichever end is nearer, so that a weight of 1 gives `to` exactly. */
template <typename T> __device__ __forceinline__ T lerp(T from, T to, T weight)
{
    const bool early = weight < (T)0.5;
    return (early ? from : to) + (early ? weight : weight - (T)1) * (to - from);
}

template <typename T> struct sgd_numbers {
    T sign, lr, momentum, fresh, decay;
    int nesterov, first;
};

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_sgd(S *p, S *g, S *buffer, cuda_walk walk, sgd_numbers<real<S>> a, scaling s)
{
    using T = real<S>;
    if (left_out(s))
        return;
    const T inverse = inverse_of<T>(s);
    const bool first = s.count != nullptr ? s.count[s.turn] == 0 : a.first != 0;
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        const T param = widen(p[at[0]]);
        T slope = decayed(a.sign * slope_at(g + at[1], s, inverse), a.decay, param);
        if (buffer != nullptr) {
            /* the first step's buffer is the gradient itself, and what the buffer holds is not read */
            const T moved = first ? slope : a.momentum * widen(buffer[at[2]]) + a.fresh * slope;
            buffer[at[2]] = narrow<S>(moved);
            slope = a.nesterov ? slope + a.momentum * moved : moved;
        }
        p[at[0]] = narrow<S>(param - a.lr * slope);
    }
}

template <typename T> struct adam_numbers {
    T sign, keep, decay, fresh1, beta2, fresh2, eps, step_size, inverse_root;
};

/* What depends on the number of steps; powers in double, once per block. */
template <typename T>
__device__ void correct(adam_numbers<T> *a, const scaling &s, const tern_attr_adam &o)
{
    __shared__ T corrected[2];
    if (threadIdx.x == 0) {
        const double step = (double)(s.count[s.turn] + 1);
        corrected[0] = (T)(o.lr / (1 - pow(o.beta1, step)));
        corrected[1] = (T)(1 / sqrt(1 - pow(o.beta2, step)));
    }
    __syncthreads();
    a->step_size = corrected[0];
    a->inverse_root = corrected[1];
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_adam(S *p, S *g, S *m, S *v, cuda_walk walk, adam_numbers<real<S>> a, scaling s,
           tern_attr_adam o)
{
    using T = real<S>;
    if (left_out(s))
        return;
    if (s.count != nullptr)
        correct(&a, s, o);
    const T inverse = inverse_of<T>(s);
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[4];
        offsets<4>(walk, (uint32_t)i, at);
        const T param = widen(p[at[0]]);
        const T slope = decayed(a.sign * slope_at(g + at[1], s, inverse), a.decay, param);
        const T mean = lerp<T>(widen(m[at[2]]), slope, a.fresh1);
        const T square = a.beta2 * widen(v[at[3]]) + a.fresh2 * slope * slope;
        m[at[2]] = narrow<S>(mean);
        v[at[3]] = narrow<S>(square);
        p[at[0]] = narrow<S>(a.keep * param -
                             a.step_size * mean / ((T)sqrt(square) * a.inverse_root + a.eps));
    }
}

template <typename T> struct rmsprop_numbers {
    T sign, lr, alpha, fresh, momentum, eps, decay;
};

/* One kernel for all forms: b and m may be missing, and what is missing costs no memory access. A variance
 * that rounding made negative counts as 0; a NaN stays. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_rmsprop(S *p, S *g, S *square, S *b, S *m, cuda_walk walk, rmsprop_numbers<real<S>> a,
              scaling s)
{
    using T = real<S>;
    if (left_out(s))
        return;
    const T inverse = inverse_of<T>(s);
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[CUDA_WALK_OPERANDS];
        offsets<CUDA_WALK_OPERANDS>(walk, (uint32_t)i, at);
        const T param = widen(p[at[0]]);
        const T slope = decayed(a.sign * slope_at(g + at[1], s, inverse), a.decay, param);
        T spread = a.alpha * widen(square[at[2]]) + a.fresh * slope * slope;
        square[at[2]] = narrow<S>(spread);
        if (m != nullptr) {
            S *place = m + (b != nullptr ? at[4] : at[3]);
            const T mean = lerp<T>(widen(*place), slope, a.fresh);
            *place = narrow<S>(mean);
            spread -= mean * mean;
            spread = spread < (T)0 ? (T)0 : spread;
        }
        T move = slope / ((T)sqrt(spread) + a.eps);
        if (b != nullptr && a.momentum != (T)0) {
            move = a.momentum * widen(b[at[3]]) + move;
            b[at[3]] = narrow<S>(move);
        }
        p[at[0]] = narrow<S>(param - a.lr * move);
    }
}

template <typename T> struct adagrad_numbers {
    T sign, lr, eps, decay;
};

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_adagrad(S *p, S *g, S *sum, cuda_walk walk, adagrad_numbers<real<S>> a, scaling s,
              tern_attr_adagrad o)
{
    using T = real<S>;
    if (left_out(s))
        return;
    if (s.count != nullptr)
        a.lr = (T)(o.lr / __dadd_rn(1, __dmul_rn((double)s.count[s.turn], o.lr_decay)));
    const T inverse = inverse_of<T>(s);
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        const T param = widen(p[at[0]]);
        const T slope = decayed(a.sign * slope_at(g + at[1], s, inverse), a.decay, param);
        const T square = widen(sum[at[2]]) + slope * slope;
        sum[at[2]] = narrow<S>(square);
        p[at[0]] = narrow<S>(param - a.lr * slope / ((T)sqrt(square) + a.eps));
    }
}

template <typename T> struct lion_numbers {
    T sign, lr, keep, beta1, beta2, fresh1, fresh2;
};

/* The sign of a zero is 0, of a NaN NaN. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_lion(S *p, S *g, S *m, cuda_walk walk, lion_numbers<real<S>> a, scaling s)
{
    using T = real<S>;
    if (left_out(s))
        return;
    const T inverse = inverse_of<T>(s);
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        const T slope = a.sign * slope_at(g + at[1], s, inverse), mean = widen(m[at[2]]);
        const T blend = a.beta1 * mean + a.fresh1 * slope; /* of an infinite mean, too */
        const T way = blend > (T)0 ? (T)1 : blend < (T)0 ? (T)-1 : blend;
        m[at[2]] = narrow<S>(a.beta2 * mean + a.fresh2 * slope);
        p[at[0]] = narrow<S>(a.keep * widen(p[at[0]]) - a.lr * way);
    }
}

extern "C" cudaError_t cuda_launch_sgd(const cuda_step_args *s, const tern_attr_sgd *attr,
                                       cudaStream_t stream)
{
    return float_switch(s->dtype, [&](auto zero) {
        using S = decltype(zero);
        using T = real<S>;
        const sgd_numbers<T> a = { attr->maximize ? (T)-1 : (T)1,
                                   (T)attr->lr,
                                   (T)attr->momentum,
                                   (T)(1 - attr->dampening),
                                   (T)attr->weight_decay,
                                   attr->nesterov,
                                   attr->first };
        const cudaLaunchConfig_t c = shape_of(s, stream);
        return cudaLaunchKernelEx(&c, k_sgd<S>, (S *)s->at[0], (S *)s->at[1],
                                  attr->momentum != 0 ? (S *)s->at[2] : (S *)nullptr, *s->walk, a,
                                  scaling_of(s, attr->turn));
    });
}

extern "C" cudaError_t cuda_launch_adam(const cuda_step_args *s, const tern_attr_adam *attr,
                                        cudaStream_t stream)
{
    const double step = (double)attr->step;
    const double decoupled = attr->decoupled ? attr->lr * attr->weight_decay : 0;
    return float_switch(s->dtype, [&](auto zero) {
        using S = decltype(zero);
        using T = real<S>;
        const adam_numbers<T> a = { attr->maximize ? (T)-1 : (T)1,
                                    (T)(1 - decoupled),
                                    (T)(attr->decoupled ? 0 : attr->weight_decay),
                                    (T)(1 - attr->beta1),
                                    (T)attr->beta2,
                                    (T)(1 - attr->beta2),
                                    (T)attr->eps,
                                    (T)(attr->lr / (1 - pow(attr->beta1, step))),
                                    (T)(1 / sqrt(1 - pow(attr->beta2, step))) };
        const cudaLaunchConfig_t c = shape_of(s, stream);
        return cudaLaunchKernelEx(&c, k_adam<S>, (S *)s->at[0], (S *)s->at[1], (S *)s->at[2],
                                  (S *)s->at[3], *s->walk, a, scaling_of(s, attr->turn), *attr);
    });
}

extern "C" cudaError_t cuda_launch_rmsprop(const cuda_step_args *s, const tern_attr_rmsprop *attr,
                                           int moves, int centered, cudaStream_t stream)
{
    return float_switch(s->dtype, [&](auto zero) {
        using S = decltype(zero);
        using T = real<S>;
        const rmsprop_numbers<T> a = {
            attr->maximize ? (T)-1 : (T)1, (T)attr->lr,       (T)attr->alpha,
            (T)(1 - attr->alpha),          (T)attr->momentum, (T)attr->eps,
            (T)attr->weight_decay
        };
        const cudaLaunchConfig_t c = shape_of(s, stream);
        return cudaLaunchKernelEx(&c, k_rmsprop<S>, (S *)s->at[0], (S *)s->at[1], (S *)s->at[2],
                                  moves ? (S *)s->at[3] : (S *)nullptr,
                                  centered ? (S *)s->at[moves ? 4 : 3] : (S *)nullptr, *s->walk, a,
                                  scaling_of(s, attr->turn));
    });
}

extern "C" cudaError_t cuda_launch_adagrad(const cuda_step_args *s, const tern_attr_adagrad *attr,
                                           cudaStream_t stream)
{
    return float_switch(s->dtype, [&](auto zero) {
        using S = decltype(zero);
        using T = real<S>;
        const adagrad_numbers<T> a = { attr->maximize ? (T)-1 : (T)1,
                                       (T)(attr->lr /
                                           (1 + (double)(attr->step - 1) * attr->lr_decay)),
                                       (T)attr->eps, (T)attr->weight_decay };
        const cudaLaunchConfig_t c = shape_of(s, stream);
        return cudaLaunchKernelEx(&c, k_adagrad<S>, (S *)s->at[0], (S *)s->at[1], (S *)s->at[2],
                                  *s->walk, a, scaling_of(s, attr->turn), *attr);
    });
}

extern "C" cudaError_t cuda_launch_lion(const cuda_step_args *s, const tern_attr_lion *attr,
                                        cudaStream_t stream)
{
    return float_switch(s->dtype, [&](auto zero) {
        using S = decltype(zero);
        using T = real<S>;
        const lion_numbers<T> a = { attr->maximize ? (T)-1 : (T)1,
                                    (T)attr->lr,
                                    (T)(1 - attr->lr * attr->weight_decay),
                                    (T)attr->beta1,
                                    (T)attr->beta2,
                                    (T)(1 - attr->beta1),
                                    (T)(1 - attr->beta2) };
        const cudaLaunchConfig_t c = shape_of(s, stream);
        return cudaLaunchKernelEx(&c, k_lion<S>, (S *)s->at[0], (S *)s->at[1], (S *)s->at[2],
                                  *s->walk, a, scaling_of(s, attr->turn));
    });
}
