/* Inner loops of reductions. */
#include <math.h>

#include "backend_cpu/reduce.h"

#define SAME(a, b) ((a) == (b))

#define SPREAD 1
#define NOT_A_NUMBER NAN
#define MORE(x, best) ((x) > (best))
#define GREATER(x, best) (((x) > (best)) | (!SAME(x, x) & SAME(best, best)))
#define T float
#define ODD int32_t
#define ACC double
#define NAME(x) x##_f32
#include "backend_cpu/isa/reduce_type.h"
#undef T
#undef ODD
#undef NAME

#define T double
#define ODD int64_t
#define NAME(x) x##_f64
#include "backend_cpu/isa/reduce_type.h"
#undef T
#undef ACC
#undef NAME
#undef GREATER
#undef MORE
#undef NOT_A_NUMBER
#undef SPREAD

/* Sums wrap, so they are unsigned; the order of elements is that of int64_t. */
#define SPREAD 0
#define NOT_A_NUMBER 0
#define MORE(x, best) ((int64_t)(x) > (int64_t)(best))
#define GREATER MORE
#define T uint64_t
#define ACC uint64_t
#define NAME(x) x##_i64
#include "backend_cpu/isa/reduce_type.h"

#define LOOPS(type, spread_loop, spread_rows_loop)                                            \
    {                                                                                         \
        sum_##type, spread_loop, amax_##type, find_##type, sum_rows_##type, spread_rows_loop, \
            amax_rows_##type, argmax_rows_##type                                              \
    }
const cpu_reduce_loops CPU_ISA_NAME(cpu_reductions)[CPU_REDUCE_TYPES] = {
    [CPU_REDUCE_F32] = LOOPS(f32, spread_f32, spread_rows_f32),
    [CPU_REDUCE_F64] = LOOPS(f64, spread_f64, spread_rows_f64),
    [CPU_REDUCE_I64] = LOOPS(i64, NULL, NULL),
};
