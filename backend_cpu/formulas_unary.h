/* Functions of one number behind elementwise.def: part of formulas.h, which has the rules. In f32, of
 * all whose result and its quarter are no denormals: erf within 3.1 ulp, the others within 2.7, and where
 * mish's slope nears zero within 2e-7 of the terms that cancel. */
#ifndef TERN_BACKEND_CPU_FORMULAS_UNARY_H
#define TERN_BACKEND_CPU_FORMULAS_UNARY_H

#include "backend_cpu/formulas.h"

FORMULA float f32_with_sign(float size, float sign)
{
    return f32_from_bits((f32_bits(size) & 0x7FFFFFFFu) | (f32_bits(sign) & 0x80000000u));
}

/* What a vector unit has, or the C library: exact, or within 1 ulp. */
#define BY_LIBRARY(name)                \
    FORMULA float f32_##name(float x)   \
    {                                   \
        return name##f(x);              \
    }                                   \
    FORMULA double f64_##name(double x) \
    {                                   \
        return name(x);                 \
    }
BY_LIBRARY(floor)
BY_LIBRARY(ceil)
BY_LIBRARY(trunc)
BY_LIBRARY(rint)
/* Loops in f32 have their own: isa/lanes_trig.h. */
BY_LIBRARY(sin)
BY_LIBRARY(cos)
BY_LIBRARY(tan)
#undef BY_LIBRARY

#define BY_LIBRARY(name)                \
    FORMULA double f64_##name(double x) \
    {                                   \
        return name(x);                 \
    }
BY_LIBRARY(expm1)
BY_LIBRARY(log1p)
BY_LIBRARY(log2)
BY_LIBRARY(log10)
BY_LIBRARY(asin)
BY_LIBRARY(acos)
BY_LIBRARY(atan)
BY_LIBRARY(sinh)
BY_LIBRARY(cosh)
BY_LIBRARY(erf)
#undef BY_LIBRARY

/* ---- exponentials ------------------------------------------------------------------------------ */

/* Below it e^x - 1 is x. The quarter of the smallest ones would be a denormal, so 0; sinh, which has it too, is never
 * below |x|. */
#define F32_ITSELF 0x1p-26f

/* (e^x - 1) / 4 for x in -18 .. 89.5: four times it overflows where the result does. */
FORMULA float f32_expm1_quarter(float x)
{
    const float shifted = x * F32_LOG2E + F32_ROUND_SHIFT;
    const float n = shifted - F32_ROUND_SHIFT;
    const float r = (x - n * F32_LN2_HI) - n * F32_LN2_LO;
    const float scale = f32_power_of_two(shifted - 2.0f);
    return f32_exp_less_one(r) * scale + (scale - 0.25f);
}

FORMULA float f32_expm1(float x)
{
    float c = x > 89.5f ? 89.5f : x;
    c = c < -18.0f ? -18.0f : c;
    const float y = f32_with_sign(4.0f * f32_expm1_quarter(c), x);
    return fabsf(x) < F32_ITSELF ? x : y;
}

/* With m = e^|x| - 1: (m + m / (m + 1)) / 2 */
FORMULA float f32_sinh(float x)
{
    const float size = fabsf(x);
    const float quarter = f32_expm1_quarter(size > 89.5f ? 89.5f : size);
    const float half = quarter + quarter;
    const float y = half + quarter / (half + 0.5f);
    return f32_with_sign(y < size ? size : y, x);
}

FORMULA float f32_cosh(float x)
{
    const float size = fabsf(x);
    const float quarter = f32_expm1_quarter(size > 89.5f ? 89.5f : size) + 0.25f;
    return (quarter + quarter) + 0.125f / quarter;
}

/* ---- logarithms -------------------------------------------------------------------------------- */

FORMULA float f32_log1p(float x)
{
    return x < INFINITY ? f32_log_one_more(x) : x;
}

FORMULA float f32_log2(float x)
{
    float e, f;
    const float tail = f32_log_split(x, &e, &f);
    return f32_log_special(x, (tail * F32_LOG2E + f * F32_LOG2E) + e);
}

#define F32_LOG10E 0.434294492f
#define F32_LOG10_2_HI 0.301025391f /* 12 bits: an exponent times it is exact */
#define F32_LOG10_2_LO 4.60503911e-6f

FORMULA float f32_log10(float x)
{
    float e, f;
    const float tail = f32_log_split(x, &e, &f);
    const float low = tail * F32_LOG10E + e * F32_LOG10_2_LO;
    return f32_log_special(x, (low + f * F32_LOG10E) + e * F32_LOG10_2_HI);
}

/* ---- arcs ---------------------------------------------------------------------------------------- */

/* pi / 2 is 1.57079637 - 4.37e-8 */
FORMULA float f32_atan(float x)
{
    const float size = fabsf(x);
    const int steep = size > 1.0f;
    const float arc = f32_atan_of_ratio((steep ? 1.0f : size) / (steep ? size : 1.0f));
    return f32_with_sign(steep ? 1.57079637f - (arc + 4.37113883e-8f) : arc, x);
}

/* asin t for t in 0 .. 0.5, given z = t^2: minimax, relative error 4.9e-9 */
FORMULA float f32_asin_near(float t, float z)
{
    const float z2 = z * z;
    const float p0 = 0.0749529761916980124f * z + 0.166667524830333597f;
    const float p2 = 0.0241795037835851794f * z + 0.0454703783725917729f;
    return t + t * z * ((0.0421663263273820402f * z2 + p2) * z2 + p0);
}

FORMULA float f32_asin(float x)
{
    const float size = fabsf(x);
    const int far = size > 0.5f; /* pi / 2 - 2 asin(sqrt((1 - |x|) / 2)) */
    const float z = far ? 0.5f - 0.5f * size : size * size;
    const float arc = f32_asin_near(far ? sqrtf(z) : size, z);
    return f32_with_sign(far ? 1.57079637f - ((arc + arc) + 4.37113883e-8f) : arc, x);
}

FORMULA float f32_acos(float x)
{
    const float size = fabsf(x);
    const int far = size > 0.5f;
    const float z = far ? 0.5f - 0.5f * size : size * size;
    const float arc = f32_asin_near(far ? sqrtf(z) : size, z);
    const float twice = arc + arc;
    const float outer = x < 0.0f ? 3.14159274f - (twice + 8.74227766e-8f) : twice;
    return far ? outer : 1.57079637f - (f32_with_sign(arc, x) + 4.37113883e-8f);
}

/* ---- erf --------------------------------------------------------------------------------------- */

/* Below 1 minimax in x^2, relative error 1.2e-9; above 1 less the normal tails. */
FORMULA float f32_erf(float x)
{
    const float size = fabsf(x);
    const float z = size < 1.0f ? size * size : 1.0f;
    const float z2 = z * z;
    const float p0 = -0.376126258249197042f * z + 1.12837916572682315f;
    const float p2 = -0.0268538121909114423f * z + 0.112835851549742556f;
    const float p4 = -0.000801019826131958015f * z + 0.00518832818627765842f;
    const float near = size * (((0.0000785387752821396873f * z2 + p4) * z2 + p2) * z2 + p0);
    const float t = size * 1.41421356f;
    const float far = 1.0f - 2.0f * f32_normal_cdf(-t, f32_gauss(t));
    return f32_with_sign(size < 1.0f ? near : far, x);
}

/* ---- activations ------------------------------------------------------------------------------- */

FORMULA float f32_softplus(float x, float beta, float threshold)
{
    const float z = x * beta;
    const float smooth = (z > 0.0f ? z : 0.0f) + f32_log_one_more(f32_exp(-fabsf(z)));
    return z > threshold ? x : smooth / beta;
}

FORMULA double f64_softplus(double x, double beta, double threshold)
{
    const double z = x * beta;
    return z > threshold ? x : ((z > 0 ? z : 0) + log1p(exp(-fabs(z)))) / beta;
}

FORMULA float f32_softplus_slope(float x, float beta, float threshold)
{
    const float z = x * beta;
    return z > threshold ? 1.0f : f32_sigmoid(z);
}

FORMULA double f64_softplus_slope(double x, double beta, double threshold)
{
    const double z = x * beta;
    return z > threshold ? 1 : f64_sigmoid(z);
}

/* x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2); from 20 on it is x. */
FORMULA float f32_mish(float x)
{
    const float e = f32_exp(x > 20.0f ? 20.0f : x);
    const float n = e * (e + 2.0f);
    return x * (n / (n + 2.0f));
}

FORMULA double f64_mish(double x)
{
    const double e = exp(x > 40 ? 40 : x);
    const double n = e * (e + 2);
    return x * (n / (n + 2));
}

FORMULA float f32_mish_slope(float x)
{
    const float e = f32_exp(x > 20.0f ? 20.0f : x);
    const float n = e * (e + 2.0f), d = n + 2.0f;
    const float slope = n / d + x * (4.0f * e * (1.0f + e) / (d * d));
    return x > 20.0f ? 1.0f + (x - x) : slope; /* NaN at infinity, as PyTorch's */
}

FORMULA double f64_mish_slope(double x)
{
    const double e = exp(x > 40 ? 40 : x);
    const double n = e * (e + 2), d = n + 2;
    return x > 40 ? 1 + (x - x) : n / d + x * (4 * e * (1 + e) / (d * d));
}

FORMULA float f32_hardswish(float x)
{
    const float shifted = x + 3.0f;
    const float above = shifted < 0.0f ? 0.0f : shifted;
    return x * (above > 6.0f ? 6.0f : above) / 6.0f;
}

FORMULA double f64_hardswish(double x)
{
    const double above = x + 3 < 0 ? 0 : x + 3;
    return x * (above > 6 ? 6 : above) / 6;
}

#endif
