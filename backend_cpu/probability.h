/* Operands that have to be probabilities: looked at as a loop comes to them. */
#ifndef TERN_BACKEND_CPU_PROBABILITY_H
#define TERN_BACKEND_CPU_PROBABILITY_H

#include "backend_cpu/elementwise.h"

typedef struct cpu_probable {
    cpu_loop loop; /* what is computed */
    const void *numbers;
    int64_t size; /* 4: f32, 8: f64 */
    int *outside; /* set where an element of either operand is not in [0, 1] */
} cpu_probable;

/* A loop of two operands, neither a scalar, whose `numbers` are a cpu_probable. Computes a block and
 * looks at it while it is near: the result of a call that fails is nobody's. */
void cpu_probable_loop(void *out, const void *a, const void *b, const void *c, int64_t n,
                       int scalars, const void *numbers);

/* Is the call one of a few elements without gaps, f32 or f64, all of them probabilities? Then its loop needs
 * not look. */
bool cpu_is_near_and_probable(const tern_call *call);

/* Is an element of f32 (size 4) or f64 (8) not in [0, 1]? */
CPU_ISA_DECLARE(bool, cpu_has_improbable, const void *data, int64_t size, int64_t n);

/* The error that says which element of the inputs (x, target) is outside. */
tern_status_t cpu_fail_improbable(const tern_call *call);

#endif
