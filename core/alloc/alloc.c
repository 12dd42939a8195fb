/* See core/alloc/alloc.h: life of an allocator, the short ways of malloc and free, and the calls that
 * are always made in the world. */
#include "core/alloc/alloc.h"

#include <stdlib.h>

#include "core/alloc/engine.h"

/* ---- life ------------------------------------------------------------------------------------------ */

core_alloc *core_alloc_new(const core_alloc_raw *raw)
{
    core_alloc *a = aligned_alloc(64, (sizeof *a + 63) / 64 * 64);
    if (a == NULL)
        return NULL;
    *a = (core_alloc){ .raw = *raw };
    core_alloc_settings_init(&a->settings);
    if (raw->vmm != NULL) {
        a->vmm = *raw->vmm;
        a->raw.vmm = &a->vmm;
    }
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

static void segment_destroy(core_alloc *a, segment *seg)
{
    for (block *b = seg->first; b != NULL; b = b->next)
        free(b->streams);
    if (seg->page_bytes != 0) {
        expandable_destroy(a, seg);
        return;
    }
    void *stream = seg->shard->stream;
    (void)a->raw.free(a->raw.context, seg->data, seg->total, stream);
    segment_remove(seg);
}

static void shards_destroy(core_alloc *a)
{
    for (shard *s = a->shards, *next; s != NULL; s = next) {
        next = s->next;
        while (s->segments != NULL)
            segment_destroy(a, s->segments);
        for (record_slab *slabs = s->slabs, *more; slabs != NULL; slabs = more) {
            more = slabs->next;
            free(slabs);
        }
        free(s->spare_segment);
        free(s);
    }
}

void core_alloc_delete(core_alloc *a)
{
    if (a == NULL)
        return;
    world_lock(a);
    events_destroy(a);
    uncached_destroy(a);
    shards_destroy(a);
    for (shard_table *t = atomic_load(&a->table), *next; t != NULL; t = next) {
        next = t->retired;
        free(t);
    }
    for (private_pool *pool = a->pools, *next; pool != NULL; pool = next) {
        next = pool->next;
        free(pool);
    }
    free(a->routes);
    free(a->history.entries);
    pthread_mutex_unlock(&a->lock);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* ---- the short ways -------------------------------------------------------------------------------- */

/* Ends a critical section in which credit may have been overdrawn. */
static void unlock_settled(core_alloc *a, shard *s, bool settled)
{
    if (__builtin_expect(!settled && a->shard_count == 1, 0)) {
        ledger_settle_alone(a, s);
        settled = true;
    }
    spin_unlock(&s->lock);
    if (__builtin_expect(!settled, 0)) {
        world_lock(a);
        ledger_settle(a);
        world_unlock(a);
    }
}

#ifdef NDEBUG
#define CHECKED(a) (void)(a)
#else
#define CHECKED(a) checked(a)
/* Of a thread's calls all at first, then some: each looks at every block. */
static void checked(core_alloc *a)
{
    enum { AT_FIRST = 4096, EACH = 8 };
    static _Thread_local unsigned calls;
    char why[CORE_ALLOC_WHY_BYTES];
    calls++;
    if (calls > AT_FIRST && calls % EACH != 0)
        return;
    if (!core_alloc_check(a, why))
        core_alloc_broken(why);
}
#endif

core_alloc_block *core_alloc_malloc(core_alloc *a, void *stream, int64_t bytes, tern_site_t site,
                                    core_alloc_failure *out_failure)
{
    shard *s = shard_lookup(a, stream);
    if (__builtin_expect(s != NULL && bytes > 0 && bytes < INT64_C(1) << 59, 1)) {
        spin_lock(&s->lock);
        if (__builtin_expect(a->slow == 0 && s->spare_count > 0, 1)) {
            const int64_t size = a->divided ? core_alloc_round(&a->settings, bytes)
                                            : (bytes + UNIT - 1) & ~(int64_t)(UNIT - 1);
            free_list *list = &s->list[size <= SMALL_LIMIT ? SMALL : LARGE];
            block *b = list_best(list, size);
            if (__builtin_expect(b != NULL && !b->expandable, 1)) {
                const bool settled = block_take(a, &b, size, bytes, site, true);
                unlock_settled(a, s, settled);
                CHECKED(a);
                return &b->pub;
            }
        }
        spin_unlock(&s->lock);
    }
    core_alloc_block *made = request_run(a, stream, bytes, site, out_failure);
    CHECKED(a);
    return made;
}

/* In the world. */
static tern_status_t free_slowly(core_alloc *a, block *b)
{
    if (!b->in_use)
        return TERN_ERR_ARGUMENT;
    if (a->settings.no_cache)
        return uncached_free(a, b);
    trace(a, CORE_ALLOC_TRACE_FREE_REQUESTED, b->shard, b->pub.data, b->pub.size, b->pub.site);
    if (b->pub.size >= a->settings.max_split_bytes)
        stat_change(&a->cold.oversize_allocations, -1);
    bool settled = block_end(b);
    tern_status_t code = TERN_OK;
    if (b->stream_count > 0) {
        code = events_insert(a, b);
    } else {
        trace(a, CORE_ALLOC_TRACE_FREE_COMPLETED, b->shard, b->pub.data, b->pub.size, b->pub.site);
        settled = block_release(a, b) && settled;
    }
    if (!settled)
        ledger_settle(a);
    return code;
}

tern_status_t core_alloc_free(core_alloc *a, core_alloc_block *public_block)
{
    if (public_block == NULL)
        return TERN_OK;
    block *b = (block *)public_block;
    shard *s = b->shard;
    if (s != NULL) {
        spin_lock(&s->lock);
        const bool simple =
            (a->slow & ~(unsigned)SLOW_EVENTS) == 0 && b->in_use && b->stream_count == 0;
        if (__builtin_expect(simple, 1)) {
            const bool settled = block_end_release(a, b);
            unlock_settled(a, s, settled);
            CHECKED(a);
            return TERN_OK;
        }
        spin_unlock(&s->lock);
    }
    world_lock(a);
    const tern_status_t code = free_slowly(a, b);
    world_unlock(a);
    CHECKED(a);
    return code;
}

/* ---- calls in the world ------------------------------------------------------------------------------- */

static bool has_front(const block *b)
{
    return __atomic_load_n(&b->pub.front_bytes, __ATOMIC_RELAXED) >= 0;
}

/* A block that a cache in front holds is not found: it is a tensor's, or rests. */
static block *find_in_use(core_alloc *a, const char *data)
{
    for (block *b = a->uncached; b != NULL; b = b->next)
        if (b->pub.data == data)
            return b;
    for (const shard *s = a->shards; s != NULL; s = s->next)
        for (const segment *seg = s->segments; seg != NULL; seg = seg->next) {
            if (data < seg->data || data >= seg->data + seg->total)
                continue;
            block *b = seg->first;
            while (b != NULL && b->pub.data < data)
                b = b->next;
            return b != NULL && b->pub.data == data && b->in_use && !has_front(b) ? b : NULL;
        }
    return NULL;
}

core_alloc_block *core_alloc_find(core_alloc *a, const void *data)
{
    world_lock(a);
    block *b = find_in_use(a, data);
    world_unlock(a);
    return b != NULL ? &b->pub : NULL;
}

tern_status_t core_alloc_free_data(core_alloc *a, void *data)
{
    if (data == NULL)
        return TERN_OK;
    world_lock(a);
    block *b = find_in_use(a, data);
    const tern_status_t code = b != NULL ? free_slowly(a, b) : TERN_ERR_ARGUMENT;
    world_unlock(a);
    CHECKED(a);
    return code;
}

tern_status_t core_alloc_record_stream(core_alloc *a, core_alloc_block *public_block, void *stream)
{
    if (public_block == NULL)
        return TERN_OK;
    block *b = (block *)public_block;
    tern_status_t code = TERN_OK;
    world_lock(a);
    if (!b->in_use)
        code = TERN_ERR_ARGUMENT;
    else if ((b->shard == NULL || b->shard->stream != stream) && !block_add_stream(b, stream))
        code = TERN_ERR_OOM;
    world_unlock(a);
    return code;
}

tern_status_t core_alloc_process_events(core_alloc *a)
{
    world_lock(a);
    const tern_status_t code = a->captures == 0 ? events_process(a) : TERN_OK;
    world_unlock(a);
    CHECKED(a);
    return code;
}

tern_status_t core_alloc_empty_cache(core_alloc *a)
{
    world_lock(a);
    tern_status_t code = TERN_ERR_STATE; /* a capture forbids waiting */
    if (a->captures == 0) {
        code = segments_flush(a);
        const tern_status_t dropped = events_drop_spares(a);
        code = code != TERN_OK ? code : dropped;
    }
    world_unlock(a);
    CHECKED(a);
    return code;
}

tern_status_t core_alloc_trim(core_alloc *a, int64_t keep)
{
    world_lock(a);
    tern_status_t code = TERN_OK;
    if (a->captures == 0 &&
        reserved_bytes(a) - hot_current(a, CORE_ALLOC_ALL, HOT_ALLOCATED_BYTES) > keep)
        code = segments_flush(a);
    world_unlock(a);
    CHECKED(a);
    return code;
}

void core_alloc_lock(core_alloc *a)
{
    world_lock(a);
}

void core_alloc_unlock(core_alloc *a)
{
    world_unlock(a);
}

static void update_settings(core_alloc *a)
{
    const core_alloc_settings *s = &a->settings;
    a->divided = false;
    for (int i = 0; i < CORE_ALLOC_INTERVALS; i++)
        a->divided |= s->divisions[i] > 1;
    slow_update(a, SLOW_SETTINGS,
                s->max_split_bytes != INT64_MAX || s->expandable_segments || s->no_cache ||
                    s->gc_threshold > 0);
    a->allowed = (int64_t)(s->memory_fraction * (double)a->device_total);
}

tern_status_t core_alloc_configure(core_alloc *a, const core_alloc_settings *settings)
{
    world_lock(a);
    tern_status_t code = TERN_OK;
    if (a->used && settings->no_cache != a->settings.no_cache)
        code = TERN_ERR_STATE;
    else if (settings->has_fraction && device_total(a) == 0)
        code = TERN_ERR_STATE;
    if (code == TERN_OK) {
        a->settings = *settings;
        a->settings.expandable_segments &= a->raw.vmm != NULL;
        update_settings(a);
    }
    world_unlock(a);
    return code;
}

core_alloc_settings core_alloc_settings_of(core_alloc *a)
{
    world_lock(a);
    const core_alloc_settings settings = a->settings;
    world_unlock(a);
    return settings;
}

tern_status_t core_alloc_set_fraction(core_alloc *a, double fraction)
{
    if (!(fraction >= 0 && fraction <= 1))
        return TERN_ERR_ARGUMENT;
    world_lock(a);
    const bool known = device_total(a) > 0;
    if (known) {
        a->settings.memory_fraction = fraction;
        a->settings.has_fraction = true;
        update_settings(a);
    }
    world_unlock(a);
    return known ? TERN_OK : TERN_ERR_STATE;
}

void core_alloc_set_reclaim(core_alloc *a, bool (*callback)(void *user), void *user)
{
    world_lock(a);
    a->reclaim = callback;
    a->reclaim_user = user;
    world_unlock(a);
}

void core_alloc_set_observer(core_alloc *a,
                             void (*observer)(void *user, const core_alloc_failure *failure),
                             void *user)
{
    world_lock(a);
    a->observer = observer;
    a->observer_user = user;
    world_unlock(a);
}
