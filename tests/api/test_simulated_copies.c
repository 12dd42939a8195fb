/* Copies between the host and simulated devices, and between two of them: what waits, what is converted
 * where, what goes wrong without a wait. Rows T020-T031, S008, S013, S022, S024, S029. */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tern/debug.h"
#include "tests/support/check.h"
#include "tests/support/sanitizer.h"
#include "tests/support/simulator.h"

extern char **environ;
static char self[512]; /* this program */
static const tern_dev_t dev0 = { TERN_KIND_CUDA, 0 }, dev1 = { TERN_KIND_CUDA, 1 };

static int setup(void **state)
{
    (void)state;
    return tern_dev_count(TERN_KIND_CUDA) == 2 ? 0 : -1;
}

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    tern_set_sync_debug_mode(TERN_SYNC_DEFAULT);
    tern_dev_synchronize(dev0);
    tern_dev_synchronize(dev1);
    tern_error_clear();
    return 0;
}

static double sum_of(tern_tensor *t)
{
    return tern_item(tern_sum(t));
}

static int64_t requests(tern_dev_t dev)
{
    return tern_memory(dev).alloc_count;
}

/* ---- hazards: a process of its own each, which ends with a message ------------------------------- */

static int misuse(const char *mode)
{
    const bool writes = mode[0] == 'w';
    tern_tensor *host = tern_pin(tern_ones(TERN_SHAPE(1000)));
    tern_tensor *there = tern_to(host, dev0, .non_blocking = true);
    if (mode[1] == 'w') /* waits, as one should */
        tern_stream_synchronize(tern_current_stream(dev0));
    if (writes)
        ((float *)tern_data(host))[0] = 2;
    tern_tensor *back = tern_to(there, TERN_CPU, .non_blocking = true);
    if (mode[1] == 'w')
        tern_stream_synchronize(tern_current_stream(dev0));
    const double value = (double)((volatile float *)tern_data(back))[0];
    return tern_failed() || (int)value != 1 ? 3 : 0;
}

/* The status of this program in another mode; *out_text gets what it said. */
static int status_of(const char *mode, char text[1024])
{
    pid_t child;
    int status = 0, ends[2];
    char *const arguments[] = { self, (char *)(uintptr_t)mode, NULL };
    posix_spawn_file_actions_t actions;
    assert_int_equal(pipe(ends), 0);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    (void)posix_spawn_file_actions_addclose(&actions, ends[0]);
    assert_int_equal(posix_spawn(&child, self, &actions, NULL, arguments, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    size_t length = 0;
    char rest[4096]; /* a sanitizer's report: a child that writes to nobody would die of that */
    for (ssize_t n = 1; n > 0;) {
        const bool full = length == 1023;
        n = read(ends[0], full ? rest : text + length, full ? sizeof rest : 1023 - length);
        length += n > 0 && !full ? (size_t)n : 0;
    }
    text[length] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* By the signal, or by a sanitizer that handles it; 3 is what misuse ends with. */
static bool killed(int status)
{
    return WIFSIGNALED(status) ||
           (HAS_SANITIZER && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3);
}

static void test_pinned_memory_in_flight_is_guarded(void **state) /* T020 T021 */
{
    (void)state;
    char text[1024];
    assert_int_equal(status_of("ww", text), 0);
    assert_int_equal(status_of("rw", text), 0);
    assert_true(killed(status_of("w-", text)));
    assert_non_null(strstr(text, "host write"));
    assert_true(killed(status_of("r-", text)));
    assert_non_null(strstr(text, "host read"));
}

/* ---- copies that fail when they are queued -------------------------------------------------------- */

/* The host's wait fails, the copy runs later: till then its page-locked memory is nobody else's. */
static void test_a_failed_copy_keeps_its_pinned_source(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *there = tern_zeros(TERN_SHAPE(1000), .device = dev0), *next;
    (void)tern_dev_synchronize(dev0);
    {
        TERN_SCOPE;
        tern_tensor *ones = tern_pin(tern_ones(TERN_SHAPE(1000)));
        simulator_set("FAIL", "cudaStreamSynchronize@1=2");
        assert_null(tern_copy(there, ones));
        assert_non_null(strstr(tern_error_text(), "a copy from the host"));
        tern_error_clear();
    }
    assert_int_equal(tern_host_memory_stat("active.current"), 1);
    next = tern_pin(tern_full(7, TERN_SHAPE(1000)));
    assert_int_equal(tern_host_memory_stat("segment.current"), 2);
    assert_close(sum_of(there), 1000, 0);
    assert_close(sum_of(next), 7000, 0);
    assert_no_error();
    tern_host_empty_cache();
}

static void test_a_failed_copy_keeps_its_pinned_target(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *there = tern_ones(TERN_SHAPE(1000), .device = dev0), *next;
    const int64_t before = tern_host_memory_stat("active.current");
    {
        TERN_SCOPE;
        tern_tensor *back = tern_pin(tern_zeros(TERN_SHAPE(1000)));
        simulator_set("FAIL", "cudaStreamSynchronize@1=2");
        assert_null(tern_copy(back, there));
        assert_non_null(strstr(tern_error_text(), "a copy to the host"));
        tern_error_clear();
    }
    assert_int_equal(tern_host_memory_stat("active.current") - before, 1);
    next = tern_pin(tern_full(7, TERN_SHAPE(1000)));
    assert_int_equal(tern_dev_synchronize(dev0), TERN_OK); /* the copy has run */
    assert_close(sum_of(next), 7000, 0);
    assert_no_error();
    tern_host_empty_cache();
}

/* Neither noted (each allocation fails in turn) nor waited for: the memory is never given again. */
static void test_pinned_memory_that_nobody_can_wait_for_is_lost(void **state)
{
    (void)state;
    TERN_SCOPE;
    int lost = 0;
    for (int k = 1; k < 12; k++) {
        TERN_SCOPE;
        tern_tensor *there = tern_zeros(TERN_SHAPE(1000), .device = dev0);
        (void)tern_dev_synchronize(dev0);
        tern_host_empty_cache();
        const int64_t before = tern_host_memory_stat("allocation.current");
        {
            TERN_SCOPE;
            tern_tensor *ones = tern_pin(tern_ones(TERN_SHAPE(1000)));
            TERN_STREAM(tern_stream_from_pool(dev0)); /* a new one has to be noted */
            simulator_set("FAIL", "cudaDeviceSynchronize@1=2");
            tern_debug_fail_allocation(k);
            (void)tern_copy(there, ones, .non_blocking = true);
            tern_debug_fail_allocation(0);
            simulator_set("FAIL", "");
            tern_error_clear();
        }
        lost += tern_host_memory_stat("allocation.current") > before;
        tern_tensor *next = tern_pin(tern_full(7, TERN_SHAPE(1000)));
        (void)tern_dev_synchronize(dev0); /* the copy has run, or was never made */
        const double sum = sum_of(there);
        assert_true((int)sum == 0 || (int)sum == 1000);
        assert_close(sum_of(next), 7000, 0);
        assert_no_error();
    }
    assert_int_equal(lost, 2); /* the stream, and its place beside the block */
    tern_host_empty_cache();
}

/* ---- conversion ---------------------------------------------------------------------------------- */

static void test_conversion_is_where_nobody_waits(void **state) /* T023 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1000)), *there = tern_to(x, dev0);
    int64_t before = requests(dev0);
    assert_non_null(tern_to(there, TERN_CPU, .dtype = TERN_F64)); /* blocking: on the CPU */
    assert_int_equal(requests(dev0) - before, 0);
    assert_non_null(tern_to(there, TERN_CPU, .dtype = TERN_F64, .non_blocking = true));
    assert_int_equal(requests(dev0) - before, 1);
    before = requests(dev0);
    assert_non_null(tern_to(x, dev0, .dtype = TERN_F64));
    assert_int_equal(requests(dev0) - before, 1); /* the result */
    assert_non_null(tern_to(x, dev0, .dtype = TERN_F64, .non_blocking = true));
    assert_int_equal(requests(dev0) - before, 3);
    before = requests(dev0);
    const int64_t before1 = requests(dev1);
    tern_tensor *far = tern_to(there, dev1, .dtype = TERN_F64); /* at the source */
    assert_int_equal(requests(dev0) - before, 1);
    assert_int_equal(requests(dev1) - before1, 1);
    assert_close(sum_of(far), 1000, 0);
    assert_no_error();
}

static void test_what_lies_alike_needs_no_other_memory(void **state) /* T024 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_to(tern_ones(TERN_SHAPE(20, 30)), dev0);
    tern_tensor *same = tern_zeros(TERN_SHAPE(20, 30), .device = dev0);
    int64_t before0 = requests(dev0), before1 = requests(dev1);
    tern_tensor *far = tern_to(x, dev1);
    (void)tern_copy(same, tern_expand(tern_select(x, 0, 3), TERN_SHAPE(20, 30)));
    assert_int_equal(requests(dev0) - before0, 0);
    assert_int_equal(requests(dev1) - before1, 1);
    assert_close(sum_of(far) + sum_of(same), 1200, 0);
    before0 = requests(dev0), before1 = requests(dev1);
    tern_tensor *turned = tern_to(tern_transpose(x, 0, 1), dev1);
    assert_int_equal(tern_stride(turned, 0), 1); /* strides are kept */
    assert_int_equal(requests(dev0) - before0, 0);
    assert_int_equal(requests(dev1) - before1, 1);
    assert_close(sum_of(turned), 600, 0);
    assert_no_error();
}

static void test_a_copy_onto_itself_asks_nothing(void **state) /* T026 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(20, 30), .device = dev0);
    const int64_t calls = simulator_calls();
    assert_ptr_equal(tern_copy(x, x), x);
    assert_int_equal(simulator_calls(), calls);
    assert_close(sum_of(x), 600, 0);
    assert_no_error();
}

/* ---- between devices ------------------------------------------------------------------------------ */

static void test_devices_copy_with_and_without_peer_access(void **state) /* T027 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1000), .device = dev0);
    simulator_set("FAIL", "cudaDeviceEnablePeerAccess@1=700");
    assert_null(tern_to(x, dev1)); /* the first copy of a pair asks */
    assert_error(TERN_ERR_BACKEND, "cudaDeviceEnablePeerAccess");
    assert_close(sum_of(tern_to(x, dev1)), 1000, 0);
    simulator_set("FAIL", "cudaDeviceEnablePeerAccess@1=999,cudaDeviceCanAccessPeer@1=999");
    assert_close(sum_of(tern_to(x, dev1)), 1000, 0); /* once per pair */
    simulator_set("FAIL", "");
    simulator_set("PEER", "off");
    tern_tensor *y = tern_to(tern_ones(TERN_SHAPE(1000), .device = dev1), dev0);
    simulator_set("PEER", "on");
    assert_close(sum_of(y), 1000, 0);
    assert_no_error();
}

static void test_the_default_streams_need_no_help(void **state) /* S029 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *host = tern_pin(tern_ones(TERN_SHAPE(3000)));
    tern_tensor *x = tern_to(host, dev0, .non_blocking = true);
    for (int i = 0; i < 3; i++) {
        x = tern_mul(tern_to(tern_add(x, 1), dev1), 2);
        x = tern_to(x, dev0);
    }
    assert_close(sum_of(x), 3000 * (8 + 2 + 4 + 8), 0);
    assert_no_error();
}

/* ---- streams of others, and all of a device -------------------------------------------------------- */

static void test_a_stream_of_another_library(void **state) /* S008 */
{
    (void)state;
    TERN_SCOPE;
    void *handle = tern_stream_from_pool(dev0).handle;
    tern_stream_t theirs = tern_stream_external(dev0, handle);
    assert_ptr_equal(theirs.handle, handle);
    {
        TERN_STREAM(theirs);
        assert_close(sum_of(tern_ones(TERN_SHAPE(10), .device = dev0)), 10, 0);
    }
    assert_no_error();
    assert_null(tern_stream_external(dev0, (void *)(uintptr_t)1).handle); /* cudaStreamLegacy */
    void *data = tern_memory_alloc(dev0, 1000, (void *)(uintptr_t)1);
    (void)tern_memory_free(dev0, data);
    assert_ptr_equal(tern_memory_alloc(dev0, 1000, NULL), data); /* the same stream's */
    (void)tern_memory_free(dev0, data);
    assert_null(tern_memory_alloc(dev0, 1000, (void *)(uintptr_t)2));
    assert_error(TERN_ERR_ARGUMENT, "memory_alloc: cudaStreamPerThread");
    (void)tern_stream_external(dev0, (void *)(uintptr_t)2);
    assert_error(TERN_ERR_ARGUMENT, "cudaStreamPerThread is another stream in each thread");
    tern_stream_t gone = tern_stream_external(dev0, (void *)(uintptr_t)64);
    assert_int_equal(tern_stream_synchronize(gone), TERN_ERR_BACKEND);
    assert_error(TERN_ERR_BACKEND, "cudaErrorInvalidResourceHandle (400)");
    assert_true(tern_stream_query(gone));
    assert_error(TERN_ERR_BACKEND, "cudaErrorInvalidResourceHandle (400)");
    TERN_STREAM(gone);
    assert_null(tern_ones(TERN_SHAPE(10), .device = dev0));
    assert_error(TERN_ERR_BACKEND, "cudaErrorInvalidResourceHandle (400)");
}

static void test_synchronize_waits_for_every_stream(void **state) /* S013 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t streams[3];
    for (int i = 0; i < 3; i++) {
        TERN_STREAM(streams[i] = tern_stream_from_pool(dev0));
        (void)tern_ones(TERN_SHAPE(10), .device = dev0);
        assert_false(tern_stream_query(streams[i]));
    }
    {
        TERN_DEVICE(dev1);
        assert_int_equal(tern_dev_synchronize(TERN_CUDA(-1)), TERN_OK); /* the current one */
        assert_false(tern_stream_query(streams[0]));
        assert_int_equal(tern_dev_synchronize(dev0), TERN_OK);
        assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 1);
    }
    for (int i = 0; i < 3; i++)
        assert_true(tern_stream_query(streams[i]));
    assert_no_error();
}

/* Memory that a stream's earlier work still uses: writing it on another stream is a race, too. */
static void test_writing_needs_a_wait_as_well(void **state) /* S024 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *old = tern_ones(TERN_SHAPE(3000), .device = dev0);
    tern_drop(old);
    tern_tensor *fresh = tern_empty(TERN_SHAPE(3000), .device = dev0);
    TERN_STREAM(tern_stream_from_pool(dev0));
    assert_null(tern_fill(fresh, 2));
    assert_error(TERN_ERR_BACKEND, "stream race (write after write)");
}

static char warning[256], warned_at[256];
static void hear(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)user;
    if (level != TERN_LOG_WARNING)
        return;
    (void)snprintf(warning, sizeof warning, "%s", text);
    (void)snprintf(warned_at, sizeof warned_at, "%s", site != NULL ? site : "nowhere");
}

/* Only memory that is missing is out of memory. */
static void test_why_nothing_can_be_pinned(void **state) /* T064 */
{
    (void)state;
    TERN_SCOPE;
    tern_host_empty_cache();
    simulator_set("FAIL", "cudaHostAlloc@1=46,cudaHostAlloc@2=46");
    assert_null(tern_pin(tern_ones(TERN_SHAPE(100000))));
    simulator_set("FAIL", "");
    assert_error(TERN_ERR_BACKEND, "cudaErrorDevicesUnavailable");
}

static void test_the_end_of_an_event_only_warns(void **state) /* S022 */
{
    (void)state;
    tern_event *event = tern_event_create();
    assert_int_equal(tern_event_record(event, tern_default_stream(dev1)), TERN_OK);
    tern_log_set_callback(hear, NULL);
    simulator_set("FAIL", "cudaEventDestroy@1=1");
    tern_event_release(event);
    simulator_set("FAIL", "");
    tern_log_set_callback(NULL, NULL);
    assert_non_null(strstr(warning, "releasing an event failed: cudaEventDestroy on cuda:1"));
    assert_no_error();
}

/* ---- waits that nobody asked for ------------------------------------------------------------------- */

/* The line above a call of this is the one that waited. */
static void assert_warned_of_the_line_before(int line)
{
    char here[64];
    (void)snprintf(here, sizeof here, "test_simulated_copies.c:%d", line - 1);
    assert_non_null(strstr(warning, "called a synchronizing operation"));
    if (strstr(warned_at, here) == NULL)
        fail_msg("%s, not %s", warned_at, here);
    warned_at[0] = '\0';
}

static void test_a_warning_names_the_line_that_waits(void **state) /* T030 */
{
    (void)state;
    TERN_SCOPE;
    float got[10];
    tern_tensor *x = tern_ones(TERN_SHAPE(10), .device = dev0), *sum = tern_sum(x);
    tern_tensor *host = tern_ones(TERN_SHAPE(2));
    tern_set_sync_debug_mode(TERN_SYNC_WARN);
    tern_log_set_callback(hear, NULL);
    (void)tern_item(sum);
    assert_warned_of_the_line_before(__LINE__);
    assert_non_null(tern_cpu(x));
    assert_warned_of_the_line_before(__LINE__);
    assert_non_null(tern_to(host, dev0));
    assert_warned_of_the_line_before(__LINE__);
    (void)tern_read(x, TERN_F32, got, sizeof got);
    assert_warned_of_the_line_before(__LINE__);
    tern_log_set_callback(NULL, NULL);
    assert_no_error();
}

static void test_waits_can_be_errors(void **state) /* T030 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(10), .device = dev0);
    warning[0] = '\0';
    tern_set_sync_debug_mode(TERN_SYNC_WARN);
    tern_log_set_callback(hear, NULL);
    assert_close(sum_of(x), 10, 0);
    tern_log_set_callback(NULL, NULL);
    assert_non_null(strstr(warning, "called a synchronizing operation"));
    tern_set_sync_debug_mode(TERN_SYNC_ERROR);
    assert_true(tern_sync_debug_mode() == TERN_SYNC_ERROR);
    const tern_transfers_t before = tern_transfers_total();
    (void)sum_of(x);
    assert_error(TERN_ERR_STATE, "called a synchronizing operation");
    assert_null(tern_to(tern_ones(TERN_SHAPE(3)), dev0));
    assert_error(TERN_ERR_STATE, "called a synchronizing operation");
    assert_null(tern_cpu(x));
    assert_error(TERN_ERR_STATE, "called a synchronizing operation");
    const tern_transfers_t after = tern_transfers_total();
    assert_memory_equal(&before, &after, sizeof before); /* nobody waited, nothing moved */
    assert_non_null(tern_to(tern_pin(tern_ones(TERN_SHAPE(3))), dev0, .non_blocking = true));
    assert_int_equal(tern_dev_synchronize(dev0), TERN_OK);
    assert_no_error();
}

int main(int argc, char **argv)
{
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
    if (argc > 1)
        return misuse(argv[1]);
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0)
        return 1;
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_pinned_memory_in_flight_is_guarded),
        TEST(test_devices_copy_with_and_without_peer_access), /* the first copies between devices */
        TEST(test_a_failed_copy_keeps_its_pinned_source),
        TEST(test_a_failed_copy_keeps_its_pinned_target),
        TEST(test_pinned_memory_that_nobody_can_wait_for_is_lost),
        TEST(test_conversion_is_where_nobody_waits),
        TEST(test_what_lies_alike_needs_no_other_memory),
        TEST(test_a_copy_onto_itself_asks_nothing),
        TEST(test_the_default_streams_need_no_help),
        TEST(test_a_stream_of_another_library),
        TEST(test_synchronize_waits_for_every_stream),
        TEST(test_writing_needs_a_wait_as_well),
        TEST(test_why_nothing_can_be_pinned),
        TEST(test_the_end_of_an_event_only_warns),
        TEST(test_a_warning_names_the_line_that_waits),
        TEST(test_waits_can_be_errors),
    };
    const int failed = cmocka_run_group_tests(tests, setup, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
