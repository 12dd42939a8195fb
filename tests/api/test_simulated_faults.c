/* Bad indices, targets and chances on a simulated device: kernels note the first of many, in memory of the
 * host. Not built where there are no simulated devices. */
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/simulator.h"

static const tern_dev_t dev = { TERN_KIND_CUDA, 0 };

/* The next wait finds a mistake, for which kernels have gone to the host's memory once. */
static void assert_noted_once(int64_t before, tern_status_t code, const char *text)
{
    assert_int_equal(tern_dev_synchronize(dev), code);
    assert_error(code, text);
    assert_int_equal(simulator_compares() - before, 1);
    assert_int_equal(tern_dev_synchronize(dev), TERN_OK);
}

static void test_many_bad_targets_are_noted_once(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const char *const said = "target -1 at position 0 is no class; there are 33 classes";
    tern_tensor *x = tern_randn(TERN_SHAPE(40, 33), .device = dev, .requires_grad = true);
    tern_tensor *target = tern_full(-1, TERN_SHAPE(40), .dtype = TERN_I64, .device = dev);
    int64_t before = simulator_compares();
    tern_tensor *loss = tern_cross_entropy(x, target, .reduction = TERN_REDUCTION_SUM);
    assert_noted_once(before, TERN_ERR_INDEX, said);
    before = simulator_compares();
    tern_backward(loss);
    assert_noted_once(before, TERN_ERR_INDEX, said);
    assert_close(tern_item(tern_sum(tern_abs(tern_grad_of(x)))), 0, 0);
}

static void test_many_bad_rows_are_noted_once(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const char *const said =
        "index -1 at position 0 is outside the table, which has 10 rows";
    tern_tensor *table = tern_ones(TERN_SHAPE(10, 40), .device = dev, .requires_grad = true);
    tern_tensor *bad = tern_full(-1, TERN_SHAPE(50), .dtype = TERN_I64, .device = dev);
    int64_t before = simulator_compares();
    tern_tensor *rows = tern_embedding(table, bad);
    assert_noted_once(before, TERN_ERR_INDEX, said);
    before = simulator_compares();
    tern_backward(tern_sum(rows));
    assert_noted_once(before, TERN_ERR_INDEX, said);
}

static void test_many_bad_indices_are_noted_once(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const char *const said = "index 99 at position 0 is outside its dimension, which has 10";
    tern_tensor *x = tern_ones(TERN_SHAPE(10, 40), .device = dev);
    tern_tensor *bad = tern_full(99, TERN_SHAPE(50), .dtype = TERN_I64, .device = dev);
    int64_t before = simulator_compares();
    assert_non_null(tern_index_select(x, 0, bad));
    assert_noted_once(before, TERN_ERR_INDEX, said);
    before = simulator_compares();
    assert_non_null(tern_bernoulli(tern_full(2, TERN_SHAPE(1000), .device = dev), NULL));
    assert_noted_once(before, TERN_ERR_ARGUMENT, "2 at position 0 is no probability in [0, 1]");
}

/* What is damaged by an index outside: nothing, as on the CPU. */
static void assert_passed_over(tern_tensor *t, double sum)
{
    assert_int_equal(tern_dev_synchronize(dev), TERN_ERR_INDEX);
    tern_error_clear();
    const double found = tern_item(tern_sum(t));
    tern_error_clear(); /* the kernels of a gradient note it again */
    assert_close(found, sum, 0);
}

static void test_an_index_outside_writes_nothing(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t rows[] = { 9, 2 }, columns[] = { 1, -7 };
    tern_tensor *i = tern_to(tern_from_data(rows, TERN_SHAPE(2), TERN_I64), dev);
    tern_tensor *j = tern_to(tern_from_data(columns, TERN_SHAPE(2), TERN_I64), dev);
    for (int adds = 0; adds < 2; adds++) {
        tern_tensor *x = tern_zeros(TERN_SHAPE(4), .device = dev);
        tern_index_put_(x, 7, adds != 0, i);
        assert_passed_over(x, 7); /* of the index 2 */
        tern_tensor *square = tern_zeros(TERN_SHAPE(3, 2), .device = dev);
        tern_index_put_(square, 7, adds != 0, i, j); /* outside in the first, in the second */
        assert_passed_over(square, 0);
    }
    tern_tensor *x = tern_ones(TERN_SHAPE(4), .device = dev, .requires_grad = true);
    tern_tensor *y = tern_index(x, i);
    assert_int_equal(tern_dev_synchronize(dev), TERN_ERR_INDEX);
    tern_error_clear();
    tern_backward(tern_sum(tern_mul(y, 5)));
    assert_int_equal(tern_dev_synchronize(dev), TERN_ERR_INDEX);
    assert_error(TERN_ERR_INDEX, "the index at position 0 was outside its dimension");
    assert_close(tern_item(tern_sum(tern_grad_of(x))), 5, 0);
}

/* ---- a slot that is being written -------------------------------------------------------------- */

/* As kernels write it. */
typedef struct slot {
    unsigned kind, reserved;
    long long value, position, limit;
} slot;

static slot *noted, seen;

static void look(void *compared)
{
    noted = compared;
    seen = *noted;
}

/* Another stream's kernel may be writing while the host, having waited for its own, looks. */
static void test_what_is_not_whole_is_not_reported(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *table = tern_ones(TERN_SHAPE(10, 4), .device = dev);
    tern_tensor *bad = tern_full(12, TERN_SHAPE(3), .dtype = TERN_I64, .device = dev);
    simulator_watch_fences(look);
    assert_non_null(tern_embedding(table, bad));
    assert_int_equal(tern_dev_synchronize(dev), TERN_ERR_INDEX);
    simulator_watch_fences(NULL);
    tern_error_clear();
    assert_int_equal(seen.value, 12);
    assert_int_equal(seen.limit, 10);
    assert_int_equal(noted->kind, 0);
    noted->kind = seen.kind; /* as it was before its kind came */
    assert_int_equal(tern_dev_synchronize(dev), TERN_OK);
    assert_int_equal(noted->kind, seen.kind);
    noted->kind = 2;
    assert_int_equal(tern_dev_synchronize(dev), TERN_ERR_INDEX);
    assert_error(TERN_ERR_INDEX, "index 12 at position 0 is outside the table, which has 10 rows");
    assert_int_equal(noted->kind, 0);
}

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_many_bad_targets_are_noted_once),   TEST(test_many_bad_rows_are_noted_once),
        TEST(test_many_bad_indices_are_noted_once),   TEST(test_an_index_outside_writes_nothing),
        TEST(test_what_is_not_whole_is_not_reported),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
