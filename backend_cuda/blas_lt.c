/* Products by cuBLASLt: with the bias in the same pass, or with a say in how k may be split.
 * What its heuristic finds is kept by shape, with the descriptors; that costs more than a small
 * product. */
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/blas.h"

enum { MOST_ALIGNMENT = 256 };

/* What the choice of an algorithm depends on; compared as bytes. */
typedef struct key {
    int64_t m, n, k, batch, lda, ldb, ldc, stride_a, stride_b, stride_c;
    uint32_t alignment[4]; /* of a, b, c, bias (0: none) */
    int32_t type, compute, op_a, op_b;
    uint32_t reductions, reserved;
} key;

struct cuda_lt_entry {
    key key;
    bool usable; /* false: there is no algorithm */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
};

/* ---- keys ------------------------------------------------------------------------------------ */

static uint32_t alignment_of(const void *data)
{
    const uintptr_t bit = (uintptr_t)data & -(uintptr_t)data;
    return bit == 0 || bit > MOST_ALIGNMENT ? MOST_ALIGNMENT : (uint32_t)bit;
}

static uint32_t reductions_of(const cuda_blas_plan *p)
{
    if (!p->split)
        return CUBLASLT_REDUCTION_SCHEME_NONE;
    return p->reduce_half ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

static key key_of(const cuda_blas_plan *p)
{
    key k;
    memset(&k, 0, sizeof k);
    k.m = p->m;
    k.n = p->n;
    k.k = p->k;
    k.batch = p->batch;
    k.lda = p->a.ld;
    k.ldb = p->b.ld;
    k.ldc = p->ldc;
    k.stride_a = p->a.stride;
    k.stride_b = p->b.stride;
    k.stride_c = p->c_stride;
    k.alignment[0] = alignment_of(p->a.data);
    k.alignment[1] = alignment_of(p->b.data);
    k.alignment[2] = alignment_of(p->c);
    k.alignment[3] = p->bias != NULL ? alignment_of(p->bias) : 0;
    k.type = (int32_t)p->type;
    k.compute = (int32_t)p->compute;
    k.op_a = (int32_t)p->a.op;
    k.op_b = (int32_t)p->b.op;
    k.reductions = reductions_of(p);
    return k;
}

/* FNV-1a */
static size_t place_of(const key *k)
{
    const unsigned char *bytes = (const unsigned char *)k;
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < sizeof *k; i++)
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return (size_t)(hash >> 32) % CUDA_LT_CACHED;
}

/* ---- entries --------------------------------------------------------------------------------- */

static void drop(const cuda_lt_calls *lt, cuda_lt_entry *e)
{
    if (e == NULL)
        return;
    if (e->product != NULL)
        (void)lt->cublasLtMatmulDescDestroy(e->product);
    cublasLtMatrixLayout_t layouts[] = { e->a, e->b, e->c };
    for (int i = 0; i < 3; i++)
        if (layouts[i] != NULL)
            (void)lt->cublasLtMatrixLayoutDestroy(layouts[i]);
    free(e);
}

#define LT_TRY(call)                              \
    do {                                          \
        const cublasStatus_t lt_status_ = (call); \
        if (lt_status_ != CUBLAS_STATUS_SUCCESS)  \
            return lt_status_;                    \
    } while (0)

static cublasStatus_t make_layout(const cuda_lt_calls *lt, cudaDataType type, int64_t rows,
                                  int64_t columns, int64_t ld, int64_t stride, int64_t batch,
                                  cublasLtMatrixLayout_t *out)
{
    const int32_t count = (int32_t)batch;
    LT_TRY(lt->cublasLtMatrixLayoutCreate(out, type, (uint64_t)rows, (uint64_t)columns, ld));
    if (batch == 1)
        return CUBLAS_STATUS_SUCCESS;
    LT_TRY(lt->cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                sizeof count));
    return lt->cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                &stride, sizeof stride);
}

static cublasStatus_t make_layouts(const cuda_lt_calls *lt, cuda_lt_entry *e,
                                   const cuda_blas_plan *p)
{
    const bool ta = p->a.op != CUBLAS_OP_N, tb = p->b.op != CUBLAS_OP_N;
    LT_TRY(make_layout(lt, p->type, ta ? p->k : p->m, ta ? p->m : p->k, p->a.ld, p->a.stride,
                       p->batch, &e->a));
    LT_TRY(make_layout(lt, p->type, tb ? p->n : p->k, tb ? p->k : p->n, p->b.ld, p->b.stride,
                       p->batch, &e->b));
    return make_layout(lt, p->type, p->m, p->n, p->ldc, p->c_stride, p->batch, &e->c);
}

static cublasStatus_t set_bias(const cuda_lt_calls *lt, const cuda_lt_entry *e, const void *bias)
{
    return lt->cublasLtMatmulDescSetAttribute(e->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                              sizeof bias);
}

static cublasStatus_t make_product(const cuda_lt_calls *lt, cuda_lt_entry *e,
                                   const cuda_blas_plan *p)
{
    const int32_t op_a = (int32_t)p->a.op, op_b = (int32_t)p->b.op;
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    LT_TRY(lt->cublasLtMatmulDescCreate(&e->product, p->compute, p->scale_type));
    LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->product, CUBLASLT_MATMUL_DESC_TRANSA, &op_a,
                                              sizeof op_a));
    LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->product, CUBLASLT_MATMUL_DESC_TRANSB, &op_b,
                                              sizeof op_b));
    if (p->bias == NULL)
        return CUBLAS_STATUS_SUCCESS;
    LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                              sizeof epilogue));
    return set_bias(lt, e, p->bias); /* the heuristic looks at its alignment */
}

static cublasStatus_t set_preference(const cuda_lt_calls *lt, cublasLtMatmulPreference_t want,
                                     const key *k, uint64_t workspace)
{
    static const cublasLtMatmulPreferenceAttributes_t sides[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
    };
    LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute(want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &workspace, sizeof workspace));
    LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute(
        want, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &k->reductions, sizeof k->reductions));
    for (int i = 0; i < 4; i++) {
        const uint32_t *alignment = &k->alignment[i < 2 ? i : 2];
        LT_TRY(
            lt->cublasLtMatmulPreferenceSetAttribute(want, sides[i], alignment, sizeof *alignment));
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* "Impossible configuration" for cublasLtMatmul: cuBLAS may have the product. */
static bool refuses(cublasStatus_t status)
{
    return cuda_blas_refuses(status) || status == CUBLAS_STATUS_INVALID_VALUE;
}

/* Asks the library; an entry without an algorithm is no failure. */
static cublasStatus_t choose(const cuda_lt_calls *lt, cuda_blas *b, cuda_lt_entry *e)
{
    int count = 0;
    cublasLtMatmulPreference_t want = NULL;
    cublasLtMatmulHeuristicResult_t result;
    memset(&result, 0, sizeof result);
    LT_TRY(lt->cublasLtMatmulPreferenceCreate(&want));
    cublasStatus_t status = set_preference(lt, want, &e->key, (uint64_t)b->workspace_bytes);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lt->cublasLtMatmulAlgoGetHeuristic(b->lt, e->product, e->a, e->b, e->c, e->c, want,
                                                    1, &result, &count);
    (void)lt->cublasLtMatmulPreferenceDestroy(want);
    e->usable = status == CUBLAS_STATUS_SUCCESS && count > 0 && result.state == status;
    e->algo = result.algo;
    return refuses(status) ? CUBLAS_STATUS_SUCCESS : status;
}

static cublasStatus_t make_entry(const cuda_lt_calls *lt, cuda_blas *b, const cuda_blas_plan *p,
                                 cuda_lt_entry *e)
{
    LT_TRY(make_layouts(lt, e, p));
    LT_TRY(make_product(lt, e, p));
    return choose(lt, b, e);
}

/* The entry of the product, made where there is none. */
static tern_status_t find(const cuda_lt_calls *lt, cuda_blas *b, const cuda_blas_plan *p,
                          cuda_lt_entry **out)
{
    const key k = key_of(p);
    cuda_lt_entry **place = &b->cached[place_of(&k)];
    *out = *place;
    if (*place != NULL && memcmp(&(*place)->key, &k, sizeof k) == 0)
        return TERN_OK;
    cuda_lt_entry *e = calloc(1, sizeof *e);
    if (e == NULL)
        return cuda_host->fail(TERN_ERR_OOM, "no host memory for a description of a product");
    e->key = k;
    const tern_status_t status =
        cuda_blas_check(b->index, make_entry(lt, b, p, e), "cublasLtMatmulAlgoGetHeuristic");
    if (status != TERN_OK) {
        drop(lt, e);
        return status;
    }
    drop(lt, *place);
    *out = *place = e;
    return TERN_OK;
}

/* ---- products -------------------------------------------------------------------------------- */

static cublasStatus_t run(const cuda_lt_calls *lt, cuda_blas *b, const cuda_blas_plan *p,
                          const cuda_lt_entry *e)
{
    const cuda_blas_scale alpha = cuda_blas_scale_of(p->scale_type, true);
    const cuda_blas_scale beta = cuda_blas_scale_of(p->scale_type, p->bias_apart);
    if (p->bias != NULL)
        LT_TRY(set_bias(lt, e, p->bias));
    return lt->cublasLtMatmul(b->lt, e->product, &alpha, p->a.data, e->a, p->b.data, e->b, &beta,
                              p->c, e->c, p->c, e->c, &e->algo, b->workspace,
                              (size_t)b->workspace_bytes, b->stream);
}

tern_status_t cuda_lt_multiply(cuda_blas *b, const cuda_blas_plan *p, bool *out_done)
{
    cuda_lt_entry *e = NULL;
    const cuda_lt_calls *lt = cuda_lt_open();
    *out_done = false;
    if (lt == NULL || p->batch > INT32_MAX)
        return TERN_OK;
    if (b->lt == NULL)
        CUDA_TRY(cuda_blas_check(b->index, lt->cublasLtCreate(&b->lt), "cublasLtCreate"));
    CUDA_TRY(find(lt, b, p, &e));
    if (!e->usable)
        return TERN_OK;
    const cublasStatus_t status = run(lt, b, p, e);
    *out_done = !refuses(status);
    return *out_done ? cuda_blas_check(b->index, status, "cublasLtMatmul") : TERN_OK;
}
