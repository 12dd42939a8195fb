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

enum { CORE_ERROR_BYTES = 4096, CORE_PATH_BYTES = 256 };

struct tern_generator {
    uint64_t seed;
    uint64_t call;
};

typedef struct core_scope_stack {
    tern_tensor **slots; /* low bits of a slot: how many scopes further out it moves (tern_keep) */
    int64_t top, capacity;
    bool warned;
} core_scope_stack;

typedef struct tern_thread {
    /* first cache lines: what an op touches */
    int32_t error_code; /* tern_status_t; not TERN_OK: every op returns NULL */
    bool grad_mode;
    bool owned_mode;
    bool autocast; /* a cast policy is installed (amp/) */
    bool observed; /* an observer is installed */
    tern_site_t site; /* of the outermost public call that is open, else NULL */
    core_scope_stack scope;
    core_pool pool;
    int32_t default_dtype;
    tern_dev_t default_device;
    int16_t current_index[TERN_KINDS];
    struct tern_generator generator;
    int64_t live_tensors; /* made minus released by this thread; the sum over threads counts */

    tern_site_t error_site;
    int32_t path_length;
    char path[CORE_PATH_BYTES]; /* of the module that runs, "blocks.2.attn" */
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

/* Sum of live_tensors over all threads. */
int64_t core_live_tensors(void);

/* The site an op should carry: the outermost open call's, else the caller's own. */
static inline tern_site_t core_site(const tern_thread *self, tern_site_t site)
{
    return __builtin_expect(self->site != NULL, 0) ? self->site : site;
}

#endif
