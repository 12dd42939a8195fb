/* Elementwise ops. Part of tern/ops.h, which has the rules common to all ops. */
#ifndef TERN_ELEMENTWISE_H
#define TERN_ELEMENTWISE_H

#include "tern/base.h"
#include "tern/op_attr.h"
#include "tern/operand.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise, one operand ------------------------------------------------------------------
 * The dtype is kept, but integers and bool become the default float where the result is not whole: all
 * from exp to sigmoid. Names ending in _ write x itself, which has to have the result's dtype. */
#define TERN_DECLARE_UNARY_(name)                                        \
    TERN_API tern_tensor *tern_##name##_at(tern_site_t, tern_tensor *x); \
    TERN_API tern_tensor *tern_##name##_inplace_at(tern_site_t, tern_tensor *x);
TERN_DECLARE_UNARY_(neg)
TERN_DECLARE_UNARY_(abs)
TERN_DECLARE_UNARY_(sign)        /* NaN has 0 */
TERN_DECLARE_UNARY_(square)      /* bool becomes i64 */
TERN_DECLARE_UNARY_(floor)
TERN_DECLARE_UNARY_(ceil)
TERN_DECLARE_UNARY_(round)       /* to nearest, ties to even */
TERN_DECLARE_UNARY_(trunc)       /* towards 0 */
TERN_DECLARE_UNARY_(frac)        /* x - trunc(x); floats only */
TERN_DECLARE_UNARY_(exp)
TERN_DECLARE_UNARY_(expm1)       /* e^x - 1, also for small x */
TERN_DECLARE_UNARY_(log)
TERN_DECLARE_UNARY_(log1p)       /* log(1 + x), also for small x */
TERN_DECLARE_UNARY_(log2)
TERN_DECLARE_UNARY_(log10)
TERN_DECLARE_UNARY_(sqrt)
TERN_DECLARE_UNARY_(rsqrt)       /* 1 / sqrt(x) */
TERN_DECLARE_UNARY_(reciprocal)
TERN_DECLARE_UNARY_(sin)
TERN_DECLARE_UNARY_(cos)
TERN_DECLARE_UNARY_(tan)
TERN_DECLARE_UNARY_(asin)
TERN_DECLARE_UNARY_(acos)
TERN_DECLARE_UNARY_(atan)
TERN_DECLARE_UNARY_(sinh)
TERN_DECLARE_UNARY_(cosh)
TERN_DECLARE_UNARY_(tanh)
TERN_DECLARE_UNARY_(erf)
TERN_DECLARE_UNARY_(sigmoid)
TERN_DECLARE_UNARY_(logical_not) /* bool; in place 0 or 1 of x's dtype */
TERN_DECLARE_UNARY_(bitwise_not) /* integers and bool only */
TERN_DECLARE_UNARY_(relu)
TERN_DECLARE_UNARY_(relu6)       /* min(relu(x), 6) */
TERN_DECLARE_UNARY_(gelu)        /* x Phi(x), by erf; floats only, as the following */
TERN_DECLARE_UNARY_(gelu_tanh)   /* its tanh form */
TERN_DECLARE_UNARY_(silu)        /* x sigmoid(x) */
TERN_DECLARE_UNARY_(mish)        /* x tanh(log(1 + e^x)) */
TERN_DECLARE_UNARY_(logsigmoid)  /* log(1 / (1 + e^-x)), also where e^-x overflows */
TERN_DECLARE_UNARY_(hardswish)   /* x min(relu(x + 3), 6) / 6 */
#define tern_neg(x) tern_neg_at(TERN_HERE, x)
#define tern_abs(x) tern_abs_at(TERN_HERE, x)
#define tern_sign(x) tern_sign_at(TERN_HERE, x)
#define tern_square(x) tern_square_at(TERN_HERE, x)
#define tern_floor(x) tern_floor_at(TERN_HERE, x)
#define tern_ceil(x) tern_ceil_at(TERN_HERE, x)
#define tern_round(x) tern_round_at(TERN_HERE, x)
#define tern_trunc(x) tern_trunc_at(TERN_HERE, x)
#define tern_frac(x) tern_frac_at(TERN_HERE, x)
#define tern_exp(x) tern_exp_at(TERN_HERE, x)
#define tern_expm1(x) tern_expm1_at(TERN_HERE, x)
#define tern_log(x) tern_log_at(TERN_HERE, x)
#define tern_log1p(x) tern_log1p_at(TERN_HERE, x)
#define tern_log2(x) tern_log2_at(TERN_HERE, x)
#define tern_log10(x) tern_log10_at(TERN_HERE, x)
#define tern_sqrt(x) tern_sqrt_at(TERN_HERE, x)
#define tern_rsqrt(x) tern_rsqrt_at(TERN_HERE, x)
#define tern_reciprocal(x) tern_reciprocal_at(TERN_HERE, x)
#define tern_sin(x) tern_sin_at(TERN_HERE, x)
#define tern_cos(x) tern_cos_at(TERN_HERE, x)
#define tern_tan(x) tern_tan_at(TERN_HERE, x)
#define tern_asin(x) tern_asin_at(TERN_HERE, x)
#define tern_acos(x) tern_acos_at(TERN_HERE, x)
#define tern_atan(x) tern_atan_at(TERN_HERE, x)
#define tern_sinh(x) tern_sinh_at(TERN_HERE, x)
#define tern_cosh(x) tern_cosh_at(TERN_HERE, x)
#define tern_tanh(x) tern_tanh_at(TERN_HERE, x)
#define tern_erf(x) tern_erf_at(TERN_HERE, x)
#define tern_sigmoid(x) tern_sigmoid_at(TERN_HERE, x)
#define tern_logical_not(x) tern_logical_not_at(TERN_HERE, x)
#define tern_bitwise_not(x) tern_bitwise_not_at(TERN_HERE, x)
#define tern_relu(x) tern_relu_at(TERN_HERE, x)
#define tern_relu6(x) tern_relu6_at(TERN_HERE, x)
#define tern_gelu(x) tern_gelu_at(TERN_HERE, x)
#define tern_gelu_tanh(x) tern_gelu_tanh_at(TERN_HERE, x)
#define tern_silu(x) tern_silu_at(TERN_HERE, x)
#define tern_mish(x) tern_mish_at(TERN_HERE, x)
#define tern_logsigmoid(x) tern_logsigmoid_at(TERN_HERE, x)
#define tern_hardswish(x) tern_hardswish_at(TERN_HERE, x)
#define tern_neg_(x) tern_neg_inplace_at(TERN_HERE, x)
#define tern_abs_(x) tern_abs_inplace_at(TERN_HERE, x)
#define tern_sign_(x) tern_sign_inplace_at(TERN_HERE, x)
#define tern_square_(x) tern_square_inplace_at(TERN_HERE, x)
#define tern_floor_(x) tern_floor_inplace_at(TERN_HERE, x)
#define tern_ceil_(x) tern_ceil_inplace_at(TERN_HERE, x)
#define tern_round_(x) tern_round_inplace_at(TERN_HERE, x)
#define tern_trunc_(x) tern_trunc_inplace_at(TERN_HERE, x)
#define tern_frac_(x) tern_frac_inplace_at(TERN_HERE, x)
#define tern_exp_(x) tern_exp_inplace_at(TERN_HERE, x)
#define tern_expm1_(x) tern_expm1_inplace_at(TERN_HERE, x)
#define tern_log_(x) tern_log_inplace_at(TERN_HERE, x)
#define tern_log1p_(x) tern_log1p_inplace_at(TERN_HERE, x)
#define tern_log2_(x) tern_log2_inplace_at(TERN_HERE, x)
#define tern_log10_(x) tern_log10_inplace_at(TERN_HERE, x)
#define tern_sqrt_(x) tern_sqrt_inplace_at(TERN_HERE, x)
#define tern_rsqrt_(x) tern_rsqrt_inplace_at(TERN_HERE, x)
#define tern_reciprocal_(x) tern_reciprocal_inplace_at(TERN_HERE, x)
#define tern_sin_(x) tern_sin_inplace_at(TERN_HERE, x)
#define tern_cos_(x) tern_cos_inplace_at(TERN_HERE, x)
#define tern_tan_(x) tern_tan_inplace_at(TERN_HERE, x)
#define tern_asin_(x) tern_asin_inplace_at(TERN_HERE, x)
#define tern_acos_(x) tern_acos_inplace_at(TERN_HERE, x)
#define tern_atan_(x) tern_atan_inplace_at(TERN_HERE, x)
#define tern_sinh_(x) tern_sinh_inplace_at(TERN_HERE, x)
#define tern_cosh_(x) tern_cosh_inplace_at(TERN_HERE, x)
#define tern_tanh_(x) tern_tanh_inplace_at(TERN_HERE, x)
#define tern_erf_(x) tern_erf_inplace_at(TERN_HERE, x)
#define tern_sigmoid_(x) tern_sigmoid_inplace_at(TERN_HERE, x)
#define tern_logical_not_(x) tern_logical_not_inplace_at(TERN_HERE, x)
#define tern_bitwise_not_(x) tern_bitwise_not_inplace_at(TERN_HERE, x)
#define tern_relu_(x) tern_relu_inplace_at(TERN_HERE, x)
#define tern_relu6_(x) tern_relu6_inplace_at(TERN_HERE, x)
#define tern_gelu_(x) tern_gelu_inplace_at(TERN_HERE, x)
#define tern_gelu_tanh_(x) tern_gelu_tanh_inplace_at(TERN_HERE, x)
#define tern_silu_(x) tern_silu_inplace_at(TERN_HERE, x)
#define tern_mish_(x) tern_mish_inplace_at(TERN_HERE, x)
#define tern_logsigmoid_(x) tern_logsigmoid_inplace_at(TERN_HERE, x)
#define tern_hardswish_(x) tern_hardswish_inplace_at(TERN_HERE, x)

/* bool, of any dtype; integers are finite. */
TERN_API tern_tensor *tern_isnan_at(tern_site_t, tern_tensor *x);
TERN_API tern_tensor *tern_isinf_at(tern_site_t, tern_tensor *x);
TERN_API tern_tensor *tern_isfinite_at(tern_site_t, tern_tensor *x);
#define tern_isnan(x) tern_isnan_at(TERN_HERE, x)
#define tern_isinf(x) tern_isinf_at(TERN_HERE, x)
#define tern_isfinite(x) tern_isfinite_at(TERN_HERE, x)

/* ---- elementwise, one operand and options: tern_elu(x), tern_elu(x, .alpha = 0.5) -------------- */

/* x where it is above 0, else slope x. */
typedef struct tern_leaky_relu_args {
    size_t size_;
    tern_tensor *x;
    double slope; /* default 0.01 */
} tern_leaky_relu_args;
/* x where it is above 0, else alpha (e^x - 1). */
typedef struct tern_elu_args {
    size_t size_;
    tern_tensor *x;
    double alpha; /* default 1 */
} tern_elu_args;
/* log(1 + e^(beta x)) / beta, and x where beta x is above the threshold. */
typedef struct tern_softplus_args {
    size_t size_;
    tern_tensor *x;
    double beta;      /* default 1 */
    double threshold; /* default 20 */
} tern_softplus_args;
/* x cut to [min, max]; no gradient at the ends. Integers are cut to the whole parts of both. An end that is NaN is an
 * error, where PyTorch makes everything NaN, as tern_clamp does. */
typedef struct tern_hardtanh_args {
    size_t size_;
    tern_tensor *x;
    double min, max; /* default -1 and 1; 0 is TERN_ZERO */
} tern_hardtanh_args;
#define TERN_DECLARE_WITH_OPTIONS_(name)                                                      \
    TERN_API tern_tensor *tern_##name##_at(tern_site_t, const tern_##name##_args *args);      \
    TERN_API tern_tensor *tern_##name##_inplace_at(tern_site_t, const tern_##name##_args *args);
TERN_DECLARE_WITH_OPTIONS_(leaky_relu)
TERN_DECLARE_WITH_OPTIONS_(elu)
TERN_DECLARE_WITH_OPTIONS_(softplus)
TERN_DECLARE_WITH_OPTIONS_(hardtanh)
#define tern_leaky_relu(...) \
    tern_leaky_relu_at(TERN_HERE, TERN_OPTIONS_(tern_leaky_relu_args, __VA_ARGS__))
#define tern_leaky_relu_(...) \
    tern_leaky_relu_inplace_at(TERN_HERE, TERN_OPTIONS_(tern_leaky_relu_args, __VA_ARGS__))
#define tern_elu(...) tern_elu_at(TERN_HERE, TERN_OPTIONS_(tern_elu_args, __VA_ARGS__))
#define tern_elu_(...) tern_elu_inplace_at(TERN_HERE, TERN_OPTIONS_(tern_elu_args, __VA_ARGS__))
#define tern_softplus(...) \
    tern_softplus_at(TERN_HERE, TERN_OPTIONS_(tern_softplus_args, __VA_ARGS__))
#define tern_softplus_(...) \
    tern_softplus_inplace_at(TERN_HERE, TERN_OPTIONS_(tern_softplus_args, __VA_ARGS__))
#define tern_hardtanh(...) \
    tern_hardtanh_at(TERN_HERE, TERN_OPTIONS_(tern_hardtanh_args, __VA_ARGS__))
#define tern_hardtanh_(...) \
    tern_hardtanh_inplace_at(TERN_HERE, TERN_OPTIONS_(tern_hardtanh_args, __VA_ARGS__))

/* x cut to [min, max]; max where min is above it; NaN stays, and a limit that is NaN makes everything NaN.
 * Limits promote as in binary ops, x and two tensors all at once. No gradient at limits that are numbers,
 * infinite ones, too, nor where x is NaN. Limits that are tensors broadcast, get gradients, and share that of an
 * element that is equal to them, also with each other where both are alike, and where there is NaN (PyTorch gives it
 * to x or to one limit then). A limit that is a NULL tensor is none; without any the call is an error. A bare NULL is
 * the number 0: tern_clamp_max, or (tern_tensor *)NULL. */
TERN_API tern_tensor *tern_clamp_at(tern_site_t, tern_tensor *x, tern_operand min, tern_operand max);
TERN_API tern_tensor *tern_clamp_inplace_at(tern_site_t, tern_tensor *x, tern_operand min,
                                            tern_operand max);
#define tern_clamp(x, min, max) tern_clamp_at(TERN_HERE, x, TERN_OPERAND(min), TERN_OPERAND(max))
#define tern_clamp_(x, min, max) \
    tern_clamp_inplace_at(TERN_HERE, x, TERN_OPERAND(min), TERN_OPERAND(max))
/* The same with one limit. */
#define tern_clamp_min(x, min) tern_clamp_at(TERN_HERE, x, TERN_OPERAND(min), TERN_NO_LIMIT_)
#define tern_clamp_max(x, max) tern_clamp_at(TERN_HERE, x, TERN_NO_LIMIT_, TERN_OPERAND(max))
#define tern_clamp_min_(x, min) \
    tern_clamp_inplace_at(TERN_HERE, x, TERN_OPERAND(min), TERN_NO_LIMIT_)
#define tern_clamp_max_(x, max) \
    tern_clamp_inplace_at(TERN_HERE, x, TERN_NO_LIMIT_, TERN_OPERAND(max))
#define TERN_NO_LIMIT_ tern_operand_tensor(NULL)

/* ---- elementwise, two operands ----------------------------------------------------------------
 * add sub mul pow maximum minimum: promoted dtype, but no sub of bool; div: true division, integers become the
 * default float; comparisons: bool, not differentiable. In-place forms need the first operand to hold the
 * result's shape and category (those of comparisons write 0 and 1); they compute where the operands meet
 * and round once.
 * floor_div remainder: as Python's // and %; fmod: as C's. Integers divided by 0 are an error on the
 * CPU, which leaves everything as it was; on a device the quotient is 0 and all is left over.
 * atan2(y, x): the angle of (x, y); integers become the default float. hypot: floats only.
 * logical_*: bool, of any dtypes, NaN is true. bitwise_*: integers, and, or and xor bool, too; shifts by
 * less than 0 or by the width or more leave nothing but the copies of the sign that come from the right.
 * None of floor_div, logical_* and bitwise_* is differentiable.
 * Beside f16 and bf16 a number is rounded first, but in mul, and as a divisor in div and floor_div, which keep
 * it in f32. Beside integers a whole number wraps into their dtype, but in div and atan2, which make floats of
 * both. A number to which integers or half types are raised has to fit their dtype, and integers have no negative
 * integer powers; truth to the power of a bool is truth, of two bool tensors there is no pow. */
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

/* ---- comparisons that leave room for rounding, and of whole tensors ------------------------------ */

typedef struct tern_isclose_args {
    size_t size_;
    tern_tensor *x, *y; /* of one dtype; they broadcast */
    double rtol;        /* default 1e-5; 0 is TERN_ZERO */
    double atol;        /* default 1e-8; 0 is TERN_ZERO */
    bool equal_nan;     /* NaN is close to NaN */
} tern_isclose_args;
/* Is |x - y| <= atol + rtol |y|? Infinities are close to themselves. bool, without a gradient; in the arithmetic of
 * the dtype (f16 has no 1e-8), of integers in that of the default float. tern_allclose: is it so everywhere? Waits
 * for the device; true of nothing, false with an error. */
TERN_API tern_tensor *tern_isclose_at(tern_site_t, const tern_isclose_args *args);
TERN_API bool tern_allclose_at(tern_site_t, const tern_isclose_args *args);
#define tern_isclose(...) \
    tern_isclose_at(TERN_HERE, TERN_OPTIONS_(tern_isclose_args, __VA_ARGS__))
#define tern_allclose(...) \
    tern_allclose_at(TERN_HERE, TERN_OPTIONS_(tern_isclose_args, __VA_ARGS__))
/* Have both the same shape and equal elements? Dtypes meet as in tern_eq; NaN equals nothing. Waits for the
 * device; false with an error, as for tensors on different devices. */
TERN_API bool tern_equal_at(tern_site_t, tern_tensor *x, tern_tensor *y);
#define tern_equal(x, y) tern_equal_at(TERN_HERE, x, y)

/* ---- elementwise, three operands ----------------------------------------------------------------
 * They broadcast and meet as two do; in-place forms write x and need it to hold the result. */

/* x + weight (end - x), exact at both ends; weight is a number or a tensor, end and x are tensors. */
TERN_API tern_tensor *tern_lerp_at(tern_site_t, tern_tensor *x, tern_tensor *end,
                                   tern_operand weight);
TERN_API tern_tensor *tern_lerp_inplace_at(tern_site_t, tern_tensor *x, tern_tensor *end,
                                           tern_operand weight);
#define tern_lerp(x, end, weight) tern_lerp_at(TERN_HERE, x, end, TERN_OPERAND(weight))
#define tern_lerp_(x, end, weight) tern_lerp_inplace_at(TERN_HERE, x, end, TERN_OPERAND(weight))
/* x + value a b, and x + value a / b, of a number `value`, which is cut to a whole one for integers and has to
 * fit the dtype of the result, beside half types f32.
 * addcdiv divides no integers. */
#define TERN_DECLARE_ACCUMULATE_(name)                                                             \
    TERN_API tern_tensor *tern_##name##_at(tern_site_t, tern_tensor *x, tern_tensor *a,            \
                                           tern_tensor *b, tern_operand value);                    \
    TERN_API tern_tensor *tern_##name##_inplace_at(tern_site_t, tern_tensor *x, tern_tensor *a,    \
                                                   tern_tensor *b, tern_operand value);
TERN_DECLARE_ACCUMULATE_(addcmul)
TERN_DECLARE_ACCUMULATE_(addcdiv)
#define tern_addcmul(x, a, b, value) tern_addcmul_at(TERN_HERE, x, a, b, TERN_OPERAND(value))
#define tern_addcmul_(x, a, b, value) \
    tern_addcmul_inplace_at(TERN_HERE, x, a, b, TERN_OPERAND(value))
#define tern_addcdiv(x, a, b, value) tern_addcdiv_at(TERN_HERE, x, a, b, TERN_OPERAND(value))
#define tern_addcdiv_(x, a, b, value) \
    tern_addcdiv_inplace_at(TERN_HERE, x, a, b, TERN_OPERAND(value))
/* mask (bool) ? value : x, in the dtype of x; the value is a number or a 0-dim tensor. */
TERN_API tern_tensor *tern_masked_fill_at(tern_site_t, tern_tensor *x, tern_tensor *mask,
                                          tern_operand value);
TERN_API tern_tensor *tern_masked_fill_inplace_at(tern_site_t, tern_tensor *x, tern_tensor *mask,
                                                  tern_operand value);
#define tern_masked_fill(x, mask, value) \
    tern_masked_fill_at(TERN_HERE, x, mask, TERN_OPERAND(value))
#define tern_masked_fill_(x, mask, value) \
    tern_masked_fill_inplace_at(TERN_HERE, x, mask, TERN_OPERAND(value))
/* condition (bool) ? a : b, elementwise. A whole number beside integers has to fit their dtype. */
TERN_API tern_tensor *tern_where_at(tern_site_t, tern_tensor *condition, tern_operand a,
                                    tern_operand b);
#define tern_where(condition, a, b) \
    tern_where_at(TERN_HERE, condition, TERN_OPERAND(a), TERN_OPERAND(b))

#ifdef __cplusplus
}
#endif
#endif
