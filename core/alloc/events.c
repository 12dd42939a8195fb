/* Blocks that several streams used: events at their end, polled before each request (S025-S028, M021).
 *
 * A stream that cannot get an event is waited for instead; one that cannot even be waited for stays with
 * the block, which is put aside (deferred) and tried again before the next request. That is the block's
 * trouble, told when it was freed: nobody else's request fails for it. */
#include "core/alloc/engine.h"

#include <stdlib.h>

#include "core/pool.h"

enum { STREAM_STEP = 4 };

bool block_add_stream(block *b, void *stream)
{
    for (int32_t i = 0; i < b->stream_count; i++)
        if (b->streams[i] == stream)
            return true;
    if (b->stream_count % STREAM_STEP == 0) {
        const size_t wanted = (size_t)b->stream_count + STREAM_STEP;
        void **grown = core_fault() ? NULL : realloc(b->streams, wanted * sizeof *grown);
        if (grown == NULL)
            return false;
        b->streams = grown;
    }
    b->streams[b->stream_count++] = stream;
    return true;
}

static void drop_streams(block *b)
{
    free(b->streams);
    b->streams = NULL;
    b->stream_count = 0;
}

/* ---- events and their queues --------------------------------------------------------------------- */

static tern_status_t event_take(core_alloc *a, void **out_event)
{
    if (a->spare_event_count > 0) {
        *out_event = a->spare_events[--a->spare_event_count];
        return TERN_OK;
    }
    return a->raw.event_create(a->raw.context, out_event);
}

static void event_give(core_alloc *a, void *event)
{
    if (host_grow((void **)&a->spare_events, a->spare_event_count, &a->spare_event_capacity,
                  sizeof *a->spare_events))
        a->spare_events[a->spare_event_count++] = event;
    else
        (void)a->raw.event_destroy(a->raw.context, event);
}

static event_queue *queue_of(core_alloc *a, void *stream)
{
    event_queue **last = &a->queues;
    for (; *last != NULL; last = &(*last)->next)
        if ((*last)->stream == stream)
            return *last;
    event_queue *queue = host_calloc(1, sizeof *queue);
    if (queue == NULL)
        return NULL;
    queue->stream = stream;
    queue->last = &queue->first;
    *last = queue;
    return queue;
}

static waiting *waiting_take(core_alloc *a)
{
    waiting *w = a->spare_waiting;
    if (w == NULL)
        return host_calloc(1, sizeof *w);
    a->spare_waiting = w->next;
    return w;
}

/* Puts an event for the block behind the stream's work. */
static tern_status_t wait_by_event(core_alloc *a, block *b, void *stream)
{
    if (a->raw.event_create == NULL)
        return TERN_ERR_UNSUPPORTED;
    event_queue *queue = queue_of(a, stream);
    waiting *w = queue != NULL ? waiting_take(a) : NULL;
    if (w == NULL)
        return TERN_ERR_OOM;
    tern_status_t code = event_take(a, &w->event);
    if (code == TERN_OK) {
        code = a->raw.event_record(a->raw.context, w->event, stream);
        if (code != TERN_OK)
            event_give(a, w->event);
    }
    if (code != TERN_OK) {
        w->next = a->spare_waiting;
        a->spare_waiting = w;
        return code;
    }
    w->block = b;
    w->next = NULL;
    *queue->last = w;
    queue->last = &w->next;
    b->events++;
    return TERN_OK;
}

tern_status_t stream_wait(core_alloc *a, void *stream)
{
    if (a->raw.stream_synchronize == NULL)
        return a->raw.event_create == NULL ? TERN_OK : TERN_ERR_UNSUPPORTED;
    return a->raw.stream_synchronize(a->raw.context, stream);
}

static void defer(core_alloc *a, block *b)
{
    b->left = NULL;
    if (a->deferred == NULL)
        a->deferred = b;
    else
        a->deferred_last->left = b;
    a->deferred_last = b;
}

static void complete(core_alloc *a, block *b)
{
    if (!is_free(b))
        return;
    trace(a, CORE_ALLOC_TRACE_FREE_COMPLETED, b->shard, b->pub.data, b->pub.size, b->pub.site);
    if (!block_release(a, b))
        ledger_settle(a);
}

tern_status_t events_insert(core_alloc *a, block *b)
{
    tern_status_t code = TERN_OK;
    int32_t kept = 0;
    for (int32_t i = 0; i < b->stream_count; i++) {
        void *stream = b->streams[i];
        if (a->captures == 0) {
            if (wait_by_event(a, b, stream) == TERN_OK)
                continue;
            const tern_status_t waited = stream_wait(a, stream);
            if (waited == TERN_OK)
                continue;
            code = code != TERN_OK ? code : waited;
        }
        b->streams[kept++] = stream;
    }
    b->stream_count = kept;
    if (kept > 0)
        defer(a, b);
    else
        drop_streams(b);
    slow_update(a, SLOW_EVENTS, true);
    complete(a, b);
    return code;
}

/* ---- polling and waiting ----------------------------------------------------------------------------- */

static void insert_deferred(core_alloc *a)
{
    block *list = a->deferred;
    a->deferred = NULL;
    for (block *next; list != NULL; list = next) {
        next = list->left;
        (void)events_insert(a, list);
    }
}

static void first_done(core_alloc *a, event_queue *queue)
{
    waiting *w = queue->first;
    queue->first = w->next;
    if (queue->first == NULL)
        queue->last = &queue->first;
    event_give(a, w->event);
    block *b = w->block;
    w->next = a->spare_waiting;
    a->spare_waiting = w;
    b->events--;
    complete(a, b);
}

static void update_flag(core_alloc *a)
{
    bool outstanding = a->deferred != NULL;
    for (const event_queue *q = a->queues; q != NULL && !outstanding; q = q->next)
        outstanding = q->first != NULL;
    slow_update(a, SLOW_EVENTS, outstanding);
}

tern_status_t events_process(core_alloc *a)
{
    if (!(a->slow & SLOW_EVENTS))
        return TERN_OK;
    tern_status_t code = TERN_OK;
    insert_deferred(a);
    for (event_queue *q = a->queues; q != NULL && code == TERN_OK; q = q->next)
        while (q->first != NULL) {
            bool done = false;
            code = a->raw.event_query(a->raw.context, q->first->event, &done);
            if (code != TERN_OK || !done)
                break;
            first_done(a, q);
        }
    update_flag(a);
    return code;
}

tern_status_t events_synchronize(core_alloc *a)
{
    a->cold.num_sync_all_streams++;
    tern_status_t code = TERN_OK;
    insert_deferred(a);
    for (event_queue *q = a->queues; q != NULL; q = q->next)
        while (q->first != NULL) {
            const tern_status_t waited = a->raw.event_synchronize(a->raw.context, q->first->event);
            if (waited != TERN_OK) { /* what waits in this queue stays there */
                code = code != TERN_OK ? code : waited;
                break;
            }
            first_done(a, q);
        }
    update_flag(a);
    return code;
}

/* ---- ends ------------------------------------------------------------------------------------------- */

tern_status_t events_drop_spares(core_alloc *a)
{
    tern_status_t code = TERN_OK;
    while (a->spare_event_count > 0) {
        void *event = a->spare_events[--a->spare_event_count];
        const tern_status_t dropped = a->raw.event_destroy(a->raw.context, event);
        code = code != TERN_OK ? code : dropped;
    }
    return code;
}

void events_destroy(core_alloc *a)
{
    (void)events_synchronize(a);
    for (event_queue *q = a->queues, *next_queue; q != NULL; q = next_queue) {
        next_queue = q->next;
        for (waiting *w = q->first, *next; w != NULL; w = next) { /* those that failed to wait */
            next = w->next;
            (void)a->raw.event_destroy(a->raw.context, w->event);
            free(w);
        }
        free(q);
    }
    (void)events_drop_spares(a);
    for (waiting *w = a->spare_waiting, *next; w != NULL; w = next) {
        next = w->next;
        free(w);
    }
    free(a->spare_events);
}
