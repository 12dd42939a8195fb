/* Backward: counts consumers, then runs nodes whose gradients are complete. Iterative throughout.
 *
 * A node's gradients collect in node->grad[]; a tensor there is owned by the node. A leaf may take
 * over a gradient that nobody else holds; otherwise it gets a copy, because its gradient is added to
 * in place later. Work lists run through node->link. */
#include "autograd/running.h"

#include "autograd/checkpoint.h"
#include "core/autocast.h"
#include "core/backend.h"
#include "tern/ops.h"

static bool is_plain(const engine *e)
{
    return !e->streams.mixed && e->outer == NULL && e->plan->captures == NULL &&
           !e->plan->create_graph;
}

/* ---- adding gradients --------------------------------------------------------------------------- */

bool autograd_add_to(engine *e, tern_tensor **slot, tern_tensor *grad)
{
    if (!e->plan->create_graph && autograd_takes(*slot, grad))
        return core_apply_ready(e->self, TERN_OP_add, NULL, *slot, grad) != NULL;
    tern_tensor *sum = core_op2(TERN_OP_add, NULL, NULL, *slot, grad);
    if (sum == NULL)
        return false;
    core_release(e->self, *slot);
    *slot = take(e, sum);
    return true;
}

/* On the streams of the thread that called backward: leaves are the program's. */
static bool leaf_receives(engine *e, const core_node *node, tern_tensor *leaf, tern_tensor *grad)
{
    if (__builtin_expect(!e->streams.mixed, 1))
        return autograd_leaf_takes(e, node, leaf, grad);
    const bool ok =
        backward_streams_to_caller(&e->streams, grad) && autograd_leaf_takes(e, node, leaf, grad);
    backward_streams_enter(&e->streams, node);
    return ok;
}

/* A node's gradients collect on its own stream. */
PER_KIND bool node_receives(engine *e, const core_node *from, const core_edge *edge,
                            tern_tensor *grad, bool plain)
{
    tern_tensor **slot = &edge->node->grad[edge->output];
    if (plain || __builtin_expect(!e->streams.mixed, 1))
        return accumulate(e, slot, grad);
    const bool ok =
        backward_streams_to_node(&e->streams, edge->node, grad) && accumulate(e, slot, grad);
    backward_streams_enter(&e->streams, from);
    return ok;
}

/* ---- counting ----------------------------------------------------------------------------------- */

static void touch(uint64_t epoch, core_node *node, core_node **work)
{
    node->epoch = epoch;
    node->pending = 0;
    node->link = *work;
    *work = node;
}

static __attribute__((noinline, cold)) bool no_leaf_any_more(const engine *e, const core_node *node,
                                                             const tern_tensor *leaf)
{
    core_error(e->self, node->site, TERN_ERR_GRAD, node->op->name,
               "an input that was a leaf (made at %s) was changed in place since, by a recorded "
               "%s: what it was has no place for a gradient\n  try that change of a clone, or in "
               "TERN_NO_GRAD",
               leaf->site != NULL ? leaf->site : "?", leaf->node->op->name);
    return false;
}

static bool leaf_wanted(const engine *e, const tern_tensor *leaf)
{
    /* one that was frozen after forward gets nothing */
    return e->plan->captures == NULL ? leaf->requires_grad : autograd_captures_leaf(e->plan, leaf);
}

/* Adds edge i's leaf to *leaves, if it is wanted. False after an error: one that was frozen and then changed has a
 * history now. */
PER_KIND bool count_leaf(engine *e, const core_node *node, int i, uint8_t *leaves)
{
    tern_tensor *leaf = node->edges[i].leaf;
    if (!core_tape_refresh(e->self, node->site, leaf))
        return false;
    if (!leaf_wanted(e, leaf))
        return true;
    if (__builtin_expect(leaf->node != NULL, 0))
        return no_leaf_any_more(e, node, leaf);
    *leaves |= (uint8_t)B(i);
    return leaf->hooks == NULL || autograd_leaf_count(e, leaf->hooks);
}

/* Inside another backward what that has in the node is kept first. */
PER_KIND bool reach(engine *e, core_node *node, core_node **work, bool nested)
{
    if (nested && node->epoch != 0 && !autograd_keep_node(e, node))
        return false;
    touch(e->epoch, node, work);
    return true;
}

/* Walks everything behind root, counts deliveries that each node waits for. False after an error. */
PER_KIND bool count_consumers(engine *e, core_node *root, bool nested)
{
    core_node *work = NULL;
    if (!reach(e, root, &work, nested))
        return false;
    while (work != NULL) {
        core_node *node = work;
        work = node->link;
        uint8_t wanted = 0, leaves = 0;
        backward_streams_see(&e->streams, node);
        for (int i = 0; i < node->n_in; i++) {
            const core_edge *edge = &node->edges[i];
            core_node *producer = edge->node;
            if (producer != NULL) {
                wanted |= (uint8_t)B(i);
                if (producer->epoch != e->epoch && !reach(e, producer, &work, nested))
                    return false;
                producer->pending++;
            } else if (edge->leaf != NULL && !count_leaf(e, node, i, &leaves)) {
                return false;
            }
        }
        node->wanted = wanted | leaves;
        node->leaves = leaves;
    }
    return true;
}

/* tern_grad: the counted nodes as a list that has each one before its consumers. Counts of deliveries are
 * zero afterwards. */
static core_node *producers_first(core_node *root)
{
    core_node *ready = root, *list = NULL;
    while (ready != NULL) {
        core_node *node = ready;
        ready = node->link;
        node->link = list;
        list = node;
        FOR_BITS(i, (uint32_t)(node->wanted & ~node->leaves))
        {
            core_node *producer = node->edges[i].node;
            if (--producer->pending == 0) {
                producer->link = ready;
                ready = producer;
            }
        }
    }
    return list;
}

/* tern_grad: what leads to no captured tensor is not in this backward. Counts deliveries anew. */
static void leave_what_leads_to_captures(const engine *e, core_node *root)
{
    root->link = NULL;
    for (core_node *node = producers_first(root); node != NULL; node = node->link) {
        uint32_t wanted = node->leaves;
        FOR_BITS(i, (uint32_t)(node->wanted & ~node->leaves))
        {
            core_node *producer = node->edges[i].node;
            if (producer->epoch != e->epoch)
                continue;
            wanted |= B(i);
            producer->pending++;
        }
        node->wanted = (uint8_t)wanted;
        if (wanted == 0 && !autograd_captures_node(e->plan, node))
            node->epoch = 0; /* of no backward */
    }
}

static bool count(engine *e, core_node *root)
{
    const bool ok =
        e->outer == NULL ? count_consumers(e, root, false) : count_consumers(e, root, true);
    if (ok && e->plan->captures != NULL)
        leave_what_leads_to_captures(e, root);
    return ok;
}

/* ---- running ------------------------------------------------------------------------------------ */

/* Producers first: a gradient that several edges share is then held by them when a leaf asks whether
 * it may take it over. */
PER_KIND bool deliver(engine *e, core_node *node, tern_tensor **grad_in, bool plain)
{
    FOR_BITS(i, (uint32_t)(node->wanted & ~node->leaves))
    {
        const core_edge *edge = &node->edges[i];
        if (grad_in[i] != NULL && !node_receives(e, node, edge, grad_in[i], plain))
            return false;
    }
    FOR_BITS(i, node->leaves)
    if (grad_in[i] != NULL && !leaf_receives(e, node, node->edges[i].leaf, grad_in[i]))
        return false;
    return true;
}

/* Of three inputs or more: a gradient that several of them share stays as it is until all have it. */
static bool is_shared(const core_node *node, tern_tensor *const *grad_in)
{
    for (int i = 1; i < node->n_in; i++)
        for (int k = 0; k < i; k++)
            if (grad_in[i] == grad_in[k] && grad_in[i] != NULL)
                return true;
    return false;
}

/* Nobody takes over, or adds to, what has another reference. */
static __attribute__((noinline)) bool deliver_shared(engine *e, core_node *node,
                                                     tern_tensor **grad_in)
{
    for (int i = 0; i < node->n_in; i++)
        if (grad_in[i] != NULL)
            core_retain(grad_in[i]);
    const bool ok = deliver(e, node, grad_in, false);
    for (int i = 0; i < node->n_in; i++)
        if (grad_in[i] != NULL)
            core_release(e->self, grad_in[i]);
    return ok;
}

PER_KIND bool count_down(engine *e, core_node *node, bool plain)
{
    FOR_BITS(i, (uint32_t)(node->wanted & ~node->leaves))
    {
        core_node *producer = node->edges[i].node;
        if (--producer->pending == 0) {
            producer->link = e->ready;
            e->ready = producer;
        }
    }
    if (node->leaves == 0)
        return true;
    if (!plain && e->streams.mixed)
        backward_streams_leave(&e->streams);
    FOR_BITS(i, node->leaves)
    if (node->edges[i].leaf->hooks != NULL &&
        !autograd_leaf_count_down(e, node, node->edges[i].leaf))
        return false;
    return true;
}

/* A backward function of a user's own runs in the autocast setting of its forward, and may be wrong. */
static __attribute__((noinline)) bool own_backward(engine *e, tern_tensor **grad_in)
{
    tern_op_ctx *ctx = &e->ctx;
    const core_node *node = ctx->node;
    uint32_t state = 0;
    for (int i = 0; i < node->n_saved; i++)
        if (node->saved[i].place == SAVED_AUTOCAST)
            state = node->saved[i].version;
    const uint32_t outer = state != 0 ? core_autocast_replay_begin(ctx->self, state) : 0;
    const char *calling = core_calling_begin(ctx->self, node->op->name);
    node->op->backward(ctx, node->grad[0], grad_in);
    core_calling_end(ctx->self, calling);
    if (state != 0)
        core_autocast_replay_end(ctx->self, outer);
    return e->self->error_code == TERN_OK && autograd_settle_own(e, node, grad_in);
}

PER_KIND bool call_backward(engine *e, core_node *node, bool plain)
{
    tern_tensor *grad_in[CORE_MAX_INPUTS] = { NULL }; /* all: a few wide stores, no loop */
    if (__builtin_expect(node->released, 0)) {
        core_error(
            e->self, node->site, TERN_ERR_GRAD, node->op->name,
            "backward goes through the graph a second time, and what it needs was freed by the "
            "first\n  try .retain_graph = true in the first call, or tern_detach what is "
            "carried from one step to the next");
        return false;
    }
    if (__builtin_expect(node->checkpoint != NULL, 0) &&
        !autograd_checkpoint_fill(e->self, node, e->epoch))
        return false;
    if (__builtin_expect(node->op->id_ == 0, 0)) {
        if (!own_backward(e, grad_in))
            return false;
    } else {
        node->op->backward(&e->ctx, node->grad[0], grad_in);
    }
    if (__builtin_expect(e->self->anomaly, 0) && !autograd_check_anomaly(e->self, node, grad_in))
        return false;
    if (e->self->error_code != TERN_OK)
        return false;
    if (__builtin_expect(node->n_in > 2, 0) && is_shared(node, grad_in))
        return deliver_shared(e, node, grad_in);
    return deliver(e, node, grad_in, plain);
}

static inline bool any_grad(const core_node *node)
{
    if (__builtin_expect(node->n_out == 1, 1))
        return node->grad[0] != NULL;
    for (int i = 0; i < node->n_out; i++)
        if (node->grad[i] != NULL)
            return true;
    return false;
}

static inline void drop_grad(engine *e, core_node *node, int i)
{
    tern_tensor *grad = node->grad[i];
    if (grad == NULL)
        return;
    node->grad[i] = NULL;
    core_release(e->self, grad);
}

static inline void drop_grads(engine *e, core_node *node)
{
    drop_grad(e, node, 0);
    for (int i = 1; i < node->n_out; i++)
        drop_grad(e, node, i);
}

static bool fits_result(const engine *e, const core_node *node, const tern_view *grad,
                        const tern_view *other)
{
    if (!core_view_same_shape(grad, other) || !tern_dev_equal(grad->dev, other->dev))
        return autograd_misfit(e, node, other, "a hook", "a result", grad);
    if (grad->dtype != other->dtype)
        core_error(e->self, node->site, TERN_ERR_GRAD, node->op->name,
                   "a hook returned a gradient of %s for a result of %s",
                   tern_dtype_name((tern_dtype_t)other->dtype),
                   tern_dtype_name((tern_dtype_t)grad->dtype));
    return grad->dtype == other->dtype;
}

static bool apply_node_hooks(engine *e, core_node *node)
{
    for (int i = 0; i < node->n_out; i++) {
        tern_tensor *grad = node->grad[i];
        if (grad == NULL)
            continue;
        tern_tensor *other = autograd_run_hooks(node->hooks->first, i, NULL, grad);
        if (other != grad && other != NULL) {
            if (!fits_result(e, node, &grad->view, &other->view))
                return false;
            node->grad[i] = core_retain(other);
            core_release(e->self, grad);
        }
    }
    return e->self->error_code == TERN_OK;
}

/* What tern_grad was asked for goes to the program, on the caller's streams. */
static bool capture_outputs(engine *e, core_node *node)
{
    if (!autograd_captures_node(e->plan, node))
        return true;
    bool ok = true;
    for (int i = 0; e->streams.mixed && ok && i < node->n_out; i++) {
        ok = node->grad[i] == NULL || backward_streams_to_caller(&e->streams, node->grad[i]);
        backward_streams_enter(&e->streams, node);
    }
    backward_streams_leave(&e->streams);
    ok = ok && autograd_capture_node(e->plan, node);
    if (e->streams.mixed)
        backward_streams_enter(&e->streams, node);
    return ok;
}

PER_KIND bool run_node(engine *e, core_node *node, bool plain)
{
    tern_thread *self = e->self;
    if (!plain && e->streams.mixed)
        backward_streams_enter(&e->streams, node);
    const int64_t mark = e->mark = self->scope.top;
    e->ctx.node = node;
    self->site = node->site;
    bool ok = true;
    const bool outside = !plain && autograd_runs_outside(e, node);
    if (!plain)
        e->ctx.keeps = e->plan->retain_graph || outside;
    if (node->hooks != NULL)
        ok = apply_node_hooks(e, node);
    if (!plain && ok && e->plan->captures != NULL)
        ok = capture_outputs(e, node);
    if (ok && node->wanted != 0 && any_grad(node))
        ok = call_backward(e, node, plain);
    drop_grads(e, node);
    if (!outside) {
        if (__builtin_expect(node->checkpoint != NULL, 0))
            autograd_checkpoint_empty(self, node);
        if (!e->plan->retain_graph && (plain || node->wanted != 0)) /* else the captures end here */
            autograd_node_release_saved(self, node);
    }
    if (self->scope.top != mark || self->scope.mark > mark)
        core_scope_unwind(self, mark);
    return ok;
}

PER_KIND bool run_ready(engine *e, bool plain)
{
    bool ok = true;
    while (ok && e->ready != NULL) {
        core_node *node = e->ready;
        e->ready = node->link;
        ok = run_node(e, node, plain) && count_down(e, node, plain);
    }
    return ok;
}

/* After a failure: gradients that wait in nodes and for leaves' hooks are let go. Walks the same way as the counting. */
static void abandon(engine *e, core_node *root)
{
    const uint64_t epoch = ++e->self->backward_epoch;
    core_node *work = NULL;
    touch(epoch, root, &work);
    while (work != NULL) {
        core_node *node = work;
        work = node->link;
        drop_grads(e, node);
        for (int i = 0; i < node->n_in; i++) {
            core_node *producer = node->edges[i].node;
            if (node->edges[i].leaf != NULL && node->edges[i].leaf->hooks != NULL)
                autograd_leaf_abandon(e, node->edges[i].leaf->hooks);
            if (producer != NULL && producer->epoch == e->epoch)
                touch(epoch, producer, &work);
        }
    }
}

/* Takes over the gradient. */
static bool walk(engine *e, core_node *root, int output, tern_tensor *gradient)
{
    backward_streams_begin(&e->streams, e->self);
    if (!count(e, root)) {
        core_release(e->self, gradient);
        return false;
    }
    root->grad[output] = gradient;
    bool ok = backward_streams_counted(&e->streams, root, gradient);
    root->link = NULL;
    e->ready = root;
    if (root->epoch != e->epoch)
        drop_grads(e, root);
    else if (ok)
        ok = is_plain(e) ? run_ready(e, true) : run_ready(e, false);
    backward_streams_leave(&e->streams);
    if (!ok)
        abandon(e, root);
    return ok;
}

bool autograd_run(tern_thread *self, core_node *root, int output, tern_tensor *gradient,
                  const backward_plan *plan)
{
    engine e;
    e.self = self;
    e.epoch = ++self->backward_epoch;
    e.plan = plan;
    e.ctx.self = self;
    e.ctx.node = NULL;
    e.ctx.attr = NULL;
    e.ctx.in_forward = false;
    e.ctx.keeps = plan->retain_graph;
    e.ctx.n_user = 0;
    e.outer = self->backward;
    e.kept = (kept){ 0 };
    const bool grad_mode = self->grad_mode;
    const bool owned_mode = self->owned_mode;
    const bool in_backward = self->in_backward;
    const uint8_t autocast = self->autocast;
    const tern_site_t site = self->site, backward_site = self->backward_site;
    self->backward = &e;
    self->backward_site = site;
    self->in_backward = true;
    self->autocast = 0; /* gradients have the dtypes that forward chose */
    self->grad_mode = plan->create_graph;
    self->owned_mode = false;
    /* edges never change, so the root keeps alive whatever waits on a list or was kept */
    autograd_node_retain(root);
    const bool ok = walk(&e, root, output, gradient);
    if (e.outer != NULL)
        autograd_put_back(&e);
    core_node_release(self, root);
    self->backward = e.outer;
    self->grad_mode = grad_mode;
    self->owned_mode = owned_mode;
    self->in_backward = in_backward;
    self->autocast = autocast;
    self->site = site;
    self->backward_site = backward_site;
    return ok;
}
