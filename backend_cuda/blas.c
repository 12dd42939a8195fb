/* Products by cuBLAS: what it takes, in which precision, and what runs where it does not. */
#include "backend_cuda/blas.h"

#include "backend_cuda/kernels.h"
#include "tern/error.h"

static tern_status_t by_own_kernel(const tern_call *call, const cuda_gemm_args *g,
                                   cudaStream_t stream, const char *name)
{
    return cuda_launched(call, cuda_launch_gemm(g, stream), name);
}

/* Every row of the result becomes the bias. */
static tern_status_t spread_bias(const tern_call *call, const cuda_gemm_args *g)
{
    const tern_view out = { .data = g->out,
                            .numel = g->batch * g->m * g->n,
                            .dtype = (uint8_t)g->dtype,
                            .ndim = 3,
                            .dev = call->dev,
                            .shape = { g->batch, g->m, g->n },
                            .stride = { g->out_stride[0], g->out_stride[1], g->out_stride[2] } };
    tern_view bias = out;
    bias.data = (void *)(uintptr_t)g->bias;
    bias.stride[0] = bias.stride[1] = 0;
    bias.stride[2] = g->bias_stride;
    tern_call copy = *call;
    copy.n_in = copy.n_out = 1;
    copy.in = (const tern_view *const[]){ &bias };
    copy.out = (const tern_view *const[]){ &out };
    return cuda_copy(&copy);
}

static cublasStatus_t set_mode(const cuda_blas_calls *blas, cuda_blas *b, const cuda_blas_plan *p)
{
    const cublasMath_t mode =
        p->reduce_half ? CUBLAS_DEFAULT_MATH : CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    if (mode == b->mode)
        return CUBLAS_STATUS_SUCCESS;
    const cublasStatus_t status = blas->cublasSetMathMode(b->handle, mode);
    if (status == CUBLAS_STATUS_SUCCESS)
        b->mode = mode;
    return status;
}

static cublasStatus_t run(const cuda_blas_calls *blas, cuda_blas *b, const cuda_blas_plan *p,
                          bool add)
{
    const cuda_blas_scale alpha = cuda_blas_scale_of(p->scale_type, true);
    const cuda_blas_scale beta = cuda_blas_scale_of(p->scale_type, add);
    const cublasStatus_t status = set_mode(blas, b, p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (p->batch == 1)
        return blas->cublasGemmEx_64(b->handle, p->a.op, p->b.op, p->m, p->n, p->k, &alpha,
                                     p->a.data, p->type, p->a.ld, p->b.data, p->type, p->b.ld,
                                     &beta, p->c, p->type, p->ldc, p->compute, CUBLAS_GEMM_DEFAULT);
    return blas->cublasGemmStridedBatchedEx_64(
        b->handle, p->a.op, p->b.op, p->m, p->n, p->k, &alpha, p->a.data, p->type, p->a.ld,
        p->a.stride, p->b.data, p->type, p->b.ld, p->b.stride, &beta, p->c, p->type, p->ldc,
        p->c_stride, p->batch, p->compute, CUBLAS_GEMM_DEFAULT);
}

static bool wants_lt(const cuda_blas_plan *p)
{
    return p->bias != NULL || !p->split;
}

/* With the handle. *out_done false: neither library has this product. */
static tern_status_t by_library(const tern_call *call, const cuda_blas_calls *blas, cuda_blas *b,
                                const cuda_gemm_args *g, const cuda_blas_plan *p, bool *out_done)
{
    *out_done = false;
    if (p->bias_apart)
        CUDA_TRY(spread_bias(call, g));
    if (wants_lt(p))
        CUDA_TRY(cuda_lt_multiply(b, p, out_done));
    if (*out_done)
        return TERN_OK;
    if (p->bias != NULL)
        CUDA_TRY(spread_bias(call, g));
    const cublasStatus_t status = run(blas, b, p, p->bias != NULL || p->bias_apart);
    *out_done = !cuda_blas_refuses(status);
    return *out_done ? cuda_blas_check(b->index, status, "cublasGemmEx") : TERN_OK;
}

/* *out_full: the libraries found no memory on the device, and queued nothing. */
static tern_status_t multiply(const tern_call *call, const cuda_blas_calls *blas,
                              cudaStream_t stream, int capability, const cuda_gemm_args *g,
                              const cuda_blas_plan *p, bool *out_done, bool *out_full)
{
    cuda_blas *b = NULL;
    *out_full = false;
    CUDA_TRY(cuda_blas_enter(call, blas, stream, capability, &b));
    const tern_status_t status = by_library(call, blas, b, g, p, out_done);
    cuda_blas_leave(b);
    *out_full = status == TERN_ERR_OOM;
    return status;
}

static void say_not_supported(const tern_call *call, const cuda_gemm_args *g, const char *name)
{
    static const char *const types[TERN_DTYPES] = {
        [TERN_F16] = "f16", [TERN_BF16] = "bf16", [TERN_F32] = "f32", [TERN_F64] = "f64"
    };
    static int said;
    if (__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED) != 0)
        return;
    call->host->event(TERN_LOG_WARNING,
                      "cuBLAS does not have this product, tern's own kernel runs it: %s, %s, "
                      "%lld x %lld x %lld (said once)",
                      name, types[g->dtype], (long long)g->m, (long long)g->n, (long long)g->k);
    cuda_return(call);
}

tern_status_t cuda_multiply(const tern_call *call, const cuda_gemm_args *g, const char *name)
{
    cudaStream_t stream = NULL;
    cuda_blas_plan plan;
    tern_status_t status = TERN_OK;
    if (g->m == 0 || g->n == 0 || g->batch == 0)
        return TERN_OK;
    const cuda_blas_calls *blas =
        cuda_blas_open(); /* first: a callback of the log may go elsewhere */
    CUDA_TRY(cuda_enter(call, &stream));
    const cuda_device *d = cuda_device_enter(call->dev.index);
    if (d == NULL || blas == NULL || !cuda_blas_plan_make(call, g, d->capability, &plan, &status))
        return by_own_kernel(call, g, stream, name);
    bool done = false, full;
    CUDA_TRY(status);
    if (wants_lt(&plan))
        (void)cuda_lt_open(); /* before a handle is locked: a callback of the log may multiply */
    status = multiply(call, blas, stream, d->capability, g, &plan, &done, &full);
    if (full) { /* kernels are loaded at their first use, which takes memory that lies in the cache */
        call->host->forget();
        cuda_make_room(call);
        status = multiply(call, blas, stream, d->capability, g, &plan, &done, &full);
    }
    CUDA_TRY(status);
    if (done)
        return cuda_launched(call, cudaSuccess, name);
    say_not_supported(call, g, name);
    return by_own_kernel(call, g, stream, name);
}
