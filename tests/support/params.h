/* Whether a step of an optimizer happened: whole, or not at all. */
#ifndef TESTS_SUPPORT_PARAMS_H
#define TESTS_SUPPORT_PARAMS_H

#include "tests/support/check.h"

/* How many of the optimizer's parameters (f32) differ from `values`, which then become theirs. `room`: floats in
 * values, enough for all parameters. */
int64_t params_changed(const tern_optimizer *opt, float *values, int64_t room);

#endif
