/* The rows of core/ops.def as data. */
#include "core/op_table.h"

#define OP(op_name, ...) \
    [TERN_OP_##op_name] = { .name = #op_name, .id_ = TERN_OP_##op_name, __VA_ARGS__ },
#define VIEW(op_name, ...) OP(op_name, .is_view = true, __VA_ARGS__)
#define COMPOSED(op_name, ...) OP(op_name, __VA_ARGS__)
const tern_op core_op_table[TERN_OP_COUNT] = {
#include "core/ops.def"
};
