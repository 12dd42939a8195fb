/* Where an op takes a tensor or a number. */
#ifndef TERN_OPERAND_H
#define TERN_OPERAND_H

#include "tern/base.h"
#include "tern/op_attr.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor or a number, in two registers. kind_: 0 tensor, else TERN_NUMBER_*. */
typedef struct tern_operand {
    union {
        tern_tensor *tensor;
        double f;
        int64_t i;
    } value_;
    int64_t kind_;
} tern_operand;
static inline tern_operand tern_operand_tensor(tern_tensor *t)
{
    tern_operand o;
    o.value_.tensor = t;
    o.kind_ = 0;
    return o;
}
static inline tern_operand tern_operand_float(double v)
{
    tern_operand o;
    o.value_.f = v;
    o.kind_ = TERN_NUMBER_FLOAT;
    return o;
}
static inline tern_operand tern_operand_int(int64_t v)
{
    tern_operand o;
    o.value_.i = v;
    o.kind_ = TERN_NUMBER_INT;
    return o;
}
static inline tern_operand tern_operand_long_double(long double v)
{
    return tern_operand_float((double)v);
}
/* Above INT64_MAX it is a float, as no integer dtype holds it. */
static inline tern_operand tern_operand_unsigned(unsigned long long v)
{
    return v <= (unsigned long long)INT64_MAX ? tern_operand_int((int64_t)v)
                                              : tern_operand_float((double)v);
}
static inline tern_operand tern_operand_bool(bool v)
{
    tern_operand o;
    o.value_.i = v;
    o.kind_ = TERN_NUMBER_BOOL;
    return o;
}
#ifdef __cplusplus
}
#endif

/* Of a tensor, or of a number of any arithmetic type: whole ones stay exact up to 64 bits, bool is bool's. A void *,
 * as NULL is one in C, is a tensor; in C++ NULL is the number 0. */
/* clang-format off */
#ifndef __cplusplus
#define TERN_OPERAND(x)                                                                        \
    _Generic((x), tern_tensor *: tern_operand_tensor, void *: tern_operand_tensor,             \
             float: tern_operand_float, double: tern_operand_float,                            \
             long double: tern_operand_long_double, bool: tern_operand_bool,                   \
             unsigned long: tern_operand_unsigned, unsigned long long: tern_operand_unsigned,  \
             default: tern_operand_int)(x)
#else
#define TERN_OPERAND(x) tern_operand_of_(x)
extern "C++" {
#define TERN_OPERAND_OF_(type, maker)                 \
    static inline tern_operand tern_operand_of_(type x) \
    {                                                 \
        return maker(x);                              \
    }
TERN_OPERAND_OF_(tern_tensor *, tern_operand_tensor)
TERN_OPERAND_OF_(float, tern_operand_float)
TERN_OPERAND_OF_(double, tern_operand_float)
TERN_OPERAND_OF_(long double, tern_operand_long_double)
TERN_OPERAND_OF_(bool, tern_operand_bool)
TERN_OPERAND_OF_(int, tern_operand_int) /* shorter ones, too */
TERN_OPERAND_OF_(unsigned, tern_operand_int)
TERN_OPERAND_OF_(long, tern_operand_int)
TERN_OPERAND_OF_(long long, tern_operand_int)
TERN_OPERAND_OF_(unsigned long, tern_operand_unsigned)
TERN_OPERAND_OF_(unsigned long long, tern_operand_unsigned)
#undef TERN_OPERAND_OF_
}
#endif
/* clang-format on */

#endif
