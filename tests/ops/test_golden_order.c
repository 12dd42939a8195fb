/* Sorting and what is made of it against golden vectors: forward and gradients, in f64 and in f32. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

GOLDEN_OP(sort, tern_sort(in[0], 1, false, &golden_second))
GOLDEN_OP(sort_falling, tern_sort(in[0], -1, true, &golden_second))
GOLDEN_OP(topk, tern_topk(in[0], 3, 1, true, &golden_second))
GOLDEN_OP(topk_least, tern_topk(in[0], 2, 0, false, &golden_second))
GOLDEN_OP(topk_2, tern_topk(in[0], 2, 1, true, &golden_second))
GOLDEN_OP(median, tern_median(in[0], 1, &golden_second))
GOLDEN_OP(median_0, tern_median(in[0], 0, &golden_second))
GOLDEN_OP(median_all, tern_median_all(in[0]))
GOLDEN_OP(unique, tern_unique(in[0], &golden_second, &golden_third))
GOLDEN_OP(argsort, tern_argsort(in[0], 1, false))
GOLDEN_OP(argsort_falling, tern_argsort(in[0], 0, true))
GOLDEN_OP(unique_first, tern_unique_dim(in[0], 0, &golden_second, &golden_third))
GOLDEN_OP(unique_second, tern_unique_dim(in[0], 1, &golden_second, &golden_third))
GOLDEN_OP(unique_middle, tern_unique_dim(in[0], -2, &golden_second, &golden_third))
GOLDEN_OP(search, tern_searchsorted(in[0], in[1], false))
GOLDEN_OP(search_right, tern_searchsorted(in[0], in[1], true))

static const golden_row rows[] = {
    { "sort", "x", run_sort, 0 },
    { "argsort", "x", run_argsort, 0 },
    { "argsort_falling", "x", run_argsort_falling, 0 },
    { "sort_falling", "x", run_sort_falling, 0 },
    { "sort_ties", "x", run_sort, 0 },
    { "sort_ties_falling", "x", run_sort_falling, 0 },
    { "sort_nan", "x", run_sort, 0 },
    { "sort_nan_falling", "x", run_sort_falling, 0 },
    { "topk", "x", run_topk, 0 },
    { "topk_least", "x", run_topk_least, 0 },
    { "topk_nan", "x", run_topk_2, 0 },
    { "median", "x", run_median, 0 },
    { "median_even", "x", run_median_0, 0 },
    { "median_nan", "x", run_median, 0 },
    { "median_all", "x", run_median_all, 0 },
    { "median_all_ties", "x", run_median_all, 4 },
    { "median_none", "x", run_median_all, 0 },
    { "unique", "x", run_unique, 0 },
    { "unique_nan", "x", run_unique, 0 },
    { "unique_rows", "x", run_unique_first, 0 },
    { "unique_columns", "x", run_unique_second, 0 },
    { "unique_middle", "x", run_unique_middle, 0 },
    { "unique_line", "x", run_unique_first, 0 },
    { "unique_none", "x", run_unique_first, 0 },
    { "unique_real", "x", run_unique_first, 0 },
    { "search", "s x", run_search, 0 },
    { "search_right", "s x", run_search_right, 0 },
    { "search_line", "s x", run_search, 0 },
};

int main(void)
{
    golden_use("order", rows, sizeof rows / sizeof *rows, "");
    const struct CMUnitTest tests[] = { GOLDEN_TESTS };
    return check_run(tests, golden_setup, golden_teardown);
}
