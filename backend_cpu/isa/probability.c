/* See probability.h. */
#include "backend_cpu/probability.h"

#include <string.h>

/* Bits of numbers in [0, 1] are those of 0 to 1, in order: everything else, NaN too, is above, and the
 * largest tells. So is -0, but -0 + 0 is 0. */
#define SEARCH(name, T, bits, one)                \
    static bool name(const void *data, int64_t n) \
    {                                             \
        const T *x = data;                        \
        bits top = 0;                             \
        for (int64_t i = 0; i < n; i++) {         \
            const T positive = x[i] + 0;          \
            bits b;                               \
            memcpy(&b, &positive, sizeof b);      \
            top = b > top ? b : top;              \
        }                                         \
        return top > (one);                       \
    }
SEARCH(has_outside_f32, float, uint32_t, 0x3F800000u)
SEARCH(has_outside_f64, double, uint64_t, 0x3FF0000000000000u)

bool CPU_ISA_NAME(cpu_has_improbable)(const void *data, int64_t size, int64_t n)
{
    return (size == 4 ? has_outside_f32 : has_outside_f64)(data, n);
}
