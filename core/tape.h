/* What core needs of the tape; defined in autograd/. */
#ifndef TERN_CORE_TAPE_H
#define TERN_CORE_TAPE_H

#include "core/call.h"

/* Views find out late that their memory was written through another tensor: then their history is made
 * anew, from that of the tensor which owns the memory. False, with the error recorded, without memory, and for what an
 * op of one's own returned: of that the owner's history says nothing. */
bool core_tape_renew(tern_thread *self, tern_site_t site, tern_tensor *view);
static inline bool core_tape_refresh(tern_thread *self, tern_site_t site, tern_tensor *t)
{
    return __builtin_expect(t->base == NULL, 1) || t->base->rebases == t->rebases ||
           core_tape_renew(self, site, t);
}

/* Must the call be recorded? Grad mode is on, the row is differentiable, an input requires it. The check of
 * its inputs has refreshed them. */
static inline bool core_tape_wants(const core_call *call)
{
    if (!call->self->grad_mode || call->op->backward == NULL)
        return false;
    bool wants = false;
    for (int i = 0; i < call->n_in; i++)
        wants |= call->in[i] != NULL && call->in[i]->requires_grad;
    return wants;
}

/* Records a call whose outputs are made: a node with edges, saved tensors and attributes; outputs
 * point to it. False: no memory, recorded; the call's outputs are untouched. */
bool core_tape_record(core_call *call);
/* The same in two halves, for calls that write what was there before: nodes are made before the kernel
 * runs (false: no memory, recorded), then attached after it or abandoned. */
typedef struct core_tape_write {
    struct core_node *node; /* of the call; NULL: it is not recorded */
    struct core_node
        *written; /* of all of the memory, of which the call writes a part; NULL: none */
} core_tape_write;
bool core_tape_write_begin(core_call *call, core_tape_write *write);
void core_tape_write_end(core_call *call, core_tape_write *write, bool done);
/* May the call write its preset output in place? An error for leaves that require a gradient, their
 * views, views made in no_grad, and what an op of one's own returned of its inputs. */
bool core_tape_check_inplace(core_call *call);

/* Of a form that writes t and reads what was there before through another record than its own: t, or, where t is a view
 * that has hooks, what is there as a part of the owner, past them; with the caller's reference then. NULL: no memory,
 * recorded. */
tern_tensor *core_tape_unhooked(tern_thread *self, tern_site_t site, tern_tensor *t);

/* In backward: what was saved of input i has been used, and may go before what comes next is made. */
void core_saved_done(tern_op_ctx *ctx, int i);

void core_node_release(tern_thread *self, struct core_node *node);
void core_hooks_free(tern_thread *self, struct core_hooks *hooks);

/* Visits the nodes that made a node's inputs, and gives the site of the node itself. */
tern_site_t core_node_inputs(const struct core_node *node,
                             void (*visit)(const struct core_node *input, void *user), void *user);

#endif
