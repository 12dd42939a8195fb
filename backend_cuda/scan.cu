/* Running sums, products and linear recurrences along columns of n elements, `inner` apart.
 *
 * A thread has a column where there are many or they are short. Else a block has a chunk, which it scans
 * 256 elements at a time; of several chunks each is first made one part, a block per column scans the
 * parts, and each chunk goes on from what is before it. The order is fixed, so results repeat bit for
 * bit. Sums of half types accumulate in f32. Factors multiply in f64: those of a piece may overflow f32
 * where the running value does not. */
#include "backend_cuda/launch.h"
#include "backend_cuda/reduce.cuh"

using namespace cuda;

/* ---- parts ----------------------------------------------------------------------------------- */

template <typename S> static __device__ __forceinline__ real<S> wide(S x)
{
    return widen(x);
}
static __device__ __forceinline__ uint64_t wide(int64_t x)
{
    return (uint64_t)x;
}

/* y -> slope y + shift: what some elements do to a running value that is not 0; of 0 they make `zero`: NaN where a
 * factor is infinite or NaN, whether or not their slope overflowed. Sums need the shift, products the slope. */
template <typename A> struct part {
    A slope, shift, zero;
};

template <typename A> static __device__ __forceinline__ part<A> nothing()
{
    return { 1, 0, 0 };
}

template <typename A> static __device__ __forceinline__ A after(const part<A> &p, A y)
{
    return y == 0 ? p.zero : p.slope * y + p.shift;
}

template <typename A>
static __device__ __forceinline__ part<A> then(int kind, const part<A> &one, const part<A> &other)
{
    if (kind == CUDA_SCAN_SUM)
        return { 1, one.shift + other.shift, 0 };
    const A zero = after(other, one.zero);
    if (kind == CUDA_SCAN_PRODUCT)
        return { one.slope == 0 ? other.zero : one.slope * other.slope, 0, zero };
    if (one.slope == 0) /* whatever there was is gone */
        return { 0, after(other, one.shift), zero };
    const A shift = one.shift == 0 ? other.shift : other.slope * one.shift + other.shift;
    return { other.slope == 0 ? 0 : one.slope * other.slope, shift, zero };
}

/* Without gaps: the simulator takes what lies in one for an address. */
struct scan_shape {
    int kind, reverse;
    int64_t columns, n, inner, chunks;
};

/* Where element `i` in the order of the scan lies. */
static __device__ __forceinline__ int64_t place_of(const scan_shape &s, int64_t column, int64_t i)
{
    const int64_t row = s.reverse ? s.n - 1 - i : i;
    return (column / s.inner * s.n + row) * s.inner + column % s.inner;
}

template <typename A, typename S>
static __device__ __forceinline__ part<A> load(const scan_shape &s, const S *x, const S *factor,
                                               int64_t at)
{
    const A value = wide(x[at]);
    if (s.kind == CUDA_SCAN_SUM)
        return { 1, value, 0 };
    if (s.kind == CUDA_SCAN_PRODUCT)
        return { value, 0, value * 0 };
    const A slope = wide(factor[at]);
    return { slope, value, slope * 0 + value };
}

template <typename S, typename A>
static __device__ __forceinline__ S result(const scan_shape &s, const part<A> &p)
{
    return narrow<S>(s.kind == CUDA_SCAN_SUM       ? p.shift
                     : s.kind == CUDA_SCAN_PRODUCT ? p.slope
                                                   : p.zero);
}

/* ---- a block's scan -------------------------------------------------------------------------- */

template <typename A> static __device__ __forceinline__ part<A> from_below(part<A> p, int lanes)
{
    part<A> below;
    below.slope = __shfl_up_sync(FULL_MASK, p.slope, lanes);
    below.shift = __shfl_up_sync(FULL_MASK, p.shift, lanes);
    below.zero = __shfl_up_sync(FULL_MASK, p.zero, lanes);
    return below;
}

template <typename A> struct scanned {
    part<A> before, with, all; /* what is before the thread's part; with it; all threads' */
};

/* Every thread of the block calls it; `warps` has a part per warp. */
template <typename A> static __device__ scanned<A> block_scan(int kind, part<A> own, part<A> *warps)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int d = 1; d < 32; d *= 2) {
        const part<A> below = from_below(own, d);
        if (lane >= d)
            own = then(kind, below, own);
    }
    part<A> below = from_below(own, 1);
    if (lane == 0)
        below = nothing<A>();
    if (lane == 31)
        warps[warp] = own;
    __syncthreads();
    part<A> before = nothing<A>(), all = nothing<A>();
    for (int w = 0; w < BLOCK / 32; w++) {
        if (w == warp)
            before = all;
        all = then(kind, all, warps[w]);
    }
    __syncthreads();
    return { then(kind, before, below), then(kind, before, own), all };
}

/* ---- kernels --------------------------------------------------------------------------------- */

template <typename S, typename A>
__global__ void __launch_bounds__(BLOCK)
    k_scan_column(S *out, const S *x, const S *factor, scan_shape s)
{
    for (int64_t column = first_item(); column < s.columns; column += item_step()) {
        part<A> all = nothing<A>();
        for (int64_t i = 0; i < s.n; i++) {
            const int64_t at = place_of(s, column, i);
            all = then(s.kind, all, load<A, S>(s, x, factor, at));
            out[at] = result<S>(s, all);
        }
    }
}

/* Block (column, chunk), from the part that is before it (NULL: nothing is). Results, or the chunk's part
 * alone. */
template <typename S, typename A>
__global__ void __launch_bounds__(BLOCK)
    k_scan_chunk(S *out, const S *x, const S *factor, const void *before, void *parts, scan_shape s)
{
    __shared__ unsigned char memory[BLOCK / 32 * sizeof(part<A>)] __attribute__((aligned(16)));
    part<A> *warps = (part<A> *)memory;
    const int64_t column = blockIdx.x / (unsigned)s.chunks;
    const int64_t most = CUDA_SCAN_CHUNK;
    const int64_t begin = (int64_t)(blockIdx.x % (unsigned)s.chunks) * most;
    const int64_t left = s.n - begin;
    const int64_t end = begin + (left < most ? left : most);
    part<A> all = nothing<A>();
    if (before != nullptr)
        all = ((const part<A> *)before)[blockIdx.x];
    for (int64_t base = begin; base < end; base += BLOCK) {
        const int64_t i = base + threadIdx.x;
        part<A> own = nothing<A>();
        if (i < end)
            own = load<A, S>(s, x, factor, place_of(s, column, i));
        const scanned<A> some = block_scan(s.kind, own, warps);
        if (out != nullptr && i < end)
            out[place_of(s, column, i)] = result<S>(s, then(s.kind, all, some.with));
        all = then(s.kind, all, some.all);
    }
    if (parts != nullptr && threadIdx.x == 0)
        ((part<A> *)parts)[blockIdx.x] = all;
}

/* A block per column: each part becomes what is before it. */
template <typename A>
__global__ void __launch_bounds__(BLOCK) k_scan_parts(void *memory, scan_shape s)
{
    __shared__ unsigned char shared[BLOCK / 32 * sizeof(part<A>)] __attribute__((aligned(16)));
    part<A> *warps = (part<A> *)shared, *parts = (part<A> *)memory;
    part<A> all = nothing<A>();
    for (int64_t base = 0; base < s.chunks; base += BLOCK) {
        const int64_t chunk = base + (int64_t)threadIdx.x;
        const int64_t at = (int64_t)blockIdx.x * s.chunks + chunk;
        part<A> own = nothing<A>();
        if (chunk < s.chunks)
            own = parts[at];
        const scanned<A> some = block_scan(s.kind, own, warps);
        if (chunk < s.chunks)
            parts[at] = then(s.kind, all, some.before);
        all = then(s.kind, all, some.all);
    }
}

/* ---- launchers ------------------------------------------------------------------------------- */

/* A: the type that is computed in. */
template <typename S, typename A>
static cudaError_t launch(const cuda_scan_args *s, cudaStream_t stream)
{
    static_assert(sizeof(part<A>) <= CUDA_SCAN_PART_BYTES,
                  "scratch is counted in parts of this size");
    const scan_shape shaped = { s->kind, s->reverse, s->columns, s->n, s->inner, s->chunks };
    S *out = (S *)s->out;
    const S *x = (const S *)s->x, *factor = (const S *)s->factor;
    if (s->chunks == 0) {
        const cudaLaunchConfig_t c = shape_for(s->columns, stream);
        return cudaLaunchKernelEx(&c, k_scan_column<S, A>, out, x, factor, shaped);
    }
    const cudaLaunchConfig_t c = shape(s->columns * s->chunks, BLOCK, stream);
    if (s->chunks > 1) {
        cudaError_t code = cudaLaunchKernelEx(&c, k_scan_chunk<S, A>, (S *)nullptr, x, factor,
                                              (const void *)nullptr, s->parts, shaped);
        if (code != cudaSuccess)
            return code;
        const cudaLaunchConfig_t per_column = shape(s->columns, BLOCK, stream);
        code = cudaLaunchKernelEx(&per_column, k_scan_parts<A>, s->parts, shaped);
        if (code != cudaSuccess)
            return code;
    }
    return cudaLaunchKernelEx(&c, k_scan_chunk<S, A>, out, x, factor, (const void *)s->parts,
                              (void *)nullptr, shaped);
}

extern "C" cudaError_t cuda_launch_scan(const cuda_scan_args *s, cudaStream_t stream)
{
    if (s->dtype == TERN_I64)
        return launch<int64_t, uint64_t>(s, stream); /* wraps */
    return float_switch(s->dtype, [&](auto zero) {
        using S = decltype(zero);
        return s->kind == CUDA_SCAN_SUM ? launch<S, real<S>>(s, stream)
                                        : launch<S, double>(s, stream);
    });
}
