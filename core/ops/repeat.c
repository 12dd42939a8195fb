/* repeat: copies side by side. An expanded dimension before each one that repeats, joined with it by a
 * copy; three of them at once, since a tensor has 8 dimensions. */
#include "core/compose.h"
#include "core/op_table.h"
#include "core/rules.h"

enum { AT_ONCE = 3 };

typedef struct repetition {
    int ndim;
    int64_t dims[TERN_MAX_DIMS];  /* of the tensor so far */
    int64_t times[TERN_MAX_DIMS]; /* what is left to do */
} repetition;

/* Leading dimensions of 1 for those that x does not have, and the checks. */
static bool start(core_frame *frame, const tern_view *x, const tern_shape_t *times, repetition *r)
{
    char text[160];
    int64_t result[TERN_MAX_DIMS];
    if (!times->set_ || times->ndim < x->ndim || times->ndim > TERN_MAX_DIMS)
        return core_fail(
            &frame->call, TERN_ERR_SHAPE, NULL,
            "%d numbers of repetitions for %d dimensions: one for each is needed, and at "
            "most %d",
            times->set_ ? times->ndim : 0, x->ndim, TERN_MAX_DIMS);
    r->ndim = times->ndim;
    bool fits = true;
    for (int d = 0; d < r->ndim; d++) {
        const int added = r->ndim - x->ndim;
        r->dims[d] = d < added ? 1 : x->shape[d - added];
        r->times[d] = times->dims[d];
        fits = fits && r->times[d] >= 0 &&
               !__builtin_mul_overflow(r->dims[d], r->times[d], &result[d]);
    }
    if (!fits || core_numel(r->ndim, result) < 0)
        return core_fail(&frame->call, TERN_ERR_SHAPE, NULL,
                         "repetitions %s are negative or make too many elements",
                         core_shape_text(times->ndim, times->dims, text, sizeof text));
    return true;
}

static tern_tensor *shaped(tern_tensor *x, int ndim, const int64_t *dims)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = ndim };
    for (int d = 0; d < ndim; d++)
        shape.dims[d] = dims[d];
    return tern_reshape(x, shape);
}

/* Up to AT_ONCE dimensions from the last on: [before, 1, rest, 1, rest, ...], each 1 expanded. */
static tern_tensor *repeat_some(tern_tensor *x, repetition *r)
{
    int which[AT_ONCE], n = 0;
    for (int d = r->ndim - 1; d >= 0 && n < AT_ONCE; d--)
        if (r->times[d] != 1)
            which[n++] = d;
    int64_t split[1 + 2 * AT_ONCE] = { 1 };
    tern_shape_t grown = { .set_ = TERN_GIVEN_, .ndim = 1 + 2 * n };
    int d = 0;
    for (; d < which[n - 1]; d++)
        split[0] *= r->dims[d];
    grown.dims[0] = split[0];
    for (int i = 0; i < n; i++) {
        const int end = i + 1 < n ? which[n - 2 - i] : r->ndim; /* which[] runs from the last */
        split[1 + 2 * i] = split[2 + 2 * i] = 1;
        grown.dims[1 + 2 * i] = r->times[d];
        for (; d < end; d++)
            split[2 + 2 * i] *= r->dims[d];
        grown.dims[2 + 2 * i] = split[2 + 2 * i];
    }
    for (int i = 0; i < n; i++) {
        r->dims[which[i]] *= r->times[which[i]];
        r->times[which[i]] = 1;
    }
    tern_tensor *all = tern_expand(shaped(x, grown.ndim, split), grown);
    return tern_numel(all) == 0 ? tern_clone(all) : tern_contiguous(all); /* no view of x */
}

static bool is_done(const repetition *r)
{
    for (int d = 0; d < r->ndim; d++)
        if (r->times[d] != 1)
            return false;
    return true;
}

tern_tensor *tern_repeat_at(tern_site_t site, tern_tensor *x, tern_shape_t times)
{
    core_frame frame;
    repetition r;
    core_compose_begin(&frame, TERN_OP_repeat, site, 1, &x);
    tern_tensor *out = NULL;
    if (core_compose_check(&frame) && start(&frame, &x->view, &times, &r)) {
        out = is_done(&r) ? tern_clone(x) : x;
        while (out != NULL && !is_done(&r))
            out = repeat_some(out, &r);
        if (out != NULL)
            out = shaped(out, r.ndim, r.dims);
    }
    return core_compose_end(&frame, out);
}
