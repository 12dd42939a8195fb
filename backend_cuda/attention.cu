/* Attention in one pass over the keys: a block holds a tile of rows (queries; for the keys' gradients,
 * keys) and walks over tiles of columns. A warp owns R rows, its lanes are columns; scores never leave it but
 * for a tile of weights in shared memory. What limits it is how often shared memory is read: of rows, which
 * all lanes read alike, 16 bytes at a time, and a column's element once for all rows of the warp. f32 inside (f64
 * for f64); fixed order. */
#include <type_traits>

#include "backend_cuda/attention_score.cuh"

using namespace cuda;

/* ---- forward ---------------------------------------------------------------------------------- */

/* Of each row of a warp, over the keys so far: the largest score, and this lane's sum of exponentials below it. */
template <typename T, int R> struct running {
    T top[R], sum[R];
};

/* Scores of the warp's rows of a tile of queries with the key of this lane. */
template <int R, typename S>
static __device__ __forceinline__ void score_rows(const cuda_attention_args &a, const head &p,
                                                  int64_t q0, int64_t k0, const real<S> *q,
                                                  int64_t q_ld, const real<S> *keys, int64_t ld,
                                                  real<S> (&score)[R])
{
    const int lane = lane_of();
    dot_rows(q, q_ld, keys + (lane < a.columns ? lane : 0) * ld, a.d, score);
#pragma unroll
    for (int j = 0; j < R; j++)
        score[j] = lane < a.columns ? score_of<S>(a, p, q0 + row_of(j), k0 + lane, score[j])
                                    : -(real<S>)INFINITY;
}

/* Scores become weights below the largest so far; `factor` is what earlier results shrink by. */
template <int R, typename T>
static __device__ __forceinline__ void weigh_rows(const cuda_attention_args &a, const head &p,
                                                  int64_t q0, int64_t k0, const T (&score)[R],
                                                  running<T, R> &r, T *weights, T (&factor)[R])
{
#pragma unroll
    for (int j = 0; j < R; j++) {
        const T here = warp_max(score[j]);
        const T next = here > r.top[j] || here != here ? here : r.top[j];
        const T shift = next == -(T)INFINITY ? (T)0 : next;
        const T weight = exp_of(score[j] - shift);
        factor[j] = next == r.top[j] ? (T)1 : exp_of(r.top[j] - next);
        r.sum[j] = r.sum[j] * factor[j] + weight;
        r.top[j] = next;
        weights[row_of(j) * WEIGHTS + lane_of()] =
            weight * kept<T>(a, p, q0 + row_of(j), k0 + lane_of());
    }
}

/* What each row's result is multiplied by, and its logarithm of the sum; `count` rows exist. */
template <int R, typename T>
static __device__ __forceinline__ void end_rows(const cuda_attention_args &a, const head &p,
                                                int64_t q0, int64_t count, const running<T, R> &r,
                                                T *factors)
{
#pragma unroll
    for (int j = 0; j < R; j++) {
        const int64_t row = row_of(j);
        const T sum = warp_sum(r.sum[j]);
        if (lane_of() != 0)
            continue;
        factors[row] = sum == (T)0 ? (T)0 : (T)1 / sum;
        if (row < count)
            ((T *)a.lse)[(p.b * a.heads + p.h) * a.t + q0 + row] =
                sum == (T)0 ? -(T)INFINITY : r.top[j] + log_of(sum);
    }
}

template <int R, typename S>
__global__ void __launch_bounds__(THREADS) k_attention(cuda_attention_args a, int64_t units)
{
    using T = real<S>;
    extern __shared__ __align__(16) unsigned char dyn_smem[];
    constexpr int ROWS = WARPS * R;
    const int64_t q_ld = a.row_ld[0], k_ld = a.column_ld[0], v_ld = a.column_ld[1];
    const int64_t tiles = (a.t + ROWS - 1) / ROWS;
    T *q = (T *)dyn_smem, *weights = q + ROWS * q_ld, *y = weights + ROWS * WEIGHTS;
    T *k = y + ROWS * a.e, *v = a.apart ? k + a.columns * k_ld : k;
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const head p = head_of(a, unit / tiles);
        const int64_t q0 = unit % tiles * ROWS, count = smaller(ROWS, a.t - q0);
        const int64_t seen = a.causal ? smaller(a.s, q0 + count) : a.s;
        running<T, R> r;
        T factor[R], score[R];
#pragma unroll
        for (int j = 0; j < R; j++) {
            r.top[j] = -(T)INFINITY;
            r.sum[j] = 0;
        }
        load_tile<S>(q, q_ld, a.q, p.b, p.h, q0, count, ROWS, a.d);
        for (int64_t i = threadIdx.x; i < ROWS * a.e; i += THREADS)
            y[i] = 0;
        for (int64_t k0 = 0; k0 < seen; k0 += a.columns) {
            const int64_t keys = smaller(a.columns, a.s - k0);
            load_tile<S>(k, k_ld, a.k, p.b, p.g, k0, keys, a.columns, a.d);
            if (a.apart)
                load_tile<S>(v, v_ld, a.v, p.b, p.g, k0, keys, a.columns, a.e);
            __syncthreads();
            score_rows<R, S>(a, p, q0, k0, q, q_ld, k, k_ld, score);
            if (!a.apart) {
                __syncthreads();
                load_tile<S>(v, v_ld, a.v, p.b, p.g, k0, keys, a.columns, a.e);
                __syncthreads();
            }
            weigh_rows<R>(a, p, q0, k0, score, r, weights, factor);
            __syncwarp(FULL_MASK); /* a warp mixes by its own weights */
            mix<R>(y, a.e, weights, v, v_ld, a.columns, factor);
            __syncthreads();
        }
        end_rows<R>(a, p, q0, count, r, weights);
        __syncthreads();
        store_tile<S>(y, weights, a.y, p.b, p.h, q0, count, a.e);
        __syncthreads();
    }
}

/* ---- gradients -------------------------------------------------------------------------------- */

template <int R, typename S>
__global__ void __launch_bounds__(THREADS) k_attention_grad_q(cuda_attention_args a, int64_t units)
{
    using T = real<S>;
    extern __shared__ __align__(16) unsigned char dyn_smem[];
    constexpr int ROWS = WARPS * R;
    const int64_t q_ld = a.row_ld[0], g_ld = a.row_ld[1];
    const int64_t k_ld = a.column_ld[0], v_ld = a.column_ld[1];
    const int64_t tiles = (a.t + ROWS - 1) / ROWS;
    T *q = (T *)dyn_smem, *grad = q + ROWS * q_ld, *weights = grad + ROWS * g_ld;
    T *out = weights + ROWS * WEIGHTS, *k = out + ROWS * a.d, *v = k + a.columns * k_ld;
    const int lane = lane_of(), column = lane < a.columns ? lane : 0;
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const head p = head_of(a, unit / tiles);
        const int64_t q0 = unit % tiles * ROWS, count = smaller(ROWS, a.t - q0);
        const int64_t seen = a.causal ? smaller(a.s, q0 + count) : a.s;
        T shift[R], delta[R];
#pragma unroll
        for (int j = 0; j < R; j++) {
            const int64_t t = q0 + row_of(j);
            delta[j] = delta_of<S>(a, p, t);
            if (lane == 0 && t < a.t)
                ((T *)a.delta)[(p.b * a.heads + p.h) * a.t + t] = delta[j];
            shift[j] =
                t < a.t ? shift_of(((const T *)a.lse)[(p.b * a.heads + p.h) * a.t + t]) : (T)0;
        }
        load_tile<S>(q, q_ld, a.q, p.b, p.h, q0, count, ROWS, a.d);
        load_tile<S>(grad, g_ld, a.grad, p.b, p.h, q0, count, ROWS, a.e);
        for (int64_t i = threadIdx.x; i < ROWS * a.d; i += THREADS)
            out[i] = 0;
        for (int64_t k0 = 0; k0 < seen; k0 += a.columns) {
            const int64_t keys = smaller(a.columns, a.s - k0);
            load_tile<S>(k, k_ld, a.k, p.b, p.g, k0, keys, a.columns, a.d);
            load_tile<S>(v, v_ld, a.v, p.b, p.g, k0, keys, a.columns, a.e);
            __syncthreads();
            T score[R], slope[R];
            dot_rows(q, q_ld, k + column * k_ld, a.d, score);
            dot_rows(grad, g_ld, v + column * v_ld, a.e, slope);
#pragma unroll
            for (int j = 0; j < R; j++)
                if (lane < a.columns) {
                    const int64_t t = q0 + row_of(j), s = k0 + lane;
                    const T weight = exp_of(score_of<S>(a, p, t, s, score[j]) - shift[j]);
                    weights[row_of(j) * WEIGHTS + lane] =
                        weight * (slope[j] * kept<T>(a, p, t, s) - delta[j]) * (T)a.scale;
                }
            __syncwarp(FULL_MASK);
            mix<R>(out, a.d, weights, k, k_ld, a.columns, (const T *)nullptr);
            __syncthreads();
        }
        __syncthreads();
        store_tile<S>(out, (const T *)nullptr, a.grad_q, p.b, p.h, q0, count, a.d);
        __syncthreads();
    }
}

/* Rows are keys, columns queries of all heads that they serve; after k_attention_grad_q, which leaves delta. */
template <int R, typename S>
__global__ void __launch_bounds__(THREADS) k_attention_grad_kv(cuda_attention_args a, int64_t units)
{
    using T = real<S>;
    extern __shared__ __align__(16) unsigned char dyn_smem[];
    constexpr int ROWS = WARPS * R;
    const int64_t k_ld = a.row_ld[0], v_ld = a.row_ld[1];
    const int64_t q_ld = a.column_ld[0], g_ld = a.column_ld[1];
    const int64_t tiles = (a.s + ROWS - 1) / ROWS;
    T *k = (T *)dyn_smem, *v = k + ROWS * k_ld, *weights = v + ROWS * v_ld;
    T *slopes = weights + ROWS * WEIGHTS, *grad_k = slopes + ROWS * WEIGHTS;
    T *grad_v = grad_k + ROWS * a.d, *q = grad_v + ROWS * a.e;
    T *grad = q + a.columns * q_ld, *delta = grad + a.columns * g_ld, *shift = delta + a.columns;
    const int lane = lane_of(), column = lane < a.columns ? lane : 0;
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const int64_t b = unit / tiles / a.groups, g = unit / tiles % a.groups;
        const int64_t k0 = unit % tiles * ROWS, count = smaller(ROWS, a.s - k0);
        load_tile<S>(k, k_ld, a.k, b, g, k0, count, ROWS, a.d);
        load_tile<S>(v, v_ld, a.v, b, g, k0, count, ROWS, a.e);
        for (int64_t i = threadIdx.x; i < ROWS * (a.d + a.e); i += THREADS)
            grad_k[i] = 0; /* grad_v is behind it */
        const int64_t each = a.heads / a.groups, first = a.causal ? k0 / a.columns * a.columns : 0;
        for (int64_t i = 0; i < each; i++)
            for (int64_t q0 = first; q0 < a.t; q0 += a.columns) {
                const head p = { b, g * each + i, g };
                const int64_t queries = smaller(a.columns, a.t - q0);
                load_tile<S>(q, q_ld, a.q, b, p.h, q0, queries, a.columns, a.d);
                load_tile<S>(grad, g_ld, a.grad, b, p.h, q0, queries, a.columns, a.e);
                for (int c = (int)threadIdx.x; c < a.columns; c += THREADS) {
                    const int64_t at = (b * a.heads + p.h) * a.t + q0 + c;
                    delta[c] = c < queries ? ((const T *)a.delta)[at] : (T)0;
                    shift[c] = c < queries ? shift_of(((const T *)a.lse)[at]) : (T)0;
                }
                __syncthreads();
                T score[R], slope[R];
                dot_rows(k, k_ld, q + column * q_ld, a.d, score);
                dot_rows(v, v_ld, grad + column * g_ld, a.e, slope);
#pragma unroll
                for (int j = 0; j < R; j++)
                    if (lane < a.columns) {
                        const int64_t at = row_of(j) * WEIGHTS + lane, t = q0 + lane;
                        const int64_t s = k0 + row_of(j);
                        const T weight = exp_of(score_of<S>(a, p, t, s, score[j]) - shift[lane]);
                        const T keep = kept<T>(a, p, t, s);
                        weights[at] = weight * keep;
                        slopes[at] = weight * (slope[j] * keep - delta[lane]) * (T)a.scale;
                    }
                __syncwarp(FULL_MASK);
                mix<R>(grad_v, a.e, weights, grad, g_ld, a.columns, (const T *)nullptr);
                mix<R>(grad_k, a.d, slopes, q, q_ld, a.columns, (const T *)nullptr);
                __syncthreads();
            }
        __syncthreads();
        store_tile<S>(grad_k, (const T *)nullptr, a.grad_k, b, g, k0, count, a.d);
        store_tile<S>(grad_v, (const T *)nullptr, a.grad_v, b, g, k0, count, a.e);
        __syncthreads();
    }
}

/* ---- launches --------------------------------------------------------------------------------- */

template <int R> using rows_each = std::integral_constant<int, R>;

/* A kernel over blocks of a->rows of `rows` rows, of `heads` heads of each batch; `kernel_of` takes the rows
 * of a warp and a zero of the storage type. */
template <typename F>
static cudaError_t launch(const cuda_attention_args *a, int64_t heads, int64_t rows, int64_t shared,
                          cudaStream_t stream, F kernel_of)
{
    const int64_t units = a->batch * heads * ((rows + a->rows - 1) / a->rows);
    cudaLaunchConfig_t c = shape(units < (1 << 30) ? units : (1 << 30), THREADS, stream);
    c.dynamicSmemBytes = (size_t)shared;
    return float_switch(a->dtype, [&](auto zero) {
        return a->rows == 8 * WARPS
                   ? cudaLaunchKernelEx(&c, kernel_of(rows_each<8>{}, zero), *a, units)
               : a->rows == 4 * WARPS
                   ? cudaLaunchKernelEx(&c, kernel_of(rows_each<4>{}, zero), *a, units)
                   : cudaLaunchKernelEx(&c, kernel_of(rows_each<1>{}, zero), *a, units);
    });
}

extern "C" cudaError_t cuda_launch_attention(const cuda_attention_args *a, int64_t shared,
                                             cudaStream_t stream)
{
    return launch(a, a->heads, a->t, shared, stream, [](auto rows, auto zero) {
        return k_attention<decltype(rows)::value, decltype(zero)>;
    });
}

extern "C" cudaError_t cuda_launch_attention_grad_q(const cuda_attention_args *a, int64_t shared,
                                                    cudaStream_t stream)
{
    return launch(a, a->heads, a->t, shared, stream, [](auto rows, auto zero) {
        return k_attention_grad_q<decltype(rows)::value, decltype(zero)>;
    });
}

extern "C" cudaError_t cuda_launch_attention_grad_kv(const cuda_attention_args *a, int64_t shared,
                                                     cudaStream_t stream)
{
    return launch(a, a->groups, a->s, shared, stream, [](auto rows, auto zero) {
        return k_attention_grad_kv<decltype(rows)::value, decltype(zero)>;
    });
}
