/* One optimizer step of one parameter: rows whose kernels write their inputs. */
#include "core/error.h"
#include "core/op_table.h"
#include "core/rules.h"

/* ---- rules ------------------------------------------------------------------------------------- */

/* Inputs below `count` are parameter, gradient and state; is the gradient written? */
static bool check_step(core_call *call, int count, bool writes_gradient)
{
    const tern_view *p = core_view(call, 0);
    char name[CORE_OPERAND_BYTES];
    for (int i = 0; i < count; i++) {
        if (call->in[i] == NULL)
            continue;
        const tern_view *v = core_view(call, i);
        const bool written = i == 1 ? writes_gradient : (call->op->mutates & B(i)) != 0;
        if (v->dtype != p->dtype || !core_view_same_shape(v, p))
            return core_fail(call, v->dtype != p->dtype ? TERN_ERR_DTYPE : TERN_ERR_SHAPE, NULL,
                             "parameter, gradient and state have to be alike in dtype and shape; "
                             "%s differs",
                             core_operand_name(call->op, i, name));
        if (written && core_view_overlaps_itself(v))
            return core_fail(call, TERN_ERR_ARGUMENT, "tern_contiguous first",
                             "several elements of %s, which is written, share one place in memory",
                             core_operand_name(call->op, i, name));
    }
    return true;
}

bool rule_step(core_call *call)
{
    return check_step(call, call->n_in, false);
}

/* Scale, flag and count are the last three inputs. */
bool rule_step_scaled(core_call *call)
{
    const int first = call->n_in - 3;
    for (int i = 0; i < 2; i++) {
        const tern_view *v = call->in[first + i] != NULL ? core_view(call, first + i) : NULL;
        if (v != NULL && (v->numel != 1 || v->dtype != TERN_F32))
            return core_fail(call, v->numel != 1 ? TERN_ERR_SHAPE : TERN_ERR_DTYPE, NULL,
                             "%s has to be one element of f32", i == 0 ? "the scale" : "the flag");
    }
    const tern_view *count = call->in[first + 2] != NULL ? core_view(call, first + 2) : NULL;
    if (count != NULL &&
        (count->numel != 2 || count->dtype != TERN_I64 || !(count->flags & TERN_VIEW_CONTIGUOUS)))
        return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                         "the count of steps has to be two adjacent elements of i64");
    return check_step(call, first, call->in[first] != NULL);
}

/* ---- the functions ----------------------------------------------------------------------------- */

static tern_status_t step(tern_op_id id, tern_site_t site, const void *options, size_t bytes, int n,
                          tern_tensor *const *in)
{
    tern_thread *self = core_self();
    union {
        tern_attr_sgd sgd;
        tern_attr_adam adam;
        tern_attr_rmsprop rmsprop;
        tern_attr_adagrad adagrad;
        tern_attr_lion lion;
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

tern_status_t tern_rmsprop_step_at(tern_site_t site, tern_tensor *p, tern_tensor *grad,
                                   tern_tensor *square, tern_tensor *buffer, tern_tensor *mean,
                                   const tern_step_scaling *scaling,
                                   const tern_attr_rmsprop *options)
{
    if (scaling == NULL)
        return step(TERN_OP_rmsprop_step, site, options, sizeof *options, 5,
                    (tern_tensor *[]){ p, grad, square, buffer, mean });
    return step(TERN_OP_rmsprop_step_scaled, site, options, sizeof *options, 8,
                (tern_tensor *[]){ p, grad, square, buffer, mean, scaling->scale, scaling->found,
                                   scaling->count });
}

/* Steps with one tensor of state. */
static tern_status_t step_of_one(tern_op_id plain, tern_op_id scaled, tern_site_t site,
                                 const void *options, size_t bytes, tern_tensor *p,
                                 tern_tensor *grad, tern_tensor *state,
                                 const tern_step_scaling *scaling)
{
    if (scaling == NULL)
        return step(plain, site, options, bytes, 3, (tern_tensor *[]){ p, grad, state });
    return step(
        scaled, site, options, bytes, 6,
        (tern_tensor *[]){ p, grad, state, scaling->scale, scaling->found, scaling->count });
}

tern_status_t tern_adagrad_step_at(tern_site_t site, tern_tensor *p, tern_tensor *grad,
                                   tern_tensor *sum, const tern_step_scaling *scaling,
                                   const tern_attr_adagrad *options)
{
    return step_of_one(TERN_OP_adagrad_step, TERN_OP_adagrad_step_scaled, site, options,
                       sizeof *options, p, grad, sum, scaling);
}

tern_status_t tern_lion_step_at(tern_site_t site, tern_tensor *p, tern_tensor *grad, tern_tensor *m,
                                const tern_step_scaling *scaling, const tern_attr_lion *options)
{
    return step_of_one(TERN_OP_lion_step, TERN_OP_lion_step_scaled, site, options, sizeof *options,
                       p, grad, m, scaling);
}
