/* Activations whose gradients are ops of their own (one pass over memory), most with one or two numbers
 * as options, and clamp. Gradients of gradients are written in simple ops. */
#include <math.h>

#include "core/compose.h"
#include "core/error.h"
#include "core/op_table.h"
#include "core/ops/unary.h"
#include "core/option.h"
#include "core/promote.h"
#include "core/rules.h"
#include "core/tape.h"

PUBLIC_UNARY(hardswish)
PUBLIC_UNARY(mish)
PUBLIC_UNARY(logsigmoid)

/* ---- options ----------------------------------------------------------------------------------- */

/* p and q of an op whose dtypes are floats. */
static tern_attr_numbers numbers(double p, double q)
{
    return (tern_attr_numbers){ .f = { p, q } };
}

/* Public functions of an op with options: read from `a`, a copy of the arguments. */
#define PUBLIC_WITH_OPTIONS(name, options)                                                  \
    static tern_tensor *name##_of(                                                          \
        tern_site_t site, const tern_##name##_args *args,                                   \
        tern_tensor *(*run)(tern_op_id, tern_site_t, void *, tern_tensor *))                \
    {                                                                                       \
        const tern_##name##_args a = *core_options(args);                                   \
        tern_attr_numbers attr = options;                                                   \
        return run(TERN_OP_##name, site, &attr, a.x);                                       \
    }                                                                                       \
    tern_tensor *tern_##name##_at(tern_site_t site, const tern_##name##_args *args)         \
    {                                                                                       \
        return name##_of(site, args, core_op1);                                             \
    }                                                                                       \
    tern_tensor *tern_##name##_inplace_at(tern_site_t site, const tern_##name##_args *args) \
    {                                                                                       \
        return name##_of(site, args, core_op1_inplace);                                     \
    }
PUBLIC_WITH_OPTIONS(leaky_relu, numbers(core_given(a.slope, 0.01), 0))
PUBLIC_WITH_OPTIONS(elu, numbers(core_given(a.alpha, 1), 0))
PUBLIC_WITH_OPTIONS(softplus, numbers(core_given(a.beta, 1), core_given(a.threshold, 20)))

/* ---- limits: hardtanh, relu6, clamp ------------------------------------------------------------ */

/* Both ends for integers, too: towards 0. */
static tern_attr_numbers ends(double min, double max)
{
    return (tern_attr_numbers){
        .f = { min, max },
        .i = { core_load_int(&min, TERN_F64), core_load_int(&max, TERN_F64) },
    };
}
PUBLIC_WITH_OPTIONS(hardtanh, ends(core_given(a.min, -1), core_given(a.max, 1)))

static tern_tensor *relu6_of(tern_site_t site, tern_tensor *x,
                             tern_tensor *(*run)(tern_op_id, tern_site_t, void *, tern_tensor *))
{
    tern_thread *self = core_self();
    tern_attr_numbers attr = ends(0, 6);
    const char *outer = core_calling_begin(self, "relu6");
    tern_tensor *y = run(TERN_OP_hardtanh, site, &attr, x);
    core_calling_end(self, outer);
    return y;
}

tern_tensor *tern_relu6_at(tern_site_t site, tern_tensor *x)
{
    return relu6_of(site, x, core_op1);
}

tern_tensor *tern_relu6_inplace_at(tern_site_t site, tern_tensor *x)
{
    return relu6_of(site, x, core_op1_inplace);
}

static void set_limit(tern_attr_numbers *attr, int k, tern_operand limit)
{
    const bool whole = limit.kind_ != TERN_NUMBER_FLOAT;
    attr->f[k] = whole ? (double)limit.value_.i : limit.value_.f;
    attr->i[k] = whole ? limit.value_.i : core_load_int(&limit.value_.f, TERN_F64);
    const int kind = (int)limit.kind_;
    if (attr->kind == 0 || kind < attr->kind) /* the kinds count down: float, int, bool */
        attr->kind = kind;
}

static bool is_given(tern_operand limit)
{
    return limit.kind_ != 0 || limit.value_.tensor != NULL;
}

static tern_tensor *clamp(tern_site_t site, tern_tensor *x, tern_operand min, tern_operand max,
                          tern_tensor *(*run)(tern_op_id, tern_site_t, void *, tern_tensor *))
{
    const bool low = is_given(min), high = is_given(max);
    if (!low && !high) {
        tern_fail_at(
            site, TERN_ERR_ARGUMENT, "clamp",
            "both limits are NULL\n  try tern_clamp(x, min, max), tern_clamp_min(x, min) or "
            "tern_clamp_max(x, max)");
        return NULL;
    }
    tern_attr_numbers attr = { .f = { -HUGE_VAL, HUGE_VAL }, .i = { INT64_MIN, INT64_MAX } };
    if (low)
        set_limit(&attr, 0, min);
    if (high)
        set_limit(&attr, 1, max);
    attr.given = (low ? 1 : 0) | (high ? 2 : 0);
    if (isnan(attr.f[0]) || isnan(attr.f[1]))
        attr.f[0] = attr.f[1] = (double)NAN;
    return run(TERN_OP_clamp, site, &attr, x);
}

static bool is_tensor(tern_operand limit)
{
    return limit.kind_ == 0 && limit.value_.tensor != NULL;
}

/* Gradients at a limit are shared with it, as there. Between two tensors x goes first to where all three meet, which is
 * not where it would meet one limit after the other. */
static tern_tensor *between(tern_tensor *x, tern_operand min, tern_operand max)
{
    if (is_tensor(min) && is_tensor(max)) {
        const tern_view *const views[] = { &x->view, &min.value_.tensor->view,
                                           &max.value_.tensor->view };
        x = tern_cast(x, core_result_type_of(views, 3));
    }
    if (x != NULL && is_given(min))
        x = tern_maximum_at(NULL, tern_operand_tensor(x), min);
    if (x != NULL && is_given(max))
        x = tern_minimum_at(NULL, tern_operand_tensor(x), max);
    return x;
}

/* A limit that is x itself is what was there before, too. */
static tern_operand limit_before(tern_operand limit, const tern_tensor *x, tern_tensor *before)
{
    return is_tensor(limit) && limit.value_.tensor == x ? tern_operand_tensor(before) : limit;
}

/* Is made, and copied over x: backward reads what was there. */
static bool write_between(core_frame *frame, tern_tensor *x, tern_operand min, tern_operand max)
{
    core_call *call = &frame->call;
    call->out[0] = x;
    if (!core_tape_check_inplace(call))
        return false;
    tern_tensor *from_x = core_self()->grad_mode ? tern_clone(core_compose_before(frame, x)) : x;
    tern_tensor *y =
        from_x != NULL ? between(from_x, limit_before(min, x, from_x), limit_before(max, x, from_x))
                       : NULL;
    if (y == NULL)
        return false;
    const tern_dtype_t from = tern_dtype(y), to = tern_dtype(x);
    if (!core_dtype_can_hold(to, from))
        return core_fail(call, TERN_ERR_DTYPE, "x = tern_clamp(x, min, max)",
                         "the result is %s, which a tensor of %s cannot take in place",
                         tern_dtype_name(from), tern_dtype_name(to));
    if (!core_view_same_shape(&x->view, &y->view))
        return core_fail(call, TERN_ERR_SHAPE, "x = tern_clamp(x, min, max)",
                         "the limits have more elements than the tensor that is written");
    return core_op_into(TERN_OP_copy, call->site, NULL, x, y) == TERN_OK;
}

static tern_tensor *clamp_by_tensors(tern_site_t site, tern_tensor *x, tern_operand min,
                                     tern_operand max, bool writes)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_clamp, site, 1, &x);
    const bool ok = core_compose_check(&frame);
    if (!writes)
        return core_compose_end(&frame, ok ? between(x, min, max) : NULL);
    const bool written = ok && write_between(&frame, x, min, max);
    core_compose_end(&frame, NULL);
    return written ? x : NULL;
}

tern_tensor *tern_clamp_at(tern_site_t site, tern_tensor *x, tern_operand min, tern_operand max)
{
    if (is_tensor(min) || is_tensor(max))
        return clamp_by_tensors(site, x, min, max, false);
    return clamp(site, x, min, max, core_op1);
}

tern_tensor *tern_clamp_inplace_at(tern_site_t site, tern_tensor *x, tern_operand min,
                                   tern_operand max)
{
    if (is_tensor(min) || is_tensor(max))
        return clamp_by_tensors(site, x, min, max, true);
    return clamp(site, x, min, max, core_op1_inplace);
}

/* The least and the largest value of an integer dtype. */
static void range_of(tern_dtype_t dtype, int64_t out[2])
{
    const int bits = 8 * (int)tern_dtype_size(dtype);
    const bool has_sign = dtype != TERN_U8 && dtype != TERN_BOOL;
    out[1] = has_sign ? INT64_MAX >> (64 - bits) : UINT8_MAX;
    out[0] = has_sign ? -out[1] - 1 : 0;
}

/* A limit as the dtype has it. Beyond the dtype's range it does not bind, or cannot be met. */
static bool settle_limit(core_call *call, tern_attr_numbers *attr, int k, tern_dtype_t dtype)
{
    int64_t range[2];
    if (tern_dtype_is_float(dtype)) {
        if (dtype != TERN_F16 && dtype != TERN_BF16)
            return true;
        uint16_t rounded;
        core_store_double(&rounded, dtype, attr->f[k]);
        attr->f[k] = core_load_double(&rounded, dtype);
        return true;
    }
    range_of(dtype, range);
    const bool above = attr->i[k] > range[1], below = attr->i[k] < range[0];
    if (attr->kind != 0 && attr->i[k] != (k == 0 ? INT64_MIN : INT64_MAX) &&
        (k == 0 ? above : below))
        return core_fail(call, TERN_ERR_ARGUMENT, "tern_cast to a wider dtype first",
                         "no %s is %s %lld", tern_dtype_name(dtype),
                         k == 0 ? "as large as" : "as small as", (long long)attr->i[k]);
    attr->i[k] = above ? range[1] : below ? range[0] : attr->i[k];
    return true;
}

static bool check_ends(core_call *call, const tern_attr_numbers *attr)
{
    if (attr->f[0] > attr->f[1])
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "min is %g, which is above max, %g",
                         attr->f[0], attr->f[1]);
    if (isnan(attr->f[0]) || isnan(attr->f[1]))
        return core_fail(call, TERN_ERR_ARGUMENT, "tern_clamp, which makes everything NaN",
                         "min is %g and max %g; neither may be NaN", attr->f[0], attr->f[1]);
    return true;
}

bool rule_limits(core_call *call)
{
    tern_attr_numbers *attr = core_attr(call);
    tern_dtype_t dtype = (tern_dtype_t)core_view(call, 0)->dtype;
    if (call->op->id_ == TERN_OP_hardtanh && !check_ends(call, attr))
        return false;
    if (attr->kind == TERN_NUMBER_FLOAT && !tern_dtype_is_float(dtype))
        dtype = (tern_dtype_t)call->self->default_dtype;
    else if (attr->kind == TERN_NUMBER_INT && dtype == TERN_BOOL)
        dtype = TERN_I64;
    return core_unary_as(call, dtype) && settle_limit(call, attr, 0, dtype) &&
           settle_limit(call, attr, 1, dtype);
}

/* ---- first gradients: one op each, with the numbers of the call ------------------------------------ */

#define FUSED_BACK(name)                                                                        \
    void back_##name(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)                \
    {                                                                                           \
        const bool has_numbers = core_op_table[TERN_OP_##name##_grad].attr_size != 0;           \
        grad_in[0] =                                                                            \
            core_grad_apply(ctx, TERN_OP_##name##_grad, has_numbers ? tern_op_attr(ctx) : NULL, \
                            grad, core_saved_in(ctx, 0));                                       \
    }
FUSED_BACK(leaky_relu)
FUSED_BACK(elu)
FUSED_BACK(softplus)
FUSED_BACK(hardswish)
FUSED_BACK(mish)
FUSED_BACK(hardtanh)

/* A limit that was not given is NaN to clamp_grad: an infinite one that was cuts off its infinity, and NaN. NaN as a
 * limit lets nothing through. */
void back_clamp(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_numbers attr = core_ctx_attr(ctx, tern_attr_numbers);
    if (isnan(attr.f[0])) {
        attr.f[0] = HUGE_VAL;
        attr.f[1] = -HUGE_VAL;
    } else {
        attr.f[0] = attr.given & 1 ? attr.f[0] : (double)NAN;
        attr.f[1] = attr.given & 2 ? attr.f[1] : (double)NAN;
    }
    grad_in[0] = core_grad_apply(ctx, TERN_OP_clamp_grad, &attr, grad, core_saved_in(ctx, 0));
}

void back_logsigmoid(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_sigmoid(tern_neg(core_saved_in(ctx, 0))));
}

/* ---- gradients of gradients: f_grad(g, x) = g f'(x), so that of x is grad g f''(x) ----------------- */

/* That of g: the same op on what flows in. */
static void of_gradient(tern_op_ctx *ctx, tern_op_id id, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_numbers attr;
    const bool has_numbers = core_op_table[id].attr_size != 0;
    if (has_numbers)
        attr = core_ctx_attr(ctx, tern_attr_numbers);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] =
            core_op2(id, TERN_HERE, has_numbers ? &attr : NULL, grad, core_saved_in(ctx, 1));
}

/* f'' is 0 where it is anything. */
#define PIECEWISE_BACK(name)                                                            \
    void back_##name##_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in) \
    {                                                                                   \
        of_gradient(ctx, TERN_OP_##name##_grad, grad, grad_in);                         \
        if (tern_needs_grad(ctx, 1))                                                    \
            grad_in[1] = core_zeros_like(core_input_view(ctx, 1));                      \
    }
PIECEWISE_BACK(leaky_relu)
PIECEWISE_BACK(hardtanh)
PIECEWISE_BACK(clamp)

/* Given f''(x) of the call's numbers. */
#define CURVED_BACK(name, second)                                                       \
    void back_##name##_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in) \
    {                                                                                   \
        of_gradient(ctx, TERN_OP_##name##_grad, grad, grad_in);                         \
        if (tern_needs_grad(ctx, 1))                                                    \
            grad_in[1] = tern_mul(tern_mul(grad, core_saved_in(ctx, 0)),                \
                                  second(core_saved_in(ctx, 1), tern_op_attr(ctx)));    \
    }

/* alpha e^x below 0 */
static tern_tensor *elu_second(tern_tensor *x, const tern_attr_numbers *attr)
{
    return tern_where(tern_lt(x, 0.0), tern_mul(tern_exp(x), attr->f[0]), 0.0);
}
CURVED_BACK(elu, elu_second)

/* beta s (1 - s) with s = sigmoid(beta x), up to the threshold */
static tern_tensor *softplus_second(tern_tensor *x, const tern_attr_numbers *attr)
{
    tern_tensor *z = tern_mul(x, attr->f[0]);
    tern_tensor *s = tern_sigmoid(z);
    tern_tensor *slope = tern_mul(tern_mul(s, tern_sub(1.0, s)), attr->f[0]);
    return tern_where(tern_gt(z, attr->f[1]), 0.0, slope);
}
CURVED_BACK(softplus, softplus_second)

/* 1 / 3 in -3 .. 3 */
static tern_tensor *hardswish_second(tern_tensor *x, const tern_attr_numbers *attr)
{
    (void)attr;
    tern_tensor *inside = tern_cast(tern_lt(tern_abs(x), 3.0), tern_dtype(x));
    return tern_mul(inside, 1.0 / 3.0);
}
CURVED_BACK(hardswish, hardswish_second)

/* s (1 - w^2) (2 + x (1 - s) - 2 x s w) with s = sigmoid(x), w = tanh(softplus(x)) */
static tern_tensor *mish_second(tern_tensor *x, const tern_attr_numbers *attr)
{
    (void)attr;
    tern_tensor *s = tern_sigmoid(x), *w = tern_tanh(tern_softplus(x));
    tern_tensor *inner = tern_sub(tern_sub(1.0, s), tern_mul(tern_mul(s, w), 2.0));
    tern_tensor *outer = tern_mul(s, tern_sub(1.0, tern_square(w)));
    return tern_mul(outer, tern_add(tern_mul(x, inner), 2.0));
}
CURVED_BACK(mish, mish_second)
