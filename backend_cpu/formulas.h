/* The functions behind elementwise.def, one per float type: f32_<name> and f64_<name>.
 *
 * Scalar, without branches, tables or library calls in f32, so that a compiler turns a loop over
 * one into vector code and so that a GPU backend may include the same file (FORMULA may be defined
 * to the qualifiers that it wants). Measured over all of f32: exp, log and pow are within 1 ulp,
 * tanh and sigmoid 2.5, gelu 7 near zero; where a function nears zero far from x = 0, the error is
 * within 1e-6 of the terms that cancel. Infinities and NaN as in <math.h>. f64 leaves it to the C
 * library.
 *
 * Coefficients: minimax (Remez exchange at 50 digits, own computation) of the error named beside
 * each. Every select is written so that NaN falls through to the arithmetic. */
#ifndef TERN_BACKEND_CPU_FORMULAS_H
#define TERN_BACKEND_CPU_FORMULAS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef FORMULA
#define FORMULA static inline __attribute__((always_inline, unused))
#endif

FORMULA uint32_t f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

FORMULA float f32_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

FORMULA uint64_t f64_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

FORMULA double f64_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

FORMULA float f32_abs(float x)
{
    return fabsf(x);
}
FORMULA float f32_sqrt(float x)
{
    return sqrtf(x);
}
FORMULA double f64_abs(double x)
{
    return fabs(x);
}
FORMULA double f64_sqrt(double x)
{
    return sqrt(x);
}

/* ---- exp in f32 ------------------------------------------------------------------------------ */

/* hi + lo = n ln 2 + r. Adding 1.5 * 2^23 leaves n in the low bits of the sum. */
#define F32_ROUND_SHIFT 12582912.0f
#define F32_LOG2E 1.44269504f
#define F32_LN2_HI 0.693359375f /* 10 bits: n times it is exact */
#define F32_LN2_LO -2.12194440e-4f

/* e^r - 1 for |r| <= ln 2 / 2; error 3.3e-9 of e^r, and small against r for small r. Polynomials
 * are summed in pairs (Estrin): shorter chains of dependent operations keep more in flight. */
FORMULA float f32_exp_less_one(float r)
{
    const float square = r * r;
    const float low = 0.166665147913986641f * r + 0.499999930507708366f;
    const float high = 0.00836941883576155814f * r + 0.0416684567766802274f;
    return ((0.00138131450813236667f * square + high) * square + low) * square + r;
}

/* 2^n of a sum that holds n in its low bits; n in -126 .. 128 (infinity). */
FORMULA float f32_power_of_two(float shifted)
{
    return f32_from_bits((f32_bits(shifted) - 0x4B400000u + 127u) << 23);
}

/* e^(hi + lo) for hi + lo in -87.3 .. 89 and small lo; infinity from 88.4 on. */
FORMULA float f32_exp_sum(float hi, float lo)
{
    const float shifted = hi * F32_LOG2E + F32_ROUND_SHIFT;
    const float n = shifted - F32_ROUND_SHIFT;
    const float r = (hi - n * F32_LN2_HI) + (lo - n * F32_LN2_LO);
    return (f32_exp_less_one(r) + 1.0f) * f32_power_of_two(shifted);
}

/* e^x where results that would be denormal or above 2.4e38 need not be right: those are 1.2e-38 or
 * infinity. */
FORMULA float f32_exp_normal(float x)
{
    float c = x > 89.0f ? 89.0f : x;
    c = c < -87.3f ? -87.3f : c;
    return f32_exp_sum(c, 0.0f);
}

FORMULA float f32_exp(float x)
{
    float c = x > 89.0f ? 89.0f : x;
    c = c < -104.0f ? -104.0f : c;
    const float shifted = c * F32_LOG2E + F32_ROUND_SHIFT;
    const float n = shifted - F32_ROUND_SHIFT;
    const float r = (c - n * F32_LN2_HI) - n * F32_LN2_LO;
    /* Half of the exponent at a time, so that denormal and largest results come out. */
    const uint32_t whole = f32_bits(shifted) - 0x4B400000u;
    const uint32_t half = (uint32_t)((int32_t)whole >> 1);
    const float first = f32_from_bits((half + 127u) << 23);
    const float second = f32_from_bits((whole - half + 127u) << 23);
    return (f32_exp_less_one(r) + 1.0f) * first * second;
}

/* ---- log in f32 ------------------------------------------------------------------------------ */

/* x > 0 is 2^e (1 + f) with 1 + f in sqrt(1/2) .. sqrt(2); returns log(1 + f) - f. */
FORMULA float f32_log_split(float x, float *out_e, float *out_f)
{
    const int tiny = x < 1.17549435e-38f;
    const float scaled = tiny ? x * 8388608.0f : x;
    const uint32_t bits = f32_bits(scaled);
    const uint32_t above = bits - 0x3F3504F3u;
    const float m = f32_from_bits((above & 0x007FFFFFu) + 0x3F3504F3u);
    const float f = m - 1.0f;
    /* (log(1 + f) - f + f^2 / 2) / f^3; error 1.5e-9 */
    const float f2 = f * f, f4 = f2 * f2;
    const float p0 = -0.249999838460174263f * f + 0.333333140401592882f;
    const float p2 = -0.166694836625070624f * f + 0.200021872752414832f;
    const float p4 = -0.123774869651593942f * f + 0.142171175529107624f;
    const float p6 = -0.118467356165893905f * f + 0.118887990675316835f;
    const float upper = (0.0693729269311632332f * f4 + (p6 * f2 + p4)) * f4;
    const float p = upper + (p2 * f2 + p0);
    *out_e = (float)((int32_t)above >> 23) - (tiny ? 23.0f : 0.0f);
    *out_f = f;
    return (p * f - 0.5f) * f * f;
}

/* A logarithm of x, which `finite` is where x is an ordinary number. */
FORMULA float f32_log_special(float x, float finite)
{
    const float positive = x < INFINITY ? finite : x;
    const float defined = x < 0.0f ? NAN : positive;
    return x == 0.0f ? -INFINITY : defined;
}

FORMULA float f32_log(float x)
{
    float e, f;
    const float past = f32_log_split(x, &e, &f); /* before e is read */
    const float tail = past + e * F32_LN2_LO;
    return f32_log_special(x, (f + tail) + e * F32_LN2_HI);
}

/* log(1 + y) for y > -1, also where 1 + y is rounded. */
FORMULA float f32_log_one_more(float y)
{
    const float u = 1.0f + y;
    const float ratio = y / (u - 1.0f);
    return u == 1.0f ? y : f32_log(u) * (u - 1.0f == 0.0f ? 1.0f : ratio);
}

/* ---- atan in f32 ----------------------------------------------------------------------------- */

/* atan of t in [0, 1]; error 1.5e-8 of it */
FORMULA float f32_atan_of_ratio(float t)
{
    const float z = t * t, z2 = z * z;
    const float p0 = -0.333330733409031097f * z + 0.999999984766096005f;
    const float p2 = -0.142036439569780923f * z + 0.19992619313694229f;
    const float p4 = -0.0750429169154817355f * z + 0.106409323936775023f;
    const float p6 = -0.0160686152248079108f * z + 0.0426914917678507043f;
    const float p = ((0.00284988687356617482f * z2 + p6) * z2 + p4) * z2 + p2;
    return (p * z2 + p0) * t;
}

/* ---- activations in f32 ---------------------------------------------------------------------- */

FORMULA float f32_tanh(float x)
{
    const float magnitude = fabsf(x);
    const float c = magnitude > 10.0f ? 10.0f : magnitude;
    const float y = c + c;
    const float shifted = y * F32_LOG2E + F32_ROUND_SHIFT;
    const float n = shifted - F32_ROUND_SHIFT;
    const float r = (y - n * F32_LN2_HI) - n * F32_LN2_LO;
    const float scale = f32_power_of_two(shifted);
    /* e^y - 1 without cancellation, so that small x keep their precision */
    const float m = f32_exp_less_one(r) * scale + (scale - 1.0f);
    const float result = m / (m + 2.0f);
    return f32_from_bits((f32_bits(result) & 0x7FFFFFFFu) | (f32_bits(x) & 0x80000000u));
}

FORMULA float f32_sigmoid(float x)
{
    return 1.0f / (1.0f + f32_exp_normal(-x));
}

FORMULA float f32_silu(float x)
{
    return x / (1.0f + f32_exp_normal(-x));
}

FORMULA float f32_silu_slope(float x)
{
    const float e = f32_exp_normal(-fabsf(x));
    const float larger = 1.0f / (1.0f + e);
    const float s = x < 0.0f ? e * larger : larger;
    /* far out e stays above 0, which a huge x would show */
    return fabsf(x) > 100.0f ? s : s + x * (larger * larger * e);
}

/* e^(-t^2 / 2) for t >= 0: t is split so that the square is exact; 1.4e-38 and less beyond 13.2. */
FORMULA float f32_gauss(float t)
{
    const float c = t > 13.2f ? 13.2f : t;
    const float head = f32_from_bits(f32_bits(c) & 0xFFFFF000u);
    return f32_exp_sum(head * head * -0.5f, (head - c) * (head + c) * 0.5f);
}

/* The normal distribution function given gauss = e^(-x^2 / 2). Its tail is gauss times a function
 * of u = 1 / (1 + 0.3 |x|): u times a polynomial, relative error 3.4e-9 up to 13.3. */
FORMULA float f32_normal_cdf(float x, float gauss)
{
    const float t = fabsf(x);
    const float u = 1.0f / (1.0f + 0.3f * t);
    const float u2 = u * u, u4 = u2 * u2;
    const float p0 = 0.11957561481046605f * u + 0.119686482930843246f;
    const float p2 = 0.0785218756513795316f * u + 0.110205540166916467f;
    const float p4 = -0.0787776961908602132f * u + 0.0957932400484223565f;
    const float p6 = -0.227679506519674427f * u + 0.191042000453854407f;
    const float p8 = -0.0205846503239630193f * u + 0.11221709726460616f;
    const float p = ((p8 * u4 + (p6 * u2 + p4)) * u4) + (p2 * u2 + p0);
    const float tail = t > 13.2f ? 0.0f : gauss * (p * u);
    return x < 0.0f ? tail : 1.0f - tail;
}

FORMULA float f32_gelu(float x)
{
    return x * f32_normal_cdf(x, f32_gauss(fabsf(x)));
}

FORMULA float f32_gelu_slope(float x)
{
    const float gauss = f32_gauss(fabsf(x));
    const float density = fabsf(x) > 13.2f ? 0.0f : gauss * 0.398942280f;
    return f32_normal_cdf(x, gauss) + x * density;
}

/* x / 2 (1 + tanh(w)) = x / (1 + e^(-2w)) with 2w = x (k + k3 x^2) */
#define GELU_K 1.59576912160573071176 /* 2 sqrt(2 / pi) */
#define GELU_K3 0.07135481627260025   /* 0.044715 of it */

FORMULA float f32_gelu_tanh(float x)
{
    return x / (1.0f + f32_exp_normal(-x * ((float)GELU_K + (float)GELU_K3 * x * x)));
}

FORMULA float f32_gelu_tanh_slope(float x)
{
    const float square = x * x;
    const float z = x * ((float)GELU_K + (float)GELU_K3 * square);
    const float e = f32_exp_normal(-fabsf(z));
    const float larger = 1.0f / (1.0f + e);
    const float s = z < 0.0f ? e * larger : larger;
    const float rise = x * ((float)GELU_K + 3.0f * (float)GELU_K3 * square);
    /* far out the slope is 0 or 1, and the product a tiny number times infinity */
    return fabsf(x) > 20.0f ? s : s + rise * (larger * larger * e);
}

/* ---- f64 ------------------------------------------------------------------------------------- */

FORMULA double f64_exp(double x)
{
    return exp(x);
}
FORMULA double f64_log(double x)
{
    return log(x);
}
FORMULA double f64_tanh(double x)
{
    return tanh(x);
}
FORMULA double f64_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}
FORMULA double f64_silu(double x)
{
    return x / (1.0 + exp(-x));
}

FORMULA double f64_silu_slope(double x)
{
    const double s = f64_sigmoid(x);
    return s * (1.0 + x * (1.0 - s));
}

FORMULA double f64_gelu(double x)
{
    return 0.5 * x * erfc(x * -0.70710678118654752440);
}

FORMULA double f64_gelu_slope(double x)
{
    const double density = fabs(x) > 40.0 ? 0.0 : exp(x * x * -0.5) * 0.39894228040143267794;
    return 0.5 * erfc(x * -0.70710678118654752440) + x * density;
}

FORMULA double f64_gelu_tanh(double x)
{
    return x / (1.0 + exp(-x * (GELU_K + GELU_K3 * x * x)));
}

FORMULA double f64_gelu_tanh_slope(double x)
{
    const double square = x * x;
    const double s = f64_sigmoid(x * (GELU_K + GELU_K3 * square));
    const double rise = x * (1.0 - s) * (GELU_K + 3.0 * GELU_K3 * square);
    return fabs(x) > 40.0 ? s : s + s * rise;
}

#include "backend_cpu/formulas_binary.h"
#include "backend_cpu/formulas_unary.h"

#endif
