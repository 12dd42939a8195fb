/* History and snapshots (M068-M073). */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/alloc/engine.h"

const char *const core_alloc_action_names[CORE_ALLOC_ACTIONS] = {
    "alloc",        "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map",    "segment_unmap",  "oom",
    "snapshot"
};
const char *const core_alloc_state_names[CORE_ALLOC_STATES] = { "active_allocated",
                                                                "active_awaiting_free", "inactive",
                                                                "inactive", "inactive" };

/* ---- history -------------------------------------------------------------------------------------- */

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void history_add(core_alloc *a, core_alloc_action action, const shard *s, char *data, int64_t size,
                 tern_site_t site)
{
    history *h = &a->history;
    int64_t at;
    if (h->count < h->limit) {
        if (!host_grow((void **)&h->entries, h->count, &h->capacity, sizeof *h->entries))
            return; /* one event less is known */
        at = h->count++;
    } else {
        at = h->next;
        h->next = (h->next + 1) % h->limit;
    }
    h->entries[at] = (core_alloc_trace){ .action = action,
                                         .data = data,
                                         .size = size,
                                         .stream = s != NULL ? s->stream : NULL,
                                         .time_us = now_us(),
                                         .site = site,
                                         .pool = s != NULL && s->home != NULL ? s->home->id : 0 };
}

tern_status_t core_alloc_record_history(core_alloc *a, int64_t max_entries)
{
    if (max_entries < 0)
        return TERN_ERR_ARGUMENT;
    world_lock(a);
    free(a->history.entries);
    a->history = (history){ .limit = max_entries };
    slow_update(a, SLOW_HISTORY, max_entries > 0);
    world_unlock(a);
    return TERN_OK;
}

/* ---- snapshots ------------------------------------------------------------------------------------- */

/* What a block's user asked for is the front cache's word where there is one. */
static core_alloc_block_info describe(const block *b)
{
    core_alloc_block_info info = { .data = b->pub.data, .size = b->pub.size };
    const int64_t front = __atomic_load_n(&b->pub.front_bytes, __ATOMIC_RELAXED);
    if (!b->in_use)
        info.state = is_free(b) ? CORE_ALLOC_STATE_INACTIVE : CORE_ALLOC_STATE_AWAITING;
    else
        info.state = front == 0 ? CORE_ALLOC_STATE_RESTING : CORE_ALLOC_STATE_ALLOCATED;
    if (info.state == CORE_ALLOC_STATE_ALLOCATED || info.state == CORE_ALLOC_STATE_AWAITING) {
        const bool has_front = b->in_use && front > 0;
        info.requested = has_front ? front : b->pub.requested;
        info.site = has_front ? __atomic_load_n(&b->pub.front_site, __ATOMIC_RELAXED) : b->pub.site;
    }
    return info;
}

/* An expandable segment is listed as its runs of mapped pages, as PyTorch does it. */
static bool begins_run(const block *b)
{
    return b->mapped && (b->prev == NULL || !b->prev->mapped);
}

static void count_all(const core_alloc *a, core_alloc_snapshot *out)
{
    for (const shard *s = a->shards; s != NULL; s = s->next)
        for (const segment *seg = s->segments; seg != NULL; seg = seg->next) {
            for (const block *b = seg->first; b != NULL; b = b->next) {
                out->segment_count += begins_run(b);
                out->block_count += b->mapped;
            }
        }
    for (const block *b = a->uncached; b != NULL; b = b->next) {
        out->segment_count++;
        out->block_count++;
    }
    out->trace_count = a->history.count;
}

static core_alloc_segment_info *begin_run(core_alloc_snapshot *out, const block *b)
{
    const segment *seg = b->segment;
    core_alloc_segment_info *info = &out->segments[out->segment_count++];
    *info = (core_alloc_segment_info){ .data = b->pub.data,
                                       .stream = seg->shard->stream,
                                       .small = seg->kind == SMALL,
                                       .page_bytes = seg->page_bytes,
                                       .pool = seg->shard->home != NULL ? seg->shard->home->id : 0,
                                       .first_block = out->block_count };
    return info;
}

static void add_segment(core_alloc_snapshot *out, const segment *seg)
{
    core_alloc_segment_info *info = NULL;
    for (const block *b = seg->first; b != NULL; b = b->next) {
        if (!b->mapped)
            continue;
        if (begins_run(b))
            info = begin_run(out, b);
        const core_alloc_block_info what = describe(b);
        const bool allocated = what.state == CORE_ALLOC_STATE_ALLOCATED;
        const bool active = allocated || what.state == CORE_ALLOC_STATE_AWAITING;
        out->blocks[out->block_count++] = what;
        info->total += what.size;
        info->allocated += allocated ? what.size : 0;
        info->active += active ? what.size : 0;
        info->requested += what.requested;
        info->block_count++;
    }
}

/* Without a cache each block is a segment. */
static void add_uncached(core_alloc_snapshot *out, const block *b)
{
    out->segments[out->segment_count++] =
        (core_alloc_segment_info){ .data = b->pub.data,
                                   .total = b->pub.size,
                                   .allocated = b->pub.size,
                                   .active = b->pub.size,
                                   .requested = b->pub.requested,
                                   .stream = b->streams[0],
                                   .small = b->pub.size <= SMALL_LIMIT,
                                   .first_block = out->block_count,
                                   .block_count = 1 };
    out->blocks[out->block_count++] = describe(b);
}

static int by_address(const void *left, const void *right)
{
    const char *x = ((const core_alloc_segment_info *)left)->data;
    const char *y = ((const core_alloc_segment_info *)right)->data;
    return (x > y) - (x < y);
}

static void fill(const core_alloc *a, core_alloc_snapshot *out)
{
    out->segment_count = out->block_count = 0;
    for (const shard *s = a->shards; s != NULL; s = s->next)
        for (const segment *seg = s->segments; seg != NULL; seg = seg->next)
            add_segment(out, seg);
    for (const block *b = a->uncached; b != NULL; b = b->next)
        add_uncached(out, b);
    if (out->segment_count > 0)
        qsort(out->segments, (size_t)out->segment_count, sizeof *out->segments, by_address);
    const history *h = &a->history;
    for (int64_t i = 0; i < h->count; i++)
        out->trace[i] = h->entries[(h->next + i) % h->count];
}

tern_status_t core_alloc_snapshot_init(core_alloc *a, core_alloc_snapshot *out_snapshot)
{
    core_alloc_snapshot out = { 0 };
    world_lock(a);
    trace(a, CORE_ALLOC_TRACE_SNAPSHOT, NULL, NULL, 0, NULL);
    count_all(a, &out);
    out.segments = host_calloc((size_t)out.segment_count + 1, sizeof *out.segments);
    out.blocks = host_calloc((size_t)out.block_count + 1, sizeof *out.blocks);
    out.trace = host_calloc((size_t)out.trace_count + 1, sizeof *out.trace);
    const bool enough = out.segments != NULL && out.blocks != NULL && out.trace != NULL;
    if (enough)
        fill(a, &out);
    world_unlock(a);
    if (!enough) {
        core_alloc_snapshot_deinit(&out);
        return TERN_ERR_OOM;
    }
    *out_snapshot = out;
    return TERN_OK;
}

void core_alloc_snapshot_deinit(core_alloc_snapshot *snapshot)
{
    free(snapshot->segments);
    free(snapshot->blocks);
    free(snapshot->trace);
    *snapshot = (core_alloc_snapshot){ 0 };
}
