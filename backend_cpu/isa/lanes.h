/* Arithmetic on the vectors of tile.h that kernels over rows need, beside their loads and stores
 * (lanes_memory.h). Only for files in backend_cpu/isa/. It is named by its lanes: f32_lanes_*, f64_lanes_*. */
#ifndef TERN_BACKEND_CPU_ISA_LANES_H
#define TERN_BACKEND_CPU_ISA_LANES_H

#include "backend_cpu/isa/lanes_memory.h"

TILE_INLINE f32_lanes f32_lanes_splat(float x)
{
    return f32_set(x);
}
TILE_INLINE f64_lanes f64_lanes_splat(double x)
{
    return f64_set(x);
}

/* 0, 1, 2, ... */
TILE_INLINE i32_lanes f32_lanes_iota(void)
{
    static const int32_t numbers[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    i32_lanes v;
    memcpy(&v, numbers, sizeof v);
    return v;
}
TILE_INLINE i64_lanes f64_lanes_iota(void)
{
    static const int64_t numbers[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    i64_lanes v;
    memcpy(&v, numbers, sizeof v);
    return v;
}

/* ---- sum + a b: one rounding where the CPU has fused multiply-add ---------------------------- */

/* Said to the compiler where it would fuse some products and not others: clang does so without optimisation, and
 * gcc for aarch64 where a product has two uses. */
#if defined(__clang__) && defined(__AVX512F__)
TILE_INLINE f32_lanes f32_add_product(f32_lanes sum, f32_lanes a, f32_lanes b)
{
    return (f32_lanes)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
}
TILE_INLINE f64_lanes f64_add_product(f64_lanes sum, f64_lanes a, f64_lanes b)
{
    return (f64_lanes)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)sum);
}
#elif defined(__clang__) && defined(__FMA__)
TILE_INLINE f32_lanes f32_add_product(f32_lanes sum, f32_lanes a, f32_lanes b)
{
    return (f32_lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
}
TILE_INLINE f64_lanes f64_add_product(f64_lanes sum, f64_lanes a, f64_lanes b)
{
    return (f64_lanes)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)sum);
}
#elif defined(__aarch64__)
TILE_INLINE f32_lanes f32_add_product(f32_lanes sum, f32_lanes a, f32_lanes b)
{
    return (f32_lanes)vfmaq_f32((float32x4_t)sum, (float32x4_t)a, (float32x4_t)b);
}
TILE_INLINE f64_lanes f64_add_product(f64_lanes sum, f64_lanes a, f64_lanes b)
{
    return (f64_lanes)vfmaq_f64((float64x2_t)sum, (float64x2_t)a, (float64x2_t)b);
}
#else
TILE_INLINE f32_lanes f32_add_product(f32_lanes sum, f32_lanes a, f32_lanes b)
{
    return sum + a * b;
}
TILE_INLINE f64_lanes f64_add_product(f64_lanes sum, f64_lanes a, f64_lanes b)
{
    return sum + a * b;
}
#endif

/* ---- maximum: b where either is NaN ---------------------------------------------------------- */

TILE_INLINE f32_lanes f32_lanes_max(f32_lanes a, f32_lanes b)
{
#if defined(__AVX512F__)
    return (f32_lanes)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (f32_lanes)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (f32_lanes)_mm_max_ps((__m128)a, (__m128)b);
#else
    const i32_lanes above = a > b;
    return (f32_lanes)(((i32_lanes)a & above) | ((i32_lanes)b & ~above));
#endif
}

/* minimum: b where either is NaN */
TILE_INLINE f32_lanes f32_lanes_min(f32_lanes a, f32_lanes b)
{
#if defined(__AVX512F__)
    return (f32_lanes)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (f32_lanes)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (f32_lanes)_mm_min_ps((__m128)a, (__m128)b);
#else
    return -f32_lanes_max(-a, -b);
#endif
}

TILE_INLINE f64_lanes f64_lanes_max(f64_lanes a, f64_lanes b)
{
#if defined(__AVX512F__)
    return (f64_lanes)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX__)
    return (f64_lanes)_mm256_max_pd((__m256d)a, (__m256d)b);
#elif defined(__SSE2__)
    return (f64_lanes)_mm_max_pd((__m128d)a, (__m128d)b);
#else
    const i64_lanes above = a > b;
    return (f64_lanes)(((i64_lanes)a & above) | ((i64_lanes)b & ~above));
#endif
}

/* ---- one number of all lanes ----------------------------------------------------------------- */

TILE_INLINE float f32_lanes_sum(f32_lanes v)
{
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#elif defined(__AVX__)
    __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
#else
    return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

TILE_INLINE double f64_lanes_sum(f64_lanes v)
{
#if defined(__AVX512F__)
    return _mm512_reduce_add_pd((__m512d)v);
#elif defined(__AVX__)
    return (v[0] + v[2]) + (v[1] + v[3]);
#else
    return v[0] + v[1];
#endif
}

TILE_INLINE float f32_lanes_largest(f32_lanes v)
{
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#elif defined(__AVX__)
    __m128 s = _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
#else
    const float a = v[0] > v[2] ? v[0] : v[2];
    const float b = v[1] > v[3] ? v[1] : v[3];
    return a > b ? a : b;
#endif
}

TILE_INLINE double f64_lanes_largest(f64_lanes v)
{
    double m = v[0];
    for (int i = 1; i < TILE_F64_LANES; i++)
        m = v[i] > m ? v[i] : m;
    return m;
}

/* ---- f32 lanes as f64 ------------------------------------------------------------------------ */

TILE_INLINE f64_lanes f32_lanes_widen_low(f32_lanes v)
{
#if defined(__AVX512F__)
    return (f64_lanes)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
#elif defined(__AVX__)
    return (f64_lanes)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
#elif defined(__SSE2__)
    return (f64_lanes)_mm_cvtps_pd((__m128)v);
#else
    return (f64_lanes){ v[0], v[1] };
#endif
}
TILE_INLINE f64_lanes f32_lanes_widen_high(f32_lanes v)
{
#if defined(__AVX512F__)
    return (f64_lanes)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
#elif defined(__AVX__)
    return (f64_lanes)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
#elif defined(__SSE2__)
    return (f64_lanes)_mm_cvtps_pd(_mm_movehl_ps((__m128)v, (__m128)v));
#else
    return (f64_lanes){ v[2], v[3] };
#endif
}

/* Two vectors of f64 as one of f32. */
TILE_INLINE f32_lanes f32_lanes_narrow(f64_lanes low, f64_lanes high)
{
#if defined(__AVX512F__)
    const __m512 both = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low));
    return (f32_lanes)_mm512_insertf32x8(both, _mm512_cvtpd_ps((__m512d)high), 1);
#elif defined(__AVX__)
    return (f32_lanes)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)high),
                                      _mm256_cvtpd_ps((__m256d)low));
#elif defined(__SSE2__)
    return (f32_lanes)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)low), _mm_cvtpd_ps((__m128d)high));
#else
    return (f32_lanes){ (float)low[0], (float)low[1], (float)high[0], (float)high[1] };
#endif
}

TILE_INLINE i32_lanes i32_set(int32_t x)
{
    return x - (i32_lanes){ 0 };
}

TILE_INLINE i32_lanes i32_lanes_max(i32_lanes a, i32_lanes b)
{
#if defined(__AVX2__) && !defined(__AVX512F__)
    return (i32_lanes)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    const i32_lanes above = a > b;
    return (a & above) | (b & ~above);
#endif
}

/* Is some lane of a comparison true? */
TILE_INLINE bool i32_lanes_any(i32_lanes mask)
{
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX__)
    return _mm256_movemask_ps((__m256)mask) != 0;
#elif defined(__SSE2__)
    return _mm_movemask_ps((__m128)mask) != 0;
#else
    return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
#endif
}

/* ---- lanes from n on become `value` ---------------------------------------------------------- */

TILE_INLINE f32_lanes f32_lanes_fill(f32_lanes v, int64_t n, float value)
{
#if defined(__AVX512F__)
    return (f32_lanes)_mm512_mask_blend_ps(f32_first(n), _mm512_set1_ps(value), (__m512)v);
#elif defined(__AVX__)
    return (f32_lanes)_mm256_blendv_ps(_mm256_set1_ps(value), (__m256)v, (__m256)f32_first(n));
#else
    for (int64_t i = n; i < TILE_F32_LANES; i++)
        v[i] = value;
    return v;
#endif
}

TILE_INLINE f64_lanes f64_lanes_fill(f64_lanes v, int64_t n, double value)
{
#if defined(__AVX512F__)
    return (f64_lanes)_mm512_mask_blend_pd(f64_first(n), _mm512_set1_pd(value), (__m512d)v);
#elif defined(__AVX__)
    return (f64_lanes)_mm256_blendv_pd(_mm256_set1_pd(value), (__m256d)v, (__m256d)f64_first(n));
#else
    for (int64_t i = n; i < TILE_F64_LANES; i++)
        v[i] = value;
    return v;
#endif
}

#endif
