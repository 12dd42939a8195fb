/* What belongs to one thread: error, scopes, modes, free lists, random state.
 *
 * Invariant: only the owning thread touches a tern_thread, but for `incoming`, where other threads
 * push objects of its that they freed. A state is never freed: when its thread ends it is parked and
 * the next new thread takes it over, with whatever still has to come home to it. */
#ifndef TERN_CORE_THREAD_H
#define TERN_CORE_THREAD_H

#include <stdatomic.h>

#include "core/pool.h"
#include "tern/device.h"
#include "tern/error.h"
#include "tern/tensor.h"

enum {
    CORE_ERROR_BYTES = 4096,
    CORE_MESSAGE_BYTES = 1536,
    CORE_PATH_DEPTH = 64,
    CORE_BLOCK_CLASSES = 60,
    CORE_MAX_DEVICES = 64, /* of one kind */
    CORE_NOT_LEAF_BYTES = 192
};

struct tern_generator {
    uint64_t seed;
    uint64_t call;
};

/* Low bits of a slot say how many scopes further out it moves when its scope ends (tern_keep). */
typedef struct core_scope_stack {
    uintptr_t *slots;
    int64_t top, capacity;
    int64_t mark;    /* where the innermost open scope begins */
    int32_t depth;   /* scopes that are open */
    int32_t warn_at; /* debug builds: the next size that is worth a warning */
} core_scope_stack;

/* Blocks of CPU memory larger than pool objects (core/thread_cache.h). */
typedef struct core_block {
    struct core_block *next;
    int64_t size_class;
    struct core_alloc_block *block; /* its record in the engine */
} core_block;

/* What a thread counts of the CPU's memory (core/tally.h). Others read it. */
enum { CORE_TALLY_COUNT, CORE_TALLY_BYTES, CORE_TALLY_REQUESTED, CORE_TALLIES };
typedef struct core_tally {
    int64_t made[CORE_TALLIES];  /* small ones: all that were ever made */
    int64_t bound[CORE_TALLIES]; /* what `made` may rise to before the sum of all threads changes */
    int64_t large[CORE_TALLIES]; /* large ones: all that were ever made */
} core_tally;

typedef struct core_block_cache {
    uint64_t small_epoch, epoch; /* as core_cpu_epoch: nothing is wanted of small data, of blocks */
    core_tally tally;
    core_block *free[CORE_BLOCK_CLASSES];
    uint64_t seen_epoch, seen_empty; /* what core_cache_sync did last */
    int64_t limit;                   /* bytes that the lists may keep */
    int64_t cached_bytes;            /* in the lists; counted only under a limit */
    int32_t pools;                   /* private pools of the CPU that this thread is in */
    _Alignas(64) _Atomic(core_block *) incoming;
} core_block_cache;

typedef struct core_pool_visit core_pool_visit;

typedef struct core_finisher {
    void (*release)(void *object);
    void *object;
} core_finisher;

typedef struct tern_thread {
    /* first cache lines: what an op touches */
    int32_t error_code; /* tern_status_t; not TERN_OK: every op returns NULL */
    bool grad_mode;
    bool owned_mode;
    bool releasing;   /* the tape's release loop is running */
    bool in_backward; /* gradients live where their tensors live: TERN_OOM=cpu moves none */
    uint8_t autocast; /* bit k: a region is on for devices of kind k */
    tern_site_t site; /* of the outermost public call that is open, else NULL */
    core_scope_stack scope;
    tern_tensor *scratch;     /* of the kernel that runs: a list through base */
    struct core_node *doomed; /* nodes that wait for the release loop */
    core_pool pool;
    core_block_cache blocks;
    int32_t default_dtype;
    tern_dev_t default_device;
    int16_t current_index[TERN_KINDS];
    uint16_t streams[TERN_KINDS][CORE_MAX_DEVICES]; /* current ones: numbers (core/stream.h) */
    struct tern_generator generator;
    int64_t live_tensors; /* made minus released by this thread; the sum over threads counts */
    uint64_t backward_epoch;
    struct backward_engine *backward; /* the innermost backward that runs; NULL: none */

    uint8_t autocast_dtype[TERN_KINDS]; /* tern_dtype_t of a region that names none */
    bool autocast_cache;
    int32_t autocast_depth;
    struct core_checkpoint_mode
        *checkpoint;           /* whose function runs (autograd/checkpoint.h), or NULL */
    bool anomaly;              /* backward looks for NaN */
    struct core_autocast *amp; /* cached casts and counts (amp/autocast.c); NULL until needed */

    /* Of a tensor that is no leaf and was asked for its gradient: "mul made at train.c:3"; empty: none was. A copy, as
     * an op's name goes with the op. */
    char not_leaf[CORE_NOT_LEAF_BYTES];
    const char *calling; /* the outermost function made of others that is open, else NULL */
    tern_site_t error_site;
    int32_t path_depth; /* may exceed CORE_PATH_DEPTH: then the innermost names are not kept */
    const char *path[CORE_PATH_DEPTH]; /* of the module that runs */
    core_pool_visit *visits;           /* of private pools (memory_pools.c), the newest first */
    core_finisher *finishers;
    int64_t finisher_count, finisher_capacity;
    int32_t message_code;
    char message[CORE_MESSAGE_BYTES]; /* a kernel's own words, until the dispatcher takes them */
    tern_site_t backward_site; /* of the backward that runs, which its errors name; or NULL */
    char error_text[CORE_ERROR_BYTES];
    struct tern_thread *next; /* list of all states */
    bool parked;
} tern_thread;

extern _Thread_local tern_thread *core_thread_state __attribute__((tls_model("initial-exec")));
tern_thread *core_thread_create(void); /* never NULL: the last resort is one static state */

static inline tern_thread *core_self(void)
{
    tern_thread *self = core_thread_state;
    return __builtin_expect(self != NULL, 1) ? self : core_thread_create();
}

/* Nothing of what tern_finish of that thread would release is released any more (finish.c). */
void core_finishers_forget(tern_thread *thread);
/* Ends what tern_memory_pool_begin began on the calling thread (memory_pools.c). */
void core_pools_leave(tern_thread *self);
/* Visits every state, parked ones too; takes no lock. */
void core_thread_each(void (*visit)(tern_thread *thread, void *user), void *user);

/* Visits the parked ones, under the list's lock: nobody takes one over meanwhile. */
void core_thread_each_parked(void (*visit)(tern_thread *thread, void *user), void *user);

/* Sum of live_tensors over all threads. */
int64_t core_live_tensors(void);

/* The site an op should carry: the outermost open call's, else the caller's own. */
static inline tern_site_t core_site(const tern_thread *self, tern_site_t site)
{
    return __builtin_expect(self->site != NULL, 0) ? self->site : site;
}

#endif
