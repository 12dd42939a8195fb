/* searchsorted: where elements belong in sorted rows. */
#include "core/compose.h"
#include "core/op_table.h"
#include "core/promote.h"

/* (sorted [..., n], x [..., m], or of any shape where sorted has one dimension) -> places, x's shape */
bool rule_searchsorted(core_call *call)
{
    const tern_view *sorted = core_view(call, 0), *x = core_view(call, 1);
    if (!core_check_same_dtype(call, 1, 0))
        return false;
    bool fits = sorted->ndim == 1 || (sorted->ndim > 0 && sorted->ndim == x->ndim);
    for (int d = 0; fits && sorted->ndim > 1 && d < sorted->ndim - 1; d++)
        fits = sorted->shape[d] == x->shape[d];
    if (!fits)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "sorted needs one dimension, or x's but for the last");
    return core_out(call, 0, TERN_I64, x->ndim, x->shape);
}

/* Where the two meet. */
static tern_tensor *search_promoted(tern_site_t site, tern_attr_search *attr, tern_tensor *sorted,
                                    tern_tensor *x)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_searchsorted, site, 2, (tern_tensor *[]){ sorted, x });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame)) {
        const tern_dtype_t meet = core_result_type(&sorted->view, &x->view);
        out =
            core_op2(TERN_OP_searchsorted, site, attr, tern_cast(sorted, meet), tern_cast(x, meet));
    }
    return core_compose_end(&frame, out);
}

tern_tensor *tern_searchsorted_at(tern_site_t site, tern_tensor *sorted, tern_tensor *x, bool right)
{
    tern_attr_search attr = { .right = right };
    if (sorted != NULL && x != NULL && sorted->view.dtype != x->view.dtype)
        return search_promoted(site, &attr, sorted, x);
    return core_op2(TERN_OP_searchsorted, site, &attr, sorted, x);
}
