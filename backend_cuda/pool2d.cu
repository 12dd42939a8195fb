/* Pooling in two dimensions: x [n, c, h, w], y [n, c, oh, ow], any strides.
 *
 * A thread makes one result; in gradients one element of x, from all windows that hold it, so that
 * nothing is added by atomics: deterministic. max_pool2d's index is the window's cell, row by row; NaN
 * beats numbers, a later NaN an earlier one, else the first of equal values wins. */
#include "backend_cuda/launch.h"
#include "backend_cuda/walk.cuh"

using namespace cuda;

struct place {
    int64_t n, c, h, w;
};
static __device__ __forceinline__ place place_of(const cuda_pool_shape &s,
                                                 const cuda_divisor (&by)[2], int64_t i)
{
    const int64_t row = quotient(i, by[1]), plane = quotient(row, by[0]);
    const int64_t image = quotient(plane, s.c_by);
    return { image, plane - image * s.c, row - plane * by[0].number, i - row * by[1].number };
}
static __device__ __forceinline__ int64_t at_strides(const int64_t *stride, int64_t n, int64_t c,
                                                     int64_t h, int64_t w)
{
    return n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
}

static __device__ __forceinline__ int64_t read_index(const void *index, int narrow_index, int64_t i)
{
    return narrow_index ? (int64_t)((const uint8_t *)index)[i] : ((const int32_t *)index)[i];
}

template <typename S> __device__ __forceinline__ S comparable(S x)
{
    return x;
}
__device__ __forceinline__ float comparable(__half x)
{
    return widen(x);
}
__device__ __forceinline__ float comparable(__nv_bfloat16 x)
{
    return widen(x);
}

/* The maximum of nothing: a dilated window may step over all of x. */
template <typename S> __device__ __forceinline__ S lowest(S)
{
    const bool is_signed = (S)-1 < (S)0;
    return is_signed ? (S)((uint64_t)1 << (8 * sizeof(S) - 1)) : (S)0;
}
__device__ __forceinline__ float lowest(float)
{
    return -(float)INFINITY;
}
__device__ __forceinline__ double lowest(double)
{
    return -(double)INFINITY;
}

struct range {
    int32_t begin, end; /* kernels are not larger, and registers few */
};
static __device__ __forceinline__ range range_of(int64_t begin, int64_t end, int64_t most)
{
    return { (int32_t)(begin < most ? begin : most), (int32_t)(end < most ? end : most) };
}
/* Windows that are not much larger than x are walked whole: tests cost less than divisions. */
static __device__ __forceinline__ bool is_vast(const cuda_pool_shape &s, int d)
{
    return s.kernel[d] > 64 && s.kernel[d] > s.in[d];
}
/* The cells of result `out`'s window that are inside x are among these. */
static __device__ __forceinline__ range cells_inside(const cuda_pool_shape &s, int d, int64_t out)
{
    if (!is_vast(s, d))
        return { 0, (int32_t)s.kernel[d] };
    const int64_t first = out * s.stride[d] - s.padding[d], step = s.dilation[d];
    const int64_t end = (s.in[d] - first + step - 1) / step; /* which starts before x's end */
    return range_of(first < 0 ? (-first + step - 1) / step : 0, end, s.kernel[d]);
}
/* The cells of windows that x's `at` may be are among these. */
static __device__ __forceinline__ range cells_that_hold(const cuda_pool_shape &s, int d, int64_t at)
{
    if (!is_vast(s, d))
        return { 0, (int32_t)s.kernel[d] };
    const int64_t from = at + s.padding[d], step = s.dilation[d];
    const int64_t over = from - (s.out[d] - 1) * s.stride[d], end = from / step + 1;
    return range_of(over > 0 ? (over + step - 1) / step : 0, end, s.kernel[d]);
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_max_pool(S *y, void *index, const S *x, cuda_pool_shape s, int64_t count)
{
    for (int64_t i = first_item(); i < count; i += item_step()) {
        const place p = place_of(s, s.out_by, i);
        const int64_t top = p.h * s.stride[0] - s.padding[0];
        const int64_t left = p.w * s.stride[1] - s.padding[1];
        int64_t cell = -1;
        S best = narrow<S>(lowest(comparable(S{})));
        const range rows = cells_inside(s, 0, p.h), columns = cells_inside(s, 1, p.w);
        for (int32_t kh = rows.begin; kh < rows.end; kh++) {
            const int64_t h = top + kh * s.dilation[0];
            if (h < 0 || h >= s.in[0])
                continue;
                /* No branch waits for a number, so that the next are under way. */
#pragma unroll 4
            for (int32_t kw = columns.begin; kw < columns.end; kw++) {
                const int64_t w = left + kw * s.dilation[1];
                const bool inside = w >= 0 && w < s.in[1];
                const S x_at = inside ? x[at_strides(s.x_stride, p.n, p.c, h, w)] : S{};
                const auto v = comparable(x_at);
                const bool beats = inside && ((cell < 0) | (v > comparable(best)) | !(v == v));
                best = beats ? x_at : best;
                cell = beats ? kh * s.kernel[1] + kw : cell;
            }
        }
        y[at_strides(s.y_stride, p.n, p.c, p.h, p.w)] = best;
        cell = cell < 0 ? 0 : cell;
        const int64_t to = at_strides(s.index_stride, p.n, p.c, p.h, p.w);
        if (s.narrow_index)
            ((uint8_t *)index)[to] = (uint8_t)cell;
        else
            ((int32_t *)index)[to] = (int32_t)cell;
    }
}

/* The result whose window has (at) in its cell k, or -1. */
static __device__ __forceinline__ int64_t result_of(const cuda_pool_shape &s, int d, int64_t at,
                                                    int64_t k)
{
    const int64_t from = at + s.padding[d] - k * s.dilation[d];
    if (from < 0 || from % s.stride[d] != 0 || from / s.stride[d] >= s.out[d])
        return -1;
    return from / s.stride[d];
}

/* run(result, cell) for the windows along one dimension that have x's `at`, and the cell that it is in: the first
 * cell first. */
template <typename F>
static __device__ __forceinline__ void each_window(const cuda_pool_shape &s, int d, int64_t at,
                                                   F run)
{
    if (s.dilation[d] == 1) {
        const int64_t from = at + s.padding[d], over = from - s.kernel[d];
        const int64_t last = quotient(from, s.stride_by[d]), most = s.out[d] - 1;
        const int64_t first = over < 0 ? 0 : quotient(over, s.stride_by[d]) + 1;
#pragma unroll 1
        for (int64_t o = last < most ? last : most; o >= first; o--)
            run(o, from - o * s.stride[d]);
        return;
    }
    const range cells = cells_that_hold(s, d, at);
    for (int32_t k = cells.begin; k < cells.end; k++) {
        const int64_t o = result_of(s, d, at, k);
        if (o >= 0)
            run(o, (int64_t)k);
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_max_pool_grad(S *x, const S *y, const void *index, cuda_pool_shape s, int64_t count)
{
    for (int64_t i = first_item(); i < count; i += item_step()) {
        const place p = place_of(s, s.in_by, i);
        real<S> sum = 0;
        each_window(s, 0, p.h, [&](int64_t oh, int64_t kh) {
            each_window(s, 1, p.w, [&](int64_t ow, int64_t kw) {
                /* loaded beside each other: y is not read after index */
                const real<S> grad = widen(y[at_strides(s.y_stride, p.n, p.c, oh, ow)]);
                const int64_t cell =
                    read_index(index, s.narrow_index, at_strides(s.index_stride, p.n, p.c, oh, ow));
                if (cell == kh * s.kernel[1] + kw)
                    sum += grad;
            });
        });
        x[at_strides(s.x_stride, p.n, p.c, p.h, p.w)] = narrow<S>(sum);
    }
}

/* Cells that count along one dimension: the window cut by the padded input, or by the input. */
static __device__ __forceinline__ int64_t cells_of(const cuda_pool_shape &s, int d, int64_t out)
{
    const int64_t first = out * s.stride[d] - s.padding[d];
    const int64_t most = s.in[d] + (s.include_pad ? s.padding[d] : 0);
    const int64_t end = first + s.kernel[d] < most ? first + s.kernel[d] : most;
    return end - (first < 0 && !s.include_pad ? 0 : first);
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_avg_pool(S *y, const S *x, cuda_pool_shape s, int64_t count)
{
    for (int64_t i = first_item(); i < count; i += item_step()) {
        const place p = place_of(s, s.out_by, i);
        real<S> sum = 0;
        const range rows = cells_inside(s, 0, p.h), columns = cells_inside(s, 1, p.w);
        for (int32_t kh = rows.begin; kh < rows.end; kh++)
            for (int32_t kw = columns.begin; kw < columns.end; kw++) {
                const int64_t h = p.h * s.stride[0] - s.padding[0] + kh;
                const int64_t w = p.w * s.stride[1] - s.padding[1] + kw;
                if (h >= 0 && h < s.in[0] && w >= 0 && w < s.in[1])
                    sum += widen(x[at_strides(s.x_stride, p.n, p.c, h, w)]);
            }
        const int64_t cells = cells_of(s, 0, p.h) * cells_of(s, 1, p.w);
        y[at_strides(s.y_stride, p.n, p.c, p.h, p.w)] = narrow<S>(sum / (real<S>)cells);
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_avg_pool_grad(S *x, const S *y, cuda_pool_shape s, int64_t count)
{
    for (int64_t i = first_item(); i < count; i += item_step()) {
        const place p = place_of(s, s.in_by, i);
        real<S> sum = 0;
        each_window(s, 0, p.h, [&](int64_t oh, int64_t) {
            each_window(s, 1, p.w, [&](int64_t ow, int64_t) {
                sum += widen(y[at_strides(s.y_stride, p.n, p.c, oh, ow)]) /
                       (real<S>)(cells_of(s, 0, oh) * cells_of(s, 1, ow));
            });
        });
        x[at_strides(s.x_stride, p.n, p.c, p.h, p.w)] = narrow<S>(sum);
    }
}

static int64_t results(const cuda_pool_shape *s)
{
    return s->n * s->c * s->out[0] * s->out[1];
}
static int64_t inputs(const cuda_pool_shape *s)
{
    return s->n * s->c * s->in[0] * s->in[1];
}

extern "C" cudaError_t cuda_launch_max_pool(void *y, void *index, const void *x, int dtype,
                                            const cuda_pool_shape *s, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for(results(s), stream);
    const auto run = [&](auto zero) {
        using S = decltype(zero);
        return cudaLaunchKernelEx(&c, k_max_pool<S>, (S *)y, index, (const S *)x, *s, results(s));
    };
    return tern_dtype_is_float((tern_dtype_t)dtype) ? float_switch(dtype, run)
                                                    : integer_switch(dtype, run);
}

extern "C" cudaError_t cuda_launch_max_pool_grad(void *x, const void *y, const void *index,
                                                 int dtype, const cuda_pool_shape *s,
                                                 cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for(inputs(s), stream);
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        return cudaLaunchKernelEx(&c, k_max_pool_grad<S>, (S *)x, (const S *)y, index, *s,
                                  inputs(s));
    });
}

extern "C" cudaError_t cuda_launch_avg_pool(void *y, const void *x, int dtype,
                                            const cuda_pool_shape *s, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for(results(s), stream);
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        return cudaLaunchKernelEx(&c, k_avg_pool<S>, (S *)y, (const S *)x, *s, results(s));
    });
}

extern "C" cudaError_t cuda_launch_avg_pool_grad(void *x, const void *y, int dtype,
                                                 const cuda_pool_shape *s, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for(inputs(s), stream);
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        return cudaLaunchKernelEx(&c, k_avg_pool_grad<S>, (S *)x, (const S *)y, *s, inputs(s));
    });
}
