/* References: copies and views with elements in other places. See ref.h. */
#include "tests/ref/ref.h"

value ref_taken(const value *x, int ndim, const int64_t *dims, ref_finds where, const void *user)
{
    int64_t at[TERN_MAX_DIMS] = { 0 }, from[TERN_MAX_DIMS] = { 0 }, i = 0;
    value out = value_new(ndim, dims);
    if (out.numel > 0)
        do {
            const bool inside = where(x, at, from, user);
            out.data[i++] = inside ? x->data[ref_place(x, x->ndim, from)] : 0;
        } while (ref_next(ndim, dims, at));
    return out;
}

static bool in_window(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    const int64_t *window = user; /* dim, step */
    for (int d = 0; d < x->ndim; d++)
        from[d] = d == window[0] ? at[d] * window[1] + at[x->ndim] : at[d];
    return true;
}

value ref_unfold(const value *x, int dim, int64_t size, int64_t step)
{
    int64_t dims[TERN_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++)
        dims[d] = x->dims[d];
    dims[dim] = (x->dims[dim] - size) / step + 1;
    dims[x->ndim] = size;
    return ref_taken(x, x->ndim + 1, dims, in_window, (const int64_t[]){ dim, step });
}

static bool modulo(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    const int added = *(const int *)user;
    for (int d = 0; d < x->ndim; d++)
        from[d] = at[d + added] % x->dims[d];
    return true;
}

value ref_repeat(const value *x, int ndim, const int64_t *times)
{
    const int added = ndim - x->ndim;
    int64_t dims[TERN_MAX_DIMS];
    for (int d = 0; d < ndim; d++)
        dims[d] = times[d] * (d < added ? 1 : x->dims[d - added]);
    return ref_taken(x, ndim, dims, modulo, &added);
}
