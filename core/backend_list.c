/* The one file of core/ that names a backend: what is built in. */
#include "core/backend.h"

extern const tern_kernel core_cpu_kernels[TERN_OP_COUNT];

const tern_kernel *core_kernels[TERN_KINDS] = { [TERN_KIND_CPU] = core_cpu_kernels };
