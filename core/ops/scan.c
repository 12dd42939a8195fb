/* Running sums, products and linear recurrences along one dimension.
 *
 * linear_scan(b, a): y[t] = b[t] + a[t] y[t - 1], backwards with `reverse`. It is what the gradients of
 * products need: nothing is divided, so zeros are no exception and gradients of any order exist. */
#include "core/op_table.h"
#include "core/ops/scan.h"
#include "core/rules.h"

/* ---- rules ------------------------------------------------------------------------------------- */

/* cumsum and cumprod: integers and bool give i64. */
bool rule_scan(core_call *call)
{
    tern_attr_scan *attr = core_attr(call);
    if (!core_normalise_dim(call, &attr->dim, core_view(call, 0)->ndim))
        return false;
    if (!tern_dtype_is_float((tern_dtype_t)core_view(call, 0)->dtype) &&
        !core_cast_input(call, 0, TERN_I64))
        return false;
    const tern_view *x = core_view(call, 0);
    return core_out(call, 0, (tern_dtype_t)x->dtype, x->ndim, x->shape);
}

bool rule_linear_scan(core_call *call)
{
    tern_attr_scan *attr = core_attr(call);
    const tern_view *b = core_view(call, 0), *a = core_view(call, 1);
    if (a->dtype != b->dtype || !core_view_same_shape(a, b))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "the two inputs differ in dtype or shape");
    return core_normalise_dim(call, &attr->dim, b->ndim) &&
           core_out(call, 0, (tern_dtype_t)b->dtype, b->ndim, b->shape);
}

/* ---- public functions -------------------------------------------------------------------------- */

tern_tensor *tern_cumsum_at(tern_site_t site, tern_tensor *x, int dim)
{
    tern_attr_scan attr = { .dim = dim };
    return core_op1(TERN_OP_cumsum, site, &attr, x);
}

tern_tensor *tern_cumprod_at(tern_site_t site, tern_tensor *x, int dim)
{
    tern_attr_scan attr = { .dim = dim };
    return core_op1(TERN_OP_cumprod, site, &attr, x);
}

/* ---- gradients --------------------------------------------------------------------------------- */

/* x one place later along `dim` (reverse: earlier), with `first` in the place that becomes free; NULL of what
 * could not be made. */
static tern_tensor *shifted(tern_tensor *x, int dim, double first, bool reverse)
{
    if (x == NULL)
        return NULL;
    const int d = dim < 0 ? dim + x->view.ndim : dim;
    const int64_t n = x->view.shape[d];
    tern_shape_t edge = { .set_ = TERN_GIVEN_, .ndim = x->view.ndim };
    for (int k = 0; k < x->view.ndim; k++)
        edge.dims[k] = k == d ? 1 : x->view.shape[k];
    tern_tensor *filled = tern_full(first, edge, .dtype = tern_dtype(x), .like = x);
    if (n == 1)
        return filled;
    tern_tensor *rest = reverse ? tern_slice(x, .dim = d, .start = 1)
                                : tern_slice(x, .dim = d, .start = 0, .end = n - 1);
    return reverse ? tern_cat(d, rest, filled) : tern_cat(d, filled, rest);
}

tern_tensor *scan_products_before(tern_tensor *x, int dim, bool reverse)
{
    tern_attr_scan attr = { .dim = dim, .reverse = reverse };
    return core_op1(TERN_OP_cumprod, TERN_HERE, &attr, shifted(x, dim, 1, reverse));
}

void back_cumsum(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_scan attr = core_ctx_attr(ctx, tern_attr_scan);
    attr.reverse = !attr.reverse;
    grad_in[0] = core_op1(TERN_OP_cumsum, TERN_HERE, &attr, grad);
}

/* y[t] = x[t] y[t - 1]: with r[t] = g[t] + x[t + 1] r[t + 1] the gradient is r[t] y[t - 1]. */
void back_cumprod(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *x = core_saved_in(ctx, 0);
    tern_attr_scan attr = core_ctx_attr(ctx, tern_attr_scan);
    if (x == NULL)
        return;
    if (x->view.ndim == 0 || x->view.numel == 0) {
        grad_in[0] = grad;
        return;
    }
    const bool reverse = attr.reverse != 0;
    tern_tensor *before = scan_products_before(x, attr.dim, reverse);
    tern_tensor *next = shifted(x, attr.dim, 0, !reverse);
    attr.reverse = !reverse;
    tern_tensor *r = core_op2(TERN_OP_linear_scan, TERN_HERE, &attr, grad, next);
    grad_in[0] = tern_mul(r, before);
}

/* With r[t] = g[t] + a[t + 1] r[t + 1]: r for b, r[t] y[t - 1] for a. */
void back_linear_scan(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *a = core_saved_in(ctx, 1), *y = core_saved_out(ctx, 0);
    tern_attr_scan attr = core_ctx_attr(ctx, tern_attr_scan);
    if (a == NULL || y == NULL)
        return;
    if (a->view.ndim == 0 || a->view.numel == 0) {
        grad_in[0] = grad;
        grad_in[1] = core_zeros_like(&a->view);
        return;
    }
    const bool reverse = attr.reverse != 0;
    tern_tensor *next = shifted(a, attr.dim, 0, !reverse);
    attr.reverse = !reverse;
    tern_tensor *r = core_op2(TERN_OP_linear_scan, TERN_HERE, &attr, grad, next);
    grad_in[0] = r;
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_mul(r, shifted(y, attr.dim, 0, reverse));
}
