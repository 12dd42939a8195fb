/* cuda_<name> for the rows of core/ops.def that have a kernel; rows without one are listed with the
 * reason in missing.def. */
#ifndef TERN_BACKEND_CUDA_KERNELS_H
#define TERN_BACKEND_CUDA_KERNELS_H

#include "tern/plugin.h"

#define ELEMENT(name, shape, kinds, real, integer) tern_status_t cuda_##name(const tern_call *call);
#include "backend_cpu/elementwise.def"
#undef ELEMENT
#define KERNEL(name) tern_status_t cuda_##name(const tern_call *call);
#include "backend_cuda/kernels.def"
#undef KERNEL

#endif
