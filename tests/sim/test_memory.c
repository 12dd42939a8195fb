/* Device memory that the host cannot touch, and what the memory calls check. */
#include <math.h>

#include "tests/sim/sim_check.h"
#include "tests/support/crash.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(test_the_host_cannot_read_device_memory),
                                        TEST(test_the_host_cannot_write_freed_memory),
                                        TEST(test_pinned_memory_is_guarded_while_it_is_copied),
                                        TEST(test_pinned_memory_is_free_after_the_wait),
                                        TEST(test_fresh_memory_is_nan),
                                        TEST(test_copies_are_checked),
                                        TEST(test_a_device_has_its_size),
                                        TEST(test_freed_memory_is_fatal_to_kernels) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
