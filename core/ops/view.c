/* Views: other shapes, orders and parts of one storage, and their gradients. */
#include "core/compose.h"
#include "core/op_table.h"
#include "core/rules.h"

/* ---- view, reshape ----------------------------------------------------------------------------- */

/* ndim is -1 for a shape that is missing or too long. */
static tern_attr_shape attr_of(tern_shape_t shape)
{
    tern_attr_shape attr = { .ndim = -1 };
    if (!shape.set_ || shape.ndim < 0 || shape.ndim > TERN_MAX_DIMS)
        return attr;
    attr.ndim = shape.ndim;
    for (int d = 0; d < shape.ndim; d++)
        attr.dims[d] = shape.dims[d];
    return attr;
}

static tern_shape_t shape_of(const tern_view *v)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = v->ndim };
    for (int d = 0; d < v->ndim; d++)
        shape.dims[d] = v->shape[d];
    return shape;
}

static bool does_not_fit(core_call *call, const tern_view *x, const tern_attr_shape *attr)
{
    char from[160], to[160];
    if (attr->ndim < 0)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "no shape was given, or one of more than %d dimensions", TERN_MAX_DIMS);
    return core_fail(call, TERN_ERR_SHAPE, NULL, "the shape %s does not fit %lld elements of %s",
                     core_shape_text(attr->ndim, attr->dims, to, sizeof to), (long long)x->numel,
                     core_shape_text(x->ndim, x->shape, from, sizeof from));
}

/* Replaces a -1 by the extent that makes the shape fit x. */
static bool settle_shape(core_call *call, const tern_view *x, tern_attr_shape *attr)
{
    int unknown = -1;
    int64_t known = 1;
    bool fits = attr->ndim >= 0;
    for (int d = 0; d < attr->ndim && fits; d++) {
        if (attr->dims[d] == -1 && unknown < 0)
            unknown = d;
        else
            fits = attr->dims[d] >= 0 && !__builtin_mul_overflow(known, attr->dims[d], &known);
    }
    if (fits && unknown >= 0)
        fits = known > 0 && x->numel % known == 0;
    else if (fits)
        fits = known == x->numel;
    if (!fits)
        return does_not_fit(call, x, attr);
    if (unknown >= 0)
        attr->dims[unknown] = x->numel / known;
    return true;
}

/* Dimensions of x that follow each other without a gap form runs; each run has to be split by new
 * dimensions alone. */
bool core_view_strides(const tern_view *x, int ndim, const int64_t *dims, int64_t *out_strides)
{
    core_row_major(ndim, dims, out_strides);
    if (x->flags & TERN_VIEW_CONTIGUOUS)
        return true;
    int d = ndim - 1;
    for (int old = x->ndim - 1; old >= 0; old--) {
        if (x->shape[old] == 1)
            continue;
        int64_t stride = x->stride[old], left = x->shape[old];
        while (old > 0 && (x->shape[old - 1] == 1 || x->stride[old - 1] == stride * left))
            left *= x->shape[--old];
        for (; d >= 0 && (left > 1 || dims[d] == 1); d--) {
            if (left % dims[d] != 0)
                return false;
            out_strides[d] = stride;
            stride *= dims[d];
            left /= dims[d];
        }
        if (left > 1)
            return false;
    }
    return true;
}

bool rule_view(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    tern_attr_shape *attr = core_attr(call);
    int64_t strides[TERN_MAX_DIMS];
    if (!settle_shape(call, x, attr))
        return false;
    if (!core_view_strides(x, attr->ndim, attr->dims, strides)) {
        char to[160];
        return core_fail(call, TERN_ERR_SHAPE, "tern_reshape, which copies when it has to",
                         "strides of the input do not allow the shape %s without a copy",
                         core_shape_text(attr->ndim, attr->dims, to, sizeof to));
    }
    return core_out_view(call, 0, attr->ndim, attr->dims, strides);
}

tern_tensor *tern_view_at(tern_site_t site, tern_tensor *x, tern_shape_t shape)
{
    tern_attr_shape attr = attr_of(shape);
    return core_op1(TERN_OP_view, site, &attr, x);
}

tern_tensor *tern_reshape_at(tern_site_t site, tern_tensor *x, tern_shape_t shape)
{
    int64_t strides[TERN_MAX_DIMS];
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_reshape, site, 1, &x);
    tern_attr_shape attr = attr_of(shape);
    tern_tensor *out = NULL;
    if (core_compose_check(&frame) && settle_shape(&frame.call, &x->view, &attr)) {
        const bool views = core_view_strides(&x->view, attr.ndim, attr.dims, strides);
        out = core_op1(TERN_OP_view, site, &attr, views ? x : tern_contiguous_at(site, x));
    }
    return core_compose_end(&frame, out);
}

/* The gradient's memory in another shape, without a base: where nobody else holds it, what comes next may
 * write its own gradient there. NULL: it has to be a view, or there is no memory, which is recorded. */
static tern_tensor *reshaped(tern_tensor *grad, const tern_view *like)
{
    tern_thread *self = core_self();
    if (self->grad_mode || grad->base != NULL || grad->view.numel != like->numel ||
        !(grad->view.flags & TERN_VIEW_CONTIGUOUS))
        return NULL;
    tern_tensor *alias = core_tensor_alias(self, NULL, grad);
    if (alias == NULL)
        return NULL;
    alias->view.ndim = like->ndim;
    memcpy(alias->view.shape, like->shape, (size_t)like->ndim * sizeof like->shape[0]);
    core_row_major(like->ndim, like->shape, alias->view.stride);
    return core_scope_add(self, alias);
}

void back_view(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    grad_in[0] = reshaped(grad, x);
    if (grad_in[0] == NULL)
        grad_in[0] = tern_reshape(grad, shape_of(x));
}

tern_tensor *tern_flatten_at(tern_site_t site, tern_tensor *x, int first, int last)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_flatten, site, 1, &x);
    tern_tensor *out = NULL;
    int32_t from = first, to = last;
    if (core_compose_check(&frame) && core_normalise_dim(&frame.call, &from, x->view.ndim) &&
        core_normalise_dim(&frame.call, &to, x->view.ndim)) {
        tern_shape_t shape = { .set_ = TERN_GIVEN_ };
        for (int d = 0; d < from; d++)
            shape.dims[shape.ndim++] = x->view.shape[d];
        int64_t extent = 1;
        for (int d = from; d <= to && d < x->view.ndim; d++)
            extent *= x->view.shape[d];
        shape.dims[shape.ndim++] = extent;
        for (int d = to + 1; d < x->view.ndim; d++)
            shape.dims[shape.ndim++] = x->view.shape[d];
        if (from > to)
            core_fail(&frame.call, TERN_ERR_ARGUMENT, NULL,
                      "the first dimension %d comes after the last, %d", from, to);
        else
            out = tern_reshape_at(site, x, shape);
    }
    return core_compose_end(&frame, out);
}

tern_tensor *tern_squeeze_at(tern_site_t site, tern_tensor *x, int dim)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_squeeze, site, 1, &x);
    tern_tensor *out = NULL;
    int32_t d = dim;
    if (core_compose_check(&frame) && core_normalise_dim(&frame.call, &d, x->view.ndim)) {
        tern_attr_shape attr = attr_of(shape_of(&x->view));
        if (attr.ndim > 0 && attr.dims[d] == 1) {
            attr.ndim--;
            for (; d < attr.ndim; d++)
                attr.dims[d] = attr.dims[d + 1];
        }
        out = core_op1(TERN_OP_view, site, &attr, x);
    }
    return core_compose_end(&frame, out);
}

tern_tensor *tern_unsqueeze_at(tern_site_t site, tern_tensor *x, int dim)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_unsqueeze, site, 1, &x);
    tern_tensor *out = NULL;
    int32_t at = dim;
    if (core_compose_check(&frame) && core_normalise_dim(&frame.call, &at, x->view.ndim + 1)) {
        if (x->view.ndim == TERN_MAX_DIMS) {
            core_fail(&frame.call, TERN_ERR_SHAPE, NULL, "a tensor has at most %d dimensions",
                      TERN_MAX_DIMS);
        } else {
            tern_attr_shape attr = { .ndim = x->view.ndim + 1 };
            for (int d = 0; d < attr.ndim; d++)
                attr.dims[d] = d == at ? 1 : x->view.shape[d < at ? d : d - 1];
            out = core_op1(TERN_OP_view, site, &attr, x);
        }
    }
    return core_compose_end(&frame, out);
}

/* ---- permute ----------------------------------------------------------------------------------- */

bool rule_permute(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    tern_attr_shape *attr = core_attr(call);
    int64_t dims[TERN_MAX_DIMS], strides[TERN_MAX_DIMS];
    uint32_t seen = 0;
    char order[160];
    if (attr->ndim != x->ndim)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "an order of %d dimensions for a tensor of %d",
                         attr->ndim, x->ndim);
    for (int d = 0; d < attr->ndim; d++) {
        int32_t from = attr->dims[d] > 100    ? 100
                       : attr->dims[d] < -100 ? -100
                                              : (int32_t)attr->dims[d];
        if (!core_normalise_dim(call, &from, x->ndim))
            return false;
        attr->dims[d] = from;
        seen |= B(from);
        dims[d] = x->shape[from];
        strides[d] = x->stride[from];
    }
    if (seen != B(attr->ndim) - 1)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "the order %s names a dimension twice",
                         core_shape_text(attr->ndim, attr->dims, order, sizeof order));
    return core_out_view(call, 0, attr->ndim, dims, strides);
}

tern_tensor *tern_permute_at(tern_site_t site, tern_tensor *x, tern_dims_t order)
{
    tern_attr_shape attr = attr_of(order);
    return core_op1(TERN_OP_permute, site, &attr, x);
}

tern_tensor *tern_transpose_at(tern_site_t site, tern_tensor *x, int dim0, int dim1)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_transpose, site, 1, &x);
    tern_tensor *out = NULL;
    int32_t a = dim0, b = dim1;
    if (core_compose_check(&frame) && core_normalise_dim(&frame.call, &a, x->view.ndim) &&
        core_normalise_dim(&frame.call, &b, x->view.ndim)) {
        tern_attr_shape attr = { .ndim = x->view.ndim };
        for (int d = 0; d < attr.ndim; d++)
            attr.dims[d] = d == a ? b : d == b ? a : d;
        out = core_op1(TERN_OP_permute, site, &attr, x);
    }
    return core_compose_end(&frame, out);
}

tern_tensor *tern_movedim_at(tern_site_t site, tern_tensor *x, int from, int to)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_movedim, site, 1, &x);
    tern_tensor *out = NULL;
    int32_t a = from, b = to;
    if (core_compose_check(&frame) && core_normalise_dim(&frame.call, &a, x->view.ndim) &&
        core_normalise_dim(&frame.call, &b, x->view.ndim)) {
        tern_attr_shape attr = { .ndim = x->view.ndim };
        for (int d = 0, next = 0; d < attr.ndim; d++) {
            next += next == a;
            attr.dims[d] = d == b ? a : next++;
        }
        out = core_op1(TERN_OP_permute, site, &attr, x);
    }
    return core_compose_end(&frame, out);
}

void back_permute(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_attr_shape order = core_ctx_attr(ctx, tern_attr_shape);
    tern_dims_t inverse = { .set_ = TERN_GIVEN_, .ndim = order.ndim };
    for (int d = 0; d < order.ndim; d++)
        inverse.dims[order.dims[d]] = d;
    grad_in[0] = tern_permute(grad, inverse);
}

/* ---- expand ------------------------------------------------------------------------------------ */

bool rule_expand(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    tern_attr_shape *attr = core_attr(call);
    int64_t strides[TERN_MAX_DIMS];
    char from[160], to[160];
    const int added = attr->ndim - x->ndim;
    for (int d = added > 0 ? added : 0; d < attr->ndim && added >= 0; d++)
        if (attr->dims[d] == -1)
            attr->dims[d] = x->shape[d - added];
    if (attr->ndim < 0)
        return does_not_fit(call, x, attr);
    if (core_numel(attr->ndim, attr->dims) < 0 ||
        !core_expand_strides(x, attr->ndim, attr->dims, strides))
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "%s cannot be expanded to %s: only extents of 1 grow, from the last on",
                         core_shape_text(x->ndim, x->shape, from, sizeof from),
                         core_shape_text(attr->ndim, attr->dims, to, sizeof to));
    return core_out_view(call, 0, attr->ndim, attr->dims, strides);
}

tern_tensor *tern_expand_at(tern_site_t site, tern_tensor *x, tern_shape_t shape)
{
    tern_attr_shape attr = attr_of(shape);
    return core_op1(TERN_OP_expand, site, &attr, x);
}

tern_tensor *core_sum_to(tern_tensor *grad, const tern_view *x)
{
    const tern_view *g = &grad->view;
    const int added = g->ndim - x->ndim;
    tern_dims_t grown = { .set_ = TERN_GIVEN_ };
    for (int d = 0; d < g->ndim; d++)
        if (d < added || x->shape[d - added] != g->shape[d])
            grown.dims[grown.ndim++] = d;
    if (grown.ndim > 0)
        grad = tern_sum(grad, .dims = grown, .keepdim = true);
    return tern_reshape(grad, shape_of(x));
}

void back_expand(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = core_sum_to(grad, core_input_view(ctx, 0));
}

/* ---- detach ------------------------------------------------------------------------------------ */

tern_tensor *tern_detach_at(tern_site_t site, tern_tensor *x)
{
    tern_thread *self = core_self();
    if (self->error_code != TERN_OK)
        return NULL;
    if (x == NULL) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "detach", "x is NULL");
        return NULL;
    }
    if (!core_is_there(self, site, "detach", x))
        return NULL;
    return core_scope_add(self, core_tensor_alias(self, core_site(self, site), x));
}
