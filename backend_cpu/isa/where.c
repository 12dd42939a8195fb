/* where: bits are moved, so one loop per element size serves all dtypes. */
#include "backend_cpu/elementwise.h"

#define WHERE(T)                                                                             \
    static void where_##T(void *out, const void *condition, const void *yes, const void *no, \
                          int64_t n, int scalars, const void *numbers)                       \
    {                                                                                        \
        T *o = out;                                                                          \
        const uint8_t *c = condition;                                                        \
        const T *x = yes, *y = no;                                                           \
        const T first = *x, second = *y;                                                     \
        (void)numbers;                                                                       \
        if (scalars == 0) {                                                                  \
            CPU_INDEPENDENT                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                \
                const T a = x[i], b = y[i];                                                  \
                o[i] = c[i] ? a : b;                                                         \
            }                                                                                \
        } else if (scalars == 2) {                                                           \
            CPU_INDEPENDENT                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                \
                const T b = y[i];                                                            \
                o[i] = c[i] ? first : b;                                                     \
            }                                                                                \
        } else if (scalars == 4) {                                                           \
            CPU_INDEPENDENT                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                \
                const T a = x[i];                                                            \
                o[i] = c[i] ? a : second;                                                    \
            }                                                                                \
        } else {                                                                             \
            CPU_INDEPENDENT                                                                  \
            for (int64_t i = 0; i < n; i++)                                                  \
                o[i] = c[i] ? first : second;                                                \
        }                                                                                    \
    }
WHERE(uint8_t)
WHERE(uint16_t)
WHERE(uint32_t)
WHERE(uint64_t)

const cpu_loop CPU_ISA_NAME(cpu_loops_where)[4] = { where_uint8_t, where_uint16_t, where_uint32_t,
                                                    where_uint64_t };
