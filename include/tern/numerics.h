/* How exact products on CUDA devices are, and whether results repeat: PyTorch's settings, with
 * its defaults but for convolutions, which are as exact as on the CPU at first. For the whole
 * process, from the next op on; any thread. CPU results depend on those of the last section alone. */
#ifndef TERN_NUMERICS_H
#define TERN_NUMERICS_H

#include "tern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- f32 --------------------------------------------------------------------------------------- */

typedef enum tern_fp32_precision {
    TERN_FP32_NONE = 0, /* as the scope above; at the top: ieee */
    TERN_FP32_IEEE,
    TERN_FP32_TF32 /* inputs are rounded to 10 bits of mantissa, sums and range are f32's */
} tern_fp32_precision_t;

typedef enum tern_fp32_scope {
    TERN_FP32_ALL = 0,
    TERN_FP32_CUDA_MATMUL, /* below ALL */
    TERN_FP32_CUDNN,       /* below ALL */
    TERN_FP32_CUDNN_CONV   /* below CUDNN */
} tern_fp32_scope_t;

/* What f32 ops of a scope may do on hardware that has TF32. */
TERN_API void tern_set_fp32_precision(tern_fp32_scope_t scope, tern_fp32_precision_t precision);
/* What holds there: IEEE or TF32. */
TERN_API tern_fp32_precision_t tern_fp32_precision(tern_fp32_scope_t scope);
/* The older names of the same two settings; false at first. */
TERN_API void tern_cuda_matmul_set_allow_tf32(bool allow);
TERN_API bool tern_cuda_matmul_allow_tf32(void);
TERN_API void tern_cudnn_set_allow_tf32(bool allow);
TERN_API bool tern_cudnn_allow_tf32(void);

/* ---- half types -------------------------------------------------------------------------------- */

typedef struct tern_reduction_args {
    size_t size_;
    bool allow;
    bool
        no_splitk; /* with allow = false: nor may cuBLASLt split a product along k at all; cuBLAS, which computes
                     * where cuBLASLt is missing or refuses, may */
} tern_reduction_args;
/* May partial sums of a product that is split along k be added in the half type? At first they
 * may: tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction(false) sums in f32
 * throughout. TERN_ERR_ARGUMENT for allow with no_splitk. */
TERN_API tern_status_t tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction_at(
    tern_site_t site, const tern_reduction_args *args);
#define tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction(...) \
    tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction_at(      \
        TERN_HERE, TERN_OPTIONS_(tern_reduction_args, __VA_ARGS__))
TERN_API bool tern_cuda_matmul_allow_fp16_reduced_precision_reduction(void);
TERN_API tern_status_t tern_cuda_matmul_set_allow_bf16_reduced_precision_reduction_at(
    tern_site_t site, const tern_reduction_args *args);
#define tern_cuda_matmul_set_allow_bf16_reduced_precision_reduction(...) \
    tern_cuda_matmul_set_allow_bf16_reduced_precision_reduction_at(      \
        TERN_HERE, TERN_OPTIONS_(tern_reduction_args, __VA_ARGS__))
TERN_API bool tern_cuda_matmul_allow_bf16_reduced_precision_reduction(void);
/* f16 products may sum in f16 (capability 7.0 and later); false at first. */
TERN_API void tern_cuda_matmul_set_allow_fp16_accumulation(bool allow);
TERN_API bool tern_cuda_matmul_allow_fp16_accumulation(void);

/* ---- repeating --------------------------------------------------------------------------------- */

/* cuDNN: time the algorithms at the first call of each shape; take repeatable ones only. Both
 * false at first. */
TERN_API void tern_cudnn_set_benchmark(bool benchmark);
TERN_API bool tern_cudnn_benchmark(void);
TERN_API void tern_cudnn_set_deterministic(bool deterministic);
TERN_API bool tern_cudnn_deterministic(void);

/* The CPU: time matrix products instead of asking the tables that were measured on other machines. Of each shape that a
 * thread multiplies (f32, f64; above 0.3 MFLOP) the first 12 to some 300 calls, whose results count like all, go by tern's
 * kernels and by OpenBLAS and oneDNN, cut for threads in each way; then all go the fastest way, which TERN_LOG=debug shows. A
 * thread keeps 768 shapes. What cudnn.benchmark and TunableOp are for PyTorch's GPUs. False at first, or
 * TERN_CPU_GEMM=benchmark: sums are rounded in other orders from call to call and from run to run. Nothing is timed while
 * deterministic algorithms are in use. */
TERN_API void tern_cpu_set_benchmark(bool benchmark);
TERN_API bool tern_cpu_benchmark(void);
/* A file of such ways, for later runs (FFTW's wisdom, TunableOp's results): shapes that it holds go as it says from the
 * next product on, on every thread, whether benchmark is on or not, and are not timed; runs that read the same file give
 * the same bits, so it holds while deterministic algorithms are in use, too. With benchmark on, ways are added as they are
 * found, and a file that is not there is made; else it is an error (TERN_ERR_IO). Lines of text, which several processes
 * may add to; those of another CPU, library or version of tern do not count and stay. NULL: no file.
 * TERN_CPU_GEMM_FILE names one from the start; where that cannot be read, the log has a warning. What is none is
 * TERN_ERR_FORMAT. After an error the file is what it was before. */
TERN_API tern_status_t tern_cpu_set_benchmark_file_at(tern_site_t site, const char *path);
#define tern_cpu_set_benchmark_file(path) tern_cpu_set_benchmark_file_at(TERN_HERE, path)

typedef struct tern_deterministic_args {
    size_t size_;
    bool on;
    bool warn_only; /* an op without a repeatable kernel runs, and is named in the log */
} tern_deterministic_args;
/* tern_use_deterministic_algorithms(true): ops take kernels whose results repeat bit for bit;
 * one that has none is an error (TERN_ERR_UNSUPPORTED); tern's own backends have one for each. Off
 * at first. */
TERN_API void tern_use_deterministic_algorithms_at(tern_site_t site,
                                                   const tern_deterministic_args *args);
#define tern_use_deterministic_algorithms(...)      \
    tern_use_deterministic_algorithms_at(TERN_HERE, \
                                         TERN_OPTIONS_(tern_deterministic_args, __VA_ARGS__))
TERN_API bool tern_deterministic_algorithms(void);
/* While deterministic algorithms are in use tern_empty fills: NaN, the greatest integer. True at
 * first. */
TERN_API void tern_set_fill_uninitialized_memory(bool fill);
TERN_API bool tern_fill_uninitialized_memory(void);

#ifdef __cplusplus
}
#endif
#endif
