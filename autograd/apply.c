/* Ops of a user's own: a forward made of other ops (or kernels of their own), and a backward. */
#include <stdio.h>

#include "autograd/node.h"
#include "core/autocast.h"
#include "core/rules.h"

void *autograd_no_answer(const tern_op_ctx *ctx, const char *what)
{
    tern_thread *self = core_self();
    if (ctx == NULL)
        core_error(self, self->site, TERN_ERR_ARGUMENT, what,
                   "the context is NULL\n  try the one that the op's own function is called with");
    else
        core_error(
            self, self->site, TERN_ERR_STATE, what,
            "only a backward function may ask: in forward nothing is saved yet, and there is no "
            "gradient");
    return NULL;
}

void *autograd_no_such_saved(const tern_op_ctx *ctx, const char *who, int i, int count)
{
    const core_node *node = ctx->node;
    char saved[16] = "none";
    if (count > 0)
        (void)snprintf(saved, sizeof saved, "%d", count);
    core_error(ctx->self, node->site, TERN_ERR_ARGUMENT, node->op->name,
               "backward asks for saved tensor %d; %s %s", i, who, saved);
    return NULL;
}

void tern_save(tern_op_ctx *ctx, tern_tensor *t)
{
    if (ctx == NULL)
        (void)autograd_no_answer(ctx, "save");
    if (ctx == NULL || !ctx->in_forward || t == NULL)
        return;
    if (ctx->n_user == MAX_USER_SAVED)
        core_error(ctx->self, NULL, TERN_ERR_ARGUMENT, "tern_save", "more than %d tensors",
                   MAX_USER_SAVED);
    else
        ctx->user[ctx->n_user++] = core_retain(t); /* its scope may end before it is recorded */
}

static bool is_input(const core_call *call, const tern_tensor *t)
{
    for (int i = 0; i < call->n_in; i++)
        if (t == call->in[i])
            return true;
    return false;
}

/* The caller's input that is the result, or lies in the same tensor's memory as the result; NULL: none. */
static const tern_tensor *shared_input(const core_call *call, const tern_tensor *result)
{
    const tern_tensor *owner = result->base != NULL ? result->base : result;
    for (int i = 0; i < call->n_in; i++) {
        const tern_tensor *in = call->in[i];
        if (in != NULL && !(call->owned & B(i)) && owner == (in->base != NULL ? in->base : in))
            return in;
    }
    return NULL;
}

/* Of what the op returns of an input. It has another history than that memory, so that changes in place are refused
 * (PyTorch's rule); where nothing is recorded it is a view like others. */
static void become_view(const core_call *call, const tern_tensor *in, tern_tensor *result,
                        tern_tensor *view)
{
    view->base = core_retain(result->base != NULL ? result->base : result);
    view->rebases = in->base != NULL ? in->rebases : view->base->rebases;
    view->no_grad_view = !call->self->grad_mode || in->no_grad_view;
    view->own_view = core_tape_wants(call) || in->own_view;
}

/* The result must be a tensor of its own, made since `mark`: one that is an input, or that is kept elsewhere, is
 * handed out as an alias, so that history can be attached to it. */
static tern_tensor *own_result(core_call *call, tern_tensor *result, int64_t mark)
{
    if (result->scope_slot >= mark && result->node == NULL && result->base == NULL &&
        !is_input(call, result))
        return core_retain(result);
    const tern_tensor *in = shared_input(call, result);
    tern_tensor *alias = core_tensor_alias(call->self, call->site, result);
    if (in != NULL && alias != NULL && call->op->backward != NULL)
        become_view(call, in, result, alias);
    return alias;
}

static bool abandoned(core_call *call, core_node *node)
{
    autograd_node_abandon(call->self, node);
    return false;
}

static bool record(core_call *call, tern_op_ctx *ctx)
{
    const bool replays = call->self->autocast != 0;
    core_node *node = autograd_node_new(call, ctx->n_user + replays);
    if (node == NULL)
        return false;
    for (int k = 0; k < ctx->n_user; k++) {
        tern_tensor *t = ctx->user[k];
        const bool output = t == call->out[0];
        if (output)
            t = core_tensor_alias(call->self, t->site, t);
        else
            core_retain(t);
        if (t == NULL)
            return abandoned(call, node);
        uint8_t edge = 0;
        while (edge < call->n_in && call->in[edge] != t)
            edge++;
        if (output)
            edge = EDGE_OUTPUT;
        if (!autograd_node_save(call->self, node, t, (uint8_t)(SAVED_USER + k), edge))
            return abandoned(call, node);
    }
    if (replays) {
        autograd_node_save(call->self, node, NULL, SAVED_AUTOCAST, NO_EDGE);
        node->saved[node->n_saved - 1].version = core_autocast_state(call->self);
    }
    autograd_node_attach(call, node);
    return true;
}

static bool run_forward(core_call *call, tern_op_ctx *ctx, int64_t mark)
{
    const bool grad_mode = tern_set_grad_enabled(false);
    const bool owned_mode = tern_set_owned_mode(false);
    const char *outer = core_calling_begin(call->self, call->op->name);
    tern_tensor *result = call->op->forward(ctx, call->in);
    core_calling_end(call->self, outer);
    tern_set_grad_enabled(grad_mode);
    tern_set_owned_mode(owned_mode);
    if (call->self->error_code != TERN_OK)
        return false;
    if (result == NULL)
        return core_fail(call, TERN_ERR_STATE, NULL, "forward returned no tensor and no error");
    call->out[0] = own_result(call, result, mark);
    /* what was saved as the result is the result, also where an alias is handed out */
    for (int k = 0; k < ctx->n_user && call->out[0] != NULL; k++)
        if (ctx->user[k] == result && !is_input(call, result)) {
            ctx->user[k] = core_retain(call->out[0]);
            core_release(call->self, result);
        }
    return call->out[0] != NULL;
}

/* An op that states a class gets its inputs cast and runs with autocast off. */
static bool cast_inputs(core_call *call)
{
    if (!core_autocast_wants(call))
        return true;
    call->dev = TERN_CPU;
    for (int i = call->n_in - 1; i >= 0; i--)
        if (call->in[i] != NULL)
            call->dev = call->in[i]->view.dev;
    const tern_op *op = call->op;
    const int rule = call->dev.kind == TERN_KIND_CPU ? op->cast_cpu : op->cast_cuda;
    if (!core_autocast_inputs(call))
        return false;
    if (rule != TERN_CAST_NONE)
        call->self->autocast = 0;
    return true;
}

/* Nothing where the call is not recorded. */
static uint8_t wanted_inputs(const core_call *call)
{
    uint8_t wanted = 0;
    for (int i = 0; core_tape_wants(call) && i < call->n_in; i++)
        if (call->in[i] != NULL && call->in[i]->requires_grad)
            wanted |= (uint8_t)B(i);
    return wanted;
}

static tern_tensor *apply_forward(core_call *call)
{
    tern_thread *self = call->self;
    tern_op_ctx ctx;
    ctx.self = self;
    ctx.node = NULL;
    ctx.attr = call->attr;
    ctx.in_forward = true;
    ctx.keeps = true;
    ctx.n_user = 0;
    const tern_site_t outer = tern_site_begin(call->site);
    const int64_t mark = self->scope.top;
    const uint8_t autocast = self->autocast;
    bool ok = cast_inputs(call);
    ctx.wanted = wanted_inputs(call);
    ok = ok && run_forward(call, &ctx, mark);
    ok = ok && (!core_tape_wants(call) || record(call, &ctx));
    self->autocast = autocast;
    core_release_owned(call);
    for (int k = 0; k < ctx.n_user; k++)
        core_release(self, ctx.user[k]);
    if (!ok && call->out[0] != NULL) {
        core_release(self, call->out[0]);
        call->out[0] = NULL;
    }
    /* a result of this scope would keep its slot: it moves out through its own reference */
    if (ok && call->out[0]->scope_slot >= mark)
        tern_drop(call->out[0]);
    core_scope_unwind(self, mark);
    tern_site_end(outer);
    return ok ? core_scope_add(self, call->out[0]) : NULL;
}

tern_tensor *autograd_saved_of_row(tern_op_ctx *ctx, int i)
{
    const tern_op *op = ctx->node->op;
    int count = 0;
    for (int k = 0; k < CORE_MAX_INPUTS; k++)
        if ((op->save & B(k)) && count++ == i)
            return core_saved_in(ctx, k);
    for (int k = 0; k < CORE_MAX_OUTPUTS; k++)
        if ((op->save_out & B(k)) && count++ == i)
            return core_saved_out(ctx, k);
    return autograd_no_such_saved(ctx, "the row saves", i, count);
}

/* ---- rules --------------------------------------------------------------------------------------- */

tern_tensor *tern_rule_input(const tern_op_call *call, int i)
{
    return call != NULL && i >= 0 && i < call->n_in ? call->in[i] : NULL;
}

const void *tern_rule_attr(const tern_op_call *call)
{
    return call != NULL ? call->attr : NULL;
}

bool tern_rule_output(tern_op_call *call, int i, tern_dtype_t dtype, tern_shape_t shape)
{
    if (call == NULL)
        return tern_fail_at(NULL, TERN_ERR_ARGUMENT, "rule_output", "the call is NULL") == TERN_OK;
    if (i < 0 || i >= call->n_out || call->out[i] != NULL)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                         "the rule makes output %d of %d, each of which it has to make once", i,
                         call->n_out);
    if ((int)dtype <= TERN_DTYPE_NONE || dtype >= TERN_DTYPES || !shape.set_ || shape.ndim < 0 ||
        shape.ndim > TERN_MAX_DIMS)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                         "the rule gives output %d a dtype or a shape that there is not", i);
    return core_out(call, i, dtype, shape.ndim, shape.dims);
}

/* ---- the call ------------------------------------------------------------------------------------ */

/* What a kernel writes has no record of it: a gradient would be that of what was there before. */
static bool has_history(const core_call *call, const tern_tensor *t)
{
    return call->self->grad_mode &&
           (t->requires_grad || (t->base != NULL && t->base->requires_grad));
}

/* Kernels write input i itself, so a packed copy of it would be lost. */
static bool check_written(core_call *call, int i)
{
    const uint8_t layout = call->op->layout;
    if (call->in[i] == NULL || !(call->op->mutates & B(i)))
        return true;
    const tern_view *v = core_view(call, i);
    char name[CORE_OPERAND_BYTES];
    core_operand_name(call->op, i, name);
    if (has_history(call, call->in[i]))
        return core_fail(call, TERN_ERR_GRAD,
                         "an output in its place, TERN_NO_GRAD; around the call, or tern_detach",
                         "%s is written, which is not recorded, and requires a gradient", name);
    if (core_view_overlaps_itself(v))
        return core_fail(call, TERN_ERR_ARGUMENT, "tern_contiguous or tern_clone first",
                         "%s is written, and several of its elements share one place in memory",
                         name);
    return layout == TERN_LAYOUT_STRIDED || (v->flags & TERN_VIEW_CONTIGUOUS) ||
           (layout == TERN_LAYOUT_IMAGE && core_view_channels_last(v)) ||
           core_fail(call, TERN_ERR_ARGUMENT, "tern_contiguous first",
                     "%s is written and has to be contiguous", name);
}

/* What the dispatcher takes for granted of the library's rows, and what a forward does itself. */
static bool check_row(core_call *call)
{
    const tern_op *op = call->op;
    const char *problem = NULL;
    const int of_rules = op->save | op->save_out | op->save_cross | op->mutates | op->layout;
    if (op->forward != NULL && (of_rules != 0 || op->outputs > 1))
        problem =
            "save, save_out, save_cross, mutates, layout and outputs are for ops with a rule: "
            "a forward calls tern_save, and has one result";
    else if (op->forward != NULL)
        return true;
    else if (op->rule == NULL)
        problem = "the op has neither forward nor rule";
    else if (call->n_in == 0 || call->in[0] == NULL)
        problem = "an op with kernels needs its first input: it runs where that lies";
    else if (op->is_view)
        problem = "a view is made by a forward: kernels write outputs of their own";
    else if (op->save >> call->n_in != 0 || op->save_out >> call->n_out != 0)
        problem = "`save` or `save_out` names what the op does not have";
    else if (op->save_cross && (call->n_in != 2 || op->optional != 0))
        problem = "save_cross is for two inputs, both given";
    if (problem != NULL)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "%s", problem);
    for (int i = 0; i < call->n_in; i++)
        if (!check_written(call, i))
            return false;
    return true;
}

static bool check(core_call *call, tern_tensor *const *in)
{
    for (int i = 0; i < call->n_in; i++) /* all of them: an error shows them all */
        call->in[i] = in[i];
    for (int i = 0; i < call->n_in; i++) {
        if (in[i] == NULL && !(call->op->optional & B(i)))
            return core_missing_input(call, i);
        if (in[i] != NULL && call->self->grad_mode &&
            !core_tape_refresh(call->self, call->site, in[i]))
            return false;
    }
    return check_row(call);
}

/* An op with a rule, inside the call's own site. */
static bool apply_rule(core_call *call)
{
    tern_thread *self = call->self;
    const tern_site_t outer = tern_site_begin(call->site);
    const bool ok = core_dispatch(call);
    if (!ok) /* inputs may be gone, so none are shown */
        core_error(self, call->site, TERN_ERR_STATE, call->op->name,
                   "the op's rule was false without an error");
    tern_site_end(outer);
    return ok;
}

tern_tensor *tern_apply_at(tern_site_t site, const tern_op *op, tern_tensor *const *in,
                           const void *attr)
{
    tern_thread *self = core_self();
    if (self->error_code != TERN_OK)
        return NULL;
    if (op == NULL || in == NULL || op->inputs > CORE_MAX_INPUTS ||
        op->outputs > CORE_MAX_OUTPUTS) {
        core_error(self, site, TERN_ERR_ARGUMENT, "tern_apply",
                   "the op or its inputs are NULL, or it has more than %d inputs or %d outputs",
                   CORE_MAX_INPUTS, CORE_MAX_OUTPUTS);
        return NULL;
    }
    union {
        char bytes[MAX_ATTR];
        double align;
    } copy;
    if (op->attr_size > sizeof copy.bytes) {
        core_error(self, site, TERN_ERR_ARGUMENT, op->name, "attributes of more than %zu bytes",
                   sizeof copy.bytes);
        return NULL;
    }
    if (attr != NULL)
        memcpy(copy.bytes, attr, op->attr_size);
    else
        memset(copy.bytes, 0, op->attr_size);
    core_call call;
    call.self = self;
    call.op = op;
    call.site = core_site(self, site);
    call.attr = attr != NULL || op->attr_size > 0 ? copy.bytes : NULL;
    call.n_in = op->inputs;
    call.n_out = op->outputs == 0 ? 1 : op->outputs;
    call.preset = false;
    call.owned = 0;
    for (int i = 0; i < CORE_MAX_OUTPUTS; i++)
        call.out[i] = NULL;
    if (!check(&call, in))
        return NULL;
    if (op->forward != NULL) {
        call.n_out = 1;
        return apply_forward(&call);
    }
    if (!apply_rule(&call))
        return NULL;
    for (int i = 1; i < call.n_out; i++)
        core_release(self, call.out[i]);
    return core_scope_add(self, call.out[0]);
}
