/* The golden vectors and worked examples of the reference, on the allocator and on the model at once:
 * numbers here are the catalogue's, and both must agree with them and with each other. */
#include "tests/support/check.h"

#include "tests/alloc/pair_check.h"

static const int64_t KIB = 1 << 10, MIB = 1 << 20;

static pair *start(void)
{
    const model_settings defaults = model_defaults();
    return pair_start(1024 * MIB, &defaults);
}

static void assert_memory(pair *p, int64_t allocated, int64_t reserved, int64_t segments)
{
    assert_int_equal(pair_now(p, MODEL_ALLOCATED_BYTES), allocated);
    assert_int_equal(pair_now(p, MODEL_RESERVED_BYTES), reserved);
    assert_int_equal(pair_now(p, MODEL_SEGMENT), segments);
}

/* M006: request, block, segment; M001, M004, M005 decide them. */
static void test_requests_become_blocks_and_segments(void **state)
{
    (void)state;
    const int64_t vectors[][3] = {
        { 1, 512, 2 * MIB },
        { 511, 512, 2 * MIB },
        { 512, 512, 2 * MIB },
        { 513, 1024, 2 * MIB },
        { MIB, MIB, 2 * MIB },
        { MIB + 1, 1049088, 20 * MIB },
        { 10 * MIB - 1, 10 * MIB, 10 * MIB },
        { 10 * MIB, 10 * MIB, 10 * MIB },
        { 10 * MIB + 1, 10486272, 12 * MIB },
        { 11 * MIB, 12 * MIB, 12 * MIB },
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        pair *p = start();
        pair_take(p, 0, vectors[i][0], 0);
        const int64_t slack = vectors[i][2] - vectors[i][1];
        /* M016: 12 MiB less 10486272 leaves more than 1 MiB, 12 MiB less 11 MiB does not */
        assert_true(slack >= 0);
        assert_memory(p, vectors[i][1], vectors[i][2], 1);
        assert_int_equal(pair_now(p, MODEL_REQUESTED_BYTES), vectors[i][0]);
        pair_finish(p);
    }
}

/* Rounded by the allocator's rule and by the model's. */
static int64_t rounded(const model_settings *settings, int64_t bytes)
{
    core_alloc_settings s;
    char why[CORE_ALLOC_WHY_BYTES], text[PAIR_TEXT];
    core_alloc_settings_init(&s);
    pair_settings_text(settings, text, sizeof text);
    assert_int_equal(core_alloc_settings_parse(&s, text, true, why), TERN_OK);
    assert_int_equal(core_alloc_round(&s, bytes), model_round(settings, bytes));
    return model_round(settings, bytes);
}

static int64_t rounded_by(int divisions, int64_t bytes)
{
    model_settings s = model_defaults();
    for (int i = 0; i < MODEL_INTERVALS; i++)
        s.divisions[i] = divisions;
    return rounded(&s, bytes);
}

/* M007, M008, M009. */
static void test_rounding_by_divisions_of_powers_of_two(void **state)
{
    (void)state;
    assert_int_equal(rounded_by(4, 1200), 1536);
    assert_int_equal(rounded_by(4, 2048), 2048);
    assert_int_equal(rounded_by(4, 2049), 2560);
    assert_int_equal(rounded_by(2, 300 * MIB), 384 * MIB);
    assert_int_equal(rounded_by(4, 514 * MIB), 640 * MIB);
    assert_int_equal(rounded_by(1, 514 * MIB), 514 * MIB);
    assert_int_equal(rounded_by(8, 512 * MIB), 512 * MIB);
    assert_int_equal(rounded_by(0, 514 * MIB + 1), 514 * MIB + 512);
}

/* M010: keys below the first take its value, '>' fills the rest. */
static void test_rounding_by_intervals(void **state)
{
    (void)state;
    const char *conf = "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]";
    core_alloc_settings s;
    char why[CORE_ALLOC_WHY_BYTES];
    core_alloc_settings_init(&s);
    assert_int_equal(core_alloc_settings_parse(&s, conf, true, why), TERN_OK);
    model_settings mine = model_defaults();
    for (int i = 0; i < MODEL_INTERVALS; i++) {
        mine.divisions[i] = i <= 8 ? 1 : i == 9 ? 2 : i == 10 ? 4 : 8;
        assert_int_equal(s.divisions[i], mine.divisions[i]);
    }
    assert_int_equal(rounded(&mine, 300 * MIB), 300 * MIB);
    assert_int_equal(rounded(&mine, 600 * MIB), 768 * MIB);
    assert_int_equal(rounded(&mine, 1100 * MIB), 1280 * MIB);
    assert_int_equal(rounded(&mine, 2100 * MIB), 2304 * MIB);
    assert_int_equal(rounded(&mine, INT64_C(70) << 30), INT64_C(72) << 30);
}

static void test_rounding_of_any_size_agrees(void **state)
{
    (void)state;
    for (int divisions = 0; divisions <= 64; divisions = divisions == 0 ? 1 : 2 * divisions) {
        for (int64_t at = 256; at < INT64_C(1) << 38; at += at / 7 + 1)
            rounded_by(divisions, at);
    }
}

/* M002, M003. */
static void test_zero_bytes_and_absurd_sizes(void **state)
{
    (void)state;
    pair *p = start();
    assert_false(pair_malloc(p, 0, 0, 0));
    assert_false(pair_malloc(p, 0, INT64_C(1) << 60, 0));
    assert_false(pair_malloc(p, 0, INT64_MAX, 0));
    assert_memory(p, 0, 0, 0);
    assert_int_equal(raw_calls(&p->table, RAW_ALLOC), 0);
    pair_finish(p);
}

/* M064. */
static void test_four_small_requests_share_a_segment(void **state)
{
    (void)state;
    pair *p = start();
    for (int i = 0; i < 4; i++)
        pair_take(p, i, 4000, 0);
    assert_memory(p, 16384, 2 * MIB, 1);
    for (int i = 0; i < 4; i++)
        pair_give(p, i);
    assert_memory(p, 0, 2 * MIB, 1);
    pair_empty_cache(p);
    assert_memory(p, 0, 0, 0);
    pair_finish(p);
}

/* M065, M046, M057. */
static void test_a_live_neighbour_holds_its_segment(void **state)
{
    (void)state;
    pair *p = start();
    pair_take(p, 0, 3 * MIB, 0);
    pair_take(p, 1, 3 * MIB, 0);
    assert_memory(p, 6 * MIB, 20 * MIB, 1);
    pair_give(p, 0);
    pair_empty_cache(p);
    assert_memory(p, 3 * MIB, 20 * MIB, 1);
    assert_int_equal(pair_now(p, MODEL_INACTIVE_SPLIT), 2);
    assert_int_equal(pair_now(p, MODEL_INACTIVE_SPLIT_BYTES), 17 * MIB);
    pair_give(p, 1);
    pair_empty_cache(p);
    assert_memory(p, 0, 0, 0);
    pair_finish(p);
}

/* M066, M012, M013. */
static void test_streams_do_not_share_cached_blocks(void **state)
{
    (void)state;
    pair *p = start();
    pair_take(p, 0, 4 * MIB, 0);
    pair_give(p, 0);
    pair_take(p, 1, 4 * MIB, 1);
    assert_memory(p, 4 * MIB, 40 * MIB, 2);
    pair_take(p, 2, 4 * MIB, 0);
    assert_memory(p, 8 * MIB, 40 * MIB, 2);
    pair_finish(p);
}

/* M067. */
static void test_small_pool_packs_600_kib(void **state)
{
    (void)state;
    pair *p = start();
    for (int i = 0; i < 4; i++)
        pair_take(p, i, 600 * KIB, 0);
    assert_memory(p, 2457600, 4 * MIB, 2);
    pair_finish(p);
}

/* M015, M016, M018. */
static void test_what_is_split(void **state)
{
    (void)state;
    pair *p = start();
    pair_take(p, 0, 19 * MIB, 0); /* a segment of its own: 20 MiB, 1 MiB is not more than 1 MiB */
    assert_memory(p, 20 * MIB, 20 * MIB, 1);
    assert_int_equal(pair_now(p, MODEL_REQUESTED_BYTES), 19 * MIB);
    pair_give(p, 0);
    pair_take(p, 0, 19 * MIB + 512 * KIB, 0); /* and all of a cached one */
    assert_memory(p, 20 * MIB, 20 * MIB, 1);
    pair_give(p, 0);
    pair_take(p, 0, 19 * MIB - 512, 0);
    assert_memory(p, 19 * MIB - 512, 20 * MIB, 1);
    pair_take(p, 1, MIB, 0);
    pair_take(p, 2, MIB - 512, 0); /* 512 bytes of the small segment are left: a block */
    assert_int_equal(pair_now(p, MODEL_ALLOCATED_BYTES), 21 * MIB - 1024);
    pair_take(p, 3, 1, 0);
    assert_memory(p, 21 * MIB - 512, 22 * MIB, 2);
    pair_finish(p);
}

/* M011, M019. */
static void test_best_fit_takes_the_smallest_then_the_lowest(void **state)
{
    (void)state;
    pair *p = start();
    const int64_t sizes[] = { 3, 1, 2, 1, 3, 1, 2, 1 }; /* in units of 2 MiB; 1: keeps them apart */
    for (int i = 0; i < 8; i++)
        pair_take(p, i, sizes[i] * 2 * MIB, 0);
    const uint64_t lower = p->slots[2].address, greater = p->slots[0].address;
    for (int i = 0; i < 8; i += 2)
        pair_give(p, i);
    pair_take(p, 10, 3 * MIB, 0);
    assert_true(p->slots[10].address == lower);
    pair_take(p, 11, 6 * MIB, 0);
    assert_true(p->slots[11].address == greater);
    pair_finish(p);
}

/* M020. */
static void test_freed_neighbours_become_one(void **state)
{
    (void)state;
    pair *p = start();
    for (int i = 0; i < 3; i++)
        pair_take(p, i, 4 * MIB, 0);
    pair_give(p, 0);
    pair_give(p, 2); /* joins the rest of the segment */
    assert_int_equal(pair_now(p, MODEL_INACTIVE_SPLIT), 2);
    pair_give(p, 1);
    assert_int_equal(pair_now(p, MODEL_INACTIVE_SPLIT), 0);
    pair_take(p, 3, 20 * MIB, 0);
    assert_memory(p, 20 * MIB, 20 * MIB, 1);
    pair_finish(p);
}

/* M021, M056. */
static void test_a_block_with_users_stays_active(void **state)
{
    (void)state;
    pair *p = start();
    pair_take(p, 0, 4 * MIB, 0);
    const uint64_t address = p->slots[0].address;
    pair_record_stream(p, 0, 0); /* its own stream is no user */
    pair_record_stream(p, 0, 1);
    pair_record_stream(p, 0, 2);
    pair_give(p, 0);
    assert_int_equal(pair_now(p, MODEL_ALLOCATED_BYTES), 0);
    assert_int_equal(pair_now(p, MODEL_ACTIVE_BYTES), 4 * MIB);
    assert_int_equal(pair_now(p, MODEL_ACTIVE), 1);
    pair_advance(p, 1, 1);
    pair_take(p, 1, 4 * MIB, 0); /* one of its users is not done */
    assert_true(p->slots[1].address != address);
    assert_int_equal(pair_now(p, MODEL_ACTIVE_BYTES), 8 * MIB);
    pair_advance(p, 2, 1);
    pair_process_events(p);
    assert_int_equal(pair_now(p, MODEL_ACTIVE_BYTES), 4 * MIB);
    pair_finish(p);
}

/* M022. */
static void test_unknown_pointers_are_refused(void **state)
{
    (void)state;
    pair *p = start();
    pair_take(p, 0, 100, 0);
    assert_int_equal(core_alloc_free(p->engine, NULL), TERN_OK);
    assert_int_equal(core_alloc_free_data(p->engine, NULL), TERN_OK);
    assert_int_equal(core_alloc_free_data(p->engine, p->slots[0].block->data + 512),
                     TERN_ERR_ARGUMENT);
    assert_int_equal(core_alloc_free_data(p->engine, p->slots[0].block->data + 1),
                     TERN_ERR_ARGUMENT);
    assert_ptr_equal(core_alloc_find(p->engine, p->slots[0].block->data), p->slots[0].block);
    assert_int_equal(model_free(p->model, p->slots[0].address + 512), MODEL_UNKNOWN_POINTER);
    pair_finish(p);
}

static pair *start_oversize(int64_t capacity)
{
    model_settings s = model_defaults();
    s.max_split = 128 * MIB;
    return pair_start(capacity, &s);
}

/* M023, M024, M025, M014. */
static void test_oversize_blocks_are_for_oversize_requests(void **state)
{
    (void)state;
    pair *p = start_oversize(2048 * MIB);
    pair_take(p, 0, 200 * MIB, 0);
    pair_give(p, 0);
    pair_take(p, 1, 50 * MIB, 0);
    assert_memory(p, 50 * MIB, 250 * MIB, 2);
    pair_take(p, 2, 179 * MIB, 0);
    assert_memory(p, 230 * MIB, 430 * MIB, 3); /* 180 MiB: rounded to 2 MiB, not split */
    pair_take(p, 3, 185 * MIB, 0);
    assert_memory(p, 430 * MIB, 430 * MIB, 3);
    assert_int_equal(p->model->stats.oversize_allocations.current, 2);
    assert_int_equal(p->model->stats.oversize_segments.current, 2);
    pair_finish(p);
}

/* M030, M026 step 7: one that suffices, then several from the largest on. */
static void test_oversize_blocks_are_released_before_the_rest(void **state)
{
    (void)state;
    pair *p = start_oversize(700 * MIB);
    pair_take(p, 9, 30 * MIB, 0);
    pair_give(p, 9);
    pair_take(p, 0, 200 * MIB, 0);
    pair_take(p, 1, 150 * MIB, 0);
    pair_take(p, 2, 130 * MIB, 0);
    for (int i = 0; i < 3; i++)
        pair_give(p, i);
    pair_take(p, 3, 220 * MIB, 0); /* 510 held; no block suffices: 200, then 150 */
    assert_memory(p, 220 * MIB, 380 * MIB, 3);
    assert_int_equal(p->model->stats.retries, 0);
    assert_int_equal(p->model->stats.syncs, 0);
    pair_finish(p);
}

/* M026 step 8, M027, M028, M039. */
static void test_the_cache_is_flushed_before_memory_is_used_up(void **state)
{
    (void)state;
    const model_settings defaults = model_defaults();
    pair *p = pair_start(64 * MIB, &defaults);
    pair_take(p, 0, 30 * MIB, 0);
    pair_take(p, 1, 30 * MIB, 1);
    pair_record_stream(p, 0, 1);
    pair_give(p, 0);
    pair_take(p, 2, 34 * MIB, 0); /* waits for stream 1 */
    assert_memory(p, 64 * MIB, 64 * MIB, 2);
    assert_int_equal(p->model->stats.retries, 1);
    assert_int_equal(p->model->stats.syncs, 1);
    assert_int_equal(p->model->stats.ooms, 0);
    assert_false(pair_malloc(p, 3, 3 * MIB, 0));
    assert_memory(p, 64 * MIB, 64 * MIB, 2);
    assert_int_equal(p->model->stats.retries, 2);
    assert_int_equal(p->model->stats.ooms, 1);
    pair_give(p, 1);
    pair_take(p, 3, 3 * MIB, 0);
    assert_memory(p, 37 * MIB, 54 * MIB, 2);
    pair_finish(p);
}

/* M029, M061: what is reserved counts. */
static void test_a_fraction_limits_what_is_reserved(void **state)
{
    (void)state;
    const model_settings defaults = model_defaults();
    pair *p = pair_start(100 * MIB, &defaults);
    pair_set_fraction(p, 0.5);
    pair_take(p, 0, 3 * MIB, 0);
    pair_take(p, 1, 29 * MIB, 0); /* 20 + 30 */
    assert_memory(p, 33 * MIB, 50 * MIB, 2);
    pair_take(p, 2, 17 * MIB, 0);
    assert_false(pair_malloc(p, 3, 1, 0));
    assert_int_equal(p->model->stats.ooms, 1);
    assert_int_equal(core_alloc_set_fraction(p->engine, 1.5), TERN_ERR_ARGUMENT);
    assert_int_equal(core_alloc_set_fraction(p->engine, -0.1), TERN_ERR_ARGUMENT);
    pair_set_fraction(p, 1);
    pair_take(p, 3, 1, 0);
    pair_finish(p);
}

/* M041-M044: only with a fraction, above threshold x allowed, those of at least the mean age. */
static void test_garbage_collection_takes_the_old(void **state)
{
    (void)state;
    model_settings s = model_defaults();
    s.gc_threshold = 0.6;
    for (int with_fraction = 0; with_fraction < 2; with_fraction++) {
        pair *p = pair_start(200 * MIB, &s);
        if (with_fraction)
            pair_set_fraction(p, 1);
        pair_take(p, 0, 40 * MIB, 0);
        pair_take(p, 1, 60 * MIB, 0);
        pair_give(p, 0);
        pair_take(p, 2, 50 * MIB, 1);
        pair_give(p, 1);
        pair_take(p, 3, 40 * MIB,
                  2); /* 150 held, 120 are allowed to be: ages 2 and 1, the first goes */
        assert_memory(p, 90 * MIB, (with_fraction ? 150 : 190) * MIB, with_fraction ? 3 : 4);
        pair_finish(p);
    }
}

/* M041, M043: ages grow only while garbage is collected, and that takes a fraction. */
static void test_ages_grow_only_with_a_fraction(void **state)
{
    (void)state;
    model_settings s = model_defaults();
    s.gc_threshold = 0.4;
    pair *p = pair_start(200 * MIB, &s);
    pair_take(p, 0, 40 * MIB, 0);
    pair_give(p, 0);
    pair_take(p, 1, 60 * MIB, 1);
    pair_give(p, 1);
    pair_set_fraction(p, 1);
    pair_take(p, 2, 50 * MIB, 2); /* 100 held, 80 allowed: both are of the same age */
    assert_memory(p, 50 * MIB, 50 * MIB, 1);
    pair_finish(p);
}

/* M049, M050. */
static void test_peaks_and_totals_are_reset(void **state)
{
    (void)state;
    pair *p = start();
    pair_take(p, 0, 4 * MIB, 0);
    pair_take(p, 1, 4 * MIB, 0);
    pair_give(p, 0);
    assert_int_equal(p->model->stats.of[MODEL_ALLOCATED_BYTES][MODEL_ALL].peak, 8 * MIB);
    pair_reset_peaks(p);
    pair_agree(p);
    assert_int_equal(p->model->stats.of[MODEL_ALLOCATED_BYTES][MODEL_ALL].peak, 4 * MIB);
    pair_reset_accumulated(p);
    pair_agree(p);
    assert_int_equal(p->model->stats.of[MODEL_ALLOCATED_BYTES][MODEL_ALL].allocated, 0);
    pair_give(p, 1);
    assert_int_equal(p->model->stats.of[MODEL_ALLOCATED_BYTES][MODEL_ALL].freed, 4 * MIB);
    pair_finish(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_become_blocks_and_segments),
        cmocka_unit_test(test_rounding_by_divisions_of_powers_of_two),
        cmocka_unit_test(test_rounding_by_intervals),
        cmocka_unit_test(test_rounding_of_any_size_agrees),
        cmocka_unit_test(test_zero_bytes_and_absurd_sizes),
        cmocka_unit_test(test_four_small_requests_share_a_segment),
        cmocka_unit_test(test_a_live_neighbour_holds_its_segment),
        cmocka_unit_test(test_streams_do_not_share_cached_blocks),
        cmocka_unit_test(test_small_pool_packs_600_kib),
        cmocka_unit_test(test_what_is_split),
        cmocka_unit_test(test_best_fit_takes_the_smallest_then_the_lowest),
        cmocka_unit_test(test_freed_neighbours_become_one),
        cmocka_unit_test(test_a_block_with_users_stays_active),
        cmocka_unit_test(test_unknown_pointers_are_refused),
        cmocka_unit_test(test_oversize_blocks_are_for_oversize_requests),
        cmocka_unit_test(test_oversize_blocks_are_released_before_the_rest),
        cmocka_unit_test(test_the_cache_is_flushed_before_memory_is_used_up),
        cmocka_unit_test(test_a_fraction_limits_what_is_reserved),
        cmocka_unit_test(test_garbage_collection_takes_the_old),
        cmocka_unit_test(test_ages_grow_only_with_a_fraction),
        cmocka_unit_test(test_peaks_and_totals_are_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
