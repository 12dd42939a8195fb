/* What a block at an address is, asked from a signal handler. */
#include <sched.h>

#include "core/alloc/engine.h"

enum { TRIES = 1000 };

static bool try_spin(core_spin *lock)
{
    for (int i = 0; i < TRIES; i++) {
        if (!atomic_exchange_explicit(&lock->taken, true, memory_order_acquire))
            return true;
        (void)sched_yield();
    }
    return false;
}

static bool try_mutex(pthread_mutex_t *lock)
{
    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(lock) == 0)
            return true;
        (void)sched_yield();
    }
    return false;
}

/* The world, unless somebody keeps it: the thread that asks may be the one. */
static bool try_world(core_alloc *a)
{
    if (!try_mutex(&a->lock))
        return false;
    shard *s = a->shards;
    while (s != NULL && try_spin(&s->lock))
        s = s->next;
    if (s == NULL)
        return true;
    for (shard *taken = a->shards; taken != s; taken = taken->next)
        spin_unlock(&taken->lock);
    pthread_mutex_unlock(&a->lock);
    return false;
}

static const block *block_at(const core_alloc *a, const char *address)
{
    for (const block *b = a->uncached; b != NULL; b = b->next)
        if (address >= b->pub.data && address < b->pub.data + b->pub.size)
            return b;
    for (const shard *s = a->shards; s != NULL; s = s->next)
        for (const segment *seg = s->segments; seg != NULL; seg = seg->next) {
            if (address < seg->data || address >= seg->data + seg->total)
                continue;
            const block *b = seg->first;
            while (b != NULL && b->pub.data + b->pub.size <= address)
                b = b->next;
            return b;
        }
    return NULL;
}

bool core_alloc_look(core_alloc *a, const void *address, core_alloc_block_info *out_block)
{
    if (!try_world(a))
        return false;
    const block *b = block_at(a, address);
    if (b != NULL)
        *out_block = (core_alloc_block_info){ .data = b->pub.data,
                                              .size = b->pub.size,
                                              .requested = b->pub.requested,
                                              .state = b->in_use    ? CORE_ALLOC_STATE_ALLOCATED
                                                       : is_free(b) ? CORE_ALLOC_STATE_INACTIVE
                                                                    : CORE_ALLOC_STATE_AWAITING,
                                              .site = b->in_use ? b->pub.site : NULL };
    world_unlock(a);
    return b != NULL;
}
