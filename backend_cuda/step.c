/* sgd_step, adam_step and their scaled rows. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

static void *data_of(const tern_call *call, int i)
{
    return i < call->n_in && call->in[i] != NULL ? call->in[i]->data : NULL;
}

/* Inputs from `scaling` on are scale, flag and count; a plain row has none. */
static tern_status_t run(const tern_call *call, int operands, bool adam, int scaling)
{
    cudaStream_t stream = NULL;
    const tern_view *const *views = call->in;
    const int64_t parts = cuda_walk_parts(operands, views);
    const int64_t size = cuda_dtype_size(views[0]->dtype);
    if (parts == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    for (int64_t i = 0; i < parts; i++) {
        cuda_walk_part part;
        cuda_walk_plan(operands, views, i, &part);
        char *at[CUDA_WALK_OPERANDS] = { NULL };
        for (int k = 0; k < operands; k++)
            at[k] = (char *)views[k]->data + part.offset[k] * size;
        const cuda_step_args s = { .p = at[0],
                                   .c = at[2],
                                   .d = at[3],
                                   .g = at[1],
                                   .dtype = views[0]->dtype,
                                   .walk = &part.walk,
                                   .scale = data_of(call, scaling),
                                   .found = data_of(call, scaling + 1),
                                   .count = data_of(call, scaling + 2) };
        const cudaError_t code = adam ? cuda_launch_adam(&s, call->attr, stream)
                                      : cuda_launch_sgd(&s, call->attr, stream);
        CUDA_TRY(cuda_launched(call, code, adam ? "adam_step" : "sgd_step"));
    }
    return TERN_OK;
}

static int sgd_operands(const tern_call *call)
{
    return call->n_in < 3 || call->in[2] == NULL ? 2 : 3;
}

tern_status_t cuda_sgd_step(const tern_call *call)
{
    return run(call, sgd_operands(call), false, call->n_in);
}

tern_status_t cuda_adam_step(const tern_call *call)
{
    return run(call, 4, true, call->n_in);
}

tern_status_t cuda_sgd_step_scaled(const tern_call *call)
{
    return run(call, sgd_operands(call), false, 3);
}

tern_status_t cuda_adam_step_scaled(const tern_call *call)
{
    return run(call, 4, true, 4);
}
