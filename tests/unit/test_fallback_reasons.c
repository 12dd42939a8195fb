/* Every reason for not using CUDA, each made by fake libraries and folders (support/fallback.h). */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/cuda/reason.h"
#include "tern/system.h"
#include "tests/support/check.h"
#include "tests/support/fallback.h"
#include "tests/support/files.h"

static void expect_no_cuda_mapped(void)
{
    assert_int_equal(fallback_mapped(), 0);
}

static void test_an_empty_list(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES=", "hidden-by-empty-list", "is empty");
    expect_no_cuda_mapped();
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES=-1", "hidden-by-empty-list", "is -1");
    expect_no_cuda_mapped();
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES=NoDevFiles", "hidden-by-empty-list",
                    "is NoDevFiles");
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES=NoDevFiles", "hidden-by-empty-list",
                    "; in a batch job ask for a GPU");
    expect_no_cuda_mapped();
}

static void test_a_bad_list(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES=one,0", "hidden-by-bad-list", "'one' is none");
    expect_no_cuda_mapped();
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES='\"0\"'", "hidden-by-bad-list",
                    ", its quotes are a part of it");
    /* from a file with Windows' ends of lines, and worse */
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES=\"$(printf 'x\\r')\"", "hidden-by-bad-list",
                    "CUDA_VISIBLE_DEVICES=x\\r ends before its first device: 'x' is none");
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES=\"$(printf 'x\\ny\\t\\033')\"",
                    "hidden-by-bad-list", "x\\ny\\t\\x1b ends");
    /* no UTF-8, UTF-8, and that cut where 200 bytes of it are shown */
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES=\"$(printf 'x\377\303\244')\"",
                    "hidden-by-bad-list", "x\\xff\303\244 ends");
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES=\"$(printf 'x%0198d\303\244' 0)\"",
                    "hidden-by-bad-list", "0\\xc3 ends");
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES=0,0", "hidden-by-bad-list", "a device twice");
    expect_no_cuda_mapped();
    /* only the driver knows that there is no device 5; it is asked in a child */
    fallback_expect(PLUGIN "CUDA_VISIBLE_DEVICES=5", "hidden-by-bad-list",
                    "a device that is not there");
    expect_no_cuda_mapped();
}

static void test_policy_and_switch(void **state)
{
    (void)state;
    fallback_run(PLUGIN "TERN_DEVICE_POLICY=cpu");
    assert_ptr_equal(strstr(fallback_answer, "disabled-by-policy|1|0|0|"), fallback_answer);
    assert_string_equal(fallback_said, "");
    fallback_expect(PLUGIN "TEST_SWITCH_OFF=1", "disabled-by-call", "tern_cuda_set_enabled");
    expect_no_cuda_mapped();
}

/* "require" with a typing error must not end on the CPU. */
static void test_a_bad_policy_is_an_error(void **state)
{
    (void)state;
    static const char *const bad[] = { "reqire", "CPU", "'require '" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char settings[128], start[64];
        (void)snprintf(settings, sizeof settings, PLUGIN "TERN_DEVICE_POLICY=%s", bad[i]);
        fallback_run(settings);
        (void)snprintf(start, sizeof start, "disabled-by-bad-policy|0|0|%d|", TERN_ERR_DEVICE);
        if (strstr(fallback_answer, start) != fallback_answer ||
            strstr(fallback_answer,
                   " is none of prefer, require, cpu [disabled-by-bad-policy]\n") == NULL)
            fail_msg("%s: %s", settings, fallback_answer);
        assert_string_equal(fallback_said, "");
    }
    fallback_run(PLUGIN "TERN_DEVICE_POLICY=\"$(printf 'require\\r')\"");
    assert_non_null(strstr(fallback_answer, "|TERN_DEVICE_POLICY=require\\r is none of"));
    fallback_run(PLUGIN "TERN_DEVICE_POLICY=reqire TERN_LOG_FILE=bad.txt");
    fallback_read("bad.txt", fallback_said);
    assert_non_null(strstr(fallback_said,
                           "TERN_DEVICE_POLICY=reqire is none of prefer, require, cpu: "
                           "requests for CUDA fail"));
    file_bytes head = { NULL, 0 }; /* the log has nothing to say, and may not make a file */
    file_bytes_add(&head, "-", 1);
    (void)file_write("good.txt", head);
    fallback_run(PLUGIN "TERN_DEVICE_POLICY=reqire TEST_PREFER=1 TERN_LOG_FILE=good.txt");
    assert_ptr_equal(strstr(fallback_answer, "|2|"),
                     fallback_answer); /* the program says what holds */
    fallback_read("good.txt", fallback_said);
    assert_null(strstr(fallback_said, "requests for CUDA fail"));
    fallback_expect_usable(PLUGIN "TERN_DEVICE_POLICY=");
}

static void test_a_bad_count_of_simulated_devices(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "TERN_SIM_DEVICES=two", "disabled-by-bad-count",
                    "TERN_SIM_DEVICES=two is no number of simulated devices from 1 to 16");
    fallback_expect(PLUGIN "TERN_SIM_DEVICES=2x", "disabled-by-bad-count", "=2x is no number");
    fallback_expect(PLUGIN "TERN_SIM_DEVICES=17", "disabled-by-bad-count", "=17 is no number");
    fallback_expect(PLUGIN "TERN_SIM_DEVICES=-1", "disabled-by-bad-count", "=-1 is no number");
    expect_no_cuda_mapped();
    fallback_expect_usable(PLUGIN "TERN_SIM_DEVICES=");
    fallback_expect_usable(PLUGIN "TERN_SIM_DEVICES=0");
}

static void test_seconds_that_cannot_be_read_are_logged(void **state)
{
    (void)state;
    fallback_expect_usable(PLUGIN "TERN_PROBE_SECONDS=10s TERN_LOG_FILE=log.txt");
    fallback_read("log.txt", fallback_said);
    const char *at = strstr(
        fallback_said, "TERN_PROBE_SECONDS: '10s' is no number of seconds from 0 to 3600: 60 hold");
    assert_non_null(at);
    assert_null(strstr(at + 1, "TERN_PROBE_SECONDS"));
}

static void test_no_plugin(void **state)
{
    (void)state;
    fallback_expect("TERN_PLUGIN_PATH=\"$PWD\" TERN_SIM_DEVICES=2", "plugin-missing",
                    "libtern_sim.so");
    /* which of the two depends on what was configured */
    fallback_run("TERN_PLUGIN_PATH=\"$PWD\"");
    const bool without = strstr(fallback_answer, "built-without|") == fallback_answer;
    fallback_expect("TERN_PLUGIN_PATH=\"$PWD\"", without ? "built-without" : "plugin-missing",
                    without ? "has no CUDA backend" : "libtern_cuda.so");
}

static void test_a_broken_plugin(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "TERN_PLUGIN_PATH=\"$PWD/short\"", "plugin-broken", "file too short");
    fallback_expect(PLUGIN "TERN_PLUGIN_PATH=\"$PWD/other\"", "plugin-broken",
                    "exports no tern_backend_get");
    fallback_expect(PLUGIN "TERN_PLUGIN_PATH=\"$PWD/lacking\"", "plugin-broken",
                    "libq.so.6: cannot open shared object file");
    fallback_expect(PLUGIN "TERN_PLUGIN_PATH=\"$PWD/pipe\"", "plugin-broken",
                    "it is a pipe and no library");
    fallback_expect(PLUGIN "TERN_PLUGIN_PATH=\"$PWD/foreign\"", "plugin-broken",
                    "it is for another kind of machine: riscv");
    fallback_expect(PLUGIN "FAKE_BACKEND=refuse", "plugin-broken", "told to refuse");
    fallback_expect(PLUGIN "FAKE_BACKEND=refuse TERN_PROBE_SECONDS=0", "plugin-broken",
                    "told to refuse");
}

/* Of several folders the next is looked at; that a file was passed over is said. */
static void test_a_broken_plugin_before_another(void **state)
{
    (void)state;
    fallback_expect_usable(PLUGIN "TERN_PLUGIN_PATH=\"$PWD/short:$PWD/plugin\" "
                                  "TERN_LOG_FILE=passed.txt");
    fallback_read("passed.txt", fallback_said);
    assert_non_null(strstr(fallback_said, "/short/libtern_cuda.so: "));
    assert_non_null(strstr(fallback_said, "libtern_cuda.so is taken in its stead"));
}

/* One for a newer CUDA than the driver's is no reason to do without another. */
static void test_a_plugin_for_another_driver_before_one_for_this(void **state)
{
    (void)state;
#define NEWER PLUGIN "FAKE_VERSION=12080 TERN_PLUGIN_PATH=\"$PWD/newer"
    fallback_expect_usable(NEWER ":$PWD/plugin\" TERN_LOG_FILE=newer.txt");
    fallback_read("newer.txt", fallback_said);
    assert_non_null(strstr(fallback_said, "this plugin needs one for CUDA 13.0; "));
    assert_non_null(strstr(fallback_said, "/plugin/libtern_cuda.so is taken in its stead"));
    fallback_expect_usable(NEWER ":$PWD/plugin\" TERN_PROBE_SECONDS=0");
    fallback_expect(NEWER "\"", "driver-too-old", "needs one for CUDA 13.0");
    fallback_expect(NEWER ":$PWD/short\"", "driver-too-old", "needs one for CUDA 13.0");
    fallback_expect_usable(PLUGIN "FAKE_VERSION=13000 TERN_PLUGIN_PATH=\"$PWD/newer\"");
}

static void test_a_plugin_that_does_not_say_what_it_needs(void **state)
{
    (void)state;
    fallback_expect_usable(PLUGIN "FAKE_NEEDS=none FAKE_VERSION=11080");
}

static void test_no_driver_library(void **state)
{
    (void)state;
    if (dlopen("libcuda.so.1", RTLD_LAZY) != NULL) {
        print_message("skipped: this machine has a libcuda.so.1\n");
        skip();
    }
    fallback_expect("", "no-driver-library", "libcuda.so.1: cannot open shared object file");
    fallback_expect("LD_LIBRARY_PATH=\"$PWD/short\"", "no-driver-library", "file too short");
    fallback_expect("LD_LIBRARY_PATH=\"$PWD/dangling\"", "no-driver-library",
                    "is a link to nothing");
    /* of the folder's name too nothing is printed that is no text */
    assert_int_equal(symlink("dangling", file_path("odd\n\033")), 0);
    fallback_expect("LD_LIBRARY_PATH=\"$(printf '%s/odd\\n\\033' \"$PWD\")\"", "no-driver-library",
                    "/odd\\n\\x1b/libcuda.so.1 is a link to nothing");
    fallback_expect("LD_LIBRARY_PATH=\"$PWD/other\"", "no-driver-library",
                    "libcuda.so.1: undefined symbol: cuInit; ");
    assert_non_null(strstr(fallback_answer, "/other/libcuda.so.1 is what the loader finds"));
    fallback_expect("LD_LIBRARY_PATH=\"$PWD/foreign\"", "no-driver-library",
                    "/foreign/libcuda.so.1 is for another kind of machine: riscv");
    /* asked afterwards, too: the runtime would call it an old driver */
    fallback_expect("TERN_PROBE_SECONDS=0 FAKE_BACKEND=refuse", "no-driver-library",
                    "libcuda.so.1: cannot open shared object file");
}

static void test_an_old_driver(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "FAKE_VERSION=11080", "driver-too-old", "the driver is for CUDA 11.8");
    fallback_expect(PLUGIN "FAKE_VERSION=11080 FAKE_BACKEND=refuse TERN_PROBE_SECONDS=0",
                    "driver-too-old", "the driver is for CUDA 11.8");
}

static void test_no_device_node(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "FAKE_INIT=999 TERN_PROBE_ROOT=\"$PWD/bare\"", "no-device-node",
                    "/dev/nvidiactl is missing; the kernel driver 580.95.05 is loaded");
    fallback_expect(PLUGIN "FAKE_INIT=100 TERN_PROBE_ROOT=\"$PWD/nouveau\"", "no-device-node",
                    "/dev/nvidiactl is missing; no NVIDIA kernel driver is loaded, but nouveau");
    fallback_expect(
        PLUGIN "FAKE_INIT=100 TERN_PROBE_ROOT=\"$PWD/mounted\"", "no-device-node",
        "/dev/nvidia* cannot be opened: Is a directory; no NVIDIA kernel driver is loaded");
}

/* A terminal that nobody has unlocked refuses as a GPU does that its driver cannot start. */
static void test_a_device_that_does_not_start(void **state)
{
    (void)state;
    char name[64];
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || ptsname_r(terminal, name, sizeof name) != 0) {
        print_message("skipped: no terminal can be made\n");
        skip();
    }
    assert_int_equal(symlink(name, file_path("broken/dev/nvidia0")), 0);
    fallback_expect(PLUGIN "FAKE_INIT=100 TERN_PROBE_ROOT=\"$PWD/broken\"", "no-device",
                    "/dev/nvidia* cannot be opened: Input/output error");
    (void)close(terminal);
}

static void test_no_permission(void **state)
{
    (void)state;
    if (geteuid() != 0 && access("/proc/self", R_OK) != 0) {
        print_message("skipped: not root, and /proc is closed\n");
        skip();
    }
    fallback_expect(PLUGIN "FAKE_INIT=100 TEST_AS_NOBODY=1 TERN_PROBE_ROOT=\"$PWD/closed\"",
                    "no-permission", "/dev/nvidiactl may not be opened: Permission denied");
    assert_non_null(strstr(fallback_answer, "; in a container start that anew"));
}

static void test_no_device(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "FAKE_DEVICES=0", "no-device", "finds no device");
}

static void test_a_driver_that_fails(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "FAKE_INIT=803", "init-failed",
                    "cuInit gave 803 (the kernel driver and libcuda");
    /* a code that names its cause is not hidden behind a missing node */
    fallback_expect(PLUGIN "FAKE_INIT=803 TERN_PROBE_ROOT=\"$PWD/bare\"", "init-failed",
                    "libcuda.so.1; the kernel driver is 580.95.05");
    fallback_expect(PLUGIN "FAKE_INIT=34", "init-failed", "a stub of the toolkit");
}

static void test_a_driver_that_hangs_is_given_up(void **state)
{
    (void)state;
    struct timespec before, after;
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    fallback_run(PLUGIN "FAKE_INIT=hang TERN_PROBE_SECONDS=0.3 TERN_LOG_FILE=log.txt");
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    assert_ptr_equal(strstr(fallback_answer, "driver-hangs|1|0|0|"), fallback_answer);
    assert_non_null(strstr(fallback_answer, "did not come back from cuInit"));
    fallback_read("log.txt", fallback_said);
    assert_non_null(
        strstr(fallback_said, "CUDA's driver is awaited: for 0.05 s so far, now it is in cuInit"));
    assert_true(after.tv_sec - before.tv_sec < 9); /* the default would be 60 */
}

/* The fastest of some tries, since the machine may be busy: what a request takes when nothing hangs. */
static void expect_quick(const char *settings)
{
    double least = 1e9;
    char text[FALLBACK_BYTES];
    for (int i = 0; i < 20 && least >= 0.5; i++) {
        fallback_run(settings);
        fallback_read("seconds.txt", text);
        const double seconds = strtod(text, NULL);
        least = seconds < least ? seconds : least;
    }
    if (least >= 0.5)
        fail_msg("%s: the first request took %.2f s", settings, least);
}

static void test_the_first_request_takes_under_half_a_second(void **state)
{
    (void)state;
    expect_quick("");
    expect_quick("LD_LIBRARY_PATH=\"$PWD/short\"");
    expect_quick(PLUGIN "CUDA_VISIBLE_DEVICES=");
    expect_quick(PLUGIN "FAKE_INIT=crash");
    expect_quick(PLUGIN "TERN_PLUGIN_PATH=\"$PWD/lacking\"");
    expect_quick(PLUGIN "CUDA_VISIBLE_DEVICES=0");
}

static void test_a_driver_that_crashes(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "FAKE_INIT=crash", "driver-crashes", "crashed in cuInit (signal 11");
    /* who ignores the ends of children does not hear of the signal */
    fallback_expect(PLUGIN "FAKE_INIT=crash env --ignore-signal=CHLD", "driver-crashes",
                    "crashed in cuInit (the signal is not known)");
    fallback_expect(PLUGIN "FAKE_INIT=100 env --ignore-signal=CHLD", "no-device", "cuInit");
}

static void test_no_code_for_the_architecture(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "FAKE_CAPABILITY=75", "no-code-for-architecture",
                    "compute capability 7.5");
    fallback_expect(PLUGIN "FAKE_CAPABILITY=120", "no-code-for-architecture",
                    "compute capability 12.0");
    assert_non_null(
        strstr(fallback_answer, "-DTERN_CUDA_ARCHS=120|")); /* what cmake/cuda.cmake reads */
    fallback_expect(PLUGIN "FAKE_CAPABILITY=61", "no-code-for-architecture",
                    "-DTERN_CUDA_ARCHS=61, with a CUDA toolkit before 13");
    fallback_expect_usable(PLUGIN "FAKE_CAPABILITY=86"); /* code for 8.0 runs on it */
    fallback_expect(PLUGIN "FAKE_CAPABILITY=87",
                    "no-code-for-architecture", /* a Tegra: not there */
                    "compute capability 8.7");
    fallback_expect_usable(PLUGIN "FAKE_CAPABILITY=87 FAKE_PTX=13000");
    fallback_expect_usable(PLUGIN "FAKE_CAPABILITY=120 FAKE_PTX=13000");
}

/* Machine code of a newer toolkit runs on a driver of the same major version, its PTX does not. */
static void test_a_driver_that_is_too_old_for_ptx(void **state)
{
    (void)state;
    fallback_expect(
        PLUGIN "FAKE_VERSION=13000 FAKE_CAPABILITY=120 FAKE_PTX=13010", "driver-too-old",
        "the driver is for CUDA 13.0; this plugin has no machine code for compute capability "
        "12.0 (a build with -DTERN_CUDA_ARCHS=120 has it), and its PTX needs a driver for CUDA "
        "13.1");
    fallback_expect_usable(PLUGIN "FAKE_VERSION=13010 FAKE_CAPABILITY=120 FAKE_PTX=13010");
    fallback_expect_usable(PLUGIN "FAKE_VERSION=13000 FAKE_CAPABILITY=86 FAKE_PTX=13010");
    fallback_expect_usable(
        PLUGIN "FAKE_VERSION=13000 FAKE_DEVICES=2 FAKE_CAPABILITY=90,120 FAKE_PTX=13010 "
               "TERN_LOG_FILE=old_ptx.txt");
    fallback_read("old_ptx.txt", fallback_said);
    assert_non_null(strstr(fallback_said,
                           "cuda:1 cannot be used: the plugin has no machine code for its "
                           "compute capability 12.0, and its PTX needs a driver for CUDA "
                           "13.1"));
}

/* Of several one is enough; the others are named. */
static void test_a_device_without_code_among_others(void **state)
{
    (void)state;
    fallback_expect_usable(PLUGIN
                           "FAKE_DEVICES=3 FAKE_CAPABILITY=90,61,86 TERN_LOG_FILE=mixed.txt");
    fallback_read("mixed.txt", fallback_said);
    const char *at =
        strstr(fallback_said, "cuda:1 cannot be used: the plugin has no code for its compute "
                              "capability 6.1; CUDA_VISIBLE_DEVICES can leave it out");
    assert_non_null(at);
    assert_null(strstr(at + strlen("cuda:1 cannot"), "cannot be used"));
    assert_null(strstr(fallback_said, "no machine code"));
    /* PTX does for the driver, which takes its time */
    fallback_expect_usable(PLUGIN
                           "FAKE_DEVICES=2 FAKE_CAPABILITY=90,120 FAKE_PTX=13000 TERN_LOG=info "
                           "TERN_LOG_FILE=ptx.txt");
    fallback_read("ptx.txt", fallback_said);
    assert_non_null(strstr(fallback_said, "cuda:1: the plugin has no machine code for its compute "
                                          "capability 12.0; the driver makes some"));
    assert_non_null(strstr(fallback_said, "-DTERN_CUDA_ARCHS=120"));
    assert_null(strstr(fallback_said, "cuda:0: the plugin"));
}

static void test_a_usable_device_is_used(void **state)
{
    (void)state;
    fallback_expect_usable(PLUGIN "CUDA_VISIBLE_DEVICES=0");
    assert_true(fallback_mapped() > 0); /* the plugin: the count sees it */
    assert_string_equal(fallback_said, "");
    fallback_expect_usable("TERN_PROBE_SECONDS=0"); /* the driver is not asked */
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--ask") == 0)
        return fallback_ask();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_list),
        cmocka_unit_test(test_a_bad_list),
        cmocka_unit_test(test_policy_and_switch),
        cmocka_unit_test(test_a_bad_policy_is_an_error),
        cmocka_unit_test(test_a_bad_count_of_simulated_devices),
        cmocka_unit_test(test_seconds_that_cannot_be_read_are_logged),
        cmocka_unit_test(test_no_plugin),
        cmocka_unit_test(test_a_broken_plugin),
        cmocka_unit_test(test_a_broken_plugin_before_another),
        cmocka_unit_test(test_a_plugin_for_another_driver_before_one_for_this),
        cmocka_unit_test(test_a_plugin_that_does_not_say_what_it_needs),
        cmocka_unit_test(test_no_driver_library),
        cmocka_unit_test(test_an_old_driver),
        cmocka_unit_test(test_no_device_node),
        cmocka_unit_test(test_a_device_that_does_not_start),
        cmocka_unit_test(test_no_permission),
        cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_a_driver_that_fails),
        cmocka_unit_test(test_a_driver_that_hangs_is_given_up),
        cmocka_unit_test(test_a_driver_that_crashes),
        cmocka_unit_test(test_the_first_request_takes_under_half_a_second),
        cmocka_unit_test(test_no_code_for_the_architecture),
        cmocka_unit_test(test_a_driver_that_is_too_old_for_ptx),
        cmocka_unit_test(test_a_device_without_code_among_others),
        cmocka_unit_test(test_a_usable_device_is_used),
    };
    return cmocka_run_group_tests(tests, fallback_make_folders, NULL);
}
