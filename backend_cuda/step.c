/* The optimizers' steps and their scaled rows. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

typedef enum step_kind { STEP_SGD, STEP_ADAM, STEP_RMSPROP, STEP_ADAGRAD, STEP_LION } step_kind;

static const char *const names[] = { "sgd_step", "adam_step", "rmsprop_step", "adagrad_step",
                                     "lion_step" };

static void *data_of(const tern_call *call, int i)
{
    return i < call->n_in && call->in[i] != NULL ? call->in[i]->data : NULL;
}

static cudaError_t launch(const tern_call *call, step_kind kind, const cuda_step_args *s,
                          cudaStream_t stream)
{
    switch (kind) {
    case STEP_SGD:
        return cuda_launch_sgd(s, call->attr, stream);
    case STEP_ADAM:
        return cuda_launch_adam(s, call->attr, stream);
    case STEP_RMSPROP:
        return cuda_launch_rmsprop(s, call->attr, call->in[3] != NULL, call->in[4] != NULL, stream);
    case STEP_ADAGRAD:
        return cuda_launch_adagrad(s, call->attr, stream);
    case STEP_LION:
        break;
    }
    return cuda_launch_lion(s, call->attr, stream);
}

/* `inputs`: parameter, gradient and state, some of which may be left out. A scaled row's last three inputs
 * are scale, flag and count. */
static tern_status_t run(const tern_call *call, step_kind kind, int inputs)
{
    cudaStream_t stream = NULL;
    const tern_view *views[CUDA_WALK_OPERANDS];
    int operands = 0;
    for (int k = 0; k < inputs && k < call->n_in; k++)
        if (call->in[k] != NULL)
            views[operands++] = call->in[k];
    const int64_t parts = cuda_walk_parts(operands, views);
    const int64_t size = cuda_dtype_size(views[0]->dtype);
    if (parts == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    for (int64_t i = 0; i < parts; i++) {
        cuda_walk_part part;
        cuda_walk_plan(operands, views, i, &part);
        cuda_step_args s = { .dtype = views[0]->dtype,
                             .walk = &part.walk,
                             .scale = data_of(call, inputs),
                             .found = data_of(call, inputs + 1),
                             .count = data_of(call, inputs + 2) };
        for (int k = 0; k < operands; k++)
            s.at[k] = (char *)views[k]->data + part.offset[k] * size;
        CUDA_TRY(cuda_launched(call, launch(call, kind, &s, stream), names[kind]));
    }
    return TERN_OK;
}

#define STEP(name, kind, inputs)                                   \
    tern_status_t cuda_##name##_step(const tern_call *call)        \
    {                                                              \
        return run(call, kind, inputs);                            \
    }                                                              \
    tern_status_t cuda_##name##_step_scaled(const tern_call *call) \
    {                                                              \
        return run(call, kind, inputs);                            \
    }

STEP(sgd, STEP_SGD, 3)
STEP(adam, STEP_ADAM, 4)
STEP(rmsprop, STEP_RMSPROP, 5)
STEP(adagrad, STEP_ADAGRAD, 3)
STEP(lion, STEP_LION, 3)
