/* Which dtype the elements of an array have, by its type. */
#ifndef TERN_DTYPE_OF_H
#define TERN_DTYPE_OF_H

#include "tern/base.h"

/* TERN_DTYPE_OF(data): the dtype of what `data`, a pointer or an array of one or two dimensions (in C++ of any
 * number), points to; TERN_DTYPE_NONE where the type does not say: void, char, unsigned integers wider than a
 * byte, structs. A constant; `data` is not evaluated. */
#ifndef __cplusplus
#define TERN_DTYPE_OF(data)                                                                        \
    _Generic((data), TERN_OF_(_Bool, TERN_BOOL), TERN_OF_(unsigned char, TERN_U8),                 \
             TERN_OF_(signed char, TERN_I8), TERN_OF_(short, TERN_I16), TERN_OF_(int, TERN_I32),   \
             TERN_OF_(long, sizeof(long) == 8 ? TERN_I64 : TERN_I32),                              \
             TERN_OF_(long long, TERN_I64), TERN_OF_(float, TERN_F32), TERN_OF_(double, TERN_F64), \
             default                                                                               \
             : TERN_DTYPE_NONE)
#define TERN_OF_(type, dtype) \
    type * : dtype, const type * : dtype, type(*)[] : dtype, const type(*)[] : dtype

#else
#define TERN_DTYPE_OF(data) (tern_pointed_<decltype(data)>::dtype)

extern "C++" {
template <typename T> struct tern_element_ {
    static constexpr tern_dtype_t dtype = TERN_DTYPE_NONE;
};
template <typename T> struct tern_element_<const T> : tern_element_<T> {
};
template <typename T, size_t n> struct tern_element_<T[n]> : tern_element_<T> {
};
template <typename T, size_t n> struct tern_element_<const T[n]> : tern_element_<T> {
};
#define TERN_OF_(type, value)                          \
    template <> struct tern_element_<type> {           \
        static constexpr tern_dtype_t dtype = (value); \
    }
TERN_OF_(bool, TERN_BOOL);
TERN_OF_(unsigned char, TERN_U8);
TERN_OF_(signed char, TERN_I8);
TERN_OF_(short, TERN_I16);
TERN_OF_(int, TERN_I32);
TERN_OF_(long, sizeof(long) == 8 ? TERN_I64 : TERN_I32);
TERN_OF_(long long, TERN_I64);
TERN_OF_(float, TERN_F32);
TERN_OF_(double, TERN_F64);
#undef TERN_OF_

template <typename T> struct tern_pointed_ : tern_element_<void> {
};
template <typename T> struct tern_pointed_<T *> : tern_element_<T> {
};
template <typename T> struct tern_pointed_<T *const> : tern_element_<T> {
};
template <typename T, size_t n> struct tern_pointed_<T[n]> : tern_element_<T> {
};
template <typename T> struct tern_pointed_<T &> : tern_pointed_<T> {
};
template <typename T> struct tern_pointed_<T &&> : tern_pointed_<T> {
};
}
#endif

#endif
