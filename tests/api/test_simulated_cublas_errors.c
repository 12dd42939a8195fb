/* Failures of cuBLAS on simulated devices: every status is an error with name, meaning and device, or another
 * way to the product; and the next product is right. Each case runs in a child, since the simulator reads
 * what is to fail once. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/child.h"

/* 3 x 4 ones times ones: 4; linear adds a bias of 1. -1: an error is pending. */
static double product(int64_t rows)
{
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(rows, 4), .device = TERN_CUDA(0));
    return tern_item(tern_amax(tern_matmul(x, tern_transpose(x, 0, 1))));
}

static double linear(int64_t rows)
{
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(rows, 4), .device = TERN_CUDA(0));
    tern_tensor *bias = tern_ones(TERN_SHAPE(rows), .device = TERN_CUDA(0));
    return tern_item(tern_amax(tern_linear(x, x, bias)));
}

typedef bool (*body)(const void *what);

static bool in_child(const char *fail, body run, const void *what)
{
    int status = 0;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        (void)setenv("TERN_SIM_DEVICES", "1", 1);
        (void)setenv("TERN_SIM_FAIL", fail, 1);
        const bool ok = run(what);
        if (tern_failed())
            (void)fprintf(stderr, "%s\n", tern_error_text());
        (void)fflush(NULL);
        exit(ok ? 0 : 1); /* not _exit: what ran is counted */
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* ---- statuses ---------------------------------------------------------------------------------- */

typedef struct status_case {
    int status;
    const char *name, *meaning;
    tern_status_t code;
} status_case;

static const status_case statuses[] = {
    { 1, "CUBLAS_STATUS_NOT_INITIALIZED (1)", "could not start on the device", TERN_ERR_BACKEND },
    { 7, "CUBLAS_STATUS_INVALID_VALUE (7)", "an argument was refused", TERN_ERR_BACKEND },
    { 11, "CUBLAS_STATUS_MAPPING_ERROR (11)", "could not be reached", TERN_ERR_BACKEND },
    { 13, "CUBLAS_STATUS_EXECUTION_FAILED (13)", "could not be started", TERN_ERR_BACKEND },
    { 14, "CUBLAS_STATUS_INTERNAL_ERROR (14)", "failed inside", TERN_ERR_BACKEND },
    { 16, "CUBLAS_STATUS_LICENSE_ERROR (16)", "no license", TERN_ERR_BACKEND },
    { 42, "a status without a name (42)", "not in cuBLAS's documentation", TERN_ERR_BACKEND },
};

static bool says(const status_case *c)
{
    const char *text = tern_error_text();
    const bool ok = tern_error_code() == c->code && strstr(text, c->name) != NULL &&
                    strstr(text, c->meaning) != NULL && strstr(text, "cuda:0 (simulated)") != NULL;
    if (ok)
        tern_error_clear();
    return ok;
}

static bool product_says(const void *what)
{
    (void)product(3);
    return says(what) && product(3) == 4;
}

static bool linear_says(const void *what)
{
    (void)linear(3);
    return says(what) && linear(3) == 5;
}

static void test_each_status_is_explained(void **state)
{
    (void)state;
    char fail[64];
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        const status_case *c = &statuses[i];
        (void)snprintf(fail, sizeof fail, "cublasGemmEx_64@1=%d", c->status);
        assert_true(in_child(fail, product_says, c));
        (void)snprintf(fail, sizeof fail, "cublasLtMatmul@1=%d", c->status);
        assert_true(c->status == 7 || in_child(fail, linear_says, c)); /* 7: cuBLAS may take it */
    }
}

/* Once more after the cache has given memory back, then it is an error. */
static void test_no_memory_inside_twice(void **state)
{
    (void)state;
    static const status_case full = { 3, "CUBLAS_STATUS_ALLOC_FAILED (3)", "no memory of its own",
                                      TERN_ERR_OOM };
    assert_true(in_child("cublasGemmEx_64@1=3,cublasGemmEx_64@2=3", product_says, &full));
    assert_true(in_child("cublasLtMatmul@1=3,cublasLtMatmul@2=3", linear_says, &full));
}

/* ---- each call --------------------------------------------------------------------------------- */

/* An error first, then all is well: nothing half-made stays. */
static bool recovers(const void *what)
{
    (void)what;
    const double first = linear(3), second = product(3);
    const bool failed = tern_failed();
    tern_error_clear();
    (void)first, (void)second;
    return failed && linear(3) == 5 && product(3) == 4;
}

static void test_every_call_may_fail_once(void **state)
{
    (void)state;
    static const char *const calls[] = { "cublasCreate_v2",
                                         "cublasSetStream_v2",
                                         "cublasSetWorkspace_v2",
                                         "cublasGemmEx_64",
                                         "cublasLtCreate",
                                         "cublasLtMatrixLayoutCreate",
                                         "cublasLtMatmulDescCreate",
                                         "cublasLtMatmulDescSetAttribute",
                                         "cublasLtMatmulPreferenceCreate",
                                         "cublasLtMatmulPreferenceSetAttribute",
                                         "cublasLtMatmulAlgoGetHeuristic",
                                         "cublasLtMatmul" };
    char fail[96];
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        (void)snprintf(fail, sizeof fail, "%s@1=14", calls[i]);
        assert_true(in_child(fail, recovers, NULL));
    }
}

static bool batch_and_mode_recover(const void *what)
{
    (void)what;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 3, 3), .device = TERN_CUDA(0), .dtype = TERN_F16);
    tern_matmul(x, x);
    const bool first = tern_failed();
    tern_error_clear();
    (void)tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction(false);
    tern_matmul(x, x);
    const bool second = tern_failed();
    tern_error_clear();
    return first && second && tern_item(tern_amax(tern_matmul(x, x))) == 3;
}

static void test_batches_and_modes_may_fail_once(void **state)
{
    (void)state;
    assert_true(in_child("cublasGemmStridedBatchedEx_64@1=14,cublasSetMathMode@1=14",
                         batch_and_mode_recover, NULL));
}

/* ---- what is not supported runs otherwise -------------------------------------------------------- */

static bool both_are_right(const void *what)
{
    (void)what;
    return product(3) == 4 && linear(3) == 5 && linear(3) == 5 && !tern_failed();
}

static void test_what_is_not_supported_runs_otherwise(void **state)
{
    (void)state;
    assert_true(in_child("cublasGemmEx_64@1=15", both_are_right, NULL));
    assert_true(in_child("cublasLtMatmul@1=15", both_are_right, NULL));
    assert_true(in_child("cublasLtMatmulAlgoGetHeuristic@1=15", both_are_right, NULL));
    /* kernels that this device has not, and what cublasLt alone does not take */
    assert_true(in_child("cublasGemmEx_64@1=8", both_are_right, NULL));
    assert_true(in_child("cublasLtMatmul@1=8", both_are_right, NULL));
    assert_true(in_child("cublasLtMatmul@1=7", both_are_right, NULL));
    assert_true(in_child("cublasLtMatmulAlgoGetHeuristic@1=7", both_are_right, NULL));
    /* no memory for a kernel that is loaded at its first use, while the cache has some */
    assert_true(in_child("cublasGemmEx_64@1=3", both_are_right, NULL));
    assert_true(in_child("cublasLtMatmul@1=3", both_are_right, NULL));
    assert_true(
        in_child("cublasLtMatmulAlgoGetHeuristic@1=15,cublasGemmEx_64@2=15", both_are_right, NULL));
}

static bool algorithm_is_kept(const void *what)
{
    (void)what;
    const bool kept = linear(3) == 5 && linear(3) == 5 && !tern_failed();
    (void)linear(6); /* another shape asks again */
    const bool asked = tern_failed();
    tern_error_clear();
    return kept && asked && linear(6) == 5;
}

static void test_algorithms_are_kept_by_shape(void **state)
{
    (void)state;
    assert_true(in_child("cublasLtMatmulAlgoGetHeuristic@2=14", algorithm_is_kept, NULL));
}

/* ---- memory, lost devices ---------------------------------------------------------------------- */

static bool no_room_for_the_workspace(const void *what)
{
    (void)what;
    (void)product(3);
    const bool failed =
        tern_error_code() == TERN_ERR_OOM &&
        strstr(tern_error_text(), "no memory for 33554432 bytes of work space of cuBLAS") != NULL;
    if (failed)
        tern_error_clear();
    return failed && setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1) == 0 && product(3) == 4 &&
           tern_memory(TERN_CUDA(0)).allocated_bytes == 16 * 8 * 1024;
}

static void test_no_room_for_the_workspace(void **state) /* M095 */
{
    (void)state;
    (void)setenv("TERN_SIM_MEMORY", "24M", 1);
    assert_true(in_child("", no_room_for_the_workspace, NULL));
    (void)unsetenv("TERN_SIM_MEMORY");
}

/* The workspace is there, and all else lies in the allocator's cache: what a handle takes is given back. */
static bool handle_finds_room(const void *what)
{
    (void)what;
    {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(3, 4), .device = TERN_CUDA(0));
        tern_empty(TERN_SHAPE(32 << 20), .dtype = TERN_U8, .device = tern_device(x));
        tern_empty(TERN_SHAPE((64 - 34) << 20), .dtype = TERN_U8, .device = tern_device(x));
    }
    const bool full = tern_memory(TERN_CUDA(0)).reserved_bytes == 64 << 20;
    return full && product(3) == 4 && !tern_failed() &&
           tern_memory(TERN_CUDA(0)).reserved_bytes < 64 << 20;
}

static void test_a_full_device_makes_room_for_a_handle(void **state)
{
    (void)state;
    (void)setenv("TERN_SIM_MEMORY", "64M", 1);
    assert_true(in_child("", handle_finds_room, NULL));
    (void)unsetenv("TERN_SIM_MEMORY");
    assert_true(in_child("cublasCreate_v2@1=1", both_are_right, NULL));
    assert_true(in_child("cublasCreate_v2@1=3", both_are_right, NULL));
}

static bool lost_device_is_said(const void *what)
{
    (void)what;
    (void)product(3);
    const bool first = strstr(tern_error_text(), "the device is lost") != NULL;
    tern_error_clear();
    TERN_SCOPE;
    (void)product(3);
    const bool second = tern_failed();
    if (first && second)
        tern_error_clear();
    return first && second;
}

/* cuBLAS has a runtime of its own: the fault of the kernel before is told to it, and not to the backend's. */
static bool the_library_hears_first(const void *what)
{
    (void)what;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(3, 3), .device = TERN_CUDA(0));
    (void)tern_matmul(x, x); /* handle and memory are there from now on */
    tern_drop(tern_matmul(x, x));
    (void)tern_neg(x);
    if (tern_failed() || tern_matmul(x, x) != NULL)
        return false;
    const char *text = tern_error_text();
    const bool ok = strstr(text, "CUBLAS_STATUS_EXECUTION_FAILED (13)") != NULL &&
                    strstr(text, "cudaErrorIllegalAddress (700)") != NULL &&
                    strstr(text, "the device is lost") != NULL;
    if (ok)
        tern_error_clear();
    return ok;
}

static void test_a_fault_inside_loses_the_device(void **state)
{
    (void)state;
    (void)setenv("TERN_SIM_ASYNC", "eager", 1); /* so that no wait is told before */
    assert_true(in_child("launch:k_map_packs@1=700", the_library_hears_first, NULL));
    (void)unsetenv("TERN_SIM_ASYNC");
    assert_true(in_child("launch:cublasGemmEx_64@1=700", lost_device_is_said, NULL));
}

/* A bias whose address keeps it out of cuBLASLt's pass is added there all the same. */
static void a_bias_apart_leaves_k_whole(void)
{
    TERN_SCOPE;
    tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction(false, .no_splitk = true);
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 512), .dtype = TERN_F16, .device = TERN_CUDA(0));
    tern_tensor *w = tern_ones(TERN_SHAPE(4, 512), .dtype = TERN_F16, .device = TERN_CUDA(0));
    tern_tensor *b = tern_full(3, TERN_SHAPE(5), .dtype = TERN_F16, .device = TERN_CUDA(0));
    tern_tensor *y = tern_linear(x, w, tern_slice(b, 0, 1));
    EXPECT(tern_item(tern_amax(y)) == 515 && tern_item(tern_amin(y)) == 515);
    EXPECT(!tern_failed());
}

static void test_no_splitk_holds_with_a_bias_apart(void **state) /* R031 */
{
    (void)state;
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    assert_in_child(a_bias_apart_leaves_k_whole, .fail = "cublasGemmEx_64@1=13");
    assert_in_child(a_bias_apart_leaves_k_whole, .absent = "cublasLt");
}

/* ---- the workspace's size ---------------------------------------------------------------------- */

typedef struct workspace_case {
    const char *config; /* CUBLAS_WORKSPACE_CONFIG */
    int64_t bytes;
} workspace_case;

static bool workspace_is(const void *what)
{
    const workspace_case *c = what;
    (void)setenv("CUBLAS_WORKSPACE_CONFIG", c->config, 1);
    const double value = product(3);
    const int64_t with = tern_memory(TERN_CUDA(0)).allocated_bytes;
    tern_clear_workspaces(TERN_CUDA(0));
    const int64_t bytes = with - tern_memory(TERN_CUDA(0)).allocated_bytes;
    if (bytes != c->bytes)
        (void)fprintf(stderr, "%s: %lld bytes\n", c->config, (long long)bytes);
    return value == 4 && bytes == c->bytes;
}

static void test_the_workspace_is_as_it_is_configured(void **state) /* M095 */
{
    (void)state;
    enum { USUAL = 32 << 20 };
    static const workspace_case cases[] = {
        { ":4096:2:16:8", (2 * 4096 + 16 * 8) * 1024 },
        { ":16:8", 16 * 8 * 1024 },
        { "4096:2", USUAL }, /* what is not understood counts as not said */
        { ":4096", USUAL },
        { ":4096:", USUAL },
        { ":-1:2", USUAL },
        { ":0:0", USUAL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(in_child("", workspace_is, &cases[i]));
}

/* ---- libraries --------------------------------------------------------------------------------- */

static void own_kernels_take_over(void)
{
    EXPECT(product(3) == 4 && linear(3) == 5);
    EXPECT(child_said("cuBLAS is not used, matrix products run on tern's own kernels") == 1);
    EXPECT(child_said("libcublas.so.13: it has no cublasGemmEx_64") == 1);
}

static void nothing_but_the_bias_is_apart(void)
{
    EXPECT(product(3) == 4 && linear(3) == 5);
    EXPECT(child_said("cuBLASLt is not used, a bias is added apart from its product: "
                      "libcublasLt.so.13: absent from the simulated machine") == 1);
    EXPECT(child_said("cuBLAS is not used") == 0);
}

static void test_why_a_library_is_not_used_is_said_once(void **state)
{
    (void)state;
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    assert_in_child(own_kernels_take_over, .absent = "cublasGemmEx_64");
    assert_in_child(nothing_but_the_bias_is_apart, .absent = "cublasLt");
}

static int answers; /* that the log's callback got */

static bool describes(void)
{
    tern_dev_info_t info;
    return tern_dev_info(TERN_CUDA(0), &info) && info.simulated;
}

static void use_devices(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)level, (void)site, (void)user;
    if (strstr(text, "is not used") != NULL)
        answers += product(3) == 4 && linear(3) == 5 && describes();
}

static void a_product_is_first(void)
{
    (void)alarm(20);
    tern_log_set_callback(use_devices, NULL);
    EXPECT(product(3) == 4 && linear(3) == 5 && answers == 1);
}

static void a_question_is_first(void)
{
    (void)alarm(20);
    tern_log_set_callback(use_devices, NULL);
    EXPECT(describes() && answers == 1);
}

static void test_a_callback_of_the_log_may_use_the_device(void **state)
{
    (void)state;
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    assert_in_child(a_product_is_first, .absent = "cublas");
    assert_in_child(a_product_is_first, .absent = "cublasLt");
    assert_in_child(a_question_is_first, .absent = "cublas");
    assert_in_child(a_question_is_first, .absent = "cudnn");
    assert_in_child(a_question_is_first, .absent = "nvidia-ml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_status_is_explained),
        cmocka_unit_test(test_no_memory_inside_twice),
        cmocka_unit_test(test_every_call_may_fail_once),
        cmocka_unit_test(test_batches_and_modes_may_fail_once),
        cmocka_unit_test(test_what_is_not_supported_runs_otherwise),
        cmocka_unit_test(test_algorithms_are_kept_by_shape),
        cmocka_unit_test(test_no_room_for_the_workspace),
        cmocka_unit_test(test_a_full_device_makes_room_for_a_handle),
        cmocka_unit_test(test_a_fault_inside_loses_the_device),
        cmocka_unit_test(test_no_splitk_holds_with_a_bias_apart),
        cmocka_unit_test(test_the_workspace_is_as_it_is_configured),
        cmocka_unit_test(test_why_a_library_is_not_used_is_said_once),
        cmocka_unit_test(test_a_callback_of_the_log_may_use_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
