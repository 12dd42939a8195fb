/* tern_backward and tern_grad: what the engine is asked. */
#include "autograd/engine.h"
#include "core/option.h"

#include <stdlib.h>

/* ---- captures ------------------------------------------------------------------------------------ */

bool autograd_captures_node(const backward_plan *plan, const core_node *node)
{
    for (int64_t i = 0; i < plan->n_captures; i++)
        if (plan->captures[i].tensor->node == node)
            return true;
    return false;
}

bool autograd_captures_leaf(const backward_plan *plan, const tern_tensor *leaf)
{
    for (int64_t i = 0; i < plan->n_captures; i++)
        if (plan->captures[i].tensor == leaf && leaf->node == NULL)
            return true;
    return false;
}

static bool capture_add(capture *c, tern_tensor *grad)
{
    tern_thread *self = core_self();
    if (c->grad == NULL) {
        c->grad = core_retain(grad);
        return true;
    }
    tern_tensor *sum = core_op2(TERN_OP_add, NULL, NULL, c->grad, grad);
    if (sum == NULL)
        return false;
    core_release(self, c->grad);
    c->grad = core_retain(sum);
    return true;
}

bool autograd_capture_leaf(const backward_plan *plan, tern_tensor *leaf, tern_tensor *grad)
{
    for (int64_t i = 0; i < plan->n_captures; i++)
        if (plan->captures[i].tensor == leaf && !capture_add(&plan->captures[i], grad))
            return false;
    return true;
}

bool autograd_capture_node(const backward_plan *plan, core_node *node)
{
    for (int64_t i = 0; i < plan->n_captures; i++) {
        const tern_tensor *t = plan->captures[i].tensor;
        if (t->node != node || node->grad[t->output_index] == NULL)
            continue;
        if (!capture_add(&plan->captures[i], node->grad[t->output_index]))
            return false;
    }
    return true;
}

/* ---- roots --------------------------------------------------------------------------------------- */

static bool check_root(tern_thread *self, tern_site_t site, const char *what, tern_tensor *root,
                       const tern_tensor *gradient)
{
    char a[160];
    if (self->error_code != TERN_OK)
        return false;
    if (root != NULL)
        core_tape_refresh(self, site, root);
    if (root == NULL)
        core_error(self, site, TERN_ERR_ARGUMENT, what, "the root is NULL");
    else if (!core_is_there(self, site, what, root))
        return false;
    else if (!root->requires_grad)
        core_error(
            self, site, TERN_ERR_GRAD, what,
            "the root (made at %s) does not require a gradient\n  try tern_set_requires_grad on "
            "what it is made of, and no TERN_NO_GRAD around it",
            root->site != NULL ? root->site : "?");
    else if (gradient == NULL && root->view.numel != 1)
        core_error(
            self, site, TERN_ERR_GRAD, what,
            "the root has the shape %s: a gradient has to be given unless it has one "
            "element\n  try tern_mean or tern_sum of it, or .gradient, a tensor of its shape",
            core_shape_text(root->view.ndim, root->view.shape, a, sizeof a));
    else if (gradient != NULL && !core_view_same_shape(&gradient->view, &root->view))
        core_error_pair(self, site, TERN_ERR_SHAPE, what,
                        "the gradient has another shape than the root", "root", root, "gradient",
                        gradient);
    else if (gradient != NULL && !tern_dev_equal(gradient->view.dev, root->view.dev))
        core_error_pair(self, site, TERN_ERR_DEVICE, what,
                        "the gradient lies on another device than the root: tern_to for it", "root",
                        root, "gradient", gradient);
    return self->error_code == TERN_OK;
}

/* The gradient to start with, of the root's dtype, owned by the caller. */
static tern_tensor *first_gradient(tern_thread *self, tern_site_t site, const tern_tensor *root,
                                   tern_tensor *gradient)
{
    if (gradient != NULL) {
        if (gradient->view.dtype != root->view.dtype)
            gradient =
                tern_to_at(site, gradient,
                           TERN_OPTIONS_(tern_to_args, .dtype = (tern_dtype_t)root->view.dtype));
        return gradient != NULL ? core_retain(gradient) : NULL;
    }
    tern_tensor *one = core_tensor_new(self, site, root->view.dev, (tern_dtype_t)root->view.dtype,
                                       root->view.ndim, root->view.shape);
    if (one == NULL)
        return NULL;
    tern_attr_fill attr = { .value = { TERN_NUMBER_FLOAT, 0, 1.0, 1 } };
    if (core_op_into(TERN_OP_fill, site, &attr, one, NULL) == TERN_OK)
        return one;
    core_release(self, one);
    return NULL;
}

static tern_status_t run(tern_site_t site, const char *what, tern_tensor *root,
                         tern_tensor *gradient, const backward_plan *plan)
{
    tern_thread *self = core_self();
    const tern_site_t here = core_site(self, site);
    if (!check_root(self, here, what, root, gradient))
        return (tern_status_t)self->error_code;
    const bool owned_mode = self->owned_mode;
    const tern_site_t outer = tern_site_begin(site);
    const int64_t mark = self->scope.top;
    self->owned_mode = false; /* what is made on the way is the scope's */
    tern_tensor *start = first_gradient(self, here, root, gradient);
    if (start != NULL && root->node != NULL) {
        (void)autograd_run(self, root->node, root->output_index, start, plan);
    } else if (start != NULL) {
        (void)autograd_run_leaf(self, root, start, plan);
        core_release(self, start);
    }
    core_scope_unwind(self, mark);
    self->owned_mode = owned_mode;
    tern_site_end(outer);
    return (tern_status_t)self->error_code; /* a hook's, too */
}

tern_status_t tern_backward_at(tern_site_t site, const tern_backward_args *args)
{
    args = core_options(args);
    const backward_plan plan = { .retain_graph = args->retain_graph || args->create_graph,
                                 .create_graph = args->create_graph };
    return run(site, "backward", args->root, args->gradient, &plan);
}

/* ---- gradients of chosen tensors ------------------------------------------------------------------ */

/* A tensor has one scope: in place of one that has one, another in none. Takes over the reference. */
static tern_tensor *copied(tern_thread *self, tern_tensor *grad, bool recorded)
{
    const bool grad_mode = self->grad_mode, owned_mode = self->owned_mode;
    self->grad_mode = recorded;
    self->owned_mode = true;
    tern_tensor *copy = self->error_code == TERN_OK ? tern_clone_at(NULL, grad) : NULL;
    self->owned_mode = owned_mode;
    self->grad_mode = grad_mode;
    core_release(self, grad);
    return copy;
}

static tern_status_t hand_out(tern_thread *self, tern_site_t site, const tern_grad_args *args,
                              capture *captures)
{
    for (int64_t i = 0; i < args->count; i++)
        if (captures[i].grad == NULL && !args->allow_unused)
            core_error(self, site, TERN_ERR_GRAD, "grad",
                       "the root does not depend on input %lld\n  try .allow_unused = true",
                       (long long)i);
    for (int64_t i = 0; i < args->count; i++) {
        tern_tensor *grad = captures[i].grad;
        if (grad != NULL &&
            grad->scope_slot >= 0) /* the caller's own, or another input's as well */
            grad = copied(self, grad, args->create_graph);
        if (self->error_code == TERN_OK)
            args->out_grads[i] = core_scope_add(self, grad);
        else if (grad != NULL)
            core_release(self, grad);
    }
    return (tern_status_t)self->error_code;
}

static void check_input(tern_thread *self, tern_site_t site, tern_tensor *t, int64_t i)
{
    if (t == NULL)
        core_error(self, site, TERN_ERR_GRAD, "grad", "input %lld is NULL", (long long)i);
    else if (core_is_there(self, site, "grad", t) && core_tape_refresh(self, site, t) &&
             !t->requires_grad)
        core_error(self, site, TERN_ERR_GRAD, "grad",
                   "input %lld (made at %s) does not require a gradient\n  try "
                   "tern_set_requires_grad on it before the root is made of it, and no "
                   "TERN_NO_GRAD around what makes it",
                   (long long)i, t->site != NULL ? t->site : "?");
}

tern_status_t tern_grad_at(tern_site_t site, const tern_grad_args *args)
{
    tern_thread *self = core_self();
    const tern_site_t here = core_site(self, site);
    args = core_options(args);
    for (int64_t i = 0; args->out_grads != NULL && i < args->count; i++)
        args->out_grads[i] = NULL;
    if (self->error_code != TERN_OK)
        return (tern_status_t)self->error_code;
    if (args->inputs == NULL || args->out_grads == NULL || args->count < 1)
        return core_error(self, here, TERN_ERR_ARGUMENT, "grad", "inputs and out_grads are needed");
    capture *captures = core_fault() ? NULL : calloc((size_t)args->count, sizeof *captures);
    if (captures == NULL)
        return core_error(self, here, TERN_ERR_OOM, "grad", "no host memory for %lld inputs",
                          (long long)args->count);
    for (int64_t i = 0; i < args->count; i++) {
        captures[i].tensor = args->inputs[i];
        check_input(self, here, args->inputs[i], i);
    }
    const backward_plan plan = { .retain_graph = args->retain_graph || args->create_graph,
                                 .create_graph = args->create_graph,
                                 .captures = captures,
                                 .n_captures = args->count };
    (void)run(site, "grad", args->root, args->gradient, &plan);
    const tern_status_t status = hand_out(self, here, args, captures);
    free(captures);
    return status;
}
