/* Every allocation of a training step fails in turn: each failure is an error, nothing is leaked,
 * parameters are all updated or none, and the next step works. */
#include "tern/debug.h"
#include "tests/support/between.h"
#include "tests/support/params.h"

enum { PARAMS = 4, FLOATS = 4 * 9 + 4 + 64 * 10 + 10 };

typedef struct model {
    tern_module *net;
    tern_optimizer *opt;
    tern_tensor *x, *y;
    float values[FLOATS]; /* of the parameters, when they were last looked at */
    int64_t states;       /* that a step may make, also one that fails */
} model;

/* What tern_step said. */
static tern_status_t step(const model *m)
{
    TERN_SCOPE;
    tern_tensor *loss = tern_cross_entropy(tern_forward(m->net, m->x), m->y);
    tern_backward(loss);
    const tern_status_t status = tern_step(m->opt);
    tern_zero_grad(m->opt);
    return status;
}

static model make(void)
{
    model m;
    tern_seed(5);
    m.net =
        tern_sequential(tern_conv2d_layer(1, 4, 3, .padding = 1), tern_relu_layer(),
                        tern_max_pool2d_layer(2), tern_flatten_layer(), tern_linear_layer(64, 10));
    m.opt = NULL;
    m.states = 0;
    m.x = tern_retain(tern_randn(TERN_SHAPE(6, 1, 8, 8)));
    m.y = tern_retain(tern_argmax(tern_randn(TERN_SHAPE(6, 10)), 1));
    return m;
}

/* An optimizer without state: its first step makes it. */
static void begin(model *m)
{
    tern_optimizer_free(m->opt);
    m->opt = tern_adam(tern_parameters(m->net), .lr = 1e-2);
    m->states = 2 * (int64_t)PARAMS;
    assert_no_error();
    params_changed(m->opt, m->values, FLOATS);
}

/* False when allocation k was not reached. */
static bool fail_at(model *m, int64_t k, int64_t *got_around)
{
    const int64_t live = tern_live_tensors();
    tern_debug_fail_allocation(k);
    const tern_status_t status = step(m);
    const bool reached = tern_debug_allocations_left() <= 0;
    tern_debug_fail_allocation(0);
    if (reached && tern_error_code() != TERN_ERR_OOM && (check_on_cpu() || tern_failed()))
        fail_msg("allocation %lld failed without an error", (long long)k);
    *got_around += reached && !tern_failed();
    tern_error_clear();
    tern_zero_grad(m->opt);
    assert_no_error();
    const int64_t changed = params_changed(m->opt, m->values, FLOATS);
    if (changed != (status == TERN_OK ? PARAMS : 0))
        fail_msg("allocation %lld: tern_step gave %s, and %lld parameters changed", (long long)k,
                 tern_status_name(status), (long long)changed);
    if (reached && tern_live_tensors() > live + m->states)
        fail_msg("allocation %lld leaks %lld tensors", (long long)k,
                 (long long)(tern_live_tensors() - live));
    return reached;
}

static void fail_each(bool first)
{
    model m = make();
    begin(&m);
    if (!first) {
        assert_int_equal(step(&m), TERN_OK);
        m.states = 0;
    }
    params_changed(m.opt, m.values, FLOATS);
    int64_t k = 1, got_around = 0;
    while (fail_at(&m, k, &got_around)) {
        k++;
        if (first)
            begin(&m);
    }
    print_message("%lld allocations in a step\n", (long long)k - 1);
    assert_between(got_around, 0, 3); /* cuDNN's work memory: an own kernel does without */
    assert_true(k > 20);
    tern_release(m.x);
    tern_release(m.y);
    tern_optimizer_free(m.opt);
    tern_module_free(m.net);
}

static void test_each_allocation_of_a_step_may_fail(void **state)
{
    (void)state;
    fail_each(false);
}

static void test_each_allocation_of_a_first_step_may_fail(void **state)
{
    (void)state;
    fail_each(true);
}

/* ---- calls that write what was there: done and recorded, or nothing happened ------------------- */

typedef struct subject {
    tern_tensor *leaf, *written, *other, *mean, *variance;
} subject;

static tern_tensor *multiply(const subject *s)
{
    return tern_mul_(s->written, s->other);
}
static tern_tensor *divide_by_number(const subject *s)
{
    return tern_div_(s->written, 4);
}
static tern_tensor *add_broadcast(const subject *s)
{
    return tern_add_(s->written, tern_select(s->other, 0, 0));
}
static tern_tensor *overwrite(const subject *s)
{
    return tern_copy(s->written, s->other);
}
static tern_tensor *normalise(const subject *s)
{
    return tern_batch_norm(s->leaf, .running_mean = s->mean, .running_var = s->variance,
                           .training = true);
}

static subject make_subject(void)
{
    subject s;
    tern_seed(9);
    s.leaf = tern_randn(TERN_SHAPE(4, 3), .requires_grad = true);
    s.written = tern_mul(s.leaf, 2);
    s.other = tern_randn(TERN_SHAPE(4, 3), .requires_grad = true);
    s.mean = tern_zeros(TERN_SHAPE(3));
    s.variance = tern_ones(TERN_SHAPE(3));
    return s;
}

static double digest(tern_tensor *t)
{
    TERN_SCOPE;
    TERN_NO_GRAD;
    return tern_item(
        tern_sum(tern_mul(t, tern_view(tern_arange(0, (double)tern_numel(t)), tern_shape(t)))));
}

/* False when allocation k was not reached, so that the call worked. */
static bool fails_cleanly(tern_tensor *(*call)(const subject *), int64_t k)
{
    TERN_SCOPE;
    const subject s = make_subject();
    const double written = digest(s.written), mean = digest(s.mean), spread = digest(s.variance);
    const uint32_t version = tern_version(s.written), of_mean = tern_version(s.mean);
    tern_debug_fail_allocation(k);
    tern_tensor *out = call(&s);
    const bool reached = tern_debug_allocations_left() <= 0;
    tern_debug_fail_allocation(0);
    if (!reached) {
        assert_no_error();
        assert_non_null(out);
        return false;
    }
    assert_error(TERN_ERR_OOM, "memory");
    assert_null(out);
    assert_int_equal(tern_version(s.written), version);
    assert_int_equal(tern_version(s.mean), of_mean);
    assert_true(digest(s.written) == written);
    assert_true(digest(s.mean) == mean && digest(s.variance) == spread);
    tern_backward(tern_sum(s.written)); /* the history is what it was */
    assert_no_error();
    assert_close(tern_item(tern_sum(tern_grad_of(s.leaf))), 24, 1e-6);
    return true;
}

static void test_a_write_happens_whole_or_not_at_all(void **state)
{
    (void)state;
    tern_tensor *(*const calls[])(const subject *) = { multiply, divide_by_number, add_broadcast,
                                                       overwrite, normalise };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int64_t k = 1;
        while (fails_cleanly(calls[i], k))
            k++;
        assert_true(k > 1);
    }
}

/* ---- averages and parameters: all change places, or none ------------------------------------------- */

/* False when allocation k was not reached, so that the swap worked. */
static bool swap_fails_cleanly(int64_t k)
{
    TERN_SCOPE;
    tern_tensor *a = tern_ones(TERN_SHAPE(3), .requires_grad = true);
    tern_tensor *b = tern_ones(TERN_SHAPE(3), .requires_grad = true);
    tern_ema *ema = tern_ema_create(TERN_TENSORS(a, b));
    const tern_tensors_t averages = tern_ema_averages(ema);
    tern_fill(averages.tensors[0], 5);
    tern_fill(averages.tensors[1], 6);
    tern_debug_fail_allocation(k);
    const tern_status_t status = tern_ema_swap(ema);
    const bool reached = tern_debug_allocations_left() <= 0;
    tern_debug_fail_allocation(0);
    assert_int_equal(status, reached ? TERN_ERR_OOM : TERN_OK);
    tern_error_clear();
    assert_true(digest(a) == (reached ? 3 : 15) && digest(b) == (reached ? 3 : 18));
    assert_int_equal(tern_ema_swap(ema), TERN_OK);
    assert_true(digest(a) == (reached ? 15 : 3) && digest(b) == (reached ? 18 : 3));
    tern_ema_free(ema);
    return reached;
}

static void test_a_swap_happens_whole_or_not_at_all(void **state)
{
    (void)state;
    int64_t k = 1;
    while (swap_fails_cleanly(k))
        k++;
    assert_true(k > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_of_a_step_may_fail),
        cmocka_unit_test(test_each_allocation_of_a_first_step_may_fail),
        cmocka_unit_test(test_a_write_happens_whole_or_not_at_all),
        cmocka_unit_test(test_a_swap_happens_whole_or_not_at_all),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
