/* The long way of a request: the documented order of attempts (M026), alone in the world. */
#include <string.h>

#include "core/alloc/engine.h"

enum { ABSURD_SHIFT = 60 }; /* M003 */

typedef struct request {
    core_alloc *a;
    void *stream;
    int64_t bytes, size, segment; /* asked for, rounded, what a segment for it would have */
    tern_site_t site;
    int kind;
    shard *shard;
    block *found;
    tern_status_t code; /* of the last raw call; TERN_ERR_OOM lets the attempts go on */
    bool by_fraction;
    bool rejected;    /* throw_on_cudamalloc_oom: counted apart */
    bool host_failed; /* no memory for records: no attempt can help */
} request;

/* ---- searching --------------------------------------------------------------------------------------- */

static int64_t expandable_size(const block *b)
{
    return b->pub.size + (b->next != NULL && !b->next->mapped ? b->next->pub.size : 0);
}

/* Among expandable blocks the one that could grow least is best (M080); with the option off they are
 * passed over (M081). */
static block *choose_expandable(const core_alloc *a, const free_list *list, block *b)
{
    if (!a->settings.expandable_segments) {
        while (b != NULL && b->expandable)
            b = list_after(list, b);
        return b;
    }
    for (block *next = list_after(list, b); b->expandable && next != NULL;
         next = list_after(list, b)) {
        if (expandable_size(next) >= expandable_size(b))
            break;
        b = next;
    }
    return b;
}

/* M011, M014, M023, M024: only the best fit is looked at. */
static bool search_shard(request *r, shard *s)
{
    const core_alloc *a = r->a;
    free_list *list = &s->list[r->kind];
    block *b = list_best(list, r->size);
    if (b != NULL && b->expandable)
        b = choose_expandable(a, list, b);
    if (b == NULL)
        return false;
    const int64_t oversize = a->settings.max_split_bytes;
    if (r->size < oversize && b->pub.size >= oversize)
        return false;
    if (r->size >= oversize && b->pub.size >= r->size + a->settings.max_non_split_rounding_bytes)
        return false;
    list_erase(list, b);
    r->found = b;
    return true;
}

static bool search(request *r)
{
    core_alloc *a = r->a;
    const bool collects = a->settings.gc_threshold > 0 && a->settings.has_fraction; /* M041 */
    if (collects && r->kind == LARGE && r->shard->home == NULL)
        a->searches++;
    return search_shard(r, r->shard);
}

/* Records for whatever comes, before anything changes. */
static bool prepare(request *r)
{
    core_alloc *a = r->a;
    r->size = core_alloc_round(&a->settings, r->bytes);
    r->segment = core_alloc_segment_bytes(&a->settings, r->size);
    r->kind = r->size <= SMALL_LIMIT ? SMALL : LARGE;
    r->shard = shard_of(a, r->stream, pool_routed(a, r->stream));
    r->host_failed = r->shard == NULL || !shard_reserve(r->shard, 3) || !segment_reserve(r->shard);
    return !r->host_failed;
}

/* Step 3. The callback runs without locks, so everything may be different afterwards. */
static bool reclaim(request *r)
{
    core_alloc *a = r->a;
    if (a->reclaim == NULL)
        return false;
    bool (*callback)(void *user) = a->reclaim;
    void *user = a->reclaim_user;
    world_unlock(a);
    const bool freed = callback(user);
    world_lock(a);
    return prepare(r) && freed && search(r);
}

/* ---- raw memory ----------------------------------------------------------------------------------------- */

static bool alloc_block(request *r, bool retry)
{
    core_alloc *a = r->a;
    a->cold.num_alloc_retries += retry;
    r->by_fraction =
        a->settings.has_fraction && reserved_bytes(a) + r->segment > a->allowed; /* M029 */
    if (r->by_fraction)
        r->code = TERN_ERR_OOM;
    else if (a->settings.expandable_segments)
        r->code = expandable_alloc(a, r->shard, r->kind, r->size, r->site, &r->found);
    else
        r->code = segment_alloc(a, r->shard, r->kind, r->segment, r->site, &r->found);
    /* a failed attempt may have used the spare records of expandable parts */
    if (r->code == TERN_OK && !shard_reserve(r->shard, 1)) {
        free_insert(a, r->found);
        r->host_failed = true;
        r->code = TERN_ERR_OOM;
    }
    return r->code == TERN_OK;
}

static bool can_retry(const request *r)
{
    return r->code == TERN_ERR_OOM && !r->host_failed;
}

static bool borrow_from(request *r, const private_pool *pool)
{
    for (shard *s = r->a->shards; s != NULL; s = s->next)
        if (s->home == pool && s->stream == r->stream)
            return shard_reserve(s, 1) && search_shard(r, s);
    return false;
}

/* Step 6: pools that lend their free blocks, the newest first. */
static bool borrow(request *r)
{
    for (const private_pool *p = r->a->pools; p != NULL && r->shard->home == NULL; p = p->next)
        if (p->use_on_oom && borrow_from(r, p))
            return true;
    return false;
}

/* Steps 4 to 8. */
static bool obtain(request *r)
{
    core_alloc *a = r->a;
    if (a->settings.has_fraction && a->settings.throw_on_oom &&
        reserved_bytes(a) + r->segment > a->allowed) { /* M040 */
        a->cold.num_oom_rejections++;
        r->code = TERN_ERR_OOM;
        r->by_fraction = r->rejected = true;
        return false;
    }
    if (a->settings.has_fraction && a->settings.gc_threshold > 0)
        segments_collect(a);
    if (alloc_block(r, false))
        return true;
    if (!can_retry(r))
        return false;
    if (borrow(r))
        return true;
    if (segments_release_oversize(a, r->shard, r->kind, r->size) && alloc_block(r, false))
        return true;
    if (!can_retry(r) || a->captures > 0)
        return false;
    const tern_status_t flushed = segments_flush(a);
    if (flushed != TERN_OK && flushed != TERN_ERR_OOM) {
        r->code = flushed;
        return false;
    }
    return alloc_block(r, true);
}

/* ---- the sequence ----------------------------------------------------------------------------------------- */

static bool run(request *r)
{
    core_alloc *a = r->a;
    if (!prepare(r)) {
        r->code = TERN_ERR_OOM;
        return false;
    }
    if (a->captures == 0) {
        r->code = events_process(a);
        if (r->code != TERN_OK)
            return false;
    }
    if (search(r) || reclaim(r))
        return true;
    if (r->host_failed) {
        r->code = TERN_ERR_OOM;
        return false;
    }
    return obtain(r);
}

static core_alloc_block *finish(request *r)
{
    core_alloc *a = r->a;
    block *b = r->found;
    if (!block_take(a, &b, r->size, r->bytes, r->site, false))
        ledger_settle(a);
    if (b->pub.size >= a->settings.max_split_bytes)
        stat_change(&a->cold.oversize_allocations, 1);
    trace(a, CORE_ALLOC_TRACE_ALLOC, b->shard, b->pub.data, b->pub.size, r->site);
    return &b->pub;
}

static int64_t positive(int64_t n)
{
    return n > 0 ? n : 0;
}

/* Left for what is new once the cache is empty; -1 where it is not known. */
static int64_t room(const core_alloc_failure *f)
{
    int64_t left = f->device_free;
    if (f->allowed >= 0) {
        const int64_t allowed = positive(f->allowed - f->reserved);
        left = left < 0 || allowed < left ? allowed : left;
    }
    return left < 0 ? -1 : left + f->returnable;
}

/* `wanted`: of the device; it falls in steps when the request does. */
static void fill_missing(core_alloc_failure *f, int64_t wanted, int64_t step)
{
    const int64_t left = room(f);
    f->wanted = wanted;
    f->missing = left < 0 ? -1 : positive(wanted - left);
    f->less = (positive(f->missing) + step - 1) / step * step;
}

/* Pages, where there are such; else a segment, which is no smaller for a smaller request below LARGE_MIN. */
static void fill_missing_of(const request *r, core_alloc_failure *f)
{
    core_alloc *a = r->a;
    const bool pages = a->settings.expandable_segments && !r->by_fraction && !r->host_failed;
    const int64_t wanted = pages ? expandable_wanted(a, r->shard, r->kind, r->size) : r->segment;
    fill_missing(f, wanted, pages ? expandable_page(a, r->kind) : SEGMENT_STEP);
    const int64_t rest = core_alloc_round(&a->settings, positive(r->bytes - f->less));
    const int64_t least = core_alloc_segment_bytes(&a->settings, rest);
    if (r->bytes <= f->less || (rest <= SMALL_LIMIT) != (r->kind == SMALL) ||
        (!pages && least > wanted - f->missing))
        f->less = 0;
}

static void fail(request *r, core_alloc_failure *failure)
{
    core_alloc *a = r->a;
    *failure = (core_alloc_failure){ .status = r->code,
                                     .requested = r->bytes,
                                     .block = r->size,
                                     .segment = r->segment,
                                     .by_fraction = r->by_fraction };
    if (r->code != TERN_ERR_OOM) /* the device's words are those of the call that failed */
        return;
    failure_fill(a, r->shard, r->kind, failure);
    fill_missing_of(r, failure);
    failure->no_addresses =
        a->settings.expandable_segments && !r->by_fraction && !r->host_failed && a->no_addresses;
    a->cold.num_ooms += !r->rejected;
    trace(a, CORE_ALLOC_TRACE_OOM, r->shard, (char *)(uintptr_t)failure->device_free, r->size,
          r->site);
}

core_alloc_block *request_run(core_alloc *a, void *stream, int64_t bytes, tern_site_t site,
                              core_alloc_failure *out_failure)
{
    core_alloc_failure failure = { .status = TERN_OK, .requested = bytes };
    core_alloc_block *result = NULL;
    request r = { .a = a, .stream = stream, .bytes = bytes, .site = site };
    if (bytes > 0) {
        world_lock(a);
        a->used = true;
        if (bytes >> ABSURD_SHIFT) { /* refused without a count, like PyTorch's */
            failure.status = TERN_ERR_OOM;
            failure.block = failure.segment = bytes;
            failure_fill(a, NULL, LARGE, &failure);
        } else if (a->settings.no_cache) {
            result = uncached_alloc(a, stream, bytes, site, &failure);
        } else if (run(&r)) {
            result = finish(&r);
        } else {
            fail(&r, &failure);
        }
        void (*observer)(void *, const core_alloc_failure *) = a->observer;
        void *user = a->observer_user;
        world_unlock(a);
        if (failure.status == TERN_ERR_OOM && observer != NULL && !(bytes >> ABSURD_SHIFT))
            observer(user, &failure);
    }
    if (out_failure != NULL && result == NULL)
        *out_failure = failure;
    return result;
}

/* ---- what a failure says --------------------------------------------------------------------------------- */

/* Whole pages of what nobody holds; all or nothing of a plain segment. Blocks that wait for events
 * count: empty_cache waits for them first. */
static int64_t returnable_of(const segment *seg)
{
    const int64_t page = seg->page_bytes != 0 ? seg->page_bytes : seg->total;
    int64_t pages = 0;
    for (const block *b = seg->first, *end; b != NULL; b = end) {
        const int64_t at = b->pub.data - seg->data;
        int64_t bytes = 0;
        for (end = b; end != NULL && end->mapped && !end->in_use; end = end->next)
            bytes += end->pub.size;
        const int64_t whole = (at + bytes) / page - (at + page - 1) / page;
        pages += whole > 0 ? whole : 0;
        end = end == b ? b->next : end;
    }
    return pages * page;
}

static int64_t returnable(const core_alloc *a)
{
    int64_t sum = 0;
    for (const shard *s = a->shards; s != NULL; s = s->next)
        for (const segment *seg = pool_freeable(s->home) ? s->segments : NULL; seg != NULL;
             seg = seg->next)
            sum += returnable_of(seg);
    return sum;
}

static int64_t in_private_pools(const core_alloc *a)
{
    int64_t sum = 0;
    for (const shard *s = a->shards; s != NULL; s = s->next)
        for (const segment *seg = s->home != NULL ? s->segments : NULL; seg != NULL;
             seg = seg->next)
            for (const block *b = seg->first; b != NULL; b = b->next)
                sum += b->in_use ? b->pub.size : 0;
    return sum;
}

void failure_fill(core_alloc *a, const shard *s, int kind, core_alloc_failure *f)
{
    ledger_settle(a);
    f->device_free = f->device_total = f->allowed = -1;
    if (a->raw.info == NULL ||
        a->raw.info(a->raw.context, &f->device_free, &f->device_total) != TERN_OK)
        f->device_free = f->device_total = -1;
    if (a->settings.has_fraction)
        f->allowed = a->allowed;
    f->allocated = hot_current(a, CORE_ALLOC_ALL, HOT_ALLOCATED_BYTES);
    f->live_requested = hot_current(a, CORE_ALLOC_ALL, HOT_REQUESTED_BYTES);
    f->inactive_split = hot_current(a, CORE_ALLOC_ALL, HOT_INACTIVE_SPLIT_BYTES);
    f->reserved = reserved_bytes(a);
    const block *largest = s != NULL ? list_largest(&s->list[kind]) : NULL;
    f->largest_free = largest != NULL ? largest->pub.size : 0;
    f->returnable = returnable(a);
    f->private_pools = in_private_pools(a);
    fill_missing(f, f->segment, 1);
}
