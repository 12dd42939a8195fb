/* Streams: the pools, the thread's current ones, guards, waiting. See docs/design/streams.md. */
#include "core/stream.h"

#include <stdlib.h>

#include "core/backend.h"
#include "core/cuda/cuda.h"
#include "core/device_memory.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/option.h"
#include "core/transfers.h"

enum { POOL_STREAMS = 32, POOL_LEVELS = 4 };

/* The streams of one device that are handed out; NULL: not made yet. */
typedef struct stream_pool {
    void *handle[POOL_LEVELS][POOL_STREAMS];
    unsigned next[POOL_LEVELS];
    int lowest, levels;
} stream_pool;

tern_stream_t core_streams[CORE_MAX_STREAMS];
_Atomic bool core_streams_used;
static int stream_count = 1;
static stream_pool *pools[TERN_KINDS][CORE_MAX_DEVICES];

static const tern_stream_t no_stream;

/* ---- numbers --------------------------------------------------------------------------------- */

static int find_number(tern_stream_t stream)
{
    for (int i = 1; i < stream_count; i++)
        if (tern_stream_equal(core_streams[i], stream))
            return i;
    return -1;
}

/* -1: too many. */
static int number_of(tern_stream_t stream)
{
    if (stream.handle == NULL)
        return 0;
    core_lock_take(CORE_LOCK_STREAMS);
    int number = find_number(stream);
    if (number < 0 && stream_count < CORE_MAX_STREAMS) {
        number = stream_count++;
        core_streams[number] = stream;
        core_streams_used = true;
    }
    core_lock_end(CORE_LOCK_STREAMS);
    return number;
}

/* ---- checking what callers give -------------------------------------------------------------- */

bool core_stream_check(tern_thread *self, tern_site_t site, const char *what, tern_stream_t stream,
                       const tern_backend **out_backend)
{
    *out_backend = NULL;
    if (stream.device.kind == TERN_KIND_NONE) {
        core_error(self, site, TERN_ERR_ARGUMENT, what,
                   "there is no stream\n  try tern_current_stream(dev)");
        return false;
    }
    if (stream.device.kind == TERN_KIND_CPU)
        return true;
    if (core_cuda_left(stream.device.kind)) {
        core_error(self, site, TERN_ERR_STATE, what, "%s", core_cuda_left_words());
        return false;
    }
    const tern_backend *b = core_backend_of(stream.device.kind);
    if (b != NULL && stream.device.index >= 0 && stream.device.index < b->device_count) {
        *out_backend = b;
        return true;
    }
    char name[TERN_DEV_NAME_BYTES];
    core_error(self, site, TERN_ERR_DEVICE, what, "the stream's device %s does not exist",
               tern_dev_name(stream.device, name));
    return false;
}

static bool has_streams(const tern_backend *b)
{
    return b != NULL && CORE_HAS(b->stream, tern_backend_stream, wait_event);
}

/* ---- where streams come from ----------------------------------------------------------------- */

/* With the lock. */
static stream_pool *pool_of(const tern_backend *b, tern_dev_t dev, tern_status_t *out_code)
{
    stream_pool **place = &pools[dev.kind][dev.index];
    int highest = 0;
    if (*place != NULL)
        return *place;
    stream_pool *pool = calloc(1, sizeof *pool);
    *out_code = TERN_ERR_OOM;
    if (pool != NULL)
        *out_code = b->stream->priorities(b->context, dev.index, &pool->lowest, &highest);
    if (*out_code != TERN_OK) {
        free(pool);
        return NULL;
    }
    const int levels = pool->lowest - highest + 1;
    pool->levels = levels < 1 ? 1 : levels < POOL_LEVELS ? levels : POOL_LEVELS;
    return *place = pool;
}

/* With the lock. */
static tern_status_t take_from_pool(const tern_backend *b, tern_dev_t dev, int priority,
                                    void **out_handle)
{
    tern_status_t code = TERN_OK;
    stream_pool *pool = pool_of(b, dev, &code);
    if (pool == NULL)
        return code;
    const int level = -priority < pool->levels ? -priority : pool->levels - 1;
    void **handle = &pool->handle[level][pool->next[level] % POOL_STREAMS];
    if (*handle == NULL)
        code = b->stream->create(b->context, dev.index, pool->lowest - level, handle);
    if (code == TERN_OK)
        pool->next[level]++;
    *out_handle = *handle;
    return code;
}

tern_stream_t tern_stream_from_pool_at(tern_site_t site, const tern_stream_args *args)
{
    tern_thread *self = core_self();
    const char *what = "stream_from_pool";
    args = core_options(args);
    tern_stream_t stream = { .device = TERN_CPU };
    const int priority = args->priority == INT32_MIN ? -POOL_LEVELS : args->priority;
    if (!core_dev_resolve_there(self, site, what, args->device, &stream.device))
        return no_stream;
    if (priority > 0) {
        core_error(self, site, TERN_ERR_ARGUMENT, what,
                   "expected the priority of a stream to be less than or equal to 0, got %d",
                   priority);
        return no_stream;
    }
    const tern_backend *b = core_backend_of(stream.device.kind);
    if (b == NULL || b->stream == NULL) /* its work is done when a call returns */
        return stream;
    if (!has_streams(b)) {
        core_error(self, site, TERN_ERR_UNSUPPORTED, what,
                   "devices of backend %s have one stream each\n  try tern_default_stream(dev)",
                   b->name);
        return no_stream;
    }
    core_lock_take(CORE_LOCK_STREAMS);
    const tern_status_t code = take_from_pool(b, stream.device, priority, &stream.handle);
    core_lock_end(CORE_LOCK_STREAMS);
    if (code == TERN_OK)
        return stream;
    (void)core_backend_failed(self, site, code, what);
    return no_stream;
}

/* driver_types.h: cudaStreamLegacy is the default stream by name; cudaStreamPerThread is one handle for a stream of
 * each thread, so that memory and work space would pass between streams that nobody orders. */
enum { CUDA_STREAM_LEGACY = 1, CUDA_STREAM_PER_THREAD = 2 };

bool core_stream_name(tern_thread *self, tern_site_t site, const char *what, tern_stream_t *stream)
{
    const bool is_cuda = stream->device.kind == TERN_KIND_CUDA;
    if (is_cuda && stream->handle == (void *)(uintptr_t)CUDA_STREAM_PER_THREAD) {
        core_error(
            self, site, TERN_ERR_ARGUMENT, what,
            "cudaStreamPerThread is another stream in each thread\n  try a stream of its own: "
            "cudaStreamCreate, tern_stream_from_pool");
        return false;
    }
    if (stream->device.kind == TERN_KIND_CPU ||
        (is_cuda && stream->handle == (void *)(uintptr_t)CUDA_STREAM_LEGACY))
        stream->handle = NULL;
    return true;
}

static tern_stream_t stream_of(tern_site_t site, const char *what, tern_dev_t dev, void *handle)
{
    tern_thread *self = core_self();
    tern_stream_t stream = { .handle = handle };
    if (!core_dev_resolve_there(self, site, what, dev, &stream.device) ||
        !core_stream_name(self, site, what, &stream))
        return no_stream;
    return stream;
}

tern_stream_t tern_stream_external_at(tern_site_t site, tern_dev_t dev, void *handle)
{
    return stream_of(site, "stream_external", dev, handle);
}

tern_stream_t tern_default_stream_at(tern_site_t site, tern_dev_t dev)
{
    return stream_of(site, "default_stream", dev, NULL);
}

int tern_stream_priority(tern_stream_t stream)
{
    int found = 0;
    if (stream.device.kind <= TERN_KIND_CPU || stream.device.kind >= TERN_KINDS ||
        stream.device.index < 0 || stream.device.index >= CORE_MAX_DEVICES || stream.handle == NULL)
        return 0;
    core_lock_take(CORE_LOCK_STREAMS);
    const stream_pool *pool = pools[stream.device.kind][stream.device.index];
    for (int level = 0; pool != NULL && level < pool->levels; level++)
        for (int i = 0; i < POOL_STREAMS; i++)
            if (pool->handle[level][i] == stream.handle)
                found = -level;
    core_lock_end(CORE_LOCK_STREAMS);
    return found;
}

/* ---- the current stream ---------------------------------------------------------------------- */

tern_stream_t tern_current_stream_at(tern_site_t site, tern_dev_t dev)
{
    tern_thread *self = core_self();
    tern_stream_t stream = { .device = TERN_CPU };
    if (!core_dev_resolve_there(self, site, "current_stream", dev, &stream.device))
        return no_stream;
    stream.handle = core_stream_on(self, stream.device);
    return stream;
}

tern_status_t tern_set_stream_at(tern_site_t site, tern_stream_t stream)
{
    tern_thread *self = core_self();
    const tern_backend *b;
    if (stream.device.kind == TERN_KIND_NONE)
        return TERN_OK;
    if (!core_stream_check(self, site, "set_stream", stream, &b))
        return (tern_status_t)self->error_code;
    if (b == NULL)
        return TERN_OK;
    const int number = number_of(stream);
    if (number < 0)
        return core_error(self, site, TERN_ERR_STATE, "set_stream",
                          "%d different streams were current in this process, which is the most",
                          CORE_MAX_STREAMS - 1);
    self->streams[stream.device.kind][stream.device.index] = (uint16_t)number;
    self->current_index[stream.device.kind] = stream.device.index;
    return TERN_OK;
}

tern_device_guard tern_device_enter_at(tern_site_t site, tern_dev_t dev)
{
    tern_thread *self = core_self();
    const tern_device_guard off = { TERN_KIND_NONE, 0 };
    if (dev.kind <= TERN_KIND_CPU || dev.kind >= TERN_KINDS || dev.index < 0)
        return off;
    const tern_device_guard guard = { dev.kind, self->current_index[dev.kind] };
    return tern_dev_set_at(site, dev) == TERN_OK ? guard : off;
}

void tern_device_leave(tern_device_guard *guard)
{
    if (guard == NULL)
        return;
    if (guard->kind_ != TERN_KIND_NONE)
        core_self()->current_index[guard->kind_] = guard->index_;
    guard->kind_ = TERN_KIND_NONE;
}

tern_stream_guard tern_stream_enter_at(tern_site_t site, tern_stream_t stream)
{
    tern_thread *self = core_self();
    tern_stream_guard guard = { .device_ = { TERN_KIND_NONE, 0 } };
    const tern_dev_t dev = stream.device;
    if (dev.kind <= TERN_KIND_CPU || dev.kind >= TERN_KINDS || dev.index < 0 ||
        dev.index >= CORE_MAX_DEVICES) {
        (void)tern_set_stream_at(site, stream); /* says what is wrong, if anything is */
        return guard;
    }
    const int16_t outer = self->current_index[dev.kind];
    guard.entered_ = dev.index;
    guard.inner_ = self->streams[dev.kind][dev.index];
    guard.outer_ = self->streams[dev.kind][outer];
    if (tern_set_stream_at(site, stream) == TERN_OK)
        guard.device_ = (tern_device_guard){ dev.kind, outer };
    return guard;
}

void tern_stream_leave(tern_stream_guard *guard)
{
    if (guard == NULL)
        return;
    tern_thread *self = core_self();
    const int16_t kind = guard->device_.kind_;
    if (kind != TERN_KIND_NONE) {
        self->streams[kind][guard->entered_] = guard->inner_;
        self->streams[kind][guard->device_.index_] = guard->outer_;
    }
    tern_device_leave(&guard->device_);
}

/* ---- waiting --------------------------------------------------------------------------------- */

bool tern_stream_query_at(tern_site_t site, tern_stream_t stream)
{
    tern_thread *self = core_self();
    const tern_backend *b;
    bool done = true;
    if (!core_stream_check(self, site, "stream_query", stream, &b) || !has_streams(b))
        return true;
    const tern_status_t code =
        b->stream->query(b->context, stream.device.index, stream.handle, &done);
    if (code != TERN_OK)
        (void)core_backend_failed(self, site, code, "stream_query");
    return code != TERN_OK || done;
}

tern_status_t tern_stream_synchronize_at(tern_site_t site, tern_stream_t stream)
{
    tern_thread *self = core_self();
    const tern_backend *b;
    const char *what = "stream_synchronize";
    tern_status_t code = TERN_OK;
    if (!core_stream_check(self, site, what, stream, &b))
        return (tern_status_t)self->error_code;
    if (b == NULL || b->stream == NULL)
        return TERN_OK;
    if (CORE_HAS(b->stream, tern_backend_stream, synchronize_stream))
        code = b->stream->synchronize_stream(b->context, stream.device.index, stream.handle);
    else
        code = b->stream->synchronize(b->context, stream.device.index);
    core_transfer_note_sync(core_site(self, site));
    return code == TERN_OK ? TERN_OK : core_backend_failed(self, site, code, what);
}

tern_status_t core_stream_order(tern_stream_t stream, tern_stream_t other)
{
    const tern_backend *b = core_backend_of(stream.device.kind);
    void *event = NULL;
    if (tern_stream_equal(stream, other) || !has_streams(b) || b->event == NULL)
        return TERN_OK;
    if (core_cuda_left(stream.device.kind))
        return core_backend_left();
    tern_status_t code = b->event->create(b->context, other.device.index, &event);
    if (code != TERN_OK)
        return code;
    code = b->event->record(b->context, other.device.index, event, other.handle);
    if (code == TERN_OK)
        code = b->stream->wait_event(b->context, stream.device.index, stream.handle, event);
    const tern_status_t destroyed = b->event->destroy(b->context, other.device.index, event);
    return code != TERN_OK ? code : destroyed;
}

tern_status_t tern_stream_wait_stream_at(tern_site_t site, tern_stream_t stream,
                                         tern_stream_t other)
{
    tern_thread *self = core_self();
    const tern_backend *b, *theirs;
    const char *what = "stream_wait_stream";
    if (!core_stream_check(self, site, what, stream, &b) ||
        !core_stream_check(self, site, what, other, &theirs))
        return (tern_status_t)self->error_code;
    if (theirs == NULL || theirs->stream == NULL)
        return TERN_OK;
    if (b != theirs)
        return core_error(self, site, TERN_ERR_DEVICE, what,
                          "a stream waits for streams of its own kind of device only\n"
                          "  try tern_stream_synchronize(other): the host waits");
    const tern_status_t code = core_stream_order(stream, other);
    return code == TERN_OK ? TERN_OK : core_backend_failed(self, site, code, what);
}

/* ---- memory ---------------------------------------------------------------------------------- */

tern_status_t core_stream_record(tern_tensor *t, tern_stream_t stream)
{
    const core_storage *s = t->storage;
    if (s->data == NULL || stream.device.kind == TERN_KIND_CPU)
        return TERN_OK;
    if (s->cache_class == CORE_CACHE_PINNED)
        return core_pinned_storage_record(s, stream);
    if (s->cache_class != CORE_CACHE_BACKEND || s->dev.kind == TERN_KIND_CPU)
        return TERN_OK; /* S026: memory that is not the allocator's, or no device's */
    core_alloc *a = core_device_allocator_of(s->dev);
    return a != NULL ? core_alloc_record_stream(a, s->user, stream.handle) : core_backend_left();
}

/* Whatever its size: is it on the stream's device, or memory of the host's that any stream may use, or others'? */
static bool may_use(const core_storage *s, tern_stream_t stream)
{
    const bool alike = s->dev.kind == TERN_KIND_CPU ? stream.device.kind == TERN_KIND_CPU
                                                    : tern_dev_equal(s->dev, stream.device);
    return alike || s->cache_class == CORE_CACHE_PINNED || s->cache_class == CORE_CACHE_FOREIGN;
}

tern_status_t tern_record_stream_at(tern_site_t site, tern_tensor *t, tern_stream_t stream)
{
    tern_thread *self = core_self();
    const tern_backend *b;
    char a[TERN_DEV_NAME_BYTES], c[TERN_DEV_NAME_BYTES];
    const char *what = "record_stream";
    if (t == NULL)
        return core_error(self, site, TERN_ERR_ARGUMENT, what, "the tensor is NULL");
    if (!core_is_there(self, site, what, t) || !core_stream_check(self, site, what, stream, &b))
        return (tern_status_t)self->error_code;
    if (!may_use(t->storage, stream))
        return core_error(
            self, site, TERN_ERR_DEVICE, what,
            "the tensor is on %s, the stream on %s\n  try %s before the tensor ends",
            tern_dev_name(t->storage->dev, a), tern_dev_name(stream.device, c),
            t->storage->dev.kind == TERN_KIND_CPU
                ? "tern_stream_synchronize(stream)"
                : "tern_stream_wait_stream(tern_current_stream(tensor's device), stream)");
    const tern_status_t code = core_stream_record(t, stream);
    if (code != TERN_OK)
        return core_error(self, site, code, what, "no host memory");
    return TERN_OK;
}
