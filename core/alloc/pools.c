/* Shards, the world's lock, private pools and the routes that lead to them. */
#include "core/alloc/engine.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/pool.h"

/* Raw calls are made with shards locked, so a wait can be long. */
void spin_wait(core_spin *lock)
{
    enum { SPINS = 200, YIELDS = 220 };
    for (int tries = 0;; tries++) {
        if (!atomic_load_explicit(&lock->taken, memory_order_relaxed) &&
            !atomic_exchange_explicit(&lock->taken, true, memory_order_acquire))
            return;
        if (tries < SPINS) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        } else if (tries < YIELDS) {
            (void)sched_yield();
        } else {
            (void)nanosleep(&(struct timespec){ 0, 50000 }, NULL);
        }
    }
}

void world_lock(core_alloc *a)
{
    pthread_mutex_lock(&a->lock);
    for (shard *s = a->shards; s != NULL; s = s->next)
        spin_lock(&s->lock);
}

void world_unlock(core_alloc *a)
{
    for (shard *s = a->shards; s != NULL; s = s->next)
        spin_unlock(&s->lock);
    pthread_mutex_unlock(&a->lock);
}

void slow_update(core_alloc *a, unsigned flag, bool on)
{
    a->slow = on ? a->slow | flag : a->slow & ~flag;
}

/* ---- shards ------------------------------------------------------------------------------------- */

static void table_put(shard_table *t, shard *s)
{
    uint64_t i = stream_hash(s->stream) & t->mask;
    while (t->slot[i] != NULL)
        i = (i + 1) & t->mask;
    t->slot[i] = s;
}

/* Readers need no lock, so a table is never changed but replaced; old ones stay until the end. */
static bool table_replace(core_alloc *a, shard *added)
{
    uint64_t size = 8;
    while (size < 2 * (uint64_t)(a->shard_count + 1))
        size *= 2;
    shard_table *t = host_calloc(1, sizeof *t + size * sizeof(shard *));
    if (t == NULL)
        return false;
    t->mask = size - 1;
    for (shard *s = a->shards; s != NULL; s = s->next)
        if (s->home == NULL && !s->idle)
            table_put(t, s);
    table_put(t, added);
    t->retired = atomic_load_explicit(&a->table, memory_order_relaxed);
    atomic_store_explicit(&a->table, t, memory_order_release);
    return true;
}

static shard *shard_new(core_alloc *a)
{
    for (shard *s = a->shards; s != NULL; s = s->next)
        if (s->idle)
            return s;
    shard *s = core_fault() ? NULL : aligned_alloc(64, sizeof *s);
    if (s == NULL)
        return NULL;
    memset(s, 0, sizeof *s);
    s->idle = true;
    spin_lock(&s->lock); /* born into a locked world */
    shard **last = &a->shards;
    while (*last != NULL)
        last = &(*last)->next;
    *last = s;
    a->shard_count++;
    return s;
}

shard *shard_of(core_alloc *a, void *stream, private_pool *home)
{
    for (shard *s = a->shards; s != NULL; s = s->next)
        if (!s->idle && s->stream == stream && s->home == home)
            return s;
    shard *s = shard_new(a);
    if (s == NULL)
        return NULL;
    s->stream = stream;
    s->home = home;
    if (home == NULL && !table_replace(a, s))
        return NULL;
    s->idle = false;
    return s;
}

/* ---- private pools ------------------------------------------------------------------------------ */

static private_pool *pool_find(core_alloc *a, uint64_t id)
{
    private_pool *pool = a->pools;
    while (pool != NULL && pool->id != id)
        pool = pool->next;
    return pool;
}

uint64_t core_alloc_pool_new(core_alloc *a, bool use_on_oom)
{
    private_pool *pool = host_calloc(1, sizeof *pool);
    if (pool == NULL)
        return 0;
    world_lock(a);
    *pool = (private_pool){ a->pools, ++a->last_pool_id, 1, 0, use_on_oom };
    a->pools = pool;
    const uint64_t id = pool->id;
    world_unlock(a);
    return id;
}

tern_status_t core_alloc_pool_release(core_alloc *a, uint64_t pool)
{
    world_lock(a);
    private_pool *found = pool_find(a, pool);
    const bool valid = found != NULL && found->users > 0;
    if (valid) {
        found->users--;
        pools_sweep(a);
    }
    world_unlock(a);
    return valid ? TERN_OK : TERN_ERR_ARGUMENT;
}

int64_t core_alloc_pool_users(core_alloc *a, uint64_t pool)
{
    world_lock(a);
    const private_pool *found = pool_find(a, pool);
    const int64_t users = found != NULL ? found->users : 0;
    world_unlock(a);
    return users;
}

void pools_sweep(core_alloc *a)
{
    for (private_pool **at = &a->pools; *at != NULL;) {
        private_pool *pool = *at;
        if (pool->users > 0 || pool->segments > 0) {
            at = &pool->next;
            continue;
        }
        for (shard *s = a->shards; s != NULL; s = s->next)
            if (s->home == pool) {
                s->home = NULL;
                s->idle = true;
            }
        *at = pool->next;
        free(pool);
    }
}

/* ---- routes ------------------------------------------------------------------------------------- */

tern_status_t core_alloc_route_begin(core_alloc *a, uint64_t pool, unsigned flags, void *stream)
{
    world_lock(a);
    private_pool *found = pool_find(a, pool);
    tern_status_t code = found != NULL ? TERN_OK : TERN_ERR_ARGUMENT;
    if (code == TERN_OK &&
        !host_grow((void **)&a->routes, a->route_count, &a->route_capacity, sizeof *a->routes))
        code = TERN_ERR_OOM;
    if (code == TERN_OK) {
        a->routes[a->route_count++] = (route){ found, flags, stream, pthread_self() };
        found->users++;
        a->captures += (flags & CORE_ALLOC_ROUTE_CAPTURE) != 0;
        slow_update(a, SLOW_ROUTES, true);
    }
    world_unlock(a);
    return code;
}

static bool is_of_another_thread(const route *r)
{
    return (r->flags & CORE_ALLOC_ROUTE_THREAD) && !pthread_equal(r->thread, pthread_self());
}

tern_status_t core_alloc_route_end(core_alloc *a, uint64_t pool)
{
    world_lock(a);
    int64_t i = a->route_count - 1;
    while (i >= 0 && (a->routes[i].pool->id != pool || is_of_another_thread(&a->routes[i])))
        i--;
    if (i >= 0) {
        const route ended = a->routes[i];
        for (int64_t k = i + 1; k < a->route_count; k++)
            a->routes[k - 1] = a->routes[k];
        a->route_count--;
        ended.pool->users--;
        a->captures -= (ended.flags & CORE_ALLOC_ROUTE_CAPTURE) != 0;
        slow_update(a, SLOW_ROUTES, a->route_count > 0);
        pools_sweep(a);
    }
    world_unlock(a);
    return i >= 0 ? TERN_OK : TERN_ERR_ARGUMENT;
}

private_pool *pool_routed(core_alloc *a, void *stream)
{
    for (int64_t i = a->route_count - 1; i >= 0; i--) {
        const route *r = &a->routes[i];
        if (is_of_another_thread(r))
            continue;
        if ((r->flags & CORE_ALLOC_ROUTE_STREAM) && r->stream != stream)
            continue;
        return r->pool;
    }
    return NULL;
}
