/* repeat_interleave: elements along a dimension, each some times. The same number of each is a copy of an
 * expanded view; numbers that are data become an index. */
#include "core/compose.h"
#include "core/op_table.h"
#include "core/rules.h"

static bool too_many(core_call *call, int64_t times, int64_t elements)
{
    return core_fail(call, TERN_ERR_SHAPE, NULL, "%lld times %lld elements are too many",
                     (long long)times, (long long)elements);
}

/* x [before, n, after] with each of n `times` times. */
static tern_tensor *all_alike(core_call *call, tern_tensor *x, int dim, int64_t times)
{
    int64_t before = 1, after = 1;
    const tern_view *v = &x->view;
    const int64_t extent = v->shape[dim];
    tern_shape_t shape = tern_shape(x);
    for (int d = 0; d < v->ndim; d++)
        *(d < dim ? &before : &after) *= d != dim ? v->shape[d] : 1;
    if (__builtin_mul_overflow(extent, times, &shape.dims[dim])) {
        too_many(call, times, extent);
        return NULL;
    }
    tern_tensor *parts = tern_reshape(x, TERN_SHAPE(before, extent, 1, after));
    return core_reshape_copy(tern_expand(parts, TERN_SHAPE(before, extent, times, after)), shape);
}

static bool below_zero(core_call *call, int64_t times)
{
    return core_fail(call, TERN_ERR_ARGUMENT, NULL, "elements cannot stand there %lld times",
                     (long long)times);
}

static bool check_number(core_call *call, tern_operand repeats)
{
    if (repeats.kind_ != TERN_NUMBER_INT)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "repeats has to be a whole number");
    return repeats.value_.i >= 0 || below_zero(call, repeats.value_.i);
}

static bool check_tensor(core_call *call, int dim)
{
    const tern_view *x = core_view(call, 0), *repeats = core_view(call, 1);
    if (!core_check_dtype(call, 1, DT_WHOLE & ~B(TERN_BOOL)))
        return false;
    if (repeats->ndim > 1 || (repeats->numel != 1 && repeats->numel != x->shape[dim]))
        return core_fail(
            call, TERN_ERR_SHAPE, NULL,
            "x has %lld elements along dimension %d; repeats has to be 1-D and have one number "
            "for each of them, or one for all",
            (long long)x->shape[dim], dim);
    return true;
}

/* What the host has to know, in one transfer: least, greatest and sum. */
static bool read_total(core_call *call, tern_tensor *repeats, tern_tensor *ends, int64_t *out_total)
{
    tern_tensor *last = tern_select(ends, 0, -1);
    tern_tensor *known = tern_cpu(tern_stack(0, tern_amin(repeats), tern_amax(repeats), last));
    const int64_t *value = known != NULL ? tern_data(known) : NULL;
    int64_t most = 0;
    if (value == NULL)
        return false;
    if (value[0] < 0)
        return below_zero(call, value[0]);
    if (__builtin_mul_overflow(value[1], repeats->view.numel, &most))
        return too_many(call, value[1], repeats->view.numel);
    *out_total = value[2];
    return true;
}

/* Place i of the result is of the element where the sum of the numbers first exceeds i. */
static tern_tensor *one_by_one(core_call *call, tern_tensor *x, tern_tensor *repeats, int dim)
{
    const int64_t extent = x->view.shape[dim];
    int64_t total = 0;
    if (extent == 0)
        return tern_clone(x);
    repeats = tern_expand(tern_cast(repeats, TERN_I64), TERN_SHAPE(extent));
    tern_tensor *ends = tern_cumsum(repeats, 0);
    if (ends == NULL || !read_total(call, repeats, ends, &total))
        return NULL;
    tern_tensor *places = core_numbers_to(tern_device(x), total);
    return tern_index_select(x, dim, tern_searchsorted(ends, places, true));
}

static tern_tensor *repeated(core_call *call, tern_tensor *x, tern_operand repeats, int dim)
{
    int32_t along = dim;
    const bool is_number = repeats.kind_ != 0;
    if (!is_number && call->in[1] == NULL)
        core_fail(call, TERN_ERR_ARGUMENT, NULL, "repeats is NULL");
    else if (x->view.ndim == 0)
        core_fail(call, TERN_ERR_SHAPE, "tern_reshape(x, TERN_SHAPE(1))", "x has no dimensions");
    else if (core_normalise_dim(call, &along, x->view.ndim) &&
             (is_number ? check_number(call, repeats) : check_tensor(call, along)))
        return is_number ? all_alike(call, x, along, repeats.value_.i)
                         : one_by_one(call, x, call->in[1], along);
    return NULL;
}

tern_tensor *tern_repeat_interleave_at(tern_site_t site, tern_tensor *x, tern_operand repeats,
                                       int dim)
{
    core_frame frame;
    const bool is_number = repeats.kind_ != 0;
    tern_tensor *out = NULL;
    core_compose_begin(&frame, TERN_OP_repeat_interleave, site, is_number ? 1 : 2,
                       (tern_tensor *[]){ x, is_number ? NULL : repeats.value_.tensor });
    if (core_compose_check(&frame))
        out = repeated(&frame.call, x, repeats, dim);
    return core_compose_end(&frame, out);
}
