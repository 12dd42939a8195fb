/* cpu_<name> for every row of core/ops.def that has a kernel (cpu_add, cpu_gemm, ...). */
#ifndef TERN_BACKEND_CPU_KERNELS_H
#define TERN_BACKEND_CPU_KERNELS_H

#include "core/op_id.h"
#include "tern/plugin.h"

#define OP(name, ...) tern_status_t cpu_##name(const tern_call *call);
#define VIEW(name, ...)
#define COMPOSED(name, ...)
#include "core/ops.def"
#undef OP
#undef VIEW
#undef COMPOSED

/* By op id; NULL for rows without a kernel. Complete: a missing kernel does not link. */
extern const tern_kernel core_cpu_kernels[TERN_OP_COUNT];

#endif
