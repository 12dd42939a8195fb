/* searchsorted: where elements belong in sorted rows. */
#include "core/op_table.h"

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

tern_tensor *tern_searchsorted_at(tern_site_t site, tern_tensor *sorted, tern_tensor *x, bool right)
{
    tern_attr_search attr = { .right = right };
    return core_op2(TERN_OP_searchsorted, site, &attr, sorted, x);
}
