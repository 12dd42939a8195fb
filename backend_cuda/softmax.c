/* softmax, log_softmax and their gradients. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

typedef cudaError_t (*launch_fn)(const cuda_softmax_args *s, cudaStream_t stream);

static tern_status_t run(const tern_call *call, launch_fn launch, bool logarithm, const char *name)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[0];
    const int dim = ((const tern_attr_dim *)call->attr)->dim;
    if (x->numel == 0)
        return TERN_OK;
    cuda_softmax_args s = { .out = call->out[0]->data,
                            .x = x->data,
                            .y = call->n_in > 1 ? call->in[1]->data : NULL,
                            .dtype = x->dtype,
                            .logarithm = logarithm,
                            .n = x->ndim > 0 ? x->shape[dim] : 1,
                            .inner = 1 };
    for (int d = dim + 1; d < x->ndim; d++)
        s.inner *= x->shape[d];
    s.outer = x->numel / (s.n * s.inner);
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, launch(&s, stream), name);
}

tern_status_t cuda_softmax(const tern_call *call)
{
    return run(call, cuda_launch_softmax, false, "softmax");
}

tern_status_t cuda_log_softmax(const tern_call *call)
{
    return run(call, cuda_launch_softmax, true, "log_softmax");
}

tern_status_t cuda_softmax_grad(const tern_call *call)
{
    return run(call, cuda_launch_softmax_grad, false, "softmax_grad");
}

tern_status_t cuda_log_softmax_grad(const tern_call *call)
{
    return run(call, cuda_launch_softmax_grad, true, "log_softmax_grad");
}
