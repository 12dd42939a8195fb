/* What others may do while a request is served: make room before raw memory is asked for (M026 step 3),
 * and look on when there is none (M032). Both run without locks. */
#include "tests/alloc/rig.h"
#include "tests/support/check.h"

typedef struct helper {
    rig *r;
    core_alloc_block *held;
    int calls;
    core_alloc_failure seen;
} helper;

static bool make_room(void *user)
{
    helper *h = user;
    h->calls++;
    if (h->held == NULL)
        return false;
    rig_free(h->r, h->held);
    h->held = NULL;
    return true;
}

static void test_reclaim_comes_before_raw_memory(void **state) /* M026 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    helper h = { .r = r, .held = rig_malloc(r, MIB(30)) };
    char *data = h.held->data;
    core_alloc_set_reclaim(r->a, make_room, &h);
    core_alloc_block *b = rig_malloc(r, MIB(30));
    assert_ptr_equal(b->data, data);
    assert_int_equal(raw_calls(&r->table, RAW_ALLOC), 1);
    assert_int_equal(h.calls, 1);
    core_alloc_block *more = rig_malloc(r, MIB(30)); /* nothing to give: raw memory */
    assert_int_equal(raw_calls(&r->table, RAW_ALLOC), 2);
    core_alloc_set_reclaim(r->a, NULL, NULL);
    rig_free(r, b);
    rig_free(r, more);
    rig_close(r);
}

static void look_on(void *user, const core_alloc_failure *failure)
{
    helper *h = user;
    h->calls++;
    h->seen = *failure;
    assert_int_equal(core_alloc_stats_of(h->r->a).num_ooms, h->calls);
    rig_free(h->r, rig_malloc(h->r, 100)); /* no lock is held */
}

static void test_observers_hear_of_each_failure(void **state) /* M032 M035 M038 */
{
    (void)state;
    rig *r = rig_open(MIB(100), "");
    helper h = { .r = r };
    core_alloc_set_observer(r->a, look_on, &h);
    assert_null(core_alloc_malloc(r->a, NULL, MIB(101), TERN_HERE, NULL));
    assert_int_equal(h.calls, 1);
    assert_int_equal(h.seen.status, TERN_ERR_OOM);
    assert_int_equal(h.seen.segment, MIB(102));
    assert_int_equal(h.seen.device_total, MIB(100));
    assert_int_equal(h.seen.allowed, -1);
    assert_int_equal(core_alloc_set_fraction(r->a, 0.25), TERN_OK);
    core_alloc_failure failure;
    assert_null(core_alloc_malloc(r->a, NULL, MIB(26), TERN_HERE, &failure));
    assert_int_equal(h.calls, 2);
    assert_int_equal(failure.allowed, MIB(25));
    assert_true(failure.by_fraction);
    rig_close(r);
}

static void test_a_failure_counts_what_is_where(void **state) /* M034 M039 */
{
    (void)state;
    rig *r = rig_open(MIB(100), "");
    core_alloc_block *x = rig_malloc(r, MIB(3)), *y = rig_malloc(r, MIB(3));
    rig_free(r, x);
    core_alloc_block *whole = rig_malloc(r, MIB(20));
    core_alloc_failure f;
    assert_null(core_alloc_malloc(r->a, NULL, MIB(90), TERN_HERE, &f));
    assert_int_equal(f.requested, MIB(90));
    assert_int_equal(f.allocated, MIB(23));
    assert_int_equal(f.reserved, MIB(40));
    assert_int_equal(f.device_free, MIB(60));
    assert_int_equal(f.inactive_split, MIB(17));
    assert_int_equal(f.largest_free, MIB(14));
    assert_int_equal(f.returnable, 0);
    rig_free(r, rig_malloc(r, MIB(60)));
    rig_free(r, y);
    rig_free(r, whole);
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reclaim_comes_before_raw_memory),
        cmocka_unit_test(test_observers_hear_of_each_failure),
        cmocka_unit_test(test_a_failure_counts_what_is_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
