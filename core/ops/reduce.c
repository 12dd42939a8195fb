/* Reductions over any dimensions: sum, mean, amax, var; over one: max, argmax. */
#include "core/compose.h"
#include "core/op_table.h"

/* ---- shapes ------------------------------------------------------------------------------------ */

static bool is_reduced(const tern_attr_reduce *attr, int d)
{
    return (attr->dims & B(d)) != 0;
}

/* The result's shape, in `out_dims`; returns its ndim. */
static int reduced_shape(const tern_view *x, uint32_t reduced, bool keepdim, int64_t *out_dims)
{
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (!(reduced & B(d)))
            out_dims[n++] = x->shape[d];
        else if (keepdim)
            out_dims[n++] = 1;
    }
    return n;
}

static bool reduced_out(core_call *call, tern_dtype_t dtype)
{
    const tern_attr_reduce *attr = core_attr(call);
    int64_t dims[TERN_MAX_DIMS];
    const int ndim = reduced_shape(core_view(call, 0), attr->dims, attr->keepdim != 0, dims);
    return core_out(call, 0, dtype, ndim, dims);
}

bool rule_sum(core_call *call)
{
    const tern_dtype_t dtype = (tern_dtype_t)core_view(call, 0)->dtype;
    return reduced_out(call, tern_dtype_is_float(dtype) ? dtype : TERN_I64);
}

/* mean and var */
bool rule_mean(core_call *call)
{
    const tern_dtype_t dtype = (tern_dtype_t)core_view(call, 0)->dtype;
    if (!tern_dtype_is_float(dtype))
        return core_fail(call, TERN_ERR_DTYPE, "tern_cast(x, TERN_F32), or .dtype for a mean",
                         "the input is %s; floats are needed, since the result is not whole",
                         tern_dtype_name(dtype));
    return reduced_out(call, dtype);
}

static bool nothing_to_compare(core_call *call, int d)
{
    return core_fail(call, TERN_ERR_SHAPE, NULL,
                     "dimension %d has extent 0: there is no largest value", d);
}

bool rule_amax(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    for (int d = 0; d < x->ndim; d++)
        if (is_reduced(core_attr(call), d) && x->shape[d] == 0)
            return nothing_to_compare(call, d);
    return reduced_out(call, (tern_dtype_t)x->dtype);
}

/* The shape without attr->dim; false with the error recorded. */
static bool without_dim(core_call *call, int64_t *out_dims, int *out_ndim)
{
    const tern_view *x = core_view(call, 0);
    tern_attr_dim *attr = core_attr(call);
    if (!core_normalise_dim(call, &attr->dim, x->ndim))
        return false;
    if (x->ndim > 0 && x->shape[attr->dim] == 0)
        return nothing_to_compare(call, attr->dim);
    attr->size = x->ndim > 0 ? x->shape[attr->dim] : 1;
    *out_ndim = reduced_shape(x, B(attr->dim), attr->keepdim != 0, out_dims);
    return true;
}

bool rule_max(core_call *call)
{
    int64_t dims[TERN_MAX_DIMS];
    int ndim;
    return without_dim(call, dims, &ndim) &&
           core_out(call, 0, (tern_dtype_t)core_view(call, 0)->dtype, ndim, dims) &&
           core_out(call, 1, TERN_I64, ndim, dims);
}

bool rule_argmax(core_call *call)
{
    int64_t dims[TERN_MAX_DIMS];
    int ndim;
    return without_dim(call, dims, &ndim) && core_out(call, 0, TERN_I64, ndim, dims);
}

/* ---- public functions -------------------------------------------------------------------------- */

/* Dimensions as bits; none given is all. A 0-dim tensor reduces its one element: bit 0. */
static bool dims_mask(core_call *call, const tern_view *x, tern_dims_t dims, uint32_t *out_mask)
{
    if (dims.ndim == 0) {
        *out_mask = x->ndim == 0 ? 1u : B(x->ndim) - 1;
        return true;
    }
    *out_mask = 0;
    for (int i = 0; i < dims.ndim && i < TERN_MAX_DIMS; i++) {
        const int64_t wide = dims.dims[i];
        int32_t d = wide > 100 ? 100 : wide < -100 ? -100 : (int32_t)wide;
        if (!core_normalise_dim(call, &d, x->ndim))
            return false;
        if (*out_mask & B(d))
            return core_fail(call, TERN_ERR_ARGUMENT, NULL, "dimension %d is named twice", d);
        *out_mask |= B(d);
    }
    return true;
}

static bool check_dtype(core_call *call, tern_dtype_t dtype)
{
    if ((int)dtype >= 0 && dtype < TERN_DTYPES)
        return true;
    return core_fail(call, TERN_ERR_DTYPE, NULL, "%d is no dtype", (int)dtype);
}

static tern_tensor *reduce(tern_op_id id, tern_site_t site, const tern_reduce_args *args)
{
    tern_tensor *x = args->x, *out = NULL;
    tern_attr_reduce attr = { .keepdim = args->keepdim, .correction = args->correction };
    if (id == TERN_OP_var)
        attr.correction = args->no_correction ? 0 : args->correction == 0 ? 1 : args->correction;
    core_frame frame;
    core_compose_begin(&frame, id, site, 1, &x);
    if (core_compose_check(&frame) && check_dtype(&frame.call, args->dtype) &&
        dims_mask(&frame.call, &x->view, args->dims, &attr.dims)) {
        if (args->dtype != TERN_DTYPE_NONE)
            x = tern_cast(x, args->dtype);
        out = core_op1(id, site, &attr, x);
        if (out != NULL && args->dtype != TERN_DTYPE_NONE)
            out = tern_cast(out, args->dtype); /* sums of small integers were made as i64 */
    }
    return core_compose_end(&frame, out);
}

tern_tensor *tern_sum_at(tern_site_t site, const tern_reduce_args *args)
{
    return reduce(TERN_OP_sum, site, args);
}

tern_tensor *tern_mean_at(tern_site_t site, const tern_reduce_args *args)
{
    return reduce(TERN_OP_mean, site, args);
}

tern_tensor *tern_amax_at(tern_site_t site, const tern_reduce_args *args)
{
    return reduce(TERN_OP_amax, site, args);
}

tern_tensor *tern_var_at(tern_site_t site, const tern_reduce_args *args)
{
    return reduce(TERN_OP_var, site, args);
}

tern_tensor *tern_max_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor **out_indices)
{
    tern_attr_dim attr = { .dim = dim };
    tern_tensor *values = NULL, **out[] = { &values, out_indices };
    if (out_indices != NULL)
        *out_indices = NULL;
    return core_opn(TERN_OP_max, site, &attr, 1, &x, 2, out) ? values : NULL;
}

tern_tensor *tern_argmax_at(tern_site_t site, tern_tensor *x, int dim)
{
    tern_attr_dim attr = { .dim = dim };
    return core_op1(TERN_OP_argmax, site, &attr, x);
}

/* ---- gradients --------------------------------------------------------------------------------- */

static tern_shape_t shape_of(const tern_view *v)
{
    tern_shape_t shape = { .set_ = 1, .ndim = v->ndim };
    for (int d = 0; d < v->ndim; d++)
        shape.dims[d] = v->shape[d];
    return shape;
}

/* A result with its reduced dimensions back, as 1. */
static tern_tensor *with_dims(tern_tensor *t, const tern_view *x, uint32_t reduced)
{
    tern_shape_t kept = { .set_ = 1 };
    kept.ndim = reduced_shape(x, reduced, true, kept.dims);
    return tern_reshape(t, kept);
}

static int64_t reduced_count(const tern_view *x, uint32_t reduced)
{
    int64_t count = 1;
    for (int d = 0; d < x->ndim; d++)
        if (reduced & B(d))
            count *= x->shape[d];
    return count;
}

static tern_dims_t dims_of(uint32_t mask, int ndim)
{
    tern_dims_t dims = { .set_ = 1 };
    for (int d = 0; d < ndim; d++)
        if (mask & B(d))
            dims.dims[dims.ndim++] = d;
    return dims;
}

void back_sum(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    const uint32_t reduced = core_ctx_attr(ctx, tern_attr_reduce).dims;
    grad_in[0] = tern_expand(with_dims(grad, x, reduced), shape_of(x));
}

void back_mean(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    const uint32_t reduced = core_ctx_attr(ctx, tern_attr_reduce).dims;
    tern_tensor *share = tern_div(grad, (double)reduced_count(x, reduced));
    grad_in[0] = tern_expand(with_dims(share, x, reduced), shape_of(x));
}

/* Ties share equally. */
void back_amax(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *x = core_saved_in(ctx, 0), *largest = core_saved_out(ctx, 0);
    const uint32_t reduced = core_ctx_attr(ctx, tern_attr_reduce).dims;
    if (x == NULL || largest == NULL)
        return;
    const tern_view *v = &x->view;
    tern_tensor *winners = tern_cast(tern_eq(x, with_dims(largest, v, reduced)), tern_dtype(grad));
    tern_tensor *count = tern_sum(winners, .dims = dims_of(reduced, v->ndim), .keepdim = true);
    grad_in[0] = tern_div(tern_mul(winners, with_dims(grad, v, reduced)), count);
}

/* 2 (x - mean) / (n - correction) */
void back_var(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *x = core_saved_in(ctx, 0);
    const tern_attr_reduce attr = core_ctx_attr(ctx, tern_attr_reduce);
    if (x == NULL)
        return;
    const double degrees = (double)reduced_count(&x->view, attr.dims) - attr.correction;
    tern_tensor *mean = tern_mean(x, .dims = dims_of(attr.dims, x->view.ndim), .keepdim = true);
    tern_tensor *scaled =
        tern_mul(with_dims(grad, &x->view, attr.dims), 2 / (degrees > 0 ? degrees : 0.0));
    grad_in[0] = tern_mul(tern_sub(x, mean), scaled);
}

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
    grad_in[0] = core_op2(TERN_OP_gather_grad, TERN_HERE, &attr, with_dims(grad, x, B(dim)),
                          with_dims(index, x, B(dim)));
}
