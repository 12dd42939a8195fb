/* unique: the different elements, or parts along a dimension, made of sorts. How many there are is read by
 * the host. */
#include "core/compose.h"
#include "core/error.h"
#include "core/op_table.h"

typedef struct groups {
    tern_tensor *order;  /* places of the elements in sorted order */
    tern_tensor *begins; /* of each element in sorted order, whether it is the first of its value */
    tern_tensor *first;  /* in sorted order, of each value */
    int64_t count;
} groups;

/* What begins a new value among sorted elements. */
static tern_tensor *beginnings(tern_tensor *sorted)
{
    const int64_t n = sorted->view.numel;
    tern_tensor *one = tern_ones(TERN_SHAPE(1), .dtype = TERN_BOOL, .like = sorted);
    if (n == 1)
        return one;
    return tern_cat(0, one,
                    tern_ne(tern_slice(sorted, .start = 1), tern_slice(sorted, .end = n - 1)));
}

/* The values in order, with what is needed for the rest; NULL after an error. n > 0. */
static tern_tensor *group(tern_tensor *flat, groups *out)
{
    tern_tensor *sorted = tern_sort(flat, 0, false, &out->order);
    if (sorted == NULL)
        return NULL;
    out->begins = beginnings(sorted);
    tern_tensor *first = tern_nonzero(out->begins);
    if (first == NULL)
        return NULL;
    out->first = tern_reshape(first, TERN_SHAPE(-1));
    out->count = tern_numel(first);
    return tern_gather(sorted, 0, out->first);
}

/* Each element's value: numbers of values in sorted order, brought back to where the elements were. */
static tern_tensor *inverse_of(const groups *g, tern_tensor *x)
{
    tern_tensor *numbers = tern_sub(tern_cumsum(g->begins, 0), 1);
    tern_tensor *back = tern_gather(numbers, 0, tern_argsort(g->order, 0, false));
    return back != NULL ? tern_reshape(back, tern_shape(x)) : NULL;
}

static tern_tensor *counts_of(const groups *g)
{
    tern_tensor *end =
        tern_full((double)g->order->view.numel, TERN_SHAPE(1), .dtype = TERN_I64, .like = g->order);
    if (g->count > 1)
        end = tern_cat(0, tern_slice(g->first, .start = 1), end);
    return tern_sub(end, g->first);
}

static tern_tensor *run(tern_tensor *x, tern_tensor **inverse, tern_tensor **counts)
{
    groups g = { 0 };
    if (x->view.numel == 0) {
        if (inverse != NULL)
            *inverse = tern_zeros(tern_shape(x), .dtype = TERN_I64, .like = x);
        if (counts != NULL)
            *counts = tern_zeros(TERN_SHAPE(0), .dtype = TERN_I64, .like = x);
        return tern_zeros(TERN_SHAPE(0), .dtype = tern_dtype(x), .like = x);
    }
    tern_tensor *values = group(tern_reshape(tern_detach(x), TERN_SHAPE(-1)), &g);
    if (values != NULL && inverse != NULL)
        *inverse = inverse_of(&g, x);
    if (values != NULL && counts != NULL)
        *counts = counts_of(&g);
    return tern_failed() ? NULL : values;
}

/* ---- along a dimension --------------------------------------------------------------------------- */

/* Of each element its number among the different ones of its column, i64: 0 for the least. */
static tern_tensor *ranks_of(tern_tensor *columns)
{
    tern_tensor *order = NULL, *sorted = tern_sort(columns, 0, false, &order);
    if (sorted == NULL)
        return NULL;
    const int64_t n = tern_size(sorted, 0);
    tern_tensor *first =
        tern_zeros(TERN_SHAPE(1, tern_size(sorted, 1)), .dtype = TERN_BOOL, .like = sorted);
    if (n > 1)
        first = tern_cat(0, first,
                         tern_ne(tern_slice(sorted, .start = 1), tern_slice(sorted, .end = n - 1)));
    tern_tensor *ranks = tern_cumsum(first, 0);
    return ranks == NULL ? NULL : tern_scatter(ranks, 0, order, ranks);
}

/* Of each row its place in lexicographic order, alike for equal ones: ranks of neighbouring columns become
 * one number, so that half as many are left each time. */
static tern_tensor *keys_of(tern_tensor *rows)
{
    const int64_t n = tern_size(rows, 0);
    tern_tensor *keys = ranks_of(rows);
    for (int64_t m; keys != NULL && (m = tern_size(keys, 1)) > 1;) {
        tern_tensor *pairs = tern_add(tern_mul(tern_slice(keys, 1, 0, m - m % 2, 2), n),
                                      tern_slice(keys, 1, 1, m, 2));
        if (m % 2 == 1)
            pairs = tern_cat(1, pairs, tern_slice(keys, 1, m - 1, m));
        keys = ranks_of(pairs);
    }
    return keys == NULL ? NULL : tern_reshape(keys, TERN_SHAPE(-1));
}

/* x with `dim` in front and what is in a part behind it. */
static tern_tensor *rows_of(tern_tensor *x, int dim)
{
    return tern_reshape(tern_movedim(tern_detach(x), dim, 0), TERN_SHAPE(tern_size(x, dim), -1));
}

static bool check_dim(core_call *call, tern_tensor *x, int *dim)
{
    char shape[160];
    const tern_view *v = &x->view;
    if (*dim < -v->ndim || *dim >= v->ndim)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "%d is no dimension of a tensor %s", *dim,
                         core_shape_text(v->ndim, v->shape, shape, sizeof shape));
    *dim += *dim < 0 ? v->ndim : 0;
    for (int d = 0; d < v->ndim; d++)
        if (v->shape[d] == 0 && d != *dim)
            return core_fail(call, TERN_ERR_SHAPE, "tern_unique(x, NULL, NULL)",
                             "the parts along dimension %d of a tensor %s have no elements", *dim,
                             core_shape_text(v->ndim, v->shape, shape, sizeof shape));
    return true;
}

static tern_tensor *run_along(tern_tensor *x, int dim, tern_tensor **inverse, tern_tensor **counts)
{
    groups g = { 0 };
    if (tern_size(x, dim) == 0) {
        if (inverse != NULL)
            *inverse = tern_zeros(TERN_SHAPE(0), .dtype = TERN_I64, .like = x);
        if (counts != NULL)
            *counts = tern_zeros(TERN_SHAPE(0), .dtype = TERN_I64, .like = x);
        return tern_clone(tern_detach(x));
    }
    tern_tensor *keys = keys_of(rows_of(x, dim));
    if (keys == NULL || group(keys, &g) == NULL)
        return NULL;
    if (inverse != NULL)
        *inverse = inverse_of(&g, keys);
    if (counts != NULL)
        *counts = counts_of(&g);
    tern_tensor *places = tern_gather(g.order, 0, g.first);
    return tern_failed() ? NULL : tern_index_select(tern_detach(x), dim, places);
}

/* ---- public functions ---------------------------------------------------------------------------- */

/* dim: NULL for the elements. */
static tern_tensor *unique(tern_site_t site, tern_tensor *x, int *dim, tern_tensor **out_inverse,
                           tern_tensor **out_counts)
{
    tern_tensor **const out[] = { out_inverse, out_counts };
    tern_tensor *values = NULL, *more[2] = { NULL, NULL };
    tern_tensor **inverse = out_inverse != NULL ? &more[0] : NULL;
    tern_tensor **counts = out_counts != NULL ? &more[1] : NULL;
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_unique, site, 1, &x);
    if (core_compose_check(&frame)) {
        if (dim == NULL)
            values = run(x, inverse, counts);
        else if (check_dim(&frame.call, x, dim))
            values = run_along(x, *dim, inverse, counts);
    }
    return core_compose_end_with(&frame, values, 2, more, out);
}

tern_tensor *tern_unique_at(tern_site_t site, tern_tensor *x, tern_tensor **out_inverse,
                            tern_tensor **out_counts)
{
    return unique(site, x, NULL, out_inverse, out_counts);
}

tern_tensor *tern_unique_dim_at(tern_site_t site, tern_tensor *x, int dim,
                                tern_tensor **out_inverse, tern_tensor **out_counts)
{
    tern_thread *self = core_self();
    const char *outer = core_calling_begin(self, "unique_dim");
    tern_tensor *values = unique(site, x, &dim, out_inverse, out_counts);
    core_calling_end(self, outer);
    return values;
}
