/* Ids of the ops, in the order of core/ops.def. 0 is no op of the library's. */
#ifndef TERN_CORE_OP_ID_H
#define TERN_CORE_OP_ID_H

#define OP(name, ...) TERN_OP_##name,
#define VIEW(name, ...) TERN_OP_##name,
#define COMPOSED(name, ...) TERN_OP_##name,
typedef enum tern_op_id {
    TERN_OP_none = 0,
#include "core/ops.def"
    TERN_OP_COUNT
} tern_op_id;
#undef OP
#undef VIEW
#undef COMPOSED

#endif
