/* Running sums, products and linear recurrences along columns of n elements, `inner` apart.
 *
 * A thread has a column where there are many or they are short, a warp a row of some more elements beside each
 * other. Else a block has a chunk, which it scans some consecutive elements a thread at a time; of several chunks
 * each is first made one part, a block per column scans the parts, and each chunk goes on from what is before
 * it. The order is fixed, so results repeat bit for bit. Sums of half types accumulate in f32. Factors multiply in
 * f64: those of a piece may overflow f32 where the running value does not. */
#include "backend_cuda/launch.h"
#include "backend_cuda/pack.cuh"
#include "backend_cuda/reduce.cuh"

using namespace cuda;

/* ---- parts: what some elements do to a running value ------------------------------------------ */

template <typename S> static __device__ __forceinline__ real<S> wide(S x)
{
    return widen(x);
}
static __device__ __forceinline__ uint64_t wide(int64_t x)
{
    return (uint64_t)x;
}

template <typename T> static __device__ __forceinline__ T below(T x, int lanes)
{
    return __shfl_up_sync(FULL_MASK, x, lanes);
}
template <typename T> static __device__ __forceinline__ T of_last_lane(T x)
{
    return __shfl_sync(FULL_MASK, x, 31);
}

/* y -> y + sum */
template <typename A> struct sum_part {
    using number = A;
    static constexpr bool HAS_FACTOR = false;
    A sum;

    static __device__ __forceinline__ sum_part nothing()
    {
        return { 0 };
    }
    static __device__ __forceinline__ sum_part of(A x, A)
    {
        return { x };
    }
    __device__ __forceinline__ sum_part then(const sum_part &other) const
    {
        return { sum + other.sum };
    }
    __device__ __forceinline__ A result() const
    {
        return sum;
    }
    __device__ __forceinline__ sum_part from_below(int lanes) const
    {
        return { below(sum, lanes) };
    }
    __device__ __forceinline__ sum_part from_last() const
    {
        return { of_last_lane(sum) };
    }
};

/* y -> slope y where y is not 0; of 0 they make `zero`: NaN where a factor is infinite or NaN, whether or not their
 * slope overflowed. */
template <typename A> struct product_part {
    using number = A;
    static constexpr bool HAS_FACTOR = false;
    A slope, zero;

    static __device__ __forceinline__ product_part nothing()
    {
        return { 1, 0 };
    }
    static __device__ __forceinline__ product_part of(A x, A)
    {
        return { x, x * 0 };
    }
    __device__ __forceinline__ product_part then(const product_part &other) const
    {
        return { slope == 0 ? other.zero : slope * other.slope, zero == 0 ? other.zero : zero };
    }
    __device__ __forceinline__ A result() const
    {
        return slope;
    }
    __device__ __forceinline__ product_part from_below(int lanes) const
    {
        return { below(slope, lanes), below(zero, lanes) };
    }
    __device__ __forceinline__ product_part from_last() const
    {
        return { of_last_lane(slope), of_last_lane(zero) };
    }
};

/* y -> slope y + shift where y is not 0; of 0 they make `zero`, likewise. */
template <typename A> struct linear_part {
    using number = A;
    static constexpr bool HAS_FACTOR = true;
    A slope, shift, zero;

    static __device__ __forceinline__ linear_part nothing()
    {
        return { 1, 0, 0 };
    }
    static __device__ __forceinline__ linear_part of(A x, A factor)
    {
        return { factor, x, factor * 0 + x };
    }
    __device__ __forceinline__ A after(A y) const
    {
        return y == 0 ? zero : slope * y + shift;
    }
    __device__ __forceinline__ linear_part then(const linear_part &other) const
    {
        if (slope == 0) /* whatever there was is gone */
            return { 0, other.after(shift), other.after(zero) };
        const A moved = shift == 0 ? other.shift : other.slope * shift + other.shift;
        return { other.slope == 0 ? 0 : slope * other.slope, moved, other.after(zero) };
    }
    __device__ __forceinline__ A result() const
    {
        return zero;
    }
    __device__ __forceinline__ linear_part from_below(int lanes) const
    {
        return { below(slope, lanes), below(shift, lanes), below(zero, lanes) };
    }
    __device__ __forceinline__ linear_part from_last() const
    {
        return { of_last_lane(slope), of_last_lane(shift), of_last_lane(zero) };
    }
};

/* Without gaps: the simulator takes what lies in one for an address. */
struct scan_shape {
    int64_t reverse, columns, n, inner, chunks;
};

/* Where element `i` in the order of the scan lies. */
static __device__ __forceinline__ int64_t place_of(const scan_shape &s, int64_t column, int64_t i)
{
    const int64_t row = s.reverse ? s.n - 1 - i : i;
    return (column / s.inner * s.n + row) * s.inner + column % s.inner;
}

template <typename P, typename S> static __device__ __forceinline__ P part_of(S x, S factor)
{
    using A = typename P::number;
    return P::of(wide(x), P::HAS_FACTOR ? (A)wide(factor) : A{});
}

/* ---- some elements of a thread --------------------------------------------------------------- */

/* Of parts of several numbers half as many: there are not more registers. */
template <typename P, typename S> constexpr int EACH = sizeof(S) == 8 || sizeof(P) > 8 ? 4 : 8;
constexpr int PARTS_EACH = 4;

/* Of elements that lie beside each other, the order of the scan, or theirs. */
template <int N, typename S>
static __device__ __forceinline__ void turn(S *to, const S *from, const scan_shape &s)
{
#pragma unroll
    for (int k = 0; k < N; k++)
        to[k] = s.reverse ? from[N - 1 - k] : from[k];
}

/* Elements i .. i + N of a column in the order of the scan, or the `left` that there are. */
template <int N, typename S>
static __device__ __forceinline__ void load_some(S *some, const S *x, const scan_shape &s,
                                                 int64_t column, int64_t i, int64_t left)
{
    constexpr int WIDTH = N * sizeof(S) < 16 ? N : 16 / (int)sizeof(S);
    if (s.inner != 1 || left < N) {
#pragma unroll
        for (int k = 0; k < N; k++)
            some[k] = k < left ? x[place_of(s, column, i + k)] : S{};
        return;
    }
    const S *from = x + place_of(s, column, s.reverse ? i + N - 1 : i);
    S beside[N];
#pragma unroll
    for (int k = 0; k < N; k += WIDTH) {
        const pack<S, WIDTH> one = load_pack<S, WIDTH>(from + k, WIDTH);
#pragma unroll
        for (int j = 0; j < WIDTH; j++)
            beside[k + j] = one.at[j];
    }
    turn<N>(some, beside, s);
}

template <int N, typename S>
static __device__ __forceinline__ void store_some(S *out, const S *some, const scan_shape &s,
                                                  int64_t column, int64_t i, int64_t left)
{
    constexpr int WIDTH = N * sizeof(S) < 16 ? N : 16 / (int)sizeof(S);
    if (s.inner != 1 || left < N) {
#pragma unroll
        for (int k = 0; k < N; k++)
            if (k < left)
                out[place_of(s, column, i + k)] = some[k];
        return;
    }
    S *const to = out + place_of(s, column, s.reverse ? i + N - 1 : i);
    S beside[N];
    turn<N>(beside, some, s);
#pragma unroll
    for (int k = 0; k < N; k += WIDTH) {
        pack<S, WIDTH> one;
#pragma unroll
        for (int j = 0; j < WIDTH; j++)
            one.at[j] = beside[k + j];
        store_pack<S, WIDTH>(to + k, WIDTH, one);
    }
}

/* ---- a block's scan -------------------------------------------------------------------------- */

template <typename P> struct scanned {
    P before, all; /* what is before the thread's part; all threads' */
};

/* Each lane's part with those of the lanes before it. */
template <typename P> static __device__ __forceinline__ P scanned_in_warp(P own)
{
    const int lane = (int)threadIdx.x % 32;
    for (int d = 1; d < 32; d *= 2) {
        const P some = own.from_below(d);
        if (lane >= d)
            own = some.then(own);
    }
    return own;
}

/* What is before the lane's part, of parts with those before them. */
template <typename P> static __device__ __forceinline__ P before_in_warp(const P &with)
{
    const P before = with.from_below(1);
    return threadIdx.x % 32 == 0 ? P::nothing() : before;
}

/* Every lane of the warp calls it. */
template <typename P> static __device__ __forceinline__ scanned<P> warp_scan(P own)
{
    const P with = scanned_in_warp(own);
    return { before_in_warp(with), with.from_last() };
}

/* Every thread of the block calls it; `warps` has a part per warp. */
template <typename P> static __device__ __forceinline__ scanned<P> block_scan(P own, P *warps)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const P with = scanned_in_warp(own), in_warp = before_in_warp(with);
    if (lane == 31)
        warps[warp] = with;
    __syncthreads();
    P before = P::nothing(), all = P::nothing();
    for (int w = 0; w < BLOCK / 32; w++) {
        if (w == warp)
            before = all;
        all = all.then(warps[w]);
    }
    __syncthreads();
    return { before.then(in_warp), all };
}

/* ---- kernels --------------------------------------------------------------------------------- */

template <typename P, typename S>
__global__ void __launch_bounds__(BLOCK)
    k_scan_column(S *out, const S *x, const S *factor, scan_shape s)
{
    for (int64_t column = first_item(); column < s.columns; column += item_step()) {
        P all = P::nothing();
        for (int64_t i = 0; i < s.n; i++) {
            const int64_t at = place_of(s, column, i);
            all = all.then(part_of<P>(x[at], P::HAS_FACTOR ? factor[at] : S{}));
            out[at] = narrow<S>(all.result());
        }
    }
}

/* Elements begin .. end of a column by THREADS threads, of which this is one and which `scan` together; from the part
 * `all` on, which it goes on to. out NULL: nothing is written. */
template <int THREADS, typename P, typename S, typename F>
static __device__ __forceinline__ void scan_some(P *all, S *out, const S *x, const S *factor,
                                                 const scan_shape &s, int64_t column, int64_t begin,
                                                 int64_t end, F scan)
{
    constexpr int N = EACH<P, S>;
    for (int64_t base = begin; base < end; base += THREADS * N) {
        const int64_t i = base + (int64_t)threadIdx.x % THREADS * N;
        S some[N], factors[N];
        load_some<N>(some, x, s, column, i, end - i);
        if (P::HAS_FACTOR)
            load_some<N>(factors, factor, s, column, i, end - i);
        P parts[N], own = P::nothing();
#pragma unroll
        for (int k = 0; k < N; k++) {
            parts[k] =
                i + k < end ? part_of<P>(some[k], P::HAS_FACTOR ? factors[k] : S{}) : P::nothing();
            own = own.then(parts[k]);
        }
        const scanned<P> together = scan(own);
        if (out != nullptr) {
            P running = all->then(together.before);
#pragma unroll
            for (int k = 0; k < N; k++) {
                running = running.then(parts[k]);
                some[k] = narrow<S>(running.result());
            }
            store_some<N>(out, some, s, column, i, end - i);
        }
        *all = all->then(together.all);
    }
}

/* A warp has a row. */
template <typename P, typename S>
__global__ void __launch_bounds__(BLOCK, P::HAS_FACTOR ? 3 : 4)
    k_scan_row(S *out, const S *x, const S *factor, scan_shape s)
{
    for (int64_t row = first_item() / 32; row < s.columns; row += item_step() / 32) {
        P all = P::nothing();
        scan_some<32>(&all, out, x, factor, s, row, 0, s.n, [](P own) { return warp_scan(own); });
    }
}

/* Block (column, chunk), from the part that is before it (NULL: nothing is). Results, or the chunk's part
 * alone. */
template <typename P, typename S>
__global__ void __launch_bounds__(BLOCK, P::HAS_FACTOR ? 3 : 4)
    k_scan_chunk(S *out, const S *x, const S *factor, const void *before, void *parts, scan_shape s)
{
    __shared__ unsigned char memory[BLOCK / 32 * sizeof(P)] __attribute__((aligned(16)));
    const int64_t column = blockIdx.x / s.chunks;
    const int64_t most = CUDA_SCAN_CHUNK, begin = blockIdx.x % s.chunks * most;
    const int64_t end = s.n - begin < most ? s.n : begin + most;
    P all = P::nothing();
    if (before != nullptr)
        all = ((const P *)before)[blockIdx.x];
    scan_some<BLOCK>(&all, out, x, factor, s, column, begin, end,
                     [&](P own) { return block_scan(own, (P *)memory); });
    if (parts != nullptr && threadIdx.x == 0)
        ((P *)parts)[blockIdx.x] = all;
}

/* A block per column: each part becomes what is before it. */
template <typename P>
__global__ void __launch_bounds__(BLOCK) k_scan_parts(void *memory, scan_shape s)
{
    __shared__ unsigned char shared[BLOCK / 32 * sizeof(P)] __attribute__((aligned(16)));
    P *const column = (P *)memory + (int64_t)blockIdx.x * s.chunks;
    P all = P::nothing();
    for (int64_t base = 0; base < s.chunks; base += BLOCK * PARTS_EACH) {
        const int64_t first = base + (int64_t)threadIdx.x * PARTS_EACH;
        P parts[PARTS_EACH], own = P::nothing();
#pragma unroll
        for (int k = 0; k < PARTS_EACH; k++) {
            parts[k] = first + k < s.chunks ? column[first + k] : P::nothing();
            own = own.then(parts[k]);
        }
        const scanned<P> block = block_scan(own, (P *)shared);
        P running = all.then(block.before);
#pragma unroll
        for (int k = 0; k < PARTS_EACH; k++) {
            if (first + k < s.chunks)
                column[first + k] = running;
            running = running.then(parts[k]);
        }
        all = all.then(block.all);
    }
}

/* ---- launchers ------------------------------------------------------------------------------- */

/* P: the parts, of the numbers that are computed in. */
template <typename P, typename S>
static cudaError_t launch_parts(const cuda_scan_args *s, cudaStream_t stream)
{
    static_assert(sizeof(P) <= CUDA_SCAN_PART_BYTES, "scratch is counted in parts of this size");
    const scan_shape shaped = { s->reverse, s->columns, s->n, s->inner, s->chunks };
    S *out = (S *)s->out;
    const S *x = (const S *)s->x, *factor = (const S *)s->factor;
    if (s->chunks == 0) {
        const cudaLaunchConfig_t c = shape_for(s->columns, stream);
        return cudaLaunchKernelEx(&c, k_scan_column<P, S>, out, x, factor, shaped);
    }
    if (s->inner == 1 && s->n <= CUDA_SCAN_ROW) {
        const cudaLaunchConfig_t c = shape_for(s->columns * 32, stream);
        return cudaLaunchKernelEx(&c, k_scan_row<P, S>, out, x, factor, shaped);
    }
    const cudaLaunchConfig_t c = shape(s->columns * s->chunks, BLOCK, stream);
    if (s->chunks > 1) {
        cudaError_t code = cudaLaunchKernelEx(&c, k_scan_chunk<P, S>, (S *)nullptr, x, factor,
                                              (const void *)nullptr, s->parts, shaped);
        if (code != cudaSuccess)
            return code;
        const cudaLaunchConfig_t per_column = shape(s->columns, BLOCK, stream);
        code = cudaLaunchKernelEx(&per_column, k_scan_parts<P>, s->parts, shaped);
        if (code != cudaSuccess)
            return code;
    }
    return cudaLaunchKernelEx(&c, k_scan_chunk<P, S>, out, x, factor, (const void *)s->parts,
                              (void *)nullptr, shaped);
}

/* A, B: the types that sums and products are computed in. */
template <typename S, typename A, typename B>
static cudaError_t launch(const cuda_scan_args *s, cudaStream_t stream)
{
    switch (s->kind) {
    case CUDA_SCAN_SUM:
        return launch_parts<sum_part<A>, S>(s, stream);
    case CUDA_SCAN_PRODUCT:
        return launch_parts<product_part<B>, S>(s, stream);
    default:
        return launch_parts<linear_part<B>, S>(s, stream);
    }
}

extern "C" cudaError_t cuda_launch_scan(const cuda_scan_args *s, cudaStream_t stream)
{
    if (s->dtype == TERN_I64)
        return launch<int64_t, uint64_t, uint64_t>(s, stream); /* wraps */
    return float_switch(s->dtype, [&](auto zero) {
        using S = decltype(zero);
        return launch<S, real<S>, double>(s, stream);
    });
}
