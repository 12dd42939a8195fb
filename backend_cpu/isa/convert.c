/* Conversion between dtypes, contiguous to contiguous. Half types go through f32, as in PyTorch. */
#include <math.h>

#include "backend_cpu/convert.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

typedef uint8_t bool_;
typedef uint8_t u8;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef float f32;
typedef double f64;

/* What lies outside becomes the least value, as from cvttss2si; a plain cast is undefined. */
static inline int32_t f32_to_i32(float v)
{
    return (int32_t)(v >= -0x1p31f && v < 0x1p31f ? v : -0x1p31f);
}
static inline int64_t f32_to_i64(float v)
{
    return (int64_t)(v >= -0x1p63f && v < 0x1p63f ? v : -0x1p63f);
}
static inline int32_t f64_to_i32(double v)
{
    return (int32_t)(v > -0x1.00000002p31 && v < 0x1p31 ? v : -0x1p31);
}
static inline int64_t f64_to_i64(double v)
{
    return (int64_t)(v >= -0x1p63 && v < 0x1p63 ? v : -0x1p63);
}

#define PAIR(to, from, formula)                                   \
    static void from##_##to(void *out, const void *in, int64_t n) \
    {                                                             \
        to *o = out;                                              \
        const from *x = in;                                       \
        CPU_INDEPENDENT                                           \
        for (int64_t i = 0; i < n; i++) {                         \
            const from v = x[i];                                  \
            o[i] = (to)(formula);                                 \
        }                                                         \
    }

#define FROM_INTEGER(from) PAIR(bool_, from, v != 0) PAIR(f32, from, v) PAIR(f64, from, v)
FROM_INTEGER(u8)
FROM_INTEGER(i8)
FROM_INTEGER(i16)
FROM_INTEGER(i32)
FROM_INTEGER(i64)
PAIR(f32, bool_, v)
PAIR(f64, bool_, v)

#define FROM_REAL(from)               \
    PAIR(bool_, from, v != 0)         \
    PAIR(u8, from, from##_to_i32(v))  \
    PAIR(i8, from, from##_to_i32(v))  \
    PAIR(i16, from, from##_to_i32(v)) \
    PAIR(i32, from, from##_to_i32(v)) PAIR(i64, from, from##_to_i64(v))
FROM_REAL(f32)
FROM_REAL(f64)
PAIR(f64, f32, v)
PAIR(f32, f64, v)

/* Between integers only sizes matter, and the sign of what becomes longer. */
PAIR(i16, u8, v)
PAIR(i32, u8, v)
PAIR(i64, u8, v)
PAIR(i16, i8, v)
PAIR(i32, i8, v)
PAIR(i64, i8, v)
PAIR(u8, i16, v)
PAIR(i32, i16, v)
PAIR(i64, i16, v)
PAIR(u8, i32, v)
PAIR(i16, i32, v)
PAIR(i64, i32, v)
PAIR(u8, i64, v)
PAIR(i16, i64, v)
PAIR(i32, i64, v)

#define SAME(name, bytes)                                  \
    static void name(void *out, const void *in, int64_t n) \
    {                                                      \
        memcpy(out, in, (size_t)n *bytes);                 \
    }
SAME(same_1, 1)
SAME(same_2, 2)
SAME(same_4, 4)
SAME(same_8, 8)

static void f16_f32(void *out, const void *in, int64_t n)
{
    float *o = out;
    const uint16_t *x = in;
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(o + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + i))));
#endif
    CPU_INDEPENDENT
    for (; i < n; i++)
        o[i] = cpu_f16_to_f32(x[i]);
}

static void f32_f16(void *out, const void *in, int64_t n)
{
    uint16_t *o = out;
    const float *x = in;
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(o + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    CPU_INDEPENDENT
    for (; i < n; i++)
        o[i] = cpu_f32_to_f16(x[i]);
}

static void bf16_f32(void *out, const void *in, int64_t n)
{
    float *o = out;
    const uint16_t *x = in;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        o[i] = cpu_bf16_to_f32(x[i]);
}

static void f32_bf16(void *out, const void *in, int64_t n)
{
    uint16_t *o = out;
    const float *x = in;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        o[i] = cpu_f32_to_bf16(x[i]);
}

#define THROUGH_F32(from, to, in_bytes, out_bytes)                       \
    static void from##_##to(void *out, const void *in, int64_t n)        \
    {                                                                    \
        float block[CPU_BLOCK];                                          \
        for (int64_t i = 0; i < n; i += CPU_BLOCK) {                     \
            const int64_t count = n - i < CPU_BLOCK ? n - i : CPU_BLOCK; \
            from##_f32(block, (const char *)in + i * in_bytes, count);   \
            f32_##to((char *)out + i * out_bytes, block, count);         \
        }                                                                \
    }
#define HALF(half)                 \
    THROUGH_F32(half, bool_, 2, 1) \
    THROUGH_F32(half, u8, 2, 1)    \
    THROUGH_F32(half, i8, 2, 1)    \
    THROUGH_F32(half, i16, 2, 2)   \
    THROUGH_F32(half, i32, 2, 4)   \
    THROUGH_F32(half, i64, 2, 8)   \
    THROUGH_F32(half, f64, 2, 8)   \
    THROUGH_F32(bool_, half, 1, 2) \
    THROUGH_F32(u8, half, 1, 2)    \
    THROUGH_F32(i8, half, 1, 2)    \
    THROUGH_F32(i16, half, 2, 2)   \
    THROUGH_F32(i32, half, 4, 2) THROUGH_F32(i64, half, 8, 2) THROUGH_F32(f64, half, 8, 2)
HALF(f16)
HALF(bf16)
THROUGH_F32(f16, bf16, 2, 2)
THROUGH_F32(bf16, f16, 2, 2)

/* Rows: from; columns: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64. */
const cpu_convert_fn CPU_ISA_NAME(cpu_converters)[TERN_DTYPES * TERN_DTYPES] = {
#define ROW(from, ...) [TERN_DTYPES * (from) + 1] = __VA_ARGS__
    ROW(TERN_BOOL, same_1, same_1, same_1, u8_i16, u8_i32, u8_i64, bool__f16, bool__bf16, bool__f32,
        bool__f64),
    ROW(TERN_U8, u8_bool_, same_1, same_1, u8_i16, u8_i32, u8_i64, u8_f16, u8_bf16, u8_f32, u8_f64),
    ROW(TERN_I8, i8_bool_, same_1, same_1, i8_i16, i8_i32, i8_i64, i8_f16, i8_bf16, i8_f32, i8_f64),
    ROW(TERN_I16, i16_bool_, i16_u8, i16_u8, same_2, i16_i32, i16_i64, i16_f16, i16_bf16, i16_f32,
        i16_f64),
    ROW(TERN_I32, i32_bool_, i32_u8, i32_u8, i32_i16, same_4, i32_i64, i32_f16, i32_bf16, i32_f32,
        i32_f64),
    ROW(TERN_I64, i64_bool_, i64_u8, i64_u8, i64_i16, i64_i32, same_8, i64_f16, i64_bf16, i64_f32,
        i64_f64),
    ROW(TERN_F16, f16_bool_, f16_u8, f16_i8, f16_i16, f16_i32, f16_i64, same_2, f16_bf16, f16_f32,
        f16_f64),
    ROW(TERN_BF16, bf16_bool_, bf16_u8, bf16_i8, bf16_i16, bf16_i32, bf16_i64, bf16_f16, same_2,
        bf16_f32, bf16_f64),
    ROW(TERN_F32, f32_bool_, f32_u8, f32_i8, f32_i16, f32_i32, f32_i64, f32_f16, f32_bf16, same_4,
        f32_f64),
    ROW(TERN_F64, f64_bool_, f64_u8, f64_i8, f64_i16, f64_i32, f64_i64, f64_f16, f64_bf16, f64_f32,
        same_8),
};
