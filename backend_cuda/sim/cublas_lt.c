/* The calls of cuBLASLt that the backend makes. Descriptors are plain structs in the library's
 * opaque ones; the one algorithm wants the alignment and the workspace that the preference
 * promised it, and products that do not keep the promise are refused, as with the real library. */
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/sim/gemm.h"

struct cublasLtContext {
    int device;
};

typedef struct layout {
    cudaDataType type;
    int32_t batch;
    int64_t rows, columns, ld, stride;
} layout;
_Static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "a layout fits");

typedef struct description {
    cublasComputeType_t compute;
    cudaDataType scale;
    int32_t transa, transb;
    uint32_t epilogue;
    const void *bias;
} description;
_Static_assert(sizeof(description) <= sizeof(cublasLtMatmulDescOpaque_t), "a description fits");

typedef struct preference {
    uint64_t workspace;
    uint32_t reductions;
    uint32_t alignment[4]; /* of A, B, C, D */
} preference;
_Static_assert(sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "a preference fits");

typedef struct algorithm {
    uint64_t mark;
    uint64_t workspace;
    uint32_t alignment[4], reductions;
} algorithm;
_Static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm fits");

enum { MARK = 0x7E41, WANTED_ALIGNMENT = 16, WANTED_WORKSPACE = 1 << 20 };

static cublasStatus_t begin(const char *call)
{
    return (cublasStatus_t)sim_begin(call);
}

static cublasStatus_t end(cublasStatus_t status)
{
    (void)sim_end(cudaSuccess);
    return status;
}

/* ---- things that are made and destroyed ------------------------------------------------------ */

/* The size of the opaque struct, zero. */
static cublasStatus_t make(const char *call, void **out, size_t bytes)
{
    cublasStatus_t status = begin(call);
    if (status == CUBLAS_STATUS_SUCCESS && out == NULL)
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == CUBLAS_STATUS_SUCCESS) {
        *out = calloc(1, bytes);
        status = *out != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
    }
    return end(status);
}

static cublasStatus_t destroy(const char *call, void *made)
{
    const cublasStatus_t status = begin(call);
    if (status == CUBLAS_STATUS_SUCCESS)
        free(made);
    return end(status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *lightHandle)
{
    if (sim_config.devices == 0)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    void *made = NULL;
    const cublasStatus_t status = make("cublasLtCreate", &made, sizeof **lightHandle);
    if (status == CUBLAS_STATUS_SUCCESS) {
        *lightHandle = made;
        (*lightHandle)->device = sim_current_device();
    }
    return status;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle)
{
    return destroy("cublasLtDestroy", lightHandle);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    void *made = NULL;
    const cublasStatus_t status = make("cublasLtMatrixLayoutCreate", &made, sizeof **matLayout);
    if (status == CUBLAS_STATUS_SUCCESS) {
        *(layout *)made = (layout){ type, 1, (int64_t)rows, (int64_t)cols, ld, 0 };
        *matLayout = made;
    }
    return status;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout)
{
    return destroy("cublasLtMatrixLayoutDestroy", matLayout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc,
                                        cublasComputeType_t computeType, cudaDataType_t scaleType)
{
    void *made = NULL;
    const cublasStatus_t status = make("cublasLtMatmulDescCreate", &made, sizeof **matmulDesc);
    if (status == CUBLAS_STATUS_SUCCESS) {
        *(description *)made = (description){ .compute = computeType,
                                              .scale = scaleType,
                                              .epilogue = CUBLASLT_EPILOGUE_DEFAULT };
        *matmulDesc = made;
    }
    return status;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc)
{
    return destroy("cublasLtMatmulDescDestroy", matmulDesc);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
    void *made = NULL;
    const cublasStatus_t status = make("cublasLtMatmulPreferenceCreate", &made, sizeof **pref);
    if (status == CUBLAS_STATUS_SUCCESS) {
        *(preference *)made =
            (preference){ 0, CUBLASLT_REDUCTION_SCHEME_MASK, { 256, 256, 256, 256 } };
        *pref = made;
    }
    return status;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    return destroy("cublasLtMatmulPreferenceDestroy", pref);
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* member NULL: an attribute that the simulator does not have. */
static cublasStatus_t set(const char *call, void *member, size_t bytes, const void *buf,
                          size_t given)
{
    cublasStatus_t status = begin(call);
    if (status == CUBLAS_STATUS_SUCCESS && (member == NULL || buf == NULL || bytes != given))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == CUBLAS_STATUS_SUCCESS)
        memcpy(member, buf, bytes);
    return end(status);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matLayout,
                                                cublasLtMatrixLayoutAttribute_t attr,
                                                const void *buf, size_t sizeInBytes)
{
    const char *call = "cublasLtMatrixLayoutSetAttribute";
    layout *l = (layout *)(void *)matLayout;
    if (attr == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        return set(call, &l->batch, sizeof l->batch, buf, sizeInBytes);
    return set(call, attr == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET ? &l->stride : NULL,
               sizeof l->stride, buf, sizeInBytes);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc,
                                              cublasLtMatmulDescAttributes_t attr, const void *buf,
                                              size_t sizeInBytes)
{
    const char *call = "cublasLtMatmulDescSetAttribute";
    description *d = (description *)(void *)matmulDesc;
    switch (attr) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(call, &d->transa, sizeof d->transa, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(call, &d->transb, sizeof d->transb, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(call, &d->epilogue, sizeof d->epilogue, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(call, &d->bias, sizeof d->bias, buf, sizeInBytes);
    }
    return set(call, NULL, 0, buf, sizeInBytes);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void *buf, size_t sizeInBytes)
{
    const char *call = "cublasLtMatmulPreferenceSetAttribute";
    preference *p = (preference *)(void *)pref;
    const int side = (int)attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (attr == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return set(call, &p->workspace, sizeof p->workspace, buf, sizeInBytes);
    if (attr == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return set(call, &p->reductions, sizeof p->reductions, buf, sizeInBytes);
    return set(call, side >= 0 && side < 4 ? &p->alignment[side] : NULL, sizeof *p->alignment, buf,
               sizeInBytes);
}

/* ---- products -------------------------------------------------------------------------------- */

static sim_matrix matrix_of(const layout *l, const void *data, bool transposed)
{
    return (sim_matrix){ data, l->type, transposed, l->ld, l->stride };
}

/* The sizes of op(A) op(B) = D; INVALID_VALUE where they differ. */
static cublasStatus_t fill(sim_gemm *g, const description *d, const layout *a, const layout *b,
                           const layout *c, const layout *out)
{
    g->m = d->transa ? a->columns : a->rows;
    g->k = d->transa ? a->rows : a->columns;
    g->n = d->transb ? b->rows : b->columns;
    g->batch = out->batch;
    g->compute = d->compute;
    const bool fits = (d->transb ? b->columns : b->rows) == g->k && out->rows == g->m &&
                      out->columns == g->n && c->rows == g->m && c->columns == g->n &&
                      a->batch == out->batch && b->batch == out->batch && c->batch == out->batch;
    return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static cudaDataType scale_of(cublasComputeType_t compute)
{
    return compute == CUBLAS_COMPUTE_64F   ? CUDA_R_64F
           : compute == CUBLAS_COMPUTE_16F ? CUDA_R_16F
                                           : CUDA_R_32F;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static cublasStatus_t choose(const description *d, const layout *a, const layout *b,
                             const layout *c, const layout *out, const preference *p,
                             cublasLtMatmulHeuristicResult_t *result)
{
    sim_gemm g = { 0 };
    const cublasStatus_t status = fill(&g, d, a, b, c, out);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (!sim_gemm_types_fit(d->compute, a->type, b->type, out->type) ||
        d->scale != scale_of(d->compute) || c->type != out->type)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    algorithm chosen = { .mark = MARK, .reductions = p->reductions };
    chosen.workspace = p->workspace < WANTED_WORKSPACE ? p->workspace : WANTED_WORKSPACE;
    for (int i = 0; i < 4; i++)
        chosen.alignment[i] = lesser(p->alignment[i], WANTED_ALIGNMENT);
    *result = (cublasLtMatmulHeuristicResult_t){ .workspaceSize = chosen.workspace,
                                                 .state = CUBLAS_STATUS_SUCCESS,
                                                 .wavesCount = 1 };
    memcpy(&result->algo, &chosen, sizeof chosen);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc,
    cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    cublasLtMatmulPreference_t preferences, int requestedAlgoCount,
    cublasLtMatmulHeuristicResult_t heuristicResultsArray[], int *returnAlgoCount)
{
    cublasStatus_t status = begin("cublasLtMatmulAlgoGetHeuristic");
    if (status == CUBLAS_STATUS_SUCCESS && lightHandle == NULL)
        status = CUBLAS_STATUS_NOT_INITIALIZED;
    if (status == CUBLAS_STATUS_SUCCESS &&
        (requestedAlgoCount < 1 || heuristicResultsArray == NULL || returnAlgoCount == NULL ||
         operationDesc == NULL || preferences == NULL))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = choose((const void *)operationDesc, (const void *)Adesc, (const void *)Bdesc,
                        (const void *)Cdesc, (const void *)Ddesc, (const void *)preferences,
                        heuristicResultsArray);
        *returnAlgoCount = status == CUBLAS_STATUS_SUCCESS;
    }
    return end(status);
}

/* Is what the algorithm was promised so? */
static cublasStatus_t check_promise(const algorithm *chosen, const void *const data[4],
                                    const void *workspace, size_t bytes)
{
    if (chosen->mark != MARK)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)data[i] % chosen->alignment[i] != 0) {
            sim_report(
                cudaErrorInvalidValue,
                "cublasLtMatmul: matrix %c is not aligned to %u bytes, as the algorithm wants "
                "it",
                "ABCD"[i], chosen -> alignment[i]);
            return CUBLAS_STATUS_NOT_SUPPORTED;
        }
    if (bytes >= chosen->workspace && (uintptr_t)workspace % 256 == 0)
        return CUBLAS_STATUS_SUCCESS;
    sim_report(cudaErrorInvalidValue, "cublasLtMatmul: %llu bytes of workspace are wanted, at 256",
               (unsigned long long)chosen->workspace);
    return CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t check_bias(const description *d)
{
    if (d->epilogue == CUBLASLT_EPILOGUE_DEFAULT)
        return CUBLAS_STATUS_SUCCESS;
    return d->epilogue == CUBLASLT_EPILOGUE_BIAS && d->bias != NULL ? CUBLAS_STATUS_SUCCESS
                                                                    : CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t check_place(cublasLtHandle_t handle, cudaStream_t stream)
{
    const struct CUstream_st *s = sim_stream_of(stream);
    return handle != NULL && s != NULL && s->device == handle->device &&
                   sim_current_device() == handle->device
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc,
                              const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc,
                              const void *B, cublasLtMatrixLayout_t Bdesc, const void *beta,
                              const void *C, cublasLtMatrixLayout_t Cdesc, void *D,
                              cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspaceSizeInBytes, cudaStream_t stream)
{
    const char *call = "cublasLtMatmul";
    sim_gemm g = { 0 };
    algorithm chosen = { 0 };
    const description *d = (const void *)computeDesc;
    const layout *a = (const void *)Adesc, *b = (const void *)Bdesc, *c = (const void *)Cdesc,
                 *out = (const void *)Ddesc;
    cublasStatus_t status = begin(call);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = check_place(lightHandle, stream);
    if (status == CUBLAS_STATUS_SUCCESS && (algo == NULL || alpha == NULL || beta == NULL))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == CUBLAS_STATUS_SUCCESS) {
        memcpy(&chosen, algo, sizeof chosen);
        status = check_promise(&chosen, (const void *[4]){ A, B, C, D }, workspace,
                               workspaceSizeInBytes);
    }
    if (status == CUBLAS_STATUS_SUCCESS)
        status = check_bias(d);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = fill(&g, d, a, b, c, out);
    if (status == CUBLAS_STATUS_SUCCESS) {
        g.a = matrix_of(a, A, d->transa != CUBLAS_OP_N);
        g.b = matrix_of(b, B, d->transb != CUBLAS_OP_N);
        g.c = matrix_of(c, C, false);
        g.d = matrix_of(out, D, false);
        g.bias = d->epilogue == CUBLASLT_EPILOGUE_BIAS ? d->bias : NULL;
        g.alpha = sim_gemm_scale(g.compute, alpha);
        g.beta = sim_gemm_scale(g.compute, beta);
        g.reduced = (chosen.reductions & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) != 0;
        status = sim_gemm_check(&g, call);
    }
    if (status == CUBLAS_STATUS_SUCCESS)
        status = sim_gemm_submit(&g, call, stream, workspace, (size_t)chosen.workspace);
    return end(status);
}

#define FUNCTION(name)              \
    {                               \
#name, (void (*)(void))name \
    }
const sim_function sim_cublaslt_functions[] = { FUNCTION(cublasLtCreate),
                                                FUNCTION(cublasLtDestroy),
                                                FUNCTION(cublasLtMatrixLayoutCreate),
                                                FUNCTION(cublasLtMatrixLayoutDestroy),
                                                FUNCTION(cublasLtMatrixLayoutSetAttribute),
                                                FUNCTION(cublasLtMatmulDescCreate),
                                                FUNCTION(cublasLtMatmulDescDestroy),
                                                FUNCTION(cublasLtMatmulDescSetAttribute),
                                                FUNCTION(cublasLtMatmulPreferenceCreate),
                                                FUNCTION(cublasLtMatmulPreferenceDestroy),
                                                FUNCTION(cublasLtMatmulPreferenceSetAttribute),
                                                FUNCTION(cublasLtMatmulAlgoGetHeuristic),
                                                FUNCTION(cublasLtMatmul),
                                                { NULL, NULL } };
