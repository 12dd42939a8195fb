/* Leaves of two f64, and what tests of the tape read of tensors. */
#ifndef TESTS_SUPPORT_LEAVES_H
#define TESTS_SUPPORT_LEAVES_H

#include "tests/support/check.h"

/* A teardown: the next test begins without an error. */
static inline int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

static inline tern_tensor *leaf(double v)
{
    return tern_full(v, TERN_SHAPE(2), .dtype = TERN_F64, .requires_grad = true);
}

/* The first of two elements. */
static inline double first(tern_tensor *t)
{
    double v[2] = { 0 };
    return tern_read(t, TERN_F64, v, sizeof v) == TERN_OK ? v[0] : -1e300;
}

#endif
