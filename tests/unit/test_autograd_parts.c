/* Backwards of a part of a graph, and backwards inside others: what runs, and what it leaves as it was. */
#include "tests/support/check.h"

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

static tern_tensor *leaf(double v)
{
    return tern_full(v, TERN_SHAPE(2), .dtype = TERN_F64, .requires_grad = true);
}
static double first(tern_tensor *t)
{
    double v[2] = { 0 };
    return tern_read(t, TERN_F64, v, sizeof v) == TERN_OK ? v[0] : -1e300;
}

static tern_tensor *counted(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t;
    (void)grad;
    ++*(int *)user;
    return NULL;
}

/* ---- tern_grad: nodes that lead to no input ------------------------------------------------------ */

static void test_what_lies_behind_the_inputs_does_not_run(void **state)
{
    (void)state;
    TERN_SCOPE;
    int calls = 0;
    tern_tensor *w = leaf(3), *square = tern_mul(w, w), *h = tern_mul(square, 2), *got[1];
    tern_add_hook(square, counted, &calls);
    tern_backward(tern_sum(h)); /* frees what leads to h */
    assert_int_equal(calls, 1);
    assert_int_equal(tern_grad(tern_sum(tern_mul(h, h)), &h, 1, got), TERN_OK);
    assert_close(first(got[0]), 36, 0);
    assert_int_equal(calls, 1);
    assert_int_equal(tern_grad(tern_sum(tern_mul(h, h)), &h, 1, got), TERN_OK);
    assert_close(first(got[0]), 36, 0);
}

/* What was saved there stays, for a backward that comes to it. */
static void test_what_did_not_run_keeps_what_it_saved(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = leaf(3), *v = leaf(2), *h = tern_mul(w, w), *aside = tern_mul(v, v), *got[2];
    tern_tensor *y = tern_sum(tern_add(tern_mul(h, 5), aside));
    assert_int_equal(tern_grad(y, &h, 1, got), TERN_OK);
    assert_close(first(got[0]), 5, 0);
    tern_backward(tern_sum(tern_add(h, aside)));
    assert_no_error();
    assert_close(first(tern_grad_of(w)), 6, 0);
    assert_close(first(tern_grad_of(v)), 4, 0);
}

static void test_inputs_before_and_behind_each_other(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = leaf(3), *h = tern_mul(w, w), *g = tern_mul(h, h), *got[3];
    tern_tensor *y = tern_sum(tern_add(tern_mul(g, h), w));
    tern_tensor *const in[] = { g, w, h };
    assert_int_equal(tern_grad(y, in, 3, got, .retain_graph = true), TERN_OK);
    assert_close(first(got[0]), 9, 0);
    assert_close(first(got[1]), 6 * 243 + 1, 0);
    assert_close(first(got[2]), 243, 0);
    tern_tensor *unused = leaf(1), *none[1];
    assert_int_equal(tern_grad(y, &unused, 1, none, .allow_unused = true), TERN_OK);
    assert_null(none[0]);
    tern_backward(y); /* nothing ran, so nothing was freed */
    assert_no_error();
    assert_close(first(tern_grad_of(w)), 6 * 243 + 1, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_what_lies_behind_the_inputs_does_not_run),
        TEST(test_what_did_not_run_keeps_what_it_saved),
        TEST(test_inputs_before_and_behind_each_other),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
