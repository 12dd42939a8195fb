/* A setting that cannot be is an error of the first request for a device's memory, and of no other. */
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/second_backend.h"

static void test_a_bad_setting_is_told_where_it_matters(void **state) /* M075 */
{
    (void)state;
    TERN_SCOPE;
    assert_non_null(tern_zeros(TERN_SHAPE(1000)));
    assert_no_error();
    assert_null(tern_zeros(TERN_SHAPE(1000), .device = TERN_EXT(0)));
    assert_error(TERN_ERR_ARGUMENT, "TERN_ALLOC_CONF: unknown key 'max_split'; known are backend");
    assert_int_equal(tern_set_memory_fraction(TERN_EXT(0), 0.5), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "TERN_ALLOC_CONF: unknown key");
    assert_int_equal(tern_memory(TERN_EXT(0)).reserved_bytes, 0);
    tern_empty_cache(TERN_EXT(0));
}

int main(void)
{
    (void)setenv("TERN_ALLOC_CONF", "max_split:32", 1);
    if (second_backend_load() != TERN_OK)
        return tern_finish();
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        test_a_bad_setting_is_told_where_it_matters) };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
