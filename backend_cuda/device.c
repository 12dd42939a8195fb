/* Devices: found without a context, opened at their first use. */
#include "backend_cuda/cuda.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "backend_cuda/launch.h"

static cuda_device devices[CUDA_MOST_DEVICES];
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static int first_open = -1;
const tern_host *cuda_host;

int cuda_device_count(const char **out_why)
{
    static char why[256];
    int count = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count > 0)
        return count < CUDA_MOST_DEVICES ? count : CUDA_MOST_DEVICES;
    (void)cudaGetLastError();
    (void)snprintf(why, sizeof why, "%s (%d): %s", cudaGetErrorName(code), (int)code,
                   code == cudaSuccess ? "there are no devices" : cudaGetErrorString(code));
    *out_why = why;
    return 0;
}

bool cuda_is_simulated(void)
{
    static int known; /* 1: no, 2: yes */
    struct cudaDeviceProp prop;
    if (known == 0 && cudaGetDeviceProperties(&prop, 0) == cudaSuccess)
        known = strncmp(prop.name, "simulated", 9) == 0 ? 2 : 1;
    return known == 2;
}

/* With the lock. */
static cudaError_t open_device(cuda_device *d, int index)
{
    struct cudaDeviceProp prop;
    void *slot = NULL;
    cudaError_t code = cudaGetDeviceProperties(&prop, index);
    if (code == cudaSuccess)
        code = cudaHostAlloc(&slot, sizeof *d->slot, cudaHostAllocMapped | cudaHostAllocPortable);
    if (code != cudaSuccess)
        return code;
    memset(slot, 0, sizeof *d->slot);
    d->multiprocessors = prop.multiProcessorCount;
    d->capability = 10 * prop.major + prop.minor;
    d->has_mma = cuda_attention_half_runs(d->capability) != 0;
    d->reads_pageable = prop.pageableMemoryAccess != 0;
    __atomic_store_n(&d->slot, slot, __ATOMIC_RELEASE);
    int none = -1;
    (void)__atomic_compare_exchange_n(&first_open, &none, index, false, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED);
    return cudaSuccess;
}

cuda_device *cuda_device_enter(int index)
{
    cuda_device *d = &devices[index];
    cudaError_t code = cudaSetDevice(index);
    if (code == cudaSuccess && __atomic_load_n(&d->slot, __ATOMIC_ACQUIRE) == NULL) {
        (void)pthread_mutex_lock(&opening);
        if (d->slot == NULL)
            code = open_device(d, index);
        (void)pthread_mutex_unlock(&opening);
    }
    return cuda_check(index, code, "opening the device") == TERN_OK ? d : NULL;
}

int cuda_enter_any(void)
{
    const int index = __atomic_load_n(&first_open, __ATOMIC_ACQUIRE);
    if (index >= 0 && cudaSetDevice(index) != cudaSuccess)
        (void)cudaGetLastError();
    return index >= 0 ? index : 0;
}

tern_status_t cuda_enter(const tern_call *call, cudaStream_t *out_stream)
{
    *out_stream = (cudaStream_t)call->stream;
    return cuda_device_enter(call->dev.index) != NULL ? TERN_OK : TERN_ERR_BACKEND;
}

void cuda_return(const tern_call *call)
{
    if (cudaSetDevice(call->dev.index) != cudaSuccess)
        (void)cudaGetLastError();
}

void cuda_make_room(const tern_call *call)
{
    const tern_host *host = call->host; /* of an older libtern: without it */
    if (host->size >= offsetof(tern_host, empty_cache) + sizeof host->empty_cache)
        host->empty_cache(call->dev);
    cuda_return(call);
}

tern_status_t cuda_enter_noting(const tern_call *call, cudaStream_t *out_stream,
                                cuda_fault_slot **out_slot)
{
    const cuda_device *d = cuda_device_enter(call->dev.index);
    *out_slot = d != NULL ? d->slot : NULL;
    return d != NULL ? cuda_enter(call, out_stream) : TERN_ERR_BACKEND;
}

int64_t cuda_dtype_size(int dtype)
{
    static const int64_t sizes[TERN_DTYPES] = { 0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8 };
    return sizes[dtype];
}
