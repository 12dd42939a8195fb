/* Attention made of simple ops: where its gradient is recorded, or the mask wants one. */
#ifndef TERN_CORE_OPS_ATTENTION_H
#define TERN_CORE_OPS_ATTENTION_H

#include "core/op_table.h"

/* As the row takes them, of four dimensions; mask may be NULL. */
typedef struct attention_operands {
    tern_tensor *q, *k, *v, *mask;
} attention_operands;

tern_tensor *attention_composed(tern_attr_attention *attr, attention_operands in);
/* out_grads[3]: of q, k, v. */
void attention_grad_composed(tern_attr_attention *attr, tern_tensor *grad, attention_operands in,
                             tern_tensor **out_grads);

#endif
