/* Pinned host memory against a model of rows M090-M093: powers of two, no splits, freed blocks that other
 * streams used come back oldest first and stop at the first whose work is not done. Random operations,
 * compared after each one. TERN_ALLOC_OPS and TERN_ALLOC_SEED as in test_differential. */
#include "tests/support/check.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/alloc/pinned.h"
#include "tests/alloc/raw_table.h"

enum { BLOCKS = 48, STREAMS = 4, SIZES = 40, WAITS = 4096 };

typedef struct wait {
    int stream;
    int64_t mark;
    int block; /* index into gone */
} wait;

/* A block that was freed but not yet done. */
typedef struct gone {
    int64_t size;
    int events;
} gone;

typedef struct host_model {
    raw_double *marks; /* a clock of its own */
    int64_t cached[SIZES];
    int64_t allocation, allocated_bytes, segment, reserved_bytes, active, active_bytes;
    int64_t allocs, frees;
    int wait_count, gone_count;
    wait waits[WAITS]; /* oldest first, of all streams */
    gone gones[WAITS];
} host_model;

typedef struct slot {
    core_pinned_block *block;
    unsigned users;
} slot;

typedef struct host_pair {
    uint64_t state;
    raw_double *d;
    raw_table table;
    core_pinned *p;
    host_model m;
    slot slots[BLOCKS];
} host_pair;

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static int log_of(int64_t bytes)
{
    int log = 0;
    while ((INT64_C(1) << log) < bytes)
        log++;
    return log;
}

static void come_back(host_model *m, int64_t size)
{
    m->cached[log_of(size)]++;
    m->active--;
    m->active_bytes -= size;
}

/* M091. */
static void poll(host_model *m)
{
    int done = 0;
    while (done < m->wait_count &&
           raw_passed(m->marks, m->waits[done].stream, m->waits[done].mark)) {
        gone *g = &m->gones[m->waits[done++].block];
        if (--g->events == 0)
            come_back(m, g->size);
    }
    m->wait_count -= done;
    for (int i = 0; i < m->wait_count; i++)
        m->waits[i] = m->waits[i + done];
    if (m->wait_count == 0)
        m->gone_count = 0;
}

static void model_take(host_model *m, int64_t bytes)
{
    const int log = log_of(bytes);
    const int64_t size = INT64_C(1) << log;
    poll(m);
    if (m->cached[log] > 0)
        m->cached[log]--;
    else {
        m->segment++;
        m->reserved_bytes += size;
        m->allocs++;
    }
    m->allocation++;
    m->allocated_bytes += size;
    m->active++;
    m->active_bytes += size;
}

static void model_give(host_model *m, int64_t size, unsigned users)
{
    m->allocation--;
    m->allocated_bytes -= size;
    if (users == 0) {
        come_back(m, size);
        return;
    }
    const int index = m->gone_count++;
    m->gones[index] = (gone){ .size = size };
    for (int s = 0; s < STREAMS; s++) {
        if ((users >> s & 1u) == 0)
            continue;
        m->gones[index].events++;
        m->waits[m->wait_count++] =
            (wait){ .stream = s, .mark = raw_record(m->marks, s), .block = index };
    }
}

static void model_empty(host_model *m)
{
    poll(m);
    for (int log = 0; log < SIZES; log++) {
        m->segment -= m->cached[log];
        m->reserved_bytes -= m->cached[log] << log;
        m->frees += m->cached[log];
        m->cached[log] = 0;
    }
}

static void take(host_pair *h, slot *s, int64_t bytes)
{
    tern_status_t status = TERN_OK;
    s->block = core_pinned_malloc(h->p, bytes, "t:1", &status);
    s->users = 0;
    assert_int_equal(status, TERN_OK);
    if (bytes == 0) { /* M092 */
        assert_null(s->block);
        return;
    }
    model_take(&h->m, bytes);
    assert_int_equal(s->block->size, INT64_C(1) << log_of(bytes));
    assert_int_equal(s->block->requested, bytes);
}

static void give(host_pair *h, slot *s)
{
    model_give(&h->m, s->block->size, s->users);
    assert_int_equal(core_pinned_free(h->p, s->block), TERN_OK);
    s->block = NULL;
}

/* Recorded in the order of streams, so that both clocks agree. */
static void record(host_pair *h, slot *s, unsigned users)
{
    if (s->users != 0)
        return;
    s->users = users & ((1u << STREAMS) - 1);
    for (int i = 0; i < STREAMS; i++) {
        if (s->users >> i & 1u)
            assert_int_equal(core_pinned_record_stream(h->p, s->block, (void *)(uintptr_t)i),
                             TERN_OK);
    }
}

static void step(host_pair *h)
{
    const uint64_t pick = draw(&h->state);
    slot *s = &h->slots[pick % BLOCKS];
    const uint64_t what = pick >> 16 & 15;
    if (what == 0) {
        const int stream = (int)(pick >> 24 & (STREAMS - 1));
        raw_advance(h->d, stream, 3);
        raw_advance(h->m.marks, stream, 3);
    } else if (what == 1 && (pick >> 30 & 15) == 0) {
        model_empty(&h->m);
        assert_int_equal(core_pinned_empty_cache(h->p), TERN_OK);
    } else if (s->block == NULL)
        take(h, s, (int64_t)(pick >> 40 & ((UINT64_C(1) << (pick >> 32 & 15)) - 1)));
    else if (what < 6)
        record(h, s, (unsigned)(pick >> 24) & (unsigned)(pick >> 28));
    else
        give(h, s);
}

static void compare(host_pair *h, uint64_t seed, int at)
{
    const core_pinned_stats s = core_pinned_stats_of(h->p);
    const host_model *m = &h->m;
    const int64_t numbers[][2] = {
        { m->allocation, s.allocation.current }, { m->allocated_bytes, s.allocated_bytes.current },
        { m->segment, s.segment.current },       { m->reserved_bytes, s.reserved_bytes.current },
        { m->active, s.active.current },         { m->active_bytes, s.active_bytes.current },
        { m->allocs, s.num_host_alloc },         { m->frees, s.num_host_free },
        { m->reserved_bytes, raw_used(h->d) },
    };
    for (int i = 0; i < (int)(sizeof numbers / sizeof numbers[0]); i++) {
        if (numbers[i][0] != numbers[i][1])
            fail_msg("seed %" PRIu64 ", operation %d, number %d: model %" PRId64
                     ", allocator %" PRId64,
                     seed, at, i, numbers[i][0], numbers[i][1]);
    }
}

static void run(uint64_t seed)
{
    char why[CORE_ALLOC_WHY_BYTES];
    core_alloc_settings settings;
    host_pair *h = calloc(1, sizeof *h);
    assert_non_null(h);
    core_alloc_settings_init(&settings);
    h->state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    h->d = raw_create(INT64_C(1) << 40, false);
    h->m.marks = raw_create(1, false);
    raw_table_init(&h->table, h->d, RAW_WITHOUT_VMM);
    h->p = core_pinned_new(&h->table.raw, &settings);
    assert_non_null(h->p);
    for (int i = 0; i < 1000; i++) {
        step(h);
        compare(h, seed, i);
    }
    if (!core_pinned_check(h->p, why))
        fail_msg("seed %" PRIu64 ": %s", seed, why);
    core_pinned_delete(h->p);
    assert_int_equal(raw_live_ranges(h->d) + raw_live_events(h->d), 0);
    assert_null(raw_misuse(h->d));
    raw_table_deinit(&h->table);
    raw_destroy(h->d);
    raw_destroy(h->m.marks);
    free(h);
}

static void test_every_operation_agrees_with_the_model(void **state)
{
    (void)state;
    const char *ops = getenv("TERN_ALLOC_OPS"), *seed = getenv("TERN_ALLOC_SEED");
    const uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : 1;
    const uint64_t runs = ops != NULL ? strtoull(ops, NULL, 10) / 1000 + 1 : 100;
    print_message("seeds %" PRIu64 " to %" PRIu64 ", 1000 operations each\n", first,
                  first + runs - 1);
    for (uint64_t i = 0; i < runs; i++)
        run(first + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        test_every_operation_agrees_with_the_model) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
