/* CPU memory as a user sees it: the same statistics, snapshots, history, pools and limits as a device's,
 * with the lists of threads in front. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/pool.h"
#include "tests/support/check.h"
#include "tests/support/files.h"

static const int64_t kib = 1 << 10, mib = 1 << 20;

static tern_tensor *bytes_of(int64_t bytes)
{
    return tern_empty(TERN_SHAPE(bytes), .dtype = TERN_U8);
}

static int64_t number(const char *key)
{
    return tern_memory_stat(TERN_CPU, key);
}

static int settle(void **state)
{
    (void)state;
    tern_error_clear();
    tern_empty_cache(TERN_CPU);
    tern_memory_reset_accumulated(TERN_CPU);
    tern_memory_reset_peak(TERN_CPU);
    return 0;
}

/* Runs f(user) on a thread of its own. */
static void on_a_thread(void *(*f)(void *user), void *user)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, f, user), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* ---- statistics --------------------------------------------------------------------------------- */

static void test_every_family_counts(void **state)
{
    (void)state;
    const int64_t before = number("allocation.all.current");
    const int64_t bytes = tern_memory(TERN_CPU).allocated_bytes;
    TERN_SCOPE;
    (void)bytes_of(100);      /* with its header */
    (void)bytes_of(0);        /* nothing */
    (void)bytes_of(700);      /* a list's block */
    (void)bytes_of(3 * mib);  /* a large one */
    (void)bytes_of(40 * mib); /* straight from the engine */
    assert_int_equal(number("allocation.all.current"), before + 4);
    assert_int_equal(number("allocation.all.allocated"), 4);
    assert_int_equal(number("allocation.large_pool.allocated"), 2);
    assert_int_equal(number("active.small_pool.allocated"), 2);
    assert_int_equal(number("requested_bytes.all.allocated"), 100 + 700 + 43 * mib);
    assert_int_equal(tern_memory(TERN_CPU).alloc_count, 4);
    assert_true(tern_memory(TERN_CPU).allocated_bytes >= bytes + 100 + 700 + 43 * mib);
#ifndef CORE_POOL_BYPASS /* without lists blocks are as large as they were asked for */
    assert_int_equal(tern_memory(TERN_CPU).allocated_bytes, bytes + 128 + 1024 + 43 * mib);
    assert_int_equal(number("reserved_bytes.large_pool.current"), 60 * mib);
    assert_int_equal(number("segment.large_pool.current"), 2);
    assert_int_equal(number("num_device_alloc"), 3); /* and a small segment */
#endif
    assert_true(tern_memory(TERN_CPU).reserved_bytes >= tern_memory(TERN_CPU).allocated_bytes);
}

static void test_peaks_are_exact_on_one_thread(void **state)
{
    (void)state;
    const int64_t before = tern_memory(TERN_CPU).allocated_bytes;
    const int64_t count = number("allocation.all.current");
    for (int step = 0; step < 3; step++) {
        TERN_SCOPE;
        for (int i = 0; i < 40; i++)
            (void)bytes_of(512 * kib); /* rises and falls by more than the slack */
        {
            TERN_SCOPE;
            (void)bytes_of(2 * mib);
            (void)bytes_of(64);
        }
        (void)bytes_of(mib);
    }
    assert_int_equal(tern_memory(TERN_CPU).peak_allocated_bytes, before + 22 * mib + 64);
    assert_int_equal(number("allocation.all.peak"), count + 42);
    assert_int_equal(number("requested_bytes.small_pool.peak"),
                     number("requested_bytes.small_pool.current") + 21 * mib);
    assert_int_equal(number("allocated_bytes.large_pool.peak"), 2 * mib);
    assert_int_equal(tern_memory(TERN_CPU).allocated_bytes, before);
    assert_int_equal(number("allocated_bytes.all.freed"), 3 * (23 * mib + 64));
}

/* A loader makes batches, another thread ends them: the peak is that of a few, not of all. */
typedef struct relay {
    _Atomic(tern_tensor *) batch;
    atomic_bool ended;
} relay;

static void *end_batches(void *user)
{
    relay *r = user;
    while (!atomic_load(&r->ended)) {
        tern_tensor *t = atomic_exchange(&r->batch, NULL);
        if (t != NULL)
            tern_release(t);
    }
    return NULL;
}

static void test_what_another_thread_ends_is_ended(void **state)
{
    (void)state;
    const int64_t before = tern_memory(TERN_CPU).allocated_bytes;
    relay r = { NULL, false };
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, end_batches, &r), 0);
    for (int i = 0; i < 200; i++) {
        TERN_SCOPE;
        tern_tensor *t = tern_retain(bytes_of(i % 2 == 0 ? 600 * kib : 200));
        while (atomic_load(&r.batch) != NULL)
            ;
        atomic_store(&r.batch, t);
    }
    while (atomic_load(&r.batch) != NULL)
        ;
    atomic_store(&r.ended, true);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(tern_memory(TERN_CPU).allocated_bytes, before);
    assert_true(tern_memory(TERN_CPU).peak_allocated_bytes <= before + 10 * mib);
#ifndef CORE_POOL_BYPASS
    assert_true(number("reserved_bytes.all.peak") <= 40 * mib); /* they came home */
#endif
}

static void test_the_summary_is_the_cpus(void **state)
{
    (void)state;
    TERN_SCOPE;
    (void)bytes_of(3 * mib);
    char text[8192];
    (void)tern_memory_summary(TERN_CPU, false, text, sizeof text);
    assert_non_null(strstr(text, "| CPU reserved memory   |"));
    assert_non_null(strstr(text, "|       from large pool |   3072 KiB |"));
    int64_t free_bytes = 0, total = 0;
    assert_int_equal(tern_memory_info(TERN_CPU, &free_bytes, &total), TERN_OK);
    assert_true(total > 64 * mib && free_bytes > 0 && free_bytes <= total);
}

/* ---- snapshots ------------------------------------------------------------------------------------ */

static char *snapshot(void)
{
    const char *path = file_path("cpu.json");
    assert_int_equal(tern_memory_snapshot(TERN_CPU, path), TERN_OK);
    file_bytes content = file_read(path);
    const char end = '\0';
    file_bytes_add(&content, &end, 1);
    return (char *)content.data;
}

/* The sum of the numbers behind `key` in blocks that `filter` occurs in. */
static int64_t sum_blocks(const char *text, const char *key, const char *filter, int64_t *out_count)
{
    int64_t sum = 0;
    *out_count = 0;
    for (const char *at = text; (at = strstr(at, "    {\"address\"")) != NULL; at++) {
        char line[1024];
        const size_t length = strcspn(at, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)length, at);
        if (strstr(line, filter) == NULL)
            continue;
        sum += strtoll(strstr(line, key) + strlen(key), NULL, 10);
        ++*out_count;
    }
    return sum;
}

static void test_a_snapshot_has_all_that_is_counted(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_new_args args = { .size_ = sizeof args, .dtype = TERN_U8, .shape = TERN_SHAPE(70) };
    const tern_new_args more = { .size_ = sizeof args, .dtype = TERN_U8, .shape = TERN_SHAPE(900) };
    (void)tern_empty_at("small.c:11", &args);
    (void)tern_empty_at("block.c:22", &more);
    (void)bytes_of(40 * mib);
    {
        TERN_SCOPE; /* rests in a list afterwards */
        (void)bytes_of(5000);
    }
    char *text = snapshot();
    int64_t count;
    assert_int_equal(sum_blocks(text, "\"requested_size\": ", "block.c\", \"line\": 22", &count),
                     900);
    assert_int_equal(count, 1);
#ifndef CORE_POOL_BYPASS
    assert_int_equal(sum_blocks(text, "\"requested_size\": ", "small.c\", \"line\": 11", &count),
                     70);
    assert_int_equal(count, 1);
    assert_int_equal(sum_blocks(text, "\"size\": ", "active_allocated", &count),
                     number("allocated_bytes.all.current"));
    assert_int_equal(count, number("allocation.all.current"));
    assert_int_equal(sum_blocks(text, "\"size\": ", "", &count),
                     number("reserved_bytes.all.current"));
    assert_int_equal(sum_blocks(text, "\"size\": ", "\"held_by\": \"objects\"", &count) > 0, 1);
    assert_true(sum_blocks(text, "\"size\": ", "\"held_by\": \"thread_cache\"", &count) >= 5120);
    assert_non_null(strstr(text, "\"device_name\": \"cpu\""));
#endif
    free(text);
}

static void test_history_has_sites_of_small_data_too(void **state)
{
    (void)state;
    assert_int_equal(tern_memory_record_history(TERN_CPU, -1), TERN_ERR_ARGUMENT);
    tern_error_clear();
    {
        TERN_SCOPE; /* places on the thread's lists, which must not be used */
        (void)tern_neg(tern_neg(tern_zeros(TERN_SHAPE(2, 5))));
    }
    assert_int_equal(tern_memory_record_history(TERN_CPU, 100), TERN_OK);
    {
        TERN_SCOPE;
        const tern_new_args args = { .size_ = sizeof args, .shape = TERN_SHAPE(2, 5) };
        const tern_new_args more = { .size_ = sizeof args, .shape = TERN_SHAPE(5000) };
        (void)tern_neg_at("result.c:55", tern_zeros_at("small.c:33", &args));
        (void)tern_zeros_at("block.c:44", &more);
    }
    char *text = snapshot();
#ifndef CORE_POOL_BYPASS /* without a cache nothing is traced, as in PyTorch */
    static const char *const sites[] = { "small.c\", \"line\": 33", "result.c\", \"line\": 55",
                                         "block.c\", \"line\": 44" };
    for (int i = 0; i < 3; i++) {
        const char *alloc = strstr(text, "\"action\": \"alloc\""), *at = strstr(text, sites[i]);
        assert_non_null(alloc);
        assert_non_null(at);
        assert_non_null(strstr(at, "\"action\": \"free_completed\""));
    }
    assert_non_null(strstr(text, "\"size\": 20480, ")); /* as the engine rounds it, not the lists */
#endif
    free(text);
    assert_int_equal(tern_memory_record_history(TERN_CPU, 0), TERN_OK);
    text = snapshot();
    assert_null(strstr(text, "\"action\""));
    free(text);
}

/* ---- emptying the cache ----------------------------------------------------------------------------- */

static void *fill_a_list(void *user)
{
    (void)user;
    TERN_SCOPE;
    (void)bytes_of(20 * mib);
    return NULL;
}

static void test_lists_of_ended_threads_are_emptied(void **state)
{
    (void)state;
    const int64_t before = number("reserved_bytes.all.current");
    on_a_thread(fill_a_list, NULL);
    tern_empty_cache(TERN_CPU);
    assert_true(number("reserved_bytes.all.current") <= before + CORE_SLAB_BYTES);
}

typedef struct meeting {
    pthread_barrier_t barrier;
} meeting;

static void *fill_and_meet(void *user)
{
    meeting *m = user;
    fill_a_list(NULL);
    (void)pthread_barrier_wait(&m->barrier);
    (void)pthread_barrier_wait(&m->barrier); /* now the cache is to be empty */
    {
        TERN_SCOPE;
        (void)bytes_of(1000);
    }
    (void)pthread_barrier_wait(&m->barrier);
    (void)pthread_barrier_wait(&m->barrier);
    return NULL;
}

static void test_lists_of_other_threads_are_emptied_by_them(void **state)
{
    (void)state;
    meeting m;
    pthread_t other;
    assert_int_equal(pthread_barrier_init(&m.barrier, NULL, 2), 0);
    assert_int_equal(pthread_create(&other, NULL, fill_and_meet, &m), 0);
    (void)pthread_barrier_wait(&m.barrier);
    tern_empty_cache(TERN_CPU);
#ifndef CORE_POOL_BYPASS
    assert_int_equal(number("reserved_bytes.large_pool.current"), 20 * mib);
#endif
    (void)pthread_barrier_wait(&m.barrier);
    (void)pthread_barrier_wait(&m.barrier);
    assert_int_equal(number("reserved_bytes.large_pool.current"), 0);
    (void)pthread_barrier_wait(&m.barrier);
    assert_int_equal(pthread_join(other, NULL), 0);
    (void)pthread_barrier_destroy(&m.barrier);
}

static void test_a_refused_request_names_other_threads_lists_and_calls_them_in(void **state)
{
    (void)state;
#ifndef CORE_POOL_BYPASS
    meeting m;
    pthread_t other;
    int64_t free_bytes, total;
    tern_empty_cache(TERN_CPU);
    assert_int_equal(tern_memory_info(TERN_CPU, &free_bytes, &total), TERN_OK);
    assert_int_equal(pthread_barrier_init(&m.barrier, NULL, 2), 0);
    assert_int_equal(pthread_create(&other, NULL, fill_and_meet, &m), 0);
    (void)pthread_barrier_wait(&m.barrier);
    const double most = (double)(number("reserved_bytes.all.current") + 20 * mib);
    assert_int_equal(tern_set_memory_fraction(TERN_CPU, most / (double)total), TERN_OK);
    TERN_SCOPE;
    assert_null(bytes_of(36 * mib));
    assert_non_null(
        strstr(tern_error_text(), "threads: 20.00 MiB rest in lists of others, which give them"));
    assert_error(TERN_ERR_OOM, "; TERN_CPU_CACHE=MiB, the most that a thread's lists keep");
    (void)pthread_barrier_wait(&m.barrier); /* the other asks for memory */
    (void)pthread_barrier_wait(&m.barrier);
    assert_non_null(bytes_of(36 * mib));
    assert_null(bytes_of(36 * mib));
    assert_null(strstr(tern_error_text(), "threads: "));
    assert_error(TERN_ERR_OOM, "a smaller batch, scopes that end earlier (TERN_SCOPE)");
    (void)pthread_barrier_wait(&m.barrier);
    assert_int_equal(pthread_join(other, NULL), 0);
    (void)pthread_barrier_destroy(&m.barrier);
    assert_int_equal(tern_set_memory_fraction(TERN_CPU, 1), TERN_OK);
#else
    print_message("skipped: without lists nothing rests in them\n");
    skip();
#endif
}

static void test_memory_is_shared_before_the_system_is_asked(void **state)
{
    (void)state;
#ifndef CORE_POOL_BYPASS
    on_a_thread(fill_a_list, NULL); /* rests in an ended thread's list */
    const int64_t taken = number("num_device_alloc");
    TERN_SCOPE;
    (void)bytes_of(20 * mib);
    assert_int_equal(number("num_device_alloc"), taken);
#else
    print_message("skipped: a sanitizer has all memory\n");
    skip();
#endif
}

/* ---- pools, bytes, refusals -------------------------------------------------------------------------- */

static void test_a_private_pool_of_the_cpu(void **state)
{
    (void)state;
    tern_memory_pool *pool = tern_memory_pool_create(.device = TERN_CPU);
    assert_non_null(pool);
    assert_int_equal(tern_memory_pool_begin(pool), TERN_OK);
    tern_tensor *kept;
    {
        TERN_SCOPE;
        kept = tern_retain(tern_full(2, TERN_SHAPE(4))); /* small data, too */
        (void)bytes_of(3 * mib);
    }
    assert_int_equal(tern_memory_pool_end(pool), TERN_OK);
#ifndef CORE_POOL_BYPASS
    tern_empty_cache(TERN_CPU);
    assert_int_equal(number("reserved_bytes.large_pool.current"), 20 * mib); /* the pool's own */
    char *text = snapshot(), id[64];
    (void)snprintf(id, sizeof id, "\"segment_pool_id\": [0, %d]", (int)tern_memory_pool_id(pool));
    assert_non_null(strstr(text, id));
    free(text);
#endif
    tern_memory_pool_release(pool);
    assert_int_equal(number("reserved_bytes.large_pool.current"), 0);
    assert_close(tern_item(tern_sum(kept)), 8, 0);
    tern_release(kept);
    assert_no_error();
}

static void test_a_pool_of_the_cpu_is_released_inside(void **state)
{
    (void)state;
    tern_memory_pool *pool = tern_memory_pool_create(.device = TERN_CPU);
    assert_int_equal(tern_memory_pool_begin(pool), TERN_OK);
    assert_int_equal(tern_memory_pool_begin(pool), TERN_OK);
    tern_memory_pool_release(pool);
    {
        TERN_SCOPE;
        (void)bytes_of(3 * mib);
        assert_int_equal(tern_memory_pool_end(pool), TERN_OK);
        (void)bytes_of(3 * mib);
    }
    assert_int_equal(tern_memory_pool_end(pool), TERN_OK);
    assert_int_equal(number("reserved_bytes.large_pool.current"), 0);
    assert_no_error();
}

/* The next thread takes the ended one's state over, and its number, too. */
static void *ends_in_a_pool(void *pool)
{
    (void)tern_memory_pool_begin(pool);
    return NULL;
}

static void *asks_for_memory(void *out_kept)
{
    *(tern_tensor **)out_kept = tern_retain(bytes_of(3 * mib));
    return NULL;
}

static void test_a_thread_inherits_no_pool(void **state)
{
    (void)state;
    tern_memory_pool *pool = tern_memory_pool_create(.device = TERN_CPU);
    tern_tensor *kept = NULL;
    on_a_thread(ends_in_a_pool, pool);
    on_a_thread(asks_for_memory, &kept);
    assert_int_equal(tern_memory_pool_users(pool), 1);
#ifndef CORE_POOL_BYPASS
    char *text = snapshot(), id[64];
    (void)snprintf(id, sizeof id, "\"segment_pool_id\": [0, %d]", (int)tern_memory_pool_id(pool));
    assert_null(strstr(text, id));
    free(text);
#endif
    tern_memory_pool_release(pool);
    tern_release(kept);
    tern_empty_cache(TERN_CPU);
    assert_no_error();
}

static void test_bytes_for_other_libraries(void **state)
{
    (void)state;
    const int64_t before = tern_memory(TERN_CPU).allocated_bytes;
    char *data = tern_memory_alloc(TERN_CPU, 1024, NULL);
    assert_non_null(data);
    memset(data, 1, 1024);
    assert_int_equal(tern_memory(TERN_CPU).allocated_bytes, before + 1024);
    assert_int_equal(tern_memory_free(TERN_CPU, data), TERN_OK);
    assert_int_equal(tern_memory(TERN_CPU).allocated_bytes, before);
#ifndef CORE_POOL_BYPASS /* without lists a tensor's data is the engine's own block */
    TERN_SCOPE;
    tern_tensor *t = bytes_of(1000);
    assert_int_equal(tern_memory_free(TERN_CPU, tern_data(t)), TERN_ERR_ARGUMENT); /* a tensor's */
    assert_error(TERN_ERR_ARGUMENT, "invalid device pointer");
#endif
}

#ifndef CORE_POOL_BYPASS
static bool made_room(const tern_oom_info_t *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return tern_set_memory_fraction(TERN_CPU, 1) == TERN_OK;
}
#endif

static void test_a_refused_request_says_why_and_the_next_is_served(void **state)
{
    (void)state;
#ifndef CORE_POOL_BYPASS
    TERN_SCOPE;
    const tern_new_args args = { .size_ = sizeof args, .dtype = TERN_U8, .shape = TERN_SHAPE(mib) };
    (void)tern_empty_at("holder.c:5", &args);
    int64_t free_bytes, total;
    assert_int_equal(tern_memory_info(TERN_CPU, &free_bytes, &total), TERN_OK);
    assert_int_equal(tern_set_memory_fraction(TERN_CPU, 64.0 * (double)mib / (double)total),
                     TERN_OK);
    {
        TERN_SCOPE; /* lists that the next request has to empty */
        (void)bytes_of(20 * mib);
        (void)bytes_of(28 * mib);
    }
    {
        TERN_SCOPE;
        assert_non_null(bytes_of(50 * mib));
        tern_memory_reset_accumulated(TERN_CPU);
    }
    assert_null(bytes_of(70 * mib));
    assert_non_null(strstr(tern_error_text(), "made at holder.c:5"));
    assert_error(TERN_ERR_OOM, "out of memory on cpu: 70.00 MiB");
    tern_oom_info_t info;
    assert_true(tern_oom_info(&info));
    assert_int_equal(info.requested_bytes, 70 * mib);
    assert_int_equal(number("num_ooms"), 1);
    assert_non_null(bytes_of(30 * mib)); /* the next smaller one */
    int calls = 0;
    tern_set_oom_callback(made_room, &calls);
    assert_non_null(bytes_of(70 * mib));
    tern_set_oom_callback(NULL, NULL);
    assert_int_equal(calls, 1);
    assert_no_error();
#else
    print_message("skipped: a sanitizer has all memory\n");
    skip();
#endif
}

/* ---- while others work ---------------------------------------------------------------------------- */

typedef struct crew {
    atomic_bool ended;
    _Atomic(tern_tensor *) handed; /* what one makes and another ends */
} crew;

static void *make_and_hand_on(void *user)
{
    static const int64_t sizes[] = { 8, 300, 2000, 100000, 1100000, 35 << 20 };
    crew *c = user;
    for (size_t i = 0; !atomic_load(&c->ended); i++) {
        TERN_SCOPE;
        for (size_t k = 0; k < 5; k++)
            (void)bytes_of(sizes[(i + k) % 5]);
        tern_tensor *t = tern_retain(bytes_of(sizes[i % 6]));
        t = atomic_exchange(&c->handed, t);
        if (t != NULL)
            tern_release(t);
    }
    return NULL;
}

static void test_all_of_it_may_be_read_while_others_work(void **state)
{
    (void)state;
    const int64_t before = tern_memory(TERN_CPU).allocated_bytes;
    crew c = { false, NULL };
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_hand_on, &c), 0);
    for (int i = 0; i < 30; i++) {
        assert_true(tern_memory(TERN_CPU).allocated_bytes >= 0);
        free(snapshot());
        if (i % 10 == 3)
            assert_int_equal(tern_memory_record_history(TERN_CPU, i < 20 ? 50 : 0), TERN_OK);
        if (i % 10 == 7)
            tern_empty_cache(TERN_CPU);
        if (i % 10 == 9)
            tern_memory_reset_peak(TERN_CPU);
    }
    atomic_store(&c.ended, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    tern_release(atomic_load(&c.handed));
    assert_int_equal(tern_memory(TERN_CPU).allocated_bytes, before);
    assert_int_equal(tern_memory_record_history(TERN_CPU, 0), TERN_OK);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, settle)
    const struct CMUnitTest tests[] = {
        TEST(test_every_family_counts),
        TEST(test_peaks_are_exact_on_one_thread),
        TEST(test_what_another_thread_ends_is_ended),
        TEST(test_the_summary_is_the_cpus),
        TEST(test_a_snapshot_has_all_that_is_counted),
        TEST(test_history_has_sites_of_small_data_too),
        TEST(test_lists_of_ended_threads_are_emptied),
        TEST(test_lists_of_other_threads_are_emptied_by_them),
        TEST(test_a_refused_request_names_other_threads_lists_and_calls_them_in),
        TEST(test_memory_is_shared_before_the_system_is_asked),
        TEST(test_a_private_pool_of_the_cpu),
        TEST(test_a_pool_of_the_cpu_is_released_inside),
        TEST(test_a_thread_inherits_no_pool),
        TEST(test_bytes_for_other_libraries),
        TEST(test_a_refused_request_says_why_and_the_next_is_served),
        TEST(test_all_of_it_may_be_read_while_others_work),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
