/* The kernel table. */
#include "backend_cuda/cuda.h"
#include "backend_cuda/kernels.h"

#define ENTRY(name) { #name, cuda_##name },
#define ELEMENT(name, shape, kinds, real, integer) ENTRY(name)
#define KERNEL(name) ENTRY(name)
const tern_kernel_entry cuda_kernels[] = {
#include "backend_cpu/elementwise.def"
#include "backend_cuda/kernels.def"
};
#undef ELEMENT
#undef KERNEL
const int64_t cuda_kernel_count = sizeof cuda_kernels / sizeof *cuda_kernels;
