/* The null backend: everything that needs no kernel works, the rest is reported. */
#include <stdio.h>
#include <stdlib.h>

#include "core/pool.h"
#include "tests/support/check.h"
#include "tests/support/files.h"

static void test_the_least_that_a_backend_is(void **state)
{
    (void)state;
    TERN_SCOPE;
    char path[512];
    const char *folder = getenv("TERN_TEST_PLUGINS");
    (void)snprintf(path, sizeof path, "%s/tern_null_backend.so", folder != NULL ? folder : ".");
    assert_int_equal(tern_plugin_load(path), TERN_OK);
    const tern_dev_t dev = TERN_EXT(0);
    tern_tensor *x = tern_arange(0, 4, .dtype = TERN_F32);
    tern_tensor *there = tern_to(x, dev);
    assert_no_error();
    assert_close(tern_item(tern_sum(tern_cpu(there))), 6, 0);
    assert_null(tern_add(there, there));
    assert_error(TERN_ERR_UNSUPPORTED, "add: null:0 has no kernel");
    /* a second backend of the same kind is refused with a reason */
    assert_int_equal(tern_plugin_load(path), TERN_ERR_BACKEND);
    assert_error(TERN_ERR_BACKEND, "another backend");
}

static void test_a_snapshot_says_that_free_memory_is_not_known(void **state)
{
    (void)state;
#ifdef CORE_POOL_BYPASS
    print_message("skipped: the backend asks the heap, and a sanitizer's ends the process\n");
    skip();
#else
    const tern_dev_t dev = TERN_EXT(0);
    assert_int_equal(tern_memory_record_history(dev, 10), TERN_OK);
    assert_null(tern_memory_alloc(dev, INT64_C(1) << 50, NULL));
    assert_error(TERN_ERR_OOM, "out of memory on null:0");
    const char *path = file_path("snapshot.json");
    assert_int_equal(tern_memory_snapshot(dev, path), TERN_OK);
    const file_bytes text = file_read(path);
    assert_non_null(text.data);
    assert_non_null(memmem(text.data, text.count, "\"device_free\": -1, ", 19));
    free(text.data);
    assert_int_equal(tern_memory_record_history(dev, 0), TERN_OK);
#endif
}

static void test_bad_plugins_say_why(void **state)
{
    (void)state;
    assert_int_equal(tern_plugin_load("relative.so"), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "working directory is not searched");
    assert_int_equal(tern_plugin_load("/nowhere/backend.so"), TERN_ERR_BACKEND);
    assert_error(TERN_ERR_BACKEND, "/nowhere/backend.so");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bad_plugins_say_why),
                                        cmocka_unit_test(test_the_least_that_a_backend_is),
                                        cmocka_unit_test(
                                            test_a_snapshot_says_that_free_memory_is_not_known) };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
