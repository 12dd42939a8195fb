/* Copies of plain bytes between host and device, on a device, and between devices. The op "copy" is in
 * copy.c. */
#include "backend_cuda/cuda.h"

#include <pthread.h>

static tern_status_t queue(int index, void *dst, const void *src, int64_t bytes,
                           enum cudaMemcpyKind kind, void *stream)
{
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    return cuda_check_on(index, stream,
                         cudaMemcpyAsync(dst, src, (size_t)bytes, kind, (cudaStream_t)stream),
                         "cudaMemcpyAsync");
}

static tern_status_t from_host(void *context, int index, void *dst, const void *src, int64_t bytes,
                               void *stream)
{
    (void)context;
    CUDA_TRY(queue(index, dst, src, bytes, cudaMemcpyHostToDevice, stream));
    return cuda_wait(index, (cudaStream_t)stream, "a copy from the host");
}

static tern_status_t to_host(void *context, int index, void *dst, const void *src, int64_t bytes,
                             void *stream)
{
    (void)context;
    CUDA_TRY(queue(index, dst, src, bytes, cudaMemcpyDeviceToHost, stream));
    return cuda_wait(index, (cudaStream_t)stream, "a copy to the host");
}

/* What cudaMemcpyAsync stages has been read when it returns. A device that reads pageable memory itself
 * needs no staging, and may read it when the copy's turn comes. */
tern_status_t cuda_source_read(int index, const void *src, cudaStream_t stream)
{
    struct cudaPointerAttributes a;
    const cuda_device *d = cuda_device_enter(index);
    if (d == NULL)
        return TERN_ERR_BACKEND;
    if (!d->reads_pageable)
        return TERN_OK;
    const tern_status_t asked =
        cuda_check(index, cudaPointerGetAttributes(&a, src), "cudaPointerGetAttributes");
    if (asked != TERN_OK) { /* the caller may free it all the same */
        (void)cudaStreamSynchronize(stream);
        return asked;
    }
    if (a.type == cudaMemoryTypeHost)
        return TERN_OK;
    return cuda_check_on(index, stream, cudaStreamSynchronize(stream), "a copy from the host");
}

static tern_status_t from_host_later(void *context, int index, void *dst, const void *src,
                                     int64_t bytes, void *stream)
{
    (void)context;
    CUDA_TRY(queue(index, dst, src, bytes, cudaMemcpyHostToDevice, stream));
    return cuda_source_read(index, src, (cudaStream_t)stream);
}

static tern_status_t to_host_later(void *context, int index, void *dst, const void *src,
                                   int64_t bytes, void *stream)
{
    (void)context;
    return queue(index, dst, src, bytes, cudaMemcpyDeviceToHost, stream);
}

static tern_status_t on_device(void *context, int index, void *dst, const void *src, int64_t bytes,
                               void *stream)
{
    (void)context;
    return queue(index, dst, src, bytes, cudaMemcpyDeviceToDevice, stream);
}

/* ---- between devices ------------------------------------------------------------------------- */

enum { MOST_DEVICES = 64 };

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static bool opened[MOST_DEVICES][MOST_DEVICES]; /* [from][to]: from reaches to's memory */
static bool closed;                             /* no more are opened */

void cuda_peers_end(void)
{
    (void)pthread_mutex_lock(&opening);
    closed = true;
    (void)pthread_mutex_unlock(&opening);
}

bool cuda_peer_reaches(int from_index, int to_index)
{
    (void)pthread_mutex_lock(&opening);
    const bool reaches = opened[from_index][to_index];
    (void)pthread_mutex_unlock(&opening);
    return reaches;
}

/* The first copy of a pair opens the short way where there is one; without it, or where it cannot be opened
 * (cudaErrorTooManyPeers), the driver goes over the host by itself (T027). */
static tern_status_t open_way(int from_index, int to_index)
{
    static bool asked[MOST_DEVICES][MOST_DEVICES];
    int can = 0;
    tern_status_t status = TERN_OK;
    (void)pthread_mutex_lock(&opening);
    if (!asked[from_index][to_index] && !closed) {
        status = cuda_check(from_index, cudaDeviceCanAccessPeer(&can, from_index, to_index),
                            "cudaDeviceCanAccessPeer");
        const cudaError_t code =
            status == TERN_OK && can ? cudaDeviceEnablePeerAccess(to_index, 0) : cudaSuccess;
        if (code != cudaSuccess && cuda_is_lost(code))
            status = cuda_check(from_index, code, "cudaDeviceEnablePeerAccess");
        else if (code != cudaSuccess)
            (void)cudaGetLastError();
        asked[from_index][to_index] = status == TERN_OK;
        opened[from_index][to_index] =
            can && (code == cudaSuccess || code == cudaErrorPeerAccessAlreadyEnabled);
    }
    (void)pthread_mutex_unlock(&opening);
    return status;
}

static tern_status_t peer(void *context, int to_index, void *dst, int from_index, const void *src,
                          int64_t bytes, void *stream)
{
    (void)context;
    if (cuda_device_enter(to_index) == NULL || cuda_device_enter(from_index) == NULL)
        return TERN_ERR_BACKEND;
    CUDA_TRY(open_way(from_index, to_index));
    return cuda_check(
        from_index,
        cudaMemcpyPeerAsync(dst, to_index, src, from_index, (size_t)bytes, (cudaStream_t)stream),
        "cudaMemcpyPeerAsync");
}

const tern_backend_copy cuda_copy_table = { .size = sizeof cuda_copy_table,
                                            .from_host = from_host,
                                            .to_host = to_host,
                                            .on_device = on_device,
                                            .from_host_later = from_host_later,
                                            .to_host_later = to_host_later,
                                            .peer = peer };
