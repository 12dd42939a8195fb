/* Elementwise ops. Part of tern/ops.h, which has the rules common to all ops. */
#ifndef TERN_ELEMENTWISE_H
#define TERN_ELEMENTWISE_H

#include "tern/base.h"
#include "tern/op_attr.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor or a number, in two registers. kind_: 0 tensor, else TERN_NUMBER_*. */
typedef struct tern_operand {
    union {
        tern_tensor *tensor;
        double f;
        int64_t i;
    } value_;
    int64_t kind_;
} tern_operand;
static inline tern_operand tern_operand_tensor(tern_tensor *t)
{
    tern_operand o;
    o.value_.tensor = t;
    o.kind_ = 0;
    return o;
}
static inline tern_operand tern_operand_float(double v)
{
    tern_operand o;
    o.value_.f = v;
    o.kind_ = TERN_NUMBER_FLOAT;
    return o;
}
static inline tern_operand tern_operand_int(int64_t v)
{
    tern_operand o;
    o.value_.i = v;
    o.kind_ = TERN_NUMBER_INT;
    return o;
}
static inline tern_operand tern_operand_bool(bool v)
{
    tern_operand o;
    o.value_.i = v;
    o.kind_ = TERN_NUMBER_BOOL;
    return o;
}
#define TERN_OPERAND(x)                                                                        \
    _Generic((x), tern_tensor *: tern_operand_tensor, float: tern_operand_float,               \
             double: tern_operand_float, bool: tern_operand_bool, default: tern_operand_int)(x)

/* ---- elementwise, one operand: dtype kept; integers become the default float where the result is
 * not whole (exp, log, sqrt, tanh, sigmoid) ------------------------------------------------------ */
#define TERN_DECLARE_UNARY_(name) TERN_API tern_tensor *tern_##name##_at(tern_site_t, tern_tensor *x);
TERN_DECLARE_UNARY_(neg)
TERN_DECLARE_UNARY_(abs)
TERN_DECLARE_UNARY_(sign)
TERN_DECLARE_UNARY_(exp)
TERN_DECLARE_UNARY_(log)
TERN_DECLARE_UNARY_(sqrt)
TERN_DECLARE_UNARY_(tanh)
TERN_DECLARE_UNARY_(sigmoid)
TERN_DECLARE_UNARY_(relu)
TERN_DECLARE_UNARY_(gelu)      /* x Phi(x), by erf; floats only */
TERN_DECLARE_UNARY_(gelu_tanh) /* the tanh form; floats only */
TERN_DECLARE_UNARY_(silu)      /* x sigmoid(x); floats only */
#define tern_neg(x) tern_neg_at(TERN_HERE, x)
#define tern_abs(x) tern_abs_at(TERN_HERE, x)
#define tern_sign(x) tern_sign_at(TERN_HERE, x)
#define tern_exp(x) tern_exp_at(TERN_HERE, x)
#define tern_log(x) tern_log_at(TERN_HERE, x)
#define tern_sqrt(x) tern_sqrt_at(TERN_HERE, x)
#define tern_tanh(x) tern_tanh_at(TERN_HERE, x)
#define tern_sigmoid(x) tern_sigmoid_at(TERN_HERE, x)
#define tern_relu(x) tern_relu_at(TERN_HERE, x)
#define tern_gelu(x) tern_gelu_at(TERN_HERE, x)
#define tern_gelu_tanh(x) tern_gelu_tanh_at(TERN_HERE, x)
#define tern_silu(x) tern_silu_at(TERN_HERE, x)

/* ---- elementwise, two operands ----------------------------------------------------------------
 * add sub mul pow maximum minimum: promoted dtype; div: true division, integers become the default
 * float; comparisons: bool, not differentiable. In-place forms need the first operand to hold the
 * result's shape and category (those of comparisons write 0 and 1); they compute where the operands meet
 * and round once.
 * floor_div remainder: as Python's // and %; fmod: as C's. Integers divided by 0 are an error on the
 * CPU, which leaves everything as it was; on a device the quotient is 0 and all is left over.
 * atan2(y, x): the angle of (x, y); integers become the default float. hypot: floats only.
 * logical_*: bool, of any dtypes, NaN is true. bitwise_*: integers, and, or and xor bool, too; shifts by
 * less than 0 or by the width or more leave nothing but the copies of the sign that come from the right.
 * None of floor_div, logical_* and bitwise_* is differentiable.
 * Beside f16 and bf16 a number is rounded first, but in mul and div, which keep it in f32. */
#define TERN_DECLARE_BINARY_(name) \
    TERN_API tern_tensor *tern_##name##_at(tern_site_t, tern_operand a, tern_operand b);
#define TERN_DECLARE_INPLACE_(name) \
    TERN_API tern_tensor *tern_##name##_inplace_at(tern_site_t, tern_tensor *a, tern_operand b);
TERN_DECLARE_BINARY_(add)
TERN_DECLARE_BINARY_(sub)
TERN_DECLARE_BINARY_(mul)
TERN_DECLARE_BINARY_(div)
TERN_DECLARE_BINARY_(pow)
TERN_DECLARE_BINARY_(maximum)
TERN_DECLARE_BINARY_(minimum)
TERN_DECLARE_BINARY_(eq)
TERN_DECLARE_BINARY_(ne)
TERN_DECLARE_BINARY_(lt)
TERN_DECLARE_BINARY_(le)
TERN_DECLARE_BINARY_(gt)
TERN_DECLARE_BINARY_(ge)
TERN_DECLARE_BINARY_(floor_div)
TERN_DECLARE_BINARY_(remainder)
TERN_DECLARE_BINARY_(fmod)
TERN_DECLARE_BINARY_(atan2)
TERN_DECLARE_BINARY_(hypot)
TERN_DECLARE_BINARY_(logical_and)
TERN_DECLARE_BINARY_(logical_or)
TERN_DECLARE_BINARY_(logical_xor)
TERN_DECLARE_BINARY_(bitwise_and)
TERN_DECLARE_BINARY_(bitwise_or)
TERN_DECLARE_BINARY_(bitwise_xor)
TERN_DECLARE_BINARY_(bitwise_left_shift)
TERN_DECLARE_BINARY_(bitwise_right_shift)
TERN_DECLARE_INPLACE_(add)
TERN_DECLARE_INPLACE_(sub)
TERN_DECLARE_INPLACE_(mul)
TERN_DECLARE_INPLACE_(div)
TERN_DECLARE_INPLACE_(pow)
TERN_DECLARE_INPLACE_(eq)
TERN_DECLARE_INPLACE_(ne)
TERN_DECLARE_INPLACE_(lt)
TERN_DECLARE_INPLACE_(le)
TERN_DECLARE_INPLACE_(gt)
TERN_DECLARE_INPLACE_(ge)
TERN_DECLARE_INPLACE_(floor_div)
TERN_DECLARE_INPLACE_(remainder)
TERN_DECLARE_INPLACE_(fmod)
TERN_DECLARE_INPLACE_(atan2)
TERN_DECLARE_INPLACE_(hypot)
TERN_DECLARE_INPLACE_(logical_and)
TERN_DECLARE_INPLACE_(logical_or)
TERN_DECLARE_INPLACE_(logical_xor)
TERN_DECLARE_INPLACE_(bitwise_and)
TERN_DECLARE_INPLACE_(bitwise_or)
TERN_DECLARE_INPLACE_(bitwise_xor)
TERN_DECLARE_INPLACE_(bitwise_left_shift)
TERN_DECLARE_INPLACE_(bitwise_right_shift)
#define TERN_BINARY_(name, a, b) tern_##name##_at(TERN_HERE, TERN_OPERAND(a), TERN_OPERAND(b))
#define TERN_INPLACE_(name, a, b) tern_##name##_inplace_at(TERN_HERE, a, TERN_OPERAND(b))
#define tern_add(a, b) TERN_BINARY_(add, a, b)
#define tern_sub(a, b) TERN_BINARY_(sub, a, b)
#define tern_mul(a, b) TERN_BINARY_(mul, a, b)
#define tern_div(a, b) TERN_BINARY_(div, a, b)
#define tern_pow(a, b) TERN_BINARY_(pow, a, b)
#define tern_maximum(a, b) TERN_BINARY_(maximum, a, b)
#define tern_minimum(a, b) TERN_BINARY_(minimum, a, b)
#define tern_eq(a, b) TERN_BINARY_(eq, a, b)
#define tern_ne(a, b) TERN_BINARY_(ne, a, b)
#define tern_lt(a, b) TERN_BINARY_(lt, a, b)
#define tern_le(a, b) TERN_BINARY_(le, a, b)
#define tern_gt(a, b) TERN_BINARY_(gt, a, b)
#define tern_ge(a, b) TERN_BINARY_(ge, a, b)
#define tern_floor_div(a, b) TERN_BINARY_(floor_div, a, b)
#define tern_remainder(a, b) TERN_BINARY_(remainder, a, b)
#define tern_fmod(a, b) TERN_BINARY_(fmod, a, b)
#define tern_atan2(a, b) TERN_BINARY_(atan2, a, b)
#define tern_hypot(a, b) TERN_BINARY_(hypot, a, b)
#define tern_logical_and(a, b) TERN_BINARY_(logical_and, a, b)
#define tern_logical_or(a, b) TERN_BINARY_(logical_or, a, b)
#define tern_logical_xor(a, b) TERN_BINARY_(logical_xor, a, b)
#define tern_bitwise_and(a, b) TERN_BINARY_(bitwise_and, a, b)
#define tern_bitwise_or(a, b) TERN_BINARY_(bitwise_or, a, b)
#define tern_bitwise_xor(a, b) TERN_BINARY_(bitwise_xor, a, b)
#define tern_bitwise_left_shift(a, b) TERN_BINARY_(bitwise_left_shift, a, b)
#define tern_bitwise_right_shift(a, b) TERN_BINARY_(bitwise_right_shift, a, b)
#define tern_add_(a, b) TERN_INPLACE_(add, a, b)
#define tern_sub_(a, b) TERN_INPLACE_(sub, a, b)
#define tern_mul_(a, b) TERN_INPLACE_(mul, a, b)
#define tern_div_(a, b) TERN_INPLACE_(div, a, b)
#define tern_pow_(a, b) TERN_INPLACE_(pow, a, b)
#define tern_eq_(a, b) TERN_INPLACE_(eq, a, b)
#define tern_ne_(a, b) TERN_INPLACE_(ne, a, b)
#define tern_lt_(a, b) TERN_INPLACE_(lt, a, b)
#define tern_le_(a, b) TERN_INPLACE_(le, a, b)
#define tern_gt_(a, b) TERN_INPLACE_(gt, a, b)
#define tern_ge_(a, b) TERN_INPLACE_(ge, a, b)
#define tern_floor_div_(a, b) TERN_INPLACE_(floor_div, a, b)
#define tern_remainder_(a, b) TERN_INPLACE_(remainder, a, b)
#define tern_fmod_(a, b) TERN_INPLACE_(fmod, a, b)
#define tern_atan2_(a, b) TERN_INPLACE_(atan2, a, b)
#define tern_hypot_(a, b) TERN_INPLACE_(hypot, a, b)
#define tern_logical_and_(a, b) TERN_INPLACE_(logical_and, a, b)
#define tern_logical_or_(a, b) TERN_INPLACE_(logical_or, a, b)
#define tern_logical_xor_(a, b) TERN_INPLACE_(logical_xor, a, b)
#define tern_bitwise_and_(a, b) TERN_INPLACE_(bitwise_and, a, b)
#define tern_bitwise_or_(a, b) TERN_INPLACE_(bitwise_or, a, b)
#define tern_bitwise_xor_(a, b) TERN_INPLACE_(bitwise_xor, a, b)
#define tern_bitwise_left_shift_(a, b) TERN_INPLACE_(bitwise_left_shift, a, b)
#define tern_bitwise_right_shift_(a, b) TERN_INPLACE_(bitwise_right_shift, a, b)

/* ---- elementwise, three operands ----------------------------------------------------------------
 * They broadcast and meet as two do; in-place forms write x and need it to hold the result. */

/* x + weight (end - x), exact at both ends; weight is a number or a tensor, end and x are tensors. */
TERN_API tern_tensor *tern_lerp_at(tern_site_t, tern_tensor *x, tern_tensor *end,
                                   tern_operand weight);
TERN_API tern_tensor *tern_lerp_inplace_at(tern_site_t, tern_tensor *x, tern_tensor *end,
                                           tern_operand weight);
#define tern_lerp(x, end, weight) tern_lerp_at(TERN_HERE, x, end, TERN_OPERAND(weight))
#define tern_lerp_(x, end, weight) tern_lerp_inplace_at(TERN_HERE, x, end, TERN_OPERAND(weight))
/* x + value a b, and x + value a / b, of a number `value`, which is cut to a whole one for integers.
 * addcdiv divides no integers. */
#define TERN_DECLARE_ACCUMULATE_(name)                                                             \
    TERN_API tern_tensor *tern_##name##_at(tern_site_t, tern_tensor *x, tern_tensor *a,            \
                                           tern_tensor *b, tern_operand value);                    \
    TERN_API tern_tensor *tern_##name##_inplace_at(tern_site_t, tern_tensor *x, tern_tensor *a,    \
                                                   tern_tensor *b, tern_operand value);
TERN_DECLARE_ACCUMULATE_(addcmul)
TERN_DECLARE_ACCUMULATE_(addcdiv)
#define tern_addcmul(x, a, b, value) tern_addcmul_at(TERN_HERE, x, a, b, TERN_OPERAND(value))
#define tern_addcmul_(x, a, b, value) tern_addcmul_inplace_at(TERN_HERE, x, a, b, TERN_OPERAND(value))
#define tern_addcdiv(x, a, b, value) tern_addcdiv_at(TERN_HERE, x, a, b, TERN_OPERAND(value))
#define tern_addcdiv_(x, a, b, value) tern_addcdiv_inplace_at(TERN_HERE, x, a, b, TERN_OPERAND(value))
/* mask (bool) ? value : x, in the dtype of x; the value is a number or a 0-dim tensor. */
TERN_API tern_tensor *tern_masked_fill_at(tern_site_t, tern_tensor *x, tern_tensor *mask,
                                          tern_operand value);
TERN_API tern_tensor *tern_masked_fill_inplace_at(tern_site_t, tern_tensor *x, tern_tensor *mask,
                                                  tern_operand value);
#define tern_masked_fill(x, mask, value) tern_masked_fill_at(TERN_HERE, x, mask, TERN_OPERAND(value))
#define tern_masked_fill_(x, mask, value) \
    tern_masked_fill_inplace_at(TERN_HERE, x, mask, TERN_OPERAND(value))
/* condition (bool) ? a : b, elementwise. */
TERN_API tern_tensor *tern_where_at(tern_site_t, tern_tensor *condition, tern_operand a,
                                    tern_operand b);
#define tern_where(condition, a, b) \
    tern_where_at(TERN_HERE, condition, TERN_OPERAND(a), TERN_OPERAND(b))

#ifdef __cplusplus
}
#endif
#endif
