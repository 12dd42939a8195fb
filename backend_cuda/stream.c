/* Waiting, and what a wait finds. */
#include "backend_cuda/cuda.h"

#include <stdio.h>
#include <string.h>

static tern_status_t report_chance(int index, const cuda_fault_slot *f)
{
    double value;
    memcpy(&value, &f->value, sizeof value);
    return cuda_host->fail(TERN_ERR_ARGUMENT,
                           "%g at position %lld is no probability in [0, 1] (a kernel on cuda:%d%s "
                           "found it earlier)",
                           value, f->position, index, cuda_is_simulated() ? " (simulated)" : "");
}

/* Empties the slot, if something is in it that is whole; of several threads one gets it. */
static bool take(cuda_fault_slot *slot, cuda_fault_slot *out_fault)
{
    unsigned kind = __atomic_load_n(&slot->kind, __ATOMIC_ACQUIRE);
    if (kind == 0 || kind == CUDA_FAULT_BUSY ||
        !__atomic_compare_exchange_n(&slot->kind, &kind, CUDA_FAULT_BUSY, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return false;
    *out_fault = *slot;
    out_fault->kind = kind;
    __atomic_store_n(&slot->kind, 0, __ATOMIC_RELEASE);
    return true;
}

static tern_status_t report_slot(int index, cuda_fault_slot *slot)
{
    cuda_fault_slot f;
    static const char *const texts[] = {
        [CUDA_FAULT_INDEX] = "index %lld at position %lld is outside its dimension, which has %lld",
        [CUDA_FAULT_ROW] = "index %lld at position %lld is outside the table, which has %lld rows, "
                           "numbered from 0",
        [CUDA_FAULT_CLASS] = "target %lld at position %lld is no class; there are %lld classes, "
                             "numbered from 0"
    };
    if (!take(slot, &f))
        return TERN_OK;
    if (f.kind == CUDA_FAULT_CHANCE)
        return report_chance(index, &f);
    if (f.kind >= sizeof texts / sizeof *texts)
        return TERN_OK;
    if (f.kind == CUDA_FAULT_INDEX && f.value == CUDA_NOWHERE) /* told when it was numbered */
        return cuda_host->fail(TERN_ERR_INDEX,
                               "the index at position %lld was outside its dimension", f.position);
    char text[160];
    (void)snprintf(text, sizeof text, texts[f.kind], f.value, f.position, f.limit);
    return cuda_host->fail(TERN_ERR_INDEX, "%s (a kernel on cuda:%d%s found it earlier)", text,
                           index, cuda_is_simulated() ? " (simulated)" : "");
}

tern_status_t cuda_wait(int index, cudaStream_t stream, const char *what)
{
    cuda_device *d = cuda_device_enter(index);
    if (d == NULL)
        return TERN_ERR_BACKEND;
    CUDA_TRY(cuda_check_on(index, stream, cudaStreamSynchronize(stream), what));
    return report_slot(index, d->slot);
}

static tern_status_t synchronize(void *context, int index)
{
    (void)context;
    cuda_device *d = cuda_device_enter(index);
    if (d == NULL)
        return TERN_ERR_BACKEND;
    CUDA_TRY(cuda_check(index, cudaDeviceSynchronize(), "synchronize"));
    return report_slot(index, d->slot);
}

static tern_status_t synchronize_stream(void *context, int index, void *stream)
{
    (void)context;
    return cuda_wait(index, (cudaStream_t)stream, "synchronize");
}

/* ---- streams --------------------------------------------------------------------------------- */

static tern_status_t priorities(void *context, int index, int *out_lowest, int *out_highest)
{
    (void)context;
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    return cuda_check(index, cudaDeviceGetStreamPriorityRange(out_lowest, out_highest),
                      "cudaDeviceGetStreamPriorityRange");
}

static tern_status_t stream_create(void *context, int index, int priority, void **out_stream)
{
    (void)context;
    cudaStream_t stream = NULL;
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    CUDA_TRY(cuda_check(index,
                        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
                        "cudaStreamCreateWithPriority"));
    cuda_stream_made(stream);
    *out_stream = stream;
    return TERN_OK;
}

/* cudaErrorNotReady is an answer, which cudaGetLastError forgets (S011). */
static tern_status_t answer(int index, cudaError_t code, const char *what, bool *out_done)
{
    *out_done = code == cudaSuccess;
    if (code != cudaErrorNotReady)
        return cuda_check(index, code, what);
    (void)cudaGetLastError();
    return TERN_OK;
}

static tern_status_t stream_query(void *context, int index, void *stream, bool *out_done)
{
    (void)context;
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    return answer(index, cudaStreamQuery((cudaStream_t)stream), "cudaStreamQuery", out_done);
}

static tern_status_t stream_wait_event(void *context, int index, void *stream, void *event)
{
    (void)context;
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    return cuda_check_on(index, stream,
                         cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)event, 0),
                         "cudaStreamWaitEvent");
}

const tern_backend_stream cuda_stream_table = { .size = sizeof cuda_stream_table,
                                                .synchronize = synchronize,
                                                .synchronize_stream = synchronize_stream,
                                                .create = stream_create,
                                                .priorities = priorities,
                                                .query = stream_query,
                                                .wait_event = stream_wait_event };

/* ---- events ---------------------------------------------------------------------------------- */

static tern_status_t make(int index, unsigned flags, void **out_event)
{
    cudaEvent_t event = NULL;
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    CUDA_TRY(
        cuda_check(index, cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags"));
    *out_event = event;
    return TERN_OK;
}

static tern_status_t create(void *context, int index, void **out_event)
{
    (void)context;
    return make(index, cudaEventDisableTiming, out_event);
}

static tern_status_t create_timed(void *context, int index, void **out_event)
{
    (void)context;
    return make(index, cudaEventDefault, out_event);
}

static tern_status_t record(void *context, int index, void *event, void *stream)
{
    (void)context;
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    return cuda_check_on(index, stream, cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream),
                         "cudaEventRecord");
}

static tern_status_t query(void *context, int index, void *event, bool *out_done)
{
    (void)context;
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    return answer(index, cudaEventQuery((cudaEvent_t)event), "cudaEventQuery", out_done);
}

static tern_status_t wait_event(void *context, int index, void *event)
{
    (void)context;
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    return cuda_check(index, cudaEventSynchronize((cudaEvent_t)event), "cudaEventSynchronize");
}

static tern_status_t elapsed(void *context, int index, void *start, void *end, double *out_ms)
{
    (void)context;
    float ms = 0;
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    CUDA_TRY(cuda_check(index, cudaEventElapsedTime(&ms, (cudaEvent_t)start, (cudaEvent_t)end),
                        "cudaEventElapsedTime"));
    *out_ms = (double)ms;
    return TERN_OK;
}

static tern_status_t destroy(void *context, int index, void *event)
{
    (void)context;
    if (cuda_device_enter(index) == NULL) /* S022: no context on another device */
        return TERN_ERR_BACKEND;
    return cuda_check(index, cudaEventDestroy((cudaEvent_t)event), "cudaEventDestroy");
}

const tern_backend_event cuda_event_table = { .size = sizeof cuda_event_table,
                                              .create = create,
                                              .record = record,
                                              .query = query,
                                              .synchronize = wait_event,
                                              .destroy = destroy,
                                              .create_timed = create_timed,
                                              .elapsed = elapsed };
