/* What core needs of the tape; defined in autograd/. */
#ifndef TERN_CORE_TAPE_H
#define TERN_CORE_TAPE_H

#include "core/call.h"

/* Must the call be recorded? Grad mode is on, the row is differentiable, an input requires it. */
static inline bool core_tape_wants(const core_call *call)
{
    if (!call->self->grad_mode || call->op->backward == NULL)
        return false;
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] != NULL && call->in[i]->requires_grad)
            return true;
    return false;
}

/* Records a call whose outputs are made: a node with edges, saved tensors and attributes; outputs
 * point to it. False: no memory, recorded; the call's outputs are untouched. */
bool core_tape_record(core_call *call);
/* The same in two halves, for calls that write what was there before: the node is made before the
 * kernel runs (NULL: no memory, recorded), then attached after it or abandoned. */
struct core_node *core_tape_node(core_call *call);
void core_tape_attach(core_call *call, struct core_node *node);
void core_tape_abandon(core_call *call, struct core_node *node);
/* May the call write its preset output in place? An error for leaves and shared storages. */
bool core_tape_check_inplace(core_call *call);

void core_node_release(tern_thread *self, struct core_node *node);
void core_hooks_free(tern_thread *self, struct core_hooks *hooks);

/* Visits the nodes that made a node's inputs, and gives the site of the node itself. */
tern_site_t core_node_inputs(const struct core_node *node,
                             void (*visit)(const struct core_node *input, void *user), void *user);

#endif
