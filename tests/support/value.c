/* See value.h. */
#include "tests/support/value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

value value_new(int ndim, const int64_t *dims)
{
    value v = { .ndim = ndim, .numel = 1 };
    for (int d = 0; d < ndim; d++) {
        v.dims[d] = dims[d];
        v.numel *= dims[d];
    }
    v.data = calloc((size_t)v.numel + 1, sizeof *v.data);
    return v;
}

value value_copy(const value *v)
{
    value c = value_new(v->ndim, v->dims);
    memcpy(c.data, v->data, (size_t)v->numel * sizeof *v->data);
    return c;
}

void value_free(value *v)
{
    free(v->data);
    v->data = NULL;
}

/* splitmix64: tests must not depend on the generator that they test */
static double next_uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

value value_random(int ndim, const int64_t *dims, double low, double high, bool whole,
                   uint64_t seed)
{
    value v = value_new(ndim, dims);
    for (int64_t i = 0; i < v.numel; i++) {
        const double x = low + (high - low) * next_uniform(&seed);
        v.data[i] = whole ? trunc(x) : x;
    }
    return v;
}

/* Rounds to a float format with `bits` bits of mantissa (hidden one included), ties to even; subnormals
 * end at 2^least. */
static double round_to(double x, int bits, int least, double most)
{
    if (x == 0 || !isfinite(x))
        return x;
    int exponent;
    (void)frexp(x, &exponent);
    int quantum = exponent - bits;
    if (quantum < least)
        quantum = least;
    const double y = ldexp(nearbyint(ldexp(x, -quantum)), quantum);
    return fabs(y) > most ? copysign(INFINITY, x) : y;
}

static double quantise(double x, tern_dtype_t dtype)
{
    switch (dtype) {
    case TERN_F64:
        return x;
    case TERN_F32:
        return (double)(float)x;
    case TERN_F16:
        return round_to(x, 11, -24, 65504.0);
    case TERN_BF16:
        return round_to(x, 8, -133, 3.3895313892515355e38);
    case TERN_BOOL:
        return x != 0;
    case TERN_U8:
        return (double)(uint8_t)(int64_t)x;
    case TERN_I8:
        return (double)(int8_t)(int64_t)x; /* wraps, as the library does */
    case TERN_I16:
        return (double)(int16_t)(int64_t)x;
    case TERN_I32:
        return (double)(int32_t)(int64_t)x;
    default:
        return trunc(x);
    }
}

void value_quantise(value *v, tern_dtype_t dtype)
{
    for (int64_t i = 0; i < v->numel; i++)
        v->data[i] = quantise(v->data[i], dtype);
}

double dtype_epsilon(tern_dtype_t dtype)
{
    switch (dtype) {
    case TERN_F64:
        return 0x1p-53;
    case TERN_F32:
        return 0x1p-24;
    case TERN_F16:
        return 0x1p-11;
    case TERN_BF16:
        return 0x1p-8;
    default:
        return 0;
    }
}

const char *layout_name(layout l)
{
    static const char *const names[] = { "row-major", "transposed", "sliced", "channels-last",
                                         "expanded" };
    return names[l];
}

/* The element that is the first one along `dim` on the way to element i. */
static int64_t first_along(const value *v, int dim, int64_t i)
{
    int64_t stride = 1;
    for (int d = dim + 1; d < v->ndim; d++)
        stride *= v->dims[d];
    return i - i / stride % v->dims[dim] * stride;
}

void value_repeat(value *v, int dim)
{
    for (int64_t i = 0; i < v->numel; i++)
        v->data[i] = v->data[first_along(v, dim, i)];
}

/* The first dimension of more than one element along which values repeat, or -1. */
static int repeating(const value *v)
{
    for (int dim = 0; dim < v->ndim; dim++) {
        int64_t i = v->dims[dim] > 1 ? 0 : v->numel;
        if (i == v->numel)
            continue;
        while (i < v->numel && v->data[i] == v->data[first_along(v, dim, i)])
            i++;
        if (i == v->numel)
            return dim;
    }
    return -1;
}

static tern_shape_t shape_of(const value *v)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = v->ndim };
    for (int d = 0; d < v->ndim; d++)
        shape.dims[d] = v->dims[d];
    return shape;
}

static tern_shape_t reversed(int ndim)
{
    tern_shape_t order = { .set_ = TERN_GIVEN_, .ndim = ndim };
    for (int d = 0; d < ndim; d++)
        order.dims[d] = ndim - 1 - d;
    return order;
}

tern_tensor *value_tensor(const value *v, tern_dtype_t dtype, layout l)
{
    tern_tensor *t = tern_from_data(v->data, shape_of(v), .dtype = TERN_F64);
    t = tern_to(t, .dtype = dtype);
    if (l == LAYOUT_TRANSPOSED && v->ndim > 1)
        return tern_permute(tern_contiguous(tern_permute(t, reversed(v->ndim))), reversed(v->ndim));
    if (l == LAYOUT_SLICED && v->ndim > 0 && v->numel > 0) {
        tern_shape_t wide = shape_of(v);
        wide.dims[v->ndim - 1] *= 2;
        tern_tensor *large = tern_zeros(wide, dtype);
        tern_tensor *part = tern_slice(large, v->ndim - 1, 0, wide.dims[v->ndim - 1], 2);
        tern_copy(part, t);
        return tern_detach(part);
    }
    if (l == LAYOUT_LAST && v->ndim == 4)
        return tern_to(t, .format = TERN_FORMAT_CHANNELS_LAST);
    const int dim = l == LAYOUT_EXPANDED ? repeating(v) : -1;
    if (dim >= 0) /* a clone: what is read beside the one element is outside of the memory */
        return tern_detach(tern_expand(tern_clone(tern_slice(t, dim, 0, 1, 1)), shape_of(v)));
    return t;
}

value value_of(tern_tensor *t)
{
    const tern_shape_t shape = tern_shape(t);
    value v = value_new(t != NULL ? shape.ndim : 0, shape.dims);
    if (t == NULL || tern_read(t, TERN_F64, v.data, v.numel * (int64_t)sizeof(double)) != TERN_OK)
        value_free(&v);
    return v;
}

double value_distance(const value *a, const value *b, double floor)
{
    if (a->data == NULL || b->data == NULL || a->ndim != b->ndim || a->numel != b->numel)
        return INFINITY;
    for (int d = 0; d < a->ndim; d++)
        if (a->dims[d] != b->dims[d])
            return INFINITY;
    double worst = 0;
    for (int64_t i = 0; i < a->numel; i++) {
        const double x = a->data[i], y = b->data[i];
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        worst = value_worse(worst, fabs(x - y) / fmax(floor, fabs(y)));
    }
    return worst;
}

double value_worse(double error, double other)
{
    if (isnan(error) || isnan(other))
        return INFINITY;
    return error > other ? error : other;
}
