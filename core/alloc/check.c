/* The invariants, one by one; the first that does not hold is named. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/alloc/engine.h"
#include "core/log.h"

/* What the blocks add up to, in the shape of the ledger, and free blocks by kind. */
typedef struct sums {
    int64_t hot[KINDS][HOT];
    int64_t segments[KINDS], reserved[KINDS];
    int64_t deferred, awaiting;
} sums;

static bool fault(char *why, const char *format, ...) TERN_PRINTF(2, 3);
static bool fault(char *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, CORE_ALLOC_WHY_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

void core_alloc_broken(const char *why)
{
    tern_log_write(TERN_LOG_ERROR, NULL, "caching allocator: %s", why);
    assert(why == NULL && "an invariant of the caching allocator does not hold: see the log");
}

static void add_block(sums *sum, const block *b)
{
    int64_t *hot = sum->hot[b->kind];
    if (!b->mapped)
        return;
    if (b->in_use) {
        hot[HOT_ALLOCATION]++;
        hot[HOT_ALLOCATED_BYTES] += b->pub.size;
    }
    if (!is_free(b)) {
        hot[HOT_ACTIVE]++;
        hot[HOT_ACTIVE_BYTES] += b->pub.size;
        hot[HOT_REQUESTED_BYTES] += b->pub.requested;
    } else if (is_split(b) && !b->expandable) {
        hot[HOT_INACTIVE_SPLIT]++;
        hot[HOT_INACTIVE_SPLIT_BYTES] += b->pub.size;
    }
    sum->reserved[b->kind] += b->pub.size;
    sum->awaiting += b->events;
    sum->deferred += !b->in_use && b->stream_count > 0;
}

static bool check_block(const block *b, const segment *seg, const shard *s, char *why)
{
    const block *next = b->next;
    if (b->segment != seg || b->shard != s || b->kind != seg->kind)
        return fault(why, "block %p does not know its place", (const void *)b->pub.data);
    if (b->pub.size <= 0 || (b->pub.size % UNIT != 0 && is_split(b)))
        return fault(why, "block %p has %lld bytes", (const void *)b->pub.data,
                     (long long)b->pub.size);
    if (next != NULL && (next->prev != b || next->pub.data != b->pub.data + b->pub.size))
        return fault(why, "block %p and its neighbour are not linked", (const void *)b->pub.data);
    if (next != NULL && is_free(b) && is_free(next) && b->mapped == next->mapped)
        return fault(why, "block %p and its neighbour are both free", (const void *)b->pub.data);
    if (b->in_use && b->pub.requested > b->pub.size)
        return fault(why, "block %p is smaller than its request", (const void *)b->pub.data);
    if (b->mapped && is_free(b)) {
        const block *best = list_best(&s->list[seg->kind], b->pub.size);
        while (best != NULL && best != b && best->pub.size == b->pub.size)
            best = list_after(&s->list[seg->kind], best);
        if (best != b)
            return fault(why, "free block %p is in no list", (const void *)b->pub.data);
    }
    return true;
}

static bool check_pages(const segment *seg, char *why)
{
    for (const block *b = seg->first; b != NULL && seg->page_bytes != 0; b = b->next) {
        const int64_t from = b->pub.data - seg->data;
        for (int64_t page = from / seg->page_bytes; page * seg->page_bytes < from + b->pub.size;
             page++)
            if (seg->mapped[page] != b->mapped)
                return fault(why, "page %lld of segment %p is not what its block says",
                             (long long)page, (const void *)seg->data);
    }
    return true;
}

static bool check_segment(const segment *seg, const shard *s, sums *sum, int64_t *free_blocks,
                          char *why)
{
    int64_t total = 0;
    if (seg->shard != s || seg->first->prev != NULL || seg->first->pub.data != seg->data)
        return fault(why, "segment %p has lost its first block", (const void *)seg->data);
    for (const block *b = seg->first; b != NULL; b = b->next) {
        if (!check_block(b, seg, s, why))
            return false;
        add_block(sum, b);
        total += b->pub.size;
        free_blocks[seg->kind] += b->mapped && is_free(b);
    }
    if (total != seg->total)
        return fault(why, "blocks of segment %p have %lld bytes of %lld", (const void *)seg->data,
                     (long long)total, (long long)seg->total);
    sum->segments[seg->kind] += seg->page_bytes == 0;
    const segment *next = seg->next;
    if (next != NULL && (next->prev != seg || next->data < seg->data + seg->total))
        return fault(why, "segment %p and the next overlap", (const void *)seg->data);
    return check_pages(seg, why);
}

static bool check_list(const free_list *list, int64_t expected, char *why)
{
    int64_t count = 0;
    const block *last = NULL;
    for (const block *b = list_first(list); b != NULL; b = list_after(list, b)) {
        if (last != NULL && list_before(list, b) != last)
            return fault(why, "a free list is not sorted at %p", (const void *)b->pub.data);
        last = b;
        count++;
    }
    if (count != expected)
        return fault(why, "a free list has %lld blocks, there are %lld", (long long)count,
                     (long long)expected);
    return true;
}

static bool check_shard(const shard *s, sums *sum, char *why)
{
    int64_t free_blocks[KINDS] = { 0, 0 };
    for (const segment *seg = s->segments; seg != NULL; seg = seg->next)
        if (!check_segment(seg, s, sum, free_blocks, why))
            return false;
    return check_list(&s->list[SMALL], free_blocks[SMALL], why) &&
           check_list(&s->list[LARGE], free_blocks[LARGE], why);
}

static bool check_counters(const core_alloc *a, const sums *sum, char *why)
{
    for (int i = 0; i < HOT; i++)
        for (int column = 0; column < CORE_ALLOC_COLUMNS; column++) {
            const int64_t small = column != CORE_ALLOC_LARGE ? sum->hot[SMALL][i] : 0;
            const int64_t large = column != CORE_ALLOC_SMALL ? sum->hot[LARGE][i] : 0;
            const int64_t counted = hot_current(a, column, i);
            if (counted != small + large)
                return fault(why, "counter %d of column %d says %lld, blocks say %lld", i, column,
                             (long long)counted, (long long)(small + large));
            if (a->peak[column][i] < counted)
                return fault(why, "peak %d of column %d is under its value", i, column);
        }
    const core_alloc_stat *segments = a->cold.family[CORE_ALLOC_SEGMENT];
    const core_alloc_stat *reserved = a->cold.family[CORE_ALLOC_RESERVED_BYTES];
    for (int kind = 0; kind < KINDS; kind++)
        if (segments[CORE_ALLOC_SMALL + kind].current != sum->segments[kind] ||
            reserved[CORE_ALLOC_SMALL + kind].current != sum->reserved[kind])
            return fault(why, "segments or reserved bytes of pool kind %d do not add up", kind);
    return true;
}

static bool check_waiting(const core_alloc *a, const sums *sum, char *why)
{
    int64_t awaiting = 0, deferred = 0;
    for (const event_queue *q = a->queues; q != NULL; q = q->next)
        for (const waiting *w = q->first; w != NULL; w = w->next)
            awaiting++;
    for (const block *b = a->deferred; b != NULL; b = b->left)
        deferred++;
    if (awaiting != sum->awaiting || deferred != sum->deferred)
        return fault(why, "%lld events and %lld deferred blocks wait; blocks say %lld and %lld",
                     (long long)awaiting, (long long)deferred, (long long)sum->awaiting,
                     (long long)sum->deferred);
    return true;
}

bool core_alloc_check(core_alloc *a, char why[CORE_ALLOC_WHY_BYTES])
{
    sums sum = { 0 };
    why[0] = '\0';
    world_lock(a);
    ledger_settle(a);
    bool good = true;
    for (const shard *s = a->shards; s != NULL && good; s = s->next)
        good = check_shard(s, &sum, why);
    good = good && check_counters(a, &sum, why) && check_waiting(a, &sum, why);
    world_unlock(a);
    return good;
}
