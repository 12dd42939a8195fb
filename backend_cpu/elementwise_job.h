/* Elementwise work on any layout, of half types, on several threads: a loop and its operands.
 *
 * Operands in one layout are cut into linear ranges; other ones are walked, row by row where rows are
 * without gaps, else gathered into blocks on the stack. Half types are widened to f32 block by block. An
 * element's result depends on its operands alone, so neither threads nor layout change bits. */
#ifndef TERN_BACKEND_CPU_ELEMENTWISE_JOB_H
#define TERN_BACKEND_CPU_ELEMENTWISE_JOB_H

#include "backend_cpu/elementwise.h"
#include "backend_cpu/strided.h"

typedef struct cpu_job {
    /* the caller's */
    cpu_loop loop;
    cpu_loop stream_loop; /* NULL: by way of a buffer */
    const void *numbers;
    int inputs;
    int expand;              /* bit i: the loop takes no scalar as operand i */
    bool half;               /* some input is: blocks go through buffers */
    cpu_convert_fn widen[3]; /* half inputs: to f32 */
    cpu_convert_fn narrow;   /* half output: from f32 */
    /* set while it runs */
    int64_t size[4];      /* bytes per element in memory: output, inputs */
    int64_t loop_size[4]; /* and as the loop sees it */
    bool stream;          /* write past the caches */
    int scalars;          /* of what the loop gets: bit i: operand i is one element */
    cpu_walk walk;
} cpu_job;

/* The call's output of its first `inputs` inputs; an element is worth `flops` (cpu_threads). */
tern_status_t cpu_job_run(const tern_call *call, cpu_job *j, int64_t flops);

#endif
