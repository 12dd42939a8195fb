/* The simulated cuBLAS refuses what the real one documents as refused, orders its work in streams, and is
 * as exact as it is told to be. */
#include <cublasLt.h>
#include <dlfcn.h>

#include "backend_cuda/sim/gemm.h"
#include "tests/sim/sim_check.h"

#define assert_blas(call) assert_int_equal(call, CUBLAS_STATUS_SUCCESS)

static const float one = 1, zero = 0;

static cublasHandle_t new_handle(void)
{
    cublasHandle_t handle = NULL;
    assert_blas(cublasCreate_v2(&handle));
    return handle;
}

/* n x n, all dense. */
static cublasStatus_t square(cublasHandle_t handle, int n, const float *a, const float *b, float *c,
                             int64_t ld, cublasComputeType_t compute)
{
    return cublasGemmEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, CUDA_R_32F, ld, b,
                           CUDA_R_32F, n, &zero, c, CUDA_R_32F, n, compute, CUBLAS_GEMM_DEFAULT);
}

static void test_it_multiplies_column_major(void **state)
{
    (void)state;
    cublasHandle_t handle = new_handle();
    const float a[6] = { 1, 4, 2, 5, 3, 6 }, b[6] = { 7, 9, 11, 8, 10, 12 }; /* 2 x 3, 3 x 2 */
    const float expected[4] = { 58, 139, 64, 154 };
    float *x = device_floats(6), *y = device_floats(6), *z = device_floats(4), got[4];
    assert_cuda(cudaMemcpy(x, a, sizeof a, cudaMemcpyHostToDevice));
    assert_cuda(cudaMemcpy(y, b, sizeof b, cudaMemcpyHostToDevice));
    /* z is NaN before: with beta 0 it must not be read */
    assert_blas(cublasGemmEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one, x, CUDA_R_32F, 2,
                                y, CUDA_R_32F, 3, &zero, z, CUDA_R_32F, 2, CUBLAS_COMPUTE_32F,
                                CUBLAS_GEMM_DEFAULT));
    assert_cuda(cudaMemcpy(got, z, sizeof got, cudaMemcpyDeviceToHost));
    assert_memory_equal(got, expected, sizeof got);
    /* the transpose of x as it lies is 3 x 2 with ld 2 */
    assert_blas(cublasGemmEx_64(handle, CUBLAS_OP_T, CUBLAS_OP_T, 3, 3, 2, &one, x, CUDA_R_32F, 2,
                                y, CUDA_R_32F, 3, &zero, device_floats(9), CUDA_R_32F, 3,
                                CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    assert_cuda(cudaDeviceSynchronize());
    assert_blas(cublasDestroy_v2(handle));
}

static void test_bad_arguments_are_refused(void **state)
{
    (void)state;
    cublasHandle_t handle = new_handle();
    float *x = filled_floats(16, 1), *z = device_floats(16);
    assert_int_equal(square(NULL, 4, x, x, z, 4, CUBLAS_COMPUTE_32F),
                     CUBLAS_STATUS_NOT_INITIALIZED);
    assert_int_equal(square(handle, -1, x, x, z, 4, CUBLAS_COMPUTE_32F),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(square(handle, 4, x, x, z, 3, CUBLAS_COMPUTE_32F),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_reported("cublasGemmEx_64: lda is 3, and 4 elements follow each other");
    assert_int_equal(square(handle, 4, x, x, z, 4, CUBLAS_COMPUTE_64F),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(square(handle, 2, (float *)((char *)x + 2), x, z, 2, CUBLAS_COMPUTE_32F),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_reported("matrix A is misaligned");
    assert_int_equal(cublasSetWorkspace_v2(handle, x + 1, 8), CUBLAS_STATUS_INVALID_VALUE);
    assert_reported("not aligned to 256 bytes");
    assert_int_equal(cublasSetMathMode(handle, (cublasMath_t)64), CUBLAS_STATUS_INVALID_VALUE);
    assert_blas(cublasDestroy_v2(handle));
}

static void test_a_handle_belongs_to_a_device(void **state)
{
    (void)state;
    cublasHandle_t handle = new_handle();
    assert_cuda(cudaSetDevice(1));
    float *x = filled_floats(16, 1);
    assert_int_equal(square(handle, 4, x, x, device_floats(16), 4, CUBLAS_COMPUTE_32F),
                     CUBLAS_STATUS_EXECUTION_FAILED);
    assert_reported("the handle was made on device 0, device 1 is current");
    assert_cuda(cudaSetDevice(0));
    assert_blas(cublasDestroy_v2(handle));
}

static void test_memory_that_no_kernel_reaches_loses_the_device(void **state)
{
    (void)state;
    cublasHandle_t handle = new_handle();
    float host[16] = { 0 }, *x = filled_floats(16, 1);
    assert_blas(square(handle, 4, host, x, device_floats(16), 4, CUBLAS_COMPUTE_32F));
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_reported("matrix A of cublasGemmEx_64, 64 bytes");
    assert_reported("the host's memory");
    assert_int_equal(square(handle, 4, x, x, x, 4, CUBLAS_COMPUTE_32F),
                     CUBLAS_STATUS_EXECUTION_FAILED);
    sim_reset();
    x = filled_floats(16, 1);
    float *small = device_floats(4);
    assert_blas(square(handle, 4, x, x, small, 4, CUBLAS_COMPUTE_32F));
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_reported("the result of cublasGemmEx_64, 64 bytes");
    (void)cublasDestroy_v2(handle);
}

static void test_work_is_ordered_in_streams(void **state)
{
    (void)state;
    cudaStream_t a = NULL, b = NULL;
    assert_cuda(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    assert_cuda(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    float *x = filled_floats(16, 1), *y = device_floats(16), *z = device_floats(16);
    cublasHandle_t first = new_handle(), second = new_handle();
    assert_blas(cublasSetStream_v2(first, a));
    assert_blas(cublasSetStream_v2(second, b));
    assert_blas(square(first, 4, x, x, y, 4, CUBLAS_COMPUTE_32F));
    assert_int_equal(square(second, 4, y, x, z, 4, CUBLAS_COMPUTE_32F),
                     CUBLAS_STATUS_EXECUTION_FAILED);
    assert_reported("stream race (read after write)");
    assert_cuda(cudaDeviceSynchronize());
    /* one workspace for two streams is a race, too */
    void *workspace = device_floats(64);
    assert_blas(cublasSetWorkspace_v2(first, workspace, 256));
    assert_blas(cublasSetWorkspace_v2(second, workspace, 256));
    assert_blas(square(first, 4, x, x, y, 4, CUBLAS_COMPUTE_32F));
    assert_int_equal(square(second, 4, x, x, z, 4, CUBLAS_COMPUTE_32F),
                     CUBLAS_STATUS_EXECUTION_FAILED);
    assert_reported("stream race (write after write)");
    /* setting the stream takes the workspace away */
    assert_blas(cublasSetStream_v2(second, b));
    assert_blas(square(second, 4, x, x, z, 4, CUBLAS_COMPUTE_32F));
    assert_blas(cublasDestroy_v2(first));
    assert_blas(cublasDestroy_v2(second));
}

static float product_of(cublasHandle_t handle, float value, cublasComputeType_t compute)
{
    float *x = filled_floats(1, value), *z = device_floats(1);
    assert_blas(square(handle, 1, x, filled_floats(1, 1), z, 1, compute));
    assert_cuda(cudaDeviceSynchronize());
    return first_float(z);
}

static void test_tf32_shows(void **state)
{
    (void)state;
    cublasHandle_t handle = new_handle();
    const float fine = 1 + 0x1p-12f, coarse = 1 + 0x1p-10f;
    assert_true(product_of(handle, fine, CUBLAS_COMPUTE_32F) == fine);
    assert_true(product_of(handle, fine, CUBLAS_COMPUTE_32F_FAST_TF32) == 1);
    assert_true(product_of(handle, coarse, CUBLAS_COMPUTE_32F_FAST_TF32) == coarse);
    assert_blas(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH));
    assert_true(product_of(handle, fine, CUBLAS_COMPUTE_32F) == 1);
    assert_blas(cublasDestroy_v2(handle));
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

typedef struct lt_parts {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t layout; /* 4 x 4 */
    cublasLtMatmulPreference_t want;
    cublasLtMatmulHeuristicResult_t result;
    int count;
} lt_parts;

static lt_parts new_parts(uint32_t alignment)
{
    lt_parts p = { 0 };
    assert_blas(cublasLtCreate(&p.handle));
    assert_blas(cublasLtMatmulDescCreate(&p.product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    assert_blas(cublasLtMatrixLayoutCreate(&p.layout, CUDA_R_32F, 4, 4, 4));
    assert_blas(cublasLtMatmulPreferenceCreate(&p.want));
    for (int side = 5; side <= 8; side++)
        assert_blas(cublasLtMatmulPreferenceSetAttribute(
            p.want, (cublasLtMatmulPreferenceAttributes_t)side, &alignment, sizeof alignment));
    assert_blas(cublasLtMatmulAlgoGetHeuristic(p.handle, p.product, p.layout, p.layout, p.layout,
                                               p.layout, p.want, 1, &p.result, &p.count));
    assert_int_equal(p.count, 1);
    return p;
}

static void drop_parts(lt_parts *p)
{
    assert_blas(cublasLtMatmulPreferenceDestroy(p->want));
    assert_blas(cublasLtMatrixLayoutDestroy(p->layout));
    assert_blas(cublasLtMatmulDescDestroy(p->product));
    assert_blas(cublasLtDestroy(p->handle));
}

static cublasStatus_t multiply(lt_parts *p, const float *a, float *d)
{
    return cublasLtMatmul(p->handle, p->product, &one, a, p->layout, a, p->layout, &zero, d,
                          p->layout, d, p->layout, &p->result.algo, NULL, 0, NULL);
}

static void test_an_algorithm_wants_what_it_was_promised(void **state)
{
    (void)state;
    float *x = filled_floats(32, 1), *z = device_floats(16);
    lt_parts p = new_parts(16);
    assert_blas(multiply(&p, x, z));
    assert_int_equal(multiply(&p, x + 1, z), CUBLAS_STATUS_NOT_SUPPORTED);
    assert_reported("matrix A is not aligned to 16 bytes");
    drop_parts(&p);
    p = new_parts(4);
    assert_blas(multiply(&p, x + 1, z));
    assert_cuda(cudaDeviceSynchronize());
    assert_true(first_float(z) == 4);
    drop_parts(&p);
}

static void test_a_bias_needs_its_pointer_and_attributes_their_size(void **state)
{
    (void)state;
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const void *bias = filled_floats(4, 10);
    float *x = filled_floats(16, 1), *z = device_floats(16);
    lt_parts p = new_parts(16);
    assert_int_equal(
        cublasLtMatmulDescSetAttribute(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 8),
        CUBLAS_STATUS_INVALID_VALUE);
    assert_blas(cublasLtMatmulDescSetAttribute(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                               sizeof epilogue));
    assert_int_equal(multiply(&p, x, z), CUBLAS_STATUS_INVALID_VALUE);
    assert_blas(cublasLtMatmulDescSetAttribute(p.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                               sizeof bias));
    assert_blas(multiply(&p, x, z));
    assert_cuda(cudaDeviceSynchronize());
    assert_true(first_float(z) == 14);
    drop_parts(&p);
}

/* ---- injected failures, absent libraries ------------------------------------------------------- */

static void test_calls_fail_when_they_are_told_to(void **state)
{
    (void)state;
    cublasHandle_t none = NULL;
    assert_int_equal(sim_set("FAIL", "cublasCreate_v2@2=3"), 0);
    cublasHandle_t first = new_handle();
    assert_int_equal(cublasCreate_v2(&none), CUBLAS_STATUS_ALLOC_FAILED);
    assert_null(none);
    assert_blas(cublasDestroy_v2(first));
    assert_blas(cublasDestroy_v2(new_handle()));
}

static void test_libraries_can_be_absent(void **state)
{
    (void)state;
    void *blas = dlopen("libcublas.so.13", RTLD_LAZY);
    assert_non_null(blas);
    assert_non_null(dlsym(blas, "cublasCreate_v2"));
    assert_null(dlsym(blas, "cublasNothing"));
    assert_int_equal(sim_set("ABSENT", "cublas,cublasLtMatmul"), 0);
    assert_null(dlopen("libcublas.so.13", RTLD_LAZY));
    assert_string_equal(dlerror(), "libcublas.so.13: absent from the simulated machine");
    void *lt = dlopen("libcublasLt.so.13", RTLD_LAZY);
    assert_non_null(dlsym(lt, "cublasLtCreate"));
    assert_null(dlsym(lt, "cublasLtMatmul"));
    assert_int_equal(dlclose(lt), 0);
    assert_int_equal(sim_set("ABSENT", ""), 0);
    assert_non_null(dlopen("libcublas.so.13", RTLD_LAZY));
    assert_null(dlopen("libcublas.so.12", RTLD_LAZY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_it_multiplies_column_major),
        TEST(test_bad_arguments_are_refused),
        TEST(test_a_handle_belongs_to_a_device),
        TEST(test_memory_that_no_kernel_reaches_loses_the_device),
        TEST(test_work_is_ordered_in_streams),
        TEST(test_tf32_shows),
        TEST(test_an_algorithm_wants_what_it_was_promised),
        TEST(test_a_bias_needs_its_pointer_and_attributes_their_size),
        TEST(test_calls_fail_when_they_are_told_to),
        TEST(test_libraries_can_be_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
