/* Kernels over rows that are compiled once per instruction set (backend_cpu/isa/): softmax, losses,
 * normalisation. Arrays are row-major without gaps; dtype is that of the arrays typed `void`. What is
 * typed `stat` is float, or double where dtype is f64. */
#ifndef TERN_BACKEND_CPU_ROWS_H
#define TERN_BACKEND_CPU_ROWS_H

#include "backend_cpu/cpu.h"

/* Runs a kernel's ranges: at once where there is little to do, else on threads where they pay, with
 * denormals flushed. bytes and flops as for cpu_threads. */
enum { CPU_ROWS_AT_ONCE = 1 << 13 };
static inline void cpu_rows_run(const tern_call *call, int64_t bytes, int64_t flops, int64_t count,
                                int64_t grain, cpu_range_fn run, void *context)
{
    if (bytes < CPU_ROWS_AT_ONCE)
        run(context, 0, count);
    else
        cpu_parallel(cpu_threads(call, bytes, flops), count, grain, run, context);
}

/* How many rows of n elements make a range worth handing out. */
static inline int64_t cpu_rows_grain(int64_t n)
{
    return n >= 4096 ? 1 : 4096 / (n > 0 ? n : 1);
}

/* Is the element type of a float dtype narrower than what it is computed in? */
static inline bool cpu_is_half(int dtype)
{
    return dtype == TERN_F16 || dtype == TERN_BF16;
}

/* ---- softmax: x, y [outer, n, inner] along n -------------------------------------------------- */

typedef struct cpu_softmax_args {
    const void *x; /* gradients: the gradient of y */
    const void *y; /* gradients: the result of forward */
    void *out;
    int64_t n, inner;
    int dtype;
    bool log;
} cpu_softmax_args;

/* For inner == 1: rows begin .. end. */
CPU_ISA_DECLARE(void, cpu_softmax_rows, const cpu_softmax_args *args, int64_t begin, int64_t end);
CPU_ISA_DECLARE(void, cpu_softmax_grad_rows, const cpu_softmax_args *args, int64_t begin,
                int64_t end);
/* For any inner: columns first .. first + width of outer block `block`. */
CPU_ISA_DECLARE(void, cpu_softmax_columns, const cpu_softmax_args *args, int64_t block,
                int64_t first, int64_t width);
CPU_ISA_DECLARE(void, cpu_softmax_grad_columns, const cpu_softmax_args *args, int64_t block,
                int64_t first, int64_t width);

/* ---- cross-entropy: logits [blocks, classes, inner], target and lse [blocks, inner] ------------ */

/* A unit is what one call works on: up to CPU_LOSS_UNIT rows where inner == 1, else as many columns
 * of one block. Targets have been checked. */
enum { CPU_LOSS_UNIT = 64 };

typedef struct cpu_loss_args {
    const void *x;
    const int64_t *target;
    const void *weight; /* stat [classes] or NULL: 1 each */
    void *lse;          /* stat; forward writes it */
    void *out;          /* forward: losses by position, or NULL: only summed; backward: gradient */
    const void *grad;   /* backward: gradients by position, or NULL: `scale` is all of it */
    double scale;
    double smoothing;
    double weight_sum; /* of all classes */
    int64_t blocks, classes, inner;
    int64_t ignore_index;
    int dtype;
} cpu_loss_args;

static inline int64_t cpu_loss_units(const cpu_loss_args *args)
{
    return args->inner == 1 ? (args->blocks + CPU_LOSS_UNIT - 1) / CPU_LOSS_UNIT
                            : args->blocks * ((args->inner + CPU_LOSS_UNIT - 1) / CPU_LOSS_UNIT);
}

/* Writes lse and losses of units begin .. end; gives the sum of the losses. */
CPU_ISA_DECLARE(double, cpu_loss_units_forward, const cpu_loss_args *args, int64_t begin,
                int64_t end);
CPU_ISA_DECLARE(void, cpu_loss_units_backward, const cpu_loss_args *args, int64_t begin,
                int64_t end);

#endif
