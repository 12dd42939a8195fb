/* Writing tensors that have a history, and views of them: PyTorch's rules.
 *
 * A call that writes a whole tensor becomes its new producer. One that writes a view becomes a part of the
 * producer of the tensor that owns the memory: a node `written` with two edges, to what was there before
 * (its gradient has zeros in the part) and to the call's own node (its gradient is the part). The owner
 * counts such rebases; a view with another count gets its history anew, when somebody asks, as a part of
 * the owner. What is replaced as a whole, by a constant or by a copy from elsewhere, gets such a node, too: what
 * was there before has a gradient, of zeros. */
#include "autograd/node.h"
#include "core/rules.h"
#include "tern/ops.h"

/* Where a part lies in the memory of a whole; strides and offset count elements. */
typedef struct geometry {
    int32_t whole_ndim, ndim;
    int64_t offset;
    int64_t whole_dims[TERN_MAX_DIMS], whole_strides[TERN_MAX_DIMS];
    int64_t dims[TERN_MAX_DIMS], strides[TERN_MAX_DIMS];
} geometry;

static geometry geometry_of(const tern_tensor *whole, const tern_tensor *part)
{
    const tern_view *w = &whole->view, *p = &part->view;
    geometry g = { .whole_ndim = w->ndim, .ndim = p->ndim };
    memcpy(g.whole_dims, w->shape, sizeof w->shape[0] * w->ndim);
    memcpy(g.whole_strides, w->stride, sizeof w->stride[0] * w->ndim);
    memcpy(g.dims, p->shape, sizeof p->shape[0] * p->ndim);
    memcpy(g.strides, p->stride, sizeof p->stride[0] * p->ndim);
    if (p->numel > 0)
        g.offset = ((const char *)p->data - (const char *)w->data) /
                   tern_dtype_size((tern_dtype_t)p->dtype);
    return g;
}

/* ---- the gradients' ops -------------------------------------------------------------------------- */

static int64_t span_of(const geometry *g)
{
    int64_t last = 0;
    for (int d = 0; d < g->whole_ndim; d++) {
        if (g->whole_dims[d] == 0)
            return 0;
        last += (g->whole_dims[d] - 1) * g->whole_strides[d];
    }
    return last + 1;
}

/* Memory in which the whole lies as it does in forward: 1-D, zeros. */
static tern_tensor *memory_like(tern_tensor *like, const geometry *g)
{
    return tern_zeros(TERN_SHAPE(span_of(g)), .dtype = (tern_dtype_t)like->view.dtype,
                      .like = like);
}

static tern_tensor *placed(tern_tensor *memory, int ndim, const int64_t *dims,
                           const int64_t *strides, int64_t offset)
{
    tern_thread *self = core_self();
    tern_tensor *t = memory != NULL ? core_tensor_alias(self, memory->site, memory) : NULL;
    if (t == NULL)
        return NULL;
    tern_view *v = &t->view;
    v->ndim = (uint8_t)ndim;
    v->numel = core_numel(ndim, dims);
    memcpy(v->shape, dims, sizeof *dims * (size_t)ndim);
    memcpy(v->stride, strides, sizeof *strides * (size_t)ndim);
    if (v->numel > 0)
        v->data = (char *)v->data + offset * tern_dtype_size((tern_dtype_t)v->dtype);
    core_view_update(v);
    return core_scope_add(self, t);
}

static tern_tensor *whole_in(tern_tensor *memory, const geometry *g)
{
    return placed(memory, g->whole_ndim, g->whole_dims, g->whole_strides, 0);
}
static tern_tensor *part_in(tern_tensor *memory, const geometry *g)
{
    return placed(memory, g->ndim, g->dims, g->strides, g->offset);
}

/* A copy of the whole in memory of its own. */
static tern_tensor *laid_out(tern_tensor *whole, const geometry *g)
{
    tern_tensor *memory = memory_like(whole, g);
    return tern_copy(whole_in(memory, g), whole) != NULL ? memory : NULL;
}

static tern_tensor *take_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    const geometry g = core_ctx_attr(ctx, geometry);
    return tern_clone(part_in(laid_out(in[0], &g), &g));
}

/* Adds a part whose elements may lie on each other: an extent of stride 0 is summed, and of others that
 * overlap the shortest is taken one by one. */
static bool add_part(tern_tensor *memory, geometry g, tern_tensor *part)
{
    int shortest = -1;
    for (int d = 0; d < g.ndim; d++) {
        if (g.strides[d] == 0 && g.dims[d] > 1) {
            part = tern_sum(part, .dims = TERN_DIMS(d), .keepdim = true);
            g.dims[d] = 1;
        }
        if (g.dims[d] > 1 && (shortest < 0 || g.dims[d] < g.dims[shortest]))
            shortest = d;
    }
    tern_tensor *place = part_in(memory, &g);
    if (place == NULL || part == NULL)
        return false;
    if (!core_view_overlaps_itself(&place->view))
        return tern_add_(place, part) != NULL;
    const int64_t count = g.dims[shortest];
    g.dims[shortest] = 1;
    for (int64_t i = 0; i < count; i++, g.offset += g.strides[shortest])
        if (!add_part(memory, g, tern_slice(part, shortest, i, i + 1)))
            return false;
    return true;
}

static tern_tensor *put_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    const geometry g = core_ctx_attr(ctx, geometry);
    tern_tensor *memory = memory_like(in[0], &g);
    return memory != NULL && add_part(memory, g, in[0]) ? whole_in(memory, &g) : NULL;
}

static tern_tensor *clear_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    const geometry g = core_ctx_attr(ctx, geometry);
    tern_tensor *memory = laid_out(in[0], &g);
    return tern_fill(part_in(memory, &g), 0) != NULL ? whole_in(memory, &g) : NULL;
}

static const tern_op put_part, clear_part;

static void apply(tern_op_ctx *ctx, const tern_op *op, tern_tensor *grad, tern_tensor **out)
{
    *out = tern_apply_at(TERN_HERE, op, &grad, tern_op_attr(ctx));
}

static void take_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    apply(ctx, &put_part, grad, grad_in);
}
/* whole -> part */
static const tern_op take_part = { .name = "view",
                                   .inputs = 1,
                                   .forward = take_forward,
                                   .backward = take_backward,
                                   .attr_size = sizeof(geometry) };

static void put_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    apply(ctx, &take_part, grad, grad_in);
}
/* part -> whole, zeros elsewhere */
static const tern_op put_part = { .name = "view_grad",
                                  .inputs = 1,
                                  .forward = put_forward,
                                  .backward = put_backward,
                                  .attr_size = sizeof(geometry) };

static void clear_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    apply(ctx, &clear_part, grad, grad_in);
}
/* whole -> whole, zeros in the part */
static const tern_op clear_part = { .name = "written_grad",
                                    .inputs = 1,
                                    .forward = clear_forward,
                                    .backward = clear_backward,
                                    .attr_size = sizeof(geometry) };

/* Is the part all of the whole, as it lies there? */
static bool is_whole(const geometry *g)
{
    const size_t bytes = sizeof g->dims[0] * (size_t)g->ndim;
    return g->ndim == g->whole_ndim && g->offset == 0 &&
           memcmp(g->dims, g->whole_dims, bytes) == 0 &&
           memcmp(g->strides, g->whole_strides, bytes) == 0;
}

static void written_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const geometry *g = tern_op_attr(ctx);
    if (is_whole(g)) {
        if (tern_needs_grad(ctx, 0))
            grad_in[0] = tern_zeros(tern_shape(grad), .dtype = tern_dtype(grad), .like = grad);
        grad_in[1] = grad;
        return;
    }
    if (tern_needs_grad(ctx, 0))
        apply(ctx, &clear_part, grad, &grad_in[0]);
    if (tern_needs_grad(ctx, 1))
        apply(ctx, &take_part, grad, &grad_in[1]);
}
/* (whole before, part) -> whole; made by hand, never called */
static const tern_op written = {
    .name = "written", .inputs = 2, .backward = written_backward, .attr_size = sizeof(geometry)
};

/* ---- nodes --------------------------------------------------------------------------------------- */

/* A node by which `whole` is the input of something that makes `part`. */
static core_node *node_between(tern_thread *self, tern_site_t site, const tern_op *op,
                               tern_tensor *whole, tern_tensor *part)
{
    geometry g = geometry_of(whole, part);
    core_call call = { .self = self, .op = op, .site = site, .attr = &g, .preset = true };
    call.n_in = op->inputs;
    call.n_out = 1;
    call.in[0] = whole;
    call.out[0] = whole;
    return autograd_node_new(&call, 0);
}

static void become_producer(tern_thread *self, tern_tensor *t, core_node *node)
{
    core_node *before = t->node;
    autograd_node_retain(node);
    t->node = node;
    t->output_index = 0;
    t->requires_grad = true;
    if (before != NULL)
        core_node_release(self, before);
}

static __attribute__((noinline, cold)) bool owner_changed(tern_thread *self, tern_site_t site,
                                                          const tern_tensor *view)
{
    core_error(self, core_site(self, site), TERN_ERR_GRAD,
               view->node != NULL ? view->node->op->name : "view",
               "what an op of one's own returned of its input, or a view of that (made at %s), was "
               "changed in place through another tensor, which the op's backward does not know\n"
               "  try a tern_clone in the op's forward, or the change before the op",
               view->site != NULL ? view->site : "?");
    return false;
}

bool core_tape_renew(tern_thread *self, tern_site_t site, tern_tensor *view)
{
    tern_tensor *owner = view->base;
    if (view->storage != owner->storage) { /* replaced since (tern_tensor_replace) */
        core_tensor_leave_base(self, view);
        return true;
    }
    if (owner->requires_grad && view->own_view)
        return owner_changed(self, site, view);
    if (owner->requires_grad) {
        core_node *node = node_between(self, view->site, &take_part, owner, view);
        if (node == NULL)
            return false;
        become_producer(self, view, node);
    }
    view->rebases = owner->rebases;
    return true;
}

/* Hooks on a view are for what is made of it, not for what becomes of it: that is made of the owner's part. The same
 * goes for hooks on views between the two. */
static bool has_hooks_to_pass(const tern_tensor *t)
{
    const core_node *node = t->base != NULL ? t->node : NULL;
    for (; node != NULL && node != t->base->node && node->n_in == 1; node = node->edges[0].node)
        if (node->hooks != NULL)
            return true;
    return false;
}

/* Where the call reads by its first operand what it writes. */
static bool pass_hooks_by(core_call *call, core_node *node)
{
    tern_tensor *out = call->out[0];
    core_edge *edge = &node->edges[0];
    if (call->n_in == 0 || call->in[0] != out || edge->node == NULL || !has_hooks_to_pass(out))
        return true;
    core_node *part = node_between(call->self, call->site, &take_part, out->base, out);
    if (part == NULL)
        return false;
    autograd_node_retain(part);
    core_node_release(call->self, edge->node);
    edge->node = part;
    edge->output = 0;
    return true;
}

tern_tensor *core_tape_unhooked(tern_thread *self, tern_site_t site, tern_tensor *t)
{
    if (!self->grad_mode || !has_hooks_to_pass(t))
        return t;
    tern_tensor *alias = core_tensor_alias(self, t->site, t);
    core_node *part = alias != NULL ? node_between(self, site, &take_part, t->base, t) : NULL;
    if (part != NULL)
        become_producer(self, alias, part);
    else if (alias != NULL)
        core_release(self, alias);
    return part != NULL ? alias : NULL;
}

static void link_part(core_node *whole, core_node *part)
{
    autograd_node_retain(part);
    whole->edges[1].node = part;
    whole->edges[1].output = 0;
}

/* A copy over a tensor from elsewhere: what was there does not lead to what comes. */
static bool replaces(const core_call *call)
{
    const tern_attr_copy *attr = call->attr;
    return call->op->id_ == TERN_OP_copy && attr != NULL && attr->replaces;
}

/* Does the call change what the gradient of t's values is, beyond becoming its producer? */
static bool needs_written(const core_call *call, const tern_tensor *out, bool recorded)
{
    if (!call->preset || !tern_dtype_is_float((tern_dtype_t)out->view.dtype))
        return false;
    return out->base != NULL ? recorded || out->base->requires_grad
                             : out->requires_grad && (!recorded || replaces(call));
}

bool core_tape_write_begin(core_call *call, core_tape_write *write)
{
    tern_tensor *out = call->out[0];
    const bool recorded = core_tape_wants(call);
    if (recorded) {
        write->node = autograd_node_of(call);
        if (write->node == NULL)
            return false;
    }
    if (!needs_written(call, out, recorded))
        return true;
    tern_tensor *owner = out->base != NULL ? out->base : out;
    const bool passed =
        write->node == NULL || out->base == NULL || pass_hooks_by(call, write->node);
    if (passed)
        write->written = node_between(call->self, call->site, &written, owner, out);
    if (write->written == NULL) {
        core_tape_write_end(call, write, false);
        return false;
    }
    if (write->node != NULL)
        link_part(write->written, write->node);
    return true;
}

void core_tape_write_end(core_call *call, core_tape_write *write, bool done)
{
    tern_tensor *out = call->out[0];
    if (!done) {
        if (write->written != NULL)
            autograd_node_abandon(call->self, write->written);
        else if (write->node != NULL)
            autograd_node_abandon(call->self, write->node);
        return;
    }
    if (write->written == NULL) {
        autograd_node_attach(call, write->node);
        if (call->preset)
            out->rebases++;
        return;
    }
    tern_tensor *owner = out->base != NULL ? out->base : out;
    become_producer(call->self, owner, write->written);
    owner->rebases++;
}

/* ---- what may be written ------------------------------------------------------------------------- */

bool core_tape_check_inplace(core_call *call)
{
    tern_tensor *out = call->out[0];
    if (!call->self->grad_mode)
        return true;
    if (!core_tape_refresh(call->self, call->site, out))
        return false;
    bool any = out->requires_grad || (out->base != NULL && out->base->requires_grad);
    for (int i = 0; i < call->n_in; i++)
        any |= call->in[i] != NULL && call->in[i]->requires_grad;
    if (!any)
        return true;
    if (out->requires_grad && out->node == NULL)
        return core_fail(call, TERN_ERR_GRAD, "TERN_NO_GRAD; around the change, or a copy",
                         "a leaf that requires a gradient cannot be changed in place");
    if (out->base != NULL && out->base->node == NULL &&
        (out->base->requires_grad || out->requires_grad)) /* also of a view that is a leaf */
        return core_fail(call, TERN_ERR_GRAD, "TERN_NO_GRAD; around the change, or a copy",
                         "a view of a leaf that requires a gradient cannot be changed in place");
    if (out->base != NULL && out->no_grad_view)
        return core_fail(call, TERN_ERR_GRAD,
                         "the view outside of TERN_NO_GRAD, or the change inside of it",
                         "a view that was made in TERN_NO_GRAD is changed where gradients are "
                         "recorded");
    if (out->base != NULL && out->own_view)
        return core_fail(call, TERN_ERR_GRAD, "a tern_clone of it, or one in the op's forward",
                         "what an op of one's own returned of its input, or a view of that, cannot "
                         "be changed in place: the op's backward would not be asked");
    return true;
}
