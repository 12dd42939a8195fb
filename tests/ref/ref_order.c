/* References: sorting and what is found in sorted rows. See ref.h. */
#include <math.h>
#include <stdlib.h>

#include "tests/ref/ref.h"

/* An element of a row. */
typedef struct placed {
    double x;
    int64_t place;
} placed;

/* By value, NaN above all, and of equals by place. */
static int compare(const void *left, const void *right)
{
    const placed *a = left, *b = right;
    const bool a_nan = isnan(a->x), b_nan = isnan(b->x);
    if (a->x < b->x || (b_nan && !a_nan))
        return -1;
    if (a->x > b->x || (a_nan && !b_nan))
        return 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static int compare_descending(const void *left, const void *right)
{
    const placed *a = left, *b = right;
    const int order = compare(&(placed){ b->x, 0 }, &(placed){ a->x, 0 });
    return order != 0 ? order : a->place < b->place ? -1 : a->place > b->place;
}

value ref_order(const value *x, int dim, bool descending, bool places)
{
    value out = value_copy(x);
    const int64_t n = x->ndim > 0 ? x->dims[dim] : 1;
    int64_t inner = 1;
    for (int d = dim + 1; d < x->ndim; d++)
        inner *= x->dims[d];
    placed *row = malloc((size_t)n * sizeof *row + 1);
    for (int64_t i = 0; i < x->numel && row != NULL; i++) {
        if (i / inner % n != 0)
            continue; /* not the first of its row */
        for (int64_t k = 0; k < n; k++)
            row[k] = (placed){ x->data[i + k * inner], k };
        qsort(row, (size_t)n, sizeof *row, descending ? compare_descending : compare);
        for (int64_t k = 0; k < n; k++)
            out.data[i + k * inner] = places ? (double)row[k].place : row[k].x;
    }
    free(row);
    return out;
}

value ref_part(const value *x, int dim, int64_t first, int64_t count)
{
    int64_t dims[TERN_MAX_DIMS], at[TERN_MAX_DIMS] = { 0 }, i = 0;
    for (int d = 0; d < x->ndim; d++)
        dims[d] = d == dim ? count : x->dims[d];
    value out = value_new(x->ndim, dims);
    if (out.numel > 0)
        do {
            int64_t place = 0;
            for (int d = 0; d < x->ndim; d++)
                place = place * x->dims[d] + at[d] + (d == dim ? first : 0);
            out.data[i++] = x->data[place];
        } while (ref_next(x->ndim, dims, at));
    return out;
}

value ref_unique(const value *x)
{
    value flat = value_copy(x);
    flat.ndim = 1;
    flat.dims[0] = x->numel;
    value sorted = ref_order(&flat, 0, false, false);
    int64_t count = 0;
    for (int64_t i = 0; i < sorted.numel; i++)
        if (i == 0 || sorted.data[i] != sorted.data[i - 1])
            sorted.data[count++] = sorted.data[i];
    value out = ref_part(&sorted, 0, 0, count);
    value_free(&flat);
    value_free(&sorted);
    return out;
}
