/* Public functions made of other ops.
 *
 * Between begin and end, calls carry the caller's site and errors its name, results belong to a scope of the frame (also
 * in owned mode), and only the one result leaves it:
 *
 *     core_frame frame;
 *     core_compose_begin(&frame, TERN_OP_mse_loss, site, 2, (tern_tensor *[]){ x, y });
 *     tern_tensor *loss = core_compose_check(&frame) ? mse(x, y) : NULL;
 *     return core_compose_end(&frame, loss);
 *
 * frame.call is a record of the composed row, for core_fail and the other checks of rules. */
#ifndef TERN_CORE_COMPOSE_H
#define TERN_CORE_COMPOSE_H

#include "core/call.h"

typedef struct core_frame {
    core_call call; /* self, op, site, inputs; it is never dispatched */
    tern_site_t outer_site;
    int64_t mark;
    const char *outer_name;
    bool owned_mode;
} core_frame;

/* More than CORE_MAX_INPUTS inputs are cut: they are kept for messages only. */
void core_compose_begin(core_frame *frame, tern_op_id id, tern_site_t site, int64_t n_in,
                        tern_tensor *const *in);
/* False when an error is pending, or after recording one: an input is NULL, devices differ. */
bool core_compose_check(core_frame *frame);
/* In an autocast region: call.in[] become what the composed row asks for, for functions that compare
 * dtypes themselves. What was cast lives until the end of the frame. */
bool core_compose_cast(core_frame *frame);
/* Closes the frame and hands out `result`: a tensor of the frame's scope, an input, or NULL. A view of what was made
 * in the frame becomes a tensor of its own. */
tern_tensor *core_compose_end(core_frame *frame, tern_tensor *result);
/* The same with one or two more results, tensors of the frame's scope: `out[i]` gets more[i], or NULL without a
 * result; NULL in `out`: nobody asks for it. Places may be the same: the last one stands there then. */
tern_tensor *core_compose_end_with(core_frame *frame, tern_tensor *result, int n,
                                   tern_tensor *const *more, tern_tensor **const *out);

/* In place: what is read of t, which is written afterwards; a tensor of the frame's, or t. NULL: no memory, recorded. */
tern_tensor *core_compose_before(core_frame *frame, tern_tensor *t);

/* Makes a view of what only its maker has, and lets go, a tensor of its own (PyTorch's _unsafe_view): memory and version
 * stay those of what was saved of it. False: no memory, recorded. */
bool core_own_result(tern_thread *self, tern_tensor *t);

/* t's elements in row-major order as a tensor of its own of another shape; never a view, as tern_reshape may be. */
tern_tensor *core_reshape_copy(tern_tensor *t, tern_shape_t shape);

/* A call that returns its own argument: in owned mode that is one reference more for the caller. */
static inline tern_tensor *core_same(tern_thread *self, tern_tensor *t)
{
    return self->owned_mode ? core_retain(t) : t;
}

#endif
