/* Which cases of pooling and batch normalisation cuDNN does on simulated devices, and that all agree with
 * the CPU. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/child.h"

static const double exact = 2e-6;

static void average_plain(void)
{
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 3, 7, 8));
    for (int exclude = 0; exclude < 2; exclude++) {
        tern_tensor *here = tern_avg_pool2d(x, { 3 }, .padding = { 1 }, .exclude_pad = exclude);
        tern_tensor *there = tern_avg_pool2d(tern_to(x, TERN_CUDA(0)), { 3 }, .padding = { 1 },
                                             .exclude_pad = exclude);
        EXPECT(there != NULL && child_distance(there, here) <= exact);
    }
}

/* Windows hang over: cuDNN would divide by other counts. */
static void average_hanging_over(void)
{
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 3, 8, 8));
    tern_tensor *here = tern_avg_pool2d(x, { 3 }, .ceil_mode = true);
    tern_tensor *there = tern_avg_pool2d(tern_to(x, TERN_CUDA(0)), { 3 }, .ceil_mode = true);
    EXPECT(there != NULL && child_distance(there, here) <= exact);
}

typedef struct normal_case {
    tern_dtype_t dtype, parameters;
    bool last, training;
} normal_case;
static normal_case normal;

static void normalise(tern_dev_t dev, tern_tensor *out[6])
{
    tern_seed(8);
    tern_tensor *x = tern_cast(tern_randn(TERN_SHAPE(3, 4, 5, 6)), normal.dtype);
    if (normal.last)
        x = tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST);
    tern_tensor *in[5] = { x, tern_cast(tern_rand(TERN_SHAPE(4)), normal.parameters),
                           tern_cast(tern_randn(TERN_SHAPE(4)), normal.parameters),
                           tern_cast(tern_randn(TERN_SHAPE(4)), normal.parameters),
                           tern_cast(tern_rand(TERN_SHAPE(4)), normal.parameters) };
    for (int i = 0; i < 5; i++)
        in[i] = tern_set_requires_grad(tern_detach(tern_to(in[i], dev)), i < 3);
    out[0] = tern_batch_norm(in[0], in[1], in[2], in[3], in[4], .training = normal.training);
    tern_tensor *flowing = tern_cast(tern_randn(TERN_SHAPE(3, 4, 5, 6)), normal.dtype);
    tern_backward(tern_sum(tern_mul(out[0], tern_to(flowing, dev))));
    out[1] = in[3];
    out[2] = in[4];
    for (int i = 0; i < 3; i++)
        out[3 + i] = tern_failed() ? NULL : tern_grad_of(in[i]);
}

static void normalising_agrees(void)
{
    TERN_SCOPE;
    tern_tensor *here[6], *there[6];
    normalise(TERN_CPU, here);
    normalise(TERN_CUDA(0), there);
    const double tolerance = normal.dtype == TERN_F64   ? 1e-12
                             : normal.dtype == TERN_F32 ? 1e-5
                             : normal.dtype == TERN_F16 ? 5e-3
                                                        : 4e-2;
    EXPECT(!tern_failed());
    for (int i = 0; i < 6; i++)
        EXPECT(child_distance(there[i], here[i]) <= tolerance);
}

/* A call of cuDNN is made where failing it fails the case. */
static void expect_used(void (*body)(void), const char *call, bool used)
{
    char fail[96];
    (void)snprintf(fail, sizeof fail, "%s@1=5000", call);
    if (child_holds(body, (child_machine){ .fail = fail, .quiet = true }) == used)
        fail_msg("%s is%s called", call, used ? " not" : "");
}

/* The library's first lack of memory is mended by what the allocator's cache holds. */
static void expect_again(void (*body)(void), const char *call)
{
    char fail[96];
    (void)snprintf(fail, sizeof fail, "%s@1=4004", call);
    assert_true(child_holds(body, (child_machine){ .fail = fail }));
}

static void test_averages_that_mean_the_same_are_cudnns(void **state)
{
    (void)state;
    assert_in_child(average_plain, 0);
    expect_used(average_plain, "cudnnPoolingForward", true);
    expect_again(average_plain, "cudnnPoolingForward");
    expect_used(average_hanging_over, "cudnnPoolingForward", false);
}

static void test_batch_norm_is_cudnns_where_it_is_pytorchs(void **state)
{
    (void)state;
    static const struct {
        normal_case what;
        bool used;
    } cases[] = {
        { { TERN_F32, TERN_F32, false, true }, true },
        { { TERN_F64, TERN_F64, false, true }, true },
        { { TERN_F16, TERN_F32, false, true }, true },
        { { TERN_F16, TERN_F16, false, true }, false },
        { { TERN_BF16, TERN_F32, false, true }, false },
        { { TERN_F32, TERN_F32, true, true }, false },
        { { TERN_F32, TERN_F32, false, false }, true },
        { { TERN_F16, TERN_F32, false, false }, true },
        { { TERN_BF16, TERN_F32, false, false }, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        normal = cases[i].what;
        assert_in_child(normalising_agrees, 0);
        expect_used(normalising_agrees,
                    normal.training ? "cudnnBatchNormalizationForwardTraining"
                                    : "cudnnBatchNormalizationForwardInference",
                    cases[i].used);
        expect_used(normalising_agrees, "cudnnBatchNormalizationBackward",
                    cases[i].used && normal.training);
    }
    normal = cases[0].what;
    expect_again(normalising_agrees, "cudnnBatchNormalizationForwardTraining");
    expect_again(normalising_agrees, "cudnnBatchNormalizationBackward");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_averages_that_mean_the_same_are_cudnns),
        cmocka_unit_test(test_batch_norm_is_cudnns_where_it_is_pytorchs),
    };
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
