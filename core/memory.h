/* Data of tensors.
 *
 * Up to CORE_INLINE_BYTES the data sits behind the storage's own header, in one pool object. Larger CPU
 * blocks come from the thread's lists (core/thread_cache.h), which the CPU's caching allocator fills
 * (core/cpu_memory.h), so a steady step takes nothing from the system. Other devices have a caching
 * allocator each (core/device_memory.h). */
#ifndef TERN_CORE_MEMORY_H
#define TERN_CORE_MEMORY_H

#include "core/tally.h"
#include "core/tensor.h"
#include "core/thread_cache.h"
#include "tern/stream.h"

enum { CORE_INLINE_BYTES = 448 };
/* storage.cache_class: a class of the thread's lists, or one of these */
enum { CORE_CACHE_INLINE = 1000, CORE_CACHE_BACKEND, CORE_CACHE_PINNED, CORE_CACHE_FOREIGN };

enum { CORE_STORAGE_HEAD = 64 };
_Static_assert(sizeof(core_storage) <= CORE_STORAGE_HEAD, "the head of inline data is one line");
_Static_assert(CORE_STORAGE_HEAD + CORE_INLINE_BYTES == CORE_POOL_DATA_STEPS * CORE_POOL_STEP,
               "small data fits its places in the pool");

/* Snapshots of other threads read what is atomic here. */
static inline core_storage *core_storage_init(core_storage *s, tern_site_t site, tern_dev_t dev,
                                              int64_t bytes, uint16_t cache_class)
{
    __atomic_store_n(&s->site, site, __ATOMIC_RELAXED);
    __atomic_store_n(&s->bytes, bytes, __ATOMIC_RELAXED);
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&s->version, 0, memory_order_relaxed);
    s->dev = dev;
    s->cache_class = cache_class;
    s->crossed = false;
    s->release = NULL;
    return s;
}

/* What inline data counts for: steps of the pool. */
static inline int64_t core_inline_size(int64_t bytes)
{
    return (bytes + CORE_POOL_STEP - 1) & ~(int64_t)(CORE_POOL_STEP - 1);
}

/* A storage with one reference; data NULL when bytes is 0. NULL when memory is used up: nothing is
 * recorded, core_oom_error says it. */
core_storage *core_storage_new(tern_thread *self, tern_site_t site, tern_dev_t dev, int64_t bytes);

/* An object of the pool becomes the storage of CPU data that lies behind it, and is counted. */
__attribute__((always_inline)) static inline core_storage *core_storage_init_inline(
    tern_thread *self, core_storage *s, tern_site_t site, int64_t bytes)
{
    core_storage_init(s, site, TERN_CPU, bytes, CORE_CACHE_INLINE);
    s->data = (char *)s + CORE_STORAGE_HEAD; /* also of nothing: kernels may add 0 to it */
    if (__builtin_expect(bytes != 0, 1))
        core_tally_small(&self->blocks.tally, core_inline_size(bytes), bytes);
    return s;
}

/* May small data lie behind its header? Not while a history or a private pool wants all of it. */
static inline bool core_storage_is_inline(tern_thread *self)
{
    return __builtin_expect(self->blocks.small_epoch == core_cache_epoch(), 1) ||
           core_cache_sync(self) != CORE_CACHE_PASS_ALL;
}

/* CPU data of at most CORE_INLINE_BYTES. */
static inline core_storage *core_storage_new_inline(tern_thread *self, tern_site_t site,
                                                    int64_t bytes)
{
    if (bytes > 0 && !core_storage_is_inline(self))
        return core_storage_new(self, site, TERN_CPU, bytes);
    core_storage *s = core_pool_alloc_data(&self->pool, CORE_STORAGE_HEAD + (size_t)bytes);
    return __builtin_expect(s != NULL, 1) ? core_storage_init_inline(self, s, site, bytes) : NULL;
}

static inline void core_storage_free_inline(tern_thread *self, core_storage *s)
{
    if (__builtin_expect(s->bytes != 0, 1))
        core_tally_small_end(&self->blocks.tally, core_inline_size(s->bytes), s->bytes);
    atomic_store_explicit(&s->refs, 0, memory_order_relaxed); /* for snapshots */
    core_pool_free_data(&self->pool, s, CORE_STORAGE_HEAD + (size_t)s->bytes);
}

/* A storage over memory of the caller's; release(user) when the last reference goes. */
core_storage *core_storage_foreign(tern_thread *self, void *data, int64_t bytes,
                                   void (*release)(void *user), void *user);

/* core/pinned_memory.c. Recorded: the memory is not used again before that stream's work is done. */
void core_pinned_storage_free(core_storage *s);
tern_status_t core_pinned_storage_record(const core_storage *s, tern_stream_t stream);
/* Nobody gets the memory again. */
void core_pinned_storage_lose(const core_storage *s);

#endif
