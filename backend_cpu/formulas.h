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
    const float tail = f32_log_split(x, &e, &f) + e * F32_LN2_LO;
    return f32_log_special(x, (f + tail) + e * F32_LN2_HI);
}

/* log(1 + y) for y > -1, also where 1 + y is rounded. */
FORMULA float f32_log_one_more(float y)
{
    const float u = 1.0f + y;
    const float ratio = y / (u - 1.0f);
    return u == 1.0f ? y : f32_log(u) * (u - 1.0f == 0.0f ? 1.0f : ratio);
}

/* ---- losses of a probability or a logit x and its target t ------------------------------------ */

FORMULA float f32_binary_cross_entropy(float x, float t)
{
    const float yes = f32_log(x), no = f32_log_one_more(-x);
    /* a loss of 100 at most, so that 0 and 1 have gradients; NaN stays */
    return (t - 1.0f) * (no < -100.0f ? -100.0f : no) - t * (yes < -100.0f ? -100.0f : yes);
}

FORMULA float f32_binary_cross_entropy_with_logits(float x, float t)
{
    const float smooth = f32_log_one_more(f32_exp_normal(-fabsf(x)));
    return (x > 0.0f ? x : 0.0f) - x * t + smooth;
}

FORMULA double f64_binary_cross_entropy(double x, double t)
{
    const double yes = log(x), no = log1p(-x);
    return (t - 1) * (no < -100 ? -100 : no) - t * (yes < -100 ? -100 : yes);
}

FORMULA double f64_binary_cross_entropy_with_logits(double x, double t)
{
    return (x > 0 ? x : 0) - x * t + log1p(exp(-fabs(x)));
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

/* d^2 / 2 up to a width, then straight on */
FORMULA float f32_huber(float d, float width)
{
    const float size = fabsf(d);
    return size < width ? 0.5f * d * d : width * (size - 0.5f * width);
}
FORMULA double f64_huber(double d, double width)
{
    const double size = fabs(d);
    return size < width ? 0.5 * d * d : width * (size - 0.5 * width);
}
/* its slope */
FORMULA float f32_cut(float d, float width)
{
    const float low = d < -width ? -width : d;
    return low > width ? width : low;
}
FORMULA double f64_cut(double d, double width)
{
    const double low = d < -width ? -width : d;
    return low > width ? width : low;
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
FORMULA double f64_pow(double x, double y)
{
    return pow(x, y);
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

#include "backend_cpu/formulas_unary.h"

#endif
