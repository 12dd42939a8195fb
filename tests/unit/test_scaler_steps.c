/* Steps of the gradient scaler that the device leaves out, without a word to the host. Rows A052-A062. */
#include <math.h>

#include "tests/support/check.h"
#include "tests/support/scaler.h"

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

/* One iteration as in a training loop; slope: of the gradient. */
static void iterate(tern_grad_scaler *s, tern_optimizer *opt, tern_tensor *p, double slope)
{
    TERN_SCOPE;
    scaler_backward(s, p, slope);
    tern_scaler_step(s, opt);
    tern_scaler_update(s);
    tern_zero_grad(opt);
}

static tern_optimizer *optimizer_of(int kind, tern_tensor *p)
{
    const tern_tensors_t params = { &p, NULL, 1 };
    return kind == 0   ? tern_sgd(params, .lr = 0.5)
           : kind == 1 ? tern_sgd(params, .lr = 0.5, .momentum = 0.9, .dampening = 0.5)
           : kind == 2 ? tern_adam(params, .lr = 0.5)
                       : tern_adamw(params, .lr = 0.5);
}

static void test_the_host_reads_nothing(void **state) /* A052, A061, A062 */
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8, .growth_interval = 2);
        tern_tensor *p = tern_retain(scaler_parameter(1));
        tern_optimizer *opt = optimizer_of(kind, p);
        iterate(s, opt, p, 1);
        tern_dev_synchronize(tern_device(p));
        const tern_transfers_t before = tern_transfers_total();
        for (int i = 0; i < 6; i++)
            iterate(s, opt, p, i % 3 == 1 ? INFINITY : 1);
        const tern_transfers_t after = tern_transfers_total();
        assert_int_equal(after.reads.count, before.reads.count);
        assert_int_equal(after.to_host.count, before.to_host.count);
        assert_int_equal(after.to_device.count, before.to_device.count);
        assert_int_equal(after.syncs, before.syncs);
        assert_int_equal(tern_scaler_skip_count(s), 2);
        tern_optimizer_free(opt);
        tern_release(p);
        tern_grad_scaler_free(s);
        assert_no_error();
    }
}

/* Those that were left out as if they had not been, whatever the mixture with plain steps. */
static void test_steps_left_out_do_not_count(void **state) /* A060, A062 */
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8);
        tern_tensor *p = tern_retain(scaler_parameter(1)), *q = tern_retain(scaler_parameter(1));
        tern_optimizer *opt = optimizer_of(kind, p), *plain = optimizer_of(kind, q);
        const double slopes[] = { INFINITY, 1, 2, NAN, 3, -1 };
        for (int i = 0; i < 6; i++) {
            TERN_SCOPE;
            if (i == 4) { /* without the scaler */
                tern_backward(tern_mul(tern_sum(p), slopes[i]));
                tern_step(opt);
                tern_zero_grad(opt);
            } else {
                iterate(s, opt, p, slopes[i]);
            }
            if (!isfinite(slopes[i]))
                continue;
            tern_backward(tern_mul(tern_sum(q), slopes[i]));
            tern_step(plain);
            tern_zero_grad(plain);
        }
        assert_close(scaler_first(p), scaler_first(q), 1e-6);
        int64_t steps = 4;
        tern_state *saved = tern_state_create();
        tern_optimizer_store(opt, saved, "o");
        if (kind > 1)
            tern_state_get_int(saved, "o.state.0.step", &steps);
        assert_int_equal(steps, 4);
        tern_optimizer_restore(opt, saved, "o");
        iterate(s, opt, p, 1);
        tern_backward(tern_sum(q));
        tern_step(plain);
        assert_close(scaler_first(p), scaler_first(q), 1e-6);
        assert_no_error();
        tern_state_free(saved);
        tern_optimizer_free(opt);
        tern_optimizer_free(plain);
        tern_release(p);
        tern_release(q);
        tern_grad_scaler_free(s);
    }
}

static void test_gradients_are_unscaled_by_the_step(void **state) /* A062 */
{
    (void)state;
    TERN_SCOPE;
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8);
    tern_tensor *p = scaler_parameter(1);
    tern_optimizer *opt = scaler_sgd(p);
    scaler_backward(s, p, 3);
    assert_close(scaler_first(tern_grad_of(p)), 24, 0);
    tern_scaler_step(s, opt);
    assert_close(scaler_first(tern_grad_of(p)), 3, 0);
    assert_close(scaler_first(p), -0.5, 0);
    tern_zero_grad(opt);
    tern_scaler_update(s);
    tern_step_scaled(opt, NULL, NULL);
    assert_error(TERN_ERR_ARGUMENT, "the flag is NULL");
    tern_optimizer_free(opt);
    tern_grad_scaler_free(s);
}

static void test_a_step_takes_f16_gradients(void **state) /* A052 */
{
    (void)state;
    TERN_SCOPE;
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8);
    tern_tensor *p = tern_full(1, TERN_SHAPE(3), .dtype = TERN_F16, .requires_grad = true);
    tern_optimizer *opt = scaler_sgd(p);
    scaler_backward(s, p, 1);
    tern_scaler_step(s, opt);
    assert_close(scaler_first(p), 0.5, 0);
    tern_scaler_update(s);
    scaler_backward(s, p, INFINITY);
    tern_scaler_step(s, opt);
    assert_true(tern_scaler_skipped(s, opt));
    assert_close(scaler_first(p), 0.5, 0);
    assert_no_error();
    tern_optimizer_free(opt);
    tern_grad_scaler_free(s);
}

/* A gradient that cannot be written is found before another is divided. */
static void test_a_refused_unscale_has_done_nothing(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *p[2] = { scaler_parameter(1), scaler_parameter(1) };
    tern_optimizer *opt = tern_sgd((tern_tensors_t){ p, NULL, 2 }, .lr = 1);
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8, .device = tern_device(p[0]));
    tern_backward(tern_scaler_scale(s, tern_add(tern_sum(p[0]), tern_sum(p[1]))));
    tern_tensor *one = tern_full(8, TERN_SHAPE(1), .device = tern_device(p[1]));
    tern_set_grad(p[1], tern_expand(one, TERN_SHAPE(3)));
    tern_scaler_unscale(s, opt);
    assert_error(TERN_ERR_ARGUMENT, "of parameter '1', which is written, share one place");
    assert_close(scaler_first(tern_grad_of(p[0])), 8, 0);
    tern_set_grad(p[1], tern_contiguous(tern_expand(one, TERN_SHAPE(3))));
    assert_int_equal(tern_scaler_unscale(s, opt), TERN_OK);
    assert_close(scaler_first(tern_grad_of(p[0])), 1, 0);
    assert_close(scaler_first(tern_grad_of(p[1])), 1, 0);
    tern_optimizer_free(opt);
    tern_grad_scaler_free(s);
}

/* A state that does not fit is refused whole, also when it is only looked at. */
static void test_a_tracker_beyond_i32_is_refused(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_state *bad = tern_state_create();
    tern_state_set_number(bad, "scale", 1024);
    tern_state_set_number(bad, "growth_factor", 3);
    tern_state_set_number(bad, "backoff_factor", 0.25);
    tern_state_set_int(bad, "growth_interval", 77);
    tern_state_set_int(bad, "_growth_tracker", INT64_C(1) << 40);
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8);
    for (int only = 0; only < 2; only++) {
        tern_scaler_restore_at(TERN_HERE, s, bad, NULL, only != 0);
        assert_error(TERN_ERR_FORMAT, "'_growth_tracker' is 1099511627776, not a number of steps");
    }
    assert_close(tern_scaler_growth_factor(s), 2, 0);
    assert_close(tern_scaler_get_scale(s), 8, 0);
    tern_state_free(bad);
    tern_grad_scaler_free(s);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, clear, clear)
    const struct CMUnitTest tests[] = {
        CASE(test_the_host_reads_nothing),
        CASE(test_steps_left_out_do_not_count),
        CASE(test_gradients_are_unscaled_by_the_step),
        CASE(test_a_step_takes_f16_gradients),
        CASE(test_a_refused_unscale_has_done_nothing),
        CASE(test_a_tracker_beyond_i32_is_refused),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 || failed;
}
