/* conv2d and its gradients by own kernels, as matrix products whose left side is read through the
 * window (implicit GEMM): nothing is unfolded in memory. x [n, c, h, w], weight [o, c / groups, kh, kw],
 * y [n, o, oh, ow], any strides. One layer of blocks per group; tiles as in gemm_tile.cuh.
 *
 *   y        rows (n, oh, ow)   columns o             k (c, kh, kw)
 *   grad x   rows (n, h, w)     columns c             k (o, kh, kw)
 *   grad w   rows o             columns (c, kh, kw)   k (n, oh, ow)
 *
 * cuDNN takes over where it is there; this is what remains without it. */
#include "backend_cuda/gemm_tile.cuh"
#include "backend_cuda/launch.h"

using namespace cuda;

/* What a row or column number, which is below 2^32, means: (a, b, c) with extents of b and c. */
struct triple {
    int64_t a, b, c;
};
static __device__ __forceinline__ triple split(int64_t i, int64_t b, int64_t c)
{
    const uint32_t rest = (uint32_t)i / (uint32_t)c;
    return { (int64_t)(rest / (uint32_t)b), (int64_t)(rest % (uint32_t)b),
             (int64_t)((uint32_t)i % (uint32_t)c) };
}

/* x at result (n, oh, ow) through cell (c, kh, kw) of the window; 0 in the padding. */
template <typename S> struct window_side {
    const S *x;
    cuda_conv_shape s;
    int64_t first_channel;
    bool depth_inner;
    bool swapped; /* called with (cell, result) */

    __device__ __forceinline__ real<S> operator()(int64_t i, int64_t d) const
    {
        const triple at = split(swapped ? d : i, s.out[0], s.out[1]);
        const triple cell = split(swapped ? i : d, s.kernel[0], s.kernel[1]);
        const int64_t h = at.b * s.stride[0] - s.padding[0] + cell.b * s.dilation[0];
        const int64_t w = at.c * s.stride[1] - s.padding[1] + cell.c * s.dilation[1];
        if (h < 0 || h >= s.in[0] || w < 0 || w >= s.in[1])
            return 0;
        return widen(x[at.a * s.x_stride[0] + (first_channel + cell.a) * s.x_stride[1] +
                       h * s.x_stride[2] + w * s.x_stride[3]]);
    }
};

/* weight of output channel i through cell (c, kh, kw) of the window; turned: of input channel i through
 * (o, kh, kw). */
template <typename S> struct weight_side {
    const S *w;
    cuda_conv_shape s;
    int64_t first_output;
    bool depth_inner;
    bool turned;

    __device__ __forceinline__ real<S> operator()(int64_t i, int64_t d) const
    {
        const triple cell = split(d, s.kernel[0], s.kernel[1]);
        const int64_t o = turned ? cell.a : i, c = turned ? i : cell.a;
        return widen(w[(first_output + o) * s.w_stride[0] + c * s.w_stride[1] +
                       cell.b * s.w_stride[2] + cell.c * s.w_stride[3]]);
    }
};

template <typename S>
__global__ void __launch_bounds__(TILE_THREADS)
    k_conv2d(S *y, const S *x, const S *w, const S *bias, cuda_conv_shape s)
{
    using T = real<S>;
    __shared__ T xs[DEPTH][TILE + 4], ys[DEPTH][TILE + 4];
    const int64_t channels = s.c / s.groups, outputs = s.o / s.groups, g = blockIdx.z;
    const window_side<S> left = { x, s, g * channels, false, false };
    const weight_side<S> right = { w, s, g * outputs, true, false };
    const auto write = [&](int64_t m, int64_t n, T sum) {
        const triple at = split(m, s.out[0], s.out[1]);
        const int64_t o = g * outputs + n;
        if (bias != nullptr)
            sum += widen(bias[o]);
        y[at.a * s.y_stride[0] + o * s.y_stride[1] + at.b * s.y_stride[2] + at.c * s.y_stride[3]] =
            narrow<S>(sum);
    };
    multiply_tile<T>(xs, ys, s.n * s.out[0] * s.out[1], outputs,
                     channels * s.kernel[0] * s.kernel[1], left, right, write);
}

/* Beside cuDNN, which adds no bias. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_conv2d_bias(S *y, const S *bias, cuda_conv_shape s, int64_t count)
{
    for (int64_t i = first_item(); i < count; i += item_step()) {
        const int64_t w = i % s.out[1], h = i / s.out[1] % s.out[0];
        const int64_t o = i / (s.out[0] * s.out[1]) % s.o, n = i / (s.out[0] * s.out[1] * s.o);
        S *to = y + n * s.y_stride[0] + o * s.y_stride[1] + h * s.y_stride[2] + w * s.y_stride[3];
        *to = narrow<S>(widen(*to) + widen(bias[o]));
    }
}

/* ---- gradient of x --------------------------------------------------------------------------- */

/* The gradient of the result that cell (kh, kw) led from (h, w) to, 0 where there is none. */
template <typename S> struct scattered_side {
    const S *y;
    cuda_conv_shape s;
    int64_t first_output;
    bool depth_inner;

    __device__ __forceinline__ real<S> operator()(int64_t i, int64_t d) const
    {
        const triple at = split(i, s.in[0], s.in[1]);
        const triple cell = split(d, s.kernel[0], s.kernel[1]);
        const int64_t h = at.b + s.padding[0] - cell.b * s.dilation[0];
        const int64_t w = at.c + s.padding[1] - cell.c * s.dilation[1];
        if (h < 0 || w < 0 || h % s.stride[0] != 0 || w % s.stride[1] != 0)
            return 0;
        const int64_t oh = h / s.stride[0], ow = w / s.stride[1];
        if (oh >= s.out[0] || ow >= s.out[1])
            return 0;
        return widen(y[at.a * s.y_stride[0] + (first_output + cell.a) * s.y_stride[1] +
                       oh * s.y_stride[2] + ow * s.y_stride[3]]);
    }
};

template <typename S>
__global__ void __launch_bounds__(TILE_THREADS)
    k_conv2d_grad_input(S *x, const S *y, const S *w, cuda_conv_shape s)
{
    using T = real<S>;
    __shared__ T xs[DEPTH][TILE + 4], ys[DEPTH][TILE + 4];
    const int64_t channels = s.c / s.groups, outputs = s.o / s.groups, g = blockIdx.z;
    const scattered_side<S> left = { y, s, g * outputs, false };
    const weight_side<S> right = { w, s, g * outputs, false, true };
    const auto write = [&](int64_t m, int64_t n, T sum) {
        const triple at = split(m, s.in[0], s.in[1]);
        x[at.a * s.x_stride[0] + (g * channels + n) * s.x_stride[1] + at.b * s.x_stride[2] +
          at.c * s.x_stride[3]] = narrow<S>(sum);
    };
    multiply_tile<T>(xs, ys, s.n * s.in[0] * s.in[1], channels, outputs * s.kernel[0] * s.kernel[1],
                     left, right, write);
}

/* ---- gradient of weight ---------------------------------------------------------------------- */

/* The gradient of output channel i at result d. */
template <typename S> struct result_side {
    const S *y;
    cuda_conv_shape s;
    int64_t first_output;
    bool depth_inner;

    __device__ __forceinline__ real<S> operator()(int64_t i, int64_t d) const
    {
        const triple at = split(d, s.out[0], s.out[1]);
        return widen(y[at.a * s.y_stride[0] + (first_output + i) * s.y_stride[1] +
                       at.b * s.y_stride[2] + at.c * s.y_stride[3]]);
    }
};

template <typename S>
__global__ void __launch_bounds__(TILE_THREADS)
    k_conv2d_grad_weight(S *w, const S *y, const S *x, cuda_conv_shape s)
{
    using T = real<S>;
    __shared__ T xs[DEPTH][TILE + 4], ys[DEPTH][TILE + 4];
    const int64_t channels = s.c / s.groups, outputs = s.o / s.groups, g = blockIdx.z;
    const result_side<S> left = { y, s, g * outputs, true };
    const window_side<S> right = { x, s, g * channels, true, true };
    const auto write = [&](int64_t m, int64_t n, T sum) {
        const triple cell = split(n, s.kernel[0], s.kernel[1]);
        w[(g * outputs + m) * s.w_stride[0] + cell.a * s.w_stride[1] + cell.b * s.w_stride[2] +
          cell.c * s.w_stride[3]] = narrow<S>(sum);
    };
    multiply_tile<T>(xs, ys, outputs, channels * s.kernel[0] * s.kernel[1],
                     s.n * s.out[0] * s.out[1], left, right, write);
}

/* ---- launchers ------------------------------------------------------------------------------- */

extern "C" cudaError_t cuda_launch_conv2d(void *y, const void *x, const void *w, const void *bias,
                                          int dtype, const cuda_conv_shape *s, cudaStream_t stream)
{
    const cudaLaunchConfig_t c =
        tiles_for(s->n * s->out[0] * s->out[1], s->o / s->groups, s->groups, stream);
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        return cudaLaunchKernelEx(&c, k_conv2d<S>, (S *)y, (const S *)x, (const S *)w,
                                  (const S *)bias, *s);
    });
}

extern "C" cudaError_t cuda_launch_conv2d_bias(void *y, const void *bias, int dtype,
                                               const cuda_conv_shape *s, cudaStream_t stream)
{
    const int64_t count = s->n * s->o * s->out[0] * s->out[1];
    const cudaLaunchConfig_t c = shape_for(count, stream);
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        return cudaLaunchKernelEx(&c, k_conv2d_bias<S>, (S *)y, (const S *)bias, *s, count);
    });
}

extern "C" cudaError_t cuda_launch_conv2d_grad_input(void *x, const void *y, const void *w,
                                                     int dtype, const cuda_conv_shape *s,
                                                     cudaStream_t stream)
{
    const cudaLaunchConfig_t c =
        tiles_for(s->n * s->in[0] * s->in[1], s->c / s->groups, s->groups, stream);
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        return cudaLaunchKernelEx(&c, k_conv2d_grad_input<S>, (S *)x, (const S *)y, (const S *)w,
                                  *s);
    });
}

extern "C" cudaError_t cuda_launch_conv2d_grad_weight(void *w, const void *y, const void *x,
                                                      int dtype, const cuda_conv_shape *s,
                                                      cudaStream_t stream)
{
    const int64_t columns = s->c / s->groups * s->kernel[0] * s->kernel[1];
    const cudaLaunchConfig_t c = tiles_for(s->o / s->groups, columns, s->groups, stream);
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        return cudaLaunchKernelEx(&c, k_conv2d_grad_weight<S>, (S *)w, (const S *)y, (const S *)x,
                                  *s);
    });
}
