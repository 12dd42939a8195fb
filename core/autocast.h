/* What core needs of autocast; defined in amp/. See docs/design/amp.md. */
#ifndef TERN_CORE_AUTOCAST_H
#define TERN_CORE_AUTOCAST_H

#include "core/call.h"

/* In a region: casts the record's inputs as its row says for the device it runs on (call->dev is set).
 * The casts are recorded copies that the record owns. False after recording an error. */
bool core_autocast_inputs(core_call *call);

/* Must the record be looked at? A region is on and the call makes its outputs itself: in-place calls
 * and calls into a given tensor run in the dtypes they get. */
static inline bool core_autocast_wants(const core_call *call)
{
    return __builtin_expect(call->self->autocast != 0, 0) && !call->preset;
}

/* Outside of a record: does a region make an f32 of this input of the op, whatever the others are? */
bool core_autocast_widens(const tern_thread *self, const tern_op *op, const tern_tensor *t);

/* cat and stack, whose tensors are not all in a record: false, with the error recorded, for dtypes that
 * do not meet in the region. */
bool core_autocast_list(core_call *call, tern_tensor *const *tensors, int64_t count);

/* The thread's setting as one word, for what replays it in backward. */
uint32_t core_autocast_state(const tern_thread *self);
/* A region with the setting of another time: returns the one before, which ends it. Cached casts go with the
 * outermost region, as ever. */
uint32_t core_autocast_replay_begin(tern_thread *self, uint32_t state);
void core_autocast_replay_end(tern_thread *self, uint32_t before);

/* Back to how a thread starts: no region, no cached casts. For the end of a thread and of a program. */
void core_autocast_reset(tern_thread *self);

#endif
