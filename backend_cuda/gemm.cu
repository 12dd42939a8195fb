/* Matrix products by own kernels: out[b][m][n] = sum over k of x[b][m][k] y[b][k][n] (+ bias[n]), any
 * strides.
 *
 * A block owns a tile of 64 x 64 of one product, a thread 8 x 8 of it; x and y pass through shared
 * memory 16 columns of k at a time, read along whichever dimension has unit stride. Sums are kept in
 * f32 (f64 for f64, i64 for integers), in the order of k: deterministic. cuBLAS takes over the types
 * that it has where it is there; this is what remains without it. */
#include "backend_cuda/launch.h"
#include "backend_cuda/types.cuh"

using namespace cuda;

constexpr int TILE = 64, DEPTH = 16, EACH = 8, THREADS = (TILE / EACH) * (TILE / EACH);

template <typename S> __device__ __forceinline__ int64_t read_number(S x)
{
    return (int64_t)x;
}
__device__ __forceinline__ float read_number(float x)
{
    return x;
}
__device__ __forceinline__ double read_number(double x)
{
    return x;
}
__device__ __forceinline__ float read_number(__half x)
{
    return widen(x);
}
__device__ __forceinline__ float read_number(__nv_bfloat16 x)
{
    return widen(x);
}

struct gemm_shape {
    int64_t m, n, k;
    int64_t out_stride[3], x_stride[3], y_stride[3];
    int64_t bias_stride;
};

/* tile[d][i] = source[first + i][depth + d], 0 outside. */
template <typename S, typename A>
static __device__ __forceinline__ void load_tile(A (&tile)[DEPTH][TILE + 4], const S *source,
                                                 int64_t first, int64_t count, int64_t depth,
                                                 int64_t depths, int64_t stride,
                                                 int64_t depth_stride)
{
    const bool depth_inner = depth_stride == 1;
    for (int e = (int)threadIdx.x; e < TILE * DEPTH; e += THREADS) {
        const int d = depth_inner ? e % DEPTH : e / TILE;
        const int i = depth_inner ? e / DEPTH : e % TILE;
        const bool inside = first + i < count && depth + d < depths;
        tile[d][i] =
            inside ? read_number(source[(first + i) * stride + (depth + d) * depth_stride]) : (A)0;
    }
}

template <typename S, typename A>
__global__ void __launch_bounds__(THREADS)
    k_gemm(S *out, const S *x, const S *y, const S *bias, gemm_shape g)
{
    __shared__ A xs[DEPTH][TILE + 4], ys[DEPTH][TILE + 4];
    const int64_t row = (int64_t)blockIdx.y * TILE, column = (int64_t)blockIdx.x * TILE;
    const int64_t b = blockIdx.z;
    const int my_row = (int)threadIdx.x / (TILE / EACH) * EACH;
    const int my_column = (int)threadIdx.x % (TILE / EACH) * EACH;
    A sum[EACH][EACH] = {};
    for (int64_t depth = 0; depth < g.k; depth += DEPTH) {
        load_tile(xs, x + b * g.x_stride[0], row, g.m, depth, g.k, g.x_stride[1], g.x_stride[2]);
        load_tile(ys, y + b * g.y_stride[0], column, g.n, depth, g.k, g.y_stride[2], g.y_stride[1]);
        __syncthreads();
        for (int d = 0; d < DEPTH; d++) {
            A left[EACH], right[EACH];
            for (int i = 0; i < EACH; i++) {
                left[i] = xs[d][my_row + i];
                right[i] = ys[d][my_column + i];
            }
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++)
                    sum[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH && row + my_row + i < g.m; i++)
        for (int j = 0; j < EACH && column + my_column + j < g.n; j++) {
            const int64_t n = column + my_column + j;
            A value = sum[i][j];
            if (bias != nullptr)
                value += read_number(bias[n * g.bias_stride]);
            out[b * g.out_stride[0] + (row + my_row + i) * g.out_stride[1] + n * g.out_stride[2]] =
                narrow<S>(value);
        }
}

template <typename S, typename A>
static cudaError_t launch(const cuda_gemm_args *g, cudaStream_t stream)
{
    constexpr int64_t most = 65535;
    gemm_shape s = { g->m, g->n, g->k, {}, {}, {}, g->bias_stride };
    for (int d = 0; d < 3; d++) {
        s.out_stride[d] = g->out_stride[d];
        s.x_stride[d] = g->x_stride[d];
        s.y_stride[d] = g->y_stride[d];
    }
    if ((g->m + TILE - 1) / TILE > most)
        return cudaErrorInvalidConfiguration;
    for (int64_t b = 0; b < g->batch; b += most) {
        cudaLaunchConfig_t c = shape((g->n + TILE - 1) / TILE, THREADS, stream);
        c.gridDim.y = (unsigned)((g->m + TILE - 1) / TILE);
        c.gridDim.z = (unsigned)(g->batch - b < most ? g->batch - b : most);
        const cudaError_t code =
            cudaLaunchKernelEx(&c, k_gemm<S, A>, (S *)g->out + b * s.out_stride[0],
                               (const S *)g->x + b * s.x_stride[0],
                               (const S *)g->y + b * s.y_stride[0], (const S *)g->bias, s);
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
