/* The CPU's kernel table, made of the rows of core/ops.def. */
#include "backend_cpu/kernels.h"

#define OP(name, ...) [TERN_OP_##name] = cpu_##name,
#define VIEW(name, ...)
#define COMPOSED(name, ...)
const tern_kernel core_cpu_kernels[TERN_OP_COUNT] = {
#include "core/ops.def"
};
#undef OP
#undef VIEW
#undef COMPOSED
