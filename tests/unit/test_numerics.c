/* Settings of precision and repetition: PyTorch's defaults, inheritance of scopes, refusals. */
#include <math.h>
#include <stdlib.h>

#include "core/numerics.h"
#include "tern/tern.h"
#include "tests/support/check.h"

static void test_defaults(void **state)
{
    (void)state;
    assert_false(tern_cuda_matmul_allow_tf32());
    assert_false(tern_cudnn_allow_tf32());
    assert_true(tern_cuda_matmul_allow_fp16_reduced_precision_reduction());
    assert_true(tern_cuda_matmul_allow_bf16_reduced_precision_reduction());
    assert_false(tern_cuda_matmul_allow_fp16_accumulation());
    assert_false(tern_cudnn_benchmark());
    assert_false(tern_cudnn_deterministic());
    assert_false(tern_cpu_benchmark());
    assert_false(tern_deterministic_algorithms());
    assert_true(tern_fill_uninitialized_memory());
    for (int scope = TERN_FP32_ALL; scope <= TERN_FP32_CUDNN_CONV; scope++)
        assert_int_equal(tern_fp32_precision((tern_fp32_scope_t)scope), TERN_FP32_IEEE);
}

static void test_scopes_inherit_until_they_are_set(void **state)
{
    (void)state;
    tern_set_fp32_precision(TERN_FP32_ALL, TERN_FP32_TF32);
    assert_true(tern_cuda_matmul_allow_tf32());
    assert_true(tern_cudnn_allow_tf32());
    tern_set_fp32_precision(TERN_FP32_CUDNN, TERN_FP32_IEEE);
    assert_true(tern_cuda_matmul_allow_tf32());
    assert_false(tern_cudnn_allow_tf32());
    tern_set_fp32_precision(TERN_FP32_CUDNN_CONV, TERN_FP32_TF32);
    assert_int_equal(tern_fp32_precision(TERN_FP32_CUDNN), TERN_FP32_IEEE);
    assert_true(tern_cudnn_allow_tf32());
    tern_set_fp32_precision(TERN_FP32_CUDNN_CONV, TERN_FP32_NONE);
    assert_false(tern_cudnn_allow_tf32());
    tern_set_fp32_precision(TERN_FP32_CUDNN, TERN_FP32_NONE);
    tern_set_fp32_precision(TERN_FP32_ALL, TERN_FP32_NONE);
    assert_false(tern_cuda_matmul_allow_tf32());
}

static void test_old_names_are_the_same_settings(void **state)
{
    (void)state;
    tern_cuda_matmul_set_allow_tf32(true);
    assert_int_equal(tern_fp32_precision(TERN_FP32_CUDA_MATMUL), TERN_FP32_TF32);
    assert_false(tern_cudnn_allow_tf32());
    tern_cuda_matmul_set_allow_tf32(false);
    tern_cudnn_set_allow_tf32(true);
    assert_int_equal(tern_fp32_precision(TERN_FP32_CUDNN_CONV), TERN_FP32_TF32);
    tern_cudnn_set_allow_tf32(false);
    assert_int_equal(core_numerics() & (TERN_NUMERICS_TF32_MATMUL | TERN_NUMERICS_TF32_CONV), 0);
}

static void test_reductions_without_a_split_are_refused(void **state)
{
    (void)state;
    const uint32_t before = core_numerics();
    assert_int_equal(tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction(true, true),
                     TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "no_splitk goes with allow = false");
    assert_int_equal(core_numerics(), before);
    assert_int_equal(tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction(false, true),
                     TERN_OK);
    assert_int_equal(tern_cuda_matmul_set_allow_bf16_reduced_precision_reduction(false), TERN_OK);
    assert_int_equal(before ^ core_numerics(), TERN_NUMERICS_FP16_REDUCTION |
                                                   TERN_NUMERICS_FP16_SPLITK |
                                                   TERN_NUMERICS_BF16_REDUCTION);
    (void)tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction(true);
    (void)tern_cuda_matmul_set_allow_bf16_reduced_precision_reduction(true);
    assert_int_equal(core_numerics(), before);
}

/* What the program has said holds against the environment, which counts where it has said nothing. */
static void test_the_cpu_measures_where_it_is_asked_to(void **state)
{
    (void)state;
    (void)setenv("TERN_CPU_GEMM", "own", 1);
    core_numerics_environment();
    assert_false(tern_cpu_benchmark());
    (void)setenv("TERN_CPU_GEMM", "benchmark", 1);
    core_numerics_environment();
    assert_true(tern_cpu_benchmark());
    tern_cpu_set_benchmark(false);
    core_numerics_environment();
    assert_false(tern_cpu_benchmark());
    tern_cpu_set_benchmark(true);
    assert_int_equal(core_numerics() & TERN_NUMERICS_CPU_BENCHMARK, TERN_NUMERICS_CPU_BENCHMARK);
    tern_cpu_set_benchmark(false);
    (void)unsetenv("TERN_CPU_GEMM");
}

static void test_empty_is_filled_under_deterministic_algorithms(void **state)
{
    (void)state;
    tern_use_deterministic_algorithms(true);
    tern_tensor *f = tern_empty(TERN_SHAPE(3), .dtype = TERN_F16);
    tern_tensor *i = tern_empty(TERN_SHAPE(3), .dtype = TERN_I64);
    tern_tensor *u = tern_empty(TERN_SHAPE(3), .dtype = TERN_U8);
    tern_tensor *b = tern_empty(TERN_SHAPE(3), .dtype = TERN_BOOL);
    assert_true(isnan(tern_item(tern_select(f, 0, 1))));
    assert_int_equal(((const int64_t *)tern_data(i))[2], INT64_MAX);
    assert_int_equal(((const uint8_t *)tern_data(u))[2], 255);
    assert_int_equal(((const uint8_t *)tern_data(b))[2], 1);
    tern_use_deterministic_algorithms(false);
}

/* A value that memory had, or nothing, but not the one that fills. */
static bool is_filled(void)
{
    enum { N = 5000 };
    tern_release(tern_full(7, TERN_SHAPE(N), .dtype = TERN_I64));
    tern_tensor *t = tern_empty(TERN_SHAPE(N), .dtype = TERN_I64);
    const bool filled = ((const int64_t *)tern_data(t))[N / 2] == INT64_MAX;
    tern_release(t);
    return filled;
}

static void test_empty_is_filled_only_when_both_say_so(void **state) /* R024 */
{
    (void)state;
    const bool owned = tern_set_owned_mode(true);
    assert_false(is_filled());
    tern_use_deterministic_algorithms(true);
    assert_true(is_filled());
    tern_set_fill_uninitialized_memory(false);
    assert_false(tern_fill_uninitialized_memory());
    assert_false(is_filled());
    tern_set_fill_uninitialized_memory(true);
    tern_use_deterministic_algorithms(false);
    assert_true(tern_set_owned_mode(owned));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_scopes_inherit_until_they_are_set),
        cmocka_unit_test(test_old_names_are_the_same_settings),
        cmocka_unit_test(test_reductions_without_a_split_are_refused),
        cmocka_unit_test(test_the_cpu_measures_where_it_is_asked_to),
        cmocka_unit_test(test_empty_is_filled_under_deterministic_algorithms),
        cmocka_unit_test(test_empty_is_filled_only_when_both_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
