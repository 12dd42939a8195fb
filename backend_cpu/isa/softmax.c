/* softmax and log_softmax, forward and gradient. Statistics are f32, or f64 for f64. Rows up to
 * SOFTMAX_PIPED elements are read from memory once, and their exponentials are made once. */
#include "backend_cpu/isa/lanes_exp.h"
#include "backend_cpu/rows.h"

enum {
    SOFTMAX_TOGETHER = 32,    /* short rows whose logarithms are taken together */
    SOFTMAX_DIRECT = 128,     /* elements, from which log_softmax_piped is faster */
    SOFTMAX_PIPED = 2048,     /* elements: two rows of exponentials fit in the first-level cache */
    SOFTMAX_CACHED = 1 << 16, /* elements: x and y of a row fit in the second-level cache */
    SOFTMAX_BLOCK = 2048, /* elements of a longer row that are read twice while they are there */
    SOFTMAX_PART = 64     /* elements of a column that are summed by themselves */
};

#define KIND_FILE "backend_cpu/isa/softmax.inc"
#include "backend_cpu/isa/kinds.inc"

void CPU_ISA_NAME(cpu_softmax_rows)(const cpu_softmax_args *args, int64_t begin, int64_t end)
{
    KIND_CALL(args->dtype, softmax_rows, args, begin, end);
}

void CPU_ISA_NAME(cpu_softmax_grad_rows)(const cpu_softmax_args *args, int64_t begin, int64_t end)
{
    KIND_CALL(args->dtype, softmax_grad_rows, args, begin, end);
}

void CPU_ISA_NAME(cpu_softmax_columns)(const cpu_softmax_args *args, int64_t block, int64_t first,
                                       int64_t width)
{
    KIND_CALL(args->dtype, softmax_columns, args, block, first, width);
}

void CPU_ISA_NAME(cpu_softmax_grad_columns)(const cpu_softmax_args *args, int64_t block,
                                            int64_t first, int64_t width)
{
    KIND_CALL(args->dtype, softmax_grad_columns, args, block, first, width);
}
