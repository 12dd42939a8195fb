/* What rules and public functions share beyond core/call.h. */
#ifndef TERN_CORE_RULES_H
#define TERN_CORE_RULES_H

#include "core/call.h"

/* Strides under which `v` looks like `dims` (0 where it is repeated); false when it cannot. */
bool core_expand_strides(const tern_view *v, int ndim, const int64_t *dims, int64_t *out_strides);
/* Strides of v under another shape of as many elements; false when they do not exist. */
bool core_view_strides(const tern_view *v, int ndim, const int64_t *dims, int64_t *out_strides);
/* Strides of a tensor without gaps whose dimensions lie in the same order as the view's. */
void core_dense_strides(const tern_view *v, int64_t *out_strides);
/* Rules of one operand: the input is cast, which is an error in place. */
bool core_unary_as(core_call *call, tern_dtype_t dtype);
/* In place: what backward reads of the first operand is copied before it is written, as PyTorch does. */
bool core_keep_first(core_call *call);
/* The error of a result in `dtype` that the output cannot take; returns false. */
bool core_cannot_hold(core_call *call, tern_dtype_t dtype);
/* Preset outputs: does some element of the output lie under several indices? */
bool core_view_overlaps_itself(const tern_view *v);
/* Preset outputs: an input that reaches into the output's memory is copied first, for rows that read it
 * while they write elsewhere. False: out of memory, recorded. */
bool core_separate_input(core_call *call, int i);
/* A new tensor, filled by the (recorded) copy row from `t` broadcast to dims; reference count 1, owned
 * by no scope. NULL with the error recorded, of the call `what`. */
tern_tensor *core_copied(tern_thread *self, tern_site_t site, const char *what, tern_tensor *t,
                         tern_dev_t dev, tern_dtype_t dtype, int ndim, const int64_t *dims,
                         const int64_t *strides);
tern_attr_fill core_fill_attr(double value);
/* The same of what a user fills with; false with the error recorded for what is no number that the dtype holds. */
bool core_fill_attr_of(tern_thread *self, tern_site_t site, const char *what, tern_operand value,
                       tern_dtype_t dtype, tern_attr_fill *attr);
/* Zeros of the view's shape, dtype and device; belongs to the innermost scope. */
tern_tensor *core_zeros_like(const tern_view *v);
/* 0 to count - 1 as i64 on a device that a tensor has. */
tern_tensor *core_numbers_to(tern_dev_t dev, int64_t count);
/* A 0-dim tensor of x's dtype on its device; belongs to the innermost scope. */
tern_tensor *core_number_like(tern_tensor *x, tern_operand number);
/* A 1-D (or 0-dim) index along `dim` of a tensor like `over`, repeated along the other dimensions: what
 * gather and scatter take. */
tern_tensor *core_spread_index(tern_tensor *index, int dim, const tern_view *over);

#endif
