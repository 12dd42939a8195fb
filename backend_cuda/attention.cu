/* Attention in one pass over the keys: a block holds a tile of rows (queries; for the keys' gradients,
 * keys) and walks over tiles of columns. A warp owns up to four rows, its lanes are columns; scores never
 * leave it but for a tile of weights in shared memory. f32 inside (f64 for f64); fixed order. */
#include "backend_cuda/formulas.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/philox.cuh"
#include "backend_cuda/reduce.cuh"

using namespace cuda;

constexpr int WARPS = CUDA_ATTENTION_WARPS;
constexpr int THREADS = 32 * WARPS;
constexpr int MOST_ROWS = 4; /* of a warp */
constexpr int WEIGHTS = 33; /* a row of a tile's weights: columns, and one that spreads the banks */

/* A head of a batch; of q, and the one of k and v that serves it. */
struct head {
    int64_t b, h, g;
};

template <typename S>
static __device__ __forceinline__ S *row_at(const cuda_attention_rows &o, int64_t b, int64_t h,
                                            int64_t row)
{
    return (S *)o.data + b * o.stride[0] + h * o.stride[1] + row * o.stride[2];
}

/* `room` rows of `width` elements, `ld` apart, of which the first `count` exist and the others are 0. */
template <typename S>
static __device__ __forceinline__ void load_tile(real<S> *to, int64_t ld,
                                                 const cuda_attention_rows &o, int64_t b, int64_t h,
                                                 int64_t first, int64_t count, int room,
                                                 int64_t width)
{
    for (int64_t i = threadIdx.x; i < room * width; i += THREADS) {
        const int64_t r = i / width, c = i % width;
        to[r * ld + c] = r < count ? widen(row_at<S>(o, b, h, first + r)[c]) : (real<S>)0;
    }
}

template <typename S>
static __device__ __forceinline__ void store_tile(const real<S> *from, const real<S> *factor,
                                                  const cuda_attention_rows &o, int64_t b,
                                                  int64_t h, int64_t first, int64_t count,
                                                  int64_t width)
{
    for (int64_t i = threadIdx.x; i < count * width; i += THREADS) {
        const int64_t r = i / width;
        const real<S> f = factor != nullptr ? factor[r] : (real<S>)1;
        row_at<S>(o, b, h, first + r)[i % width] = narrow<S>(from[i] * f);
    }
}

template <typename T> static __device__ __forceinline__ T dot(const T *x, const T *y, int64_t n)
{
    T sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Never one fma with what follows. */
static __device__ __forceinline__ float rounded_product(float x, float y)
{
    return __fmul_rn(x, y);
}
static __device__ __forceinline__ double rounded_product(double x, double y)
{
    return __dmul_rn(x, y);
}

/* The scaled score of query t and key s, which backward rounds as forward did, since it subtracts the logarithm of
 * forward's; -infinity where it is hidden or there is none. */
template <typename S>
static __device__ __forceinline__ real<S> score_of(const cuda_attention_args &a, const head &p,
                                                   int64_t t, int64_t s, real<S> product)
{
    const real<S> hidden = -(real<S>)INFINITY;
    if (t >= a.t || s >= a.s || (a.causal && s > t))
        return hidden;
    const real<S> score = rounded_product(product, (real<S>)a.scale);
    if (a.mask == nullptr)
        return score;
    const int64_t at = p.b * a.mask_stride[0] + p.h * a.mask_stride[1] + t * a.mask_stride[2] +
                       s * a.mask_stride[3];
    if (a.mask_is_bool)
        return ((const uint8_t *)a.mask)[at] != 0 ? score : hidden;
    return score + widen(((const S *)a.mask)[at]);
}

/* What dropout multiplies a weight by. */
template <typename T>
static __device__ __forceinline__ T kept(const cuda_attention_args &a, const head &p, int64_t t,
                                         int64_t s)
{
    if (!a.drops)
        return 1;
    const int64_t element = ((p.b * a.heads + p.h) * a.t + t) * a.s + s;
    return (int32_t)uniform24(a.seed, a.draw, element) >= a.least ? (T)a.keep_scale : (T)0;
}

/* to[r] (+)= weights[r] x for the rows of this warp; x has `count` rows. */
template <typename T>
static __device__ __forceinline__ void mix(T *to, int64_t width, const T *weights, const T *x,
                                           int64_t ld, int count, int rows, const T *factor)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    for (int64_t c = lane; c < width; c += 32) {
        T sum[MOST_ROWS] = {};
        for (int i = 0; i < count; i++) {
            const T value = x[i * ld + c];
#pragma unroll
            for (int j = 0; j < MOST_ROWS; j++)
                if (WARPS * j < rows)
                    sum[j] += weights[(warp + WARPS * j) * WEIGHTS + i] * value;
        }
#pragma unroll
        for (int j = 0; j < MOST_ROWS; j++)
            if (WARPS * j < rows) {
                T *cell = to + (warp + WARPS * j) * width + c;
                *cell = *cell * (factor != nullptr ? factor[j] : (T)1) + sum[j];
            }
    }
}

static __device__ __forceinline__ int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static __device__ __forceinline__ head head_of(const cuda_attention_args &a, int64_t row)
{
    return { row / a.heads, row % a.heads, row % a.heads / (a.heads / a.groups) };
}

/* ---- forward ---------------------------------------------------------------------------------- */

/* Of each row of a warp, over the keys so far: the largest score, and the sum of exponentials below it. */
template <typename T> struct running {
    T top[MOST_ROWS], sum[MOST_ROWS];
};

/* Scores of the warp's rows of a tile of queries with the key of this lane. */
template <typename S>
static __device__ __forceinline__ void score_rows(const cuda_attention_args &a, const head &p,
                                                  int64_t q0, int64_t k0, const real<S> *q,
                                                  const real<S> *keys, int64_t ld,
                                                  real<S> (&score)[MOST_ROWS])
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < MOST_ROWS; j++)
        if (WARPS * j < a.rows)
            score[j] = lane < a.columns
                           ? score_of<S>(a, p, q0 + warp + WARPS * j, k0 + lane,
                                         dot(q + (warp + WARPS * j) * a.d, keys + lane * ld, a.d))
                           : -(real<S>)INFINITY;
}

/* Scores become weights below the largest so far; `factor` is what earlier results shrink by. */
template <typename T>
static __device__ __forceinline__ void weigh_rows(const cuda_attention_args &a, const head &p,
                                                  int64_t q0, int64_t k0,
                                                  const T (&score)[MOST_ROWS], running<T> &r,
                                                  T *weights, T (&factor)[MOST_ROWS])
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < MOST_ROWS; j++)
        if (WARPS * j < a.rows) {
            const T here = warp_max(score[j]);
            const T next = here > r.top[j] || here != here ? here : r.top[j];
            const T shift = next == -(T)INFINITY ? (T)0 : next;
            const T weight = exp_of(score[j] - shift);
            factor[j] = next == r.top[j] ? (T)1 : exp_of(r.top[j] - next);
            r.sum[j] = r.sum[j] * factor[j] + warp_sum(weight);
            r.top[j] = next;
            weights[(warp + WARPS * j) * WEIGHTS + lane] =
                weight * kept<T>(a, p, q0 + warp + WARPS * j, k0 + lane);
        }
}

/* What each row's result is multiplied by, and its logarithm of the sum; `count` rows exist. */
template <typename T>
static __device__ __forceinline__ void end_rows(const cuda_attention_args &a, const head &p,
                                                int64_t q0, int64_t count, const running<T> &r,
                                                T *factors)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < MOST_ROWS; j++)
        if (WARPS * j < a.rows && lane == 0) {
            const int64_t row = warp + WARPS * j;
            factors[row] = r.sum[j] == (T)0 ? (T)0 : (T)1 / r.sum[j];
            if (row < count)
                ((T *)a.lse)[(p.b * a.heads + p.h) * a.t + q0 + row] =
                    r.sum[j] == (T)0 ? -(T)INFINITY : r.top[j] + log_of(r.sum[j]);
        }
}

template <typename S>
__global__ void __launch_bounds__(THREADS) k_attention(cuda_attention_args a, int64_t units)
{
    using T = real<S>;
    extern __shared__ __align__(16) unsigned char dyn_smem[];
    const int64_t ld = (a.d > a.e ? a.d : a.e) + 1, tiles = (a.t + a.rows - 1) / a.rows;
    T *q = (T *)dyn_smem, *tile = q + a.rows * a.d, *y = tile + a.columns * ld;
    T *weights = y + a.rows * a.e;
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const head p = head_of(a, unit / tiles);
        const int64_t q0 = unit % tiles * a.rows, count = smaller(a.rows, a.t - q0);
        const int64_t seen = a.causal ? smaller(a.s, q0 + count) : a.s;
        running<T> r;
        T factor[MOST_ROWS], score[MOST_ROWS];
        for (int j = 0; j < MOST_ROWS; j++) {
            r.top[j] = -(T)INFINITY;
            r.sum[j] = 0;
        }
        load_tile<S>(q, a.d, a.q, p.b, p.h, q0, count, a.rows, a.d);
        for (int64_t i = threadIdx.x; i < a.rows * a.e; i += THREADS)
            y[i] = 0;
        for (int64_t k0 = 0; k0 < seen; k0 += a.columns) {
            const int64_t keys = smaller(a.columns, a.s - k0);
            load_tile<S>(tile, ld, a.k, p.b, p.g, k0, keys, a.columns, a.d);
            __syncthreads();
            score_rows<S>(a, p, q0, k0, q, tile, ld, score);
            __syncthreads();
            load_tile<S>(tile, ld, a.v, p.b, p.g, k0, keys, a.columns, a.e);
            weigh_rows(a, p, q0, k0, score, r, weights, factor);
            __syncthreads();
            mix(y, a.e, weights, tile, ld, a.columns, a.rows, factor);
            __syncthreads();
        }
        end_rows(a, p, q0, count, r, weights);
        __syncthreads();
        store_tile<S>(y, weights, a.y, p.b, p.h, q0, count, a.e);
        __syncthreads();
    }
}

/* ---- gradients -------------------------------------------------------------------------------- */

/* A query that saw nothing has weights exp(-infinity). */
template <typename T> static __device__ __forceinline__ T shift_of(T lse)
{
    return lse == -(T)INFINITY ? (T)INFINITY : lse;
}

/* Sum of gradient times result of query t, in every lane. */
template <typename S>
static __device__ __forceinline__ real<S> delta_of(const cuda_attention_args &a, const head &p,
                                                   int64_t t)
{
    real<S> sum = 0;
    if (t < a.t) {
        const S *y = row_at<S>(a.y, p.b, p.h, t), *g = row_at<S>(a.grad, p.b, p.h, t);
        for (int64_t i = threadIdx.x % 32; i < a.e; i += 32)
            sum += widen(y[i]) * widen(g[i]);
    }
    return warp_sum(sum);
}

template <typename S>
__global__ void __launch_bounds__(THREADS) k_attention_grad_q(cuda_attention_args a, int64_t units)
{
    using T = real<S>;
    extern __shared__ __align__(16) unsigned char dyn_smem[];
    const int64_t k_ld = a.d + 1, v_ld = a.e + 1, tiles = (a.t + a.rows - 1) / a.rows;
    T *q = (T *)dyn_smem, *grad = q + a.rows * a.d, *out = grad + a.rows * a.e;
    T *weights = out + a.rows * a.d, *k = weights + a.rows * WEIGHTS, *v = k + a.columns * k_ld;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const head p = head_of(a, unit / tiles);
        const int64_t q0 = unit % tiles * a.rows, count = smaller(a.rows, a.t - q0);
        const int64_t seen = a.causal ? smaller(a.s, q0 + count) : a.s;
        T shift[MOST_ROWS], delta[MOST_ROWS];
#pragma unroll
        for (int j = 0; j < MOST_ROWS; j++) {
            const int64_t t = q0 + warp + WARPS * j;
            const bool exists = WARPS * j < a.rows && t < a.t;
            delta[j] = delta_of<S>(a, p, exists ? t : a.t);
            shift[j] =
                exists ? shift_of(((const T *)a.lse)[(p.b * a.heads + p.h) * a.t + t]) : (T)0;
        }
        load_tile<S>(q, a.d, a.q, p.b, p.h, q0, count, a.rows, a.d);
        load_tile<S>(grad, a.e, a.grad, p.b, p.h, q0, count, a.rows, a.e);
        for (int64_t i = threadIdx.x; i < a.rows * a.d; i += THREADS)
            out[i] = 0;
        for (int64_t k0 = 0; k0 < seen; k0 += a.columns) {
            const int64_t keys = smaller(a.columns, a.s - k0);
            load_tile<S>(k, k_ld, a.k, p.b, p.g, k0, keys, a.columns, a.d);
            load_tile<S>(v, v_ld, a.v, p.b, p.g, k0, keys, a.columns, a.e);
            __syncthreads();
#pragma unroll
            for (int j = 0; j < MOST_ROWS; j++)
                if (WARPS * j < a.rows && lane < a.columns) {
                    const int64_t r = warp + WARPS * j, t = q0 + r, s = k0 + lane;
                    const T score = score_of<S>(a, p, t, s, dot(q + r * a.d, k + lane * k_ld, a.d));
                    const T slope = dot(grad + r * a.e, v + lane * v_ld, a.e) * kept<T>(a, p, t, s);
                    weights[r * WEIGHTS + lane] =
                        exp_of(score - shift[j]) * (slope - delta[j]) * (T)a.scale;
                }
            __syncthreads();
            mix(out, a.d, weights, k, k_ld, a.columns, a.rows, (const T *)nullptr);
            __syncthreads();
        }
        __syncthreads();
        store_tile<S>(out, (const T *)nullptr, a.grad_q, p.b, p.h, q0, count, a.d);
        __syncthreads();
    }
}

/* Rows are keys, columns queries of all heads that they serve. */
template <typename S>
__global__ void __launch_bounds__(THREADS) k_attention_grad_kv(cuda_attention_args a, int64_t units)
{
    using T = real<S>;
    extern __shared__ __align__(16) unsigned char dyn_smem[];
    const int64_t q_ld = a.d + 1, g_ld = a.e + 1, tiles = (a.s + a.rows - 1) / a.rows;
    T *k = (T *)dyn_smem, *v = k + a.rows * a.d, *grad_k = v + a.rows * a.e;
    T *grad_v = grad_k + a.rows * a.d, *weights = grad_v + a.rows * a.e;
    T *slopes = weights + a.rows * WEIGHTS, *q = slopes + a.rows * WEIGHTS;
    T *grad = q + a.columns * q_ld, *delta = grad + a.columns * g_ld, *shift = delta + a.columns;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const int64_t b = unit / tiles / a.groups, g = unit / tiles % a.groups;
        const int64_t k0 = unit % tiles * a.rows, count = smaller(a.rows, a.s - k0);
        load_tile<S>(k, a.d, a.k, b, g, k0, count, a.rows, a.d);
        load_tile<S>(v, a.e, a.v, b, g, k0, count, a.rows, a.e);
        for (int64_t i = threadIdx.x; i < a.rows * (a.d + a.e); i += THREADS)
            grad_k[i] = 0; /* grad_v is behind it */
        const int64_t each = a.heads / a.groups, first = a.causal ? k0 / a.columns * a.columns : 0;
        for (int64_t i = 0; i < each; i++)
            for (int64_t q0 = first; q0 < a.t; q0 += a.columns) {
                const head p = { b, g * each + i, g };
                const int64_t queries = smaller(a.columns, a.t - q0);
                load_tile<S>(q, q_ld, a.q, b, p.h, q0, queries, a.columns, a.d);
                load_tile<S>(grad, g_ld, a.grad, b, p.h, q0, queries, a.columns, a.e);
                for (int c = warp; c < a.columns; c += WARPS) {
                    const T product = delta_of<S>(a, p, q0 + c);
                    if (lane == 0) {
                        delta[c] = product;
                        shift[c] =
                            c < queries
                                ? shift_of(((const T *)a.lse)[(b * a.heads + p.h) * a.t + q0 + c])
                                : (T)0;
                    }
                }
                __syncthreads();
#pragma unroll
                for (int j = 0; j < MOST_ROWS; j++)
                    if (WARPS * j < a.rows && lane < a.columns) {
                        const int64_t r = warp + WARPS * j, t = q0 + lane, s = k0 + r;
                        const T score =
                            score_of<S>(a, p, t, s, dot(k + r * a.d, q + lane * q_ld, a.d));
                        const T weight = exp_of(score - shift[lane]), keep = kept<T>(a, p, t, s);
                        const T slope = dot(v + r * a.e, grad + lane * g_ld, a.e) * keep;
                        weights[r * WEIGHTS + lane] = weight * keep;
                        slopes[r * WEIGHTS + lane] = weight * (slope - delta[lane]) * (T)a.scale;
                    }
                __syncthreads();
                mix(grad_v, a.e, weights, grad, g_ld, a.columns, a.rows, (const T *)nullptr);
                mix(grad_k, a.d, slopes, q, q_ld, a.columns, a.rows, (const T *)nullptr);
                __syncthreads();
            }
        __syncthreads();
        store_tile<S>(grad_k, (const T *)nullptr, a.grad_k, b, g, k0, count, a.d);
        store_tile<S>(grad_v, (const T *)nullptr, a.grad_v, b, g, k0, count, a.e);
        __syncthreads();
    }
}

/* ---- launches --------------------------------------------------------------------------------- */

/* A kernel over blocks of a->rows of `rows` rows, of `heads` heads of each batch; `kernel_of` takes a
 * zero of the storage type. */
template <typename F>
static cudaError_t launch(const cuda_attention_args *a, int64_t heads, int64_t rows, int64_t shared,
                          cudaStream_t stream, F kernel_of)
{
    const int64_t units = a->batch * heads * ((rows + a->rows - 1) / a->rows);
    cudaLaunchConfig_t c = shape(units < (1 << 30) ? units : (1 << 30), THREADS, stream);
    c.dynamicSmemBytes = (size_t)shared;
    return float_switch(
        a->dtype, [&](auto zero) { return cudaLaunchKernelEx(&c, kernel_of(zero), *a, units); });
}

extern "C" cudaError_t cuda_launch_attention(const cuda_attention_args *a, int64_t shared,
                                             cudaStream_t stream)
{
    return launch(a, a->heads, a->t, shared, stream,
                  [](auto zero) { return k_attention<decltype(zero)>; });
}

extern "C" cudaError_t cuda_launch_attention_grad_q(const cuda_attention_args *a, int64_t shared,
                                                    cudaStream_t stream)
{
    return launch(a, a->heads, a->t, shared, stream,
                  [](auto zero) { return k_attention_grad_q<decltype(zero)>; });
}

extern "C" cudaError_t cuda_launch_attention_grad_kv(const cuda_attention_args *a, int64_t shared,
                                                     cudaStream_t stream)
{
    return launch(a, a->groups, a->s, shared, stream,
                  [](auto zero) { return k_attention_grad_kv<decltype(zero)>; });
}
