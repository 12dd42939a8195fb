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

/* A loop of two operands, neither a scalar, whose `numbers` are a cpu_probable. Looks at a block and
 * computes it while it is near. */
void cpu_probable_loop(void *out, const void *a, const void *b, const void *c, int64_t n,
                       int scalars, const void *numbers);

/* The error that says which element of the inputs (x, target) is outside. */
tern_status_t cpu_fail_improbable(const tern_call *call);

#endif
