/* Handles of cuBLAS: one per device and stream, so that workspaces never meet, and results
 * repeat. */
#include <stdlib.h>

#include "backend_cuda/blas.h"

static cuda_blas *list;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

/* ":4096:2:16:8": sizes in KiB, each with how many. -1: not understood. */
static int64_t parse_config(const char *text)
{
    int64_t bytes = 0;
    while (*text == ':') {
        char *end;
        const long long kib = strtoll(text + 1, &end, 10);
        if (end == text + 1 || *end != ':')
            return -1;
        text = end;
        const long long count = strtoll(text + 1, &end, 10);
        if (end == text + 1 || kib < 0 || count < 0 || kib > 1 << 22 || count > 1 << 10)
            return -1;
        text = end;
        bytes += (int64_t)kib * 1024 * count;
    }
    return *text == '\0' && bytes > 0 ? bytes : -1;
}

int64_t cuda_blas_workspace_bytes(int capability)
{
    const char *config = getenv("CUBLAS_WORKSPACE_CONFIG");
    const int64_t wanted = config != NULL ? parse_config(config) : -1;
    if (wanted >= 0)
        return wanted;
    return capability / 10 == 9 || capability / 10 == 10 ? (int64_t)32 << 20
                                                         : 2 * 4096 * 1024 + 8 * 16 * 1024;
}

/* With the list's lock. *out_full: it failed, maybe for want of memory of the device, which cuBLAS says in
 * two ways. */
static tern_status_t make(int index, const cuda_blas_calls *blas, cudaStream_t stream,
                          bool *out_full, cuda_blas **out)
{
    cuda_blas *b = calloc(1, sizeof *b);
    if (b == NULL)
        return cuda_host->fail(TERN_ERR_OOM, "no host memory for a handle of cuBLAS");
    const cublasStatus_t made = blas->cublasCreate_v2(&b->handle);
    tern_status_t status = cuda_blas_check(index, made, "cublasCreate");
    *out_full = made == CUBLAS_STATUS_NOT_INITIALIZED || made == CUBLAS_STATUS_ALLOC_FAILED;
    if (status == TERN_OK) {
        status =
            cuda_blas_check(index, blas->cublasSetStream_v2(b->handle, stream), "cublasSetStream");
        if (status != TERN_OK)
            (void)blas->cublasDestroy_v2(b->handle);
    }
    if (status != TERN_OK) {
        free(b);
        return status;
    }
    (void)pthread_mutex_init(&b->lock, NULL);
    b->index = index;
    b->stream = stream;
    b->mode = CUBLAS_DEFAULT_MATH;
    b->next = list;
    list = b;
    *out = b;
    return TERN_OK;
}

static tern_status_t find(int index, const cuda_blas_calls *blas, cudaStream_t stream,
                          bool *out_full, cuda_blas **out)
{
    tern_status_t status = TERN_OK;
    *out_full = false;
    (void)pthread_mutex_lock(&list_lock);
    *out = list;
    while (*out != NULL && ((*out)->index != index || (*out)->stream != stream))
        *out = (*out)->next;
    if (*out == NULL)
        status = make(index, blas, stream, out_full, out);
    (void)pthread_mutex_unlock(&list_lock);
    return status;
}

static tern_status_t set_workspace(const cuda_blas_calls *blas, cuda_blas *b, void *workspace,
                                   int64_t bytes)
{
    if (workspace == b->workspace && bytes == b->workspace_bytes)
        return TERN_OK;
    b->workspace = NULL;
    CUDA_TRY(cuda_blas_check(b->index,
                             blas->cublasSetWorkspace_v2(b->handle, workspace, (size_t)bytes),
                             "cublasSetWorkspace"));
    b->workspace = workspace;
    b->workspace_bytes = bytes;
    return TERN_OK;
}

tern_status_t cuda_blas_enter(const tern_call *call, const cuda_blas_calls *blas,
                              cudaStream_t stream, int capability, cuda_blas **out)
{
    /* asked for each time, since the user may have cleared it; and before any lock is held,
     * since running out of memory calls the user */
    const int64_t bytes = cuda_blas_workspace_bytes(capability);
    void *workspace = call->host->workspace(call, bytes);
    if (workspace == NULL)
        return TERN_ERR_OOM;
    if (cuda_device_enter(call->dev.index) == NULL) /* the user may have left it */
        return TERN_ERR_BACKEND;
    bool full;
    tern_status_t status = find(call->dev.index, blas, stream, &full, out);
    if (full) {
        call->host->forget();
        cuda_make_room(call);
        status = find(call->dev.index, blas, stream, &full, out);
    }
    if (status != TERN_OK)
        return status;
    (void)pthread_mutex_lock(&(*out)->lock);
    status = set_workspace(blas, *out, workspace, bytes);
    if (status != TERN_OK)
        cuda_blas_leave(*out);
    return status;
}

void cuda_blas_leave(cuda_blas *b)
{
    (void)pthread_mutex_unlock(&b->lock);
}
