/* Sorting, parts of a sorted order, searching, drawing by weights. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define FROM(lo, hi, ...) \
    { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ }, .low = lo, .high = hi }

static int last_of(const value *in) { return in[0].ndim > 0 ? in[0].ndim - 1 : 0; }
static tern_tensor *run_sort(tern_tensor **in) { return tern_sort(in[0], -1, false, NULL); }
static value ref_sort_last(const value *in) { return ref_order(&in[0], last_of(in), false, false); }
static tern_tensor *run_sort_first(tern_tensor **in) { return tern_sort(in[0], 0, true, NULL); }
static value ref_sort_first(const value *in) { return ref_order(&in[0], 0, true, false); }
static tern_tensor *run_sort_places(tern_tensor **in)
{
    tern_tensor *places = NULL;
    (void)tern_sort(in[0], -1, false, &places);
    return places;
}
static value ref_places(const value *in) { return ref_order(&in[0], last_of(in), false, true); }
static tern_tensor *run_argsort(tern_tensor **in) { return tern_argsort(in[0], 1, true); }
static value ref_argsort(const value *in) { return ref_order(&in[0], 1, true, true); }
static value part(const value *in, bool descending, bool places, int64_t first, int64_t count)
{
    value order = ref_order(&in[0], 1, descending, places), out = ref_part(&order, 1, first, count);
    value_free(&order);
    return out;
}
static tern_tensor *run_topk(tern_tensor **in) { return tern_topk(in[0], 2, 1, true, NULL); }
static value ref_topk(const value *in) { return part(in, true, false, 0, 2); }
static tern_tensor *run_topk_least(tern_tensor **in) { return tern_topk(in[0], 5, 1, false, NULL); }
static value ref_topk_least(const value *in) { return part(in, false, false, 0, 5); }
static tern_tensor *run_topk_places(tern_tensor **in)
{
    tern_tensor *places = NULL;
    (void)tern_topk(in[0], 3, 1, true, &places);
    return places;
}
static value ref_topk_places(const value *in) { return part(in, true, true, 0, 3); }
static tern_tensor *run_median(tern_tensor **in) { return tern_median(in[0], 1, NULL); }
static value middle(const value *in, bool places)
{
    value out = part(in, false, places, (in[0].dims[1] - 1) / 2, 1);
    for (int d = 1; d + 1 < out.ndim; d++)
        out.dims[d] = out.dims[d + 1];
    out.ndim--;
    return out;
}
static value ref_median(const value *in) { return middle(in, false); }
static tern_tensor *run_median_places(tern_tensor **in)
{
    tern_tensor *places = NULL;
    (void)tern_median(in[0], 1, &places);
    return places;
}
static value ref_median_places(const value *in) { return middle(in, true); }
static tern_tensor *run_median_all(tern_tensor **in) { return tern_median_all(in[0]); }
static value ref_median_all(const value *in)
{
    value flat = value_copy(&in[0]);
    flat.ndim = 1;
    flat.dims[0] = flat.numel;
    value order = ref_order(&flat, 0, false, false), out = ref_part(&order, 0, (flat.numel - 1) / 2, 1);
    out.ndim = 0;
    value_free(&flat);
    value_free(&order);
    return out;
}
static value ref_nan(const value *in)
{
    (void)in;
    value out = value_new(0, NULL);
    out.data[0] = NAN;
    return out;
}
static tern_tensor *run_unique(tern_tensor **in) { return tern_unique(in[0], NULL, NULL); }
static value ref_unique_0(const value *in) { return ref_unique(&in[0]); }
static tern_tensor *run_unique_inverse(tern_tensor **in)
{
    tern_tensor *inverse = NULL;
    (void)tern_unique(in[0], &inverse, NULL);
    return inverse;
}
static value ref_unique_inverse(const value *in)
{
    value values = ref_unique(&in[0]), out = value_copy(&in[0]);
    for (int64_t i = 0; i < out.numel; i++)
        for (int64_t k = 0; k < values.numel; k++)
            if (values.data[k] == in[0].data[i])
                out.data[i] = (double)k;
    value_free(&values);
    return out;
}
static tern_tensor *run_unique_counts(tern_tensor **in)
{
    tern_tensor *counts = NULL;
    (void)tern_unique(in[0], NULL, &counts);
    return counts;
}
static value ref_unique_counts(const value *in)
{
    value out = ref_unique(&in[0]);
    for (int64_t k = 0; k < out.numel; k++) {
        double count = 0;
        for (int64_t i = 0; i < in[0].numel; i++)
            count += in[0].data[i] == out.data[k];
        out.data[k] = count;
    }
    return out;
}

static tern_tensor *run_search(tern_tensor **in)
{
    return tern_searchsorted(tern_sort(in[0], -1, false, NULL), in[1], false);
}
static tern_tensor *run_search_right(tern_tensor **in)
{
    return tern_searchsorted(tern_sort(in[0], -1, false, NULL), in[1], true);
}
/* How many of the row are less, or at most as large. */
static value search(const value *in, bool right)
{
    value out = value_copy(&in[1]);
    const int64_t n = in[0].dims[in[0].ndim - 1], rows = in[0].numel / n;
    const int64_t each = rows > 0 ? in[1].numel / rows : 1;
    for (int64_t i = 0; i < out.numel; i++) {
        const double *row = in[0].data + i / each * n;
        double count = 0;
        for (int64_t k = 0; k < n; k++)
            count += row[k] < in[1].data[i] || (right && row[k] == in[1].data[i]);
        out.data[i] = count;
    }
    return out;
}
static value ref_search(const value *in) { return search(in, false); }
static value ref_search_right(const value *in) { return search(in, true); }

static double uniform(uint64_t i)
{
    uint32_t bits[4];
    tern_philox(11, 0, i / 2, bits);
    const uint64_t low = bits[2 * (i % 2)], high = bits[2 * (i % 2) + 1];
    return (double)((high << 32 | low) >> 11) * 0x1p-53;
}
static tern_tensor *run_multinomial(tern_tensor **in)
{
    tern_seed(11);
    return tern_multinomial(in[0], 9, .replacement = true);
}
static value ref_multinomial(const value *in)
{
    const int64_t n = in[0].dims[1], rows = in[0].dims[0];
    value out = value_new(2, (const int64_t[]){ rows, 9 });
    for (int64_t i = 0; i < out.numel; i++) {
        const double *weights = in[0].data + i / 9 * n;
        double total = 0, sum = 0;
        for (int64_t k = 0; k < n; k++)
            total += weights[k];
        int64_t k = 0;
        while ((sum += weights[k]) <= uniform((uint64_t)i) * total)
            k++;
        out.data[i] = (double)k;
    }
    return out;
}
static tern_tensor *run_multinomial_once(tern_tensor **in)
{
    tern_seed(11);
    return tern_multinomial(in[0], 3);
}
static value ref_multinomial_once(const value *in)
{
    value times = value_copy(&in[0]);
    for (int64_t i = 0; i < times.numel; i++)
        times.data[i] /= -log(1 - uniform((uint64_t)i));
    value out = part(&times, true, true, 0, 3);
    value_free(&times);
    return out;
}

#define CASE1(name, label_, input, run_, reference, grads)                                   \
    { OPINFO(name), .label = label_, .in = { input }, .run = run_, .ref = reference,          \
      .differentiable = (grads) > 0, .order = grads }

const opinfo opinfo_order[] = {
    CASE1(sort, "last", REAL(3, 7), run_sort, ref_sort_last, 2),
    CASE1(sort, "first, falling", REAL(5, 3, 2), run_sort_first, ref_sort_first, 2),
    CASE1(sort, "0-dim", { .kind = INPUT_REAL }, run_sort, ref_sort_last, 2),
    CASE1(sort, "empty", REAL(3, 0), run_sort, ref_sort_last, 0),
    CASE1(sort, "places", REAL(4, 9), run_sort_places, ref_places, 0),
    CASE1(sort, "long", REAL(2, 2300), run_sort_places, ref_places, 0),
    CASE1(sort, "many", REAL(300, 5), run_sort, ref_sort_last, 0),
    CASE1(sort, "columns", REAL(700, 3), run_sort_first, ref_sort_first, 0),
    CASE1(argsort, "", REAL(3, 6, 2), run_argsort, ref_argsort, 0),
    CASE1(topk, "", REAL(3, 6, 2), run_topk, ref_topk, 2),
    CASE1(topk, "least", REAL(3, 6), run_topk_least, ref_topk_least, 2),
    CASE1(topk, "places", REAL(2, 3000), run_topk_places, ref_topk_places, 0),
    CASE1(median, "", REAL(3, 6, 2), run_median, ref_median, 2),
    CASE1(median, "places", REAL(2, 2100), run_median_places, ref_median_places, 0),
    CASE1(median, "all", REAL(3, 5), run_median_all, ref_median_all, 2),
    { OPINFO(median), .label = "all of nothing", .in = { REAL(0, 5) }, .run = run_median_all,
      .ref = ref_nan, .differentiable = 1, .order = 1, .skip_dtypes = DT_ALL & ~DT_FLOATS,
      .why = "an error: integers have no NaN" },
    CASE1(unique, "", REAL(5, 30), run_unique, ref_unique_0, 0),
    CASE1(unique, "inverse", REAL(5, 30), run_unique_inverse, ref_unique_inverse, 0),
    CASE1(unique, "counts", REAL(5, 30), run_unique_counts, ref_unique_counts, 0),
    { OPINFO(searchsorted), .label = "", .in = { REAL(3, 9), REAL(3, 5) }, .run = run_search,
      .ref = ref_search },
    { OPINFO(searchsorted), .label = "right, one row", .in = { REAL(700), REAL(3, 5) },
      .run = run_search_right, .ref = ref_search_right },
    { OPINFO(multinomial), .label = "", .in = { FROM(0.25, 2, 3, 6) }, .run = run_multinomial,
      .ref = ref_multinomial },
    { OPINFO(multinomial), .label = "once", .in = { FROM(0.25, 2, 3, 6) }, .run = run_multinomial_once,
      .ref = ref_multinomial_once },
};
const int opinfo_order_count = sizeof opinfo_order / sizeof *opinfo_order;
