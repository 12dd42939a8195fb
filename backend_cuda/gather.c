/* embedding, gather and their gradients. Bad indices are found by the kernels and reported at the next
 * wait. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"
#include "tern/error.h"

/* Atomics add in any order on a GPU. */
static tern_status_t check_repeatable(const tern_call *call, const char *op)
{
    const uint32_t numerics = call->host->numerics();
    if (!(numerics & TERN_NUMERICS_DETERMINISTIC))
        return TERN_OK;
    if (numerics & TERN_NUMERICS_WARN_ONLY) {
        call->host->event(TERN_LOG_WARNING, "%s has no deterministic implementation on CUDA", op);
        return TERN_OK;
    }
    return call->host->fail(
        TERN_ERR_UNSUPPORTED,
        "%s does not have a deterministic implementation on CUDA, and "
        "tern_use_deterministic_algorithms asks for one; .warn_only = true lets "
        "it run",
        op);
}

/* ---- sums of gradients ----------------------------------------------------------------------- */

/* Zeros to add into: the output, or f32 scratch for half types. NULL: recorded. */
static void *sums_of(const tern_call *call, cudaStream_t stream)
{
    const tern_view *out = call->out[0];
    const bool half = out->dtype == TERN_F16 || out->dtype == TERN_BF16;
    const int64_t bytes = out->numel * (half ? 4 : cuda_dtype_size(out->dtype));
    void *sums = half ? cuda_scratch(call, bytes) : out->data;
    if (sums == NULL)
        return NULL;
    const cudaError_t code = cudaMemsetAsync(sums, 0, (size_t)bytes, stream);
    return cuda_check(call->dev.index, code, "cudaMemsetAsync") == TERN_OK ? sums : NULL;
}

static tern_status_t finish_sums(const tern_call *call, void *sums, cudaStream_t stream)
{
    const tern_view *out = call->out[0];
    if (sums == out->data)
        return TERN_OK;
    cuda_walk_part part;
    cuda_walk_plan(2, (const tern_view *const[]){ out, out }, 0, &part);
    return cuda_launched(
        call, cuda_launch_copy(out->data, out->dtype, sums, TERN_F32, &part.walk, stream),
        "conversion of sums");
}

/* ---- embedding ------------------------------------------------------------------------------- */

tern_status_t cuda_embedding(const tern_call *call)
{
    cudaStream_t stream = NULL;
    cuda_fault_slot *slot = NULL;
    const tern_view *table = call->in[0], *indices = call->in[1], *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter_noting(call, &stream, &slot));
    return cuda_launched(
        call,
        cuda_launch_embedding(out->data, table->data, indices->data, indices->dtype,
                              table->shape[0], out->numel / indices->numel,
                              cuda_dtype_size(table->dtype), indices->numel, slot, stream),
        "embedding");
}

tern_status_t cuda_embedding_grad(const tern_call *call)
{
    cudaStream_t stream = NULL;
    cuda_fault_slot *slot = NULL;
    const tern_view *grad = call->in[0], *indices = call->in[1], *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    CUDA_TRY(check_repeatable(call, "embedding_grad"));
    CUDA_TRY(cuda_enter_noting(call, &stream, &slot));
    void *sums = sums_of(call, stream);
    if (sums == NULL)
        return TERN_ERR_OOM;
    if (grad->numel > 0)
        CUDA_TRY(cuda_launched(call,
                               cuda_launch_embedding_grad(sums, grad->data, grad->dtype,
                                                          indices->data, indices->dtype,
                                                          out->shape[0], out->numel / out->shape[0],
                                                          indices->numel, slot, stream),
                               "embedding_grad"));
    return finish_sums(call, sums, stream);
}

/* ---- gather ---------------------------------------------------------------------------------- */

/* The sparse operand as the walk sees it: the index's shape, no step along its own dimension. */
static void plan_gather(cuda_gather_args *g, cuda_walk_part *part, int dim, const tern_view *index,
                        const tern_view *dense, const tern_view *sparse)
{
    tern_view shaped = *index;
    for (int d = 0; d < index->ndim; d++)
        shaped.stride[d] = d == dim ? 0 : sparse->stride[d];
    const tern_view *const views[3] = { index, dense, &shaped };
    cuda_walk_plan(3, views, 0, part);
    g->index = index->data;
    g->walk = &part->walk;
    g->far_stride = index->ndim > 0 ? sparse->stride[dim] : 0;
    g->far_size = index->ndim > 0 ? sparse->shape[dim] : 1;
}

static tern_status_t too_large(const tern_call *call)
{
    return call->host->fail(TERN_ERR_UNSUPPORTED, "2^31 indices and more");
}

tern_status_t cuda_gather(const tern_call *call)
{
    cudaStream_t stream = NULL;
    cuda_fault_slot *slot = NULL;
    cuda_walk_part part;
    const tern_view *in = call->in[0], *index = call->in[1], *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    if (index->numel >= INT64_C(1) << 31)
        return too_large(call);
    CUDA_TRY(cuda_enter_noting(call, &stream, &slot));
    cuda_gather_args g = { .out = out->data, .in = in->data, .slot = slot };
    plan_gather(&g, &part, ((const tern_attr_dim *)call->attr)->dim, index, out, in);
    return cuda_launched(call, cuda_launch_gather(&g, cuda_dtype_size(in->dtype), stream),
                         "gather");
}

tern_status_t cuda_gather_grad(const tern_call *call)
{
    cudaStream_t stream = NULL;
    cuda_fault_slot *slot = NULL;
    cuda_walk_part part;
    const tern_view *grad = call->in[0], *index = call->in[1], *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    if (index->numel >= INT64_C(1) << 31)
        return too_large(call);
    CUDA_TRY(check_repeatable(call, "gather_grad"));
    CUDA_TRY(cuda_enter_noting(call, &stream, &slot));
    void *sums = sums_of(call, stream);
    if (sums == NULL)
        return TERN_ERR_OOM;
    cuda_gather_args g = { .out = sums, .in = grad->data, .slot = slot };
    if (grad->numel > 0) {
        plan_gather(&g, &part, ((const tern_attr_gather_grad *)call->attr)->dim, index, grad, out);
        CUDA_TRY(
            cuda_launched(call, cuda_launch_gather_grad(&g, grad->dtype, stream), "gather_grad"));
    }
    return finish_sums(call, sums, stream);
}
