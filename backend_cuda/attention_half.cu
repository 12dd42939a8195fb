/* Attention of half types by tensor cores: attention.cu's tiles, but a warp has 16 rows of a block's 64, and scores
 * stay in registers, where the layout of a product's result is that of the next one's operand. Sums are f32;
 * weights and slopes are rounded to the half type before they are multiplied. Features are 0 up to W. */
#include <stdlib.h>
#include <string.h>
#include <type_traits>

#include "backend_cuda/attention_score.cuh"
#include "backend_cuda/mma.cuh"
#include "core/cuda/code.h"

using namespace cuda;

constexpr int ROWS = 16 * WARPS;
/* Rows in shared memory are an odd number of 16 bytes apart, so that eight of them lie in different banks. */
template <int W> constexpr int LD = W + 8;
/* Columns of a tile: as many as registers and 48 KB allow. */
constexpr int FORWARD_KEYS = 64, GRAD_KEYS = 32;
template <int W> constexpr int GRAD_QUERIES = W > 64 ? 16 : 32;

/* ---- tiles ------------------------------------------------------------------------------------ */

/* ROOM rows of W elements, of which `count` rows and `width` columns exist and the others are 0. */
template <int W, int ROOM, typename S>
static __device__ __forceinline__ void load_half(S *to, const cuda_attention_rows &o, int64_t b,
                                                 int64_t h, int64_t first, int64_t count,
                                                 int64_t width)
{
    constexpr int PACKS = W / 8, ALL = ROOM * PACKS, AT_ONCE = 4;
    const S *from = row_at<S>(o, b, h, first);
    const int64_t step = o.stride[2];
    const bool wide =
        width % 8 == 0 && (((uintptr_t)from | (uintptr_t)(step * (int64_t)sizeof(S))) & 15u) == 0;
    for (int i0 = (int)threadIdx.x; i0 < ALL; i0 += THREADS * AT_ONCE) {
        pack<S, 8> some[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + THREADS * j, r = i / PACKS, c = i % PACKS * 8;
            some[j] = {};
            if (i >= ALL || r >= count || c >= width)
                continue;
            if (wide) {
                some[j] = *(const pack<S, 8> *)(from + r * step + c);
                continue;
            }
#pragma unroll
            for (int k = 0; k < 8; k++)
                if (c + k < width)
                    some[j].at[k] = from[r * step + c + k];
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + THREADS * j;
            if (i < ALL)
                *(pack<S, 8> *)(to + i / PACKS * LD<W> + i % PACKS * 8) = some[j];
        }
    }
}

/* 16 rows of features 16 k and on, as the first operand. */
template <int W, typename S>
static __device__ __forceinline__ void load_rows(uint32_t (&to)[4], const S *rows, int k)
{
    load_matrices<false>(to, rows + lane_of() % 16 * LD<W> + 16 * k + lane_of() / 16 * 8);
}

/* Rows of the tensor, 16 for each warp, through `tile`, which the block may then use again. */
template <int W, typename S>
static __device__ __forceinline__ void hold_rows(uint32_t (&to)[W / 16][4], S *tile,
                                                 const cuda_attention_rows &o, int64_t b, int64_t h,
                                                 int64_t first, int64_t count, int64_t width)
{
    load_half<W, ROWS>(tile, o, b, h, first, count, width);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < W / 16; i++)
        load_rows<W>(to[i], tile + 16 * warp_of() * LD<W>, i);
    __syncthreads();
}

/* score += rows columns^T for one step of 16 features. */
template <int W, int COLUMNS, typename S>
static __device__ __forceinline__ void score_step(float (&score)[COLUMNS / 8][4],
                                                  const uint32_t (&rows)[4], const S *columns,
                                                  int k)
{
    const int lane = lane_of();
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n += 2) {
        uint32_t b[4];
        load_matrices<false>(b, columns + (8 * n + lane / 16 * 8 + lane % 8) * LD<W> + 16 * k +
                                    lane / 8 % 2 * 8);
        mma<S>(score[n], rows, b[0], b[1]);
        mma<S>(score[n + 1], rows, b[2], b[3]);
    }
}

/* out += weights columns, of weights as a product leaves them. */
template <int W, int COLUMNS, typename S>
static __device__ __forceinline__ void mix_half(float (&out)[W / 8][4],
                                                const float (&weights)[COLUMNS / 8][4],
                                                const S *columns)
{
    const int lane = lane_of();
#pragma unroll
    for (int k = 0; k < COLUMNS / 16; k++) {
        const float *low = weights[2 * k], *high = weights[2 * k + 1];
        const uint32_t a[4] = { pair_of<S>(low[0], low[1]), pair_of<S>(low[2], low[3]),
                                pair_of<S>(high[0], high[1]), pair_of<S>(high[2], high[3]) };
#pragma unroll
        for (int n = 0; n < W / 8; n += 2) {
            uint32_t b[4];
            load_matrices<true>(b, columns + (16 * k + lane % 16) * LD<W> + 8 * n + lane / 16 * 8);
            mma<S>(out[n], a, b[0], b[1]);
            mma<S>(out[n + 1], a, b[2], b[3]);
        }
    }
}

template <int N> static __device__ __forceinline__ void clear(float (&x)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[n][i] = 0;
}

/* Of element i of a result's tile n: its row in the block's tile, and its column. */
static __device__ __forceinline__ int result_row(int i)
{
    return 16 * warp_of() + lane_of() / 4 + i / 2 * 8;
}
static __device__ __forceinline__ int result_column(int n, int i)
{
    return 8 * n + 2 * (lane_of() % 4) + i % 2;
}

template <int W, typename S>
static __device__ __forceinline__ void store_half(const float (&from)[W / 8][4],
                                                  const float (&factor)[2],
                                                  const cuda_attention_rows &o, int64_t b,
                                                  int64_t h, int64_t first, int64_t count,
                                                  int64_t width)
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        if (result_row(2 * j) >= count)
            continue;
        S *row = row_at<S>(o, b, h, first + result_row(2 * j));
#pragma unroll
        for (int n = 0; n < W / 8; n++) {
            const int c = result_column(n, 0);
            const pack<S, 2> both = { { narrow<S>(from[n][2 * j] * factor[j]),
                                        narrow<S>(from[n][2 * j + 1] * factor[j]) } };
            if (c < width)
                store_pack(row + c, width - c, both);
        }
    }
}

/* exp(x), of which nothing but a weight is made that is rounded to a half type. */
static __device__ __forceinline__ float weight_of(float x)
{
    return exp2f(x * 1.4426950408889634f);
}

/* ---- forward ---------------------------------------------------------------------------------- */

/* Of four lanes, which have a row's columns between them. */
static __device__ __forceinline__ float row_max(float x)
{
#pragma unroll
    for (int d = 1; d < 4; d *= 2) {
        const float other = shuffled(x, d);
        x = other > x || other != other ? other : x;
    }
    return x;
}
static __device__ __forceinline__ float row_sum(float x)
{
    x += shuffled(x, 1);
    return x + shuffled(x, 2);
}

/* Products become weights below the largest score so far; what came before shrinks. */
template <int W, typename S>
static __device__ __forceinline__ void weigh_half(const cuda_attention_args &a, const head &p,
                                                  int64_t q0, int64_t k0,
                                                  float (&score)[FORWARD_KEYS / 8][4],
                                                  float (&y)[W / 8][4], float (&top)[2],
                                                  float (&sum)[2])
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int64_t t = q0 + result_row(2 * j);
        float here = -INFINITY;
#pragma unroll
        for (int n = 0; n < FORWARD_KEYS / 8; n++)
#pragma unroll
            for (int i = 2 * j; i < 2 * j + 2; i++) {
                const float x = score_of<S>(a, p, t, k0 + result_column(n, i), score[n][i]);
                here = x > here || x != x ? x : here;
                score[n][i] = x;
            }
        here = row_max(here);
        const float next = here > top[j] || here != here ? here : top[j];
        const float shift = next == -INFINITY ? 0.0f : next;
        const float factor = next == top[j] ? 1.0f : weight_of(top[j] - next);
        top[j] = next;
        sum[j] *= factor;
#pragma unroll
        for (int n = 0; n < W / 8; n++) {
            y[n][2 * j] *= factor;
            y[n][2 * j + 1] *= factor;
        }
#pragma unroll
        for (int n = 0; n < FORWARD_KEYS / 8; n++)
#pragma unroll
            for (int i = 2 * j; i < 2 * j + 2; i++) {
                const float weight = weight_of(score[n][i] - shift);
                sum[j] += weight;
                score[n][i] = weight * kept<float>(a, p, t, k0 + result_column(n, i));
            }
    }
}

/* What each row's result is multiplied by; stores its logarithm of the sum. */
static __device__ __forceinline__ void end_half(const cuda_attention_args &a, const head &p,
                                                int64_t q0, const float (&top)[2], float (&sum)[2])
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int64_t t = q0 + result_row(2 * j);
        const float all = row_sum(sum[j]);
        sum[j] = all == 0.0f ? 0.0f : 1.0f / all;
        if (lane_of() % 4 == 0 && t < a.t)
            ((float *)a.lse)[(p.b * a.heads + p.h) * a.t + t] =
                all == 0.0f ? -INFINITY : top[j] + log_of(all);
    }
}

template <int W, typename S>
__global__ void __launch_bounds__(THREADS) k_attention_half(cuda_attention_args a, int64_t units)
{
    extern __shared__ __align__(16) unsigned char dyn_smem[];
    const int64_t tiles = (a.t + ROWS - 1) / ROWS;
    S *k = (S *)dyn_smem, *v = k + FORWARD_KEYS * LD<W>;
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const head p = head_of(a, unit / tiles);
        const int64_t q0 = unit % tiles * ROWS, count = smaller(ROWS, a.t - q0);
        const int64_t seen = a.causal ? smaller(a.s, q0 + count) : a.s;
        uint32_t q[W / 16][4];
        float y[W / 8][4], top[2] = { -INFINITY, -INFINITY }, sum[2] = {};
        clear(y);
        hold_rows<W>(q, k, a.q, p.b, p.h, q0, count, a.d);
        for (int64_t k0 = 0; k0 < seen; k0 += FORWARD_KEYS) {
            const int64_t keys = smaller(FORWARD_KEYS, a.s - k0);
            float score[FORWARD_KEYS / 8][4];
            clear(score);
            load_half<W, FORWARD_KEYS>(k, a.k, p.b, p.g, k0, keys, a.d);
            load_half<W, FORWARD_KEYS>(v, a.v, p.b, p.g, k0, keys, a.e);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < W / 16; i++)
                score_step<W, FORWARD_KEYS>(score, q[i], k, i);
            weigh_half<W, S>(a, p, q0, k0, score, y, top, sum);
            mix_half<W, FORWARD_KEYS>(y, score, v);
            __syncthreads();
        }
        end_half(a, p, q0, top, sum);
        store_half<W, S>(y, sum, a.y, p.b, p.h, q0, count, a.e);
    }
}

/* ---- gradients -------------------------------------------------------------------------------- */

/* Of the lane's two rows: what weights are exponentials below, and the sum of gradient times result, which is stored
 * for the keys' gradients. */
template <typename S>
static __device__ __forceinline__ void measure_rows(const cuda_attention_args &a, const head &p,
                                                    int64_t q0, int64_t count, float (&shift)[2],
                                                    float (&delta)[2])
{
    const int64_t first = (p.b * a.heads + p.h) * a.t;
    for (int j = 0; j < 16; j++) {
        const int64_t t = q0 + 16 * warp_of() + j;
        const float sum = delta_of<S>(a, p, t);
        if (lane_of() / 4 == j % 8)
            delta[j / 8] = sum;
        if (lane_of() == 0 && t < a.t)
            ((float *)a.delta)[first + t] = sum;
    }
#pragma unroll
    for (int j = 0; j < 2; j++)
        if (result_row(2 * j) < count)
            shift[j] = shift_of(((const float *)a.lse)[first + q0 + result_row(2 * j)]);
}

template <int W, typename S>
__global__ void __launch_bounds__(THREADS)
    k_attention_half_grad_q(cuda_attention_args a, int64_t units)
{
    extern __shared__ __align__(16) unsigned char dyn_smem[];
    const int64_t tiles = (a.t + ROWS - 1) / ROWS;
    S *k = (S *)dyn_smem, *v = k + GRAD_KEYS * LD<W>; /* first of the rows: 64 of them */
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const head p = head_of(a, unit / tiles);
        const int64_t q0 = unit % tiles * ROWS, count = smaller(ROWS, a.t - q0);
        const int64_t seen = a.causal ? smaller(a.s, q0 + count) : a.s;
        uint32_t q[W / 16][4], grad[W / 16][4];
        float out[W / 8][4], shift[2] = {}, delta[2] = {};
        const float one[2] = { 1, 1 };
        clear(out);
        measure_rows<S>(a, p, q0, count, shift, delta);
        hold_rows<W>(q, k, a.q, p.b, p.h, q0, count, a.d);
        hold_rows<W>(grad, k, a.grad, p.b, p.h, q0, count, a.e);
        for (int64_t k0 = 0; k0 < seen; k0 += GRAD_KEYS) {
            const int64_t keys = smaller(GRAD_KEYS, a.s - k0);
            float score[GRAD_KEYS / 8][4], slope[GRAD_KEYS / 8][4];
            clear(score);
            clear(slope);
            load_half<W, GRAD_KEYS>(k, a.k, p.b, p.g, k0, keys, a.d);
            load_half<W, GRAD_KEYS>(v, a.v, p.b, p.g, k0, keys, a.e);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < W / 16; i++) {
                score_step<W, GRAD_KEYS>(score, q[i], k, i);
                score_step<W, GRAD_KEYS>(slope, grad[i], v, i);
            }
#pragma unroll
            for (int n = 0; n < GRAD_KEYS / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int64_t t = q0 + result_row(i), s = k0 + result_column(n, i);
                    const float weight =
                        weight_of(score_of<S>(a, p, t, s, score[n][i]) - shift[i / 2]);
                    slope[n][i] = weight * (slope[n][i] * kept<float>(a, p, t, s) - delta[i / 2]) *
                                  (float)a.scale;
                }
            mix_half<W, GRAD_KEYS>(out, slope, k);
            __syncthreads();
        }
        store_half<W, S>(out, one, a.grad_q, p.b, p.h, q0, count, a.d);
    }
}

/* Products of keys with queries become weights, of values with gradients slopes. */
template <int QUERIES, typename S>
static __device__ __forceinline__ void weigh_keys(const cuda_attention_args &a, const head &p,
                                                  int64_t k0, int64_t q0, const float *delta,
                                                  const float *shift,
                                                  float (&score)[QUERIES / 8][4],
                                                  float (&slope)[QUERIES / 8][4])
{
#pragma unroll
    for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int c = result_column(n, i);
            const int64_t t = q0 + c, s = k0 + result_row(i);
            const float weight = weight_of(score_of<S>(a, p, t, s, score[n][i]) - shift[c]);
            const float keep = kept<float>(a, p, t, s);
            score[n][i] = weight * keep;
            slope[n][i] = weight * (slope[n][i] * keep - delta[c]) * (float)a.scale;
        }
}

/* Rows are keys, columns queries of all heads that they serve; after k_attention_half_grad_q, which leaves delta. */
template <int W, typename S>
__global__ void __launch_bounds__(THREADS)
    k_attention_half_grad_kv(cuda_attention_args a, int64_t units)
{
    extern __shared__ __align__(16) unsigned char dyn_smem[];
    constexpr int QUERIES = GRAD_QUERIES<W>;
    const int64_t tiles = (a.s + ROWS - 1) / ROWS;
    S *k = (S *)dyn_smem, *v = k + ROWS * LD<W>, *q = v + ROWS * LD<W>, *grad = q + QUERIES * LD<W>;
    float *delta = (float *)(grad + QUERIES * LD<W>), *shift = delta + QUERIES;
    const int64_t own = 16 * warp_of() * LD<W>, each = a.heads / a.groups;
    const float one[2] = { 1, 1 };
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const int64_t b = unit / tiles / a.groups, g = unit / tiles % a.groups;
        const int64_t k0 = unit % tiles * ROWS, count = smaller(ROWS, a.s - k0);
        const int64_t first = a.causal ? k0 / QUERIES * QUERIES : 0;
        float grad_k[W / 8][4], grad_v[W / 8][4];
        clear(grad_k);
        clear(grad_v);
        load_half<W, ROWS>(k, a.k, b, g, k0, count, a.d);
        load_half<W, ROWS>(v, a.v, b, g, k0, count, a.e);
        for (int64_t h = g * each; h < (g + 1) * each; h++)
            for (int64_t q0 = first; q0 < a.t; q0 += QUERIES) {
                const head p = { b, h, g };
                const int64_t queries = smaller(QUERIES, a.t - q0);
                float score[QUERIES / 8][4], slope[QUERIES / 8][4];
                clear(score);
                clear(slope);
                load_half<W, QUERIES>(q, a.q, b, h, q0, queries, a.d);
                load_half<W, QUERIES>(grad, a.grad, b, h, q0, queries, a.e);
                for (int c = (int)threadIdx.x; c < QUERIES; c += THREADS) {
                    const int64_t at = (b * a.heads + h) * a.t + q0 + c;
                    delta[c] = c < queries ? ((const float *)a.delta)[at] : 0.0f;
                    shift[c] = c < queries ? shift_of(((const float *)a.lse)[at]) : 0.0f;
                }
                __syncthreads();
#pragma unroll
                for (int i = 0; i < W / 16; i++) {
                    uint32_t rows[4];
                    load_rows<W>(rows, k + own, i);
                    score_step<W, QUERIES>(score, rows, q, i);
                    load_rows<W>(rows, v + own, i);
                    score_step<W, QUERIES>(slope, rows, grad, i);
                }
                weigh_keys<QUERIES, S>(a, p, k0, q0, delta, shift, score, slope);
                mix_half<W, QUERIES>(grad_v, score, grad);
                mix_half<W, QUERIES>(grad_k, slope, q);
                __syncthreads();
            }
        __syncthreads(); /* there may have been no query */
        store_half<W, S>(grad_k, one, a.grad_k, b, g, k0, count, a.d);
        store_half<W, S>(grad_v, one, a.grad_v, b, g, k0, count, a.e);
    }
}

/* ---- launches --------------------------------------------------------------------------------- */

template <int W> using width_of = std::integral_constant<int, W>;

/* A kernel over blocks of ROWS of `rows` rows, of `heads` heads of each batch. `run` takes the widest of d and e, a
 * zero of the storage type, a launch's shape and the number of blocks. */
template <typename F>
static cudaError_t launch(const cuda_attention_args *a, int64_t heads, int64_t rows,
                          cudaStream_t stream, F run)
{
    const int64_t units = a->batch * heads * ((rows + ROWS - 1) / ROWS);
    cudaLaunchConfig_t c = shape(units < (1 << 30) ? units : (1 << 30), THREADS, stream);
    const int64_t width = a->d > a->e ? a->d : a->e;
    const auto by_width = [&](auto zero) {
        return width <= 32   ? run(width_of<32>{}, zero, c, units)
               : width <= 64 ? run(width_of<64>{}, zero, c, units)
                             : run(width_of<128>{}, zero, c, units);
    };
    return a->dtype == TERN_F16 ? by_width(__half{}) : by_width(__nv_bfloat16{});
}

extern "C" int cuda_attention_half_runs(int capability)
{
#ifdef __CUDA_ARCH_LIST__ /* of PTX there is only that for 7.5 (cmake/cuda.cmake) */
    static const int archs[] = { __CUDA_ARCH_LIST__ };
    const char *from_ptx = getenv("CUDA_FORCE_PTX_JIT");
    if (from_ptx != nullptr && strcmp(from_ptx, "1") == 0)
        return 0;
    for (const int arch : archs)
        if (arch >= 800 && core_cuda_code_runs(arch / 10, capability))
            return 1;
    return 0;
#else
    return capability >= 80;
#endif
}

extern "C" cudaError_t cuda_launch_attention_half(const cuda_attention_args *a, cudaStream_t stream)
{
    return launch(a, a->heads, a->t, stream, [&](auto w, auto zero, auto &c, int64_t units) {
        constexpr int W = decltype(w)::value;
        c.dynamicSmemBytes = 2 * FORWARD_KEYS * LD<W> * sizeof zero;
        return cudaLaunchKernelEx(&c, k_attention_half<W, decltype(zero)>, *a, units);
    });
}

extern "C" cudaError_t cuda_launch_attention_half_grad_q(const cuda_attention_args *a,
                                                         cudaStream_t stream)
{
    return launch(a, a->heads, a->t, stream, [&](auto w, auto zero, auto &c, int64_t units) {
        constexpr int W = decltype(w)::value;
        static_assert(2 * GRAD_KEYS == ROWS, "rows are loaded where keys and values will be");
        c.dynamicSmemBytes = ROWS * LD<W> * sizeof zero;
        return cudaLaunchKernelEx(&c, k_attention_half_grad_q<W, decltype(zero)>, *a, units);
    });
}

extern "C" cudaError_t cuda_launch_attention_half_grad_kv(const cuda_attention_args *a,
                                                          cudaStream_t stream)
{
    return launch(a, a->groups, a->s, stream, [&](auto w, auto zero, auto &c, int64_t units) {
        constexpr int W = decltype(w)::value, QUERIES = GRAD_QUERIES<W>;
        c.dynamicSmemBytes =
            2 * (ROWS + QUERIES) * LD<W> * sizeof zero + 2 * QUERIES * sizeof(float);
        return cudaLaunchKernelEx(&c, k_attention_half_grad_kv<W, decltype(zero)>, *a, units);
    });
}
