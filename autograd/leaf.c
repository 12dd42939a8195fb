/* Leaves: requires_grad, gradients, grad mode, hooks, taking over another tensor's data. */
#include <stdio.h>
#include <stdlib.h>

#include "autograd/node.h"

/* What is asked about a view may have to be made anew first; of an own op's it stays as it was. */
static void refresh(const tern_tensor *t)
{
    if (t != NULL && !t->own_view)
        core_tape_refresh(core_self(), t->site, (tern_tensor *)(uintptr_t)t);
}

bool tern_requires_grad(const tern_tensor *t)
{
    refresh(t);
    return t != NULL && t->requires_grad;
}
bool tern_is_leaf(const tern_tensor *t)
{
    refresh(t);
    return t != NULL && t->node == NULL;
}
bool tern_grad_enabled(void)
{
    return core_self()->grad_mode;
}

bool tern_set_grad_enabled(bool on)
{
    tern_thread *self = core_self();
    const bool previous = self->grad_mode;
    self->grad_mode = on;
    return previous;
}

/* False with an error when t cannot be what the call needs. */
static bool check_leaf(tern_thread *self, tern_site_t site, const char *what, const tern_tensor *t)
{
    if (self->error_code != TERN_OK || (t != NULL && !core_is_there(self, site, what, t)))
        return false;
    refresh(t);
    if (t == NULL)
        core_error(self, site, TERN_ERR_ARGUMENT, what, "the tensor is NULL");
    else if (t->node != NULL)
        core_error(self, site, TERN_ERR_GRAD, what,
                   "the tensor was made by a recorded %s, only leaves are allowed\n"
                   "  try tern_detach(t) first",
                   t->node->op->name);
    return self->error_code == TERN_OK;
}

tern_tensor *tern_set_requires_grad_at(tern_site_t site, tern_tensor *t, bool on)
{
    tern_thread *self = core_self();
    if (!check_leaf(self, site, "set_requires_grad", t))
        return NULL;
    if (on && !tern_dtype_is_float((tern_dtype_t)t->view.dtype)) {
        core_error(self, site, TERN_ERR_DTYPE, "set_requires_grad",
                   "%s tensors have no gradients; only floats have",
                   tern_dtype_name((tern_dtype_t)t->view.dtype));
        return NULL;
    }
    t->requires_grad = on;
    return t;
}

tern_tensor *tern_grad_of(tern_tensor *t)
{
    if (t == NULL || t->grad != NULL)
        return t != NULL ? t->grad : NULL;
    refresh(t);
    if (t->node != NULL) { /* for the error of what is done with NULL */
        (void)snprintf(core_self()->not_leaf, CORE_NOT_LEAF_BYTES, "%s made at %s",
                       t->node->op->name, t->site != NULL ? t->site : "?");
    }
    return NULL;
}

tern_status_t tern_set_grad_at(tern_site_t site, tern_tensor *t, tern_tensor *grad)
{
    tern_thread *self = core_self();
    if (!check_leaf(self, site, "set_grad", t))
        return (tern_status_t)self->error_code;
    if (grad != NULL && !core_is_there(self, site, "set_grad", grad))
        return (tern_status_t)self->error_code;
    if (grad == t)
        return core_error(self, site, TERN_ERR_GRAD, "set_grad",
                          "a tensor cannot be its own gradient\n  try a clone");
    if (grad != NULL && !tern_dev_equal(grad->view.dev, t->view.dev))
        return core_error_pair(
            self, site, TERN_ERR_DEVICE, "set_grad",
            "the gradient lies on another device than the tensor: tern_to for it", "t", t, "grad",
            grad);
    if (grad != NULL && grad->view.dtype != t->view.dtype)
        return core_error_pair(self, site, TERN_ERR_DTYPE, "set_grad",
                               "the gradient has another dtype than the tensor: tern_cast for it",
                               "t", t, "grad", grad);
    if (grad != NULL && !core_view_same_shape(&grad->view, &t->view))
        return core_error_pair(self, site, TERN_ERR_SHAPE, "set_grad",
                               "the gradient has another shape than the tensor", "t", t, "grad",
                               grad);
    if (grad != NULL)
        core_retain(grad);
    if (t->grad != NULL)
        core_release(self, t->grad);
    t->grad = grad;
    return TERN_OK;
}

/* ---- hooks -------------------------------------------------------------------------------------- */

static core_hook *hook_new(tern_thread *self, tern_site_t site, struct core_hooks **list)
{
    core_hook *hook = core_fault() ? NULL : calloc(1, sizeof *hook);
    if (hook != NULL && *list == NULL)
        *list = calloc(1, sizeof **list);
    if (hook == NULL || *list == NULL) {
        free(hook);
        core_error(self, site, TERN_ERR_OOM, "hook", "no host memory for a hook");
        return NULL;
    }
    core_hook **last = &(*list)->first;
    while (*last != NULL)
        last = &(*last)->next;
    *last = hook;
    return hook;
}

tern_status_t tern_add_hook_at(tern_site_t site, tern_tensor *t, tern_grad_hook hook, void *user)
{
    tern_thread *self = core_self();
    if (t != NULL && !core_is_there(self, site, "add_hook", t))
        return (tern_status_t)self->error_code;
    refresh(t);
    if (t == NULL || hook == NULL || !t->requires_grad)
        return core_error(self, site, TERN_ERR_ARGUMENT, "add_hook",
                          "a hook needs a function and a tensor that requires a gradient");
    tern_tensor *alias = NULL;
    if (t->node != NULL) {
        alias = core_tensor_alias(self, t->site, t);
        if (alias == NULL)
            return (tern_status_t)self->error_code;
    }
    core_hook *h = hook_new(self, site, t->node != NULL ? &t->node->hooks : &t->hooks);
    if (h == NULL) {
        if (alias != NULL)
            core_release(self, alias);
        return (tern_status_t)self->error_code;
    }
    h->hook = hook;
    h->user = user;
    h->alias = alias;
    h->output = t->node != NULL ? t->output_index : 0;
    return TERN_OK;
}

tern_status_t tern_add_accumulated_hook_at(tern_site_t site, tern_tensor *leaf,
                                           tern_accumulated_hook hook, void *user)
{
    tern_thread *self = core_self();
    if (!check_leaf(self, site, "add_accumulated_hook", leaf))
        return (tern_status_t)self->error_code;
    if (hook == NULL)
        return core_error(self, site, TERN_ERR_ARGUMENT, "add_accumulated_hook",
                          "the function is NULL");
    core_hook *h = hook_new(self, site, &leaf->hooks);
    if (h == NULL)
        return (tern_status_t)self->error_code;
    h->accumulated = hook;
    h->user = user;
    return TERN_OK;
}

/* ---- moving a module: the same object, other data ------------------------------------------------ */

/* Who saved t, with the version of what it had, finds no such version in what it has now. */
static void go_past(core_storage *storage, const core_storage *old)
{
    const uint32_t there = atomic_load_explicit(&storage->version, memory_order_relaxed);
    const uint32_t before = atomic_load_explicit(&old->version, memory_order_relaxed);
    atomic_store_explicit(&storage->version, (there > before ? there : before) + 1,
                          memory_order_relaxed);
}

tern_status_t tern_tensor_replace_at(tern_site_t site, tern_tensor *t, tern_tensor *with)
{
    tern_thread *self = core_self();
    if (!check_leaf(self, site, "tensor_replace", t) ||
        !check_leaf(self, site, "tensor_replace", with))
        return (tern_status_t)self->error_code;
    const bool same_kind = t->view.dtype == with->view.dtype &&
                           tern_dev_equal(t->view.dev, with->view.dev) &&
                           core_view_same_shape(&t->view, &with->view);
    if (t->requires_grad && !tern_dtype_is_float((tern_dtype_t)with->view.dtype))
        return core_error(self, site, TERN_ERR_DTYPE, "tensor_replace",
                          "a tensor that requires a gradient cannot become %s",
                          tern_dtype_name((tern_dtype_t)with->view.dtype));
    if (t == with)
        return TERN_OK;
    if (!same_kind && t->grad != NULL) {
        core_release(self, t->grad);
        t->grad = NULL;
    }
    core_storage *old = t->storage;
    atomic_fetch_add_explicit(&with->storage->refs, 1, memory_order_relaxed);
    go_past(with->storage, old);
    t->storage = with->storage;
    t->view = with->view;
    t->rebases++; /* its views find out that they are none any more */
    core_storage_release(self, old);
    core_tensor_leave_base(self, t);
    return TERN_OK;
}
