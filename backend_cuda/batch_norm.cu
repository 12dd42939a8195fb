/* batch_norm and its gradient: x [n, c, inner] in memory, or [n, inner, c] (channels_last); statistics of
 * each channel over n and inner.
 *
 * A block owns a channel for its sums (fixed order, f32; f64 for f64), then a thread takes an element. Channels
 * that lie beside each other are summed by a thread per channel and chunk of rows before, so that neighbours
 * read beside each other.
 * Bytes: two reads of x and one write forward, two reads of x and the gradient backward. */
#include "backend_cuda/launch.h"
#include "backend_cuda/norm.cuh"
#include "backend_cuda/walk.cuh"

using namespace cuda;

struct norm_shape {
    int64_t n, c, inner;
    int last, grad_last; /* channels_last: of x and the results, of the gradient */
    int wide, wide_running, training;
    double eps, momentum;
    int64_t chunks;
    cuda_divisor c_by, inner_by;
};

struct norm_place {
    int64_t n, c, i;
};
/* Element e of x. */
static __device__ __forceinline__ norm_place place_of(const norm_shape &s, int64_t e)
{
    if (s.last) {
        const int64_t row = quotient(e, s.c_by), n = quotient(row, s.inner_by);
        return { n, e - row * s.c, row - n * s.inner };
    }
    const int64_t plane = quotient(e, s.inner_by), n = quotient(plane, s.c_by);
    return { n, plane - n * s.c, e - plane * s.inner };
}

/* Where (sample, channel, place) lies. */
static __device__ __forceinline__ int64_t at_of(const norm_shape &s, int last, int64_t n, int64_t c,
                                                int64_t i)
{
    return last ? (n * s.inner + i) * s.c + c : (n * s.c + c) * s.inner + i;
}

/* All in channels last: cells[chunk][channel] of the chunk's rows. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_batch_moments(moments<real<S>> *cells, const S *x, norm_shape s)
{
    const int64_t rows = s.n * s.inner;
    for (int64_t e = first_item(); e < s.c * s.chunks; e += item_step()) {
        const int64_t chunk = e / s.c, c = e - chunk * s.c, end = rows * (chunk + 1) / s.chunks;
        moments<real<S>> own = { 0, 0, 0 };
        for (int64_t row = rows * chunk / s.chunks; row < end; row++)
            own.add(widen(x[row * s.c + c]));
        cells[e] = own;
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_batch_statistics(real<S> *mean, real<S> *rstd, void *running_mean, void *running_var,
                       const S *x, const moments<real<S>> *chunks, norm_shape s)
{
    using T = real<S>;
    __shared__ moments<T> cells[BLOCK / 32];
    const int64_t c = blockIdx.x, count = s.n * s.inner;
    moments<T> own = { 0, 0, 0 };
    for (int64_t k = threadIdx.x; k < s.chunks && chunks != nullptr; k += BLOCK)
        own.merge(chunks[k * s.c + c]);
    for (int64_t k = threadIdx.x; k < count && s.training && chunks == nullptr; k += BLOCK) {
        const int64_t n = quotient(k, s.inner_by);
        own.add(widen(x[at_of(s, s.last, n, c, k - n * s.inner)]));
    }
    block_merge(cells, own);
    if (threadIdx.x != 0)
        return;
    T center = parameter<S>(running_mean, s.wide_running, c, 0);
    T variance = parameter<S>(running_var, s.wide_running, c, 0);
    if (s.training) {
        const T m = (T)s.momentum, all = (T)count;
        if (running_mean != nullptr)
            set_parameter<S>(running_mean, s.wide_running, c, (1 - m) * center + m * cells[0].mean);
        if (running_var != nullptr)
            set_parameter<S>(running_var, s.wide_running, c,
                             (1 - m) * variance + m * (cells[0].square / (all - 1)));
        center = cells[0].mean;
        variance = cells[0].square / all;
    }
    mean[c] = center;
    rstd[c] = (T)1 / (T)sqrt(variance + (T)s.eps);
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_batch_norm(S *y, const S *x, const void *weight, const void *bias, const real<S> *mean,
                 const real<S> *rstd, norm_shape s)
{
    const int64_t count = s.n * s.c * s.inner;
    for (int64_t e = first_item(); e < count; e += item_step()) {
        const int64_t c = place_of(s, e).c;
        const real<S> scale = rstd[c] * parameter<S>(weight, s.wide, c, 1);
        y[e] = narrow<S>((widen(x[e]) - mean[c]) * scale + parameter<S>(bias, s.wide, c, 0));
    }
}

/* All in channels last: cells[chunk][channel] of the chunk's rows, as k_batch_norm_sums adds them up. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_batch_norm_chunks(two<real<S>> *cells, const S *grad, const S *x, const real<S> *mean,
                        norm_shape s)
{
    using T = real<S>;
    const int64_t rows = s.n * s.inner;
    for (int64_t e = first_item(); e < s.c * s.chunks; e += item_step()) {
        const int64_t chunk = e / s.c, c = e - chunk * s.c, end = rows * (chunk + 1) / s.chunks;
        const T center = mean[c];
        two<T> own = { 0, 0 };
        for (int64_t row = rows * chunk / s.chunks; row < end; row++) {
            const T g = widen(grad[row * s.c + c]);
            own.merge({ g, g * (widen(x[row * s.c + c]) - center) });
        }
        cells[e] = own;
    }
}

/* sums[2c]: of the gradient; sums[2c + 1]: of gradient (x - mean) r. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_batch_norm_sums(real<S> *sums, void *weight_grad, void *bias_grad, const S *grad, const S *x,
                      const two<real<S>> *chunks, const real<S> *mean, const real<S> *rstd,
                      norm_shape s)
{
    using T = real<S>;
    __shared__ two<T> cells[BLOCK / 32];
    const int64_t c = blockIdx.x, count = s.n * s.inner;
    two<T> own = { 0, 0 };
    for (int64_t k = threadIdx.x; k < s.chunks && chunks != nullptr; k += BLOCK)
        own.merge(chunks[k * s.c + c]);
    for (int64_t k = threadIdx.x; k < count && chunks == nullptr; k += BLOCK) {
        const int64_t n = quotient(k, s.inner_by), i = k - n * s.inner;
        const T g = widen(grad[at_of(s, s.grad_last, n, c, i)]);
        own.merge({ g, g * (widen(x[at_of(s, s.last, n, c, i)]) - mean[c]) });
    }
    block_merge(cells, own);
    if (threadIdx.x != 0)
        return;
    sums[2 * c] = cells[0].first;
    sums[2 * c + 1] = cells[0].second * rstd[c];
    set_parameter<S>(weight_grad, s.wide, c, cells[0].second * rstd[c]);
    set_parameter<S>(bias_grad, s.wide, c, cells[0].first);
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_batch_norm_grad(S *out, const S *grad, const S *x, const void *weight, const real<S> *mean,
                      const real<S> *rstd, const real<S> *sums, norm_shape s)
{
    using T = real<S>;
    const int64_t count = s.n * s.c * s.inner;
    const T share = (T)1 / (T)(s.n * s.inner);
    for (int64_t e = first_item(); e < count; e += item_step()) {
        const norm_place at = place_of(s, e);
        const int64_t c = at.c;
        const T normal = (widen(x[e]) - mean[c]) * rstd[c];
        const T g = widen(grad[at_of(s, s.grad_last, at.n, c, at.i)]);
        const T rest = s.training ? share * (sums[2 * c] + normal * sums[2 * c + 1]) : (T)0;
        out[e] = narrow<S>((g - rest) * (rstd[c] * parameter<S>(weight, s.wide, c, 1)));
    }
}

static norm_shape shape_of(const cuda_norm_args *a)
{
    return { a->n,
             a->c,
             a->inner,
             a->channels_last,
             a->grad_channels_last,
             a->wide,
             a->wide_running,
             a->training,
             a->eps,
             a->momentum,
             a->chunks,
             cuda_divisor_of(a->c, a->n * a->c * a->inner),
             cuda_divisor_of(a->inner, a->n * a->c * a->inner) };
}

extern "C" cudaError_t cuda_launch_batch_statistics(const cuda_norm_args *a, cudaStream_t stream)
{
    const norm_shape s = shape_of(a);
    const cudaLaunchConfig_t cut = shape_for(s.c * s.chunks, stream), c = shape(s.c, BLOCK, stream);
    return float_switch(a->dtype, [&](auto zero) {
        using S = decltype(zero);
        using T = real<S>;
        moments<T> *cells = (moments<T> *)a->cells;
        static_assert(sizeof *cells <= CUDA_NORM_CELL_BYTES,
                      "scratch is counted in cells of this size");
        const cudaError_t code = cells == nullptr ? cudaSuccess
                                                  : cudaLaunchKernelEx(&cut, k_batch_moments<S>,
                                                                       cells, (const S *)a->x, s);
        if (code != cudaSuccess)
            return code;
        return cudaLaunchKernelEx(&c, k_batch_statistics<S>, (T *)a->mean, (T *)a->rstd,
                                  a->running_mean, a->running_var, (const S *)a->x,
                                  (const moments<T> *)cells, s);
    });
}

extern "C" cudaError_t cuda_launch_batch_norm(const cuda_norm_args *a, cudaStream_t stream)
{
    const norm_shape s = shape_of(a);
    const cudaLaunchConfig_t c = shape_for(s.n * s.c * s.inner, stream);
    return float_switch(a->dtype, [&](auto zero) {
        using S = decltype(zero);
        using T = real<S>;
        return cudaLaunchKernelEx(&c, k_batch_norm<S>, (S *)a->out, (const S *)a->x, a->weight,
                                  a->bias, (const T *)a->mean, (const T *)a->rstd, s);
    });
}

template <typename S>
static cudaError_t launch_sums(const cuda_norm_args *a, const norm_shape &s, cudaStream_t stream)
{
    using T = real<S>;
    two<T> *cells = (two<T> *)a->cells;
    static_assert(sizeof *cells <= CUDA_NORM_CELL_BYTES,
                  "scratch is counted in cells of this size");
    const cudaLaunchConfig_t cut = shape_for(s.c * s.chunks, stream), c = shape(s.c, BLOCK, stream);
    const cudaError_t code =
        cells == nullptr
            ? cudaSuccess
            : cudaLaunchKernelEx(&cut, k_batch_norm_chunks<S>, cells, (const S *)a->grad,
                                 (const S *)a->x, (const T *)a->mean, s);
    if (code != cudaSuccess)
        return code;
    return cudaLaunchKernelEx(&c, k_batch_norm_sums<S>, (T *)a->sums, a->weight_grad, a->bias_grad,
                              (const S *)a->grad, (const S *)a->x, (const two<T> *)cells,
                              (const T *)a->mean, (const T *)a->rstd, s);
}

extern "C" cudaError_t cuda_launch_batch_norm_grad(const cuda_norm_args *a, cudaStream_t stream)
{
    const norm_shape s = shape_of(a);
    return float_switch(a->dtype, [&](auto zero) {
        using S = decltype(zero);
        using T = real<S>;
        const cudaError_t code = launch_sums<S>(a, s, stream);
        if (code != cudaSuccess)
            return code;
        const cudaLaunchConfig_t second = shape_for(s.n * s.c * s.inner, stream);
        return cudaLaunchKernelEx(&second, k_batch_norm_grad<S>, (S *)a->out, (const S *)a->grad,
                                  (const S *)a->x, a->weight, (const T *)a->mean,
                                  (const T *)a->rstd, (const T *)a->sums, s);
    });
}
