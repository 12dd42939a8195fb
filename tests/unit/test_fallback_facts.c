/* What is known beside the reason for not using CUDA, and processes in which the question itself is hard to ask
 * (support/fallback.h). */
#include <dlfcn.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/fallback.h"
#include "tests/support/files.h"

/* Runs what follows by a shell: its $0 and $1 are the program and its argument. */
#define SHELL(script) "sh -c '" script "' "

/* The driver is asked through a pipe, whose ends get the numbers that are free. */
static void test_standard_files_that_are_closed(void **state)
{
    (void)state;
    fallback_expect_usable(PLUGIN SHELL("\"$0\" \"$1\" <&- 2>&-"));
    fallback_expect_usable(PLUGIN SHELL("\"$0\" \"$1\" 2>&-"));
    fallback_expect_usable(PLUGIN SHELL("\"$0\" \"$1\" <&-"));
}

/* PyTorch's tensors may come before tern's first. The driver refuses a child of who started it. */
static void test_a_driver_that_the_process_has_started(void **state)
{
    (void)state;
    fallback_expect_usable(PLUGIN "TEST_STARTED=here");
    fallback_expect_usable(PLUGIN "TEST_STARTED=here TEST_FEW_FILES=1 TERN_LOG_FILE=started.txt");
    assert_int_not_equal(access(file_path("started.txt"), F_OK), 0); /* no child is wanted */
    fallback_run(PLUGIN "TEST_STARTED=here FAKE_VERSION=11080");
    assert_non_null(strstr(fallback_answer, "the driver is for CUDA 11.8"));
}

static void test_a_driver_that_a_forking_process_had_started(void **state)
{
    (void)state;
    static const char *const settings[] = {
        PLUGIN "TEST_STARTED=forked",
        PLUGIN "TEST_STARTED=forked TERN_PROBE_SECONDS=0 "
               "FAKE_BACKEND='cudaErrorInitializationError (3): no'",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        fallback_run(settings[i]);
        if (strstr(fallback_answer, "forked-after-start|0|") != fallback_answer)
            fail_msg("%s: %s", settings[i], fallback_answer);
    }
}

/* For who looks for the call behind which no process may be forked. */
static void test_the_log_has_the_line_of_the_first_request(void **state)
{
    (void)state;
    fallback_expect_usable(PLUGIN "TERN_LOG=info TERN_LOG_FILE=first.txt");
    fallback_read("first.txt", fallback_said);
    const char *at = strstr(fallback_said, ": CUDA is looked for: ");
    assert_non_null(at);
    assert_null(strstr(at + 3, "CUDA is looked for"));
    assert_true(strstr(fallback_said, "tern info: ") < at &&
                strstr(fallback_said, "fallback.c:") < at);
    fallback_expect_usable(PLUGIN "TERN_LOG_FILE=quiet.txt");
    assert_int_not_equal(access(file_path("quiet.txt"), F_OK), 0);
}

/* A limit that leaves no pipe, or no child, says nothing of the driver. */
static void test_a_driver_that_cannot_be_asked_beforehand(void **state)
{
    (void)state;
    fallback_expect_usable(PLUGIN "TEST_FEW_FILES=1");
    /* the runtime's word for what it cannot know */
    fallback_expect(PLUGIN "TEST_FEW_FILES=1 FAKE_BACKEND='cudaErrorInsufficientDriver (35): old'",
                    "init-failed", "cudaErrorInsufficientDriver (35): old");
    assert_null(strstr(fallback_answer, "several versions"));
    if (dlopen("libcuda.so.1", RTLD_LAZY) == NULL)
        fallback_expect("TEST_FEW_FILES=1 FAKE_BACKEND='cudaErrorInsufficientDriver (35): old'",
                        "no-driver-library", "libcuda.so.1: cannot open shared object file");
}

static void test_a_plugin_that_is_cut(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "TERN_PLUGIN_PATH=\"$PWD/cut\"", "plugin-broken",
                    "the file is cut: it has ");
}

/* Codes of CUDA are the driver's, not the plugin's. */
static void test_a_runtime_that_does_not_start(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "FAKE_BACKEND='cudaErrorCallRequiresNewerDriver (36): newer'",
                    "init-failed",
                    "the CUDA runtime did not start: cudaErrorCallRequiresNewerDriver (36): newer; "
                    "the driver's files may be of several versions: look at ");
    assert_non_null(strstr(fallback_answer, "/driver/libcuda.so.1"));
    fallback_expect(PLUGIN "FAKE_BACKEND='cudaErrorSystemNotReady (802): not ready'", "init-failed",
                    "the CUDA runtime did not start: cudaErrorSystemNotReady (802): not ready");
    assert_null(strstr(fallback_answer, "several versions"));
    fallback_expect(PLUGIN "FAKE_BACKEND='cudaErrorNoDevice (100): none'", "no-device",
                    "cudaErrorNoDevice (100): none");
}

static void test_a_list_that_makes_a_device_invalid(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "FAKE_NONE=101 CUDA_VISIBLE_DEVICES=5", "hidden-by-bad-list",
                    "a device that is not there");
    fallback_expect(PLUGIN "FAKE_NONE=101 FAKE_DEVICES=0", "init-failed", "101 (invalid device)");
}

/* The runtime finds no device, and the driver does not without the list either, or cannot be asked. */
static void test_a_list_is_not_blamed_for_what_it_does_not_hide(void **state)
{
    (void)state;
#define NONE "CUDA_VISIBLE_DEVICES=0 FAKE_BACKEND='cudaErrorNoDevice (100): none' "
    fallback_expect(PLUGIN NONE "FAKE_INIT=100", "no-device", "cuInit gave 100");
    fallback_expect(PLUGIN NONE "FAKE_INIT=100 TERN_PROBE_SECONDS=0", "no-device",
                    "cuInit gave 100");
    fallback_expect(PLUGIN NONE "TERN_PROBE_SECONDS=0", "no-device", "cudaErrorNoDevice (100)");
    fallback_expect(PLUGIN NONE "TEST_FEW_FILES=1", "no-device", "cudaErrorNoDevice (100)");
    fallback_expect(PLUGIN NONE "CUDA_VISIBLE_DEVICES=5 TERN_PROBE_SECONDS=0", "hidden-by-bad-list",
                    "a device that is not there");
}

static void test_what_the_system_says_of_a_missing_library(void **state)
{
    (void)state;
    if (dlopen("libcuda.so.1", RTLD_LAZY) != NULL) {
        print_message("skipped: this machine has a libcuda.so.1\n");
        skip();
    }
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/wsl\"", "no-driver-library",
                    "; this is WSL, whose driver is installed on Windows");
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/bare\"", "no-driver-library",
                    "; the kernel driver 580.95.05 is loaded, its libraries are missing here (in a "
                    "container: NVIDIA_DRIVER_CAPABILITIES=compute,utility)");
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/nouveau\"", "no-driver-library",
                    "; no NVIDIA kernel driver is loaded, but nouveau");
}

static void test_nodes_of_wsl_and_tegra(void **state)
{
    (void)state;
    fallback_expect("LD_LIBRARY_PATH=\"$PWD/wsl/lib\" FAKE_INIT=100 TERN_PROBE_ROOT=\"$PWD/short\"",
                    "no-device-node", "/dev/dxg is missing, through which WSL 2 reaches the GPU");
    fallback_expect(PLUGIN "FAKE_INIT=100 TERN_PROBE_ROOT=\"$PWD/wsl\" TEST_AS_NOBODY=1",
                    "no-permission", "/dev/dxg may not be opened");
    fallback_expect(PLUGIN "FAKE_INIT=100 TERN_PROBE_ROOT=\"$PWD/tegra\" TEST_AS_NOBODY=1",
                    "no-permission", "/dev/nvmap may not be opened");
}

static void test_codes_that_come_with_a_remedy(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "FAKE_INIT=34", "init-failed", "take its folder off LD_LIBRARY_PATH");
    assert_non_null(strstr(fallback_answer, "printenv LD_LIBRARY_PATH"));
    fallback_expect(PLUGIN "FAKE_INIT=801", "init-failed", "801 (not supported)");
    fallback_expect(PLUGIN "FAKE_INIT=803", "init-failed", "|restart the machine; of a container");
    assert_non_null(strstr(fallback_answer, "next: restart the machine")); /* under require */
    fallback_expect(PLUGIN "FAKE_INIT=46", "init-failed", "sudo nvidia-smi -c DEFAULT");
    fallback_expect(PLUGIN "FAKE_INIT=12345", "init-failed", "tern explain init-failed has");
    fallback_expect(PLUGIN "FAKE_BACKEND='cudaErrorDevicesUnavailable (46): busy'", "init-failed",
                    "sudo nvidia-smi -c DEFAULT");
}

/* What helps depends on where the program runs. */
static void test_steps_for_the_place(void **state)
{
    (void)state;
#define NO_NODE PLUGIN "FAKE_INIT=100 TERN_PROBE_ROOT=\"$PWD/"
    fallback_expect(NO_NODE "bare\"", "no-device-node", "|run sudo nvidia-modprobe -c 0 -u|");
    fallback_expect(NO_NODE "nouveau\"", "no-device-node",
                    "|run echo blacklist nouveau | sudo tee");
    fallback_expect(NO_NODE "boxed\"", "no-device-node",
                    "|start the container with docker run --gpus all");
    fallback_expect(NO_NODE "boxed\" KUBERNETES_SERVICE_HOST=10.0.0.1", "no-device-node",
                    "|give the pod a GPU: resources: limits: nvidia.com/gpu: 1");
    fallback_expect(PLUGIN "FAKE_VERSION=11080 TERN_PROBE_ROOT=\"$PWD/boxed\"", "driver-too-old",
                    "|install a newer driver on the host, not in the container");
    fallback_expect(PLUGIN "FAKE_VERSION=11080", "driver-too-old", "|install a newer driver, or a");
    if (dlopen("libcuda.so.1", RTLD_LAZY) != NULL) {
        print_message("skipped in part: this machine has a libcuda.so.1\n");
        return;
    }
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/bare\"", "no-driver-library",
                    "|install the libraries of driver 580.95.05 (Ubuntu: sudo apt install "
                    "libnvidia-compute-580; ");
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/boxed\"", "no-driver-library",
                    "|start the container with docker run --gpus all");
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/wsl\"", "no-driver-library",
                    "|export LD_LIBRARY_PATH=/usr/lib/wsl/lib; ");
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/boxed\" LD_LIBRARY_PATH=\"$PWD/short\"",
                    "no-driver-library", "if a file is named, mend it");
    assert_int_equal(symlink("/dev/null", file_path("boxed/dev/nvidiactl")), 0);
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/boxed\"", "no-driver-library",
                    "|start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility");
}

/* Of two devices the second has more free memory. */
static void expect_choice(const char *settings, const char *words)
{
    fallback_run(settings);
    if (strncmp(fallback_answer, "|2|", 3) != 0 || strstr(fallback_answer, words) == NULL)
        fail_msg("%s: not '%s' but:\n%s", settings, words, fallback_answer);
}

static void test_a_device_without_code_is_not_chosen(void **state)
{
    (void)state;
#define CHOICE PLUGIN "TEST_CHOICE=1 FAKE_FREE=1000 FAKE_DEVICES=2 "
    expect_choice(CHOICE "FAKE_CAPABILITY=90,80", "|1|0|");
    expect_choice(CHOICE "FAKE_CAPABILITY=90,61", "|0|0|");
    expect_choice(CHOICE "FAKE_CAPABILITY=61,90", "|1|1|");
}

static void test_a_list_numbers_devices_anew(void **state)
{
    (void)state;
    expect_choice(
        PLUGIN "TEST_CHOICE=1 CUDA_VISIBLE_DEVICES=0",
        "there is no device cuda:7: 2 are visible; of CUDA_VISIBLE_DEVICES=0 the first is "
        "cuda:0");
    expect_choice(PLUGIN "TEST_CHOICE=1", "there is no device cuda:7: 2 are visible\n");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--ask") == 0)
        return fallback_ask();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standard_files_that_are_closed),
        cmocka_unit_test(test_a_driver_that_the_process_has_started),
        cmocka_unit_test(test_a_driver_that_a_forking_process_had_started),
        cmocka_unit_test(test_the_log_has_the_line_of_the_first_request),
        cmocka_unit_test(test_a_driver_that_cannot_be_asked_beforehand),
        cmocka_unit_test(test_a_plugin_that_is_cut),
        cmocka_unit_test(test_a_runtime_that_does_not_start),
        cmocka_unit_test(test_a_list_that_makes_a_device_invalid),
        cmocka_unit_test(test_a_list_is_not_blamed_for_what_it_does_not_hide),
        cmocka_unit_test(test_what_the_system_says_of_a_missing_library),
        cmocka_unit_test(test_nodes_of_wsl_and_tegra),
        cmocka_unit_test(test_codes_that_come_with_a_remedy),
        cmocka_unit_test(test_steps_for_the_place),
        cmocka_unit_test(test_a_device_without_code_is_not_chosen),
        cmocka_unit_test(test_a_list_numbers_devices_anew),
    };
    return cmocka_run_group_tests(tests, fallback_make_folders, NULL);
}
