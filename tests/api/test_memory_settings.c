/* A setting that cannot be is an error of the first request for a device's memory, and of no other. Whose memory is
 * set where there is no such device, or more than one. */
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

static void *no_memory(int64_t bytes, int device, void *stream, void *user)
{
    (void)bytes, (void)device, (void)stream, (void)user;
    fail_msg("the CPU asked a GPU's allocator");
    return NULL;
}

static void nothing(void *data, int64_t bytes, int device, void *stream, void *user)
{
    (void)data, (void)bytes, (void)device, (void)stream, (void)user;
}

static int said;

static void listen(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)site, (void)user;
    said += level == TERN_LOG_WARNING && strstr(text, "cuda:0 is the CPU here") != NULL;
}

static void test_a_gpus_settings_are_not_the_cpus(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_dev_t gpu = TERN_CUDA(0);
    tern_set_device_policy(TERN_CPU_ONLY);
    tern_log_set_callback(listen, NULL);
    assert_int_equal(tern_set_memory_fraction(gpu, 0), TERN_OK);
    assert_int_equal(tern_set_memory_settings(gpu, "max_split_size_mb:32"), TERN_OK);
    assert_int_equal(tern_set_raw_allocator(gpu, .alloc = no_memory, .free = nothing), TERN_OK);
    tern_log_set_callback(NULL, NULL);
    assert_int_equal(said, 1);
    assert_close(tern_memory_fraction(gpu), 1, 0);
    assert_close(tern_memory_fraction(TERN_CPU), 1, 0);
    assert_int_equal(tern_memory_stat(TERN_CPU, "max_split_size"), -1);
    assert_non_null(tern_zeros(TERN_SHAPE(100 << 20), .dtype = TERN_U8, .device = gpu));
    assert_no_error();
    assert_int_equal(tern_set_memory_fraction(gpu, 7), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "7 is not between 0 and 1");
    tern_set_memory_settings(gpu, "max_split:32");
    assert_error(TERN_ERR_ARGUMENT, "unknown key 'max_split'");
    tern_set_raw_allocator(gpu, .alloc = no_memory);
    assert_error(TERN_ERR_ARGUMENT, "both alloc and free are needed");
    tern_set_device_policy(TERN_PREFER);
}

static void test_all_devices_are_no_device(void **state)
{
    (void)state;
    tern_set_memory_fraction(TERN_ALL_DEVICES, 0.5);
    assert_error(TERN_ERR_ARGUMENT, "set_memory_fraction: TERN_ALL_DEVICES is no device");
    tern_set_memory_settings(TERN_ALL_DEVICES, "");
    assert_error(TERN_ERR_ARGUMENT, "set_memory_settings: TERN_ALL_DEVICES is no device");
    tern_set_raw_allocator(TERN_ALL_DEVICES, .alloc = no_memory, .free = nothing);
    assert_error(TERN_ERR_ARGUMENT, "set_raw_allocator: TERN_ALL_DEVICES is no device");
    tern_memory_record_history(TERN_ALL_DEVICES, 10);
    assert_error(TERN_ERR_ARGUMENT, "memory_record_history: TERN_ALL_DEVICES is no device");
    assert_close(tern_memory_fraction(TERN_CPU), 1, 0);
}

int main(void)
{
    (void)setenv("TERN_ALLOC_CONF", "max_split:32", 1);
    if (second_backend_load() != TERN_OK)
        return tern_finish();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gpus_settings_are_not_the_cpus),
        cmocka_unit_test(test_a_bad_setting_is_told_where_it_matters),
        cmocka_unit_test(test_all_devices_are_no_device),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
