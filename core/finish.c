/* The end of a program: objects registered for release, scopes, the pending error. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/autocast.h"
#include "core/error.h"
#include "core/live.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/tensor.h"

/* ---- objects ---------------------------------------------------------------------------------- */

/* Each thread has a list, which ends with it; an object may be freed by another thread than made it. */
static bool has_place(tern_thread *self)
{
    if (self->finisher_count < self->finisher_capacity)
        return true;
    const int64_t capacity = self->finisher_capacity == 0 ? 64 : 2 * self->finisher_capacity;
    core_finisher *list = realloc(self->finishers, (size_t)capacity * sizeof *list);
    if (list == NULL)
        return false;
    self->finishers = list;
    self->finisher_capacity = capacity;
    return true;
}

bool tern_at_finish(void (*release)(void *object), void *object)
{
    tern_thread *self = core_self();
    core_lock_take(CORE_LOCK_FINISHERS);
    const bool added = has_place(self);
    if (added)
        self->finishers[self->finisher_count++] = (core_finisher){ release, object };
    core_lock_end(CORE_LOCK_FINISHERS);
    return added;
}

typedef struct cancelled {
    void *object;
    bool done;
} cancelled;

static void cancel_of(tern_thread *thread, void *user)
{
    cancelled *c = user;
    for (int64_t i = thread->finisher_count - 1; i >= 0 && !c->done; i--)
        if (thread->finishers[i].object == c->object) {
            for (int64_t j = i + 1; j < thread->finisher_count; j++)
                thread->finishers[j - 1] = thread->finishers[j];
            thread->finisher_count--;
            c->done = true;
        }
}

void tern_at_finish_cancel(void *object)
{
    cancelled c = { object, false };
    tern_thread *self = core_self();
    core_lock_take(CORE_LOCK_FINISHERS);
    cancel_of(self, &c);
    if (!c.done)
        core_thread_each(cancel_of, &c);
    core_lock_end(CORE_LOCK_FINISHERS);
}

void core_finishers_forget(tern_thread *thread)
{
    core_lock_take(CORE_LOCK_FINISHERS);
    thread->finisher_count = 0;
    core_lock_end(CORE_LOCK_FINISHERS);
}

/* The newest of the thread's; false when there is none. */
static bool take_last(tern_thread *self, core_finisher *out_last)
{
    core_lock_take(CORE_LOCK_FINISHERS);
    const bool any = self->finisher_count > 0;
    if (any) {
        *out_last = self->finishers[--self->finisher_count];
    } else {
        free(self->finishers);
        self->finishers = NULL;
        self->finisher_capacity = 0;
    }
    core_lock_end(CORE_LOCK_FINISHERS);
    return any;
}

/* ---- the end ------------------------------------------------------------------------------------ */

/* Costs nothing when nothing leaks or nobody listens. What lives at the end of another thread may be the program's. */
static void warn_of_leaks(void)
{
    const int64_t live = core_live_tensors();
    if (live <= 0 || !core_log_wants(TERN_LOG_WARNING) || syscall(SYS_gettid) != getpid())
        return;
    char buffer[4096];
    core_text text = { buffer, sizeof buffer, 0 };
    core_live_list list;
    core_text_add(&text, "%lld %s still retained at the end\n", (long long)live,
                  live == 1 ? "tensor is" : "tensors are");
    if (core_live_count(&list))
        core_live_describe(&list, &text);
    core_live_free(&list);
    core_log_text(TERN_LOG_WARNING, NULL, buffer);
}

int tern_finish(void)
{
    tern_thread *self = core_self();
    const int status = self->error_code == TERN_OK ? 0 : 1;
    if (status != 0)
        fputs(self->error_text, stderr);
    tern_error_clear();
    core_finisher last;
    while (take_last(self, &last))
        last.release(last.object);
    core_autocast_reset(self);
    core_scope_clear(self);
    warn_of_leaks();
    tern_empty_cache(TERN_ALL_DEVICES);
    return status;
}
