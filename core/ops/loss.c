/* Losses made of simple ops, and what all losses share. */
#include "core/ops/loss.h"

#include <float.h>
#include <math.h>

#include "core/error.h"
#include "core/op_table.h"
#include "core/option.h"
#include "core/promote.h"

/* ---- shared ------------------------------------------------------------------------------------ */

bool core_check_reduction(core_call *call, int reduction, int last)
{
    return (reduction >= 0 && reduction <= last) ||
           core_fail(call, TERN_ERR_ARGUMENT,
                     last == TERN_NONE ? "TERN_MEAN, TERN_SUM or TERN_NONE"
                                       : "TERN_MEAN, TERN_SUM, TERN_NONE or TERN_BATCH_MEAN",
                     "%d is no reduction", reduction);
}

bool core_check_classes(core_call *call, int i)
{
    const tern_dtype_t dtype = (tern_dtype_t)core_view(call, i)->dtype;
    if (dtype == TERN_I64 || dtype == TERN_U8)
        return core_cast_input(call, i, TERN_I64);
    return core_fail(call, TERN_ERR_DTYPE, "tern_cast(target, TERN_I64)",
                     "the target is %s; class numbers are i64 or u8", tern_dtype_name(dtype));
}

bool core_check_class_shape(core_call *call)
{
    const tern_view *x = core_view(call, 0), *target = core_view(call, 1);
    char of_x[160], of_target[160], name[CORE_OPERAND_BYTES], text[160];
    if (x->ndim == 0)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "%s has no dimensions; it has to be [classes] or [N, classes, ...]",
                         core_operand_name(call->op, 0, name));
    tern_shape_t wanted = { .ndim = x->ndim - 1 };
    for (int d = 0; d < wanted.ndim; d++)
        wanted.dims[d] = x->shape[d == 0 ? 0 : d + 1];
    bool fits = target->ndim == wanted.ndim;
    for (int d = 0; fits && d < target->ndim; d++)
        fits = target->shape[d] == wanted.dims[d];
    if (fits)
        return true;
    const bool one_hot = core_view_same_shape(x, target);
    return core_fail(call, TERN_ERR_SHAPE,
                     one_hot ? "tern_argmax(target, 1) where the target marks one class" : NULL,
                     "for %s %s the target has to be %s, one class number per row; it is %s",
                     core_operand_name(call->op, 0, name),
                     core_shape_text(x->ndim, x->shape, of_x, sizeof of_x),
                     core_shape_text(wanted.ndim, wanted.dims, text, sizeof text),
                     core_shape_text(target->ndim, target->shape, of_target, sizeof of_target));
}

tern_tensor *core_reduce_loss(tern_tensor *each, int reduction)
{
    if (each == NULL || reduction == TERN_NONE)
        return each;
    return reduction == TERN_SUM ? tern_sum(each) : tern_mean(each);
}

tern_tensor *core_widened(tern_tensor *t)
{
    const tern_dtype_t dtype = tern_dtype(t);
    return dtype == TERN_F16 || dtype == TERN_BF16 ? tern_cast(t, TERN_F32) : t;
}

/* ---- distances --------------------------------------------------------------------------------- */

typedef tern_tensor *(*loss_fn)(tern_tensor *x, tern_tensor *y, double option);

/* PyTorch broadcasts first: a 0-dim operand counts as any other where dtypes meet. Truth, which has no
 * difference, does for losses that are no difference alone. */
static bool meet(core_call *call)
{
    const tern_dtype_t a = tern_dtype(call->in[0]), b = tern_dtype(call->in[1]);
    const bool truth = a == TERN_BOOL || b == TERN_BOOL;
    if (a == b || (truth && call->op->id_ == TERN_OP_l1_loss))
        return true;
    const tern_dtype_t dtype = tern_promote(a, b);
    return core_cast_input(call, 0, dtype) && core_cast_input(call, 1, dtype);
}

/* A loss by element of two operands, which autocast has seen. */
static tern_tensor *of_pairs(tern_op_id id, tern_site_t site, tern_tensor *x, tern_tensor *y,
                             int reduction, loss_fn loss, double option)
{
    core_frame frame;
    int32_t ndim;
    int64_t dims[TERN_MAX_DIMS];
    core_compose_begin(&frame, id, site, 2, (tern_tensor *[]){ x, y });
    core_call *call = &frame.call;
    tern_tensor *out = NULL;
    if (core_compose_check(&frame) && core_check_reduction(call, reduction, TERN_NONE) &&
        core_compose_cast(&frame) &&
        core_broadcast(call, core_view(call, 0), core_view(call, 1), &ndim, dims)) {
        const tern_dtype_t of_x = tern_dtype(call->in[0]);
        tern_tensor *each = meet(call) ? loss(call->in[0], call->in[1], option) : NULL;
        if (id == TERN_OP_huber_loss && each != NULL && tern_dtype_is_float(of_x))
            each = tern_cast(each, of_x); /* as PyTorch's */
        out = core_reduce_loss(each, reduction);
    }
    return core_compose_end(&frame, out);
}

static tern_tensor *squared(tern_tensor *x, tern_tensor *y, double option)
{
    tern_tensor *difference = tern_sub(x, y);
    (void)option;
    return tern_mul(difference, difference);
}

static tern_tensor *absolute(tern_tensor *x, tern_tensor *y, double option)
{
    (void)option;
    return tern_abs(tern_sub(x, y));
}

static tern_tensor *huber(tern_tensor *x, tern_tensor *y, double delta)
{
    tern_attr_numbers attr = { .f = { delta, delta } };
    return core_op2(TERN_OP_huber, TERN_HERE, &attr, x, y);
}

/* Widths whose parabola is too steep for a number leave the lines on both sides alone. */
static tern_tensor *smooth(tern_tensor *x, tern_tensor *y, double beta)
{
    const bool wide = core_result_type(&x->view, &y->view) == TERN_F64;
    if (beta < (wide ? DBL_MIN : (double)FLT_MIN))
        return absolute(x, y, 0);
    tern_attr_numbers attr = { .f = { beta, 1 } };
    return core_op2(TERN_OP_huber, TERN_HERE, &attr, x, y);
}

void back_huber(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_numbers attr = core_ctx_attr(ctx, tern_attr_numbers);
    grad_in[0] = core_op3(TERN_OP_huber_grad, TERN_HERE, &attr, grad, core_saved_in(ctx, 0),
                          core_saved_in(ctx, 1));
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_neg(grad_in[0]);
}

/* g q / p (x - y), and flat for x and y beyond the width p. */
void back_huber_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_numbers attr = core_ctx_attr(ctx, tern_attr_numbers);
    tern_tensor *g = core_saved_in(ctx, 0), *x = core_saved_in(ctx, 1), *y = core_saved_in(ctx, 2);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = core_op3(TERN_OP_huber_grad, TERN_HERE, &attr, grad, x, y);
    if (!tern_needs_grad(ctx, 1) && !tern_needs_grad(ctx, 2))
        return;
    const double curvature = attr.f[0] == attr.f[1] ? 1 : attr.f[1] / attr.f[0];
    tern_tensor *inside = tern_lt(tern_abs(tern_sub(x, y)), attr.f[0]);
    grad_in[1] = tern_where(inside, tern_mul(tern_mul(grad, g), curvature), 0.0);
    if (tern_needs_grad(ctx, 2))
        grad_in[2] = tern_neg(grad_in[1]);
}

tern_tensor *tern_mse_loss_at(tern_site_t site, tern_tensor *x, tern_tensor *y, int reduction)
{
    return of_pairs(TERN_OP_mse_loss, site, x, y, reduction, squared, 0);
}

tern_tensor *tern_l1_loss_at(tern_site_t site, tern_tensor *x, tern_tensor *y, int reduction)
{
    return of_pairs(TERN_OP_l1_loss, site, x, y, reduction, absolute, 0);
}

tern_tensor *tern_smooth_l1_loss_at(tern_site_t site, const tern_smooth_l1_loss_args *args)
{
    tern_smooth_l1_loss_args a = *core_whole_options(args);
    a.beta = core_given(a.beta, 1);
    if (!(a.beta >= 0)) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "smooth_l1_loss",
                     "beta is %g; it has to be 0, which is the l1 loss, or positive", a.beta);
        return NULL;
    }
    return of_pairs(TERN_OP_smooth_l1_loss, site, a.x, a.target, a.reduction, smooth, a.beta);
}

tern_tensor *tern_huber_loss_at(tern_site_t site, const tern_huber_loss_args *args)
{
    tern_huber_loss_args a = *core_whole_options(args);
    a.delta = core_given(a.delta, 1);
    if (!(a.delta > 0)) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "huber_loss",
                     "delta is %g; it has to be positive\n  try tern_smooth_l1_loss(.beta = "
                     "TERN_ZERO) or tern_l1_loss for the lines without the parabola",
                     a.delta);
        return NULL;
    }
    return of_pairs(TERN_OP_huber_loss, site, a.x, a.target, a.reduction, huber, a.delta);
}

/* ---- distributions ----------------------------------------------------------------------------- */

void back_kl_div(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *target = core_saved_in(ctx, 1);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = tern_neg(tern_mul(grad, target));
    if (tern_needs_grad(ctx, 1)) {
        tern_tensor *x = core_saved_in(ctx, 0);
        grad_in[1] = tern_mul(grad, tern_add(tern_sub(tern_log(target), x), 1.0));
    }
}

static tern_tensor *divergence(core_frame *frame, const tern_kl_div_args *args)
{
    tern_tensor *x = frame->call.in[0], *target = frame->call.in[1];
    tern_tensor *each = args->log_target
                            ? tern_mul(tern_exp(target), tern_sub(target, x))
                            : core_op2(TERN_OP_kl_div, frame->call.site, NULL, x, target);
    if (args->reduction != TERN_BATCH_MEAN || each == NULL)
        return core_reduce_loss(each, args->reduction);
    const tern_view *v = core_view(&frame->call, 0);
    return tern_div(tern_sum(each), v->ndim > 0 ? (double)v->shape[0] : 1.0);
}

tern_tensor *tern_kl_div_at(tern_site_t site, const tern_kl_div_args *args)
{
    core_frame frame;
    tern_kl_div_args a = *core_whole_options(args);
    core_compose_begin(&frame, TERN_OP_kl_div, site, 2, (tern_tensor *[]){ a.x, a.target });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame) &&
        core_check_reduction(&frame.call, a.reduction, TERN_BATCH_MEAN) &&
        core_compose_cast(&frame) && core_check_dtype(&frame.call, 0, DT_FLOATS) &&
        core_check_dtype(&frame.call, 1, DT_FLOATS))
        out = divergence(&frame, &a);
    return core_compose_end(&frame, out);
}

/* ---- angles ------------------------------------------------------------------------------------ */

/* t by its length, which is eps at least, as by a number. That it is none is in *turn, which is multiplied by
 * 1 of the slope of 1 / length: backward of the small tensors, not of those of t's size. As in PyTorch the
 * slope is that of the length below eps, too. */
static tern_tensor *direction(tern_tensor *t, int dim, double eps, tern_tensor **turn)
{
    tern_tensor *length = tern_norm(t, .dims = TERN_DIMS(dim), .keepdim = true);
    tern_tensor *own = tern_requires_grad(length) ? tern_clone(length) : NULL;
    const bool recording = tern_set_grad_enabled(false);
    tern_tensor *divisor = tern_clamp_min(length, eps);
    if (own != NULL) /* of a length that overflowed nothing is to remain, and not NaN */
        tern_clamp_(own, eps, tern_dtype(own) == TERN_F64 ? DBL_MAX : (double)FLT_MAX);
    tern_set_grad_enabled(recording);
    if (own != NULL) {
        tern_tensor *one = tern_div(tern_detach(own), own);
        *turn = *turn == NULL ? one : tern_mul(*turn, one);
    }
    return tern_div(t, divisor);
}

/* Both in the shape in which they meet. The vectors are divided first: their products overflow sooner than
 * they do. */
static tern_tensor *cosine(core_frame *frame, int dim, double eps)
{
    tern_attr_shape shape;
    core_call *call = &frame->call;
    if (!core_broadcast(call, core_view(call, 0), core_view(call, 1), &shape.ndim, shape.dims))
        return NULL;
    int32_t normal = dim;
    if (!core_normalise_dim(call, &normal, shape.ndim))
        return NULL;
    const tern_dtype_t dtype = core_result_type(core_view(call, 0), core_view(call, 1));
    tern_tensor *v[2], *turn = NULL;
    for (int i = 0; i < 2; i++) {
        if (!core_expand_input(call, i, shape.ndim, shape.dims))
            return NULL;
        v[i] = direction(core_widened(call->in[i]), normal, eps, &turn);
    }
    tern_tensor *out = tern_sum(tern_mul(v[0], v[1]), .dims = TERN_DIMS(normal));
    if (turn != NULL)
        out = tern_mul(out, tern_squeeze(turn, normal));
    return tern_failed() ? NULL : tern_cast(out, dtype);
}

tern_tensor *tern_cosine_similarity_at(tern_site_t site, tern_tensor *x, tern_tensor *y, int dim,
                                       double eps)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_cosine_similarity, site, 2, (tern_tensor *[]){ x, y });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame) && core_compose_cast(&frame) &&
        core_check_dtype(&frame.call, 0, DT_FLOATS) && core_check_dtype(&frame.call, 1, DT_FLOATS))
        out = cosine(&frame, dim, core_given(eps, 1e-8));
    return core_compose_end(&frame, out);
}
