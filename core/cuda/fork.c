/* Forks: the driver's state survives none. */
#include <stdatomic.h>

#include "core/cuda/cuda.h"

static _Atomic bool starting, started, forked;

void core_cuda_starting(bool is_starting)
{
    atomic_store(&starting, is_starting);
}

void core_cuda_started(void)
{
    atomic_store(&started, true);
}

void core_cuda_in_child(void)
{
    if (atomic_load(&started) || atomic_load(&starting))
        atomic_store(&forked, true);
}

bool core_cuda_forked(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}
