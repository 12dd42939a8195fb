/* Elementwise ops with two operands, either of which may be a number, and their gradients.
 *
 * Backward functions see operands of the result's own shape and dtype: the rules broadcast and promote
 * by recorded calls. An operand that needs no gradient may be 0-dim instead. */
#include "core/autocast.h"
#include "core/compose.h"
#include "core/error.h"
#include "core/op_table.h"
#include "core/promote.h"
#include "core/rules.h"
#include "core/tape.h"

/* ---- public functions -------------------------------------------------------------------------- */

static bool is_half(const tern_tensor *t)
{
    return t != NULL && (t->view.dtype == TERN_F16 || t->view.dtype == TERN_BF16);
}

/* True division, an angle: of integers, too, the result is a float. */
static bool makes_floats(tern_op_id id)
{
    return core_op_table[id].rule == rule_binary_float;
}

/* An operand as a tensor. A number that scales a half tensor, which is the `second` operand then, stays f32
 * (see operand_dtype in rules.c), and one beside integers that become floats is not wrapped into their dtype
 * first. */
static tern_tensor *begin_operand(tern_thread *self, tern_op_id id, tern_site_t site,
                                  tern_operand operand, tern_operand other, bool second)
{
    const tern_tensor *t = other.kind_ == 0 ? other.value_.tensor : NULL;
    const bool scales = id == TERN_OP_mul || id == TERN_OP_div || id == TERN_OP_floor_div;
    if (operand.kind_ != 0 && second && scales && is_half(t))
        return core_number_new(self, site, operand, TERN_F32);
    if (operand.kind_ == TERN_NUMBER_BOOL && id == TERN_OP_sub) /* refused */
        return core_number_new(self, site, operand, TERN_BOOL);
    if (operand.kind_ == TERN_NUMBER_INT && makes_floats(id) && t != NULL &&
        !tern_dtype_is_float((tern_dtype_t)t->view.dtype))
        return core_number_new(self, site, operand, TERN_I64);
    return core_operand_begin(self, site, operand, other);
}

/* Does the call compute in f32, because a region says so, what `t` has in a half type? */
static bool is_widened(tern_op_id id, const tern_tensor *t)
{
    return t != NULL && core_autocast_widens(core_self(), &core_op_table[id], t);
}

/* The same for a call that makes its result, which autocast looks at: a number comes as it will be read. */
static tern_tensor *begin_cast_operand(tern_thread *self, tern_op_id id, tern_site_t site,
                                       tern_operand operand, tern_operand other, bool second)
{
    if (operand.kind_ != 0 && other.kind_ == 0 && is_widened(id, other.value_.tensor))
        return core_number_new(self, site, operand, TERN_F32);
    return begin_operand(self, id, site, operand, other, second);
}

/* A number over a half tensor. Kernels take an f32 scalar beside it as their second operand only, so the
 * tensor is widened instead, and the quotient rounded once. */
static tern_tensor *divide_number(tern_site_t site, tern_operand number, tern_tensor *b)
{
    core_frame frame;
    tern_tensor *out = NULL;
    core_compose_begin(&frame, TERN_OP_div, site, 1, &b);
    if (core_compose_check(&frame)) {
        tern_tensor *wide = tern_cast(b, TERN_F32);
        out = tern_cast(tern_div_at(TERN_HERE, number, tern_operand_tensor(wide)), tern_dtype(b));
    }
    return core_compose_end(&frame, out);
}

static __attribute__((noinline)) tern_tensor *with_numbers(tern_op_id id, tern_site_t site,
                                                           tern_operand a, tern_operand b)
{
    tern_thread *self = core_self();
    if (self->error_code != TERN_OK)
        return NULL;
    if (id == TERN_OP_mul && b.kind_ == 0) { /* 2 x is x 2 */
        const tern_operand number = a;
        a = b;
        b = number;
    }
    if (id == TERN_OP_div && a.kind_ != 0 && b.kind_ == 0 && is_half(b.value_.tensor))
        return divide_number(site, a, b.value_.tensor);
    tern_tensor *x = begin_cast_operand(self, id, site, a, b, false);
    tern_tensor *y = begin_cast_operand(self, id, site, b, a, true);
    tern_tensor *out = core_op2(id, site, NULL, x, y);
    core_operand_end(self, a, x);
    core_operand_end(self, b, y);
    return out;
}

static inline tern_tensor *binary(tern_op_id id, tern_site_t site, tern_operand a, tern_operand b)
{
    if (__builtin_expect((a.kind_ | b.kind_) == 0, 1))
        return core_op2(id, site, NULL, a.value_.tensor, b.value_.tensor);
    return with_numbers(id, site, a, b);
}

/* Is the result's shape that of `a`? Where it is not, the row's own rule says why. */
static bool keeps_shape(const tern_view *x, const tern_view *y)
{
    if (y->ndim > x->ndim)
        return false;
    for (int d = 1; d <= y->ndim; d++)
        if (y->shape[y->ndim - d] != x->shape[x->ndim - d] && y->shape[y->ndim - d] != 1)
            return false;
    return true;
}

/* Do the operands meet in a dtype other than that of `a`, which their result fits? Sums, differences
 * and products of integers are as right in the narrow dtype as they would be after the wide one. Floats
 * made of integers fit no integers: the row's rule says so. */
static bool meets_wider(tern_op_id id, const tern_view *x, const tern_view *y)
{
    const tern_dtype_t held = (tern_dtype_t)x->dtype, meet = core_result_type(x, y);
    const bool wraps = id == TERN_OP_add || id == TERN_OP_sub || id == TERN_OP_mul;
    const bool fits = tern_dtype_is_float(held) || !(wraps || makes_floats(id));
    return meet != held && core_dtype_can_hold(held, meet) && fits && keeps_shape(x, y);
}

/* Will a gradient be asked for that reads what `a` is now? */
static bool backward_reads(tern_op_id id, const tern_tensor *a, const tern_tensor *b)
{
    const tern_op *op = &core_op_table[id];
    return op->backward != NULL && ((op->save & B(0)) || op->save_cross) &&
           core_self()->grad_mode && (a->requires_grad || b->requires_grad);
}

/* The result as a new tensor, then copied over `a`: computed where the operands meet, and rounded (or
 * turned from bool to a's dtype) once, when it is written. */
static __attribute__((noinline)) tern_tensor *inplace_by_copy(tern_op_id id, tern_site_t site,
                                                              tern_tensor *a, tern_tensor *b)
{
    core_frame frame;
    core_compose_begin(&frame, id, site, 2, (tern_tensor *[]){ a, b });
    frame.call.out[0] = a;
    bool ok = core_compose_check(&frame);
    int32_t ndim;
    int64_t dims[TERN_MAX_DIMS];
    ok = ok && core_broadcast(&frame.call, &a->view, &b->view, &ndim, dims);
    if (ok && !keeps_shape(&a->view, &b->view))
        ok = core_fail(&frame.call, TERN_ERR_SHAPE, "the form that makes a new tensor",
                       "the result has another shape than the tensor that is written");
    ok = ok && core_tape_check_inplace(&frame.call);
    tern_tensor *before = ok ? core_compose_before(&frame, a) : NULL;
    if (before != NULL && backward_reads(id, a, b))
        before = tern_clone(before);
    tern_tensor *result = before != NULL ? core_op2(id, site, NULL, before, b) : NULL;
    ok = result != NULL && core_op_into(TERN_OP_copy, site, NULL, a, result) == TERN_OK;
    core_compose_end(&frame, NULL);
    return ok ? a : NULL;
}

static tern_tensor *inplace_tensors(tern_op_id id, tern_site_t site, tern_tensor *a, tern_tensor *b)
{
    if (a != NULL && b != NULL && a->view.dtype != b->view.dtype &&
        meets_wider(id, &a->view, &b->view))
        return inplace_by_copy(id, site, a, b);
    return core_op_inplace(id, site, NULL, a, b);
}

static tern_tensor *inplace(tern_op_id id, tern_site_t site, tern_tensor *a, tern_operand b)
{
    if (b.kind_ == 0)
        return inplace_tensors(id, site, a, b.value_.tensor);
    tern_thread *self = core_self();
    if (self->error_code != TERN_OK)
        return NULL;
    tern_tensor *y = begin_operand(self, id, site, b, tern_operand_tensor(a), true);
    tern_tensor *out = core_op_inplace(id, site, NULL, a, y);
    core_operand_end(self, b, y);
    return out;
}

/* Truth in the dtype of `a`. */
static tern_tensor *inplace_truth(tern_op_id id, tern_site_t site, tern_tensor *a, tern_operand b)
{
    tern_thread *self = core_self();
    if (self->error_code != TERN_OK)
        return NULL;
    tern_tensor *y = core_operand_begin(self, site, b, tern_operand_tensor(a));
    tern_tensor *out = inplace_by_copy(id, site, a, y);
    core_operand_end(self, b, y);
    return out;
}

#define PUBLIC_BINARY(name)                                                         \
    tern_tensor *tern_##name##_at(tern_site_t site, tern_operand a, tern_operand b) \
    {                                                                               \
        return binary(TERN_OP_##name, site, a, b);                                  \
    }
#define PUBLIC_INPLACE(name)                                                                \
    tern_tensor *tern_##name##_inplace_at(tern_site_t site, tern_tensor *a, tern_operand b) \
    {                                                                                       \
        return inplace(TERN_OP_##name, site, a, b);                                         \
    }
#define PUBLIC_INPLACE_TRUTH(name)                                                          \
    tern_tensor *tern_##name##_inplace_at(tern_site_t site, tern_tensor *a, tern_operand b) \
    {                                                                                       \
        return inplace_truth(TERN_OP_##name, site, a, b);                                   \
    }
PUBLIC_BINARY(add)
PUBLIC_BINARY(sub)
PUBLIC_BINARY(mul)
PUBLIC_BINARY(div)
PUBLIC_BINARY(maximum)
PUBLIC_BINARY(minimum)
PUBLIC_BINARY(eq)
PUBLIC_BINARY(ne)
PUBLIC_BINARY(lt)
PUBLIC_BINARY(le)
PUBLIC_BINARY(gt)
PUBLIC_BINARY(ge)
PUBLIC_BINARY(floor_div)
PUBLIC_BINARY(remainder)
PUBLIC_BINARY(fmod)
PUBLIC_BINARY(atan2)
PUBLIC_BINARY(hypot)
PUBLIC_BINARY(bitwise_and)
PUBLIC_BINARY(bitwise_or)
PUBLIC_BINARY(bitwise_xor)
PUBLIC_BINARY(bitwise_left_shift)
PUBLIC_BINARY(bitwise_right_shift)
PUBLIC_BINARY(logical_and)
PUBLIC_BINARY(logical_or)
PUBLIC_BINARY(logical_xor)
PUBLIC_INPLACE(add)
PUBLIC_INPLACE(sub)
PUBLIC_INPLACE(mul)
PUBLIC_INPLACE(div)
PUBLIC_INPLACE(floor_div)
PUBLIC_INPLACE(remainder)
PUBLIC_INPLACE(fmod)
PUBLIC_INPLACE(atan2)
PUBLIC_INPLACE(hypot)
PUBLIC_INPLACE(bitwise_and)
PUBLIC_INPLACE(bitwise_or)
PUBLIC_INPLACE(bitwise_xor)
PUBLIC_INPLACE(bitwise_left_shift)
PUBLIC_INPLACE(bitwise_right_shift)
PUBLIC_INPLACE_TRUTH(eq)
PUBLIC_INPLACE_TRUTH(ne)
PUBLIC_INPLACE_TRUTH(lt)
PUBLIC_INPLACE_TRUTH(le)
PUBLIC_INPLACE_TRUTH(gt)
PUBLIC_INPLACE_TRUTH(ge)
PUBLIC_INPLACE_TRUTH(logical_and)
PUBLIC_INPLACE_TRUTH(logical_or)
PUBLIC_INPLACE_TRUTH(logical_xor)

/* False, with the error recorded, for a negative number to which integers are raised, and for one that the
 * dtype of the power cannot hold: wrapped, or infinite in a half type, it would be another power. In f32 that
 * is no error, as in PyTorch; `widened`: there the power of a half tensor is one of f32. */
static bool check_power(tern_site_t site, const tern_tensor *base, tern_operand b, bool widened)
{
    tern_thread *self = core_self();
    if (b.kind_ == 0 || base == NULL)
        return true;
    if (self->error_code != TERN_OK)
        return false;
    const tern_dtype_t dtype = (tern_dtype_t)base->view.dtype;
    const bool whole = b.kind_ == TERN_NUMBER_INT && !tern_dtype_is_float(dtype);
    if (whole && b.value_.i < 0)
        return tern_fail_at(
                   site, TERN_ERR_ARGUMENT, "pow",
                   "integers have no negative integer powers: %s tensor to the power %lld\n"
                   "  try tern_cast(x, TERN_F32) first",
                   tern_dtype_name(dtype), (long long)b.value_.i) == TERN_OK;
    return !(whole || (is_half(base) && !widened)) ||
           core_require_number(self, site, "pow", b, dtype);
}

/* Truth to the power of a number that is truth, too: x, or true. Of two tensors that is an error, as in
 * PyTorch. */
static bool is_truth(const tern_tensor *base, tern_operand b)
{
    return b.kind_ == TERN_NUMBER_BOOL && base != NULL && base->view.dtype == TERN_BOOL;
}

/* x or not b: x where b is true, and true where it is not. */
static tern_tensor *power_of_truth(tern_site_t site, tern_operand x, tern_operand truth,
                                   bool in_place)
{
    tern_thread *self = core_self();
    truth.value_.i = truth.value_.i == 0;
    const char *outer = core_calling_begin(self, "pow");
    tern_tensor *out = in_place ? inplace_truth(TERN_OP_logical_or, site, x.value_.tensor, truth)
                                : binary(TERN_OP_logical_or, site, x, truth);
    core_calling_end(self, outer);
    return out;
}

tern_tensor *tern_pow_at(tern_site_t site, tern_operand a, tern_operand b)
{
    const tern_tensor *base = a.kind_ == 0 ? a.value_.tensor : NULL;
    if (is_truth(base, b))
        return power_of_truth(site, a, b, false);
    return check_power(site, base, b, is_widened(TERN_OP_pow, base))
               ? binary(TERN_OP_pow, site, a, b)
               : NULL;
}

tern_tensor *tern_pow_inplace_at(tern_site_t site, tern_tensor *a, tern_operand b)
{
    if (is_truth(a, b))
        return power_of_truth(site, tern_operand_tensor(a), b, true);
    return check_power(site, a, b, false) ? inplace(TERN_OP_pow, site, a, b) : NULL;
}

/* ---- gradients --------------------------------------------------------------------------------- */

void back_add(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = grad;
    grad_in[1] = grad;
}

void back_sub(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = grad;
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_neg(grad);
}

void back_mul(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const uint32_t wanted = core_wanted(ctx);
    if (wanted == B(0)) {
        grad_in[0] = core_grad_apply(ctx, TERN_OP_mul, NULL, grad, core_saved_in(ctx, 1));
        return;
    }
    if (wanted & B(0))
        grad_in[0] = tern_mul(grad, core_saved_in(ctx, 1));
    if (wanted & B(1))
        grad_in[1] = core_grad_apply(ctx, TERN_OP_mul, NULL, grad, core_saved_in(ctx, 0));
}

/* a / b: grad / b, and -grad (a / b) / b */
void back_div(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *b = core_saved_in(ctx, 1);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = tern_div(grad, b);
    if (tern_needs_grad(ctx, 1)) {
        tern_tensor *a = core_saved_in(ctx, 0);
        grad_in[1] = tern_neg(tern_mul(grad, tern_div(tern_div(a, b), b)));
    }
}

/* grad b a^(b - 1), and 0 where b is 0, also at a = 0. */
static tern_tensor *pow_base_grad(tern_tensor *grad, tern_tensor *a, tern_tensor *b)
{
    if (b != NULL && (b->view.flags & TERN_VIEW_NUMBER)) {
        const double power = core_load_double(b->view.data, (tern_dtype_t)b->view.dtype);
        if (power == 0)
            return core_zeros_like(&grad->view);
        if (power == 2)
            return tern_mul(grad, tern_mul(a, 2.0));
        return tern_mul(grad, tern_mul(tern_pow(a, power - 1), power));
    }
    tern_tensor *slope = tern_mul(b, tern_pow(a, tern_sub(b, 1.0)));
    return tern_where(tern_eq(b, 0.0), 0.0, tern_mul(grad, slope));
}

/* grad a^b log a, and 0 where a is 0 and b is not negative. */
static tern_tensor *pow_exponent_grad(tern_tensor *grad, tern_tensor *a, tern_tensor *b)
{
    tern_tensor *flat = tern_mul(tern_eq(a, 0.0), tern_ge(b, 0.0));
    tern_tensor *slope = tern_mul(tern_pow(a, b), tern_log(a));
    return tern_mul(grad, tern_where(flat, 0.0, slope));
}

void back_pow(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *a = core_saved_in(ctx, 0), *b = core_saved_in(ctx, 1);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = pow_base_grad(grad, a, b);
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = pow_exponent_grad(grad, a, b);
}

/* Of an operand that loses where `loses` holds and shares where both are equal. */
static tern_tensor *winner_grad(tern_tensor *grad, tern_tensor *equal, tern_tensor *loses)
{
    return tern_where(loses, 0.0, tern_where(equal, tern_mul(grad, 0.5), grad));
}

/* Ties get half each. */
void back_maximum(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *a = core_saved_in(ctx, 0), *b = core_saved_in(ctx, 1), *equal = tern_eq(a, b);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = winner_grad(grad, equal, tern_lt(a, b));
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = winner_grad(grad, equal, tern_lt(b, a));
}

void back_minimum(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *a = core_saved_in(ctx, 0), *b = core_saved_in(ctx, 1), *equal = tern_eq(a, b);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = winner_grad(grad, equal, tern_lt(b, a));
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = winner_grad(grad, equal, tern_lt(a, b));
}

/* y = a - q b of a whole q, which is flat: the gradient of b is -q = (y - a) / b, or PyTorch's -q where that
 * is not finite, as by 0 and by infinity. */
static tern_tensor *quotient_grad(tern_op_ctx *ctx, tern_tensor *grad, bool floored)
{
    tern_tensor *a = tern_detach(core_saved_in(ctx, 0)), *b = tern_detach(core_saved_in(ctx, 1));
    tern_tensor *rest = floored ? tern_remainder(a, b) : tern_fmod(a, b);
    tern_tensor *by_rest = tern_div(tern_sub(rest, a), b);
    tern_tensor *whole = floored ? tern_floor_div(a, b) : tern_trunc(tern_div(a, b));
    return tern_mul(grad, tern_where(tern_isfinite(by_rest), by_rest, tern_neg(whole)));
}

void back_remainder(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = grad;
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = quotient_grad(ctx, grad, true);
}

void back_fmod(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = grad;
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = quotient_grad(ctx, grad, false);
}

/* grad (x, -y) / (x^2 + y^2), and 0 at the origin, which has no angle: PyTorch's choice. */
void back_atan2(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *y = core_saved_in(ctx, 0), *x = core_saved_in(ctx, 1);
    tern_tensor *square = tern_add(tern_mul(y, y), tern_mul(x, x));
    tern_tensor *inverse = tern_where(tern_eq(square, 0.0), 0.0, tern_reciprocal(square));
    tern_tensor *scaled = tern_mul(grad, inverse);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = tern_mul(scaled, x);
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_neg(tern_mul(scaled, y));
}

void back_hypot(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *length = core_saved_out(ctx, 0);
    for (int i = 0; i < 2; i++)
        if (tern_needs_grad(ctx, i))
            grad_in[i] = tern_mul(grad, tern_div(core_saved_in(ctx, i), length));
}
