/* In which dtype operands meet, and numbers as operands.
 *
 * PyTorch's rule has three categories: tensors with dimensions, 0-dim tensors, plain numbers. A lower
 * category changes the dtype of a higher one only by its kind (bool < int < float). */
#ifndef TERN_CORE_PROMOTE_H
#define TERN_CORE_PROMOTE_H

#include "core/tensor.h"
#include "core/thread.h"
#include "tern/ops.h"

/* torch.result_type of two operands; a number is a view flagged NUMBER. */
tern_dtype_t core_result_type(const tern_view *a, const tern_view *b);
/* The dtype that a number has beside `other` (NULL: alone, or beside another number). */
tern_dtype_t core_number_dtype(const tern_thread *self, const tern_view *other, int number_kind);
/* Can a result of `from` be written in place into `to`? Floats do not fit in integers, nor anything
 * but bool in bool. */
bool core_dtype_can_hold(tern_dtype_t to, tern_dtype_t from);

/* A number as a 0-dim CPU tensor flagged NUMBER; reference count 1, owned by no scope. NULL with an
 * out-of-memory error recorded. */
tern_tensor *core_number_new(tern_thread *self, tern_site_t site, tern_operand number,
                             tern_dtype_t dtype);

/* One element in host memory. Conversions wrap integers and round floats to nearest even. */
double core_load_double(const void *data, tern_dtype_t dtype);
int64_t core_load_int(const void *data, tern_dtype_t dtype);
void core_store_double(void *data, tern_dtype_t dtype, double value);
void core_store_int(void *data, tern_dtype_t dtype, int64_t value);

#endif
