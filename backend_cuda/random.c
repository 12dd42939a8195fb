/* rand, randn, randint, bernoulli, randperm, dropout and its gradient. */
#include <math.h>
#include <stdlib.h>

#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"
#include "core/philox.h"

static cudaError_t launch_rand(const tern_call *call, void *data, cudaStream_t stream)
{
    const tern_attr_random *attr = call->attr;
    const tern_view *out = call->out[0];
    return cuda_launch_rand(data, out->dtype, attr->seed, attr->call, out->numel, stream);
}

tern_status_t cuda_rand(const tern_call *call)
{
    return cuda_make(call, launch_rand, "rand");
}

static cudaError_t launch_randn(const tern_call *call, void *data, cudaStream_t stream)
{
    const tern_attr_random *attr = call->attr;
    const tern_view *out = call->out[0];
    return cuda_launch_randn(data, out->dtype, attr->seed, attr->call, out->numel, stream);
}

tern_status_t cuda_randn(const tern_call *call)
{
    return cuda_make(call, launch_randn, "randn");
}

tern_status_t cuda_bernoulli(const tern_call *call)
{
    cudaStream_t stream = NULL;
    cuda_fault_slot *slot = NULL;
    const tern_attr_random *attr = call->attr;
    const tern_view *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter_noting(call, &stream, &slot));
    return cuda_launched(call,
                         cuda_launch_bernoulli(out->data, call->in[0]->data, out->dtype, attr->seed,
                                               attr->call, out->numel, slot, stream),
                         "bernoulli");
}

/* Made as i64, then converted. */
tern_status_t cuda_randint(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_attr_randint *attr = call->attr;
    const tern_view *out = call->out[0];
    const bool direct = out->dtype == TERN_I64 && (out->flags & TERN_VIEW_CONTIGUOUS);
    if (out->numel == 0)
        return TERN_OK;
    int64_t *data = direct ? out->data : cuda_scratch(call, out->numel * (int64_t)sizeof *data);
    if (data == NULL)
        return TERN_ERR_OOM;
    CUDA_TRY(cuda_enter(call, &stream));
    CUDA_TRY(cuda_launched(call,
                           cuda_launch_randint(data, attr->draw.seed, attr->draw.call, attr->low,
                                               attr->range, out->numel, stream),
                           "randint"));
    tern_view numbers = *out;
    numbers.dtype = TERN_I64;
    return direct ? TERN_OK : cuda_from_row_major(call, &numbers, out, data);
}

static double scale_of(const tern_attr_dropout *attr)
{
    return attr->p < 1.0 ? 1.0 / (1.0 - attr->p) : 0.0;
}

tern_status_t cuda_dropout(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_attr_dropout *attr = call->attr;
    const tern_view *x = call->in[0];
    if (x->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call,
                         cuda_launch_dropout(call->out[0]->data, call->out[1]->data, x->data,
                                             x->dtype, attr->seed, attr->call,
                                             (int32_t)ceil(attr->p * 0x1p24), scale_of(attr),
                                             x->numel, stream),
                         "dropout");
}

tern_status_t cuda_dropout_grad(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *grad = call->in[0];
    if (grad->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call,
                         cuda_launch_dropout_grad(call->out[0]->data, grad->data, call->in[1]->data,
                                                  grad->dtype, scale_of(call->attr), grad->numel,
                                                  stream),
                         "dropout_grad");
}

/* ---- randperm: each step of the shuffle depends on the one before, so the host makes it ---------- */

__extension__ typedef unsigned __int128 uint128;

/* Fisher-Yates from the end, as docs/design/random.md says. */
static void shuffle(int64_t *order, int64_t n, const tern_attr_random *attr)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t lanes[4];
        core_philox(attr->seed, attr->call, (uint64_t)i / 2, lanes);
        const uint32_t *half = lanes + 2 * (i % 2);
        const uint64_t draw = (uint64_t)half[1] << 32 | half[0];
        const int64_t other = (int64_t)((uint128)draw * (uint64_t)(i + 1) >> 64);
        const int64_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

tern_status_t cuda_randperm(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *out = call->out[0];
    const size_t bytes = (size_t)out->numel * sizeof(int64_t);
    if (out->numel == 0)
        return TERN_OK;
    int64_t *order = malloc(bytes);
    if (order == NULL)
        return call->host->fail(TERN_ERR_OOM, "no host memory for %zu bytes", bytes);
    shuffle(order, out->numel, call->attr);
    void *there = cuda_scratch(call, (int64_t)bytes);
    tern_status_t code = there != NULL ? cuda_enter(call, &stream) : TERN_ERR_OOM;
    if (code == TERN_OK)
        code = cuda_check(call->dev.index,
                          cudaMemcpyAsync(there, order, bytes, cudaMemcpyHostToDevice, stream),
                          "cudaMemcpyAsync");
    if (code == TERN_OK)
        code = cuda_source_read(call->dev.index, order, stream);
    free(order);
    if (code != TERN_OK)
        return code;
    tern_view numbers = *out;
    numbers.dtype = TERN_I64;
    return cuda_from_row_major(call, &numbers, out, there);
}
