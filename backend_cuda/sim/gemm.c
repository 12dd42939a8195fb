/* Matrix products of simulated libraries: plain loops with the sums that cuBLAS promises (f32
 * for half types and f32), and what it may do beyond when it is allowed to: inputs rounded to
 * TF32, sums in f16, partial sums in the half type. So a wrong flag shows in results. */
#include "backend_cuda/sim/gemm.h"

#include <sim_half.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPLIT_FROM = 256 }; /* of k, where reduced sums are allowed */

static int64_t type_bytes(cudaDataType type)
{
    switch (type) {
    case CUDA_R_64F:
        return 8;
    case CUDA_R_32F:
        return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    }
    return 0;
}

double sim_gemm_scale(cublasComputeType_t compute, const void *host)
{
    if (compute == CUBLAS_COMPUTE_64F)
        return *(const double *)host;
    if (compute == CUBLAS_COMPUTE_16F)
        return sim_half_to_float(*(const uint16_t *)host);
    return *(const float *)host;
}

bool sim_gemm_types_fit(cublasComputeType_t compute, cudaDataType a, cudaDataType b, cudaDataType d)
{
    const bool half = a == CUDA_R_16F || a == CUDA_R_16BF;
    if (a != b)
        return false;
    switch (compute) {
    case CUBLAS_COMPUTE_16F:
        return a == CUDA_R_16F && d == a;
    case CUBLAS_COMPUTE_32F:
        return (a == CUDA_R_32F || half) && (d == a || d == CUDA_R_32F);
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        return a == CUDA_R_32F && d == a;
    case CUBLAS_COMPUTE_64F:
        return a == CUDA_R_64F && d == a;
    }
    return false;
}

/* ---- elements -------------------------------------------------------------------------------- */

static double get(const void *data, cudaDataType type, int64_t i)
{
    switch (type) {
    case CUDA_R_64F:
        return ((const double *)data)[i];
    case CUDA_R_32F:
        return ((const float *)data)[i];
    case CUDA_R_16F:
        return sim_half_to_float(((const uint16_t *)data)[i]);
    case CUDA_R_16BF:
        break;
    }
    return sim_bf16_to_float(((const uint16_t *)data)[i]);
}

static void put(void *data, cudaDataType type, int64_t i, double x)
{
    if (type == CUDA_R_64F)
        ((double *)data)[i] = x;
    else if (type == CUDA_R_32F)
        ((float *)data)[i] = (float)x;
    else if (type == CUDA_R_16F)
        ((uint16_t *)data)[i] = sim_float_to_half((float)x);
    else
        ((uint16_t *)data)[i] = sim_float_to_bf16((float)x);
}

static float rounded(float x, cudaDataType type)
{
    if (type == CUDA_R_16F)
        return sim_half_to_float(sim_float_to_half(x));
    return type == CUDA_R_16BF ? sim_bf16_to_float(sim_float_to_bf16(x)) : x;
}

/* To 10 bits of mantissa, the nearest, ties away from zero. */
static float to_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7F800000u) == 0x7F800000u)
        return x;
    bits = (bits + 0x1000u) & ~0x1FFFu;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* sum += left[m][from .. to] right[from .. to][n], row-major, in the order of k */
#define DEFINE_ADD(name, T)                                                                  \
    static void name(const sim_gemm *g, T *sum, const T *left, const T *right, int64_t from, \
                     int64_t to)                                                             \
    {                                                                                        \
        for (int64_t i = 0; i < g->m; i++)                                                   \
            for (int64_t p = from; p < to; p++)                                              \
                for (int64_t j = 0; j < g->n; j++)                                           \
                    sum[i * g->n + j] += left[i * g->k + p] * right[p * g->n + j];           \
    }
DEFINE_ADD(add_f32, float)
DEFINE_ADD(add_f64, double)

static void add_f16(const sim_gemm *g, float *sum, const float *left, const float *right)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t p = 0; p < g->k; p++)
            for (int64_t j = 0; j < g->n; j++) {
                float *at = &sum[i * g->n + j];
                *at = rounded(*at + left[i * g->k + p] * right[p * g->n + j], CUDA_R_16F);
            }
}

static void add_halves(const sim_gemm *g, float *sum, const float *left, const float *right)
{
    const int64_t middle = g->k / 2, count = g->m * g->n;
    float *second = calloc((size_t)count, sizeof *second);
    if (second == NULL)
        return;
    add_f32(g, sum, left, right, 0, middle);
    add_f32(g, second, left, right, middle, g->k);
    for (int64_t i = 0; i < count; i++)
        sum[i] = rounded(sum[i], g->d.type) + rounded(second[i], g->d.type);
    free(second);
}

/* ---- one product ----------------------------------------------------------------------------- */

/* Row-major op(x), `across` elements in a row, as the computation sees them. */
static void *pack(const sim_gemm *g, const sim_matrix *x, int64_t batch, int64_t down,
                  int64_t across)
{
    const bool wide = g->compute == CUBLAS_COMPUTE_64F;
    char *packed = calloc((size_t)(down * across) + 1, wide ? sizeof(double) : sizeof(float));
    for (int64_t i = 0; packed != NULL && i < down; i++)
        for (int64_t j = 0; j < across; j++) {
            const int64_t at = x->transposed ? i * x->ld + j : j * x->ld + i;
            const double value = get(x->data, x->type, batch * x->stride + at);
            if (wide)
                ((double *)(void *)packed)[i * across + j] = value;
            else
                ((float *)(void *)packed)[i * across + j] =
                    g->compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? to_tf32((float)value)
                                                               : (float)value;
        }
    return packed;
}

static void store(const sim_gemm *g, int64_t batch, const void *sums)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const int64_t at = i * g->n + j, c = batch * g->c.stride + j * g->c.ld + i;
            double x = g->alpha * (g->compute == CUBLAS_COMPUTE_64F ? ((const double *)sums)[at]
                                                                    : ((const float *)sums)[at]);
            if (g->beta != 0)
                x += g->beta * get(g->c.data, g->c.type, c);
            if (g->bias != NULL)
                x += get(g->bias, g->d.type, i);
            put((void *)(uintptr_t)g->d.data, g->d.type, batch * g->d.stride + j * g->d.ld + i, x);
        }
}

static void add(const sim_gemm *g, void *sums, const void *left, const void *right)
{
    const bool half = g->d.type == CUDA_R_16F || g->d.type == CUDA_R_16BF;
    if (g->compute == CUBLAS_COMPUTE_64F)
        add_f64(g, sums, left, right, 0, g->k);
    else if (g->compute == CUBLAS_COMPUTE_16F)
        add_f16(g, sums, left, right);
    else if (half && g->reduced && g->k >= SPLIT_FROM)
        add_halves(g, sums, left, right);
    else
        add_f32(g, sums, left, right, 0, g->k);
}

static void run(void *arguments)
{
    const sim_gemm *g = arguments;
    for (int64_t b = 0; b < g->batch; b++) {
        void *left = pack(g, &g->a, b, g->m, g->k), *right = pack(g, &g->b, b, g->k, g->n);
        void *sums = calloc((size_t)(g->m * g->n), sizeof(double));
        if (left != NULL && right != NULL && sums != NULL) {
            add(g, sums, left, right);
            store(g, b, sums);
        }
        free(left);
        free(right);
        free(sums);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool ld_fits(const sim_matrix *x, int64_t down, int64_t across, const char *name,
                    const char *call)
{
    const int64_t least = x->transposed ? across : down;
    if (x->ld >= (least > 1 ? least : 1))
        return true;
    sim_report(cudaErrorInvalidValue, "%s: ld%s is %lld, and %lld elements follow each other", call,
               name, (long long)x->ld, (long long)least);
    return false;
}

cublasStatus_t sim_gemm_check(const sim_gemm *g, const char *call)
{
    if (g->m < 0 || g->n < 0 || g->k < 0 || g->batch < 0) {
        sim_report(cudaErrorInvalidValue, "%s: a size is negative", call);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!ld_fits(&g->a, g->m, g->k, "a", call) || !ld_fits(&g->b, g->k, g->n, "b", call) ||
        !ld_fits(&g->c, g->m, g->n, "c", call) || !ld_fits(&g->d, g->m, g->n, "d", call))
        return CUBLAS_STATUS_INVALID_VALUE;
    const sim_matrix *const all[] = { &g->a, &g->b, &g->d };
    for (int i = 0; i < 3; i++)
        if ((uintptr_t)all[i]->data % (uintptr_t)type_bytes(all[i]->type) != 0) {
            sim_report(cudaErrorInvalidValue, "%s: matrix %c is misaligned", call, "ABD"[i]);
            return CUBLAS_STATUS_INVALID_VALUE;
        }
    return CUBLAS_STATUS_SUCCESS;
}

/* Bytes from the first element of the batch to its last. */
static size_t span(const sim_matrix *x, int64_t down, int64_t across, int64_t batch)
{
    const int64_t rows = x->transposed ? across : down, columns = x->transposed ? down : across;
    if (rows == 0 || columns == 0 || batch == 0)
        return 0;
    const int64_t last = (batch - 1) * x->stride + (columns - 1) * x->ld + rows;
    return (size_t)(last * type_bytes(x->type));
}

/* What it touches; false: a race was reported. */
static bool use(sim_op *op, sim_gemm *g)
{
    void *at = NULL;
    const size_t bias = (size_t)(g->m * type_bytes(g->d.type));
    if (!sim_work_use(op, "matrix A", g->a.data, span(&g->a, g->m, g->k, g->batch), false, &at))
        return false;
    g->a.data = at;
    if (!sim_work_use(op, "matrix B", g->b.data, span(&g->b, g->k, g->n, g->batch), false, &at))
        return false;
    g->b.data = at;
    if (g->beta != 0 &&
        !sim_work_use(op, "matrix C", g->c.data, span(&g->c, g->m, g->n, g->batch), false, &at))
        return false;
    g->c.data = at;
    if (g->bias != NULL && !sim_work_use(op, "the bias", g->bias, bias, false, &at))
        return false;
    g->bias = g->bias != NULL ? at : NULL;
    if (!sim_work_use(op, "the result", g->d.data, span(&g->d, g->m, g->n, g->batch), true, &at))
        return false;
    g->d.data = at;
    return true;
}

static _Thread_local char refused[1024];

const char *cublasGetStatusString(cublasStatus_t status)
{
    static _Thread_local char said[sizeof refused];
    (void)snprintf(said, sizeof said, "%s",
                   status == CUBLAS_STATUS_EXECUTION_FAILED ? refused : "");
    refused[0] = '\0';
    return said;
}

cublasStatus_t sim_gemm_submit(const sim_gemm *g, const char *call, cudaStream_t stream,
                               void *workspace, size_t workspace_bytes)
{
    void *arguments = NULL, *at = NULL;
    refused[0] = '\0';
    if (g->m == 0 || g->n == 0 || g->batch == 0)
        return CUBLAS_STATUS_SUCCESS;
    sim_op *op = sim_work_new(stream, call, run, sizeof *g, &arguments);
    if (op == NULL)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    memcpy(arguments, g, sizeof *g);
    if (!use(op, arguments) ||
        !sim_work_use(op, "the workspace", workspace, workspace_bytes, true, &at)) {
        (void)snprintf(refused, sizeof refused, "%s", sim_last_report());
        sim_work_cancel(op);
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    sim_work_submit(op);
    return CUBLAS_STATUS_SUCCESS;
}
