/* Exponentials of the vectors of lanes.h. Only for files in backend_cpu/isa/. */
#ifndef TERN_BACKEND_CPU_ISA_LANES_EXP_H
#define TERN_BACKEND_CPU_ISA_LANES_EXP_H

#include <stdbool.h>

#include "backend_cpu/isa/lanes.h"

/* ---- exp: all of it, denormal results, 0, infinity and NaN included -------------------------- */

/* e^r of c = n ln 2 + r; `out_shifted` has n in its low bits. */
TILE_INLINE f32_lanes f32_lanes_exp_rest(f32_lanes c, f32_lanes *out_shifted)
{
    const f32_lanes shifted = c * F32_LOG2E + F32_ROUND_SHIFT;
    const f32_lanes n = shifted - F32_ROUND_SHIFT;
    const f32_lanes r = (c - n * F32_LN2_HI) - n * F32_LN2_LO;
    /* as f32_exp_less_one: what waits for the longest chain bounds how many are in flight */
    const f32_lanes square = r * r;
    const f32_lanes low = r * 0.166665147913986641f + 0.499999930507708366f;
    const f32_lanes high = r * 0.00836941883576155814f + 0.0416684567766802274f;
    const f32_lanes q = (square * 0.00138131450813236667f + high) * square + low;
    *out_shifted = shifted;
    return q * square + r + 1.0f;
}

#if defined(__AVX512F__)
TILE_INLINE f32_lanes f32_lanes_exp(f32_lanes x)
{
    f32_lanes shifted;
    const f32_lanes c = f32_lanes_min(f32_set(89.0f), f32_lanes_max(f32_set(-104.0f), x));
    const f32_lanes rest = f32_lanes_exp_rest(c, &shifted);
    return (f32_lanes)_mm512_scalef_ps((__m512)rest, (__m512)(shifted - F32_ROUND_SHIFT));
}
#else
/* Half of the exponent at a time, so that denormal results come out. */
TILE_INLINE f32_lanes f32_lanes_exp_far(f32_lanes x)
{
    f32_lanes shifted;
    const f32_lanes c = f32_lanes_min(f32_set(89.0f), f32_lanes_max(f32_set(-104.0f), x));
    const f32_lanes rest = f32_lanes_exp_rest(c, &shifted);
    const u32_lanes whole = (u32_lanes)shifted - 0x4B400000u;
    const u32_lanes half = (u32_lanes)((i32_lanes)whole >> 1);
    return rest * (f32_lanes)((half + 127u) << 23) * (f32_lanes)((whole - half + 127u) << 23);
}

/* Where all results are normal their exponents are added to: the same bits in 0.75 of the time (Zen 3). */
TILE_INLINE f32_lanes f32_lanes_exp(f32_lanes x)
{
    const i32_lanes most = i32_set(0x42AE0000); /* 87.0f; those of NaN are above it, too */
    if (__builtin_expect(i32_lanes_any(((i32_lanes)x & 0x7FFFFFFF) > most), 0))
        return f32_lanes_exp_far(x);
    f32_lanes shifted;
    const f32_lanes rest = f32_lanes_exp_rest(x, &shifted);
    return (f32_lanes)((u32_lanes)rest + ((u32_lanes)shifted << 23));
}
#endif

/* c - n ln 2. The constant's error, 1.9e-9 n, is below 2.4e-7; that of a product rounded by itself would be ten times as
 * much, and gcc without optimisation, or with -Og, fuses none. */
#if defined(__AVX512F__)
TILE_INLINE f32_lanes f32_lanes_exp_less(f32_lanes c, f32_lanes n)
{
    return (f32_lanes)_mm512_fnmadd_ps((__m512)n, _mm512_set1_ps(0.693147182f), (__m512)c);
}
#elif defined(__AVX2__) && defined(__FMA__)
TILE_INLINE f32_lanes f32_lanes_exp_less(f32_lanes c, f32_lanes n)
{
    return (f32_lanes)_mm256_fnmadd_ps((__m256)n, _mm256_set1_ps(0.693147182f), (__m256)c);
}
#endif

/* e^x as a sum's term or a softmax's, in units of f32_lanes_exp_unit(): within 2.2e-7 of it near 0, 4.5e-7 far out,
 * and one unit's inverse, exactly, at 0. From 86.9 on it may be infinity; -inf gives 0, +inf infinity or NaN; what
 * would be denormal may be less, or 0. */
#if defined(__AVX512F__)
/* x = (n + j / 32) ln 2 + r: a polynomial of degree 2 is enough for e^r (error 5.3e-8), and 2^(j/32)
 * comes out of two registers. `out_rest` is e^r, the result 2^(n + j / 32). */
static const _Alignas(64) float f32_lanes_powers[32] = {
    1.0f,        1.0218972f,  1.04427373f, 1.06714046f, 1.09050775f, 1.1143868f,  1.13878858f,
    1.1637249f,  1.18920708f, 1.21524739f, 1.24185777f, 1.26905096f, 1.29683959f, 1.32523668f,
    1.35425556f, 1.38390994f, 1.41421354f, 1.44518077f, 1.47682619f, 1.50916445f, 1.54221082f,
    1.5759809f,  1.61049032f, 1.64575553f, 1.68179286f, 1.71861935f, 1.75625217f, 1.79470909f,
    1.8340081f,  1.87416768f, 1.91520655f, 1.95714414f,
};

#define F32_EXP_32NDS 393216.0f /* 1.5 * 2^18: a sum holds 32 n + j in its low bits */

/* 2^(n + j / 32); the powers, or multiples, of j = 0 to 31. */
TILE_INLINE f32_lanes f32_lanes_table_power(f32_lanes low, f32_lanes high, f32_lanes shifted,
                                            f32_lanes n)
{
    const __m512 power = _mm512_permutex2var_ps((__m512)low, (__m512i)shifted, (__m512)high);
    return (f32_lanes)_mm512_scalef_ps(power, (__m512)n);
}

TILE_INLINE f32_lanes f32_lanes_exp_parts(f32_lanes x, f32_lanes *out_rest)
{
    const f32_lanes c = f32_lanes_max(f32_set(-104.0f), x);
    const f32_lanes shifted = c * F32_LOG2E + F32_EXP_32NDS;
    const f32_lanes n = shifted - F32_EXP_32NDS;
    const f32_lanes r = f32_lanes_exp_less(c, n);
    *out_rest = (r * 0.5f + 1.00001466f) * r + 1.0f;
    return f32_lanes_table_power(f32_load(f32_lanes_powers), f32_load(f32_lanes_powers + 16),
                                 shifted, n);
}

TILE_INLINE float f32_lanes_exp_unit(void)
{
    return 1;
}
#elif defined(__AVX2__) && defined(__FMA__)
/* 2^(n + j / 8) for n of -126 to 128; -127 gives 0, between them it is less, but not below 0. The bits of 2^(j / 8)
 * lack j where the sum brings it. */
TILE_INLINE f32_lanes f32_lanes_split_power(i32_lanes split)
{
    static const _Alignas(32) uint32_t powers[8] = {
        0x3F800000, 0x3F7B95C2, 0x3F7837F0, 0x3F75FED7,
        0x3F7504F3, 0x3F75672A, 0x3F7744FD, 0x3F7AC0C7,
    };
    const __m256i power = _mm256_permutevar8x32_epi32(
        _mm256_load_si256((const __m256i *)(const void *)powers), (__m256i)split);
    return (f32_lanes)((u32_lanes)power + ((u32_lanes)split << 20));
}

/* c = (n + j / 8) ln 2 + r. With y = r + ln 2, e^r is (y + 0.894) (y^2 + 3.27) / 5.947 within 5.6e-8. As a product, without
 * the constant before it and with a square that lacks a linear term, it takes three operations of the units that
 * multiply, where Horner's form takes four. The numbers are such that 1 comes out exactly. */
TILE_INLINE float f32_lanes_exp_unit(void)
{
    return 0.168158308f; /* 1 / 5.94677734375 */
}

#define F32_EXP_EIGHTHS 1572864.0f /* 1.5 * 2^20: a sum is a multiple of 1/8 */
#define F32_EXP_ROOT 0.89432925f
#define F32_EXP_REST 3.26560402f

/* e^c / 2^m, where `eighths` is F32_EXP_EIGHTHS - m. */
TILE_INLINE f32_lanes f32_lanes_exp_factors(f32_lanes c, f32_lanes eighths, f32_lanes *out_rest)
{
    const f32_lanes shifted = c * F32_LOG2E + eighths;
    const f32_lanes power = f32_lanes_split_power((i32_lanes)shifted);
    const f32_lanes y = f32_lanes_exp_less(c, shifted - (eighths + 1.0f));
    const f32_lanes first = power * (y + F32_EXP_ROOT);
    *out_rest = (f32_lanes)_mm256_fmadd_ps((__m256)y, (__m256)y, _mm256_set1_ps(F32_EXP_REST));
    return first;
}

/* For x below 89, or NaN. The bound is -127 ln 2. */
TILE_INLINE f32_lanes f32_lanes_exp_parts(f32_lanes x, f32_lanes *out_rest)
{
    return f32_lanes_exp_factors(f32_lanes_max(f32_set(-88.0296936f), x), f32_set(F32_EXP_EIGHTHS),
                                 out_rest);
}
#else
/* For x below 89, or NaN. Fewer operations and a shorter chain than f32_lanes_exp: minimax of degree 5,
 * error 1.05e-7. */
TILE_INLINE f32_lanes f32_lanes_exp_parts(f32_lanes x, f32_lanes *out_rest)
{
    const float shift = F32_ROUND_SHIFT + 127.0f; /* a sum has 2^n's exponent in its low bits */
    const f32_lanes c = f32_lanes_max(f32_set(-104.0f), x);
    const f32_lanes shifted = c * F32_LOG2E + shift;
    const f32_lanes n = shifted - shift;
    const f32_lanes r = (c - n * F32_LN2_HI) - n * F32_LN2_LO;
    const f32_lanes square = r * r;
    const f32_lanes low = r * 0.166671154f + 0.499992303f;
    const f32_lanes high = r * 0.00831250131f + 0.0418903318f;
    *out_rest = (high * square + low) * square + (r + 1.0f);
    /* the sum of an exponent of 0, which gives 0, stands for those below it, too */
    return (f32_lanes)((u32_lanes)i32_lanes_max((i32_lanes)shifted, i32_set(0x4B400000)) << 23);
}

TILE_INLINE float f32_lanes_exp_unit(void)
{
    return 1;
}
#endif

TILE_INLINE f32_lanes f32_lanes_exp_below(f32_lanes x)
{
    f32_lanes rest;
    const f32_lanes power = f32_lanes_exp_parts(x, &rest);
    return power * rest;
}

TILE_INLINE f64_lanes f64_lanes_power_of_two(f64_lanes n)
{
    const f64_lanes shifted = n + 6755399441055744.0; /* 1.5 * 2^52: n in the low bits */
    return (f64_lanes)(((u64_lanes)shifted + 1023u) << 52);
}

/* Taylor to r^13: the rest is below 5e-18 for |r| <= ln 2 / 2. */
TILE_INLINE f64_lanes f64_lanes_exp(f64_lanes x)
{
    f64_lanes c = f64_lanes_max(f64_set(-746.0), x);
    c = -f64_lanes_max(f64_set(-710.0), -c);
    const f64_lanes shift = f64_set(6755399441055744.0);
    const f64_lanes n = (c * 1.44269504088896340736 + shift) - shift;
    const f64_lanes r = (c - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    f64_lanes q = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
    q = q * r + 1.0 / 39916800.0;
    q = q * r + 1.0 / 3628800.0;
    q = q * r + 1.0 / 362880.0;
    q = q * r + 1.0 / 40320.0;
    q = q * r + 1.0 / 5040.0;
    q = q * r + 1.0 / 720.0;
    q = q * r + 1.0 / 120.0;
    q = q * r + 1.0 / 24.0;
    q = q * r + 1.0 / 6.0;
    q = q * r + 0.5;
    const f64_lanes half = (n * 0.5 + shift) - shift;
    return (q * (r * r) + r + 1.0) * f64_lanes_power_of_two(half) *
           f64_lanes_power_of_two(n - half);
}

TILE_INLINE double f64_lanes_exp_unit(void)
{
    return 1;
}
TILE_INLINE f64_lanes f64_lanes_exp_below(f64_lanes x)
{
    return f64_lanes_exp(x);
}

/* ---- sums of exponentials, e^(x - near) of many x -------------------------------------------- */

/* Terms e^(x - near) in units of _exp_unit(), for any `near`; infinity or NaN where x is 87 above it, or more. */
TILE_INLINE f32_lanes f32_lanes_add_exp_far(f32_lanes sum, f32_lanes x, float near)
{
    f32_lanes rest;
#if defined(__AVX512F__)
    const f32_lanes below = x - near;
#else
    const f32_lanes below = f32_lanes_min(f32_set(89.0f), x - near);
#endif
    const f32_lanes power = f32_lanes_exp_parts(below, &rest);
    return power * rest + sum;
}

/* Such a sum's terms are e^(x - base), in units, with a base near `near` that may be any number, so that nothing need
 * be subtracted from x; it is divided by _exp_scale(), the term of `near`, at the end. _exp_fits(): is there such a base? */
#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
enum { f32_lanes_exp_direct = 1 }; /* whether nothing is */

/* A multiple m of ln 2 / 8, which goes into the exponent by itself. All is NaN where `near` is too far out. */
typedef struct f32_lanes_base {
    f32_lanes eighths, least, most;
    float scale;
} f32_lanes_base;

TILE_INLINE bool f32_lanes_exp_fits(float near)
{
    return near > -65536.0f && near < 65536.0f;
}
TILE_INLINE f32_lanes_base f32_lanes_exp_base(float near)
{
    const float m =
        f32_lanes_exp_fits(near) ? (near * F32_LOG2E + F32_EXP_EIGHTHS) - F32_EXP_EIGHTHS : NAN;
    const float y = fmaf(1.0f - m, 0.693147182f, near);
    return (f32_lanes_base){
        .eighths = f32_set(F32_EXP_EIGHTHS - m),
        .least = f32_set(near - 87.0f),
        .most = f32_set(near + 89.0f),
        .scale = (y + F32_EXP_ROOT) * fmaf(y, y, F32_EXP_REST),
    };
}

/* For x up to 86 above `near`, or NaN; what is 87 below it counts as if it were that. */
TILE_INLINE f32_lanes f32_lanes_add_exp_below(f32_lanes sum, f32_lanes x,
                                              const f32_lanes_base *base)
{
    f32_lanes rest;
    const f32_lanes power =
        f32_lanes_exp_factors(f32_lanes_max(base->least, x), base->eighths, &rest);
    return power * rest + sum;
}

/* For any x: infinity or NaN where one is 87 above `near`, or more. */
TILE_INLINE f32_lanes f32_lanes_add_exp(f32_lanes sum, f32_lanes x, const f32_lanes_base *base)
{
    return f32_lanes_add_exp_below(sum, f32_lanes_min(base->most, x), base);
}

TILE_INLINE float f32_lanes_exp_scale(const f32_lanes_base *base)
{
    return base->scale;
}
#elif defined(__AVX512F__)
enum { f32_lanes_exp_direct = 0 };

/* c = (n + j / 32) ln 2 + r again. With y = r + d ln 2, where d ln 2 is nearly 1, e^r is (y^2 + 0.99995) / 1.9927
 * within 1.3e-7: an operation less than in powers of r, and one of few (ledger). d, 46/32, comes with the number that is
 * subtracted; what is left of n + j / 32 - d lies 46 places back among the powers. */
#define F32_EXP_TURN 1.4375f

/* Multiples of the powers so turned, by 2^-m for the next m above near / ln 2: they are normal, and so are terms from 85 below
 * `near`, which stand for what is further below, to 87 above. */
typedef struct f32_lanes_base {
    f32_lanes low, high, least;
    float scale;
} f32_lanes_base;

TILE_INLINE f32_lanes f32_lanes_add_exp(f32_lanes sum, f32_lanes x, const f32_lanes_base *base)
{
    const f32_lanes c = f32_lanes_max(base->least, x);
    const f32_lanes shifted = c * F32_LOG2E + F32_EXP_32NDS;
    const f32_lanes n = shifted - (F32_EXP_32NDS + F32_EXP_TURN);
    const f32_lanes y = f32_lanes_exp_less(c, n);
    const f32_lanes rest = y * y + 0.999948f;
    return f32_lanes_table_power(base->low, base->high, shifted, n) * rest + sum;
}
TILE_INLINE f32_lanes f32_lanes_add_exp_below(f32_lanes sum, f32_lanes x,
                                              const f32_lanes_base *base)
{
    return f32_lanes_add_exp(sum, x, base);
}
TILE_INLINE bool f32_lanes_exp_fits(float near)
{
    return near > -86.0f && near < 86.0f;
}
TILE_INLINE f32_lanes_base f32_lanes_exp_base(float near)
{
    const __m512 less = _mm512_set1_ps(near * -F32_LOG2E);
    const __m512i low = _mm512_load_si512(f32_lanes_powers);
    const __m512i high = _mm512_load_si512(f32_lanes_powers + 16);
    const __m512 turned_low = _mm512_castsi512_ps(_mm512_alignr_epi32(low, high, 2));
    const __m512 turned_high = _mm512_castsi512_ps(_mm512_alignr_epi32(high, low, 2));
    f32_lanes_base base = {
        .low = (f32_lanes)_mm512_scalef_ps(turned_low, less),
        .high = (f32_lanes)_mm512_scalef_ps(turned_high, less),
        .least = f32_set(near - 85.0f),
    };
    base.scale = f32_lanes_add_exp(f32_set(0), f32_set(near), &base)[0];
    return base;
}
TILE_INLINE float f32_lanes_exp_scale(const f32_lanes_base *base)
{
    return base->scale;
}
#else
enum { f32_lanes_exp_direct = 0 };

typedef struct f32_lanes_base {
    float near;
} f32_lanes_base;

TILE_INLINE f32_lanes_base f32_lanes_exp_base(float near)
{
    return (f32_lanes_base){ near };
}
TILE_INLINE f32_lanes f32_lanes_add_exp_below(f32_lanes sum, f32_lanes x,
                                              const f32_lanes_base *base)
{
    return f32_lanes_exp_below(x - base->near) + sum;
}
TILE_INLINE f32_lanes f32_lanes_add_exp(f32_lanes sum, f32_lanes x, const f32_lanes_base *base)
{
    return f32_lanes_add_exp_far(sum, x, base->near);
}
TILE_INLINE float f32_lanes_exp_scale(const f32_lanes_base *base)
{
    (void)base;
    return f32_lanes_exp_unit();
}
TILE_INLINE bool f32_lanes_exp_fits(float near)
{
    (void)near;
    return true;
}
#endif

enum { f64_lanes_exp_direct = 0 };

typedef struct f64_lanes_base {
    double near;
} f64_lanes_base;

TILE_INLINE f64_lanes_base f64_lanes_exp_base(double near)
{
    return (f64_lanes_base){ near };
}
TILE_INLINE f64_lanes f64_lanes_add_exp_below(f64_lanes sum, f64_lanes x,
                                              const f64_lanes_base *base)
{
    return f64_lanes_exp(x - base->near) + sum;
}
TILE_INLINE f64_lanes f64_lanes_add_exp(f64_lanes sum, f64_lanes x, const f64_lanes_base *base)
{
    return f64_lanes_exp(x - base->near) + sum;
}
TILE_INLINE double f64_lanes_exp_scale(const f64_lanes_base *base)
{
    (void)base;
    return f64_lanes_exp_unit();
}
TILE_INLINE bool f64_lanes_exp_fits(double near)
{
    (void)near;
    return true;
}
TILE_INLINE f64_lanes f64_lanes_add_exp_far(f64_lanes sum, f64_lanes x, double near)
{
    return f64_lanes_exp(x - near) + sum;
}

#endif
