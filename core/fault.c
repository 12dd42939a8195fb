/* Fault injection for tests: the k-th allocation from now fails, above the caches. */
#include "core/pool.h"

#include "tern/debug.h"

_Atomic int64_t core_fault_countdown;

int core_fault_hit(void)
{
    return atomic_fetch_sub_explicit(&core_fault_countdown, 1, memory_order_relaxed) == 1;
}

void tern_debug_fail_allocation(int64_t k)
{
    atomic_store_explicit(&core_fault_countdown, k, memory_order_relaxed);
}

int64_t tern_debug_allocations_left(void)
{
    return atomic_load_explicit(&core_fault_countdown, memory_order_relaxed);
}
