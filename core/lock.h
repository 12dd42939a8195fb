/* The library's own locks: a child of a fork finds every lock of this table free, whatever other
 * threads were doing when it was made.
 *
 * Short ones: a fork takes them, and the engine of CPU memory, in the order in which they stand here; so
 * does a thread that needs two. With one of them nobody calls the user (log, callbacks), a device or the
 * loader of libraries, and nobody waits for another thread. The engine alone calls a user's raw
 * allocator, which so may not fork.
 *
 * Long ones: all of that is allowed, and a fork does not wait for them. In the child a long one is free
 * unless the forking thread has it; what its owner was in the middle of is begun anew by the next who
 * takes it, so what there is of it may not be in the way. A thread takes a long one before a short one.
 *
 * Not in this table, so not for a child that may find them taken:
 *   - those of devices' memory and of page-locked memory (core/alloc/), of the CUDA backend
 *     (backend_cuda/) and of plugins: devices cannot follow a fork, and a child that asks for CUDA gets
 *     an error [forked-after-start] once a plugin's start has begun. What it has of its parent's CUDA, tensors
 *     to release and caches to empty, it leaves alone, and it enters no function of the backend's (core_cuda_left);
 *   - those of a loader of batches (data/): a child makes them anew, with its own workers or when it wants one;
 *   - those of other libraries: the C library and its loader (a fork while another thread opens a
 *     library, as the first product does), OpenMP, OpenBLAS, oneDNN with backend_cpu/bridge/. */
#ifndef TERN_CORE_LOCK_H
#define TERN_CORE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

typedef enum core_lock {
    CORE_LOCK_CUDA,      /* the search for it; its owner takes the next one, too */
    CORE_LOCK_PLUGIN,    /* the start of one */
    CORE_LOCK_LIBRARIES, /* the CPU backend's search for its own */
    CORE_LOCK_STREAMS,   /* those of devices: which there are, making more */
    CORE_LOCKS_LONG,
    CORE_LOCK_ALLOCATORS = CORE_LOCKS_LONG, /* which device has one */
    CORE_LOCK_THREADS,                      /* their list, and who is parked */
    CORE_LOCK_TENSORS,                      /* their list in builds that check addresses */
    CORE_LOCK_TOTALS,                       /* what counters of CPU memory count from */
    CORE_LOCK_NUMERICS,
    CORE_LOCK_SETTINGS, /* what of the environment is read once; names of statistics; oom.c's callback */
    CORE_LOCK_WORKSPACES, /* which stream has one */
    CORE_LOCK_PINNED,     /* the cache of page-locked memory: that there is one, who used it */
    CORE_LOCK_EVENTS,     /* the released ones */
    CORE_LOCK_FINISHERS,  /* what threads release in tern_finish */
    CORE_LOCK_JSON,       /* the parser's last error */
    CORE_LOCK_LOG,
    CORE_LOCKS
} core_lock;

void core_lock_take(core_lock lock);
void core_lock_end(core_lock lock);
/* Has the calling thread this long one? */
bool core_lock_mine(core_lock lock);

/* `end` runs before each fork, on the thread that forks, before the locks are taken: it ends threads that would not
 * be in the child, and they may take locks as they end. One function for the process, of the CPU backend. */
void core_before_fork(void (*end)(void));

void core_lock_once(core_lock lock, atomic_bool *done, void (*make)(void));
/* Calls `make` with the lock unless *done, which it then sets: once in a process, and once more in the
 * child of a fork that came in the middle of a long lock's. Not by pthread_once, which leaves that to
 * the C library. */
static inline void core_once(core_lock lock, atomic_bool *done, void (*make)(void))
{
    if (!atomic_load_explicit(done, memory_order_acquire))
        core_lock_once(lock, done, make);
}

#endif
