/* Between the gradient scaler's kernels (unscale.c) and their inner loops (isa/unscale.c). */
#ifndef TERN_BACKEND_CPU_UNSCALE_H
#define TERN_BACKEND_CPU_UNSCALE_H

#include "backend_cpu/cpu.h"

/* n elements without gaps, multiplied where `factor` is not 1. Was one of them infinite or NaN? */
typedef bool (*cpu_unscale_fn)(void *gradient, int64_t n, double factor);

enum { CPU_UNSCALE_F32, CPU_UNSCALE_F64, CPU_UNSCALE_TYPES };
CPU_ISA_DECLARE_TABLE(const cpu_unscale_fn, cpu_unscales, CPU_UNSCALE_TYPES);

#endif
