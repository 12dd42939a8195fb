/* Simulated cuDNN's recurrent layers by themselves: descriptors answer as the real library's where there is
 * one, a small network by hand, a reserve that is spent. */
#include <math.h>

#include "tests/sim/real_cudnn.h"

/* ---- descriptors, here and in the real library ------------------------------------------------ */

/* clang-format off */
#define CALLS(X) \
    X(cudnnCreateRNNDescriptor) X(cudnnSetRNNDescriptor_v8) X(cudnnDestroyRNNDescriptor) \
    X(cudnnCreateRNNDataDescriptor) X(cudnnSetRNNDataDescriptor) X(cudnnDestroyRNNDataDescriptor) \
    X(cudnnCreateTensorDescriptor) X(cudnnSetTensorNdDescriptor) X(cudnnDestroyTensorDescriptor) \
    X(cudnnGetRNNWeightSpaceSize) X(cudnnGetErrorString)
/* clang-format on */

typedef struct library {
#define X(name) __typeof__(&name) name;
    CALLS(X)
#undef X
} library;

static const library simulated = {
#define X(name) name,
    CALLS(X)
#undef X
};

static bool open_real(library *l)
{
    static const char *const names[] = {
#define X(name) #name,
        CALLS(X)
#undef X
    };
    return open_real_cudnn(names, sizeof names / sizeof *names, l);
}

/* inputs, hidden, projected, layers; without a descriptor of dropout */
static cudnnStatus_t set_flagged(const library *l, cudnnRNNDescriptor_t r, cudnnDataType_t type,
                                 cudnnDataType_t precision, int mode, const int size[4],
                                 uint32_t flags)
{
    return l->cudnnSetRNNDescriptor_v8(r, CUDNN_RNN_ALGO_STANDARD, (cudnnRNNMode_t)mode,
                                       CUDNN_RNN_DOUBLE_BIAS, CUDNN_BIDIRECTIONAL,
                                       CUDNN_LINEAR_INPUT, type, precision, CUDNN_DEFAULT_MATH,
                                       size[0], size[1], size[2], size[3], NULL, flags);
}

static cudnnStatus_t set(const library *l, cudnnRNNDescriptor_t r, cudnnDataType_t type,
                         cudnnDataType_t precision, int mode, const int size[4])
{
    return set_flagged(l, r, type, precision, mode, size, CUDNN_RNN_PADDED_IO_ENABLED);
}

static void ask_layers(const library *l, answers *a)
{
    static const int sizes[][4] = { { 3, 4, 4, 2 }, { 0, 4, 4, 2 }, { 3, 0, 4, 2 },
                                    { 3, 4, 0, 2 }, { 3, 4, 5, 2 }, { 3, 4, 4, 0 } };
    static const cudnnDataType_t types[] = { CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF,
                                             CUDNN_DATA_BFLOAT16 };
    cudnnRNNDescriptor_t r = NULL;
    note(a, l->cudnnCreateRNNDescriptor(NULL));
    note(a, l->cudnnCreateRNNDescriptor(&r));
    for (int i = 0; i < 4; i++)
        for (int mode = 0; mode < 4; mode++)
            note(a, set(l, r, types[i], i == 1 ? types[1] : types[0], mode, sizes[0]));
    for (int i = 1; i < 6; i++)
        note(a, set(l, r, types[0], types[0], CUDNN_GRU, sizes[i]));
    note(a, set(l, r, types[0], types[1], CUDNN_GRU, sizes[0]));
    note(a, set(l, r, types[0], types[2], CUDNN_GRU, sizes[0]));
    note(a, set(l, r, types[2], types[2], CUDNN_GRU, sizes[0]));
    note(a, set(l, r, types[0], types[0], 9, sizes[0]));
    note(a, set(l, NULL, types[0], types[0], CUDNN_GRU, sizes[0]));
    for (uint32_t flags = 0; flags < 5; flags++)
        note(a, set_flagged(l, r, types[0], types[0], CUDNN_GRU, sizes[0], flags));
    note(a, l->cudnnGetRNNWeightSpaceSize(NULL, r, NULL));
    note(a, l->cudnnDestroyRNNDescriptor(r));
}

static void ask_steps(const library *l, answers *a)
{
    const cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
    static const int even[2] = { 5, 5 }, longer[2] = { 5, 6 }, below[2] = { 5, -1 };
    cudnnRNNDataDescriptor_t d = NULL;
    note(a, l->cudnnCreateRNNDataDescriptor(NULL));
    note(a, l->cudnnCreateRNNDataDescriptor(&d));
    note(a, l->cudnnSetRNNDataDescriptor(d, CUDNN_DATA_FLOAT, layout, 5, 2, 3, even, NULL));
    note(a, l->cudnnSetRNNDataDescriptor(d, CUDNN_DATA_BFLOAT16, layout, 5, 2, 3, even, NULL));
    note(a, l->cudnnSetRNNDataDescriptor(d, CUDNN_DATA_FLOAT, layout, 5, 2, 3, longer, NULL));
    note(a, l->cudnnSetRNNDataDescriptor(d, CUDNN_DATA_FLOAT, layout, 5, 2, 3, below, NULL));
    note(a, l->cudnnSetRNNDataDescriptor(d, CUDNN_DATA_FLOAT, layout, 5, 2, 3, NULL, NULL));
    note(a, l->cudnnSetRNNDataDescriptor(d, CUDNN_DATA_FLOAT, layout, 0, 2, 3, even, NULL));
    note(a, l->cudnnSetRNNDataDescriptor(d, CUDNN_DATA_FLOAT, layout, 5, 0, 3, even, NULL));
    note(a, l->cudnnSetRNNDataDescriptor(d, CUDNN_DATA_FLOAT, layout, 5, 2, 0, even, NULL));
    note(a, l->cudnnSetRNNDataDescriptor(d, (cudnnDataType_t)99, layout, 5, 2, 3, even, NULL));
    note(a, l->cudnnSetRNNDataDescriptor(NULL, CUDNN_DATA_FLOAT, layout, 5, 2, 3, even, NULL));
    note(a, l->cudnnDestroyRNNDataDescriptor(d));
}

static void ask_states(const library *l, answers *a)
{
    static const int dims[3] = { 2, 4, 3 }, none[3] = { 2, 0, 3 }, strides[3] = { 12, 3, 1 };
    cudnnTensorDescriptor_t t = NULL;
    note(a, l->cudnnCreateTensorDescriptor(&t));
    note(a, l->cudnnSetTensorNdDescriptor(t, CUDNN_DATA_FLOAT, 3, dims, strides));
    note(a, l->cudnnSetTensorNdDescriptor(t, CUDNN_DATA_FLOAT, 2, dims, strides));
    note(a, l->cudnnSetTensorNdDescriptor(t, CUDNN_DATA_FLOAT, 1, dims, strides));
    note(a, l->cudnnSetTensorNdDescriptor(t, CUDNN_DATA_FLOAT, 3, none, strides));
    note(a, l->cudnnSetTensorNdDescriptor(NULL, CUDNN_DATA_FLOAT, 3, dims, strides));
    note(a, l->cudnnSetTensorNdDescriptor(t, (cudnnDataType_t)77, 3, dims, strides));
    note(a, l->cudnnDestroyTensorDescriptor(t));
}

static void test_descriptors_answer_as_the_real_ones(void **state)
{
    (void)state;
    static void (*const asked[])(const library *, answers *) = { ask_layers, ask_steps,
                                                                 ask_states };
    library real;
    const bool there = open_real(&real);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        answers ours = { .count = 0 }, theirs = { .count = 0 };
        asked[i](&simulated, &ours);
        assert_true(ours.count > 5);
        if (!there)
            continue;
        asked[i](&real, &theirs);
        assert_int_equal(ours.count, theirs.count);
        for (int k = 0; k < ours.count; k++)
            if (ours.status[k] != theirs.status[k])
                fail_msg("question %d of %d: simulated %s, real %s", k, (int)i,
                         cudnnGetErrorString((cudnnStatus_t)ours.status[k]),
                         real.cudnnGetErrorString((cudnnStatus_t)theirs.status[k]));
    }
    if (!there)
        print_message("no real cuDNN here to compare with\n");
}

/* ---- a network of one number -------------------------------------------------------------------- */

/* tanh(w x + u h), two steps, one of a batch, f32. */
typedef struct tiny {
    cudnnHandle_t handle;
    cudnnRNNDescriptor_t net;
    cudnnRNNDataDescriptor_t steps;
    cudnnTensorDescriptor_t state;
    float *x, *y, *h, *weights, *slope, *dx, *dweights;
    void *work, *reserve;
    size_t weight_bytes, work_bytes, reserve_bytes;
} tiny;

static tiny make_tiny(void)
{
    static const int dims[3] = { 1, 1, 1 }, lengths[1] = { 2 };
    tiny t;
    assert_dnn(cudnnCreate(&t.handle));
    assert_dnn(cudnnCreateRNNDescriptor(&t.net));
    assert_dnn(cudnnSetRNNDescriptor_v8(t.net, CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_TANH,
                                        CUDNN_RNN_NO_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                                        CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 1, 1, 1,
                                        1, NULL, CUDNN_RNN_PADDED_IO_ENABLED));
    assert_dnn(cudnnCreateRNNDataDescriptor(&t.steps));
    assert_dnn(cudnnSetRNNDataDescriptor(t.steps, CUDNN_DATA_FLOAT,
                                         CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 2, 1, 1, lengths,
                                         NULL));
    assert_dnn(cudnnCreateTensorDescriptor(&t.state));
    assert_dnn(cudnnSetTensorNdDescriptor(t.state, CUDNN_DATA_FLOAT, 3, dims, dims));
    assert_dnn(cudnnGetRNNWeightSpaceSize(t.handle, t.net, &t.weight_bytes));
    assert_dnn(cudnnGetRNNTempSpaceSizes(t.handle, t.net, CUDNN_FWD_MODE_TRAINING, t.steps,
                                         &t.work_bytes, &t.reserve_bytes));
    t.x = filled_floats(2, 0.5f);
    t.y = filled_floats(2, 0);
    t.h = filled_floats(1, 0.25f);
    t.weights = filled_floats((int)(t.weight_bytes / sizeof(float)), 0.75f);
    t.slope = filled_floats(2, 1);
    t.dx = filled_floats(2, 0);
    t.dweights = filled_floats((int)(t.weight_bytes / sizeof(float)), 0);
    assert_cuda(cudaMalloc(&t.work, t.work_bytes));
    assert_cuda(cudaMalloc(&t.reserve, t.reserve_bytes));
    return t;
}

static void free_tiny(tiny *t)
{
    void *const memory[] = { t->x,  t->y,        t->h,    t->weights, t->slope,
                             t->dx, t->dweights, t->work, t->reserve };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        assert_cuda(cudaFree(memory[i]));
    assert_dnn(cudnnDestroyTensorDescriptor(t->state));
    assert_dnn(cudnnDestroyRNNDataDescriptor(t->steps));
    assert_dnn(cudnnDestroyRNNDescriptor(t->net));
    assert_dnn(cudnnDestroy(t->handle));
}

static cudnnStatus_t forward(const tiny *t, size_t reserve_bytes)
{
    return cudnnRNNForward(t->handle, t->net, CUDNN_FWD_MODE_TRAINING, NULL, t->steps, t->x,
                           t->steps, t->y, t->state, t->h, NULL, NULL, NULL, NULL, t->weight_bytes,
                           t->weights, t->work_bytes, t->work, reserve_bytes, t->reserve);
}

static void back(const tiny *t)
{
    assert_dnn(cudnnRNNBackwardData_v8(t->handle, t->net, NULL, t->steps, t->y, t->slope, t->steps,
                                       t->dx, t->state, t->h, NULL, NULL, NULL, NULL, NULL, NULL,
                                       t->weight_bytes, t->weights, t->work_bytes, t->work,
                                       t->reserve_bytes, t->reserve));
}

static void assert_close(double got, double wanted)
{
    assert_true(fabs(got - wanted) <= 1e-6);
}

static void test_a_network_of_one_number(void **state)
{
    (void)state;
    tiny t = make_tiny();
    void *matrix = NULL, *bias = &t;
    assert_dnn(cudnnGetRNNWeightParams(t.handle, t.net, 0, t.weight_bytes, t.weights, 0, t.state,
                                       &matrix, t.state, &bias));
    assert_ptr_equal(matrix, t.weights);
    assert_null(bias);
    assert_dnn(forward(&t, t.reserve_bytes));
    back(&t);
    assert_dnn(cudnnRNNBackwardWeights_v8(t.handle, t.net, CUDNN_WGRAD_MODE_ADD, NULL, t.steps, t.x,
                                          t.state, t.h, t.steps, t.y, t.weight_bytes, t.dweights,
                                          t.work_bytes, t.work, t.reserve_bytes, t.reserve));
    const double w = 0.75, a = tanh(w * 0.5 + w * 0.25), b = tanh(w * 0.5 + w * a);
    const double to_b = 1 - b * b, to_a = (1 - a * a) * (1 + to_b * w);
    assert_close(first_float(t.y + 1), b);
    assert_close(first_float(t.dx), to_a * w);
    assert_close(first_float(t.dx + 1), to_b * w);
    assert_close(first_float(t.dweights), (to_a + to_b) * 0.5);
    free_tiny(&t);
}

static void test_a_reserve_is_spent_by_going_back(void **state)
{
    (void)state;
    tiny t = make_tiny();
    assert_dnn(forward(&t, t.reserve_bytes));
    back(&t);
    assert_true(isfinite(first_float(t.dx)));
    back(&t);
    assert_true(!isfinite(first_float(t.dx)));
    free_tiny(&t);
}

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    tiny t = make_tiny();
    assert_int_equal(forward(&t, t.reserve_bytes - 1), CUDNN_STATUS_BAD_PARAM);
    t.work_bytes--;
    assert_int_equal(forward(&t, t.reserve_bytes), CUDNN_STATUS_BAD_PARAM);
    t.work_bytes++;
    t.weight_bytes--;
    assert_int_equal(forward(&t, t.reserve_bytes), CUDNN_STATUS_BAD_PARAM);
    t.weight_bytes++;
    assert_int_equal(cudnnRNNBackwardWeights_v8(t.handle, t.net, CUDNN_WGRAD_MODE_SET, NULL,
                                                t.steps, t.x, t.state, t.h, t.steps, t.y,
                                                t.weight_bytes, t.dweights, t.work_bytes, t.work,
                                                t.reserve_bytes, t.reserve),
                     CUDNN_STATUS_NOT_SUPPORTED);
    free_tiny(&t);
}

/* What the documentation asks of the layout that steps of all sequences are in. */
static void test_unpacked_steps_need_the_flag(void **state)
{
    (void)state;
    static const int one[4] = { 1, 1, 1, 1 };
    tiny t = make_tiny();
    assert_dnn(set_flagged(&simulated, t.net, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_RNN_TANH,
                           one, CUDNN_RNN_PADDED_IO_DISABLED));
    assert_int_equal(cudnnGetRNNTempSpaceSizes(t.handle, t.net, CUDNN_FWD_MODE_TRAINING, t.steps,
                                               &t.work_bytes, &t.reserve_bytes),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(forward(&t, t.reserve_bytes), CUDNN_STATUS_BAD_PARAM);
    free_tiny(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_descriptors_answer_as_the_real_ones), TEST(test_a_network_of_one_number),
        TEST(test_a_reserve_is_spent_by_going_back),    TEST(test_what_does_not_fit_is_refused),
        TEST(test_unpacked_steps_need_the_flag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
