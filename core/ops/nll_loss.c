/* nll_loss: the log-probability of each target's class, picked, weighed and reduced by simple ops. */
#include "core/op_table.h"
#include "core/ops/loss.h"
#include "core/option.h"

static bool check_target(core_call *call)
{
    return core_check_dtype(call, 0, DT_FLOATS) && core_check_classes(call, 1) &&
           core_check_class_shape(call);
}

static bool check_weight(core_call *call)
{
    if (call->in[2] == NULL)
        return true;
    const tern_view *x = core_view(call, 0), *weight = core_view(call, 2);
    const long long classes = x->shape[x->ndim == 1 ? 0 : 1];
    return (weight->ndim == 1 && weight->shape[0] == classes) ||
           core_fail(call, TERN_ERR_SHAPE, NULL, "%lld classes need a weight [%lld]", classes,
                     classes);
}

/* An ignored target picks class 0, counts as weight 0 and has the loss 0, also beside infinities. */
static tern_tensor *losses(core_call *call, int64_t ignored, int reduction)
{
    tern_tensor *x = call->in[0], *target = call->in[1], *weight = call->in[2];
    const tern_dtype_t dtype = tern_dtype(x);
    const int dim = core_view(call, 0)->ndim == 1 ? 0 : 1;
    tern_tensor *counts = tern_ne(target, ignored);
    tern_tensor *classes = tern_where(counts, target, 0);
    tern_tensor *picked = tern_gather(x, dim, tern_unsqueeze(classes, dim));
    tern_tensor *each = tern_neg(core_widened(tern_squeeze(picked, dim)));
    tern_tensor *mass = tern_cast(counts, tern_dtype(each));
    if (weight != NULL) {
        tern_tensor *of_target = tern_embedding(core_widened(tern_detach(weight)), classes);
        of_target = tern_where(counts, of_target, 0.0);
        each = tern_mul(each, of_target);
        mass = tern_mul(mass, of_target);
    }
    each = tern_where(counts, each, 0.0);
    if (reduction != TERN_NONE)
        each = tern_sum(each);
    if (reduction == 0 || reduction == TERN_MEAN)
        each = tern_div(each, tern_sum(mass));
    return tern_failed() ? NULL : tern_cast(each, dtype);
}

tern_tensor *tern_nll_loss_at(tern_site_t site, const tern_nll_loss_args *args)
{
    core_frame frame;
    tern_nll_loss_args a = *core_whole_options(args);
    core_compose_begin(&frame, TERN_OP_nll_loss, site, 3,
                       (tern_tensor *[]){ a.x, a.target, a.weight });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame) &&
        core_check_switch(site, "nll_loss", "ignore_index", a.ignore_index, "ignore", a.ignore,
                          CORE_IGNORED) &&
        core_check_reduction(&frame.call, a.reduction, TERN_NONE) && core_compose_cast(&frame) &&
        check_target(&frame.call) && check_weight(&frame.call))
        out = losses(&frame.call, core_ignored(a.ignore, a.ignore_index), a.reduction);
    return core_compose_end(&frame, out);
}
