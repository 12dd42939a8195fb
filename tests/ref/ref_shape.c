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

static bool turned(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    for (int d = 0; d < x->ndim; d++)
        from[d] = *(const uint32_t *)user >> d & 1u ? x->dims[d] - 1 - at[d] : at[d];
    return true;
}

value ref_flip(const value *x, uint32_t dims)
{
    return ref_taken(x, x->ndim, x->dims, turned, &dims);
}

static bool moved(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    const int64_t *shifts = user;
    for (int d = 0; d < x->ndim; d++)
        from[d] = ((at[d] - shifts[d]) % x->dims[d] + x->dims[d]) % x->dims[d];
    return true;
}

value ref_roll(const value *x, const int64_t *shifts)
{
    return ref_taken(x, x->ndim, x->dims, moved, shifts);
}

typedef struct padding {
    const int64_t *before, *dims; /* dims: of the result */
    int mode;
} padding;

/* j in first .. end - 1, which come again and again */
static int64_t wrapped_in(int64_t j, int64_t first, int64_t end)
{
    while (j < first)
        j += end - first;
    while (j >= end)
        j -= end - first;
    return j;
}

static bool padded(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    const padding *p = user;
    bool inside = true;
    for (int d = 0; d < x->ndim; d++) {
        const int64_t n = x->dims[d];
        const int64_t after = p->dims[d] - n - p->before[d];
        int64_t j = at[d] - p->before[d];
        if (p->mode == TERN_PAD_REFLECT)
            j = j < 0 ? -j : j >= n ? 2 * n - 2 - j : j;
        else if (p->mode == TERN_PAD_REPLICATE)
            j = j < 0 ? 0 : j >= n ? n - 1 : j;
        else if (p->mode == TERN_PAD_CIRCULAR)
            j = wrapped_in(j, p->before[d] < 0 ? -p->before[d] : 0, after < 0 ? n + after : n);
        inside = inside && j >= 0 && j < n;
        from[d] = j;
    }
    return inside;
}

value ref_pad(const value *x, const int64_t *before, const int64_t *after, int mode)
{
    int64_t dims[TERN_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++)
        dims[d] = before[d] + x->dims[d] + after[d];
    return ref_taken(x, x->ndim, dims, padded, &(padding){ before, dims, mode });
}

typedef struct side {
    int64_t diagonal;
    bool upper;
} side;

static bool on_side(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    const side *s = user;
    for (int d = 0; d < x->ndim; d++)
        from[d] = at[d];
    const int64_t above = at[x->ndim - 1] - at[x->ndim - 2] - s->diagonal;
    return s->upper ? above >= 0 : above <= 0;
}

value ref_triangle(const value *x, int64_t diagonal, bool upper)
{
    return ref_taken(x, x->ndim, x->dims, on_side, &(side){ diagonal, upper });
}
