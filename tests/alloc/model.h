/* What the reference says a caching allocator does, as plainly as it can be written: one array of
 * blocks, linear searches, neighbours found by address. Written from section 4 of the catalogue of
 * PyTorch behaviours (M rows) without a look at core/alloc, so that a difference between the two is
 * a finding. Slow on purpose.
 *
 * One model stands for one device and is used by one thread. Streams are small numbers. */
#ifndef TESTS_ALLOC_MODEL_H
#define TESTS_ALLOC_MODEL_H

#include "tests/alloc/raw_double.h"

enum { MODEL_INTERVALS = 16, MODEL_POOLS = 16, MODEL_ROUTES = 16, MODEL_ROOM = 8192 };

/* ORDER MODEL_FAMILY: names in model.c. */
typedef enum model_family {
    MODEL_ALLOCATION,
    MODEL_SEGMENT,
    MODEL_ACTIVE,
    MODEL_INACTIVE_SPLIT,
    MODEL_ALLOCATED_BYTES,
    MODEL_RESERVED_BYTES,
    MODEL_ACTIVE_BYTES,
    MODEL_INACTIVE_SPLIT_BYTES,
    MODEL_REQUESTED_BYTES,
    MODEL_FAMILIES
} model_family;

enum { MODEL_ALL, MODEL_SMALL, MODEL_LARGE, MODEL_COLUMNS };

typedef struct model_stat {
    int64_t current, peak, allocated, freed;
} model_stat;

typedef struct model_stats {
    model_stat of[MODEL_FAMILIES][MODEL_COLUMNS];
    model_stat oversize_allocations, oversize_segments;
    int64_t retries, ooms, rejections, syncs, device_allocs, device_frees;
} model_stats;

/* M077. */
typedef struct model_settings {
    int64_t max_split; /* INT64_MAX: no limit */
    int64_t max_non_split_rounding;
    int64_t large_segment;
    int divisions[MODEL_INTERVALS]; /* M010: per power of two from 1 MiB on */
    double gc_threshold;            /* 0: off */
    bool expandable;
    bool reject; /* M040 */
} model_settings;

typedef struct model_block {
    bool used; /* the slot holds a block */
    bool allocated, mapped, expandable, small;
    int pool; /* 0: the device's own, else a private pool */
    int stream;
    int user_count; /* streams it was recorded on, in this order */
    int users[RAW_STREAMS];
    int events;      /* marks it waits for */
    int64_t segment; /* blocks of one segment share it */
    uint64_t address;
    int64_t size, requested;
    int64_t page; /* of an expandable range */
    int64_t born; /* M043: the pool's count of searches when it became free */
} model_block;

typedef struct model_mark {
    int stream;
    int64_t mark;
    uint64_t address; /* of the block that waits */
} model_mark;

typedef struct model_pool {
    int uses; /* 0: its segments may be returned */
    bool on_oom;
    int64_t searches[2]; /* large, small */
} model_pool;

/* M084: requests that match go to the pool. */
typedef struct model_route {
    int pool;
    int stream; /* -1: any */
    bool capture;
} model_route;

/* M070, in the order of the names there. */
typedef enum model_action {
    MODEL_TRACE_ALLOC,
    MODEL_TRACE_FREE_REQUESTED,
    MODEL_TRACE_FREE_COMPLETED,
    MODEL_TRACE_SEGMENT_ALLOC,
    MODEL_TRACE_SEGMENT_FREE,
    MODEL_TRACE_SEGMENT_MAP,
    MODEL_TRACE_SEGMENT_UNMAP,
    MODEL_TRACE_OOM,
    MODEL_ACTIONS
} model_action;

/* How often each happened, and a sum over addresses and sizes that does not depend on their order. */
typedef struct model_trace {
    int64_t count[MODEL_ACTIONS];
    uint64_t sum[MODEL_ACTIONS];
} model_trace;
void model_trace_add(model_trace *trace, model_action action, uint64_t address, int64_t size);

/* Ways that a run has taken, so that a test can say it has seen them all. ORDER MODEL_PATH: names in
 * model.c. */
typedef enum model_path {
    MODEL_REUSED,
    MODEL_SPLIT,
    MODEL_KEPT_SLACK,
    MODEL_JOINED_TWO,
    MODEL_TOO_LARGE_TO_GIVE,  /* M023 */
    MODEL_TOO_LARGE_TO_ROUND, /* M024 */
    MODEL_WAITED_FOR_EVENT,
    MODEL_DEFERRED,
    MODEL_GARBAGE,
    MODEL_OVER_FRACTION,
    MODEL_REJECTED,
    MODEL_RECLAIMED,
    MODEL_WILLING_POOL,
    MODEL_OVERSIZE_ONE,
    MODEL_OVERSIZE_SEVERAL,
    MODEL_RETRY_HELPED,
    MODEL_USED_UP,
    MODEL_GREW,   /* an expandable range, behind what was free */
    MODEL_SHRANK, /* from the middle of one */
    MODEL_PASSED_OVER_EXPANDABLE,
    MODEL_PRIVATE,
    MODEL_PATHS
} model_path;

typedef struct model {
    int64_t paths[MODEL_PATHS];
    raw_double *raw; /* borrowed; not shared with what the model is compared with */
    model_settings settings;
    bool without_events, without_vmm; /* what the raw interface lacks */
    int64_t total;
    int64_t allowed; /* -1: no fraction set */
    int64_t last_segment;
    int block_end; /* slots in use lie below */
    model_block blocks[MODEL_ROOM];
    int stream_count; /* streams with marks, in the order of their first */
    int streams[RAW_STREAMS];
    int mark_count;
    model_mark marks[MODEL_ROOM]; /* oldest first */
    int deferred_count;
    uint64_t deferred[MODEL_ROOM]; /* freed with users during a capture (M085) */
    int route_count;
    model_route routes[MODEL_ROUTES]; /* oldest first */
    int pool_count;
    model_pool pools[MODEL_POOLS]; /* [0] is the device's own */
    bool (*reclaim)(void *user);   /* M026 step 3 */
    void *reclaim_user;
    model_stats stats;
    model_trace trace;
} model;

typedef enum model_result { MODEL_DONE, MODEL_OOM, MODEL_UNKNOWN_POINTER } model_result;

model_settings model_defaults(void);
/* In place; `raw` must live longer. */
void model_init(model *m, raw_double *raw, int64_t total_bytes);

/* Address 0: nothing was asked for (M002) or there is not enough. */
model_result model_malloc(model *m, int64_t bytes, int stream, uint64_t *out_address);
model_result model_free(model *m, uint64_t address);
model_result model_record_stream(model *m, uint64_t address, int stream);
void model_process_events(model *m);
void model_empty_cache(model *m);
void model_set_fraction(model *m, double fraction);
void model_reset_peaks(model *m);
void model_reset_accumulated(model *m);

/* A private pool with one use (M084-M088); its number. */
int model_pool_new(model *m, bool on_oom);
void model_pool_release(model *m, int pool);
/* stream -1: of any stream. One use more until the end. */
void model_route_begin(model *m, int pool, int stream, bool capture);
void model_route_end(model *m, int pool);

int64_t model_round(const model_settings *s, int64_t bytes);
int64_t model_segment_bytes(const model_settings *s, int64_t rounded_bytes);
/* What empty_cache would return now, and what is allocated in private pools. */
int64_t model_returnable(const model *m);
int64_t model_in_private_pools(const model *m);
/* The largest free block for a request of this size on this stream. */
int64_t model_largest_free(const model *m, int64_t rounded_bytes, int stream);
const char *model_family_name(model_family family);
const char *model_path_name(model_path path);
/* The block at the address, or NULL. */
const model_block *model_find(const model *m, uint64_t address);
/* NULL, or which current number is not the sum over the blocks, or which blocks do not fit together. */
const char *model_check(const model *m);

#endif
