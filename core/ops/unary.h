/* The public functions of rows with one operand and no attributes. */
#ifndef TERN_CORE_OPS_UNARY_H
#define TERN_CORE_OPS_UNARY_H

#include "core/call.h"

/* A new result, and in place. */
#define PUBLIC_UNARY(name)                                                  \
    tern_tensor *tern_##name##_at(tern_site_t site, tern_tensor *x)         \
    {                                                                       \
        return core_op1(TERN_OP_##name, site, NULL, x);                     \
    }                                                                       \
    tern_tensor *tern_##name##_inplace_at(tern_site_t site, tern_tensor *x) \
    {                                                                       \
        return core_op1_inplace(TERN_OP_##name, site, NULL, x);             \
    }

#endif
