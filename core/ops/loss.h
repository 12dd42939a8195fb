/* What losses share. */
#ifndef TERN_CORE_OPS_LOSS_H
#define TERN_CORE_OPS_LOSS_H

#include "core/compose.h"

/* An error that names what can be asked for, where `reduction` (0: the mean) is above `last`. */
bool core_check_reduction(core_call *call, int reduction, int last);
/* Input i becomes the class numbers that kernels read: i64. Of u8, which PyTorch takes too, they are made
 * i64; any other dtype is an error. */
bool core_check_classes(core_call *call, int i);
/* The error of a target that has not one class number for each row of input 0. */
bool core_check_class_shape(core_call *call);
/* The loss of every element becomes what was asked for; NULL stays NULL. */
tern_tensor *core_reduce_loss(tern_tensor *each, int reduction);
/* f32 of a half type, any other tensor itself. */
tern_tensor *core_widened(tern_tensor *t);

#endif
