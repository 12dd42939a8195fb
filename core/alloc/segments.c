/* Segments: raw memory taken and returned, and the three ways in which cached ones go back. */
#include "core/alloc/engine.h"

#include <stdlib.h>

int64_t device_total(core_alloc *a)
{
    int64_t free_bytes = 0, total = 0;
    if (a->device_total == 0 && a->raw.info != NULL &&
        a->raw.info(a->raw.context, &free_bytes, &total) == TERN_OK)
        a->device_total = total;
    return a->device_total;
}

bool segment_reserve(shard *s)
{
    if (s->spare_segment == NULL)
        s->spare_segment = host_calloc(1, sizeof *s->spare_segment);
    return s->spare_segment != NULL;
}

segment *segment_add(shard *s, int kind, char *data, int64_t total)
{
    segment *seg = s->spare_segment;
    s->spare_segment = NULL;
    block *b = record_take(s);
    *seg = (segment){ .data = data, .total = total, .first = b, .shard = s, .kind = (uint8_t)kind };
    b->pub.data = data;
    b->pub.size = total;
    b->segment = seg;
    b->kind = (uint8_t)kind;
    segment *before = NULL, *after = s->segments;
    while (after != NULL && after->data < data) {
        before = after;
        after = after->next;
    }
    seg->prev = before;
    seg->next = after;
    *(before != NULL ? &before->next : &s->segments) = seg;
    if (after != NULL)
        after->prev = seg;
    if (s->home != NULL)
        s->home->segments++;
    return seg;
}

void segment_remove(segment *seg)
{
    shard *s = seg->shard;
    *(seg->prev != NULL ? &seg->prev->next : &s->segments) = seg->next;
    if (seg->next != NULL)
        seg->next->prev = seg->prev;
    if (s->home != NULL)
        s->home->segments--;
    record_drop(seg->first);
    free(seg->handles);
    free(seg->mapped);
    free(seg);
}

tern_status_t segment_alloc(core_alloc *a, shard *s, int kind, int64_t bytes, tern_site_t site,
                            block **out_block)
{
    void *data = NULL;
    const tern_status_t code = a->raw.alloc(a->raw.context, bytes, s->stream, &data);
    if (code != TERN_OK)
        return code;
    *out_block = segment_add(s, kind, data, bytes)->first;
    count_segment(a, kind, 1, bytes);
    if (bytes >= a->settings.max_split_bytes)
        stat_change(&a->cold.oversize_segments, 1);
    a->cold.num_device_alloc++;
    trace(a, CORE_ALLOC_TRACE_SEGMENT_ALLOC, s, data, bytes, site);
    return TERN_OK;
}

static tern_status_t segment_free(core_alloc *a, block *b)
{
    segment *seg = b->segment;
    shard *s = seg->shard;
    list_erase(&s->list[seg->kind], b);
    trace(a, CORE_ALLOC_TRACE_SEGMENT_FREE, s, seg->data, seg->total, NULL);
    count_segment(a, seg->kind, -1, -seg->total);
    if (seg->total >= a->settings.max_split_bytes)
        stat_change(&a->cold.oversize_segments, -1);
    a->cold.num_device_free++;
    void *data = seg->data;
    const int64_t bytes = seg->total;
    segment_remove(seg);
    return a->raw.free(a->raw.context, data, bytes, s->stream);
}

/* ---- all that is not in use ------------------------------------------------------------------------ */

static void keep_first(tern_status_t *code, tern_status_t next)
{
    if (*code == TERN_OK)
        *code = next;
}

static tern_status_t trim_segment(core_alloc *a, segment *seg)
{
    tern_status_t code = TERN_OK;
    bool gone = false;
    for (block *b = seg->first, *next; b != NULL && !gone; b = next) {
        next = b->next; /* an unmapped one may merge with b; what is behind it stays */
        if (next != NULL && !next->mapped)
            next = next->next;
        if (b->mapped && is_free(b))
            keep_first(&code, expandable_trim(a, b, &gone));
    }
    return code;
}

static tern_status_t shard_release(core_alloc *a, shard *s)
{
    tern_status_t code = TERN_OK;
    for (segment *seg = s->segments, *next; seg != NULL; seg = next) {
        next = seg->next;
        if (seg->page_bytes != 0)
            keep_first(&code, trim_segment(a, seg));
        else if (!is_split(seg->first) && is_free(seg->first))
            keep_first(&code, segment_free(a, seg->first));
    }
    return code;
}

/* Every segment without a live block, of the default pool and freeable ones. The first error. */
static tern_status_t segments_release(core_alloc *a)
{
    tern_status_t code = TERN_OK;
    for (shard *s = a->shards; s != NULL; s = s->next)
        if (pool_freeable(s->home))
            keep_first(&code, shard_release(a, s));
    pools_sweep(a);
    return code;
}

tern_status_t core_alloc_empty_pools(core_alloc *a)
{
    world_lock(a);
    tern_status_t code = TERN_OK;
    for (shard *s = a->shards; s != NULL; s = s->next)
        if (s->home != NULL && pool_freeable(s->home))
            keep_first(&code, shard_release(a, s));
    pools_sweep(a);
    world_unlock(a);
    return code;
}

tern_status_t segments_flush(core_alloc *a)
{
    tern_status_t code = events_synchronize(a);
    keep_first(&code, segments_release(a));
    return code;
}

/* ---- just enough, and the old ----------------------------------------------------------------------- */

static bool releasable(const block *b)
{
    return !b->expandable && !is_split(b);
}

bool segments_release_oversize(core_alloc *a, shard *s, int kind, int64_t size)
{
    const int64_t oversize = a->settings.max_split_bytes;
    if (oversize == INT64_MAX)
        return false;
    const int64_t wanted = size < oversize ? oversize : size;
    free_list *list = &s->list[kind];
    block *b = list_best(list, wanted);
    if (b != NULL && releasable(b))
        return segment_free(a, b) == TERN_OK;
    int64_t released = 0;
    b = b != NULL ? list_before(list, b) : list_largest(list);
    while (b != NULL && b->pub.size >= oversize && released < wanted) {
        block *smaller = list_before(list, b);
        if (releasable(b)) {
            released += b->pub.size;
            (void)segment_free(a, b);
        }
        b = smaller;
    }
    return released >= wanted;
}

typedef struct ages {
    int64_t total, count;
} ages;

static bool collectable(const block *b)
{
    return b != NULL && b->kind == LARGE && releasable(b) && is_free(b);
}

static ages sum_ages(core_alloc *a)
{
    ages sum = { 0, 0 };
    for (shard *s = a->shards; s != NULL; s = s->next)
        for (segment *seg = s->home == NULL ? s->segments : NULL; seg != NULL; seg = seg->next)
            if (collectable(seg->first)) {
                sum.total += a->searches - seg->first->gc_base;
                sum.count++;
            }
    return sum;
}

/* Returns every block of at least the mean age; the bytes. */
static int64_t collect_older(core_alloc *a, ages mean)
{
    int64_t freed = 0;
    for (shard *s = a->shards; s != NULL; s = s->next)
        for (segment *seg = s->home == NULL ? s->segments : NULL, *next; seg != NULL; seg = next) {
            next = seg->next;
            block *b = seg->first;
            if (!collectable(b) || (a->searches - b->gc_base) * mean.count < mean.total)
                continue;
            freed += b->pub.size;
            (void)segment_free(a, b);
        }
    return freed;
}

void segments_collect(core_alloc *a)
{
    const double limit = a->settings.gc_threshold * (double)a->allowed;
    int64_t excess = reserved_bytes(a) - (int64_t)limit;
    while (excess > 0) {
        const ages sum = sum_ages(a);
        const int64_t freed = sum.count > 0 ? collect_older(a, sum) : 0;
        if (freed == 0)
            return;
        excess -= freed;
    }
}
