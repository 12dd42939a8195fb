/* Streams and events on simulated CUDA devices: what a program may do, and what a missing wait says.
 * Rows S001-S025, T017, T018. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/simulator.h"

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
    tern_set_stream(tern_default_stream(dev1));
    tern_set_stream(tern_default_stream(dev0));
    tern_dev_synchronize(dev0);
    tern_dev_synchronize(dev1);
    tern_error_clear();
    return 0;
}

/* ---- streams --------------------------------------------------------------------------------- */

static void *current_of_a_thread(void *out)
{
    *(tern_stream_t *)out = tern_current_stream(dev0);
    return NULL;
}

static void test_the_current_stream_belongs_to_a_thread(void **state) /* S001 S002 */
{
    (void)state;
    tern_stream_t side = tern_stream_from_pool(dev0), theirs = side;
    assert_null(tern_default_stream(dev0).handle);
    assert_true(tern_stream_equal(tern_current_stream(dev0), tern_default_stream(dev0)));
    assert_int_equal(tern_set_stream(side), TERN_OK);
    assert_true(tern_stream_equal(tern_current_stream(dev0), side));
    assert_null(tern_current_stream(dev1).handle);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, current_of_a_thread, &theirs), 0);
    pthread_join(thread, NULL);
    assert_true(tern_stream_equal(theirs, tern_default_stream(dev0)));
}

static void test_the_pool_has_32_of_a_priority(void **state) /* S003 S005 S012 */
{
    (void)state;
    tern_stream_t first = tern_stream_from_pool(dev1), last = first;
    for (int i = 1; i < 32; i++) {
        last = tern_stream_from_pool(dev1);
        assert_false(tern_stream_equal(last, first));
    }
    assert_non_null(first.handle);
    assert_true(tern_stream_equal(tern_stream_from_pool(dev1), first));
    tern_stream_t urgent = tern_stream_from_pool(dev1, .priority = -3);
    for (int i = 1; i < 32; i++)
        assert_int_equal(tern_stream_priority(tern_stream_from_pool(dev1, .priority = -100)), -3);
    assert_true(tern_stream_equal(tern_stream_from_pool(dev1, .priority = -4), urgent));
    assert_int_equal(tern_stream_priority(first), 0);
    assert_false(tern_stream_equal(urgent, last));
    assert_no_error();
    assert_null(tern_stream_from_pool(dev1, .priority = 1).handle);
    assert_error(TERN_ERR_ARGUMENT, "to be less than or equal to 0, got 1");
}

static void test_a_guard_restores_streams_and_device(void **state) /* S006 S007 */
{
    (void)state;
    tern_stream_t a = tern_stream_from_pool(dev0), b = tern_stream_from_pool(dev1);
    tern_set_stream(a);
    {
        TERN_STREAM(b);
        assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 1);
        assert_true(tern_stream_equal(tern_current_stream(dev1), b));
        assert_true(tern_stream_equal(tern_current_stream(dev0), a));
        tern_set_stream(tern_stream_from_pool(dev0));
        TERN_STREAM((tern_stream_t){ 0 });
        assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 0);
    }
    assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 0);
    assert_true(tern_stream_equal(tern_current_stream(dev0), a));
    assert_null(tern_current_stream(dev1).handle);
    assert_int_equal(tern_set_stream((tern_stream_t){ 0 }), TERN_OK);
    assert_true(tern_stream_equal(tern_current_stream(dev0), a));
    assert_no_error();
}

/* ---- order ----------------------------------------------------------------------------------- */

static tern_tensor *ones_on(tern_stream_t stream, int64_t n)
{
    TERN_STREAM(stream);
    return tern_ones(TERN_SHAPE(n), .device = stream.device);
}

static void test_a_missing_wait_is_named(void **state) /* S004 S023 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(100), .device = dev0);
    TERN_STREAM(tern_stream_from_pool(dev0));
    assert_null(tern_add(x, 1));
    char stream[32] = "";
    const char *head =
        strstr(tern_error_text(), ", stream #"); /* as the rest of the message has it */
    assert_non_null(head);
    (void)sscanf(head, ", stream #%30[0-9]", stream);
    const char *const parts[] = { "add: launch on cuda:0", "on tensor f32 [100] on cuda:0",
                                  "test_simulated_streams.c:", stream,
                                  "is not ordered after 'k_fill' (fill) on the default stream of "
                                  "cuda:0" };
    char work[64];
    (void)snprintf(work, sizeof work, "' on stream #%s is not ordered", stream);
    assert_non_null(strstr(tern_error_text(), work));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(tern_error_text(), parts[i]) == NULL)
            fail_msg("no '%s' in: %s", parts[i], tern_error_text());
    assert_error(TERN_ERR_BACKEND, "stream race (read after write)");
}

typedef tern_tensor *(*product)(tern_tensor *y, tern_tensor *x);

static tern_tensor *plain(tern_tensor *y, tern_tensor *x)
{
    return tern_matmul(y, x);
}

static tern_tensor *with_bias(tern_tensor *y, tern_tensor *x)
{
    return tern_linear(y, x, tern_select(x, 0, 0));
}

static tern_tensor *convolution(tern_tensor *y, tern_tensor *x)
{
    const tern_shape_t image = TERN_SHAPE(1, 1, 8, 8);
    return tern_conv2d(tern_view(y, image), tern_view(x, image));
}

/* Libraries have errors of their own: what the simulator knows is in theirs, in whole. */
static void test_a_wait_missing_before_a_library_is_named(void **state) /* S004 S023 */
{
    (void)state;
    static const product products[] = { plain, with_bias, convolution };
    static const char *const calls[] = { "'cublasGemmEx_64'", "'cublasLtMatmul'",
                                         "'cudnnConvolutionForward'" };
    for (int i = 0; i < 3; i++) {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(8, 8), .device = dev0);
        tern_dev_synchronize(dev0);
        tern_tensor *y = tern_add(x, 1);
        const tern_stream_t side = tern_stream_from_pool(dev0);
        TERN_STREAM(side);
        assert_null(products[i](y, x));
        const char *const parts[] = { "CUDNN_STATUS",
                                      calls[i],
                                      " on tensor f32 [",
                                      "is not ordered after 'k_",
                                      "(add) on the default stream",
                                      "tern_stream_wait_stream, or an event" };
        for (size_t k = i < 2; k < sizeof parts / sizeof *parts; k++)
            if (strstr(tern_error_text(), parts[k]) == NULL)
                fail_msg("no '%s' in: %s", parts[k], tern_error_text());
        assert_error(TERN_ERR_BACKEND, "stream race (read after write)");
        tern_stream_wait_stream(side, tern_default_stream(dev0));
        assert_non_null(products[i](y, x));
        tern_stream_synchronize(side);
    }
    assert_no_error();
}

static void test_a_wait_orders_two_streams(void **state) /* S009 S011 S014 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t side = tern_stream_from_pool(dev0), main = tern_current_stream(dev0);
    tern_tensor *x = tern_ones(TERN_SHAPE(100), .device = dev0), *y;
    tern_event *made = tern_event_create();
    assert_int_equal(tern_event_record(made, main), TERN_OK);
    assert_int_equal(tern_stream_wait_stream(side, main), TERN_OK);
    assert_false(tern_event_query(made)); /* the host has not waited */
    {
        TERN_STREAM(side);
        y = tern_add(x, 1);
    }
    assert_non_null(y);
    assert_false(tern_stream_query(side));
    (void)ones_on(main, 10);
    assert_int_equal(tern_stream_synchronize(side), TERN_OK);
    assert_true(tern_stream_query(side));
    assert_true(tern_event_query(made));
    assert_false(tern_stream_query(main)); /* nor for what is behind the mark */
    assert_close(tern_item(tern_sum(y)), 200, 0);
    tern_event_release(made);
    assert_no_error();
}

static void test_an_event_orders_two_streams(void **state) /* S010 S016 S017 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t a = tern_stream_from_pool(dev0), b = tern_stream_from_pool(dev0);
    tern_event *done = tern_event_create();
    assert_int_equal(tern_stream_wait_event(b, done), TERN_OK); /* no mark yet */
    tern_tensor *x = ones_on(a, 100);
    assert_int_equal(tern_event_record(done, a), TERN_OK);
    assert_int_equal(tern_stream_wait_event(b, done), TERN_OK);
    assert_int_equal(tern_stream_wait_event(tern_default_stream(dev1), done), TERN_OK);
    {
        TERN_STREAM(b);
        assert_close(tern_item(tern_sum(x)), 100, 0);
    }
    assert_no_error();
    assert_int_equal(tern_event_record(done, tern_default_stream(dev1)), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE,
                 "event device cuda:0 does not match recording stream's device cuda:1");
    tern_event_release(done);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void test_an_event_without_a_record_is_no_mark(void **state) /* S015 S018 S019 */
{
    (void)state;
    tern_event *event = tern_event_create();
    assert_int_equal(tern_event_device(event).kind, TERN_KIND_NONE);
    assert_null(tern_event_handle(event));
    assert_true(tern_event_query(event));
    assert_int_equal(tern_event_synchronize(event), TERN_OK);
    (void)ones_on(tern_default_stream(dev0), 10);
    assert_int_equal(tern_event_record(event, tern_current_stream(dev0)), TERN_OK);
    assert_non_null(tern_event_handle(event));
    assert_true(tern_dev_equal(tern_event_device(event), dev0));
    assert_false(tern_event_query(event));
    assert_int_equal(tern_event_synchronize(event), TERN_OK);
    assert_true(tern_event_query(event));
    tern_event_release(event);
    assert_true(tern_event_query(event));
    assert_error(TERN_ERR_ARGUMENT, "the event was released");
    tern_event_release(event);
    tern_event_release(NULL);
}

static void test_times_between_events(void **state) /* S020 S021 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t stream = tern_current_stream(dev0);
    tern_event *plain = tern_event_create(), *start = tern_event_create(.timing = true);
    tern_event *end = tern_event_create(.timing = true);
    assert_true(isnan(tern_event_elapsed(plain, end)));
    assert_error(TERN_ERR_ARGUMENT, "both events must be created with timing");
    assert_int_equal(tern_event_record(start, stream), TERN_OK);
    assert_true(isnan(tern_event_elapsed(start, end)));
    assert_error(TERN_ERR_ARGUMENT, "both events must be recorded");
    (void)tern_ones(TERN_SHAPE(1 << 20), .device = dev0);
    assert_int_equal(tern_event_record(end, stream), TERN_OK);
    assert_true(isnan(tern_event_elapsed(start, end)));
    assert_error(TERN_ERR_STATE, "both events must be completed");
    assert_int_equal(tern_event_synchronize(end), TERN_OK);
    assert_true(tern_event_elapsed(start, end) > 0);
    assert_no_error();
    tern_event_release(plain);
    tern_event_release(start);
    tern_event_release(end);
}

static void test_the_cpus_stream_is_always_done(void **state) /* S006 */
{
    (void)state;
    tern_stream_t cpu = tern_stream_from_pool(TERN_CPU);
    tern_event *a = tern_event_create(.timing = true), *b = tern_event_create(.timing = true);
    assert_true(tern_stream_equal(cpu, tern_default_stream(TERN_CPU)));
    assert_true(tern_stream_query(cpu));
    assert_int_equal(tern_set_stream(cpu), TERN_OK);
    assert_int_equal(tern_stream_synchronize(cpu), TERN_OK);
    assert_int_equal(tern_event_record(a, cpu), TERN_OK);
    assert_int_equal(tern_stream_wait_event(tern_default_stream(dev0), a), TERN_OK);
    assert_int_equal(tern_stream_wait_stream(tern_default_stream(dev0), cpu), TERN_OK);
    assert_int_equal(tern_event_record(b, cpu), TERN_OK);
    assert_true(tern_event_elapsed(a, b) >= 0);
    assert_no_error();
    assert_int_equal(tern_stream_wait_stream(cpu, tern_default_stream(dev0)), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, "try tern_stream_synchronize(other)");
    tern_event_release(a);
    tern_event_release(b);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void test_a_copy_that_blocks_waits_for_its_stream(void **state) /* T017 */
{
    (void)state;
    TERN_SCOPE;
    tern_stream_t side = tern_stream_from_pool(dev0), main = tern_current_stream(dev0);
    (void)ones_on(side, 100);
    (void)ones_on(main, 100);
    assert_non_null(tern_to(tern_ones(TERN_SHAPE(10)), dev0));
    assert_true(tern_stream_query(main));
    assert_false(tern_stream_query(side));
}

/* host + 1, made on the device, by copies that do not block; the device is done at the end. */
static tern_tensor *one_more_without_waiting(tern_tensor *host)
{
    tern_tensor *there = tern_to(host, dev0, .non_blocking = true);
    assert_false(tern_stream_query(tern_current_stream(dev0)));
    tern_tensor *back = tern_to(tern_add(there, 1), TERN_CPU, .non_blocking = true);
    assert_true(tern_is_pinned(back));
    assert_false(tern_stream_query(tern_current_stream(dev0)));
    assert_int_equal(tern_dev_synchronize(dev0), TERN_OK);
    return back;
}

static void test_a_pinned_copy_need_not_block(void **state) /* T010 T018 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *host = tern_pin(tern_ones(TERN_SHAPE(1000)));
    tern_tensor *back = one_more_without_waiting(host);
    assert_close(tern_item(tern_sum(back)), 2000, 0);
    assert_no_error();
}

static void test_a_copy_of_any_layout_need_not_block(void **state) /* T010 T018 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_view(tern_arange(0, 24, .dtype = TERN_F32), TERN_SHAPE(1, 2, 3, 4));
    tern_tensor *host = tern_pin(tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST));
    tern_tensor *back = one_more_without_waiting(host);
    assert_true(tern_is_channels_last(back));
    assert_close(tern_item(tern_sum(tern_ne(back, tern_add(x, 1)))), 0, 0);
    assert_no_error();
}

static void test_devices_wait_for_each_other(void **state) /* T025 */
{
    (void)state;
    TERN_SCOPE;
    TERN_STREAM(tern_stream_from_pool(dev0));
    tern_tensor *x = tern_ones(TERN_SHAPE(1000), .device = dev0);
    tern_tensor *y = tern_to(tern_add(x, 1), dev1);
    assert_false(tern_stream_query(tern_current_stream(dev0)));
    assert_false(tern_stream_query(tern_current_stream(dev1)));
    assert_close(tern_item(tern_sum(tern_add(y, 1))), 3000, 0);
    tern_tensor *target = tern_zeros(TERN_SHAPE(1000), .device = dev1);
    assert_non_null(tern_copy(target, x)); /* behind what is queued there */
    assert_close(tern_item(tern_sum(target)), 1000, 0);
    assert_no_error();
}

/* ---- streams that are gone ------------------------------------------------------------------ */

/* Neither events nor a wait for a stream that its owner destroyed: the device's end of all work frees. */
/* Kernels of all streams note a wrong index in one place, and only then: that orders nothing. */
static void test_streams_check_their_indices_at_once(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(8, 4), .device = dev0);
    tern_tensor *rows = tern_zeros(TERN_SHAPE(8), .device = dev0, .dtype = TERN_I64);
    tern_tensor *places = tern_zeros(TERN_SHAPE(8, 4), .device = dev0, .dtype = TERN_I64);
    const tern_stream_t side[2] = { tern_stream_from_pool(dev0), tern_stream_from_pool(dev0) };
    tern_dev_synchronize(dev0);
    for (int i = 0; i < 2; i++) {
        TERN_STREAM(side[i]);
        tern_embedding(.weight = x, .indices = rows);
        tern_cross_entropy(x, rows);
        tern_gather(x, 0, places);
        tern_scatter_add(x, 0, places, x);
        tern_index_add(x, 0, rows, x);
        tern_bincount(rows, NULL, 0);
        tern_unique(rows, NULL, NULL);
        tern_masked_select(x, tern_gt(x, 0));
        assert_no_error();
    }
    TERN_STREAM(side[0]);
    tern_embedding(.weight = x, .indices = tern_add(rows, 9));
    tern_stream_synchronize(side[0]);
    assert_error(TERN_ERR_INDEX, "index 9");
}

/* A weight's cached cast is the stream's that made it: another has its own, in memory of its own. */
static void test_cached_casts_belong_to_a_stream(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_stream_t rest = tern_default_stream(dev0);
    const tern_stream_t side[2] = { tern_stream_from_pool(dev0), tern_stream_from_pool(dev0) };
    tern_tensor *w = tern_ones(TERN_SHAPE(64, 64), .device = dev0, .requires_grad = true);
    tern_tensor *x = tern_ones(TERN_SHAPE(8, 64), .device = dev0), *y[2] = { NULL };
    {
        TERN_AUTOCAST(dev0, TERN_F16);
        tern_amp_reset();
        for (int i = 0; i < 4; i++) {
            TERN_STREAM(side[i % 2]);
            if (i < 2)
                tern_stream_wait_stream(side[i], rest);
            y[i % 2] = tern_matmul(x, w);
        }
        assert_int_equal(tern_amp_counted().cached, 2);
    }
    for (int i = 0; i < 2; i++)
        tern_stream_wait_stream(rest, side[i]);
    tern_backward(tern_sum(tern_add(y[0], y[1])));
    assert_close(tern_item(tern_mean(y[0])), 64, 0);
    assert_close(tern_item(tern_mean(tern_grad_of(w))), 16, 0);
    assert_no_error();
}

static void test_a_destroyed_stream_holds_no_memory(void **state)
{
    (void)state;
    tern_empty_cache(dev0);
    const int64_t before = tern_memory_stat(dev0, "active.all.current");
    tern_stream_t gone = tern_stream_from_pool(dev0); /* as far as its calls say so */
    {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(1000), .device = dev0);
        assert_int_equal(tern_record_stream(x, gone), TERN_OK);
        simulator_set("FAIL", "cudaEventRecord@1=400,cudaEventRecord@2=400,"
                              "cudaStreamSynchronize@1=400");
    }
    simulator_set("FAIL", "");
    assert_int_equal(tern_memory_stat(dev0, "active.all.current"), before);
    assert_no_error();
}

static void not_released(void *user)
{
    (void)user;
}

/* Whatever its size; where it is the host's for all streams, or others', nothing is to be kept. */
static void test_pageable_memory_is_no_streams(void **state) /* S025 S026 */
{
    static const int64_t sizes[] = { 3, 1000, 100000, 9 << 20 }; /* a cache for each */
    static float theirs[4];
    (void)state;
    TERN_SCOPE;
    tern_stream_t side = tern_stream_from_pool(dev0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        TERN_SCOPE;
        tern_tensor *x = tern_empty(TERN_SHAPE(sizes[i]), .device = TERN_CPU);
        assert_int_equal(tern_record_stream(x, tern_default_stream(TERN_CPU)), TERN_OK);
        assert_int_equal(tern_record_stream(x, side), TERN_ERR_DEVICE);
        assert_error(TERN_ERR_DEVICE, "the tensor is on cpu, the stream on cuda:0\n  try "
                                      "tern_stream_synchronize(stream) before the tensor ends");
    }
    tern_tensor *pinned = tern_pin(tern_ones(TERN_SHAPE(3)));
    tern_tensor *foreign = tern_from_memory(theirs, not_released, NULL, TERN_SHAPE(4));
    assert_int_equal(tern_record_stream(pinned, side), TERN_OK);
    assert_int_equal(tern_record_stream(foreign, side), TERN_OK);
    assert_no_error();
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Its own stream, default stream and events; the pool, the table of streams and pinned memory are
 * everybody's. */
static void *work_on_a_stream(void *out)
{
    double sum = 0;
    for (int i = 0; i < 20; i++) {
        TERN_SCOPE;
        tern_stream_t side = tern_stream_from_pool(dev0);
        tern_event *done = tern_event_create();
        TERN_STREAM(side);
        tern_tensor *host = tern_pin(tern_ones(TERN_SHAPE(100)));
        tern_tensor *x = tern_add(tern_to(host, dev0, .non_blocking = true), 1);
        tern_event_record(done, side);
        {
            TERN_STREAM(tern_stream_from_pool(dev0, .priority = -1));
            tern_stream_wait_event(tern_current_stream(dev0), done);
            tern_record_stream(x, tern_current_stream(dev0));
            sum += tern_item(tern_sum(x));
        }
        tern_event_release(done);
    }
    *(double *)out = tern_failed() ? -1 : sum;
    return NULL;
}

static void test_threads_use_streams_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    double sums[4] = { 0 };
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work_on_a_stream, &sums[i]), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_close(sums[i], 20 * 200, 0);
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_the_current_stream_belongs_to_a_thread),
        TEST(test_a_guard_restores_streams_and_device),
        TEST(test_a_missing_wait_is_named),
        TEST(test_a_wait_missing_before_a_library_is_named),
        TEST(test_a_wait_orders_two_streams),
        TEST(test_an_event_orders_two_streams),
        TEST(test_an_event_without_a_record_is_no_mark),
        TEST(test_times_between_events),
        TEST(test_the_cpus_stream_is_always_done),
        TEST(test_a_copy_that_blocks_waits_for_its_stream),
        TEST(test_a_pinned_copy_need_not_block),
        TEST(test_a_copy_of_any_layout_need_not_block),
        TEST(test_devices_wait_for_each_other),
        TEST(test_streams_check_their_indices_at_once),
        TEST(test_cached_casts_belong_to_a_stream),
        TEST(test_a_destroyed_stream_holds_no_memory),
        TEST(test_pageable_memory_is_no_streams),
        /* last: the order checker tells 64 streams apart */
        TEST(test_threads_use_streams_at_once),
        TEST(test_the_pool_has_32_of_a_priority),
    };
    const int failed = cmocka_run_group_tests(tests, setup, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
