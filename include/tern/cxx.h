/* What stands in C++ for C's compound literals: structs of options and arrays that live until the call which they are
 * made for has ended. For the macros of calls. A system header, since members that are left out are no mistake. */
#ifndef TERN_CXX_H
#define TERN_CXX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#if defined(__GNUC__)
#pragma GCC system_header
#endif

extern "C++" {
template <typename Options> constexpr const Options *tern_address_(const Options &options)
{
    return &options;
}

template <typename Item, size_t count> struct tern_array_ {
    Item items[count + 1]; /* the last one is none: there may be no other */
};
template <typename Item, typename... Items>
constexpr tern_array_<Item, sizeof...(Items)> tern_array_of_(Items... items)
{
    return { { static_cast<Item>(items)..., nullptr } };
}
}

#if defined(__clang__) /* which warns where the macro is used */
#define TERN_MADE_(type, ...)                                                 \
    (_Pragma("clang diagnostic push")                                         \
         _Pragma("clang diagnostic ignored \"-Wmissing-field-initializers\"") \
             type{ sizeof(type), __VA_ARGS__ } _Pragma("clang diagnostic pop"))
#else
#define TERN_MADE_(type, ...) (type{ sizeof(type), __VA_ARGS__ })
#endif
#define TERN_OPTIONS_(type, ...) tern_address_(TERN_MADE_(type, __VA_ARGS__))
#define TERN_ARRAY_(item, ...) (tern_address_(tern_array_of_<item>(__VA_ARGS__))->items)
#define TERN_ARRAY_COUNT_(item, ...) \
    (static_cast<int64_t>(sizeof(tern_array_of_<item>(__VA_ARGS__)) / sizeof(item)) - 1)

#endif
#endif
