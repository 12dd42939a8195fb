/* Elements as keys that compare as unsigned numbers. */
#ifndef TERN_BACKEND_CPU_SORT_KEY_H
#define TERN_BACKEND_CPU_SORT_KEY_H

#include "backend_cpu/cpu.h"

/* Of a float's bits, `sign` the highest; infinite: those of infinity. */
static inline uint64_t cpu_float_key(uint64_t bits, uint64_t sign, uint64_t infinite,
                                     bool nan_first)
{
    if ((bits & (sign - 1)) > infinite)
        return nan_first ? 0 : sign | (sign - 1);
    if (bits == sign) /* -0 */
        bits = 0;
    return bits ^ (bits & sign ? sign | (sign - 1) : sign);
}

/* The key of the element of `size` bytes at `at`. NaN is greater than all (nan_first: 0, which no number
 * is). */
static inline uint64_t cpu_sort_key(const char *at, int dtype, int64_t size, bool nan_first)
{
    const uint64_t top = UINT64_C(1) << 63;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    switch (size) {
    case 1:
        memcpy(&u8, at, sizeof u8);
        return dtype == TERN_I8 ? u8 ^ 0x80u : u8;
    case 2:
        memcpy(&u16, at, sizeof u16);
        if (dtype == TERN_I16)
            return u16 ^ 0x8000u;
        return cpu_float_key(u16, 0x8000u, dtype == TERN_F16 ? 0x7C00u : 0x7F80u, nan_first);
    case 4:
        memcpy(&u32, at, sizeof u32);
        return dtype == TERN_I32 ? u32 ^ 0x80000000u
                                 : cpu_float_key(u32, 0x80000000u, 0x7F800000u, nan_first);
    default:
        memcpy(&u64, at, sizeof u64);
        return dtype == TERN_I64 ? u64 ^ top
                                 : cpu_float_key(u64, top, UINT64_C(0x7FF) << 52, nan_first);
    }
}

#endif
