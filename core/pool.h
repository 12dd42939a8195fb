/* Small objects (tensors, storages, tape nodes, small data) from per-thread free lists.
 *
 * Sizes round up to 64 bytes, up to CORE_POOL_LIMIT; alignment is 64. Objects are carved from 64 KiB
 * slabs, aligned to their size, whose head names the home pool: freeing on another thread pushes the
 * object onto the home's `incoming` stack, which the home empties when a list of its runs dry.
 * Slabs are never returned to the system. Builds that check addresses use malloc instead, so that misuse
 * shows; those that check threads do not, so that the ways home are checked.
 *
 * Tensors have a free list of their own, and a slab's head says where tensors are in it, so that leak
 * help (core/live.h) can visit them all without a list that every tensor would have to be put into.
 * Likewise small data with its storage (core/memory.h), for snapshots. */
#ifndef TERN_CORE_POOL_H
#define TERN_CORE_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CORE_POOL_STEP = 64,
    CORE_POOL_LIMIT = 1792, /* the largest node (autograd/tape.c) */
    CORE_POOL_CLASSES = CORE_POOL_LIMIT / CORE_POOL_STEP + 1,
    CORE_POOL_TENSORS = CORE_POOL_CLASSES, /* the class of tensors */
    CORE_POOL_DATA = CORE_POOL_TENSORS,    /* + n: small data of n steps, header included */
    CORE_POOL_DATA_STEPS = 8,
    CORE_POOL_LISTS = CORE_POOL_DATA + CORE_POOL_DATA_STEPS + 1,
    CORE_TENSOR_BYTES = 256 /* and their size */
};

typedef struct core_free_object {
    struct core_free_object *next;
} core_free_object;

enum { CORE_SLAB_BYTES = 64 * 1024, CORE_SLAB_WORDS = CORE_SLAB_BYTES / CORE_POOL_STEP / 64 };
typedef struct core_slab {
    struct core_pool *home;
    struct core_slab *next;                    /* an older one */
    _Atomic uint64_t tensors[CORE_SLAB_WORDS]; /* bit i: a tensor's place begins at step i */
    _Atomic uint64_t data[CORE_SLAB_WORDS];    /* the same for small data */
} core_slab;

typedef struct core_pool {
    core_free_object *free[CORE_POOL_LISTS];
    char *fresh, *fresh_end;    /* rest of the newest slab */
    _Atomic(core_slab *) slabs; /* the newest */
    _Alignas(64) _Atomic(core_free_object *) incoming;
} core_pool;

/* NULL when the system has no memory, or when a fault test says so. */
void *core_pool_refill(core_pool *pool, size_t size_class);
void core_pool_free_remote(void *object, size_t size_class);

/* Visits every tensor-sized object that the pool ever gave out, those that were freed, too; the visitor
 * must be able to tell. Objects of other threads may come and go meanwhile. */
void core_pool_each_tensor(core_pool *pool, void (*visit)(void *object, void *user), void *user);
/* Visits the slabs; there are none in builds that check addresses. */
void core_pool_each_slab(core_pool *pool, void (*visit)(core_slab *slab, void *user), void *user);
/* Of all pools together. */
int64_t core_pool_slab_count(void);

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
void *core_pool_alloc_tensor(core_pool *pool);
void core_pool_free_tensor(core_pool *pool, void *object);
#define core_pool_alloc_data core_pool_alloc
#define core_pool_free_data core_pool_free
static inline bool core_pool_take_both(core_pool *pool, size_t bytes, void **tensor, void **data)
{
    (void)pool, (void)bytes, (void)tensor, (void)data;
    return false;
}
static inline bool core_pool_has_lists(const core_pool *pool, const void *a, const void *b)
{
    (void)pool, (void)a, (void)b;
    return false;
}
static inline void core_pool_give_both(core_pool *pool, void *tensor, void *data, size_t bytes)
{
    core_pool_free_tensor(pool, tensor);
    core_pool_free_data(pool, data, bytes);
}
#else
static inline void *core_pool_take(core_pool *pool, size_t size_class)
{
    if (core_fault())
        return NULL;
    core_free_object *object = pool->free[size_class];
    if (__builtin_expect(object == NULL, 0))
        return core_pool_refill(pool, size_class);
    pool->free[size_class] = object->next;
    return object;
}

static inline core_pool *core_pool_home(const void *object)
{
    return ((const core_slab *)((uintptr_t)object & ~(uintptr_t)(CORE_SLAB_BYTES - 1)))->home;
}

static inline void core_pool_give(core_pool *pool, void *object, size_t size_class)
{
    if (__builtin_expect(core_pool_home(object) != pool, 0)) {
        core_pool_free_remote(object, size_class);
        return;
    }
    core_free_object *entry = object;
    entry->next = pool->free[size_class];
    pool->free[size_class] = entry;
}

/* 0 < bytes <= CORE_POOL_LIMIT. */
static inline void *core_pool_alloc(core_pool *pool, size_t bytes)
{
    return core_pool_take(pool, core_pool_class(bytes));
}

static inline void core_pool_free(core_pool *pool, void *object, size_t bytes)
{
    core_pool_give(pool, object, core_pool_class(bytes));
}

/* CORE_TENSOR_BYTES. Of a freed one only the first two words change, until it is given out again. */
static inline void *core_pool_alloc_tensor(core_pool *pool)
{
    return core_pool_take(pool, CORE_POOL_TENSORS);
}

static inline void core_pool_free_tensor(core_pool *pool, void *object)
{
    core_pool_give(pool, object, CORE_POOL_TENSORS);
}

/* Small data with its storage, up to CORE_POOL_DATA_STEPS steps; the same holds for its first two
 * words. */
static inline void *core_pool_alloc_data(core_pool *pool, size_t bytes)
{
    return core_pool_take(pool, CORE_POOL_DATA + core_pool_class(bytes));
}

static inline void core_pool_free_data(core_pool *pool, void *object, size_t bytes)
{
    core_pool_give(pool, object, CORE_POOL_DATA + core_pool_class(bytes));
}

/* A tensor and small data of so many bytes, when both lie on the lists. False: nothing is taken. */
static inline bool core_pool_take_both(core_pool *pool, size_t bytes, void **tensor, void **data)
{
    core_free_object **second = &pool->free[CORE_POOL_DATA + core_pool_class(bytes)];
    core_free_object *a = pool->free[CORE_POOL_TENSORS], *b = *second;
    if (atomic_load_explicit(&core_fault_countdown, memory_order_relaxed) != 0 || a == NULL ||
        b == NULL)
        return false;
    pool->free[CORE_POOL_TENSORS] = a->next;
    *second = b->next;
    *tensor = a;
    *data = b;
    return true;
}

/* Do two objects go back to lists of this pool? */
static inline bool core_pool_has_lists(const core_pool *pool, const void *a, const void *b)
{
    return core_pool_home(a) == pool && core_pool_home(b) == pool;
}

/* Back to its lists. */
static inline void core_pool_give_both(core_pool *pool, void *tensor, void *data, size_t bytes)
{
    core_free_object **second = &pool->free[CORE_POOL_DATA + core_pool_class(bytes)];
    core_free_object *a = tensor, *b = data;
    a->next = pool->free[CORE_POOL_TENSORS];
    pool->free[CORE_POOL_TENSORS] = a;
    b->next = *second;
    *second = b;
}
#endif
#endif
