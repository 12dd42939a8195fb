/* The engine's own interface: what a backward is asked to do. */
#ifndef TERN_AUTOGRAD_ENGINE_H
#define TERN_AUTOGRAD_ENGINE_H

#include "autograd/streams.h"

/* tern_grad: gradients are collected for these tensors instead of being added to leaves. */
typedef struct capture {
    tern_tensor *tensor;
    tern_tensor *grad; /* owned */
} capture;

typedef struct backward_plan {
    bool retain_graph;
    bool create_graph;
    capture *captures; /* NULL: leaves receive */
    int64_t n_captures;
} backward_plan;

/* Runs backward from output `output` of root with the given gradient, whose reference it takes over:
 * one that nobody else holds may become a leaf's. False after an error; leaves
 * keep what they got, everything else is let go. */
bool autograd_run(tern_thread *self, core_node *root, int output, tern_tensor *gradient,
                  const backward_plan *plan);

/* The same for a root that is a leaf itself; the gradient stays the caller's. */
bool autograd_run_leaf(tern_thread *self, tern_tensor *leaf, tern_tensor *gradient,
                       const backward_plan *plan);

bool autograd_captures_node(const backward_plan *plan, const core_node *node);
bool autograd_captures_leaf(const backward_plan *plan, const tern_tensor *leaf);
bool autograd_capture_leaf(const backward_plan *plan, tern_tensor *leaf, tern_tensor *grad);
/* Takes what has collected in a node's outputs that are asked for. */
bool autograd_capture_node(const backward_plan *plan, core_node *node);

/* Anomaly mode: an error that names the node's op and site where a gradient that it made has NaN. */
bool autograd_check_anomaly(tern_thread *self, const core_node *node, tern_tensor *const *grad_in);

#endif
