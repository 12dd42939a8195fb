/* Arithmetic on the vectors of tile.h that kernels over rows need, and loads and stores of each
 * float type. Only for files in backend_cpu/isa/.
 *
 * A kind (f32, f64, f16, bf16) says how elements lie in memory: kind_load, kind_store and, for the
 * first n of a vector, kind_load_n (0 in the others) and kind_store_n. f16 and bf16 become f32
 * lanes. n is 0 .. lanes. Arithmetic is named by its lanes: f32_lanes_*, f64_lanes_*. */
#ifndef TERN_BACKEND_CPU_ISA_LANES_H
#define TERN_BACKEND_CPU_ISA_LANES_H

#include "backend_cpu/cpu.h"
#include "backend_cpu/formulas.h"
#include "backend_cpu/isa/tile.h"
#include "backend_cpu/vendor.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef int32_t i32_lanes __attribute__((vector_size(TILE_BYTES)));
typedef uint32_t u32_lanes __attribute__((vector_size(TILE_BYTES)));
typedef int64_t i64_lanes __attribute__((vector_size(TILE_BYTES)));
typedef uint64_t u64_lanes __attribute__((vector_size(TILE_BYTES)));
typedef uint16_t u16_lanes __attribute__((vector_size(TILE_BYTES / 2))); /* as many as f32 lanes */
typedef uint16_t u16_lanes_any __attribute__((vector_size(TILE_BYTES / 2), aligned(2), may_alias));

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

/* clang, where it does not optimise, fuses some products of a loop and not others. */
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

/* ---- loads and stores of each kind ----------------------------------------------------------- */

TILE_INLINE f32_lanes f32_load_n(const float *p, int64_t n)
{
    return f32_load_part(p, f32_first(n));
}
TILE_INLINE f64_lanes f64_load_n(const double *p, int64_t n)
{
    return f64_load_part(p, f64_first(n));
}
TILE_INLINE void f32_store_n(float *p, int64_t n, f32_lanes v)
{
    f32_store_part(p, f32_first(n), v);
}
TILE_INLINE void f64_store_n(double *p, int64_t n, f64_lanes v)
{
    f64_store_part(p, f64_first(n), v);
}

#if defined(__AVX512BW__) && defined(__AVX512VL__)
TILE_INLINE u16_lanes u16_load_n(const uint16_t *p, int64_t n)
{
    return (u16_lanes)_mm256_maskz_loadu_epi16(f32_first(n), p);
}
TILE_INLINE void u16_store_n(uint16_t *p, int64_t n, u16_lanes v)
{
    _mm256_mask_storeu_epi16(p, f32_first(n), (__m256i)v);
}
#else
/* Parts of a vector are rare: not worth repeating in every loop. */
static __attribute__((noinline, unused)) u16_lanes u16_load_part(const uint16_t *p, int64_t n)
{
    u16_lanes v = { 0 };
    for (int64_t i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}
static __attribute__((noinline, unused)) void u16_store_part(uint16_t *p, int64_t n, u16_lanes v)
{
    for (int64_t i = 0; i < n; i++)
        p[i] = v[i];
}
TILE_INLINE u16_lanes u16_load_n(const uint16_t *p, int64_t n)
{
    if (n == TILE_F32_LANES)
        return *(const u16_lanes_any *)(const void *)p;
    return u16_load_part(p, n);
}
TILE_INLINE void u16_store_n(uint16_t *p, int64_t n, u16_lanes v)
{
    if (n == TILE_F32_LANES)
        *(u16_lanes_any *)(void *)p = v;
    else
        u16_store_part(p, n, v);
}
#endif

TILE_INLINE f32_lanes bf16_widen(u16_lanes v)
{
    return (f32_lanes)(__builtin_convertvector(v, u32_lanes) << 16);
}

/* To nearest, ties to even; NaN stays NaN. */
TILE_INLINE u16_lanes bf16_narrow(f32_lanes v)
{
    const u32_lanes bits = (u32_lanes)v;
    const u32_lanes rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const u32_lanes nan = (u32_lanes)(v != v);
    return __builtin_convertvector((rounded & ~nan) | (nan & 0x7FC0u), u16_lanes);
}

#if defined(__AVX512F__)
TILE_INLINE f32_lanes f16_widen(u16_lanes v)
{
    return (f32_lanes)_mm512_cvtph_ps((__m256i)v);
}
TILE_INLINE u16_lanes f16_narrow(f32_lanes v)
{
    return (u16_lanes)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
}
#elif defined(__F16C__)
TILE_INLINE f32_lanes f16_widen(u16_lanes v)
{
    return (f32_lanes)_mm256_cvtph_ps((__m128i)v);
}
TILE_INLINE u16_lanes f16_narrow(f32_lanes v)
{
    return (u16_lanes)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
}
#else
/* Long, and not worth repeating in every loop. */
static __attribute__((noinline, unused)) f32_lanes f16_widen(u16_lanes v)
{
    f32_lanes wide;
    for (int i = 0; i < TILE_F32_LANES; i++)
        wide[i] = cpu_f16_to_f32(v[i]);
    return wide;
}
static __attribute__((noinline, unused)) u16_lanes f16_narrow(f32_lanes v)
{
    u16_lanes narrow;
    for (int i = 0; i < TILE_F32_LANES; i++)
        narrow[i] = cpu_f32_to_f16(v[i]);
    return narrow;
}
#endif

#define LANES_HALF_KIND_(kind)                                           \
    TILE_INLINE f32_lanes kind##_load(const uint16_t *p)                 \
    {                                                                    \
        return kind##_widen(*(const u16_lanes_any *)(const void *)p);    \
    }                                                                    \
    TILE_INLINE f32_lanes kind##_load_n(const uint16_t *p, int64_t n)    \
    {                                                                    \
        return kind##_widen(u16_load_n(p, n));                           \
    }                                                                    \
    TILE_INLINE void kind##_store(uint16_t *p, f32_lanes v)              \
    {                                                                    \
        *(u16_lanes_any *)(void *)p = kind##_narrow(v);                  \
    }                                                                    \
    TILE_INLINE void kind##_store_n(uint16_t *p, int64_t n, f32_lanes v) \
    {                                                                    \
        u16_store_n(p, n, kind##_narrow(v));                             \
    }
LANES_HALF_KIND_(bf16)
LANES_HALF_KIND_(f16)
#undef LANES_HALF_KIND_

/* Fetches what lies some kilobytes after p, of the same array or of nothing. Rows of a few kilobytes, each gone
 * through more than once, keep a CPU's own prefetchers from running ahead. On Zen 5 fetches from nearer than
 * 6 KB, or with much else in flight 4, disturb those. On Intel what is fetched from memory into the first level
 * takes one of 16 places there until it comes, which allows half of the bandwidth (inferred); into the second
 * it does not. But an array that lies in the second level comes no nearer so (a sum of 1 MB 8 to 13 us): loops
 * that write ask whether results go past the caches; cross_entropy's, long in arithmetic, takes as long. */
enum { LANES_SECOND = 4096, LANES_SECOND_FAR = 6144 /* bytes; the next rows of two arrays */ };
TILE_INLINE void lanes_second(const void *p, int bytes)
{
    __builtin_prefetch((const char *)p + bytes, 0, 2);
}
/* `second`: into the second level; on Intel, and as above. */
TILE_INLINE void lanes_ahead(const void *p, bool second)
{
    if (second)
        lanes_second(p, LANES_SECOND);
    else
        __builtin_prefetch((const char *)p + 8192);
}

/* May whole vectors from p on, and `step` bytes further, and so on, be streamed? */
TILE_INLINE bool lanes_aligned(const void *p, int64_t step)
{
    return ((uintptr_t)p | (uintptr_t)step) % TILE_BYTES == 0;
}

/* Stores past the caches; p is a multiple of the vector's bytes. cpu_stream_end() later. */
#if defined(__AVX512F__)
TILE_INLINE void f32_stream(float *p, f32_lanes v)
{
    _mm512_stream_ps(p, (__m512)v);
}
TILE_INLINE void f64_stream(double *p, f64_lanes v)
{
    _mm512_stream_pd(p, (__m512d)v);
}
#elif defined(__AVX__)
TILE_INLINE void f32_stream(float *p, f32_lanes v)
{
    _mm256_stream_ps(p, (__m256)v);
}
TILE_INLINE void f64_stream(double *p, f64_lanes v)
{
    _mm256_stream_pd(p, (__m256d)v);
}
#elif defined(__SSE2__)
TILE_INLINE void f32_stream(float *p, f32_lanes v)
{
    _mm_stream_ps(p, (__m128)v);
}
TILE_INLINE void f64_stream(double *p, f64_lanes v)
{
    _mm_stream_pd(p, (__m128d)v);
}
#else
TILE_INLINE void f32_stream(float *p, f32_lanes v)
{
    f32_store(p, v);
}
TILE_INLINE void f64_stream(double *p, f64_lanes v)
{
    f64_store(p, v);
}
#endif

TILE_INLINE void f32_put(float *p, f32_lanes v, bool stream)
{
    if (stream)
        f32_stream(p, v);
    else
        f32_store(p, v);
}
TILE_INLINE void f64_put(double *p, f64_lanes v, bool stream)
{
    if (stream)
        f64_stream(p, v);
    else
        f64_store(p, v);
}
/* Half types are never streamed. */
TILE_INLINE void f16_put(uint16_t *p, f32_lanes v, bool stream)
{
    (void)stream;
    f16_store(p, v);
}
TILE_INLINE void bf16_put(uint16_t *p, f32_lanes v, bool stream)
{
    (void)stream;
    bf16_store(p, v);
}

TILE_INLINE float f32_load_one(const float *p)
{
    return *p;
}
TILE_INLINE double f64_load_one(const double *p)
{
    return *p;
}
TILE_INLINE float f16_load_one(const uint16_t *p)
{
    return cpu_f16_to_f32(*p);
}
TILE_INLINE float bf16_load_one(const uint16_t *p)
{
    return cpu_bf16_to_f32(*p);
}
TILE_INLINE void f32_store_one(float *p, float v)
{
    *p = v;
}
TILE_INLINE void f64_store_one(double *p, double v)
{
    *p = v;
}
TILE_INLINE void f16_store_one(uint16_t *p, float v)
{
    *p = cpu_f32_to_f16(v);
}
TILE_INLINE void bf16_store_one(uint16_t *p, float v)
{
    *p = cpu_f32_to_bf16(v);
}

/* fn_f32(args) and so on, by a float dtype. */
#define KIND_CALL(dtype, fn, ...)   \
    do {                            \
        switch (dtype) {            \
        case TERN_F64:              \
            fn##_f64(__VA_ARGS__);  \
            break;                  \
        case TERN_F16:              \
            fn##_f16(__VA_ARGS__);  \
            break;                  \
        case TERN_BF16:             \
            fn##_bf16(__VA_ARGS__); \
            break;                  \
        default:                    \
            fn##_f32(__VA_ARGS__);  \
        }                           \
    } while (0)

#endif
