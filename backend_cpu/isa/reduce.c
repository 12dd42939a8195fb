/* Inner loops of reductions. */
#include <math.h>

#include "backend_cpu/isa/lanes.h"
#include "backend_cpu/reduce.h"

/* As reduce_type.h has it, in vectors: compilers split the sums of four into pieces of all sizes. */
static void sum_fours_f32(double *lanes, const float *x, int64_t n)
{
    enum { VECTORS = 16 / TILE_F32_LANES, LINE = 16 };
    f64_lanes low[VECTORS], high[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        low[v] = high[v] = f64_set(0);
    for (int64_t i = 0; i < n; i += 4 * LINE) {
        TILE_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            const float *p = x + i + v * TILE_F32_LANES;
            const f32_lanes early = f32_load(p + LINE) + f32_load(p);
            const f32_lanes four = (f32_load(p + 3 * LINE) + f32_load(p + 2 * LINE)) + early;
            low[v] += f32_lanes_widen_low(four);
            high[v] += f32_lanes_widen_high(four);
        }
        TILE_UNROLL
        for (int line = 0; line < 4; line++)
            lanes_ahead(x + i + line * LINE);
    }
    for (int v = 0; v < VECTORS; v++) {
        f64_store(lanes + v * TILE_F32_LANES, low[v]);
        f64_store(lanes + v * TILE_F32_LANES + TILE_F64_LANES, high[v]);
    }
}

#define SAME(a, b) ((a) == (b))

#define SPREAD 1
#define NOT_A_NUMBER NAN
#define LESS(a, b) ((a) < (b))
#define T float
#define ODD int32_t
#define ACC double
#define NAME(x) x##_f32
#define OWN_FOURS 1
#include "backend_cpu/isa/reduce_type.h"
#undef T
#undef ODD
#undef NAME
#undef OWN_FOURS
#define OWN_FOURS 0

#define T double
#define ODD int64_t
#define NAME(x) x##_f64
#include "backend_cpu/isa/reduce_type.h"
#undef T
#undef ACC
#undef NAME
#undef LESS
#undef NOT_A_NUMBER
#undef SPREAD

/* Sums wrap, so they are unsigned; the order of elements is that of int64_t. */
#define SPREAD 0
#define NOT_A_NUMBER 0
#define LESS(a, b) ((int64_t)(a) < (int64_t)(b))
#define T uint64_t
#define ACC uint64_t
#define NAME(x) x##_i64
#include "backend_cpu/isa/reduce_type.h"

/* ---- what a norm sums ------------------------------------------------------------------------- */

#define MAPS(T, type, absolute, power)                           \
    static void absolute_##type(void *data, int64_t n, double p) \
    {                                                            \
        T *x = data;                                             \
        (void)p;                                                 \
        for (int64_t i = 0; i < n; i++)                          \
            x[i] = absolute(x[i]);                               \
    }                                                            \
    static void is_there_##type(void *data, int64_t n, double p) \
    {                                                            \
        T *x = data;                                             \
        (void)p;                                                 \
        for (int64_t i = 0; i < n; i++)                          \
            x[i] = (T)(x[i] != 0);                               \
    }                                                            \
    static void power_##type(void *data, int64_t n, double p)    \
    {                                                            \
        T *x = data;                                             \
        for (int64_t i = 0; i < n; i++)                          \
            x[i] = power(absolute(x[i]), (T)p);                  \
    }
MAPS(float, f32, fabsf, powf)
MAPS(double, f64, fabs, pow)

#define EXTREME(type, order)                                                           \
    {                                                                                  \
        best_##order##_##type, best_rows_##order##_##type, place_rows_##order##_##type \
    }
#define LOOPS(type, spread_loop, spread_rows_loop, ...)                                     \
    {                                                                                       \
        .sum = sum_##type, .spread = spread_loop, .prod = prod_##type, .find = find_##type, \
        .sum_rows = sum_rows_##type, .spread_rows = spread_rows_loop,                       \
        .prod_rows = prod_rows_##type, .greatest = EXTREME(type, greatest),                 \
        .least = EXTREME(type, least), .map = {                                             \
            __VA_ARGS__                                                                     \
        }                                                                                   \
    }
#define MAP_TABLE(type) absolute_##type, is_there_##type, power_##type
const cpu_reduce_loops CPU_ISA_NAME(cpu_reductions)[CPU_REDUCE_TYPES] = {
    [CPU_REDUCE_F32] = LOOPS(f32, spread_f32, spread_rows_f32, MAP_TABLE(f32)),
    [CPU_REDUCE_F64] = LOOPS(f64, spread_f64, spread_rows_f64, MAP_TABLE(f64)),
    [CPU_REDUCE_I64] = LOOPS(i64, NULL, NULL, NULL),
};
