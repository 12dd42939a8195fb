/* sum, mean, amax, var, max over any dimensions of any strides.
 *
 * `kept` walks the outputs, `gone` what each of them is made of. A thread makes an output where
 * neighbours lie beside each other or there is little to reduce, else a block does; outputs that are
 * few and long are cut into chunks, whose cells a second launch merges. f32 and half types accumulate
 * in f32, f64 in f64, integers in i64; the order is fixed, so that results repeat bit for bit. */
#include "backend_cuda/launch.h"
#include "backend_cuda/reduce.cuh"
#include "backend_cuda/walk.cuh"

using namespace cuda;

/* ---- cells ----------------------------------------------------------------------------------- */

template <typename A> struct sum_cell {
    A sum;
    __device__ void clear()
    {
        sum = 0;
    }
    __device__ void add(A x, int64_t)
    {
        sum += x;
    }
    __device__ void merge(const sum_cell &other)
    {
        sum += other.sum;
    }
    __device__ A value(double share, double) const
    {
        return (A)(share == 1.0 ? sum : (A)(sum * (A)share));
    }
    __device__ int64_t place() const
    {
        return 0;
    }
};

/* Chan's merge of means and squared deviations: one pass, no cancellation. */
template <typename A> struct var_cell {
    A count, mean, square;
    __device__ void clear()
    {
        count = mean = square = 0;
    }
    __device__ void add(A x, int64_t)
    {
        count += 1;
        const A d = x - mean;
        mean += d / count;
        square += d * (x - mean);
    }
    __device__ void merge(const var_cell &other)
    {
        if (!(other.count > 0))
            return;
        const A total = count + other.count;
        const A d = other.mean - mean;
        mean += d * (other.count / total);
        square += other.square + d * d * (count * (other.count / total));
        count = total;
    }
    __device__ A value(double, double correction) const
    {
        const A rest = count - (A)correction;
        return square / (rest > 0 ? rest : (A)0);
    }
    __device__ int64_t place() const
    {
        return 0;
    }
};

/* The first of the greatest; NaN is greater than all. */
template <typename A> struct max_cell {
    A greatest;
    int64_t at;
    __device__ void clear()
    {
        greatest = 0;
        at = -1;
    }
    __device__ void add(A x, int64_t i)
    {
        max_cell other;
        other.greatest = x;
        other.at = i;
        merge(other);
    }
    __device__ void merge(const max_cell &other)
    {
        if (other.at < 0)
            return;
        const bool nan = greatest != greatest, other_nan = other.greatest != other.greatest;
        const bool same = (nan && other_nan) || greatest == other.greatest;
        const bool beats = (other_nan && !nan) || (!nan && other.greatest > greatest);
        if (at < 0 || beats || (same && other.at < at))
            *this = other;
    }
    __device__ A value(double, double) const
    {
        return greatest;
    }
    __device__ int64_t place() const
    {
        return at;
    }
};

/* ---- elements -------------------------------------------------------------------------------- */

template <typename S> __device__ __forceinline__ int64_t read_cell(S x)
{
    return (int64_t)x;
}
__device__ __forceinline__ int64_t read_cell(bool8 x)
{
    return x.value;
}
__device__ __forceinline__ float read_cell(float x)
{
    return x;
}
__device__ __forceinline__ double read_cell(double x)
{
    return x;
}
__device__ __forceinline__ float read_cell(__half x)
{
    return widen(x);
}
__device__ __forceinline__ float read_cell(__nv_bfloat16 x)
{
    return widen(x);
}

template <typename O, typename A> struct write_as {
    static __device__ __forceinline__ O run(A x)
    {
        return narrow<O>(x);
    }
};
template <typename A> struct write_as<bool8, A> {
    static __device__ __forceinline__ bool8 run(A x)
    {
        return bool8{ (uint8_t)(x != 0) };
    }
};

struct finish {
    double share, correction;
};

template <typename C, typename O>
static __device__ __forceinline__ void write_out(const C &c, O *out, int64_t *place,
                                                 const int64_t (&at)[3], finish f)
{
    const auto x = c.value(f.share, f.correction);
    if (out != nullptr)
        out[at[0]] = write_as<O, decltype(c.value(0, 0))>::run(x);
    if (place != nullptr)
        place[at[1]] = c.place();
}

/* ---- kernels --------------------------------------------------------------------------------- */

template <typename C, typename S, typename O>
__global__ void __launch_bounds__(BLOCK)
    k_reduce_by_thread(O *out, int64_t *place, const S *in, cuda_walk kept, cuda_walk gone,
                       finish f, int64_t count)
{
    for (int64_t i = first_item(); i < kept.numel; i += item_step()) {
        int64_t at[3], inner[1];
        offsets<3>(kept, (uint32_t)i, at);
        C c;
        c.clear();
        for (int64_t k = 0; k < count; k++) {
            offsets<1>(gone, (uint32_t)k, inner);
            c.add(read_cell(in[at[2] + inner[0]]), k);
        }
        write_out(c, out, place, at, f);
    }
}

/* Block (output, chunk); cells NULL: one chunk, written at once. */
template <typename C, typename S, typename O>
__global__ void __launch_bounds__(BLOCK)
    k_reduce_by_block(O *out, int64_t *place, const S *in, C *cells, cuda_walk kept, cuda_walk gone,
                      finish f, int64_t count, int chunks)
{
    __shared__ unsigned char memory[BLOCK * sizeof(C)] __attribute__((aligned(16)));
    C *shared = (C *)memory;
    const int64_t chunk = blockIdx.x % (unsigned)chunks, output = blockIdx.x / (unsigned)chunks;
    const int64_t begin = count * chunk / chunks, end = count * (chunk + 1) / chunks;
    int64_t at[3], inner[1];
    offsets<3>(kept, (uint32_t)output, at);
    C c;
    c.clear();
    for (int64_t k = begin + threadIdx.x; k < end; k += BLOCK) {
        offsets<1>(gone, (uint32_t)k, inner);
        c.add(read_cell(in[at[2] + inner[0]]), k);
    }
    block_merge(shared, c);
    if (threadIdx.x != 0)
        return;
    if (cells != nullptr)
        cells[blockIdx.x] = shared[0];
    else
        write_out(shared[0], out, place, at, f);
}

template <typename C, typename O>
__global__ void __launch_bounds__(BLOCK)
    k_reduce_cells(O *out, int64_t *place, const C *cells, cuda_walk kept, finish f, int chunks)
{
    for (int64_t i = first_item(); i < kept.numel; i += item_step()) {
        int64_t at[3];
        offsets<3>(kept, (uint32_t)i, at);
        C c = cells[i * chunks];
        for (int k = 1; k < chunks; k++)
            c.merge(cells[i * chunks + k]);
        write_out(c, out, place, at, f);
    }
}

/* ---- launchers ------------------------------------------------------------------------------- */

template <typename C, typename S, typename O>
static cudaError_t launch_cells(const cuda_reduce_args *r, cudaStream_t stream)
{
    static_assert(sizeof(C) <= CUDA_CELL_BYTES, "scratch is counted in cells of this size");
    const double share = r->kind == CUDA_MEAN ? 1.0 / (double)r->count : 1.0;
    const finish f = { share, r->correction };
    const cuda_walk &kept = *r->kept;
    O *out = (O *)r->out;
    const S *in = (const S *)r->in;
    if (r->chunks == 0) {
        const cudaLaunchConfig_t c = shape_for(kept.numel, stream);
        return cudaLaunchKernelEx(&c, k_reduce_by_thread<C, S, O>, out, r->place, in, kept,
                                  *r->gone, f, r->count);
    }
    const cudaLaunchConfig_t c = shape((int64_t)kept.numel * r->chunks, BLOCK, stream);
    C *cells = r->chunks > 1 ? (C *)r->cells : nullptr;
    const cudaError_t code = cudaLaunchKernelEx(&c, k_reduce_by_block<C, S, O>, out, r->place, in,
                                                cells, kept, *r->gone, f, r->count, (int)r->chunks);
    if (code != cudaSuccess || cells == nullptr)
        return code;
    const cudaLaunchConfig_t second = shape_for(kept.numel, stream);
    return cudaLaunchKernelEx(&second, k_reduce_cells<C, O>, out, r->place, (const C *)cells, kept,
                              f, (int)r->chunks);
}

/* Floats reduce to their own type, integers to i64 (sums) or to their own (greatest). */
template <typename S, typename A, typename O>
static cudaError_t launch_kind(const cuda_reduce_args *r, cudaStream_t stream)
{
    if (r->kind == CUDA_AMAX || r->kind == CUDA_MAX)
        return launch_cells<max_cell<A>, S, S>(r, stream);
    if constexpr (!std::is_same<A, int64_t>::value)
        if (r->kind == CUDA_VAR)
            return launch_cells<var_cell<A>, S, O>(r, stream);
    return launch_cells<sum_cell<A>, S, O>(r, stream);
}

extern "C" cudaError_t cuda_launch_reduce(const cuda_reduce_args *r, cudaStream_t stream)
{
    if (r->in_dtype == TERN_BOOL)
        return launch_kind<bool8, int64_t, int64_t>(r, stream);
    if (tern_dtype_is_float((tern_dtype_t)r->in_dtype))
        return float_switch(r->in_dtype, [&](auto zero) {
            using S = decltype(zero);
            return launch_kind<S, real<S>, S>(r, stream);
        });
    return integer_switch(r->in_dtype, [&](auto zero) {
        using S = decltype(zero);
        return launch_kind<S, int64_t, int64_t>(r, stream);
    });
}
