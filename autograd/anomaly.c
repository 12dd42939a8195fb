/* Anomaly mode: the first NaN of a backward is an error at the op that made it. */
#include "autograd/engine.h"
#include "core/autocast.h"
#include "tern/ops.h"

bool tern_anomaly_enabled(void)
{
    return core_self()->anomaly;
}

bool tern_set_anomaly(bool on)
{
    tern_thread *self = core_self();
    const bool previous = self->anomaly;
    self->anomaly = on;
    return previous;
}

/* How many elements are NaN; nothing of the count is recorded or cast. */
static int64_t count_nan(tern_thread *self, tern_tensor *t)
{
    const bool grad_mode = self->grad_mode;
    self->grad_mode = false;
    const int64_t count = tern_item_int(tern_sum(tern_ne(t, t)));
    self->grad_mode = grad_mode;
    return count;
}

/* The site is the forward call's. */
static bool report(tern_thread *self, const core_node *node, int input, const tern_tensor *grad,
                   int64_t bad)
{
    char shape[160], name[CORE_OPERAND_BYTES];
    core_error(self, node->site, TERN_ERR_GRAD, node->op->name,
               "backward made NaN of the gradient of %s, in %lld of the elements of %s %s\n"
               "  this is the line of the forward call, whose inputs are worth a look",
               core_operand_name(node->op, input, name), (long long)bad,
               tern_dtype_name((tern_dtype_t)grad->view.dtype),
               core_shape_text(grad->view.ndim, grad->view.shape, shape, sizeof shape));
    return false;
}

bool autograd_check_anomaly(tern_thread *self, const core_node *node, tern_tensor *const *grad_in)
{
    for (int i = 0; i < node->n_in; i++) {
        if (grad_in[i] == NULL || self->error_code != TERN_OK)
            continue;
        const int64_t bad = count_nan(self, grad_in[i]);
        if (bad > 0)
            return report(self, node, i, grad_in[i], bad);
    }
    return self->error_code == TERN_OK;
}
