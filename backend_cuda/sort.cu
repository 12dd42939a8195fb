/* Sorting of rows: elements become keys that compare as unsigned numbers, with NaN beyond all and -0 as
 * 0; an item is a key and an element's number, so no two are equal and every way to sort gives the same.
 *
 * A block sorts a tile of items in shared memory (bitonic: several short rows, or a piece of a long one),
 * then sorted runs are merged two by two, each thread making a few items of the result, until a row is
 * one run. Where only the first items of the order are wanted, runs are cut to that length. Long rows whose
 * order is wanted beyond a tile are sorted by digits instead (sort_radix.cu). */
#include "backend_cuda/launch.h"
#include "backend_cuda/sort_key.cuh"

using namespace cuda;

/* ---- items ----------------------------------------------------------------------------------- */

/* Elements of up to 32 bits. */
struct narrow_item {
    uint64_t bits;
    static __device__ __forceinline__ narrow_item of(uint64_t key, int64_t number)
    {
        return { key << 32 | (uint64_t)number };
    }
    static __device__ __forceinline__ narrow_item last()
    {
        return { ~(uint64_t)0 };
    }
    __device__ __forceinline__ bool before(const narrow_item &other) const
    {
        return bits < other.bits;
    }
    __device__ __forceinline__ uint64_t key() const
    {
        return bits >> 32;
    }
    __device__ __forceinline__ int64_t number() const
    {
        return (int64_t)(bits & 0xFFFFFFFFu);
    }
};

struct wide_item {
    uint64_t bits, place;
    static __device__ __forceinline__ wide_item of(uint64_t key, int64_t number)
    {
        return { key, (uint64_t)number };
    }
    static __device__ __forceinline__ wide_item last()
    {
        return { ~(uint64_t)0, ~(uint64_t)0 };
    }
    __device__ __forceinline__ bool before(const wide_item &other) const
    {
        return bits < other.bits || (bits == other.bits && place < other.place);
    }
    __device__ __forceinline__ uint64_t key() const
    {
        return bits;
    }
    __device__ __forceinline__ int64_t number() const
    {
        return (int64_t)place;
    }
};

/* Without gaps: the simulator takes what lies in one for an address. */
struct sort_shape {
    int dtype, size;
    int descending, median;
    int64_t rows, n, inner, first, count;
};

/* Where element i of a row lies in the input. */
static __device__ __forceinline__ int64_t element(const sort_shape &s, int64_t row, int64_t i)
{
    return (row / s.inner * s.n + i) * s.inner + row % s.inner;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* `length`, a power of two, is what is sorted together: `pieces` of each row. */
template <typename I>
__global__ void __launch_bounds__(BLOCK)
    k_sort_tile(I *items, const void *x, sort_shape s, int length, int64_t pieces)
{
    __shared__ unsigned char memory[CUDA_SORT_TILE * sizeof(I)] __attribute__((aligned(16)));
    I *tile = (I *)memory;
    const int64_t first = (int64_t)blockIdx.x * (CUDA_SORT_TILE / length);
    for (int k = (int)threadIdx.x; k < CUDA_SORT_TILE; k += BLOCK) {
        const int64_t piece = first + k / length, row = piece / pieces;
        const int64_t i = piece % pieces * length + k % length;
        tile[k] = I::last();
        if (row < s.rows && i < s.n)
            tile[k] = I::of(sort_key(x, s.dtype, element(s, row, i), s.descending, s.median), i);
    }
    __syncthreads();
    for (int size = 2; size <= length; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            for (int pair = (int)threadIdx.x; pair < CUDA_SORT_TILE / 2; pair += BLOCK) {
                const int low = pair / step * 2 * step + pair % step;
                const bool falling = (low & (length - 1) & size) != 0;
                const I a = tile[low], b = tile[low + step];
                if (b.before(a) != falling) {
                    tile[low] = b;
                    tile[low + step] = a;
                }
            }
            __syncthreads();
        }
    }
    for (int k = (int)threadIdx.x; k < CUDA_SORT_TILE; k += BLOCK) {
        const int64_t piece = first + k / length, row = piece / pieces;
        const int64_t i = piece % pieces * length + k % length;
        if (row < s.rows && i < s.n)
            items[row * s.n + i] = tile[k];
    }
}

/* How many of the first `at` items of two merged runs come from the first one. */
template <typename I>
static __device__ __forceinline__ int64_t share(const I *a, int64_t in_a, const I *b, int64_t in_b,
                                                int64_t at)
{
    int64_t low = at > in_b ? at - in_b : 0, high = at < in_a ? at : in_a;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (a[middle].before(b[at - 1 - middle]))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Runs of `width` become runs of twice that; of each the first `most` items count. A thread makes
 * CUDA_SORT_EACH items; `pieces` threads a row. */
template <typename I>
__global__ void __launch_bounds__(BLOCK)
    k_sort_merge(I *to, const I *from, sort_shape s, int64_t width, int64_t most, int64_t pieces)
{
    for (int64_t t = first_item(); t < s.rows * pieces; t += item_step()) {
        const int64_t row = t / pieces, piece = t % pieces * CUDA_SORT_EACH;
        const int64_t begin = piece / (2 * width) * 2 * width, at = piece - begin;
        const I *run = from + row * s.n + begin, *other = run + width;
        int64_t in_a = s.n - begin < width ? s.n - begin : width;
        int64_t in_b = s.n - begin - in_a < width ? s.n - begin - in_a : width;
        in_a = in_a < most ? in_a : most;
        in_b = in_b < most ? in_b : most;
        int64_t end = in_a + in_b < most ? in_a + in_b : most;
        if (at >= end)
            continue;
        end = at + CUDA_SORT_EACH < end ? at + CUDA_SORT_EACH : end;
        int64_t a = share(run, in_a, other, in_b, at), b = at - a;
        for (int64_t k = at; k < end; k++) {
            const bool left = b == in_b || (a < in_a && run[a].before(other[b]));
            to[row * s.n + begin + k] = left ? run[a++] : other[b++];
        }
    }
}

/* Items first .. first + count of each row as values and places; of a row with NaN, its first NaN. */
template <typename I>
__global__ void __launch_bounds__(BLOCK)
    k_sort_emit(void *values, int64_t *places, const I *items, const void *x, sort_shape s)
{
    for (int64_t t = first_item(); t < s.rows * s.count; t += item_step()) {
        const int64_t inside = t % s.inner, k = t / s.inner % s.count;
        const int64_t block = t / s.inner / s.count;
        const I *row = items + (block * s.inner + inside) * s.n;
        const bool nan = s.median && is_float(s.dtype) && row[0].key() == 0;
        const int64_t number = row[nan ? 0 : s.first + k].number();
        const int64_t at = (block * s.n + number) * s.inner + inside;
        places[t] = number;
        if (s.size == 1)
            ((uint8_t *)values)[t] = ((const uint8_t *)x)[at];
        else if (s.size == 2)
            ((uint16_t *)values)[t] = ((const uint16_t *)x)[at];
        else if (s.size == 4)
            ((uint32_t *)values)[t] = ((const uint32_t *)x)[at];
        else
            ((uint64_t *)values)[t] = ((const uint64_t *)x)[at];
    }
}

/* ---- launchers ------------------------------------------------------------------------------- */

template <typename I> static cudaError_t launch(const cuda_sort_args *a, cudaStream_t stream)
{
    const sort_shape s = { a->dtype, a->size,  a->descending, a->median, a->rows,
                           a->n,     a->inner, a->first,      a->count };
    I *items = (I *)a->scratch, *other = items + s.rows * s.n;
    int length = 2;
    while (length < s.n && length < CUDA_SORT_TILE)
        length *= 2;
    int64_t pieces = (s.n + length - 1) / length;
    const int64_t tiles = (s.rows * pieces * length + CUDA_SORT_TILE - 1) / CUDA_SORT_TILE;
    const cudaLaunchConfig_t c = shape(tiles, BLOCK, stream);
    cudaError_t code = cudaLaunchKernelEx(&c, k_sort_tile<I>, items, a->x, s, length, pieces);
    pieces = (s.n + CUDA_SORT_EACH - 1) / CUDA_SORT_EACH;
    for (int64_t width = length; code == cudaSuccess && width < s.n; width *= 2) {
        const cudaLaunchConfig_t each = shape_for(s.rows * pieces, stream);
        code = cudaLaunchKernelEx(&each, k_sort_merge<I>, other, (const I *)items, s, width,
                                  s.first + s.count, pieces);
        I *const swapped = items;
        items = other;
        other = swapped;
    }
    if (code != cudaSuccess)
        return code;
    const cudaLaunchConfig_t emit = shape_for(s.rows * s.count, stream);
    return cudaLaunchKernelEx(&emit, k_sort_emit<I>, a->values, a->places, (const I *)items, a->x,
                              s);
}

/* Few first items are cheaper by runs that are cut to them, unless there are but one or two passes. */
static bool by_digits(const cuda_sort_args *a)
{
    return a->n >= CUDA_RADIX_LEAST && (a->size <= 2 || a->first + a->count > CUDA_SORT_TILE);
}

extern "C" int64_t cuda_sort_bytes(const cuda_sort_args *a)
{
    const int64_t item = a->size == 8 ? sizeof(wide_item) : sizeof(narrow_item);
    return by_digits(a) ? cuda_radix_bytes(a) : 2 * a->rows * a->n * item;
}

extern "C" cudaError_t cuda_launch_sort(const cuda_sort_args *a, cudaStream_t stream)
{
    if (by_digits(a))
        return cuda_launch_radix(a, stream);
    return a->size == 8 ? launch<wide_item>(a, stream) : launch<narrow_item>(a, stream);
}

/* ---- searching ------------------------------------------------------------------------------- */

__global__ void __launch_bounds__(BLOCK)
    k_searchsorted(int64_t *out, const void *sorted, const void *x, int dtype, int64_t rows,
                   int64_t n, int64_t each, bool right)
{
    for (int64_t t = first_item(); t < rows * each; t += item_step()) {
        const uint64_t key = sort_key(x, dtype, t, false, false);
        const int64_t row = t / each * n;
        int64_t low = 0, high = n;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            const uint64_t other = sort_key(sorted, dtype, row + middle, false, false);
            if (right ? other <= key : other < key)
                low = middle + 1;
            else
                high = middle;
        }
        out[t] = low;
    }
}

extern "C" cudaError_t cuda_launch_searchsorted(int64_t *out, const void *sorted, const void *x,
                                                int dtype, int64_t rows, int64_t n, int64_t each,
                                                bool right, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape_for(rows * each, stream);
    return cudaLaunchKernelEx(&c, k_searchsorted, out, sorted, x, dtype, rows, n, each, right);
}
