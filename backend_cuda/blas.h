/* Matrix products through cuBLAS and cuBLASLt. The rest of the backend calls cuda_multiply; what
 * else is here the files blas_*.c share. */
#ifndef TERN_BACKEND_CUDA_BLAS_H
#define TERN_BACKEND_CUDA_BLAS_H

#include <cublasLt.h>
#include <cublas_v2.h>
#include <pthread.h>

#include "backend_cuda/launch.h"

/* out = x y (+ bias), into out; any strides, sizes and dtypes. By cuBLAS where it is there and
 * takes the types, else by tern's own kernels. `name` is the op, for messages. The call's device
 * is entered. */
tern_status_t cuda_multiply(const tern_call *call, const cuda_gemm_args *g, const char *name);

/* "cuBLAS 13.1", or "" where it is not there. Opens it. */
const char *cuda_blas_version(void);

/* ---- the libraries (blas_library.c) ---------------------------------------------------------- */

typedef struct cuda_blas_calls {
#define CALL(name) __typeof__(&name) name;
#include "backend_cuda/blas_calls.def"
#undef CALL
} cuda_blas_calls;

typedef struct cuda_lt_calls {
#define LT_CALL(name) __typeof__(&name) name;
#include "backend_cuda/blas_calls.def"
#undef LT_CALL
} cuda_lt_calls;

/* NULL: not there; said once in the log. */
const cuda_blas_calls *cuda_blas_open(void);
const cuda_lt_calls *cuda_lt_open(void);

/* TERN_OK, or an error with the status's name, number and meaning, and the device. */
tern_status_t cuda_blas_check(int index, cublasStatus_t status, const char *what);
/* Nothing was queued, since the library has no such product for this device: another way may have it. */
static inline bool cuda_blas_refuses(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/* ---- one product, as cuBLAS sees it: column-major (blas_plan.c) ------------------------------- */

typedef struct cuda_blas_side {
    const void *data;
    cublasOperation_t op;
    int64_t ld, stride; /* in elements; from one of the batch to the next */
} cuda_blas_side;

/* c = op(a) op(b): m x n; c's columns are `ldc` apart. */
typedef struct cuda_blas_plan {
    cudaDataType type;
    cublasComputeType_t compute;
    cudaDataType scale_type;
    int64_t m, n, k, batch;
    cuda_blas_side a, b;
    void *c;
    int64_t ldc, c_stride;
    const void *bias; /* one for each of m, dense; NULL: none, or bias_apart */
    bool bias_apart;  /* to be in c before the product is added to it */
    bool reduce_half, split;
} cuda_blas_plan;

/* False: cuBLAS does not take it (integers, k = 0, a result without unit stride). Operands that
 * it cannot take are packed into scratch memory; *out_status is not TERN_OK when that failed. */
bool cuda_blas_plan_make(const tern_call *call, const cuda_gemm_args *g, int capability,
                         cuda_blas_plan *out_plan, tern_status_t *out_status);

/* 1 or 0 in the type of alpha and beta. */
typedef union cuda_blas_scale {
    double f64;
    float f32;
    uint16_t f16;
} cuda_blas_scale;
cuda_blas_scale cuda_blas_scale_of(cudaDataType type, bool one);

/* ---- handles (blas_handle.c) ----------------------------------------------------------------- */

enum { CUDA_LT_CACHED = 64 };

/* A product whose algorithm is known. */
typedef struct cuda_lt_entry cuda_lt_entry;

/* Of one device and stream, made at its first product, kept for the process. */
typedef struct cuda_blas {
    struct cuda_blas *next;
    pthread_mutex_t lock;
    int index;
    cudaStream_t stream;
    cublasHandle_t handle;
    cublasLtHandle_t lt; /* NULL: not made yet */
    cublasMath_t mode;
    void *workspace;
    int64_t workspace_bytes;
    cuda_lt_entry *cached[CUDA_LT_CACHED];
} cuda_blas;

/* The stream's handle, locked, with its workspace. After TERN_OK ends with cuda_blas_leave. */
tern_status_t cuda_blas_enter(const tern_call *call, const cuda_blas_calls *blas,
                              cudaStream_t stream, int capability, cuda_blas **out);
void cuda_blas_leave(cuda_blas *b);
/* Bytes that a device's workspaces have: CUBLAS_WORKSPACE_CONFIG, or as PyTorch chooses. */
int64_t cuda_blas_workspace_bytes(int capability);

/* ---- cuBLASLt (blas_lt.c) -------------------------------------------------------------------- */

/* The product with its bias. *out_done false: not there, or it has no algorithm for this one. */
tern_status_t cuda_lt_multiply(cuda_blas *b, const cuda_blas_plan *plan, bool *out_done);

#endif
