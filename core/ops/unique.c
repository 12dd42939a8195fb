/* unique: the different elements, made of sorts. How many there are is read by the host. */
#include "core/compose.h"
#include "core/op_table.h"

typedef struct groups {
    tern_tensor *order; /* places of the elements in sorted order */
    tern_tensor *group; /* of each element in sorted order, its value's number, i64 */
    tern_tensor *first; /* in sorted order, of each value */
    int64_t count;
} groups;

/* What begins a new value among sorted elements. */
static tern_tensor *beginnings(tern_tensor *sorted)
{
    const int64_t n = sorted->view.numel;
    tern_tensor *one = tern_ones(TERN_SHAPE(1), .dtype = TERN_BOOL, .device = tern_device(sorted));
    if (n == 1)
        return one;
    return tern_cat(0, one,
                    tern_ne(tern_slice(sorted, .start = 1), tern_slice(sorted, .end = n - 1)));
}

/* The values in order, with what is needed for the rest; NULL after an error. n > 0. */
static tern_tensor *group(tern_tensor *flat, groups *out)
{
    const int64_t n = flat->view.numel;
    tern_tensor *sorted = tern_sort(flat, 0, false, &out->order);
    if (sorted == NULL)
        return NULL;
    tern_tensor *begins = beginnings(sorted);
    out->group = tern_sub(tern_cumsum(begins, 0), 1);
    if (out->group == NULL)
        return NULL;
    out->count = tern_item_int(tern_select(out->group, 0, n - 1)) + 1;
    if (tern_failed() || tern_topk(begins, out->count, 0, true, &out->first) ==
                             NULL) /* equal ones keep their order */
        return NULL;
    return tern_gather(sorted, 0, out->first);
}

/* Each element's value: groups in sorted order, brought back to where the elements were. */
static tern_tensor *inverse_of(const groups *g, tern_tensor *x)
{
    tern_tensor *back = tern_gather(g->group, 0, tern_argsort(g->order, 0, false));
    return back != NULL ? tern_reshape(back, tern_shape(x)) : NULL;
}

static tern_tensor *counts_of(const groups *g)
{
    tern_tensor *end = tern_full((double)g->group->view.numel, TERN_SHAPE(1), .dtype = TERN_I64,
                                 .device = tern_device(g->group));
    if (g->count > 1)
        end = tern_cat(0, tern_slice(g->first, .start = 1), end);
    return tern_sub(end, g->first);
}

/* NULL stays NULL; else the frame's end leaves it. */
static tern_tensor *kept(tern_tensor *t)
{
    return t != NULL ? core_retain(t) : NULL;
}

static tern_tensor *run(tern_tensor *x, tern_tensor **inverse, tern_tensor **counts)
{
    const tern_dev_t dev = tern_device(x);
    groups g = { 0 };
    if (x->view.numel == 0) {
        if (inverse != NULL)
            *inverse = kept(tern_zeros(tern_shape(x), .dtype = TERN_I64, .device = dev));
        if (counts != NULL)
            *counts = kept(tern_zeros(TERN_SHAPE(0), .dtype = TERN_I64, .device = dev));
        return tern_zeros(TERN_SHAPE(0), .dtype = tern_dtype(x), .device = dev);
    }
    tern_tensor *values = group(tern_reshape(tern_detach(x), TERN_SHAPE(-1)), &g);
    if (values != NULL && inverse != NULL)
        *inverse = kept(inverse_of(&g, x));
    if (values != NULL && counts != NULL)
        *counts = kept(counts_of(&g));
    return tern_failed() ? NULL : values;
}

static void hand_out(tern_thread *self, tern_tensor **t, bool failed)
{
    if (t != NULL && *t != NULL && failed)
        core_release(self, *t);
    if (t != NULL)
        *t = failed ? NULL : core_scope_add(self, *t);
}

tern_tensor *tern_unique_at(tern_site_t site, tern_tensor *x, tern_tensor **out_inverse,
                            tern_tensor **out_counts)
{
    tern_tensor *values = NULL;
    core_frame frame;
    if (out_inverse != NULL)
        *out_inverse = NULL;
    if (out_counts != NULL)
        *out_counts = NULL;
    core_compose_begin(&frame, TERN_OP_unique, site, 1, &x);
    if (core_compose_check(&frame))
        values = run(x, out_inverse, out_counts);
    values = core_compose_end(&frame, values);
    hand_out(frame.call.self, out_inverse, values == NULL);
    hand_out(frame.call.self, out_counts, values == NULL);
    return values;
}
