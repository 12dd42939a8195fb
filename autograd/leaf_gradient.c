/* What a leaf receives: a gradient of its own, through its hooks. */
#include "autograd/running.h"
#include "core/backend.h"
#include "tern/ops.h"

/* May the leaf have the gradient itself? Only when nobody but the running node holds it. */
static bool steals(const engine *e, const core_node *node, const tern_tensor *leaf,
                   const tern_tensor *grad)
{
    if (node == NULL)
        return false;
    bool here = in_node_scope(e, grad);
    for (int i = 0; i < node->n_out; i++)
        here |= node->grad[i] == grad;
    return here && !e->plan->create_graph && !e->plan->retain_graph && autograd_exclusive(grad) &&
           grad->view.dtype == leaf->view.dtype && (grad->view.flags & TERN_VIEW_DENSE);
}

tern_tensor *autograd_run_hooks(core_hook *first, int output, tern_tensor *t, tern_tensor *grad)
{
    for (core_hook *h = first; h != NULL && grad != NULL; h = h->next)
        if (h->hook != NULL && h->output == output) {
            tern_tensor *other = h->hook(t != NULL ? t : h->alias, grad, h->user);
            if (other != NULL)
                grad = other;
        }
    return grad;
}

/* Backward functions and hooks of users may be wrong: what they return must look like the input. node: NULL where
 * the leaf is the root. */
static bool fits_leaf(const engine *e, const core_node *node, const tern_tensor *leaf,
                      const tern_tensor *grad, const char *whose)
{
    return (core_view_same_shape(&leaf->view, &grad->view) &&
            tern_dev_equal(leaf->view.dev, grad->view.dev)) ||
           autograd_misfit(e, node, &grad->view, whose, "an input", &leaf->view);
}

/* What is recorded is not added in place. */
static bool replace_by_sum(const engine *e, tern_tensor *leaf, tern_tensor *grad)
{
    tern_tensor *sum = core_op2(TERN_OP_add, NULL, NULL, leaf->grad, grad);
    if (sum == NULL)
        return false;
    core_release(e->self, leaf->grad);
    leaf->grad = core_retain(sum);
    return true;
}

/* The leaf, or who asked for its gradient, has what fits it. A gradient is a tensor of its own, dense and of the
 * leaf's dtype: neither the caller's nor another leaf's, which in-place changes of one would change as well. */
static bool leaf_has(engine *e, const core_node *node, tern_tensor *leaf, tern_tensor *grad)
{
    if (grad->view.dtype != leaf->view.dtype)
        grad = tern_cast(grad, (tern_dtype_t)leaf->view.dtype);
    if (grad == NULL)
        return false;
    if (e->plan->captures != NULL)
        return autograd_capture_leaf(e->plan, leaf, grad);
    if (leaf->grad != NULL && !e->plan->create_graph)
        return core_op_inplace(TERN_OP_add, NULL, NULL, leaf->grad, grad) != NULL;
    if (leaf->grad != NULL)
        return replace_by_sum(e, leaf, grad);
    if (steals(e, node, leaf, grad)) {
        leaf->grad = take(e, grad);
        return true;
    }
    leaf->grad = tern_retain(tern_clone_at(NULL, grad));
    return leaf->grad != NULL;
}

/* Hooks want the whole gradient: what comes for a leaf that has some is summed up first. */
bool autograd_leaf_takes(engine *e, const core_node *node, tern_tensor *leaf, tern_tensor *grad)
{
    struct core_hooks *hooks = leaf->hooks;
    if (!fits_leaf(e, node, leaf, grad, "backward"))
        return false;
    if (hooks != NULL && hooks->epoch == e->epoch)
        return accumulate(e, &hooks->sum, grad);
    return leaf_has(e, node, leaf, grad);
}

/* A hook gives the dtype that it was given, or the leaf's. */
static bool keeps_dtype(const engine *e, const core_node *node, const tern_tensor *leaf,
                        const tern_tensor *grad, const tern_tensor *given)
{
    if (given->view.dtype == grad->view.dtype || given->view.dtype == leaf->view.dtype)
        return true;
    core_error(e->self, node != NULL ? node->site : e->self->site, TERN_ERR_GRAD,
               node != NULL ? node->op->name : "backward",
               "a hook returned a gradient of %s for an input of %s",
               tern_dtype_name((tern_dtype_t)given->view.dtype),
               tern_dtype_name((tern_dtype_t)leaf->view.dtype));
    return false;
}

/* Through the hooks on the gradient to the leaf. */
static bool leaf_hears(engine *e, const core_node *node, tern_tensor *leaf, tern_tensor *grad)
{
    tern_tensor *given = autograd_run_hooks(leaf->hooks->first, 0, leaf, grad);
    return e->self->error_code == TERN_OK && fits_leaf(e, node, leaf, given, "a hook") &&
           keeps_dtype(e, node, leaf, grad, given) && leaf_has(e, node, leaf, given);
}

static void tell_accumulated(tern_tensor *leaf)
{
    for (core_hook *h = leaf->hooks->first; h != NULL; h = h->next)
        if (h->accumulated != NULL)
            h->accumulated(leaf, h->user);
}

/* Hooks of leaves run when the gradient is complete: count what they wait for. */
bool autograd_leaf_count(engine *e, struct core_hooks *hooks)
{
    if (hooks->epoch != e->epoch) {
        if (e->outer != NULL && !autograd_keep_hooks(e, hooks))
            return false;
        hooks->pending = 0;
    }
    hooks->epoch = e->epoch;
    hooks->pending++;
    return true;
}

bool autograd_leaf_count_down(engine *e, const core_node *node, tern_tensor *leaf)
{
    struct core_hooks *hooks = leaf->hooks;
    if (hooks->epoch != e->epoch || --hooks->pending > 0)
        return true;
    bool ok = true;
    if (hooks->sum != NULL) {
        tern_thread *self = e->self;
        const int64_t mark = e->mark = self->scope.top;
        tern_tensor *sum = core_scope_add(self, hooks->sum);
        hooks->sum = NULL;
        ok = sum != NULL && leaf_hears(e, node, leaf, sum);
        core_scope_unwind(self, mark);
    }
    if (ok && e->plan->captures == NULL && leaf->grad != NULL)
        tell_accumulated(leaf);
    return ok && e->self->error_code == TERN_OK;
}

void autograd_leaf_abandon(engine *e, struct core_hooks *hooks)
{
    if (hooks->epoch != e->epoch || hooks->sum == NULL)
        return;
    core_release(e->self, hooks->sum);
    hooks->sum = NULL;
}

bool autograd_run_leaf(tern_thread *self, tern_tensor *leaf, tern_tensor *gradient,
                       const backward_plan *plan)
{
    engine e = { .self = self, .plan = plan, .mark = self->scope.top };
    const bool grad_mode = self->grad_mode;
    self->grad_mode = plan->create_graph;
    const bool ok = leaf->hooks != NULL ? leaf_hears(&e, NULL, leaf, gradient)
                                        : leaf_has(&e, NULL, leaf, gradient);
    if (ok && plan->captures == NULL && leaf->hooks != NULL)
        tell_accumulated(leaf);
    self->grad_mode = grad_mode;
    return ok;
}
