/* Elementary functions, rounding, and tests of one operand. Their gradients are written in ops. */
#include "core/compose.h"
#include "core/op_table.h"
#include "core/ops/unary.h"

PUBLIC_UNARY(expm1)
PUBLIC_UNARY(log1p)
PUBLIC_UNARY(log2)
PUBLIC_UNARY(log10)
PUBLIC_UNARY(rsqrt)
PUBLIC_UNARY(reciprocal)
PUBLIC_UNARY(square)
PUBLIC_UNARY(sin)
PUBLIC_UNARY(cos)
PUBLIC_UNARY(tan)
PUBLIC_UNARY(asin)
PUBLIC_UNARY(acos)
PUBLIC_UNARY(atan)
PUBLIC_UNARY(sinh)
PUBLIC_UNARY(cosh)
PUBLIC_UNARY(erf)
PUBLIC_UNARY(floor)
PUBLIC_UNARY(ceil)
PUBLIC_UNARY(round)
PUBLIC_UNARY(trunc)
PUBLIC_UNARY(frac)
PUBLIC_UNARY(bitwise_not)

#define PUBLIC_TEST(name)                                           \
    tern_tensor *tern_##name##_at(tern_site_t site, tern_tensor *x) \
    {                                                               \
        return core_op1(TERN_OP_##name, site, NULL, x);             \
    }
PUBLIC_TEST(isnan)
PUBLIC_TEST(isinf)
PUBLIC_TEST(isfinite)
PUBLIC_TEST(logical_not)

/* The kernel writes bool: 0 and 1 of x's dtype are copied from that. */
tern_tensor *tern_logical_not_inplace_at(tern_site_t site, tern_tensor *x)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_logical_not, site, 1, &x);
    tern_tensor *flipped = core_compose_check(&frame) ? tern_logical_not(x) : NULL;
    const bool ok =
        flipped != NULL && core_op_into(TERN_OP_copy, site, NULL, x, flipped) == TERN_OK;
    core_compose_end(&frame, NULL);
    return ok ? x : NULL;
}

/* ---- exponentials and logarithms --------------------------------------------------------------- */

void back_expm1(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_add(core_saved_out(ctx, 0), 1.0));
}

void back_log1p(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_div(grad, tern_add(core_saved_in(ctx, 0), 1.0));
}

void back_log2(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    /* x ln 2 is denormal near the least normal x, and 0 where those are flushed */
    grad_in[0] = tern_mul(tern_div(grad, core_saved_in(ctx, 0)), 1.44269504088896340736);
}

void back_log10(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_div(grad, tern_mul(core_saved_in(ctx, 0), 2.30258509299404568402));
}

/* ---- powers ------------------------------------------------------------------------------------ */

void back_rsqrt(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *y = core_saved_out(ctx, 0);
    grad_in[0] = tern_mul(tern_mul(grad, -0.5), tern_mul(y, tern_mul(y, y)));
}

void back_reciprocal(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *y = core_saved_out(ctx, 0);
    grad_in[0] = tern_neg(tern_mul(grad, tern_mul(y, y)));
}

void back_square(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_mul(core_saved_in(ctx, 0), 2.0));
}

/* ---- angles ------------------------------------------------------------------------------------ */

void back_sin(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_cos(core_saved_in(ctx, 0)));
}

void back_cos(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_neg(tern_mul(grad, tern_sin(core_saved_in(ctx, 0))));
}

void back_tan(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_add(tern_square(core_saved_out(ctx, 0)), 1.0));
}

/* 1 / sqrt(1 - x^2) */
static tern_tensor *asin_slope(tern_op_ctx *ctx)
{
    return tern_rsqrt(tern_sub(1.0, tern_square(core_saved_in(ctx, 0))));
}

void back_asin(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, asin_slope(ctx));
}

void back_acos(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_neg(tern_mul(grad, asin_slope(ctx)));
}

void back_atan(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_div(grad, tern_add(tern_square(core_saved_in(ctx, 0)), 1.0));
}

void back_sinh(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_cosh(core_saved_in(ctx, 0)));
}

void back_cosh(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_sinh(core_saved_in(ctx, 0)));
}

/* ---- others ------------------------------------------------------------------------------------ */

/* 2 / sqrt(pi) e^(-x^2) */
void back_erf(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *bell = tern_exp(tern_neg(tern_square(core_saved_in(ctx, 0))));
    grad_in[0] = tern_mul(grad, tern_mul(bell, 1.12837916709551257390));
}

void back_frac(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = grad;
}
