/* Inner loops of reductions. */
#include <math.h>
#include <string.h>

#include "backend_cpu/isa/lanes.h"
#include "backend_cpu/reduce.h"

/* ---- f32 in vectors --------------------------------------------------------------------------- */

/* As reduce_type.h has it, with the same additions in the same order: compilers split the sums of four
 * into pieces of all sizes, and fold the totals of a short row by way of memory. */

enum { LINE = 16, VECTORS = LINE / TILE_F32_LANES, HALVES = 2 * VECTORS };

/* Accumulator j of sixteen is lane j of these, one vector after the other. */
typedef struct line_sums {
    f64_lanes half[HALVES];
} line_sums;

TILE_INLINE void add_line(line_sums *s, int v, f32_lanes x)
{
    s->half[2 * v] += f32_lanes_widen_low(x);
    s->half[2 * v + 1] += f32_lanes_widen_high(x);
}

TILE_INLINE double total_of(line_sums *s)
{
    TILE_UNROLL
    for (int step = HALVES / 2; step > 0; step /= 2)
        for (int v = 0; v < step; v++)
            s->half[v] += s->half[v + step];
    return f64_lanes_sum(s->half[0]);
}

TILE_INLINE double row_sum_f32(const float *x, int64_t n)
{
    line_sums s;
    int64_t i = 0;
    if (n < LINE) {
        double few = 0;
        for (; i < n; i++)
            few += (double)x[i];
        return few;
    }
    for (int v = 0; v < HALVES; v++)
        s.half[v] = f64_set(0);
    /* 0.65 to 0.75 of the time without on Zen 4, 0.9 on Zen 3 */
    const bool fetch = !cpu_tuned_for(CPU_ZEN4) && !cpu_tuned_for(CPU_AVX2);
    for (; i + 4 * LINE <= n; i += 4 * LINE) {
        TILE_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            const float *p = x + i + v * TILE_F32_LANES;
            const f32_lanes early = f32_load(p + LINE) + f32_load(p);
            add_line(&s, v, (f32_load(p + 3 * LINE) + f32_load(p + 2 * LINE)) + early);
        }
        TILE_UNROLL
        for (int line = 0; fetch && line < 4; line++)
            lanes_ahead(x + i + line * LINE, 0);
    }
    for (; i + LINE <= n; i += LINE) {
        TILE_UNROLL
        for (int v = 0; v < VECTORS; v++)
            add_line(&s, v, f32_load(x + i + v * TILE_F32_LANES));
    }
    TILE_UNROLL
    for (int v = 0; v < VECTORS; v++) {
        const int64_t left = n - i - v * TILE_F32_LANES;
        if (left > 0)
            add_line(&s, v,
                     f32_load_n(x + i + v * TILE_F32_LANES,
                                left < TILE_F32_LANES ? left : TILE_F32_LANES));
    }
    return total_of(&s);
}

/* Of eight bytes: as many accumulators, in vectors. */
TILE_INLINE u64_lanes i64_load(const uint64_t *p)
{
    u64_lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}
TILE_INLINE u64_lanes i64_load_n(const uint64_t *p, int64_t n)
{
    u64_lanes v = { 0 };
    for (int64_t lane = 0; lane < n; lane++)
        v[lane] = p[lane];
    return v;
}
TILE_INLINE uint64_t i64_lanes_sum(u64_lanes v)
{
    uint64_t all = 0;
    for (int lane = 0; lane < TILE_F64_LANES; lane++)
        all += v[lane];
    return all;
}

#define ROW_SUM(type, T, V)                                                                \
    TILE_INLINE T row_sum_##type(const T *x, int64_t n)                                    \
    {                                                                                      \
        enum { L = TILE_F64_LANES, SUMS = LINE / L };                                      \
        V sum[SUMS];                                                                       \
        T few = 0;                                                                         \
        int64_t i = 0;                                                                     \
        if (n < LINE) {                                                                    \
            for (; i < n; i++)                                                             \
                few += x[i];                                                               \
            return few;                                                                    \
        }                                                                                  \
        for (int v = 0; v < SUMS; v++)                                                     \
            sum[v] = (V){ 0 };                                                             \
        for (; i + 4 * LINE <= n; i += 4 * LINE) {                                         \
            TILE_UNROLL                                                                    \
            for (int v = 0; v < SUMS; v++) {                                               \
                const T *p = x + i + v * L;                                                \
                const V early = type##_load(p + LINE) + type##_load(p);                    \
                sum[v] += (type##_load(p + 3 * LINE) + type##_load(p + 2 * LINE)) + early; \
            }                                                                              \
        }                                                                                  \
        for (; i + LINE <= n; i += LINE) {                                                 \
            TILE_UNROLL                                                                    \
            for (int v = 0; v < SUMS; v++)                                                 \
                sum[v] += type##_load(x + i + v * L);                                      \
        }                                                                                  \
        TILE_UNROLL                                                                        \
        for (int v = 0; v < SUMS; v++) {                                                   \
            const int64_t left = n - i - v * L;                                            \
            if (left > 0)                                                                  \
                sum[v] += type##_load_n(x + i + v * L, left < L ? left : L);               \
        }                                                                                  \
        TILE_UNROLL                                                                        \
        for (int step = SUMS / 2; step > 0; step /= 2)                                     \
            for (int v = 0; v < step; v++)                                                 \
                sum[v] += sum[v + step];                                                   \
        return type##_lanes_sum(sum[0]);                                                   \
    }
ROW_SUM(f64, double, f64_lanes)
ROW_SUM(i64, uint64_t, u64_lanes)
#undef ROW_SUM

/* Loops with more arithmetic for a line than sums have fetch into the first level on Zen 3, from so near: a norm of 64 MB takes
 * 0.9 of the time then, a product 0.8 (from 2 to 8 KB ahead 1.0 and 0.9). */
enum { NEAR_AHEAD = 1024 };
TILE_INLINE void fetch_near(const float *x, int lines, bool fetch)
{
    TILE_UNROLL
    for (int line = 0; fetch && line < lines; line++)
        __builtin_prefetch((const char *)(x + line * LINE) + NEAR_AHEAD);
}

/* This second pass reads from the first-level cache, and memory would rest: it fetches of what comes after
 * the block of rows (reduce.c: 16 KiB) and after what the sums have fetched (8 KiB). Every other pair of
 * lines, the sums fetch the rest: all of them take 1.0 to 1.1 of the time. */
enum { SPREAD_AHEAD = 24576 };

/* `once`: squares alone, about 0, of elements that no pass has read before. */
TILE_INLINE void spread_lines(cpu_spread *out, const float *x, int64_t n, float about, bool once)
{
    const f32_lanes middle = f32_set(about);
    const bool near = once && cpu_tuned_for(CPU_AVX2);
    line_sums squares;
    f32_lanes away[VECTORS];
    double all = 0;
    int64_t i = 0;
    for (int v = 0; v < HALVES; v++)
        squares.half[v] = f64_set(0);
    for (int v = 0; v < VECTORS; v++)
        away[v] = f32_set(0);
    for (; i + 4 * LINE <= n; i += 4 * LINE) {
        TILE_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            const float *p = x + i + v * TILE_F32_LANES;
            const f32_lanes a = f32_load(p) - middle, b = f32_load(p + LINE) - middle;
            const f32_lanes c = f32_load(p + 2 * LINE) - middle;
            const f32_lanes d = f32_load(p + 3 * LINE) - middle;
            add_line(&squares, v, f32_add_product(a * a, b, b) + f32_add_product(c * c, d, d));
            if (!once)
                away[v] += (a + b) + (c + d);
        }
        fetch_near(x + i, 4, near);
        for (int line = 0; !near && line < 2; line++)
            lanes_second(x + i + line * LINE, SPREAD_AHEAD);
    }
    for (; i < n; i += LINE) {
        TILE_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            const int64_t left = n - i - v * TILE_F32_LANES;
            if (left <= 0)
                break;
            const int64_t m = left < TILE_F32_LANES ? left : TILE_F32_LANES;
            const f32_lanes a =
                f32_lanes_fill(f32_load_n(x + i + v * TILE_F32_LANES, m), m, about) - middle;
            add_line(&squares, v, a * a);
            away[v] += a;
        }
    }
    for (int v = 0; v < VECTORS && !once; v++)
        all += f64_lanes_sum(f32_lanes_widen_low(away[v]) + f32_lanes_widen_high(away[v]));
    *out = (cpu_spread){ total_of(&squares), all };
}

static void spread_block_f32(cpu_spread *out, const float *x, int64_t n, float about)
{
    spread_lines(out, x, n, about, false);
}

static double squares_block_f32(const float *x, int64_t n)
{
    cpu_spread sum;
    spread_lines(&sum, x, n, 0, true);
    return sum.squares;
}

/* Have there been NaN? */

#if defined(__AVX512F__)
typedef __mmask16 lanes_odd;
TILE_INLINE lanes_odd lanes_odd_none(void)
{
    return 0;
}
TILE_INLINE lanes_odd lanes_odd_or(lanes_odd a, lanes_odd b)
{
    return _kor_mask16(a, b);
}
/* In lanes of a or of b. */
TILE_INLINE lanes_odd f32_lanes_odd(f32_lanes a, f32_lanes b)
{
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q);
}
TILE_INLINE bool lanes_odd_any(lanes_odd odd)
{
    return odd != 0;
}
#else
typedef i32_lanes lanes_odd;
TILE_INLINE lanes_odd lanes_odd_none(void)
{
    return (i32_lanes){ 0 };
}
TILE_INLINE lanes_odd lanes_odd_or(lanes_odd a, lanes_odd b)
{
    return a | b;
}
TILE_INLINE lanes_odd f32_lanes_odd(f32_lanes a, f32_lanes b)
{
#if defined(__AVX__)
    return (i32_lanes)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q);
#else
    return (a != a) | (b != b);
#endif
}
TILE_INLINE bool lanes_odd_any(lanes_odd odd)
{
    return i32_lanes_any(odd);
}
#endif

static inline float f32_lanes_smallest(f32_lanes v)
{
    return -f32_lanes_largest(-v);
}

/* Lanes ignore NaN, for which one instruction is enough; whether there was one is kept beside. */
#define BEST_F32(order, pick, of_all)                                                     \
    TILE_INLINE float row_best_##order##_f32(float given, const float *x, int64_t n)      \
    {                                                                                     \
        enum { L = TILE_F32_LANES };                                                      \
        const f32_lanes before = f32_set(given);                                          \
        f32_lanes most[4] = { before, before, before, before };                           \
        lanes_odd odd = lanes_odd_none();                                                 \
        int64_t i = 0;                                                                    \
        for (; i + 4 * L <= n; i += 4 * L) {                                              \
            f32_lanes v[4];                                                               \
            TILE_UNROLL                                                                   \
            for (int k = 0; k < 4; k++) {                                                 \
                v[k] = f32_load(x + i + k * L);                                           \
                most[k] = pick(v[k], most[k]);                                            \
                /* so many operations wait for a line that the CPU looks too short */     \
                __builtin_prefetch((const char *)(x + i) + 4096 + k * TILE_BYTES);        \
            }                                                                             \
            odd = lanes_odd_or(                                                           \
                odd, lanes_odd_or(f32_lanes_odd(v[0], v[1]), f32_lanes_odd(v[2], v[3]))); \
        }                                                                                 \
        for (; i < n; i += L) {                                                           \
            const int64_t left = n - i < L ? n - i : L;                                   \
            const f32_lanes v = f32_lanes_fill(f32_load_n(x + i, left), left, given);     \
            most[0] = pick(v, most[0]);                                                   \
            odd = lanes_odd_or(odd, f32_lanes_odd(v, v));                                 \
        }                                                                                 \
        most[0] = pick(most[2], most[0]);                                                 \
        most[0] = pick(pick(most[3], most[1]), most[0]);                                  \
        return lanes_odd_any(odd) ? NAN : f32_lanes_##of_all(most[0]);                    \
    }
BEST_F32(greatest, f32_lanes_max, largest)
BEST_F32(least, f32_lanes_min, smallest)

TILE_INLINE double row_prod_f32(const float *x, int64_t n)
{
    enum { L = 2 * LINE, PARTS = 2 * HALVES };
    f64_lanes part[PARTS];
    double lanes[TILE_F64_LANES];
    for (int v = 0; v < PARTS; v++)
        part[v] = f64_set(1);
    const bool near = cpu_tuned_for(CPU_AVX2);
    int64_t i = 0;
    for (; i + L <= n; i += L) {
        TILE_UNROLL
        for (int v = 0; v < PARTS / 2; v++) {
            const f32_lanes y = f32_load(x + i + v * TILE_F32_LANES);
            part[2 * v] *= f32_lanes_widen_low(y);
            part[2 * v + 1] *= f32_lanes_widen_high(y);
        }
        fetch_near(x + i, 2, near);
    }
    for (int v = 0; i < n; v++, i += TILE_F32_LANES) {
        const int64_t left = n - i < TILE_F32_LANES ? n - i : TILE_F32_LANES;
        const f32_lanes y = f32_lanes_fill(f32_load_n(x + i, left), left, 1.0f);
        part[2 * v] *= f32_lanes_widen_low(y);
        part[2 * v + 1] *= f32_lanes_widen_high(y);
    }
    TILE_UNROLL
    for (int step = PARTS / 2; step > 0; step /= 2)
        for (int v = 0; v < step; v++)
            part[v] *= part[v + step];
    f64_store(lanes, part[0]);
    for (int step = TILE_F64_LANES / 2; step > 0; step /= 2)
        for (int j = 0; j < step; j++)
            lanes[j] *= lanes[j + step];
    return lanes[0];
}

#define SAME(a, b) ((a) == (b))

#define SPREAD 1
#define NOT_A_NUMBER NAN
#define LESS(a, b) ((a) < (b))
#define T float
#define ODD int32_t
#define ACC double
#define NAME(x) x##_f32
#define OWN_VECTORS 1
#include "backend_cpu/isa/reduce_type.h"
#undef T
#undef ODD
#undef NAME
#undef OWN_VECTORS
#define OWN_VECTORS 0

#define T double
#define ODD int64_t
#define NAME(x) x##_f64
#include "backend_cpu/isa/reduce_type.h"
#undef T
#undef ACC
#undef NAME
#undef LESS
#undef NOT_A_NUMBER
#undef SPREAD

/* Sums wrap, so they are unsigned; the order of elements is that of int64_t. */
#define SPREAD 0
#define NOT_A_NUMBER 0
#define LESS(a, b) ((int64_t)(a) < (int64_t)(b))
#define T uint64_t
#define ACC uint64_t
#define NAME(x) x##_i64
#include "backend_cpu/isa/reduce_type.h"

/* ---- what a norm sums ------------------------------------------------------------------------- */

#define MAPS(T, type, absolute, power)                           \
    static void absolute_##type(void *data, int64_t n, double p) \
    {                                                            \
        T *x = data;                                             \
        (void)p;                                                 \
        for (int64_t i = 0; i < n; i++)                          \
            x[i] = absolute(x[i]);                               \
    }                                                            \
    static void is_there_##type(void *data, int64_t n, double p) \
    {                                                            \
        T *x = data;                                             \
        (void)p;                                                 \
        for (int64_t i = 0; i < n; i++)                          \
            x[i] = (T)(x[i] != 0);                               \
    }                                                            \
    static void power_##type(void *data, int64_t n, double p)    \
    {                                                            \
        T *x = data;                                             \
        for (int64_t i = 0; i < n; i++)                          \
            x[i] = power(absolute(x[i]), (T)p);                  \
    }
MAPS(float, f32, fabsf, powf)
MAPS(double, f64, fabs, pow)

#define EXTREME(type, order)                                                           \
    {                                                                                  \
        best_##order##_##type, best_rows_##order##_##type, place_rows_##order##_##type \
    }
#define LOOPS(type)                                                                           \
    .sum = sum_##type, .prod = prod_##type, .find = find_##type, .sum_rows = sum_rows_##type, \
    .prod_rows = prod_rows_##type, .greatest = EXTREME(type, greatest),                       \
    .least = EXTREME(type, least)
#define FLOATS(type)                                                 \
    LOOPS(type), .spread = spread_##type, .squares = squares_##type, \
                 .spread_rows = spread_rows_##type,                  \
                 .map = { absolute_##type, is_there_##type, power_##type }
const cpu_reduce_loops CPU_ISA_NAME(cpu_reductions)[CPU_REDUCE_TYPES] = {
    [CPU_REDUCE_F32] = { FLOATS(f32) },
    [CPU_REDUCE_F64] = { FLOATS(f64) },
    [CPU_REDUCE_I64] = { LOOPS(i64) },
};
