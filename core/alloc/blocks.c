/* Block records, and the life of a block: taken from the front of a free one, ended, merged back. */
#include "core/alloc/engine.h"

#include <stdlib.h>

#include "core/pool.h"

void *host_calloc(size_t count, size_t size)
{
    return core_fault() ? NULL : calloc(count, size);
}

bool host_grow(void **array, int64_t count, int64_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    const int64_t wanted = *capacity > 0 ? 2 * *capacity : 16;
    void *grown = core_fault() ? NULL : realloc(*array, (size_t)wanted * size);
    if (grown == NULL)
        return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

/* ---- records ------------------------------------------------------------------------------------ */

static uint32_t next_priority(void)
{
    static _Atomic uint32_t count;
    uint32_t x = (atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) + 1) * 0x9E3779B9u;
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    return x ^ x >> 13;
}

bool shard_reserve(shard *s, int64_t n)
{
    while (s->spare_count < n) {
        record_slab *more = host_calloc(1, sizeof *more);
        if (more == NULL)
            return false;
        more->next = s->slabs;
        s->slabs = more;
        for (int i = SLAB_BLOCKS - 1; i >= 0; i--) {
            more->blocks[i].shard = s;
            more->blocks[i].priority = next_priority();
            record_drop(&more->blocks[i]);
        }
    }
    return true;
}

/* A dropped record has no streams and no events. */
block *record_take(shard *s)
{
    block *b = s->spare;
    s->spare = b->left;
    s->spare_count--;
    b->prev = b->next = NULL;
    b->mapped = true;
    b->expandable = false;
    return b;
}

void record_drop(block *b)
{
    shard *s = b->shard;
    b->in_use = false;
    b->left = s->spare;
    s->spare = b;
    s->spare_count++;
}

static block *record_like(const block *b, char *data, int64_t bytes)
{
    block *made = record_take(b->shard);
    made->pub.data = data;
    made->pub.size = bytes;
    made->segment = b->segment;
    made->kind = b->kind;
    made->expandable = b->expandable;
    return made;
}

block *block_insert_after(block *b, char *data, int64_t bytes)
{
    block *made = record_like(b, data, bytes);
    made->prev = b;
    made->next = b->next;
    if (b->next != NULL)
        b->next->prev = made;
    b->next = made;
    return made;
}

block *block_insert_before(block *b, char *data, int64_t bytes)
{
    block *made = record_like(b, data, bytes);
    made->next = b;
    made->prev = b->prev;
    if (b->prev != NULL)
        b->prev->next = made;
    else
        b->segment->first = made;
    b->prev = made;
    return made;
}

/* ---- life --------------------------------------------------------------------------------------- */

void free_insert(core_alloc *a, block *b)
{
    b->gc_base = a->searches;
    list_insert(&b->shard->list[b->kind], b);
}

int64_t block_merge(block *b, block *neighbour)
{
    if (neighbour == NULL || !is_free(neighbour) || neighbour->mapped != b->mapped)
        return 0;
    const int64_t bytes = neighbour->pub.size;
    if (neighbour->mapped)
        list_erase(&b->shard->list[b->kind], neighbour);
    if (b->prev == neighbour) {
        b->pub.data = neighbour->pub.data;
        b->prev = neighbour->prev;
        if (b->prev != NULL)
            b->prev->next = b;
        else
            b->segment->first = b;
    } else {
        b->next = neighbour->next;
        if (b->next != NULL)
            b->next->prev = b;
    }
    b->pub.size += bytes;
    record_drop(neighbour);
    return bytes;
}

/* M015-M017 */
static bool should_split(const core_alloc *a, const block *b, int64_t size)
{
    const int64_t rest = b->pub.size - size;
    if (b->kind == SMALL || a->settings.expandable_segments)
        return rest >= UNIT;
    return size < a->settings.max_split_bytes && rest > SMALL_LIMIT;
}

/* Splits the front off when the rules say so, and counts what that does to inactive_split. */
static block *take_front(core_alloc *a, block *b, int64_t size, bool listed, int64_t *delta)
{
    const bool was_split = is_split(b), counted = !b->expandable;
    free_list *list = &b->shard->list[b->kind];
    if (!should_split(a, b, size)) {
        if (listed)
            list_erase(list, b);
        if (was_split && counted) {
            delta[HOT_INACTIVE_SPLIT] = -1;
            delta[HOT_INACTIVE_SPLIT_BYTES] = -b->pub.size;
        }
        return b;
    }
    block *front = block_insert_before(b, b->pub.data, size);
    b->gc_base = a->searches;
    if (listed) {
        list_change(list, b, b->pub.data + size, b->pub.size - size);
    } else {
        b->pub.data += size;
        b->pub.size -= size;
        list_insert(list, b);
    }
    if (counted) {
        delta[HOT_INACTIVE_SPLIT] = was_split ? 0 : 1;
        delta[HOT_INACTIVE_SPLIT_BYTES] = was_split ? -size : b->pub.size;
    }
    return front;
}

bool block_take(core_alloc *a, block **b, int64_t size, int64_t bytes, tern_site_t site,
                bool listed)
{
    int64_t delta[HOT] = { 0 };
    block *taken = take_front(a, *b, size, listed, delta);
    taken->in_use = true;
    taken->pub.requested = bytes;
    taken->pub.site = site;
    core_alloc_front(&taken->pub, -1, NULL);
    delta[HOT_ALLOCATION] = delta[HOT_ACTIVE] = 1;
    delta[HOT_ALLOCATED_BYTES] = delta[HOT_ACTIVE_BYTES] = taken->pub.size;
    delta[HOT_REQUESTED_BYTES] = bytes;
    int64_t *increased = taken->shard->ledger.increased[taken->kind];
    increased[HOT_ALLOCATION]++;
    increased[HOT_ALLOCATED_BYTES] += taken->pub.size;
    increased[HOT_REQUESTED_BYTES] += bytes;
    if (delta[HOT_INACTIVE_SPLIT_BYTES] > 0) {
        increased[HOT_INACTIVE_SPLIT]++;
        increased[HOT_INACTIVE_SPLIT_BYTES] += delta[HOT_INACTIVE_SPLIT_BYTES];
    }
    *b = taken;
    return ledger_apply(taken->shard, taken->kind, delta);
}

static void end_delta(const block *b, int64_t *delta)
{
    delta[HOT_ALLOCATION] = -1;
    delta[HOT_ALLOCATED_BYTES] = -b->pub.size;
}

bool block_end(block *b)
{
    int64_t delta[HOT] = { 0 };
    b->in_use = false;
    end_delta(b, delta);
    return ledger_apply(b->shard, b->kind, delta);
}

/* The free block that follows b takes b in; it may stay where it is in its list. */
static block *absorb_front(core_alloc *a, block *rest, block *b)
{
    rest->gc_base = a->searches;
    list_change(&rest->shard->list[rest->kind], rest, b->pub.data, b->pub.size + rest->pub.size);
    rest->prev = b->prev;
    *(b->prev != NULL ? &b->prev->next : &b->segment->first) = rest;
    record_drop(b);
    return rest;
}

/* Active to free. */
static void release_delta(core_alloc *a, block *b, int64_t *delta)
{
    delta[HOT_ACTIVE] = -1;
    delta[HOT_ACTIVE_BYTES] = -b->pub.size;
    delta[HOT_REQUESTED_BYTES] = -b->pub.requested;
    int64_t count = 0, bytes = 0;
    block *rest = b->next;
    const int64_t before = block_merge(b, b->prev);
    count -= before > 0;
    bytes -= before;
    if (rest != NULL && is_free(rest) && rest->mapped == b->mapped) {
        count--;
        bytes -= rest->pub.size;
        b = absorb_front(a, rest, b);
    } else {
        free_insert(a, b);
    }
    if (b->expandable)
        return;
    if (is_split(b)) {
        count++;
        bytes += b->pub.size;
    }
    delta[HOT_INACTIVE_SPLIT] = count;
    delta[HOT_INACTIVE_SPLIT_BYTES] = bytes;
    int64_t *increased = b->shard->ledger.increased[b->kind];
    increased[HOT_INACTIVE_SPLIT] += count > 0 ? count : 0;
    increased[HOT_INACTIVE_SPLIT_BYTES] += bytes > 0 ? bytes : 0;
}

bool block_release(core_alloc *a, block *b)
{
    int64_t delta[HOT] = { 0 };
    release_delta(a, b, delta);
    return ledger_apply(b->shard, b->kind, delta);
}

bool block_end_release(core_alloc *a, block *b)
{
    int64_t delta[HOT] = { 0 };
    b->in_use = false;
    end_delta(b, delta);
    release_delta(a, b, delta);
    return ledger_apply(b->shard, b->kind, delta);
}
