/* Tiles of a row that is sorted by digits (sort_radix.cu), and passes. */
#ifndef TERN_BACKEND_CUDA_SORT_RADIX_CUH
#define TERN_BACKEND_CUDA_SORT_RADIX_CUH

#include "backend_cuda/sort_key.cuh"

namespace cuda
{

namespace radix
{

constexpr int DIGITS = 256, THREADS = 512, WARPS = THREADS / 32;

/* Items of a thread, and of a tile. */
template <typename S> constexpr int EACH = sizeof(S) == 8 ? 8 : 16;
template <typename S> constexpr int TILE = THREADS *EACH<S>;

/* Bits that are set in some key, and that are not in one. */
struct key_bits {
    uint64_t set, unset;
    __device__ __forceinline__ void add(const key_bits &other)
    {
        set |= other.set;
        unset |= other.unset;
    }
};

/* Without gaps: the simulator takes what lies in one for an address. */
template <typename S> struct radix_task {
    const S *x;
    S *values;
    int64_t *places;
    S *keys[2];           /* of rows * n items: passes write them in turn */
    uint32_t *numbers[2]; /* likewise */
    uint32_t *counts;     /* of each row and digit: a number per tile, `stride` of them */
    uint32_t *totals;     /* of each row and digit */
    key_bits *bits;       /* of each tile */
    uint32_t *passes;     /* bit p: the keys' digit p differs */
    int64_t rows, n, inner, first, count;
    int64_t tiles, stride; /* of a row */
    int dtype, descending, median, pass;
};

/* What a pass does. */
struct radix_turn {
    bool wanted, reads_x, is_last;
    int from, to; /* of the two buffers */
};

__device__ __forceinline__ radix_turn turn_of(uint32_t passes, int pass)
{
    const int before = __popc(passes & ((1u << pass) - 1));
    return { (passes >> pass & 1u) != 0, before == 0, passes >> pass == 1u, (before + 1) & 1,
             before & 1 };
}

/* The tile of a block. */
struct radix_tile {
    int64_t row, number;
    int64_t begin; /* in the row */
    int count;

    template <typename S>
    __device__ __forceinline__ radix_tile(const radix_task<S> &t)
        : row(blockIdx.x / t.tiles), number(blockIdx.x % t.tiles), begin(number * TILE<S>),
          count((int)(t.n - begin < TILE<S> ? t.n - begin : TILE<S>))
    {
    }
};

/* Item k of a thread: neighbouring threads have neighbours, and a warp has items that follow each other. */
template <typename S> __device__ __forceinline__ int item_of(int k)
{
    const int t = (int)threadIdx.x;
    return t / 32 * 32 * EACH<S> + k * 32 + t % 32;
}

template <typename S> __device__ __forceinline__ unsigned digit_of(S key, int pass)
{
    return (unsigned)(key >> 8 * pass) & (DIGITS - 1);
}

/* Where element i of a row lies, `count` of them in a row. */
__device__ __forceinline__ int64_t place_in(int64_t row, int64_t inner, int64_t count, int64_t i)
{
    return (row / inner * count + i) * inner + row % inner;
}

/* Keys beyond the row are the greatest: the last of the last digit. */
template <typename S>
__device__ __forceinline__ void load_keys(S *keys, const radix_task<S> &t, const radix_tile &tile,
                                          const radix_turn &turn)
{
    const S *from = t.keys[turn.from] + tile.row * t.n + tile.begin;
    if (!turn.reads_x) {
#pragma unroll
        for (int k = 0; k < EACH<S>; k++)
            keys[k] = item_of<S>(k) < tile.count ? from[item_of<S>(k)] : (S) ~(S)0;
        return;
    }
    from = t.x + place_in(tile.row, t.inner, t.n, tile.begin + item_of<S>(0));
#pragma unroll
    for (int k = 0; k < EACH<S>; k++, from += 32 * t.inner)
        if (item_of<S>(k) < tile.count)
            keys[k] = *from;
#pragma unroll
    for (int k = 0; k < EACH<S>; k++)
        keys[k] = item_of<S>(k) < tile.count
                      ? key_of(keys[k], t.dtype, t.descending != 0, t.median != 0)
                      : (S) ~(S)0;
}

} // namespace radix

} // namespace cuda

#endif
