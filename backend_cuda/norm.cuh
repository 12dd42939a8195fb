/* What batch_norm and layer_norm share: parameters of x's dtype or, beside half types, f32; moments. */
#ifndef TERN_BACKEND_CUDA_NORM_CUH
#define TERN_BACKEND_CUDA_NORM_CUH

#include "backend_cuda/reduce.cuh"

namespace cuda
{

/* Parameter i, or `absent` where there are none. */
template <typename S>
__device__ __forceinline__ real<S> parameter(const void *p, int wide, int64_t i, real<S> absent)
{
    if (p == nullptr)
        return absent;
    return wide ? ((const real<S> *)p)[i] : widen(((const S *)p)[i]);
}

template <typename S>
__device__ __forceinline__ void set_parameter(void *p, int wide, int64_t i, real<S> value)
{
    if (wide)
        ((real<S> *)p)[i] = value;
    else
        ((S *)p)[i] = narrow<S>(value);
}

/* Chan's merge: one pass, no cancellation. */
template <typename T> struct moments {
    T count, mean, square;
    __device__ void add(T x)
    {
        count += 1;
        const T d = x - mean, share = (T)1 / count; /* nothing waits for a division */
        mean += d * share;
        square += d * (x - mean);
    }
    __device__ moments across(int lanes) const
    {
        return { shuffled(count, lanes), shuffled(mean, lanes), shuffled(square, lanes) };
    }
    __device__ void merge(const moments &other)
    {
        if (!(other.count > 0))
            return;
        const T total = count + other.count, d = other.mean - mean;
        mean += d * (other.count / total);
        square += other.square + d * d * (count * (other.count / total));
        count = total;
    }
};

template <typename T> struct two {
    T first, second;
    __device__ void merge(const two &other)
    {
        first += other.first;
        second += other.second;
    }
    __device__ two across(int lanes) const
    {
        return { shuffled(first, lanes), shuffled(second, lanes) };
    }
};

} // namespace cuda

#endif
