/* Scopes: marks in one per-thread vector of tensors.
 *
 * A slot holds a tensor pointer; its low bits count how many scopes further out the tensor moves
 * (tern_keep). At the end of a scope kept tensors slide down to its mark, where they belong to the
 * enclosing scope. A slot of 0 is a tensor that was dropped; at the end of the list it goes. */
#include <stdlib.h>

#include "core/error.h"
#include "core/tensor.h"

enum { KEEP_MASK = 63, FIRST_CAPACITY = 256 };
#ifndef NDEBUG
enum { WARN_TENSORS = 100000 };
#endif

static bool grow(tern_thread *self)
{
    core_scope_stack *scope = &self->scope;
    const int64_t capacity = scope->capacity == 0 ? FIRST_CAPACITY : 2 * scope->capacity;
    uintptr_t *slots = realloc(scope->slots, (size_t)capacity * sizeof *slots);
    if (slots == NULL)
        return false;
    scope->slots = slots;
    scope->capacity = capacity;
    return true;
}

#ifndef NDEBUG
static void warn_growth(core_scope_stack *scope, tern_site_t site)
{
    if (scope->warn_at == 0)
        scope->warn_at = WARN_TENSORS;
    if (scope->top < scope->warn_at)
        return;
    scope->warn_at *= 2;
    tern_log_write(
        TERN_LOG_WARNING, site,
        "%lld tensors are waiting for the end of a scope; a loop without TERN_SCOPE keeps "
        "all it makes",
        (long long)scope->top);
}
#endif

bool core_scope_room(tern_thread *self, tern_tensor *t)
{
#ifndef NDEBUG
    warn_growth(&self->scope, t->site);
#endif
    if (self->scope.top < self->scope.capacity || grow(self))
        return true;
    core_error(self, t->site, TERN_ERR_OOM, "scope", "no memory for the list of tensors");
    core_release(self, t);
    return false;
}

static tern_tensor *slot_tensor(uintptr_t slot)
{
    return (tern_tensor *)(slot & ~(uintptr_t)KEEP_MASK);
}

void core_scope_unwind(tern_thread *self, int64_t mark)
{
    core_scope_stack *scope = &self->scope;
    const int64_t top = scope->top;
    int64_t kept = mark < top ? mark : top;
    for (int64_t i = mark; i < top; i++) {
        const uintptr_t slot = scope->slots[i];
        tern_tensor *t = slot_tensor(slot);
        if (t == NULL)
            continue;
        if (slot & KEEP_MASK) {
            t->scope_slot = kept;
            scope->slots[kept++] = slot - 1;
        } else {
            t->scope_slot = -1;
            core_release(self, t);
        }
    }
    scope->top = kept;
    if (mark < scope->mark)
        scope->mark = mark;
}

void core_scope_clear(tern_thread *self)
{
    for (int64_t i = 0; i < self->scope.top; i++)
        self->scope.slots[i] &= ~(uintptr_t)KEEP_MASK;
    core_scope_unwind(self, 0);
    self->scope.depth = 0;
}

tern_scope tern_scope_begin(void)
{
    core_scope_stack *stack = &core_self()->scope;
    const tern_scope scope = { stack->top, stack->mark, ++stack->depth };
    stack->mark = stack->top;
    return scope;
}

/* What the places in front of `end`, down to `least`, leave when those of dropped tensors at their end
 * go. Inside of a call none go: it may have noted where its own tensors begin. */
static int64_t without_dropped(const tern_thread *self, int64_t end, int64_t least)
{
    while (self->site == NULL && end > least && end > 0 && self->scope.slots[end - 1] == 0)
        end--;
    return end;
}

void tern_scope_end(tern_scope *scope)
{
    tern_thread *self = core_self();
    if (scope == NULL || scope->depth_ < 1 || scope->depth_ > self->scope.depth)
        return;
    self->scope.depth = (int32_t)(scope->depth_ - 1);
    if (scope->mark_ <= self->scope.top && scope->mark_ >= 0)
        core_scope_unwind(self, without_dropped(self, scope->mark_, scope->outer_));
    /* dropped places may have taken the mark further down */
    if (scope->outer_ < self->scope.mark)
        self->scope.mark = scope->outer_;
}

bool tern_set_owned_mode(bool on)
{
    tern_thread *self = core_self();
    const bool previous = self->owned_mode;
    self->owned_mode = on;
    return previous;
}

/* Is the tensor in a scope of the calling thread? */
static bool is_owned(const tern_thread *self, const tern_tensor *t)
{
    return t->scope_slot >= 0 && t->scope_slot < self->scope.top &&
           slot_tensor(self->scope.slots[t->scope_slot]) == t;
}

tern_tensor *tern_retain(tern_tensor *t)
{
    if (t == NULL)
        return NULL;
    if (!core_tensor_is_gone(t))
        return core_retain(t);
    core_say_gone(core_self(), NULL, "retain", t);
    return t;
}

void tern_release(tern_tensor *t)
{
    if (t != NULL)
        core_release(core_self(), t);
}

tern_tensor *tern_keep(tern_tensor *t)
{
    if (tern_in_scope(t)) {
        uintptr_t *slot = &core_self()->scope.slots[t->scope_slot];
        if ((*slot & KEEP_MASK) < KEEP_MASK)
            ++*slot;
    }
    return t;
}

bool tern_in_scope(const tern_tensor *t)
{
    const tern_thread *self = core_self();
    return t != NULL && t->scope_slot >= self->scope.mark && is_owned(self, t);
}

void tern_drop(tern_tensor *t)
{
    tern_thread *self = core_self();
    if (t == NULL || !is_owned(self, t))
        return;
    core_scope_stack *scope = &self->scope;
    scope->slots[t->scope_slot] = 0;
    t->scope_slot = -1;
    scope->top = without_dropped(self, scope->top, scope->mark);
    core_release(self, t);
}

int64_t tern_live_tensors(void)
{
    return core_live_tensors();
}
