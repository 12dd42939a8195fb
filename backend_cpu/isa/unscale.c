/* Inner loops of unscaling: one pass that tests and multiplies. */
#include "backend_cpu/unscale.h"

#include <string.h>

/* The bits of a number that is not finite have an exponent of ones: their largest value tells. */
#define UNSCALE(name, T, bits, exponent)                                           \
    static bool name(void *gradient, int64_t n, double factor)                     \
    {                                                                              \
        T *g = gradient;                                                           \
        const T by = (T)factor;                                                    \
        bits top = 0;                                                              \
        for (int64_t i = 0; i < n; i++) {                                          \
            bits b;                                                                \
            memcpy(&b, &g[i], sizeof b);                                           \
            b &= exponent;                                                         \
            top = b > top ? b : top;                                               \
            g[i] *= by;                                                            \
        }                                                                          \
        return top == exponent;                                                    \
    }                                                                              \
    static bool name##_test(const void *gradient, int64_t n)                       \
    {                                                                              \
        const T *g = gradient;                                                     \
        bits top = 0;                                                              \
        for (int64_t i = 0; i < n; i++) {                                          \
            bits b;                                                                \
            memcpy(&b, &g[i], sizeof b);                                           \
            b &= exponent;                                                         \
            top = b > top ? b : top;                                               \
        }                                                                          \
        return top == exponent;                                                    \
    }                                                                              \
    static bool name##_any(void *gradient, int64_t n, double factor)               \
    {                                                                              \
        return factor == 1 ? name##_test(gradient, n) : name(gradient, n, factor); \
    }
UNSCALE(unscale_f32, float, uint32_t, 0x7F800000u)
UNSCALE(unscale_f64, double, uint64_t, 0x7FF0000000000000u)

const cpu_unscale_fn CPU_ISA_NAME(cpu_unscales)[CPU_UNSCALE_TYPES] = { unscale_f32_any,
                                                                       unscale_f64_any };
