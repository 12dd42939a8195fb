/* Events: marks in the work of streams (rows S015-S022). */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "core/backend.h"
#include "core/cuda/cuda.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/option.h"
#include "core/stream.h"
#include "core/transfers.h"

enum { REMEMBERED = 64 }; /* released events that are still told from live ones */

struct tern_event {
    bool live;
    bool timing;
    bool recorded;
    tern_dev_t device; /* of the records; {0} before the first was tried */
    void *native;      /* the backend's; NULL on the CPU and where a backend has no events */
    double cpu_ms;     /* the CPU: when it was recorded */
};

/* ---- birth and death ------------------------------------------------------------------------- */

tern_event *tern_event_create_at(tern_site_t site, const tern_event_args *args)
{
    tern_event *event = core_fault() ? NULL : calloc(1, sizeof *event);
    if (event == NULL) {
        core_error(core_self(), site, TERN_ERR_OOM, "event_create", "no host memory");
        return NULL;
    }
    event->live = true;
    event->timing = core_options(args)->timing;
    return event;
}

/* Keeps the newest of the released, so that using one is noticed; frees the oldest. */
static void remember(tern_event *event)
{
    static tern_event *released[REMEMBERED];
    static unsigned count;
    core_lock_take(CORE_LOCK_EVENTS);
    free(released[count % REMEMBERED]);
    released[count++ % REMEMBERED] = event;
    core_lock_end(CORE_LOCK_EVENTS);
}

void tern_event_release(tern_event *event)
{
    if (event == NULL || !event->live)
        return;
    event->live = false;
    if (event->native != NULL && !core_cuda_left(event->device.kind)) {
        tern_thread *self = core_self();
        const tern_backend *b = core_backend_of(event->device.kind);
        if (b->event->destroy(b->context, event->device.index, event->native) != TERN_OK) {
            tern_log_write(TERN_LOG_WARNING, NULL, "releasing an event failed: %s",
                           core_backend_words(self));
        }
    }
    event->native = NULL;
    remember(event);
}

static bool check_event(tern_thread *self, tern_site_t site, const char *what,
                        const tern_event *event)
{
    if (event != NULL && event->live)
        return true;
    core_error(self, site, TERN_ERR_ARGUMENT, what, "the event %s",
               event == NULL ? "is NULL" : "was released");
    return false;
}

/* ---- recording ------------------------------------------------------------------------------- */

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static bool same_device(tern_thread *self, tern_site_t site, const tern_event *event,
                        tern_stream_t stream)
{
    char a[TERN_DEV_NAME_BYTES], b[TERN_DEV_NAME_BYTES];
    if (event->device.kind == TERN_KIND_NONE || tern_dev_equal(event->device, stream.device))
        return true;
    core_error(self, site, TERN_ERR_DEVICE, "event_record",
               "event device %s does not match recording stream's device %s\n"
               "  try an event for each device",
               tern_dev_name(event->device, a), tern_dev_name(stream.device, b));
    return false;
}

/* The backend's event at the first record (S015). */
static tern_status_t make_native(tern_event *event, const tern_backend *b, tern_dev_t dev)
{
    tern_status_t code = TERN_OK;
    if (event->native != NULL)
        return TERN_OK;
    event->device = dev;
    if (!event->timing)
        code = b->event->create(b->context, dev.index, &event->native);
    else if (CORE_HAS(b->event, tern_backend_event, elapsed))
        code = b->event->create_timed(b->context, dev.index, &event->native);
    else
        code = core_host.fail(TERN_ERR_UNSUPPORTED, "events of backend %s know no time", b->name);
    if (code != TERN_OK)
        event->device = TERN_DEV_(TERN_KIND_NONE, 0);
    return code;
}

tern_status_t tern_event_record_at(tern_site_t site, tern_event *event, tern_stream_t stream)
{
    tern_thread *self = core_self();
    const char *what = "event_record";
    const tern_backend *b;
    if (!check_event(self, site, what, event) || !core_stream_check(self, site, what, stream, &b) ||
        !same_device(self, site, event, stream))
        return (tern_status_t)self->error_code;
    tern_status_t code = TERN_OK;
    if (b != NULL && b->event != NULL) {
        code = make_native(event, b, stream.device);
        if (code == TERN_OK)
            code = b->event->record(b->context, stream.device.index, event->native, stream.handle);
    }
    if (code != TERN_OK)
        return core_backend_failed(self, site, code, what);
    event->device = stream.device;
    event->recorded = true;
    event->cpu_ms = now_ms();
    return TERN_OK;
}

/* ---- waiting --------------------------------------------------------------------------------- */

tern_status_t tern_stream_wait_event_at(tern_site_t site, tern_stream_t stream, tern_event *event)
{
    tern_thread *self = core_self();
    const char *what = "stream_wait_event";
    const tern_backend *b;
    if (!check_event(self, site, what, event) || !core_stream_check(self, site, what, stream, &b))
        return (tern_status_t)self->error_code;
    if (event->native == NULL || !event->recorded)
        return TERN_OK;
    if (b == NULL || stream.device.kind != event->device.kind)
        return core_error(self, site, TERN_ERR_DEVICE, what,
                          "a stream waits for events of its own kind of device only\n"
                          "  try tern_event_synchronize(event): the host waits");
    if (!CORE_HAS(b->stream, tern_backend_stream, wait_event))
        return TERN_OK; /* one stream: its work is in order */
    const tern_status_t code =
        b->stream->wait_event(b->context, stream.device.index, stream.handle, event->native);
    return code == TERN_OK ? TERN_OK : core_backend_failed(self, site, code, what);
}

/* True: recorded where there is something to ask. */
static bool has_mark(const tern_event *event, const tern_backend **out_backend)
{
    *out_backend = core_backend_of(event->device.kind);
    return event->native != NULL && event->recorded;
}

static tern_status_t query(const tern_event *event, bool *out_done)
{
    const tern_backend *b;
    *out_done = true;
    if (core_cuda_left(event->device.kind))
        return core_backend_left();
    return has_mark(event, &b)
               ? b->event->query(b->context, event->device.index, event->native, out_done)
               : TERN_OK;
}

bool tern_event_query_at(tern_site_t site, tern_event *event)
{
    tern_thread *self = core_self();
    bool done = true;
    if (!check_event(self, site, "event_query", event))
        return true;
    const tern_status_t code = query(event, &done);
    if (code != TERN_OK)
        (void)core_backend_failed(self, site, code, "event_query");
    return code != TERN_OK || done;
}

tern_status_t tern_event_synchronize_at(tern_site_t site, tern_event *event)
{
    tern_thread *self = core_self();
    const char *what = "event_synchronize";
    const tern_backend *b;
    if (!check_event(self, site, what, event))
        return (tern_status_t)self->error_code;
    if (!has_mark(event, &b))
        return TERN_OK;
    const tern_status_t code =
        core_cuda_left(event->device.kind)
            ? core_backend_left()
            : b->event->synchronize(b->context, event->device.index, event->native);
    core_transfer_note_sync(core_site(self, site));
    return code == TERN_OK ? TERN_OK : core_backend_failed(self, site, code, what);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* NULL, or why there is no time between the two, in PyTorch's order (S020). */
static const char *no_time(const tern_event *start, const tern_event *end, tern_status_t *out_code)
{
    bool first = true, second = true;
    *out_code = TERN_ERR_ARGUMENT;
    if (!start->timing || !end->timing)
        return "both events must be created with timing\n  try tern_event_create(.timing = true)";
    if (!start->recorded || !end->recorded)
        return "both events must be recorded before the time between them is asked for";
    if (!tern_dev_equal(start->device, end->device))
        return "the events are of different devices, whose clocks cannot be compared";
    *out_code = TERN_ERR_STATE;
    if (query(start, &first) != TERN_OK || query(end, &second) != TERN_OK)
        return ""; /* the backend said why */
    if (!first || !second)
        return "both events must be completed before the time between them is asked for\n"
               "  try tern_event_synchronize(end)";
    *out_code = TERN_OK;
    return NULL;
}

double tern_event_elapsed_at(tern_site_t site, tern_event *start, tern_event *end)
{
    tern_thread *self = core_self();
    const char *what = "event_elapsed";
    tern_status_t code = TERN_OK;
    double ms = 0;
    if (!check_event(self, site, what, start) || !check_event(self, site, what, end))
        return (double)NAN;
    const char *why = no_time(start, end, &code);
    if (why != NULL && why[0] != '\0') {
        core_error(self, site, code, what, "%s", why);
        return (double)NAN;
    }
    const tern_backend *b = core_backend_of(start->device.kind);
    if (why == NULL && start->native == NULL)
        return end->cpu_ms - start->cpu_ms;
    if (why == NULL)
        code = b->event->elapsed(b->context, start->device.index, start->native, end->native, &ms);
    if (code == TERN_OK)
        return ms;
    (void)core_backend_failed(self, site, code, what);
    return (double)NAN;
}

tern_dev_t tern_event_device(const tern_event *event)
{
    return event != NULL ? event->device : TERN_DEV_(TERN_KIND_NONE, 0);
}

void *tern_event_handle(const tern_event *event)
{
    return event != NULL ? event->native : NULL;
}
