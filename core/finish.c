/* The end of a program: objects registered for release, scopes, the pending error. */
#include <stdio.h>
#include <stdlib.h>

#include "core/autocast.h"
#include "core/error.h"
#include "core/live.h"
#include "core/log.h"
#include "core/tensor.h"

bool tern_at_finish(void (*release)(void *object), void *object)
{
    tern_thread *self = core_self();
    if (self->finisher_count == self->finisher_capacity) {
        const int64_t capacity = self->finisher_capacity == 0 ? 64 : 2 * self->finisher_capacity;
        core_finisher *list = realloc(self->finishers, (size_t)capacity * sizeof *list);
        if (list == NULL)
            return false;
        self->finishers = list;
        self->finisher_capacity = capacity;
    }
    self->finishers[self->finisher_count++] = (core_finisher){ release, object };
    return true;
}

void tern_at_finish_cancel(void *object)
{
    tern_thread *self = core_self();
    for (int64_t i = self->finisher_count - 1; i >= 0; i--)
        if (self->finishers[i].object == object) {
            for (int64_t j = i + 1; j < self->finisher_count; j++)
                self->finishers[j - 1] = self->finishers[j];
            self->finisher_count--;
            return;
        }
}

/* Costs nothing when nothing leaks or nobody listens. */
static void warn_of_leaks(void)
{
    const int64_t live = core_live_tensors();
    if (live <= 0 || !core_log_wants(TERN_LOG_WARNING))
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
    while (self->finisher_count > 0) {
        const core_finisher last = self->finishers[--self->finisher_count];
        last.release(last.object);
    }
    free(self->finishers);
    self->finishers = NULL;
    self->finisher_capacity = 0;
    core_autocast_reset(self);
    core_scope_clear(self);
    warn_of_leaks();
    tern_empty_cache((tern_dev_t){ 0, 0 });
    return status;
}
