/* Options: those that are not given at all, and those whose default is not 0. */
#ifndef TERN_CORE_OPTION_H
#define TERN_CORE_OPTION_H

#include <math.h>
#include <stddef.h>

#include "tern/base.h"

/* Zeros, which is what options are that nobody gives. */
extern const struct core_no_options {
    _Alignas(16) size_t size_;
    char zeros[256 - sizeof(size_t)];
} core_no_options;

/* The options of a call: NULL stands for none. For each public function that takes a struct of them. */
#define core_options(args)                                                   \
    ((args) != NULL                                                          \
         ? (args)                                                            \
         : (__typeof__(args))(const void *)((const char *)&core_no_options + \
                                            0 * sizeof(char[sizeof *(args) <= 256 ? 1 : -1])))

/* The same where a tensor among them is required: a struct of an older header, which ends before ours does,
 * stands for none, too, and the tensor is missing. */
#define core_whole_options(args) \
    core_options((args) != NULL && (args)->size_ >= sizeof *(args) ? (args) : NULL)

/* Zeros that are meant (tern/base.h). */
static inline bool core_zero_meant(double option)
{
    return option == (double)TERN_ZERO || (option == 0 && signbit(option));
}

/* An option that is given, or its default; a zero that is meant comes back as 0, so a function that hands an
 * option on to another public one hands on what it was given. */
static inline double core_given(double option, double otherwise)
{
    return core_zero_meant(option) ? 0 : option != 0 ? option : otherwise;
}

/* An index that is given, of options where 0 is one. */
static inline int64_t core_index_meant(int64_t index)
{
    return index == TERN_ZERO ? 0 : index;
}

/* An index that counts only beside its switch, which alone can say that 0 is meant: one that is given without it is
 * an error, since it was meant, but for 0 and what holds `otherwise`. */
bool core_check_switch(tern_site_t site, const char *what, const char *option, int64_t index,
                       const char *name, bool on, int64_t otherwise);
enum { CORE_IGNORED = -100 };
/* The target that does not count: PyTorch's default where none is named. */
static inline int64_t core_ignored(bool named, int64_t index)
{
    return !named ? CORE_IGNORED : core_index_meant(index);
}

#endif
