/* See scaler.h. */
#include "tests/support/scaler.h"

tern_tensor *scaler_parameter(double value)
{
    return tern_full(value, TERN_SHAPE(3), .requires_grad = true);
}

tern_optimizer *scaler_sgd(tern_tensor *p)
{
    static const char *const names[] = { "layer.weight" };
    return tern_sgd(((tern_tensors_t){ &p, names, 1 }), .lr = 0.5);
}

void scaler_backward(tern_grad_scaler *scaler, tern_tensor *p, double slope)
{
    tern_backward(tern_scaler_scale(scaler, tern_mul(tern_sum(p), slope)));
}

double scaler_first(tern_tensor *t)
{
    return tern_item(tern_select(tern_cast(t, TERN_F64), 0, 0));
}
