/* dropout: zeroes elements by chance and divides the others by the chance of staying. */
#include <math.h>

#include "core/compose.h"
#include "core/op_table.h"
#include "core/option.h"

static tern_tensor *dropout_draw(tern_site_t site, const tern_dropout_args *args, double p)
{
    tern_attr_dropout attr = { .p = p };
    tern_generator_state(args->generator, &attr.seed, &attr.call);
    tern_tensor *y = NULL;
    tern_tensor **out[2] = { &y, NULL };
    core_opn(TERN_OP_dropout, site, &attr, 1, &args->x, 2, out);
    if (y != NULL)
        (void)tern_generator_next(args->generator); /* a call that failed spends no number */
    return y;
}

tern_tensor *tern_dropout_at(tern_site_t site, const tern_dropout_args *args)
{
    if (tern_failed()) /* before a call number of the generator is spent */
        return NULL;
    if (args == NULL || args->size_ < sizeof *args || args->x == NULL) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "dropout",
                     "x is missing\n  try tern_dropout(x, .p = 0.5)");
        return NULL;
    }
    const double p = core_given(args->p, 0);
    if (!(p >= 0.0 && p <= 1.0)) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "dropout",
                     "p is %g; the chance that an element becomes 0 lies in [0, 1]", p);
        return NULL;
    }
    if (!core_is_there(core_self(), site, "dropout", args->x))
        return NULL;
    if (args->evaluating || p == 0.0)
        return core_same(core_self(), args->x);
    return dropout_draw(site, args, p);
}

bool rule_dropout(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    return core_check_dtype(call, 0, DT_FLOATS) &&
           core_out(call, 0, (tern_dtype_t)x->dtype, x->ndim, x->shape) &&
           core_out(call, 1, TERN_U8, x->ndim, x->shape);
}

/* (gradient, mask) -> gradient of x */
bool rule_dropout_grad(core_call *call)
{
    const tern_view *g = core_view(call, 0);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !core_check_dtype(call, 1, B(TERN_U8)))
        return false;
    if (!core_view_same_shape(g, core_view(call, 1)))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "gradient and mask differ in shape");
    return core_out(call, 0, (tern_dtype_t)g->dtype, g->ndim, g->shape);
}

void back_dropout(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_dropout attr = core_ctx_attr(ctx, tern_attr_dropout);
    grad_in[0] = core_op2(TERN_OP_dropout_grad, TERN_HERE, &attr, grad, core_saved_out(ctx, 1));
}

/* Linear in the gradient, with the same mask. */
void back_dropout_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_dropout attr = core_ctx_attr(ctx, tern_attr_dropout);
    grad_in[0] = core_op2(TERN_OP_dropout_grad, TERN_HERE, &attr, grad, core_saved_in(ctx, 1));
}
