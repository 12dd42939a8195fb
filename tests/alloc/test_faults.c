/* Every raw call of a run fails in turn, once as "not enough memory" and once as a fault of the device,
 * and every request for host memory. Whatever fails: the allocator's numbers add up to what the device really gave, the rest of the run
 * works, and nothing is left or returned twice at the end. */
#include "tests/support/check.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tern/debug.h"
#include "tests/alloc/script.h"

enum { OPS = 160, SEEDS = 12, SLOTS = 512 };

typedef struct run {
    raw_double *d;
    raw_table table;
    core_alloc *a;
    core_alloc_block *blocks[SLOTS];
    uint64_t pools[PAIR_POOLS];
    int pool_count;
    bool released[PAIR_POOLS], routed[PAIR_POOLS];
    bool host;       /* host memory fails, not a raw call */
    int64_t refused; /* requests that the failure cost */
} run;

static void ask_for_failure(run *r, int64_t k)
{
    if (r->host)
        tern_debug_fail_allocation(k);
    else
        raw_fail_any(&r->table, k);
}

static int64_t failures(run *r)
{
    return r->host ? tern_debug_allocations_left() <= 0 : raw_failures(&r->table);
}

/* What the allocator says it holds is what the device gave, and the blocks say what the counters say. */
static void check(run *r, const script *s, int64_t k, int at)
{
    char why[CORE_ALLOC_WHY_BYTES] = "";
    if (!core_alloc_check(r->a, why))
        fail_msg("call %" PRId64 " fails, operation %d: %s", k, at, why);
    const core_alloc_stats stats = core_alloc_stats_of(r->a);
    const int64_t reserved = stats.family[CORE_ALLOC_RESERVED_BYTES][CORE_ALLOC_ALL].current;
    int64_t allocated = 0, count = 0;
    for (int i = 0; i < SLOTS; i++) {
        allocated += r->blocks[i] != NULL ? r->blocks[i]->size : 0;
        count += r->blocks[i] != NULL;
    }
    if (reserved != raw_used(r->d) || raw_misuse(r->d) != NULL ||
        allocated != stats.family[CORE_ALLOC_ALLOCATED_BYTES][CORE_ALLOC_ALL].current ||
        count != stats.family[CORE_ALLOC_ALLOCATION][CORE_ALLOC_ALL].current) {
        script_print(s);
        fail_msg("call %" PRId64 " fails: after operation %d %" PRId64
                 " bytes are reserved, %" PRId64 " taken; misuse: %s",
                 k, at, reserved, raw_used(r->d), raw_misuse(r->d) ? raw_misuse(r->d) : "none");
    }
}

static void take(run *r, const script_op *op)
{
    core_alloc_failure failure = { .status = TERN_OK };
    if (r->blocks[op->slot] != NULL)
        return;
    const int64_t before = failures(r);
    r->blocks[op->slot] =
        core_alloc_malloc(r->a, (void *)(uintptr_t)op->stream, op->value, "t:1", &failure);
    if (r->blocks[op->slot] != NULL || op->value == 0)
        return;
    r->refused++;
    if (failure.status == TERN_OK)
        fail_msg("a request of %" PRId64 " bytes failed without a reason", op->value);
    if (failure.status != TERN_ERR_OOM && failures(r) == before)
        fail_msg("a request failed by %d, but no raw call did", (int)failure.status);
}

static void apply_pool(run *r, const script_op *op)
{
    if (op->kind == SCRIPT_POOL_NEW && r->pool_count < PAIR_POOLS) {
        const uint64_t made = core_alloc_pool_new(r->a, op->value != 0);
        if (made != 0)
            r->pools[r->pool_count++] = made;
        return;
    }
    if (op->slot >= r->pool_count)
        return;
    const uint64_t pool = r->pools[op->slot];
    if (op->kind == SCRIPT_ROUTE_BEGIN && !r->released[op->slot] && !r->routed[op->slot]) {
        const unsigned flags = (unsigned)CORE_ALLOC_ROUTE_THREAD |
                               (op->value != 0 ? (unsigned)CORE_ALLOC_ROUTE_CAPTURE : 0u);
        r->routed[op->slot] = core_alloc_route_begin(r->a, pool, flags, NULL) == TERN_OK;
    } else if (op->kind == SCRIPT_ROUTE_END && r->routed[op->slot]) {
        r->routed[op->slot] = false;
        core_alloc_route_end(r->a, pool);
    } else if (op->kind == SCRIPT_POOL_RELEASE && !r->released[op->slot]) {
        r->released[op->slot] = true;
        core_alloc_pool_release(r->a, pool);
    }
}

/* Statuses are not looked at: any call may be the one that fails. */
static void apply(run *r, const script_op *op)
{
    switch (op->kind) {
    case SCRIPT_MALLOC:
        take(r, op);
        break;
    case SCRIPT_FREE:
        core_alloc_free(r->a, r->blocks[op->slot]);
        r->blocks[op->slot] = NULL;
        break;
    case SCRIPT_RECORD:
        if (r->blocks[op->slot] != NULL)
            core_alloc_record_stream(r->a, r->blocks[op->slot], (void *)(uintptr_t)op->stream);
        break;
    case SCRIPT_ADVANCE:
        raw_advance(r->d, op->stream, op->value);
        break;
    case SCRIPT_PROCESS:
        core_alloc_process_events(r->a);
        break;
    case SCRIPT_EMPTY:
        core_alloc_empty_cache(r->a);
        break;
    case SCRIPT_FRACTION:
        core_alloc_set_fraction(r->a, (double)op->value / 1000);
        break;
    case SCRIPT_CAPACITY:
        raw_set_capacity(r->d, op->value);
        break;
    default:
        apply_pool(r, op);
    }
}

static void configure(run *r, const script *s)
{
    char text[PAIR_TEXT], why[CORE_ALLOC_WHY_BYTES];
    core_alloc_settings settings = core_alloc_settings_of(r->a);
    pair_settings_text(&s->settings, text, sizeof text);
    assert_int_equal(core_alloc_settings_parse(&settings, text, true, why), TERN_OK);
    assert_int_equal(core_alloc_configure(r->a, &settings), TERN_OK);
    if (s->fraction > 0)
        core_alloc_set_fraction(r->a, s->fraction);
}

/* The device is well again: everything can be returned, nothing is poisoned. */
static void wind_up(run *r, const script *s, int64_t k)
{
    ask_for_failure(r, 0);
    raw_set_capacity(r->d, s->capacity);
    for (int i = 0; i < r->pool_count; i++) {
        if (r->routed[i])
            assert_int_equal(core_alloc_route_end(r->a, r->pools[i]), TERN_OK);
        if (!r->released[i])
            assert_int_equal(core_alloc_pool_release(r->a, r->pools[i]), TERN_OK);
    }
    for (int i = 0; i < SLOTS; i++) {
        assert_int_equal(core_alloc_free(r->a, r->blocks[i]), TERN_OK);
        r->blocks[i] = NULL;
    }
    assert_int_equal(core_alloc_empty_cache(r->a), TERN_OK);
    check(r, s, k, s->count);
    if (raw_used(r->d) != 0)
        fail_msg("call %" PRId64 " fails: %" PRId64 " bytes are not returned", k, raw_used(r->d));
    r->blocks[0] = core_alloc_malloc(r->a, NULL, 1000, "t:1", NULL);
    assert_non_null(r->blocks[0]);
}

typedef enum failing { RAW_LACKS, RAW_BREAKS, RAW_STAYS_BROKEN, HOST_LACKS } failing;

/* False when the run makes fewer than k such calls. */
static bool run_with_failure(const script *s, int64_t k, failing what, int64_t *out_refused)
{
    run *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->d = raw_create(s->capacity, false);
    raw_table_init(&r->table, r->d, 0);
    r->table.code = what == RAW_LACKS ? TERN_ERR_OOM : TERN_ERR_BACKEND;
    r->table.fail_more = what == RAW_STAYS_BROKEN ? 1 + k % 40 : 0;
    r->host = what == HOST_LACKS;
    r->a = core_alloc_new(&r->table.raw);
    assert_non_null(r->a);
    ask_for_failure(r, k);
    configure(r, s);
    for (int i = 0; i < s->count; i++) {
        const int64_t before = failures(r);
        apply(r, &s->ops[i]);
        if (failures(r) != before)
            check(r, s, k, i);
    }
    const bool reached = failures(r) > 0;
    check(r, s, k, s->count);
    wind_up(r, s, k);
    core_alloc_delete(r->a);
    if (raw_live_ranges(r->d) + raw_live_handles(r->d) + raw_live_events(r->d) != 0 ||
        raw_misuse(r->d) != NULL)
        fail_msg("call %" PRId64 " fails: %" PRId64 " ranges, %" PRId64 " handles, %" PRId64
                 " events are left; misuse: %s",
                 k, raw_live_ranges(r->d), raw_live_handles(r->d), raw_live_events(r->d),
                 raw_misuse(r->d) ? raw_misuse(r->d) : "none");
    *out_refused += r->refused;
    raw_table_deinit(&r->table);
    raw_destroy(r->d);
    free(r);
    return reached;
}

static void fail_each(failing what, int64_t least)
{
    script *s = malloc(sizeof *s);
    assert_non_null(s);
    int64_t runs = 0, refused = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        script_make(s, seed, OPS);
        for (int64_t k = 1; run_with_failure(s, k, what, &refused); k++)
            runs++;
    }
    print_message("%" PRId64 " failures, %" PRId64 " refused requests\n", runs, refused);
    assert_true(runs > least);
    free(s);
}

static void test_each_raw_call_may_lack_memory(void **state)
{
    (void)state;
    fail_each(RAW_LACKS, 25 * SEEDS);
}

static void test_each_raw_call_may_break(void **state)
{
    (void)state;
    fail_each(RAW_BREAKS, 25 * SEEDS);
}

static void test_each_raw_call_may_break_and_those_after_it(void **state)
{
    (void)state;
    fail_each(RAW_STAYS_BROKEN, 25 * SEEDS);
}

static void test_each_request_for_host_memory_may_fail(void **state)
{
    (void)state;
    fail_each(HOST_LACKS, 5 * SEEDS);
}

/* M031: no retry, no flush, the code as it came; and the next request is served. */
static void test_a_fault_is_told_at_once(void **state)
{
    (void)state;
    raw_double *d = raw_create(1 << 30, false);
    raw_table table;
    core_alloc_failure failure;
    raw_table_init(&table, d, 0);
    core_alloc *a = core_alloc_new(&table.raw);
    core_alloc_block *kept = core_alloc_malloc(a, NULL, 30 << 20, "t:1", NULL);
    core_alloc_free(a, kept);
    raw_fail(&table, RAW_ALLOC, 1);
    assert_null(core_alloc_malloc(a, NULL, 40 << 20, "t:1", &failure));
    assert_int_equal(failure.status, TERN_ERR_BACKEND);
    const core_alloc_stats stats = core_alloc_stats_of(a);
    assert_int_equal(stats.num_alloc_retries, 0);
    assert_int_equal(stats.num_ooms, 0);
    assert_int_equal(raw_calls(&table, RAW_FREE), 0);
    assert_int_equal(raw_calls(&table, RAW_ALLOC), 2);
    kept = core_alloc_malloc(a, NULL, 40 << 20, "t:1", &failure);
    assert_non_null(kept);
    core_alloc_delete(a);
    assert_int_equal(raw_live_ranges(d), 0);
    raw_table_deinit(&table);
    raw_destroy(d);
}

static tern_status_t no_record(void *context, void *event, void *stream)
{
    (void)context, (void)event, (void)stream;
    return TERN_ERR_BACKEND;
}
static tern_status_t no_wait(void *context, void *stream)
{
    (void)context, (void)stream;
    return TERN_ERR_BACKEND;
}

/* A block whose stream gets no event and cannot be waited for is put aside, and no request fails for it: not
 * one that finds a free block, one that asks the device, nor one that empties the cache first. */
static void test_a_stream_that_is_gone_holds_its_block_alone(void **state)
{
    (void)state;
    raw_double *d = raw_create(100 << 20, false);
    raw_table table;
    raw_table_init(&table, d, 0);
    table.raw.event_record = no_record;
    table.raw.stream_synchronize = no_wait;
    core_alloc *a = core_alloc_new(&table.raw);
    core_alloc_block *held = core_alloc_malloc(a, NULL, 30 << 20, "t:1", NULL);
    core_alloc_free(a, core_alloc_malloc(a, NULL, 1000, "t:1", NULL));
    core_alloc_record_stream(a, held, (void *)(uintptr_t)1);
    assert_int_equal(core_alloc_free(a, held), TERN_ERR_BACKEND);
    static const int64_t sizes[3] = { 1000, 40 << 20, 60 << 20 };
    for (int i = 0; i < 3; i++) {
        core_alloc_block *b = core_alloc_malloc(a, NULL, sizes[i], "t:1", NULL);
        assert_non_null(b);
        assert_int_equal(core_alloc_free(a, b), TERN_OK);
    }
    assert_int_equal(core_alloc_empty_cache(a), TERN_OK);
    assert_int_equal(raw_used(d), 30 << 20);
    core_alloc_delete(a);
    assert_int_equal(raw_live_ranges(d) + raw_live_events(d), 0);
    raw_table_deinit(&table);
    raw_destroy(d);
}

/* Without events, without a device's size, without virtual memory: the same rules, as far as they go. */
static void test_a_raw_interface_may_lack_its_options(void **state)
{
    (void)state;
    for (unsigned without = 0; without < 16; without++) {
        raw_double *d = raw_create(1 << 30, false);
        raw_table table;
        raw_table_init(&table, d, without);
        core_alloc *a = core_alloc_new(&table.raw);
        core_alloc_settings settings = core_alloc_settings_of(a);
        settings.expandable_segments = true;
        core_alloc_configure(a, &settings);
        core_alloc_block *b = core_alloc_malloc(a, NULL, 5 << 20, "t:1", NULL);
        assert_non_null(b);
        core_alloc_record_stream(a, b, (void *)(uintptr_t)1);
        assert_int_equal(core_alloc_free(a, b), TERN_OK);
        if (without & RAW_WITHOUT_INFO)
            assert_int_equal(core_alloc_set_fraction(a, 0.5), TERN_ERR_STATE);
        assert_int_equal(core_alloc_empty_cache(a), TERN_OK);
        assert_int_equal(raw_used(d), 0);
        core_alloc_delete(a);
        assert_int_equal(raw_live_ranges(d) + raw_live_handles(d) + raw_live_events(d), 0);
        assert_null(raw_misuse(d));
        raw_table_deinit(&table);
        raw_destroy(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_raw_call_may_lack_memory),
        cmocka_unit_test(test_each_raw_call_may_break),
        cmocka_unit_test(test_each_raw_call_may_break_and_those_after_it),
        cmocka_unit_test(test_each_request_for_host_memory_may_fail),
        cmocka_unit_test(test_a_fault_is_told_at_once),
        cmocka_unit_test(test_a_stream_that_is_gone_holds_its_block_alone),
        cmocka_unit_test(test_a_raw_interface_may_lack_its_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
