/* Matrix products: the plan of gemm_route.c carried out. Both libraries run single-threaded on
 * blocks that this file hands to the host's team. That is 1 to 1.5 times as fast as their own
 * splitting for the shapes of small networks (64x128x784 NT, two threads, Zen 5: 457 GFLOP/s
 * against oneDNN's 344 and OpenBLAS's 338), leaves one thread pool in the process, and lets a busy
 * machine run all blocks on one thread without another result. */
#include "backend_cpu/bridge/bridge_private.h"

#include <limits.h>
#include <string.h>

#if TERN_HAVE_BLAS
#include <cblas.h>
#endif
#if TERN_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t element_bytes(const cpu_gemm_call *call)
{
    return call->dtype == CPU_BLAS_F64 ? 8 : call->dtype == CPU_BLAS_F32 ? 4 : 2;
}

#if TERN_HAVE_BLAS
static bool run_openblas(const cpu_gemm_call *call, const gemm_block *g)
{
    CBLAS_TRANSPOSE ta = call->trans_a ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE tb = call->trans_b ? CblasTrans : CblasNoTrans;
    int m = (int)g->m;
    int n = (int)g->n;
    int k = (int)g->k;
    int lda = (int)call->lda;
    int ldb = (int)call->ldb;
    int ldc = (int)call->ldc;
    if (call->dtype == CPU_BLAS_F64)
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, (const double *)(const void *)g->a, lda,
                    (const double *)(const void *)g->b, ldb, g->beta, (double *)(void *)g->c, ldc);
    else
        cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, (const float *)(const void *)g->a, lda,
                    (const float *)(const void *)g->b, ldb, (float)g->beta, (float *)(void *)g->c,
                    ldc);
    return true;
}
#else
static bool run_openblas(const cpu_gemm_call *call, const gemm_block *g)
{
    (void)call;
    (void)g;
    return false;
}
#endif

#if TERN_HAVE_ONEDNN
static bool run_onednn(const cpu_gemm_call *call, const gemm_block *g)
{
    return dnnl_sgemm(call->trans_a ? 'T' : 'N', call->trans_b ? 'T' : 'N', g->m, g->n, g->k, 1,
                      (const float *)(const void *)g->a, call->lda,
                      (const float *)(const void *)g->b, call->ldb, (float)g->beta,
                      (float *)(void *)g->c, call->ldc) == dnnl_success;
}
#else
static bool run_onednn(const cpu_gemm_call *call, const gemm_block *g)
{
    (void)call;
    (void)g;
    return false;
}
#endif

static bool run_call(const cpu_gemm_call *call, const gemm_plan *plan, const gemm_block *g)
{
    if (plan->way == GEMM_MATMUL)
        return bridge_matmul(call, g);
    /* oneDNN fails before it writes, when it finds no memory to pack into. */
    return (plan->way == GEMM_ONEDNN && run_onednn(call, g)) || run_openblas(call, g);
}

/* The tiles of a block, sums in order of k. */
static bool run_block(const cpu_gemm_call *call, const gemm_plan *plan, const gemm_block *block)
{
    int64_t bytes = element_bytes(call);
    int64_t a_row = call->trans_a ? 1 : call->lda;
    int64_t a_column = call->trans_a ? call->lda : 1;
    int64_t b_row = call->trans_b ? 1 : call->ldb;
    int64_t b_column = call->trans_b ? call->ldb : 1;
    bool ok = true;
    for (int64_t p = 0; p < call->k; p += plan->tile_k) {
        for (int64_t j = 0; j < block->n; j += plan->tile_n) {
            for (int64_t i = 0; i < block->m && ok; i += plan->tile_m) {
                gemm_block tile = { smaller(plan->tile_m, block->m - i),
                                    smaller(plan->tile_n, block->n - j),
                                    smaller(plan->tile_k, call->k - p),
                                    block->a + bytes * (i * a_row + p * a_column),
                                    block->b + bytes * (p * b_row + j * b_column),
                                    block->c + bytes * (i * call->ldc + j),
                                    block->bias,
                                    p > 0 ? 1 : block->beta };
                ok = run_call(call, plan, &tile);
            }
        }
    }
    return ok;
}

/* Block `index` of the grid. */
static bool run_cell(const cpu_gemm_call *call, const gemm_plan *plan, int64_t index)
{
    int64_t bytes = element_bytes(call);
    int64_t row = index / plan->grid_n * plan->block_m;
    int64_t column = index % plan->grid_n * plan->block_n;
    gemm_block block;
    block.m = smaller(plan->block_m, call->m - row);
    block.n = smaller(plan->block_n, call->n - column);
    block.k = call->k;
    block.beta = call->beta;
    block.bias = call->bias ? (const char *)call->bias + bytes * column : NULL;
    block.a = (const char *)call->a + bytes * row * (call->trans_a ? 1 : call->lda);
    block.b = (const char *)call->b + bytes * column * (call->trans_b ? call->ldb : 1);
    block.c = (char *)call->c + bytes * (row * call->ldc + column);
    return run_block(call, plan, &block);
}

typedef struct gemm_work {
    const cpu_gemm_call *call;
    gemm_plan plan;
    int failed;
} gemm_work;

/* A part is a block. */
static void run_part(void *context, int64_t part)
{
    gemm_work *work = context;
    /* Outside a team OpenBLAS's OpenMP variant goes by OpenMP's number, not by its own. */
    int saved = bridge_threads_begin(1);
    if (!run_cell(work->call, &work->plan, part))
        __atomic_store_n(&work->failed, 1, __ATOMIC_RELAXED);
    bridge_threads_end(saved);
}

static void scale_output(const cpu_gemm_call *call)
{
    for (int64_t i = 0; i < call->m; i++)
        for (int64_t j = 0; j < call->n; j++) {
            if (call->dtype == CPU_BLAS_F64) {
                double *c = (double *)call->c + i * call->ldc + j;
                *c = call->beta == 0 ? 0 : call->beta * *c;
            } else {
                float *c = (float *)call->c + i * call->ldc + j;
                *c = call->beta == 0 ? 0 : (float)call->beta * *c;
            }
        }
}

static bool fits_int(const cpu_gemm_call *call)
{
    return call->m <= INT_MAX && call->n <= INT_MAX && call->k <= INT_MAX && call->lda <= INT_MAX &&
           call->ldb <= INT_MAX && call->ldc <= INT_MAX;
}

cpu_blas_status bridge_gemm(const cpu_gemm_call *call)
{
    if (call->m <= 0 || call->n <= 0)
        return CPU_BLAS_OK;
    gemm_work work = { call, gemm_plan_for(call), 0 };
    gemm_way way = work.plan.way;
    bool is_half = way == GEMM_MATMUL;
    if (way == GEMM_NONE || (way != GEMM_ONEDNN && !is_half && !fits_int(call)) ||
        (is_half && (call->k <= 0 || call->beta != 0)))
        return CPU_BLAS_UNSUPPORTED;
    if (call->k <= 0) {
        scale_output(call);
        return CPU_BLAS_OK;
    }
    bridge_run_parts(work.plan.parts, run_part, &work);
    return work.failed ? CPU_BLAS_FAILED : CPU_BLAS_OK;
}

const char *bridge_gemm_route(const cpu_gemm_call *call, int64_t *out_parts)
{
    static const char *const names[] = { "none", "openblas", "openblas", "onednn", "onednn" };
    gemm_plan plan = gemm_plan_for(call);
    if (out_parts)
        *out_parts = plan.parts;
    return names[plan.way];
}
