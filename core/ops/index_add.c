/* index_add and bincount: sums at places that are data, by scatter_add. */
#include "core/compose.h"
#include "core/op_table.h"
#include "core/rules.h"

/* ---- index_add --------------------------------------------------------------------------------- */

/* (x, index, source) */
static bool check_source(core_call *call, int32_t *dim)
{
    const tern_view *x = core_view(call, 0), *index = core_view(call, 1),
                    *source = core_view(call, 2);
    if (!core_check_same_dtype(call, 2, 0) ||
        !core_check_dtype(call, 1, B(TERN_I64) | B(TERN_I32)) ||
        !core_normalise_dim(call, dim, x->ndim))
        return false;
    bool fits = index->ndim <= 1 && source->ndim == x->ndim;
    for (int d = 0; fits && d < x->ndim; d++)
        fits = source->shape[d] == (d == *dim ? index->numel : x->shape[d]);
    if (fits && (x->ndim > 0 || index->numel == 1))
        return true;
    return core_fail(
        call, TERN_ERR_SHAPE, NULL,
        "the index has to be 1-D and source of x's shape, but along dimension %d as long as the "
        "index, %lld",
        (int)*dim, (long long)index->numel);
}

static tern_tensor *index_add(tern_site_t site, tern_tensor *x, int dim, tern_tensor *index,
                              tern_tensor *source, bool writes)
{
    core_frame frame;
    tern_tensor *out = NULL;
    int32_t along = dim;
    core_compose_begin(&frame, TERN_OP_index_add, site, 3, (tern_tensor *[]){ x, index, source });
    if (core_compose_check(&frame) && check_source(&frame.call, &along)) {
        uint8_t *region = &frame.call.self->autocast;
        const uint8_t autocast = *region;
        *region = 0; /* autocast promotes what scatter_add takes, and has no class for index_add */
        index = core_spread_index(index, along, &source->view);
        out = index == NULL ? NULL
              : writes      ? tern_scatter_add_(x, along, index, source)
                            : tern_scatter_add(x, along, index, source);
        *region = autocast;
    }
    if (!writes)
        return core_compose_end(&frame, out);
    (void)core_compose_end(&frame, NULL);
    return out;
}

tern_tensor *tern_index_add_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor *index,
                               tern_tensor *source)
{
    return index_add(site, x, dim, index, source, false);
}

tern_tensor *tern_index_add_inplace_at(tern_site_t site, tern_tensor *x, int dim,
                                       tern_tensor *index, tern_tensor *source)
{
    return index_add(site, x, dim, index, source, true);
}

/* ---- bincount ---------------------------------------------------------------------------------- */

/* (x, weights?) */
static bool check_counted(core_call *call, int64_t least)
{
    const tern_view *x = core_view(call, 0);
    const tern_tensor *weights = call->in[1];
    if (!core_check_dtype(call, 0, DT_WHOLE & ~B(TERN_BOOL)))
        return false;
    if (x->ndim != 1 || (weights != NULL && !core_view_same_shape(x, &weights->view)))
        return core_fail(call, TERN_ERR_SHAPE, "tern_flatten(x, 0, -1)",
                         x->ndim != 1 ? "x has to be 1-D" : "the weights have to be of x's shape");
    if (least < 0)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "at least %lld numbers", (long long)least);
    return true;
}

/* One more than the greatest, read together with the least in one transfer. */
static bool read_greatest(core_call *call, tern_tensor *numbers, int64_t *size)
{
    tern_tensor *known = tern_cpu(tern_stack(0, tern_amin(numbers), tern_amax(numbers)));
    const int64_t *value = known != NULL ? tern_data(known) : NULL;
    if (value == NULL)
        return false;
    if (value[0] < 0)
        return core_fail(call, TERN_ERR_INDEX, NULL, "%lld is below 0", (long long)value[0]);
    if (value[1] >= *size) /* the greatest that there is leaves no memory in any case */
        *size = value[1] < INT64_MAX ? value[1] + 1 : value[1];
    return true;
}

static tern_tensor *counted(core_call *call, int64_t size)
{
    tern_tensor *numbers = tern_cast(tern_detach(call->in[0]), TERN_I64), *weights = call->in[1];
    tern_dtype_t dtype = TERN_I64;
    if (numbers == NULL || (numbers->view.numel > 0 && !read_greatest(call, numbers, &size)))
        return NULL;
    if (weights != NULL) {
        dtype = tern_dtype(weights) == TERN_F32 ? TERN_F32 : TERN_F64;
        weights = tern_cast(tern_detach(weights), dtype);
    }
    tern_tensor *sums = tern_zeros(TERN_SHAPE(size), dtype, tern_device(numbers));
    if (sums == NULL || tern_failed())
        return NULL;
    return weights != NULL ? tern_scatter_add_(sums, 0, numbers, weights)
                           : tern_scatter_add_(sums, 0, numbers, 1);
}

tern_tensor *tern_bincount_at(tern_site_t site, tern_tensor *x, tern_tensor *weights, int64_t least)
{
    core_frame frame;
    tern_tensor *out = NULL;
    core_compose_begin(&frame, TERN_OP_bincount, site, 2, (tern_tensor *[]){ x, weights });
    if (core_compose_check(&frame) && check_counted(&frame.call, least))
        out = counted(&frame.call, least);
    return core_compose_end(&frame, out);
}
