/* The error of operands on different devices: which one to move, what that costs, and whether it was
 * moved already by a call whose result nobody uses. */
#include <string.h>

#include "core/call.h"
#include "core/error.h"
#include "core/transfers.h"

static bool is_parameter(const tern_tensor *t)
{
    return t->requires_grad && tern_is_leaf(t);
}

/* To what is written in place, else to a device rather than back to the CPU, and there to the parameters: what
 * is computed from them is what moves. */
static tern_dev_t target_of(const core_call *call)
{
    tern_dev_t target = TERN_CPU;
    bool found = false;
    if (call->preset && call->n_in > 0 && call->out[0] == call->in[0])
        return call->in[0]->view.dev;
    for (int i = 0; i < call->n_in && !found; i++)
        if (call->in[i] != NULL && call->in[i]->view.dev.kind != TERN_KIND_CPU) {
            found = is_parameter(call->in[i]);
            target = found || target.kind == TERN_KIND_CPU ? call->in[i]->view.dev : target;
        }
    return target;
}

/* The first operand that lies elsewhere; a 0-dim one of the CPU, which may, where there is no other. */
static int moved_of(const core_call *call, tern_dev_t target)
{
    int moved = -1;
    for (int i = call->n_in - 1; i >= 0; i--) {
        const tern_tensor *t = call->in[i];
        if (t != NULL && !tern_dev_equal(t->view.dev, target) &&
            (moved < 0 || !core_is_host_scalar(t) || core_is_host_scalar(call->in[moved])))
            moved = i;
    }
    return moved;
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

static bool belongs_to_module(const core_call *call, int i, const char *name)
{
    static const char *const names[] = { "weight", "bias", "running_mean", "running_var" };
    bool named = call->n_in > 1 && is_parameter(call->in[i]);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        named |= strcmp(name, names[n]) == 0;
    return named;
}

/* "TERN_CUDA(0)", as a program writes it. */
static void add_device(core_text *text, tern_dev_t dev)
{
    if (dev.kind == TERN_KIND_CPU)
        core_text_add(text, "TERN_CPU");
    else
        core_text_add(text, "%s(%d)", dev.kind == TERN_KIND_CUDA ? "TERN_CUDA" : "TERN_EXT",
                      dev.index);
}

static void add_advice(core_text *text, const core_call *call, int moved, tern_dev_t target)
{
    const tern_view *view = &call->in[moved]->view;
    const int64_t bytes = core_view_bytes(view);
    char operand[CORE_OPERAND_BYTES], name[TERN_DEV_NAME_BYTES];
    search s = { call, view, target, NULL };
    core_operand_name(call->op, moved, operand);
    core_pool_each_tensor(&call->self->pool, look_at, &s);
    if (s.found != NULL) {
        core_text_add(
            text,
            "the copy on %s that %s made: tern_to returns it, its argument stays where it "
            "is",
            tern_dev_name(target, name), s.found->site);
        return;
    }
    if (belongs_to_module(call, moved, operand)) {
        core_text_add(text, "tern_module_to(module, ");
        add_device(text, target);
        core_text_add(text, ") where %s is a module's, which moves all that it has; else ",
                      operand);
    }
    core_text_add(text, "tern_to(%s, ", operand);
    add_device(text, target);
    core_text_add(text, ") before the loop");
    if (bytes >= 1024)
        core_text_add(text, "; a copy on every call would move %lld KiB each time",
                      (long long)(bytes / 1024));
}

bool core_mixed_devices(core_call *call)
{
    const tern_dev_t target = target_of(call);
    char advice[400];
    core_text text = { advice, sizeof advice, 0 };
    add_advice(&text, call, moved_of(call, target), target);
    return core_fail(call, TERN_ERR_DEVICE, advice, "operands are on different devices");
}
