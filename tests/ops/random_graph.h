/* Random graphs of ops: drawn from core/ops.def by a seed, run on any device and dtype, and written as
 * text for other programs (bench/peers/graphs.py runs them in PyTorch). */
#ifndef TESTS_OPS_RANDOM_GRAPH_H
#define TESTS_OPS_RANDOM_GRAPH_H

#include <stdio.h>

#include "tests/ops/random_steps.h"
#include "tests/support/value.h"

enum { GRAPH_LEAVES = 4, GRAPH_STEPS = 16, GRAPH_TENSORS = GRAPH_LEAVES + GRAPH_STEPS };

typedef struct graph {
    uint64_t seed;
    value leaves[GRAPH_LEAVES];
    graph_step steps[GRAPH_STEPS];
    int count;
} graph;

/* Steps that fail, overflow, have no finite gradient or jump close to their operands are drawn again. */
graph graph_random(uint64_t seed);
void graph_free(graph *g);
/* All tensors of the graph, and the gradients of the leaves of the sum of what every tensor's mean is
 * (NULL: depends on no such leaf). False after an error, which is pending. */
bool graph_run(const graph *g, tern_dev_t dev, tern_dtype_t dtype, tern_tensor **tensors,
               tern_tensor **grads);
/* Step k of a graph on its own, whose tensors are given (f64, CPU): its operands are rounded to `dtype`
 * first. What it gives on dev in that dtype, and on the CPU in f64; gradients of the operands of the sum of
 * it. NULL: not differentiable. False: the step jumps or has a kink
 * close to the rounded operands, or makes errors larger. */
typedef struct graph_pair {
    tern_tensor *value[2], *grads[2][3]; /* here, in f64 */
} graph_pair;
bool graph_run_step(const graph *g, int k, tern_tensor *const *tensors, tern_dev_t dev,
                    tern_dtype_t dtype, graph_pair *out);
/* "graph SEED", leaves, steps, then "value"s and "gradient"s as given; one line each. */
void graph_write(FILE *file, const graph *g, tern_tensor *const *tensors,
                 tern_tensor *const *grads);

#endif
