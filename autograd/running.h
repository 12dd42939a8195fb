/* The backward that runs, as the engine and what leaves receive share it. */
#ifndef TERN_AUTOGRAD_RUNNING_H
#define TERN_AUTOGRAD_RUNNING_H

#include "autograd/engine.h"

/* What a backward inside another found in nodes and in hooks of leaves (nested.c). */
typedef struct kept {
    struct kept_node *nodes;
    struct kept_hooks *hooks;
    int64_t n_nodes, node_capacity, n_hooks, hooks_capacity;
} kept;

typedef struct backward_engine {
    tern_thread *self;
    uint64_t epoch;
    const backward_plan *plan;
    int64_t mark; /* of the running node's scope */
    core_node *ready;
    tern_op_ctx ctx; /* of the running node */
    backward_streams streams;
    struct backward_engine *outer; /* in which this one runs; NULL: none */
    kept kept;                     /* inside another only */
} engine;

/* Nearly every backward is plain: one stream, not inside another, no gradients captured, none recorded. What runs a node is
 * compiled twice, so that there it asks none of this of each node. */
#define PER_KIND __attribute__((always_inline)) static inline

/* Does only the scope of the running node hold it? */
static inline bool in_node_scope(const engine *e, const tern_tensor *t)
{
    return t->scope_slot >= e->mark && t->scope_slot < e->self->scope.top &&
           e->self->scope.slots[t->scope_slot] == (uintptr_t)t;
}

/* One reference to a gradient: the running scope's or the running node's own where that is enough. */
PER_KIND tern_tensor *take(engine *e, tern_tensor *grad)
{
    core_node *node = e->ctx.node;
    if (node->grad[0] == grad && autograd_exclusive(grad)) {
        node->grad[0] = NULL;
        return grad;
    }
    if (!in_node_scope(e, grad))
        return core_retain(grad);
    e->self->scope.slots[grad->scope_slot] = 0;
    grad->scope_slot = -1;
    return grad;
}

/* slot += grad, where slot holds one already and is owned by the caller. */
bool autograd_add_to(engine *e, tern_tensor **slot, tern_tensor *grad);

static inline bool accumulate(engine *e, tern_tensor **slot, tern_tensor *grad)
{
    if (*slot != NULL)
        return autograd_add_to(e, slot, grad);
    *slot = take(e, grad);
    return true;
}

/* ---- what users return (shapes.c) ----------------------------------------------------------------- */

/* Of an op of a user's own: gradients are summed to the shapes of inputs that can be expanded to theirs and
 * become of the inputs' dtypes; an error is recorded of other shapes and devices. */
bool autograd_settle_own(const engine *e, const core_node *node, tern_tensor **grad_in);
/* Records the error of a gradient that does not fit; false. node: NULL where a leaf is the root. */
bool autograd_misfit(const engine *e, const core_node *node, const tern_view *grad,
                     const char *whose, const char *what, const tern_view *wanted);

/* ---- leaves (leaf_gradient.c) ------------------------------------------------------------------- */

/* What the hooks of output `output` make of a gradient; t: the leaf, or NULL for a node's own aliases. */
tern_tensor *autograd_run_hooks(core_hook *first, int output, tern_tensor *t, tern_tensor *grad);
/* A delivery for a leaf. */
bool autograd_leaf_takes(engine *e, const core_node *node, tern_tensor *leaf, tern_tensor *grad);
/* Of leaves with hooks: what they wait for is counted, and counted down; a failure lets their sum go. */
bool autograd_leaf_count(engine *e, struct core_hooks *hooks);
bool autograd_leaf_count_down(engine *e, const core_node *node, tern_tensor *leaf);
void autograd_leaf_abandon(engine *e, struct core_hooks *hooks);

/* ---- inside another backward (nested.c) --------------------------------------------------------- */

/* Remembers what other backwards have in it, which is not there until all is put back. False without memory,
 * recorded. */
bool autograd_keep_node(engine *e, core_node *node);
bool autograd_keep_hooks(engine *e, struct core_hooks *hooks);
void autograd_put_back(engine *e);
/* Is it the node of an outer backward from which this one was called? That still uses what is saved. */
bool autograd_runs_outside(const engine *e, const core_node *node);

#endif
