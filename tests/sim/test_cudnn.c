/* Simulated cuDNN by itself: argument checks against the real library where there is one, work in
 * streams, work memory, what it catches. */
#include <math.h>
#include <string.h>

#include "tests/sim/real_cudnn.h"

/* ---- descriptors, here and in the real library ------------------------------------------------ */

typedef struct library {
    __typeof__(&cudnnCreateTensorDescriptor) create_tensor;
    __typeof__(&cudnnSetTensor4dDescriptorEx) set_tensor;
    __typeof__(&cudnnDestroyTensorDescriptor) destroy_tensor;
    __typeof__(&cudnnCreateFilterDescriptor) create_filter;
    __typeof__(&cudnnSetFilter4dDescriptor) set_filter;
    __typeof__(&cudnnDestroyFilterDescriptor) destroy_filter;
    __typeof__(&cudnnCreateConvolutionDescriptor) create_conv;
    __typeof__(&cudnnSetConvolution2dDescriptor) set_conv;
    __typeof__(&cudnnSetConvolutionGroupCount) set_groups;
    __typeof__(&cudnnSetConvolutionMathType) set_math;
    __typeof__(&cudnnDestroyConvolutionDescriptor) destroy_conv;
    __typeof__(&cudnnCreatePoolingDescriptor) create_pool;
    __typeof__(&cudnnSetPooling2dDescriptor) set_pool;
    __typeof__(&cudnnDestroyPoolingDescriptor) destroy_pool;
    __typeof__(&cudnnGetErrorString) name_of;
} library;

static const library simulated = { cudnnCreateTensorDescriptor,
                                   cudnnSetTensor4dDescriptorEx,
                                   cudnnDestroyTensorDescriptor,
                                   cudnnCreateFilterDescriptor,
                                   cudnnSetFilter4dDescriptor,
                                   cudnnDestroyFilterDescriptor,
                                   cudnnCreateConvolutionDescriptor,
                                   cudnnSetConvolution2dDescriptor,
                                   cudnnSetConvolutionGroupCount,
                                   cudnnSetConvolutionMathType,
                                   cudnnDestroyConvolutionDescriptor,
                                   cudnnCreatePoolingDescriptor,
                                   cudnnSetPooling2dDescriptor,
                                   cudnnDestroyPoolingDescriptor,
                                   cudnnGetErrorString };

static bool open_real(library *l)
{
    static const char *const names[] = { "cudnnCreateTensorDescriptor",
                                         "cudnnSetTensor4dDescriptorEx",
                                         "cudnnDestroyTensorDescriptor",
                                         "cudnnCreateFilterDescriptor",
                                         "cudnnSetFilter4dDescriptor",
                                         "cudnnDestroyFilterDescriptor",
                                         "cudnnCreateConvolutionDescriptor",
                                         "cudnnSetConvolution2dDescriptor",
                                         "cudnnSetConvolutionGroupCount",
                                         "cudnnSetConvolutionMathType",
                                         "cudnnDestroyConvolutionDescriptor",
                                         "cudnnCreatePoolingDescriptor",
                                         "cudnnSetPooling2dDescriptor",
                                         "cudnnDestroyPoolingDescriptor",
                                         "cudnnGetErrorString" };
    return open_real_cudnn(names, sizeof names / sizeof *names, l);
}

static void ask_tensors(const library *l, answers *a)
{
    const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    cudnnTensorDescriptor_t t = NULL;
    note(a, l->create_tensor(NULL));
    note(a, l->create_tensor(&t));
    note(a, l->set_tensor(t, f32, 2, 3, 4, 5, 60, 20, 5, 1));
    note(a, l->set_tensor(t, CUDNN_DATA_BFLOAT16, 2, 3, 4, 5, 60, 1, 15, 3));
    note(a, l->set_tensor(NULL, f32, 2, 3, 4, 5, 60, 20, 5, 1));
    note(a, l->set_tensor(t, f32, 0, 3, 4, 5, 60, 20, 5, 1));
    note(a, l->set_tensor(t, f32, 2, -3, 4, 5, 60, 20, 5, 1));
    note(a, l->set_tensor(t, f32, 2, 3, 4, 5, 0, 20, 5, 1));
    note(a, l->set_tensor(t, f32, 2, 3, 4, 5, 1, 1, 1, 1));
    note(a, l->set_tensor(t, (cudnnDataType_t)99, 2, 3, 4, 5, 60, 20, 5, 1));
    note(a, l->set_tensor(t, f32, 65536, 32768, 2, 1, 65536, 2, 1, 1));
    note(a, l->set_tensor(t, f32, 32768, 65536, 1, 1, 65536, 1, 1, 1));
    note(a, l->set_tensor(t, f32, 2147483647, 1, 1, 1, 1, 1, 1, 1));
    note(a, l->destroy_tensor(t));
    note(a, l->destroy_tensor(NULL));
}

static void ask_filters(const library *l, answers *a)
{
    const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    cudnnFilterDescriptor_t f = NULL;
    note(a, l->create_filter(NULL));
    note(a, l->create_filter(&f));
    note(a, l->set_filter(f, f32, CUDNN_TENSOR_NCHW, 2, 3, 3, 3));
    note(a, l->set_filter(f, CUDNN_DATA_DOUBLE, CUDNN_TENSOR_NHWC, 2, 3, 3, 3));
    note(a, l->set_filter(f, f32, CUDNN_TENSOR_NHWC, 2, 0, 3, 3));
    note(a, l->set_filter(f, f32, (cudnnTensorFormat_t)7, 2, 1, 3, 3));
    note(a, l->set_filter(f, (cudnnDataType_t)77, CUDNN_TENSOR_NCHW, 2, 1, 3, 3));
    note(a, l->set_filter(NULL, f32, CUDNN_TENSOR_NHWC, 2, 1, 3, 3));
    note(a, l->destroy_filter(f));
    note(a, l->destroy_filter(NULL));
}

static void ask_convolutions(const library *l, answers *a)
{
    const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnConvolutionDescriptor_t c = NULL;
    note(a, l->create_conv(NULL));
    note(a, l->create_conv(&c));
    note(a, l->set_conv(c, 0, 0, 1, 1, 1, 1, mode, f32));
    note(a, l->set_conv(NULL, 0, 0, 1, 1, 1, 1, mode, f32));
    note(a, l->set_conv(c, -1, 0, 1, 1, 1, 1, mode, f32));
    note(a, l->set_conv(c, 0, 0, 0, 1, 1, 1, mode, f32));
    note(a, l->set_conv(c, 0, 0, 1, 1, 0, 1, mode, f32));
    note(a, l->set_conv(c, 0, 0, 1, 1, 1, 1, (cudnnConvolutionMode_t)3, f32));
    note(a, l->set_conv(c, 0, 0, 1, 1, 1, 1, mode, CUDNN_DATA_BFLOAT16));
    note(a, l->set_conv(c, 0, 0, 1, 1, 1, 1, mode, (cudnnDataType_t)88));
    note(a, l->set_groups(c, 0));
    note(a, l->set_groups(c, 2));
    note(a, l->set_groups(NULL, 2));
    note(a, l->set_math(c, CUDNN_FMA_MATH));
    note(a, l->set_math(c, (cudnnMathType_t)9));
    note(a, l->set_math(NULL, CUDNN_FMA_MATH));
    note(a, l->destroy_conv(c));
    note(a, l->destroy_conv(NULL));
}

static void ask_pools(const library *l, answers *a)
{
    const cudnnPoolingMode_t mode = CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
    const cudnnNanPropagation_t nans = CUDNN_PROPAGATE_NAN;
    cudnnPoolingDescriptor_t p = NULL;
    note(a, l->create_pool(NULL));
    note(a, l->create_pool(&p));
    note(a, l->set_pool(p, mode, nans, 3, 3, 1, 1, 2, 2));
    note(a, l->set_pool(p, (cudnnPoolingMode_t)9, nans, 3, 3, 1, 1, 2, 2));
    note(a, l->set_pool(p, mode, (cudnnNanPropagation_t)5, 3, 3, 1, 1, 2, 2));
    note(a, l->set_pool(p, mode, nans, 0, 3, 1, 1, 2, 2));
    note(a, l->set_pool(p, mode, nans, 3, 3, -1, 1, 2, 2));
    note(a, l->set_pool(p, mode, nans, 3, 3, 1, 1, 0, 2));
    note(a, l->set_pool(p, mode, nans, 3, 3, 3, 3, 2, 2));
    note(a, l->set_pool(NULL, mode, nans, 3, 3, 1, 1, 2, 2));
    note(a, l->destroy_pool(p));
    note(a, l->destroy_pool(NULL));
}

static void test_descriptors_answer_as_the_real_ones(void **state)
{
    (void)state;
    static void (*const asked[])(const library *, answers *) = { ask_tensors, ask_filters,
                                                                 ask_convolutions, ask_pools };
    library real;
    const bool have_real = open_real(&real);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        answers here = { .count = 0 }, there = { .count = 0 };
        asked[i](&simulated, &here);
        if (!have_real)
            continue;
        asked[i](&real, &there);
        for (int k = 0; k < here.count; k++)
            if (here.status[k] != there.status[k])
                fail_msg("question %d of group %zu: %d here, %d in the real library", k, i,
                         here.status[k], there.status[k]);
    }
    if (have_real)
        for (int code = 0; code < 6000; code++)
            if (strcmp(cudnnGetErrorString((cudnnStatus_t)code), "CUDNN_UNKNOWN_STATUS") != 0)
                assert_string_equal(cudnnGetErrorString((cudnnStatus_t)code),
                                    real.name_of((cudnnStatus_t)code));
    if (!have_real)
        print_message("no libcudnn.so.9 to compare with\n");
}

/* ---- one convolution --------------------------------------------------------------------------- */

static const float one = 1, zero = 0;

typedef struct setup {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x_type, y_type;
    cudnnFilterDescriptor_t w_type;
    cudnnConvolutionDescriptor_t conv;
    cudaStream_t stream;
    float *x, *w, *y, *work;
} setup;
enum { X = 16, W = 4, Y = 9 }; /* [1, 1, 4, 4] through 2 x 2 */

static void make(setup *s)
{
    float x[X], w[W] = { 1, -2, 0.5f, 3 };
    for (int i = 0; i < X; i++)
        x[i] = (float)(i * i % 7);
    assert_cuda(cudaSetDevice(0));
    assert_cuda(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    assert_cuda(cudaMalloc((void **)&s->x, sizeof x));
    assert_cuda(cudaMalloc((void **)&s->w, sizeof w));
    assert_cuda(cudaMalloc((void **)&s->y, Y * sizeof(float)));
    assert_cuda(cudaMalloc((void **)&s->work, Y * sizeof(float)));
    assert_cuda(cudaMemcpy(s->x, x, sizeof x, cudaMemcpyHostToDevice));
    assert_cuda(cudaMemcpy(s->w, w, sizeof w, cudaMemcpyHostToDevice));
    assert_dnn(cudnnCreate(&s->handle));
    assert_dnn(cudnnSetStream(s->handle, s->stream));
    assert_dnn(cudnnCreateTensorDescriptor(&s->x_type));
    assert_dnn(cudnnCreateTensorDescriptor(&s->y_type));
    assert_dnn(cudnnCreateFilterDescriptor(&s->w_type));
    assert_dnn(cudnnCreateConvolutionDescriptor(&s->conv));
    assert_dnn(cudnnSetTensor4dDescriptorEx(s->x_type, CUDNN_DATA_FLOAT, 1, 1, 4, 4, 16, 16, 4, 1));
    assert_dnn(cudnnSetTensor4dDescriptorEx(s->y_type, CUDNN_DATA_FLOAT, 1, 1, 3, 3, 9, 9, 3, 1));
    assert_dnn(
        cudnnSetFilter4dDescriptor(s->w_type, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, 1, 2, 2));
    assert_dnn(cudnnSetConvolution2dDescriptor(s->conv, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                               CUDNN_DATA_FLOAT));
    assert_dnn(cudnnSetConvolutionMathType(s->conv, CUDNN_FMA_MATH));
}

static void destroy(setup *s)
{
    assert_dnn(cudnnDestroyConvolutionDescriptor(s->conv));
    assert_dnn(cudnnDestroyFilterDescriptor(s->w_type));
    assert_dnn(cudnnDestroyTensorDescriptor(s->x_type));
    assert_dnn(cudnnDestroyTensorDescriptor(s->y_type));
    assert_dnn(cudnnDestroy(s->handle));
}

static cudnnStatus_t run(const setup *s, const float *x, cudnnConvolutionFwdAlgo_t algorithm,
                         void *work, size_t bytes)
{
    return cudnnConvolutionForward(s->handle, &one, s->x_type, x, s->w_type, s->w, s->conv,
                                   algorithm, work, bytes, &zero, s->y_type, s->y);
}

static const cudnnConvolutionFwdAlgo_t plain = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
static const cudnnConvolutionFwdAlgo_t greedy = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;

static void assert_result(const setup *s)
{
    float x[X], w[W], y[Y];
    assert_cuda(cudaMemcpy(x, s->x, sizeof x, cudaMemcpyDeviceToHost));
    assert_cuda(cudaMemcpy(w, s->w, sizeof w, cudaMemcpyDeviceToHost));
    assert_cuda(cudaMemcpy(y, s->y, sizeof y, cudaMemcpyDeviceToHost));
    for (int i = 0; i < Y; i++) {
        const float *at = x + i / 3 * 4 + i % 3;
        const float expected = at[0] * w[0] + at[1] * w[1] + at[4] * w[2] + at[5] * w[3];
        assert_true(fabsf(y[i] - expected) < 1e-6f);
    }
}

static void test_work_runs_when_it_is_waited_for(void **state)
{
    (void)state;
    setup s;
    float y[Y];
    make(&s);
    assert_dnn(run(&s, s.x, plain, NULL, 0));
    assert_cuda(cudaStreamSynchronize(s.stream));
    assert_result(&s);
    assert_cuda(cudaMemsetAsync(s.y, 0, sizeof y, s.stream));
    assert_dnn(run(&s, s.x, greedy, s.work, sizeof y));
    assert_cuda(cudaStreamSynchronize(s.stream));
    assert_result(&s);
    destroy(&s);
}

static void test_work_memory_is_used(void **state)
{
    (void)state;
    setup s;
    size_t bytes = 0;
    float work[Y], y[Y];
    make(&s);
    assert_dnn(cudnnGetConvolutionForwardWorkspaceSize(s.handle, s.x_type, s.w_type, s.conv,
                                                       s.y_type, greedy, &bytes));
    assert_int_equal(bytes, Y * sizeof(float));
    assert_int_equal(run(&s, s.x, greedy, s.work, bytes - 1), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(run(&s, s.x, greedy, NULL, bytes), CUDNN_STATUS_BAD_PARAM);
    assert_dnn(run(&s, s.x, greedy, s.work, bytes));
    assert_cuda(cudaStreamSynchronize(s.stream));
    assert_cuda(cudaMemcpy(work, s.work, sizeof work, cudaMemcpyDeviceToHost));
    assert_cuda(cudaMemcpy(y, s.y, sizeof y, cudaMemcpyDeviceToHost));
    assert_memory_equal(work, y, sizeof y);
    destroy(&s);
}

static void test_unordered_streams_are_reported(void **state)
{
    (void)state;
    setup s;
    cudaStream_t other;
    make(&s);
    assert_cuda(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    assert_dnn(run(&s, s.x, plain, NULL, 0));
    assert_dnn(cudnnSetStream(s.handle, other));
    assert_int_equal(run(&s, s.x, plain, NULL, 0), CUDNN_STATUS_EXECUTION_FAILED_CUDART);
    assert_reported("stream race (write after write)");
    assert_reported("cudnnConvolutionForward");
    destroy(&s);
}

static void test_pointers_of_the_host_fault_when_work_runs(void **state)
{
    (void)state;
    setup s;
    float x[X] = { 0 };
    make(&s);
    assert_dnn(run(&s, x, plain, NULL, 0));
    assert_int_equal(cudaStreamSynchronize(s.stream), cudaErrorIllegalAddress);
    assert_reported("x of cudnnConvolutionForward");
    assert_reported("the host's memory");
    assert_int_equal(run(&s, s.x, plain, NULL, 0), CUDNN_STATUS_EXECUTION_FAILED);
    destroy(&s);
}

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    setup s;
    char text[256];
    make(&s);
    assert_dnn(cudnnSetConvolutionGroupCount(s.conv, 2));
    assert_int_equal(run(&s, s.x, plain, NULL, 0), CUDNN_STATUS_BAD_PARAM);
    cudnnGetLastErrorString(text, sizeof text);
    assert_non_null(strstr(text, "groups"));
    assert_dnn(cudnnSetConvolutionGroupCount(s.conv, 1));
    assert_int_equal(run(&s, s.x, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, NULL, 0),
                     CUDNN_STATUS_NOT_SUPPORTED);
    assert_dnn(
        cudnnSetFilter4dDescriptor(s.w_type, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 1, 1, 2, 2));
    assert_dnn(run(&s, s.x, plain, NULL, 0)); /* one channel lies so, too */
    assert_cuda(cudaSetDevice(1));
    assert_int_equal(run(&s, s.x, plain, NULL, 0), CUDNN_STATUS_BAD_PARAM);
    cudnnGetLastErrorString(text, sizeof text);
    assert_non_null(strstr(text, "the handle is of device 0"));
    assert_cuda(cudaSetDevice(0));
    destroy(&s);
}

static void test_measuring_leaves_nothing_to_rely_on(void **state)
{
    (void)state;
    setup s;
    float y[Y];
    int count = 0;
    cudnnConvolutionFwdAlgoPerf_t guessed[8], measured[8];
    make(&s);
    assert_dnn(cudnnGetConvolutionForwardAlgorithm_v7(s.handle, s.x_type, s.w_type, s.conv,
                                                      s.y_type, 8, &count, guessed));
    assert_int_equal(count, 8);
    assert_int_equal(guessed[0].algo, greedy);
    assert_dnn(cudnnFindConvolutionForwardAlgorithmEx(s.handle, s.x_type, s.x, s.w_type, s.w,
                                                      s.conv, s.y_type, s.y, 8, &count, measured,
                                                      NULL, 0));
    assert_int_equal(measured[0].algo, plain); /* the others want work memory */
    assert_cuda(cudaMemcpy(y, s.y, sizeof y, cudaMemcpyDeviceToHost));
    for (int i = 0; i < Y; i++)
        assert_true(isnan(y[i]));
    destroy(&s);
}

static void test_the_kth_call_fails(void **state)
{
    (void)state;
    setup s;
    make(&s);
    assert_int_equal(sim_set("FAIL", "cudnnConvolutionForward@2=3000"), 0);
    assert_dnn(run(&s, s.x, plain, NULL, 0));
    assert_int_equal(run(&s, s.x, plain, NULL, 0), CUDNN_STATUS_NOT_SUPPORTED);
    assert_int_equal(sim_set("FAIL", "*@1=2"), 0);
    assert_int_equal(run(&s, s.x, plain, NULL, 0),
                     CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
    assert_dnn(run(&s, s.x, plain, NULL, 0));
    destroy(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_descriptors_answer_as_the_real_ones),
        TEST(test_work_runs_when_it_is_waited_for),
        TEST(test_work_memory_is_used),
        TEST(test_unordered_streams_are_reported),
        TEST(test_pointers_of_the_host_fault_when_work_runs),
        TEST(test_what_does_not_fit_is_refused),
        TEST(test_measuring_leaves_nothing_to_rely_on),
        TEST(test_the_kth_call_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
