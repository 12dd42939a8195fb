/* Second derivatives of normalisation.
 *
 * With h = g w, xh = (x - mean) r and m() the mean over what is normalised together, the row gives
 *     gx = r (h - m(h) - xh m(h xh)),  gw = sum(g xh),  gb = sum(g)
 * For gradients u, uw, ub of these three let P(v) = r (v - m(v) - xh m(v xh)). Then
 *     of g: w P(u) + xh uw + ub
 *     of w: sum(g P(u))
 *     of x: P(-r (u m(h xh) + h m(u xh)) + g uw) - r xh m(u gx)
 * With constant statistics P(v) = r v, and of x remains r g uw. About zero, where mean is 0 and r is
 * 1 / root of the mean square, m(h) in gx and m(v) in P are left out. */
#include "core/ops/norm.h"

bool norm_check_parameter(core_call *call, int first, int i, const char *name, int ndim,
                          const int64_t *dims)
{
    if (call->in[i] == NULL)
        return true;
    const tern_view *x = core_view(call, 0);
    const tern_view *p = core_view(call, i);
    bool fits = p->ndim == ndim;
    for (int d = 0; fits && d < ndim; d++)
        fits = p->shape[d] == dims[d];
    char wanted[160], of_x[160], given[160];
    if (!fits)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "%s has to be %s for x %s; it is %s", name,
                         core_shape_text(ndim, dims, wanted, sizeof wanted),
                         core_shape_text(x->ndim, x->shape, of_x, sizeof of_x),
                         core_shape_text(p->ndim, p->shape, given, sizeof given));
    const bool half = x->dtype == TERN_F16 || x->dtype == TERN_BF16;
    if (!(half && p->dtype == TERN_F32) && !core_check_same_dtype(call, i, 0))
        return false;
    for (int j = first; j < i; j++)
        if (call->in[j] != NULL && core_view(call, j)->dtype != p->dtype)
            return core_fail(call, TERN_ERR_DTYPE, NULL, "%s is %s where another parameter is %s",
                             name, tern_dtype_name((tern_dtype_t)p->dtype),
                             tern_dtype_name((tern_dtype_t)core_view(call, j)->dtype));
    return true;
}

bool norm_match_bias(core_call *call)
{
    return call->in[1] != NULL || call->in[2] == NULL ||
           core_cast_input(call, 2, (tern_dtype_t)core_view(call, 0)->dtype);
}

norm_geometry norm_last_dimensions(const tern_view *x, const tern_attr_norm *attr)
{
    const int outer = x->ndim - attr->dims;
    norm_geometry geometry = { .eps = attr->eps };
    geometry.together = (tern_dims_t){ .set_ = TERN_GIVEN_, .ndim = attr->dims };
    geometry.apart = (tern_dims_t){ .set_ = TERN_GIVEN_, .ndim = outer };
    geometry.parameter = (tern_shape_t){ .set_ = TERN_GIVEN_, .ndim = attr->dims };
    for (int d = 0; d < attr->dims; d++) {
        geometry.together.dims[d] = outer + d;
        geometry.parameter.dims[d] = x->shape[outer + d];
    }
    for (int d = 0; d < outer; d++)
        geometry.apart.dims[d] = d;
    geometry.parameter_in_x = geometry.parameter;
    return geometry;
}

/* ---- second derivative ----------------------------------------------------------------------- */

/* Everything in f32 or f64. u, uw, ub, w: NULL where there is none. */
typedef struct norm_terms {
    const norm_geometry *geometry;
    tern_tensor *g, *x, *w;
    tern_tensor *u, *uw, *ub;
    tern_tensor *r, *xh;
} norm_terms;

static tern_tensor *widened(tern_tensor *t)
{
    if (t == NULL || tern_dtype(t) == TERN_F64)
        return t;
    return tern_cast(t, TERN_F32);
}

static tern_tensor *parameter_in_x(const norm_geometry *geometry, tern_tensor *t)
{
    return t == NULL ? NULL : tern_reshape(widened(t), geometry->parameter_in_x);
}

static tern_tensor *mean_together(const norm_terms *n, tern_tensor *t)
{
    return tern_mean(t, .dims = n->geometry->together, .keepdim = true);
}

static tern_tensor *plus(tern_tensor *a, tern_tensor *b)
{
    return a == NULL ? b : b == NULL ? a : tern_add(a, b);
}

static tern_tensor *weighted(const norm_terms *n, tern_tensor *t)
{
    return n->w == NULL ? t : tern_mul(t, n->w);
}

/* P(v) */
static tern_tensor *project(const norm_terms *n, tern_tensor *v)
{
    if (n->geometry->fixed)
        return tern_mul(n->r, v);
    tern_tensor *along = tern_mul(n->xh, mean_together(n, tern_mul(v, n->xh)));
    if (!n->geometry->about_zero)
        v = tern_sub(v, mean_together(n, v));
    return tern_mul(n->r, tern_sub(v, along));
}

/* Statistics are made anew by ops: the saved ones have no history, and a third derivative needs
 * it. */
static void make_statistics(norm_terms *n, tern_tensor *mean, tern_tensor *r)
{
    const norm_geometry *geometry = n->geometry;
    if (geometry->fixed) {
        mean = parameter_in_x(geometry, mean);
        n->r = parameter_in_x(geometry, r);
    } else if (geometry->about_zero) {
        tern_tensor *square = mean_together(n, tern_mul(n->x, n->x));
        n->r = tern_div(1.0, tern_sqrt(tern_add(square, geometry->eps)));
        n->xh = tern_mul(n->x, n->r);
        return;
    } else {
        mean = mean_together(n, n->x);
        tern_tensor *var =
            tern_var(n->x, .dims = geometry->together, .keepdim = true, .no_correction = true);
        n->r = tern_div(1.0, tern_sqrt(tern_add(var, geometry->eps)));
    }
    n->xh = tern_mul(tern_sub(n->x, mean), n->r);
}

static tern_tensor *second_of_g(const norm_terms *n)
{
    tern_tensor *sum = n->u == NULL ? NULL : weighted(n, project(n, n->u));
    if (n->uw != NULL)
        sum = plus(sum, tern_mul(n->xh, n->uw));
    if (n->ub != NULL)
        sum = plus(sum, tern_expand(n->ub, tern_shape(n->x)));
    return sum;
}

static tern_tensor *second_of_w(const norm_terms *n)
{
    if (n->u == NULL)
        return NULL;
    tern_tensor *product = tern_mul(n->g, project(n, n->u));
    if (n->geometry->apart.ndim > 0)
        product = tern_sum(product, .dims = n->geometry->apart);
    return tern_reshape(product, n->geometry->parameter);
}

static tern_tensor *second_of_x(const norm_terms *n)
{
    tern_tensor *from_w = n->uw == NULL ? NULL : tern_mul(n->g, n->uw);
    if (n->geometry->fixed)
        return from_w == NULL ? NULL : tern_mul(n->r, from_w);
    if (n->u == NULL)
        return from_w == NULL ? NULL : project(n, from_w);
    tern_tensor *h = weighted(n, n->g);
    tern_tensor *mean_h = mean_together(n, tern_mul(h, n->xh));
    tern_tensor *mean_u = mean_together(n, tern_mul(n->u, n->xh));
    tern_tensor *v = tern_add(tern_mul(n->u, mean_h), tern_mul(h, mean_u));
    v = plus(tern_neg(tern_mul(n->r, v)), from_w);
    tern_tensor *mean_gx = mean_together(n, tern_mul(n->u, project(n, h)));
    return tern_sub(project(n, v), tern_mul(tern_mul(n->r, n->xh), mean_gx));
}

static tern_tensor *narrowed(tern_tensor *t, const tern_tensor *like)
{
    return t == NULL ? NULL : tern_cast(t, tern_dtype(like));
}

void norm_backward(tern_op_ctx *ctx, tern_op_id op, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_norm attr = core_ctx_attr(ctx, tern_attr_norm);
    tern_tensor *in[5] = { grad, core_saved_in(ctx, 0), core_saved_in(ctx, 1),
                           core_saved_out(ctx, 1), core_saved_out(ctx, 2) };
    tern_tensor **out[3];
    for (int i = 0; i < 3; i++)
        out[i] = tern_needs_grad(ctx, i) ? &grad_in[i] : NULL;
    core_opn(op, TERN_HERE, &attr, 5, in, 3, out);
}

void norm_grad_backward(tern_op_ctx *ctx, const norm_geometry *geometry, tern_tensor **grad_in)
{
    tern_tensor *g = core_saved_in(ctx, 0);
    tern_tensor *x = core_saved_in(ctx, 1);
    tern_tensor *w = core_saved_in(ctx, 2);
    norm_terms n = { .geometry = geometry, .g = widened(g), .x = widened(x) };
    n.w = parameter_in_x(geometry, w);
    n.u = widened(tern_output_grad(ctx, 0));
    n.uw = parameter_in_x(geometry, tern_output_grad(ctx, 1));
    if (!geometry->about_zero)
        n.ub = parameter_in_x(geometry, tern_output_grad(ctx, 2));
    make_statistics(&n, core_saved_in(ctx, 3), geometry->about_zero ? NULL : core_saved_in(ctx, 4));
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = narrowed(second_of_g(&n), g);
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = narrowed(second_of_x(&n), x);
    if (tern_needs_grad(ctx, 2))
        grad_in[2] = narrowed(second_of_w(&n), w);
}
