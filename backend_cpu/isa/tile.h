/* Vectors of the instruction set that a file is compiled for, for kernels that hold a tile of
 * results in registers. Only for files in backend_cpu/isa/.
 *
 * x_lanes is a vector of TILE_<X>_LANES floats or doubles; x_mask says that the first n of a
 * vector's lanes count (x_first). Masked loads give 0 in the others and touch no memory there; they
 * are as fast as others where TILE_MASKED is 1, else many times slower. */
#ifndef TERN_BACKEND_CPU_ISA_TILE_H
#define TERN_BACKEND_CPU_ISA_TILE_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { TILE_BYTES = 64, TILE_MASKED = 1 };
#elif defined(__AVX__)
enum { TILE_BYTES = 32, TILE_MASKED = 1 };
#else
enum { TILE_BYTES = 16, TILE_MASKED = 0 };
#endif
enum { TILE_F32_LANES = TILE_BYTES / 4, TILE_F64_LANES = TILE_BYTES / 8 };

#define TILE_INLINE static inline __attribute__((always_inline, unused))

/* Loops over registers must disappear: their bounds are constants once a tile is inlined. Sanitizers keep them
 * (TERN_ROLLED, cmake/flags.cmake). */
#if defined(TERN_ROLLED)
#define TILE_UNROLL
#define TILE_TWICE
#elif defined(__clang__)
#define TILE_UNROLL _Pragma("clang loop unroll(full)")
#define TILE_TWICE _Pragma("clang loop unroll_count(2)")
#else
#define TILE_UNROLL _Pragma("GCC unroll 32")
#define TILE_TWICE _Pragma("GCC unroll 2")
#endif

/* Keeps gcc from reading a vector from memory again at each use. */
#if defined(__AVX512F__)
#define TILE_IN_REGISTER(v) __asm__("" : "+v"(v))
#elif defined(__x86_64__)
#define TILE_IN_REGISTER(v) __asm__("" : "+x"(v))
#elif defined(__aarch64__)
#define TILE_IN_REGISTER(v) __asm__("" : "+w"(v))
#else
#define TILE_IN_REGISTER(v) ((void)0)
#endif

/* A number or pointer of which the compiler shall know nothing more. */
#define TILE_OPAQUE(x) __asm__("" : "+r"(x))

/* Hands a pointer through memory: loads through it begin some cycles later than they could. */
#define TILE_LATER(p) __asm__ volatile("" : "+m"(p))

typedef float f32_lanes __attribute__((vector_size(TILE_BYTES)));
typedef double f64_lanes __attribute__((vector_size(TILE_BYTES)));
typedef float f32_lanes_any __attribute__((vector_size(TILE_BYTES), aligned(4), may_alias));
typedef double f64_lanes_any __attribute__((vector_size(TILE_BYTES), aligned(8), may_alias));

TILE_INLINE f32_lanes f32_load(const float *p)
{
    return *(const f32_lanes_any *)(const void *)p;
}
TILE_INLINE f64_lanes f64_load(const double *p)
{
    return *(const f64_lanes_any *)(const void *)p;
}
TILE_INLINE void f32_store(float *p, f32_lanes v)
{
    *(f32_lanes_any *)(void *)p = v;
}
TILE_INLINE void f64_store(double *p, f64_lanes v)
{
    *(f64_lanes_any *)(void *)p = v;
}
TILE_INLINE f32_lanes f32_set(float x)
{
    return x - (f32_lanes){ 0 };
}
TILE_INLINE f64_lanes f64_set(double x)
{
    return x - (f64_lanes){ 0 };
}

/* ---- sums over lanes ------------------------------------------------------------------------- */

#if defined(__AVX512F__)
TILE_INLINE float f32_total(f32_lanes v)
{
    return _mm512_reduce_add_ps((__m512)v);
}
TILE_INLINE double f64_total(f64_lanes v)
{
    return _mm512_reduce_add_pd((__m512d)v);
}
#elif defined(__AVX__)
TILE_INLINE float f32_total(f32_lanes v)
{
    const __m128 a =
        _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    const __m128 b = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
TILE_INLINE double f64_total(f64_lanes v)
{
    const __m128d a =
        _mm_add_pd(_mm256_castpd256_pd128((__m256d)v), _mm256_extractf128_pd((__m256d)v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(a, _mm_unpackhi_pd(a, a)));
}
#else
TILE_INLINE float f32_total(f32_lanes v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}
TILE_INLINE double f64_total(f64_lanes v)
{
    return v[0] + v[1];
}
#endif

/* Four of them at once; a tree over all four shuffles a third as often as four trees. */
#if defined(__AVX512F__)
TILE_INLINE void f32_totals4(float *out, const f32_lanes *v)
{
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512)v[0], (__m512)v[1]),
                                    _mm512_unpackhi_ps((__m512)v[0], (__m512)v[1]));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512)v[2], (__m512)v[3]),
                                    _mm512_unpackhi_ps((__m512)v[2], (__m512)v[3]));
    const __m512 abcd = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), /* low halves */
                                      _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256(abcd),
                      _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(abcd), 1)));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
#elif defined(__AVX__)
TILE_INLINE void f32_totals4(float *out, const f32_lanes *v)
{
    const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps((__m256)v[0], (__m256)v[1]),
                                    _mm256_unpackhi_ps((__m256)v[0], (__m256)v[1]));
    const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps((__m256)v[2], (__m256)v[3]),
                                    _mm256_unpackhi_ps((__m256)v[2], (__m256)v[3]));
    const __m256 abcd =
        _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
}
#else
TILE_INLINE void f32_totals4(float *out, const f32_lanes *v)
{
    for (int i = 0; i < 4; i++)
        out[i] = f32_total(v[i]);
}
#endif
TILE_INLINE void f64_totals4(double *out, const f64_lanes *v)
{
    for (int i = 0; i < 4; i++)
        out[i] = f64_total(v[i]);
}

/* ---- the first n lanes ----------------------------------------------------------------------- */

#if defined(__AVX512F__)

typedef __mmask16 f32_mask;
typedef __mmask8 f64_mask;
TILE_INLINE f32_mask f32_first(int64_t n)
{
    return (f32_mask)((1u << n) - 1u);
}
TILE_INLINE f64_mask f64_first(int64_t n)
{
    return (f64_mask)((1u << n) - 1u);
}
TILE_INLINE f32_lanes f32_load_part(const float *p, f32_mask m)
{
    return (f32_lanes)_mm512_maskz_loadu_ps(m, p);
}
TILE_INLINE f64_lanes f64_load_part(const double *p, f64_mask m)
{
    return (f64_lanes)_mm512_maskz_loadu_pd(m, p);
}
TILE_INLINE void f32_store_part(float *p, f32_mask m, f32_lanes v)
{
    _mm512_mask_storeu_ps(p, m, (__m512)v);
}
TILE_INLINE void f64_store_part(double *p, f64_mask m, f64_lanes v)
{
    _mm512_mask_storeu_pd(p, m, (__m512d)v);
}

#elif defined(__AVX__)

typedef __m256i f32_mask;
typedef __m256i f64_mask;
TILE_INLINE f32_mask f32_first(int64_t n)
{
    static const int32_t ones[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - n));
}
TILE_INLINE f64_mask f64_first(int64_t n)
{
    return f32_first(2 * n);
}
TILE_INLINE f32_lanes f32_load_part(const float *p, f32_mask m)
{
    return (f32_lanes)_mm256_maskload_ps(p, m);
}
TILE_INLINE f64_lanes f64_load_part(const double *p, f64_mask m)
{
    return (f64_lanes)_mm256_maskload_pd(p, m);
}
/* AMD's masked stores take some 20 cycles: the same in up to three. */
TILE_INLINE void f32_store_part(float *p, f32_mask m, f32_lanes v)
{
    int some = _mm256_movemask_ps(_mm256_castsi256_ps(m));
    __m128 x = _mm256_castps256_ps128((__m256)v);
    if (some == 0xFF) {
        f32_store(p, v);
        return;
    }
    if (some & 8) {
        _mm_storeu_ps(p, x);
        x = _mm256_extractf128_ps((__m256)v, 1);
        p += 4;
        some >>= 4;
    }
    if (some & 2) {
        _mm_storel_pi((__m64 *)(void *)p, x);
        x = _mm_movehl_ps(x, x);
        p += 2;
        some >>= 2;
    }
    if (some & 1)
        _mm_store_ss(p, x);
}
TILE_INLINE void f64_store_part(double *p, f64_mask m, f64_lanes v)
{
    int some = _mm256_movemask_pd(_mm256_castsi256_pd(m));
    __m128d x = _mm256_castpd256_pd128((__m256d)v);
    if (some == 15) {
        f64_store(p, v);
        return;
    }
    if (some & 2) {
        _mm_storeu_pd(p, x);
        x = _mm256_extractf128_pd((__m256d)v, 1);
        p += 2;
        some >>= 2;
    }
    if (some & 1)
        _mm_store_sd(p, x);
}

#else

typedef int f32_mask;
typedef int f64_mask;
TILE_INLINE f32_mask f32_first(int64_t n)
{
    return (int)n;
}
TILE_INLINE f64_mask f64_first(int64_t n)
{
    return (int)n;
}
TILE_INLINE f32_lanes f32_load_part(const float *p, f32_mask n)
{
    if (n == TILE_F32_LANES)
        return f32_load(p);
    f32_lanes v = { 0 };
    for (int i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}
TILE_INLINE f64_lanes f64_load_part(const double *p, f64_mask n)
{
    if (n == TILE_F64_LANES)
        return f64_load(p);
    f64_lanes v = { 0 };
    for (int i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}
TILE_INLINE void f32_store_part(float *p, f32_mask n, f32_lanes v)
{
    if (n == TILE_F32_LANES)
        f32_store(p, v);
    else
        for (int i = 0; i < n; i++)
            p[i] = v[i];
}
TILE_INLINE void f64_store_part(double *p, f64_mask n, f64_lanes v)
{
    if (n == TILE_F64_LANES)
        f64_store(p, v);
    else
        for (int i = 0; i < n; i++)
            p[i] = v[i];
}

#endif

/* ---- four rows of four: out[c][r] = in[r][c] ------------------------------------------------- */

TILE_INLINE void f32_transpose4(float *out, int64_t out_row, const float *in, int64_t in_row)
{
    typedef float four __attribute__((vector_size(16)));
    typedef float four_any __attribute__((vector_size(16), aligned(4), may_alias));
    const four a = *(const four_any *)(const void *)in;
    const four b = *(const four_any *)(const void *)(in + in_row);
    const four c = *(const four_any *)(const void *)(in + 2 * in_row);
    const four d = *(const four_any *)(const void *)(in + 3 * in_row);
    const four ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5);
    const four ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7);
    const four bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5);
    const four bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    *(four_any *)(void *)out = __builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5);
    *(four_any *)(void *)(out + out_row) = __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7);
    *(four_any *)(void *)(out + 2 * out_row) =
        __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5);
    *(four_any *)(void *)(out + 3 * out_row) =
        __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7);
}

#endif
