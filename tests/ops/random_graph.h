/* Random graphs of ops: drawn from core/ops.def by a seed, run on any device and dtype, and written as
 * text for other programs (bench/peers/graphs.py runs them in PyTorch). */
#ifndef TESTS_OPS_RANDOM_GRAPH_H
#define TESTS_OPS_RANDOM_GRAPH_H

#include <stdio.h>

#include "tests/support/value.h"

enum { GRAPH_LEAVES = 4, GRAPH_STEPS = 16, GRAPH_TENSORS = GRAPH_LEAVES + GRAPH_STEPS };

typedef enum graph_kind {
    GRAPH_ROW1, /* rows of one or two elementwise operands */
    GRAPH_ROW2,
    GRAPH_REDUCE, /* n: dimension, keepdim */
    GRAPH_ALONG,  /* softmax and the like; n: dimension */
    GRAPH_SCAN,   /* n: dimension */
    GRAPH_PART,   /* tril, triu; n: diagonal */
    GRAPH_SWAP,   /* transpose; n: two dimensions */
    GRAPH_SLICE,  /* n: dimension, start, end, step */
    GRAPH_FLAT,   /* all dimensions one */
    GRAPH_GROW,   /* unsqueeze; n: dimension */
    GRAPH_MATMUL,
    GRAPH_INNER, /* einsum "...i,...i->..." */
    GRAPH_CAT,   /* n: dimension */
    GRAPH_WHERE, /* a > b ? c : a */
    GRAPH_WRITE, /* of a copy, n[1]..n[2] of dimension n[0] times b, in place */
    GRAPH_NORM,  /* layer_norm */
    GRAPH_KINDS
} graph_kind;

typedef struct graph_step {
    graph_kind kind;
    int id;      /* the row, where the kind is about one */
    int from[3]; /* tensors: leaves first, then results of steps */
    int64_t n[4];
} graph_step;

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
/* The name of a step: its row's, or its kind's. */
const char *graph_step_name(const graph_step *s);
/* "graph SEED", leaves, steps, then "value"s and "gradient"s as given; one line each. */
void graph_write(FILE *file, const graph *g, tern_tensor *const *tensors,
                 tern_tensor *const *grads);

#endif
