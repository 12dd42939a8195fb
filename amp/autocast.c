/* Autocast: what it does to the inputs of a record. PyTorch's rules, rows A015-A040. */
#include "amp/autocast.h"

#include "core/error.h"

static bool is_eligible(const core_call *call, const tern_tensor *t)
{
    return t != NULL && t->view.dev.kind == call->dev.kind &&
           tern_dtype_is_float((tern_dtype_t)t->view.dtype) && t->view.dtype != TERN_F64;
}

static tern_dtype_t low_dtype(const core_call *call)
{
    return (tern_dtype_t)call->self->autocast_dtype[call->dev.kind];
}

static bool cast_input(core_call *call, int i, tern_dtype_t dtype, tern_amp_counts *counts)
{
    const tern_tensor *t = call->in[i];
    if (t->view.dtype == dtype)
        return true;
    const int64_t bytes =
        t->view.numel * (tern_dtype_size((tern_dtype_t)t->view.dtype) + tern_dtype_size(dtype));
    bool made = true;
    const bool keep = call->self->autocast_cache && dtype == low_dtype(call) && amp_is_weight(t);
    if (keep ? !amp_cast_weight(call, i, dtype, &made) : !core_cast_input(call, i, dtype))
        return false;
    counts->casts += made;
    counts->cast_bytes += made ? bytes : 0;
    counts->cached += !made;
    return true;
}

/* What a kernel writes stays what it is: the cast would be written in its place. */
static bool is_written(const core_call *call, int i)
{
    return (call->op->mutates & B(i)) != 0;
}

static bool cast_all(core_call *call, int count, tern_dtype_t dtype, tern_amp_counts *counts)
{
    for (int i = 0; i < count; i++)
        if (!is_written(call, i) && is_eligible(call, call->in[i]) &&
            !cast_input(call, i, dtype, counts))
            return false;
    return true;
}

/* One step of PyTorch's prioritize: f32 wins, two low ones stay low, anything else does not meet. */
static bool widest(core_call *call, const tern_tensor *t, tern_dtype_t *dtype)
{
    if (!is_eligible(call, t))
        return true;
    const tern_dtype_t low = low_dtype(call), next = (tern_dtype_t)t->view.dtype;
    if (*dtype == TERN_F32 || next == TERN_F32)
        *dtype = TERN_F32;
    else if (next != low)
        return core_fail(call, TERN_ERR_DTYPE, "tern_cast to the region's dtype or to f32",
                         "unexpected floating dtype %s in an autocast region of %s",
                         tern_dtype_name(next), tern_dtype_name(low));
    return true;
}

static bool promote(core_call *call, tern_amp_counts *counts)
{
    tern_dtype_t dtype = low_dtype(call);
    for (int i = 0; i < call->n_in; i++)
        if (!is_written(call, i) && !widest(call, call->in[i], &dtype))
            return false;
    return cast_all(call, call->n_in, dtype, counts);
}

static bool banned(core_call *call)
{
    const char *advice = call->op->cast_advice;
    return core_fail(call, TERN_ERR_DTYPE,
                     advice != NULL ? advice
                                    : "an op that is safe there, or inputs cast to f32 inside "
                                      "TERN_AUTOCAST(dev, .disabled = true)",
                     "is unsafe to autocast");
}

static int rule_of(const core_call *call)
{
    return call->dev.kind == TERN_KIND_CPU ? call->op->cast_cpu : call->op->cast_cuda;
}

static bool apply_rule(core_call *call, int rule, tern_amp_counts *counts)
{
    switch (rule) {
    case TERN_CAST_LOW:
        return cast_all(call, call->n_in, low_dtype(call), counts);
    case TERN_CAST_F32:
        return cast_all(call, call->n_in, TERN_F32, counts);
    case TERN_CAST_DTYPE:
        return cast_all(call, call->n_in > 0, TERN_F32, counts);
    case TERN_CAST_PROMOTE:
        return promote(call, counts);
    case TERN_CAST_BANNED:
        return banned(call);
    default:
        return true;
    }
}

bool core_autocast_inputs(core_call *call)
{
    if ((call->self->autocast & B(call->dev.kind)) == 0)
        return true;
    const int rule = rule_of(call);
    tern_amp_counts counts = { .calls = 1 };
    if (!apply_rule(call, rule, &counts))
        return false;
    if (!call->op->is_view)
        amp_count(call, rule, counts);
    return true;
}

bool core_autocast_widens(const tern_thread *self, const tern_op *op, const tern_tensor *t)
{
    const tern_dev_t dev = t->view.dev;
    const int rule = dev.kind == TERN_KIND_CPU ? op->cast_cpu : op->cast_cuda;
    return (self->autocast & B(dev.kind)) != 0 && rule == TERN_CAST_F32 &&
           (t->view.dtype == TERN_F16 || t->view.dtype == TERN_BF16);
}

bool core_autocast_list(core_call *call, tern_tensor *const *tensors, int64_t count)
{
    call->dev = tensors[0]->view.dev;
    if ((call->self->autocast & B(call->dev.kind)) == 0 || rule_of(call) != TERN_CAST_PROMOTE)
        return true;
    tern_dtype_t dtype = low_dtype(call);
    for (int64_t i = 0; i < count; i++)
        if (!widest(call, tensors[i], &dtype))
            return false;
    return true;
}
