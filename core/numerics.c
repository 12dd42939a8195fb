/* Settings of precision and repetition, as one word that kernels read. */
#include "core/numerics.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/option.h"
#include "tern/numerics.h"

enum {
    SCOPES = TERN_FP32_CUDNN_CONV + 1,
    FILL = 1u << 30, /* these two of core alone */
    BENCHMARK_SAID = 1u << 29
};

static _Atomic uint32_t numerics = TERN_NUMERICS_FP16_REDUCTION | TERN_NUMERICS_FP16_SPLITK |
                                   TERN_NUMERICS_BF16_REDUCTION | TERN_NUMERICS_BF16_SPLITK | FILL;

uint32_t core_numerics(void)
{
    return atomic_load_explicit(&numerics, memory_order_relaxed);
}

static bool is_set(uint32_t bit)
{
    return (core_numerics() & bit) != 0;
}

static void set(uint32_t bit, bool on)
{
    if (on)
        (void)atomic_fetch_or(&numerics, bit);
    else
        (void)atomic_fetch_and(&numerics, ~bit);
}

/* ---- f32 --------------------------------------------------------------------------------------- */

static tern_fp32_precision_t precisions[SCOPES];

/* With the lock. */
static tern_fp32_precision_t effective(tern_fp32_scope_t scope)
{
    static const tern_fp32_scope_t above[SCOPES] = { [TERN_FP32_CUDNN_CONV] = TERN_FP32_CUDNN };
    while (precisions[scope] == TERN_FP32_NONE && scope != TERN_FP32_ALL)
        scope = above[scope];
    return precisions[scope] == TERN_FP32_TF32 ? TERN_FP32_TF32 : TERN_FP32_IEEE;
}

void tern_set_fp32_precision(tern_fp32_scope_t scope, tern_fp32_precision_t precision)
{
    if ((unsigned)scope >= SCOPES || (unsigned)precision > TERN_FP32_TF32)
        return;
    core_lock_take(CORE_LOCK_NUMERICS);
    precisions[scope] = precision;
    set(TERN_NUMERICS_TF32_MATMUL, effective(TERN_FP32_CUDA_MATMUL) == TERN_FP32_TF32);
    set(TERN_NUMERICS_TF32_CONV, effective(TERN_FP32_CUDNN_CONV) == TERN_FP32_TF32);
    core_lock_end(CORE_LOCK_NUMERICS);
}

tern_fp32_precision_t tern_fp32_precision(tern_fp32_scope_t scope)
{
    if ((unsigned)scope >= SCOPES)
        return TERN_FP32_IEEE;
    core_lock_take(CORE_LOCK_NUMERICS);
    const tern_fp32_precision_t precision = effective(scope);
    core_lock_end(CORE_LOCK_NUMERICS);
    return precision;
}

void tern_cuda_matmul_set_allow_tf32(bool allow)
{
    tern_set_fp32_precision(TERN_FP32_CUDA_MATMUL, allow ? TERN_FP32_TF32 : TERN_FP32_IEEE);
}

bool tern_cuda_matmul_allow_tf32(void)
{
    return is_set(TERN_NUMERICS_TF32_MATMUL);
}

void tern_cudnn_set_allow_tf32(bool allow)
{
    tern_set_fp32_precision(TERN_FP32_CUDNN_CONV, allow ? TERN_FP32_TF32 : TERN_FP32_IEEE);
}

bool tern_cudnn_allow_tf32(void)
{
    return is_set(TERN_NUMERICS_TF32_CONV);
}

/* ---- half types -------------------------------------------------------------------------------- */

static tern_status_t set_reduction(tern_site_t site, const char *what,
                                   const tern_reduction_args *given, uint32_t reduction,
                                   uint32_t splitk)
{
    tern_reduction_args args = { 0 };
    given = core_options(given);
    memcpy(&args, given, given->size_ < sizeof args ? given->size_ : sizeof args);
    if (args.allow && args.no_splitk)
        return core_error(core_self(), site, TERN_ERR_ARGUMENT, what,
                          "reductions in the half type are made where a product is split along k: "
                          "no_splitk goes with allow = false");
    set(reduction, args.allow);
    set(splitk, !args.no_splitk);
    return TERN_OK;
}

tern_status_t tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction_at(
    tern_site_t site, const tern_reduction_args *args)
{
    return set_reduction(site, "cuda_matmul_set_allow_fp16_reduced_precision_reduction", args,
                         TERN_NUMERICS_FP16_REDUCTION, TERN_NUMERICS_FP16_SPLITK);
}

bool tern_cuda_matmul_allow_fp16_reduced_precision_reduction(void)
{
    return is_set(TERN_NUMERICS_FP16_REDUCTION);
}

tern_status_t tern_cuda_matmul_set_allow_bf16_reduced_precision_reduction_at(
    tern_site_t site, const tern_reduction_args *args)
{
    return set_reduction(site, "cuda_matmul_set_allow_bf16_reduced_precision_reduction", args,
                         TERN_NUMERICS_BF16_REDUCTION, TERN_NUMERICS_BF16_SPLITK);
}

bool tern_cuda_matmul_allow_bf16_reduced_precision_reduction(void)
{
    return is_set(TERN_NUMERICS_BF16_REDUCTION);
}

void tern_cuda_matmul_set_allow_fp16_accumulation(bool allow)
{
    set(TERN_NUMERICS_FP16_ACCUMULATION, allow);
}

bool tern_cuda_matmul_allow_fp16_accumulation(void)
{
    return is_set(TERN_NUMERICS_FP16_ACCUMULATION);
}

/* ---- repeating --------------------------------------------------------------------------------- */

void tern_cudnn_set_benchmark(bool benchmark)
{
    set(TERN_NUMERICS_CUDNN_BENCHMARK, benchmark);
}

bool tern_cudnn_benchmark(void)
{
    return is_set(TERN_NUMERICS_CUDNN_BENCHMARK);
}

void tern_cudnn_set_deterministic(bool deterministic)
{
    set(TERN_NUMERICS_CUDNN_DETERMINISTIC, deterministic);
}

bool tern_cudnn_deterministic(void)
{
    return is_set(TERN_NUMERICS_CUDNN_DETERMINISTIC);
}

void tern_cpu_set_benchmark(bool benchmark)
{
    set(BENCHMARK_SAID, true);
    set(TERN_NUMERICS_CPU_BENCHMARK, benchmark);
}

void core_numerics_environment(void)
{
    const char *way = getenv("TERN_CPU_GEMM");
    if (way != NULL && strcmp(way, "benchmark") == 0 && !is_set(BENCHMARK_SAID))
        set(TERN_NUMERICS_CPU_BENCHMARK, true);
}

bool tern_cpu_benchmark(void)
{
    return is_set(TERN_NUMERICS_CPU_BENCHMARK);
}

void tern_use_deterministic_algorithms_at(tern_site_t site, const tern_deterministic_args *given)
{
    (void)site;
    tern_deterministic_args args = { 0 };
    given = core_options(given);
    memcpy(&args, given, given->size_ < sizeof args ? given->size_ : sizeof args);
    set(TERN_NUMERICS_WARN_ONLY, args.on && args.warn_only);
    set(TERN_NUMERICS_DETERMINISTIC, args.on);
}

bool tern_deterministic_algorithms(void)
{
    return is_set(TERN_NUMERICS_DETERMINISTIC);
}

void tern_set_fill_uninitialized_memory(bool fill)
{
    set(FILL, fill);
}

bool tern_fill_uninitialized_memory(void)
{
    return is_set(FILL);
}
