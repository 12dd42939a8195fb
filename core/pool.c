/* See core/pool.h. */
#include "core/pool.h"

#include <stdlib.h>
#include <string.h>

#ifdef CORE_POOL_BYPASS

void *core_pool_alloc(core_pool *pool, size_t bytes)
{
    (void)pool;
    if (core_fault())
        return NULL;
    return aligned_alloc(CORE_POOL_STEP, core_pool_class(bytes) * CORE_POOL_STEP);
}

void core_pool_free(core_pool *pool, void *object, size_t bytes)
{
    (void)pool;
    (void)bytes;
    free(object);
}

void *core_pool_refill(core_pool *pool, size_t size_class)
{
    return core_pool_alloc(pool, size_class * CORE_POOL_STEP);
}

void core_pool_free_remote(void *object, size_t bytes)
{
    core_pool_free(NULL, object, bytes);
}

#else

/* An object on its way home says its class in its second word. */
typedef struct remote_object {
    core_free_object link;
    size_t size_class;
} remote_object;

static void drain_incoming(core_pool *pool)
{
    core_free_object *object =
        atomic_exchange_explicit(&pool->incoming, NULL, memory_order_acquire);
    while (object != NULL) {
        core_free_object *next = object->next;
        const size_t size_class = ((remote_object *)object)->size_class;
        object->next = pool->free[size_class];
        pool->free[size_class] = object;
        object = next;
    }
}

static int new_slab(core_pool *pool)
{
    char *slab = aligned_alloc(CORE_SLAB_BYTES, CORE_SLAB_BYTES);
    if (slab == NULL)
        return 0;
    ((core_slab *)slab)->home = pool;
    pool->fresh = slab + CORE_POOL_STEP;
    pool->fresh_end = slab + CORE_SLAB_BYTES;
    return 1;
}

void *core_pool_refill(core_pool *pool, size_t size_class)
{
    if (atomic_load_explicit(&pool->incoming, memory_order_relaxed) != NULL) {
        drain_incoming(pool);
        core_free_object *object = pool->free[size_class];
        if (object != NULL) {
            pool->free[size_class] = object->next;
            return object;
        }
    }
    const size_t bytes = size_class * CORE_POOL_STEP;
    if ((size_t)(pool->fresh_end - pool->fresh) < bytes && !new_slab(pool))
        return NULL;
    char *object = pool->fresh;
    pool->fresh += bytes;
    return object;
}

void core_pool_free_remote(void *object, size_t bytes)
{
    const core_slab *slab =
        (const core_slab *)((uintptr_t)object & ~(uintptr_t)(CORE_SLAB_BYTES - 1));
    remote_object *remote = object;
    remote->size_class = core_pool_class(bytes);
    core_free_object *head = atomic_load_explicit(&slab->home->incoming, memory_order_relaxed);
    do
        remote->link.next = head;
    while (!atomic_compare_exchange_weak_explicit(&slab->home->incoming, &head, &remote->link,
                                                  memory_order_release, memory_order_relaxed));
}

#endif
