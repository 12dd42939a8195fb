/* Data of tensors: a simple counting cache that reuses the memory of a training step.
 *
 * Up to CORE_INLINE_BYTES the data sits behind the storage's own header, in one pool object. Larger
 * CPU blocks come from per-thread lists by size class (four classes per power of two), so a steady
 * step takes nothing from the system; a block freed by another thread goes home over a lock-free
 * stack. Other devices have a caching allocator each (core/device_memory.h). */
#ifndef TERN_CORE_MEMORY_H
#define TERN_CORE_MEMORY_H

#include "core/tensor.h"
#include "tern/stream.h"

enum { CORE_INLINE_BYTES = 448 };
/* storage.cache_class: a class of the block lists, or one of these */
enum { CORE_CACHE_INLINE = 1000, CORE_CACHE_BACKEND, CORE_CACHE_PINNED, CORE_CACHE_FOREIGN };

enum { CORE_STORAGE_HEAD = 64 };
_Static_assert(sizeof(core_storage) <= CORE_STORAGE_HEAD, "the head of inline data is one line");

static inline void core_count_alloc(tern_thread *self, int64_t bytes)
{
    core_block_cache *cache = &self->blocks;
    cache->alloc_count++;
    cache->allocated_bytes += bytes;
    if (cache->allocated_bytes > cache->peak_allocated_bytes)
        cache->peak_allocated_bytes = cache->allocated_bytes;
}

static inline core_storage *core_storage_init(core_storage *s, tern_dev_t dev, int64_t bytes,
                                              uint32_t cache_class)
{
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&s->version, 0, memory_order_relaxed);
    s->bytes = bytes;
    s->dev = dev;
    s->cache_class = cache_class;
    s->release = NULL;
    s->crossed = false;
    return s;
}

/* CPU data of at most CORE_INLINE_BYTES. */
static inline core_storage *core_storage_new_inline(tern_thread *self, int64_t bytes)
{
    core_storage *s = core_pool_alloc(&self->pool, CORE_STORAGE_HEAD + (size_t)bytes);
    if (__builtin_expect(s == NULL, 0))
        return NULL;
    core_storage_init(s, TERN_CPU, bytes, CORE_CACHE_INLINE);
    s->data = (char *)s + CORE_STORAGE_HEAD; /* also of nothing: kernels may add 0 to it */
    core_count_alloc(self, bytes);
    return s;
}

static inline void core_storage_free_inline(tern_thread *self, core_storage *s)
{
    self->blocks.allocated_bytes -= s->bytes;
    core_pool_free(&self->pool, s, CORE_STORAGE_HEAD + (size_t)s->bytes);
}

/* A storage with one reference; data NULL when bytes is 0. NULL when memory is used up: nothing is
 * recorded, core_oom_error says it. */
core_storage *core_storage_new(tern_thread *self, tern_site_t site, tern_dev_t dev, int64_t bytes);
/* A storage over memory of the caller's; release(user) when the last reference goes. */
core_storage *core_storage_foreign(tern_thread *self, void *data, int64_t bytes,
                                   void (*release)(void *user), void *user);

/* core/pinned_memory.c. Recorded: the memory is not used again before that stream's work is done. */
void core_pinned_storage_free(core_storage *s);
tern_status_t core_pinned_storage_record(const core_storage *s, tern_stream_t stream);

/* The CPU's numbers, summed over threads; the calling thread's cache is the one that is emptied. */
void core_cpu_memory(tern_memory_t *out_memory);
void core_cpu_reset_peaks(void);
void core_cpu_reset_accumulated(void);
void core_cpu_empty_cache(tern_thread *self);

#endif
