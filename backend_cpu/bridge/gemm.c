/* Matrix products: the plan of gemm_route.c carried out. Both libraries run single-threaded on
 * blocks that this file hands to an OpenMP team. That is 1 to 1.5 times as fast as their own
 * splitting for the shapes of small networks (64x128x784 NT, two threads, Zen 5: 457 GFLOP/s
 * against oneDNN's 344 and OpenBLAS's 338) and leaves one thread pool in the process. */
#include "backend_cpu/bridge/bridge_private.h"

#include <limits.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif
#if TERN_HAVE_BLAS
#include <cblas.h>
#endif
#if TERN_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

/* One block of one product: sizes and where it begins. */
typedef struct gemm_block {
    int64_t m, n;
    const char *a;
    const char *b;
    char *c;
} gemm_block;

static int64_t element_bytes(const cpu_gemm_call *call)
{
    return call->dtype == CPU_BLAS_F64 ? 8 : 4;
}

#if TERN_HAVE_BLAS
static bool run_openblas(const cpu_gemm_call *call, const gemm_block *g)
{
    CBLAS_TRANSPOSE ta = call->trans_a ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE tb = call->trans_b ? CblasTrans : CblasNoTrans;
    int m = (int)g->m;
    int n = (int)g->n;
    int k = (int)call->k;
    int lda = (int)call->lda;
    int ldb = (int)call->ldb;
    int ldc = (int)call->ldc;
    if (call->dtype == CPU_BLAS_F64)
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, call->alpha, (const double *)(const void *)g->a,
                    lda, (const double *)(const void *)g->b, ldb, call->beta,
                    (double *)(void *)g->c, ldc);
    else
        cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, (float)call->alpha,
                    (const float *)(const void *)g->a, lda, (const float *)(const void *)g->b, ldb,
                    (float)call->beta, (float *)(void *)g->c, ldc);
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
    return dnnl_sgemm(call->trans_a ? 'T' : 'N', call->trans_b ? 'T' : 'N', g->m, g->n, call->k,
                      (float)call->alpha, (const float *)(const void *)g->a, call->lda,
                      (const float *)(const void *)g->b, call->ldb, (float)call->beta,
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

static bool run_block(const cpu_gemm_call *call, const gemm_plan *plan, gemm_block block)
{
    int64_t bytes = element_bytes(call);
    int64_t step_a = plan->piece_m * (call->trans_a ? 1 : call->lda) * bytes;
    int64_t step_c = plan->piece_m * call->ldc * bytes;
    bool ok = true;
    for (int64_t left = block.m; left > 0 && ok; left -= plan->piece_m) {
        block.m = left < plan->piece_m ? left : plan->piece_m;
        /* oneDNN fails before it writes, when it finds no memory to pack into. */
        ok = (plan->library == GEMM_ONEDNN && run_onednn(call, &block)) || run_openblas(call, &block);
        block.a += step_a;
        block.c += step_c;
    }
    return ok;
}

/* Block `index` of the grid, of product `item` of the batch. */
static bool run_part(const cpu_gemm_call *call, const gemm_plan *plan, int64_t item, int index)
{
    int64_t bytes = element_bytes(call);
    int64_t row = index / plan->grid_n * plan->block_m;
    int64_t column = index % plan->grid_n * plan->block_n;
    gemm_block block;
    block.m = call->m - row < plan->block_m ? call->m - row : plan->block_m;
    block.n = call->n - column < plan->block_n ? call->n - column : plan->block_n;
    block.a = (const char *)call->a +
              bytes * (item * call->stride_a + row * (call->trans_a ? 1 : call->lda));
    block.b = (const char *)call->b +
              bytes * (item * call->stride_b + column * (call->trans_b ? call->ldb : 1));
    block.c = (char *)call->c + bytes * (item * call->stride_c + row * call->ldc + column);
    return run_block(call, plan, block);
}

static bool run_alone(const cpu_gemm_call *call, const gemm_plan *plan)
{
    int saved = bridge_threads_begin(plan->inner_threads);
    int64_t batch = call->batch > 1 ? call->batch : 1;
    bool ok = true;
    for (int64_t i = 0; i < batch && ok; i++)
        ok = run_part(call, plan, i, 0);
    bridge_threads_end(saved);
    return ok;
}

#ifdef _OPENMP
/* Every thread takes a fixed share, products of the batch or blocks of the grid. */
static bool run_team(const cpu_gemm_call *call, const gemm_plan *plan)
{
    unsigned modes = bridge_modes_get();
    int64_t batch = call->batch > 1 ? call->batch : 1;
    int blocks = plan->grid_m * plan->grid_n;
    int64_t parts = batch * blocks;
    int failed = 0;
#pragma omp parallel num_threads(plan->threads) reduction(+ : failed)
    {
        unsigned saved = bridge_modes_swap(modes);
        int64_t me = omp_get_thread_num();
        int64_t team = omp_get_num_threads();
        for (int64_t p = parts * me / team; p < parts * (me + 1) / team; p++)
            failed += !run_part(call, plan, p / blocks, (int)(p % blocks));
        bridge_modes_swap(saved);
    }
    return failed == 0;
}
#else
static bool run_team(const cpu_gemm_call *call, const gemm_plan *plan)
{
    return run_alone(call, plan);
}
#endif

static void scale_output(const cpu_gemm_call *call)
{
    int64_t batch = call->batch > 1 ? call->batch : 1;
    for (int64_t i = 0; i < batch * call->m; i++) {
        int64_t at = i / call->m * call->stride_c + i % call->m * call->ldc;
        for (int64_t j = 0; j < call->n; j++) {
            if (call->dtype == CPU_BLAS_F64) {
                double *c = (double *)call->c + at + j;
                *c = call->beta == 0 ? 0 : call->beta * *c;
            } else {
                float *c = (float *)call->c + at + j;
                *c = call->beta == 0 ? 0 : (float)call->beta * *c;
            }
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
    gemm_plan plan = gemm_plan_for(call);
    if (plan.library == GEMM_NONE || (plan.library == GEMM_OPENBLAS && !fits_int(call)))
        return CPU_BLAS_UNSUPPORTED;
    if (call->k <= 0) {
        scale_output(call);
        return CPU_BLAS_OK;
    }
    bool alone = plan.threads == 1 || plan.inner_threads > 1;
    bool ok = alone ? run_alone(call, &plan) : run_team(call, &plan);
    return ok ? CPU_BLAS_OK : CPU_BLAS_FAILED;
}

const char *bridge_gemm_route(const cpu_gemm_call *call, int *out_threads)
{
    static const char *const names[] = {"none", "openblas", "onednn"};
    gemm_plan plan = gemm_plan_for(call);
    if (out_threads)
        *out_threads = plan.threads;
    return names[plan.library];
}
