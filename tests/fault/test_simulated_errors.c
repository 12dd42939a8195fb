/* What a failing CUDA call leaves: an error that says where and why, nothing half-done and nothing lost.
 * Rows T031, T032. Each case that loses the device is this program again. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/files.h"
#include "tests/support/second_backend.h"
#include "tests/support/simulator.h"

extern char **environ;
static char self[512]; /* this program */
static const tern_dev_t dev0 = { TERN_KIND_CUDA, 0 }, dev1 = { TERN_KIND_CUDA, 1 };

/* ---- the other process: prints each error it gets -------------------------------------------------- */

static void print_error_of(const char *step)
{
    printf("%s: %s", step, tern_failed() ? tern_error_text() : "fine\n");
    tern_error_clear();
}

static int lose_the_device(void)
{
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(4), .device = dev0);
    TERN_STREAM(tern_stream_from_pool(dev0));
    tern_stream_wait_stream(tern_current_stream(dev0), tern_default_stream(dev0));
    tern_tensor *y = tern_add(tern_mul(x, 3), 1);
    print_error_of("queued");
    tern_dev_synchronize(dev0);
    print_error_of("waited");
    (void)tern_add(y, 1);
    print_error_of("again");
    (void)tern_add(tern_ones(TERN_SHAPE(4), .device = dev1), 1);
    (void)tern_add(tern_ones(TERN_SHAPE(4)), 1);
    tern_dev_synchronize(dev1);
    print_error_of("elsewhere");
    return 0;
}

/* ---- running it ------------------------------------------------------------------------------------ */

static char said[8192], logged[8192];

static void read_into(char *text, size_t bytes, const char *path)
{
    FILE *stream = fopen(path, "r");
    const size_t length = stream != NULL ? fread(text, 1, bytes - 1, stream) : 0;
    text[length] = '\0';
    if (stream != NULL)
        (void)fclose(stream);
}

static void run_with(const char *variable, const char *value)
{
    pid_t child;
    int status = 0;
    char out[FILE_PATH_BYTES], log[FILE_PATH_BYTES];
    char *const arguments[] = { self, (char *)(uintptr_t) "lose", NULL };
    posix_spawn_file_actions_t actions;
    (void)snprintf(out, sizeof out, "%s", file_path("out"));
    (void)snprintf(log, sizeof log, "%s", file_path("log"));
    (void)unlink(log);
    (void)setenv("TERN_LOG_FILE", log, 1);
    (void)setenv("TERN_SIM_FAIL", "launch:k_map_packs@1=700", 1);
    (void)setenv(variable, value, 1);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out,
                                           O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(posix_spawn(&child, self, &actions, NULL, arguments, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(waitpid(child, &status, 0), child);
    (void)unsetenv(variable);
    (void)unsetenv("TERN_SIM_FAIL");
    (void)unsetenv("TERN_LOG_FILE");
    read_into(said, sizeof said, out);
    read_into(logged, sizeof logged, log);
    assert_int_equal(status, 0);
}

static void assert_said(const char *text)
{
    if (strstr(said, text) == NULL)
        fail_msg("'%s' is not in: %s", text, said);
}

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

static void test_a_fault_says_what_was_going_on(void **state) /* T032 */
{
    (void)state;
    run_with("TERN_CUDA_SYNC", "0");
    assert_said("queued: fine");
    assert_said("waited: ");
    assert_said(
        "synchronize on cuda:0 (simulated): cudaErrorIllegalAddress (700): an illegal memory "
        "access was encountered");
    assert_said("launched last: add (stream #1), mul (stream #1), fill");
    assert_said("the device is lost to this process: end it and start again");
    assert_said("again: ");
    assert_int_equal(count_of(said, "is lost to this process"), 2);
    assert_said("elsewhere: fine");
}

/* Codes after which the header says that the process must be relaunched. */
static void test_other_faults_lose_the_device(void **state)
{
    (void)state;
    static const char *const codes[] = { "226", "911" };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char fail[64];
        (void)snprintf(fail, sizeof fail, "launch:k_map_packs@1=%s", codes[i]);
        run_with("TERN_SIM_FAIL", fail);
        assert_said(codes[i]);
        assert_int_equal(count_of(said, "is lost to this process"), 2);
    }
}

static void test_waiting_names_the_launch(void **state) /* T031 */
{
    (void)state;
    run_with("TERN_CUDA_SYNC", "1");
    assert_said("queued: ");
    assert_said("mul: mul on cuda:0 (simulated), stream #1: ");
    assert_said("launched last: mul (stream #1), fill");
    assert_said("elsewhere: fine");
}

static void test_the_log_has_each_error_once(void **state)
{
    (void)state;
    run_with("TERN_CUDA_SYNC", "0");
    assert_int_equal(count_of(logged, "tern error: "), 2); /* at the wait, and at the op after it */
    assert_int_equal(count_of(logged, "cudaErrorIllegalAddress (700)"), 2);
    assert_int_equal(count_of(logged, "    memory of cuda:0: "), 2);
    assert_non_null(strstr(logged, " allocated (peak 1.5 KiB), 4.0 MiB reserved, "));
}

/* ---- the words of old failures ---------------------------------------------------------------------- */

/* A kernel that fails without words, on the tests' other device, and asks for no memory: the library has
 * words of its own. */
static void assert_nothing_older_is_said(tern_tensor *i16)
{
    tern_error_clear();
    (void)tern_fill(i16, 1);
    assert_error(TERN_ERR_UNSUPPORTED, "test:0 has no kernel");
}

static void end_a_tensor_while(const char *fails)
{
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1000), .device = dev0);
    assert_int_equal(tern_record_stream(x, tern_stream_from_pool(dev0)), TERN_OK);
    simulator_set("FAIL", fails);
}

static void test_words_are_those_of_the_failure(void **state)
{
    (void)state;
    assert_int_equal(second_backend_load(), TERN_OK);
    assert_int_equal(tern_dev_synchronize(dev0), TERN_OK);
    TERN_SCOPE;
    tern_tensor *i16 =
        tern_empty(TERN_SHAPE(3), .dtype = TERN_I16, .device = TERN_DEV_(TERN_KIND_EXT, 0));
    tern_empty_cache(dev0);
    simulator_set("FAIL", "cudaMalloc@1=999");
    assert_null(tern_ones(TERN_SHAPE(1000), .device = dev0));
    assert_error(TERN_ERR_BACKEND, "cudaMalloc on cuda:0");
    assert_nothing_older_is_said(i16);
    end_a_tensor_while("cudaEventRecord@1=400"); /* the stream is waited for */
    assert_nothing_older_is_said(i16);
    end_a_tensor_while("cudaEventRecord@1=400,cudaEventRecord@2=400,cudaDeviceSynchronize@1=999");
    assert_nothing_older_is_said(i16);
    simulator_set("FAIL", "cudaFree@1=999");
    tern_empty_cache(dev0);
    assert_nothing_older_is_said(i16);
    simulator_set("FAIL", "cudaMemGetInfo@1=999");
    int64_t unused, total;
    assert_int_equal(tern_memory_info(dev0, &unused, &total), TERN_ERR_BACKEND);
    assert_error(TERN_ERR_BACKEND, "cudaMemGetInfo on cuda:0");
    assert_nothing_older_is_said(i16);
    tern_dev_info_t info;
    simulator_set("FAIL", "cudaMemGetInfo@1=999,cudaGetDeviceProperties@1=999");
    assert_true(tern_dev_info(dev0, &info));
    assert_int_equal(info.free_bytes, -1);
    assert_nothing_older_is_said(i16);
    simulator_set("FAIL", "");
}

/* A call of its own, and the piece of memory that products share: neither is called used up memory. */
static void test_memory_that_cannot_be_had_says_why(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(8, 8), .device = dev0);
    simulator_set("FAIL", "cudaMalloc@1=999,cudaMemGetInfo@1=999");
    assert_null(tern_memory_alloc(dev0, 1 << 22, NULL));
    assert_error(TERN_ERR_BACKEND, ": memory_alloc: cudaMalloc on cuda:0");
    tern_clear_workspaces(dev0);
    tern_empty_cache(dev0);
    simulator_set("FAIL", "cudaMalloc@1=999");
    assert_null(tern_matmul(x, x));
    assert_error(TERN_ERR_BACKEND, "cudaMalloc on cuda:0");
    tern_tensor *line = tern_reshape(x, TERN_SHAPE(64)),
                *many = tern_repeat(line, TERN_SHAPE(20000));
    tern_empty_cache(dev0);
    simulator_set("FAIL", "cudaMalloc@1=999,cudaMalloc@2=999,cudaMalloc@3=999");
    assert_null(tern_sort(many, 0, false, NULL));
    assert_error(TERN_ERR_BACKEND, "test_simulated_errors.c:");
    simulator_set("FAIL", "");
    assert_close(tern_item(tern_sum(tern_matmul(x, x))), 512, 0);
    tern_clear_workspaces(dev0);
}

/* ---- codes whose cause lies outside of the program --------------------------------------------------- */

static void test_a_cause_outside_has_advice(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *advice;
    } cases[] = {
        { 2, "; nvidia-smi lists who holds the GPU's memory" },
        { 46,
          "busy or unavailable; another process may have the GPU alone: nvidia-smi -q -d COMPUTE" },
        { 98, "; the plugin has no code for this GPU: build it with TERN_CUDA_ARCHS" },
        { 209, "; the plugin has no code for this GPU: build it with TERN_CUDA_ARCHS" },
        { 221, "; libnvidia-ptxjitcompiler.so.1, a part of the driver, is missing" },
        { 222, "; the driver is older than the plugin's CUDA: install a newer one" },
        { 223, "; unset CUDA_DISABLE_PTX_JIT" },
        { 3, "; run sudo modprobe nvidia_uvm" },
        { 802, "; run sudo systemctl restart nvidia-fabricmanager" },
        { 805, "; run nvidia-cuda-mps-control -d" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TERN_SCOPE;
        char fault[64];
        tern_tensor *x = tern_ones(TERN_SHAPE(4), .device = dev0);
        (void)snprintf(fault, sizeof fault, "cudaLaunchKernelEx@1=%d", cases[i].code);
        simulator_set("FAIL", fault);
        assert_null(tern_add(x, 1));
        if (strstr(tern_error_text(), cases[i].advice) == NULL)
            fail_msg("'%s' is not in: %s", cases[i].advice, tern_error_text());
        tern_error_clear();
    }
    simulator_set("FAIL", "");
}

/* Others have filled it: less would not help. */
static void test_a_full_device_that_cannot_be_opened(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_empty_cache(dev0);
    simulator_set("FAIL",
                  "cudaSetDevice@1=2,cudaSetDevice@2=2,cudaSetDevice@3=2,cudaSetDevice@4=2");
    assert_null(tern_ones(TERN_SHAPE(1000), .device = dev0));
    simulator_set("FAIL", "");
    const char *text = tern_error_text();
    assert_non_null(strstr(text, "out of memory on cuda:0: "));
    assert_non_null(strstr(text, "  device: opening the device on cuda:0 (simulated): "
                                 "cudaErrorMemoryAllocation (2): out of memory; nvidia-smi lists"));
    assert_non_null(strstr(text, "to fit: end the processes that hold the device's memory\n"));
    assert_null(strstr(text, "smaller"));
    assert_int_equal(tern_error_code(), TERN_ERR_OOM);
    tern_error_clear();
}

/* ---- every call fails once ------------------------------------------------------------------------- */

/* A bit of everything that goes to the driver. NaN after an error. */
static double program(void)
{
    TERN_SCOPE;
    tern_stream_t side = tern_stream_from_pool(dev0, .priority = -1);
    tern_stream_t main_stream = tern_current_stream(dev0);
    tern_event *start = tern_event_create(.timing = true), *end = tern_event_create(.timing = true);
    tern_tensor *host = tern_pin(tern_ones(TERN_SHAPE(300)));
    tern_tensor *x = tern_set_requires_grad(tern_to(host, dev0, .non_blocking = true), true);
    tern_tensor *y;
    tern_event_record(start, main_stream);
    tern_stream_wait_event(side, start);
    {
        TERN_STREAM(side);
        y = tern_mul(x, x);
        if (x != NULL)
            tern_record_stream(x, side);
    }
    tern_stream_wait_stream(main_stream, side);
    tern_tensor *far = tern_to(tern_add(y, 1), dev1);
    tern_backward(tern_sum(far));
    tern_event_record(end, main_stream);
    tern_event_synchronize(end);
    const bool timed = tern_event_elapsed(start, end) >= 0;
    (void)tern_stream_query(side);
    tern_tensor *back = tern_to(x != NULL ? tern_grad_of(x) : NULL, TERN_CPU, .non_blocking = true);
    tern_stream_synchronize(main_stream);
    tern_dev_synchronize(dev1);
    const double sum = tern_item(tern_sum(back));
    tern_event_release(start);
    tern_event_release(end);
    return timed ? sum : -1;
}

static void assert_nothing_is_left(const char *call, int k)
{
    tern_error_clear();
    for (int i = 0; i < 2; i++) {
        tern_dev_synchronize(TERN_CUDA(i));
        assert_no_error();
        if (tern_memory(TERN_CUDA(i)).allocated_bytes != 0)
            fail_msg("%s@%d: %lld bytes stay on cuda:%d", call, k,
                     (long long)tern_memory(TERN_CUDA(i)).allocated_bytes, i);
    }
    assert_int_equal(tern_live_tensors(), 0);
    assert_null(tern_current_stream(dev0).handle);
    const double sum = program();
    if (!(sum == 600) || tern_failed())
        fail_msg("%s@%d: afterwards %g: %s", call, k, sum, tern_error_text());
}

static void test_every_call_may_fail(void **state)
{
    (void)state;
    static const char *const calls[] = { "cudaSetDevice",
                                         "cudaMalloc",
                                         "cudaHostAlloc",
                                         "cudaMemcpyAsync",
                                         "cudaMemcpyPeerAsync",
                                         "cudaMemsetAsync",
                                         "cudaLaunchKernelEx",
                                         "cudaEventCreateWithFlags",
                                         "cudaEventRecord",
                                         "cudaEventQuery",
                                         "cudaEventSynchronize",
                                         "cudaEventElapsedTime",
                                         "cudaEventDestroy",
                                         "cudaStreamWaitEvent",
                                         "cudaStreamQuery",
                                         "cudaStreamSynchronize",
                                         "cudaDeviceSynchronize",
                                         "cudaStreamCreateWithPriority",
                                         "cudaFree",
                                         "*" };
    const double first = program();
    if (!(first == 600))
        fail_msg("%g: %s", first, tern_error_text());
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int k = 1; k <= (calls[i][0] == '*' ? 60 : 12); k++) {
            char fault[80];
            (void)snprintf(fault, sizeof fault, "%s@%d=%d", calls[i], k, k % 2 == 0 ? 2 : 999);
            tern_empty_cache(dev0);
            tern_host_empty_cache();
            simulator_set("FAIL", fault);
            (void)program();
            simulator_set("FAIL", "");
            assert_nothing_is_left(calls[i], k);
        }
}

int main(int argc, char **argv)
{
    (void)argv;
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
    if (argc > 1)
        return lose_the_device();
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fault_says_what_was_going_on),
        cmocka_unit_test(test_waiting_names_the_launch),
        cmocka_unit_test(test_other_faults_lose_the_device),
        cmocka_unit_test(test_the_log_has_each_error_once),
        cmocka_unit_test(test_words_are_those_of_the_failure),
        cmocka_unit_test(test_memory_that_cannot_be_had_says_why),
        cmocka_unit_test(test_a_cause_outside_has_advice),
        cmocka_unit_test(test_a_full_device_that_cannot_be_opened),
        cmocka_unit_test(test_every_call_may_fail),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
