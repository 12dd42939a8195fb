/* layer_norm, rms_norm (about 0: mean is NULL) and their gradients: n rows of c elements, row-major.
 *
 * A warp owns a row, and holds it if it is short; gradients of the parameters are a thread per column and chunk of rows that walks down
 * them, so that neighbours read beside each other; a second launch adds the chunks up. f32 inside (f64 for
 * f64), fixed order. */
#include "backend_cuda/ahead.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/norm.cuh"

using namespace cuda;

struct row_shape {
    int64_t rows, n;
    int wide;
    double eps;
};

/* A row is flat from a mean on whose square is so many variances: what rounding leaves of its sum may show, and it
 * is gone over once more. x - mean is exact there, so that equal elements have a spread of 0. */
enum { FLAT = 4096 };

/* Of a row, by a warp: mean of x - center, and the sum of their squares. */
template <typename S, int HELD>
static __device__ __forceinline__ real<S> mean_about(const lane_row<S, HELD> &from, real<S> center)
{
    real<S> sum = 0;
    from.each([&](int64_t, S x) { sum += widen(x) - center; });
    return warp_sum(sum) / (real<S>)from.n;
}

template <typename S, int HELD>
static __device__ __forceinline__ real<S> square_about(const lane_row<S, HELD> &from,
                                                       real<S> center)
{
    real<S> sum = 0;
    from.each([&](int64_t, S x) {
        const real<S> d = widen(x) - center;
        sum += d * d;
    });
    return warp_sum(sum);
}

template <typename S, int HELD>
__global__ void __launch_bounds__(BLOCK, blocks_with(HELD, 1))
    k_layer_norm(S *y, real<S> *mean, real<S> *rstd, const S *x, const void *weight,
                 const void *bias, row_shape s)
{
    using T = real<S>;
    const int lane = (int)(threadIdx.x % 32);
    for (int64_t row = first_item() / 32; row < s.rows; row += item_step() / 32) {
        const lane_row<S, HELD> from(x + row * s.n, 1, s.n, lane, 32);
        T center = mean != nullptr ? mean_about(from, (T)0) : (T)0;
        T square = square_about(from, center);
        if (center != 0 && square * FLAT <= center * center * (T)s.n) {
            center += mean_about(from, center);
            square = square_about(from, center);
        }
        const T r = (T)1 / (T)sqrt(square / (T)s.n + (T)s.eps);
        from.each([&](int64_t i, S x) {
            y[row * s.n + i] =
                narrow<S>((widen(x) - center) * r * parameter<S>(weight, s.wide, i, 1) +
                          parameter<S>(bias, s.wide, i, 0));
        });
        if (lane == 0 && mean != nullptr)
            mean[row] = center;
        if (lane == 0)
            rstd[row] = r;
    }
}

template <typename S, int HELD>
__global__ void __launch_bounds__(BLOCK, blocks_with(HELD, 2))
    k_layer_norm_grad(S *out, const S *grad, const S *x, const void *weight, const real<S> *mean,
                      const real<S> *rstd, row_shape s)
{
    using T = real<S>;
    const int lane = (int)(threadIdx.x % 32);
    for (int64_t row = first_item() / 32; row < s.rows; row += item_step() / 32) {
        const int64_t base = row * s.n;
        const lane_row<S, HELD> grads(grad + base, 1, s.n, lane, 32);
        const lane_row<S, HELD> from(x + base, 1, s.n, lane, 32);
        const T center = mean != nullptr ? mean[row] : (T)0, scale = rstd[row];
        T sum = 0, product = 0;
        grads.each(from, [&](int64_t i, S g, S v) {
            const T h = widen(g) * parameter<S>(weight, s.wide, i, 1);
            sum += h;
            product += h * (widen(v) - center) * scale;
        });
        sum = mean != nullptr ? warp_sum(sum) / (T)s.n : (T)0;
        product = warp_sum(product) / (T)s.n;
        grads.each(from, [&](int64_t i, S g, S v) {
            const T h = widen(g) * parameter<S>(weight, s.wide, i, 1);
            const T normal = (widen(v) - center) * scale;
            out[base + i] = narrow<S>(scale * (h - sum - normal * product));
        });
    }
}

template <typename S>
static __device__ __forceinline__ void set_parameters(void *weight_grad, void *bias_grad, int wide,
                                                      int64_t i, const two<real<S>> &all)
{
    set_parameter<S>(weight_grad, wide, i, all.second);
    if (bias_grad != nullptr)
        set_parameter<S>(bias_grad, wide, i, all.first);
}

/* cells: of each chunk and column the sums of the gradient and of gradient times normal x; NULL: of one chunk. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_layer_norm_columns(void *weight_grad, void *bias_grad, two<real<S>> *cells, const S *grad,
                         const S *x, const real<S> *mean, const real<S> *rstd, row_shape s,
                         int64_t chunks)
{
    using T = real<S>;
    for (int64_t e = first_item(); e < s.n * chunks; e += item_step()) {
        const int64_t chunk = e / s.n, i = e - chunk * s.n;
        const int64_t end = s.rows * (chunk + 1) / chunks;
        two<T> own = { 0, 0 };
        for (int64_t row = s.rows * chunk / chunks; row < end; row++) {
            const T g = widen(grad[row * s.n + i]), center = mean != nullptr ? mean[row] : (T)0;
            own.merge({ g, g * (widen(x[row * s.n + i]) - center) * rstd[row] });
        }
        if (cells != nullptr)
            cells[e] = own;
        else
            set_parameters<S>(weight_grad, bias_grad, s.wide, i, own);
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_layer_norm_parameters(void *weight_grad, void *bias_grad, const two<real<S>> *cells,
                            row_shape s, int64_t chunks)
{
    for (int64_t i = first_item(); i < s.n; i += item_step()) {
        two<real<S>> all = cells[i];
        for (int64_t k = 1; k < chunks; k++)
            all.merge(cells[k * s.n + i]);
        set_parameters<S>(weight_grad, bias_grad, s.wide, i, all);
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
        return held_switch<S>(a->c, [&](auto held) {
            return cudaLaunchKernelEx(&c, k_layer_norm<S, decltype(held)::value>, (S *)a->out,
                                      (T *)a->mean, (T *)a->rstd, (const S *)a->x, a->weight,
                                      a->bias, shape_of(a));
        });
    });
}

template <typename S>
static cudaError_t launch_parameters(const cuda_norm_args *a, cudaStream_t stream)
{
    using T = real<S>;
    static_assert(sizeof(two<T>) <= CUDA_NORM_CELL_BYTES,
                  "scratch is counted in cells of this size");
    const cudaLaunchConfig_t cut = shape_for(a->c * a->chunks, stream);
    const cudaError_t code =
        cudaLaunchKernelEx(&cut, k_layer_norm_columns<S>, a->weight_grad, a->bias_grad,
                           (two<T> *)a->cells, (const S *)a->grad, (const S *)a->x,
                           (const T *)a->mean, (const T *)a->rstd, shape_of(a), a->chunks);
    if (code != cudaSuccess || a->cells == nullptr)
        return code;
    const cudaLaunchConfig_t columns = shape_for(a->c, stream);
    return cudaLaunchKernelEx(&columns, k_layer_norm_parameters<S>, a->weight_grad, a->bias_grad,
                              (const two<T> *)a->cells, shape_of(a), a->chunks);
}

extern "C" cudaError_t cuda_launch_layer_norm_grad(const cuda_norm_args *a, cudaStream_t stream)
{
    return float_switch(a->dtype, [&](auto zero) {
        using S = decltype(zero);
        using T = real<S>;
        const cudaError_t code = launch_parameters<S>(a, stream);
        if (code != cudaSuccess || a->n == 0)
            return code;
        const cudaLaunchConfig_t c = shape_for(a->n * 32, stream);
        return held_switch<S>(a->c, [&](auto held) {
            return cudaLaunchKernelEx(&c, k_layer_norm_grad<S, decltype(held)::value>, (S *)a->out,
                                      (const S *)a->grad, (const S *)a->x, a->weight,
                                      (const T *)a->mean, (const T *)a->rstd, shape_of(a));
        });
    });
}
