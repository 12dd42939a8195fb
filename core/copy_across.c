/* Plain bytes between devices, on the thread's current streams. Who waits for whom is said at
 * core_copy_across and in docs/design/streams.md. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/cuda/cuda.h"
#include "core/memory.h"
#include "core/stream.h"

typedef struct transfer {
    tern_site_t site; /* of the call that copies */
    tern_dev_t to, from;
    void *dst;
    const void *src;
    int64_t bytes;
    void *to_stream, *from_stream; /* current ones; NULL on the CPU */
    bool non_blocking;
    const core_storage *pinned; /* of the host's side, or NULL */
    bool waited;                /* the host, for the device's work before the copy */
} transfer;

static _Atomic int sync_debug; /* tern_sync_debug_t */

void tern_set_sync_debug_mode(tern_sync_debug_t mode)
{
    if ((unsigned)mode <= TERN_SYNC_ERROR)
        atomic_store_explicit(&sync_debug, (int)mode, memory_order_relaxed);
}

tern_sync_debug_t tern_sync_debug_mode(void)
{
    return (tern_sync_debug_t)atomic_load_explicit(&sync_debug, memory_order_relaxed);
}

/* ---- between the host and a device ----------------------------------------------------------- */

/* T030 */
static tern_status_t may_wait(const transfer *t)
{
    const tern_sync_debug_t mode = tern_sync_debug_mode();
    if (mode == TERN_SYNC_WARN)
        tern_log_write(TERN_LOG_WARNING, t->site,
                       "called a synchronizing operation: a copy that waits for the device");
    return mode != TERN_SYNC_ERROR
               ? TERN_OK
               : core_host.fail(TERN_ERR_STATE,
                                "called a synchronizing operation: the copy waits for the device, "
                                "which tern_set_sync_debug_mode made an error");
}

/* The copy is queued and the pinned memory must outlive it. Where that cannot be noted, the host waits; memory
 * that cannot be waited for either is given to nobody again. */
static tern_status_t keep_pinned(transfer *t, const tern_backend *b, tern_stream_t stream)
{
    if (t->pinned == NULL || core_pinned_storage_record(t->pinned, stream) == TERN_OK)
        return TERN_OK;
    t->waited = true;
    const tern_status_t code = b->stream->synchronize(b->context, stream.device.index);
    if (code != TERN_OK)
        core_pinned_storage_lose(t->pinned);
    return code;
}

/* A call of a backend that queues copies has failed, perhaps when the copy was in the queue: it may run yet. */
static tern_status_t copy_failed(transfer *t, const tern_backend *b, tern_stream_t stream,
                                 tern_status_t code)
{
    (void)keep_pinned(t, b, stream);
    return code;
}

/* A backend that can queue a copy waits when it is not asked to; others only read the source. */
static tern_status_t to_device(transfer *t, const tern_backend *b)
{
    const int index = t->to.index;
    const tern_stream_t stream = { t->to, t->to_stream };
    tern_status_t code;
    const bool can_queue = CORE_HAS(b->copy, tern_backend_copy, from_host_later);
    if (!t->non_blocking || !can_queue) {
        const tern_status_t may = can_queue ? may_wait(t) : TERN_OK;
        if (may != TERN_OK)
            return may;
        t->waited = can_queue;
        code = b->copy->from_host(b->context, index, t->dst, t->src, t->bytes, t->to_stream);
        return code == TERN_OK || !can_queue ? code : copy_failed(t, b, stream, code);
    }
    code = b->copy->from_host_later(b->context, index, t->dst, t->src, t->bytes, t->to_stream);
    return code == TERN_OK ? keep_pinned(t, b, stream) : copy_failed(t, b, stream, code);
}

static tern_status_t to_host(transfer *t, const tern_backend *b)
{
    const int index = t->from.index;
    const tern_stream_t stream = { t->from, t->from_stream };
    const bool can_queue = CORE_HAS(b->copy, tern_backend_copy, to_host_later);
    tern_status_t code;
    if (!t->non_blocking || t->pinned == NULL || !can_queue) {
        const tern_status_t may = may_wait(t);
        if (may != TERN_OK)
            return may;
        t->waited = true;
        code = b->copy->to_host(b->context, index, t->dst, t->src, t->bytes, t->from_stream);
        return code == TERN_OK || !can_queue ? code : copy_failed(t, b, stream, code);
    }
    code = b->copy->to_host_later(b->context, index, t->dst, t->src, t->bytes, t->from_stream);
    return code == TERN_OK ? keep_pinned(t, b, stream) : copy_failed(t, b, stream, code);
}

/* ---- between devices ------------------------------------------------------------------------- */

/* On the source's stream, after what the target's stream has queued, and before what it will (T025). */
static tern_status_t to_peer(transfer *t, const tern_backend *b)
{
    const tern_stream_t to = { t->to, t->to_stream }, from = { t->from, t->from_stream };
    tern_status_t code = core_stream_order(from, to);
    if (code == TERN_OK)
        code = b->copy->peer(b->context, t->to.index, t->dst, t->from.index, t->src, t->bytes,
                             t->from_stream);
    return code == TERN_OK ? core_stream_order(to, from) : code;
}

/* Through memory of the host, which waits. */
static tern_status_t over_the_host(transfer *t, const tern_backend *source,
                                   const tern_backend *target)
{
    tern_status_t code = may_wait(t);
    if (code != TERN_OK)
        return code;
    void *staging = malloc((size_t)t->bytes);
    t->waited = true;
    if (staging == NULL)
        return TERN_ERR_OOM;
    code = source->copy->to_host(source->context, t->from.index, staging, t->src, t->bytes,
                                 t->from_stream);
    if (code == TERN_OK)
        code = target->copy->from_host(target->context, t->to.index, t->dst, staging, t->bytes,
                                       t->to_stream);
    free(staging);
    return code;
}

static tern_status_t run(transfer *t)
{
    const tern_backend *target = core_backend_of(t->to.kind);
    const tern_backend *source = core_backend_of(t->from.kind);
    if (t->bytes == 0)
        return TERN_OK;
    if (target == NULL && source == NULL) {
        memcpy(t->dst, t->src, (size_t)t->bytes);
        return TERN_OK;
    }
    if (core_cuda_left(t->to.kind) || core_cuda_left(t->from.kind))
        return core_backend_left();
    if (source == NULL)
        return to_device(t, target);
    if (target == NULL)
        return to_host(t, source);
    if (tern_dev_equal(t->to, t->from) && target->copy->on_device != NULL)
        return target->copy->on_device(target->context, t->to.index, t->dst, t->src, t->bytes,
                                       t->to_stream);
    if (target == source && CORE_HAS(target->copy, tern_backend_copy, peer))
        return to_peer(t, target);
    return over_the_host(t, source, target);
}

tern_status_t core_copy_bytes(tern_site_t site, tern_dev_t to, void *dst, tern_dev_t from,
                              const void *src, int64_t bytes)
{
    const tern_thread *self = core_self();
    transfer t = { .site = site,
                   .to = to,
                   .from = from,
                   .dst = dst,
                   .src = src,
                   .bytes = bytes,
                   .to_stream = core_stream_on(self, to),
                   .from_stream = core_stream_on(self, from) };
    return run(&t);
}

tern_status_t core_copy_across(tern_site_t site, const tern_tensor *out, const tern_tensor *in,
                               bool non_blocking, bool *out_waited)
{
    const tern_thread *self = core_self();
    const core_storage *host = out->view.dev.kind == TERN_KIND_CPU ? out->storage : in->storage;
    /* when others' memory is free again is theirs to know: it may be page-locked, too */
    const bool may_queue = non_blocking && host->release == NULL;
    transfer t = { .site = site,
                   .to = out->view.dev,
                   .from = in->view.dev,
                   .dst = out->view.data,
                   .src = in->view.data,
                   .bytes = core_view_bytes(&in->view),
                   .to_stream = core_stream_on(self, out->view.dev),
                   .from_stream = core_stream_on(self, in->view.dev),
                   .non_blocking = may_queue,
                   .pinned = host->cache_class == CORE_CACHE_PINNED ? host : NULL };
    const tern_status_t code = run(&t);
    *out_waited = t.waited;
    return code;
}
