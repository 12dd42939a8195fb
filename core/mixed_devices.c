/* The error of operands on different devices: which one to move, what that costs, and whether it was
 * moved already by a call whose result nobody uses. */
#include "core/call.h"
#include "core/error.h"
#include "core/transfers.h"

/* Towards a device rather than back to the CPU. */
static tern_dev_t target_of(const core_call *call)
{
    tern_dev_t target = TERN_CPU;
    for (int i = call->n_in - 1; i >= 0; i--)
        if (call->in[i] != NULL && call->in[i]->view.dev.kind != TERN_KIND_CPU)
            target = call->in[i]->view.dev;
    return target;
}

/* ---- a copy that was thrown away --------------------------------------------------------------- */

typedef struct search {
    const core_call *call;
    const tern_view *moved; /* the operand that lies elsewhere */
    tern_dev_t target;
    const tern_tensor *found;
} search;

static bool is_operand(const core_call *call, const tern_tensor *t)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] == t)
            return true;
    return false;
}

/* A tensor that looks like a copy of the operand there, made at a line that moves tensors to devices. */
static void look_at(void *object, void *user)
{
    const tern_tensor *t = object;
    search *s = user;
    if (atomic_load_explicit(&t->refs, memory_order_acquire) == 1 && t->storage != NULL &&
        tern_dev_equal(t->view.dev, s->target) && t->view.dtype == s->moved->dtype &&
        core_view_same_shape(&t->view, s->moved) && !is_operand(s->call, t) &&
        core_transfer_was_to_device(t->site))
        s->found = t;
}

/* ---- the error ---------------------------------------------------------------------------------- */

bool core_mixed_devices(core_call *call)
{
    const tern_dev_t target = target_of(call);
    int moved = 0;
    while (call->in[moved] == NULL || tern_dev_equal(call->in[moved]->view.dev, target))
        moved++;
    const tern_view *view = &call->in[moved]->view;
    const int64_t bytes = view->numel * tern_dtype_size((tern_dtype_t)view->dtype);
    char advice[400], name[TERN_DEV_NAME_BYTES];
    core_text text = { advice, sizeof advice, 0 };
    search s = { call, view, target, NULL };
    core_pool_each_tensor(&call->self->pool, look_at, &s);
    if (s.found != NULL)
        core_text_add(
            &text,
            "the copy on %s that %s made: tern_to returns it, its argument stays where it "
            "is",
            tern_dev_name(target, name), s.found->site);
    else
        core_text_add(&text, "tern_to(input %d, %s(%d)) before the loop", moved,
                      target.kind == TERN_KIND_CUDA ? "TERN_CUDA" : "TERN_EXT", target.index);
    if (s.found == NULL && bytes >= 1024)
        core_text_add(&text, "; a copy on every call would move %lld KiB each time",
                      (long long)(bytes / 1024));
    return core_fail(call, TERN_ERR_DEVICE, advice, "operands are on different devices");
}
