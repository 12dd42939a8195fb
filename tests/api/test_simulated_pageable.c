/* A device that reads pageable memory itself, when a copy's turn comes: what the host writes or frees after a
 * call must have been read (T019). */
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/support/simulator.h"

static const tern_dev_t dev = { TERN_KIND_CUDA, 0 };

/* What freed memory holds is the next one's. */
static void overwrite_freed(size_t bytes)
{
    void *again = malloc(bytes);
    assert_non_null(again);
    memset(again, 0x55, bytes);
    free(again);
}

static void test_randperm_frees_what_has_been_read(void **state)
{
    (void)state;
    TERN_SCOPE;
    for (int64_t n = 5; n < 2000; n *= 7) {
        tern_tensor *order = tern_randperm(n, .device = dev);
        overwrite_freed((size_t)n * sizeof(int64_t));
        int64_t sum = 0, got[2000];
        tern_read(order, TERN_I64, got, n * 8);
        assert_no_error();
        for (int64_t i = 0; i < n; i++)
            sum += got[i];
        assert_int_equal(sum, n * (n - 1) / 2);
    }
}

static void test_a_source_may_be_overwritten(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(100));
    tern_tensor *there = tern_to(x, dev, .non_blocking = true);
    ((float *)tern_data(x))[7] = 5;
    assert_close(tern_item(tern_sum(there)), 100, 0);
    assert_no_error();
}

/* Nobody can say what memory it is: the call fails, and has read it. */
static void test_a_source_may_be_overwritten_after_a_failure(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(100)),
                *there = tern_zeros(TERN_SHAPE(100), .device = dev);
    simulator_set("FAIL", "cudaPointerGetAttributes@1=2");
    assert_null(tern_copy(there, x, .non_blocking = true));
    assert_non_null(strstr(tern_error_text(), "cudaPointerGetAttributes"));
    tern_error_clear();
    ((float *)tern_data(x))[7] = 5;
    assert_close(tern_item(tern_sum(there)), 100, 0);
    assert_no_error();
}

/* Nothing waits for a copy of page-locked memory. */
static void test_page_locked_memory_is_not_waited_for(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_pin(tern_ones(TERN_SHAPE(100)));
    (void)tern_dev_synchronize(dev);
    tern_tensor *there = tern_to(x, dev, .non_blocking = true);
    assert_int_equal(tern_stream_query(tern_current_stream(dev)), 0);
    assert_close(tern_item(tern_sum(there)), 100, 0);
    assert_no_error();
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    (void)setenv("TERN_SIM_STAGING", "off", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_randperm_frees_what_has_been_read),
        cmocka_unit_test(test_a_source_may_be_overwritten),
        cmocka_unit_test(test_a_source_may_be_overwritten_after_a_failure),
        cmocka_unit_test(test_page_locked_memory_is_not_waited_for),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
