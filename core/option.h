/* Options whose default is not 0. */
#ifndef TERN_CORE_OPTION_H
#define TERN_CORE_OPTION_H

#include <math.h>

/* An option that is given, or its default; -0.0 is a zero that is meant (tern/base.h) and comes back as
 * 0, so a function that hands an option on to another public one hands on what it was given. */
static inline double core_given(double option, double otherwise)
{
    return option != 0 ? option : signbit(option) ? 0 : otherwise;
}

#endif
