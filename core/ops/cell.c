/* Pointwise parts of recurrent cells and their gradients: rows that write some of their inputs. What they
 * compute is said in tern/recurrent.h. */
#include "core/call.h"
#include "core/op_table.h"
#include "tern/recurrent.h"

/* Operands are [N, width * H], H by the narrowest; written ones lie where the kernel can write them. */
static bool check_cell(core_call *call, const int *widths)
{
    const tern_view *gates = core_view(call, 0);
    const int64_t size = gates->ndim == 2 ? gates->shape[1] / widths[0] : -1;
    char name[CORE_OPERAND_BYTES], first[CORE_OPERAND_BYTES];
    for (int i = 0; i < call->n_in; i++) {
        const tern_view *v = core_view(call, i);
        if (v->dtype != gates->dtype)
            return core_fail(call, TERN_ERR_DTYPE, "tern_to(t, .dtype = ...)",
                             "all operands have one dtype; %s differs",
                             core_operand_name(call->op, i, name));
        if (v->ndim != 2 || v->shape[0] != gates->shape[0] || v->shape[1] != size * widths[i])
            return core_fail(call, TERN_ERR_SHAPE, NULL,
                             "%s has to be [N, %d H], with N and H as of %s, [N, %d H]",
                             core_operand_name(call->op, i, name), widths[i],
                             core_operand_name(call->op, 0, first), widths[0]);
        if ((call->op->mutates & B(i)) && !(v->flags & TERN_VIEW_CONTIGUOUS))
            return core_fail(call, TERN_ERR_ARGUMENT, "tern_contiguous first",
                             "%s is written, and is not contiguous",
                             core_operand_name(call->op, i, name));
    }
    return true;
}

bool rule_lstm_cell(core_call *call)
{
    return check_cell(call, (const int[]){ 4, 4, 1, 1, 1 });
}

bool rule_lstm_cell_grad(core_call *call)
{
    return check_cell(call, (const int[]){ 4, 1, 1, 1, 1, 4 });
}

bool rule_gru_cell(core_call *call)
{
    return check_cell(call, (const int[]){ 3, 3, 1, 4, 1 });
}

bool rule_gru_cell_grad(core_call *call)
{
    return check_cell(call, (const int[]){ 4, 1, 1, 3, 3 });
}

static tern_status_t run(tern_op_id id, tern_site_t site, int n, tern_tensor *const *in)
{
    tern_tensor **none = NULL;
    return core_opn(id, site, NULL, n, in, 0, &none) ? TERN_OK
                                                     : (tern_status_t)core_self()->error_code;
}

tern_status_t tern_lstm_cell_at(tern_site_t site, tern_tensor *gates, tern_tensor *hidden,
                                tern_tensor *c_before, tern_tensor *c, tern_tensor *h)
{
    return run(TERN_OP_lstm_cell, site, 5, (tern_tensor *[]){ gates, hidden, c_before, c, h });
}

tern_status_t tern_lstm_cell_grad_at(tern_site_t site, tern_tensor *gates, tern_tensor *c_before,
                                     tern_tensor *c, tern_tensor *grad_h, tern_tensor *grad_c,
                                     tern_tensor *grad_gates)
{
    return run(TERN_OP_lstm_cell_grad, site, 6,
               (tern_tensor *[]){ gates, c_before, c, grad_h, grad_c, grad_gates });
}

tern_status_t tern_gru_cell_at(tern_site_t site, tern_tensor *gates, tern_tensor *hidden,
                               tern_tensor *h_before, tern_tensor *saved, tern_tensor *h)
{
    return run(TERN_OP_gru_cell, site, 5, (tern_tensor *[]){ gates, hidden, h_before, saved, h });
}

tern_status_t tern_gru_cell_grad_at(tern_site_t site, tern_tensor *saved, tern_tensor *h_before,
                                    tern_tensor *grad_h, tern_tensor *grad_gates,
                                    tern_tensor *grad_hidden)
{
    return run(TERN_OP_gru_cell_grad, site, 5,
               (tern_tensor *[]){ saved, h_before, grad_h, grad_gates, grad_hidden });
}
