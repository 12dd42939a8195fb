/* Exponentials of the vectors of lanes.h. Only for files in backend_cpu/isa/. */
#ifndef TERN_BACKEND_CPU_ISA_LANES_EXP_H
#define TERN_BACKEND_CPU_ISA_LANES_EXP_H

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

/* e^x as a sum's term or a softmax's: within 2.2e-7 of it near 0, 4.5e-7 far out. From 88.3 on it
 * may be infinity; -inf gives 0, +inf infinity or NaN; what would be denormal may be less, or 0. */
#if defined(__AVX512F__)
/* x = (n + j / 32) ln 2 + r: a polynomial of degree 2 is enough for e^r (error 5.3e-8), and 2^(j/32)
 * comes out of two registers. `out_rest` is e^r, the result 2^(n + j / 32). */
TILE_INLINE f32_lanes f32_lanes_exp_parts(f32_lanes x, f32_lanes *out_rest)
{
    static const _Alignas(64) float powers[32] = {
        1.0f,        1.0218972f,  1.04427373f, 1.06714046f, 1.09050775f, 1.1143868f,  1.13878858f,
        1.1637249f,  1.18920708f, 1.21524739f, 1.24185777f, 1.26905096f, 1.29683959f, 1.32523668f,
        1.35425556f, 1.38390994f, 1.41421354f, 1.44518077f, 1.47682619f, 1.50916445f, 1.54221082f,
        1.5759809f,  1.61049032f, 1.64575553f, 1.68179286f, 1.71861935f, 1.75625217f, 1.79470909f,
        1.8340081f,  1.87416768f, 1.91520655f, 1.95714414f,
    };
    const float shift = 393216.0f; /* 1.5 * 2^18: a sum holds 32 n + j in its low bits */
    const f32_lanes c = f32_lanes_max(f32_set(-104.0f), x);
    const f32_lanes shifted = c * F32_LOG2E + shift;
    const f32_lanes n = shifted - shift;
    const f32_lanes r = f32_lanes_exp_less(c, n);
    *out_rest = (r * 0.5f + 1.00001466f) * r + 1.0f;
    const __m512 power = _mm512_permutex2var_ps(_mm512_load_ps(powers), (__m512i)shifted,
                                                _mm512_load_ps(powers + 16));
    return (f32_lanes)_mm512_scalef_ps(power, (__m512)n);
}

/* For a sum. Far above 0, too, where it is infinity or NaN; e^-87 may stand for what is below it. */
TILE_INLINE f32_lanes f32_lanes_exp_parts_any(f32_lanes x, f32_lanes *out_rest)
{
    return f32_lanes_exp_parts(x, out_rest);
}
#elif defined(__AVX2__) && defined(__FMA__)
/* c = (n + j / 8) ln 2 + r. `out_rest` is e^r by a polynomial of degree 3 (error 2.5e-8), the result 8 n + j beyond
 * 0x49C00000, the bits of 1.5 * 2^20. */
TILE_INLINE i32_lanes f32_lanes_exp_split(f32_lanes c, f32_lanes *out_rest)
{
    const float shift = 1572864.0f; /* 1.5 * 2^20: a sum is a multiple of 1/8 */
    const f32_lanes shifted = c * F32_LOG2E + shift;
    const f32_lanes n = shifted - shift;
    const f32_lanes r = f32_lanes_exp_less(c, n);
    *out_rest = ((r * 0.1666792f + 0.5000648f) * r + 1.0f) * r + 1.0f;
    return (i32_lanes)shifted;
}

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

/* For x below 89, or NaN. The bound is -127 ln 2. */
TILE_INLINE f32_lanes f32_lanes_exp_parts(f32_lanes x, f32_lanes *out_rest)
{
    const f32_lanes c = f32_lanes_max(f32_set(-88.0296936f), x);
    return f32_lanes_split_power(f32_lanes_exp_split(c, out_rest));
}

/* One bound is enough where e^-87 may stand for what is below it. */
TILE_INLINE f32_lanes f32_lanes_exp_parts_any(f32_lanes x, f32_lanes *out_rest)
{
    const f32_lanes c = f32_lanes_max(f32_set(-87.0f), f32_lanes_min(f32_set(89.0f), x));
    return f32_lanes_split_power(f32_lanes_exp_split(c, out_rest));
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

TILE_INLINE f32_lanes f32_lanes_exp_parts_any(f32_lanes x, f32_lanes *out_rest)
{
    return f32_lanes_exp_parts(f32_lanes_min(f32_set(89.0f), x), out_rest);
}
#endif

TILE_INLINE f32_lanes f32_lanes_exp_below(f32_lanes x)
{
    f32_lanes rest;
    const f32_lanes power = f32_lanes_exp_parts(x, &rest);
    return power * rest;
}

/* sum + e^x for any x: below -87 as if it were that, above 88 the sum may be infinity or NaN */
TILE_INLINE f32_lanes f32_lanes_add_exp(f32_lanes sum, f32_lanes x)
{
    f32_lanes rest;
    const f32_lanes power = f32_lanes_exp_parts_any(x, &rest);
    return power * rest + sum;
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

TILE_INLINE f64_lanes f64_lanes_exp_below(f64_lanes x)
{
    return f64_lanes_exp(x);
}
TILE_INLINE f64_lanes f64_lanes_add_exp(f64_lanes sum, f64_lanes x)
{
    return sum + f64_lanes_exp(x);
}

#endif
