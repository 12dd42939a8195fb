/* Inside the allocator: records, shards, and who may touch what.
 *
 * Locks: a shard's lock guards its segments, blocks, free lists and ledger. Functions that take a
 * `core_alloc *` and no shard want "the world": the allocator's lock and all shards' locks, taken in
 * that order (world_lock). What a core_alloc holds is written in the world only, so holding any shard's
 * lock is enough to read it. */
#ifndef TERN_CORE_ALLOC_ENGINE_H
#define TERN_CORE_ALLOC_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/alloc/alloc.h"

enum {
    UNIT = 512,            /* M001 */
    SMALL_LIMIT = 1 << 20, /* M004: rounded sizes up to it are small */
    SMALL_SEGMENT = 2 << 20,
    LARGE_MIN = 10 << 20, /* M005: from here on a segment is the size itself, rounded */
    SEGMENT_STEP = 2 << 20
};
enum { SMALL, LARGE, KINDS };

/* ---- the lock of a shard: spins briefly, then sleeps; released by a plain store ------------------- */

typedef struct core_spin {
    atomic_bool taken;
} core_spin;
void spin_wait(core_spin *lock);
static inline void spin_lock(core_spin *lock)
{
    if (__builtin_expect(atomic_exchange_explicit(&lock->taken, true, memory_order_acquire), 0))
        spin_wait(lock);
}
static inline void spin_unlock(core_spin *lock)
{
    atomic_store_explicit(&lock->taken, false, memory_order_release);
}

/* ---- records --------------------------------------------------------------------------------------- */

typedef struct segment segment;
typedef struct shard shard;
typedef struct private_pool private_pool;

/* States: in use (in_use); awaiting (not in use; events > 0, or stream_count > 0: deferred); free (in a list); of an
 * expandable segment also unmapped (mapped false, in no list). */
typedef struct block {
    core_alloc_block pub;
    struct block *prev, *next;  /* by address, in one segment */
    struct block *left, *right; /* in a bin of a free list; left: the list of spare records */
    segment *segment;
    shard *shard; /* of the slab the record came from: never changes */
    uint32_t priority;
    uint8_t kind;
    bool in_use, mapped, expandable;
    int32_t events; /* outstanding */
    int32_t stream_count;
    void **streams;  /* others that work with it; owned. Without a cache its own comes first */
    int64_t gc_base; /* searches when it became free */
} block;

struct segment {
    segment *next, *prev; /* in its shard, by address */
    char *data;
    int64_t total; /* reserved address space when expandable */
    block *first;
    shard *shard;
    uint8_t kind;
    /* expandable: pages of page_bytes; handles[i] valid where mapped[i] */
    int64_t page_bytes, page_count;
    uint64_t *handles;
    bool *mapped;
};
static inline bool is_split(const block *b)
{
    return b->prev != NULL || b->next != NULL;
}
static inline bool is_free(const block *b)
{
    return !b->in_use && b->events == 0 && b->stream_count == 0;
}

/* Free blocks of one pool and stream, ordered by (size, address). */
enum { BINS = 512, BIN_WORDS = BINS / 64 };
typedef struct free_list {
    uint64_t filled[BIN_WORDS];
    block *bin[BINS]; /* treaps */
} free_list;

/* Counters that every request changes. current == peak - sum of all shards' credit. */
enum {
    HOT_ALLOCATION,
    HOT_ACTIVE,
    HOT_INACTIVE_SPLIT,
    HOT_ALLOCATED_BYTES,
    HOT_ACTIVE_BYTES,
    HOT_INACTIVE_SPLIT_BYTES,
    HOT_REQUESTED_BYTES,
    HOT = 8
};
typedef struct ledger {
    int64_t credit[CORE_ALLOC_COLUMNS][HOT];
    /* since the last reset of totals; what is active rises with what is allocated: not kept */
    int64_t increased[KINDS][HOT];
} ledger;

enum { SLAB_BLOCKS = 63 };
typedef struct record_slab {
    struct record_slab *next;
    block blocks[SLAB_BLOCKS];
} record_slab;

struct shard {
    core_spin lock;
    void *stream;
    private_pool *home; /* NULL: the default pool */
    shard *next;        /* all shards of the allocator */
    bool idle;          /* of a pool that is gone: may serve a new one */
    block *spare;
    int64_t spare_count;
    record_slab *slabs;
    segment *segments; /* by address */
    segment *spare_segment;
    _Alignas(64) ledger ledger;
    _Alignas(64) free_list list[KINDS];
};

struct private_pool {
    private_pool *next;
    uint64_t id;
    int64_t users;
    int64_t segments;
    bool use_on_oom;
};

typedef struct route {
    private_pool *pool;
    unsigned flags;
    void *stream;
    pthread_t thread;
} route;

/* A freed block that waits for an event on a stream. */
typedef struct waiting {
    struct waiting *next;
    void *event;
    block *block;
} waiting;
typedef struct event_queue {
    struct event_queue *next;
    void *stream;
    waiting *first, **last;
} event_queue;

typedef struct shard_table {
    struct shard_table *retired;
    uint64_t mask;
    shard *slot[];
} shard_table;

typedef struct history {
    core_alloc_trace *entries;
    int64_t count, capacity, limit; /* limit 0: off */
    int64_t next;                   /* where the next one goes once count == limit */
} history;

/* Why requests cannot take the short way. */
enum {
    SLOW_SETTINGS = 1u << 0, /* max_split_size, expandable segments, garbage collection, no cache */
    SLOW_HISTORY = 1u << 1,
    SLOW_ROUTES = 1u << 2,
    SLOW_EVENTS = 1u << 3 /* blocks await events or the end of a capture */
};

struct core_alloc {
    core_alloc_raw raw;
    core_alloc_vmm vmm;
    core_alloc_settings settings;
    unsigned slow;
    bool divided;      /* settings.divisions say something */
    bool used;         /* a request was made */
    bool no_addresses; /* the last range for an expandable segment that was wanted was refused */
    int64_t shard_count;
    int64_t searches; /* of the large default pool, while garbage collection is on */
    _Atomic(shard_table *) table;
    _Alignas(64) pthread_mutex_t lock;
    shard *shards;
    int64_t peak[CORE_ALLOC_COLUMNS][HOT];
    int64_t at_reset[CORE_ALLOC_COLUMNS][HOT]; /* current values at the last reset of totals */
    core_alloc_stats cold;                     /* segments, reserved bytes, oversize, num_ */
    int64_t device_total;                      /* 0: not asked yet */
    int64_t allowed;                           /* bytes; with settings.has_fraction */
    private_pool *pools;
    uint64_t last_pool_id;
    route *routes;
    int64_t route_count, route_capacity, captures;
    event_queue *queues;
    void **spare_events;
    int64_t spare_event_count, spare_event_capacity;
    waiting *spare_waiting;
    block *deferred; /* freed during a capture, or without an event; oldest first, through left */
    block *deferred_last;
    block *uncached; /* in no_cache mode: list of blocks in use through next, prev */
    history history;
    bool (*reclaim)(void *user);
    void *reclaim_user;
    void (*observer)(void *user, const core_alloc_failure *failure);
    void *observer_user;
};

/* ---- shards and pools (pools.c) ---------------------------------------------------------------------- */

void world_lock(core_alloc *a);
void world_unlock(core_alloc *a);
static inline uint64_t stream_hash(const void *stream)
{
    return (((uint64_t)(uintptr_t)stream >> 4) ^ (uint64_t)(uintptr_t)stream) *
               UINT64_C(0x9E3779B97F4A7C15) >>
           32;
}
/* The default pool's shard of a stream, or NULL. Without a lock. */
static inline shard *shard_lookup(core_alloc *a, const void *stream)
{
    const shard_table *t = atomic_load_explicit(&a->table, memory_order_acquire);
    if (__builtin_expect(t == NULL, 0))
        return NULL;
    uint64_t i = stream_hash(stream) & t->mask;
    while (t->slot[i] != NULL && t->slot[i]->stream != stream)
        i = (i + 1) & t->mask;
    return t->slot[i];
}
/* The shard of (stream, home), made when new; NULL without host memory. */
shard *shard_of(core_alloc *a, void *stream, private_pool *home);
private_pool *pool_routed(core_alloc *a, void *stream);
/* Forgets pools without users and segments. */
void pools_sweep(core_alloc *a);
static inline bool pool_freeable(const private_pool *pool)
{
    return pool == NULL || pool->users == 0;
}

/* ---- block records and free lists (blocks.c, lists.c) ------------------------------------------------- */

/* At least n spare block records; false without host memory. */
bool shard_reserve(shard *s, int64_t n);
bool segment_reserve(shard *s); /* the same for a segment's record */
block *record_take(shard *s);   /* after shard_reserve; zeroed but for shard and priority */
void record_drop(block *b);

void list_insert(free_list *list, block *b);
void list_erase(free_list *list, block *b);
void list_change(free_list *list, block *b, char *data, int64_t size); /* keeps the order */
/* The smallest of at least `size`, lowest address first; NULL. */
block *list_best(const free_list *list, int64_t size);
/* What comes after b in the order; NULL. */
block *list_after(const free_list *list, const block *b);
block *list_before(const free_list *list, const block *b);
block *list_largest(const free_list *list);
static inline block *list_first(const free_list *list)
{
    return list_best(list, 0);
}

/* Hands out `size` from the front of a free block, `listed` or in no list any more; needs one spare
 * record. Returns false when the ledger must be settled. */
bool block_take(core_alloc *a, block **b, int64_t size, int64_t bytes, tern_site_t site,
                bool listed);
/* Ends in_use and `allocated`; the block stays active. */
bool block_end(block *b);
/* From active to free: merges with free neighbours, into its list. The record may be gone after. */
bool block_release(core_alloc *a, block *b);
/* The short way's block_end and block_release in one. */
bool block_end_release(core_alloc *a, block *b);
/* Takes `neighbour` into b when both are free and alike; the bytes it had, else 0. */
int64_t block_merge(block *b, block *neighbour);
/* A new record for `bytes` at `data` behind (or before) b; needs one spare. Not in a list. */
block *block_insert_after(block *b, char *data, int64_t bytes);
block *block_insert_before(block *b, char *data, int64_t bytes);
void free_insert(core_alloc *a, block *b); /* into its list, with its age */

/* ---- counting (ledger.c) ------------------------------------------------------------------------------ */

/* Two counters at a time: a request changes 2 * HOT of them. */
typedef int64_t counter_pair __attribute__((vector_size(16), may_alias));

static inline counter_pair apply_pair(ledger *l, int column, int i, const int64_t *delta)
{
    /* two loads: one of 16 bytes would wait for the stores of 8 just before */
    const counter_pair change = { delta[2 * i], delta[2 * i + 1] };
    counter_pair *all = (counter_pair *)l->credit[CORE_ALLOC_ALL] + i;
    counter_pair *own = (counter_pair *)l->credit[column] + i;
    const counter_pair all_left = *all - change, own_left = *own - change;
    *all = all_left;
    *own = own_left;
    return all_left | own_left;
}

/* False when the shard has overdrawn its credit: settle before the request returns. */
static inline bool ledger_apply(shard *s, int kind, const int64_t *delta)
{
    const int column = CORE_ALLOC_SMALL + kind;
    const counter_pair sign =
        apply_pair(&s->ledger, column, 0, delta) | apply_pair(&s->ledger, column, 1, delta) |
        apply_pair(&s->ledger, column, 2, delta) | apply_pair(&s->ledger, column, 3, delta);
    return (sign[0] | sign[1]) >= 0;
}
/* Peaks rise, or credit moves to shards that have overdrawn theirs. */
void ledger_settle(core_alloc *a);
/* The same for the only shard, with its lock alone. */
void ledger_settle_alone(core_alloc *a, shard *s);
void stat_change(core_alloc_stat *stat, int64_t amount);
void count_segment(core_alloc *a, int kind, int64_t count, int64_t bytes);
int64_t hot_current(const core_alloc *a, int column, int index);
static inline int64_t reserved_bytes(const core_alloc *a)
{
    return a->cold.family[CORE_ALLOC_RESERVED_BYTES][CORE_ALLOC_ALL].current;
}

int64_t device_total(core_alloc *a); /* asked once; 0 where it is not known */

/* ---- segments (segments.c, expandable.c) ---------------------------------------------------------------- */

/* A new segment as one free block in no list; needs a spare record of each sort. */
tern_status_t segment_alloc(core_alloc *a, shard *s, int kind, int64_t bytes, tern_site_t site,
                            block **out_block);
/* A segment of one unmapped-or-mapped block; needs a spare record of each sort. */
segment *segment_add(shard *s, int kind, char *data, int64_t total);
void segment_remove(segment *seg);
/* Waits for all events, then returns every segment without a live block, of the default pool and freeable
 * ones (M045). The first error. */
tern_status_t segments_flush(core_alloc *a);
/* Step 7: oversize blocks of that list, just enough (M030). */
bool segments_release_oversize(core_alloc *a, shard *s, int kind, int64_t size);
void segments_collect(core_alloc *a); /* M042-M044 */

/* M079: maps pages until `size` bytes follow each other; the block is in no list. */
tern_status_t expandable_alloc(core_alloc *a, shard *s, int kind, int64_t size, tern_site_t site,
                               block **out_block);
/* Bytes of a page, and of the pages that expandable_alloc would map. */
int64_t expandable_page(core_alloc *a, int kind);
int64_t expandable_wanted(core_alloc *a, const shard *s, int kind, int64_t size);
/* Unmaps the whole pages of a free block that is in its list. *out_gone: the segment ended with it. */
tern_status_t expandable_trim(core_alloc *a, block *b, bool *out_gone);
/* Unmaps everything and gives the address range back (at the end). */
void expandable_destroy(core_alloc *a, segment *seg);

/* ---- events (events.c) ---------------------------------------------------------------------------------- */

/* The host waits for the stream's work. */
tern_status_t stream_wait(core_alloc *a, void *stream);
/* For a block that block_end has ended and other streams used. */
tern_status_t events_insert(core_alloc *a, block *b);
tern_status_t events_process(core_alloc *a);
tern_status_t events_synchronize(core_alloc *a);
tern_status_t events_drop_spares(core_alloc *a);
void events_destroy(core_alloc *a); /* at the end: waits, then returns all of it */
bool block_add_stream(block *b, void *stream);
void slow_update(core_alloc *a, unsigned flag, bool on);

/* ---- history (history.c) ---------------------------------------------------------------------------------- */

void history_add(core_alloc *a, core_alloc_action action, const shard *s, char *data, int64_t size,
                 tern_site_t site);
static inline void trace(core_alloc *a, core_alloc_action action, const shard *s, char *data,
                         int64_t size, tern_site_t site)
{
    if (__builtin_expect(a->history.limit != 0, 0))
        history_add(a, action, s, data, size, site);
}

/* ---- requests (request.c) ------------------------------------------------------------------------------------ */

/* The whole sequence M026, without locks. */
core_alloc_block *request_run(core_alloc *a, void *stream, int64_t bytes, tern_site_t site,
                              core_alloc_failure *out_failure);
/* Numbers for a request that failed, of a failure that has its own: requested, segment. */
void failure_fill(core_alloc *a, const shard *s, int kind, core_alloc_failure *failure);

core_alloc_block *uncached_alloc(core_alloc *a, void *stream, int64_t bytes, tern_site_t site,
                                 core_alloc_failure *out_failure);
tern_status_t uncached_free(core_alloc *a, block *b);
void uncached_destroy(core_alloc *a);

/* NULL without host memory or when a fault test says so. Zeroed. */
void *host_calloc(size_t count, size_t size);
/* Grows an array to hold one more; false without host memory. */
bool host_grow(void **array, int64_t count, int64_t *capacity, size_t size);

/* A debug build found an invariant broken. */
void core_alloc_broken(const char *why);

#endif
