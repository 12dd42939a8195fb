/* Device memory as a user sees it, on the tests' device of 64 MiB: statistics, pools. Snapshots:
 * test_memory_snapshots.c; page-locked memory of the host: test_pinned_memory.c; what happens when it is used
 * up: test_out_of_memory.c. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/support/second_backend.h"

static const tern_dev_t dev0 = { TERN_KIND_EXT, 0 }, dev1 = { TERN_KIND_EXT, 1 };
static const int64_t mib = 1 << 20;

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    tern_empty_cache(dev0);
    return 0;
}

static tern_tensor *bytes_on(tern_dev_t dev, int64_t bytes)
{
    return tern_empty(TERN_SHAPE(bytes), .dtype = TERN_U8, .device = dev);
}

/* ---- statistics ------------------------------------------------------------------------------------ */

static void test_statistics_have_pytorchs_names(void **state) /* M047 M048 M051 M052 M053 M054 */
{
    (void)state;
    TERN_SCOPE;
    (void)bytes_on(dev0, 4000);
    assert_no_error();
    assert_int_equal(tern_memory_stat(dev0, "allocated_bytes.all.current"), 4096);
    assert_int_equal(tern_memory_stat(dev0, "requested_bytes.small_pool.current"), 4000);
    assert_int_equal(tern_memory_stat(dev0, "reserved_bytes.all.current"), 2 * mib);
    assert_int_equal(tern_memory_stat(dev0, "segment.small_pool.current"), 1);
    assert_int_equal(tern_memory_stat(dev0, "inactive_split.all.current"), 1);
    assert_int_equal(tern_memory_stat(dev0, "max_split_size"), -1);
    assert_int_equal(tern_memory_stat(dev0, "allocation.all.current"), 1); /* the docstring's: */
    assert_int_equal(tern_memory_stat(dev0, "allocated.all.current"), -1);
    assert_int_equal(tern_memory(dev0).allocated_bytes, 4096);
    assert_int_equal(tern_memory_stats(dev0).allocated_bytes.current, 4096);
    int64_t count = 0;
    for (const char *last = "", *key; (key = tern_memory_stat_key(count)) != NULL; count++) {
        assert_true(strcmp(last, key) < 0);
        assert_true(tern_memory_stat(dev0, key) >= -1);
        last = key;
    }
    assert_int_equal(count, 9 * 3 * 4 + 2 * 4 + 7);
    assert_int_equal(tern_memory_stat(dev1, "segment.all.current"), 0); /* never used */
}

static void test_all_of_pytorchs_names_are_there(void **state) /* M051 M053 */
{
    (void)state;
    static const char *const families[] = { "allocation",       "segment",
                                            "active",           "inactive_split",
                                            "allocated_bytes",  "reserved_bytes",
                                            "active_bytes",     "inactive_split_bytes",
                                            "requested_bytes",  "oversize_allocations",
                                            "oversize_segments" };
    static const char *const pools[] = { ".all", ".small_pool", ".large_pool" };
    static const char *const members[] = { "current", "peak", "allocated", "freed" };
    static const char *const counters[] = { "num_alloc_retries",    "num_ooms",
                                            "num_sync_all_streams", "num_device_alloc",
                                            "num_device_free",      "num_oom_rejections" };
    for (size_t i = 0; i < 11 * 3 * 4; i++) {
        char key[64];
        const bool oversize = i / 12 >= 9; /* which are not told apart by pool */
        (void)snprintf(key, sizeof key, "%s%s.%s", families[i / 12],
                       oversize ? "" : pools[i / 4 % 3], members[i % 4]);
        if (tern_memory_stat(dev0, key) < 0)
            fail_msg("no %s", key);
    }
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        if (tern_memory_stat(dev0, counters[i]) < 0)
            fail_msg("no %s", counters[i]);
}

static void test_peaks_and_totals_reset_apart(void **state) /* M049 M050 */
{
    (void)state;
    TERN_SCOPE;
    tern_release(tern_retain(bytes_on(dev0, 3 * mib)));
    {
        TERN_SCOPE;
        (void)bytes_on(dev0, 5 * mib);
    }
    assert_int_equal(tern_memory_stat(dev0, "allocated_bytes.all.peak"), 8 * mib);
    tern_memory_reset_peak(dev0);
    assert_int_equal(tern_memory_stat(dev0, "allocated_bytes.all.peak"), 3 * mib);
    assert_true(tern_memory_stat(dev0, "allocated_bytes.all.freed") >= 5 * mib);
    tern_memory_reset_accumulated(dev0);
    assert_int_equal(tern_memory_stat(dev0, "allocated_bytes.all.freed"), 0);
    assert_int_equal(tern_memory_stat(dev0, "allocated_bytes.all.allocated"), 0);
    assert_int_equal(tern_memory_stat(dev0, "allocated_bytes.all.current"), 3 * mib);
}

static void test_the_summary_is_a_box(void **state) /* M058 M059 */
{
    (void)state;
    TERN_SCOPE;
    (void)bytes_on(dev0, 3 * mib);
    char text[8192];
    const int64_t length = tern_memory_summary(dev0, false, text, sizeof text);
    assert_int_equal(length, (int64_t)strlen(text));
    assert_int_equal(tern_memory_summary(dev0, false, NULL, 0), length);
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1)
        assert_int_equal(strchr(line, '\n') - line, 77);
    char counts[96];
    (void)snprintf(counts, sizeof counts,
                   "|              OOMs: %-16lld|         cudaMalloc retries: %-9lld|\n",
                   (long long)tern_memory_stat(dev0, "num_ooms"),
                   (long long)tern_memory_stat(dev0, "num_alloc_retries"));
    const char *const lines[] = {
        "tern memory summary, device test:0 ",
        counts,
        "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n",
        "| Allocated memory      |   3072 KiB ",
        "|       from large pool |   3072 KiB ",
        "|       from small pool |      0 KiB ",
        "| Active memory         |   3072 KiB ",
        "| Requested memory      |   3072 KiB ",
        "| GPU reserved memory   |  20480 KiB ",
        "| Non-releasable memory |  17408 KiB ",
        "| Allocations           |       1    ",
        "| Active allocs         |       1    ",
        "| GPU reserved segments |       1    ",
        "| Non-releasable allocs |       1    ",
        "| Oversize allocations  |       0    ",
        "| Oversize GPU segments |       0    "
    };
    const char *at = text;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        at = strstr(at, lines[i]);
        if (at == NULL)
            fail_msg("no '%s' at its place in\n%s", lines[i], text);
    }
    assert_true(tern_memory_summary(dev0, true, text, sizeof text) < length);
    assert_null(strstr(text, "from large pool"));
}

static void test_the_cpu_has_the_same_keys(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t before = tern_memory_stat(TERN_CPU, "allocated_bytes.all.current");
    (void)bytes_on(TERN_CPU, 3 * mib);
    assert_int_equal(tern_memory_stat(TERN_CPU, "allocated_bytes.all.current"), before + 3 * mib);
    assert_true(tern_memory_stat(TERN_CPU, "reserved_bytes.all.current") >= 3 * mib);
}

static void test_the_device_says_what_it_has(void **state) /* M060 */
{
    (void)state;
    int64_t free_bytes = 0, total = 0;
    assert_int_equal(tern_memory_info(dev0, &free_bytes, &total), TERN_OK);
    assert_int_equal(total, 64 * mib);
    assert_int_equal(total - free_bytes, tern_memory(dev0).reserved_bytes);
    assert_int_equal(tern_memory_info(TERN_CPU, &free_bytes, &total), TERN_OK);
    assert_true(total > 0 && free_bytes <= total);
}

/* ---- settings, bytes, streams ----------------------------------------------------------------------------- */

static void test_settings_of_one_device(void **state) /* M076 */
{
    (void)state;
    assert_int_equal(tern_set_memory_settings(dev0, "max_split_size_mb:32"), TERN_OK);
    assert_int_equal(tern_memory_stat(dev0, "max_split_size"), 32 * mib);
    assert_int_equal(tern_set_memory_settings(dev0, "max_split:32"), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT,
                 "unknown key 'max_split'; known are backend, max_split_size_mb");
    assert_int_equal(tern_set_memory_settings(dev0, ""), TERN_OK);
    assert_int_equal(tern_memory_stat(dev0, "max_split_size"), -1);
}

static void test_bytes_for_other_libraries(void **state) /* M022 M063 */
{
    (void)state;
    const int64_t before = tern_memory(dev0).allocated_bytes;
    void *data = tern_memory_alloc(dev0, 1000, NULL);
    assert_non_null(data);
    assert_int_equal(tern_memory(dev0).allocated_bytes, before + 1024);
    assert_int_equal(tern_memory_free(dev0, data), TERN_OK);
    assert_int_equal(tern_memory_free(dev0, NULL), TERN_OK);
    assert_int_equal(tern_memory_free(dev0, data), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "invalid device pointer: 0x");
    assert_null(tern_memory_alloc(dev0, 0, NULL));
    void *of_a_stream = tern_memory_alloc(dev0, 1000, (void *)16); /* apart from others' */
    assert_int_equal(tern_memory_free(dev0, of_a_stream), TERN_OK);
    data = tern_memory_alloc(dev0, 1000, NULL);
    assert_ptr_not_equal(data, of_a_stream);
    void *again = tern_memory_alloc(dev0, 1000, (void *)16);
    assert_ptr_equal(again, of_a_stream);
    assert_int_equal(tern_memory_free(dev0, again), TERN_OK);
    assert_int_equal(tern_memory_free(dev0, data), TERN_OK);
    assert_no_error();
}

/* Memory that was freed is a tensor's by now, or always was: the block is the tensor's to end. */
static void test_a_tensors_memory_is_not_freed(void **state)
{
    (void)state;
    const tern_dev_t devices[] = { dev0, TERN_CPU };
    for (int i = 0; i < 2; i++) {
        TERN_SCOPE;
        void *data = tern_memory_alloc(devices[i], 40 * mib, NULL);
        assert_int_equal(tern_memory_free(devices[i], data), TERN_OK);
        tern_tensor *t = bytes_on(devices[i], 40 * mib);
        const int64_t allocated = tern_memory(devices[i]).allocated_bytes;
        void *const blocks[] = { data, tern_data_ptr(t) }; /* mostly the same, but under ASan */
        for (int k = 0; k < 2; k++) {
            assert_int_equal(tern_memory_free(devices[i], blocks[k]), TERN_ERR_ARGUMENT);
            assert_error(TERN_ERR_ARGUMENT, "was not given by tern_memory_alloc, or is free");
        }
        assert_int_equal(tern_memory(devices[i]).allocated_bytes, allocated);
    }
}

static void test_another_stream_keeps_memory_active(void **state) /* M021 M056 S025-S027 */
{
    (void)state;
    TERN_SCOPE;
    const int64_t active = tern_memory_stat(dev0, "active_bytes.all.current");
    {
        TERN_SCOPE;
        tern_tensor *t = tern_ones(TERN_SHAPE(1000), .device = dev0); /* work that waits */
        assert_int_equal(tern_record_stream(t, tern_stream_external(tern_device(t), (void *)16)),
                         TERN_OK);
    }
    assert_int_equal(tern_memory_stat(dev0, "active_bytes.all.current"), active + 4096);
    assert_int_equal(tern_memory(dev0).allocated_bytes, 0);
    (void)bytes_on(dev0, 100); /* looks at the event: the work has not run */
    assert_int_equal(tern_memory_stat(dev0, "active_bytes.all.current"), active + 4096 + 512);
    assert_int_equal(tern_dev_synchronize(dev0), TERN_OK);
    (void)bytes_on(dev0, 100);
    assert_int_equal(tern_memory_stat(dev0, "active_bytes.all.current"), active + 2 * 512);
    assert_int_equal(tern_record_stream(tern_zeros(TERN_SHAPE(500)), tern_default_stream(TERN_CPU)),
                     TERN_OK);
    assert_no_error();
}

/* ---- the system's ------------------------------------------------------------------------------------------ */

/* Bytes of a line of /proc/meminfo; -1 where there is none. */
static int64_t meminfo(const char *key)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    int64_t bytes = -1;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            bytes = strtoll(line + strlen(key), NULL, 10) * 1024;
    if (file != NULL)
        (void)fclose(file);
    return bytes;
}

/* Others take and give memory meanwhile: the answer is nearer to the one than to the other. */
static void test_what_files_are_cached_in_is_free(void **state)
{
    (void)state;
    int64_t free_bytes, total;
    const int64_t available = meminfo("MemAvailable:"), idle = meminfo("MemFree:");
    if (available < 0 || available - idle < 256 * mib) {
        print_message("skipped: what files keep of memory is too little to tell, or not known\n");
        skip();
    }
    assert_int_equal(tern_memory_info(TERN_CPU, &free_bytes, &total), TERN_OK);
    assert_true(free_bytes > idle + (available - idle) / 2);
    assert_true(free_bytes <= total);
}

/* ---- pools --------------------------------------------------------------------------------------------------- */

static void test_a_pool_of_ones_own(void **state) /* M084 M086 M087 */
{
    (void)state;
    const int64_t before = tern_memory(dev0).reserved_bytes;
    tern_memory_pool *pool = tern_memory_pool_create(.device = dev0);
    assert_non_null(pool);
    assert_int_equal(tern_memory_pool_users(pool), 1);
    assert_int_equal(tern_memory_pool_begin(pool), TERN_OK);
    assert_int_equal(tern_memory_pool_users(pool), 2);
    {
        TERN_SCOPE;
        (void)bytes_on(dev0, 3 * mib);
    }
    assert_int_equal(tern_memory_pool_end(pool), TERN_OK);
    assert_int_equal(tern_memory_pool_end(pool), TERN_ERR_STATE);
    tern_error_clear();
    assert_true(tern_memory_pool_id(pool) != 0);
    tern_empty_cache(dev0);
    assert_int_equal(tern_memory(dev0).reserved_bytes, before + 20 * mib); /* still owned */
    tern_memory_pool_release(pool);
    assert_int_equal(tern_memory(dev0).reserved_bytes, before);
}

static void test_tensors_outlive_their_pool(void **state) /* M087 */
{
    (void)state;
    const int64_t before = tern_memory(dev0).reserved_bytes;
    tern_memory_pool *pool = tern_memory_pool_create(.device = dev0);
    assert_int_equal(tern_memory_pool_begin(pool), TERN_OK);
    assert_int_equal(tern_memory_pool_users(pool), 2);
    {
        TERN_SCOPE;
        tern_tensor *t = bytes_on(dev0, 3 * mib);
        assert_int_equal(tern_memory_pool_end(pool), TERN_OK);
        assert_int_equal(tern_memory_pool_users(pool), 1);
        tern_memory_pool_release(pool);
        tern_empty_cache(dev0);
        assert_int_equal(tern_memory(dev0).reserved_bytes, before + 20 * mib);
        assert_non_null(tern_fill(t, 7));
    }
    tern_empty_cache(dev0);
    assert_int_equal(tern_memory(dev0).reserved_bytes, before);
    assert_no_error();
}

typedef struct pool_guest {
    tern_memory_pool *pool;
    pthread_barrier_t meet;
    tern_status_t first, last; /* what its ends said */
    int64_t reserved;
} pool_guest;

static void *visit_a_pool(void *guest)
{
    pool_guest *g = guest;
    TERN_SCOPE;
    g->first = tern_memory_pool_end(g->pool); /* not its own */
    tern_error_clear();
    (void)tern_memory_pool_begin(g->pool);
    pthread_barrier_wait(&g->meet);
    pthread_barrier_wait(&g->meet); /* the other has ended its own */
    (void)bytes_on(dev0, 1000);
    g->reserved = tern_memory(dev0).reserved_bytes;
    g->last = tern_memory_pool_end(g->pool);
    return NULL;
}

static void test_each_thread_ends_its_own_part_in_a_pool(void **state) /* M084 */
{
    (void)state;
    TERN_SCOPE;
    pool_guest g = { .pool = tern_memory_pool_create(.device = dev0) };
    pthread_t thread;
    (void)bytes_on(dev0, 1000); /* 2 MiB outside the pool */
    assert_int_equal(pthread_barrier_init(&g.meet, NULL, 2), 0);
    assert_int_equal(tern_memory_pool_begin(g.pool), TERN_OK);
    assert_int_equal(pthread_create(&thread, NULL, visit_a_pool, &g), 0);
    pthread_barrier_wait(&g.meet);
    assert_int_equal(tern_memory_pool_users(g.pool), 3);
    assert_int_equal(tern_memory_pool_end(g.pool), TERN_OK);
    pthread_barrier_wait(&g.meet);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(g.first, TERN_ERR_STATE);
    assert_int_equal(g.reserved, 4 * mib); /* 2 of them the pool's */
    assert_int_equal(g.last, TERN_OK);
    (void)bytes_on(dev0, 1000);
    assert_int_equal(tern_memory(dev0).reserved_bytes, 4 * mib); /* beside the first */
    assert_int_equal(tern_memory_pool_end(g.pool), TERN_ERR_STATE);
    tern_error_clear();
    (void)pthread_barrier_destroy(&g.meet);
    tern_memory_pool_release(g.pool);
    assert_no_error();
}

/* In a pool that the other releases meanwhile. */
static void *stay_in_a_pool(void *guest)
{
    pool_guest *g = guest;
    TERN_SCOPE;
    g->first = tern_memory_pool_begin(g->pool);
    pthread_barrier_wait(&g->meet);
    pthread_barrier_wait(&g->meet); /* the other has released it, and ended its own */
    (void)bytes_on(dev0, 1000);
    g->reserved = tern_memory(dev0).reserved_bytes;
    g->last = tern_memory_pool_end(g->pool);
    return NULL;
}

static void test_a_released_pool_lasts_until_the_last_end(void **state) /* M087 */
{
    (void)state;
    const int64_t before = tern_memory(dev0).reserved_bytes;
    pool_guest g = { .pool = tern_memory_pool_create(.device = dev0) };
    pthread_t thread;
    assert_int_equal(pthread_barrier_init(&g.meet, NULL, 2), 0);
    assert_int_equal(tern_memory_pool_begin(g.pool), TERN_OK);
    assert_int_equal(pthread_create(&thread, NULL, stay_in_a_pool, &g), 0);
    pthread_barrier_wait(&g.meet);
    tern_memory_pool_release(g.pool);
    assert_int_equal(tern_memory_pool_users(g.pool), 2);
    assert_int_equal(tern_memory_pool_end(g.pool), TERN_OK);
    pthread_barrier_wait(&g.meet);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(g.first, TERN_OK);
    assert_int_equal(g.reserved, before + 2 * mib);
    assert_int_equal(g.last, TERN_OK);
    (void)pthread_barrier_destroy(&g.meet);
    tern_empty_cache(dev0);
    assert_int_equal(tern_memory(dev0).reserved_bytes, before);
    assert_no_error();
}

static void *end_in_a_pool(void *pool)
{
    (void)tern_memory_pool_begin(pool);
    (void)tern_memory_pool_begin(pool);
    return NULL;
}

static void test_a_thread_s_end_ends_what_it_left_open(void **state)
{
    (void)state;
    tern_memory_pool *pool = tern_memory_pool_create(.device = dev0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_in_a_pool, pool), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(tern_memory_pool_users(pool), 1);
    tern_memory_pool_release(pool);
    assert_no_error();
}

/* ---- raw allocators ------------------------------------------------------------------------------------------ */

typedef struct counted {
    int allocs, frees;
} counted;

static void *counted_alloc(int64_t bytes, int device, void *stream, void *user)
{
    (void)stream;
    assert_int_equal(device, 1);
    ((counted *)user)->allocs++;
    return aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
}
static void counted_free(void *data, int64_t bytes, int device, void *stream, void *user)
{
    (void)bytes, (void)device, (void)stream;
    ((counted *)user)->frees++;
    free(data);
}

static void test_a_raw_allocator_of_ones_own(void **state) /* M089 */
{
    (void)state;
    static counted calls;
    assert_int_equal(tern_set_raw_allocator(dev1, .alloc = counted_alloc), TERN_ERR_ARGUMENT);
    tern_error_clear();
    assert_int_equal(
        tern_set_raw_allocator(dev1, .alloc = counted_alloc, .free = counted_free, .user = &calls),
        TERN_OK);
    {
        TERN_SCOPE;
        (void)bytes_on(dev1, 1000);
        (void)bytes_on(dev1, 1000);
    }
    assert_int_equal(calls.allocs, 2); /* no cache on top */
    assert_int_equal(calls.frees, 2);
    assert_int_equal(tern_memory(dev1).allocated_bytes, 0);
    assert_int_equal(tern_set_raw_allocator(dev1, .alloc = counted_alloc, .free = counted_free),
                     TERN_ERR_STATE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_statistics_have_pytorchs_names),
        TEST(test_all_of_pytorchs_names_are_there),
        TEST(test_peaks_and_totals_reset_apart),
        TEST(test_the_summary_is_a_box),
        TEST(test_the_cpu_has_the_same_keys),
        TEST(test_the_device_says_what_it_has),
        TEST(test_settings_of_one_device),
        TEST(test_bytes_for_other_libraries),
        TEST(test_a_tensors_memory_is_not_freed),
        TEST(test_another_stream_keeps_memory_active),
        TEST(test_what_files_are_cached_in_is_free),
        TEST(test_a_pool_of_ones_own),
        TEST(test_tensors_outlive_their_pool),
        TEST(test_each_thread_ends_its_own_part_in_a_pool),
        TEST(test_a_released_pool_lasts_until_the_last_end),
        TEST(test_a_thread_s_end_ends_what_it_left_open),
        TEST(test_a_raw_allocator_of_ones_own),
    };
    const int failed = cmocka_run_group_tests(tests, second_backend_setup, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
