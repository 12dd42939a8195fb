/* See core/processors.h. More threads than a control group's quota has time for take it from each other: each period ends
 * with all of them stopped, and who waits for one of them stops, too. */
#include "core/processors.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/backend.h"
#include "core/control_group.h"
#include "tern/device.h"

_Atomic int core_thread_count = 1;

int core_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* ---- threads ------------------------------------------------------------------------------------ */

/* As many as find a processor each all the time. */
static int default_threads(void)
{
    const int processors = core_processors();
    const double quota = processors > 1 ? core_group_quota() : 0;
    if (quota <= 0 || quota >= processors)
        return processors;
    return quota < 2 ? 1 : (int)quota;
}

/* OMP_NUM_THREADS is honoured, as every OpenMP program's users expect; a number that is none is not. */
__attribute__((constructor)) static void set_first_thread_count(void)
{
    const char *wish = getenv("OMP_NUM_THREADS");
    const long asked = wish != NULL ? strtol(wish, NULL, 10) : 0;
    tern_set_num_threads(asked > 0 && asked <= INT_MAX ? (int)asked : 0);
}

void tern_set_num_threads(int threads)
{
    atomic_store_explicit(&core_thread_count, threads > 0 ? threads : default_threads(),
                          memory_order_relaxed);
}

int tern_num_threads(void)
{
    return core_threads();
}
