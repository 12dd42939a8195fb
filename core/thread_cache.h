/* Each thread's lists of CPU blocks by size class (four classes per power of two), in front of the CPU's
 * caching allocator, which they take blocks from and return them to. A block freed by another thread
 * goes home over a lock-free stack. */
#ifndef TERN_CORE_THREAD_CACHE_H
#define TERN_CORE_THREAD_CACHE_H

#include "core/tensor.h"

/* Larger blocks go past the lists: the time of a request is nothing beside their work, and the engine
 * may give one thread what another one freed. */
enum { CORE_CACHED_MOST = 32 << 20 };

/* Rises when threads have to look what is wanted of their lists; never 0. */
extern _Atomic uint64_t core_cpu_epoch;
static inline uint64_t core_cache_epoch(void)
{
    return atomic_load_explicit(&core_cpu_epoch, memory_order_relaxed);
}

typedef enum core_cache_pass {
    CORE_CACHE_PASS_NONE,   /* requests are served here */
    CORE_CACHE_PASS_BLOCKS, /* caching is off: blocks come from the engine */
    CORE_CACHE_PASS_ALL     /* history, a private pool: small data too */
} core_cache_pass;
/* Does what others asked for since the last call, and says which requests go past the lists. */
core_cache_pass core_cache_sync(tern_thread *self);

/* Does a request of so many bytes go through the lists? */
static inline bool core_cache_takes(tern_thread *self, int64_t bytes)
{
#ifdef CORE_POOL_BYPASS
    (void)self, (void)bytes;
    return false;
#else
    if (__builtin_expect(self->blocks.epoch != core_cache_epoch(), 0) &&
        core_cache_sync(self) != CORE_CACHE_PASS_NONE)
        return false;
    return bytes <= CORE_CACHED_MOST;
#endif
}

/* Gives s->bytes of memory to a storage that core_cache_takes; false when there is none. */
bool core_cache_alloc(tern_thread *self, tern_site_t site, core_storage *s);
void core_cache_free(tern_thread *self, core_storage *s);

/* Returns what a thread's lists hold to the engine: the caller's own, or a parked one's. */
void core_cache_flush(tern_thread *owner);
/* The same of all parked ones, or of the caller's own; true if that was anything. */
bool core_cache_reclaim_parked(void);
bool core_cache_reclaim_own(tern_thread *self);

/* Ask every thread to look: now, and to empty the engine's cache after its own. */
void core_cache_call(void);
void core_cache_call_empty(void);
/* History of the CPU goes on or off. */
void core_cache_set_history(bool on);

#endif
