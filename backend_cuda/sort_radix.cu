/* Sorting of long rows by the digits of their keys, 8 bits at a time from the lowest. A pass is stable: items
 * whose digits are equal keep their order, which at first is that of the elements' numbers, so the result is
 * the one of sort.cu.
 *
 * A pass counts the digits of each tile of a row (k_radix_count), makes of the counts how many items with the
 * same digit are in the tiles before (k_radix_scan), and brings each tile's items to their places
 * (k_radix_scatter), sorted in shared memory first so that neighbours go to neighbouring places. Keys have
 * the width of the elements, numbers 32 bits. The first pass reads the elements themselves, the last writes
 * values and numbers as they are wanted.
 *
 * The first pass' counting also finds which digits differ at all; kernels of the others return at once. */
#include "backend_cuda/launch.h"
#include "backend_cuda/pack.cuh"
#include "backend_cuda/reduce.cuh"
#include "backend_cuda/sort_radix.cuh"

using namespace cuda;
using namespace cuda::radix;

/* ---- counting -------------------------------------------------------------------------------- */

/* Of the block's threads together, in thread 0; `warps` has room for each warp's. */
static __device__ __forceinline__ key_bits of_block(key_bits own, key_bits *warps)
{
    for (int d = 16; d > 0; d /= 2)
        own.add({ shuffled(own.set, d), shuffled(own.unset, d) });
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x == 0)
        for (unsigned w = 1; w < blockDim.x / 32; w++)
            own.add(warps[w]);
    return own;
}

/* Of a tile, by all threads. */
template <typename S>
static __device__ __forceinline__ void note_bits(key_bits *bits, const S *keys, int count)
{
    __shared__ unsigned char memory[WARPS * sizeof(key_bits)] __attribute__((aligned(16)));
    key_bits own = { 0, 0 };
#pragma unroll
    for (int k = 0; k < EACH<S>; k++)
        if (item_of<S>(k) < count)
            own.add({ keys[k], (S)~keys[k] });
    own = of_block(own, (key_bits *)memory);
    if (threadIdx.x == 0)
        *bits = own;
}

template <typename S> __global__ void __launch_bounds__(THREADS) k_radix_count(radix_task<S> t)
{
    __shared__ uint32_t counts[WARPS * DIGITS];
    /* Nothing is known before the first pass' keys are. */
    const radix_turn turn = turn_of(t.pass == 0 ? 1u : *t.passes, t.pass);
    if (!turn.wanted)
        return;
    const radix_tile tile(t);
    S keys[EACH<S>];
    load_keys(keys, t, tile, turn);
    uint32_t *const own = counts + threadIdx.x / 32 * DIGITS;
    for (int i = (int)threadIdx.x; i < WARPS * DIGITS; i += THREADS)
        counts[i] = 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH<S>; k++)
        if (item_of<S>(k) < tile.count)
            atomicAdd(&own[digit_of(keys[k], t.pass)], 1u);
    __syncthreads();
    if (t.pass == 0)
        note_bits(t.bits + blockIdx.x, keys, tile.count);
    const int digit = (int)threadIdx.x;
    if (digit >= DIGITS)
        return;
    uint32_t sum = 0;
    for (int w = 0; w < WARPS; w++)
        sum += counts[w * DIGITS + digit];
    t.counts[(tile.row * DIGITS + digit) * t.stride + tile.number] = sum;
}

/* One block: which passes are wanted; one, if all keys are equal. */
__global__ void __launch_bounds__(BLOCK)
    k_radix_passes(uint32_t *passes, const key_bits *bits, int64_t tiles, int digits)
{
    __shared__ unsigned char memory[BLOCK / 32 * sizeof(key_bits)] __attribute__((aligned(16)));
    key_bits all = { 0, 0 };
    for (int64_t tile = threadIdx.x; tile < tiles; tile += BLOCK)
        all.add(bits[tile]);
    all = of_block(all, (key_bits *)memory);
    if (threadIdx.x != 0)
        return;
    uint32_t wanted = 0;
    for (int p = 0; p < digits; p++)
        wanted |= digit_of(all.set & all.unset, p) != 0 ? 1u << p : 0u;
    *passes = wanted != 0 ? wanted : 1u;
}

/* ---- scanning -------------------------------------------------------------------------------- */

/* `lanes` of a warp have a row's digit: each count becomes the sum of those before it. */
__global__ void __launch_bounds__(BLOCK)
    k_radix_scan(uint32_t *counts, uint32_t *totals, const uint32_t *passes, int pass, int lanes,
                 int64_t tiles, int64_t stride)
{
    using quad = pack<uint32_t, 4>;
    if (!turn_of(*passes, pass).wanted)
        return;
    const int lane = (int)threadIdx.x % lanes;
    const int64_t digit = first_item() / lanes;
    quad *own = (quad *)(counts + digit * stride);
    uint32_t before = 0;
    for (int64_t base = 0; base < stride / 4; base += lanes) {
        const int64_t at = base + lane;
        quad some = {};
        uint32_t sum = 0;
        if (at < stride / 4)
            some = own[at];
        for (int k = 0; k < 4; k++) {
            const uint32_t count = 4 * at + k < tiles ? some.at[k] : 0;
            some.at[k] = sum;
            sum += count;
        }
        uint32_t with = sum;
        for (int d = 1; d < lanes; d *= 2) {
            const uint32_t below = __shfl_up_sync(FULL_MASK, with, d, lanes);
            if (lane >= d)
                with += below;
        }
        for (int k = 0; k < 4; k++)
            some.at[k] += before + with - sum;
        if (at < stride / 4)
            own[at] = some;
        before += __shfl_sync(FULL_MASK, with, lanes - 1, lanes);
    }
    if (lane == 0)
        totals[digit] = before;
}

/* ---- scattering ------------------------------------------------------------------------------ */

/* Lanes of the warp whose digit is this one's. */
static __device__ __forceinline__ unsigned lanes_with(unsigned digit)
{
    unsigned same = FULL_MASK;
#pragma unroll
    for (int bit = 1; bit < DIGITS; bit *= 2) {
        const bool set = (digit & bit) != 0;
        const unsigned others = __ballot_sync(FULL_MASK, set);
        same &= set ? others : ~others;
    }
    return same;
}

/* Of each key, how many of the warp's before it have the same digit; counts[digit]: how many of them all have. */
template <typename S>
static __device__ __forceinline__ void rank_in_warp(uint32_t *ranks, uint32_t *counts,
                                                    const S *keys, int pass, int count)
{
    const unsigned below = (1u << threadIdx.x % 32) - 1;
    for (int d = (int)threadIdx.x % 32; d < DIGITS; d += 32)
        counts[d] = 0;
    __syncwarp(FULL_MASK);
#pragma unroll
    for (int k = 0; k < EACH<S>; k++) {
        ranks[k] = 0;
        if (item_of<S>(k) - (int)threadIdx.x % 32 < count) { /* alike in the whole warp */
            const unsigned digit = digit_of(keys[k], pass), same = lanes_with(digit);
            const uint32_t before = counts[digit];
            ranks[k] = before + __popc(same & below);
            __syncwarp(FULL_MASK);
            if ((same & below) == 0)
                counts[digit] = before + __popc(same);
            __syncwarp(FULL_MASK);
        }
    }
}

/* The sum of the threads' before this one. */
static __device__ __forceinline__ uint64_t sum_before(uint64_t own, uint64_t *warps)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    uint64_t with = own;
    for (int d = 1; d < 32; d *= 2) {
        const uint64_t below = __shfl_up_sync(FULL_MASK, with, d);
        if (lane >= d)
            with += below;
    }
    if (lane == 31)
        warps[warp] = with;
    __syncthreads();
    uint64_t before = 0;
    for (int w = 0; w < warp; w++)
        before += warps[w];
    return before + with - own;
}

/* counts[warp][digit] becomes where in the sorted tile the warp's first item of the digit is, bases[digit] what
 * to add to a place in the tile for the place in the row. */
template <typename S>
static __device__ __forceinline__ void find_starts(uint32_t (*counts)[DIGITS], uint32_t *bases,
                                                   const radix_task<S> &t, const radix_tile &tile)
{
    __shared__ uint64_t warps[WARPS];
    const int digit = (int)threadIdx.x;
    const int64_t row_digit = tile.row * DIGITS + digit;
    uint64_t both = 0; /* of the row, and below, of the tile */
    if (digit < DIGITS) {
#pragma unroll 4
        for (int w = 0; w < WARPS; w++)
            both += counts[w][digit];
        both |= (uint64_t)t.totals[row_digit] << 32;
    }
    both = sum_before(both, warps);
    if (digit >= DIGITS)
        return;
    uint32_t start = (uint32_t)both;
    bases[digit] = (uint32_t)(both >> 32) + t.counts[row_digit * t.stride + tile.number] - start;
#pragma unroll 4
    for (int w = 0; w < WARPS; w++) {
        const uint32_t count = counts[w][digit];
        counts[w][digit] = start;
        start += count;
    }
}

/* An item comes to its place in the row. */
template <typename S>
static __device__ __forceinline__ void put(const radix_task<S> &t, const radix_turn &turn,
                                           int64_t row, uint32_t place, S key, uint32_t number)
{
    if (!turn.is_last || t.median) {
        t.keys[turn.to][row * t.n + place] = key;
        t.numbers[turn.to][row * t.n + place] = number;
        return;
    }
    const int64_t i = (int64_t)place - t.first;
    if (i < 0 || i >= t.count)
        return;
    S bits;
    if (!bits_of(key, t.dtype, t.descending, &bits))
        bits = t.x[place_in(row, t.inner, t.n, number)];
    const int64_t at = place_in(row, t.inner, t.count, i);
    t.values[at] = bits;
    t.places[at] = number;
}

template <typename S> __global__ void __launch_bounds__(THREADS, 2) k_radix_scatter(radix_task<S> t)
{
    constexpr int WIDEST = sizeof(S) > 4 ? (int)sizeof(S) : 4;
    __shared__ unsigned char memory[TILE<S> * WIDEST] __attribute__((aligned(16)));
    __shared__ uint32_t bases[DIGITS];
    static_assert(sizeof memory >= WARPS * DIGITS * sizeof(uint32_t), "counts lie in it first");
    const radix_turn turn = turn_of(*t.passes, t.pass);
    if (!turn.wanted)
        return;
    const radix_tile tile(t);
    uint32_t(*counts)[DIGITS] = (uint32_t(*)[DIGITS])memory;
    S keys[EACH<S>], *sorted_keys = (S *)memory;
    uint32_t at[EACH<S>], numbers[EACH<S>], *sorted_numbers = (uint32_t *)memory;
    load_keys(keys, t, tile, turn);
    rank_in_warp(at, counts[threadIdx.x / 32], keys, t.pass, tile.count);
    __syncthreads();
    find_starts(counts, bases, t, tile);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH<S>; k++) {
        const int i = item_of<S>(k);
        at[k] += counts[threadIdx.x / 32][digit_of(keys[k], t.pass)];
        numbers[k] = (uint32_t)(tile.begin + i);
        if (!turn.reads_x && i < tile.count)
            numbers[k] = t.numbers[turn.from][tile.row * t.n + tile.begin + i];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH<S>; k++)
        if (item_of<S>(k) < tile.count)
            sorted_keys[at[k]] = keys[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH<S>; k++)
        if ((int)threadIdx.x + k * THREADS < tile.count)
            keys[k] = sorted_keys[threadIdx.x + k * THREADS];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH<S>; k++)
        if (item_of<S>(k) < tile.count)
            sorted_numbers[at[k]] = numbers[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH<S>; k++) {
        const int i = (int)threadIdx.x + k * THREADS;
        if (i < tile.count)
            put(t, turn, tile.row, bases[digit_of(keys[k], t.pass)] + (uint32_t)i, keys[k],
                sorted_numbers[i]);
    }
}

/* Item `first` of each row; of a row with NaN, its first NaN. */
template <typename S> __global__ void __launch_bounds__(BLOCK) k_radix_median(radix_task<S> t)
{
    const int last = (__popc(*t.passes) - 1) & 1;
    for (int64_t row = first_item(); row < t.rows; row += item_step()) {
        const bool nan = is_float(t.dtype) && t.keys[last][row * t.n] == 0;
        const uint32_t number = t.numbers[last][row * t.n + (nan ? 0 : t.first)];
        t.values[row] = t.x[place_in(row, t.inner, t.n, number)];
        t.places[row] = number;
    }
}

/* ---- launchers ------------------------------------------------------------------------------- */

/* Takes `bytes` of scratch memory; base NULL: only counts them. */
static void *take(unsigned char *base, int64_t *used, int64_t bytes)
{
    void *const p = base != nullptr ? base + *used : nullptr;
    *used += (bytes + 15) / 16 * 16;
    return p;
}

/* Returns the bytes of scratch memory. */
template <typename S> static int64_t describe(const cuda_sort_args *a, radix_task<S> *t)
{
    unsigned char *const base = (unsigned char *)a->scratch;
    int64_t used = 0;
    *t = {};
    t->x = (const S *)a->x;
    t->values = (S *)a->values;
    t->places = a->places;
    t->rows = a->rows;
    t->n = a->n;
    t->inner = a->inner;
    t->first = a->first;
    t->count = a->count;
    t->dtype = a->dtype;
    t->descending = a->descending;
    t->median = a->median;
    t->tiles = (t->n + TILE<S> - 1) / TILE<S>;
    t->stride = (t->tiles + 3) / 4 * 4;
    for (int k = 0; k < 2; k++) {
        t->keys[k] = (S *)take(base, &used, t->rows * t->n * (int64_t)sizeof(S));
        t->numbers[k] = (uint32_t *)take(base, &used, t->rows * t->n * 4);
    }
    t->counts = (uint32_t *)take(base, &used, t->rows * DIGITS * t->stride * 4);
    t->totals = (uint32_t *)take(base, &used, t->rows * DIGITS * 4);
    t->bits = (key_bits *)take(base, &used, t->rows * t->tiles * (int64_t)sizeof(key_bits));
    t->passes = (uint32_t *)take(base, &used, 4);
    return used;
}

template <typename S> static cudaError_t launch_pass(const radix_task<S> &t, cudaStream_t stream)
{
    const cudaLaunchConfig_t tiles = shape(t.rows * t.tiles, THREADS, stream);
    cudaError_t code = cudaLaunchKernelEx(&tiles, k_radix_count<S>, t);
    if (code == cudaSuccess && t.pass == 0) {
        const cudaLaunchConfig_t one = shape(1, BLOCK, stream);
        code = cudaLaunchKernelEx(&one, k_radix_passes, t.passes, t.bits, t.rows * t.tiles,
                                  (int)sizeof(S));
    }
    if (code != cudaSuccess)
        return code;
    int lanes = 1;
    while (lanes < 32 && lanes * 4 < t.tiles)
        lanes *= 2;
    const cudaLaunchConfig_t digits = shape(t.rows * lanes, DIGITS, stream);
    code = cudaLaunchKernelEx(&digits, k_radix_scan, t.counts, t.totals, t.passes, t.pass, lanes,
                              t.tiles, t.stride);
    return code == cudaSuccess ? cudaLaunchKernelEx(&tiles, k_radix_scatter<S>, t) : code;
}

template <typename S> static cudaError_t launch(const cuda_sort_args *a, cudaStream_t stream)
{
    radix_task<S> t;
    (void)describe(a, &t);
    cudaError_t code = cudaSuccess;
    for (; t.pass < (int)sizeof(S) && code == cudaSuccess; t.pass++)
        code = launch_pass(t, stream);
    if (code != cudaSuccess || !a->median)
        return code;
    const cudaLaunchConfig_t c = shape_for(t.rows, stream);
    return cudaLaunchKernelEx(&c, k_radix_median<S>, t);
}

extern "C" int64_t cuda_radix_bytes(const cuda_sort_args *a)
{
    int64_t bytes = 0;
    (void)size_switch(a->size, [&](auto zero) {
        radix_task<decltype(zero)> t;
        bytes = describe(a, &t);
        return cudaSuccess;
    });
    return bytes;
}

extern "C" cudaError_t cuda_launch_radix(const cuda_sort_args *a, cudaStream_t stream)
{
    return size_switch(a->size, [&](auto zero) { return launch<decltype(zero)>(a, stream); });
}
