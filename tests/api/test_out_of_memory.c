/* Out of memory on the tests' device of 64 MiB, and what may be done about it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/support/check.h"
#include "tests/support/second_backend.h"

static const tern_dev_t dev0 = { TERN_KIND_EXT, 0 };
static const int64_t mib = 1 << 20;

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    tern_set_oom_policy(TERN_OOM_ERROR);
    tern_set_oom_callback(NULL, NULL);
    tern_empty_cache(dev0);
    return 0;
}

static tern_tensor *bytes_on(tern_dev_t dev, int64_t bytes)
{
    return tern_empty(TERN_SHAPE(bytes), .dtype = TERN_U8, .device = dev);
}

static void test_out_of_memory_explains_itself(void **state) /* M034 M035 M039 */
{
    (void)state;
    TERN_SCOPE;
    (void)bytes_on(dev0, 30 * mib);
    (void)bytes_on(dev0, 3 * mib);
    assert_no_error();
    assert_null(bytes_on(dev0, 25 * mib));
    const char *text = tern_error_text();
    const char *parts[] = { "out of memory on test:0: 25.00 MiB (26214400 bytes) were asked for",
                            "a segment of 26.00 MiB",
                            "device: 14.00 MiB free of 64.00 MiB",
                            "tern: 33.00 MiB in tensors, 50.00 MiB reserved",
                            "tern_empty_cache would return 0 bytes",
                            "fragmentation: 17.00 MiB",
                            "most memory: 33.00 MiB in 2 blocks made at ",
                            "test_out_of_memory.c:",
                            "free 12.00 MiB more" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(text, parts[i]) == NULL)
            fail_msg("no '%s' in: %s", parts[i], text);
    assert_null(strstr(text, "allowed by")); /* there is no fraction: M038 */
    assert_error(TERN_ERR_OOM, "out of memory");
    assert_non_null(bytes_on(dev0, 12 * mib)); /* the next smaller request is served */
    assert_no_error();
}

static void test_sizes_have_pytorchs_units(void **state) /* M036 */
{
    (void)state;
    TERN_SCOPE;
    assert_non_null(bytes_on(dev0, 64 * mib));
    static const struct {
        int64_t bytes;
        const char *text;
    } sizes[] = { { 600, "600 bytes" },
                  { 1024, "1024 bytes" },
                  { 1025, "1.00 KiB" },
                  { 1536, "1.50 KiB" },
                  { 1 << 20, "1024.00 KiB" },
                  { 3 << 20, "3.00 MiB" },
                  { 1 << 30, "1024.00 MiB" },
                  { INT64_C(5) << 29, "2.50 GiB" },
                  { INT64_C(1) << 41, "2048.00 GiB" } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char head[64];
        (void)snprintf(head, sizeof head, "out of memory on test:0: %s (%lld bytes)", sizes[i].text,
                       (long long)sizes[i].bytes);
        assert_null(bytes_on(dev0, sizes[i].bytes));
        assert_error(TERN_ERR_OOM, head);
    }
}

/* So high that nothing but the request meets it, sanitizers' shadows neither. */
static void test_a_limit_of_the_process_is_named(void **state)
{
    (void)state;
    TERN_SCOPE;
    struct rlimit before, high;
    const int64_t most = INT64_C(1) << 46;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    assert_null(bytes_on(TERN_CPU, INT64_C(1) << 50));
    if (before.rlim_cur == RLIM_INFINITY)
        assert_null(strstr(tern_error_text(), "ulimit -v"));
    tern_error_clear();
    if (before.rlim_cur < (rlim_t)most) {
        print_message("skipped: the limit of this process is lower than the test's\n");
        skip();
    }
    high = before;
    high.rlim_cur = (rlim_t)most;
    assert_int_equal(setrlimit(RLIMIT_AS, &high), 0);
    assert_null(bytes_on(TERN_CPU, INT64_C(1) << 50));
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_error(TERN_ERR_OOM, "limit: this process may have 65536.00 GiB (ulimit -v)");
}

static void test_out_of_memory_as_data(void **state) /* M028 */
{
    (void)state;
    TERN_SCOPE;
    const int64_t ooms = tern_memory_stat(dev0, "num_ooms");
    (void)bytes_on(dev0, 10 * mib);
    assert_null(bytes_on(dev0, 100 * mib));
    tern_oom_info_t info;
    assert_true(tern_oom_info(&info));
    assert_true(tern_dev_equal(info.device, dev0));
    assert_int_equal(info.requested_bytes, 100 * mib);
    assert_int_equal(info.allocated_bytes, 10 * mib);
    assert_int_equal(info.total_bytes, 64 * mib);
    assert_int_equal(info.free_bytes, 54 * mib);
    assert_int_equal(info.missing_bytes, 46 * mib);
    assert_int_equal(info.other_processes_bytes, 0);
    assert_int_equal(info.site_count, 1);
    assert_int_equal(info.sites[0].bytes, 10 * mib);
    assert_non_null(strstr(info.sites[0].site, "test_out_of_memory.c:"));
    assert_int_equal(tern_memory_stat(dev0, "num_ooms"), ooms + 1);
}

/* "ask for that much less" holds: segments below 10 MiB have 20, however small the request. */
static void test_a_smaller_request_is_advised_where_it_helps(void **state)
{
    (void)state;
    TERN_SCOPE;
    (void)bytes_on(dev0, 50 * mib);
    assert_null(bytes_on(dev0, 31 * mib + 1));
    assert_error(TERN_ERR_OOM, "to fit: free 18.00 MiB more, or ask for 18.00 MiB less");
    assert_null(bytes_on(dev0, 9 * mib));
    assert_non_null(strstr(tern_error_text(), "to fit: free 6.00 MiB more: a smaller batch"));
    tern_error_clear();
    assert_null(bytes_on(dev0, 9 * mib - 6 * mib));
    tern_error_clear();
    assert_non_null(bytes_on(dev0, 31 * mib + 1 - 18 * mib));
}

typedef struct hoard {
    tern_tensor *kept[4];
    int count, asked;
} hoard;

static bool give_one_back(const tern_oom_info_t *info, void *user)
{
    hoard *h = user;
    assert_int_equal(info->requested_bytes, 40 * mib);
    h->asked++;
    if (h->count == 0)
        return false;
    tern_release(h->kept[--h->count]);
    return true;
}

static void test_a_callback_may_make_room(void **state)
{
    (void)state;
    TERN_SCOPE;
    hoard h = { { NULL }, 0, 0 };
    for (; h.count < 3; h.count++) {
        TERN_SCOPE;
        h.kept[h.count] = tern_retain(bytes_on(dev0, 20 * mib));
    }
    tern_set_oom_callback(give_one_back, &h);
    assert_non_null(bytes_on(dev0, 40 * mib));
    assert_no_error();
    assert_int_equal(h.asked, 2);
    tern_release(h.kept[0]);
}

static void test_a_callback_that_always_says_again_ends(void **state)
{
    (void)state;
    TERN_SCOPE;
    hoard h = { { NULL }, 0, 0 };
    tern_set_oom_callback(give_one_back, &h);
    h.count = 0;
    assert_non_null(bytes_on(dev0, 40 * mib));
    assert_null(bytes_on(dev0, 40 * mib));
    assert_int_equal(h.asked, 1);
}

static bool asks_itself(const tern_oom_info_t *info, void *user)
{
    int *calls = user;
    ++*calls;
    assert_null(bytes_on(dev0, 200 * mib));
    assert_int_equal(tern_error_code(), TERN_ERR_OOM);
    assert_int_equal(info->requested_bytes, 100 * mib);
    return *calls == 1;
}

static void test_a_callback_s_own_request_is_not_reported(void **state)
{
    (void)state;
    TERN_SCOPE;
    int calls = 0;
    tern_oom_info_t info;
    tern_set_oom_callback(asks_itself, &calls);
    assert_null(bytes_on(dev0, 100 * mib));
    assert_true(tern_oom_info(&info));
    assert_int_equal(info.requested_bytes, 100 * mib);
    assert_error(TERN_ERR_OOM, "100.00 MiB (104857600 bytes) were asked for");
    assert_int_equal(calls, 2);
}

static bool leaves_an_error(const tern_oom_info_t *info, void *user)
{
    hoard *h = user;
    assert_null(bytes_on(info->device, 200 * mib));
    tern_release(h->kept[--h->count]);
    return true;
}

static void test_a_callback_s_error_does_not_outlive_it(void **state)
{
    (void)state;
    TERN_SCOPE;
    hoard h = { { NULL }, 1, 0 };
    {
        TERN_SCOPE;
        h.kept[0] = tern_retain(bytes_on(dev0, 40 * mib));
    }
    tern_set_oom_callback(leaves_an_error, &h);
    assert_non_null(bytes_on(dev0, 40 * mib));
    assert_no_error();
}

static atomic_bool requests_end;
static _Atomic int strangers; /* users of another callback */
static int first_user, second_user;

static bool asks_first(const tern_oom_info_t *info, void *user)
{
    (void)info;
    strangers += user != &first_user;
    return false;
}

static bool asks_second(const tern_oom_info_t *info, void *user)
{
    (void)info;
    strangers += user != &second_user;
    return false;
}

static void *change_callbacks(void *unused)
{
    while (!requests_end) {
        tern_set_oom_callback(asks_first, &first_user);
        tern_set_oom_callback(NULL, NULL);
        tern_set_oom_callback(asks_second, &second_user);
    }
    return unused;
}

static void test_a_callback_may_change_while_requests_fail(void **state)
{
    (void)state;
    pthread_t thread;
    TERN_SCOPE;
    requests_end = false;
    assert_int_equal(pthread_create(&thread, NULL, change_callbacks, NULL), 0);
    for (int i = 0; i < 20000; i++) {
        assert_null(bytes_on(dev0, 100 * mib));
        tern_error_clear();
    }
    requests_end = true;
    pthread_join(thread, NULL);
    assert_int_equal(strangers, 0);
}

static void test_the_policy_moves_factories_to_the_cpu(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_set_oom_policy(TERN_OOM_CPU);
    const int64_t before = tern_oom_fallback_count();
    tern_tensor *made = tern_zeros(TERN_SHAPE(20 * mib), .device = dev0);
    assert_no_error();
    assert_int_equal(tern_device(made).kind, TERN_KIND_CPU);
    tern_tensor *moved = tern_to(made, dev0);
    assert_no_error();
    assert_int_equal(tern_device(moved).kind, TERN_KIND_CPU);
    assert_int_equal(tern_oom_fallback_count(), before + 2);
    tern_tensor *there = tern_ones(TERN_SHAPE(10 * mib), .device = dev0);
    assert_int_equal(tern_device(there).kind, TERN_KIND_EXT);
    assert_null(tern_add(there, there)); /* results of ops never move */
    assert_error(TERN_ERR_OOM, "out of memory on test:0");
}

static void test_the_policy_moves_no_gradient(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_set_oom_policy(TERN_OOM_CPU);
    const int64_t before = tern_oom_fallback_count();
    tern_tensor *x = tern_ones(TERN_SHAPE(10 * mib), .device = dev0);
    tern_tensor *loss = tern_sum(tern_cpu(tern_set_requires_grad(x, true)));
    assert_no_error();
    assert_int_equal(tern_backward(loss), TERN_ERR_OOM);
    assert_error(TERN_ERR_OOM, "out of memory on test:0");
    assert_int_equal(tern_oom_fallback_count(), before);
}

static tern_tensor *greedy_forward(tern_module *self, tern_tensor *x)
{
    (void)self, (void)x;
    return tern_zeros(TERN_SHAPE(20 * mib), .device = dev0);
}

typedef struct {
    tern_module base;
} greedy;

/* There the tensor would meet others of the device. */
static void test_the_policy_moves_nothing_inside_a_module(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_set_oom_policy(TERN_OOM_CPU);
    const int64_t before = tern_oom_fallback_count();
    greedy *m = TERN_MODULE(greedy, greedy_forward);
    assert_null(tern_forward(&m->base, tern_ones(TERN_SHAPE(1), .device = dev0)));
    assert_error(TERN_ERR_OOM, "out of memory on test:0");
    tern_module *net = tern_linear_layer(5000, 5000); /* 95 MiB */
    assert_int_equal(tern_module_to(net, dev0), TERN_ERR_OOM);
    assert_error(TERN_ERR_OOM, "out of memory on test:0");
    assert_int_equal(tern_oom_fallback_count(), before);
    tern_module_free(net);
    tern_module_free(&m->base);
}

static void test_a_fraction_limits(void **state) /* M029 M038 M061 */
{
    (void)state;
    TERN_SCOPE;
    assert_int_equal(tern_set_memory_fraction(dev0, 1.5), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "1.5 is not between 0 and 1");
    assert_int_equal(tern_set_memory_fraction(dev0, 0.5), TERN_OK);
    assert_close(tern_memory_fraction(dev0), 0.5, 0);
    (void)bytes_on(dev0, 30 * mib);
    assert_no_error();
    assert_null(bytes_on(dev0, 4 * mib));
    assert_error(TERN_ERR_OOM, "32.00 MiB allowed by the memory fraction");
    assert_int_equal(tern_set_memory_fraction(dev0, 1), TERN_OK);
    assert_non_null(bytes_on(dev0, 4 * mib));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_out_of_memory_explains_itself),
        TEST(test_sizes_have_pytorchs_units),
        TEST(test_a_limit_of_the_process_is_named),
        TEST(test_out_of_memory_as_data),
        TEST(test_a_smaller_request_is_advised_where_it_helps),
        TEST(test_a_callback_may_make_room),
        TEST(test_a_callback_that_always_says_again_ends),
        TEST(test_a_callback_s_own_request_is_not_reported),
        TEST(test_a_callback_s_error_does_not_outlive_it),
        TEST(test_a_callback_may_change_while_requests_fail),
        TEST(test_the_policy_moves_factories_to_the_cpu),
        TEST(test_the_policy_moves_no_gradient),
        TEST(test_the_policy_moves_nothing_inside_a_module),
        TEST(test_a_fraction_limits),
    };
    const int failed = cmocka_run_group_tests(tests, second_backend_setup, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
