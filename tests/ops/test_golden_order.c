/* Sorting and what is made of it against golden vectors: forward and gradients, in f64 and in f32. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

static tern_tensor *second; /* what a run gives beside its result, and a third */
static tern_tensor *third;

GOLDEN_OP(sort, tern_sort(in[0], 1, false, &second))
GOLDEN_OP(sort_falling, tern_sort(in[0], -1, true, &second))
GOLDEN_OP(topk, tern_topk(in[0], 3, 1, true, &second))
GOLDEN_OP(topk_least, tern_topk(in[0], 2, 0, false, &second))
GOLDEN_OP(topk_2, tern_topk(in[0], 2, 1, true, &second))
GOLDEN_OP(median, tern_median(in[0], 1, &second))
GOLDEN_OP(median_0, tern_median(in[0], 0, &second))
GOLDEN_OP(median_all, tern_median_all(in[0]))
GOLDEN_OP(unique, tern_unique(in[0], &second, &third))
GOLDEN_OP(search, tern_searchsorted(in[0], in[1], false))
GOLDEN_OP(search_right, tern_searchsorted(in[0], in[1], true))

static const golden_row rows[] = {
    { "sort", "x", run_sort, 0 },
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
    { "search", "s x", run_search, 0 },
    { "search_right", "s x", run_search_right, 0 },
    { "search_line", "s x", run_search, 0 },
};
enum { ROWS = sizeof rows / sizeof *rows };

static void test_ops_agree_with_golden_vectors(void **state)
{
    (void)state;
    golden_check_rows(rows, ROWS);
}

/* Places, and what unique gives beside its values. */
static void test_other_results(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        TERN_SCOPE;
        const golden_array *y2 = golden_find(rows[i].test, "y2"), *y3;
        if (y2 == NULL)
            continue;
        golden_inputs in = golden_make_inputs(&rows[i], TERN_F32);
        second = third = NULL;
        assert_non_null(rows[i].run(in.tensors));
        golden_check(&rows[i], TERN_F32, "y2", second, y2);
        y3 = golden_find(rows[i].test, "y3");
        if (y3 != NULL)
            golden_check(&rows[i], TERN_F32, "y3", third, y3);
    }
}

static void test_every_case_has_a_test(void **state)
{
    (void)state;
    static const char *const elsewhere[] = { NULL };
    golden_check_complete(rows, ROWS, elsewhere);
}

static int open_golden(void **state)
{
    (void)state;
    return golden_open_or_say("order");
}

static int close_golden(void **state)
{
    (void)state;
    golden_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_agree_with_golden_vectors),
        cmocka_unit_test(test_other_results),
        cmocka_unit_test(test_every_case_has_a_test),
    };
    return check_run(tests, open_golden, close_golden);
}
