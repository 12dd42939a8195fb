/* Thread states: made at a thread's first call, parked when it ends, taken over by the next. */
#include "core/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/autocast.h"
#include "core/lock.h"
#include "core/tally.h"
#include "core/tensor.h"

_Thread_local tern_thread *core_thread_state __attribute__((tls_model("initial-exec")));

static _Atomic(tern_thread *) all_threads; /* only grows, at its head */
static uint64_t thread_number;
static pthread_key_t exit_key;

static void park(void *state)
{
    tern_thread *self = state;
    core_thread_state = self;
    core_autocast_reset(self);
    core_scope_clear(self);
    core_pools_leave(self);
    core_tally_fall(&self->blocks.tally);
    core_thread_state = NULL;
    core_lock_take(CORE_LOCK_THREADS);
    self->parked = true;
    core_lock_end(CORE_LOCK_THREADS);
}

/* While the library is loaded: a fork in the middle of a first call would leave the key half made. */
__attribute__((constructor)) static void make_exit_key(void)
{
    (void)pthread_key_create(&exit_key, park);
}

/* Modes and errors start afresh; memory lists and counters go on. `parked` belongs to the list's lock. */
static void reset_modes(tern_thread *self)
{
    self->error_code = TERN_OK;
    self->error_text[0] = '\0';
    self->grad_mode = true;
    self->releasing = false;
    self->owned_mode = false;
    self->in_backward = false;
    self->backward = NULL;
    self->anomaly = false;
    self->checkpoint = NULL;
    self->calling = NULL;
    self->site = NULL;
    self->backward_site = NULL;
    self->message_code = TERN_OK;
    self->not_leaf[0] = '\0';
    self->path_depth = 0;
    self->default_dtype = TERN_F32;
    self->default_device = TERN_CPU;
    memset(self->current_index, 0, sizeof self->current_index);
    memset(self->streams, 0, sizeof self->streams);
    self->generator = (struct tern_generator){ 0, 0 };
    core_finishers_forget(self);
    core_autocast_reset(self);
}

static tern_thread *take_parked(void)
{
    for (tern_thread *t = atomic_load(&all_threads); t != NULL; t = t->next)
        if (t->parked) {
            t->parked = false;
            return t;
        }
    return NULL;
}

tern_thread *core_thread_create(void)
{
    static tern_thread last_resort; /* shared by threads that found no memory at all */
    core_lock_take(CORE_LOCK_THREADS);
    tern_thread *self = take_parked();
    if (self == NULL) {
        self = aligned_alloc(64, (sizeof *self + 63) / 64 * 64);
        if (self == NULL) {
            self = &last_resort;
        } else {
            memset(self, 0, sizeof *self);
            /* marks that this thread's backward leaves in nodes differ from any other thread's */
            self->backward_epoch = ++thread_number << 40;
            self->next = atomic_load(&all_threads);
            atomic_store(&all_threads, self);
        }
    }
    core_lock_end(CORE_LOCK_THREADS);
    reset_modes(self);
    core_thread_state = self;
    (void)pthread_setspecific(exit_key, self);
    return self;
}

void core_thread_each(void (*visit)(tern_thread *thread, void *user), void *user)
{
    for (tern_thread *t = atomic_load(&all_threads); t != NULL; t = t->next)
        visit(t, user);
}

void core_thread_each_parked(void (*visit)(tern_thread *thread, void *user), void *user)
{
    core_lock_take(CORE_LOCK_THREADS);
    for (tern_thread *t = atomic_load(&all_threads); t != NULL; t = t->next)
        if (t->parked)
            visit(t, user);
    core_lock_end(CORE_LOCK_THREADS);
}

static void add_live(tern_thread *thread, void *user)
{
    *(int64_t *)user += __atomic_load_n(&thread->live_tensors, __ATOMIC_RELAXED);
}

int64_t core_live_tensors(void)
{
    int64_t sum = 0;
    core_thread_each(add_live, &sum);
    return sum;
}
