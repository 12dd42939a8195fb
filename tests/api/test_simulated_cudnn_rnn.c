/* Recurrent layers by cuDNN on simulated devices: there, absent, disabled, refusing at each of its calls,
 * failing; that all agree with the CPU's cells, and what asks it not at all. */
#include <stdio.h>
#include <stdlib.h>

#include "tern/numerics.h"
#include "tern/rnn.h"
#include "tests/support/child.h"

/* ---- a layer and its gradients ------------------------------------------------------------------ */

enum { RESULTS = 24 };

typedef struct problem {
    tern_module *(*make)(tern_site_t site, const tern_rnn_layer_args *args);
    tern_rnn_layer_args args;
    int64_t length, batch;
    bool states; /* h0 (and c0) are given */
    bool evaluating;
} problem;

static tern_module *module_of(const problem *p, tern_dev_t dev)
{
    tern_rnn_layer_args args = p->args;
    args.size_ = sizeof args;
    tern_seed(4);
    tern_module *m = p->make(TERN_HERE, &args);
    tern_module_to(m, dev);
    return m;
}

/* x, h0 and c0 on a device, the same at each call. */
static tern_args operands_of(const problem *p, tern_dev_t dev)
{
    const int64_t layers = p->args.layers ? p->args.layers : 1;
    const int64_t places = layers * (p->args.bidirectional ? 2 : 1);
    const bool first = p->args.batch_first, cells = p->make == tern_lstm_layer_at;
    tern_seed(6);
    tern_tensor *in[3] = { tern_randn(TERN_SHAPE(first ? p->batch : p->length,
                                                 first ? p->length : p->batch, p->args.in)),
                           NULL, NULL };
    for (int i = 1; p->states && i < (cells ? 3 : 2); i++)
        in[i] = tern_randn(TERN_SHAPE(places, p->batch, p->args.hidden));
    const tern_dtype_t dtype = p->args.dtype ? p->args.dtype : TERN_F32;
    for (int i = 0; i < 3; i++)
        if (in[i] != NULL)
            in[i] =
                tern_set_requires_grad(tern_detach(tern_to(tern_cast(in[i], dtype), dev)), true);
    return TERN_ARGS(in[0], in[1], in[2]);
}

static tern_tensor *squares(tern_tensor *sum, tern_tensor *t)
{
    tern_tensor *wide = tern_cast(t, TERN_F64);
    tern_tensor *part = tern_sum(tern_mul(wide, tern_mul(wide, wide)));
    return sum != NULL ? tern_add(sum, part) : part;
}

/* Results, then gradients of inputs and parameters; how many there are, 0 after an error. */
static int solve(const problem *p, tern_dev_t dev, tern_tensor *out[RESULTS])
{
    tern_module *m = module_of(p, dev);
    tern_args run = operands_of(p, dev);
    int n = 0;
    if (p->evaluating)
        tern_eval(m);
    tern_forward_args(m, &run);
    tern_tensor *sum = NULL;
    for (int i = 0; i < 3 && !tern_failed(); i++)
        if (run.out[i] != NULL)
            sum = squares(sum, out[n++] = run.out[i]);
    if (!tern_failed())
        tern_backward(sum);
    for (int i = 0; i < 3 && !tern_failed(); i++)
        if (run.in[i] != NULL)
            out[n++] = tern_grad_of(run.in[i]);
    const tern_tensors_t all = tern_parameters(m);
    for (int64_t i = 0; i < all.count && n < RESULTS && !tern_failed(); i++)
        out[n++] = tern_grad_of(all.tensors[i]);
    n = tern_failed() ? 0 : n;
    for (int i = 0; i < n; i++)
        (void)tern_retain(out[i]);
    tern_module_free(m);
    return n;
}

static void expect_agreement(const problem *p, double tolerance)
{
    TERN_SCOPE;
    tern_tensor *here[RESULTS], *there[RESULTS];
    const int n = solve(p, TERN_CPU, here);
    EXPECT(n > 0 && solve(p, TERN_CUDA(0), there) == n);
    for (int i = 0; i < n; i++) {
        EXPECT(child_distance(there[i], here[i]) <= tolerance);
        tern_release(here[i]);
        tern_release(there[i]);
    }
}

static const double exact = 1e-5;

static const problem lstm = { .make = tern_lstm_layer_at,
                              .args = { .in = 3, .hidden = 5, .layers = 2, .bidirectional = true },
                              .length = 4,
                              .batch = 2,
                              .states = true };
/* sizes whose weights need no gaps */
static const problem even = {
    .make = tern_gru_layer_at, .args = { .in = 4, .hidden = 4 }, .length = 5, .batch = 3
};

/* ---- there, absent, disabled -------------------------------------------------------------------- */

static void every_kind(void)
{
    static const problem problems[] = {
        { tern_rnn_layer_at, { .in = 3, .hidden = 4, .relu = true }, 3, 2, true, false },
        { tern_rnn_layer_at, { .in = 3, .hidden = 3, .layers = 3, .no_bias = true }, 3, 2, 0, 0 },
        { tern_lstm_layer_at, { .in = 3, .hidden = 5, .batch_first = true }, 4, 2, false, false },
        { tern_lstm_layer_at, { .in = 2, .hidden = 3, .dropout = 0.5, .layers = 2 }, 4, 2, 1, 1 },
        { tern_gru_layer_at, { .in = 3, .hidden = 5, .bidirectional = true }, 4, 2, true, false },
        { tern_gru_layer_at, { .in = 1, .hidden = 1 }, 1, 1, true, false },
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        expect_agreement(&problems[i], exact);
    expect_agreement(&lstm, exact);
    expect_agreement(&even, exact);
}

static void it_is_used(void)
{
    every_kind();
    EXPECT(child_said("own kernel") == 0);
    problem other = lstm;
    other.args.dtype = TERN_F64;
    expect_agreement(&other, 1e-12);
    other.args.dtype = TERN_F16;
    expect_agreement(&other, 2e-2);
    other.args.dtype = TERN_BF16;
    expect_agreement(&other, 1e-1);
    EXPECT(child_said("own kernel") == 0);
}

static void it_is_absent(void)
{
    every_kind();
    EXPECT(child_said("cuDNN is not used") == 1);
    EXPECT(child_said("cuDNN") == 1);
}

static void it_is_disabled(void)
{
    tern_cudnn_set_enabled(false);
    every_kind();
    EXPECT(child_said("cuDNN") == 0);
}

/* The calls are made where failing them fails a case. */
static void expect_used(void (*body)(void), const char *call, bool used)
{
    char fail[96];
    (void)snprintf(fail, sizeof fail, "%s@1=5000", call);
    if (child_holds(body, (child_machine){ .fail = fail, .quiet = true }) == used)
        fail_msg("%s is%s called", call, used ? " not" : "");
}

static void test_it_is_used_absent_or_disabled(void **state)
{
    (void)state;
    assert_in_child(it_is_used, 0);
    assert_in_child(it_is_absent, .absent = "cudnn");
    assert_in_child(it_is_disabled, 0);
    expect_used(it_is_used, "cudnnRNNForward", true);
    expect_used(it_is_used, "cudnnRNNBackwardData_v8", true);
    expect_used(it_is_used, "cudnnRNNBackwardWeights_v8", true);
    expect_used(it_is_disabled, "cudnnRNNForward", false);
}

/* ---- refusing, failing -------------------------------------------------------------------------- */

static void it_refuses(void)
{
    expect_agreement(&lstm, exact);
    expect_agreement(&lstm, exact);
    EXPECT(child_said("lstm on cuda:0: an own kernel instead of cuDNN: CUDNN_STATUS_") == 1);
    EXPECT(child_said("own kernel") == 1);
}

static void it_does_not_start(void)
{
    expect_agreement(&lstm, exact);
    EXPECT(child_said("CUDNN_STATUS_NOT_INITIALIZED (1001): it cannot start on this device") == 1);
}

static const char *const calls[] = { "cudnnCreateRNNDescriptor",     "cudnnSetRNNDescriptor_v8",
                                     "cudnnCreateRNNDataDescriptor", "cudnnSetRNNDataDescriptor",
                                     "cudnnCreateTensorDescriptor",  "cudnnSetTensorNdDescriptor",
                                     "cudnnGetRNNWeightSpaceSize",   "cudnnGetRNNTempSpaceSizes",
                                     "cudnnGetRNNWeightParams",      "cudnnRNNForward",
                                     "cudnnRNNBackwardData_v8",      "cudnnRNNBackwardWeights_v8" };
enum { CALLS = sizeof calls / sizeof *calls };

/* Also late: what a backward is refused is made of ops. */
static void test_what_it_refuses_cells_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < CALLS; i++) {
        char fail[96];
        (void)snprintf(fail, sizeof fail, "%s@1=3000", calls[i]);
        assert_in_child(it_refuses, .fail = fail);
    }
    assert_in_child(it_refuses, .fail = "cudnnRNNForward@1=1008");
    assert_in_child(it_does_not_start, .fail = "cudnnCreate@1=1001,cudnnCreate@2=1001");
}

/* Whatever fails at first, the third time is right. */
static void three_times(void)
{
    for (int i = 0; i < 3; i++) {
        TERN_SCOPE;
        tern_tensor *there[RESULTS];
        tern_error_clear();
        const int n = solve(&lstm, TERN_CUDA(0), there);
        EXPECT(i < 2 || n > 0);
        for (int k = 0; k < n; k++)
            tern_release(there[k]);
    }
    expect_agreement(&lstm, exact);
}

static void test_each_call_may_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < CALLS + 2; i++)
        for (int k = 1; k <= 2; k++) {
            static const char *const more[2] = { "cudaMemcpyAsync", "cudaMemsetAsync" };
            char fail[96];
            if (i < CALLS)
                (void)snprintf(fail, sizeof fail, "%s@%d=4000", calls[i], k);
            else /* around the calls: copies of weights and reserve, zeros for gradients */
                (void)snprintf(fail, sizeof fail, "%s@%d=2", more[i - CALLS], 30 * k);
            if (!child_holds(three_times, (child_machine){ .fail = fail }))
                fail_msg("with %s", fail);
        }
}

static void it_fails(void)
{
    TERN_SCOPE;
    tern_tensor *there[RESULTS];
    EXPECT(solve(&lstm, TERN_CUDA(0), there) == 0);
    EXPECT(tern_error_code() == TERN_ERR_BACKEND);
    EXPECT(strstr(tern_error_text(), "cudnnRNNForward in lstm on cuda:0 (simulated): "
                                     "CUDNN_STATUS_EXECUTION_FAILED (5000)") != NULL);
    tern_error_clear();
    expect_agreement(&lstm, exact);
}

static void test_its_failures_are_errors(void **state)
{
    (void)state;
    assert_in_child(it_fails, .fail = "cudnnRNNForward@1=5000");
}

/* The cache's memory, then the same call again. */
static void it_gets_memory_of_the_cache(void)
{
    expect_agreement(&lstm, exact);
    EXPECT(child_said("own kernel") == 0);
}

static void test_memory_that_it_lacks_comes_from_the_cache(void **state)
{
    (void)state;
    static const char *const lacking[] = { "cudnnGetRNNTempSpaceSizes@1=4004",
                                           "cudnnRNNForward@1=4004",
                                           "cudnnRNNBackwardData_v8@1=4004",
                                           "cudnnRNNBackwardWeights_v8@1=4004" };
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
        assert_in_child(it_gets_memory_of_the_cache, .fail = lacking[i]);
}

/* ---- calls that are given nonsense -------------------------------------------------------------- */

static const tern_attr_rnn one_layer = { .kind = TERN_RNN_LSTM,
                                         .layers = 1,
                                         .directions = 1,
                                         .dtype = TERN_F32,
                                         .length = 4,
                                         .batch = 2,
                                         .features = 4,
                                         .hidden = 4,
                                         .biased = true,
                                         .training = true };

static void what_there_is_no_reserve_of(void)
{
    const int64_t bytes = tern_rnn_reserve(&one_layer, TERN_CUDA(0)); /* what opens the device */
    EXPECT(bytes > 0 && tern_rnn_reserve(&one_layer, TERN_CUDA(-1)) == bytes);
    EXPECT(tern_rnn_reserve(&one_layer, TERN_CPU) == -1);
    tern_attr_rnn how = one_layer;
    how.kind = 1000;
    EXPECT(tern_rnn_reserve(&how, TERN_CUDA(0)) == -1);
    how.kind = -1;
    EXPECT(tern_rnn_reserve(&how, TERN_CUDA(0)) == -1);
    how.kind = TERN_RNN_GRU;
    how.dtype = TERN_I64;
    EXPECT(tern_rnn_reserve(&how, TERN_CUDA(0)) == -1);
    how.dtype = 1000;
    EXPECT(tern_rnn_reserve(&how, TERN_CUDA(0)) == -1 && !tern_failed());
    static const int none[] = { 1, 64, 1000 };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        EXPECT(tern_rnn_reserve(&one_layer, TERN_CUDA(none[i])) == -1);
        EXPECT(tern_error_code() == TERN_ERR_DEVICE);
        tern_error_clear();
    }
}

enum { X, H0, C0, WEIGHTS, OUT, RESERVE, GRADIENT, OPERANDS };

static void make_operands(tern_tensor *in[OPERANDS])
{
    const tern_dev_t dev = TERN_CUDA(0);
    const int64_t out = TERN_RNN_PADDED(4 * 2 * 4) + 2 * TERN_RNN_PADDED(2 * 4);
    in[X] = tern_ones(TERN_SHAPE(4, 2, 4), .device = dev);
    in[H0] = tern_ones(TERN_SHAPE(1, 2, 4), .device = dev);
    in[C0] = tern_ones(TERN_SHAPE(1, 2, 4), .device = dev);
    in[WEIGHTS] = tern_ones(TERN_SHAPE(4 * 4 * (4 + 4 + 2)), .device = dev);
    in[OUT] = tern_zeros(TERN_SHAPE(out), .device = dev);
    in[GRADIENT] = tern_ones(TERN_SHAPE(out), .device = dev);
}

static void expect_refused(const char *why, bool done)
{
    EXPECT(!done && tern_error_code() == TERN_ERR_ARGUMENT);
    EXPECT(strstr(tern_error_text(), why) != NULL);
    tern_error_clear();
}

/* An error of the caller's, after which the library still has these layers. */
static void reserves_that_do_not_do(void)
{
    TERN_SCOPE;
    tern_tensor *in[OPERANDS], *grads[3];
    bool done = true;
    make_operands(in);
    const int64_t bytes = tern_rnn_reserve(&one_layer, TERN_CUDA(0));
    tern_tensor *whole = tern_zeros(TERN_SHAPE(bytes), .dtype = TERN_U8, .device = TERN_CUDA(0));
    in[RESERVE] = NULL;
    tern_rnn_forward(&one_layer, in, &done);
    expect_refused("reserve is NULL, in training", done);
    in[RESERVE] = tern_slice(whole, 0, 0, bytes - 1);
    tern_rnn_forward(&one_layer, in, &done);
    expect_refused("where these layers keep", done);
    tern_rnn_backward(&one_layer, in, grads, &done);
    expect_refused("where these layers keep", done);
    in[RESERVE] = whole;
    tern_rnn_forward(&one_layer, in, &done);
    EXPECT(done);
    tern_attr_rnn how = one_layer;
    how.training = false;
    tern_rnn_backward(&how, in, grads, &done);
    expect_refused("training is false", done);
    tern_rnn_backward(&one_layer, in, grads, &done);
    EXPECT(done && !tern_failed() && child_said("own kernel") == 0);
}

static void test_what_the_caller_gives_is_checked(void **state)
{
    (void)state;
    assert_in_child(what_there_is_no_reserve_of, 0);
    assert_in_child(reserves_that_do_not_do, 0);
}

/* ---- gradients ---------------------------------------------------------------------------------- */

/* A graph that is kept goes back twice, and both times from the reserve as forward left it. */
static void it_goes_back_twice(void)
{
    TERN_SCOPE;
    tern_module *m = module_of(&lstm, TERN_CUDA(0));
    tern_args run = operands_of(&lstm, TERN_CUDA(0));
    tern_tensor *once = NULL, *again = NULL;
    tern_tensor *sum = tern_sum(tern_forward_args(m, &run));
    tern_grad(sum, &run.in[0], 1, &once, .retain_graph = true);
    tern_grad(sum, &run.in[0], 1, &again);
    EXPECT(!tern_failed() && child_distance(again, tern_cpu(once)) == 0);
    tern_module_free(m);
}

static void second_order(tern_dev_t dev, tern_tensor *out[2])
{
    tern_module *m = module_of(&lstm, dev);
    tern_args run = operands_of(&lstm, dev);
    tern_forward_args(m, &run);
    tern_tensor *sum = squares(squares(NULL, run.out[0]), run.out[2]), *g[2];
    tern_tensor *of[2] = { run.in[0], tern_module_tensor(m, "weight_hh_l1_reverse") };
    tern_grad(sum, of, 2, g, .create_graph = true);
    sum = squares(squares(NULL, g[0]), g[1]);
    tern_grad(sum, of, 2, out);
    (void)tern_retain(out[0]);
    (void)tern_retain(out[1]);
    tern_module_free(m);
}

/* cuDNN has no gradients of gradients: then ops go through the steps again. */
static void it_has_a_second_order(void)
{
    TERN_SCOPE;
    tern_tensor *here[2], *there[2];
    second_order(TERN_CPU, here);
    second_order(TERN_CUDA(0), there);
    for (int i = 0; i < 2; i++) {
        EXPECT(!tern_failed() && child_distance(there[i], here[i]) <= exact);
        tern_release(here[i]);
        tern_release(there[i]);
    }
}

static void one_layer_twice(void)
{
    TERN_SCOPE;
    tern_tensor *grads[2];
    for (int i = 0; i < 2; i++) {
        const tern_dev_t dev = i == 0 ? TERN_CPU : TERN_CUDA(0);
        tern_seed(4);
        tern_module *m = tern_lstm_layer(4, 4);
        tern_module_to(m, dev);
        tern_tensor *x = tern_to(tern_randn(TERN_SHAPE(3, 2, 4)), dev);
        tern_backward(tern_sum(tern_forward(m, tern_forward(m, x))));
        grads[i] = tern_retain(tern_grad_of(tern_module_tensor(m, "weight_ih_l0")));
        tern_module_free(m);
    }
    EXPECT(!tern_failed() && child_distance(grads[1], grads[0]) <= exact);
    tern_release(grads[0]);
    tern_release(grads[1]);
}

static void test_gradients_twice_and_of_gradients(void **state)
{
    (void)state;
    assert_in_child(it_goes_back_twice, 0);
    assert_in_child(it_has_a_second_order, 0);
    assert_in_child(one_layer_twice, 0);
}

/* ---- who asks it, who does not -------------------------------------------------------------------- */

static void without_gradients(void)
{
    TERN_SCOPE;
    TERN_NO_GRAD;
    tern_module *m = module_of(&lstm, TERN_CUDA(0)), *same = module_of(&lstm, TERN_CPU);
    tern_args run = operands_of(&lstm, TERN_CUDA(0)), here = operands_of(&lstm, TERN_CPU);
    tern_forward_args(m, &run);
    tern_forward_args(same, &here);
    EXPECT(!tern_failed());
    for (int i = 0; i < 3; i++)
        EXPECT(child_distance(run.out[i], here.out[i]) <= exact);
    tern_module_free(m);
    tern_module_free(same);
}

static void repeatable(void)
{
    tern_cudnn_set_deterministic(true);
    expect_agreement(&lstm, exact);
    tern_cudnn_set_deterministic(false);
    tern_use_deterministic_algorithms(true);
    expect_agreement(&lstm, exact);
}

static void empty_batch(void)
{
    problem none = lstm;
    none.batch = 0;
    TERN_SCOPE;
    tern_tensor *out[RESULTS];
    EXPECT(solve(&none, TERN_CUDA(0), out) > 0);
    EXPECT(tern_size(out[0], 1) == 0);
}

/* Dropout is the library's own, so that its random numbers are the CPU's: each layer is a call. */
static void dropping(void)
{
    problem drops = lstm;
    drops.args.dropout = 0.5;
    TERN_SCOPE;
    tern_tensor *there[RESULTS];
    EXPECT(solve(&drops, TERN_CUDA(0), there) > 0);
    EXPECT(child_said("own kernel") == 0);
}

static void under_autocast(void)
{
    TERN_SCOPE;
    tern_module *m = module_of(&lstm, TERN_CUDA(0));
    tern_args run = operands_of(&lstm, TERN_CUDA(0));
    {
        TERN_AUTOCAST(TERN_CUDA(0), TERN_F16);
        tern_forward_args(m, &run);
    }
    EXPECT(!tern_failed() && tern_dtype(run.out[0]) == TERN_F16);
    tern_backward(tern_sum(tern_cast(run.out[0], TERN_F32)));
    EXPECT(!tern_failed() && tern_dtype(tern_grad_of(run.in[0])) == TERN_F32);
    EXPECT(tern_dtype(tern_grad_of(tern_module_tensor(m, "bias_hh_l0"))) == TERN_F32);
    tern_module_free(m);
}

static void in_bf16(void)
{
    TERN_SCOPE;
    tern_module *m = module_of(&lstm, TERN_CUDA(0));
    tern_args run = operands_of(&lstm, TERN_CUDA(0));
    TERN_AUTOCAST(TERN_CUDA(0), TERN_BF16);
    tern_forward_args(m, &run);
    EXPECT(!tern_failed() && tern_dtype(run.out[0]) == TERN_BF16);
    tern_module_free(m);
}

/* Steps in one call: fewer launches than steps. */
static void test_who_asks_it(void **state)
{
    (void)state;
    assert_in_child(without_gradients, 0);
    expect_used(without_gradients, "cudnnRNNForward", true);
    assert_in_child(repeatable, 0);
    expect_used(repeatable, "cudnnCreateRNNDescriptor", false);
    assert_in_child(empty_batch, 0);
    expect_used(empty_batch, "cudnnCreateRNNDescriptor", false);
    assert_in_child(dropping, 0);
    assert_in_child(under_autocast, 0);
    expect_used(under_autocast, "cudnnRNNBackwardWeights_v8", true);
    expect_used(in_bf16, "cudnnRNNForward", true);
    (void)setenv("TERN_SIM_CAPABILITY", "7.5", 1); /* has no bf16 of its own */
    expect_used(in_bf16, "cudnnRNNForward", false);
    (void)unsetenv("TERN_SIM_CAPABILITY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_used_absent_or_disabled),
        cmocka_unit_test(test_what_it_refuses_cells_do),
        cmocka_unit_test(test_its_failures_are_errors),
        cmocka_unit_test(test_each_call_may_fail),
        cmocka_unit_test(test_memory_that_it_lacks_comes_from_the_cache),
        cmocka_unit_test(test_what_the_caller_gives_is_checked),
        cmocka_unit_test(test_gradients_twice_and_of_gradients),
        cmocka_unit_test(test_who_asks_it),
    };
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
