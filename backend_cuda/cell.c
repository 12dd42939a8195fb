/* lstm_cell, gru_cell and their gradients. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

typedef cudaError_t (*launcher)(const cuda_cell_args *a, cudaStream_t stream);

/* Operand `plain` is [N, H]. */
static tern_status_t run(const tern_call *call, int plain, launcher launch, const char *name)
{
    cudaStream_t stream = NULL;
    const tern_view *v = call->in[plain];
    cuda_cell_args a = { .dtype = v->dtype, .n = v->shape[0], .size = v->shape[1] };
    if (v->numel == 0)
        return TERN_OK;
    for (int k = 0; k < call->n_in; k++)
        a.at[k] = call->in[k]->data;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, launch(&a, stream), name);
}

tern_status_t cuda_lstm_cell(const tern_call *call)
{
    return run(call, 2, cuda_launch_lstm_cell, "lstm_cell");
}

tern_status_t cuda_lstm_cell_grad(const tern_call *call)
{
    return run(call, 1, cuda_launch_lstm_cell_grad, "lstm_cell_grad");
}

tern_status_t cuda_gru_cell(const tern_call *call)
{
    return run(call, 2, cuda_launch_gru_cell, "gru_cell");
}

tern_status_t cuda_gru_cell_grad(const tern_call *call)
{
    return run(call, 1, cuda_launch_gru_cell_grad, "gru_cell_grad");
}
