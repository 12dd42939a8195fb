/* Matrix products by the libraries behind bridge.h. */
#ifndef TERN_BACKEND_CPU_GEMM_LIBRARY_H
#define TERN_BACKEND_CPU_GEMM_LIBRARY_H

#include "backend_cpu/bridge.h"
#include "backend_cpu/gemm.h"

/* How a product of f32 or f64 is made: by own kernels or a library, on how many threads, and what those share. */
typedef struct cpu_gemm_choice {
    bool own;
    cpu_blas_maker maker; /* of a library's */
    cpu_blas_cut cut;
    int threads;
} cpu_gemm_choice;

/* The product by this way, whatever the tables say (bench/bench_ways.c). False: there was no memory, and the host has said so. */
bool cpu_product_run_way(const tern_call *call, int dtype, const cpu_product *g,
                         const cpu_gemm_choice *way, cpu_room *room);
/* Is there a library, and can it take these strides? */
bool cpu_product_suits_library(const cpu_product *g);
/* False: none took it, and C is as it was, but for a bias in its rows. */
bool cpu_product_by_library(int dtype, const cpu_product *g, const cpu_gemm_choice *way);

#endif
