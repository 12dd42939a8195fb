/* The loops of elementwise.def for one type; included once per type, no include guard.
 *
 * The includer defines T, U, TYPE (f32, i8, ...: names functions and tables), REAL (1: the real
 * formulas), STREAMS (1: f32, whose LANES1 bodies are vectors, and which has loops that write past
 * the caches, and whose DIVIDE2 bodies know the rest of the division as mod), LANES (of a CURVE body; 1 where the body is not vector code), FN, NEGATIVE, SUM, ONES,
 * and for each kind whether T is of it: FLOATS_, NUMBERS_, WHOLE_, ALL_ as YES or NO. All but these are
 * undefined again at the end. */
#define LOOP(name) TYPE_PASTE(loop_, TYPE, _##name)
#define TYPE_PASTE(a, b, c) TYPE_PASTE_(a, b, c)
#define TYPE_PASTE_(a, b, c) a##b##c
#define CHOOSE(yes_no, shape, name, real, integer) CHOOSE_(yes_no, shape, name, real, integer)
#define CHOOSE_(yes_no, shape, name, real, integer) CHOOSE_##yes_no(shape, name, real, integer)
#define CHOOSE_NO(shape, name, real, integer)
#if REAL
#define CHOOSE_YES(shape, name, real, integer) shape(name, real)
#else
#define CHOOSE_YES(shape, name, real, integer) shape(name, integer)
#endif

#define PARAMETERS                                                                               \
    void *out, const void *first, const void *second, const void *third, int64_t n, int scalars, \
        const void *numbers
/* The attribute's numbers, which few formulas read: no code for the others. */
#define READ_NUMBERS                                                  \
    const T p = ((const T *)numbers)[0], q = ((const T *)numbers)[1]; \
    (void)p, (void)q

#define UNARY(name, R, formula)                   \
    static void LOOP(name)(PARAMETERS)            \
    {                                             \
        R *o = out;                               \
        const T *x = first;                       \
        READ_NUMBERS;                             \
        (void)second, (void)third, (void)scalars; \
        CPU_INDEPENDENT                           \
        for (int64_t i = 0; i < n; i++) {         \
            const T a = x[i];                     \
            (void)a;                              \
            o[i] = (R)(formula);                  \
        }                                         \
    }
#define PLAIN1(name, formula) UNARY(name, T, formula)
#define TEST(name, formula) UNARY(name, uint8_t, formula)

#define BINARY(name, R, formula)              \
    static void LOOP(name)(PARAMETERS)        \
    {                                         \
        R *o = out;                           \
        const T *x = first, *y = second;      \
        READ_NUMBERS;                         \
        (void)third;                          \
        if (scalars == 0) {                   \
            CPU_INDEPENDENT                   \
            for (int64_t i = 0; i < n; i++) { \
                const T a = x[i], b = y[i];   \
                o[i] = (R)(formula);          \
            }                                 \
        } else if (scalars == 2) {            \
            const T b = *y;                   \
            CPU_INDEPENDENT                   \
            for (int64_t i = 0; i < n; i++) { \
                const T a = x[i];             \
                o[i] = (R)(formula);          \
            }                                 \
        } else if (scalars == 1) {            \
            const T a = *x;                   \
            CPU_INDEPENDENT                   \
            for (int64_t i = 0; i < n; i++) { \
                const T b = y[i];             \
                o[i] = (R)(formula);          \
            }                                 \
        } else {                              \
            const T a = *x, b = *y;           \
            const R value = (R)(formula);     \
            for (int64_t i = 0; i < n; i++)   \
                o[i] = value;                 \
        }                                     \
    }
#define PLAIN2(name, formula) BINARY(name, T, formula)
#define COMPARE(name, formula) BINARY(name, uint8_t, formula)

/* Fewer than LANES elements; the barrier keeps a compiler from calling memcpy for them. */
static inline __attribute__((unused)) const T *LOOP(copy_few)(T *to, const T *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = from[i];
        __asm__ volatile("" ::: "memory");
    }
    return to;
}

/* What is left over after whole vectors goes through the same machine code from a buffer: a value's
 * result does not depend on where it stands. */
#define CURVE(name, inputs, read_more, formula)                 \
    static void LOOP(name)(PARAMETERS)                          \
    {                                                           \
        T *o = out, *end = NULL;                                \
        const T *x = first, *y = inputs > 1 ? second : first;   \
        const T *z = inputs > 2 ? third : first;                \
        T rest[4][LANES];                                       \
        const int64_t left = n % LANES;                         \
        int64_t count = n - left;                               \
        READ_NUMBERS;                                           \
        (void)z, (void)scalars;                                 \
        for (;;) {                                              \
            CPU_INDEPENDENT                                     \
            for (int64_t i = 0; i < count; i++) {               \
                const T a = x[i];                               \
                read_more;                                      \
                o[i] = (T)(formula);                            \
            }                                                   \
            if (left == 0)                                      \
                return;                                         \
            if (end) {                                          \
                LOOP(copy_few)(end, rest[0], left);             \
                return;                                         \
            }                                                   \
            memset(rest[1], 0, inputs * sizeof rest[1]);        \
            LOOP(copy_few)(rest[1], x + count, left);           \
            if (inputs > 2)                                     \
                LOOP(copy_few)(rest[3], z + count, left);       \
            if (inputs > 1)                                     \
                LOOP(copy_few)(rest[2], y + count, left);       \
            end = o + count;                                    \
            o = rest[0], x = rest[1], y = rest[2], z = rest[3]; \
            count = LANES;                                      \
        }                                                       \
    }
#define CURVE1(name, formula) CURVE(name, 1, (void)0, formula)
#define CURVE2(name, formula) CURVE(name, 2, const T b = y[i], formula)
#define CURVE3(name, formula) CURVE(name, 3, const T b = y[i]; const T c = z[i], formula)
#define CHANCE2 CURVE2
#define POWER2 CURVE2
#if STREAMS
/* Below this quotient, its whole part in double precision times the divisor is exact. */
#define FAR_QUOTIENT 268435456.0
/* LANES rests of divisions; what is far, or no number, takes its time. */
static inline __attribute__((unused)) void LOOP(mods)(const T *x, const T *y, T *mods)
{
    int far = 0;
    for (int j = 0; j < LANES; j++) {
        const double a = (double)fabsf(x[j]), b = (double)fabsf(y[j]);
        const double quotient = a / b, whole = trunc(quotient);
        const T rest = (T)(whole == 0.0 ? a : a - whole * b);
        mods[j] = f32_from_bits(f32_bits(rest) | (f32_bits(x[j]) & 0x80000000u));
        far |= !(quotient < FAR_QUOTIENT);
    }
    for (int j = 0; far && j < LANES; j++)
        mods[j] = fmodf(x[j], y[j]);
}
#define DIVIDE2(name, formula)                               \
    static void LOOP(name)(PARAMETERS)                       \
    {                                                        \
        T *o = out, few[3][LANES], mods[LANES];              \
        const T *x = first, *y = second;                     \
        (void)third, (void)numbers;                          \
        for (int j = 0; j < LANES; j++) {                    \
            few[0][j] = *x;                                  \
            few[1][j] = *y;                                  \
        }                                                    \
        for (int64_t i = 0; i < n; i += LANES) {             \
            const bool whole = n - i >= LANES;               \
            const T *xs = scalars & 1 ? few[0] : x + i;      \
            const T *ys = scalars & 2 ? few[1] : y + i;      \
            T *to = whole ? o + i : few[2];                  \
            if (!whole && !(scalars & 1))                    \
                xs = LOOP(copy_few)(few[0], xs, n - i);      \
            if (!whole && !(scalars & 2))                    \
                ys = LOOP(copy_few)(few[1], ys, n - i);      \
            LOOP(mods)(xs, ys, mods);                        \
            CPU_INDEPENDENT                                  \
            for (int64_t j = 0; j < LANES; j++) {            \
                const T a = xs[j], b = ys[j], mod = mods[j]; \
                (void)a, (void)b;                            \
                to[j] = (T)(formula);                        \
            }                                                \
            if (!whole)                                      \
                LOOP(copy_few)(o + i, few[2], n - i);        \
        }                                                    \
    }
#define LANES1(name, formula)                                                      \
    static void LOOP(name)(PARAMETERS)                                             \
    {                                                                              \
        T *o = out;                                                                \
        const T *x = first;                                                        \
        int64_t i = 0;                                                             \
        (void)second, (void)third, (void)scalars, (void)numbers;                   \
        for (; i + TILE_F32_LANES <= n; i += TILE_F32_LANES)                       \
            f32_store(o + i, f32_lanes_##name(f32_load(x + i)));                   \
        if (i < n)                                                                 \
            f32_store_n(o + i, n - i, f32_lanes_##name(f32_load_n(x + i, n - i))); \
    }
#else
#define LANES1 CURVE1
#define DIVIDE2 PLAIN2
#endif

#define FLOATS FLOATS_
#define NUMBERS NUMBERS_
#define WHOLE WHOLE_
#define ALL ALL_
#define ELEMENT(name, shape, kinds, real, integer) CHOOSE(kinds, shape, name, real, integer)
#include "backend_cpu/elementwise.def"
#undef ELEMENT
#undef PLAIN1
#undef PLAIN2
#undef TEST
#undef COMPARE
#undef CURVE1
#undef CURVE2
#undef CURVE3
#undef LANES1
#undef DIVIDE2
#undef UNARY
#undef BINARY
#undef CURVE
#undef CHOOSE_YES

#if STREAMS
/* PLAIN ops of large arrays: whole lines of the output are written past the caches. Computing a
 * block first and copying it out would let the reading streams stop and go. */
#define STREAM(name, formula)                                     \
    static void LOOP(stream_##name)(PARAMETERS)                   \
    {                                                             \
        enum { LINE = 64 / sizeof(T) };                           \
        T *o = out;                                               \
        const T *x = first, *y = second != NULL ? second : first; \
        T many[2][LINE]; /* a scalar again and again */           \
        READ_NUMBERS;                                             \
        for (int j = 0; scalars != 0 && j < LINE; j++) {          \
            many[0][j] = *x;                                      \
            many[1][j] = *y;                                      \
        }                                                         \
        int64_t i = stream_head(o, sizeof(T), n);                 \
        LOOP(name)(o, x, y, third, i, scalars, numbers);          \
        const bool early = cpu_tuned_for(CPU_INTEL);              \
        /* what is fetched; a scalar is not */                    \
        const T *one = scalars & 1 ? y : x;                       \
        const T *two = scalars & 2 ? x : y;                       \
        for (; i + LINE <= n; i += LINE) {                        \
            if (early) {                                          \
                lanes_second(one + i, LANES_SECOND);              \
                lanes_second(two + i, LANES_SECOND);              \
            }                                                     \
            const T *xs = scalars & 1 ? many[0] : x + i;          \
            const T *ys = scalars & 2 ? many[1] : y + i;          \
            T line[LINE];                                         \
            KEEP_LOOP                                             \
            for (int64_t j = 0; j < LINE; j++) {                  \
                const T a = xs[j], b = ys[j];                     \
                (void)a, (void)b;                                 \
                line[j] = (T)(formula);                           \
            }                                                     \
            stream_line(o + i, line);                             \
        }                                                         \
        x = scalars & 1 ? x : x + i;                              \
        y = scalars & 2 ? y : y + i;                              \
        LOOP(name)(o + i, x, y, third, n - i, scalars, numbers);  \
    }
#define LANES1(name, formula)                                                 \
    static void LOOP(stream_##name)(PARAMETERS)                               \
    {                                                                         \
        enum { LINE = LANES_LINE / sizeof(T) };                               \
        T *o = out;                                                           \
        const T *x = first;                                                   \
        int64_t i = stream_head(o, sizeof(T), n);                             \
        LOOP(name)(o, x, second, third, i, scalars, numbers);                 \
        const int ahead = lanes_slow(true);                                   \
        for (; i + LINE <= n; i += LINE) {                                    \
            lanes_ahead(x + i, ahead);                                        \
            TILE_UNROLL                                                       \
            for (int j = 0; j < LINE; j += TILE_F32_LANES)                    \
                f32_stream(o + i + j, f32_lanes_##name(f32_load(x + i + j))); \
        }                                                                     \
        LOOP(name)(o + i, x + i, second, third, n - i, scalars, numbers);     \
    }
#define PLAIN1(name, formula) STREAM(name, formula)
#define PLAIN2(name, formula) STREAM(name, formula)
#define TEST(name, formula)
#define COMPARE(name, formula)
#define CURVE1(name, formula)
#define CURVE2(name, formula)
#define CURVE3(name, formula)
#define DIVIDE2(name, formula)
#define CHOOSE_YES(shape, name, real, integer) shape(name, real)
#define ELEMENT(name, shape, kinds, real, integer) CHOOSE(kinds, shape, name, real, integer)
#include "backend_cpu/elementwise.def"
#undef ELEMENT
#undef CHOOSE_YES
#undef PLAIN1
#undef PLAIN2
#undef LANES1

#define PLAIN1(name) [CPU_ELEMENT_##name] = LOOP(stream_##name),
#define PLAIN2(name) [CPU_ELEMENT_##name] = LOOP(stream_##name),
#define LANES1(name) [CPU_ELEMENT_##name] = LOOP(stream_##name),
#undef CURVE1
#undef CURVE2
#undef CURVE3
#undef DIVIDE2
#undef TEST
#undef COMPARE
#define TEST(name)
#define COMPARE(name)
#define CURVE1(name)
#define CURVE2(name)
#define CURVE3(name)
#define DIVIDE2(name)
#define CHOOSE_YES(shape, name, real, integer) shape(name)
#define ELEMENT(name, shape, kinds, real, integer) CHOOSE(kinds, shape, name, real, integer)
const cpu_loop CPU_ISA_NAME(TYPE_PASTE(cpu_streams_, TYPE, ))[CPU_ELEMENT_COUNT] = {
#include "backend_cpu/elementwise.def"
};
#undef ELEMENT
#undef CHOOSE_YES
#undef PLAIN1
#undef PLAIN2
#undef TEST
#undef COMPARE
#undef CURVE1
#undef CURVE2
#undef CURVE3
#undef DIVIDE2
#undef LANES1
#undef STREAM
#endif

#define ENTRY(name) [CPU_ELEMENT_##name] = LOOP(name),
#define CHOOSE_YES(shape, name, real, integer) ENTRY(name)
#define ELEMENT(name, shape, kinds, real, integer) CHOOSE(kinds, shape, name, real, integer)
const cpu_loop CPU_ISA_NAME(TYPE_PASTE(cpu_loops_, TYPE, ))[CPU_ELEMENT_COUNT] = {
#include "backend_cpu/elementwise.def"
};
#undef ELEMENT
#undef ENTRY
#undef FLOATS
#undef NUMBERS
#undef WHOLE
#undef ALL
#undef CHOOSE_YES
#undef CHOOSE_NO
#undef CHOOSE_
#undef CHOOSE
#undef PARAMETERS
#undef READ_NUMBERS
#undef TYPE_PASTE_
#undef TYPE_PASTE
#undef CHANCE2
#undef POWER2
#undef LOOP
