/* What layer_norm, rms_norm and batch_norm share: checks of their parameters and the second derivative. */
#ifndef TERN_CORE_OPS_NORM_H
#define TERN_CORE_OPS_NORM_H

#include "core/op_table.h"

/* Means and deviations are f32, or f64 beside f64. */
static inline tern_dtype_t norm_statistics_dtype(const tern_view *x)
{
    return x->dtype == TERN_F64 ? TERN_F64 : TERN_F32;
}

/* Parameter i (`name`), where given, has the shape `dims` and x's dtype or, beside a half type,
 * f32; parameters first .. i alike. */
bool norm_check_parameter(core_call *call, int first, int i, const char *name, int ndim,
                          const int64_t *dims);

/* A bias (input 2) without a weight is brought to x's dtype, which is what backward takes its gradient to
 * have then. */
bool norm_match_bias(core_call *call);

/* Which elements are normalised together, and how parameters lie against x. */
typedef struct norm_geometry {
    tern_dims_t together;        /* dimensions that share a mean and a deviation */
    tern_dims_t apart;           /* dimensions that a parameter's gradient sums over; may be none */
    tern_shape_t parameter;      /* a parameter's own shape */
    tern_shape_t parameter_in_x; /* the same, to broadcast against x */
    double eps;
    bool fixed;      /* mean and deviation are constants (batch norm that evaluates) */
    bool about_zero; /* there is no mean (rms_norm) */
} norm_geometry;

/* That of the last attr->dims dimensions of x. */
norm_geometry norm_last_dimensions(const tern_view *x, const tern_attr_norm *attr);

/* Backward of a row (x, weight?, bias?) -> y, mean, 1 / deviation by the row `op` that gives all three
 * gradients. */
void norm_backward(tern_op_ctx *ctx, tern_op_id op, tern_tensor *grad, tern_tensor **grad_in);

/* Backward of a row (gradient, x, weight?, mean, 1 / deviation) -> gradients of x, weight, bias,
 * made of public ops and so differentiable again. About zero neither mean nor bias are there. */
void norm_grad_backward(tern_op_ctx *ctx, const norm_geometry *geometry, tern_tensor **grad_in);

#endif
