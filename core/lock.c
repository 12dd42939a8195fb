/* See core/lock.h. */
#include "core/lock.h"

#include <pthread.h>
#include <stddef.h>

#include "core/backend.h"
#include "core/cpu_memory.h"
#include "core/cuda/cuda.h"
#include "core/device_memory.h"

#define FREE PTHREAD_MUTEX_INITIALIZER
static pthread_mutex_t locks[] = { FREE, FREE, FREE, FREE, FREE, FREE, FREE, FREE,
                                   FREE, FREE, FREE, FREE, FREE, FREE, FREE, FREE };
_Static_assert(sizeof locks / sizeof *locks == CORE_LOCKS, "one each");

static _Thread_local unsigned long_ones; /* that the thread has, a bit each */

void core_lock_take(core_lock lock)
{
    (void)pthread_mutex_lock(&locks[lock]);
    if (lock < CORE_LOCKS_LONG)
        long_ones |= 1u << lock;
}

void core_lock_end(core_lock lock)
{
    if (lock < CORE_LOCKS_LONG)
        long_ones &= ~(1u << lock);
    (void)pthread_mutex_unlock(&locks[lock]);
}

bool core_lock_mine(core_lock lock)
{
    return (long_ones >> lock & 1) != 0;
}

void core_lock_once(core_lock lock, atomic_bool *done, void (*make)(void))
{
    core_lock_take(lock);
    if (!atomic_load_explicit(done, memory_order_relaxed)) {
        make();
        atomic_store_explicit(done, true, memory_order_release);
    }
    core_lock_end(lock);
}

/* ---- forks ------------------------------------------------------------------------------------ */

/* Between the list of threads and that of tensors: with it locked the engine reads no list of threads. */
static core_alloc *engine; /* while a fork goes on */

static void (*_Atomic end_threads)(void);

void core_before_fork(void (*end)(void))
{
    end_threads = end;
}

static void before_fork(void)
{
    void (*const end)(void) = end_threads;
    if (end != NULL)
        end();
    core_lock_take(CORE_LOCK_ALLOCATORS);
    core_lock_take(CORE_LOCK_THREADS);
    engine = core_cpu_engine(); /* none comes up: making one takes the first lock */
    if (engine != NULL)
        core_alloc_lock(engine);
    for (int lock = CORE_LOCK_TENSORS; lock < CORE_LOCKS; lock++)
        core_lock_take((core_lock)lock);
}

static void after_fork(void)
{
    for (int lock = CORE_LOCKS - 1; lock >= CORE_LOCK_TENSORS; lock--)
        core_lock_end((core_lock)lock);
    if (engine != NULL)
        core_alloc_unlock(engine);
    core_lock_end(CORE_LOCK_THREADS);
    core_lock_end(CORE_LOCK_ALLOCATORS);
}

/* Owners of long locks are gone, unless one of them forked. */
static void in_child(void)
{
    for (int lock = 0; lock < CORE_LOCKS_LONG; lock++)
        if (!core_lock_mine((core_lock)lock))
            (void)pthread_mutex_init(&locks[lock], NULL);
    core_cuda_in_child();
    core_device_memory_in_child();
    core_backend_in_child();
    after_fork();
}

/* While the library is loaded: the first call of a thread may be in the middle of a fork already. */
__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, in_child);
}
