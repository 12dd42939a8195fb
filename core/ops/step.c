/* One optimizer step of one parameter: kernels that write their inputs. */
#include "core/call.h"
#include "core/error.h"

static tern_status_t step(tern_op_id id, tern_site_t site, const void *options, size_t bytes, int n,
                          tern_tensor *const *in)
{
    tern_thread *self = core_self();
    union {
        tern_attr_sgd sgd;
        tern_attr_adam adam;
    } attr;
    tern_tensor **none = NULL;
    if (options == NULL)
        return core_error(self, core_site(self, site), TERN_ERR_ARGUMENT, core_op_table[id].name,
                          "the options are NULL");
    memcpy(&attr, options, bytes);
    return core_opn(id, site, &attr, n, in, 0, &none) ? TERN_OK : (tern_status_t)self->error_code;
}

tern_status_t tern_sgd_step_at(tern_site_t site, tern_tensor *p, tern_tensor *grad,
                               tern_tensor *buffer, const tern_attr_sgd *options)
{
    return step(TERN_OP_sgd_step, site, options, sizeof *options, 3,
                (tern_tensor *[]){ p, grad, buffer });
}

tern_status_t tern_adam_step_at(tern_site_t site, tern_tensor *p, tern_tensor *grad, tern_tensor *m,
                                tern_tensor *v, const tern_attr_adam *options)
{
    return step(TERN_OP_adam_step, site, options, sizeof *options, 4,
                (tern_tensor *[]){ p, grad, m, v });
}

tern_status_t tern_sgd_step_scaled_at(tern_site_t site, tern_tensor *p, tern_tensor *grad,
                                      tern_tensor *buffer, const tern_step_scaling *scaling,
                                      const tern_attr_sgd *options)
{
    const tern_step_scaling s = scaling != NULL ? *scaling : (tern_step_scaling){ .scale = NULL };
    return step(TERN_OP_sgd_step_scaled, site, options, sizeof *options, 6,
                (tern_tensor *[]){ p, grad, buffer, s.scale, s.found, s.count });
}

tern_status_t tern_adam_step_scaled_at(tern_site_t site, tern_tensor *p, tern_tensor *grad,
                                       tern_tensor *m, tern_tensor *v,
                                       const tern_step_scaling *scaling,
                                       const tern_attr_adam *options)
{
    const tern_step_scaling s = scaling != NULL ? *scaling : (tern_step_scaling){ .scale = NULL };
    return step(TERN_OP_adam_step_scaled, site, options, sizeof *options, 7,
                (tern_tensor *[]){ p, grad, m, v, s.scale, s.found, s.count });
}
