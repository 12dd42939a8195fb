/* sgd_step and adam_step: torch.optim's formulas, one pass over parameter p, gradient g and state (c,
 * d), any strides, one dtype. f32 inside (f64 for f64), rounded once per tensor. A thread takes one
 * element of a walk. */
#include "backend_cuda/launch.h"
#include "backend_cuda/walk.cuh"

using namespace cuda;

template <typename T> struct sgd_numbers {
    T sign, lr, momentum, fresh, decay;
    int nesterov, first;
};

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_sgd(S *p, const S *g, S *buffer, cuda_walk walk, sgd_numbers<real<S>> a)
{
    using T = real<S>;
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(walk, (uint32_t)i, at);
        const T param = widen(p[at[0]]);
        T slope = a.sign * widen(g[at[1]]) + a.decay * param;
        if (buffer != nullptr) {
            /* the first step's buffer is the gradient itself, and what the buffer holds is not read */
            const T moved = a.first ? slope : a.momentum * widen(buffer[at[2]]) + a.fresh * slope;
            buffer[at[2]] = narrow<S>(moved);
            slope = a.nesterov ? slope + a.momentum * moved : moved;
        }
        p[at[0]] = narrow<S>(param - a.lr * slope);
    }
}

template <typename T> struct adam_numbers {
    T sign, keep, decay, fresh1, beta2, fresh2, eps, step_size, inverse_root;
};

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_adam(S *p, const S *g, S *m, S *v, cuda_walk walk, adam_numbers<real<S>> a)
{
    using T = real<S>;
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[4];
        offsets<4>(walk, (uint32_t)i, at);
        const T param = widen(p[at[0]]);
        const T slope = a.sign * widen(g[at[1]]) + a.decay * param;
        T mean = widen(m[at[2]]);
        mean += a.fresh1 * (slope - mean);
        const T square = a.beta2 * widen(v[at[3]]) + a.fresh2 * slope * slope;
        m[at[2]] = narrow<S>(mean);
        v[at[3]] = narrow<S>(square);
        p[at[0]] = narrow<S>(a.keep * param -
                             a.step_size * mean / ((T)sqrt(square) * a.inverse_root + a.eps));
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
        const cudaLaunchConfig_t c = shape_for(s->walk->numel, stream);
        return cudaLaunchKernelEx(&c, k_sgd<S>, (S *)s->p, (const S *)s->g, (S *)s->c, *s->walk, a);
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
        const cudaLaunchConfig_t c = shape_for(s->walk->numel, stream);
        return cudaLaunchKernelEx(&c, k_adam<S>, (S *)s->p, (const S *)s->g, (S *)s->c, (S *)s->d,
                                  *s->walk, a);
    });
}
