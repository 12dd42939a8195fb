/* Worked examples of expandable segments, private pools, captures and callbacks, on the allocator and on
 * the model at once. */
#include "tests/support/check.h"

#include "tests/alloc/pair_check.h"

static const int64_t MIB = 1 << 20;

static pair *start(int64_t capacity, bool expandable)
{
    model_settings settings = model_defaults();
    settings.expandable = expandable;
    return pair_start(capacity, &settings);
}

static void assert_memory(pair *p, int64_t allocated, int64_t reserved)
{
    assert_int_equal(pair_now(p, MODEL_ALLOCATED_BYTES), allocated);
    assert_int_equal(pair_now(p, MODEL_RESERVED_BYTES), reserved);
}

/* M079, M055: pages are mapped behind what is free, and are no segments. */
static void test_an_expandable_segment_grows_by_pages(void **state)
{
    (void)state;
    pair *p = start(1000 * MIB, true);
    pair_take(p, 0, 3 * MIB, 0);
    assert_memory(p, 3 * MIB, 20 * MIB);
    pair_take(p, 1, 30 * MIB, 0); /* 17 free and 13 of the next page */
    assert_memory(p, 33 * MIB, 40 * MIB);
    assert_true(p->slots[1].address == p->slots[0].address + (uint64_t)(3 * MIB));
    pair_take(p, 2, 1000, 0); /* the small pool's pages have 2 MiB */
    assert_memory(p, 33 * MIB + 1024, 42 * MIB);
    assert_int_equal(p->model->stats.of[MODEL_SEGMENT][MODEL_ALL].allocated, 0);
    assert_int_equal(p->model->stats.of[MODEL_INACTIVE_SPLIT][MODEL_ALL].allocated, 0);
    assert_int_equal(raw_calls(&p->table, RAW_ALLOC), 0);
    pair_finish(p);
}

/* M017. */
static void test_an_expandable_segment_is_split_at_512(void **state)
{
    (void)state;
    pair *p = start(1000 * MIB, true);
    pair_take(p, 0, 20 * MIB - 512, 0);
    assert_memory(p, 20 * MIB - 512, 20 * MIB);
    pair_finish(p);
}

/* M045, M083: whole free pages go back, from the middle too, and the hole is filled first. */
static void test_free_pages_are_returned_and_taken_again(void **state)
{
    (void)state;
    pair *p = start(1000 * MIB, true);
    for (int i = 0; i < 3; i++)
        pair_take(p, i, 20 * MIB, 0);
    const uint64_t middle = p->slots[1].address;
    pair_free(p, 1);
    pair_empty_cache(p);
    assert_memory(p, 40 * MIB, 40 * MIB);
    pair_take(p, 3, 5 * MIB, 0);
    assert_true(p->slots[3].address == middle);
    assert_memory(p, 45 * MIB, 60 * MIB);
    for (int i = 0; i < 4; i++)
        pair_free(p, i);
    pair_empty_cache(p);
    assert_memory(p, 0, 0);
    assert_int_equal(raw_live_ranges(p->raw_engine), 0);
    pair_finish(p);
}

/* M081. */
static void test_expandable_blocks_are_passed_over_when_switched_off(void **state)
{
    (void)state;
    pair *p = start(1000 * MIB, true);
    const model_settings plain = model_defaults();
    pair_take(p, 0, 20 * MIB, 0);
    pair_take(p, 1, 20 * MIB, 0);
    pair_free(p, 0);
    pair_configure(p, &plain);
    pair_take(p, 2, 10 * MIB, 0);
    assert_memory(p, 30 * MIB, 50 * MIB);
    pair_free(p, 1);
    assert_memory(p, 10 * MIB, 50 * MIB);
    pair_finish(p);
}

/* M030: an expandable block is not released whole; the plain ones below it are. */
static void test_plain_oversize_blocks_go_before_expandable_pages(void **state)
{
    (void)state;
    pair *p = start(280 * MIB, true);
    model_settings plain = model_defaults();
    plain.max_split = 48 * MIB;
    pair_take(p, 0, 100 * MIB, 0);
    pair_configure(p, &plain);
    pair_take(p, 1, 60 * MIB, 0);
    pair_take(p, 2, 50 * MIB, 0);
    pair_free(p, 1);
    pair_free(p, 2);
    assert_memory(p, 100 * MIB, 210 * MIB);
    pair_free(p, 0);
    pair_take(p, 3, 90 * MIB, 0);
    assert_memory(p, 90 * MIB, 190 * MIB);
    assert_int_equal(p->model->stats.retries, 0);
    pair_finish(p);
}

/* M083: what a plain segment could not give. */
static void test_scattered_free_pages_serve_a_large_request(void **state)
{
    (void)state;
    pair *p = start(100 * MIB, true);
    for (int i = 0; i < 5; i++)
        pair_take(p, i, 20 * MIB, 0);
    pair_free(p, 1);
    pair_free(p, 3);
    pair_take(p, 5, 40 * MIB, 0);
    assert_memory(p, 100 * MIB, 100 * MIB);
    assert_int_equal(p->model->stats.retries, 1);
    pair_finish(p);
}

/* M084, M086, M087: a pool keeps its own while it is used. */
static void test_a_private_pool_keeps_its_segments_while_used(void **state)
{
    (void)state;
    pair *p = start(1000 * MIB, false);
    const int pool = pair_pool_new(p, false);
    const uint64_t id = p->pools[pool].engine;
    assert_int_equal(core_alloc_pool_users(p->engine, id), 1);
    pair_route_begin(p, pool, -1, false);
    assert_int_equal(core_alloc_pool_users(p->engine, id), 2);
    pair_take(p, 0, 3 * MIB, 0);
    pair_route_end(p, pool);
    assert_int_equal(core_alloc_pool_users(p->engine, id), 1);
    pair_take(p, 1, 3 * MIB, 0); /* not from the pool's 17 MiB */
    assert_memory(p, 6 * MIB, 40 * MIB);
    pair_free(p, 0);
    pair_free(p, 1);
    pair_empty_cache(p);
    assert_memory(p, 0, 20 * MIB);
    pair_pool_release(p, pool);
    assert_memory(p, 0, 20 * MIB);
    pair_empty_cache(p);
    assert_memory(p, 0, 0);
    pair_finish(p);
}

/* M084. */
static void test_the_newest_matching_route_wins(void **state)
{
    (void)state;
    pair *p = start(1000 * MIB, false);
    const int older = pair_pool_new(p, false), newer = pair_pool_new(p, false);
    pair_route_begin(p, older, -1, false);
    pair_route_begin(p, newer, 1, false);
    pair_take(p, 0, 3 * MIB, 0);
    pair_take(p, 1, 3 * MIB, 1);
    pair_take(p, 2, 3 * MIB, 0);
    pair_take(p, 3, 3 * MIB, 1);
    assert_memory(p, 12 * MIB, 40 * MIB);
    pair_route_end(p, newer);
    pair_take(p, 4, 3 * MIB, 1); /* the older pool has nothing of stream 1 */
    assert_memory(p, 15 * MIB, 60 * MIB);
    pair_route_end(p, older);
    pair_finish(p);
}

/* M085. */
static void test_a_capture_asks_no_event_and_flushes_nothing(void **state)
{
    (void)state;
    pair *p = start(64 * MIB, false);
    const int pool = pair_pool_new(p, false);
    pair_take(p, 0, 30 * MIB, 0);
    pair_take(p, 1, 20 * MIB, 1);
    pair_free(p, 1);
    pair_route_begin(p, pool, 0, true);
    pair_record_stream(p, 0, 2);
    pair_free(p, 0);
    pair_agree(p);
    assert_int_equal(raw_calls(&p->table, RAW_EVENT_RECORD), 0);
    assert_false(pair_malloc(p, 2, 30 * MIB, 0)); /* 20 are cached, and stay so */
    assert_memory(p, 0, 50 * MIB);
    assert_int_equal(p->model->stats.retries, 0);
    assert_int_equal(raw_calls(&p->table, RAW_EVENT_QUERY), 0);
    pair_route_end(p, pool);
    pair_take(p, 2, 30 * MIB, 0); /* the deferred block waits for stream 2 */
    assert_int_equal(raw_calls(&p->table, RAW_EVENT_RECORD), 1);
    assert_memory(p, 30 * MIB, 30 * MIB);
    pair_finish(p);
}

/* M085: what a capture put off is recorded in the order of the frees. */
static void test_deferred_frees_keep_their_order(void **state)
{
    (void)state;
    pair *p = start(1000 * MIB, false);
    const int pool = pair_pool_new(p, false);
    pair_take(p, 0, 30 * MIB, 0);
    pair_take(p, 1, 20 * MIB, 0);
    pair_route_begin(p, pool, 0, true);
    for (int i = 0; i < 2; i++) {
        pair_record_stream(p, i, 2);
        pair_free(p, i);
    }
    pair_route_end(p, pool);
    pair_process_events(p);
    pair_advance(p, 2, 1);
    pair_process_events(p);
    pair_agree(p);
    assert_int_equal(p->model->stats.of[MODEL_ACTIVE_BYTES][MODEL_ALL].current, 20 * MIB);
    pair_finish(p);
}

/* M088, M026 step 6. */
static void test_a_willing_pool_helps_before_the_flush(void **state)
{
    (void)state;
    pair *p = start(64 * MIB, false);
    const int pool = pair_pool_new(p, true);
    pair_route_begin(p, pool, -1, false);
    pair_take(p, 0, 40 * MIB, 0);
    pair_route_end(p, pool);
    pair_free(p, 0);
    pair_take(p, 1, 22 * MIB, 1);
    pair_free(p, 1);
    pair_take(p, 2, 30 * MIB, 0);
    assert_memory(p, 30 * MIB, 62 * MIB);
    assert_int_equal(p->model->stats.syncs, 0);
    pair_finish(p);
}

/* Which pool helps first is not written anywhere: the newest, like routes. */
static void test_the_newest_willing_pool_helps_first(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        pair *p = start(64 * MIB, false);
        const int pools[2] = { pair_pool_new(p, true), pair_pool_new(p, true) };
        for (int i = 0; i < 2; i++) { /* the order of first use says nothing */
            pair_route_begin(p, pools[i ^ first], 0, false);
            pair_take(p, i ^ first, 30 * MIB, 0);
            pair_route_end(p, pools[i ^ first]);
        }
        const uint64_t newest = p->slots[1].address;
        pair_free(p, 0);
        pair_free(p, 1);
        pair_take(p, 2, 30 * MIB, 0);
        assert_true(p->slots[2].address == newest);
        pair_finish(p);
    }
}

/* M026 step 3. */
static void test_a_callback_frees_before_the_device_is_asked(void **state)
{
    (void)state;
    pair *p = start(1000 * MIB, false);
    pair_take(p, 0, 40 * MIB, 0);
    pair_offer(p, 0);
    pair_take(p, 1, 30 * MIB, 0);
    assert_memory(p, 30 * MIB, 40 * MIB);
    pair_take(p, 2, 30 * MIB, 0); /* nothing more to let go */
    assert_memory(p, 60 * MIB, 70 * MIB);
    pair_finish(p);
}

/* M035: segments, not blocks. */
static void test_a_failure_names_the_segment(void **state)
{
    (void)state;
    pair *p = start(MIB, false);
    core_alloc_failure failure;
    assert_null(core_alloc_malloc(p->engine, NULL, 3 * MIB, "test:1", &failure));
    assert_int_equal(failure.segment, 20 * MIB);
    assert_int_equal(failure.requested, 3 * MIB);
    assert_null(core_alloc_malloc(p->engine, NULL, 600, "test:1", &failure));
    assert_int_equal(failure.segment, 2 * MIB);
    assert_int_equal(failure.block, 1024);
    assert_int_equal(failure.status, TERN_ERR_OOM);
    p->model->stats.ooms = p->model->stats.retries = p->model->stats.syncs = 2;
    pair_finish(p);
}

/* What empty_cache would return includes what waits for events, joined to its free neighbours. */
static void test_a_failure_counts_what_waits_as_returnable(void **state)
{
    (void)state;
    pair *p = start(40 * MIB, false);
    core_alloc_failure failure;
    const int pool = pair_pool_new(p, false);
    pair_take(p, 0, 3 * MIB, 0);
    pair_record_stream(p, 0, 2);
    pair_route_begin(p, pool, 1, true);
    pair_free(p, 0);
    assert_false(pair_malloc(p, 1, 30 * MIB, 1));
    pair_agree(p);
    assert_null(core_alloc_malloc(p->engine, (void *)(uintptr_t)1, 30 * MIB, "test:1", &failure));
    assert_int_equal(failure.returnable, 20 * MIB);
    p->model->stats.ooms++;
    pair_route_end(p, pool);
    pair_finish(p);
}

/* By the numbers that the model has for them, and the differential test compares. */
static void test_actions_have_pytorchs_names(void **state) /* M070 */
{
    (void)state;
    static const char *const names[] = {
        [CORE_ALLOC_TRACE_ALLOC] = "alloc",
        [CORE_ALLOC_TRACE_FREE_REQUESTED] = "free_requested",
        [CORE_ALLOC_TRACE_FREE_COMPLETED] = "free_completed",
        [CORE_ALLOC_TRACE_SEGMENT_ALLOC] = "segment_alloc",
        [CORE_ALLOC_TRACE_SEGMENT_FREE] = "segment_free",
        [CORE_ALLOC_TRACE_SEGMENT_MAP] = "segment_map",
        [CORE_ALLOC_TRACE_SEGMENT_UNMAP] = "segment_unmap",
        [CORE_ALLOC_TRACE_OOM] = "oom",
        [CORE_ALLOC_TRACE_SNAPSHOT] = "snapshot",
    };
    assert_int_equal(sizeof names / sizeof *names, CORE_ALLOC_ACTIONS);
    for (size_t i = 0; i < CORE_ALLOC_ACTIONS; i++)
        assert_string_equal(core_alloc_action_names[i], names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_expandable_segment_grows_by_pages),
        cmocka_unit_test(test_an_expandable_segment_is_split_at_512),
        cmocka_unit_test(test_free_pages_are_returned_and_taken_again),
        cmocka_unit_test(test_expandable_blocks_are_passed_over_when_switched_off),
        cmocka_unit_test(test_scattered_free_pages_serve_a_large_request),
        cmocka_unit_test(test_plain_oversize_blocks_go_before_expandable_pages),
        cmocka_unit_test(test_a_private_pool_keeps_its_segments_while_used),
        cmocka_unit_test(test_the_newest_matching_route_wins),
        cmocka_unit_test(test_a_capture_asks_no_event_and_flushes_nothing),
        cmocka_unit_test(test_deferred_frees_keep_their_order),
        cmocka_unit_test(test_a_willing_pool_helps_before_the_flush),
        cmocka_unit_test(test_the_newest_willing_pool_helps_first),
        cmocka_unit_test(test_a_callback_frees_before_the_device_is_asked),
        cmocka_unit_test(test_a_failure_names_the_segment),
        cmocka_unit_test(test_a_failure_counts_what_waits_as_returnable),
        cmocka_unit_test(test_actions_have_pytorchs_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
