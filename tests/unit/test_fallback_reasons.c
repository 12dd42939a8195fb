/* Every reason for not using CUDA, each made by fake libraries and folders. The program starts itself
 * again with "--ask" in the environment of a case, since a process decides only once. The child
 * asks for a tensor on CUDA and prints "CODE|device kind|mapped CUDA libraries|error code|text", and in
 * seconds.txt how long the request took. */
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
#include "tests/support/files.h"

enum { ANSWER = 4096, NOBODY = 65534 };

/* ---- the child ------------------------------------------------------------------------------------ */

static int mapped_cuda_libraries(void)
{
    char line[1024];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, "libcuda") != NULL || strstr(line, "libtern_cuda") != NULL ||
                 strstr(line, "libcudart") != NULL || strstr(line, "libnvidia") != NULL;
    if (maps != NULL)
        (void)fclose(maps);
    return count;
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void write_seconds(double seconds)
{
    FILE *file = fopen("seconds.txt", "w");
    if (file == NULL) /* nobody may not */
        return;
    (void)fprintf(file, "%.4f", seconds);
    (void)fclose(file);
}

static int ask(void)
{
    if (getenv("TEST_AS_NOBODY") != NULL && geteuid() == 0 &&
        setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return 3;
    if (getenv("TEST_SWITCH_OFF") != NULL)
        tern_cuda_set_enabled(false);
    if (getenv("TEST_PREFER") != NULL)
        tern_set_device_policy(TERN_PREFER);
    int kind = 0;
    const double start = now();
    {
        TERN_SCOPE;
        tern_tensor *t = tern_empty(TERN_SHAPE(2), .device = TERN_CUDA(0));
        write_seconds(now() - start);
        if (t != NULL)
            kind = tern_device(t).kind;
        if (tern_cuda(t) != t) /* there already, or both NULL */
            kind = -1;
    }
    const int error = (int)tern_error_code();
    char text[2048];
    (void)snprintf(text, sizeof text, "%s", tern_error_text());
    tern_error_clear();
    tern_fallback_t why = { "", "", "" };
    (void)tern_dev_fallback(&why);
    printf("%s|%d|%d|%d|%s|%s|%s", why.code, kind, mapped_cuda_libraries(), error, why.text,
           why.next_step, text);
    if (getenv("TEST_AS_NOBODY") != NULL) {
        (void)fflush(NULL);
        _exit(0); /* nobody may not write the coverage preset's counters: gcov would complain */
    }
    return 0;
}

/* ---- the parent ----------------------------------------------------------------------------------- */

static char answer[ANSWER], said[ANSWER];

static void read_file(const char *name, char text[ANSWER])
{
    char path[2 * FILE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", file_folder(), name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, ANSWER - 1, file)] = '\0';
    (void)fclose(file);
}

/* Starts this program with `settings` ("A=1 B=2") before it; its answer and what it wrote on stderr. */
static void run(const char *settings)
{
    char command[8 * FILE_PATH_BYTES], self[FILE_PATH_BYTES];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    (void)snprintf(
        command, sizeof command,
        "cd '%s' && env -u CUDA_VISIBLE_DEVICES -u TERN_SIM_DEVICES -u TERN_DEVICE_POLICY "
        "TERN_PROBE_ROOT=\"$PWD\" TERN_PLUGIN_PATH=\"$PWD/plugin\" %s '%s' --ask "
        ">out.txt 2>err.txt",
        file_folder(), settings, self);
    const int status = system(command);
    read_file("out.txt", answer);
    read_file("err.txt", said);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s ended with status %d:\n%s%s", settings, status, answer, said);
}

static int lines(const char *text)
{
    int count = 0;
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

/* Under `prefer`: the reason, the words, a CPU tensor, exactly one line, and require says the same. */
static void expect(const char *settings, const char *code, const char *words)
{
    char start[64], both[1024];
    run(settings);
    (void)snprintf(start, sizeof start, "%s|%d|", code, TERN_KIND_CPU);
    if (strncmp(answer, start, strlen(start)) != 0 || strstr(answer, words) == NULL)
        fail_msg("%s: not [%s] '%s' but:\n%s\n%s", settings, code, words, answer, said);
    if (lines(said) != 1 || strstr(said, "tern: CUDA was asked for, using the CPU: ") != said ||
        strstr(said, code) == NULL)
        fail_msg("%s: not one line on stderr but:\n%s", settings, said);
    (void)snprintf(both, sizeof both, "TERN_DEVICE_POLICY=require %s", settings);
    run(both);
    (void)snprintf(start, sizeof start, "%s|0|", code);
    (void)snprintf(both, sizeof both, "there is none: ");
    if (strncmp(answer, start, strlen(start)) != 0 || strstr(answer, both) == NULL)
        fail_msg("%s under require: %s", settings, answer);
    assert_string_equal(said, "");
}

/* A device of the plugin, and no reason. */
static void expect_usable(const char *settings)
{
    run(settings);
    if (strncmp(answer, "|2|", 3) != 0)
        fail_msg("%s: not usable but:\n%s\n%s", settings, answer, said);
}

static int cuda_libraries_mapped(void)
{
    const char *at = strchr(strchr(answer, '|') + 1, '|');
    return atoi(at + 1);
}

static void expect_no_cuda_mapped(void)
{
    assert_int_equal(cuda_libraries_mapped(), 0);
}

#define PLUGIN "LD_LIBRARY_PATH=\"$PWD/driver\" "

static void test_an_empty_list(void **state)
{
    (void)state;
    expect(PLUGIN "CUDA_VISIBLE_DEVICES=", "hidden-by-empty-list", "is empty");
    expect_no_cuda_mapped();
    expect(PLUGIN "CUDA_VISIBLE_DEVICES=-1", "hidden-by-empty-list", "is -1");
    expect_no_cuda_mapped();
    expect(PLUGIN "CUDA_VISIBLE_DEVICES=NoDevFiles", "hidden-by-empty-list", "is NoDevFiles");
    expect(PLUGIN "CUDA_VISIBLE_DEVICES=NoDevFiles", "hidden-by-empty-list",
           "; in a batch job ask for a GPU");
    expect_no_cuda_mapped();
}

static void test_a_bad_list(void **state)
{
    (void)state;
    expect(PLUGIN "CUDA_VISIBLE_DEVICES=one,0", "hidden-by-bad-list", "'one' is none");
    expect_no_cuda_mapped();
    expect(PLUGIN "CUDA_VISIBLE_DEVICES='\"0\"'", "hidden-by-bad-list",
           ", its quotes are a part of it");
    expect(PLUGIN "CUDA_VISIBLE_DEVICES=0,0", "hidden-by-bad-list", "a device twice");
    expect_no_cuda_mapped();
    /* only the driver knows that there is no device 5; it is asked in a child */
    expect(PLUGIN "CUDA_VISIBLE_DEVICES=5", "hidden-by-bad-list", "a device that is not there");
    expect_no_cuda_mapped();
}

static void test_policy_and_switch(void **state)
{
    (void)state;
    run(PLUGIN "TERN_DEVICE_POLICY=cpu");
    assert_ptr_equal(strstr(answer, "disabled-by-policy|1|0|0|"), answer);
    assert_string_equal(said, "");
    expect(PLUGIN "TEST_SWITCH_OFF=1", "disabled-by-call", "tern_cuda_set_enabled");
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
        run(settings);
        (void)snprintf(start, sizeof start, "disabled-by-bad-policy|0|0|%d|", TERN_ERR_DEVICE);
        if (strstr(answer, start) != answer ||
            strstr(answer, " is none of prefer, require, cpu [disabled-by-bad-policy]\n") == NULL)
            fail_msg("%s: %s", settings, answer);
        assert_string_equal(said, "");
    }
    run(PLUGIN "TERN_DEVICE_POLICY=reqire TERN_LOG_FILE=bad.txt");
    read_file("bad.txt", said);
    assert_non_null(strstr(said, "TERN_DEVICE_POLICY=reqire is none of prefer, require, cpu: "
                                 "requests for CUDA fail"));
    file_bytes head = { NULL, 0 }; /* the log has nothing to say, and may not make a file */
    file_bytes_add(&head, "-", 1);
    (void)file_write("good.txt", head);
    run(PLUGIN "TERN_DEVICE_POLICY=reqire TEST_PREFER=1 TERN_LOG_FILE=good.txt");
    assert_ptr_equal(strstr(answer, "|2|"), answer); /* the program says what holds */
    read_file("good.txt", said);
    assert_null(strstr(said, "requests for CUDA fail"));
    expect_usable(PLUGIN "TERN_DEVICE_POLICY=");
}

static void test_a_bad_count_of_simulated_devices(void **state)
{
    (void)state;
    expect(PLUGIN "TERN_SIM_DEVICES=two", "disabled-by-bad-count",
           "TERN_SIM_DEVICES=two is no number of simulated devices from 1 to 16");
    expect(PLUGIN "TERN_SIM_DEVICES=2x", "disabled-by-bad-count", "=2x is no number");
    expect(PLUGIN "TERN_SIM_DEVICES=17", "disabled-by-bad-count", "=17 is no number");
    expect(PLUGIN "TERN_SIM_DEVICES=-1", "disabled-by-bad-count", "=-1 is no number");
    expect_no_cuda_mapped();
    expect_usable(PLUGIN "TERN_SIM_DEVICES=");
    expect_usable(PLUGIN "TERN_SIM_DEVICES=0");
}

static void test_seconds_that_cannot_be_read_are_logged(void **state)
{
    (void)state;
    expect_usable(PLUGIN "TERN_PROBE_SECONDS=10s TERN_LOG_FILE=log.txt");
    read_file("log.txt", said);
    const char *at =
        strstr(said, "TERN_PROBE_SECONDS: '10s' is no number of seconds from 0 to 3600: 60 hold");
    assert_non_null(at);
    assert_null(strstr(at + 1, "TERN_PROBE_SECONDS"));
}

static void test_no_plugin(void **state)
{
    (void)state;
    expect("TERN_PLUGIN_PATH=\"$PWD\" TERN_SIM_DEVICES=2", "plugin-missing", "libtern_sim.so");
    /* which of the two depends on what was configured */
    run("TERN_PLUGIN_PATH=\"$PWD\"");
    const bool without = strstr(answer, "built-without|") == answer;
    expect("TERN_PLUGIN_PATH=\"$PWD\"", without ? "built-without" : "plugin-missing",
           without ? "has no CUDA backend" : "libtern_cuda.so");
}

static void test_a_broken_plugin(void **state)
{
    (void)state;
    expect(PLUGIN "TERN_PLUGIN_PATH=\"$PWD/short\"", "plugin-broken", "file too short");
    expect(PLUGIN "TERN_PLUGIN_PATH=\"$PWD/other\"", "plugin-broken",
           "exports no tern_backend_get");
    expect(PLUGIN "TERN_PLUGIN_PATH=\"$PWD/lacking\"", "plugin-broken",
           "libq.so.6: cannot open shared object file");
    expect(PLUGIN "FAKE_BACKEND=refuse", "plugin-broken", "told to refuse");
    expect(PLUGIN "FAKE_BACKEND=refuse TERN_PROBE_SECONDS=0", "plugin-broken", "told to refuse");
}

static void test_no_driver_library(void **state)
{
    (void)state;
    if (dlopen("libcuda.so.1", RTLD_LAZY) != NULL) {
        print_message("skipped: this machine has a libcuda.so.1\n");
        skip();
    }
    expect("", "no-driver-library", "libcuda.so.1: cannot open shared object file");
    expect("LD_LIBRARY_PATH=\"$PWD/short\"", "no-driver-library", "file too short");
    expect("LD_LIBRARY_PATH=\"$PWD/dangling\"", "no-driver-library", "is a link to nothing");
    expect("LD_LIBRARY_PATH=\"$PWD/other\"", "no-driver-library", "cuInit");
    /* asked afterwards, too: the runtime would call it an old driver */
    expect("TERN_PROBE_SECONDS=0 FAKE_BACKEND=refuse", "no-driver-library",
           "libcuda.so.1: cannot open shared object file");
}

static void test_an_old_driver(void **state)
{
    (void)state;
    expect(PLUGIN "FAKE_VERSION=11080", "driver-too-old", "the driver is for CUDA 11.8");
    expect(PLUGIN "FAKE_VERSION=11080 FAKE_BACKEND=refuse TERN_PROBE_SECONDS=0", "driver-too-old",
           "the driver is for CUDA 11.8");
}

static void test_no_device_node(void **state)
{
    (void)state;
    expect(PLUGIN "FAKE_INIT=999 TERN_PROBE_ROOT=\"$PWD/bare\"", "no-device-node",
           "/dev/nvidiactl is missing; the kernel driver 580.95.05 is loaded");
    expect(PLUGIN "FAKE_INIT=100 TERN_PROBE_ROOT=\"$PWD/nouveau\"", "no-device-node",
           "/dev/nvidiactl is missing; no NVIDIA kernel driver is loaded, but nouveau");
    expect(PLUGIN "FAKE_INIT=100 TERN_PROBE_ROOT=\"$PWD/mounted\"", "no-device-node",
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
    expect(PLUGIN "FAKE_INIT=100 TERN_PROBE_ROOT=\"$PWD/broken\"", "no-device",
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
    expect(PLUGIN "FAKE_INIT=100 TEST_AS_NOBODY=1 TERN_PROBE_ROOT=\"$PWD/closed\"", "no-permission",
           "/dev/nvidiactl may not be opened: Permission denied");
    assert_non_null(strstr(answer, "; in a container start that anew"));
}

static void test_no_device(void **state)
{
    (void)state;
    expect(PLUGIN "FAKE_DEVICES=0", "no-device", "finds no device");
}

static void test_a_driver_that_fails(void **state)
{
    (void)state;
    expect(PLUGIN "FAKE_INIT=803", "init-failed", "cuInit gave 803 (the kernel driver and libcuda");
    /* a code that names its cause is not hidden behind a missing node */
    expect(PLUGIN "FAKE_INIT=803 TERN_PROBE_ROOT=\"$PWD/bare\"", "init-failed",
           "libcuda.so.1; the kernel driver is 580.95.05");
    expect(PLUGIN "FAKE_INIT=34", "init-failed", "a stub of the toolkit");
}

static void test_a_driver_that_hangs_is_given_up(void **state)
{
    (void)state;
    struct timespec before, after;
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    run(PLUGIN "FAKE_INIT=hang TERN_PROBE_SECONDS=0.3 TERN_LOG_FILE=log.txt");
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    assert_ptr_equal(strstr(answer, "driver-hangs|1|0|0|"), answer);
    assert_non_null(strstr(answer, "did not come back from cuInit"));
    read_file("log.txt", said);
    assert_non_null(
        strstr(said, "CUDA's driver is awaited: for 0.05 s so far, now it is in cuInit"));
    assert_true(after.tv_sec - before.tv_sec < 9); /* the default would be 60 */
}

/* The fastest of some tries, since the machine may be busy: what a request takes when nothing hangs. */
static void expect_quick(const char *settings)
{
    double least = 1e9;
    char text[ANSWER];
    for (int i = 0; i < 20 && least >= 0.5; i++) {
        run(settings);
        read_file("seconds.txt", text);
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
    expect(PLUGIN "FAKE_INIT=crash", "driver-crashes", "crashed in cuInit (signal 11");
    /* who ignores the ends of children does not hear of the signal */
    expect(PLUGIN "FAKE_INIT=crash env --ignore-signal=CHLD", "driver-crashes",
           "crashed in cuInit (the signal is not known)");
    expect(PLUGIN "FAKE_INIT=100 env --ignore-signal=CHLD", "no-device", "cuInit");
}

static void test_no_code_for_the_architecture(void **state)
{
    (void)state;
    expect(PLUGIN "FAKE_CAPABILITY=75", "no-code-for-architecture", "compute capability 7.5");
    expect(PLUGIN "FAKE_CAPABILITY=120", "no-code-for-architecture", "compute capability 12.0");
    assert_non_null(strstr(answer, "-DTERN_CUDA_ARCHS=")); /* what cmake/cuda.cmake reads */
    expect_usable(PLUGIN "FAKE_CAPABILITY=86");            /* code for 8.0 runs on it */
    expect_usable(PLUGIN "FAKE_CAPABILITY=120 FAKE_PTX=1");
}

/* Of several one is enough; the others are named. */
static void test_a_device_without_code_among_others(void **state)
{
    (void)state;
    expect_usable(PLUGIN "FAKE_DEVICES=3 FAKE_CAPABILITY=90,61,86 TERN_LOG_FILE=mixed.txt");
    read_file("mixed.txt", said);
    const char *at = strstr(said, "cuda:1 cannot be used: the plugin has no code for its compute "
                                  "capability 6.1; CUDA_VISIBLE_DEVICES can leave it out");
    assert_non_null(at);
    assert_null(strstr(at + strlen("cuda:1 cannot"), "cannot be used"));
    assert_null(strstr(said, "no machine code"));
    /* PTX does for the driver, which takes its time */
    expect_usable(PLUGIN "FAKE_DEVICES=2 FAKE_CAPABILITY=90,120 FAKE_PTX=1 TERN_LOG=info "
                         "TERN_LOG_FILE=ptx.txt");
    read_file("ptx.txt", said);
    assert_non_null(strstr(said, "cuda:1: the plugin has no machine code for its compute "
                                 "capability 12.0; the driver makes some"));
    assert_non_null(strstr(said, "-DTERN_CUDA_ARCHS=120"));
    assert_null(strstr(said, "cuda:0: the plugin"));
}

static void test_a_usable_device_is_used(void **state)
{
    (void)state;
    expect_usable(PLUGIN "CUDA_VISIBLE_DEVICES=0");
    assert_true(cuda_libraries_mapped() > 0); /* the plugin: the count sees it */
    assert_string_equal(said, "");
    expect_usable("TERN_PROBE_SECONDS=0"); /* the driver is not asked */
}

/* ---- folders --------------------------------------------------------------------------------------- */

static void make_folder(const char *name)
{
    assert_true(mkdir(file_path(name), 0755) == 0);
}

static void copy(const char *from, const char *name)
{
    const char *folder = getenv("TERN_TEST_PLUGINS");
    char path[FILE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", folder != NULL ? folder : ".", from);
    file_bytes bytes = file_read(path);
    assert_true(bytes.count > 0);
    assert_int_equal(chmod(file_write(name, bytes), 0755), 0);
}

/* The plugin, wanting a library that no machine has. */
static void copy_lacking(void)
{
    static const char needed[] = "libc.so.6";
    file_bytes bytes = file_read(file_path("plugin/libtern_cuda.so"));
    char *at = memmem(bytes.data, bytes.count, needed, sizeof needed);
    assert_non_null(at);
    at[3] = 'q';
    (void)file_write("lacking/libtern_cuda.so", bytes);
}

static void write_text(const char *name, const char *text)
{
    file_bytes bytes = { NULL, 0 };
    file_bytes_add(&bytes, text, strlen(text));
    (void)file_write(name, bytes);
}

static int make_folders(void **state)
{
    (void)state;
    static const char *const folders[] = {
        "plugin",
        "lacking",
        "driver",
        "short",
        "other",
        "dangling",
        "dev",
        "bare",
        "bare/proc",
        "bare/proc/driver",
        "bare/proc/driver/nvidia",
        "bare/dev",
        "closed",
        "closed/dev",
        "nouveau",
        "nouveau/sys",
        "nouveau/sys/module",
        "nouveau/sys/module/nouveau",
        "mounted",
        "mounted/dev",
        "mounted/dev/nvidia0",
        "broken",
        "broken/dev",
    };
    assert_int_equal(chmod(file_folder(), 0777), 0);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        make_folder(folders[i]);
    copy("tern_fake_cuda.so", "plugin/libtern_cuda.so");
    copy("tern_fake_driver.so", "driver/libcuda.so.1");
    copy("tern_fake_driver.so", "other/libtern_cuda.so"); /* a library, but no plugin */
    copy("tern_fake_cuda.so", "other/libcuda.so.1");
    copy_lacking();
    write_text("short/libtern_cuda.so", "");
    write_text("short/libcuda.so.1", "");
    assert_int_equal(symlink("/nowhere/libcuda.so.580", file_path("dangling/libcuda.so.1")), 0);
    write_text("dev/nvidiactl", "");
    write_text("dev/nvidia-uvm", "");
    write_text("dev/nvidia0", "");
    write_text("mounted/dev/nvidiactl", "");
    write_text("mounted/dev/nvidia-uvm", "");
    write_text("broken/dev/nvidiactl", "");
    write_text("broken/dev/nvidia-uvm", "");
    write_text("closed/dev/nvidiactl", "");
    assert_int_equal(chmod(file_path("closed/dev/nvidiactl"), 0), 0);
    write_text(
        "bare/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--ask") == 0)
        return ask();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_list),
        cmocka_unit_test(test_a_bad_list),
        cmocka_unit_test(test_policy_and_switch),
        cmocka_unit_test(test_a_bad_policy_is_an_error),
        cmocka_unit_test(test_a_bad_count_of_simulated_devices),
        cmocka_unit_test(test_seconds_that_cannot_be_read_are_logged),
        cmocka_unit_test(test_no_plugin),
        cmocka_unit_test(test_a_broken_plugin),
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
        cmocka_unit_test(test_a_device_without_code_among_others),
        cmocka_unit_test(test_a_usable_device_is_used),
    };
    return cmocka_run_group_tests(tests, make_folders, NULL);
}
