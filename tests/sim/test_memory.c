/* Device memory that the host cannot touch, and what the memory calls check. */
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/sim_check.h"
#include "tests/support/crash.h"
#include "tests/support/sanitizer.h"

static void assert_crashes(void (*crash)(void), const char *expected)
{
    char text[8192];
    assert_true(crash_text(crash, text, sizeof text));
    if (strstr(text, expected) == NULL)
        print_error("'%s' is not in: %s\n", expected, text);
    assert_non_null(strstr(text, expected));
}

static void host_reads(void)
{
    volatile float *data = device_floats(256);
    (void)data[10];
}

static void host_writes_freed(void)
{
    volatile float *data = device_floats(256);
    (void)cudaFree((void *)(uintptr_t)data);
    data[3] = 1;
}

static void host_writes_pinned_in_flight(void)
{
    float *pinned = NULL;
    float *data = device_floats(256);
    (void)cudaHostAlloc((void **)&pinned, 1024, cudaHostAllocDefault);
    memset(pinned, 0, 1024);
    (void)cudaMemcpyAsync(data, pinned, 1024, cudaMemcpyHostToDevice, NULL);
    pinned[0] = 1;
}

static void test_the_host_cannot_read_device_memory(void **state)
{
    (void)state;
    assert_crashes(host_reads, "tern: host read of device memory, 40 bytes into allocation #1 "
                               "(1024 bytes on cuda:0 (simulated), made by ");
}

static void test_the_host_cannot_write_freed_memory(void **state)
{
    (void)state;
    assert_crashes(host_writes_freed, ", freed); copy it to the host first: tern_cpu, tern_read");
}

static void test_pinned_memory_is_guarded_while_it_is_copied(void **state)
{
    (void)state;
    assert_crashes(host_writes_pinned_in_flight,
                   "tern: host write while a copy is under way, 0 bytes into allocation #2 (1024 "
                   "bytes on pinned host memory");
}

static void test_pinned_memory_is_free_after_the_wait(void **state)
{
    (void)state;
    float *pinned = NULL, *data = filled_floats(4, 5);
    assert_cuda(cudaHostAlloc((void **)&pinned, 16, cudaHostAllocDefault));
    assert_cuda(cudaMemcpyAsync(pinned, data, 16, cudaMemcpyDeviceToHost, NULL));
    assert_cuda(cudaStreamSynchronize(NULL));
    assert_true(pinned[3] == 5);
    pinned[3] = 6;
    assert_cuda(cudaFreeHost(pinned));
}

static void test_fresh_memory_is_nan(void **state)
{
    (void)state;
    assert_true(isnan(first_float(device_floats(8))));
}

static void test_copies_are_checked(void **state)
{
    (void)state;
    float host[64] = { 0 };
    float *data = device_floats(16);
    assert_int_equal(cudaMemcpy(data, host, sizeof host, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    assert_reported("write of 256 bytes from byte 0 on of allocation #1 (64 bytes");
    assert_int_equal(cudaMemcpy(data, host, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    assert_reported("a copy was called cudaMemcpyDeviceToHost and is cudaMemcpyHostToDevice");
    assert_cuda(cudaMemcpy(data, host, 64, cudaMemcpyDefault));
    assert_cuda(cudaFree(data));
    assert_int_equal(cudaMemcpy(host, data, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    assert_reported("freed");
    assert_int_equal(cudaFree(data), cudaErrorInvalidValue);
    assert_reported("freed twice");
    assert_int_equal(cudaFree(host), cudaErrorInvalidValue);
    assert_cuda(cudaDeviceSynchronize());
}

static void test_a_device_has_its_size(void **state)
{
    (void)state;
    size_t free_bytes = 0, total = 0;
    void *most = NULL, *more = NULL;
    assert_cuda(cudaMalloc(&most, (size_t)200 << 20));
    assert_int_equal(cudaMalloc(&more, (size_t)100 << 20), cudaErrorMemoryAllocation);
    assert_cuda(cudaMemGetInfo(&free_bytes, &total));
    assert_int_equal(total, 256 << 20);
    assert_int_equal(free_bytes, 56 << 20);
    assert_cuda(cudaFree(most));
    assert_cuda(cudaMalloc(&more, (size_t)100 << 20));
}

static void test_freed_memory_is_fatal_to_kernels(void **state)
{
    (void)state;
    float *x = filled_floats(64, 1), *y = filled_floats(64, 1);
    assert_cuda(cudaFree(x));
    assert_cuda(launch_axpy(y, x, 1, 64, NULL));
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_reported("illegal read by thread (0,0,0) of block (0,0,0) in k_axpy: 0 bytes into "
                    "allocation #1 (256 bytes");
    assert_reported("freed");
}

/* ---- forks ----------------------------------------------------------------------------------- */

static float *parents, *parents_pinned;
static cudaStream_t parents_stream;

/* Each call is an error, as the driver's are; the bit of the first that was none. */
static int child_calls(void)
{
    float host[4] = { 9, 9, 9, 9 };
    void *data = NULL;
    size_t free_bytes, total;
    const cudaError_t codes[] = {
        cudaFree(parents),
        cudaMalloc(&data, 256),
        cudaMemcpy(parents, host, sizeof host, cudaMemcpyHostToDevice),
        cudaMemsetAsync(parents, 0, sizeof host, NULL),
        launch_axpy(parents, parents, 1, 4, NULL),
        cudaStreamSynchronize(parents_stream),
        cudaStreamDestroy(parents_stream),
        cudaDeviceSynchronize(),
        cudaFreeHost(parents_pinned),
        cudaMemGetInfo(&free_bytes, &total),
        cudaSetDevice(1),
    };
    for (int i = 0; i < (int)(sizeof codes / sizeof *codes); i++)
        if (codes[i] != cudaErrorInitializationError)
            return i + 1;
    parents_pinned[0] = 9; /* a copy's */
    return strstr(cudaGetErrorString(cudaErrorInitializationError), "forked") != NULL ? 0 : 100;
}

static void test_a_child_of_a_fork_reaches_no_device(void **state)
{
    (void)state;
    int status = 0;
    parents = filled_floats(4, 3);
    assert_cuda(cudaHostAlloc((void **)&parents_pinned, 1024, cudaHostAllocDefault));
    parents_pinned[0] = 1;
    assert_cuda(cudaStreamCreateWithFlags(&parents_stream, cudaStreamNonBlocking));
    assert_cuda(launch_axpy(parents, parents, 1, 4, parents_stream)); /* runs in the parent alone */
    const pid_t child = fork();
    if (child == 0)
        _exit(child_calls());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_cuda(cudaStreamSynchronize(parents_stream));
    assert_float_equal(first_float(parents), 6, 0);
    assert_float_equal(parents_pinned[0], 1, 0);
    assert_cuda(cudaFree(parents));
    assert_cuda(cudaFreeHost(parents_pinned));
}

/* ---- started with closed streams --------------------------------------------------------------- */

static int write_to_closed_streams(void)
{
    (void)close(STDERR_FILENO);
    (void)close(STDOUT_FILENO); /* the lowest number from now on */
    float *data = filled_floats(4, 3);
    static const char words[] = "said where nobody hears it";
    const bool heard = write(STDOUT_FILENO, words, sizeof words) >= 0 ||
                       write(STDERR_FILENO, words, sizeof words) >= 0;
    return heard ? 1 : first_float(data) == 3 ? 0 : 2;
}

static void test_memory_is_no_closed_stream(void **state)
{
    (void)state;
    int status = 0;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        _exit(write_to_closed_streams());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- a limit of address space ------------------------------------------------------------------- */

/* As often as it is tried, and nothing stays of a try: files would run out. */
static int allocate_within(rlim_t bytes)
{
    const struct rlimit limit = { bytes, bytes }, files = { 64, 64 };
    void *data = NULL;
    if (setrlimit(RLIMIT_AS, &limit) != 0 || setrlimit(RLIMIT_NOFILE, &files) != 0)
        return 1;
    for (int i = 0; i < 100; i++)
        if (cudaMalloc(&data, 256) != cudaErrorOperatingSystem ||
            cudaHostAlloc(&data, 256, cudaHostAllocDefault) != cudaErrorOperatingSystem)
            return 2;
    return strstr(cudaGetErrorString(cudaErrorOperatingSystem), "no address space (ulimit -v)") !=
                   NULL
               ? 0
               : 3;
}

static void test_a_limit_of_address_space_is_said(void **state)
{
    (void)state;
    int status = 0;
    if (HAS_SANITIZER) {
        print_message(
            "skipped: a sanitizer wants more address space than the limit of this test leaves\n");
        skip();
    }
    const pid_t child = fork();
    if (child == 0)
        _exit(allocate_within((rlim_t)40 << 30));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(test_the_host_cannot_read_device_memory),
                                        TEST(test_the_host_cannot_write_freed_memory),
                                        TEST(test_pinned_memory_is_guarded_while_it_is_copied),
                                        TEST(test_pinned_memory_is_free_after_the_wait),
                                        TEST(test_fresh_memory_is_nan),
                                        TEST(test_copies_are_checked),
                                        TEST(test_a_device_has_its_size),
                                        TEST(test_freed_memory_is_fatal_to_kernels),
                                        TEST(test_a_child_of_a_fork_reaches_no_device),
                                        TEST(test_memory_is_no_closed_stream),
                                        TEST(test_a_limit_of_address_space_is_said) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
