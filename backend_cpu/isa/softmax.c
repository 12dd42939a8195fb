/* softmax and log_softmax, forward and gradient. Statistics are f32, or f64 for f64. Memory is read
 * twice and written once where a row leaves the caches, exponentials are made once where it stays. */
#include "backend_cpu/isa/lanes.h"
#include "backend_cpu/rows.h"

enum {
    SOFTMAX_BLOCK = 2048,   /* elements: fits in the first-level cache */
    SOFTMAX_CACHED = 1 << 16 /* elements: a row of x and y fits in the second-level cache */
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
