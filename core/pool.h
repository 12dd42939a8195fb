/* Small objects (tensors, storages, tape nodes, small data) from per-thread free lists.
 *
 * Sizes round up to 64 bytes, up to CORE_POOL_LIMIT; alignment is 64. Objects are carved from 64 KiB
 * slabs, aligned to their size, whose head names the home pool: freeing on another thread pushes the
 * object onto the home's `incoming` stack, which the home empties when a list of its runs dry.
 * Slabs are never returned to the system. Builds that check addresses use malloc instead, so that misuse
 * shows; those that check threads do not, so that the ways home are checked. */
#ifndef TERN_CORE_POOL_H
#define TERN_CORE_POOL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CORE_POOL_STEP = 64,
    CORE_POOL_LIMIT = 1024,
    CORE_POOL_CLASSES = CORE_POOL_LIMIT / CORE_POOL_STEP + 1
};

typedef struct core_free_object {
    struct core_free_object *next;
} core_free_object;

typedef struct core_pool {
    core_free_object *free[CORE_POOL_CLASSES];
    char *fresh, *fresh_end; /* rest of the newest slab */
    _Alignas(64) _Atomic(core_free_object *) incoming;
} core_pool;

/* NULL when the system has no memory, or when a fault test says so. */
void *core_pool_refill(core_pool *pool, size_t size_class);
void core_pool_free_remote(void *object, size_t bytes);

/* Fault injection above the caches: counts down to a failing allocation; 0 is off (core/fault.c). */
extern _Atomic int64_t core_fault_countdown;
int core_fault_hit(void);
static inline int core_fault(void)
{
    return __builtin_expect(atomic_load_explicit(&core_fault_countdown, memory_order_relaxed) != 0,
                            0) &&
           core_fault_hit();
}

#if defined(__SANITIZE_ADDRESS__)
#define CORE_POOL_BYPASS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define CORE_POOL_BYPASS 1
#endif
#endif

static inline size_t core_pool_class(size_t bytes)
{
    return (bytes + CORE_POOL_STEP - 1) / CORE_POOL_STEP;
}

#ifdef CORE_POOL_BYPASS
void *core_pool_alloc(core_pool *pool, size_t bytes);
void core_pool_free(core_pool *pool, void *object, size_t bytes);
#else
enum { CORE_SLAB_BYTES = 64 * 1024 };
typedef struct core_slab {
    core_pool *home;
} core_slab;

/* 0 < bytes <= CORE_POOL_LIMIT. */
static inline void *core_pool_alloc(core_pool *pool, size_t bytes)
{
    if (core_fault())
        return NULL;
    const size_t size_class = core_pool_class(bytes);
    core_free_object *object = pool->free[size_class];
    if (__builtin_expect(object == NULL, 0))
        return core_pool_refill(pool, size_class);
    pool->free[size_class] = object->next;
    return object;
}

static inline void core_pool_free(core_pool *pool, void *object, size_t bytes)
{
    const core_slab *slab =
        (const core_slab *)((uintptr_t)object & ~(uintptr_t)(CORE_SLAB_BYTES - 1));
    if (__builtin_expect(slab->home != pool, 0)) {
        core_pool_free_remote(object, bytes);
        return;
    }
    core_free_object *entry = object;
    const size_t size_class = core_pool_class(bytes);
    entry->next = pool->free[size_class];
    pool->free[size_class] = entry;
}
#endif
#endif
