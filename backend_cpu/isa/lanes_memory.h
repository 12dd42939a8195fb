/* Loads and stores of the vectors of tile.h for each float type. Only for files in backend_cpu/isa/.
 *
 * A kind (f32, f64, f16, bf16) says how elements lie in memory: kind_load, kind_store and, for the
 * first n of a vector, kind_load_n (0 in the others) and kind_store_n. f16 and bf16 become f32
 * lanes. n is 0 .. lanes. */
#ifndef TERN_BACKEND_CPU_ISA_LANES_MEMORY_H
#define TERN_BACKEND_CPU_ISA_LANES_MEMORY_H

#include "backend_cpu/cpu.h"
#include "backend_cpu/formulas.h"
#include "backend_cpu/isa/tile.h"
#include "backend_cpu/tuning.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef int32_t i32_lanes __attribute__((vector_size(TILE_BYTES)));
typedef uint32_t u32_lanes __attribute__((vector_size(TILE_BYTES)));
typedef int64_t i64_lanes __attribute__((vector_size(TILE_BYTES)));
typedef uint64_t u64_lanes __attribute__((vector_size(TILE_BYTES)));
typedef uint16_t u16_lanes __attribute__((vector_size(TILE_BYTES / 2))); /* as many as f32 lanes */
typedef uint16_t u16_lanes_any __attribute__((vector_size(TILE_BYTES / 2), aligned(2), may_alias));

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
 * 6 KB, or with much else in flight 4, disturb those; what is long in arithmetic and only reads wants them from 12 KB
 * on (cross_entropy of 64 MB takes 0.9 of the time it takes with 8 KB; a sum, or what writes, gains nothing). On Intel
 * what is fetched from memory into the first level takes one of 16 places there until it comes, which allows half of
 * the bandwidth (inferred); into the second it does not. But an array that lies in the second level comes no nearer so
 * (a sum of 1 MB 8 to 13 us): loops that write ask whether results go past the caches; cross_entropy's, long in
 * arithmetic, takes as long. What is long in arithmetic fills a core's window with it, and waits for the second level,
 * too: from there it fetches once more (exp from memory 0.82 to 0.97 of the time, cross_entropy 0.8 to 0.95).
 * On Zen 4 rows come into the second level, too, but from half a page further: what lies a page or two after
 * what is read (4 or 8 KB, rows of a page) takes twice the time. Loops without rows want no fetches there. On Zen 3 rows
 * want fetches into the second level (layer_norm 0.9 of the time), but what is long in arithmetic, rows or not, Zen 5's into the first
 * level (exp 0.8 of the time, log_softmax's gradient 0.75; softmax with Intel's 1.4). Other loops want none. Where two
 * passes over a row both fetch, the first does from nearer. Where memory is in pages of 4 KB, multiples of that are too
 * slow on Zen 3 (exp 1.07 to 1.1 of the time); in larger pages nothing between 2 and 16 KB makes a difference there. */
enum {
#if defined(__AVX512F__)
    LANES_FIRST = 8192,
#else
    LANES_FIRST = 7168,
#endif
    LANES_SECOND = 4096,
    LANES_SECOND_FAR = 6144,
    LANES_SECOND_NEAR = 3072, /* bytes */
    LANES_FIRST_NEAR = 1024,
    LANES_FIRST_FAR = 20480,
    LANES_BOTH = 1, /* LANES_SECOND_FAR, and from there into the first level */
    LANES_FAR = 2,  /* into the first level, LANES_FIRST_FAR */
    LANES_NONE = -1,
    LANES_LINE = 64,
    LANES_HELD = 9 /* stores, lanes_hold() */
};
TILE_INLINE void lanes_second(const void *p, int bytes)
{
    __builtin_prefetch((const char *)p + bytes, 0, 2);
}
/* How far ahead rows come into the second level, or LANES_BOTH; 0: not there. `past`: results go past the caches. */
TILE_INLINE int lanes_rows(bool past)
{
    if (!past)
        return 0;
    if (cpu_tuned_for(CPU_INTEL))
        return LANES_BOTH;
    if (cpu_tuned_for(CPU_AVX2))
        return LANES_SECOND;
    return cpu_tuned_for(CPU_ZEN4) ? LANES_SECOND_FAR : 0;
}
/* The same for loops that are long in arithmetic, rows or not; LANES_NONE: no fetches. */
TILE_INLINE int lanes_slow(bool past)
{
    if (past && cpu_tuned_for(CPU_INTEL))
        return LANES_BOTH;
    return past && cpu_tuned_for(CPU_AVX2) ? 0 : LANES_NONE;
}
/* For those that only read. */
TILE_INLINE int lanes_read(void)
{
    if (cpu_tuned_for(CPU_INTEL))
        return LANES_BOTH;
    return cpu_tuned_for(CPU_ZEN5) ? LANES_FAR : 0;
}
/* `second`: as lanes_rows(), lanes_slow() or lanes_read() gives it; else into the first level. */
TILE_INLINE void lanes_ahead(const void *p, int second)
{
    if (second == LANES_BOTH) {
        lanes_second(p, LANES_SECOND_FAR);
        __builtin_prefetch((const char *)p + LANES_FIRST_NEAR);
    } else if (second == LANES_FAR)
        __builtin_prefetch((const char *)p + LANES_FIRST_FAR);
    else if (second > 0)
        lanes_second(p, second);
    else if (second != LANES_NONE)
        __builtin_prefetch((const char *)p + LANES_FIRST);
}

/* So many stores of nothing. A core (Zen 5: 104) holds back no more than a certain number of stores that memory has not
 * taken yet. Where loads of other rows are under way, few of them should be stores past the caches: with 9 of nothing beside
 * each vector's three, layer_norm's gradient takes 0.75 of the time it takes without any, with 19 all of it (ledger). */
TILE_INLINE void lanes_hold(int stores)
{
#if defined(__x86_64__)
    int64_t nothing[LANES_HELD];
    TILE_UNROLL
    for (int k = 0; k < stores; k++)
        __asm__ volatile("movq %1, %0" : "=m"(nothing[k]) : "r"((int64_t)0));
#else
    (void)stores;
#endif
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
