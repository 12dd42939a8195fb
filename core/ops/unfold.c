/* unfold: windows along one dimension, which may overlap; the gradient adds them up. */
#include <string.h>

#include "core/compose.h"
#include "core/op_table.h"

bool rule_unfold(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    tern_attr_unfold *attr = core_attr(call);
    int64_t dims[TERN_MAX_DIMS], strides[TERN_MAX_DIMS];
    if (!core_normalise_dim(call, &attr->dim, x->ndim))
        return false;
    const int64_t extent = x->ndim > 0 ? x->shape[attr->dim] : 1;
    if (x->ndim == TERN_MAX_DIMS)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "a tensor has at most %d dimensions",
                         TERN_MAX_DIMS);
    if (attr->size < 0 || attr->size > extent || attr->step < 1)
        return core_fail(
            call, TERN_ERR_ARGUMENT, NULL,
            "windows of %lld elements, %lld apart, along a dimension of %lld: the size "
            "has to be 0 to %lld and the step positive",
            (long long)attr->size, (long long)attr->step, (long long)extent, (long long)extent);
    const int64_t stride = x->ndim > 0 ? x->stride[attr->dim] : 1;
    for (int d = 0; d < x->ndim; d++) {
        dims[d] = x->shape[d];
        strides[d] = x->stride[d];
    }
    dims[x->ndim] = attr->size;
    strides[x->ndim] = stride;
    if (x->ndim > 0) {
        dims[attr->dim] = (extent - attr->size) / attr->step + 1;
        strides[attr->dim] = dims[attr->dim] > 1 ? stride * attr->step : stride;
    }
    /* windows of an expanded tensor overlap, and may be more than numel can count */
    if (core_numel(x->ndim + 1, dims) < 0)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "the result would be too large");
    return core_out_view(call, 0, x->ndim + 1, dims, strides);
}

tern_tensor *tern_unfold_at(tern_site_t site, tern_tensor *x, int dim, int64_t size, int64_t step)
{
    tern_attr_unfold attr = { .dim = dim, .size = size, .step = step };
    return core_op1(TERN_OP_unfold, site, &attr, x);
}

/* ---- gradient: the windows added into zeros ------------------------------------------------------ */

typedef struct unfold_grad_attr {
    tern_attr_unfold windows;
    tern_attr_shape whole;
} unfold_grad_attr;

static tern_tensor *part_of(tern_tensor *x, int dim, int64_t start, int64_t length, int64_t step)
{
    tern_attr_slice part = { .dim = dim, .start = start, .length = length, .step = step };
    return core_op1(TERN_OP_slice, TERN_HERE, &part, x);
}

/* Adds all windows' element k, or all of window k, whichever are the fewer calls. */
static bool add_part(tern_tensor *sums, tern_tensor *grad, const tern_attr_unfold *w,
                     bool by_window, int64_t k)
{
    const int last = grad->view.ndim - 1;
    const int64_t windows = grad->view.shape[w->dim];
    tern_tensor *to = by_window ? part_of(sums, w->dim, k * w->step, w->size, 1)
                                : part_of(sums, w->dim, k, windows, w->step);
    tern_tensor *from = by_window ? tern_movedim(tern_select(grad, w->dim, k), -1, w->dim)
                                  : tern_select(grad, last, k);
    return tern_add_(to, from) != NULL;
}

/* Half types add up in f32. */
static tern_tensor *unfold_grad_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    const unfold_grad_attr *attr = tern_op_attr(ctx);
    const tern_attr_unfold *w = &attr->windows;
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = attr->whole.ndim };
    memcpy(shape.dims, attr->whole.dims, sizeof shape.dims);
    if (shape.ndim == 0)
        return tern_reshape(tern_sum(in[0]), shape);
    const tern_dtype_t dtype = tern_dtype(in[0]);
    const bool half = dtype == TERN_F16 || dtype == TERN_BF16;
    tern_tensor *grad = half ? tern_cast(in[0], TERN_F32) : in[0];
    tern_tensor *sums = tern_zeros(shape, .dtype = tern_dtype(grad), .like = grad);
    const int64_t windows = tern_size(grad, w->dim);
    const bool by_window = windows < w->size;
    for (int64_t k = 0; k < (by_window ? windows : w->size); k++) {
        tern_scope scope = tern_scope_begin();
        if (!add_part(sums, grad, w, by_window, k))
            return NULL;
        tern_scope_end(&scope);
    }
    return half ? tern_cast(sums, dtype) : sums;
}

static void unfold_grad_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_attr_unfold w = core_ctx_attr(ctx, unfold_grad_attr).windows;
    grad_in[0] = tern_unfold(grad, w.dim, w.size, w.step);
}

static const tern_op unfold_grad = { .name = "unfold_grad",
                                     .inputs = 1,
                                     .forward = unfold_grad_forward,
                                     .backward = unfold_grad_backward,
                                     .attr_size = sizeof(unfold_grad_attr) };

void back_unfold(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    unfold_grad_attr attr = { .windows = core_ctx_attr(ctx, tern_attr_unfold),
                              .whole.ndim = x->ndim };
    memcpy(attr.whole.dims, x->shape, sizeof attr.whole.dims);
    grad_in[0] = tern_apply_at(TERN_HERE, &unfold_grad, &grad, &attr);
}
