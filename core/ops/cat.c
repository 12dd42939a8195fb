/* cat and stack: an op that copies each tensor into its part of one result, and whose gradient hands
 * out the parts. More tensors than an op has inputs are joined by groups, when a gradient is wanted;
 * otherwise each is copied once, whatever their number. */
#include <string.h>

#include "core/autocast.h"
#include "core/compose.h"
#include "core/error.h"
#include "core/op_table.h"

enum { PASSED_OVER = -1 };
typedef struct join_attr {
    int32_t dim;
    int32_t stacked; /* each input is one index of a new dimension */
    int32_t dtype;   /* of the result */
    int32_t ndim;
    int64_t dims[TERN_MAX_DIMS];      /* of the result */
    int64_t extents[CORE_MAX_INPUTS]; /* along dim, by input: what backward hands out; or: */
    uint8_t dtypes[CORE_MAX_INPUTS];
} join_attr;

/* PyTorch's habit: cat passes over empty 1-D tensors, whatever the others look like. */
static bool passed_over(const tern_tensor *t, bool stacked)
{
    return !stacked && t->view.ndim == 1 && t->view.numel == 0;
}

/* Along the joined dimension. */
static int64_t extent_of(const tern_tensor *t, const join_attr *attr)
{
    if (attr->stacked)
        return 1;
    return passed_over(t, false) && attr->ndim != 1 ? 0 : t->view.shape[attr->dim];
}

static tern_tensor *part_of(tern_tensor *whole, const join_attr *attr, int64_t start,
                            int64_t extent)
{
    tern_attr_slice part = { .dim = attr->dim, .start = start, .length = extent, .step = 1 };
    tern_tensor *slice = core_op1(TERN_OP_slice, TERN_HERE, &part, whole);
    return attr->stacked ? tern_squeeze(slice, attr->dim) : slice;
}

/* ---- the op ------------------------------------------------------------------------------------ */

static bool all_channels_last(tern_tensor *const *tensors, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!core_view_channels_last(&tensors[i]->view) ||
            (tensors[i]->view.flags & TERN_VIEW_CONTIGUOUS))
            return false;
    return true;
}

/* Copies `count` tensors side by side into a new one of the frame's scope. */
static tern_tensor *join(const join_attr *attr, tern_tensor *const *tensors, int64_t count)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = attr->ndim };
    memcpy(shape.dims, attr->dims, sizeof shape.dims);
    tern_tensor *out = tern_empty(shape, .dtype = (tern_dtype_t)attr->dtype, .like = tensors[0],
                                  .format = !attr->stacked && all_channels_last(tensors, count)
                                                ? TERN_FORMAT_CHANNELS_LAST
                                                : TERN_FORMAT_CONTIGUOUS);
    int64_t start = 0;
    for (int64_t i = 0; i < count && out != NULL; i++) {
        const int64_t extent = extent_of(tensors[i], attr);
        tern_scope scope = tern_scope_begin();
        if (extent > 0 && tern_copy(part_of(out, attr, start, extent), tensors[i]) == NULL)
            return NULL;
        tern_scope_end(&scope);
        start += extent;
    }
    return out;
}

static int inputs_of(const join_attr *attr)
{
    int n = 0;
    while (n < CORE_MAX_INPUTS && attr->dtypes[n] != TERN_DTYPE_NONE)
        n++;
    return n;
}

static tern_tensor *join_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    const join_attr *attr = tern_op_attr(ctx);
    return join(attr, in, inputs_of(attr));
}

static void join_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const join_attr attr = core_ctx_attr(ctx, join_attr);
    int64_t start = 0;
    for (int i = 0; i < inputs_of(&attr); i++) {
        const bool passed = attr.extents[i] == PASSED_OVER;
        const tern_dtype_t dtype = (tern_dtype_t)attr.dtypes[i];
        if (tern_needs_grad(ctx, i))
            grad_in[i] = passed ? tern_zeros(TERN_SHAPE(0), .dtype = dtype, .like = grad)
                                : tern_cast(part_of(grad, &attr, start, attr.extents[i]), dtype);
        start += passed ? 0 : attr.extents[i];
    }
}

#define JOIN(n)                        \
    [n] = { .name = "cat",             \
            .inputs = n,               \
            .forward = join_forward,   \
            .backward = join_backward, \
            .attr_size = sizeof(join_attr) }
static const tern_op join_ops[CORE_MAX_INPUTS + 1] = {
    JOIN(1), JOIN(2), JOIN(3), JOIN(4), JOIN(5), JOIN(6), JOIN(7), JOIN(8),
};

/* ---- any number of tensors ---------------------------------------------------------------------- */

static tern_tensor *join_group(join_attr attr, tern_tensor *const *tensors, int count)
{
    attr.dims[attr.dim] = 0;
    memset(attr.dtypes, 0, sizeof attr.dtypes);
    for (int i = 0; i < count; i++) {
        const int64_t extent = extent_of(tensors[i], &attr);
        attr.extents[i] = passed_over(tensors[i], attr.stacked) ? PASSED_OVER : extent;
        attr.dtypes[i] = tensors[i]->view.dtype;
        attr.dims[attr.dim] += extent;
    }
    return tern_apply_at(TERN_HERE, &join_ops[count], tensors, &attr);
}

/* Recorded: up to 8 at once, more as a tree of groups. */
static tern_tensor *join_recorded(const join_attr *attr, tern_tensor *const *tensors, int64_t count)
{
    if (count <= CORE_MAX_INPUTS)
        return join_group(*attr, tensors, (int)count);
    tern_tensor *groups[CORE_MAX_INPUTS];
    for (int64_t g = 0; g < CORE_MAX_INPUTS; g++) {
        const int64_t begin = g * count / CORE_MAX_INPUTS, end = (g + 1) * count / CORE_MAX_INPUTS;
        groups[g] = join_recorded(attr, tensors + begin, end - begin);
        if (groups[g] == NULL)
            return NULL;
    }
    join_attr upper = *attr;
    upper.stacked = 0;
    return join_group(upper, groups, CORE_MAX_INPUTS);
}

/* ---- checks ------------------------------------------------------------------------------------ */

static bool differs(core_frame *frame, const tern_tensor *first, const tern_tensor *t, int64_t i,
                    bool stacked)
{
    char a[160], b[160];
    return core_fail(&frame->call, TERN_ERR_SHAPE, NULL,
                     "tensors[%lld] of shape %s does not fit beside %s: sizes have to be equal%s",
                     (long long)i, core_shape_text(t->view.ndim, t->view.shape, a, sizeof a),
                     core_shape_text(first->view.ndim, first->view.shape, b, sizeof b),
                     stacked ? "" : " but for the dimension that is joined");
}

static bool fits_beside(const tern_tensor *first, const tern_tensor *t, const join_attr *attr)
{
    if (t->view.ndim != first->view.ndim)
        return false;
    for (int d = 0; d < t->view.ndim; d++)
        if (t->view.shape[d] != first->view.shape[d] && (attr->stacked || d != attr->dim))
            return false;
    return true;
}

static const tern_tensor *leading(tern_tensor *const *tensors, int64_t count, bool stacked)
{
    for (int64_t i = 0; i < count; i++)
        if (!passed_over(tensors[i], stacked))
            return tensors[i];
    return tensors[0];
}

/* Result's dimensions but for the joined one. */
static bool start_attr(core_frame *frame, const tern_tensor *first, join_attr *attr)
{
    const int ndim = first->view.ndim;
    attr->ndim = ndim + attr->stacked;
    if (attr->ndim == 0 || attr->ndim > TERN_MAX_DIMS)
        return core_fail(&frame->call, TERN_ERR_SHAPE, attr->ndim == 0 ? "tern_stack" : NULL,
                         "tensors of %d dimensions cannot be joined so", ndim);
    if (!core_normalise_dim(&frame->call, &attr->dim, attr->ndim))
        return false;
    for (int d = 0, from = 0; d < attr->ndim; d++)
        attr->dims[d] = attr->stacked && d == attr->dim ? 0 : first->view.shape[from++];
    attr->dims[attr->dim] = 0;
    return true;
}

/* An error shows the first few of the list. */
static bool elsewhere(core_call *call, int64_t i)
{
    return i < call->n_in
               ? core_mixed_devices(call)
               : core_fail(call, TERN_ERR_DEVICE, "tern_to for one of them",
                           "tensors[%lld] lies on another device than the others", (long long)i);
}

static bool check_all(core_frame *frame, tern_tensor *const *tensors, int64_t count,
                      join_attr *attr)
{
    for (int64_t i = 0; i < count; i++)
        if (tensors[i] == NULL)
            return core_fail(&frame->call, TERN_ERR_ARGUMENT, NULL, "tensors[%lld] is NULL",
                             (long long)i);
    if (!core_autocast_list(&frame->call, tensors, count))
        return false;
    const tern_tensor *first = leading(tensors, count, attr->stacked);
    if (!start_attr(frame, first, attr))
        return false;
    tern_dtype_t dtype = tern_dtype(tensors[0]);
    for (int64_t i = 0; i < count; i++) {
        const tern_tensor *t = tensors[i];
        if (!tern_dev_equal(t->view.dev, first->view.dev))
            return elsewhere(&frame->call, i);
        if (!passed_over(t, attr->stacked) && !fits_beside(first, t, attr))
            return differs(frame, first, t, i, attr->stacked);
        dtype = tern_promote(dtype, (tern_dtype_t)t->view.dtype);
        if (__builtin_add_overflow(attr->dims[attr->dim], extent_of(t, attr),
                                   &attr->dims[attr->dim]))
            return core_fail(&frame->call, TERN_ERR_SHAPE, NULL, "the result would be too large");
    }
    attr->dtype = (int32_t)dtype;
    return true;
}

static bool wants_recording(tern_tensor *const *tensors, int64_t count)
{
    bool any = false;
    for (int64_t i = 0; i < count; i++)
        any |= tensors[i]->requires_grad;
    return any && core_self()->grad_mode;
}

static tern_tensor *joined(tern_op_id id, tern_site_t site, tern_tensor *const *tensors,
                           int64_t count, int dim)
{
    core_frame frame;
    core_compose_begin(&frame, id, site, tensors != NULL && count > 0 ? count : 0, tensors);
    tern_tensor *out = NULL;
    join_attr attr = { .dim = dim, .stacked = id == TERN_OP_stack };
    if (frame.call.self->error_code != TERN_OK)
        return core_compose_end(&frame, NULL);
    if (tensors == NULL || count < 1)
        core_fail(&frame.call, TERN_ERR_ARGUMENT, NULL, "a list of at least one tensor is needed");
    else if (check_all(&frame, tensors, count, &attr))
        out = wants_recording(tensors, count) ? join_recorded(&attr, tensors, count)
                                              : join(&attr, tensors, count);
    return core_compose_end(&frame, out);
}

tern_tensor *tern_cat_at(tern_site_t site, tern_tensor *const *tensors, int64_t count, int dim)
{
    return joined(TERN_OP_cat, site, tensors, count, dim);
}

tern_tensor *tern_stack_at(tern_site_t site, tern_tensor *const *tensors, int64_t count, int dim)
{
    return joined(TERN_OP_stack, site, tensors, count, dim);
}
