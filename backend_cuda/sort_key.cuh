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

/* Of a float's bits, `sign` the highest; infinite: those of infinity. */
__device__ __forceinline__ uint64_t float_key(uint64_t bits, uint64_t sign, uint64_t infinite,
                                              bool nan_first)
{
    if ((bits & (sign - 1)) > infinite)
        return nan_first ? 0 : sign | (sign - 1);
    if (bits == sign) /* -0 */
        bits = 0;
    return (bits & sign) != 0 ? ~bits & (sign | (sign - 1)) : bits | sign;
}

/* Element i of x. NaN is greater than all (nan_first: 0, which no number is). */
__device__ __forceinline__ uint64_t sort_key(const void *x, int dtype, int64_t i, bool descending,
                                             bool nan_first)
{
    uint64_t key, all = 0xFF;
    switch (dtype) {
    case TERN_I16:
        key = ((const uint16_t *)x)[i] ^ 0x8000u;
        all = 0xFFFF;
        break;
    case TERN_F16:
    case TERN_BF16:
        key = float_key(((const uint16_t *)x)[i], 0x8000u, dtype == TERN_F16 ? 0x7C00u : 0x7F80u,
                        nan_first);
        all = 0xFFFF;
        break;
    case TERN_I32:
        key = ((const uint32_t *)x)[i] ^ 0x80000000u;
        all = 0xFFFFFFFFu;
        break;
    case TERN_F32:
        key = float_key(((const uint32_t *)x)[i], 0x80000000u, 0x7F800000u, nan_first);
        all = 0xFFFFFFFFu;
        break;
    case TERN_I64:
        key = ((const uint64_t *)x)[i] ^ (uint64_t)1 << 63;
        all = ~(uint64_t)0;
        break;
    case TERN_F64:
        key = float_key(((const uint64_t *)x)[i], (uint64_t)1 << 63, (uint64_t)0x7FF << 52,
                        nan_first);
        all = ~(uint64_t)0;
        break;
    default: /* i8, u8, bool */
        key = ((const uint8_t *)x)[i] ^ (dtype == TERN_I8 ? 0x80u : 0u);
    }
    return descending ? key ^ all : key;
}

} // namespace cuda

#endif
