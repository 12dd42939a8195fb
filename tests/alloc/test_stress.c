/* Many threads and streams on one allocator, under the thread sanitizer too: blocks change hands, marks
 * pass while others ask for them, caches are emptied and numbers read all the while. The memory is real
 * where it can be: each block carries its owner's tag at both ends, so an overlap is seen. */
#include "tests/support/check.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/alloc/raw_table.h"

enum { THREADS = 6, STREAMS = 4, ROUNDS = 4000, OWN = 24, SHARED = 64 };

typedef struct crowd {
    raw_double *d;
    raw_table table;
    core_alloc *a;
    bool real;
    bool records; /* blocks get other streams; without, requests go the short way */
    _Atomic(core_alloc_block *) shared[SHARED];
    atomic_int running;
    atomic_llong failures; /* blocks with a foreign tag, numbers that cannot be */
} crowd;

typedef struct member {
    crowd *crowd;
    uint64_t state, number;
    core_alloc_block *own[OWN];
} member;

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void tag(const crowd *c, core_alloc_block *b)
{
    if (!c->real)
        return;
    *(uint64_t *)(void *)b->data = (uint64_t)(uintptr_t)b;
    *(uint64_t *)(void *)(b->data + b->size - 8) = (uint64_t)(uintptr_t)b;
}

static void drop(crowd *c, core_alloc_block *b)
{
    if (b == NULL)
        return;
    if (c->real && (*(uint64_t *)(void *)b->data != (uint64_t)(uintptr_t)b ||
                    *(uint64_t *)(void *)(b->data + b->size - 8) != (uint64_t)(uintptr_t)b))
        c->failures++;
    if (core_alloc_free(c->a, b) != TERN_OK)
        c->failures++;
}

static core_alloc_block *ask(member *m)
{
    crowd *c = m->crowd;
    const uint64_t pick = draw(&m->state);
    const int64_t bytes = (int64_t)(pick % 7 == 0 ? pick >> 8 & 0xffffff : pick >> 8 & 0x3ffff) + 1;
    core_alloc_block *b = core_alloc_malloc(c->a, (void *)(uintptr_t)(pick >> 40 & (STREAMS - 1)),
                                            bytes, "t:1", NULL);
    if (b != NULL)
        tag(c, b);
    return b;
}

static void look(crowd *c)
{
    const core_alloc_stats s = core_alloc_stats_of(c->a);
    for (int f = 0; f < CORE_ALLOC_FAMILIES; f++) {
        const core_alloc_stat *of = s.family[f];
        if (of[CORE_ALLOC_ALL].current < 0 ||
            of[CORE_ALLOC_ALL].current > of[CORE_ALLOC_ALL].peak ||
            of[CORE_ALLOC_ALL].current !=
                of[CORE_ALLOC_SMALL].current + of[CORE_ALLOC_LARGE].current ||
            of[CORE_ALLOC_ALL].current != of[CORE_ALLOC_ALL].allocated - of[CORE_ALLOC_ALL].freed)
            c->failures++;
    }
    if (s.family[CORE_ALLOC_ALLOCATED_BYTES][0].current >
        s.family[CORE_ALLOC_RESERVED_BYTES][0].current)
        c->failures++;
}

static void act_seldom(member *m, uint64_t pick)
{
    crowd *c = m->crowd;
    char why[CORE_ALLOC_WHY_BYTES];
    core_alloc_snapshot snapshot;
    switch (pick % 6) {
    case 0:
        core_alloc_empty_cache(c->a);
        break;
    case 1:
        core_alloc_process_events(c->a);
        break;
    case 2:
        core_alloc_reset_peaks(c->a);
        break;
    case 3:
        if (core_alloc_snapshot_init(c->a, &snapshot) == TERN_OK)
            core_alloc_snapshot_deinit(&snapshot);
        break;
    case 4:
        if (!core_alloc_check(c->a, why))
            c->failures++;
        break;
    default:
        look(c);
    }
}

static void *work(void *argument)
{
    member *m = argument;
    crowd *c = m->crowd;
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t pick = draw(&m->state);
        core_alloc_block **own = &m->own[pick % OWN];
        if (pick >> 20 & 1) {
            drop(c, *own);
            *own = ask(m);
        } else if (*own != NULL && (pick >> 21 & 1))
            *own = atomic_exchange(&c->shared[pick >> 8 & (SHARED - 1)], *own);
        else if (*own != NULL && c->records)
            core_alloc_record_stream(c->a, *own, (void *)(uintptr_t)(pick >> 30 & (STREAMS - 1)));
        if ((pick >> 42 & 63) == 0)
            look(c);
        if ((pick >> 48 & 63) == 0)
            act_seldom(m, pick >> 54);
    }
    for (int i = 0; i < OWN; i++)
        drop(c, m->own[i]);
    c->running--;
    return NULL;
}

/* Lets marks pass, at its own pace. */
static void *pump(void *argument)
{
    crowd *c = argument;
    uint64_t state = 99;
    while (atomic_load(&c->running) > 0)
        raw_advance(c->d, (int)(draw(&state) % STREAMS), 1);
    return NULL;
}

static void wind_up(crowd *c)
{
    char why[CORE_ALLOC_WHY_BYTES] = "";
    for (int i = 0; i < SHARED; i++)
        drop(c, c->shared[i]);
    assert_int_equal(c->failures, 0);
    assert_int_equal(core_alloc_empty_cache(c->a), TERN_OK);
    if (!core_alloc_check(c->a, why))
        fail_msg("%s", why);
    const core_alloc_stats s = core_alloc_stats_of(c->a);
    for (int f = 0; f < CORE_ALLOC_FAMILIES; f++)
        assert_int_equal(s.family[f][CORE_ALLOC_ALL].current, 0);
    assert_int_equal(raw_used(c->d), 0);
    core_alloc_delete(c->a);
    assert_int_equal(raw_live_ranges(c->d) + raw_live_handles(c->d) + raw_live_events(c->d), 0);
    if (raw_misuse(c->d) != NULL)
        fail_msg("%s", raw_misuse(c->d));
    raw_table_deinit(&c->table);
    raw_destroy(c->d);
}

static void stress(bool real, bool records, const char *conf)
{
    crowd *c = calloc(1, sizeof *c);
    member members[THREADS] = { 0 };
    pthread_t threads[THREADS + 1];
    char why[CORE_ALLOC_WHY_BYTES];
    assert_non_null(c);
    c->real = real;
    c->records = records;
    c->d = raw_create(INT64_C(600) << 20, real);
    raw_table_init(&c->table, c->d, real ? RAW_WITHOUT_VMM : 0);
    c->a = core_alloc_new(&c->table.raw);
    core_alloc_settings settings = core_alloc_settings_of(c->a);
    assert_int_equal(core_alloc_settings_parse(&settings, conf, true, why), TERN_OK);
    assert_int_equal(core_alloc_configure(c->a, &settings), TERN_OK);
    c->running = THREADS;
    for (int i = 0; i < THREADS; i++) {
        members[i] = (member){ .crowd = c, .number = (uint64_t)i, .state = (uint64_t)i * 77 + 5 };
        assert_int_equal(pthread_create(&threads[i], NULL, work, &members[i]), 0);
    }
    assert_int_equal(pthread_create(&threads[THREADS], NULL, pump, c), 0);
    for (int i = 0; i <= THREADS; i++)
        pthread_join(threads[i], NULL);
    wind_up(c);
    free(c);
}

static void test_threads_share_streams_on_real_memory(void **state)
{
    (void)state;
    stress(true, true, "");
}

static void test_threads_hand_blocks_around_on_real_memory(void **state)
{
    (void)state;
    stress(true, false, "");
}

static void test_threads_share_streams_with_little_memory(void **state)
{
    (void)state;
    stress(false, true,
           "max_split_size_mb:20,garbage_collection_threshold:0.3,"
           "per_process_memory_fraction:0.2");
}

static void test_threads_share_expandable_segments(void **state)
{
    (void)state;
    stress(false, true, "expandable_segments:True");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_share_streams_on_real_memory),
        cmocka_unit_test(test_threads_hand_blocks_around_on_real_memory),
        cmocka_unit_test(test_threads_share_streams_with_little_memory),
        cmocka_unit_test(test_threads_share_expandable_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
