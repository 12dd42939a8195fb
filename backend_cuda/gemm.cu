/* Matrix products by own kernels: out[b][m][n] = sum over k of x[b][m][k] y[b][k][n] (+ bias[n]), any
 * strides; tiles as in gemm_tile.cuh. f32 sums (f64 for f64, i64 for integers). cuBLAS takes over the
 * types that it has where it is there; this is what remains without it. */
#include "backend_cuda/gemm_tile.cuh"
#include "backend_cuda/launch.h"

using namespace cuda;

struct gemm_shape {
    int64_t m, n, k;
    int64_t out_stride[3], x_stride[3], y_stride[3];
    int64_t bias_stride;
};

/* A matrix in memory, by (row, k). */
template <typename S> struct matrix_side {
    const S *data;
    int64_t stride, depth_stride;
    bool depth_inner;
    __device__ __forceinline__ auto operator()(int64_t i, int64_t d) const
    {
        return number_of(data[i * stride + d * depth_stride]);
    }
};

/* Of no elements there is no address to count from. */
template <typename S> static __device__ __forceinline__ const S *matrix(const S *x, int64_t offset)
{
    return x != nullptr ? x + offset : x;
}

template <typename S, typename A>
__global__ void __launch_bounds__(TILE_THREADS)
    k_gemm(S *out, const S *x, const S *y, const S *bias, gemm_shape g)
{
    __shared__ A xs[DEPTH][TILE + 4], ys[DEPTH][TILE + 4];
    const int64_t b = blockIdx.z;
    const matrix_side<S> left = { matrix(x, b * g.x_stride[0]), g.x_stride[1], g.x_stride[2],
                                  g.x_stride[2] == 1 };
    const matrix_side<S> right = { matrix(y, b * g.y_stride[0]), g.y_stride[2], g.y_stride[1],
                                   g.y_stride[1] == 1 };
    const auto write = [&](int64_t m, int64_t n, A sum) {
        if (bias != nullptr)
            sum += number_of(bias[n * g.bias_stride]);
        out[b * g.out_stride[0] + m * g.out_stride[1] + n * g.out_stride[2]] = narrow<S>(sum);
    };
    multiply_tile<A>(xs, ys, g.m, g.n, g.k, left, right, write);
}

template <typename S> static const S *behind(const void *x, int64_t offset)
{
    return x != nullptr ? (const S *)x + offset : nullptr;
}

/* Layers from b and columns from n on, as many as one grid has. */
template <typename S, typename A>
static cudaError_t launch_part(const cuda_gemm_args *g, int64_t b, int64_t n, cudaStream_t stream)
{
    gemm_shape s = {
        g->m, g->n - n < MOST_COLUMNS ? g->n - n : MOST_COLUMNS, g->k, {}, {}, {}, g->bias_stride
    };
    for (int d = 0; d < 3; d++) {
        s.out_stride[d] = g->out_stride[d];
        s.x_stride[d] = g->x_stride[d];
        s.y_stride[d] = g->y_stride[d];
    }
    const int64_t layers = g->batch - b < MOST_LAYERS ? g->batch - b : MOST_LAYERS;
    const cudaLaunchConfig_t c = tiles_for(s.m, s.n, layers, stream);
    return cudaLaunchKernelEx(
        &c, k_gemm<S, A>, (S *)g->out + b * s.out_stride[0] + n * s.out_stride[2],
        behind<S>(g->x, b * s.x_stride[0]), behind<S>(g->y, b * s.y_stride[0] + n * s.y_stride[2]),
        behind<S>(g->bias, n * s.bias_stride), s);
}

template <typename S, typename A>
static cudaError_t launch(const cuda_gemm_args *g, cudaStream_t stream)
{
    for (int64_t b = 0; b < g->batch; b += MOST_LAYERS)
        for (int64_t n = 0; n < g->n; n += MOST_COLUMNS) {
            const cudaError_t code = launch_part<S, A>(g, b, n, stream);
            if (code != cudaSuccess)
                return code;
        }
    return cudaSuccess;
}

extern "C" cudaError_t cuda_launch_gemm(const cuda_gemm_args *g, cudaStream_t stream)
{
    if (tern_dtype_is_float((tern_dtype_t)g->dtype))
        return float_switch(g->dtype, [&](auto zero) {
            using S = decltype(zero);
            return launch<S, real<S>>(g, stream);
        });
    return integer_switch(g->dtype, [&](auto zero) {
        using S = decltype(zero);
        return launch<S, int64_t>(g, stream);
    });
}
