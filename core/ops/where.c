/* where: a choice between two operands, element by element. */
#include "core/op_table.h"
#include "core/promote.h"

/* Beside a tensor a number has to fit the dtype that it gets there; beside half types it may be infinite,
 * as in PyTorch, which makes it an f32. */
static bool check_number(tern_thread *self, tern_site_t site, tern_operand number,
                         tern_operand other)
{
    if (number.kind_ == 0 || other.kind_ != 0 || other.value_.tensor == NULL)
        return true;
    const tern_view *view = &other.value_.tensor->view;
    tern_dtype_t dtype = core_number_dtype(self, view, (int)number.kind_);
    if (dtype == TERN_F16 || dtype == TERN_BF16)
        dtype = TERN_F32;
    return core_require_number(self, site, "where", number, dtype);
}

tern_tensor *tern_where_at(tern_site_t site, tern_tensor *condition, tern_operand a, tern_operand b)
{
    tern_thread *self = core_self();
    if (self->error_code != TERN_OK || !check_number(self, site, a, b) ||
        !check_number(self, site, b, a))
        return NULL;
    tern_tensor *x = core_operand_begin(self, site, a, b);
    tern_tensor *y = core_operand_begin(self, site, b, a);
    tern_tensor *out = core_op3(TERN_OP_where, site, NULL, condition, x, y);
    core_operand_end(self, a, x);
    core_operand_end(self, b, y);
    return out;
}

void back_where(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *condition = core_saved_in(ctx, 0);
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_where(condition, grad, 0.0);
    if (tern_needs_grad(ctx, 2))
        grad_in[2] = tern_where(condition, 0.0, grad);
}
