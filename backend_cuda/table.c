/* The kernel table, made of the rows of core/ops.def: a row without a kernel does not link. */
#include "backend_cuda/cuda.h"
#include "backend_cuda/kernels.h"

#define OP(name, ...) { #name, cuda_##name },
#define VIEW(name, ...)
#define COMPOSED(name, ...)
const tern_kernel_entry cuda_kernels[] = {
#include "core/ops.def"
};
const int64_t cuda_kernel_count = sizeof cuda_kernels / sizeof *cuda_kernels;
