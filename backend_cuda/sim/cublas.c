/* The calls of cuBLAS that the backend makes, with the checks that cuBLAS documents. A handle
 * belongs to the device that was current when it was made. */
#include <cublas_v2.h>
#include <stdlib.h>

#include "backend_cuda/sim/gemm.h"

struct cublasContext {
    int device;
    cudaStream_t stream;
    cublasMath_t mode;
    void *workspace; /* NULL: the library's own, which counts nowhere */
    size_t workspace_bytes;
};

/* Not success: the call ends with that. */
static cublasStatus_t begin(const char *call)
{
    const cudaError_t injected = sim_begin(call);
    if (injected != cudaSuccess)
        return (cublasStatus_t)injected;
    if (sim_config.devices == 0)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    return sim_devices[sim_current_device()].lost == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                 : CUBLAS_STATUS_EXECUTION_FAILED;
}

static cublasStatus_t end(cublasStatus_t status)
{
    (void)sim_end(cudaSuccess);
    return status;
}

static cublasStatus_t begin_with(const char *call, cublasHandle_t handle)
{
    const cublasStatus_t status = begin(call);
    return status == CUBLAS_STATUS_SUCCESS && handle == NULL ? CUBLAS_STATUS_NOT_INITIALIZED
                                                             : status;
}

/* ---- handles --------------------------------------------------------------------------------- */

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    cublasStatus_t status = begin("cublasCreate_v2");
    if (status == CUBLAS_STATUS_SUCCESS && handle == NULL)
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == CUBLAS_STATUS_SUCCESS && !sim_memory_for_handle(sim_current_device()))
        status = CUBLAS_STATUS_NOT_INITIALIZED;
    if (status == CUBLAS_STATUS_SUCCESS) {
        sim_signals_install();
        *handle = calloc(1, sizeof **handle);
        if (*handle != NULL)
            (*handle)->device = sim_current_device();
        else
            status = CUBLAS_STATUS_ALLOC_FAILED;
    }
    return end(status);
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    const cublasStatus_t status = begin_with("cublasDestroy_v2", handle);
    if (status == CUBLAS_STATUS_SUCCESS || status == CUBLAS_STATUS_EXECUTION_FAILED) {
        sim_memory_of_handle_ends(handle->device);
        free(handle); /* also after the device was lost */
    }
    return end(status);
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
    cublasStatus_t status = (cublasStatus_t)sim_begin("cublasGetProperty");
    static const int version[] = { CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH };
    if (status == CUBLAS_STATUS_SUCCESS && ((unsigned)type > PATCH_LEVEL || value == NULL))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == CUBLAS_STATUS_SUCCESS)
        *value = version[type];
    return end(status);
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId)
{
    const cublasStatus_t status = begin_with("cublasSetStream_v2", handle);
    if (status == CUBLAS_STATUS_SUCCESS) {
        handle->stream = streamId;
        handle->workspace = NULL;
        handle->workspace_bytes = 0;
    }
    return end(status);
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace,
                                     size_t workspaceSizeInBytes)
{
    cublasStatus_t status = begin_with("cublasSetWorkspace_v2", handle);
    if (status == CUBLAS_STATUS_SUCCESS && (uintptr_t)workspace % 256 != 0) {
        sim_report(cudaErrorInvalidValue, "cublasSetWorkspace: %p is not aligned to 256 bytes",
                   workspace);
        status = CUBLAS_STATUS_INVALID_VALUE;
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        handle->workspace = workspace;
        handle->workspace_bytes = workspaceSizeInBytes;
    }
    return end(status);
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    cublasStatus_t status = begin_with("cublasSetMathMode", handle);
    const int plain = (int)mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    if (status == CUBLAS_STATUS_SUCCESS && plain != CUBLAS_DEFAULT_MATH &&
        plain != CUBLAS_TF32_TENSOR_OP_MATH)
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == CUBLAS_STATUS_SUCCESS)
        handle->mode = mode;
    return end(status);
}

/* ---- products -------------------------------------------------------------------------------- */

static cublasStatus_t check_place(cublasHandle_t handle, const char *call)
{
    const struct CUstream_st *s = sim_stream_of(handle->stream);
    if (s != NULL && s->device == handle->device && sim_current_device() == handle->device)
        return CUBLAS_STATUS_SUCCESS;
    sim_report(cudaErrorInvalidResourceHandle,
               "%s: the handle was made on device %d, device %d is current%s", call, handle->device,
               sim_current_device(), s == NULL ? ", and its stream is none" : "");
    return CUBLAS_STATUS_EXECUTION_FAILED;
}

static cublasStatus_t product(cublasHandle_t handle, sim_gemm *g, const void *alpha,
                              const void *beta, const char *call)
{
    cublasStatus_t status = check_place(handle, call);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (!sim_gemm_types_fit(g->compute, g->a.type, g->b.type, g->d.type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (alpha == NULL || beta == NULL)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (g->compute == CUBLAS_COMPUTE_32F && g->a.type == CUDA_R_32F &&
        ((int)handle->mode & CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_TF32_TENSOR_OP_MATH)
        g->compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    g->alpha = sim_gemm_scale(g->compute, alpha);
    g->beta = sim_gemm_scale(g->compute, beta);
    g->reduced = !((int)handle->mode & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    status = sim_gemm_check(g, call);
    return status == CUBLAS_STATUS_SUCCESS
               ? sim_gemm_submit(g, call, handle->stream, handle->workspace,
                                 handle->workspace_bytes)
               : status;
}

static cublasStatus_t run(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                          sim_gemm *g, const void *alpha, const void *beta, cublasGemmAlgo_t algo,
                          const char *call)
{
    cublasStatus_t status = begin_with(call, handle);
    if (status == CUBLAS_STATUS_SUCCESS &&
        ((unsigned)transa > CUBLAS_OP_C || (unsigned)transb > CUBLAS_OP_C ||
         algo != CUBLAS_GEMM_DEFAULT))
        status = CUBLAS_STATUS_INVALID_VALUE;
    g->a.transposed = transa != CUBLAS_OP_N;
    g->b.transposed = transb != CUBLAS_OP_N;
    g->c = g->d;
    if (status == CUBLAS_STATUS_SUCCESS)
        status = product(handle, g, alpha, beta, call);
    return end(status);
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa,
                               cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                               const void *alpha, const void *A, cudaDataType Atype, int64_t lda,
                               const void *B, cudaDataType Btype, int64_t ldb, const void *beta,
                               void *C, cudaDataType Ctype, int64_t ldc,
                               cublasComputeType_t computeType, cublasGemmAlgo_t algo)
{
    sim_gemm g = { .m = m,
                   .n = n,
                   .k = k,
                   .batch = 1,
                   .a = { .data = A, .type = Atype, .ld = lda },
                   .b = { .data = B, .type = Btype, .ld = ldb },
                   .d = { .data = C, .type = Ctype, .ld = ldc },
                   .compute = computeType };
    return run(handle, transa, transb, &g, alpha, beta, algo, "cublasGemmEx_64");
}

cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int64_t m, int64_t n,
    int64_t k, const void *alpha, const void *A, cudaDataType Atype, int64_t lda,
    long long int strideA, const void *B, cudaDataType Btype, int64_t ldb, long long int strideB,
    const void *beta, void *C, cudaDataType Ctype, int64_t ldc, long long int strideC,
    int64_t batchCount, cublasComputeType_t computeType, cublasGemmAlgo_t algo)
{
    sim_gemm g = { .m = m,
                   .n = n,
                   .k = k,
                   .batch = batchCount,
                   .a = { .data = A, .type = Atype, .ld = lda, .stride = strideA },
                   .b = { .data = B, .type = Btype, .ld = ldb, .stride = strideB },
                   .d = { .data = C, .type = Ctype, .ld = ldc, .stride = strideC },
                   .compute = computeType };
    return run(handle, transa, transb, &g, alpha, beta, algo, "cublasGemmStridedBatchedEx_64");
}

#define FUNCTION(name)              \
    {                               \
#name, (void (*)(void))name \
    }
const sim_function sim_cublas_functions[] = { FUNCTION(cublasCreate_v2),
                                              FUNCTION(cublasDestroy_v2),
                                              FUNCTION(cublasGetProperty),
                                              FUNCTION(cublasGetStatusString),
                                              FUNCTION(cublasSetStream_v2),
                                              FUNCTION(cublasSetWorkspace_v2),
                                              FUNCTION(cublasSetMathMode),
                                              FUNCTION(cublasGemmEx_64),
                                              FUNCTION(cublasGemmStridedBatchedEx_64),
                                              { NULL, NULL } };
