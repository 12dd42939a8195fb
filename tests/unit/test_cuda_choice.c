/* Choosing among fake CUDA devices: switches, tern_dev_best, reports, fork, a list that changes. Rows
 * D019, D026, D028, D031, D039, D050, D056, D058, D062, D064, F002. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tern/system.h"
#include "tests/support/check.h"

/* A folder with the plugin under its usual name; the driver is not asked. */
static char folder[] = "/tmp/tern-choice-XXXXXX", plugin[64];

static char logged[1024];

static void listen(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)level, (void)site, (void)user;
    (void)snprintf(logged, sizeof logged, "%s", text);
    (void)tern_dev_count(TERN_KIND_CUDA); /* a listener may ask */
}

static void test_the_switch_hides_and_shows(void **state) /* F002 */
{
    (void)state;
    assert_int_equal(tern_dev_count(TERN_KIND_CUDA), 2);
    assert_false(tern_dev_fallback(NULL));
    assert_true(tern_dev_equal(tern_dev_auto(), TERN_CUDA(0)));
    tern_cuda_set_enabled(false);
    assert_false(tern_cuda_enabled());
    assert_int_equal(tern_dev_count(TERN_KIND_CUDA), 0);
    assert_true(tern_dev_equal(tern_dev_auto(), TERN_CPU));
    tern_fallback_t why;
    assert_true(tern_dev_fallback(&why));
    assert_string_equal(why.code, "disabled-by-call");
    tern_cuda_set_enabled(true);
    assert_int_equal(tern_dev_count(TERN_KIND_CUDA), 2);
    assert_true(tern_cudnn_enabled());
    tern_cudnn_set_enabled(false);
    assert_false(tern_cudnn_enabled());
    tern_cudnn_set_enabled(true);
}

static void test_a_bad_index_is_an_error_not_a_fallback(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_null(tern_empty(TERN_SHAPE(1), .device = TERN_CUDA(2)));
    assert_error(TERN_ERR_DEVICE, "no device cuda:2: 2 are visible");
}

static void test_setting_a_device_that_is_not_there(void **state) /* D019 */
{
    (void)state;
    assert_int_equal(tern_dev_set(TERN_CUDA(2)), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, "no device cuda:2");
    assert_int_equal(tern_dev_set(TERN_CUDA(1)), TERN_OK);
    assert_int_equal(tern_dev_auto().index, 1); /* the current one */
    assert_int_equal(tern_dev_set(TERN_CUDA(0)), TERN_OK);
}

static bool plugin_is_mapped(void)
{
    char line[1024];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL)
        found = found || strstr(line, "tern_fake_cuda") != NULL;
    (void)fclose(maps);
    return found;
}

/* Runs before the search. */
static void test_asking_for_memory_starts_nothing(void **state) /* D058, D064 */
{
    (void)state;
    TERN_SCOPE;
    assert_non_null(tern_ones(TERN_SHAPE(2)));
    const tern_memory_t memory = tern_memory(TERN_CUDA(0));
    assert_int_equal(memory.allocated_bytes, 0);
    assert_int_equal(memory.peak_reserved_bytes, 0);
    assert_int_equal(tern_memory_stats(TERN_CUDA(0)).allocation.allocated, 0);
    assert_int_equal(tern_memory_stat(TERN_CUDA(0), "allocation.all.current"), -1);
    tern_memory_reset_peak(TERN_CUDA(0));
    tern_memory_reset_accumulated(TERN_CUDA(0));
    tern_empty_cache(TERN_CUDA(0));
    tern_seed(3);
    assert_no_error();
    assert_false(plugin_is_mapped());
}

static int starts;

static void use_cuda(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)level, (void)site, (void)user;
    if (strcmp(text, "a fake start") != 0)
        return;
    starts++;
    tern_cuda_report_t report;
    tern_cuda_report(&report);
    if (tern_dev_count(TERN_KIND_CUDA) != 0 || tern_plugin_load(plugin) != TERN_ERR_BACKEND ||
        strstr(tern_error_text(), "this thread is starting another plugin") == NULL)
        _exit(2);
    tern_error_clear();
}

static void start_with_a_listener(void)
{
    tern_cuda_report_t report;
    (void)alarm(20);
    (void)setenv("FAKE_SAYS", "a fake start", 1);
    tern_log_set_callback(use_cuda, NULL);
    if (tern_plugin_load(plugin) != TERN_OK || starts != 1)
        _exit(3);
    tern_cuda_report(&report); /* nothing was found out in the middle of the start */
    _exit(tern_dev_count(TERN_KIND_CUDA) == 2 && strcmp(report.tried, "") == 0 ? 0 : 4);
}

static void test_a_listener_of_a_start_may_ask(void **state)
{
    (void)state;
    int status = -1;
    const pid_t child = fork();
    if (child == 0)
        start_with_a_listener();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_best_takes_the_roomiest_with_enough(void **state)
{
    (void)state;
    tern_fallback_t why = { "x", "x", "x" };
    assert_int_equal(tern_dev_best(0).index, 1); /* 1000 and 2000 bytes are free */
    assert_int_equal(tern_dev_best(1500, .why = &why).index, 1);
    assert_string_equal(why.code, "");
    assert_true(tern_dev_equal(tern_dev_best(2001, .why = &why), TERN_CPU));
    assert_string_equal(why.code, "not-enough-memory");
    assert_non_null(strstr(why.text, "no device has 2001 bytes free, the most are 2000"));
    assert_no_error();
    tern_set_device_policy(TERN_REQUIRE);
    assert_true(tern_dev_equal(tern_dev_best(2001), TERN_CPU));
    assert_error(TERN_ERR_DEVICE, "not-enough-memory");
    tern_set_device_policy(TERN_CPU_ONLY);
    assert_true(tern_dev_equal(tern_dev_best(1, .why = &why), TERN_CPU));
    assert_string_equal(why.code, "disabled-by-policy");
    tern_set_device_policy(TERN_PREFER);
}

static void test_reports_say_what_the_plugin_says(void **state)
{
    (void)state;
    tern_dev_info_t info;
    assert_true(tern_dev_info(TERN_CUDA(1), &info));
    assert_string_equal(info.name, "Fake GPU 1");
    assert_string_equal(info.uuid, "GPU-fake-1");
    assert_int_equal(info.capability, 90);
    assert_int_equal(info.free_bytes, 2000);
    assert_int_equal(info.driver_version, 13000);
    assert_string_equal(info.libraries, "fakeBLAS 1.0");
    assert_false(tern_dev_info(TERN_CUDA(2), &info));
    assert_true(tern_dev_info(TERN_CPU, &info));
    tern_cuda_report_t report;
    tern_cuda_report(&report);
    assert_string_equal(report.reason, "");
    assert_non_null(strstr(report.plugin, "/libtern_cuda.so"));
    tern_cpu_report_t cpu;
    tern_cpu_report(&cpu);
    assert_true(cpu.processors >= 1 && cpu.threads >= 1 && strlen(cpu.isa) > 0);
    assert_true(strlen(cpu.tuning) > 0);
}

static void test_bf16_is_native_from_capability_8(void **state) /* D039 */
{
    (void)state;
    assert_true(tern_bf16_supported(TERN_CUDA(0), false));
    (void)setenv("FAKE_DEVICE", "75", 1);
    assert_false(tern_bf16_supported(TERN_CUDA(0), false));
    assert_true(tern_bf16_supported(TERN_CUDA(0), true));
    assert_false(tern_bf16_supported(TERN_CUDA(2), true)); /* there is none */
    {                                                      /* A005 */
        TERN_AUTOCAST(TERN_CUDA(0), TERN_BF16); /* computed in f32 there, as in PyTorch */
        assert_true(tern_autocast_enabled(TERN_CUDA(0)));
        TERN_AUTOCAST(TERN_CUDA(2), TERN_BF16, .disabled = true);
        assert_false(tern_failed());
        tern_autocast_region none = tern_autocast_begin(TERN_CUDA(2), TERN_BF16);
        assert_error(TERN_ERR_DEVICE, "autocast: there is no device cuda:2");
        tern_autocast_end(&none);
        assert_false(tern_autocast_enabled(TERN_CUDA(0)));
    }
    (void)setenv("FAKE_DEVICE", "80", 1);
    assert_true(tern_bf16_supported(TERN_CUDA(-1), false));
    (void)unsetenv("FAKE_DEVICE");
    tern_cuda_set_enabled(false);
    assert_false(tern_bf16_supported(TERN_CUDA(0), true));
    tern_cuda_set_enabled(true);
    assert_true(tern_bf16_supported(TERN_CPU, true));
}

static void test_a_list_that_changes_is_reported_once(void **state) /* D031, D056 */
{
    (void)state;
    tern_log_set_callback(listen, NULL);
    assert_int_equal(tern_dev_count(TERN_KIND_CUDA), 2);
    assert_string_equal(logged, "");
    (void)setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    assert_int_equal(tern_dev_count(TERN_KIND_CUDA), 2);
    assert_non_null(strstr(logged, "CUDA_VISIBLE_DEVICES is =1 now and was not set"));
    assert_non_null(strstr(logged, "read once"));
    logged[0] = '\0';
    (void)tern_dev_fallback(NULL);
    assert_string_equal(logged, "");
    (void)unsetenv("CUDA_VISIBLE_DEVICES");
    tern_log_set_callback(NULL, NULL);
}

static void test_a_child_forked_after_the_start_is_told(void **state) /* D062 */
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        tern_fallback_t why;
        const bool fails = tern_empty(TERN_SHAPE(1), .device = TERN_CUDA(0)) == NULL &&
                           tern_error_code() == TERN_ERR_STATE &&
                           strstr(tern_error_text(), "[forked-after-start]") != NULL;
        tern_error_clear();
        const bool cpu = tern_empty(TERN_SHAPE(1)) != NULL && tern_dev_fallback(&why) &&
                         strcmp(why.code, "forked-after-start") == 0;
        _exit(fails && cpu ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(tern_dev_count(TERN_KIND_CUDA), 2);
}

static void test_codes_are_all_different(void **state)
{
    (void)state;
    int count = 0;
    for (; tern_reason_code(count) != NULL; count++)
        for (int j = 0; j < count; j++)
            assert_string_not_equal(tern_reason_code(count), tern_reason_code(j));
    assert_true(count >= 15);
    assert_null(tern_reason_code(-1));
}

static int make_folder(void **state)
{
    (void)state;
    char from[1024];
    const char *plugins = getenv("TERN_TEST_PLUGINS");
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(from, sizeof from, "%s/tern_fake_cuda.so", plugins != NULL ? plugins : ".");
    (void)snprintf(plugin, sizeof plugin, "%s/libtern_cuda.so", folder);
    return setenv("TERN_PLUGIN_PATH", folder, 1) == 0 ? symlink(from, plugin) : -1;
}

static int find_plugin(void **state)
{
    (void)state;
    return tern_dev_count(TERN_KIND_CUDA) == 2 ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return unlink(plugin) == 0 ? rmdir(folder) : -1;
}

int main(void)
{
    static const char *const unset[] = { "CUDA_VISIBLE_DEVICES", "TERN_DEVICE_POLICY",
                                         "TERN_SIM_DEVICES" };
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++)
        (void)unsetenv(unset[i]);
    (void)setenv("TERN_PROBE_SECONDS", "0", 1);
    const struct CMUnitTest before[] = {
        cmocka_unit_test(test_asking_for_memory_starts_nothing),
        cmocka_unit_test(test_a_listener_of_a_start_may_ask),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_setting_a_device_that_is_not_there),
        cmocka_unit_test(test_the_switch_hides_and_shows),
        cmocka_unit_test(test_a_bad_index_is_an_error_not_a_fallback),
        cmocka_unit_test(test_best_takes_the_roomiest_with_enough),
        cmocka_unit_test(test_bf16_is_native_from_capability_8),
        cmocka_unit_test(test_reports_say_what_the_plugin_says),
        cmocka_unit_test(test_a_list_that_changes_is_reported_once),
        cmocka_unit_test(test_a_child_forked_after_the_start_is_told),
        cmocka_unit_test(test_codes_are_all_different),
    };
    const int failed = cmocka_run_group_tests(before, make_folder, NULL);
    return failed + cmocka_run_group_tests(tests, find_plugin, remove_folder);
}
