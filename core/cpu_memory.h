/* The CPU's caching allocator: raw memory from the system, settings, statistics. */
#ifndef TERN_CORE_CPU_MEMORY_H
#define TERN_CORE_CPU_MEMORY_H

#include "core/alloc/alloc.h"
#include "core/thread.h"

/* Memory of the system, on 2 MiB boundaries and huge pages where that helps. */
core_alloc_raw core_cpu_raw(void);
tern_status_t core_cpu_info(int64_t *out_free, int64_t *out_total);
/* Once, by core/device_memory.c, for the allocator that it has made. `uncached`: every request is a raw
 * call. With a lock: what it finds wrong is logged by core_cpu_complain, without. */
void core_cpu_configure(core_alloc *a, bool uncached);
void core_cpu_complain(void);
/* The allocator; only after it has given memory. */
core_alloc *core_cpu_engine(void);
/* Ends a block of it. */
void core_cpu_return(core_alloc_block *block);
/* Bytes that a thread's lists may keep: INT64_MAX without a limit, 0 without caching. */
int64_t core_cpu_cache_limit(void);

core_alloc_stats core_cpu_stats(void);
void core_cpu_reset_peaks(tern_thread *self);
void core_cpu_reset_totals(void);
/* The calling thread's lists and those of ended threads are emptied now, others' at their next request. */
void core_cpu_empty_cache(tern_thread *self);

/* Adds the slabs of all pools, with the small data in them, to a snapshot of the allocator. */
tern_status_t core_cpu_add_slabs(core_alloc_snapshot *snapshot);

#endif
