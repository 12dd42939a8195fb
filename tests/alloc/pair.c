#include "tests/alloc/pair.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/alloc/model_parts.h"

static void *stream_of(int stream)
{
    return (void *)(uintptr_t)stream;
}

static uint64_t address_of(const core_alloc_block *block)
{
    return block != NULL ? (uint64_t)(uintptr_t)block->data : 0;
}

/* Keeps the first disagreement. */
static void differ(pair *p, const char *format, ...) TERN_PRINTF(2, 3);
static void differ(pair *p, const char *format, ...)
{
    if (p->text[0] != '\0')
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->text, sizeof p->text, format, arguments);
    va_end(arguments);
}

static void expect_ok(pair *p, tern_status_t status, const char *call)
{
    if (status != TERN_OK)
        differ(p, "%s returned status %d", call, (int)status);
}

static bool model_lets_go(void *user)
{
    pair *p = user;
    p->model_let_go = p->hostage >= 0 && p->slots[p->hostage].address != 0;
    return p->model_let_go && model_free(p->model, p->slots[p->hostage].address) == MODEL_DONE;
}

static bool engine_lets_go(void *user)
{
    pair *p = user;
    p->engine_let_go = p->hostage >= 0 && p->slots[p->hostage].block != NULL;
    return p->engine_let_go && core_alloc_free(p->engine, p->slots[p->hostage].block) == TERN_OK;
}

void pair_offer(pair *p, int slot)
{
    p->hostage = slot;
    p->model->reclaim = model_lets_go;
    p->model->reclaim_user = p;
    core_alloc_set_reclaim(p->engine, engine_lets_go, p);
}

bool pair_init(pair *p, int64_t capacity_bytes, unsigned without)
{
    memset(p, 0, sizeof *p);
    p->raw_model = raw_create(capacity_bytes, false);
    p->raw_engine = raw_create(capacity_bytes, false);
    p->model = malloc(sizeof *p->model);
    if (p->raw_model == NULL || p->raw_engine == NULL || p->model == NULL)
        return false;
    model_init(p->model, p->raw_model, capacity_bytes);
    p->hostage = -1;
    p->model->without_events = (without & RAW_WITHOUT_EVENTS) != 0;
    p->model->without_vmm = (without & RAW_WITHOUT_VMM) != 0;
    raw_table_init(&p->table, p->raw_engine, without);
    p->engine = core_alloc_new(&p->table.raw);
    return p->engine != NULL;
}

const char *pair_deinit(pair *p, char *text, int64_t text_bytes)
{
    core_alloc_delete(p->engine);
    const raw_double *d = p->raw_engine;
    const int64_t ranges = raw_live_ranges(d), handles = raw_live_handles(d);
    const int64_t events = raw_live_events(d);
    const char *misuse = raw_misuse(d);
    const bool bad = ranges + handles + events != 0 || misuse != NULL;
    if (bad)
        snprintf(text, (size_t)text_bytes,
                 "left: %" PRId64 " ranges, %" PRId64 " handles, %" PRId64 " events; %s", ranges,
                 handles, events, misuse != NULL ? misuse : "no misuse");
    raw_table_deinit(&p->table);
    raw_destroy(p->raw_engine);
    raw_destroy(p->raw_model);
    free(p->model);
    return bad ? text : NULL;
}

/* M035 and what an error says: sizes by rule, numbers as they stand after the attempts. */
static void compare_failure(pair *p, int64_t bytes, int stream, const core_alloc_failure *failure)
{
    const model_stats *stats = &p->model->stats;
    const int64_t block = model_round(&p->model->settings, bytes);
    const int64_t pairs[][2] = {
        { bytes, failure->requested },
        { block, failure->block },
        { model_segment_bytes(&p->model->settings, block), failure->segment },
        { stats->of[MODEL_ALLOCATED_BYTES][MODEL_ALL].current, failure->allocated },
        { stats->of[MODEL_RESERVED_BYTES][MODEL_ALL].current, failure->reserved },
        { p->model->allowed, failure->allowed },
        { stats->of[MODEL_REQUESTED_BYTES][MODEL_ALL].current, failure->live_requested },
        { stats->of[MODEL_INACTIVE_SPLIT_BYTES][MODEL_ALL].current, failure->inactive_split },
        { model_in_private_pools(p->model), failure->private_pools },
        { model_largest_free(p->model, block, stream), failure->largest_free },
        { model_returnable(p->model), failure->returnable },
    };
    for (int i = 0; i < (int)(sizeof pairs / sizeof pairs[0]); i++) {
        if (pairs[i][0] != pairs[i][1])
            differ(p, "malloc(%" PRId64 ") fails: its number %d is %" PRId64 ", expected %" PRId64,
                   bytes, i, pairs[i][1], pairs[i][0]);
    }
}

bool pair_malloc(pair *p, int slot, int64_t bytes, int stream)
{
    pair_slot *s = &p->slots[slot];
    core_alloc_failure failure = { .status = TERN_OK };
    const model_result result = model_malloc(p->model, bytes, stream, &s->address);
    s->block = core_alloc_malloc(p->engine, stream_of(stream), bytes, "test:1", &failure);
    if (address_of(s->block) != s->address)
        differ(p, "malloc(%" PRId64 ", stream %d): model 0x%" PRIx64 ", allocator 0x%" PRIx64,
               bytes, stream, s->address, address_of(s->block));
    if (p->model_let_go != p->engine_let_go)
        differ(p, "malloc(%" PRId64 "): the callback was asked by one alone", bytes);
    if (p->model_let_go) {
        p->slots[p->hostage] = (pair_slot){ 0 };
        p->model_let_go = p->engine_let_go = false;
    }
    const tern_status_t expected = result == MODEL_OOM ? TERN_ERR_OOM : TERN_OK;
    if (s->block == NULL && failure.status != expected)
        differ(p, "malloc(%" PRId64 "): status %d, expected %d", bytes, (int)failure.status,
               (int)expected);
    if (s->block == NULL && result == MODEL_OOM && bytes < INT64_C(1) << 60)
        compare_failure(p, bytes, stream, &failure);
    if (s->block != NULL && s->address != 0) {
        const model_block *b = model_find(p->model, s->address);
        if (b->size != s->block->size || s->block->requested != bytes)
            differ(p,
                   "malloc(%" PRId64 "): model %" PRId64 " bytes, allocator %" PRId64
                   " of %" PRId64,
                   bytes, b->size, s->block->size, s->block->requested);
    }
    return s->address != 0;
}

void pair_free(pair *p, int slot)
{
    pair_slot *s = &p->slots[slot];
    if (s->address == 0)
        return;
    if (model_free(p->model, s->address) != MODEL_DONE)
        differ(p, "the model does not know 0x%" PRIx64, s->address);
    expect_ok(p, core_alloc_free(p->engine, s->block), "free");
    *s = (pair_slot){ 0 };
}

void pair_record_stream(pair *p, int slot, int stream)
{
    const pair_slot *s = &p->slots[slot];
    if (s->address == 0)
        return;
    model_record_stream(p->model, s->address, stream);
    expect_ok(p, core_alloc_record_stream(p->engine, s->block, stream_of(stream)), "record_stream");
}

void pair_record_history(pair *p)
{
    p->history = true;
    expect_ok(p, core_alloc_record_history(p->engine, INT64_C(1) << 20), "record_history");
}

void pair_process_events(pair *p)
{
    model_process_events(p->model);
    expect_ok(p, core_alloc_process_events(p->engine), "process_events");
}

void pair_empty_cache(pair *p)
{
    model_empty_cache(p->model);
    expect_ok(p, core_alloc_empty_cache(p->engine), "empty_cache");
}

void pair_set_fraction(pair *p, double fraction)
{
    model_set_fraction(p->model, fraction);
    expect_ok(p, core_alloc_set_fraction(p->engine, fraction), "set_fraction");
}

/* One division for all, or a list with a key per interval that differs from the one before it. */
static void add_divisions(const model_settings *s, char *text, size_t bytes)
{
    size_t used = strlen(text);
    bool same = true;
    for (int i = 1; i < MODEL_INTERVALS; i++)
        same = same && s->divisions[i] == s->divisions[0];
    if (same) {
        snprintf(text + used, bytes - used, ",roundup_power2_divisions:%d", s->divisions[0]);
        return;
    }
    used += (size_t)snprintf(text + used, bytes - used, ",roundup_power2_divisions:[");
    for (int i = 0; i < MODEL_INTERVALS; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%d:%d,", 1 << i, s->divisions[i]);
    snprintf(text + used, bytes - used, ">:%d]", s->divisions[MODEL_INTERVALS - 1]);
}

void pair_settings_text(const model_settings *settings, char *text, int64_t text_bytes)
{
    const size_t bytes = (size_t)text_bytes;
    snprintf(text, bytes,
             "throw_on_cudamalloc_oom:%s,expandable_segments:%s,max_non_split_rounding_mb:%" PRId64
             ",large_segment_size_mb:%" PRId64,
             settings->reject ? "True" : "False", settings->expandable ? "True" : "False",
             settings->max_non_split_rounding / MODEL_MIB, settings->large_segment / MODEL_MIB);
    if (settings->max_split != INT64_MAX)
        snprintf(text + strlen(text), bytes - strlen(text), ",max_split_size_mb:%" PRId64,
                 settings->max_split / MODEL_MIB);
    if (settings->gc_threshold > 0)
        snprintf(text + strlen(text), bytes - strlen(text), ",garbage_collection_threshold:%.17g",
                 settings->gc_threshold);
    bool rounds = false;
    for (int i = 0; i < MODEL_INTERVALS; i++)
        rounds = rounds || settings->divisions[i] != 0;
    if (rounds)
        add_divisions(settings, text, bytes);
}

void pair_configure(pair *p, const model_settings *settings)
{
    char text[PAIR_TEXT], why[CORE_ALLOC_WHY_BYTES] = "";
    pair_settings_text(settings, text, sizeof text);
    core_alloc_settings parsed = core_alloc_settings_of(p->engine);
    p->model->settings = *settings;
    if (core_alloc_settings_parse(&parsed, text, true, why) != TERN_OK)
        differ(p, "'%.200s': %.200s", text, why);
    expect_ok(p, core_alloc_configure(p->engine, &parsed), "configure");
}

void pair_advance(pair *p, int stream, int64_t n)
{
    raw_advance(p->raw_model, stream, n);
    raw_advance(p->raw_engine, stream, n);
}

void pair_set_capacity(pair *p, int64_t bytes)
{
    raw_set_capacity(p->raw_model, bytes);
    raw_set_capacity(p->raw_engine, bytes);
}

void pair_reset_peaks(pair *p)
{
    model_reset_peaks(p->model);
    core_alloc_reset_peaks(p->engine);
}

void pair_reset_accumulated(pair *p)
{
    model_reset_accumulated(p->model);
    core_alloc_reset_accumulated(p->engine);
}

int pair_pool_new(pair *p, bool use_on_oom)
{
    if (p->pool_count == PAIR_POOLS)
        return -1;
    const int i = p->pool_count++;
    p->pools[i].model = model_pool_new(p->model, use_on_oom);
    p->pools[i].engine = core_alloc_pool_new(p->engine, use_on_oom);
    if (p->pools[i].engine == 0)
        differ(p, "pool_new gives 0");
    return i;
}

void pair_pool_release(pair *p, int pool)
{
    model_pool_release(p->model, p->pools[pool].model);
    expect_ok(p, core_alloc_pool_release(p->engine, p->pools[pool].engine), "pool_release");
}

void pair_route_begin(pair *p, int pool, int stream, bool capture)
{
    const unsigned flags =
        (stream < 0 ? (unsigned)CORE_ALLOC_ROUTE_THREAD : (unsigned)CORE_ALLOC_ROUTE_STREAM) |
        (capture ? (unsigned)CORE_ALLOC_ROUTE_CAPTURE : 0u);
    model_route_begin(p->model, p->pools[pool].model, stream, capture);
    expect_ok(p,
              core_alloc_route_begin(p->engine, p->pools[pool].engine, flags,
                                     stream_of(stream < 0 ? 0 : stream)),
              "route_begin");
}

void pair_route_end(pair *p, int pool)
{
    model_route_end(p->model, p->pools[pool].model);
    expect_ok(p, core_alloc_route_end(p->engine, p->pools[pool].engine), "route_end");
}
