/* See core/thread_cache.h. */
#include "core/thread_cache.h"

#include "core/cpu_memory.h"
#include "core/device_memory.h"
#include "core/tally.h"

_Atomic uint64_t core_cpu_epoch = 1;
static _Atomic uint64_t empty_calls; /* how often an empty engine was asked for */
static atomic_bool history_on;

/* ---- size classes: 4 per power of two from 512 bytes on -------------------------------------- */

static uint32_t class_of(int64_t bytes)
{
    uint64_t units = ((uint64_t)bytes + 511) / 512;
    if (units <= 4)
        return (uint32_t)units - 1;
    const uint32_t log =
        63u - (uint32_t)__builtin_clzll(units - 1); /* 2^log < units <= 2^(log+1) */
    const uint64_t step = 1ULL << (log - 2);
    const uint64_t quarter = (units - (1ULL << log) + step - 1) / step; /* 1..4 */
    return 4 * (log - 1) + (uint32_t)quarter - 1;
}

static int64_t class_bytes(uint32_t size_class)
{
    if (size_class < 4)
        return 512 * (int64_t)(size_class + 1);
    const uint32_t log = size_class / 4 + 1;
    const uint64_t quarter = size_class % 4 + 1;
    return (int64_t)(512 * ((1ULL << log) + quarter * (1ULL << (log - 2))));
}

/* ---- lists ------------------------------------------------------------------------------------ */

static inline bool is_limited(const core_block_cache *cache)
{
    return __builtin_expect(cache->limit != INT64_MAX, 0);
}

/* Under a limit the engine keeps as much as the lists may. */
static void give_back(core_block_cache *cache, core_alloc_block *block)
{
    core_cpu_return(block);
    if (is_limited(cache))
        (void)core_alloc_trim(core_cpu_engine(), cache->limit);
}

static inline void keep_block(core_block_cache *cache, core_block *block)
{
    const uint32_t size_class = (uint32_t)block->size_class;
    if (is_limited(cache)) {
        const int64_t bytes = class_bytes(size_class);
        if (cache->cached_bytes + bytes > cache->limit) {
            give_back(cache, block->block);
            return;
        }
        cache->cached_bytes += bytes;
    }
    block->next = cache->free[size_class];
    cache->free[size_class] = block;
}

static void drain_incoming(core_block_cache *cache)
{
    core_block *block = atomic_exchange_explicit(&cache->incoming, NULL, memory_order_acquire);
    while (block != NULL) {
        core_block *next = block->next;
        keep_block(cache, block);
        block = next;
    }
}

static inline core_block *take_block(core_block_cache *cache, uint32_t size_class)
{
    if (cache->free[size_class] == NULL &&
        atomic_load_explicit(&cache->incoming, memory_order_relaxed) != NULL)
        drain_incoming(cache);
    core_block *block = cache->free[size_class];
    if (block == NULL)
        return NULL;
    cache->free[size_class] = block->next;
    if (is_limited(cache))
        cache->cached_bytes -= class_bytes(size_class);
    return block;
}

static void send_home(core_block_cache *home, core_block *block)
{
    core_block *head = atomic_load_explicit(&home->incoming, memory_order_relaxed);
    do
        block->next = head;
    while (!atomic_compare_exchange_weak_explicit(&home->incoming, &head, block,
                                                  memory_order_release, memory_order_relaxed));
}

/* ---- requests --------------------------------------------------------------------------------- */

bool core_cache_alloc(tern_thread *self, tern_site_t site, core_storage *s)
{
    const uint32_t size_class = class_of(s->bytes);
    const int64_t size = class_bytes(size_class);
    core_block *found = take_block(&self->blocks, size_class);
    core_alloc_block *block =
        found != NULL ? found->block : core_device_request(self, site, TERN_CPU, size, s->bytes);
    if (block == NULL)
        return false;
    core_alloc_front(block, s->bytes, site);
    s->data = block->data;
    s->block = block;
    s->user = self; /* home of the block */
    s->cache_class = (uint16_t)size_class;
    core_tally_add(&self->blocks.tally, size, s->bytes);
    return true;
}

void core_cache_free(tern_thread *self, core_storage *s)
{
    tern_thread *home = s->user;
    core_tally_end(&self->blocks.tally, class_bytes(s->cache_class), s->bytes);
    if (__builtin_expect(self->blocks.epoch != core_cache_epoch(), 0) &&
        core_cache_sync(self) != CORE_CACHE_PASS_NONE) {
        core_cpu_return(s->block);
        return;
    }
    core_alloc_front(s->block, 0, NULL);
    core_block *block = s->data;
    block->size_class = (int64_t)s->cache_class;
    block->block = s->block;
    if (home == self)
        keep_block(&self->blocks, block);
    else
        send_home(&home->blocks, block);
}

/* ---- what others want ------------------------------------------------------------------------- */

void core_cache_flush(tern_thread *owner)
{
    core_block_cache *cache = &owner->blocks;
    drain_incoming(cache);
    cache->cached_bytes = 0;
    for (uint32_t c = 0; c < CORE_BLOCK_CLASSES; c++)
        while (cache->free[c] != NULL) {
            core_block *block = cache->free[c];
            cache->free[c] = block->next;
            core_cpu_return(block->block);
        }
}

static bool holds_any(tern_thread *owner)
{
    if (atomic_load_explicit(&owner->blocks.incoming, memory_order_relaxed) != NULL)
        return true;
    for (uint32_t c = 0; c < CORE_BLOCK_CLASSES; c++)
        if (owner->blocks.free[c] != NULL)
            return true;
    return false;
}

static void flush_if_any(tern_thread *owner, void *any)
{
    if (!holds_any(owner))
        return;
    *(bool *)any = true;
    core_cache_flush(owner);
}

bool core_cache_reclaim_parked(void)
{
    bool any = false;
    core_thread_each_parked(flush_if_any, &any);
    return any;
}

bool core_cache_reclaim_own(tern_thread *self)
{
    bool any = false;
    flush_if_any(self, &any);
    return any;
}

void core_cache_call(void)
{
    atomic_fetch_add_explicit(&core_cpu_epoch, 1, memory_order_release);
}

void core_cache_call_empty(void)
{
    atomic_fetch_add_explicit(&empty_calls, 1, memory_order_relaxed);
    core_cache_call();
}

void core_cache_set_history(bool on)
{
    atomic_store_explicit(&history_on, on, memory_order_relaxed);
    core_cache_call();
}

static core_cache_pass pass_of(const core_block_cache *cache)
{
    if (cache->pools > 0 || atomic_load_explicit(&history_on, memory_order_relaxed))
        return CORE_CACHE_PASS_ALL;
    return cache->limit == 0 ? CORE_CACHE_PASS_BLOCKS : CORE_CACHE_PASS_NONE;
}

core_cache_pass core_cache_sync(tern_thread *self)
{
    core_block_cache *cache = &self->blocks;
    const uint64_t now = atomic_load_explicit(&core_cpu_epoch, memory_order_acquire);
    const uint64_t empty = atomic_load_explicit(&empty_calls, memory_order_relaxed);
    if (cache->seen_epoch != now) {
        if (cache->seen_epoch != 0)
            core_cache_flush(self);
        core_tally_fall(&cache->tally);
        if (cache->seen_epoch != 0 && cache->seen_empty != empty)
            (void)core_alloc_empty_cache(core_cpu_engine());
        cache->limit = core_cpu_cache_limit();
        cache->seen_epoch = now;
        cache->seen_empty = empty;
    }
    const core_cache_pass pass = pass_of(cache);
    cache->epoch = pass == CORE_CACHE_PASS_NONE ? now : 0;
    cache->small_epoch = pass == CORE_CACHE_PASS_ALL ? 0 : now;
    return pass;
}
