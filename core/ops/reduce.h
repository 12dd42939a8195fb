/* What reductions share. A reduced dimension is a bit of a mask. */
#ifndef TERN_CORE_OPS_REDUCE_H
#define TERN_CORE_OPS_REDUCE_H

#include "core/call.h"

/* Dimensions as bits; none given is all. A 0-dim tensor reduces its one element: bit 0. False: recorded. */
bool reduce_mask(core_call *call, const tern_view *x, tern_dims_t dims, uint32_t *out_mask);
/* The result's shape, in `out_dims`; returns its ndim. */
int reduce_shape(const tern_view *x, uint32_t reduced, bool keepdim, int64_t *out_dims);
/* For rules: output 0. */
bool reduce_out(core_call *call, uint32_t reduced, bool keepdim, tern_dtype_t dtype);
/* For rules of ops that need an element: every reduced dimension has one, or the error is recorded. */
bool reduce_check_extents(core_call *call, uint32_t reduced);
/* How many elements make one of the result. */
int64_t reduce_count(const tern_view *x, uint32_t reduced);
tern_dims_t reduce_dims_of(uint32_t mask, int ndim);
/* A result of x with its reduced dimensions back, as 1. */
tern_tensor *reduce_with_dims(tern_tensor *t, const tern_view *x, uint32_t reduced);
/* The gradient of x's `winners` (bools of x's shape) where `grad`, with the reduced dimensions as 1, is shared equally
 * among them; NULL of what could not be made. */
tern_tensor *reduce_share(tern_tensor *winners, tern_tensor *grad, uint32_t reduced);

#endif
