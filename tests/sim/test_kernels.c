/* Blocks of threads: good kernels give the right results in every order, broken ones are caught with
 * kernel, place and allocation. */
#include <math.h>

#include "tests/sim/sim_check.h"

static const char *const orders[] = { "forward", "reverse", "random:1", "random:2" };
enum { ORDERS = sizeof orders / sizeof *orders };

static void test_sums_agree_in_every_order(void **state)
{
    (void)state;
    enum { N = 4000, BLOCKS = (N + 255) / 256 };
    for (int k = 0; k < ORDERS; k++) {
        assert_int_equal(sim_set("ORDER", orders[k]), 0);
        const float *x = filled_floats(N, 1);
        float *out = device_floats(2 * BLOCKS), host[2 * BLOCKS];
        assert_cuda(launch_block_sum(out, x, N, NULL));
        assert_cuda(launch_tree_sum(out + BLOCKS, x, N, NULL));
        assert_cuda(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
        float shuffled = 0, tree = 0;
        for (int i = 0; i < BLOCKS; i++) {
            shuffled += host[i];
            tree += host[BLOCKS + i];
        }
        assert_true(shuffled == N && tree == N);
    }
}

static void test_every_thread_runs_once_and_warps_vote(void **state)
{
    (void)state;
    int *out = NULL, host[2] = { 0, 0 };
    assert_cuda(cudaMalloc((void **)&out, sizeof host));
    assert_cuda(cudaMemsetAsync(out, 0, sizeof host, NULL));
    assert_cuda(launch_count(out, 3, 192, NULL));
    assert_cuda(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    assert_int_equal(host[0], 3 * 192);
    assert_int_equal(host[1], 1);
    assert_int_equal(sim_get_counts().threads, 3 * 192);
}

static void test_pointers_in_structs_and_in_memory_are_followed(void **state)
{
    (void)state;
    kernel_rows table;
    for (int i = 0; i < 4; i++)
        table.rows[i] = filled_floats(1, (float)i + 1);
    float *out = device_floats(4), host[4];
    assert_cuda(launch_rows(out, table, NULL));
    assert_cuda(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 4; i++)
        assert_true(host[i] == (float)i + 1);
    float **slot = NULL;
    assert_cuda(cudaMalloc((void **)&slot, sizeof *slot));
    assert_cuda(cudaMemcpy(slot, &table.rows[2], sizeof *slot, cudaMemcpyHostToDevice));
    assert_cuda(launch_indirect(out, slot, NULL));
    assert_true(first_float(out) == 3);
}

/* 64 GiB of addresses lie behind the first, of which none is given out but the lowest. */
static void test_a_number_beside_half_an_address_is_no_pointer(void **state)
{
    (void)state;
    float *here = device_floats(4), host[4];
    assert_cuda(cudaSetDevice(1));
    const float *there = device_floats(4);
    assert_cuda(cudaSetDevice(0));
    const uintptr_t halves[] = { (uintptr_t)here >> 32, (uintptr_t)there >> 32 };
    for (unsigned i = 0; i < 2 * 17; i++) {
        const kernel_number number = { 4, (unsigned)halves[i % 2] + i / 2, i };
        assert_cuda(launch_number(here, number, NULL));
        assert_cuda(cudaMemcpy(host, here, sizeof host, cudaMemcpyDeviceToHost));
        assert_true(host[0] == (float)i && host[3] == (float)i);
    }
}

/* ---- broken ones ----------------------------------------------------------------------------- */

/* The launch succeeds, the wait fails, and so does every call after it. */
static void assert_breaks(broken_kernel which, cudaError_t code, const char *text)
{
    float *out = filled_floats(256, 0);
    assert_cuda(launch_broken(which, out, 256, NULL));
    assert_int_equal(cudaDeviceSynchronize(), code);
    assert_reported(text);
    assert_non_null(strstr(cudaGetErrorString(code), text));
    assert_int_equal(cudaDeviceSynchronize(), code);
    assert_int_equal(cudaGetLastError(), code);
    assert_int_equal(cudaGetLastError(), code);
}

static void test_divergent_barrier(void **state)
{
    (void)state;
    assert_breaks(BROKEN_DIVERGENT_BARRIER, cudaErrorLaunchFailure,
                  "divergent __syncthreads in k_divergent: 64 threads wait at ");
}

static void test_absent_lane(void **state)
{
    (void)state;
    assert_breaks(BROKEN_ABSENT_LANE, cudaErrorLaunchFailure,
                  "lane 0 reads lane 7, which does not take part");
}

static void test_lane_outside_its_mask(void **state)
{
    (void)state;
    assert_breaks(BROKEN_NOT_IN_MASK, cudaErrorLaunchFailure,
                  "thread (0,0,0) of block (0,0,0) in k_not_in_mask is not in the mask 0000fffe");
}

static void test_deadlock(void **state)
{
    (void)state;
    assert_breaks(
        BROKEN_DEADLOCK, cudaErrorLaunchFailure,
        "deadlock in k_deadlock, block (0,0,0): 32 of 32 threads wait; 1 in __syncthreads");
}

static void test_write_past_the_end(void **state)
{
    (void)state;
    assert_breaks(BROKEN_PAST_END, cudaErrorIllegalAddress,
                  "by thread (24,0,0) of block (0,0,0) in k_past_end: 16384 bytes past the end of "
                  "allocation #1 (1024 bytes on cuda:0 (simulated), made by ");
}

/* Inside what rounding leaves between the end and the closed page. */
static void test_off_by_one(void **state)
{
    (void)state;
    float *out = filled_floats(100, 0);
    assert_cuda(launch_broken(BROKEN_OFF_BY_ONE, out, 100, NULL));
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_reported("k_past_end wrote past the end of allocation #1 (400 bytes");
}

/* Before it, in its first page: what is read is NaN, what is written is found. */
static void test_before_the_beginning(void **state)
{
    (void)state;
    float read = 0, *out = filled_floats(100, 0), *sum = filled_floats(1, 0);
    const float *before = (const float *)((uintptr_t)out - sizeof *out);
    assert_cuda(launch_axpy(sum, before, 1, 1, NULL));
    assert_cuda(cudaMemcpy(&read, sum, sizeof read, cudaMemcpyDeviceToHost));
    assert_true(isnan(read));
    assert_cuda(launch_broken(BROKEN_BEFORE, out, 100, NULL));
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_reported("k_before wrote before the beginning of allocation #1 (400 bytes");
}

static void test_null_pointer(void **state)
{
    (void)state;
    assert_breaks(BROKEN_NULL, cudaErrorIllegalAddress, "in k_null: through a null pointer");
}

/* Other processors than x86 have no instructions that would tell. */
static void test_misaligned_access(void **state)
{
    (void)state;
#if defined(__x86_64__)
    assert_breaks(BROKEN_MISALIGNED, cudaErrorMisalignedAddress,
                  "misaligned access by thread (0,0,0) of block (0,0,0) in k_misaligned");
#endif
}

static void test_stack_overflow(void **state)
{
    (void)state;
    assert_breaks(BROKEN_DEEP, cudaErrorIllegalAddress, "the stack is full");
}

static void test_host_pointer(void **state)
{
    (void)state;
    float host[4] = { 0 };
    assert_cuda(launch_axpy(host, filled_floats(4, 1), 1, 4, NULL));
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_reported("argument 1 of k_axpy");
    assert_reported("points to the host's memory");
}

static void test_other_devices_pointer(void **state)
{
    (void)state;
    float *there = filled_floats(4, 1);
    assert_cuda(cudaSetDevice(1));
    float *here = filled_floats(4, 0);
    assert_cuda(launch_axpy(here, there, 1, 4, NULL));
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_reported("points to cuda:0 (simulated), without peer access");
}

static void test_peer_access_lets_it_through(void **state)
{
    (void)state;
    float *there = filled_floats(4, 1);
    assert_cuda(cudaSetDevice(1));
    assert_cuda(cudaDeviceEnablePeerAccess(0, 0));
    float *here = filled_floats(4, 0);
    assert_cuda(launch_axpy(here, there, 2, 4, NULL));
    assert_true(first_float(here) == 2);
    assert_int_equal(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
}

/* Nothing but order fuzzing can see it here; the sums differ in some order. */
static void test_missing_barrier_shows_in_some_order(void **state)
{
    (void)state;
    int wrong = 0;
    for (int k = 0; k < ORDERS; k++) {
        float *out = filled_floats(1, 0);
        assert_int_equal(sim_set("ORDER", orders[k]), 0);
        assert_cuda(launch_broken(BROKEN_MISSING_BARRIER, out, 1, NULL));
        wrong += first_float(out) != 256;
    }
    assert_true(wrong > 0);
}

static void test_shapes_that_no_device_takes(void **state)
{
    (void)state;
    int *out = NULL;
    assert_cuda(cudaMalloc((void **)&out, 8));
    assert_int_equal(launch_count(out, 1, 1025, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(launch_count(out, 0, 32, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    assert_cuda(cudaGetLastError());
}

/* A fault leaves the other device and a fresh start alone. */
static void test_one_device_is_lost_alone(void **state)
{
    (void)state;
    assert_breaks(BROKEN_NULL, cudaErrorIllegalAddress, "null");
    assert_cuda(cudaSetDevice(1));
    float *x = filled_floats(16, 2), *y = filled_floats(16, 1);
    assert_cuda(launch_axpy(y, x, 3, 16, NULL));
    assert_true(first_float(y) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(test_sums_agree_in_every_order),
                                        TEST(test_every_thread_runs_once_and_warps_vote),
                                        TEST(test_pointers_in_structs_and_in_memory_are_followed),
                                        TEST(test_a_number_beside_half_an_address_is_no_pointer),
                                        TEST(test_divergent_barrier),
                                        TEST(test_absent_lane),
                                        TEST(test_lane_outside_its_mask),
                                        TEST(test_deadlock),
                                        TEST(test_write_past_the_end),
                                        TEST(test_off_by_one),
                                        TEST(test_before_the_beginning),
                                        TEST(test_null_pointer),
                                        TEST(test_misaligned_access),
                                        TEST(test_stack_overflow),
                                        TEST(test_host_pointer),
                                        TEST(test_other_devices_pointer),
                                        TEST(test_peer_access_lets_it_through),
                                        TEST(test_missing_barrier_shows_in_some_order),
                                        TEST(test_shapes_that_no_device_takes),
                                        TEST(test_one_device_is_lost_alone) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
