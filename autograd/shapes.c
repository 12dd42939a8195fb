/* Ops of a user's own: what their backward functions return must look like the inputs, or like what these
 * were broadcast to. A node of such an op
 * has the shape of input 0, as others have, and behind its attributes those of the other inputs that need a
 * gradient. */
#include "autograd/running.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/rules.h"
#include "tern/ops.h"

typedef struct input_shape {
    uint32_t dev; /* core_dev_word */
    uint8_t input, dtype, ndim;
    int64_t dims[];
} input_shape;

_Static_assert((CORE_MAX_INPUTS - 1) * (sizeof(input_shape) + TERN_MAX_DIMS * sizeof(int64_t)) ==
                   AUTOGRAD_MOST_SHAPES,
               "of all inputs but the first");

static size_t size_of(int ndim)
{
    return sizeof(input_shape) + (size_t)ndim * sizeof(int64_t);
}

size_t autograd_shapes_bytes(const core_call *call)
{
    size_t bytes = 0;
    for (int i = 1; i < call->n_in; i++)
        if (call->in[i] != NULL && call->in[i]->requires_grad)
            bytes += size_of(call->in[i]->view.ndim);
    return bytes;
}

void autograd_shapes_fill(const core_call *call, char *to)
{
    for (int i = 1; i < call->n_in; i++) {
        if (call->in[i] == NULL || !call->in[i]->requires_grad)
            continue;
        const tern_view *v = &call->in[i]->view;
        input_shape *shape = (input_shape *)(void *)to;
        shape->dev = core_dev_word(v->dev);
        shape->input = (uint8_t)i;
        shape->dtype = v->dtype;
        shape->ndim = v->ndim;
        memcpy(shape->dims, v->shape, sizeof *shape->dims * v->ndim);
        to += size_of(v->ndim);
    }
}

bool autograd_misfit(const engine *e, const core_node *node, const tern_view *grad,
                     const char *whose, const char *what, const tern_view *wanted)
{
    char a[160], b[160], c[TERN_DEV_NAME_BYTES], d[TERN_DEV_NAME_BYTES];
    core_error(e->self, node != NULL ? node->site : e->self->site, TERN_ERR_GRAD,
               node != NULL ? node->op->name : "backward",
               "%s returned a gradient %s on %s for %s %s on %s", whose,
               core_shape_text(grad->ndim, grad->shape, a, sizeof a), tern_dev_name(grad->dev, c),
               what, core_shape_text(wanted->ndim, wanted->shape, b, sizeof b),
               tern_dev_name(wanted->dev, d));
    return false;
}

/* A gradient in the shape that the input was broadcast to is summed, as PyTorch's engine does; one of another
 * dtype is cast, as leaves cast theirs. */
static bool settle(const engine *e, const core_node *node, const tern_view *wanted,
                   tern_tensor **grad)
{
    const tern_view *given = &(*grad)->view;
    const bool same = core_view_same_shape(given, wanted);
    int64_t strides[TERN_MAX_DIMS];
    if ((!same && !core_expand_strides(wanted, given->ndim, given->shape, strides)) ||
        !tern_dev_equal(given->dev, wanted->dev))
        return autograd_misfit(e, node, given, "backward", "an input", wanted);
    if (!same)
        *grad = core_sum_to(*grad, wanted);
    if (*grad != NULL && (*grad)->view.dtype != wanted->dtype)
        *grad = tern_cast(*grad, (tern_dtype_t)wanted->dtype);
    return *grad != NULL;
}

bool autograd_settle_own(const engine *e, const core_node *node, tern_tensor **grad_in)
{
    if ((node->wanted & B(0)) && grad_in[0] != NULL && node->first != NULL &&
        !settle(e, node, node->first, &grad_in[0]))
        return false;
    const char *at = autograd_shapes_of(node), *end = (const char *)node + node->bytes;
    while (at < end) {
        const input_shape *shape = (const input_shape *)(const void *)at;
        at += size_of(shape->ndim);
        if (!(node->wanted & B(shape->input)) || grad_in[shape->input] == NULL)
            continue;
        tern_view wanted = { .ndim = shape->ndim, .dtype = shape->dtype };
        wanted.numel = core_numel(shape->ndim, shape->dims);
        memcpy(&wanted.dev, &shape->dev, sizeof wanted.dev);
        memcpy(wanted.shape, shape->dims, sizeof *shape->dims * shape->ndim);
        if (!settle(e, node, &wanted, &grad_in[shape->input]))
            return false;
    }
    return true;
}
