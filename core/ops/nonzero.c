/* nonzero, masked_select: results whose size depends on data. A first kernel counts, the host reads how
 * many there are, a second kernel writes. */
#include "core/compose.h"
#include "core/op_table.h"

bool rule_nonzero_starts(core_call *call)
{
    const int64_t numel = core_view(call, 0)->numel;
    const int64_t chunks = (numel + TERN_NONZERO_CHUNK - 1) / TERN_NONZERO_CHUNK + 1;
    return core_out(call, 0, TERN_I64, 1, &chunks);
}

bool rule_nonzero(core_call *call)
{
    const int64_t dims[2] = { ((const tern_attr_nonzero *)core_attr(call))->count,
                              core_view(call, 0)->ndim };
    return core_check_dtype(call, 1, B(TERN_I64)) && core_out(call, 0, TERN_I64, 2, dims);
}

/* The places of x's elements, inside of a frame: the one wait for the device is here. */
static tern_tensor *places(tern_tensor *x)
{
    TERN_NO_GRAD;
    tern_tensor *dense = tern_contiguous(x);
    tern_tensor *starts = core_op1(TERN_OP_nonzero_starts, TERN_HERE, NULL, dense);
    if (starts == NULL)
        return NULL;
    tern_attr_nonzero attr = { tern_item_int(tern_select(starts, 0, -1)) };
    return tern_failed() ? NULL : core_op2(TERN_OP_nonzero, TERN_HERE, &attr, dense, starts);
}

tern_tensor *tern_nonzero_at(tern_site_t site, tern_tensor *x)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_nonzero, site, 1, &x);
    return core_compose_end(&frame, core_compose_check(&frame) ? places(x) : NULL);
}

/* ---- masked_select ----------------------------------------------------------------------------- */

static tern_tensor *selected(tern_tensor *x, tern_tensor *mask, const tern_shape_t *shape)
{
    tern_tensor *flat = tern_reshape(tern_expand(x, *shape), TERN_SHAPE(-1));
    tern_tensor *where = places(tern_reshape(tern_expand(mask, *shape), TERN_SHAPE(-1)));
    return where != NULL ? tern_index_select(flat, 0, tern_select(where, 1, 0)) : NULL;
}

tern_tensor *tern_masked_select_at(tern_site_t site, tern_tensor *x, tern_tensor *mask)
{
    core_frame frame;
    tern_tensor *out = NULL;
    tern_shape_t shape = { .set_ = TERN_GIVEN_ };
    core_compose_begin(&frame, TERN_OP_masked_select, site, 2, (tern_tensor *[]){ x, mask });
    if (core_compose_check(&frame) && core_check_dtype(&frame.call, 1, B(TERN_BOOL)) &&
        core_broadcast(&frame.call, &x->view, &mask->view, &shape.ndim, shape.dims))
        out = selected(x, mask, &shape);
    return core_compose_end(&frame, out);
}
