/* Rules that several rows share: shapes, dtypes and outputs of elementwise ops.
 *
 * Operands come in any shapes and dtypes; kernels see operands of one dtype, each of the result's
 * shape or 0-dim. What needs a gradient is cast and expanded by recorded calls, so that backward
 * functions see operands of the result's own shape; what does not is expanded by a view that the
 * record owns, and a 0-dim operand stays as it is. */
#include "core/rules.h"

#include "core/memory.h"
#include "core/promote.h"
#include "core/tape.h"

/* ---- geometry --------------------------------------------------------------------------------- */

bool core_expand_strides(const tern_view *v, int ndim, const int64_t *dims, int64_t *out_strides)
{
    const int added = ndim - v->ndim;
    if (added < 0)
        return false;
    for (int d = 0; d < ndim; d++) {
        const int64_t extent = d < added ? 1 : v->shape[d - added];
        if (extent != dims[d] && extent != 1)
            return false;
        out_strides[d] = d < added || extent != dims[d] ? 0 : v->stride[d - added];
    }
    return true;
}

/* From the smallest stride on, each has to lead past all that the ones before it reach. Views that do not
 * (expanded ones, windows of unfold) meet themselves. */
bool core_view_overlaps_itself(const tern_view *v)
{
    if ((v->flags & TERN_VIEW_DENSE) || v->numel <= 1)
        return false;
    int64_t stride[TERN_MAX_DIMS], last[TERN_MAX_DIMS], reached = 0;
    int n = 0;
    for (int d = 0; d < v->ndim; d++) {
        int at = n;
        if (v->shape[d] == 1)
            continue;
        for (; at > 0 && stride[at - 1] > v->stride[d]; at--) {
            stride[at] = stride[at - 1];
            last[at] = last[at - 1];
        }
        stride[at] = v->stride[d];
        last[at] = v->shape[d] - 1;
        n++;
    }
    for (int k = 0; k < n; k++) {
        if (stride[k] <= reached)
            return true;
        reached += stride[k] * last[k];
    }
    return false;
}

/* The last element that a view reaches, in elements from its first. */
static int64_t reach(const tern_view *v)
{
    int64_t last = 0;
    for (int d = 0; d < v->ndim; d++)
        last += (v->shape[d] - 1) * v->stride[d];
    return last;
}

static bool same_geometry(const tern_view *a, const tern_view *b)
{
    if (a->data != b->data || a->dtype != b->dtype || !core_view_same_shape(a, b))
        return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->stride[d] != b->stride[d] && a->shape[d] > 1)
            return false;
    return true;
}

/* A program may have handed in the same memory twice. */
static bool may_be_one(const core_storage *a, const core_storage *b)
{
    return a == b ||
           ((a->cache_class == CORE_CACHE_FOREIGN || b->cache_class == CORE_CACHE_FOREIGN) &&
            tern_dev_equal(a->dev, b->dev));
}

/* Do both reach into the same bytes? Strides are never negative. */
static bool share_memory(const tern_tensor *out, const tern_tensor *in)
{
    if (!may_be_one(out->storage, in->storage) || out->view.numel == 0 || in->view.numel == 0)
        return false;
    const char *a = out->view.data, *b = in->view.data;
    const int64_t a_bytes =
        (reach(&out->view) + 1) * tern_dtype_size((tern_dtype_t)out->view.dtype);
    const int64_t b_bytes = (reach(&in->view) + 1) * tern_dtype_size((tern_dtype_t)in->view.dtype);
    return a < b + b_bytes && b < a + a_bytes;
}

/* ---- broadcasting ----------------------------------------------------------------------------- */

static bool cannot_meet(core_call *call, const tern_view *a, const tern_view *b, int from_end,
                        int64_t x, int64_t y)
{
    char left[160], right[160];
    return core_fail(call, TERN_ERR_SHAPE,
                     "tern_unsqueeze or tern_reshape, so that sizes are equal or 1 from the last "
                     "dimension on",
                     "shapes %s and %s do not broadcast: %lld and %lld in dimension -%d",
                     core_shape_text(a->ndim, a->shape, left, sizeof left),
                     core_shape_text(b->ndim, b->shape, right, sizeof right), (long long)x,
                     (long long)y, from_end);
}

/* Said before the operands are expanded, which would all show this shape. */
static bool too_many(core_call *call, int ndim, const int64_t *dims)
{
    char shape[160];
    return core_fail(call, TERN_ERR_SHAPE, NULL, "a tensor cannot have the shape %s",
                     core_shape_text(ndim, dims, shape, sizeof shape));
}

bool core_broadcast(core_call *call, const tern_view *a, const tern_view *b, int32_t *out_ndim,
                    int64_t *out_dims)
{
    const int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int d = 1; d <= ndim; d++) { /* from the end */
        const int64_t x = d <= a->ndim ? a->shape[a->ndim - d] : 1;
        const int64_t y = d <= b->ndim ? b->shape[b->ndim - d] : 1;
        if (x != y && x != 1 && y != 1)
            return cannot_meet(call, a, b, d, x, y);
        out_dims[ndim - d] = x == 1 ? y : x;
    }
    *out_ndim = ndim;
    return core_numel(ndim, out_dims) >= 0 || too_many(call, ndim, out_dims);
}

static bool has_shape(const tern_view *v, int ndim, const int64_t *dims)
{
    if (v->ndim != ndim)
        return false;
    for (int d = 0; d < ndim; d++)
        if (v->shape[d] != dims[d])
            return false;
    return true;
}

/* A view of in[i] in the shape, without history, that the record owns. */
static bool expand_unrecorded(core_call *call, int i, int ndim, const int64_t *dims)
{
    int64_t strides[TERN_MAX_DIMS];
    tern_tensor *t = call->in[i];
    if (!core_expand_strides(&t->view, ndim, dims, strides))
        return core_expand_input(call, i, ndim, dims); /* says why not */
    tern_tensor *view = core_tensor_alias(call->self, call->site, t);
    if (view == NULL)
        return false;
    view->view.ndim = (uint8_t)ndim;
    view->view.numel = core_numel(ndim, dims);
    for (int d = 0; d < ndim; d++) {
        view->view.shape[d] = dims[d];
        view->view.stride[d] = strides[d];
    }
    core_view_update(&view->view);
    return core_replace_input(call, i, view);
}

/* A 0-dim CPU operand that needs a gradient gets it back through a recorded move. */
static bool move_to_call(core_call *call, int i)
{
    tern_tensor *t = call->in[i];
    if (tern_dev_equal(t->view.dev, call->dev))
        return true;
    return core_replace_input(call, i,
                              core_copied(call->self, call->site, call->op->name, t, call->dev,
                                          (tern_dtype_t)t->view.dtype, 0, NULL, NULL));
}

static bool expand_operand(core_call *call, int i, int ndim, const int64_t *dims)
{
    const tern_view *v = core_view(call, i);
    const bool needs_grad = core_input_needs_grad(call, i);
    if (v->ndim == 0 && !needs_grad)
        return true;
    if (v->ndim == 0 && !move_to_call(call, i))
        return false;
    if (has_shape(core_view(call, i), ndim, dims))
        return true;
    return needs_grad ? core_expand_input(call, i, ndim, dims)
                      : expand_unrecorded(call, i, ndim, dims);
}

/* ---- in place --------------------------------------------------------------------------------- */

static bool holds_shape(core_call *call, int ndim, const int64_t *dims)
{
    const tern_view *out = &call->out[0]->view;
    char result[160], held[160];
    if (has_shape(out, ndim, dims))
        return true;
    return core_fail(call, TERN_ERR_SHAPE, "the form that makes a new tensor",
                     "the result has the shape %s, which a tensor of %s cannot take in place",
                     core_shape_text(ndim, dims, result, sizeof result),
                     core_shape_text(out->ndim, out->shape, held, sizeof held));
}

bool core_check_destination(core_call *call)
{
    char there[TERN_DEV_NAME_BYTES], here[TERN_DEV_NAME_BYTES];
    const tern_view *out = &call->out[0]->view;
    if (!tern_dev_equal(out->dev, call->dev) && call->op->id_ != TERN_OP_copy)
        return core_fail(call, TERN_ERR_DEVICE, "the form that makes a new tensor",
                         "the result lies on %s and cannot be written to a tensor on %s",
                         tern_dev_name(call->dev, here), tern_dev_name(out->dev, there));
    if (core_view_overlaps_itself(out))
        return core_fail(call, TERN_ERR_ARGUMENT, "tern_contiguous or tern_clone first",
                         "cannot write in place: several elements of the destination, which was "
                         "expanded, share one place in memory");
    return true;
}

bool core_separate_input(core_call *call, int i)
{
    const tern_view *v = core_view(call, i);
    return !share_memory(call->out[0], call->in[i]) ||
           core_replace_input(call, i,
                              core_copied(call->self, call->site, call->op->name, call->in[i],
                                          v->dev, (tern_dtype_t)v->dtype, v->ndim, v->shape, NULL));
}

/* Elements are read where they are written, so that inputs of the output's own geometry may stay. */
static bool separate_inputs(core_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (!same_geometry(&call->out[0]->view, core_view(call, i)) &&
            !core_separate_input(call, i))
            return false;
    return true;
}

bool core_cannot_hold(core_call *call, tern_dtype_t dtype)
{
    return core_fail(call, TERN_ERR_DTYPE, "the form that makes a new tensor, or tern_cast first",
                     "the result is %s, which a tensor of %s cannot take in place",
                     tern_dtype_name(dtype),
                     tern_dtype_name((tern_dtype_t)call->out[0]->view.dtype));
}

/* Before operands are cast: *dtype becomes the one that the first operand has. */
static bool prepare_inplace(core_call *call, tern_dtype_t *dtype, int ndim, const int64_t *dims)
{
    const tern_dtype_t held = (tern_dtype_t)call->out[0]->view.dtype;
    if (!core_check_destination(call) || !holds_shape(call, ndim, dims))
        return false;
    if (!core_dtype_can_hold(held, *dtype))
        return core_cannot_hold(call, *dtype);
    *dtype = held;
    return separate_inputs(call);
}

bool rule_preset(core_call *call)
{
    const tern_view *out = &call->out[0]->view;
    if (!core_check_destination(call))
        return false;
    if (call->n_in == 0)
        return true;
    const tern_view *in = core_view(call, 0);
    int64_t strides[TERN_MAX_DIMS];
    char from[160], to[160];
    if (!core_expand_strides(in, out->ndim, out->shape, strides))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "src %s does not broadcast to dst %s",
                         core_shape_text(in->ndim, in->shape, from, sizeof from),
                         core_shape_text(out->ndim, out->shape, to, sizeof to));
    return core_expand_input(call, 0, out->ndim, out->shape) && separate_inputs(call);
}

/* ---- outputs of elementwise ops ---------------------------------------------------------------- */

/* Like the first operand that has the shape and no gaps, so that memory formats are kept. */
static bool out_elementwise(core_call *call, tern_dtype_t dtype, int ndim, const int64_t *dims)
{
    for (int i = 0; i < call->n_in; i++) {
        const tern_view *v = core_view(call, i);
        if ((v->flags & TERN_VIEW_DENSE) && has_shape(v, ndim, dims))
            return core_out_like(call, 0, v, dtype);
    }
    return core_out(call, 0, dtype, ndim, dims);
}

/* What operand i becomes before the kernel: the dtype in which the operands meet, but f32 for the plain
 * scalar that a half tensor is multiplied or divided by (floor_div, too), or that lerp weighs with. That is
 * PyTorch's rule on the CPU: the arithmetic is in f32, and the scalar is not rounded before it. */
static tern_dtype_t operand_dtype(const core_call *call, int i, tern_dtype_t dtype)
{
    const int id = call->op->id_;
    const bool second = id == TERN_OP_mul || id == TERN_OP_div || id == TERN_OP_floor_div;
    const bool scales = (second && i == 1) || (id == TERN_OP_lerp && i == 2);
    return scales && (dtype == TERN_F16 || dtype == TERN_BF16) &&
                   core_is_host_scalar(call->in[i]) && !core_input_needs_grad(call, i)
               ? TERN_F32
               : dtype;
}

/* Casts the inputs from `first` on, brings all to the shape, makes the output. */
static bool meet(core_call *call, int first, tern_dtype_t dtype, tern_dtype_t out_dtype, int ndim,
                 const int64_t *dims)
{
    for (int i = 0; i < call->n_in; i++)
        if ((i >= first && !core_cast_input(call, i, operand_dtype(call, i, dtype))) ||
            !expand_operand(call, i, ndim, dims))
            return false;
    return out_elementwise(call, out_dtype, ndim, dims);
}

/* ---- several operands that are alike ------------------------------------------------------------ */

bool rule_same(core_call *call)
{
    const tern_view *first = core_view(call, 0);
    char name[CORE_OPERAND_BYTES], other[CORE_OPERAND_BYTES];
    for (int i = 1; i < call->n_in; i++) {
        const tern_view *v = core_view(call, i);
        if (v->dtype != first->dtype || !core_view_same_shape(v, first))
            return core_fail(call, v->dtype != first->dtype ? TERN_ERR_DTYPE : TERN_ERR_SHAPE, NULL,
                             "%s and %s have to be alike in dtype and shape",
                             core_operand_name(call->op, 0, name),
                             core_operand_name(call->op, i, other));
    }
    return out_elementwise(call, (tern_dtype_t)first->dtype, first->ndim, first->shape);
}

/* ---- two operands ------------------------------------------------------------------------------ */

static inline bool alike(const tern_view *a, const tern_view *b)
{
    return a->dtype == b->dtype && core_dev_word(a->dev) == core_dev_word(b->dev) &&
           core_view_same_shape(a, b);
}

/* A number, or a 0-dim operand that gets no gradient, beside an operand of any shape. */
static bool is_plain_scalar(const core_call *call, int i)
{
    return call->in[i]->view.ndim == 0 && !core_input_needs_grad(call, i);
}

static bool writes_safely(const core_call *call)
{
    const tern_tensor *out = call->out[0], *other = call->in[1];
    return (out->view.flags & TERN_VIEW_DENSE) && tern_dev_equal(out->view.dev, call->dev) &&
           (out == other || out->storage != other->storage);
}

/* Does backward read the first operand? Most rows read it for the second one's gradient alone. */
static bool reads_first(const core_call *call)
{
    const int id = call->op->id_;
    const bool for_itself =
        call->n_in == 1 || id == TERN_OP_pow || id == TERN_OP_atan2 || id == TERN_OP_hypot;
    const bool saved = (call->op->save & B(0)) != 0;
    return ((saved || call->op->save_cross) && core_input_needs_grad(call, 1)) ||
           (saved && for_itself && core_input_needs_grad(call, 0));
}

__attribute__((noinline)) bool core_keep_first(core_call *call)
{
    tern_tensor *x = call->in[0];
    if (x != call->out[0] || !reads_first(call))
        return true;
    tern_tensor *before = core_tape_unhooked(call->self, call->site, x);
    if (before == NULL)
        return false;
    const tern_view *v = &before->view;
    tern_tensor *copy = core_copied(call->self, call->site, call->op->name, before, v->dev,
                                    (tern_dtype_t)v->dtype, v->ndim, v->shape, NULL);
    if (before != x)
        core_release(call->self, before);
    return core_replace_input(call, 0, copy);
}

/* The path of nearly all calls: nothing to cast, nothing to expand. Returns false when there is. */
__attribute__((always_inline)) static inline bool binary_at_once(core_call *call, bool *out_done,
                                                                 tern_dtype_t out_dtype)
{
    const tern_view *a = core_view(call, 0), *b = core_view(call, 1);
    const tern_view *like = NULL;
    if (__builtin_expect(alike(a, b), 1))
        like = (a->flags & TERN_VIEW_DENSE) ? a : b;
    else if (a->dtype == b->dtype && is_plain_scalar(call, 1))
        like = a;
    else if (a->dtype == b->dtype && is_plain_scalar(call, 0) && !call->preset)
        like = b;
    if (like == NULL || core_dev_word(like->dev) != core_dev_word(call->dev) ||
        (call->preset && !writes_safely(call)))
        return false;
    *out_done = core_out_like(call, 0, like, out_dtype) && (!call->preset || core_keep_first(call));
    return true;
}

/* Of bool there is no difference, beside another dtype either, as in PyTorch. */
static bool check_subtracted(core_call *call)
{
    return call->op->id_ != TERN_OP_sub || (core_check_dtype(call, 0, call->op->dtypes) &&
                                            core_check_dtype(call, 1, call->op->dtypes));
}

/* `dtype` is where the operands meet; NONE as out_dtype means the same. */
static bool binary_by_steps(core_call *call, tern_dtype_t dtype, tern_dtype_t out_dtype)
{
    int32_t ndim;
    int64_t dims[TERN_MAX_DIMS];
    if (!check_subtracted(call) ||
        !core_broadcast(call, core_view(call, 0), core_view(call, 1), &ndim, dims))
        return false;
    if (call->preset && !prepare_inplace(call, &dtype, ndim, dims))
        return false;
    return meet(call, 0, dtype, out_dtype == TERN_DTYPE_NONE ? dtype : out_dtype, ndim, dims) &&
           (!call->preset || core_keep_first(call));
}

bool rule_binary(core_call *call)
{
    bool done = false;
    if (__builtin_expect(binary_at_once(call, &done, (tern_dtype_t)core_view(call, 0)->dtype), 1))
        return done;
    return binary_by_steps(call, core_result_type(core_view(call, 0), core_view(call, 1)),
                           TERN_DTYPE_NONE);
}

bool rule_binary_float(core_call *call)
{
    bool done = false;
    const tern_dtype_t first = (tern_dtype_t)core_view(call, 0)->dtype;
    if (tern_dtype_is_float(first) && binary_at_once(call, &done, first))
        return done;
    const tern_dtype_t dtype = core_result_type(core_view(call, 0), core_view(call, 1));
    return binary_by_steps(
        call, tern_dtype_is_float(dtype) ? dtype : (tern_dtype_t)call->self->default_dtype,
        TERN_DTYPE_NONE);
}

bool rule_compare(core_call *call)
{
    bool done = false;
    if (binary_at_once(call, &done, TERN_BOOL))
        return done;
    return binary_by_steps(call, core_result_type(core_view(call, 0), core_view(call, 1)),
                           TERN_BOOL);
}

/* ---- three operands ---------------------------------------------------------------------------- */

/* The shape in which three inputs meet, in the order in which they are asked. */
static bool broadcast_three(core_call *call, int first, int second, int third, int32_t *out_ndim,
                            int64_t *out_dims)
{
    if (!core_broadcast(call, core_view(call, first), core_view(call, second), out_ndim, out_dims))
        return false;
    tern_view both = *core_view(call, first);
    both.ndim = (uint8_t)*out_ndim;
    for (int d = 0; d < both.ndim; d++)
        both.shape[d] = out_dims[d];
    return core_broadcast(call, core_view(call, third), &both, out_ndim, out_dims);
}

bool rule_ternary(core_call *call)
{
    int32_t ndim;
    int64_t dims[TERN_MAX_DIMS];
    const tern_view *views[3] = { core_view(call, 0), core_view(call, 1), core_view(call, 2) };
    tern_dtype_t dtype = core_result_type_of(views, 3);
    if (!broadcast_three(call, 0, 1, 2, &ndim, dims) ||
        (call->preset && !prepare_inplace(call, &dtype, ndim, dims)))
        return false;
    return meet(call, 0, dtype, dtype, ndim, dims);
}

bool rule_where(core_call *call)
{
    int32_t ndim;
    int64_t dims[TERN_MAX_DIMS];
    if (core_view(call, 0)->dtype != TERN_BOOL)
        return core_fail(call, TERN_ERR_DTYPE, "tern_ne(condition, 0)",
                         "the condition is %s; it has to be bool",
                         tern_dtype_name((tern_dtype_t)core_view(call, 0)->dtype));
    const tern_dtype_t dtype = core_result_type(core_view(call, 1), core_view(call, 2));
    return broadcast_three(call, 1, 2, 0, &ndim, dims) && meet(call, 1, dtype, dtype, ndim, dims);
}
