/* Tensors that came by DLPack, beside the work of a simulated device. */
#include <stdlib.h>

#include "tern/dlpack.h"
#include "tests/support/check.h"

static const tern_dev_t dev = { TERN_KIND_CUDA, 0 };

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

/* Page-locked memory of another's: it may be somebody's again as soon as the last tensor over it goes. */
static void test_a_copy_has_read_others_memory_when_it_returns(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *p = tern_pin(tern_ones(TERN_SHAPE(1 << 16)));
    void *memory = tern_data(p);
    tern_tensor *q = tern_from_dlpack(tern_to_dlpack(p));
    tern_drop(p);
    tern_tensor *there = tern_to(q, dev, .non_blocking = true);
    tern_drop(q);
    tern_tensor *other = tern_pin(tern_full(2, TERN_SHAPE(1 << 16)));
    assert_ptr_equal(tern_data(other), memory);
    assert_close(tern_item(tern_mean(there)), 1, 0);
    assert_no_error();
}

/* What a device says of a failure it says once: here to the release, which waits. */
static void test_a_release_does_not_lose_a_failure(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *imported =
        tern_from_dlpack(tern_to_dlpack(tern_ones(TERN_SHAPE(10), .device = dev)));
    tern_tensor *table = tern_ones(TERN_SHAPE(10, 4), .device = dev);
    tern_tensor *bad = tern_full(99, TERN_SHAPE(3), .dtype = TERN_I64, .device = dev);
    assert_non_null(tern_embedding(table, bad));
    tern_drop(imported);
    assert_error(TERN_ERR_INDEX, "index 99");
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_a_copy_has_read_others_memory_when_it_returns),
        TEST(test_a_release_does_not_lose_a_failure),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
