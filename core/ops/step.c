/* One optimizer step of one parameter: public entry points of sgd_step and adam_step.
 *
 * Nothing is recorded: the rows have no backward. The parameter may require a gradient. */
#include "core/call.h"
#include "core/error.h"

tern_status_t tern_sgd_step_at(tern_site_t site, tern_tensor *p, tern_tensor *grad,
                               tern_tensor *buffer, const tern_attr_sgd *options)
{
    tern_thread *self = core_self();
    tern_tensor *in[] = { p, grad, buffer };
    if (options == NULL)
        return core_error(self, site, TERN_ERR_ARGUMENT, "sgd_step", "the options are NULL");
    if (options->momentum != 0 && buffer == NULL)
        return core_error(self, site, TERN_ERR_ARGUMENT, "sgd_step",
                          "a momentum of %g needs a buffer", options->momentum);
    tern_attr_sgd attr = *options;
    if (options->momentum == 0)
        in[2] = NULL;
    return core_opn(TERN_OP_sgd_step, site, &attr, 3, in, 0, NULL)
               ? TERN_OK
               : (tern_status_t)self->error_code;
}

tern_status_t tern_adam_step_at(tern_site_t site, tern_tensor *p, tern_tensor *grad, tern_tensor *m,
                                tern_tensor *v, const tern_attr_adam *options)
{
    tern_thread *self = core_self();
    tern_tensor *in[] = { p, grad, m, v };
    if (options == NULL || options->step < 1)
        return core_error(self, site, TERN_ERR_ARGUMENT, "adam_step",
                          "options are needed, and steps count from 1");
    tern_attr_adam attr = *options;
    return core_opn(TERN_OP_adam_step, site, &attr, 4, in, 0, NULL)
               ? TERN_OK
               : (tern_status_t)self->error_code;
}
