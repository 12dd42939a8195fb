/* Waiting, and what a wait finds. */
#include "backend_cuda/cuda.h"

#include <stdio.h>

static tern_status_t report_slot(int index, cuda_fault_slot *slot)
{
    const cuda_fault_slot f = *slot;
    static const char *const texts[] = {
        [CUDA_FAULT_INDEX] = "index %lld at position %lld is outside its dimension, which has %lld",
        [CUDA_FAULT_ROW] = "index %lld at position %lld is outside the table, which has %lld rows, "
                           "numbered from 0",
        [CUDA_FAULT_CLASS] = "target %lld at position %lld is no class; there are %lld classes, "
                             "numbered from 0"
    };
    slot->kind = 0;
    if (f.kind >= sizeof texts / sizeof *texts)
        return TERN_OK;
    char text[160];
    (void)snprintf(text, sizeof text, texts[f.kind], f.value, f.position, f.limit);
    return cuda_host->fail(TERN_ERR_INDEX, "%s (a kernel on cuda:%d%s found it earlier)", text,
                           index, cuda_is_simulated() ? " (simulated)" : "");
}

tern_status_t cuda_wait(int index, cudaStream_t stream, const char *what)
{
    cuda_device *d = cuda_device_enter(cuda_host, index);
    if (d == NULL)
        return TERN_ERR_BACKEND;
    CUDA_TRY(cuda_check(index, cudaStreamSynchronize(stream), what));
    return d->slot->kind == 0 ? TERN_OK : report_slot(index, d->slot);
}

static tern_status_t synchronize(void *context, int index)
{
    (void)context;
    cuda_device *d = cuda_device_enter(cuda_host, index);
    if (d == NULL)
        return TERN_ERR_BACKEND;
    CUDA_TRY(cuda_check(index, cudaDeviceSynchronize(), "synchronize"));
    return d->slot->kind == 0 ? TERN_OK : report_slot(index, d->slot);
}

static tern_status_t synchronize_stream(void *context, int index, void *stream)
{
    (void)context;
    const cuda_device *d = cuda_device_enter(cuda_host, index);
    if (d == NULL)
        return TERN_ERR_BACKEND;
    return cuda_wait(index, stream != NULL ? (cudaStream_t)stream : d->stream, "synchronize");
}

const tern_backend_stream cuda_stream_table = { .size = sizeof cuda_stream_table,
                                                .synchronize = synchronize,
                                                .synchronize_stream = synchronize_stream };

/* ---- events ---------------------------------------------------------------------------------- */

static tern_status_t create(void *context, int index, void **out_event)
{
    (void)context;
    cudaEvent_t event = NULL;
    if (cuda_device_enter(cuda_host, index) == NULL)
        return TERN_ERR_BACKEND;
    CUDA_TRY(cuda_check(index, cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                        "cudaEventCreateWithFlags"));
    *out_event = event;
    return TERN_OK;
}

static tern_status_t record(void *context, int index, void *event, void *stream)
{
    (void)context;
    const cuda_device *d = cuda_device_enter(cuda_host, index);
    if (d == NULL)
        return TERN_ERR_BACKEND;
    const cudaStream_t queue = stream != NULL ? (cudaStream_t)stream : d->stream;
    return cuda_check(index, cudaEventRecord((cudaEvent_t)event, queue), "cudaEventRecord");
}

static tern_status_t query(void *context, int index, void *event, bool *out_done)
{
    (void)context;
    if (cuda_device_enter(cuda_host, index) == NULL)
        return TERN_ERR_BACKEND;
    const cudaError_t code = cudaEventQuery((cudaEvent_t)event);
    *out_done = code == cudaSuccess;
    if (code != cudaErrorNotReady)
        return cuda_check(index, code, "cudaEventQuery");
    (void)cudaGetLastError();
    return TERN_OK;
}

static tern_status_t wait_event(void *context, int index, void *event)
{
    (void)context;
    if (cuda_device_enter(cuda_host, index) == NULL)
        return TERN_ERR_BACKEND;
    return cuda_check(index, cudaEventSynchronize((cudaEvent_t)event), "cudaEventSynchronize");
}

static tern_status_t destroy(void *context, int index, void *event)
{
    (void)context;
    return cuda_check(index, cudaEventDestroy((cudaEvent_t)event), "cudaEventDestroy");
}

const tern_backend_event cuda_event_table = { .size = sizeof cuda_event_table,
                                              .create = create,
                                              .record = record,
                                              .query = query,
                                              .synchronize = wait_event,
                                              .destroy = destroy };
