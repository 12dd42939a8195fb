/* Frames of public functions made of other ops. See core/compose.h. */
#include "core/compose.h"

#include "core/autocast.h"
#include "core/error.h"
#include "core/tape.h"

void core_compose_begin(core_frame *frame, tern_op_id id, tern_site_t site, int64_t n_in,
                        tern_tensor *const *in)
{
    tern_thread *self = core_self();
    core_call *call = &frame->call;
    call->self = self;
    call->op = &core_op_table[id];
    call->site = core_site(self, site);
    call->attr = NULL;
    call->dev = TERN_CPU;
    call->n_in = (uint8_t)(n_in < CORE_MAX_INPUTS ? n_in : CORE_MAX_INPUTS);
    call->n_out = 0;
    call->preset = false;
    call->owned = 0;
    for (int i = 0; i < call->n_in; i++)
        call->in[i] = in[i];
    frame->outer_site = tern_site_begin(site);
    frame->outer_name = core_calling_begin(self, call->op->name);
    frame->mark = self->scope.top;
    frame->owned_mode = tern_set_owned_mode(false);
}

bool core_compose_check(core_frame *frame)
{
    return frame->call.self->error_code == TERN_OK && core_check_inputs(&frame->call);
}

bool core_compose_cast(core_frame *frame)
{
    return !core_autocast_wants(&frame->call) || core_autocast_inputs(&frame->call);
}

/* An input of a thread's own scopes has a slot below the mark, another thread's is not found. */
static bool made_inside(const core_frame *frame, const tern_tensor *t)
{
    const core_scope_stack *scope = &frame->call.self->scope;
    return t->scope_slot >= frame->mark && t->scope_slot < scope->top &&
           scope->slots[t->scope_slot] == (uintptr_t)t;
}

bool core_own_result(tern_thread *self, tern_tensor *t)
{
    if (!core_tape_refresh(self, t->site, t))
        return false;
    if (t->base != NULL) {
        core_tensor_leave_base(self, t);
        t->rebases = 0;
    }
    return true;
}

tern_tensor *core_compose_before(core_frame *frame, tern_tensor *t)
{
    tern_tensor *before = core_tape_unhooked(frame->call.self, frame->call.site, t);
    return before == t ? t : core_scope_add(frame->call.self, before);
}

/* Whose base nobody else sees is no view for those outside. */
static bool settle(const core_frame *frame, tern_tensor *result)
{
    return result == NULL || result->base == NULL || !made_inside(frame, result->base) ||
           core_own_result(frame->call.self, result);
}

tern_tensor *core_compose_end(core_frame *frame, tern_tensor *result)
{
    tern_thread *self = frame->call.self;
    const bool inside = result != NULL && made_inside(frame, result);
    if (inside && !settle(frame, result))
        return core_compose_end(frame, NULL);
    if (inside)
        core_retain(result);
    core_release_owned(&frame->call);
    core_scope_unwind(self, frame->mark);
    tern_set_owned_mode(frame->owned_mode);
    core_calling_end(self, frame->outer_name);
    tern_site_end(frame->outer_site);
    if (result == NULL)
        return NULL;
    return inside ? core_scope_add(self, result) : core_same(self, result);
}

tern_tensor *core_compose_end_with(core_frame *frame, tern_tensor *result, int n,
                                   tern_tensor *const *more, tern_tensor **const *out)
{
    tern_thread *self = frame->call.self;
    bool made = result != NULL;
    for (int i = 0; i < n; i++)
        made = made && settle(frame, more[i]);
    result = made ? result : NULL;
    for (int i = 0; i < n; i++)
        if (made && out[i] != NULL)
            core_retain(more[i]);
    result = core_compose_end(frame, result);
    for (int i = 0; i < n; i++) {
        if (out[i] == NULL)
            continue;
        *out[i] = result != NULL ? core_scope_add(self, more[i]) : NULL;
        if (made && result == NULL)
            core_release(self, more[i]);
    }
    return result;
}

tern_tensor *core_reshape_copy(tern_tensor *t, tern_shape_t shape)
{
    return tern_reshape(tern_is_contiguous(t) ? tern_clone(t) : tern_contiguous(t), shape);
}
