/* Binary cross-entropy: a row per element, and the weights and the reduction made of simple ops. */
#include <math.h>

#include "core/autocast.h"
#include "core/error.h"
#include "core/op_table.h"
#include "core/ops/loss.h"
#include "core/option.h"
#include "core/rules.h"
#include "core/tape.h"

/* ---- gradients --------------------------------------------------------------------------------- */

/* Half types are computed in f32: 1e-12 and what is near 1 are not f16 numbers. */
void back_binary_cross_entropy(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *saved = core_saved_in(ctx, 0);
    tern_tensor *x = core_widened(saved), *t = core_widened(core_saved_in(ctx, 1));
    tern_tensor *g = core_widened(grad);
    if (tern_failed())
        return;
    tern_tensor *rest = tern_sub(1.0, x);
    if (tern_needs_grad(ctx, 0)) {
        const double least = (double)1e-12f; /* in f64, too, as PyTorch's */
        tern_tensor *slope = tern_div(tern_sub(x, t), tern_maximum(tern_mul(rest, x), least));
        grad_in[0] = tern_cast(tern_mul(g, slope), tern_dtype(saved));
    }
    if (tern_needs_grad(ctx, 1)) {
        tern_tensor *yes = tern_maximum(tern_log(x), -100.0);
        tern_tensor *no = tern_maximum(tern_log(rest), -100.0);
        grad_in[1] = tern_cast(tern_mul(g, tern_sub(no, yes)), tern_dtype(saved));
    }
}

void back_binary_cross_entropy_with_logits(tern_op_ctx *ctx, tern_tensor *grad,
                                           tern_tensor **grad_in)
{
    tern_tensor *x = core_saved_in(ctx, 0);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = tern_mul(grad, tern_sub(tern_sigmoid(x), core_saved_in(ctx, 1)));
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_neg(tern_mul(grad, x));
}

/* ---- the functions ----------------------------------------------------------------------------- */

static bool check(core_call *call, const tern_binary_cross_entropy_args *args)
{
    if (!core_check_reduction(call, args->reduction, TERN_NONE))
        return false;
    if (!core_view_same_shape(core_view(call, 0), core_view(call, 1)))
        return core_fail(call, TERN_ERR_SHAPE, "tern_reshape the target",
                         "x and target differ in shape");
    return true;
}

/* target log(sigmoid x) counts pos_weight times: once in the row, the others here. softplus without a
 * threshold is that logarithm for every x; the row at a target of 1 is NaN for an infinite one. */
static tern_tensor *more_positive(const core_call *call, tern_tensor *pos_weight, tern_tensor *loss)
{
    tern_tensor *x = call->in[0], *target = call->in[1];
    if (core_autocast_widens(call->self, call->op, pos_weight))
        pos_weight = tern_cast(pos_weight, TERN_F32);
    tern_tensor *more = tern_mul(tern_sub(pos_weight, 1.0), target);
    tern_tensor *wrong = tern_softplus(tern_neg(x), .threshold = (double)INFINITY);
    return tern_add(loss, tern_mul(more, tern_cast(wrong, tern_dtype(x))));
}

static tern_tensor *run(tern_op_id id, tern_site_t site, const tern_binary_cross_entropy_args *args)
{
    core_frame frame;
    tern_tensor *out = NULL;
    core_compose_begin(&frame, id, site, 2, (tern_tensor *[]){ args->x, args->target });
    if (core_compose_check(&frame) && core_compose_cast(&frame) && check(&frame.call, args)) {
        out = core_op2(id, frame.call.site, NULL, frame.call.in[0], frame.call.in[1]);
        if (args->pos_weight != NULL && out != NULL)
            out = more_positive(&frame.call, args->pos_weight, out);
        if (args->weight != NULL && out != NULL)
            out = tern_mul(out, args->weight);
        out = core_reduce_loss(out, args->reduction);
    }
    return core_compose_end(&frame, out);
}

tern_tensor *tern_binary_cross_entropy_at(tern_site_t site,
                                          const tern_binary_cross_entropy_args *args)
{
    args = core_whole_options(args);
    if (args->pos_weight != NULL) {
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, "binary_cross_entropy",
                           "pos_weight belongs to logits\n  try "
                           "tern_binary_cross_entropy_with_logits");
        return NULL;
    }
    return run(TERN_OP_binary_cross_entropy, site, args);
}

tern_tensor *tern_binary_cross_entropy_with_logits_at(tern_site_t site,
                                                      const tern_binary_cross_entropy_args *args)
{
    return run(TERN_OP_binary_cross_entropy_with_logits, site, core_whole_options(args));
}
