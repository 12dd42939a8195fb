/* What the two halves of a pair are compared by. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/alloc/model_parts.h"
#include "tests/alloc/pair.h"

static const char *const column_names[MODEL_COLUMNS] = { "all", "small_pool", "large_pool" };

/* The model's and the allocator's families stand in the same order. */
_Static_assert((int)MODEL_REQUESTED_BYTES == (int)CORE_ALLOC_REQUESTED_BYTES &&
                   (int)MODEL_FAMILIES == (int)CORE_ALLOC_FAMILIES &&
                   (int)MODEL_LARGE == (int)CORE_ALLOC_LARGE,
               "ORDER MODEL_FAMILY");
_Static_assert((int)MODEL_TRACE_OOM == (int)CORE_ALLOC_TRACE_OOM &&
                   (int)MODEL_TRACE_SEGMENT_MAP == (int)CORE_ALLOC_TRACE_SEGMENT_MAP,
               "M070");

static bool same_number(pair *p, const char *family, const char *column, const char *what,
                        int64_t mine, int64_t theirs)
{
    if (mine == theirs)
        return true;
    if (p->text[0] == '\0')
        snprintf(p->text, sizeof p->text, "%s.%s.%s: model %" PRId64 ", allocator %" PRId64, family,
                 column, what, mine, theirs);
    return false;
}

static void compare_stat(pair *p, const char *family, const char *column, const model_stat *mine,
                         const core_alloc_stat *theirs)
{
    (void)(same_number(p, family, column, "current", mine->current, theirs->current) &&
           same_number(p, family, column, "peak", mine->peak, theirs->peak) &&
           same_number(p, family, column, "allocated", mine->allocated, theirs->allocated) &&
           same_number(p, family, column, "freed", mine->freed, theirs->freed));
}

static void compare_stats(pair *p)
{
    const model_stats *mine = &p->model->stats;
    const core_alloc_stats theirs = core_alloc_stats_of(p->engine);
    for (int f = 0; f < MODEL_FAMILIES; f++) {
        for (int c = 0; c < MODEL_COLUMNS; c++)
            compare_stat(p, model_family_name((model_family)f), column_names[c], &mine->of[f][c],
                         &theirs.family[f][c]);
    }
    compare_stat(p, "oversize_allocations", "", &mine->oversize_allocations,
                 &theirs.oversize_allocations);
    compare_stat(p, "oversize_segments", "", &mine->oversize_segments, &theirs.oversize_segments);
    same_number(p, "num", "alloc", "retries", mine->retries, theirs.num_alloc_retries);
    same_number(p, "num", "", "ooms", mine->ooms, theirs.num_ooms);
    same_number(p, "num", "oom", "rejections", mine->rejections, theirs.num_oom_rejections);
    same_number(p, "num", "sync", "all_streams", mine->syncs, theirs.num_sync_all_streams);
    same_number(p, "num", "device", "alloc", mine->device_allocs, theirs.num_device_alloc);
    same_number(p, "num", "device", "free", mine->device_frees, theirs.num_device_free);
    same_number(p, "allocated", "alone", "", mine->of[MODEL_ALLOCATED_BYTES][MODEL_ALL].current,
                core_alloc_allocated(p->engine));
}

const char *pair_difference(pair *p)
{
    char text[200];
    compare_stats(p);
    const char *ranges = raw_difference(p->raw_model, p->raw_engine, text, sizeof text);
    const char *misuse = raw_misuse(p->raw_engine);
    if (misuse == NULL)
        misuse = raw_misuse(p->raw_model);
    if (p->text[0] == '\0' && (ranges != NULL || misuse != NULL))
        snprintf(p->text, sizeof p->text, "raw memory: %.200s", misuse != NULL ? misuse : ranges);
    return p->text[0] != '\0' ? p->text : NULL;
}

static core_alloc_state state_of(const model_block *b)
{
    if (b->allocated)
        return CORE_ALLOC_STATE_ALLOCATED;
    return b->events > 0 || b->user_count != 0 ? CORE_ALLOC_STATE_AWAITING
                                               : CORE_ALLOC_STATE_INACTIVE;
}

static bool same_block(const pair *p, const core_alloc_segment_info *segment,
                       const core_alloc_block_info *theirs, const model_block *b)
{
    const uint64_t pool = b->pool != 0 ? p->pools[b->pool - 1].engine : 0;
    return b->mapped && b->size == theirs->size && b->requested == theirs->requested &&
           state_of(b) == theirs->state && b->small == segment->small &&
           b->stream == (int)(uintptr_t)segment->stream &&
           b->expandable == (segment->page_bytes != 0) && pool == segment->pool;
}

static void compare_segment(pair *p, const core_alloc_snapshot *snapshot,
                            const core_alloc_segment_info *segment)
{
    int64_t total = 0, allocated = 0, active = 0, requested = 0;
    for (int64_t i = 0; i < segment->block_count; i++) {
        const core_alloc_block_info *theirs = &snapshot->blocks[segment->first_block + i];
        const uint64_t address = (uint64_t)(uintptr_t)theirs->data;
        const model_block *b = model_find(p->model, address);
        if ((b == NULL || !same_block(p, segment, theirs, b)) && p->text[0] == '\0')
            snprintf(p->text, sizeof p->text,
                     "block 0x%" PRIx64 ": model %" PRId64 " bytes of %" PRId64
                     " in state %d, allocator %" PRId64 " of %" PRId64 " in %d, or its segment",
                     address, b != NULL ? b->requested : 0, b != NULL ? b->size : 0,
                     b != NULL ? (int)state_of(b) : -1, theirs->requested, theirs->size,
                     (int)theirs->state);
        same_number(p, "segment", "", "a block's place", total, theirs->data - segment->data);
        total += theirs->size;
        allocated += theirs->state == CORE_ALLOC_STATE_ALLOCATED ? theirs->size : 0;
        active += theirs->state != CORE_ALLOC_STATE_INACTIVE ? theirs->size : 0;
        requested += theirs->requested;
    }
    same_number(p, "segment", "", "total", total, segment->total);
    same_number(p, "segment", "", "allocated", allocated, segment->allocated);
    same_number(p, "segment", "", "active", active, segment->active);
    same_number(p, "segment", "", "requested", requested, segment->requested);
}

/* Each mapped block of the model is one of the snapshot, and there are no more. */
static void compare_blocks(pair *p, const core_alloc_snapshot *snapshot)
{
    int64_t blocks = 0;
    for (int i = 0; i < p->model->block_end; i++)
        blocks += p->model->blocks[i].used && p->model->blocks[i].mapped;
    same_number(p, "snapshot", "", "blocks", blocks, snapshot->block_count);
    for (int64_t s = 0; s < snapshot->segment_count; s++) {
        if (s > 0 && snapshot->segments[s - 1].data >= snapshot->segments[s].data &&
            p->text[0] == '\0')
            snprintf(p->text, sizeof p->text, "segments are not sorted by address");
        compare_segment(p, snapshot, &snapshot->segments[s]);
    }
}

/* M070: the same events, in whatever order within an operation. */
static void compare_history(pair *p, const core_alloc_snapshot *snapshot)
{
    model_trace theirs = { { 0 }, { 0 } };
    for (int64_t i = 0; i < snapshot->trace_count; i++) {
        const core_alloc_trace *entry = &snapshot->trace[i];
        const uint64_t address = (uint64_t)(uintptr_t)entry->data;
        if (entry->action != CORE_ALLOC_TRACE_SNAPSHOT)
            model_trace_add(&theirs, (model_action)entry->action,
                            entry->action == CORE_ALLOC_TRACE_OOM ? 0 : address, entry->size);
    }
    for (int i = 0; i < MODEL_ACTIONS; i++) {
        same_number(p, "history", core_alloc_action_names[i], "count", p->model->trace.count[i],
                    theirs.count[i]);
        same_number(p, "history", core_alloc_action_names[i], "addresses and sizes",
                    (int64_t)p->model->trace.sum[i], (int64_t)theirs.sum[i]);
    }
}

const char *pair_deep_difference(pair *p)
{
    char why[CORE_ALLOC_WHY_BYTES] = "";
    core_alloc_snapshot snapshot;
    const char *wrong = model_check(p->model);
    if (wrong != NULL && p->text[0] == '\0')
        snprintf(p->text, sizeof p->text, "the model by itself: %s", wrong);
    if (!core_alloc_check(p->engine, why) && p->text[0] == '\0')
        snprintf(p->text, sizeof p->text, "the allocator by itself: %.500s", why);
    if (core_alloc_snapshot_init(p->engine, &snapshot) == TERN_OK) {
        compare_blocks(p, &snapshot);
        if (p->history)
            compare_history(p, &snapshot);
        core_alloc_snapshot_deinit(&snapshot);
    } else if (p->text[0] == '\0')
        snprintf(p->text, sizeof p->text, "no snapshot");
    return pair_difference(p);
}
