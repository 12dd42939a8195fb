/* layer_norm, rms_norm (about 0: mean is NULL) and their gradients: n rows of c elements, row-major.
 *
 * A warp owns a row; gradients of the parameters are a thread per column that walks down the rows, so
 * that neighbours read beside each other. f32 inside (f64 for f64), fixed order. */
#include "backend_cuda/launch.h"
#include "backend_cuda/norm.cuh"

using namespace cuda;

struct row_shape {
    int64_t rows, n;
    int wide;
    double eps;
};

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_layer_norm(S *y, real<S> *mean, real<S> *rstd, const S *x, const void *weight,
                 const void *bias, row_shape s)
{
    using T = real<S>;
    const int lane = (int)(threadIdx.x % 32);
    for (int64_t row = first_item() / 32; row < s.rows; row += item_step() / 32) {
        const S *from = x + row * s.n;
        T sum = 0, square = 0;
        for (int64_t i = lane; mean != nullptr && i < s.n; i += 32)
            sum += widen(from[i]);
        const T center = mean != nullptr ? warp_sum(sum) / (T)s.n : (T)0;
        for (int64_t i = lane; i < s.n; i += 32)
            square += (widen(from[i]) - center) * (widen(from[i]) - center);
        const T r = (T)1 / (T)sqrt(warp_sum(square) / (T)s.n + (T)s.eps);
        for (int64_t i = lane; i < s.n; i += 32)
            y[row * s.n + i] =
                narrow<S>((widen(from[i]) - center) * r * parameter<S>(weight, s.wide, i, 1) +
                          parameter<S>(bias, s.wide, i, 0));
        if (lane == 0 && mean != nullptr)
            mean[row] = center;
        if (lane == 0)
            rstd[row] = r;
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_layer_norm_grad(S *out, const S *grad, const S *x, const void *weight, const real<S> *mean,
                      const real<S> *rstd, row_shape s)
{
    using T = real<S>;
    const int lane = (int)(threadIdx.x % 32);
    for (int64_t row = first_item() / 32; row < s.rows; row += item_step() / 32) {
        const int64_t base = row * s.n;
        const T center = mean != nullptr ? mean[row] : (T)0;
        T sum = 0, product = 0;
        for (int64_t i = lane; i < s.n; i += 32) {
            const T h = widen(grad[base + i]) * parameter<S>(weight, s.wide, i, 1);
            sum += h;
            product += h * (widen(x[base + i]) - center) * rstd[row];
        }
        sum = mean != nullptr ? warp_sum(sum) / (T)s.n : (T)0;
        product = warp_sum(product) / (T)s.n;
        for (int64_t i = lane; i < s.n; i += 32) {
            const T h = widen(grad[base + i]) * parameter<S>(weight, s.wide, i, 1);
            const T normal = (widen(x[base + i]) - center) * rstd[row];
            out[base + i] = narrow<S>(rstd[row] * (h - sum - normal * product));
        }
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_layer_norm_columns(void *weight_grad, void *bias_grad, const S *grad, const S *x,
                         const real<S> *mean, const real<S> *rstd, row_shape s)
{
    using T = real<S>;
    for (int64_t i = first_item(); i < s.n; i += item_step()) {
        T sum = 0, product = 0;
        for (int64_t row = 0; row < s.rows; row++) {
            const T g = widen(grad[row * s.n + i]);
            sum += g;
            const T center = mean != nullptr ? mean[row] : (T)0;
            product += g * (widen(x[row * s.n + i]) - center) * rstd[row];
        }
        set_parameter<S>(weight_grad, s.wide, i, product);
        if (bias_grad != nullptr)
            set_parameter<S>(bias_grad, s.wide, i, sum);
    }
}

static row_shape shape_of(const cuda_norm_args *a)
{
    return { a->n, a->c, a->wide, a->eps };
}

extern "C" cudaError_t cuda_launch_layer_norm(const cuda_norm_args *a, cudaStream_t stream)
{
    return float_switch(a->dtype, [&](auto zero) {
        using S = decltype(zero);
        using T = real<S>;
        const cudaLaunchConfig_t c = shape_for(a->n * 32, stream);
        return cudaLaunchKernelEx(&c, k_layer_norm<S>, (S *)a->out, (T *)a->mean, (T *)a->rstd,
                                  (const S *)a->x, a->weight, a->bias, shape_of(a));
    });
}

extern "C" cudaError_t cuda_launch_layer_norm_grad(const cuda_norm_args *a, cudaStream_t stream)
{
    return float_switch(a->dtype, [&](auto zero) {
        using S = decltype(zero);
        using T = real<S>;
        const cudaLaunchConfig_t columns = shape_for(a->c, stream);
        const cudaError_t code = cudaLaunchKernelEx(
            &columns, k_layer_norm_columns<S>, a->weight_grad, a->bias_grad, (const S *)a->grad,
            (const S *)a->x, (const T *)a->mean, (const T *)a->rstd, shape_of(a));
        if (code != cudaSuccess || a->n == 0)
            return code;
        const cudaLaunchConfig_t c = shape_for(a->n * 32, stream);
        return cudaLaunchKernelEx(&c, k_layer_norm_grad<S>, (S *)a->out, (const S *)a->grad,
                                  (const S *)a->x, a->weight, (const T *)a->mean,
                                  (const T *)a->rstd, shape_of(a));
    });
}
