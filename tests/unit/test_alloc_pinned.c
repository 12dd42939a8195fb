/* The cache of page-locked host memory (M090-M094). */
#include <stdlib.h>

#include "core/alloc/pinned.h"
#include "tests/alloc/raw_table.h"
#include "tests/alloc/rig.h"
#include "tests/support/check.h"

typedef struct host {
    raw_double *d;
    raw_table table;
    core_pinned *p;
} host;

static host *host_open(int64_t capacity, const char *text)
{
    host *h = calloc(1, sizeof *h);
    assert_non_null(h);
    h->d = raw_create(capacity, false);
    raw_table_init(&h->table, h->d, 0);
    core_alloc_settings settings;
    char why[CORE_ALLOC_WHY_BYTES];
    core_alloc_settings_init(&settings);
    assert_int_equal(core_alloc_settings_parse(&settings, text, true, why), TERN_OK);
    h->p = core_pinned_new(&h->table.raw, &settings);
    assert_non_null(h->p);
    return h;
}

static void host_close(host *h)
{
    char why[CORE_ALLOC_WHY_BYTES];
    if (!core_pinned_check(h->p, why))
        fail_msg("%s", why);
    core_pinned_delete(h->p);
    if (raw_misuse(h->d) != NULL)
        fail_msg("%s", raw_misuse(h->d));
    assert_int_equal(raw_live_ranges(h->d), 0);
    assert_int_equal(raw_live_events(h->d), 0);
    raw_table_deinit(&h->table);
    raw_destroy(h->d);
    free(h);
}

static core_pinned_block *take(host *h, int64_t bytes)
{
    tern_status_t code;
    core_pinned_block *b = core_pinned_malloc(h->p, bytes, TERN_HERE, &code);
    assert_non_null(b);
    assert_int_equal(code, TERN_OK);
    return b;
}

static void test_sizes_are_powers_of_two(void **state) /* M090 */
{
    (void)state;
    host *h = host_open(GIB(1), "");
    core_pinned_block *b = take(h, MIB(129));
    assert_int_equal(b->size, MIB(256));
    assert_int_equal(core_pinned_stats_of(h->p).reserved_bytes.current, MIB(256));
    assert_int_equal(core_pinned_free(h->p, b), TERN_OK);
    core_pinned_block *small = take(h, MIB(100)); /* never split */
    assert_int_equal(raw_calls(&h->table, RAW_ALLOC), 2);
    assert_int_equal(core_pinned_free(h->p, small), TERN_OK);
    host_close(h);
}

static void test_a_threshold_ends_the_rounding(void **state)
{
    (void)state;
    host *h = host_open(GIB(1), "pinned_max_round_threshold_mb:64");
    assert_int_equal(take(h, MIB(129))->size, MIB(129));
    assert_int_equal(take(h, MIB(33))->size, MIB(64));
    host_close(h);
}

static void test_reuse_at_once_without_streams(void **state) /* M091 */
{
    (void)state;
    host *h = host_open(GIB(1), "");
    core_pinned_block *b = take(h, 5000);
    char *data = b->data;
    assert_int_equal(core_pinned_free(h->p, b), TERN_OK);
    assert_int_equal(core_pinned_free(h->p, b), TERN_ERR_ARGUMENT);
    assert_ptr_equal(take(h, 8192)->data, data);
    assert_int_equal(raw_calls(&h->table, RAW_EVENT_CREATE), 0);
    host_close(h);
}

static void test_reuse_after_events(void **state) /* M091 */
{
    (void)state;
    host *h = host_open(GIB(1), "");
    core_pinned_block *b = take(h, 5000);
    char *data = b->data;
    assert_int_equal(core_pinned_record_stream(h->p, b, rig_stream(1)), TERN_OK);
    assert_int_equal(core_pinned_record_stream(h->p, b, rig_stream(2)), TERN_OK);
    assert_int_equal(core_pinned_record_stream(h->p, b, rig_stream(1)), TERN_OK);
    assert_int_equal(core_pinned_free(h->p, b), TERN_OK);
    assert_int_equal(raw_calls(&h->table, RAW_EVENT_RECORD), 2);
    assert_int_equal(core_pinned_stats_of(h->p).active.current, 1);
    assert_int_equal(core_pinned_stats_of(h->p).allocation.current, 0);
    core_pinned_block *other = take(h, 5000);
    assert_ptr_not_equal(other->data, data);
    raw_advance(h->d, 1, 1);
    raw_advance(h->d, 2, 1);
    core_pinned_block *again = take(h, 5000);
    assert_ptr_equal(again->data, data);
    host_close(h);
}

static void test_zero_bytes(void **state) /* M092 */
{
    (void)state;
    host *h = host_open(GIB(1), "");
    tern_status_t code = TERN_ERR_IO;
    assert_null(core_pinned_malloc(h->p, 0, NULL, &code));
    assert_int_equal(code, TERN_OK);
    assert_int_equal(core_pinned_free(h->p, NULL), TERN_OK);
    host_close(h);
}

static void test_emptying_and_a_limit(void **state) /* M093 */
{
    (void)state;
    host *h = host_open(GIB(1), "pinned_max_cached_size_mb:4");
    core_pinned_block *a = take(h, MIB(4)), *b = take(h, MIB(4));
    assert_int_equal(core_pinned_free(h->p, a), TERN_OK);
    assert_int_equal(core_pinned_free(h->p, b), TERN_OK);
    assert_int_equal(core_pinned_stats_of(h->p).reserved_bytes.current, MIB(4));
    assert_int_equal(core_pinned_empty_cache(h->p), TERN_OK);
    assert_int_equal(core_pinned_stats_of(h->p).reserved_bytes.current, 0);
    host_close(h);
}

static void test_used_up_memory_empties_the_cache_first(void **state)
{
    (void)state;
    host *h = host_open(MIB(10), "");
    assert_int_equal(core_pinned_free(h->p, take(h, MIB(8))), TERN_OK);
    core_pinned_block *b = take(h, MIB(4));
    tern_status_t code;
    assert_null(core_pinned_malloc(h->p, MIB(8), NULL, &code));
    assert_int_equal(code, TERN_ERR_OOM);
    assert_int_equal(core_pinned_free(h->p, b), TERN_OK);
    host_close(h);
}

static void test_statistics(void **state) /* M094 */
{
    (void)state;
    host *h = host_open(GIB(1), "");
    core_pinned_block *b = take(h, 1000);
    assert_int_equal(core_pinned_free(h->p, b), TERN_OK);
    b = take(h, 1000);
    core_pinned_stats s = core_pinned_stats_of(h->p);
    assert_int_equal(s.num_host_alloc, 1);
    assert_int_equal(s.host_alloc_time.count, 1);
    assert_int_equal(s.allocation.allocated, 2);
    assert_int_equal(s.allocated_bytes.peak, 1024);
    core_pinned_reset_accumulated(h->p);
    assert_int_equal(core_pinned_free(h->p, b), TERN_OK);
    core_pinned_reset_peaks(h->p);
    s = core_pinned_stats_of(h->p);
    assert_int_equal(s.num_host_alloc, 0);
    assert_int_equal(s.allocation.freed, 1);
    assert_int_equal(s.allocated_bytes.peak, 0);
    assert_int_equal(s.reserved_bytes.peak, 1024);
    host_close(h);
}

/* Two streams use a block, it is freed, and comes back; whatever raw call fails. */
static void run_with_a_fault(host *h)
{
    tern_status_t code;
    core_pinned_block *b = core_pinned_malloc(h->p, 5000, NULL, &code);
    if (b != NULL) {
        (void)core_pinned_record_stream(h->p, b, rig_stream(1));
        (void)core_pinned_record_stream(h->p, b, rig_stream(2));
        (void)core_pinned_free(h->p, b);
    }
    raw_advance(h->d, 1, 1);
    raw_advance(h->d, 2, 1);
    b = core_pinned_malloc(h->p, 5000, NULL, &code);
    (void)core_pinned_free(h->p, b);
    (void)core_pinned_empty_cache(h->p);
}

static void test_every_raw_call_may_fail(void **state)
{
    (void)state;
    for (int64_t k = 1;; k++) {
        host *h = host_open(GIB(1), "");
        raw_fail_any(&h->table, k);
        run_with_a_fault(h);
        const bool reached = raw_failures(&h->table) > 0;
        raw_fail_any(&h->table, 0);
        assert_int_equal(core_pinned_free(h->p, take(h, 5000)), TERN_OK);
        host_close(h);
        if (!reached)
            break;
        assert_true(k < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_are_powers_of_two),
        cmocka_unit_test(test_a_threshold_ends_the_rounding),
        cmocka_unit_test(test_reuse_at_once_without_streams),
        cmocka_unit_test(test_reuse_after_events),
        cmocka_unit_test(test_zero_bytes),
        cmocka_unit_test(test_emptying_and_a_limit),
        cmocka_unit_test(test_used_up_memory_empties_the_cache_first),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_every_raw_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
