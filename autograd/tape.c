/* Recording: nodes are made, filled and released here. See autograd/node.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/checkpoint.h"
#include "core/memory.h"

/* ---- making ------------------------------------------------------------------------------------ */

_Static_assert(sizeof(core_node) + CORE_MAX_INPUTS * sizeof(core_edge) +
                       (MAX_USER_SAVED + 1) * sizeof(core_saved) + sizeof(tern_view) + MAX_ATTR +
                       AUTOGRAD_MOST_SHAPES <=
                   CORE_POOL_LIMIT,
               "the largest op of a user's own has a node");

/* Elementwise backward functions see gradients of their inputs' own shape: no need to keep it. */
static bool keeps_shape(const tern_op *op)
{
    return op->rule != rule_unary && op->rule != rule_unary_float && op->rule != rule_same &&
           op->rule != rule_binary && op->rule != rule_binary_float && op->rule != rule_where;
}

static inline size_t align8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

/* Of calls between two devices the target's, but for the CPU. */
static inline uint16_t stream_of(const core_call *call)
{
    const tern_tensor *t = call->out[0];
    if (t->view.dev.kind == TERN_KIND_CPU && call->in[0] != NULL)
        t = call->in[0];
    const tern_dev_t dev = t->view.dev;
    return dev.kind == TERN_KIND_CPU ? (uint16_t)STREAM_NONE
                                     : call->self->streams[dev.kind][dev.index];
}

static inline void fill_edges(core_call *call, core_node *node)
{
    const uint16_t stream = stream_of(call);
    for (int i = 0; i < call->n_in; i++) {
        core_edge *edge = &node->edges[i];
        tern_tensor *t = call->in[i];
        edge->node = NULL;
        edge->leaf = NULL;
        edge->output = 0;
        edge->stream = stream;
        if (t == NULL || !t->requires_grad)
            continue;
        if (t->node != NULL) {
            edge->node = t->node;
            edge->output = t->output_index;
            autograd_node_retain(t->node);
        } else {
            edge->leaf = core_retain(t);
        }
    }
}

/* The parts of a recording are compiled into core_tape_record, so that it has one frame. */
#define IN_PLACE __attribute__((always_inline)) static inline

IN_PLACE core_node *new_node(core_call *call, int n_saved)
{
    const tern_op *op = call->op;
    const bool shape = call->n_in > 0 && keeps_shape(op);
    const size_t saved = sizeof(core_node) + call->n_in * sizeof(core_edge);
    const size_t view = saved + (size_t)n_saved * sizeof(core_saved);
    const size_t attr = view + (shape ? sizeof(tern_view) : 0);
    size_t bytes = attr + align8(op->attr_size);
    const size_t shapes = __builtin_expect(op->id_ == 0, 0) ? autograd_shapes_bytes(call) : 0;
    bytes += shapes;
    char *block = bytes <= CORE_POOL_LIMIT ? core_pool_alloc(&call->self->pool, bytes) : NULL;
    if (block == NULL) {
        core_fail(call, TERN_ERR_OOM, NULL, "no host memory to record the call");
        return NULL;
    }
    core_node *node = (core_node *)(void *)block;
    atomic_store_explicit(&node->refs, 0, memory_order_relaxed);
    node->bytes = (uint16_t)bytes;
    node->n_in = call->n_in;
    node->n_out = call->n_out;
    node->n_saved = 0;
    node->released = false;
    node->epoch = 0;
    node->op = op;
    node->site = call->site;
    node->hooks = NULL;
    node->checkpoint = NULL;
    for (int i = 0; i < CORE_MAX_OUTPUTS; i++)
        node->grad[i] = NULL;
    node->saved = (core_saved *)(void *)(block + saved);
    node->first = shape ? (tern_view *)(void *)(block + view) : NULL;
    node->attr = block + attr;
    if (shape)
        *node->first = call->in[0]->view;
    if (op->attr_size > 0 && call->attr != NULL)
        memcpy(node->attr, call->attr, op->attr_size);
    if (__builtin_expect(autograd_shapes_of(node) < block + bytes, 0))
        autograd_shapes_fill(call, autograd_shapes_of(node));
    fill_edges(call, node);
    return node;
}

core_node *autograd_node_new(core_call *call, int n_saved)
{
    return new_node(call, n_saved);
}

/* Forward in a checkpoint: what is saved is given up for a slot. Again: it fills one, too. */
static __attribute__((noinline, cold)) bool pack(tern_thread *self, core_node *node,
                                                 core_saved *saved)
{
    const bool again = self->checkpoint->again;
    if (!autograd_checkpoint_pack(self, saved->tensor, &saved->slot))
        return false;
    if (again)
        return true;
    autograd_checkpoint_join(self, node);
    saved->packed = true;
    core_release(self, saved->tensor);
    saved->tensor = NULL;
    return true;
}

IN_PLACE bool save(tern_thread *self, core_node *node, tern_tensor *t, uint8_t place, uint8_t edge)
{
    core_saved *saved = &node->saved[node->n_saved++];
    saved->tensor = t;
    saved->version =
        t == NULL ? 0 : atomic_load_explicit(&t->storage->version, memory_order_relaxed);
    saved->place = place;
    saved->edge = edge;
    saved->packed = false;
    return t == NULL || __builtin_expect(self->checkpoint == NULL, 1) || pack(self, node, saved);
}

bool autograd_node_save(tern_thread *self, core_node *node, tern_tensor *t, uint8_t place,
                        uint8_t edge)
{
    return save(self, node, t, place, edge);
}

/* What was saved last counts as it is after the call. */
static inline void saved_ahead(tern_thread *self, core_node *node)
{
    node->saved[node->n_saved - 1].version++;
    if (__builtin_expect(self->checkpoint != NULL, 0))
        autograd_checkpoint_ahead(self);
}

IN_PLACE void attach(core_call *call, core_node *node)
{
    uint32_t refs = 0;
    for (int i = 0; i < call->n_out; i++) {
        tern_tensor *out = call->out[i];
        if ((call->op->frozen & B(i)) || !tern_dtype_is_float((tern_dtype_t)out->view.dtype))
            continue;
        if (out->node != NULL) /* in place: the old producer is now behind an edge */
            core_node_release(call->self, out->node);
        refs++;
        out->node = node;
        out->output_index = (uint8_t)i;
        out->requires_grad = true;
    }
    /* nobody else knows the node yet: no locked instruction */
    atomic_store_explicit(&node->refs, refs, memory_order_relaxed);
    if (refs == 0) { /* every output is frozen or no float */
        autograd_node_retain(node);
        core_node_release(call->self, node);
    }
}

void autograd_node_attach(core_call *call, core_node *node)
{
    attach(call, node);
}

/* Which inputs a row saves for this call, as bits. */
static uint32_t saved_inputs(const core_call *call)
{
    if (!call->op->save_cross)
        return call->op->save;
    const bool a = call->in[0]->requires_grad, b = call->in[1]->requires_grad;
    return (b ? B(0) : 0u) | (a ? B(1) : 0u);
}

/* Is t one of the tensors that the call wrote? Then the tape must not hold the tensor itself. */
static bool is_output(const core_call *call, const tern_tensor *t)
{
    return call->preset && call->n_out > 0 && call->out[0] == t;
}

static tern_tensor *hold(core_call *call, tern_tensor *t, bool alias)
{
    if (t == NULL)
        return NULL;
    return alias ? core_tensor_alias(call->self, t->site, t) : core_retain(t);
}

/* A call that writes what was there is saved before it has: the versions of what backward shall see
 * as it is afterwards are one ahead. */
IN_PLACE bool save_all(core_call *call, core_node *node, uint32_t inputs, uint32_t outputs)
{
    FOR_BITS(i, inputs)
    {
        if (i >= call->n_in)
            break;
        tern_tensor *t =
            hold(call, call->in[i], call->in[i] != NULL && is_output(call, call->in[i]));
        if (t == NULL && call->in[i] != NULL)
            return false;
        if (!save(call->self, node, t, (uint8_t)i, (uint8_t)i))
            return false;
        if (call->op->mutates & B(i))
            saved_ahead(call->self, node);
    }
    FOR_BITS(j, outputs)
    {
        tern_tensor *t = hold(call, call->out[j], true);
        if (t == NULL)
            return false;
        if (!save(call->self, node, t, (uint8_t)(SAVED_OUTPUT + j), NO_EDGE))
            return false;
        if (call->preset)
            saved_ahead(call->self, node);
    }
    return true;
}

/* A row saves few tensors: shorter than the call that __builtin_popcount is on a base x86. */
static inline int count_bits(uint32_t bits)
{
    int n = 0;
    for (; bits != 0; bits &= bits - 1)
        n++;
    return n;
}

void autograd_node_abandon(tern_thread *self, core_node *node)
{
    autograd_node_retain(node);
    core_node_release(self, node);
}

IN_PLACE core_node *filled_node(core_call *call)
{
    const uint32_t inputs = saved_inputs(call), outputs = call->op->save_out;
    core_node *node = new_node(call, count_bits(inputs) + count_bits(outputs));
    if (node == NULL || save_all(call, node, inputs, outputs))
        return node;
    autograd_node_abandon(call->self, node);
    return NULL;
}

core_node *autograd_node_of(core_call *call)
{
    return filled_node(call);
}

bool core_tape_record(core_call *call)
{
    core_node *node = filled_node(call);
    if (node == NULL)
        return false;
    attach(call, node);
    return true;
}

/* ---- releasing --------------------------------------------------------------------------------- */

void core_hooks_free(tern_thread *self, struct core_hooks *hooks)
{
    for (core_hook *h = hooks->first, *next; h != NULL; h = next) {
        next = h->next;
        if (h->alias != NULL)
            core_release(self, h->alias);
        free(h);
    }
    free(hooks);
}

static void destroy(tern_thread *self, core_node *node)
{
    autograd_node_release_saved(self, node);
    for (int i = 0; i < node->n_in; i++) {
        if (node->edges[i].node != NULL)
            core_node_release(self, node->edges[i].node);
        if (node->edges[i].leaf != NULL)
            core_release(self, node->edges[i].leaf);
    }
    for (int i = 0; i < node->n_out; i++)
        if (node->grad[i] != NULL)
            core_release(self, node->grad[i]);
    if (node->hooks != NULL)
        core_hooks_free(self, node->hooks);
    core_pool_free(&self->pool, node, node->bytes);
}

tern_site_t core_node_inputs(const core_node *node,
                             void (*visit)(const core_node *input, void *user), void *user)
{
    for (int i = 0; i < node->n_in; i++)
        if (node->edges[i].node != NULL)
            visit(node->edges[i].node, user);
    return node->site;
}

/* A chain of a million nodes is released by a loop: what falls to zero while the loop runs is put on
 * its list instead of being released in a deeper call. */
void core_node_release(tern_thread *self, core_node *node)
{
    if (atomic_load_explicit(&node->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) != 1)
        return;
    node->link = self->doomed;
    self->doomed = node;
    if (self->releasing)
        return;
    self->releasing = true;
    while (self->doomed != NULL) {
        core_node *next = self->doomed;
        self->doomed = next->link;
        destroy(self, next);
    }
    self->releasing = false;
}

/* ---- what backward functions ask --------------------------------------------------------------- */

static __attribute__((noinline, cold)) tern_tensor *changed_since(tern_op_ctx *ctx,
                                                                  const core_saved *saved,
                                                                  uint32_t now)
{
    const tern_tensor *t = saved->tensor;
    const int place = saved->place;
    const tern_tensor *owner = t->base != NULL ? t->base : t;
    char shape[160], name[CORE_OPERAND_BYTES], times[64] = "once";
    const bool replaced = t->node == NULL && t->rebases > 0; /* once, perhaps before that */
    const bool trained = owner->node == NULL && owner->requires_grad; /* written in no_grad alone */
    if (replaced)
        (void)snprintf(times, sizeof times, "or given other memory (module_to, ema_swap)");
    else if (now - saved->version != 1)
        (void)snprintf(times, sizeof times, "%u times", now - saved->version);
    if (place < SAVED_OUTPUT)
        core_operand_name(ctx->node->op, place, name);
    else
        (void)snprintf(name, sizeof name,
                       place < SAVED_USER ? "output %d" : "tern_save's tensor %d",
                       place - (place < SAVED_USER ? SAVED_OUTPUT : SAVED_USER));
    core_error(ctx->self, ctx->node->site, TERN_ERR_GRAD, ctx->node->op->name,
               "%s (%s %s), which backward needs, was changed in place %s after it was saved\n"
               "  try %s",
               name, tern_dtype_name((tern_dtype_t)t->view.dtype),
               core_shape_text(t->view.ndim, t->view.shape, shape, sizeof shape), times,
               replaced || trained
                   ? "that change (an optimizer's step, a load, a move) before that forward, or "
                     "after this backward"
                   : "the form of that change that makes a new tensor, or change a clone");
    return NULL;
}

static inline tern_tensor *checked(tern_op_ctx *ctx, const core_saved *saved)
{
    tern_tensor *t = saved->tensor;
    if (t == NULL)
        return NULL;
    const uint32_t now = atomic_load_explicit(&t->storage->version, memory_order_relaxed);
    return __builtin_expect(now == saved->version, 1) ? t : changed_since(ctx, saved, now);
}

static inline tern_tensor *find_saved(tern_op_ctx *ctx, int place)
{
    const core_node *node = ctx->node;
    for (int i = 0; i < node->n_saved; i++)
        if (node->saved[i].place == place)
            return checked(ctx, &node->saved[i]);
    return NULL;
}

tern_tensor *core_saved_in(tern_op_ctx *ctx, int i)
{
    return find_saved(ctx, i);
}

void core_saved_done(tern_op_ctx *ctx, int i)
{
    core_node *node = ctx->node;
    if (ctx->keeps || node->checkpoint != NULL)
        return;
    for (int k = 0; k < node->n_saved; k++)
        if (node->saved[k].place == i && node->saved[k].tensor != NULL) {
            tern_tensor *t = node->saved[k].tensor;
            node->saved[k].tensor = NULL;
            core_release(ctx->self, t);
        }
}

/* While backward itself is recorded, a saved output must lead back to this node. */
static tern_tensor *led_back(tern_op_ctx *ctx, int i, tern_tensor *t)
{
    if (t == NULL || !ctx->self->grad_mode || (ctx->node->op->frozen & B(i)))
        return t;
    tern_tensor *linked = core_tensor_alias(ctx->self, t->site, t);
    if (linked == NULL)
        return NULL;
    autograd_node_retain(ctx->node);
    linked->node = ctx->node;
    linked->output_index = (uint8_t)i;
    linked->requires_grad = true;
    return core_scope_add(ctx->self, linked);
}

tern_tensor *core_saved_out(tern_op_ctx *ctx, int i)
{
    return led_back(ctx, i, find_saved(ctx, SAVED_OUTPUT + i));
}

tern_tensor *core_grad_apply(tern_op_ctx *ctx, tern_op_id id, const void *attr, tern_tensor *grad,
                             tern_tensor *x)
{
    tern_thread *self = ctx->self;
    void *of_call = (void *)(uintptr_t)attr; /* the node's copy: rules may normalise it */
    if (self->grad_mode || self->error_code != TERN_OK || grad != ctx->node->grad[0] || x == NULL ||
        !autograd_takes(grad, x))
        return core_op2(id, NULL, of_call, grad, x);
    return core_apply_ready(self, id, of_call, grad, x);
}

tern_tensor *core_grad_so_far(const tern_op_ctx *ctx, int i)
{
    const core_edge *edge = &ctx->node->edges[i];
    const core_node *producer = edge->node;
    if (ctx->self->grad_mode || producer == NULL ||
        producer->edges[0].stream != ctx->node->edges[0].stream)
        return NULL;
    tern_tensor *sum = producer->grad[edge->output];
    const bool ours = sum != NULL && autograd_exclusive(sum) && (sum->view.flags & TERN_VIEW_DENSE);
    return ours ? sum : NULL;
}

static inline bool is_backward(const tern_op_ctx *ctx)
{
    return __builtin_expect(ctx != NULL && ctx->node != NULL, 1);
}

tern_tensor *tern_saved(tern_op_ctx *ctx, int i)
{
    if (!is_backward(ctx))
        return autograd_no_answer(ctx, "saved");
    const core_node *node = ctx->node;
    if (node->op->forward == NULL)
        return autograd_saved_of_row(ctx, i);
    int count = 0;
    for (int k = 0; k < node->n_saved; k++)
        if (node->saved[k].place != SAVED_AUTOCAST && count++ == i) {
            tern_tensor *t = checked(ctx, &node->saved[k]);
            return node->saved[k].edge == EDGE_OUTPUT ? led_back(ctx, 0, t) : t;
        }
    return autograd_no_such_saved(ctx, "forward saved", i, count);
}

const tern_view *core_input_view(const tern_op_ctx *ctx, int i)
{
    const core_node *node = ctx->node;
    if (i == 0 && node->first != NULL)
        return node->first;
    for (int k = 0; k < node->n_saved; k++)
        if (node->saved[k].place == i && node->saved[k].tensor != NULL)
            return &node->saved[k].tensor->view;
    return node->grad[0] != NULL ? &node->grad[0]->view : NULL;
}

uint32_t core_wanted(const tern_op_ctx *ctx)
{
    return ctx->node != NULL ? ctx->node->wanted : 0;
}

bool tern_needs_grad(const tern_op_ctx *ctx, int input)
{
    if (ctx == NULL)
        return autograd_no_answer(ctx, "needs_grad") != NULL;
    const uint32_t wanted = ctx->in_forward ? ctx->wanted : core_wanted(ctx);
    return input >= 0 && input < CORE_MAX_INPUTS && (wanted & B(input)) != 0;
}

const void *tern_op_attr(const tern_op_ctx *ctx)
{
    if (ctx == NULL)
        return autograd_no_answer(ctx, "op_attr");
    return ctx->node != NULL ? ctx->node->attr : ctx->attr;
}

tern_tensor *tern_output_grad(tern_op_ctx *ctx, int i)
{
    if (!is_backward(ctx))
        return autograd_no_answer(ctx, "output_grad");
    return i >= 0 && i < ctx->node->n_out ? ctx->node->grad[i] : NULL;
}
