/* Properties of simulated devices, and what NVML tells of them; this program also runs where NVML is absent
 * (TERN_SIM_ABSENT). Row M037. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/child.h"

static bool with_nvml(void)
{
    const char *absent = getenv("TERN_SIM_ABSENT");
    return absent == NULL || absent[0] == '\0';
}

static void test_properties(void **state)
{
    (void)state;
    tern_dev_info_t info;
    assert_true(tern_dev_info(TERN_CUDA(1), &info));
    assert_true(info.simulated);
    assert_string_equal(info.name, "simulated device 1");
    assert_string_equal(info.uuid, "GPU-73696d75-6c61-7465-6400-000000000001");
    assert_string_equal(info.pci, "0000:02:00.0");
    assert_int_equal(info.capability, 90);
    assert_int_equal(info.multiprocessors, 4);
    assert_int_equal(info.warp_size, 32);
    assert_int_equal(info.threads_per_multiprocessor, 2048);
    assert_int_equal(info.shared_bytes, 48 << 10);
    assert_int_equal(info.l2_bytes, 1 << 20);
    assert_int_equal(info.utilization, with_nvml() ? 0 : -1);
    assert_int_equal(info.memory_utilization, with_nvml() ? 0 : -1);
    assert_int_equal(info.temperature, with_nvml() ? 20 : -1);
    assert_int_equal(info.clock_mhz, with_nvml() ? 1000 : -1);
    assert_true(tern_dev_info(TERN_CPU, &info));
    assert_int_equal(info.utilization, -1);
    assert_string_equal(info.pci, "");
}

static void look_at_parts(void)
{
    tern_dev_info_t info;
    (void)setenv("TERN_SIM_MIG", "on", 1);
    EXPECT(tern_dev_info(TERN_CUDA(1), &info));
    EXPECT(strcmp(info.name, "simulated device 1 MIG 1g.5gb") == 0);
    EXPECT(strcmp(info.uuid, "MIG-73696d75-6c61-7465-6400-000000000001") == 0);
    EXPECT(info.temperature == 20); /* NVML knows it by that */
}

static void look_at_one_part(void)
{
    tern_dev_info_t info;
    (void)setenv("TERN_SIM_MIG", "on", 1);
    (void)setenv("CUDA_VISIBLE_DEVICES", "MIG-73696d75-6c61-7465-6400-000000000001", 1);
    EXPECT(tern_dev_count(TERN_KIND_CUDA) == 1);
    EXPECT(tern_dev_info(TERN_CUDA(0), &info));
    EXPECT(strcmp(info.name, "simulated device 1 MIG 1g.5gb") == 0);
}

/* Before any device of this process is looked at. */
static void test_parts_of_a_gpu(void **state)
{
    (void)state;
    assert_in_child(look_at_parts, .fail = NULL);
    assert_in_child(look_at_one_part, .fail = NULL);
}

/* The third device that is opened cannot be: with NVML that is the last one used, without it the last one asked. */
static void take_the_best(void)
{
    (void)tern_empty(TERN_SHAPE(1 << 20), .device = TERN_CUDA(0));
    EXPECT(tern_dev_equal(tern_dev_best(), TERN_CUDA(1)));
    tern_tensor *x = tern_ones(TERN_SHAPE(2), .device = TERN_CUDA(2));
    EXPECT((x == NULL) == with_nvml());
    EXPECT(x != NULL || strstr(tern_error_text(), "opening the device") != NULL);
    tern_error_clear();
}

/* The roomiest cannot be opened. */
static void take_the_next(void)
{
    (void)tern_empty(TERN_SHAPE(1 << 20), .device = TERN_CUDA(0));
    EXPECT(tern_dev_equal(tern_dev_best(), TERN_CUDA(2)));
    EXPECT(!tern_failed());
}

static void test_the_best_is_found_without_opening_the_others(void **state)
{
    (void)state;
    (void)setenv("TERN_SIM_DEVICES", "3", 1);
    assert_in_child(take_the_best, .fail = "cudaHostAlloc@3=46",
                    .absent = getenv("TERN_SIM_ABSENT"));
    assert_in_child(take_the_next, .fail = "cudaHostAlloc@2=46",
                    .absent = getenv("TERN_SIM_ABSENT"));
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
}

static void test_out_of_memory_names_processes(void **state) /* M037 */
{
    (void)state;
    TERN_SCOPE;
    assert_non_null(tern_empty(TERN_SHAPE(10 << 20), .dtype = TERN_U8, .device = TERN_CUDA(0)));
    assert_null(tern_empty(TERN_SHAPE(1LL << 40), .device = TERN_CUDA(0)));
    const char *text = tern_error_text();
    assert_int_equal(strstr(text, "  process 4242 has 512.00 KiB in use there") != NULL,
                     with_nvml());
    assert_int_equal(strstr(text, "  this process has 10.00 MiB in use there") != NULL,
                     with_nvml());
    tern_oom_info_t info;
    assert_true(tern_oom_info(&info));
    assert_int_equal(info.process_count, with_nvml() ? TERN_OOM_PROCESSES : 0);
    if (with_nvml()) {
        assert_int_equal(info.processes[0].pid, getpid());
        assert_int_equal(info.processes[0].bytes, info.reserved_bytes);
        assert_int_equal(info.processes[1].pid, 4242);
        assert_int_equal(info.processes[1].bytes, 512 << 10);
    }
    tern_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_a_gpu),
        cmocka_unit_test(test_the_best_is_found_without_opening_the_others),
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_out_of_memory_names_processes),
    };
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
    char processes[2048] = "4242:524288"; /* and more than fit into the first answer */
    for (int i = 0; i < 70; i++)
        (void)snprintf(processes + strlen(processes), sizeof processes - strlen(processes),
                       ",%d:4096", 5000 + i);
    (void)setenv("TERN_SIM_PROCESSES", processes, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
