/* Elements as keys that compare as unsigned numbers. */
#ifndef TERN_BACKEND_CUDA_SORT_KEY_CUH
#define TERN_BACKEND_CUDA_SORT_KEY_CUH

#include "backend_cuda/types.cuh"

namespace cuda
{

__device__ __forceinline__ bool is_float(int dtype)
{
    return dtype >= TERN_F16 && dtype <= TERN_F64;
}

/* The bits of infinity. */
template <typename S> __device__ __forceinline__ S infinite_bits(int dtype)
{
    if constexpr (sizeof(S) == 8)
        return (S)0x7FF << 52;
    else if constexpr (sizeof(S) == 4)
        return 0x7F800000u;
    else
        return (S)(dtype == TERN_F16 ? 0x7C00 : 0x7F80); /* one byte is no float */
}

/* The key of an element's bits. NaN is greater than all (nan_first: 0, which no number is). */
template <typename S>
__device__ __forceinline__ S key_of(S bits, int dtype, bool descending, bool nan_first)
{
    constexpr S SIGN = (S)((S)1 << (8 * sizeof(S) - 1)), ALL = (S) ~(S)0;
    S key = dtype == TERN_U8 || dtype == TERN_BOOL ? bits : (S)(bits ^ SIGN);
    if (sizeof(S) > 1 && is_float(dtype)) {
        if ((S)(bits & ~SIGN) > infinite_bits<S>(dtype))
            key = nan_first ? (S)0 : ALL;
        else if ((bits & SIGN) != 0 && bits != SIGN) /* -0 is 0 */
            key = (S)~bits;
        else
            key = (S)(bits | SIGN);
    }
    return descending ? (S)~key : key;
}

/* The bits of the one element that has the key: of a float that is not NaN or 0. */
template <typename S>
__device__ __forceinline__ bool bits_of(S key, int dtype, bool descending, S *bits)
{
    constexpr S SIGN = (S)((S)1 << (8 * sizeof(S) - 1)), ALL = (S) ~(S)0;
    key = descending ? (S)~key : key;
    *bits = dtype == TERN_U8 || dtype == TERN_BOOL ? key : (S)(key ^ SIGN);
    if (sizeof(S) == 1 || !is_float(dtype))
        return true;
    if ((key & SIGN) == 0)
        *bits = (S)~key;
    return key != SIGN && key != ALL;
}

/* The key of element i of x, widened. */
__device__ __forceinline__ uint64_t sort_key(const void *x, int dtype, int64_t i, bool descending,
                                             bool nan_first)
{
    switch (dtype) {
    case TERN_I16:
    case TERN_F16:
    case TERN_BF16:
        return key_of(((const uint16_t *)x)[i], dtype, descending, nan_first);
    case TERN_I32:
    case TERN_F32:
        return key_of(((const uint32_t *)x)[i], dtype, descending, nan_first);
    case TERN_I64:
    case TERN_F64:
        return key_of(((const uint64_t *)x)[i], dtype, descending, nan_first);
    default: /* i8, u8, bool */
        return key_of(((const uint8_t *)x)[i], dtype, descending, nan_first);
    }
}

} // namespace cuda

#endif
