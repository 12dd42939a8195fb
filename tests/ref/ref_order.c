/* References: sorting and what is found in sorted rows. See ref.h. */
#include <math.h>
#include <stdlib.h>

#include "tests/ref/ref.h"

/* Does element a of a row come before element b, by value and, of equals, by place? */
static bool before(const double *row, int64_t step, int64_t a, int64_t b, bool descending)
{
    const double x = row[a * step], y = row[b * step];
    const bool x_nan = isnan(x), y_nan = isnan(y);
    const bool less = x < y || (y_nan && !x_nan), more = x > y || (x_nan && !y_nan);
    return descending ? more || (!less && a < b) : less || (!more && a < b);
}

value ref_order(const value *x, int dim, bool descending, bool places)
{
    value out = value_copy(x);
    const int64_t n = x->ndim > 0 ? x->dims[dim] : 1;
    int64_t inner = 1;
    for (int d = dim + 1; d < x->ndim; d++)
        inner *= x->dims[d];
    for (int64_t i = 0; i < x->numel; i++) {
        const int64_t own = i / inner % n, first = i - own * inner;
        int64_t rank = 0;
        for (int64_t k = 0; k < n; k++)
            rank += k != own && before(x->data + first, inner, k, own, descending);
        out.data[first + rank * inner] = places ? (double)own : x->data[i];
    }
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
