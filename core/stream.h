/* Streams inside the library: a table of all that were ever current, and the thread's current ones. */
#ifndef TERN_CORE_STREAM_H
#define TERN_CORE_STREAM_H

#include "core/thread.h"
#include "tern/plugin.h"
#include "tern/stream.h"

/* Entries never change once they are there. Number 0: the default stream of any device. */
enum { CORE_MAX_STREAMS = 4096 };
extern tern_stream_t core_streams[CORE_MAX_STREAMS];
/* More than number 0 is in use. */
extern _Atomic bool core_streams_used;

/* The handle of the thread's current stream of a device; NULL: its default stream, or the CPU. */
static inline void *core_stream_on(const tern_thread *self, tern_dev_t dev)
{
    if (dev.kind == TERN_KIND_CPU)
        return NULL;
    return core_streams[self->streams[dev.kind][dev.index]].handle;
}

/* Other libraries' handles: of the names of a default stream NULL stands for all. False after recording an error:
 * a handle that means another stream in each thread. */
bool core_stream_name(tern_thread *self, tern_site_t site, const char *what, tern_stream_t *stream);
/* The backend of a stream's device; NULL for the CPU. False after recording an error. */
bool core_stream_check(tern_thread *self, tern_site_t site, const char *what, tern_stream_t stream,
                       const tern_backend **out_backend);
/* Later work of `stream` waits for what `other` has queued. No error is recorded, only the backend's
 * message. Devices without streams of their own: nothing to do. */
tern_status_t core_stream_order(tern_stream_t stream, tern_stream_t other);
/* Like tern_record_stream; records no error. */
tern_status_t core_stream_record(tern_tensor *t, tern_stream_t stream);

#endif
