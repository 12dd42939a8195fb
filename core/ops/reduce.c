/* Reductions over any dimensions: sum, mean, var, std, prod, amax, amin, any, all, logsumexp; over one:
 * max, min, argmax, argmin. Gradients are in reduce_grad.c. */
#include <math.h>

#include "core/compose.h"
#include "core/op_table.h"
#include "core/ops/reduce.h"
#include "core/option.h"
#include "core/promote.h"

/* ---- shapes ------------------------------------------------------------------------------------ */

int reduce_shape(const tern_view *x, uint32_t reduced, bool keepdim, int64_t *out_dims)
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

bool reduce_out(core_call *call, uint32_t reduced, bool keepdim, tern_dtype_t dtype)
{
    int64_t dims[TERN_MAX_DIMS];
    const int ndim = reduce_shape(core_view(call, 0), reduced, keepdim, dims);
    return core_out(call, 0, dtype, ndim, dims);
}

static bool reduced_to(core_call *call, tern_dtype_t dtype)
{
    const tern_attr_reduce *attr = core_attr(call);
    return reduce_out(call, attr->dims, attr->keepdim != 0, dtype);
}

/* sum and prod */
bool rule_sum(core_call *call)
{
    const tern_dtype_t dtype = (tern_dtype_t)core_view(call, 0)->dtype;
    return reduced_to(call, tern_dtype_is_float(dtype) ? dtype : TERN_I64);
}

/* mean, var and std */
bool rule_mean(core_call *call)
{
    const tern_dtype_t dtype = (tern_dtype_t)core_view(call, 0)->dtype;
    if (!tern_dtype_is_float(dtype))
        return core_fail(call, TERN_ERR_DTYPE, "tern_cast(x, TERN_F32), or .dtype for a mean",
                         "the input is %s; floats are needed, since the result is not whole",
                         tern_dtype_name(dtype));
    return reduced_to(call, dtype);
}

bool reduce_check_extents(core_call *call, uint32_t reduced)
{
    const tern_view *x = core_view(call, 0);
    for (int d = 0; d < x->ndim; d++)
        if ((reduced & B(d)) && x->shape[d] == 0)
            return core_fail(call, TERN_ERR_SHAPE, NULL,
                             "dimension %d has extent 0: there is no largest or smallest value", d);
    return true;
}

/* amax and amin */
bool rule_amax(core_call *call)
{
    const tern_attr_reduce *attr = core_attr(call);
    return reduce_check_extents(call, attr->dims) &&
           reduced_to(call, (tern_dtype_t)core_view(call, 0)->dtype);
}

/* The shape without attr->dim; false with the error recorded. */
static bool without_dim(core_call *call, int64_t *out_dims, int *out_ndim)
{
    const tern_view *x = core_view(call, 0);
    tern_attr_dim *attr = core_attr(call);
    if (!core_normalise_dim(call, &attr->dim, x->ndim) || !reduce_check_extents(call, B(attr->dim)))
        return false;
    attr->size = x->ndim > 0 ? x->shape[attr->dim] : 1;
    *out_ndim = reduce_shape(x, B(attr->dim), attr->keepdim != 0, out_dims);
    return true;
}

/* max and min */
bool rule_max(core_call *call)
{
    int64_t dims[TERN_MAX_DIMS];
    int ndim;
    return without_dim(call, dims, &ndim) &&
           core_out(call, 0, (tern_dtype_t)core_view(call, 0)->dtype, ndim, dims) &&
           core_out(call, 1, TERN_I64, ndim, dims);
}

/* argmax and argmin */
bool rule_argmax(core_call *call)
{
    int64_t dims[TERN_MAX_DIMS];
    int ndim;
    return without_dim(call, dims, &ndim) && core_out(call, 0, TERN_I64, ndim, dims);
}

/* ---- public functions -------------------------------------------------------------------------- */

bool reduce_mask(core_call *call, const tern_view *x, tern_dims_t dims, uint32_t *out_mask)
{
    if (tern_shape_is_bare_(&dims))
        return core_fail(call, TERN_ERR_ARGUMENT, "TERN_DIMS(1), TERN_DIMS(-2, -1)",
                         "bare numbers are no list of dimensions");
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

/* One that a row would refuse after the cast is refused before, where x is still the caller's. */
static bool check_dtype(core_call *call, tern_op_id id, tern_dtype_t dtype)
{
    if ((int)dtype < 0 || dtype >= TERN_DTYPES)
        return core_fail(call, TERN_ERR_DTYPE, NULL, "%d is no dtype", (int)dtype);
    const bool whole = id != TERN_OP_mean && id != TERN_OP_var && id != TERN_OP_std;
    if (whole || dtype == TERN_DTYPE_NONE || tern_dtype_is_float(dtype))
        return true;
    return core_fail(call, TERN_ERR_DTYPE, ".dtype = TERN_F32",
                     ".dtype is %s; floats are needed, since the result is not whole",
                     tern_dtype_name(dtype));
}

typedef tern_tensor *(*compose_fn)(tern_op_id id, tern_site_t site, tern_attr_reduce *attr,
                                   tern_tensor *x);

static tern_tensor *one_row(tern_op_id id, tern_site_t site, tern_attr_reduce *attr, tern_tensor *x)
{
    return core_op1(id, site, attr, x);
}

/* What x is cast to. As in PyTorch, a mean in a half type is rounded, its elements are not. */
static tern_dtype_t computed_in(tern_op_id id, tern_dtype_t from, tern_dtype_t to)
{
    const bool half = to == TERN_F16 || to == TERN_BF16;
    return id == TERN_OP_mean && half && from != to ? TERN_F32 : to;
}

static tern_tensor *reduce_by(compose_fn run, tern_op_id id, tern_site_t site,
                              const tern_reduce_args *args)
{
    args = core_whole_options(args);
    tern_tensor *x = args->x, *out = NULL;
    tern_attr_reduce attr = { .keepdim = args->keepdim, .correction = args->correction };
    if (id == TERN_OP_var || id == TERN_OP_std)
        attr.correction = args->no_correction ? 0 : core_given(args->correction, 1);
    core_frame frame;
    core_compose_begin(&frame, id, site, 1, &x);
    if (core_compose_check(&frame) && check_dtype(&frame.call, id, args->dtype) &&
        reduce_mask(&frame.call, &x->view, args->dims, &attr.dims)) {
        if (args->dtype != TERN_DTYPE_NONE)
            x = tern_cast(x, computed_in(id, tern_dtype(x), args->dtype));
        else if (id == TERN_OP_logsumexp) /* a row casts by itself */
            x = core_compose_cast(&frame) ? frame.call.in[0] : NULL;
        out = x != NULL ? run(id, site, &attr, x) : NULL;
        if (out != NULL && args->dtype != TERN_DTYPE_NONE)
            out = tern_cast(out, args->dtype); /* sums of small integers were made as i64 */
    }
    return core_compose_end(&frame, out);
}

#define PUBLIC_REDUCTION(name)                                                    \
    tern_tensor *tern_##name##_at(tern_site_t site, const tern_reduce_args *args) \
    {                                                                             \
        return reduce_by(one_row, TERN_OP_##name, site, args);                    \
    }
PUBLIC_REDUCTION(sum)
PUBLIC_REDUCTION(mean)
PUBLIC_REDUCTION(var)
PUBLIC_REDUCTION(std)
PUBLIC_REDUCTION(prod)
PUBLIC_REDUCTION(amax)
PUBLIC_REDUCTION(amin)

/* Of bools: any is the greatest, all the least; of nothing, false and true. */
static tern_tensor *truth(tern_op_id id, tern_site_t site, tern_attr_reduce *attr, tern_tensor *x)
{
    const tern_dtype_t dtype = tern_dtype(x) == TERN_U8 ? TERN_U8 : TERN_BOOL;
    tern_tensor *out;
    if (reduce_count(&x->view, attr->dims) == 0) {
        tern_shape_t shape = { .set_ = TERN_GIVEN_ };
        shape.ndim = reduce_shape(&x->view, attr->dims, attr->keepdim != 0, shape.dims);
        return tern_full(id == TERN_OP_all, shape, .dtype = dtype, .like = x);
    }
    if (tern_dtype(x) != TERN_BOOL)
        x = tern_ne(x, 0);
    out = core_op1(id == TERN_OP_all ? TERN_OP_amin : TERN_OP_amax, site, attr, x);
    return out != NULL && dtype == TERN_U8 ? tern_cast(out, dtype) : out;
}

tern_tensor *tern_any_at(tern_site_t site, const tern_reduce_args *args)
{
    return reduce_by(truth, TERN_OP_any, site, args);
}

tern_tensor *tern_all_at(tern_site_t site, const tern_reduce_args *args)
{
    return reduce_by(truth, TERN_OP_all, site, args);
}

/* log(sum(exp(x - m))) + m with m the greatest, or the finite number next to it. Beside an infinite element, whose own
 * gradient is NaN, exp of the others is 0 then, and so is their gradient. */
static tern_tensor *log_of_sum(tern_op_id id, tern_site_t site, tern_attr_reduce *attr,
                               tern_tensor *x)
{
    (void)id;
    (void)site;
    const tern_dims_t dims = reduce_dims_of(attr->dims, x->view.ndim);
    if (!tern_dtype_is_float(tern_dtype(x)))
        x = tern_cast(x, tern_default_dtype());
    if (x == NULL)
        return NULL;
    if (reduce_count(&x->view, attr->dims) == 0)
        return tern_log(tern_sum(x, dims, .keepdim = attr->keepdim != 0));
    tern_tensor *m = tern_amax(tern_detach(x), dims, .keepdim = true);
    const double most = core_largest_of(tern_dtype(x));
    m = tern_clamp(m, -most, most);
    tern_tensor *sum = tern_sum(tern_exp(tern_sub(x, m)), dims, .keepdim = true);
    tern_tensor *out = tern_add(tern_log(sum), m);
    if (attr->keepdim || out == NULL)
        return out;
    tern_shape_t shape = { .set_ = TERN_GIVEN_ };
    shape.ndim = reduce_shape(&x->view, attr->dims, false, shape.dims);
    return tern_reshape(out, shape);
}

tern_tensor *tern_logsumexp_at(tern_site_t site, const tern_reduce_args *args)
{
    return reduce_by(log_of_sum, TERN_OP_logsumexp, site, args);
}

static tern_tensor *extreme(tern_op_id id, tern_site_t site, tern_tensor *x, int dim,
                            tern_tensor **out_indices)
{
    tern_attr_dim attr = { .dim = dim };
    tern_tensor *values = NULL, **out[] = { &values, out_indices };
    if (out_indices != NULL)
        *out_indices = NULL;
    return core_opn(id, site, &attr, 1, &x, 2, out) ? values : NULL;
}

tern_tensor *tern_max_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor **out_indices)
{
    return extreme(TERN_OP_max, site, x, dim, out_indices);
}

tern_tensor *tern_min_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor **out_indices)
{
    return extreme(TERN_OP_min, site, x, dim, out_indices);
}

tern_tensor *tern_argmax_at(tern_site_t site, tern_tensor *x, int dim)
{
    tern_attr_dim attr = { .dim = dim };
    return core_op1(TERN_OP_argmax, site, &attr, x);
}

tern_tensor *tern_argmin_at(tern_site_t site, tern_tensor *x, int dim)
{
    tern_attr_dim attr = { .dim = dim };
    return core_op1(TERN_OP_argmin, site, &attr, x);
}
