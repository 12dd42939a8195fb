/* cross_entropy and its gradient. Bad targets are found by the kernels and reported at the next wait. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

static void set_extents(cuda_loss_args *l, const tern_view *x, const tern_attr_loss *attr)
{
    l->x = x->data;
    l->dtype = x->dtype;
    l->blocks = x->ndim > 1 ? x->shape[0] : 1;
    l->classes = x->shape[x->ndim > 1 ? 1 : 0];
    l->inner = 1;
    for (int d = 2; d < x->ndim; d++)
        l->inner *= x->shape[d];
    l->reduction = attr->reduction;
    l->smoothing = attr->label_smoothing;
    l->ignore_index = attr->ignore_index;
}

tern_status_t cuda_cross_entropy(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *weight = call->in[2];
    cuda_loss_args l = { .out = call->out[0]->data,
                         .lse = call->out[1]->data,
                         .target = call->in[1]->data,
                         .weight = weight != NULL ? weight->data : NULL };
    set_extents(&l, call->in[0], call->attr);
    const int64_t positions = l.blocks * l.inner;
    const bool separate = l.reduction == TERN_REDUCTION_NONE;
    CUDA_TRY(cuda_enter_noting(call, &stream, &l.slot));
    if (!separate) {
        l.sums = cuda_scratch(call, (2 + 2 * positions) * (int64_t)sizeof(double));
        if (l.sums == NULL)
            return TERN_ERR_OOM;
    }
    if (positions > 0)
        CUDA_TRY(cuda_launched(call, cuda_launch_loss(&l, stream), "cross_entropy"));
    if (separate)
        return TERN_OK;
    return cuda_launched(call, cuda_launch_loss_total(&l, stream), "cross_entropy's sum");
}

tern_status_t cuda_cross_entropy_grad(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *weight = call->in[3];
    cuda_loss_args l = { .out = call->out[0]->data,
                         .lse = call->in[4]->data,
                         .target = call->in[2]->data,
                         .grad = call->in[0]->data,
                         .weight = weight != NULL ? weight->data : NULL };
    if (call->out[0]->numel == 0)
        return TERN_OK;
    set_extents(&l, call->in[1], call->attr);
    CUDA_TRY(cuda_enter_noting(call, &stream, &l.slot));
    const int64_t positions = l.blocks * l.inner;
    l.sums = cuda_scratch(call, (2 + 2 * positions) * (int64_t)sizeof(double));
    if (l.sums == NULL)
        return TERN_ERR_OOM;
    l.base = l.sums + 2;
    CUDA_TRY(cuda_launched(call, cuda_launch_loss_base(&l, stream), "cross_entropy's logarithms"));
    CUDA_TRY(cuda_launched(call, cuda_launch_loss_weights(&l, stream), "cross_entropy's weights"));
    return cuda_launched(call, cuda_launch_loss_grad(&l, stream), "cross_entropy_grad");
}
