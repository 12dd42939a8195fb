/* Streams run lazily, so that a missing wait shows every time; the order checker names it. */
#include <math.h>
#include <stdio.h>

#include "tests/sim/sim_check.h"
#include "tests/support/between.h"

static cudaStream_t new_stream(void)
{
    cudaStream_t stream = NULL;
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static cudaEvent_t new_event(void)
{
    cudaEvent_t event = NULL;
    assert_cuda(cudaEventCreateWithFlags(&event, cudaEventDefault));
    return event;
}

static void test_nothing_runs_before_it_is_waited_for(void **state)
{
    (void)state;
    cudaStream_t s = new_stream();
    float *x = filled_floats(4, 1), *y = filled_floats(4, 1);
    const int64_t threads = sim_get_counts().threads;
    assert_cuda(launch_axpy(y, x, 1, 4, s));
    assert_int_equal(sim_get_counts().threads, threads);
    assert_int_equal(cudaStreamQuery(s), cudaErrorNotReady);
    assert_cuda(cudaStreamSynchronize(s));
    assert_cuda(cudaStreamQuery(s));
    assert_true(first_float(y) == 2);
}

/* A program that only polls gets on. */
static void test_polling_ends(void **state)
{
    (void)state;
    cudaStream_t s = new_stream();
    cudaEvent_t event = new_event();
    assert_cuda(launch_axpy(filled_floats(4, 1), filled_floats(4, 1), 1, 4, s));
    assert_cuda(cudaEventRecord(event, s));
    int polls = 0;
    while (cudaEventQuery(event) == cudaErrorNotReady && polls < 1000)
        polls++;
    assert_between(polls, 1, 200);
}

static void test_a_missing_wait_is_named(void **state)
{
    (void)state;
    cudaStream_t a = new_stream(), b = new_stream();
    float *x = filled_floats(4, 1), *y = filled_floats(4, 1), *z = filled_floats(4, 1);
    assert_cuda(launch_axpy(y, x, 1, 4, a));
    assert_int_equal(launch_axpy(z, y, 1, 4, b), cudaErrorUnknown);
    assert_reported("stream race (read after write) on allocation #2");
    assert_reported("'k_axpy' on stream 1 is not ordered after 'k_axpy' on stream 0: a "
                    "cudaStreamWaitEvent is missing");
}

static void test_an_overwrite_while_another_stream_reads_is_named(void **state)
{
    (void)state;
    cudaStream_t a = new_stream(), b = new_stream();
    float *x = filled_floats(4, 1), *y = filled_floats(4, 1);
    assert_cuda(launch_axpy(y, x, 1, 4, a));
    assert_int_equal(cudaMemsetAsync(x, 0, 16, b), cudaErrorUnknown);
    assert_reported("stream race (write after read) on allocation #1");
}

/* Without the checker the result is wrong, each time. */
static void test_a_missing_wait_gives_a_wrong_result(void **state)
{
    (void)state;
    assert_int_equal(sim_set("RACES", "off"), 0);
    cudaStream_t a = new_stream(), b = new_stream();
    float *x = filled_floats(4, 1), *y = filled_floats(4, 1), *z = filled_floats(4, 1);
    assert_cuda(launch_axpy(y, x, 1, 4, a));
    assert_cuda(launch_axpy(z, y, 1, 4, b));
    assert_cuda(cudaStreamSynchronize(b));
    assert_true(first_float(z) == 2); /* 3 in order */
}

static void test_an_event_orders(void **state)
{
    (void)state;
    cudaStream_t a = new_stream(), b = new_stream();
    cudaEvent_t done = new_event();
    float *x = filled_floats(4, 1), *y = filled_floats(4, 1), *z = filled_floats(4, 1);
    assert_cuda(launch_axpy(y, x, 1, 4, a));
    assert_cuda(cudaEventRecord(done, a));
    assert_cuda(cudaStreamWaitEvent(b, done, 0));
    assert_cuda(cudaEventRecord(done, a)); /* a later record changes nothing */
    assert_cuda(launch_axpy(z, y, 1, 4, b));
    assert_cuda(cudaStreamSynchronize(b));
    assert_true(first_float(z) == 3);
    assert_cuda(cudaEventDestroy(done));
}

static void test_the_null_stream_orders_blocking_streams(void **state)
{
    (void)state;
    cudaStream_t blocking = NULL;
    assert_cuda(cudaStreamCreateWithFlags(&blocking, cudaStreamDefault));
    float *x = filled_floats(4, 1), *y = filled_floats(4, 1), *z = filled_floats(4, 1);
    assert_cuda(launch_axpy(y, x, 1, 4, blocking));
    assert_cuda(launch_axpy(z, y, 1, 4, NULL));
    assert_cuda(launch_axpy(y, z, 1, 4, blocking));
    assert_cuda(cudaStreamSynchronize(blocking));
    assert_true(first_float(y) == 5);
}

static void test_work_of_a_destroyed_stream_still_runs(void **state)
{
    (void)state;
    cudaStream_t s = new_stream();
    float *x = filled_floats(4, 1), *y = filled_floats(4, 1);
    assert_cuda(launch_axpy(y, x, 1, 4, s));
    assert_cuda(cudaStreamDestroy(s));
    assert_cuda(cudaDeviceSynchronize());
    assert_true(first_float(y) == 2);
    assert_int_equal(launch_axpy(y, x, 1, 4, s), cudaErrorInvalidResourceHandle);
}

static void test_a_stream_belongs_to_its_device(void **state)
{
    (void)state;
    cudaStream_t s = new_stream();
    assert_cuda(cudaSetDevice(1));
    float *x = filled_floats(4, 1);
    assert_int_equal(launch_axpy(x, x, 1, 4, s), cudaErrorInvalidResourceHandle);
}

/* ---- the virtual clock ------------------------------------------------------------------------ */

static void test_the_clock_repeats_to_the_digit(void **state)
{
    (void)state;
    cudaEvent_t begin = new_event(), middle = new_event(), end = new_event();
    cudaStream_t s = new_stream();
    float *data = NULL, *pinned = NULL, *host = NULL;
    enum { BYTES = 12 << 20 };
    assert_cuda(cudaMalloc((void **)&data, BYTES));
    assert_cuda(cudaHostAlloc((void **)&pinned, BYTES, cudaHostAllocDefault));
    host = test_malloc(BYTES);
    memset(host, 0, BYTES);
    assert_cuda(cudaEventRecord(begin, s));
    assert_cuda(cudaMemcpyAsync(data, pinned, BYTES, cudaMemcpyHostToDevice, s));
    assert_cuda(cudaEventRecord(middle, s));
    assert_cuda(cudaMemcpyAsync(data, host, BYTES, cudaMemcpyHostToDevice, s));
    assert_cuda(cudaEventRecord(end, s));
    assert_cuda(cudaEventSynchronize(end));
    float first = 0, second = 0;
    assert_cuda(cudaEventElapsedTime(&first, begin, middle));
    assert_cuda(cudaEventElapsedTime(&second, middle, end));
    /* 10 us and 12 (pinned) or 6 GB/s */
    assert_true(fabsf(first - (0.01f + BYTES / 12e6f)) < 1e-4f);
    assert_true(fabsf(second - (0.01f + BYTES / 6e6f)) < 1e-4f);
    test_free(host);
}

/* ---- injected failures ------------------------------------------------------------------------ */

static void test_the_kth_call_fails(void **state)
{
    (void)state;
    void *data = NULL;
    assert_int_equal(sim_set("FAIL", "cudaMalloc@2=2,cudaMemsetAsync@1=1"), 0);
    assert_cuda(cudaMalloc(&data, 16));
    assert_int_equal(cudaMemsetAsync(data, 0, 16, NULL), cudaErrorInvalidValue);
    assert_int_equal(cudaMalloc(&data, 16), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_cuda(cudaMalloc(&data, 16));
    assert_int_equal(sim_set("FAIL", "cudaMalloc"), -1);
}

static void test_a_kernel_fails_and_stays_failed(void **state)
{
    (void)state;
    float *x = filled_floats(4, 1);
    assert_int_equal(sim_set("FAIL", "launch:k_axpy@2=719"), 0);
    assert_cuda(launch_axpy(x, x, 1, 4, NULL));
    assert_cuda(cudaDeviceSynchronize());
    assert_cuda(launch_axpy(x, x, 1, 4, NULL));
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    assert_reported("injected into k_axpy");
    void *data = NULL;
    assert_int_equal(cudaMalloc(&data, 16), cudaErrorLaunchFailure);
}

/* One job under every single failure: it ends, and the failure is seen. */
static cudaError_t job(void)
{
    void *data = NULL;
    float host[4] = { 1, 2, 3, 4 };
    cudaStream_t s = NULL;
    cudaError_t code = cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    if (code == cudaSuccess)
        code = cudaMalloc(&data, sizeof host);
    if (code == cudaSuccess)
        code = cudaMemcpyAsync(data, host, sizeof host, cudaMemcpyHostToDevice, s);
    if (code == cudaSuccess)
        code = launch_axpy(data, data, 1, 4, s);
    if (code == cudaSuccess)
        code = cudaStreamSynchronize(s);
    return code;
}

static void test_every_call_may_fail(void **state)
{
    (void)state;
    int k = 1;
    for (; k < 100; k++) {
        char text[32];
        (void)snprintf(text, sizeof text, "*@%d=2", k);
        assert_int_equal(fresh(NULL), 0);
        assert_int_equal(sim_set("FAIL", text), 0);
        if (job() == cudaSuccess)
            break;
    }
    assert_int_equal(k, 6); /* five calls */
}

static void test_count_is_left_alone_without_devices(void **state)
{
    (void)state;
    int n = 77;
    assert_int_equal(sim_set("FAIL", "cudaGetDeviceCount@1=35"), 0);
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    assert_int_equal(n, 77);
    assert_cuda(cudaGetDeviceCount(&n));
    assert_int_equal(n, 2);
    struct cudaDeviceProp prop;
    assert_cuda(cudaGetDeviceProperties(&prop, 1));
    assert_string_equal(prop.name, "simulated device 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_runs_before_it_is_waited_for),
        TEST(test_polling_ends),
        TEST(test_a_missing_wait_is_named),
        TEST(test_an_overwrite_while_another_stream_reads_is_named),
        TEST(test_a_missing_wait_gives_a_wrong_result),
        TEST(test_an_event_orders),
        TEST(test_the_null_stream_orders_blocking_streams),
        TEST(test_work_of_a_destroyed_stream_still_runs),
        TEST(test_a_stream_belongs_to_its_device),
        TEST(test_the_clock_repeats_to_the_digit),
        TEST(test_the_kth_call_fails),
        TEST(test_a_kernel_fails_and_stays_failed),
        TEST(test_every_call_may_fail),
        TEST(test_count_is_left_alone_without_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
