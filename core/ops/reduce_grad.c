/* Gradients of reductions, in ops. */
#include "core/op_table.h"
#include "core/ops/reduce.h"
#include "core/ops/scan.h"

/* ---- shapes ------------------------------------------------------------------------------------ */

static tern_shape_t whole_shape(const tern_view *v)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = v->ndim };
    for (int d = 0; d < v->ndim; d++)
        shape.dims[d] = v->shape[d];
    return shape;
}

tern_tensor *reduce_with_dims(tern_tensor *t, const tern_view *x, uint32_t reduced)
{
    tern_shape_t kept = { .set_ = TERN_GIVEN_ };
    kept.ndim = reduce_shape(x, reduced, true, kept.dims);
    return tern_reshape(t, kept);
}

int64_t reduce_count(const tern_view *x, uint32_t reduced)
{
    int64_t count = 1;
    for (int d = 0; d < x->ndim; d++)
        if (reduced & B(d))
            count *= x->shape[d];
    return count;
}

tern_dims_t reduce_dims_of(uint32_t mask, int ndim)
{
    tern_dims_t dims = { .set_ = TERN_GIVEN_ };
    for (int d = 0; d < ndim; d++)
        if (mask & B(d))
            dims.dims[dims.ndim++] = d;
    return dims;
}

/* ---- gradients --------------------------------------------------------------------------------- */

void back_sum(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    const uint32_t reduced = core_ctx_attr(ctx, tern_attr_reduce).dims;
    grad_in[0] = tern_expand(reduce_with_dims(grad, x, reduced), whole_shape(x));
}

void back_mean(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    const uint32_t reduced = core_ctx_attr(ctx, tern_attr_reduce).dims;
    const int64_t count = reduce_count(x, reduced);
    tern_tensor *share = count > 0 ? tern_div(grad, (double)count) : grad; /* of none: no 1 / 0 */
    grad_in[0] = tern_expand(reduce_with_dims(share, x, reduced), whole_shape(x));
}

/* Counted in i64 and divided in f32: half types do not count far. */
tern_tensor *reduce_share(tern_tensor *winners, tern_tensor *grad, uint32_t reduced)
{
    if (winners == NULL || grad == NULL)
        return NULL;
    const tern_dtype_t dtype = tern_dtype(grad), wide = dtype == TERN_F64 ? TERN_F64 : TERN_F32;
    const tern_dims_t dims = reduce_dims_of(reduced, winners->view.ndim);
    tern_tensor *count = tern_cast(tern_sum(winners, .dims = dims, .keepdim = true), wide);
    tern_tensor *share = tern_cast(tern_div(tern_cast(grad, wide), count), dtype);
    return tern_mul(tern_cast(winners, dtype), share);
}

/* amax and amin: ties share equally. */
void back_amax(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *x = core_saved_in(ctx, 0), *largest = core_saved_out(ctx, 0);
    const uint32_t reduced = core_ctx_attr(ctx, tern_attr_reduce).dims;
    if (x == NULL || largest == NULL)
        return;
    const tern_view *v = &x->view;
    tern_tensor *winners = tern_eq(x, reduce_with_dims(largest, v, reduced));
    grad_in[0] = reduce_share(winners, reduce_with_dims(grad, v, reduced), reduced);
}

/* 2 (x - mean) / (n - correction), times `grad` of the variance */
static tern_tensor *spread_slope(tern_tensor *x, tern_attr_reduce attr, tern_tensor *grad)
{
    const tern_view *v = &x->view;
    const double degrees = (double)reduce_count(v, attr.dims) - attr.correction;
    tern_tensor *mean = tern_mean(x, .dims = reduce_dims_of(attr.dims, v->ndim), .keepdim = true);
    tern_tensor *scaled =
        tern_mul(reduce_with_dims(grad, v, attr.dims), 2 / (degrees > 0 ? degrees : 0.0));
    return tern_mul(tern_sub(x, mean), scaled);
}

void back_var(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *x = core_saved_in(ctx, 0);
    if (x != NULL)
        grad_in[0] = spread_slope(x, core_ctx_attr(ctx, tern_attr_reduce), grad);
}

/* Nothing flows where the deviation is 0. */
void back_std(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *x = core_saved_in(ctx, 0), *std = core_saved_out(ctx, 0);
    if (x == NULL || std == NULL)
        return;
    tern_tensor *of_var = tern_div(grad, tern_mul(std, 2.0));
    of_var = tern_where(tern_eq(std, 0.0), 0.0, of_var);
    grad_in[0] = spread_slope(x, core_ctx_attr(ctx, tern_attr_reduce), of_var);
}

/* Elements along the last dimension, that of `reduced` made one and moved there. */
static tern_tensor *lined_up(tern_tensor *x, uint32_t reduced)
{
    const tern_view *v = &x->view;
    tern_dims_t order = { .set_ = TERN_GIVEN_, .ndim = v->ndim };
    tern_shape_t shape = { .set_ = TERN_GIVEN_ };
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < v->ndim; d++)
            if (((reduced >> d & 1u) != 0) == (pass == 1))
                order.dims[n++] = d;
    shape.ndim = reduce_shape(v, reduced, false, shape.dims);
    shape.dims[shape.ndim++] = reduce_count(v, reduced);
    return tern_reshape(tern_permute(x, order), shape);
}

/* Undoes lined_up. */
static tern_tensor *spread_again(tern_tensor *line, const tern_view *v, uint32_t reduced)
{
    tern_shape_t moved = { .set_ = TERN_GIVEN_, .ndim = v->ndim };
    tern_dims_t order = { .set_ = TERN_GIVEN_, .ndim = v->ndim };
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < v->ndim; d++)
            if (((reduced >> d & 1u) != 0) == (pass == 1)) {
                moved.dims[n] = v->shape[d];
                order.dims[d] = n++;
            }
    return tern_permute(tern_reshape(line, moved), order);
}

/* The product of all others is that of those before times that of those behind, which holds with
 * zeros, too, and for gradients of gradients. */
void back_prod(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *x = core_saved_in(ctx, 0);
    const uint32_t reduced = core_ctx_attr(ctx, tern_attr_reduce).dims;
    if (x == NULL)
        return;
    const tern_view *v = &x->view;
    if (v->ndim == 0 || v->numel == 0) {
        grad_in[0] = tern_expand(reduce_with_dims(grad, v, reduced), whole_shape(v));
        return;
    }
    tern_tensor *line = lined_up(x, reduced);
    tern_tensor *others =
        tern_mul(scan_products_before(line, -1, false), scan_products_before(line, -1, true));
    grad_in[0] = tern_mul(spread_again(others, v, reduced), reduce_with_dims(grad, v, reduced));
}

/* max and min: the place takes it. */
void back_max(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    const int dim = core_ctx_attr(ctx, tern_attr_dim).dim;
    tern_tensor *index = core_saved_out(ctx, 1);
    if (x->ndim == 0) {
        grad_in[0] = grad;
        return;
    }
    tern_attr_gather_grad attr = { .dim = dim, .ndim = x->ndim };
    for (int d = 0; d < x->ndim; d++)
        attr.dims[d] = x->shape[d];
    grad_in[0] = core_op2(TERN_OP_gather_grad, TERN_HERE, &attr, reduce_with_dims(grad, x, B(dim)),
                          reduce_with_dims(index, x, B(dim)));
}
