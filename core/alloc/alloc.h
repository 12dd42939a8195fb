/* The caching allocator of one device: PyTorch's sizes, pools, splits, best fit, per-stream reuse and
 * OOM order (rows M001-M095 of the device semantics) over a small raw-memory interface.
 *
 * A segment is one raw allocation; blocks tile it without gaps. A free block belongs to the stream that
 * its segment was allocated for, and only requests of that stream (and private pool) get it. All
 * functions may be called from any thread; operations of different streams do not wait for each other
 * unless one of them needs raw memory. Nothing here records an error: codes come back. */
#ifndef TERN_CORE_ALLOC_ALLOC_H
#define TERN_CORE_ALLOC_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include "tern/base.h"

/* ---- what the allocator stands on -------------------------------------------------------------- */

/* Virtual memory for expandable segments. Sizes are multiples of granularity(). */
typedef struct core_alloc_vmm {
    int64_t (*granularity)(void *context);
    tern_status_t (*reserve)(void *context, int64_t bytes, void **out_address);
    tern_status_t (*unreserve)(void *context, void *address, int64_t bytes);
    tern_status_t (*create)(void *context, int64_t bytes, uint64_t *out_handle);
    tern_status_t (*map)(void *context, void *address, int64_t bytes, uint64_t handle);
    tern_status_t (*unmap)(void *context, void *address, int64_t bytes);
    tern_status_t (*release)(void *context, uint64_t handle);
} core_alloc_vmm;

/* TERN_ERR_OOM from alloc, create or map means "not enough memory" and starts the retries; any other
 * code is returned to the caller at once (M031). A failed free, unmap, release or destroy counts as
 * done: it is not repeated. */
typedef struct core_alloc_raw {
    void *context;
    tern_status_t (*alloc)(void *context, int64_t bytes, void *stream, void **out_data);
    tern_status_t (*free)(void *context, void *data, int64_t bytes, void *stream);
    /* Optional: without it a memory fraction cannot be set and reports say nothing of the device. */
    tern_status_t (*info)(void *context, int64_t *out_free, int64_t *out_total);
    /* Optional, all five or none: without events a block that other streams used waits for them in
     * free. */
    tern_status_t (*event_create)(void *context, void **out_event);
    tern_status_t (*event_record)(void *context, void *event, void *stream);
    tern_status_t (*event_query)(void *context, void *event, bool *out_done);
    tern_status_t (*event_synchronize)(void *context, void *event);
    tern_status_t (*event_destroy)(void *context, void *event);
    /* Optional: NULL where work is done when a call returns. */
    tern_status_t (*stream_synchronize)(void *context, void *stream);
    const core_alloc_vmm *vmm; /* optional */
} core_alloc_raw;

/* ---- settings (M074-M078) ---------------------------------------------------------------------- */

enum { CORE_ALLOC_INTERVALS = 16 }; /* of roundup_power2_divisions: 1 MiB, 2 MiB, ... 32 GiB */

typedef struct core_alloc_settings {
    int64_t max_split_bytes;                 /* INT64_MAX: unlimited */
    int64_t max_non_split_rounding_bytes;    /* 20 MiB */
    int64_t large_segment_bytes;             /* 20 MiB */
    int32_t divisions[CORE_ALLOC_INTERVALS]; /* 0 or 1: round to 512 */
    double gc_threshold;                     /* 0: off */
    double memory_fraction;                  /* 1: no limit; given by the string or by the call */
    bool has_fraction;                       /* a fraction was set: `allowed` exists (M029, M041) */
    bool expandable_segments;
    bool throw_on_oom;               /* throw_on_cudamalloc_oom (M040) */
    bool no_cache;                   /* every request is a raw call (M062) */
    int64_t pinned_max_round_bytes;  /* 0: always to a power of two */
    int64_t pinned_max_cached_bytes; /* 0: no limit */
} core_alloc_settings;

void core_alloc_settings_init(core_alloc_settings *settings);

enum { CORE_ALLOC_WHY_BYTES = 512 };
/* Reads "option:value,option:value" over `settings`: max_split_size_mb, roundup_power2_divisions and
 * garbage_collection_threshold first go back to their defaults (M076), others keep what they have.
 * TERN_ERR_ARGUMENT with `why` filled and `settings` unchanged for a value that an option does not
 * take. An unknown key is such an error when `strict`, with the list of the known ones; else it is
 * skipped, and `why` names it while TERN_OK returns ("" otherwise). */
tern_status_t core_alloc_settings_parse(core_alloc_settings *settings, const char *text,
                                        bool strict, char why[CORE_ALLOC_WHY_BYTES]);

/* ---- the allocator ----------------------------------------------------------------------------- */

typedef struct core_alloc core_alloc;

/* A block in use. `data` and `size` stay as they are until it is freed; the rest is the allocator's. */
typedef struct core_alloc_block {
    char *data;
    int64_t size;      /* rounded, with slack that was not split off: what `allocated` counts */
    int64_t requested; /* as asked for */
    tern_site_t site;  /* of the request */
    /* For whoever keeps blocks in front of the allocator: what the block's user asked for and where,
     * 0 while it rests; -1, the start value: nobody does. Written without a lock (core_alloc_front). */
    int64_t front_bytes;
    tern_site_t front_site;
    bool
        lent; /* for the owner's use: false at first, and to be false again when the block is freed */
} core_alloc_block;

static inline void core_alloc_front(core_alloc_block *block, int64_t bytes, tern_site_t site)
{
    __atomic_store_n(&block->front_site, site, __ATOMIC_RELAXED);
    __atomic_store_n(&block->front_bytes, bytes, __ATOMIC_RELAXED);
}

/* Why a request failed, as numbers. Bytes; -1 where unknown. */
typedef struct core_alloc_failure {
    tern_status_t
        status; /* TERN_ERR_OOM, or a raw call's own code; TERN_OK: zero bytes were asked */
    int64_t requested, block; /* as asked, rounded */
    int64_t segment;          /* asked of the raw interface: M035's "Tried to allocate" */
    int64_t device_free, device_total, allowed; /* allowed: -1 without a memory fraction */
    int64_t allocated, reserved, live_requested;
    int64_t private_pools;  /* allocated in private pools */
    int64_t largest_free;   /* of free blocks of that stream and pool kind */
    int64_t returnable;     /* what empty_cache would give back */
    int64_t inactive_split; /* free but held by live neighbours: fragmentation */
    int64_t wanted;         /* of the device: the segment, or pages of an expandable one */
    int64_t missing;        /* so much more room, and it had fit; 0: there is room, scattered */
    int64_t less;           /* a request smaller by this had fit; 0: of none that is known */
    bool by_fraction;       /* the memory fraction refused it, not the device */
    bool no_addresses; /* no memory was asked for: there is no range for an expandable segment */
} core_alloc_failure;

/* NULL when host memory is used up. `raw` and its vmm table are copied; settings start at the
 * defaults. Makes no raw call. */
core_alloc *core_alloc_new(const core_alloc_raw *raw);
/* Returns everything to the raw interface, blocks in use too; waits for outstanding events first. */
void core_alloc_delete(core_alloc *a);

/* New settings for later requests; existing blocks stay as they are (M081). TERN_ERR_STATE when
 * `no_cache` changes after the first request, or with a fraction when the device's size is not known. */
tern_status_t core_alloc_configure(core_alloc *a, const core_alloc_settings *settings);
core_alloc_settings core_alloc_settings_of(core_alloc *a);

/* A block of at least `bytes` for work on `stream`. NULL for zero bytes (M002) and on failure; then
 * *out_failure (optional) says which. `site` must live as long as the allocator. */
core_alloc_block *core_alloc_malloc(core_alloc *a, void *stream, int64_t bytes, tern_site_t site,
                                    core_alloc_failure *out_failure);
/* Ends a block; NULL is fine. TERN_ERR_ARGUMENT for one that is not in use. A raw call's failure comes
 * back as its code, the block is ended all the same. */
tern_status_t core_alloc_free(core_alloc *a, core_alloc_block *block);
/* The same by address, for memory that was handed to others (M022, M063); slower. */
core_alloc_block *core_alloc_find(core_alloc *a, const void *data);
tern_status_t core_alloc_free_data(core_alloc *a, void *data);
/* `stream` works with the block too: its memory is not used again before that work is done (S025). */
tern_status_t core_alloc_record_stream(core_alloc *a, core_alloc_block *block, void *stream);
/* Looks which freed blocks their streams are done with; what every malloc does first (S028). */
tern_status_t core_alloc_process_events(core_alloc *a);
/* Waits for outstanding events, then returns every segment without a block in use (M045). */
tern_status_t core_alloc_empty_cache(core_alloc *a);
/* The same when more than `keep` bytes are reserved and not allocated. */
tern_status_t core_alloc_trim(core_alloc *a, int64_t keep);

/* Around a fork: nothing is half done in the child. */
void core_alloc_lock(core_alloc *a);
void core_alloc_unlock(core_alloc *a);

/* allowed = fraction * total of the device (M061). TERN_ERR_ARGUMENT outside [0, 1], TERN_ERR_STATE
 * when the device's size is not known. */
tern_status_t core_alloc_set_fraction(core_alloc *a, double fraction);

/* Called before raw memory is asked for, without locks: may free blocks. True: it freed something.
 * One per allocator; NULL removes it (M026 step 3). */
void core_alloc_set_reclaim(core_alloc *a, bool (*reclaim)(void *user), void *user);
/* Called after a request failed with TERN_ERR_OOM, without locks (M032). One; NULL removes it. */
void core_alloc_set_observer(core_alloc *a,
                             void (*observer)(void *user, const core_alloc_failure *failure),
                             void *user);

/* ---- statistics (M047-M057) -------------------------------------------------------------------- */

typedef enum core_alloc_family {
    CORE_ALLOC_ALLOCATION,
    CORE_ALLOC_SEGMENT,
    CORE_ALLOC_ACTIVE,
    CORE_ALLOC_INACTIVE_SPLIT,
    CORE_ALLOC_ALLOCATED_BYTES,
    CORE_ALLOC_RESERVED_BYTES,
    CORE_ALLOC_ACTIVE_BYTES,
    CORE_ALLOC_INACTIVE_SPLIT_BYTES,
    CORE_ALLOC_REQUESTED_BYTES,
    CORE_ALLOC_FAMILIES
} core_alloc_family;

typedef enum core_alloc_column {
    CORE_ALLOC_ALL,
    CORE_ALLOC_SMALL,
    CORE_ALLOC_LARGE,
    CORE_ALLOC_COLUMNS
} core_alloc_column;

typedef struct core_alloc_stat {
    int64_t current, peak, allocated, freed;
} core_alloc_stat;

typedef struct core_alloc_stats {
    core_alloc_stat family[CORE_ALLOC_FAMILIES][CORE_ALLOC_COLUMNS];
    core_alloc_stat oversize_allocations, oversize_segments;
    int64_t num_alloc_retries, num_ooms, num_sync_all_streams, num_device_alloc, num_device_free;
    int64_t num_oom_rejections; /* by throw_on_cudamalloc_oom */
    int64_t max_split_size;     /* -1: unlimited */
} core_alloc_stats;

/* A consistent picture: no operation is half counted. */
core_alloc_stats core_alloc_stats_of(core_alloc *a);
/* Every peak becomes its current value (M049). */
void core_alloc_reset_peaks(core_alloc *a);
/* allocated and freed totals and the num_ counters become 0 (M050). */
void core_alloc_reset_accumulated(core_alloc *a);
/* allocated_bytes.all.current alone: cheap. */
int64_t core_alloc_allocated(core_alloc *a);

/* ---- snapshots and history (M068-M073) --------------------------------------------------------- */

typedef enum core_alloc_state {
    CORE_ALLOC_STATE_ALLOCATED, /* active_allocated */
    CORE_ALLOC_STATE_AWAITING,  /* active_awaiting_free: freed, other streams still use it */
    CORE_ALLOC_STATE_INACTIVE,  /* inactive: cached */
    CORE_ALLOC_STATE_RESTING,   /* inactive, held by a thread's cache in front */
    CORE_ALLOC_STATE_OBJECTS,   /* inactive, of a slab: held by tensors and other objects */
    CORE_ALLOC_STATES
} core_alloc_state;

typedef struct core_alloc_block_info {
    char *data;
    int64_t size, requested;
    core_alloc_state state;
    tern_site_t site; /* NULL for inactive blocks */
} core_alloc_block_info;

typedef struct core_alloc_segment_info {
    char *data;
    int64_t total, allocated, active, requested;
    void *stream;
    bool small;
    int64_t page_bytes;               /* of an expandable one, else 0 */
    uint64_t pool;                    /* 0: the default pool, else the private pool's id */
    int64_t first_block, block_count; /* in the snapshot's list of blocks; by address */
} core_alloc_segment_info;

typedef enum core_alloc_action {
    CORE_ALLOC_TRACE_ALLOC,
    CORE_ALLOC_TRACE_FREE_REQUESTED,
    CORE_ALLOC_TRACE_FREE_COMPLETED,
    CORE_ALLOC_TRACE_SEGMENT_ALLOC,
    CORE_ALLOC_TRACE_SEGMENT_FREE,
    CORE_ALLOC_TRACE_SEGMENT_MAP,
    CORE_ALLOC_TRACE_SEGMENT_UNMAP,
    CORE_ALLOC_TRACE_OOM, /* data: free bytes of the device, size: rounded, as in PyTorch */
    CORE_ALLOC_TRACE_SNAPSHOT,
    CORE_ALLOC_ACTIONS
} core_alloc_action;
/* "alloc", "free_requested", ...: PyTorch's names. */
extern const char *const core_alloc_action_names[CORE_ALLOC_ACTIONS];
extern const char *const core_alloc_state_names[CORE_ALLOC_STATES];

typedef struct core_alloc_trace {
    core_alloc_action action;
    char *data;
    int64_t size;
    void *stream;
    int64_t time_us; /* since the epoch */
    tern_site_t site;
    uint64_t pool;
} core_alloc_trace;

typedef struct core_alloc_snapshot {
    core_alloc_segment_info *segments; /* by address */
    int64_t segment_count;
    core_alloc_block_info *blocks;
    int64_t block_count;
    core_alloc_trace *trace; /* oldest first */
    int64_t trace_count;
} core_alloc_snapshot;

/* A consistent copy; core_alloc_snapshot_deinit returns it. TERN_ERR_OOM without host memory. */
tern_status_t core_alloc_snapshot_init(core_alloc *a, core_alloc_snapshot *out_snapshot);
void core_alloc_snapshot_deinit(core_alloc_snapshot *snapshot);

/* The block that an address lies in, in use or not; false when there is none. For signal handlers: it
 * waits for no lock that its own thread may hold, and then says false, too. */
bool core_alloc_look(core_alloc *a, const void *address, core_alloc_block_info *out_block);

/* Keeps the last `max_entries` events; 0 switches off and clears (M072). While it is on, operations of
 * all streams take turns. */
tern_status_t core_alloc_record_history(core_alloc *a, int64_t max_entries);

/* ---- private pools (M084-M088) ----------------------------------------------------------------- */

/* A new pool's id, never 0; its use count is 1. 0 without host memory. use_on_oom: requests of the
 * default pool may take its free blocks before they fail. */
uint64_t core_alloc_pool_new(core_alloc *a, bool use_on_oom);
/* One user less; after the last one empty_cache and OOM may return its segments. */
tern_status_t core_alloc_pool_release(core_alloc *a, uint64_t pool);
/* Returns what is free in pools without users; waits for nothing (M087). */
tern_status_t core_alloc_empty_pools(core_alloc *a);
int64_t core_alloc_pool_users(core_alloc *a, uint64_t pool);

enum {
    CORE_ALLOC_ROUTE_THREAD = 1u << 0, /* requests of the calling thread */
    CORE_ALLOC_ROUTE_STREAM = 1u << 1, /* requests for `stream` */
    CORE_ALLOC_ROUTE_CAPTURE = 1u << 2 /* a graph is being captured: no events, no flush (M085) */
};
/* Requests that match every given filter go to the pool; the newest match wins (M084). The route is
 * one more user of the pool. */
tern_status_t core_alloc_route_begin(core_alloc *a, uint64_t pool, unsigned flags, void *stream);
/* Ends the newest route to the pool, but those of other threads. TERN_ERR_ARGUMENT: there is none. */
tern_status_t core_alloc_route_end(core_alloc *a, uint64_t pool);

/* ---- checking ---------------------------------------------------------------------------------- */

/* Do all invariants hold? No overlap, neighbours linked, free lists sorted and complete, counters equal
 * to sums. False with the first fault in `why`. Debug builds ask after each operation. */
bool core_alloc_check(core_alloc *a, char why[CORE_ALLOC_WHY_BYTES]);

/* Sizes by rule, for reports and tests (M001, M005, M007). */
int64_t core_alloc_round(const core_alloc_settings *settings, int64_t bytes);
int64_t core_alloc_segment_bytes(const core_alloc_settings *settings, int64_t block_bytes);

#endif
