/* Expandable segments on a simulated device of 256 MiB: the CUDA backend's calls of virtual memory, in use,
 * against fragmentation, and each failing in turn. Every test is a process of its own: TERN_SIM_FAIL is
 * read once. Rows M079, M083. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check.h"

/* cmocka's asserts belong to the parent. */
#define EXPECT(condition)                                                            \
    do {                                                                             \
        if (!(condition)) {                                                          \
            (void)fprintf(stderr, "%s:%d: %s\n%s\n", __FILE__, __LINE__, #condition, \
                          tern_error_text());                                        \
            return 1;                                                                \
        }                                                                            \
    } while (0)

static const tern_dev_t dev = { TERN_KIND_CUDA, 0 };
static const int64_t mib = 1 << 20;

static tern_tensor *floats(int64_t count)
{
    return tern_empty(TERN_SHAPE(count), .device = dev);
}

static int64_t free_bytes(void)
{
    int64_t bytes = -1, total;
    return tern_memory_info(dev, &bytes, &total) == TERN_OK ? bytes : -1;
}

/* Nothing is left on the device once the cache is empty. */
static int all_is_given_back(void)
{
    tern_empty_cache(dev);
    EXPECT(tern_memory(dev).allocated_bytes == 0);
    EXPECT(tern_memory(dev).reserved_bytes == 0);
    EXPECT(free_bytes() >= 252 * mib); /* handles of libraries keep some */
    return 0;
}

static int grow_and_shrink(void)
{
    {
        TERN_SCOPE;
        tern_tensor *small = tern_full(3, TERN_SHAPE(1000), .device = dev);
        tern_tensor *first = tern_ones(TERN_SHAPE(3 * mib), .device = dev); /* 12 MiB of 20 */
        EXPECT(tern_memory(dev).reserved_bytes == 22 * mib);
        EXPECT(tern_memory_stat(dev, "segment.all.current") == 0); /* pages are no segments */
        tern_tensor *second = tern_full(2, TERN_SHAPE(7 * mib), .device = dev); /* over pages */
        EXPECT(tern_memory(dev).reserved_bytes == 42 * mib);
        EXPECT(tern_item(tern_sum(first)) == 3.0 * (double)mib);
        EXPECT(tern_item(tern_sum(second)) == 14.0 * (double)mib);
        tern_tensor *copy = tern_cpu(second);
        EXPECT(tern_item(tern_amax(tern_neg(copy))) == -2 && tern_item(tern_amax(copy)) == 2);
        EXPECT(tern_item(tern_sum(tern_add(small, 1))) == 4000);
    }
    return all_is_given_back();
}

/* Every second of twelve blocks is free: only pages that move make one of 100 MiB. */
static int use_what_is_scattered(void)
{
    tern_tensor *kept[12];
    {
        TERN_SCOPE;
        for (int i = 0; i < 12; i++) {
            kept[i] = tern_retain(floats(5 * mib));
            EXPECT(kept[i] != NULL);
        }
    }
    for (int i = 0; i < 12; i += 2)
        tern_release(kept[i]);
    {
        TERN_SCOPE;
        tern_tensor *large = tern_full(5, TERN_SHAPE(25 * mib), .device = dev);
        EXPECT(large != NULL);
        EXPECT(tern_item(tern_amax(large)) == 5);
        EXPECT(tern_item(tern_sum(large)) == 125.0 * (double)mib);
        EXPECT(floats(25 * mib) == NULL); /* there is no more */
        EXPECT(tern_error_code() == TERN_ERR_OOM);
        tern_error_clear();
        EXPECT(floats(mib) != NULL);
    }
    for (int i = 1; i < 12; i += 2)
        tern_release(kept[i]);
    return all_is_given_back();
}

static double train(tern_dev_t where)
{
    TERN_SCOPE;
    tern_seed(7);
    tern_module *net =
        tern_sequential(tern_linear_layer(20, 300), tern_relu_layer(), tern_linear_layer(300, 4));
    tern_optimizer *opt = tern_sgd(tern_parameters(net), .lr = 0.05);
    tern_tensor *x = tern_to(tern_randn(TERN_SHAPE(16, 20)), where);
    tern_tensor *y = tern_to(tern_argmax(tern_randn(TERN_SHAPE(16, 4)), 1), where);
    tern_module_to(net, where);
    double loss = 0;
    for (int i = 0; i < 5; i++) {
        TERN_SCOPE;
        tern_tensor *l = tern_cross_entropy(tern_forward(net, x), y);
        loss = tern_item(l);
        tern_backward(l);
        tern_step(opt);
        tern_zero_grad(opt);
    }
    tern_optimizer_free(opt);
    tern_module_free(net);
    return loss;
}

static int train_as_the_cpu(void)
{
    const double here = train(TERN_CPU), there = train(dev);
    EXPECT(!tern_failed());
    EXPECT(there - here < 1e-5 && here - there < 1e-5);
    tern_clear_workspaces(dev);
    return all_is_given_back();
}

/* A call may have failed: with an error that says which, or unseen, because there was more to try. */
static int go_on_after_a_failure(void)
{
    const char *failing = getenv("TERN_SIM_FAIL");
    char call[64];
    (void)snprintf(call, sizeof call, "%.*s", (int)strcspn(failing, "@"), failing);
    bool told = false;
    for (int round = 0; round < 3; round++) {
        TERN_SCOPE;
        const tern_tensor *wide = floats(6 * mib); /* over pages */
        tern_tensor *a = wide != NULL ? tern_full(1, TERN_SHAPE(1000), .device = dev) : NULL;
        const double sum = a != NULL ? tern_item(tern_sum(tern_add(a, 1))) : 0;
        EXPECT(tern_failed() || sum == 2000);
        if (tern_failed()) {
            EXPECT(!told);
            EXPECT(tern_error_code() == TERN_ERR_OOM || strstr(tern_error_text(), call) != NULL);
            tern_error_clear();
            told = true;
        }
    }
    tern_empty_cache(dev);
    tern_empty_cache(dev); /* what the failing call kept from going the first time */
    EXPECT(tern_memory(dev).allocated_bytes == 0);
    return 0;
}

/* A kernel finds an index wrong after it was queued: what the allocator waits for leaves that to the user. */
static int keep_a_fault(bool by_request)
{
    TERN_SCOPE;
    {
        TERN_SCOPE;
        EXPECT(floats(40 * mib) != NULL); /* 160 of 256 MiB, pages that may go */
    }
    const int64_t bad[] = { 1, 12 };
    tern_tensor *table = tern_ones(TERN_SHAPE(10, 4), .device = dev);
    tern_tensor *at = tern_to(tern_from_data(bad, TERN_SHAPE(2), .dtype = TERN_I64), dev);
    EXPECT(tern_index_select(table, 0, at) != NULL);
    if (by_request) { /* of another stream, to which the pages move */
        TERN_STREAM(tern_stream_from_pool(dev));
        EXPECT(floats(40 * mib) != NULL);
    } else {
        tern_empty_cache(dev);
    }
    EXPECT(tern_memory_stat(dev, "num_device_free") > 0);
    EXPECT(tern_dev_synchronize(dev) == TERN_ERR_INDEX);
    EXPECT(strstr(tern_error_text(), "index 12 at position 1 is outside its dimension") != NULL);
    return 0;
}

static int keep_it_when_the_cache_empties(void)
{
    return keep_a_fault(false);
}
static int keep_it_when_a_request_needs_pages(void)
{
    return keep_a_fault(true);
}

/* A search for the largest batch that fits: what never can keeps no addresses, of which there are 64 GiB. */
static int refuse_what_is_larger_than_the_device(void)
{
    for (int i = 0; i < 300; i++) {
        TERN_SCOPE;
        EXPECT(floats(80 * mib) == NULL && tern_error_code() == TERN_ERR_OOM); /* 320 of 256 MiB */
        tern_error_clear();
    }
    TERN_SCOPE;
    TERN_STREAM(tern_stream_from_pool(dev));
    EXPECT(tern_item(tern_sum(tern_ones(TERN_SHAPE(10), .device = dev))) == 10);
    return 0;
}

/* 16 MiB are free, and a page has 20. */
static int say_that_pages_are_missing(void)
{
    TERN_SCOPE;
    tern_oom_info_t info;
    EXPECT(floats(60 * mib) != NULL);
    EXPECT(floats(3 * mib) == NULL);
    EXPECT(tern_oom_info(&info) && info.free_bytes < 20 * mib && info.segment_bytes == 12 * mib);
    EXPECT(info.missing_bytes == 20 * mib - info.free_bytes);
    EXPECT(strstr(tern_error_text(), "would give whole pages, 20.00 MiB of them") != NULL);
    EXPECT(strstr(tern_error_text(), "one piece") == NULL);
    EXPECT(strstr(tern_error_text(), "ask for") == NULL); /* less takes a page, too */
    return 0;
}

/* A simulated device has 64 GiB of addresses. Small and large blocks have a range each, of 45 GiB here. */
static int say_that_addresses_are_missing(void)
{
    TERN_SCOPE;
    (void)setenv("TERN_SIM_MEMORY", "40G", 1);
    tern_tensor *small = floats(100);
    EXPECT(small != NULL);
    EXPECT(floats(mib) == NULL && tern_error_code() == TERN_ERR_OOM);
    EXPECT(strstr(tern_error_text(), "to fit: no addresses are left for another expandable") !=
           NULL);
    EXPECT(strstr(tern_error_text(), "one piece") == NULL);
    tern_error_clear();
    EXPECT(floats(200 * mib) == NULL); /* the cache was emptied in vain */
    tern_error_clear();
    tern_drop(small);
    EXPECT(floats(mib) != NULL); /* now it was not */
    return 0;
}

static int refuse_without_the_drivers_calls(void)
{
    TERN_SCOPE;
    EXPECT(floats(100) == NULL);
    EXPECT(tern_error_code() == TERN_ERR_UNSUPPORTED);
    EXPECT(strstr(tern_error_text(), "the driver of cuda:0 has no cuMem") != NULL);
    tern_error_clear();
    EXPECT(tern_set_memory_settings(dev, "expandable_segments:False") == TERN_OK);
    EXPECT(tern_item(tern_sum(tern_ones(TERN_SHAPE(100), .device = dev))) == 100);
    return 0;
}

static void in_child(int (*body)(void), const char *fail)
{
    (void)fflush(NULL);
    const pid_t id = fork();
    if (id == 0) {
        if (fail != NULL)
            (void)setenv("TERN_SIM_FAIL", fail, 1);
        exit(body()); /* not _exit: what ran is counted */
    }
    int status = -1;
    assert_int_equal(waitpid(id, &status, 0), id);
    if (status != 0)
        fail_msg("a child ended with %d%s%s", status, fail != NULL ? " under " : "",
                 fail != NULL ? fail : "");
}

static void test_segments_grow_by_pages_and_shrink(void **state) /* M079 */
{
    (void)state;
    in_child(grow_and_shrink, NULL);
}
static void test_scattered_pages_serve_a_large_request(void **state) /* M083 */
{
    (void)state;
    in_child(use_what_is_scattered, NULL);
}
static void test_a_training_on_them_is_the_cpus(void **state)
{
    (void)state;
    in_child(train_as_the_cpu, NULL);
}
static void test_pages_that_go_leave_a_kernels_fault(void **state)
{
    (void)state;
    in_child(keep_it_when_the_cache_empties, NULL);
    in_child(keep_it_when_a_request_needs_pages, NULL);
}
static void test_too_large_requests_keep_no_addresses(void **state)
{
    (void)state;
    in_child(refuse_what_is_larger_than_the_device, NULL);
}
static void test_pages_that_are_missing_are_told(void **state)
{
    (void)state;
    in_child(say_that_pages_are_missing, NULL);
}
static void test_addresses_that_are_missing_are_told(void **state)
{
    (void)state;
    in_child(say_that_addresses_are_missing, NULL);
}
static void test_each_call_fails_in_turn(void **state)
{
    static const char *const calls[] = { "cuMemGetAllocationGranularity",
                                         "cuMemAddressReserve",
                                         "cuMemAddressFree",
                                         "cuMemCreate",
                                         "cuMemRelease",
                                         "cuMemMap",
                                         "cuMemSetAccess",
                                         "cuMemUnmap" };
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int k = 1; k <= 2; k++)
            for (int code = 1; code <= 2; code++) { /* invalid value, out of memory */
                char fail[80];
                (void)snprintf(fail, sizeof fail, "%s@%d=%d", calls[i], k, code);
                in_child(go_on_after_a_failure, fail);
            }
}
static void test_without_the_drivers_calls_they_are_refused(void **state)
{
    (void)state;
    in_child(refuse_without_the_drivers_calls, "cudaGetDriverEntryPointByVersion@4=999");
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    (void)setenv("TERN_SIM_MEMORY", "256M", 1);
    (void)setenv("TERN_ALLOC_CONF", "expandable_segments:True", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments_grow_by_pages_and_shrink),
        cmocka_unit_test(test_scattered_pages_serve_a_large_request),
        cmocka_unit_test(test_a_training_on_them_is_the_cpus),
        cmocka_unit_test(test_pages_that_go_leave_a_kernels_fault),
        cmocka_unit_test(test_too_large_requests_keep_no_addresses),
        cmocka_unit_test(test_pages_that_are_missing_are_told),
        cmocka_unit_test(test_addresses_that_are_missing_are_told),
        cmocka_unit_test(test_each_call_fails_in_turn),
        cmocka_unit_test(test_without_the_drivers_calls_they_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
