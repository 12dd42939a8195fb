/* The tile of a matrix product: out[m][n] = sum over k of left[m][k] right[k][n], whatever left and right
 * are read from.
 *
 * A block owns 64 x 64 of the result, a thread 8 x 8 of it; both sides pass through shared memory 16
 * steps of k at a time. Sums are kept in A, in the order of k: deterministic. */
#ifndef TERN_BACKEND_CUDA_GEMM_TILE_CUH
#define TERN_BACKEND_CUDA_GEMM_TILE_CUH

#include "backend_cuda/number.cuh"

namespace cuda
{

constexpr int TILE = 64, DEPTH = 16, EACH = 8, TILE_THREADS = (TILE / EACH) * (TILE / EACH);

/* tile[d][i] = side(first + i, depth + d), 0 outside. Threads follow k where its elements lie beside
 * each other. */
template <typename A, typename L>
__device__ __forceinline__ void load_tile(A (&tile)[DEPTH][TILE + 4], const L &side, int64_t first,
                                          int64_t count, int64_t depth, int64_t depths)
{
    for (int e = (int)threadIdx.x; e < TILE * DEPTH; e += TILE_THREADS) {
        const int d = side.depth_inner ? e % DEPTH : e / TILE;
        const int i = side.depth_inner ? e / DEPTH : e % TILE;
        const bool inside = first + i < count && depth + d < depths;
        tile[d][i] = inside ? (A)side(first + i, depth + d) : (A)0;
    }
}

/* left(m, k), right(n, k) and write(m, n, sum); block (x, y) takes rows and columns of the result. */
template <typename A, typename L, typename R, typename W>
__device__ __forceinline__ void multiply_tile(A (&xs)[DEPTH][TILE + 4], A (&ys)[DEPTH][TILE + 4],
                                              int64_t m, int64_t n, int64_t k, const L &left,
                                              const R &right, const W &write)
{
    const int64_t row = (int64_t)blockIdx.x * TILE, column = (int64_t)blockIdx.y * TILE;
    const int my_row = (int)threadIdx.x / (TILE / EACH) * EACH;
    const int my_column = (int)threadIdx.x % (TILE / EACH) * EACH;
    A sum[EACH][EACH] = {};
    for (int64_t depth = 0; depth < k; depth += DEPTH) {
        load_tile(xs, left, row, m, depth, k);
        load_tile(ys, right, column, n, depth, k);
        __syncthreads();
        for (int d = 0; d < DEPTH; d++) {
            A l[EACH], r[EACH];
            for (int i = 0; i < EACH; i++) {
                l[i] = xs[d][my_row + i];
                r[i] = ys[d][my_column + i];
            }
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++)
                    sum[i][j] += l[i] * r[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH && row + my_row + i < m; i++)
        for (int j = 0; j < EACH && column + my_column + j < n; j++)
            write(row + my_row + i, column + my_column + j, sum[i][j]);
}

constexpr int64_t MOST_LAYERS = 65535, MOST_COLUMNS = MOST_LAYERS * TILE; /* of a grid's z and y */

/* Tiles of m x n in `batch` layers. Rows are on x, which has 2^31: positions of images are many. */
inline cudaLaunchConfig_t tiles_for(int64_t m, int64_t n, int64_t batch, cudaStream_t stream)
{
    cudaLaunchConfig_t c = shape((m + TILE - 1) / TILE, TILE_THREADS, stream);
    c.gridDim.y = (unsigned)((n + TILE - 1) / TILE);
    c.gridDim.z = (unsigned)batch;
    return c;
}

} // namespace cuda

#endif
