/* See core/memory.h. */
#include "core/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/device_memory.h"
#include "core/log.h"
#include "core/stream.h"

enum { HUGE_BYTES = 2 << 20 };

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

/* Blocks of two megabytes and more start on huge pages: a page fault costs a microsecond and more. */
static void *system_alloc(int64_t bytes)
{
    const size_t alignment = bytes >= HUGE_BYTES ? (size_t)HUGE_BYTES : 64;
    const size_t size = ((size_t)bytes + alignment - 1) / alignment * alignment;
    void *data = aligned_alloc(alignment, size);
#ifdef MADV_HUGEPAGE
    if (data != NULL && bytes >= HUGE_BYTES)
        (void)madvise(data, size, MADV_HUGEPAGE);
#endif
    return data;
}

/* ---- the limit of a thread's cache ------------------------------------------------------------ */

/* TERN_CPU_CACHE: "off", or the MiB that a thread may keep; without it there is no limit. Read before
 * the first block is made, so lists are empty until it is known. */
static _Atomic int64_t cache_limit = INT64_MAX;

static void read_limit(void)
{
    const char *text = getenv("TERN_CPU_CACHE");
    if (text == NULL || strcmp(text, "on") == 0)
        return;
    char *end;
    const long long mib = strtoll(text, &end, 10);
    if (strcmp(text, "off") == 0)
        cache_limit = 0;
    else if (end != text && *end == '\0' && mib >= 0 && mib < INT64_C(1) << 40)
        cache_limit = (int64_t)mib << 20;
    else
        tern_log_write(TERN_LOG_WARNING, NULL,
                       "TERN_CPU_CACHE: '%s' is not on, off or a number of MiB", text);
}

/* Free blocks are only counted when somebody wants them limited. */
static inline int64_t limit_now(void)
{
    return atomic_load_explicit(&cache_limit, memory_order_relaxed);
}

/* Keeps a block of the thread's own, or returns it. */
static inline void keep_block(core_block_cache *cache, core_block *block)
{
    const int64_t size_class = block->size_class, limit = limit_now();
    if (__builtin_expect(limit != INT64_MAX, 0)) {
        const int64_t bytes = class_bytes((uint32_t)size_class);
        if (cache->cached_bytes + bytes > limit) {
            cache->reserved_bytes -= bytes;
            free(block);
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

static core_block *take_block(core_block_cache *cache, uint32_t size_class)
{
    if (cache->free[size_class] == NULL &&
        atomic_load_explicit(&cache->incoming, memory_order_relaxed) != NULL)
        drain_incoming(cache);
    core_block *block = cache->free[size_class];
    if (block == NULL)
        return NULL;
    cache->free[size_class] = block->next;
    if (__builtin_expect(limit_now() != INT64_MAX, 0))
        cache->cached_bytes -= class_bytes(size_class);
    return block;
}

static void *block_alloc(tern_thread *self, uint32_t size_class)
{
    core_block_cache *cache = &self->blocks;
#ifndef CORE_POOL_BYPASS
    core_block *block = take_block(cache, size_class);
    if (block != NULL)
        return block;
#else
    (void)take_block, (void)keep_block;
#endif
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_limit);
    const int64_t bytes = class_bytes(size_class);
    void *data = system_alloc(bytes);
    if (data == NULL) {
        core_cpu_empty_cache(self);
        data = system_alloc(bytes);
    }
    if (data == NULL)
        return NULL;
    cache->system_alloc_count++;
    cache->reserved_bytes += bytes;
    if (cache->reserved_bytes > cache->peak_reserved_bytes)
        cache->peak_reserved_bytes = cache->reserved_bytes;
    return data;
}

static void block_free(tern_thread *self, tern_thread *home, void *data, uint32_t size_class)
{
#ifdef CORE_POOL_BYPASS
    (void)home;
    self->blocks.reserved_bytes -= class_bytes(size_class);
    free(data);
#else
    core_block *block = data;
    block->size_class = (int64_t)size_class;
    if (home == self) {
        keep_block(&self->blocks, block);
        return;
    }
    core_block *head = atomic_load_explicit(&home->blocks.incoming, memory_order_relaxed);
    do
        block->next = head;
    while (!atomic_compare_exchange_weak_explicit(&home->blocks.incoming, &head, block,
                                                  memory_order_release, memory_order_relaxed));
#endif
}

/* ---- storages -------------------------------------------------------------------------------- */

/* Fills data, and user with what frees it. */
static bool data_alloc(tern_thread *self, tern_site_t site, core_storage *s)
{
    if (core_fault())
        return false;
    if (s->dev.kind != TERN_KIND_CPU) {
        core_alloc_block *block = core_device_malloc(self, core_site(self, site), s->dev, s->bytes,
                                                     core_stream_on(self, s->dev));
        s->cache_class = CORE_CACHE_BACKEND;
        s->user = block;
        s->data = block != NULL ? block->data : NULL;
        return block != NULL;
    }
    s->user = self; /* home of the block */
    s->cache_class = class_of(s->bytes);
    if (s->cache_class >= CORE_BLOCK_CLASSES)
        return false;
    s->data = block_alloc(self, s->cache_class);
    if (s->data != NULL)
        core_count_alloc(self, s->bytes);
    return s->data != NULL;
}

core_storage *core_storage_new(tern_thread *self, tern_site_t site, tern_dev_t dev, int64_t bytes)
{
    if (dev.kind == TERN_KIND_CPU && bytes <= CORE_INLINE_BYTES)
        return core_storage_new_inline(self, bytes);
    core_storage *s = core_pool_alloc(&self->pool, sizeof *s);
    if (s == NULL)
        return NULL;
    core_storage_init(s, dev, bytes, CORE_CACHE_FOREIGN);
    s->data = NULL;
    s->user = NULL;
    if (bytes > 0 && !data_alloc(self, site, s)) {
        core_pool_free(&self->pool, s, sizeof *s);
        return NULL;
    }
    return s;
}

core_storage *core_storage_foreign(tern_thread *self, void *data, int64_t bytes,
                                   void (*release)(void *user), void *user)
{
    core_storage *s = core_pool_alloc(&self->pool, sizeof *s);
    if (s == NULL)
        return NULL;
    core_storage_init(s, TERN_CPU, bytes, CORE_CACHE_FOREIGN);
    s->data = data;
    s->release = release;
    s->user = user;
    return s;
}

void core_storage_free(tern_thread *self, core_storage *s)
{
    if (s->cache_class == CORE_CACHE_INLINE) {
        core_storage_free_inline(self, s);
        return;
    }
    if (s->cache_class == CORE_CACHE_BACKEND) {
        core_device_free(s->dev, s->user);
    } else if (s->cache_class < CORE_BLOCK_CLASSES) {
        self->blocks.allocated_bytes -= s->bytes;
        block_free(self, s->user, s->data, s->cache_class);
    } else if (s->cache_class == CORE_CACHE_PINNED) {
        self->blocks.allocated_bytes -= s->bytes;
        core_pinned_storage_free(s);
    } else if (s->release != NULL) {
        s->release(s->user);
    }
    core_pool_free(&self->pool, s, sizeof *s);
}

/* ---- what the user sees (core/memory_stats.c) --------------------------------------------------- */

static void add_memory(tern_thread *thread, void *user)
{
    tern_memory_t *sum = user;
    const core_block_cache *cache = &thread->blocks;
    sum->allocated_bytes += cache->allocated_bytes;
    sum->reserved_bytes += cache->reserved_bytes;
    sum->peak_allocated_bytes += cache->peak_allocated_bytes;
    sum->peak_reserved_bytes += cache->peak_reserved_bytes;
    sum->alloc_count += cache->alloc_count;
    sum->system_alloc_count += cache->system_alloc_count;
}

void core_cpu_memory(tern_memory_t *out_memory)
{
    *out_memory = (tern_memory_t){ 0 };
    core_thread_each(add_memory, out_memory);
}

static void reset_peak(tern_thread *thread, void *user)
{
    (void)user;
    thread->blocks.peak_allocated_bytes = thread->blocks.allocated_bytes;
    thread->blocks.peak_reserved_bytes = thread->blocks.reserved_bytes;
}

void core_cpu_reset_peaks(void)
{
    core_thread_each(reset_peak, NULL);
}

static void reset_counts(tern_thread *thread, void *user)
{
    (void)user;
    thread->blocks.alloc_count = thread->blocks.system_alloc_count = 0;
}

void core_cpu_reset_accumulated(void)
{
    core_thread_each(reset_counts, NULL);
}

void core_cpu_empty_cache(tern_thread *self)
{
    core_block_cache *cache = &self->blocks;
    drain_incoming(cache);
    cache->cached_bytes = 0;
    for (uint32_t c = 0; c < CORE_BLOCK_CLASSES; c++)
        while (cache->free[c] != NULL) {
            core_block *block = cache->free[c];
            cache->free[c] = block->next;
            cache->reserved_bytes -= class_bytes(c);
            free(block);
        }
}
