/* slice and select: parts of a tensor along one dimension. */
#include "core/compose.h"
#include "core/op_table.h"
#include "core/option.h"
#include "core/rules.h"

#include <string.h>

bool rule_slice(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    tern_attr_slice *attr = core_attr(call);
    int64_t dims[TERN_MAX_DIMS], strides[TERN_MAX_DIMS];
    if (x->ndim == 0)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "a 0-dim tensor has no parts");
    if (!core_normalise_dim(call, &attr->dim, x->ndim))
        return false;
    if (attr->step < 1)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "the step is %lld; it has to be positive",
                         (long long)attr->step);
    for (int d = 0; d < x->ndim; d++) {
        dims[d] = x->shape[d];
        strides[d] = x->stride[d];
    }
    dims[attr->dim] = attr->length;
    strides[attr->dim] *= attr->length > 1 ? attr->step : 1;
    return core_out_view(call, attr->start * x->stride[attr->dim], x->ndim, dims, strides);
}

static int64_t clamp(int64_t value, int64_t size)
{
    if (value < 0)
        value += size;
    return value < 0 ? 0 : value > size ? size : value;
}

tern_tensor *tern_slice_at(tern_site_t site, const tern_slice_args *args)
{
    args = core_options(args);
    const int64_t size = tern_size(args->x, args->dim); /* -1: the rule says why */
    const int64_t step = args->step == 0 ? 1 : args->step;
    const int64_t start = clamp(args->start, size > 0 ? size : 0);
    const int64_t end = args->end == 0 ? size : clamp(args->end, size > 0 ? size : 0);
    tern_attr_slice attr = { .dim = args->dim, .start = start, .step = step };
    if (end > start && step > 0)
        attr.length = (end - start - 1) / step + 1;
    return core_op1(TERN_OP_slice, site, &attr, args->x);
}

/* ---- gradient: zeros with the gradient in the part ----------------------------------------------
 * They lie as x did, so that views which led to x lead back without a copy. */

typedef struct slice_grad_attr {
    tern_attr_slice part;
    tern_attr_shape whole;
    int64_t strides[TERN_MAX_DIMS];
} slice_grad_attr;

static tern_tensor *part_of(tern_tensor *x, tern_attr_slice part)
{
    return core_op1(TERN_OP_slice, TERN_HERE, &part, x);
}

static tern_tensor *slice_grad_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    const slice_grad_attr attr = core_ctx_attr(ctx, slice_grad_attr);
    tern_attr_fill zero = { .value = { TERN_NUMBER_INT, 0, 0.0, 0 } };
    const tern_view *g = &in[0]->view;
    tern_thread *self = core_self();
    tern_tensor *out =
        core_tensor_new_strided(self, core_site(self, TERN_HERE), g->dev, (tern_dtype_t)g->dtype,
                                attr.whole.ndim, attr.whole.dims, attr.strides);
    if (out == NULL)
        return NULL;
    core_scope_add(self, out);
    if (core_op_into(TERN_OP_fill, TERN_HERE, &zero, out, NULL) != TERN_OK)
        return NULL;
    return tern_copy(part_of(out, attr.part), in[0]) != NULL ? out : NULL;
}

static void slice_grad_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = part_of(grad, core_ctx_attr(ctx, slice_grad_attr).part);
}

static const tern_op slice_grad = { .name = "slice_grad",
                                    .inputs = 1,
                                    .forward = slice_grad_forward,
                                    .backward = slice_grad_backward,
                                    .attr_size = sizeof(slice_grad_attr) };

void back_slice(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    slice_grad_attr attr = { .part = core_ctx_attr(ctx, tern_attr_slice), .whole.ndim = x->ndim };
    tern_tensor *sum = core_grad_so_far(ctx, 0); /* of other parts of x: this one is added there */
    if (sum != NULL && sum->view.dtype == grad->view.dtype && core_view_same_shape(&sum->view, x)) {
        tern_add_(part_of(sum, attr.part), grad);
        return;
    }
    memcpy(attr.whole.dims, x->shape, sizeof attr.whole.dims);
    core_dense_strides(x, attr.strides);
    grad_in[0] = tern_apply_at(TERN_HERE, &slice_grad, &grad, &attr);
}

/* ---- select ------------------------------------------------------------------------------------ */

static bool check_index(core_frame *frame, const tern_view *x, int32_t *dim, int64_t *index)
{
    core_call *call = &frame->call;
    if (x->ndim == 0)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "a 0-dim tensor has no parts");
    if (!core_normalise_dim(call, dim, x->ndim))
        return false;
    const int64_t size = x->shape[*dim];
    if (*index < -size || *index >= size)
        return core_fail(call, TERN_ERR_INDEX, NULL,
                         "index %lld is outside dimension %d of extent %lld", (long long)*index,
                         *dim, (long long)size);
    if (*index < 0)
        *index += size;
    return true;
}

tern_tensor *tern_select_at(tern_site_t site, tern_tensor *x, int dim, int64_t index)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_select, site, 1, &x);
    tern_tensor *out = NULL;
    int32_t d = dim;
    if (core_compose_check(&frame) && check_index(&frame, &x->view, &d, &index)) {
        const tern_attr_slice part = { .dim = d, .start = index, .length = 1, .step = 1 };
        out = tern_squeeze(part_of(x, part), d);
    }
    return core_compose_end(&frame, out);
}
