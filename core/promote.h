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
/* The same of n operands at once, which is not that of one after the other. */
tern_dtype_t core_result_type_of(const tern_view *const *views, int n);
/* The dtype that a number has beside `other` (NULL: alone, or beside another number). */
tern_dtype_t core_number_dtype(const tern_thread *self, const tern_view *other, int number_kind);
/* Can a result of `from` be written in place into `to`? Floats do not fit in integers, nor anything
 * but bool in bool. */
bool core_dtype_can_hold(tern_dtype_t to, tern_dtype_t from);

/* Can an element of the dtype be the number? As PyTorch: 2.5 becomes 2 among integers, -1 becomes 255 in
 * u8, bool is truth, and no number is beyond the greatest of a float dtype, also where it would be rounded
 * to that. What no element can be wraps or saturates where nobody asks. */
bool core_number_fits(tern_operand number, tern_dtype_t dtype);
/* The greatest number of a float dtype. */
double core_largest_of(tern_dtype_t dtype);
/* The same, and an error of `what` where it does not. True for a tensor. */
bool core_require_number(tern_thread *self, tern_site_t site, const char *what, tern_operand number,
                         tern_dtype_t dtype);

/* A number as a 0-dim CPU tensor flagged NUMBER; reference count 1, owned by no scope. NULL with an
 * out-of-memory error recorded. */
tern_tensor *core_number_new(tern_thread *self, tern_site_t site, tern_operand number,
                             tern_dtype_t dtype);

/* An operand as a tensor: itself, or a number in the dtype it has beside `other`; end with
 * core_operand_end, which lets go of the number. */
tern_tensor *core_operand_begin(tern_thread *self, tern_site_t site, tern_operand operand,
                                tern_operand other);
static inline void core_operand_end(tern_thread *self, tern_operand operand, tern_tensor *t)
{
    if (operand.kind_ != 0 && t != NULL)
        core_release(self, t);
}

/* One element in host memory. Conversions wrap integers and round floats to nearest even. */
double core_load_double(const void *data, tern_dtype_t dtype);
int64_t core_load_int(const void *data, tern_dtype_t dtype);
void core_store_double(void *data, tern_dtype_t dtype, double value);
void core_store_int(void *data, tern_dtype_t dtype, int64_t value);

#endif
