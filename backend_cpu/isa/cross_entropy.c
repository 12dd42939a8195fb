/* Cross-entropy from logits: the log of the sum of exponentials and the loss in one pass, the
 * gradient in another. Sums are f32, or f64 for f64; losses add up in double. */
#include "backend_cpu/isa/lanes.h"
#include "backend_cpu/rows.h"

enum { LOSS_BLOCK = 2048 }; /* elements of a row: fit in the first-level cache */

#define KIND_FILE "backend_cpu/isa/cross_entropy.inc"
#include "backend_cpu/isa/kinds.inc"

double CPU_ISA_NAME(cpu_loss_units_forward)(const cpu_loss_args *args, int64_t begin, int64_t end)
{
    double sum = 0;
    KIND_CALL(args->dtype, loss_forward, args, begin, end, &sum);
    return sum;
}

void CPU_ISA_NAME(cpu_loss_units_backward)(const cpu_loss_args *args, int64_t begin, int64_t end)
{
    KIND_CALL(args->dtype, loss_backward, args, begin, end);
}
