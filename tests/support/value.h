/* Values of tests: plain doubles with a shape, and the way from and to tensors of any dtype and
 * layout. References (tests/ref) know values only. */
#ifndef TESTS_SUPPORT_VALUE_H
#define TESTS_SUPPORT_VALUE_H

#include "tern/tern.h"

typedef struct value {
    int ndim;
    int64_t dims[TERN_MAX_DIMS];
    int64_t numel;
    double *data; /* row-major, owned */
} value;

value value_new(int ndim, const int64_t *dims); /* zeros */
value value_copy(const value *v);
void value_free(value *v);
/* Uniform in [low, high), from a seeded generator; `whole` rounds towards zero. */
value value_random(int ndim, const int64_t *dims, double low, double high, bool whole,
                   uint64_t seed);
/* Each element becomes the first one along `dim`. */
void value_repeat(value *v, int dim);
/* Rounds each element to what a dtype can hold, so that reference and library see the same numbers. */
void value_quantise(value *v, tern_dtype_t dtype);

/* How a tensor lies in memory; its values do not depend on it. */
typedef enum layout {
    LAYOUT_ROW_MAJOR,
    LAYOUT_TRANSPOSED, /* strides reversed */
    LAYOUT_SLICED,     /* every other element of a larger tensor along the last dimension */
    LAYOUT_LAST,       /* channels_last for 4-D, else row-major */
    LAYOUT_EXPANDED,   /* stride 0 along the first dimension where values repeat (value_repeat) */
    LAYOUTS
} layout;
const char *layout_name(layout l);
tern_tensor *value_tensor(const value *v, tern_dtype_t dtype, layout l);
/* A tensor's elements; data NULL after an error. */
value value_of(tern_tensor *t);

/* Largest |a - b| / max(floor, |b|); NaN agrees with NaN, infinity with itself. infinity for shapes
 * that differ. */
double value_distance(const value *a, const value *b, double floor);
/* The larger of two errors; NaN, which fmax drops, counts as infinity. */
double value_worse(double error, double other);
/* Half of a unit in the last place of 1. */
double dtype_epsilon(tern_dtype_t dtype);

#endif
