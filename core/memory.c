/* See core/memory.h. */
#include "core/memory.h"

#include "core/device_memory.h"
#include "core/stream.h"

/* Past the lists: a block of the device's caching allocator. */
static bool data_direct(tern_thread *self, tern_site_t site, core_storage *s)
{
    core_alloc_block *block = core_device_malloc(self, core_site(self, site), s->dev, s->bytes,
                                                 core_stream_on(self, s->dev));
    s->cache_class = CORE_CACHE_BACKEND;
    s->user = block;
    s->data = block != NULL ? block->data : NULL;
    return block != NULL;
}

/* Fills data, and what frees it. */
static bool data_alloc(tern_thread *self, tern_site_t site, core_storage *s)
{
    if (core_fault())
        return false;
    if (s->dev.kind != TERN_KIND_CPU || !core_cache_takes(self, s->bytes))
        return data_direct(self, site, s);
    return core_cache_alloc(self, core_site(self, site), s);
}

core_storage *core_storage_new(tern_thread *self, tern_site_t site, tern_dev_t dev, int64_t bytes)
{
    core_storage *s = core_pool_alloc(&self->pool, sizeof *s);
    if (s == NULL)
        return NULL;
    core_storage_init(s, site, dev, bytes, CORE_CACHE_FOREIGN);
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
    core_storage_init(s, NULL, TERN_CPU, bytes, CORE_CACHE_FOREIGN);
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
    if (s->cache_class == CORE_CACHE_BACKEND)
        core_device_free(self, s->dev, s->user);
    else if (s->cache_class < CORE_BLOCK_CLASSES)
        core_cache_free(self, s);
    else if (s->cache_class == CORE_CACHE_PINNED)
        core_pinned_storage_free(s);
    else if (s->release != NULL)
        s->release(s->user);
    core_pool_free(&self->pool, s, sizeof *s);
}
