/* Ways of a matrix product that are measured in turn instead of looked up, under tern_cpu_set_benchmark: each
 * call of a shape goes one of them, all of which give right results, until the fastest is known. Kept by thread. */
#ifndef TERN_BACKEND_CPU_GEMM_TRIAL_H
#define TERN_BACKEND_CPU_GEMM_TRIAL_H

#include "backend_cpu/gemm_key.h"
#include "backend_cpu/gemm_library.h"

enum {
    CPU_GEMM_TRIALS = 15,
    CPU_GEMM_SHAPES = 768 /* that a thread keeps; more go by the tables */
};

/* One shape. */
typedef struct cpu_gemm_trial cpu_gemm_trial;

/* That of this product on the calling thread, begun where it is new; `libraries`: may one take it? NULL: no room. */
cpu_gemm_trial *cpu_gemm_trial_of(int dtype, const cpu_product *g, int threads, bool libraries);
/* The way of the next call, or, from when on *out_decided, of all. */
cpu_gemm_choice cpu_gemm_trial_next(const cpu_gemm_trial *trial, bool *out_decided);
const cpu_gemm_key *cpu_gemm_trial_key(const cpu_gemm_trial *trial);
/* What that call took. True: the last one that was wanted. */
bool cpu_gemm_trial_took(cpu_gemm_trial *trial, double seconds);
/* The least that own kernels, or a library, took in any way; infinite where they were not tried. */
double cpu_gemm_trial_seconds(const cpu_gemm_trial *trial, bool own, cpu_blas_maker maker);
/* What was found, as a line of the log. */
void cpu_gemm_trial_tell(const cpu_gemm_trial *trial, const tern_host *host);

#endif
