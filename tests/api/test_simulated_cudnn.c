/* Convolution by cuDNN on simulated devices: there, absent, disabled, refusing, failing; algorithms by the
 * flags, kept by shape. Each case runs in a child, since a process opens the library once.
 * Row R021. */
#include <stdio.h>
#include <stdlib.h>

#include "tern/debug.h"
#include "tests/support/child.h"

/* ---- a convolution and its gradients ----------------------------------------------------------- */

typedef struct problem {
    tern_tensor *x, *w, *bias;
    int64_t groups;
} problem;

static problem make_problem(int64_t images)
{
    return (problem){ tern_randn(TERN_SHAPE(images, 4, 9, 8)), tern_randn(TERN_SHAPE(6, 4, 3, 3)),
                      tern_randn(TERN_SHAPE(6)), 1 };
}

/* Result and gradients; false after an error. */
static bool solve(const problem *p, tern_dev_t dev, tern_tensor *out[4])
{
    tern_tensor *in[3] = { p->x, p->w, p->bias };
    for (int i = 0; i < 3; i++)
        in[i] = tern_set_requires_grad(tern_detach(tern_to(in[i], dev)), true);
    out[0] = tern_conv2d(in[0], in[1], in[2], .padding = { 1 }, .groups = p->groups);
    tern_backward(tern_sum(tern_mul(out[0], out[0])));
    for (int i = 0; i < 3 && !tern_failed(); i++)
        out[1 + i] = tern_grad_of(in[i]);
    return !tern_failed();
}

static void expect_agreement(const problem *p, double tolerance)
{
    tern_tensor *here[4], *there[4];
    EXPECT(solve(p, TERN_CPU, here));
    EXPECT(solve(p, TERN_CUDA(0), there));
    for (int i = 0; i < 4; i++)
        EXPECT(child_distance(there[i], here[i]) <= tolerance);
    EXPECT(!tern_failed());
}

static const double exact = 2e-6;

/* ---- there, absent, disabled, refusing --------------------------------------------------------- */

static bool is_reported(void)
{
    tern_dev_info_t info;
    return tern_dev_info(TERN_CUDA(0), &info) && strstr(info.libraries, "cuDNN 9.19.0") != NULL;
}

static void it_is_used(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    expect_agreement(&p, exact);
    EXPECT(child_said("conv2d on cuda:0: cuDNN takes IMPLICIT_PRECOMP_GEMM by heuristics") == 1);
    EXPECT(child_said("conv2d_grad_input on cuda:0: cuDNN takes ALGO_0") == 1);
    EXPECT(child_said("conv2d_grad_weight on cuda:0: cuDNN takes ALGO_0") == 1);
    EXPECT(child_said("own kernel") == 0);
    expect_agreement(&p, exact); /* kept by shape */
    EXPECT(child_said("cuDNN takes") == 3);
    const problem other = make_problem(3);
    expect_agreement(&other, exact);
    EXPECT(child_said("cuDNN takes") == 6);
    EXPECT(is_reported());
}

static void it_is_absent(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    expect_agreement(&p, exact);
    expect_agreement(&p, exact);
    EXPECT(child_said(
               "cuDNN is not used, own kernels do convolutions, pooling, batch normalisation and "
               "recurrent layers: libcudnn.so.9: absent") == 1);
    EXPECT(child_said("cuDNN") == 1);
    EXPECT(!is_reported());
}

/* One of the files that it opens itself is missing: it would end the process. */
static void it_is_not_whole(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    expect_agreement(&p, exact);
    EXPECT(child_said("recurrent layers: libcudnn_graph.so.9: absent") == 1);
    EXPECT(!is_reported());
}

/* Builds for both versions of CUDA have the same name. */
static void it_is_of_another_cuda(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    expect_agreement(&p, exact);
    EXPECT(child_said("libcudnn.so.9: it is built for CUDA 12, this plugin for CUDA 13") == 1);
    EXPECT(!is_reported());
}

static void it_is_disabled(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    tern_cudnn_set_enabled(false);
    expect_agreement(&p, exact);
    EXPECT(child_said("cuDNN") == 0);
    tern_cudnn_set_enabled(true);
    expect_agreement(&p, exact);
    EXPECT(child_said("cuDNN takes") == 3);
}

/* More positions than a grid's y has tiles for; the work itself is left out, it takes seconds here. */
static void many_images_need_no_cudnn(void)
{
    const tern_dev_t dev = TERN_CUDA(0);
    tern_cudnn_set_enabled(false);
    tern_tensor *x = tern_ones(TERN_SHAPE(128, 1, 224, 224), .device = dev, .requires_grad = true);
    tern_tensor *w = tern_ones(TERN_SHAPE(1, 1, 1, 1), .device = dev, .requires_grad = true);
    tern_tensor *y = tern_conv2d(x, w);
    EXPECT(y != NULL);
    tern_backward(y, .gradient = tern_detach(x));
    EXPECT(!tern_failed());
    EXPECT(tern_dev_synchronize(dev) == TERN_ERR_BACKEND);
    EXPECT(strstr(tern_error_text(), "cudaErrorIllegalAddress (700)") != NULL);
    exit(0); /* nothing more can be done there */
}

static void test_cudnn_is_used_absent_or_disabled(void **state)
{
    (void)state;
    assert_in_child(it_is_used, 0);
    assert_in_child(it_is_absent, .absent = "cudnn");
    assert_in_child(it_is_not_whole, .absent = "cudnn_graph");
    assert_in_child(it_is_of_another_cuda, .fail = "cudnnGetCudartVersion@1=12080");
    assert_in_child(it_is_disabled, 0);
    assert_in_child(many_images_need_no_cudnn, .fail = "launch:k_conv2d@1=700");
}

static void it_refuses(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    expect_agreement(&p, exact);
    expect_agreement(&p, exact);
    EXPECT(child_said("conv2d on cuda:0: an own kernel instead of cuDNN: CUDNN_STATUS_") == 1);
    EXPECT(child_said("own kernel") == 1);
}

/* Of one address: the next one of that shape is asked for again, and here fails at it. */
static void an_address_is_refused(void)
{
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1, 4, 5, 5), .device = TERN_CUDA(0));
    tern_tensor *w = tern_ones(TERN_SHAPE(2, 4, 3, 3), .device = TERN_CUDA(0));
    EXPECT(tern_item(tern_amax(tern_conv2d(x, w))) == 36);
    EXPECT(child_said("an own kernel instead of cuDNN: CUDNN_STATUS_BAD_PARAM_MISALIGNED") == 1);
    EXPECT(tern_conv2d(x, w) == NULL && tern_error_code() == TERN_ERR_BACKEND);
    tern_error_clear();
}

static void it_does_not_start(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    expect_agreement(&p, exact);
    expect_agreement(&p, exact);
    EXPECT(
        child_said("an own kernel instead of cuDNN: CUDNN_STATUS_NOT_INITIALIZED (1001): it cannot "
                   "start on this device") == 1);
    EXPECT(child_said("cuDNN takes") == 0);
}

static void test_what_cudnn_refuses_own_kernels_do(void **state)
{
    (void)state;
    assert_in_child(it_refuses, .fail = "cudnnConvolutionForward@1=3000");
    assert_in_child(it_refuses, .fail = "cudnnConvolutionForward@1=2000");
    /* "not initialized", though there is a handle: a library that it wanted to open is missing */
    assert_in_child(it_refuses, .fail = "cudnnConvolutionForward@1=1001");
    assert_in_child(it_refuses, .fail = "cudnnGetConvolutionForwardAlgorithm_v7@1=3004");
    assert_in_child(it_refuses, .fail = "cudnnSetFilter4dDescriptor@1=3000");
    assert_in_child(an_address_is_refused,
                    .fail = "cudnnConvolutionForward@1=2003,cudnnConvolutionForward@2=5000");
    assert_in_child(it_does_not_start, .fail = "cudnnCreate@1=1001,cudnnCreate@2=1001");
}

/* ---- a full device ----------------------------------------------------------------------------- */

/* All that there is lies in the allocator's cache. */
static void the_cache_is_full(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    {
        TERN_SCOPE;
        tern_tensor *x = tern_to(p.x, TERN_CUDA(0)); /* a small segment is there */
        EXPECT(tern_empty(TERN_SHAPE(62 << 20), .dtype = TERN_U8, .device = tern_device(x)) !=
               NULL);
    }
    EXPECT(tern_memory(TERN_CUDA(0)).reserved_bytes == 64 << 20);
    expect_agreement(&p, exact);
    EXPECT(child_said("own kernel") == 0 && child_said("cuDNN takes") == 3);
}

static double most_of(tern_tensor *x, tern_tensor *w)
{
    return tern_item(tern_amax(tern_conv2d(x, w)));
}

/* A stream that has to do without does not take the others with it. */
static void one_stream_does_without(void)
{
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1, 4, 5, 5), .device = TERN_CUDA(0));
    tern_tensor *w = tern_ones(TERN_SHAPE(2, 4, 3, 3), .device = TERN_CUDA(0));
    for (int i = 0; i < 2; i++)
        EXPECT(most_of(x, w) == 36);
    EXPECT(child_said("own kernel") == 1 && child_said("cuDNN takes") == 0);
    EXPECT(tern_dev_synchronize(TERN_CUDA(0)) == TERN_OK);
    TERN_STREAM(tern_stream_from_pool(.device = TERN_CUDA(0)));
    EXPECT(most_of(x, w) == 36);
    EXPECT(child_said("cuDNN takes") == 1 && !tern_failed());
}

/* More streams than one device has handles for leave another device its own. */
static void each_device_has_its_handles(void)
{
    TERN_SCOPE;
    enum { STREAMS = 70 };
    tern_tensor *x[2], *w[2];
    for (int i = 0; i < 2; i++) {
        x[i] = tern_ones(TERN_SHAPE(1, 4, 5, 5), .device = TERN_CUDA(i));
        w[i] = tern_ones(TERN_SHAPE(2, 4, 3, 3), .device = TERN_CUDA(i));
        EXPECT(tern_dev_synchronize(TERN_CUDA(i)) == TERN_OK);
    }
    for (int i = 0; i < STREAMS; i++) {
        TERN_STREAM(tern_stream_from_pool(.device = TERN_CUDA(0), .priority = -(i / 32)));
        EXPECT(most_of(x[0], w[0]) == 36);
    }
    EXPECT(most_of(x[1], w[1]) == 36);
    EXPECT(child_said("cuda:1: cuDNN takes") == 1 && child_said("own kernel") == 0);
}

static void test_a_full_device_makes_room_for_a_handle(void **state)
{
    (void)state;
    (void)setenv("TERN_SIM_MEMORY", "64M", 1);
    assert_in_child(the_cache_is_full, 0);
    (void)unsetenv("TERN_SIM_MEMORY");
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
    assert_in_child(each_device_has_its_handles, 0);
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    assert_in_child(one_stream_does_without, .fail = "cudnnCreate@1=4004,cudnnCreate@2=1001");
}

/* ---- failing ----------------------------------------------------------------------------------- */

static void it_fails(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    tern_tensor *there[4];
    EXPECT(!solve(&p, TERN_CUDA(0), there));
    EXPECT(tern_error_code() == TERN_ERR_BACKEND);
    EXPECT(strstr(tern_error_text(),
                  "cudnnConvolutionForward in conv2d on cuda:0 (simulated): "
                  "CUDNN_STATUS_EXECUTION_FAILED (5000): its work did not run on the device") !=
           NULL);
    tern_error_clear();
    expect_agreement(&p, exact);
}

static void it_has_no_memory(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    tern_tensor *there[4];
    EXPECT(!solve(&p, TERN_CUDA(0), there));
    EXPECT(tern_error_code() == TERN_ERR_OOM);
    tern_error_clear();
    expect_agreement(&p, exact);
}

/* Once: the cache gives back what nobody uses, and the library is asked again. */
static void it_gets_memory_of_the_cache(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    {
        TERN_SCOPE;
        (void)tern_empty(TERN_SHAPE(32 << 20), .dtype = TERN_U8, .device = TERN_CUDA(0));
    }
    expect_agreement(&p, exact);
    EXPECT(tern_memory(TERN_CUDA(0)).reserved_bytes < 32 << 20);
    EXPECT(child_said("own kernel") == 0 && child_said("cuDNN takes") == 3);
}

static void its_work_faults(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    tern_tensor *x = tern_to(p.x, TERN_CUDA(0)), *w = tern_to(p.w, TERN_CUDA(0));
    EXPECT(tern_conv2d(x, w) != NULL);
    EXPECT(tern_dev_synchronize(TERN_CUDA(0)) == TERN_ERR_BACKEND);
    EXPECT(strstr(tern_error_text(), "cudnnConvolutionForward") != NULL);
    tern_error_clear();
    EXPECT(tern_conv2d(x, w) == NULL);
    EXPECT(strstr(tern_error_text(), "cudaErrorIllegalAddress (700)") != NULL);
    EXPECT(strstr(tern_error_text(), "the device is lost to this process") != NULL);
    tern_error_clear();
    exit(0); /* nothing more can be done there */
}

static void test_failures_are_errors_with_name_and_meaning(void **state)
{
    (void)state;
    static const char *const once[] = { "cudnnConvolutionForward@1=4004",
                                        "cudnnConvolutionBackwardFilter@1=4004",
                                        "cudnnGetConvolutionForwardAlgorithm_v7@1=4004" };
    assert_in_child(it_fails, .fail = "cudnnConvolutionForward@1=5000");
    assert_in_child(it_has_no_memory,
                    .fail = "cudnnConvolutionForward@1=4004,cudnnConvolutionForward@2=4004");
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        assert_in_child(it_gets_memory_of_the_cache, .fail = once[i]);
    assert_in_child(its_work_faults, .fail = "launch:cudnnConvolutionForward@1=700");
}

/* All ops that cuDNN makes; whatever fails at first, the third time is right. */
static void everything_three_times(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    tern_tensor *there[4];
    tern_tensor *x = tern_to(p.x, TERN_CUDA(0)), *ones = tern_ones(TERN_SHAPE(4), TERN_F32);
    tern_tensor *weight = tern_to(ones, TERN_CUDA(0));
    for (int i = 0; i < 3; i++) {
        tern_error_clear();
        tern_cudnn_set_benchmark(i == 0);
        (void)solve(&p, TERN_CUDA(0), there);
        EXPECT(i < 2 || !tern_failed());
        tern_error_clear();
        (void)tern_avg_pool2d(x, { 2 });
        EXPECT(i < 2 || !tern_failed());
        tern_error_clear();
        tern_tensor *scale = tern_set_requires_grad(tern_detach(weight), true);
        tern_tensor *normal = tern_batch_norm(x, scale, weight, .training = true);
        tern_backward(tern_sum(normal));
        EXPECT(i < 2 || !tern_failed());
    }
    expect_agreement(&p, exact);
}

static void test_each_call_of_cudnn_may_fail(void **state)
{
    (void)state;
    static const char *const calls[] = {
        "cudnnCreate",
        "cudnnSetStream",
        "cudnnCreateTensorDescriptor",
        "cudnnSetTensor4dDescriptorEx",
        "cudnnCreateFilterDescriptor",
        "cudnnSetFilter4dDescriptor",
        "cudnnCreateConvolutionDescriptor",
        "cudnnSetConvolution2dDescriptor",
        "cudnnSetConvolutionGroupCount",
        "cudnnSetConvolutionMathType",
        "cudnnCreatePoolingDescriptor",
        "cudnnSetPooling2dDescriptor",
        "cudnnFindConvolutionForwardAlgorithmEx",
        "cudnnFindConvolutionBackwardDataAlgorithmEx",
        "cudnnFindConvolutionBackwardFilterAlgorithmEx",
        "cudnnGetConvolutionForwardAlgorithm_v7",
        "cudnnGetConvolutionForwardWorkspaceSize",
        "cudnnConvolutionBackwardData",
        "cudnnConvolutionBackwardFilter",
        "cudnnPoolingForward",
        "cudnnBatchNormalizationForwardTraining",
        "cudnnBatchNormalizationBackward",
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int code = 3000; code <= 4000; code += 1000)
            for (int k = 1; k <= 2; k++) {
                char fail[96];
                (void)snprintf(fail, sizeof fail, "%s@%d=%d", calls[i], k, code);
                if (!child_holds(everything_three_times, (child_machine){ .fail = fail }))
                    fail_msg("with %s", fail);
            }
}

/* ---- flags ------------------------------------------------------------------------------------- */

static void deterministic_ones_are_taken(void) /* R021 */
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    tern_cudnn_set_deterministic(true);
    expect_agreement(&p, exact);
    EXPECT(child_said("conv2d_grad_input on cuda:0: cuDNN takes ALGO_1") == 1);
    EXPECT(child_said("conv2d_grad_weight on cuda:0: cuDNN takes ALGO_1") == 1);
    tern_cudnn_set_deterministic(false);
    expect_agreement(&p, exact);
    EXPECT(child_said("takes ALGO_0") == 2);
    tern_use_deterministic_algorithms(true);
    expect_agreement(&p, exact);
    EXPECT(child_said("cuDNN takes") == 6); /* those of the first time */
}

static void measurement_decides(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    tern_cudnn_set_benchmark(true);
    expect_agreement(&p, exact);
    EXPECT(child_said("conv2d on cuda:0: cuDNN takes WINOGRAD by measurement") == 1);
    EXPECT(child_said("conv2d_grad_input on cuda:0: cuDNN takes WINOGRAD by measurement") == 1);
    EXPECT(child_said("conv2d_grad_weight on cuda:0: cuDNN takes ALGO_3 by measurement") == 1);
    expect_agreement(&p, exact);
    EXPECT(child_said("cuDNN takes") == 3);
    tern_cudnn_set_deterministic(true);
    expect_agreement(&p, exact);
    EXPECT(child_said("conv2d_grad_weight on cuda:0: cuDNN takes ALGO_1 by measurement") == 1);
}

/* Measuring wants much memory; without it there is still a result, or the op's own error. */
static void memory_may_end_while_measuring(void)
{
    TERN_SCOPE;
    tern_cudnn_set_benchmark(true);
    bool reached = true;
    int whole = 0;
    for (int64_t k = 1; reached && k < 80; k++) {
        const problem p = make_problem(1 + k);
        tern_tensor *x = tern_to(p.x, TERN_CUDA(0)), *w = tern_to(p.w, TERN_CUDA(0));
        tern_tensor *here = tern_conv2d(p.x, p.w);
        tern_debug_fail_allocation(k);
        tern_tensor *there = tern_conv2d(x, w);
        reached = tern_debug_allocations_left() <= 0;
        tern_debug_fail_allocation(0);
        EXPECT(there != NULL ? !tern_failed() : tern_error_code() == TERN_ERR_OOM);
        whole += reached && there != NULL;
        tern_error_clear();
        if (there != NULL)
            EXPECT(child_distance(there, here) <= exact);
    }
    EXPECT(!reached && whole > 2);
}

/* Each allocation of a forward fails in turn: its result's, which is the op's error, and the workspace's. */
static int results_without_memory(const problem *p, int64_t stride)
{
    int whole = 0;
    bool reached = true;
    tern_tensor *x = tern_to(p->x, TERN_CUDA(0)), *w = tern_to(p->w, TERN_CUDA(0));
    tern_tensor *here = tern_conv2d(p->x, p->w, .stride = { stride });
    for (int64_t k = 1; reached && k < 20; k++) {
        tern_debug_fail_allocation(k);
        tern_tensor *there = tern_conv2d(x, w, .stride = { stride });
        reached = tern_debug_allocations_left() <= 0;
        tern_debug_fail_allocation(0);
        EXPECT(there != NULL ? !tern_failed() : tern_error_code() == TERN_ERR_OOM);
        tern_error_clear();
        whole += reached && there != NULL;
        if (there != NULL)
            EXPECT(child_distance(there, here) <= exact);
    }
    EXPECT(!reached);
    return whole;
}

static void others_want_less_workspace(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    EXPECT(results_without_memory(&p, 1) > 0);
    EXPECT(results_without_memory(&p, 2) > 0);
    EXPECT(child_said("own kernel") == 0);
}

/* Of the repeatable ones a stride leaves one, which wants workspace: an own kernel is left. */
static void none_wants_less_workspace(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    bool reached = true;
    tern_cudnn_set_deterministic(true);
    tern_tensor *w = tern_set_requires_grad(tern_detach(tern_to(p.w, TERN_CUDA(0))), true);
    tern_tensor *x = tern_to(p.x, TERN_CUDA(0));
    for (int64_t k = 1; reached && k < 40; k++) {
        tern_tensor *y = tern_sum(tern_conv2d(x, w, .stride = { 2 }));
        tern_debug_fail_allocation(k);
        tern_backward(y);
        reached = tern_debug_allocations_left() <= 0;
        tern_debug_fail_allocation(0);
        EXPECT(!tern_failed() || tern_error_code() == TERN_ERR_OOM);
        tern_error_clear();
    }
    EXPECT(!reached);
    EXPECT(child_said("conv2d_grad_weight on cuda:0: an own kernel instead of cuDNN: there is no "
                      "memory for its workspace") == 1);
}

static bool was_asked;

static bool note_that_it_was_asked(const tern_oom_info_t *info, void *user)
{
    (void)info, (void)user;
    was_asked = true;
    return false;
}

/* What the fastest algorithm lacks, another does without: that is no failure of anybody's. */
static void nobody_hears_of_less_workspace(void)
{
    TERN_SCOPE;
    (void)setenv("TERN_NO_CACHE", "1", 1); /* x, w and the result come before the workspace */
    const problem p = make_problem(2);
    tern_set_oom_callback(note_that_it_was_asked, NULL);
    tern_tensor *x = tern_to(p.x, TERN_CUDA(0)), *w = tern_to(p.w, TERN_CUDA(0));
    EXPECT(child_distance(tern_conv2d(x, w), tern_conv2d(p.x, p.w)) <= exact);
    EXPECT(!tern_failed() && !was_asked && child_said("memory") == 0);
    EXPECT(!tern_oom_info(&(tern_oom_info_t){ 0 }));
}

/* 10 bits of mantissa, sums in f32. */
static void tf32_is_off_until_it_is_allowed(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    tern_tensor *here[4], *there[4];
    expect_agreement(&p, exact);
    tern_cudnn_set_allow_tf32(true);
    EXPECT(solve(&p, TERN_CPU, here) && solve(&p, TERN_CUDA(0), there));
    EXPECT(child_distance(there[0], here[0]) > 1e-5 && child_distance(there[0], here[0]) < 2e-3);
    tern_cudnn_set_allow_tf32(false);
    expect_agreement(&p, exact);
}

static void test_flags_change_the_algorithm(void **state)
{
    (void)state;
    assert_in_child(deterministic_ones_are_taken, 0);
    assert_in_child(measurement_decides, 0);
    assert_in_child(memory_may_end_while_measuring, 0);
    assert_in_child(others_want_less_workspace, 0);
    assert_in_child(none_wants_less_workspace, 0);
    assert_in_child(nobody_hears_of_less_workspace, .fail = "cudaMalloc@4=2");
    assert_in_child(tf32_is_off_until_it_is_allowed, 0);
}

/* ---- layouts, types, streams ------------------------------------------------------------------- */

static void expect_layout(tern_dtype_t dtype, bool x_last, bool w_last, double tolerance)
{
    problem p = make_problem(2);
    p.x = tern_cast(p.x, dtype);
    p.w = tern_cast(p.w, dtype);
    p.bias = tern_cast(p.bias, dtype);
    if (x_last)
        p.x = tern_to(p.x, .format = TERN_FORMAT_CHANNELS_LAST);
    if (w_last)
        p.w = tern_to(p.w, .format = TERN_FORMAT_CHANNELS_LAST);
    const int before = child_said(", channels last\n");
    expect_agreement(&p, tolerance);
    if (!w_last) /* plans do not depend on the weight's layout */
        EXPECT((child_said(", channels last\n") > before) == (x_last && dtype != TERN_F64));
    tern_tensor *there[4];
    EXPECT(solve(&p, TERN_CUDA(0), there));
    EXPECT(tern_is_channels_last(there[0]) == x_last);
}

static void every_layout_and_type_agrees(void)
{
    TERN_SCOPE;
    for (int layout = 0; layout < 4; layout++) {
        expect_layout(TERN_F32, layout & 1, layout & 2, exact);
        expect_layout(TERN_F64, layout & 1, layout & 2, 1e-13);
        expect_layout(TERN_F16, layout & 1, layout & 2, 4e-3);
        expect_layout(TERN_BF16, layout & 1, layout & 2, 3e-2);
    }
    EXPECT(child_said("own kernel") == 0);
    problem p = make_problem(2);
    p.w = tern_randn(TERN_SHAPE(6, 2, 3, 3));
    p.groups = 2;
    expect_agreement(&p, exact);
}

/* Each stream has its handle; the order checker sees work memory, too. */
static void streams_do_not_mix(void)
{
    TERN_SCOPE;
    const problem p = make_problem(2);
    const tern_dev_t dev = TERN_CUDA(0);
    tern_tensor *x = tern_to(p.x, dev), *w = tern_to(p.w, dev), *y[3];
    tern_stream_t first = tern_default_stream(dev), side = tern_stream_from_pool(.device = dev);
    EXPECT(tern_stream_wait_stream(side, first) == TERN_OK);
    y[0] = tern_conv2d(x, w);
    {
        TERN_STREAM(side);
        y[1] = tern_conv2d(x, w);
    }
    y[2] = tern_conv2d(x, w);
    EXPECT(tern_stream_wait_stream(first, side) == TERN_OK);
    for (int i = 0; i < 3; i++)
        EXPECT(y[i] != NULL && child_distance(y[i], tern_conv2d(p.x, p.w)) <= exact);
    EXPECT(child_said("cuDNN takes") == 1);
}

static void test_layouts_types_and_streams(void **state)
{
    (void)state;
    assert_in_child(every_layout_and_type_agrees, 0);
    assert_in_child(streams_do_not_mix, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cudnn_is_used_absent_or_disabled),
        cmocka_unit_test(test_what_cudnn_refuses_own_kernels_do),
        cmocka_unit_test(test_a_full_device_makes_room_for_a_handle),
        cmocka_unit_test(test_failures_are_errors_with_name_and_meaning),
        cmocka_unit_test(test_each_call_of_cudnn_may_fail),
        cmocka_unit_test(test_flags_change_the_algorithm),
        cmocka_unit_test(test_layouts_types_and_streams),
    };
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
