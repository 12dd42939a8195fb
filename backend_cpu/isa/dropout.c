/* The arithmetic of dropout, once the uniforms are drawn. */
#include "backend_cpu/rows.h"

#define DROPOUT(T, suffix)                                                                       \
    void CPU_ISA_NAME(cpu_dropout_##suffix)(T * y, uint8_t *mask, const T *x, const float *u,    \
                                            float p, T scale, int64_t n)                         \
    {                                                                                            \
        CPU_INDEPENDENT                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                        \
            const T kept = x[i] * scale;                                                         \
            y[i] = u[i] >= p ? kept : 0;                                                         \
        }                                                                                        \
        CPU_INDEPENDENT                                                                          \
        for (int64_t i = 0; i < n; i++)                                                          \
            mask[i] = u[i] >= p;                                                                 \
    }                                                                                            \
    void CPU_ISA_NAME(cpu_dropout_grad_##suffix)(T * gx, const T *g, const uint8_t *mask,        \
                                                 T scale, int64_t n)                             \
    {                                                                                            \
        CPU_INDEPENDENT                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                        \
            const T kept = g[i] * scale;                                                         \
            gx[i] = mask[i] != 0 ? kept : 0;                                                     \
        }                                                                                        \
    }
DROPOUT(float, f32)
DROPOUT(double, f64)
