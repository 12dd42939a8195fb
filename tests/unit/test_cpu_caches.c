/* When results are written past the caches (backend_cpu/caches.h). */
#include "backend_cpu/caches.h"
#include "tests/support/between.h"
#include "tests/support/check.h"

static const int64_t mb = 1 << 20;

static void test_sizes_are_read_as_the_system_writes_them(void **state)
{
    (void)state;
    assert_int_equal(cpu_cache_size_of("32768K\n"), 32 * mb);
    assert_int_equal(cpu_cache_size_of("1M"), mb);
    assert_int_equal(cpu_cache_size_of("512"), 512);
    assert_int_equal(cpu_cache_size_of("2G\n"), 2048 * mb);
    assert_int_equal(cpu_cache_size_of(""), 0);
    assert_int_equal(cpu_cache_size_of("K"), 0);
    assert_int_equal(cpu_cache_size_of("12 KB"), 0);
    assert_int_equal(cpu_cache_size_of("99999999999999999999K"), 0);
}

static void test_the_size_of_this_machine_is_in_bounds(void **state)
{
    (void)state;
    assert_between(cpu_cache_bytes(), 1, CPU_CACHE_MOST);
    assert_int_equal(cpu_cache_bytes(), cpu_cache_bytes());
}

/* On a machine with 32 MB: what was measured there (docs/performance.md). */
static void test_reads_of_half_the_cache_decide(void **state)
{
    (void)state;
    assert_false(cpu_past_rule(32 * mb, 8 * mb, 8 * mb)); /* a copy finds room */
    assert_false(cpu_past_rule(32 * mb, 12 * mb, 6 * mb));
    assert_true(cpu_past_rule(32 * mb, 16 * mb, 8 * mb)); /* a sum of two does not */
    assert_true(cpu_past_rule(32 * mb, 16 * mb, 16 * mb));
    assert_false(cpu_past_rule(32 * mb, 0, 60 * mb)); /* a fill */
    assert_true(cpu_past_rule(32 * mb, 0, 64 * mb));
}

static void test_a_smaller_cache_is_full_earlier(void **state)
{
    (void)state;
    assert_false(cpu_past_rule(32 * mb, 4 * mb, 4 * mb));
    assert_true(cpu_past_rule(8 * mb, 4 * mb, 4 * mb));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_are_read_as_the_system_writes_them),
        cmocka_unit_test(test_the_size_of_this_machine_is_in_bounds),
        cmocka_unit_test(test_reads_of_half_the_cache_decide),
        cmocka_unit_test(test_a_smaller_cache_is_full_earlier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
