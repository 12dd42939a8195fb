/* Raw device memory. */
#include "backend_cuda/cuda.h"
#include "backend_cuda/nvml.h"

/* What was asked for. Out of memory is no error here: NULL says it. */
static void *given(int index, cudaError_t code, void *const *data, const char *what)
{
    if (code == cudaErrorMemoryAllocation)
        (void)cudaGetLastError();
    else if (code != cudaSuccess)
        (void)cuda_check(index, code, what);
    return code == cudaSuccess ? *data : NULL;
}

static void *device_alloc(void *context, int index, int64_t bytes, void *stream)
{
    (void)context, (void)stream;
    void *data = NULL;
    if (cuda_device_enter(index) == NULL)
        return NULL;
    return given(index, cudaMalloc(&data, (size_t)bytes), &data, "cudaMalloc");
}

/* cudaFree waits for the device, so that nothing still uses what is given back. */
static void device_free(void *context, int index, void *data, int64_t bytes, void *stream)
{
    (void)context, (void)bytes, (void)stream;
    if (cudaSetDevice(index) == cudaSuccess)
        (void)cudaFree(data);
}

static tern_status_t device_info(void *context, int index, int64_t *out_free, int64_t *out_total)
{
    (void)context;
    size_t free_bytes = 0, total_bytes = 0;
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    CUDA_TRY(cuda_check(index, cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
    *out_free = (int64_t)free_bytes;
    *out_total = (int64_t)total_bytes;
    return TERN_OK;
}

/* NVML's word, which takes no context. Of a device that is not open it counts what the context will take, too. */
static tern_status_t device_peek(void *context, int index, int64_t *out_free, int64_t *out_total)
{
    char uuid[CUDA_UUID_BYTES];
    (void)context;
    const bool known = cuda_uuid(index, uuid) && cuda_nvml_memory(uuid, out_free, out_total);
    return known ? TERN_OK : TERN_ERR_BACKEND;
}

static void *host_alloc(void *context, int64_t bytes)
{
    (void)context;
    void *data = NULL;
    const int index = cuda_enter_any();
    return given(index, cudaHostAlloc(&data, (size_t)bytes, cudaHostAllocPortable), &data,
                 "cudaHostAlloc");
}

static void host_free(void *context, void *data, int64_t bytes)
{
    (void)context, (void)bytes;
    cuda_enter_any();
    (void)cudaFreeHost(data);
}

const tern_backend_memory cuda_memory = { .size = sizeof cuda_memory,
                                          .alloc = device_alloc,
                                          .free = device_free,
                                          .info = device_info,
                                          .host_alloc = host_alloc,
                                          .host_free = host_free,
                                          .peek = device_peek };
