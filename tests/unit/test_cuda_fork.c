/* A fork while another thread is in the middle of the search for CUDA, of the start of a plugin, or of the
 * search for the CPU's libraries: it does not wait, and the child does not either. The thread is held there
 * by a pipe that it reads, or by the fake plugin. Each case is a process of its own. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tern/system.h"
#include "tests/support/child.h"

static char folder[] = "/tmp/tern-fork-XXXXXX";
static char cuda_file[64], blas_file[64], pause_file[64], version_file[96];

#define REQUIRE(condition)                                                                     \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            print_error("%s:%d: %s\n%s\n", __FILE__, __LINE__, #condition, tern_error_text()); \
            _exit(1);                                                                          \
        }                                                                                      \
    } while (0)

static void call(void *body)
{
    (*(void (**)(void))body)();
}

static bool goes_well(void (*body)(void))
{
    return child_ends_well(call, &body);
}

static bool cpu_works(void)
{
    TERN_SCOPE;
    return tern_item(tern_sum(tern_ones(TERN_SHAPE(3)))) == 3;
}

static bool reason_is(const char *code)
{
    tern_fallback_t why;
    return tern_dev_fallback(&why) && strcmp(why.code, code) == 0;
}

/* Until the fake plugin has begun its pause. */
static void wait_for_pause(void)
{
    while (access(pause_file, F_OK) != 0)
        (void)usleep(1000);
}

static void end_pause(pthread_t thread)
{
    REQUIRE(unlink(pause_file) == 0); /* it has lasted until now: the fork did not wait */
    REQUIRE(pthread_join(thread, NULL) == 0);
}

/* ---- the search for CUDA ---------------------------------------------------------------------- */

static void *count_devices(void *user)
{
    atomic_store((atomic_int *)user, tern_dev_count(TERN_KIND_CUDA));
    return NULL;
}

static void search_in_child(void)
{
    (void)unsetenv("TERN_PROBE_ROOT");
    REQUIRE(tern_dev_count(TERN_KIND_CUDA) == 2);
    REQUIRE(!tern_dev_fallback(NULL));
    tern_cuda_report_t report;
    tern_cuda_report(&report);
    REQUIRE(strcmp(report.plugin, cuda_file) == 0);
    REQUIRE(cpu_works());
}

static void fork_in_a_search(void)
{
    atomic_int count = 0;
    pthread_t thread;
    (void)setenv("TERN_PROBE_ROOT", folder, 1);
    REQUIRE(pthread_create(&thread, NULL, count_devices, &count) == 0);
    const int fd = open(version_file, O_WRONLY); /* returns when the thread reads */
    REQUIRE(fd >= 0);
    REQUIRE(goes_well(search_in_child));
    REQUIRE(count == 0 && close(fd) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0 && count == 2);
}

static void test_a_child_of_a_search_searches_itself(void **state)
{
    (void)state;
    assert_true(goes_well(fork_in_a_search));
}

/* ---- the start of a plugin -------------------------------------------------------------------- */

static void start_in_child(void)
{
    (void)unsetenv("FAKE_PAUSE");
    REQUIRE(tern_dev_count(TERN_KIND_CUDA) == 0);
    REQUIRE(reason_is("forked-after-start"));
    tern_cuda_report_t report;
    tern_cuda_report(&report);
    REQUIRE(report.plugin == NULL && strcmp(report.reason, "forked-after-start") == 0);
    REQUIRE(tern_empty(TERN_SHAPE(1), .device = TERN_CUDA(0)) == NULL);
    REQUIRE(tern_error_code() == TERN_ERR_STATE);
    tern_error_clear();
    REQUIRE(tern_plugin_load(cuda_file) == TERN_OK); /* begun anew; the child cannot use it */
    REQUIRE(tern_dev_count(TERN_KIND_CUDA) == 0);
    REQUIRE(cpu_works());
}

static void fork_in_a_start(void)
{
    atomic_int count = 0;
    pthread_t thread;
    (void)setenv("FAKE_PAUSE", pause_file, 1);
    REQUIRE(pthread_create(&thread, NULL, count_devices, &count) == 0);
    wait_for_pause();
    REQUIRE(goes_well(start_in_child));
    end_pause(thread);
    REQUIRE(count == 2 && !tern_dev_fallback(NULL));
}

static void test_a_child_of_a_start_is_told(void **state)
{
    (void)state;
    assert_true(goes_well(fork_in_a_start));
}

static void *load_plugin(void *user)
{
    (void)user;
    REQUIRE(tern_plugin_load(cuda_file) == TERN_OK);
    return NULL;
}

static void fork_in_a_load(void)
{
    pthread_t thread;
    (void)setenv("FAKE_PAUSE", pause_file, 1);
    REQUIRE(pthread_create(&thread, NULL, load_plugin, NULL) == 0);
    wait_for_pause();
    REQUIRE(goes_well(start_in_child));
    end_pause(thread);
    REQUIRE(tern_dev_count(TERN_KIND_CUDA) == 2);
}

static void test_a_child_of_a_load_is_told(void **state)
{
    (void)state;
    assert_true(goes_well(fork_in_a_load));
}

/* ---- the CPU's libraries ---------------------------------------------------------------------- */

static char reason[256]; /* why those kernels, before any fork could come */

static void *read_report(void *user)
{
    tern_cpu_report((tern_cpu_report_t *)user);
    return NULL;
}

static void check_report(const tern_cpu_report_t *report)
{
    const char *first = strstr(report->libraries_missing, "relative folders");
    REQUIRE(first != NULL && strstr(first + 1, "relative folders") == NULL);
    REQUIRE(strstr(first, "another version of tern") != NULL);
    REQUIRE(strcmp(report->blas_reason, reason) == 0);
}

static void report_in_child(void)
{
    tern_cpu_report_t report;
    (void)unsetenv("FAKE_PAUSE");
    tern_cpu_report(&report);
    check_report(&report);
    REQUIRE(cpu_works());
}

static void tell_reason(void)
{
    tern_cpu_report_t report;
    tern_cpu_report(&report);
    FILE *stream = fopen(pause_file, "w");
    REQUIRE(stream != NULL && fputs(report.blas_reason, stream) >= 0 && fclose(stream) == 0);
}

static void fork_in_a_library_search(void)
{
    char list[128];
    tern_cpu_report_t report;
    pthread_t thread;
    REQUIRE(goes_well(tell_reason));
    FILE *stream = fopen(pause_file, "r");
    REQUIRE(stream != NULL && fgets(reason, sizeof reason, stream) != NULL);
    REQUIRE(fclose(stream) == 0 && unlink(pause_file) == 0);
    (void)snprintf(list, sizeof list, "relative:%s", folder);
    (void)setenv("TERN_PLUGIN_PATH", list, 1);
    (void)setenv("FAKE_PAUSE", pause_file, 1);
    REQUIRE(pthread_create(&thread, NULL, read_report, &report) == 0);
    wait_for_pause();
    REQUIRE(goes_well(report_in_child));
    end_pause(thread);
    check_report(&report);
}

static void test_a_child_of_a_search_for_libraries_searches_itself(void **state)
{
    (void)state;
    assert_true(goes_well(fork_in_a_library_search));
}

/* ---- the folder ------------------------------------------------------------------------------- */

/* The fake plugin under the names of the two that are looked for, and the pipe. */
static int make_folder(void **state)
{
    (void)state;
    char from[1024], below[64];
    const char *plugins = getenv("TERN_TEST_PLUGINS");
    if (mkdtemp(folder) == NULL || setenv("TERN_PLUGIN_PATH", folder, 1) != 0)
        return -1;
    (void)snprintf(from, sizeof from, "%s/tern_fake_cuda.so", plugins != NULL ? plugins : ".");
    (void)snprintf(cuda_file, sizeof cuda_file, "%s/libtern_cuda.so", folder);
    (void)snprintf(blas_file, sizeof blas_file, "%s/libtern_blas.so", folder);
    (void)snprintf(pause_file, sizeof pause_file, "%s/pause", folder);
    (void)snprintf(version_file, sizeof version_file, "%s/proc/driver/nvidia/version", folder);
    static const char *const parts[] = { "proc", "proc/driver", "proc/driver/nvidia" };
    for (int i = 0; i < 3; i++) {
        (void)snprintf(below, sizeof below, "%s/%s", folder, parts[i]);
        if (mkdir(below, 0700) != 0)
            return -1;
    }
    return symlink(from, cuda_file) == 0 && symlink(from, blas_file) == 0
               ? mkfifo(version_file, 0600)
               : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const parts[] = { "/proc/driver/nvidia/version",
                                         "/proc/driver/nvidia",
                                         "/proc/driver",
                                         "/proc",
                                         "/libtern_cuda.so",
                                         "/libtern_blas.so",
                                         "/pause",
                                         "" };
    char path[96];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        (void)snprintf(path, sizeof path, "%s%s", folder, parts[i]);
        (void)remove(path);
    }
    return access(folder, F_OK) == 0 ? -1 : 0;
}

int main(void)
{
    static const char *const unset[] = { "CUDA_VISIBLE_DEVICES", "TERN_DEVICE_POLICY",
                                         "TERN_SIM_DEVICES", "OPENBLAS_CORETYPE", "TERN_CPU_BLAS" };
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++)
        (void)unsetenv(unset[i]);
    (void)setenv("TERN_PROBE_SECONDS", "0", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_of_a_search_searches_itself),
        cmocka_unit_test(test_a_child_of_a_start_is_told),
        cmocka_unit_test(test_a_child_of_a_load_is_told),
        cmocka_unit_test(test_a_child_of_a_search_for_libraries_searches_itself),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
