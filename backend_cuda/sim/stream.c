/* Streams and events. Work is kept until the host waits for it (lazy), so that a missing wait gives
 * a wrong result every time; a wait runs what it needs and nothing else. */
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/sim/sim.h"

enum { MOST_QUERIES = 64 }; /* a program that only polls must get on */

struct CUevent_st {
    sim_op *record; /* of the last cudaEventRecord, or NULL */
    bool timed;
    int device, queries;
    struct CUevent_st *next, **link; /* of all events, for sim_reset */
};

static struct CUstream_st *streams;
static struct CUevent_st *events;
static int64_t pending;

/* ---- ops ------------------------------------------------------------------------------------- */

void sim_op_release(sim_op *op)
{
    while (op != NULL && --op->refs == 0) {
        sim_op *wait = op->wait;
        free(op);
        op = wait;
    }
}

static sim_op *new_op(struct CUstream_st *stream, const char *what)
{
    sim_op *op = calloc(1, sizeof *op);
    if (op == NULL)
        return NULL;
    op->refs = 1;
    op->stream = stream;
    op->what = what;
    sim_order_start(op, stream->last);
    return op;
}

/* `op` is to start after `other`; markers take one wait each. */
static void wait_for(sim_op *op, sim_op *other)
{
    other->refs++;
    op->wait = other;
    sim_order_after(op, other);
}

static bool add_marker(struct CUstream_st *stream, sim_op *other)
{
    sim_op *marker = new_op(stream, "wait");
    if (marker == NULL)
        return false;
    wait_for(marker, other);
    sim_clock_place(marker, SIM_ENGINE_NONE, 0);
    sim_op_submit(marker);
    return true;
}

/* The null stream waits for all blocking streams of its device, and they for it. */
static bool add_implicit_waits(struct CUstream_st *stream)
{
    struct CUstream_st *null_stream = sim_devices[stream->device].null_stream;
    if (!stream->blocking)
        return true;
    if (stream != null_stream)
        return null_stream == NULL || null_stream->last == NULL || null_stream->last->done ||
               add_marker(stream, null_stream->last);
    for (struct CUstream_st *s = streams; s != NULL; s = s->next)
        if (s != stream && s->blocking && s->device == stream->device && s->last != NULL &&
            !s->last->done && !add_marker(stream, s->last))
            return false;
    return true;
}

sim_op *sim_op_new(struct CUstream_st *stream, const char *what)
{
    return add_implicit_waits(stream) ? new_op(stream, what) : NULL;
}

/* Runs the first op of its stream. */
static void run_first(struct CUstream_st *stream)
{
    sim_op *op = stream->first;
    stream->first = op->next;
    pending--;
    if (op->run != NULL && sim_devices[stream->device].lost == cudaSuccess)
        op->run(op);
    op->done = true;
    if (op->drop != NULL)
        op->drop(op);
    if (op->wait != NULL) {
        sim_op_release(op->wait);
        op->wait = NULL;
    }
    sim_op_release(op);
}

static void run_until(sim_op *op)
{
    struct CUstream_st *stream = op->stream;
    while (!op->done) {
        if (stream->first->wait != NULL)
            run_until(stream->first->wait);
        run_first(stream);
    }
}

static void run_some(void)
{
    for (struct CUstream_st *s = streams; s != NULL; s = s->next)
        while (s->first != NULL && sim_random(&sim_config.async_seed) % 2 == 0)
            run_until(s->first);
}

void sim_op_submit(sim_op *op)
{
    struct CUstream_st *stream = op->stream;
    sim_op *before = stream->last;
    op->refs++; /* the stream's `last`; the caller's count becomes the queue's */
    if (stream->first == NULL)
        stream->first = op;
    else
        before->next = op;
    stream->last = op;
    if (before != NULL)
        sim_op_release(before);
    pending++;
    if (sim_config.async == SIM_EAGER || pending > SIM_PENDING)
        run_until(op);
    else if (sim_config.async == SIM_RANDOM)
        run_some();
}

void sim_op_wait(sim_op *op)
{
    op->refs++;
    run_until(op);
    sim_order_host_saw(op);
    sim_clock_host_waits(op);
    sim_op_release(op);
}

void sim_device_wait(int device)
{
    for (struct CUstream_st *s = streams; s != NULL; s = s->next)
        if (s->device == device && s->last != NULL)
            sim_op_wait(s->last);
}

/* ---- streams --------------------------------------------------------------------------------- */

static struct CUstream_st *new_stream(int device, bool blocking)
{
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->device = device;
    s->blocking = blocking;
    s->alive = true;
    s->slot = sim_order_slot();
    s->next = streams;
    streams = s;
    return s;
}

struct CUstream_st *sim_stream_of(cudaStream_t stream)
{
    sim_device *d = &sim_devices[sim_current_device()];
    if (stream == NULL) {
        if (d->null_stream == NULL)
            d->null_stream = new_stream(sim_current_device(), true);
        return d->null_stream;
    }
    for (struct CUstream_st *s = streams; s != NULL; s = s->next)
        if (s == stream)
            return s->alive ? s : NULL;
    return NULL;
}

static cudaError_t make_stream(const char *call, cudaStream_t *stream, unsigned int flags)
{
    cudaError_t code = sim_begin_device(call);
    if (code == cudaSuccess && flags > cudaStreamNonBlocking)
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess) {
        *stream = new_stream(sim_current_device(), flags == cudaStreamDefault);
        code = *stream != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
    }
    return sim_end(code);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    return make_stream("cudaStreamCreateWithFlags", stream, flags);
}

/* Priorities outside the range are cut to it, so none is wrong. */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    (void)priority;
    return make_stream("cudaStreamCreateWithPriority", stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    const cudaError_t code = sim_begin_device("cudaDeviceGetStreamPriorityRange");
    if (code == cudaSuccess) {
        *least = 0;
        *greatest = -5;
    }
    return sim_end(code);
}

/* The work of a destroyed stream still runs; so the stream stays in the list. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t code = sim_begin_device("cudaStreamDestroy");
    struct CUstream_st *s = code == cudaSuccess && stream != NULL ? sim_stream_of(stream) : NULL;
    if (code == cudaSuccess && s == NULL)
        code = cudaErrorInvalidResourceHandle;
    if (s != NULL) {
        s->alive = false;
        sim_order_slot_free(s->slot);
    }
    return sim_end(code);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t code = sim_begin_device("cudaStreamSynchronize");
    struct CUstream_st *s = code == cudaSuccess ? sim_stream_of(stream) : NULL;
    if (code == cudaSuccess && s == NULL)
        code = cudaErrorInvalidResourceHandle;
    if (s != NULL && s->last != NULL)
        sim_op_wait(s->last);
    if (s != NULL)
        code = sim_devices[s->device].lost;
    return sim_end(code);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    static int queries;
    cudaError_t code = sim_begin_device("cudaStreamQuery");
    struct CUstream_st *s = code == cudaSuccess ? sim_stream_of(stream) : NULL;
    if (code == cudaSuccess && s == NULL)
        code = cudaErrorInvalidResourceHandle;
    if (s != NULL && s->last != NULL && !s->last->done && ++queries % MOST_QUERIES == 0)
        run_until(s->last);
    if (s != NULL && s->last != NULL) {
        code = s->last->done ? sim_devices[s->device].lost : cudaErrorNotReady;
        if (code == cudaSuccess)
            sim_order_host_saw(s->last);
    }
    return sim_end(code);
}

/* ---- events ---------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    cudaError_t code = sim_begin_device("cudaEventCreateWithFlags");
    if (code == cudaSuccess) {
        *event = calloc(1, sizeof **event);
        code = *event != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
    }
    if (code == cudaSuccess) {
        (*event)->timed = !(flags & cudaEventDisableTiming);
        (*event)->device = sim_current_device();
        (*event)->next = events;
        (*event)->link = &events;
        if (events != NULL)
            events->link = &(*event)->next;
        events = *event;
    }
    return sim_end(code);
}

static void drop_event(cudaEvent_t event)
{
    *event->link = event->next;
    if (event->next != NULL)
        event->next->link = event->link;
    sim_op_release(event->record);
    free(event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    const cudaError_t code = sim_begin("cudaEventDestroy");
    if (code == cudaSuccess && event != NULL)
        drop_event(event);
    return sim_end(event != NULL ? code : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t code = sim_begin_device("cudaEventRecord");
    struct CUstream_st *s = code == cudaSuccess ? sim_stream_of(stream) : NULL;
    if (code == cudaSuccess && (s == NULL || event == NULL || event->device != s->device))
        code = cudaErrorInvalidResourceHandle;
    sim_op *op = code == cudaSuccess ? sim_op_new(s, "cudaEventRecord") : NULL;
    if (code == cudaSuccess && op == NULL)
        code = cudaErrorMemoryAllocation;
    if (op != NULL) {
        sim_clock_place(op, SIM_ENGINE_NONE, 0);
        op->refs++;
        sim_op_release(event->record);
        event->record = op;
        event->queries = 0;
        sim_op_submit(op);
    }
    return sim_end(code);
}

/* Waits for the record that is current now: a later record changes nothing. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    cudaError_t code = sim_begin_device("cudaStreamWaitEvent");
    struct CUstream_st *s = code == cudaSuccess ? sim_stream_of(stream) : NULL;
    if (code == cudaSuccess && (s == NULL || event == NULL))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && flags != 0)
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess && event->record != NULL && !add_marker(s, event->record))
        code = cudaErrorMemoryAllocation;
    return sim_end(code);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t code = sim_begin_device("cudaEventSynchronize");
    if (code == cudaSuccess && event == NULL)
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && event->record != NULL) {
        sim_op_wait(event->record);
        code = sim_devices[event->record->stream->device].lost;
    }
    return sim_end(code);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t code = sim_begin_device("cudaEventQuery");
    if (code == cudaSuccess && event == NULL)
        code = cudaErrorInvalidResourceHandle;
    sim_op *op = code == cudaSuccess ? event->record : NULL;
    if (op != NULL && !op->done && ++event->queries >= MOST_QUERIES)
        run_until(op);
    if (op != NULL && !op->done)
        code = cudaErrorNotReady;
    else if (op != NULL)
        sim_order_host_saw(op);
    return sim_end(code);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    cudaError_t code = sim_begin_device("cudaEventElapsedTime");
    if (code == cudaSuccess && (start == NULL || end == NULL || start->record == NULL ||
                                end->record == NULL || !start->timed || !end->timed))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && (!start->record->done || !end->record->done))
        code = cudaErrorNotReady;
    if (code == cudaSuccess)
        *ms = (float)(1e3 * (end->record->end - start->record->end));
    return sim_end(code);
}

void sim_streams_reset(void)
{
    while (events != NULL)
        drop_event(events);
    while (streams != NULL) {
        struct CUstream_st *s = streams;
        while (s->first != NULL) {
            sim_devices[s->device].lost = cudaErrorUnknown; /* nothing runs any more */
            run_first(s);
        }
        sim_op_release(s->last);
        streams = s->next;
        free(s);
    }
    pending = 0;
}
