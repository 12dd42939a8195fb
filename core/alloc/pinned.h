/* Page-locked host memory (rows M090-M094): power-of-two blocks without splits, one cache for all
 * streams. The raw interface's alloc and free take host memory here; `stream` is NULL there. */
#ifndef TERN_CORE_ALLOC_PINNED_H
#define TERN_CORE_ALLOC_PINNED_H

#include "core/alloc/alloc.h"

typedef struct core_pinned core_pinned;

typedef struct core_pinned_block {
    char *data;
    int64_t size; /* a power of two */
    int64_t requested;
    tern_site_t site;
} core_pinned_block;

typedef struct core_pinned_timing {
    int64_t total_us, max_us, min_us, count;
} core_pinned_timing;

/* host_memory_stats() (M094). */
typedef struct core_pinned_stats {
    core_alloc_stat allocation, allocated_bytes; /* handed out */
    core_alloc_stat segment, reserved_bytes;     /* taken from the raw interface */
    core_alloc_stat active, active_bytes;        /* handed out or waiting for events */
    int64_t num_host_alloc, num_host_free;       /* raw calls */
    core_pinned_timing host_alloc_time, host_free_time;
} core_pinned_stats;

core_pinned *core_pinned_new(const core_alloc_raw *raw, const core_alloc_settings *settings);
/* Of the settings only those of pinned memory (pinned_*). Lower limits hold from the next end on. */
void core_pinned_configure(core_pinned *p, const core_alloc_settings *settings);
void core_pinned_settings_of(core_pinned *p, core_alloc_settings *settings);
void core_pinned_delete(core_pinned *p);
/* NULL for zero bytes (M092) and on failure; *out_status says which. */
core_pinned_block *core_pinned_malloc(core_pinned *p, int64_t bytes, tern_site_t site,
                                      tern_status_t *out_status);
/* At once reusable when no stream was recorded, else after its events (M091). NULL is fine. */
tern_status_t core_pinned_free(core_pinned *p, core_pinned_block *block);
tern_status_t core_pinned_record_stream(core_pinned *p, core_pinned_block *block, void *stream);
/* Of a block in use that somebody may reach for whom nobody can wait: it stays in use, freed or not. */
void core_pinned_lose(core_pinned *p, core_pinned_block *block);
/* Returns what is free and waits for nothing (M093). */
tern_status_t core_pinned_empty_cache(core_pinned *p);
core_pinned_stats core_pinned_stats_of(core_pinned *p);
void core_pinned_reset_peaks(core_pinned *p);
void core_pinned_reset_accumulated(core_pinned *p);
bool core_pinned_check(core_pinned *p, char why[CORE_ALLOC_WHY_BYTES]);

#endif
