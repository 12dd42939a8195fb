/* See core/lock.h. */
#include "core/lock.h"

#include <pthread.h>
#include <stddef.h>

#include "core/cpu_memory.h"

static pthread_mutex_t locks[CORE_LOCKS] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
};

void core_lock_take(core_lock lock)
{
    (void)pthread_mutex_lock(&locks[lock]);
}

void core_lock_end(core_lock lock)
{
    (void)pthread_mutex_unlock(&locks[lock]);
}

/* ---- forks ------------------------------------------------------------------------------------ */

/* Between the list of threads and that of tensors: with it locked the engine reads no list of threads. */
static core_alloc *engine; /* while a fork goes on */

static void before_fork(void)
{
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

/* While the library is loaded: the first call of a thread may be in the middle of a fork already. */
__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}
