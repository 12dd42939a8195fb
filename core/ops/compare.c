/* Comparisons with room for rounding, and of whole tensors. */
#include <string.h>

#include "core/compose.h"
#include "core/error.h"
#include "core/op_table.h"
#include "core/option.h"

/* PyTorch's conditions. */
static bool check_close(core_frame *frame, double rtol, double atol)
{
    core_call *call = &frame->call;
    if (!core_compose_check(frame))
        return false;
    const tern_dtype_t x = tern_dtype(call->in[0]), y = tern_dtype(call->in[1]);
    if (x != y)
        return core_fail(call, TERN_ERR_DTYPE, "tern_cast of one of them",
                         "x is %s and y %s; what is compared has one dtype", tern_dtype_name(x),
                         tern_dtype_name(y));
    if (!(rtol >= 0 && atol >= 0))
        return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                         "rtol is %g and atol %g; neither may be below 0", rtol, atol);
    return true;
}

/* torch.isclose: what is equal, infinities, too, or finitely far apart and within the tolerance. */
static tern_tensor *close_to(tern_tensor *x, tern_tensor *y, double rtol, double atol,
                             bool equal_nan)
{
    tern_tensor *close = tern_eq(x, y);
    if (equal_nan)
        close = tern_logical_or(close, tern_logical_and(tern_isnan(x), tern_isnan(y)));
    if (rtol == 0 && atol == 0)
        return close;
    if (!tern_dtype_is_float(tern_dtype(y)))
        y = tern_cast(y, tern_default_dtype());
    if (tern_dtype(x) == TERN_BOOL) /* which has no difference */
        x = tern_cast(x, tern_dtype(y));
    tern_tensor *apart = tern_abs(tern_sub(x, y));
    tern_tensor *allowed = tern_add(tern_abs(tern_mul(y, rtol)), atol);
    tern_tensor *within = tern_logical_and(tern_isfinite(apart), tern_le(apart, allowed));
    return tern_logical_or(close, within);
}

tern_tensor *tern_isclose_at(tern_site_t site, const tern_isclose_args *args)
{
    args = core_options(args);
    const double rtol = core_given(args->rtol, 1e-5), atol = core_given(args->atol, 1e-8);
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_isclose, site, 2, (tern_tensor *[]){ args->x, args->y });
    tern_tensor *out = NULL;
    if (check_close(&frame, rtol, atol))
        out = close_to(tern_detach(frame.call.in[0]), tern_detach(frame.call.in[1]), rtol, atol,
                       args->equal_nan);
    return core_compose_end(&frame, out);
}

/* The one answer of a tensor of answers. */
static bool all_true(tern_tensor *answers)
{
    return answers != NULL && tern_item_int(tern_all(answers)) != 0;
}

bool tern_allclose_at(tern_site_t site, const tern_isclose_args *args)
{
    tern_thread *self = core_self();
    const char *outer = core_calling_begin(self, "allclose");
    args = core_options(args);
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_isclose, site, 2, (tern_tensor *[]){ args->x, args->y });
    const bool close = all_true(tern_isclose_at(site, args));
    core_compose_end(&frame, NULL);
    core_calling_end(self, outer);
    return close && self->error_code == TERN_OK;
}

static bool same_shape(const tern_view *x, const tern_view *y)
{
    return x->ndim == y->ndim &&
           memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape) == 0;
}

bool tern_equal_at(tern_site_t site, tern_tensor *x, tern_tensor *y)
{
    tern_thread *self = core_self();
    const char *outer = core_calling_begin(self, "equal");
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_eq, site, 2, (tern_tensor *[]){ x, y });
    bool equal = false;
    if (core_compose_check(&frame) && same_shape(&x->view, &y->view))
        equal = all_true(tern_eq(tern_detach(x), tern_detach(y)));
    core_compose_end(&frame, NULL);
    core_calling_end(self, outer);
    return equal && self->error_code == TERN_OK;
}
