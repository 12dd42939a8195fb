/* sort, and what is a part of a sorted order: argsort, topk, median.
 *
 * There is one row: it gives the elements first .. first + count of the order and their places, which is
 * what topk (from 0 on) and median (one in the middle) are. */
#include "core/compose.h"
#include "core/error.h"
#include "core/op_table.h"
#include "core/ops/reduce.h"

/* Settles what part of the order is wanted. */
static bool check_order(core_call *call, tern_attr_sort *attr)
{
    const tern_view *x = core_view(call, 0);
    if (!core_normalise_dim(call, &attr->dim, x->ndim))
        return false;
    const int64_t n = x->ndim > 0 ? x->shape[attr->dim] : 1;
    if (attr->median) {
        attr->first = (n - 1) / 2;
        attr->count = 1;
        return reduce_check_extents(call, B(attr->dim));
    }
    if (attr->all)
        attr->count = n;
    if (attr->first >= 0 && attr->count >= 0 && attr->first <= n &&
        attr->count <= n - attr->first) {
        if (x->ndim == 0) /* no dimension to leave out: its one element, also of 0, as in PyTorch */
            attr->count = 1;
        return true;
    }
    return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                     "%lld elements are wanted of dimension %d, which has %lld",
                     (long long)attr->count, attr->dim, (long long)n);
}

bool rule_sort(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    tern_attr_sort *attr = core_attr(call);
    if (!check_order(call, attr))
        return false;
    int64_t dims[TERN_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++)
        dims[d] = d == attr->dim ? attr->count : x->shape[d];
    int ndim = x->ndim;
    if (attr->median)
        ndim = reduce_shape(x, B(attr->dim), false, dims);
    return core_out(call, 0, (tern_dtype_t)x->dtype, ndim, dims) &&
           core_out(call, 1, TERN_I64, ndim, dims);
}

tern_tensor *tern_sort_at(tern_site_t site, tern_tensor *x, int dim, bool descending,
                          tern_tensor **out_indices)
{
    tern_attr_sort attr = { .dim = dim, .descending = descending, .all = 1 };
    tern_tensor *values = NULL, **out[] = { &values, out_indices };
    if (out_indices != NULL)
        *out_indices = NULL;
    return core_opn(TERN_OP_sort, site, &attr, 1, &x, 2, out) ? values : NULL;
}

tern_tensor *tern_argsort_at(tern_site_t site, tern_tensor *x, int dim, bool descending)
{
    tern_attr_sort attr = { .dim = dim, .descending = descending, .all = 1 };
    tern_tensor *places = NULL, **out[] = { NULL, &places };
    tern_thread *self = core_self();
    const char *outer = core_calling_begin(self, "argsort");
    (void)core_opn(TERN_OP_sort, site, &attr, 1, &x, 2, out); /* NULL after an error */
    core_calling_end(self, outer);
    return places;
}

/* The row under the name of `id`, which also says what is wrong. */
static tern_tensor *part_of_order(tern_op_id id, tern_site_t site, tern_tensor *x,
                                  tern_attr_sort attr, tern_tensor **out_indices)
{
    tern_tensor *values = NULL, *places = NULL, **out[] = { &values, &places };
    core_frame frame;
    core_compose_begin(&frame, id, site, 1, &x);
    if (core_compose_check(&frame) && check_order(&frame.call, &attr))
        (void)core_opn(TERN_OP_sort, frame.call.site, &attr, 1, &x, 2, out); /* or both NULL */
    return core_compose_end_with(&frame, values, 1, &places, &out_indices);
}

tern_tensor *tern_topk_at(tern_site_t site, tern_tensor *x, int64_t k, int dim, bool largest,
                          tern_tensor **out_indices)
{
    const tern_attr_sort attr = { .dim = dim, .descending = largest, .count = k };
    return part_of_order(TERN_OP_topk, site, x, attr, out_indices);
}

tern_tensor *tern_median_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor **out_indices)
{
    const tern_attr_sort attr = { .dim = dim, .median = 1 };
    return part_of_order(TERN_OP_median, site, x, attr, out_indices);
}

/* ---- the middle of all: an op, since what equals it shares the gradient -------------------------- */

static tern_tensor *middle_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    tern_tensor *middle = tern_median(in[0], 0, NULL);
    tern_save(ctx, in[0]);
    tern_save(ctx, middle);
    return middle;
}

/* NaNs are equal here. */
static void middle_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *x = tern_saved(ctx, 0), *middle = tern_saved(ctx, 1);
    tern_tensor *both_nan = tern_logical_and(tern_isnan(x), tern_isnan(middle));
    tern_tensor *equal = tern_logical_or(tern_eq(x, middle), both_nan);
    grad_in[0] = reduce_share(equal, tern_reshape(grad, TERN_SHAPE(1)), B(0));
}

static const tern_op middle_op = {
    .name = "median_all", .inputs = 1, .forward = middle_forward, .backward = middle_backward
};

tern_tensor *tern_median_all_at(tern_site_t site, tern_tensor *x)
{
    tern_tensor *out = NULL;
    core_frame frame;
    const char *outer = core_calling_begin(core_self(), "median_all");
    core_compose_begin(&frame, TERN_OP_median, site, 1, &x);
    if (core_compose_check(&frame)) {
        if (x->view.numel == 0 && tern_dtype_is_float(tern_dtype(x)))
            out = tern_mean(x); /* NaN, with x's empty gradient behind it */
        else if (x->view.numel == 0)
            core_fail(&frame.call, TERN_ERR_SHAPE, NULL, "there are no elements");
        else
            out = tern_apply(&middle_op, tern_reshape(x, TERN_SHAPE(-1)));
    }
    out = core_compose_end(&frame, out);
    core_calling_end(frame.call.self, outer);
    return out;
}

/* Elements go back to where they were: each place takes one. */
void back_sort(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    const tern_attr_sort sorted = core_ctx_attr(ctx, tern_attr_sort);
    tern_tensor *index = core_saved_out(ctx, 1);
    if (index == NULL)
        return;
    if (x->ndim == 0 && grad->view.numel == 1) {
        grad_in[0] = grad;
        return;
    }
    if (sorted.median) {
        grad = reduce_with_dims(grad, x, B(sorted.dim));
        index = reduce_with_dims(index, x, B(sorted.dim));
    }
    tern_attr_gather_grad attr = { .dim = sorted.dim, .ndim = x->ndim };
    for (int d = 0; d < x->ndim; d++)
        attr.dims[d] = x->shape[d];
    grad_in[0] = core_op2(TERN_OP_gather_grad, TERN_HERE, &attr, grad, index);
}
