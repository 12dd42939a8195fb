/* Copies of plain bytes between host and device, and on a device. The op "copy" is in copy.c. */
#include "backend_cuda/cuda.h"

static tern_status_t run(int index, void *dst, const void *src, int64_t bytes,
                         enum cudaMemcpyKind kind, void *stream)
{
    const cuda_device *d = cuda_device_enter(cuda_host, index);
    if (d == NULL)
        return TERN_ERR_BACKEND;
    const cudaStream_t queue = stream != NULL ? (cudaStream_t)stream : d->stream;
    CUDA_TRY(cuda_check(index, cudaMemcpyAsync(dst, src, (size_t)bytes, kind, queue),
                        "cudaMemcpyAsync"));
    return kind == cudaMemcpyDeviceToHost ? cuda_wait(index, queue, "a copy to the host") : TERN_OK;
}

/* Pageable memory has been read when cudaMemcpyAsync returns. */
static tern_status_t from_host(void *context, int index, void *dst, const void *src, int64_t bytes,
                               void *stream)
{
    (void)context;
    return run(index, dst, src, bytes, cudaMemcpyHostToDevice, stream);
}

static tern_status_t to_host(void *context, int index, void *dst, const void *src, int64_t bytes,
                             void *stream)
{
    (void)context;
    return run(index, dst, src, bytes, cudaMemcpyDeviceToHost, stream);
}

static tern_status_t on_device(void *context, int index, void *dst, const void *src, int64_t bytes,
                               void *stream)
{
    (void)context;
    return run(index, dst, src, bytes, cudaMemcpyDeviceToDevice, stream);
}

const tern_backend_copy cuda_copy_table = { .size = sizeof cuda_copy_table,
                                            .from_host = from_host,
                                            .to_host = to_host,
                                            .on_device = on_device };
