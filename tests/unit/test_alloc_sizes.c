/* Sizes, splits, merges and the documented scenarios of the caching allocator (M001-M025, M064-M067). */
#include "tests/alloc/rig.h"
#include "tests/support/check.h"

static void test_golden_vectors(void **state) /* M001 M004 M005 M006 M018 */
{
    (void)state;
    static const struct {
        int64_t bytes, block, segment;
    } rows[] = {
        { 1, 512, MIB(2) },
        { 513, 1024, MIB(2) },
        { MIB(1), MIB(1), MIB(2) },
        { MIB(1) + 1, 1049088, MIB(20) },
        { MIB(10) - 1, MIB(10), MIB(10) },
        { MIB(10) + 1, 10486272, MIB(12) },
        { MIB(11), MIB(12), MIB(12) },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rig *r = rig_open(GIB(1), "");
        core_alloc_block *b = rig_malloc(r, rows[i].bytes);
        assert_int_equal(rig_allocated(r), rows[i].block);
        assert_int_equal(b->size, rig_allocated(r));
        assert_int_equal(rig_reserved(r), rows[i].segment);
        assert_int_equal(b->requested, rows[i].bytes);
        rig_free(r, b);
        rig_close(r);
    }
}

static void test_zero_bytes_is_nothing(void **state) /* M002 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    core_alloc_failure failure = { .status = TERN_ERR_IO };
    assert_null(core_alloc_malloc(r->a, NULL, 0, NULL, &failure));
    assert_int_equal(failure.status, TERN_OK);
    assert_int_equal(raw_calls(&r->table, RAW_ALLOC), 0);
    assert_int_equal(core_alloc_stats_of(r->a).num_ooms, 0);
    rig_close(r);
}

static void test_an_exabyte_is_refused(void **state) /* M003 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    core_alloc_failure failure;
    assert_null(core_alloc_malloc(r->a, NULL, INT64_C(1) << 60, NULL, &failure));
    assert_int_equal(failure.status, TERN_ERR_OOM);
    assert_int_equal(raw_calls(&r->table, RAW_ALLOC), 0);
    rig_close(r);
}

static int64_t rounded(const char *divisions, int64_t bytes)
{
    core_alloc_settings s;
    char why[CORE_ALLOC_WHY_BYTES];
    core_alloc_settings_init(&s);
    if (core_alloc_settings_parse(&s, divisions, true, why) != TERN_OK)
        fail_msg("%s", why);
    return core_alloc_round(&s, bytes);
}

static void test_rounding_by_divisions(void **state) /* M007 M008 M009 */
{
    (void)state;
    assert_int_equal(rounded("roundup_power2_divisions:4", 1200), 1536);
    assert_int_equal(rounded("roundup_power2_divisions:4", 2049), 2560);
    assert_int_equal(rounded("roundup_power2_divisions:2", MIB(300)), MIB(384));
    assert_int_equal(rounded("roundup_power2_divisions:4", MIB(514)), MIB(640));
    assert_int_equal(rounded("roundup_power2_divisions:4", MIB(512)), MIB(512));
    assert_int_equal(rounded("roundup_power2_divisions:1", MIB(514)), MIB(514));
}

static void test_rounding_by_interval(void **state) /* M010 */
{
    (void)state;
    const char *list = "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]";
    assert_int_equal(rounded(list, MIB(3)), MIB(3));
    assert_int_equal(rounded(list, MIB(300)), MIB(300));
    assert_int_equal(rounded(list, MIB(600)), MIB(768));
    assert_int_equal(rounded(list, MIB(1100)), MIB(1280));
    assert_int_equal(rounded(list, GIB(2) + MIB(1)), GIB(2) + MIB(256));
    assert_int_equal(rounded(list, GIB(64) + MIB(1)), GIB(72));
}

static void test_four_requests_share_a_segment(void **state) /* M064 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    core_alloc_block *b[4];
    for (int i = 0; i < 4; i++)
        b[i] = rig_malloc(r, 4000);
    assert_int_equal(rig_allocated(r), 16384);
    assert_int_equal(rig_reserved(r), MIB(2));
    assert_int_equal(rig_segments(r), 1);
    for (int i = 0; i < 4; i++)
        rig_free(r, b[i]);
    assert_int_equal(rig_allocated(r), 0);
    assert_int_equal(rig_reserved(r), MIB(2));
    assert_int_equal(core_alloc_empty_cache(r->a), TERN_OK);
    assert_int_equal(rig_reserved(r), 0);
    rig_close(r);
}

static void test_fragmentation_keeps_a_segment(void **state) /* M045 M046 M057 M065 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    core_alloc_block *x = rig_malloc(r, MIB(3)), *y = rig_malloc(r, MIB(3));
    assert_int_equal(rig_reserved(r), MIB(20));
    rig_free(r, x);
    assert_int_equal(core_alloc_empty_cache(r->a), TERN_OK);
    assert_int_equal(rig_reserved(r), MIB(20));
    assert_int_equal(rig_stat(r, CORE_ALLOC_INACTIVE_SPLIT, CORE_ALLOC_ALL).current, 2);
    assert_int_equal(rig_stat(r, CORE_ALLOC_INACTIVE_SPLIT_BYTES, CORE_ALLOC_ALL).current, MIB(17));
    rig_free(r, y);
    assert_int_equal(core_alloc_empty_cache(r->a), TERN_OK);
    assert_int_equal(rig_reserved(r), 0);
    rig_close(r);
}

static void test_streams_do_not_share(void **state) /* M011 M012 M066 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    rig_free(r, rig_malloc(r, MIB(4)));
    core_alloc_block *b = core_alloc_malloc(r->a, rig_stream(1), MIB(4), NULL, NULL);
    assert_int_equal(rig_segments(r), 2);
    assert_int_equal(rig_reserved(r), MIB(40));
    rig_free(r, b);
    rig_close(r);
}

static void test_small_requests_pack(void **state) /* M067 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    core_alloc_block *b[4];
    for (int i = 0; i < 4; i++)
        b[i] = rig_malloc(r, KIB(600));
    assert_int_equal(rig_segments(r), 2);
    assert_int_equal(rig_reserved(r), MIB(4));
    assert_int_equal(rig_allocated(r), 2457600);
    for (int i = 0; i < 4; i++)
        rig_free(r, b[i]);
    rig_close(r);
}

static void test_split_of_a_large_block_needs_a_mebibyte(void **state) /* M015 M016 M019 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    core_alloc_block *held = rig_malloc(r, MIB(20));
    char *first = held->data;
    rig_free(r, held);
    held = rig_malloc(r, MIB(20) - KIB(512));
    assert_ptr_equal(held->data, first);
    assert_int_equal(held->size, MIB(20));
    rig_free(r, held);
    held = rig_malloc(r, MIB(18));
    assert_int_equal(held->size, MIB(18));
    core_alloc_block *small = rig_malloc(r, MIB(1)), *rest = rig_malloc(r, MIB(2));
    assert_ptr_equal(rest->data, first + MIB(18));
    assert_int_equal(small->size, MIB(1));
    rig_free(r, held);
    rig_free(r, small);
    rig_free(r, rest);
    rig_close(r);
}

static void test_neighbours_merge(void **state) /* M020 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    core_alloc_block *b[3];
    for (int i = 0; i < 3; i++)
        b[i] = rig_malloc(r, KIB(64));
    char *first = b[0]->data;
    rig_free(r, b[0]);
    rig_free(r, b[2]);
    assert_int_equal(rig_stat(r, CORE_ALLOC_INACTIVE_SPLIT, CORE_ALLOC_ALL).current, 2);
    rig_free(r, b[1]);
    assert_int_equal(rig_stat(r, CORE_ALLOC_INACTIVE_SPLIT, CORE_ALLOC_ALL).current, 0);
    core_alloc_block *whole = rig_malloc(r, MIB(1));
    assert_ptr_equal(whole->data, first);
    rig_free(r, whole);
    rig_close(r);
}

static void test_best_fit_takes_the_lowest_address(void **state) /* M011 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    core_alloc_block *b[7];
    for (int i = 0; i < 7; i++)
        b[i] = rig_malloc(r, i == 1 ? KIB(32) : KIB(16));
    char *lower = b[3]->data;
    rig_free(r, b[5]);
    rig_free(r, b[1]);
    rig_free(r, b[3]);
    core_alloc_block *again = rig_malloc(r, KIB(16));
    assert_ptr_equal(again->data, lower);
    rig_free(r, again);
    rig_free(r, b[0]);
    rig_free(r, b[2]);
    rig_free(r, b[4]);
    rig_free(r, b[6]);
    rig_close(r);
}

static void test_max_split_size(void **state) /* M014 M023 M024 M025 */
{
    (void)state;
    rig *r = rig_open(GIB(2), "max_split_size_mb:128");
    core_alloc_block *big = rig_malloc(r, MIB(200));
    rig_free(r, big);
    core_alloc_block *b = rig_malloc(r, MIB(50));
    assert_int_equal(rig_segments(r), 2);
    core_alloc_block *whole = rig_malloc(r, MIB(185));
    assert_int_equal(rig_segments(r), 2);
    assert_int_equal(whole->size, MIB(200));
    const core_alloc_stats stats = core_alloc_stats_of(r->a);
    assert_int_equal(stats.oversize_allocations.current, 1);
    assert_int_equal(stats.oversize_segments.current, 1);
    assert_int_equal(stats.max_split_size, MIB(128));
    rig_free(r, whole);
    core_alloc_block *other = rig_malloc(r, MIB(179));
    assert_int_equal(rig_segments(r), 3);
    rig_free(r, other);
    rig_free(r, b);
    rig_close(r);
}

static void test_what_is_not_in_use_cannot_be_freed(void **state) /* M022 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    core_alloc_block *b = rig_malloc(r, 100);
    assert_int_equal(core_alloc_free_data(r->a, b->data + 1), TERN_ERR_ARGUMENT);
    assert_ptr_equal(core_alloc_find(r->a, b->data), b);
    rig_free(r, b);
    assert_int_equal(core_alloc_free(r->a, b), TERN_ERR_ARGUMENT);
    assert_int_equal(core_alloc_free(r->a, NULL), TERN_OK);
    assert_int_equal(core_alloc_free_data(r->a, NULL), TERN_OK);
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_vectors),
        cmocka_unit_test(test_zero_bytes_is_nothing),
        cmocka_unit_test(test_an_exabyte_is_refused),
        cmocka_unit_test(test_rounding_by_divisions),
        cmocka_unit_test(test_rounding_by_interval),
        cmocka_unit_test(test_four_requests_share_a_segment),
        cmocka_unit_test(test_fragmentation_keeps_a_segment),
        cmocka_unit_test(test_streams_do_not_share),
        cmocka_unit_test(test_small_requests_pack),
        cmocka_unit_test(test_split_of_a_large_block_needs_a_mebibyte),
        cmocka_unit_test(test_neighbours_merge),
        cmocka_unit_test(test_best_fit_takes_the_lowest_address),
        cmocka_unit_test(test_max_split_size),
        cmocka_unit_test(test_what_is_not_in_use_cannot_be_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
