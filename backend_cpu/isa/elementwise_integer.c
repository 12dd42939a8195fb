/* Elementwise loops for integers and bool. Arithmetic is done unsigned, so that it wraps. */
#include "backend_cpu/elementwise.h"
#include "backend_cpu/formulas.h"

#define REAL 0
#define LANES 1
#define STREAMS 0
#define FLOATS_ NO
#define WHOLE_ YES
#define FN(name) integer_##name

/* As PyTorch: a negative power of an integer is 0, but for 1 and -1. The exponent's sign is told
 * apart by the caller's T; squaring wraps. */
static inline uint64_t integer_power(int64_t a, int64_t b, int b_negative)
{
    if (b_negative)
        return a == 1 ? 1u : a == -1 ? ((b & 1) ? ~(uint64_t)0 : 1u) : 0u;
    uint64_t result = 1, square = (uint64_t)a;
    for (uint64_t left = (uint64_t)b; left; left >>= 1) {
        if (left & 1)
            result *= square;
        square *= square;
    }
    return result;
}
#define integer_pow(a, b) integer_power((int64_t)(a), (int64_t)(b), NEGATIVE(b))

/* Narrow types are divided as i32, which takes half the time of i64. */
#define BY_WIDTH(name, a, b) \
    (sizeof(T) == 8 ? i64_##name(a, b) : i32_##name((int32_t)(a), (int32_t)(b)))
#define integer_fmod(a, b) BY_WIDTH(fmod, a, b)
#define integer_remainder(a, b) BY_WIDTH(remainder, a, b)
#define integer_floor_div(a, b) BY_WIDTH(floor_div, a, b)
#define BITS (U)(8 * sizeof(T) - (size_t)(NEGATIVE((T)-1)))

#define NUMBERS_ YES
#define ALL_ YES
#define SUM(a, b) ((U)(a) + (U)(b))
#define ONES (~(U)0)

#define NEGATIVE(a) 0
#define T uint8_t
#define U uint32_t
#define TYPE u8
#include "backend_cpu/isa/elementwise_type.h"
#undef NEGATIVE
#undef T
#undef TYPE

#define NEGATIVE(a) ((a) < 0)
#define T int8_t
#define TYPE i8
#include "backend_cpu/isa/elementwise_type.h"
#undef T
#undef TYPE

#define T int16_t
#define TYPE i16
#include "backend_cpu/isa/elementwise_type.h"
#undef T
#undef TYPE

#define T int32_t
#define TYPE i32
#include "backend_cpu/isa/elementwise_type.h"
#undef T
#undef U
#undef TYPE

#define T int64_t
#define U uint64_t
#define TYPE i64
#include "backend_cpu/isa/elementwise_type.h"
#undef T
#undef U
#undef TYPE
#undef NEGATIVE
#undef NUMBERS_
#undef SUM
#undef ONES

#define NUMBERS_ NO
#define SUM(a, b) ((a) | (b))
#define ONES 1u
#define NEGATIVE(a) 0
#define T uint8_t
#define U uint32_t
#define TYPE bool_
#include "backend_cpu/isa/elementwise_type.h"
