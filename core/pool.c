/* See core/pool.h. */
#include "core/pool.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock.h"

#ifdef CORE_POOL_BYPASS

/* ---- sanitizers: malloc, and a list of the tensors behind a lock ------------------------------ */

/* In front of a tensor. Links are kept as complements: a list in the clear would make every leaked
 * tensor reachable for the leak check. */
typedef struct listed {
    uintptr_t next, previous;
    core_pool *pool;
} listed;

static uintptr_t newest;

static listed *shown(uintptr_t link)
{
    return link == 0 ? NULL : (listed *)~link;
}

static uintptr_t hidden(const listed *entry)
{
    return entry == NULL ? 0 : ~(uintptr_t)entry;
}

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

void *core_pool_alloc_tensor(core_pool *pool)
{
    listed *entry = core_pool_alloc(pool, CORE_POOL_STEP + CORE_TENSOR_BYTES);
    if (entry == NULL)
        return NULL;
    /* another thread may look at it (live.c) before it is made: as a tensor that nobody refers to */
    memset((char *)entry + CORE_POOL_STEP, 0, CORE_TENSOR_BYTES);
    core_lock_take(CORE_LOCK_TENSORS);
    *entry = (listed){ .next = newest, .pool = pool };
    if (newest != 0)
        shown(newest)->previous = hidden(entry);
    newest = hidden(entry);
    core_lock_end(CORE_LOCK_TENSORS);
    return (char *)entry + CORE_POOL_STEP;
}

void core_pool_free_tensor(core_pool *pool, void *object)
{
    listed *entry = (listed *)((char *)object - CORE_POOL_STEP);
    (void)pool;
    core_lock_take(CORE_LOCK_TENSORS);
    if (entry->next != 0)
        shown(entry->next)->previous = entry->previous;
    if (entry->previous != 0)
        shown(entry->previous)->next = entry->next;
    else
        newest = entry->next;
    core_lock_end(CORE_LOCK_TENSORS);
    free(entry);
}

void core_pool_each_tensor(core_pool *pool, void (*visit)(void *object, void *user), void *user)
{
    core_lock_take(CORE_LOCK_TENSORS);
    for (listed *entry = shown(newest); entry != NULL; entry = shown(entry->next))
        if (entry->pool == pool)
            visit((char *)entry + CORE_POOL_STEP, user);
    core_lock_end(CORE_LOCK_TENSORS);
}

void core_pool_each_slab(core_pool *pool, void (*visit)(core_slab *slab, void *user), void *user)
{
    (void)pool, (void)visit, (void)user;
}

int64_t core_pool_slab_count(void)
{
    return 0;
}

void *core_pool_refill(core_pool *pool, size_t size_class)
{
    return core_pool_alloc(pool, size_class * CORE_POOL_STEP);
}

void core_pool_free_remote(void *object, size_t size_class)
{
    core_pool_free(NULL, object, size_class);
}

#else

/* ---- slabs ------------------------------------------------------------------------------------ */

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

enum { HEAD_BYTES = (sizeof(core_slab) + CORE_POOL_STEP - 1) / CORE_POOL_STEP * CORE_POOL_STEP };

static _Atomic int64_t slab_count;

static int new_slab(core_pool *pool)
{
    core_slab *slab = aligned_alloc(CORE_SLAB_BYTES, CORE_SLAB_BYTES);
    if (slab == NULL)
        return 0;
    memset(slab, 0, HEAD_BYTES);
    slab->home = pool;
    slab->next = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    atomic_store_explicit(&pool->slabs, slab, memory_order_release);
    atomic_fetch_add_explicit(&slab_count, 1, memory_order_relaxed);
    pool->fresh = (char *)slab + HEAD_BYTES;
    pool->fresh_end = (char *)slab + CORE_SLAB_BYTES;
    return 1;
}

/* A walk on another thread sees the bit only after the object reads as free. */
static void note_place(char *object, size_t bytes, bool is_tensor)
{
    const uintptr_t inside = (uintptr_t)object & (CORE_SLAB_BYTES - 1);
    core_slab *slab = (core_slab *)(object - inside);
    memset(object, 0, bytes);
    const size_t step = inside / CORE_POOL_STEP;
    atomic_fetch_or_explicit(&(is_tensor ? slab->tensors : slab->data)[step / 64],
                             UINT64_C(1) << step % 64, memory_order_release);
}

static size_t bytes_of(size_t size_class)
{
    if (size_class == CORE_POOL_TENSORS)
        return CORE_TENSOR_BYTES;
    return (size_class > CORE_POOL_DATA ? size_class - CORE_POOL_DATA : size_class) *
           CORE_POOL_STEP;
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
    const size_t bytes = bytes_of(size_class);
    if ((size_t)(pool->fresh_end - pool->fresh) < bytes && !new_slab(pool))
        return NULL;
    char *object = pool->fresh;
    pool->fresh += bytes;
    if (size_class >= CORE_POOL_TENSORS)
        note_place(object, bytes, size_class == CORE_POOL_TENSORS);
    return object;
}

void core_pool_free_remote(void *object, size_t size_class)
{
    const core_slab *slab =
        (const core_slab *)((uintptr_t)object & ~(uintptr_t)(CORE_SLAB_BYTES - 1));
    remote_object *remote = object;
    remote->size_class = size_class;
    core_free_object *head = atomic_load_explicit(&slab->home->incoming, memory_order_relaxed);
    do
        remote->link.next = head;
    while (!atomic_compare_exchange_weak_explicit(&slab->home->incoming, &head, &remote->link,
                                                  memory_order_release, memory_order_relaxed));
}

void core_pool_each_tensor(core_pool *pool, void (*visit)(void *object, void *user), void *user)
{
    core_slab *slab = atomic_load_explicit(&pool->slabs, memory_order_acquire);
    for (; slab != NULL; slab = slab->next)
        for (size_t word = 0; word < CORE_SLAB_WORDS; word++) {
            uint64_t bits = atomic_load_explicit(&slab->tensors[word], memory_order_acquire);
            for (; bits != 0; bits &= bits - 1) {
                const size_t step = 64 * word + (size_t)__builtin_ctzll(bits);
                visit((char *)slab + step * CORE_POOL_STEP, user);
            }
        }
}

void core_pool_each_slab(core_pool *pool, void (*visit)(core_slab *slab, void *user), void *user)
{
    core_slab *slab = atomic_load_explicit(&pool->slabs, memory_order_acquire);
    for (; slab != NULL; slab = slab->next)
        visit(slab, user);
}

int64_t core_pool_slab_count(void)
{
    return atomic_load_explicit(&slab_count, memory_order_relaxed);
}

#endif
