/* Elementwise ops with one operand, and their gradients.
 *
 * Gradients of tanh, sigmoid, relu, gelu and silu are ops of their own (one pass over memory); their
 * gradients in turn are written out in simple ops, so gradients of any order exist. */
#include "core/op_table.h"
#include "core/ops/unary.h"
#include "core/rules.h"

PUBLIC_UNARY(neg)
PUBLIC_UNARY(abs)
PUBLIC_UNARY(sign)
PUBLIC_UNARY(exp)
PUBLIC_UNARY(log)
PUBLIC_UNARY(sqrt)
PUBLIC_UNARY(tanh)
PUBLIC_UNARY(sigmoid)
PUBLIC_UNARY(relu)
PUBLIC_UNARY(gelu)
PUBLIC_UNARY(gelu_tanh)
PUBLIC_UNARY(silu)

/* ---- rules ------------------------------------------------------------------------------------- */

bool core_unary_as(core_call *call, tern_dtype_t dtype)
{
    if (call->preset && core_view(call, 0)->dtype != dtype)
        return core_cannot_hold(call, dtype);
    return core_cast_input(call, 0, dtype) && rule_unary(call);
}

bool rule_unary(core_call *call)
{
    if (__builtin_expect(call->preset, 0))
        return core_check_destination(call) && core_keep_first(call);
    return core_out_like(call, 0, core_view(call, 0), (tern_dtype_t)core_view(call, 0)->dtype);
}

bool rule_unary_float(core_call *call)
{
    if (!tern_dtype_is_float((tern_dtype_t)core_view(call, 0)->dtype))
        return core_unary_as(call, (tern_dtype_t)call->self->default_dtype);
    return rule_unary(call);
}

bool rule_square(core_call *call)
{
    return core_view(call, 0)->dtype == TERN_BOOL ? core_unary_as(call, TERN_I64)
                                                  : rule_unary(call);
}

bool rule_test(core_call *call)
{
    return core_out_like(call, 0, core_view(call, 0), TERN_BOOL);
}

/* ---- simple gradients --------------------------------------------------------------------------- */

/* Flat nearly everywhere: sign, floor. */
void back_zero(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)grad;
    grad_in[0] = core_zeros_like(core_input_view(ctx, 0));
}

void back_neg(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = tern_neg(grad);
}

/* 0 at 0. */
void back_abs(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_sign(core_saved_in(ctx, 0)));
}

void back_exp(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, core_saved_out(ctx, 0));
}

void back_log(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_div(grad, core_saved_in(ctx, 0));
}

/* Infinite at 0. */
void back_sqrt(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_div(grad, tern_mul(core_saved_out(ctx, 0), 2.0));
}

/* ---- first gradients --------------------------------------------------------------------------- */

void back_tanh(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = core_grad_apply(ctx, TERN_OP_tanh_grad, NULL, grad, core_saved_out(ctx, 0));
}

void back_sigmoid(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = core_grad_apply(ctx, TERN_OP_sigmoid_grad, NULL, grad, core_saved_out(ctx, 0));
}

/* 0 at 0. */
void back_relu(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = core_grad_apply(ctx, TERN_OP_relu_grad, NULL, grad, core_saved_out(ctx, 0));
}

void back_gelu(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = core_grad_apply(ctx, TERN_OP_gelu_grad, NULL, grad, core_saved_in(ctx, 0));
}

void back_gelu_tanh(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = core_grad_apply(ctx, TERN_OP_gelu_tanh_grad, NULL, grad, core_saved_in(ctx, 0));
}

void back_silu(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = core_grad_apply(ctx, TERN_OP_silu_grad, NULL, grad, core_saved_in(ctx, 0));
}

/* ---- gradients of gradients: f_grad(g, s) = g f'(s), so that of s is grad g f''(s) ---------------- */

/* tanh_grad(g, y) = g (1 - y^2) */
void back_tanh_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *g = core_saved_in(ctx, 0), *y = core_saved_in(ctx, 1);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = core_op2(TERN_OP_tanh_grad, TERN_HERE, NULL, grad, y);
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_mul(tern_mul(grad, g), tern_mul(y, -2.0));
}

/* sigmoid_grad(g, y) = g y (1 - y) */
void back_sigmoid_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *g = core_saved_in(ctx, 0), *y = core_saved_in(ctx, 1);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = core_op2(TERN_OP_sigmoid_grad, TERN_HERE, NULL, grad, y);
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_mul(tern_mul(grad, g), tern_sub(1.0, tern_mul(y, 2.0)));
}

/* relu_grad(g, y) = y > 0 ? g : 0 */
void back_relu_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *y = core_saved_in(ctx, 1);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = core_op2(TERN_OP_relu_grad, TERN_HERE, NULL, grad, y);
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = core_zeros_like(core_input_view(ctx, 0));
}

/* 1 / sqrt(2 pi) exp(-x^2 / 2) */
static tern_tensor *normal_density(tern_tensor *x)
{
    return tern_mul(tern_exp(tern_mul(tern_mul(x, x), -0.5)), 0.39894228040143267794);
}

/* gelu'' = density(x) (2 - x^2) */
void back_gelu_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *g = core_saved_in(ctx, 0), *x = core_saved_in(ctx, 1);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = core_op2(TERN_OP_gelu_grad, TERN_HERE, NULL, grad, x);
    if (tern_needs_grad(ctx, 1)) {
        tern_tensor *second = tern_mul(normal_density(x), tern_sub(2.0, tern_mul(x, x)));
        grad_in[1] = tern_mul(tern_mul(grad, g), second);
    }
}

/* With u = a (x + c x^3), t = tanh(u), f = x (1 + t) / 2:
 * f'' = (1 - t^2) (u' + x u'' / 2 - x t u'^2) */
static tern_tensor *gelu_tanh_second(tern_tensor *x)
{
    const double a = 0.79788456080286535588, c = 0.044715;
    tern_tensor *x2 = tern_mul(x, x);
    tern_tensor *t = tern_tanh(tern_mul(tern_mul(x, tern_add(tern_mul(x2, c), 1.0)), a));
    tern_tensor *u1 = tern_add(tern_mul(x2, 3.0 * a * c), a);
    tern_tensor *half_x_u2 = tern_mul(x2, 3.0 * a * c);
    tern_tensor *last = tern_mul(tern_mul(x, t), tern_mul(u1, u1));
    return tern_mul(tern_sub(1.0, tern_mul(t, t)), tern_sub(tern_add(u1, half_x_u2), last));
}

void back_gelu_tanh_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *g = core_saved_in(ctx, 0), *x = core_saved_in(ctx, 1);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = core_op2(TERN_OP_gelu_tanh_grad, TERN_HERE, NULL, grad, x);
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_mul(tern_mul(grad, g), gelu_tanh_second(x));
}

/* silu'' = s (1 - s) (2 + x (1 - 2 s)), s = sigmoid(x) */
void back_silu_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *g = core_saved_in(ctx, 0), *x = core_saved_in(ctx, 1);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = core_op2(TERN_OP_silu_grad, TERN_HERE, NULL, grad, x);
    if (tern_needs_grad(ctx, 1)) {
        tern_tensor *s = tern_sigmoid(x);
        tern_tensor *inner = tern_add(tern_mul(x, tern_sub(1.0, tern_mul(s, 2.0))), 2.0);
        tern_tensor *second = tern_mul(tern_mul(s, tern_sub(1.0, s)), inner);
        grad_in[1] = tern_mul(tern_mul(grad, g), second);
    }
}
