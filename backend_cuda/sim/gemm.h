/* The product that simulated libraries compute, column-major: D = alpha op(A) op(B) + beta C + bias. */
#ifndef TERN_SIM_GEMM_H
#define TERN_SIM_GEMM_H

#include <cublas_v2.h>

#include "backend_cuda/sim/sim.h"

typedef struct sim_matrix {
    const void *data; /* the program's address, then the kernel's */
    cudaDataType type;
    bool transposed;
    int64_t ld, stride; /* from one of the batch to the next */
} sim_matrix;

typedef struct sim_gemm {
    int64_t m, n, k, batch;
    sim_matrix a, b, c, d; /* c and d may be one */
    const void *bias;      /* of d's type, one for each row, or NULL */
    double alpha, beta;
    cublasComputeType_t compute;
    bool reduced; /* partial sums may be added in d's type */
} sim_gemm;

/* alpha or beta as the compute type has it. */
double sim_gemm_scale(cublasComputeType_t compute, const void *host);
/* Do the types of the four matrices and the computation go together? */
bool sim_gemm_types_fit(cublasComputeType_t compute, cudaDataType a, cudaDataType b,
                        cudaDataType d);
/* INVALID_VALUE for sizes and leading dimensions that cuBLAS refuses. */
cublasStatus_t sim_gemm_check(const sim_gemm *g, const char *call);
/* Into the stream. The work reads and writes what the matrices span, and the workspace. What is not ordered after
 * other streams' work is EXECUTION_FAILED, of which cublasGetStatusString says more. */
cublasStatus_t sim_gemm_submit(const sim_gemm *g, const char *call, cudaStream_t stream,
                               void *workspace, size_t workspace_bytes);

#endif
