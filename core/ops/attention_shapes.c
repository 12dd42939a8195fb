/* tern_scaled_dot_product_attention: options, and shapes that the row does not take as they are. */
#include <math.h>

#include "core/compose.h"
#include "core/option.h"
#include "core/ops/attention.h"

static const char name[] = "scaled_dot_product_attention";

static bool check_options(tern_site_t site, const tern_scaled_dot_product_attention_args *args)
{
    if (args == NULL || args->size_ < sizeof *args)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, name,
                            "q, k and v are missing\n  try tern_scaled_dot_product_attention(q, k, "
                            "v)") == TERN_OK;
    if (!(core_given(args->dropout, 0) >= 0.0 && args->dropout <= 1.0))
        return tern_fail_at(site, TERN_ERR_ARGUMENT, name,
                            "dropout is %g; the chance that a weight becomes 0 lies in [0, 1]",
                            args->dropout) == TERN_OK;
    if (!isfinite(args->scale))
        return tern_fail_at(site, TERN_ERR_ARGUMENT, name, "scale is %g, not a finite number",
                            args->scale) == TERN_OK;
    return true;
}

static tern_attr_attention fill_attr(const tern_scaled_dot_product_attention_args *args)
{
    tern_attr_attention attr = { .scale = core_given(args->scale, 0), .causal = args->causal };
    const tern_view *q = args->q != NULL ? &args->q->view : NULL;
    if (attr.scale == 0 && !core_zero_meant(args->scale) && q != NULL && q->ndim > 0 &&
        q->shape[q->ndim - 1] > 0)
        attr.scale = 1.0 / sqrt((double)q->shape[q->ndim - 1]);
    if (args->dropout > 0.0 && !args->evaluating) {
        attr.p = args->dropout;
        tern_generator_state(args->generator, &attr.seed, &attr.call);
    }
    return attr;
}

/* ---- shapes ------------------------------------------------------------------------------------ */

/* Whether the row takes the operands as they are. */
static bool is_plain(const tern_tensor *q, const tern_tensor *k, const tern_tensor *v,
                     const tern_tensor *mask)
{
    return q->view.ndim == 4 && k->view.ndim == 4 && v->view.ndim == 4 &&
           q->view.shape[0] == k->view.shape[0] && q->view.shape[0] == v->view.shape[0] &&
           k->view.shape[1] == v->view.shape[1] && (mask == NULL || mask->view.ndim <= 4);
}

static int64_t extent(const tern_tensor *t, int from_end)
{
    return from_end <= t->view.ndim ? t->view.shape[t->view.ndim - from_end] : 1;
}

/* The batches of q, k and v (all dimensions before the heads) meet as operands of elementwise ops do. */
static bool common_batch(core_call *call, int ndim, int64_t *dims)
{
    for (int from_end = ndim; from_end > 3; from_end--) {
        int64_t size = 1;
        for (int i = 0; i < 3; i++) {
            const int64_t other = extent(call->in[i], from_end);
            if (other != 1 && size != 1 && other != size)
                return core_fail(call, TERN_ERR_SHAPE, NULL,
                                 "q, k and v have batches of %lld and %lld", (long long)size,
                                 (long long)other);
            size = size == 1 ? other : size;
        }
        dims[ndim - from_end] = size;
    }
    return true;
}

static bool heads_meet(core_call *call)
{
    const int64_t of_k = extent(call->in[1], 3), of_v = extent(call->in[2], 3);
    return of_k == of_v || of_k == 1 || of_v == 1 ||
           core_fail(call, TERN_ERR_SHAPE, NULL, "k has %lld heads and v %lld", (long long)of_k,
                     (long long)of_v);
}

/* `ndim` counts the dimensions of whichever operand has most. */
static bool mask_meets(core_call *call, int ndim, const int64_t *batch)
{
    const tern_tensor *mask = call->in[3];
    int64_t dims[TERN_MAX_DIMS];
    char text[160];
    if (mask == NULL)
        return true;
    for (int d = 0; d < ndim - 3; d++)
        dims[d] = batch[d];
    dims[ndim - 3] = extent(call->in[0], 3);
    dims[ndim - 2] = extent(call->in[0], 2);
    dims[ndim - 1] = extent(call->in[1], 2);
    bool fits = true;
    for (int from_end = 1; from_end <= ndim; from_end++) {
        const int64_t own = extent(mask, from_end);
        fits = fits && (own == 1 || own == dims[ndim - from_end]);
    }
    return fits || core_fail(call, TERN_ERR_SHAPE, NULL,
                             "the mask does not broadcast to %s: batch, heads, queries, keys",
                             core_shape_text(ndim, dims, text, sizeof text));
}

/* x as [batch, heads, rows, columns], repeated where its batch or heads are 1 and others are not. */
static tern_tensor *as_four(tern_tensor *x, int ndim, const int64_t *batch, int64_t heads)
{
    tern_shape_t full = { .set_ = TERN_GIVEN_, .ndim = ndim };
    int64_t all = 1;
    for (int d = 0; d < ndim - 3; d++) {
        full.dims[d] = batch[d];
        all *= batch[d];
    }
    full.dims[ndim - 3] = heads;
    full.dims[ndim - 2] = extent(x, 2);
    full.dims[ndim - 1] = extent(x, 1);
    return tern_reshape(tern_expand(x, full),
                        TERN_SHAPE(all, heads, full.dims[ndim - 2], full.dims[ndim - 1]));
}

/* The mask's last two extents may be 1. */
static tern_tensor *mask_as_four(tern_tensor *mask, int ndim, const int64_t *batch, int64_t heads)
{
    if (mask == NULL || mask->view.ndim <= 3)
        return mask;
    return as_four(mask, ndim, batch, heads);
}

static tern_tensor *attend(tern_attr_attention *attr, const attention_operands *in, bool composed)
{
    if (composed)
        return attention_composed(attr, *in);
    tern_tensor *operands[4] = { in->q, in->k, in->v, in->mask };
    tern_tensor *y = NULL;
    tern_tensor **out[2] = { &y, NULL };
    core_opn(TERN_OP_scaled_dot_product_attention, TERN_HERE, attr, 4, operands, 2, out);
    return y;
}

static tern_tensor *attend_any(core_call *call, tern_attr_attention *attr)
{
    tern_tensor *const *in = call->in;
    int ndim = 4;
    for (int i = 0; i < 4; i++) {
        if (i < 3 && in[i]->view.ndim < 2) {
            core_fail(call, TERN_ERR_SHAPE, NULL, "q, k and v need two dimensions or more");
            return NULL;
        }
        if (in[i] != NULL && in[i]->view.ndim > ndim)
            ndim = in[i]->view.ndim;
    }
    int64_t batch[TERN_MAX_DIMS];
    if (!common_batch(call, ndim, batch) || !heads_meet(call) || !mask_meets(call, ndim, batch))
        return NULL;
    const int64_t heads = extent(in[0], 3);
    const int64_t groups =
        extent(in[1], 3) > extent(in[2], 3) ? extent(in[1], 3) : extent(in[2], 3);
    const bool composed = in[3] != NULL && core_input_needs_grad(call, 3);
    attention_operands four = { as_four(in[0], ndim, batch, heads),
                                as_four(in[1], ndim, batch, groups),
                                as_four(in[2], ndim, batch, groups),
                                mask_as_four(in[3], ndim, batch, heads) };
    tern_tensor *y = attend(attr, &four, composed);
    tern_shape_t shape = { .set_ = TERN_GIVEN_ };
    int most = 2;
    for (int i = 0; i < 3; i++)
        most = in[i]->view.ndim > most ? in[i]->view.ndim : most;
    shape.ndim = most;
    for (int d = 0; d < most; d++) {
        const int from_end = most - d;
        shape.dims[d] = from_end > 3    ? batch[ndim - from_end]
                        : from_end == 3 ? heads
                                        : extent(from_end == 2 ? in[0] : in[2], from_end);
    }
    return tern_reshape(y, shape);
}

static tern_tensor *call(tern_site_t site, tern_tensor *const in[4], tern_attr_attention *attr)
{
    const bool is_whole = in[0] != NULL && in[1] != NULL && in[2] != NULL;
    const bool mask_learns = in[3] != NULL && tern_grad_enabled() && tern_requires_grad(in[3]);
    if (!is_whole || (is_plain(in[0], in[1], in[2], in[3]) && !mask_learns)) {
        tern_tensor *y = NULL;
        tern_tensor **out[2] = { &y, NULL };
        core_opn(TERN_OP_scaled_dot_product_attention, site, attr, 4, in, 2, out);
        return y;
    }
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_scaled_dot_product_attention, site, 4, in);
    tern_tensor *y = NULL;
    if (core_compose_check(&frame) && core_compose_cast(&frame))
        y = attend_any(&frame.call, attr);
    return core_compose_end(&frame, y);
}

tern_tensor *tern_scaled_dot_product_attention_at(
    tern_site_t site, const tern_scaled_dot_product_attention_args *args)
{
    if (tern_failed() || !check_options(site, args))
        return NULL;
    tern_attr_attention attr = fill_attr(args);
    tern_tensor *const in[4] = { args->q, args->k, args->v, args->mask };
    tern_tensor *y = call(site, in, &attr);
    if (y != NULL && attr.p > 0.0)
        (void)tern_generator_next(args->generator); /* a call that failed spends no number */
    return y;
}
