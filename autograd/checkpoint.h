/* Checkpoints as the tape sees them. See tern/checkpoint.h.
 *
 * While a thread runs a checkpointed function forward, each tensor that a node would save becomes a
 * numbered slot of the checkpoint: its geometry is noted, the tensor let go. Running the function again
 * fills the slots, by the same numbers. A node of such a checkpoint is filled before its backward
 * function runs and emptied after it.
 *
 * The inputs of a checkpoint inside another are slots of the outer one. */
#ifndef TERN_AUTOGRAD_CHECKPOINT_H
#define TERN_AUTOGRAD_CHECKPOINT_H

#include "autograd/node.h"
#include "tern/checkpoint.h"

/* What the thread is in; on the C stack. */
struct core_checkpoint_mode {
    struct core_checkpoint *checkpoint;
    bool again;    /* runs a second time: slots are filled */
    bool stopped;  /* all slots are filled, the pending error says so */
    uint32_t next; /* number of the next saved tensor */
};

/* Takes t's number in the running checkpoint. Forward: notes its geometry. Again: puts it into the slot.
 * False after an error. */
bool autograd_checkpoint_pack(tern_thread *self, tern_tensor *t, uint32_t *out_slot);
/* The call that is being recorded will write what was packed last: it counts as one version later. */
void autograd_checkpoint_ahead(tern_thread *self);
/* The node's saved tensors are there (computed again where needed), or an error is pending. `epoch`: of
 * the running backward, in which a checkpoint is computed once. */
bool autograd_checkpoint_fill(tern_thread *self, core_node *node, uint64_t epoch);
void autograd_checkpoint_empty(tern_thread *self, core_node *node);
/* The node has saved something in the running checkpoint; it leaves it again by
 * autograd_checkpoint_leave (node.h). */
void autograd_checkpoint_join(tern_thread *self, core_node *node);

#endif
