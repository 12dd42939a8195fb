/* Functions of two numbers behind elementwise.def, and of a third that is made of them: part of formulas.h,
 * which has the rules. */
#ifndef TERN_BACKEND_CPU_FORMULAS_BINARY_H
#define TERN_BACKEND_CPU_FORMULAS_BINARY_H

#include "backend_cpu/formulas.h"

/* ---- losses of a probability or a logit x and its target t ------------------------------------ */

FORMULA float f32_binary_cross_entropy(float x, float t)
{
    const float yes = f32_log(x), no = f32_log_one_more(-x);
    /* a loss of 100 at most, so that 0 and 1 have gradients; NaN stays */
    return (t - 1.0f) * (no < -100.0f ? -100.0f : no) - t * (yes < -100.0f ? -100.0f : yes);
}

/* An infinite x against a target below 1 is infinitely wrong: inf, and not inf - inf. */
FORMULA float f32_binary_cross_entropy_with_logits(float x, float t)
{
    const float smooth = f32_log_one_more(f32_exp_normal(-fabsf(x)));
    return (x < INFINITY ? (x > 0.0f ? x : 0.0f) - x * t : (1.0f - t) * x) + smooth;
}

FORMULA double f64_binary_cross_entropy(double x, double t)
{
    const double yes = log(x), no = log1p(-x);
    return (t - 1) * (no < -100 ? -100 : no) - t * (yes < -100 ? -100 : yes);
}

FORMULA double f64_binary_cross_entropy_with_logits(double x, double t)
{
    const double smooth = log1p(exp(-fabs(x)));
    return (x < (double)INFINITY ? (x > 0 ? x : 0) - x * t : (1 - t) * x) + smooth;
}

/* t log t - t x of a probability t */
FORMULA float f32_kl_div(float x, float t)
{
    return (t == 0.0f ? 0.0f : t * f32_log(t)) - t * x;
}

FORMULA double f64_kl_div(double x, double t)
{
    return (t == 0 ? 0 : t * log(t)) - t * x;
}

/* A parabola up to a width, from there on lines of a slope: the parabola's factor, also of no width's end. */
FORMULA float f32_curvature(float width, float slope)
{
    return width == slope ? 1.0f : slope / width;
}
FORMULA double f64_curvature(double width, double slope)
{
    return width == slope ? 1 : slope / width;
}
/* In this order nothing overflows that the result does not. */
FORMULA float f32_huber(float d, float width, float slope)
{
    const float size = fabsf(d), steep = d * f32_curvature(width, slope);
    return size < width ? 0.5f * d * steep : slope * (size - 0.5f * width);
}
FORMULA double f64_huber(double d, double width, double slope)
{
    const double size = fabs(d), steep = d * f64_curvature(width, slope);
    return size < width ? 0.5 * d * steep : slope * (size - 0.5 * width);
}
/* its slope; NaN stays */
FORMULA float f32_huber_slope(float d, float width, float slope)
{
    const float up = d > 0.0f ? slope : d, line = d < 0.0f ? -slope : up;
    return fabsf(d) < width ? d * f32_curvature(width, slope) : line;
}
FORMULA double f64_huber_slope(double d, double width, double slope)
{
    const double up = d > 0 ? slope : d, line = d < 0 ? -slope : up;
    return fabs(d) < width ? d * f64_curvature(width, slope) : line;
}

/* ---- division with a whole quotient -------------------------------------------------------------- */

FORMULA float f32_fmod(float x, float y)
{
    return fmodf(x, y);
}
FORMULA double f64_fmod(double x, double y)
{
    return fmod(x, y);
}

/* The same from the other side where signs differ: as Python's %. */
FORMULA float f32_floored(float mod, float y)
{
    return ((mod != 0.0f) & ((mod < 0.0f) != (y < 0.0f))) ? mod + y : mod;
}
FORMULA double f64_floored(double mod, double y)
{
    return ((mod != 0) & ((mod < 0) != (y < 0))) ? mod + y : mod;
}

/* The quotient without its rest is whole but for its rounding. As Python's //. */
FORMULA float f32_quotient(float x, float y, float mod)
{
    const float below = ((mod != 0.0f) & ((mod < 0.0f) != (y < 0.0f))) ? 1.0f : 0.0f;
    const float quotient = (x - mod) / y - below;
    const float whole = floorf(quotient);
    const float nearest = quotient - whole > 0.5f ? whole + 1.0f : whole;
    const float zero = f32_from_bits((f32_bits(x) ^ f32_bits(y)) & 0x80000000u);
    const float ordinary = quotient == 0.0f ? zero : nearest;
    return y == 0.0f ? x / y : ordinary;
}
FORMULA double f64_quotient(double x, double y, double mod)
{
    const double below = ((mod != 0) & ((mod < 0) != (y < 0))) ? 1 : 0;
    const double quotient = (x - mod) / y - below;
    const double whole = floor(quotient);
    const double nearest = quotient - whole > 0.5 ? whole + 1 : whole;
    const double ordinary = quotient == 0 ? copysign(0.0, x / y) : nearest;
    return y == 0 ? x / y : ordinary;
}

/* Integers: by 0 the quotient is 0 and all is left over; the most negative by -1 wraps. */
#define WHOLE_DIVISION(name, S, U)                                        \
    FORMULA S name##_fmod(S a, S b)                                       \
    {                                                                     \
        return b == 0 ? a : b == -1 ? 0 : a % b;                          \
    }                                                                     \
    FORMULA S name##_remainder(S a, S b)                                  \
    {                                                                     \
        const S mod = name##_fmod(a, b);                                  \
        return ((b != 0) & (mod != 0) & ((mod ^ b) < 0)) ? mod + b : mod; \
    }                                                                     \
    FORMULA S name##_floor_div(S a, S b)                                  \
    {                                                                     \
        if (b == 0)                                                       \
            return 0;                                                     \
        if (b == -1)                                                      \
            return (S)(0 - (U)a);                                         \
        return a / b - ((a % b != 0) & ((a ^ b) < 0));                    \
    }
WHOLE_DIVISION(i32, int32_t, uint32_t)
WHOLE_DIVISION(i64, int64_t, uint64_t)
#undef WHOLE_DIVISION

/* ---- angles and lengths ------------------------------------------------------------------------ */

FORMULA float f32_atan2(float y, float x)
{
    const float ax = fabsf(x), ay = fabsf(y);
    const float larger = ax < ay ? ay : ax, smaller = ax < ay ? ax : ay;
    const float ratio = larger == 0.0f ? 0.0f : smaller / larger;
    const float t = smaller == INFINITY ? 1.0f : ratio;
    const float low = f32_atan_of_ratio(t);
    const float steep = ax < ay ? (1.57079637f - low) - 4.37113883e-8f : low;
    const float front = f32_bits(x) >> 31 ? (3.14159274f - steep) - 8.74227766e-8f : steep;
    const float angle =
        f32_from_bits((f32_bits(front) & 0x7FFFFFFFu) | (f32_bits(y) & 0x80000000u));
    return ((x != x) | (y != y)) ? x + y : angle;
}
FORMULA double f64_atan2(double y, double x)
{
    return atan2(y, x);
}

/* Scaled by the longer side, so that no square overflows or vanishes. */
FORMULA float f32_hypot(float x, float y)
{
    const float ax = fabsf(x), ay = fabsf(y);
    const float larger = ax < ay ? ay : ax, smaller = ax < ay ? ax : ay;
    const float ratio = larger == 0.0f ? 0.0f : smaller / larger;
    const float length = larger * sqrtf(ratio * ratio + 1.0f);
    const float finite = ((x != x) | (y != y)) ? x + y : length;
    return ((ax == INFINITY) | (ay == INFINITY)) ? INFINITY : finite;
}
FORMULA double f64_hypot(double x, double y)
{
    return hypot(x, y);
}

/* ---- powers ---------------------------------------------------------------------------------- */

/* log2 of a finite x > 0 that is normal as a double; error 2.7e-14. */
FORMULA double f64_log2_near(double x)
{
    const uint64_t above = f64_bits(x) - 0x3FE6A09E667F3BCDu;
    const double m = f64_from_bits((above & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu);
    /* the exponent as a double, by its bits: 64-bit conversions are not in every instruction set */
    const uint64_t biased = (above + 0x4330000000000000u) >> 52;
    const double e = f64_from_bits(0x4330000000000000u | biased) - (4503599627370496.0 + 0x433);
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double p = 0.282920904708003057;
    p = p * z + 0.319904321960400569;
    p = p * z + 0.412209283889530987;
    p = p * z + 0.577077942074505951;
    p = p * z + 0.96179669411426084;
    p = p * z + 2.88539008177784954;
    return e + s * p;
}

/* 2^x for -1000 <= x <= 1000; error 4e-11. */
FORMULA double f64_exp2_near(double x)
{
    const double shifted = x + 6755399441055744.0;
    const double r = x - (shifted - 6755399441055744.0);
    const double scale = f64_from_bits((f64_bits(shifted) + 1023u) << 52);
    double p = 0.0000152019232278869171;
    p = p * r + 0.000154692911488946333;
    p = p * r + 0.00133339225562943514;
    p = p * r + 0.00961802725364381069;
    p = p * r + 0.055504103534569235;
    p = p * r + 0.240226511981578894;
    p = p * r + 0.693147180728444573;
    return (p * r + 0.999999999961681759) * scale;
}

FORMULA float f32_pow(float x, float y)
{
    const float magnitude = fabsf(x);
    const double ordinary = f64_log2_near((double)(magnitude > 0.0f ? magnitude : 1.0f));
    const double bounded = magnitude < INFINITY ? ordinary : (double)magnitude;
    const double log2x = magnitude == 0.0f ? -(double)INFINITY : bounded;
    double exponent = log2x * (double)y;
    exponent = exponent > 1000.0 ? 1000.0 : exponent;
    exponent = exponent < -1000.0 ? -1000.0 : exponent;
    const float size = (float)f64_exp2_near(exponent);
    const int whole = floorf(y) == y;
    const int odd = whole & (floorf(y * 0.5f) != y * 0.5f) & (fabsf(y) < INFINITY);
    const uint32_t sign = odd ? f32_bits(x) & 0x80000000u : 0u;
    const float signed_size = f32_from_bits(f32_bits(size) | sign);
    const int undefined = (x < 0.0f) & (whole == 0) & (magnitude < INFINITY);
    const float general = undefined ? NAN : signed_size;
    const int one = (x == 1.0f) | (y == 0.0f) | ((magnitude == 1.0f) & (fabsf(y) == INFINITY));
    return one ? 1.0f : general;
}
FORMULA double f64_pow(double x, double y)
{
    return pow(x, y);
}

#endif
