/* cuda_<name> for every row of core/ops.def that has a kernel (cuda_add, cuda_gemm, ...). */
#ifndef TERN_BACKEND_CUDA_KERNELS_H
#define TERN_BACKEND_CUDA_KERNELS_H

#include "tern/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OP(name, ...) tern_status_t cuda_##name(const tern_call *call);
#define VIEW(name, ...)
#define COMPOSED(name, ...)
#include "core/ops.def"
#undef OP
#undef VIEW
#undef COMPOSED

#ifdef __cplusplus
}
#endif
#endif
