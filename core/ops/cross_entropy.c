/* cross_entropy: softmax, logarithm and negative log-likelihood in one row.
 *
 * With w the class weights (1 when not given), e the label smoothing, C the classes, t the target
 * and l the log of the sum of exponentials, an element that counts has the loss
 *     (1 - e) w[t] (l - x[t]) + e / C sum_c w[c] (l - x[c])
 * and the mean divides their sum by the sum of w[t]. An ignored one has loss 0 and weight 0. All of
 * it is torch.nn.functional.cross_entropy's, NaN of an empty mean included. With class probabilities p for a
 * target the loss is
 *     - sum_c w[c] ((1 - e) p[c] + e / C) log_softmax(x)[c]
 * and the mean that over all places; made of other ops. */
#include "core/op_table.h"
#include "core/option.h"
#include "core/ops/loss.h"

/* ---- rules ----------------------------------------------------------------------------------- */

static bool check_target(core_call *call)
{
    const tern_dtype_t dtype = (tern_dtype_t)core_view(call, 1)->dtype;
    if (core_view(call, 0)->ndim == 0)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "the logits have no classes: they are 0-dim");
    if (tern_dtype_is_float(dtype))
        return core_fail(
            call, TERN_ERR_DTYPE, "tern_cast(target, TERN_I64) where these are class numbers",
            "the target is %s; class numbers are i64 or u8, and probabilities of classes have "
            "the logits' shape",
            tern_dtype_name(dtype));
    return core_check_classes(call, 1) && core_check_class_shape(call);
}

static int64_t classes_of(const tern_view *logits)
{
    return logits->shape[logits->ndim == 1 ? 0 : 1];
}

static bool check_weight(core_call *call, int i, const tern_view *logits)
{
    if (call->in[i] == NULL)
        return true;
    const tern_view *weight = core_view(call, i);
    if (weight->ndim != 1 || weight->shape[0] != classes_of(logits))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "%lld classes need a weight [%lld]",
                         (long long)classes_of(logits), (long long)classes_of(logits));
    return core_check_same_dtype(call, i, i - 2);
}

static tern_dtype_t statistics_dtype(const tern_view *x)
{
    return x->dtype == TERN_F64 ? TERN_F64 : TERN_F32;
}

bool rule_cross_entropy(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    const tern_attr_loss *attr = core_attr(call);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !check_target(call) || !check_weight(call, 2, x))
        return false;
    const tern_view *target = core_view(call, 1);
    const int ndim = attr->reduction == TERN_REDUCTION_NONE ? target->ndim : 0;
    return core_out(call, 0, (tern_dtype_t)x->dtype, ndim, target->shape) &&
           core_out(call, 1, statistics_dtype(x), target->ndim, target->shape);
}

/* (gradient of the loss, logits, target, weight?, log of the sum) -> gradient of the logits */
bool rule_cross_entropy_grad(core_call *call)
{
    const tern_view *g = core_view(call, 0);
    const tern_view *x = core_view(call, 1);
    const tern_view *lse = core_view(call, 4);
    const tern_attr_loss *attr = core_attr(call);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !core_check_same_dtype(call, 1, 0) ||
        !core_check_dtype(call, 4, B(statistics_dtype(x))) || !check_weight(call, 3, x))
        return false;
    const int64_t expected = attr->reduction == TERN_REDUCTION_NONE ? lse->numel : 1;
    if (g->numel != expected || core_view(call, 2)->numel != lse->numel ||
        lse->numel * classes_of(x) != x->numel)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "gradient, logits and target do not fit together");
    return core_out(call, 0, (tern_dtype_t)x->dtype, x->ndim, x->shape);
}

/* ---- backward -------------------------------------------------------------------------------- */

void back_cross_entropy(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_loss attr = core_ctx_attr(ctx, tern_attr_loss);
    if (tern_needs_grad(ctx, 2)) {
        tern_fail(TERN_ERR_GRAD, "cross_entropy",
                  "class weights are constants: the loss has no "
                  "gradient for them\n  try tern_detach(weight)");
        return;
    }
    tern_tensor *in[5] = { grad, core_saved_in(ctx, 0), core_saved_in(ctx, 1),
                           core_saved_in(ctx, 2), core_saved_out(ctx, 1) };
    tern_tensor **out[1] = { &grad_in[0] };
    core_opn(TERN_OP_cross_entropy_grad, TERN_HERE, &attr, 5, in, 1, out);
}

/* The factor of a row's probabilities in its gradient: r = s ((1 - e) w[t] + e / C sum(w)), 0 where
 * ignored; s is the loss's gradient, divided by the sum of w[t] for the mean. Shape of the
 * target. */
static tern_tensor *row_factor(const tern_attr_loss *attr, tern_tensor *g, tern_tensor *logits,
                               tern_tensor *target, tern_tensor *weight)
{
    const tern_dtype_t dtype = tern_dtype(logits);
    tern_tensor *counts = tern_ne(target, attr->ignore_index);
    tern_tensor *mass = tern_cast(counts, dtype);
    tern_tensor *smooth = mass;
    if (weight != NULL) {
        tern_tensor *classes = tern_where(counts, target, 0);
        const double n_classes = (double)tern_size(weight, 0);
        smooth = tern_mul(mass, tern_mul(tern_sum(weight), 1.0 / n_classes));
        mass = tern_mul(mass, tern_embedding(weight, classes));
    }
    tern_tensor *row = tern_add(tern_mul(mass, 1.0 - attr->label_smoothing),
                                tern_mul(smooth, attr->label_smoothing));
    if (attr->reduction == TERN_REDUCTION_MEAN) {
        tern_tensor *total = tern_sum(mass);
        g = tern_div(g, tern_where(tern_eq(total, 0.0), 1.0, total));
    }
    return tern_mul(row, g);
}

/* The gradient K is linear in g: <u, K(g)> gives g's part when K is taken at 1. In the logits only
 * the probabilities p change: with v = u r along the classes their part is p (v - sum(v p)). */
void back_cross_entropy_grad(tern_op_ctx *ctx, tern_tensor *u, tern_tensor **grad_in)
{
    tern_attr_loss attr = core_ctx_attr(ctx, tern_attr_loss);
    tern_tensor *g = core_saved_in(ctx, 0);
    tern_tensor *x = core_saved_in(ctx, 1);
    tern_tensor *target = core_saved_in(ctx, 2);
    const int dim = tern_ndim(x) == 1 ? 0 : 1;
    if (tern_needs_grad(ctx, 0)) {
        tern_tensor *one =
            tern_full(1.0, .shape = tern_shape(g), .dtype = tern_dtype(g), .like = g);
        tern_tensor *in[5] = { one, x, target, core_saved_in(ctx, 3), core_saved_in(ctx, 4) };
        tern_tensor *unit = NULL;
        tern_tensor **out[1] = { &unit };
        core_opn(TERN_OP_cross_entropy_grad, TERN_HERE, &attr, 5, in, 1, out);
        tern_tensor *product = tern_mul(u, unit);
        grad_in[0] = attr.reduction == TERN_REDUCTION_NONE
                         ? tern_sum(product, .dims = TERN_DIMS(dim))
                         : tern_sum(product);
    }
    if (tern_needs_grad(ctx, 1)) {
        tern_attr_dim along = { .dim = dim };
        tern_tensor *factor = row_factor(&attr, g, x, target, core_saved_in(ctx, 3));
        tern_tensor *v = tern_mul(u, tern_unsqueeze(factor, dim));
        grad_in[1] = core_op2(TERN_OP_softmax_grad, TERN_HERE, &along, v, tern_softmax(x, dim));
    }
}

/* ---- class probabilities ---------------------------------------------------------------------- */

static bool are_probabilities(const tern_tensor *logits, const tern_tensor *target)
{
    return logits != NULL && target != NULL && logits->view.ndim > 0 &&
           tern_dtype_is_float((tern_dtype_t)target->view.dtype) &&
           core_view_same_shape(&logits->view, &target->view);
}

static bool soft_inputs_fit(core_call *call)
{
    return core_check_dtype(call, 0, DT_FLOATS) &&
           (call->n_in < 3 || check_weight(call, 2, core_view(call, 0)));
}

static tern_tensor *each_soft_loss(core_call *call, double smoothing)
{
    tern_tensor *x = call->in[0], *target = call->in[1];
    const int dim = x->view.ndim == 1 ? 0 : 1;
    const int64_t classes = x->view.shape[dim];
    if (smoothing > 0)
        target = tern_add(tern_mul(target, 1 - smoothing), smoothing / (double)classes);
    tern_tensor *loss = tern_mul(tern_neg(tern_log_softmax(x, dim)), target);
    if (call->n_in == 3) {
        tern_shape_t column = { .set_ = TERN_GIVEN_,
                                .ndim = x->view.ndim - dim,
                                .dims = { classes } };
        for (int d = 1; d < column.ndim; d++)
            column.dims[d] = 1;
        loss = tern_mul(loss, tern_reshape(call->in[2], column));
    }
    return tern_sum(loss, TERN_DIMS(dim));
}

static tern_tensor *soft_cross_entropy(tern_site_t site, const tern_cross_entropy_args *args,
                                       const tern_attr_loss *attr)
{
    core_frame frame;
    core_call *call = &frame.call;
    core_compose_begin(&frame, TERN_OP_cross_entropy, site, args->weight != NULL ? 3 : 2,
                       (tern_tensor *[]){ args->logits, args->target, args->weight });
    tern_tensor *loss = NULL;
    if (attr->ignore_index >= 0)
        core_fail(call, TERN_ERR_ARGUMENT, NULL,
                  "class %lld cannot be ignored where the target is probabilities",
                  (long long)attr->ignore_index);
    else if (core_compose_check(&frame) && core_compose_cast(&frame) && soft_inputs_fit(call))
        loss = core_reduce_loss(each_soft_loss(call, attr->label_smoothing), attr->reduction);
    return core_compose_end(&frame, loss);
}

/* ---- the function ---------------------------------------------------------------------------- */

static bool fill_attr(tern_site_t site, const tern_cross_entropy_args *args, tern_attr_loss *attr)
{
    const double smoothing = core_given(args->label_smoothing, 0);
    attr->reduction = args->reduction == 0 ? TERN_REDUCTION_MEAN : args->reduction;
    attr->reserved = 0;
    attr->label_smoothing = smoothing;
    attr->ignore_index = core_ignored(args->ignore, args->ignore_index);
    if (!core_check_switch(site, "cross_entropy", "ignore_index", args->ignore_index, "ignore",
                           args->ignore, CORE_IGNORED))
        return false;
    if (attr->reduction < TERN_REDUCTION_MEAN || attr->reduction > TERN_REDUCTION_NONE)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "cross_entropy",
                            "%d is no reduction\n  try TERN_MEAN, TERN_SUM or TERN_NONE",
                            args->reduction) == TERN_OK;
    if (!(smoothing >= 0.0 && smoothing <= 1.0))
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "cross_entropy",
                            "label_smoothing is %g; it lies in [0, 1]", smoothing) == TERN_OK;
    return true;
}

tern_tensor *tern_cross_entropy_at(tern_site_t site, const tern_cross_entropy_args *args)
{
    tern_attr_loss attr;
    if (tern_failed())
        return NULL;
    if (args == NULL || args->size_ < sizeof *args) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "cross_entropy",
                     "logits and target are missing\n  try tern_cross_entropy(logits, target)");
        return NULL;
    }
    if (!fill_attr(site, args, &attr))
        return NULL;
    if (are_probabilities(args->logits, args->target))
        return soft_cross_entropy(site, args, &attr);
    tern_tensor *in[3] = { args->logits, args->target, args->weight };
    tern_tensor *loss = NULL;
    tern_tensor **out[2] = { &loss, NULL };
    core_opn(TERN_OP_cross_entropy, site, &attr, 3, in, 2, out);
    return loss;
}
