/* The gradient scaler's rows: checking and unscaling a gradient, updating the scale. Both write what
 * they are given and stay on its device. */
#include "core/op_table.h"
#include "core/rules.h"
#include "core/scaling.h"

/* An input that is not given is fine. */
static bool check_number(core_call *call, int i, const char *name, tern_dtype_t dtype)
{
    if (call->in[i] == NULL)
        return true;
    const tern_view *v = core_view(call, i);
    if (v->numel == 1 && v->dtype == dtype)
        return true;
    return core_fail(call, v->numel == 1 ? TERN_ERR_DTYPE : TERN_ERR_SHAPE, NULL,
                     "%s has to be one element of %s", name, tern_dtype_name(dtype));
}

bool rule_unscale(core_call *call)
{
    if (core_view_overlaps_itself(core_view(call, 0)))
        return core_fail(call, TERN_ERR_ARGUMENT, "tern_contiguous first",
                         "several elements of the gradient, which is written, share one place in "
                         "memory");
    return check_number(call, 1, "1 / scale", TERN_F32) &&
           check_number(call, 2, "the flag", TERN_F32) &&
           check_number(call, 3, "the cause", TERN_I32);
}

static bool check_log(core_call *call)
{
    const tern_attr_scale *attr = call->attr;
    const tern_view *log = call->in[5] != NULL ? core_view(call, 5) : NULL;
    if (log == NULL || (log->dtype == TERN_F32 && (log->flags & TERN_VIEW_CONTIGUOUS) &&
                        attr->slot >= 0 && 3 * attr->slot + 5 <= log->numel))
        return true;
    return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                     "the log has to be f32 without gaps, with room for slot %lld",
                     (long long)attr->slot);
}

bool rule_scale_update(core_call *call)
{
    const tern_attr_scale *attr = call->attr;
    if (call->in[2] == NULL && !attr->keep)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "the flag is NULL");
    return check_number(call, 0, "the scale", TERN_F32) &&
           check_number(call, 1, "the tracker", TERN_I32) &&
           check_number(call, 2, "the flag", TERN_F32) &&
           check_number(call, 3, "the number of skips", TERN_F32) &&
           check_number(call, 4, "the cause", TERN_I32) && check_log(call);
}

static tern_status_t run(tern_op_id id, tern_site_t site, void *attr, int n, tern_tensor *const *in)
{
    tern_tensor **none = NULL;
    return core_opn(id, site, attr, n, in, 0, &none) ? TERN_OK
                                                     : (tern_status_t)core_self()->error_code;
}

tern_status_t tern_unscale_at(tern_site_t site, tern_tensor *grad, tern_tensor *inverse,
                              tern_tensor *found)
{
    return core_unscale(site, grad, inverse, found, NULL, 0);
}

tern_status_t core_unscale(tern_site_t site, tern_tensor *grad, tern_tensor *inverse,
                           tern_tensor *found, tern_tensor *cause, int64_t index)
{
    tern_attr_unscale attr = { index };
    return run(TERN_OP_unscale, site, &attr, 4, (tern_tensor *[]){ grad, inverse, found, cause });
}

tern_status_t tern_scale_update_at(tern_site_t site, tern_tensor *scale, tern_tensor *tracker,
                                   tern_tensor *found, const tern_attr_scale *options)
{
    return core_scale_update(site, (tern_tensor *[]){ scale, tracker, found, NULL, NULL, NULL },
                             options);
}

tern_status_t core_scale_update(tern_site_t site, tern_tensor *const *in,
                                const tern_attr_scale *options)
{
    tern_attr_scale attr = { 0 };
    if (options == NULL)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "scale_update", "the options are NULL");
    attr = *options;
    return run(TERN_OP_scale_update, site, &attr, 6, in);
}
