/* Learning rate schedules against their formulas. */
#include "tests/support/check.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* An optimizer of two groups with the rates 0.4 and 0.1. */
static tern_optimizer *new_optimizer(void)
{
    TERN_SCOPE;
    tern_optimizer *opt =
        tern_sgd(TERN_TENSORS(tern_zeros(TERN_SHAPE(1), .requires_grad = true)), 0.4);
    tern_add_group(opt, TERN_TENSORS(tern_zeros(TERN_SHAPE(1), .requires_grad = true)), 0.1);
    assert_no_error();
    return opt;
}

typedef double (*formula)(int t, double base);

/* Steps a schedule, and checks the rates of both groups before each step. */
static void expect_rates(tern_optimizer *opt, tern_schedule *schedule, formula rate)
{
    assert_no_error();
    for (int t = 0; t < 30; t++) {
        assert_int_equal(tern_schedule_steps_done(schedule), t);
        assert_close(tern_get_lr(opt, 0), rate(t, 0.4), 1e-15);
        assert_close(tern_get_lr(opt, 1), rate(t, 0.1), 1e-15);
        tern_schedule_step(schedule);
    }
    tern_schedule_free(schedule);
    tern_optimizer_free(opt);
}

static double step_rate(int t, double base)
{
    return base * pow(0.5, t / 4);
}
static double tenths_rate(int t, double base)
{
    return base * pow(0.1, t / 10);
}
static double multistep_rate(int t, double base)
{
    return base * pow(0.5, (t >= 3) + 2 * (t >= 7) + (t >= 20));
}
static double one_milestone_rate(int t, double base)
{
    return base * pow(0.1, 1 + (t >= 29));
}
static double linear_rate(int t, double base)
{
    return base * (1.0 / 3 + 2.0 / 3 * (t < 6 ? t / 6.0 : 1));
}
static double falling_rate(int t, double base)
{
    return base * (t < 20 ? 1 - t / 20.0 : 0);
}
static double exponential_rate(int t, double base)
{
    return base * pow(0.9, t);
}

static double cosine(int done, int all, double base, double least)
{
    return least + (base - least) * (1 + cos(pi * (done < all ? done : all) / all)) / 2;
}

static double cosine_rate(int t, double base)
{
    return cosine(t, 20, base, 0.01);
}

static double warmup_rate(int t, double base)
{
    return t < 5 ? base * (t + 1) / 5 : cosine(t - 5, 15, base, 0.01);
}

static double root(int64_t step, void *user)
{
    return *(const double *)user / sqrt((double)step + 1);
}

static double custom_rate(int t, double base)
{
    return base * 2 / sqrt(t + 1.0);
}

static void test_rates_follow_the_formulas(void **unused)
{
    (void)unused;
    double two = 2;
    tern_optimizer *opt = new_optimizer();
    expect_rates(opt, tern_step_schedule(opt, 4, .gamma = 0.5), step_rate);
    opt = new_optimizer();
    expect_rates(opt, tern_step_schedule(opt, 10), tenths_rate);
    opt = new_optimizer();
    int64_t milestones[] = { 3, 7, 7, 20 };
    tern_schedule *multistep =
        tern_multistep_schedule(opt, .gamma = 0.5, .milestones = milestones, .milestone_count = 4);
    milestones[0] = 0; /* it has its own */
    expect_rates(opt, multistep, multistep_rate);
    opt = new_optimizer();
    expect_rates(
        opt,
        tern_multistep_schedule(opt, .milestones = ((int64_t[]){ 0, 29 }), .milestone_count = 2),
        one_milestone_rate);
    opt = new_optimizer();
    expect_rates(opt, tern_linear_schedule(opt, 6), linear_rate);
    opt = new_optimizer();
    expect_rates(opt, tern_linear_schedule(opt, 20, .start_factor = 1, .end_factor = TERN_ZERO),
                 falling_rate);
    opt = new_optimizer();
    expect_rates(opt, tern_exponential_schedule(opt, .gamma = 0.9), exponential_rate);
    opt = new_optimizer();
    expect_rates(opt, tern_cosine_schedule(opt, 20, .min_lr = 0.01), cosine_rate);
    opt = new_optimizer();
    expect_rates(opt, tern_warmup_schedule(opt, 20, .warmup = 5, .min_lr = 0.01), warmup_rate);
    opt = new_optimizer();
    expect_rates(opt, tern_custom_schedule(opt, .factor = root, .user = &two), custom_rate);
}

static void test_a_schedule_keeps_its_optimizer(void **unused)
{
    (void)unused;
    const int64_t before = tern_live_tensors();
    tern_optimizer *opt = new_optimizer();
    tern_schedule *schedule = tern_cosine_schedule(opt, 4);
    tern_optimizer_free(opt);
    tern_schedule_step(schedule);
    assert_no_error();
    tern_schedule_free(schedule);
    assert_int_equal(tern_live_tensors(), before);
    tern_schedule_step(NULL);
    tern_schedule_free(NULL);
}

static void test_a_pending_error_stops_a_schedule(void **unused)
{
    (void)unused;
    tern_optimizer *opt = new_optimizer();
    tern_schedule *schedule = tern_cosine_schedule(opt, 4);
    tern_fail(TERN_ERR_STATE, "test", "pending");
    tern_schedule_step(schedule);
    tern_error_clear();
    assert_int_equal(tern_schedule_steps_done(schedule), 0);
    assert_true(tern_get_lr(opt, 0) == 0.4);
    tern_schedule_free(schedule);
    tern_optimizer_free(opt);
}

/* The factor of a step from a table, which has bad values in it. */
static double tabled(int64_t step, void *user)
{
    return ((const double *)user)[step];
}

static void test_a_factor_that_is_none_changes_nothing(void **unused)
{
    (void)unused;
    const double bad[] = { NAN, -1, -INFINITY, INFINITY };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double table[] = { 0.5, 0, bad[i], 2 };
        tern_optimizer *opt = new_optimizer();
        tern_schedule *schedule = tern_custom_schedule(opt, .factor = tabled, .user = table);
        tern_schedule_step(schedule);
        assert_no_error();
        assert_true(tern_get_lr(opt, 0) == 0);
        tern_schedule_step(schedule);
        assert_non_null(strstr(tern_error_text(), "test_schedules.c"));
        assert_error(TERN_ERR_ARGUMENT, "factor(2) is ");
        assert_int_equal(tern_schedule_steps_done(schedule), 1);
        assert_true(tern_get_lr(opt, 0) == 0);
        table[0] = bad[i];
        assert_null(tern_custom_schedule(opt, .factor = tabled, .user = table));
        assert_error(TERN_ERR_ARGUMENT, "factor(0) is ");
        tern_schedule_free(schedule);
        tern_optimizer_free(opt);
    }
}

static void test_a_restore_to_a_factor_that_is_none_changes_nothing(void **unused)
{
    (void)unused;
    double table[] = { 0.5, 0.25, 0.125 };
    tern_optimizer *opt = new_optimizer();
    tern_schedule *schedule = tern_custom_schedule(opt, .factor = tabled, .user = table);
    tern_state *state = tern_state_create();
    tern_schedule_step(schedule);
    tern_schedule_store(schedule, state, "s");
    tern_schedule_step(schedule);
    tern_state_set_number(state, "s.base_lr.0", 100);
    table[1] = NAN;
    assert_int_equal(tern_schedule_restore(schedule, state, "s"), TERN_ERR_ARGUMENT);
    tern_error_clear();
    assert_int_equal(tern_schedule_steps_done(schedule), 2);
    assert_true(tern_get_lr(opt, 0) == 0.4 * 0.125);
    table[1] = 0.75;
    assert_int_equal(tern_schedule_restore(schedule, state, "s"), TERN_OK);
    assert_true(tern_get_lr(opt, 0) == 100 * 0.75);
    tern_state_free(state);
    tern_schedule_free(schedule);
    tern_optimizer_free(opt);
}

static void test_options_are_checked(void **unused)
{
    (void)unused;
    tern_optimizer *opt = new_optimizer();
    assert_null(tern_cosine_schedule(opt));
    assert_error(TERN_ERR_ARGUMENT, "'steps' is missing");
    assert_null(tern_step_schedule(opt, -3));
    assert_error(TERN_ERR_ARGUMENT, "'steps' is -3");
    assert_null(tern_exponential_schedule(opt));
    assert_error(TERN_ERR_ARGUMENT, "gamma = 0");
    assert_null(tern_warmup_schedule(opt, 5, .warmup = 6));
    assert_error(TERN_ERR_ARGUMENT, "warmup = 6 is not in [0, 5]");
    assert_null(tern_cosine_schedule(opt, 5, .min_lr = -1));
    assert_error(TERN_ERR_ARGUMENT,
                 "min_lr = -1 and gamma = 0 must be finite, and not be negative");
    assert_null(tern_cosine_schedule(opt, 5, .min_lr = INFINITY));
    assert_error(TERN_ERR_ARGUMENT, "min_lr = inf");
    assert_null(tern_exponential_schedule(opt, .gamma = INFINITY));
    assert_error(TERN_ERR_ARGUMENT, "gamma = inf");
    assert_null(tern_step_schedule(opt, 5, .gamma = NAN));
    assert_error(TERN_ERR_ARGUMENT, "gamma = nan");
    const int64_t falls[] = { 3, 2 }, negative[] = { -1 };
    assert_null(tern_multistep_schedule(opt));
    assert_error(TERN_ERR_ARGUMENT, "multistep_schedule: 'milestones' is missing");
    assert_null(tern_multistep_schedule(opt, .milestones = falls));
    assert_error(TERN_ERR_ARGUMENT, "'milestone_count' is missing");
    assert_null(tern_multistep_schedule(opt, .milestones = falls, .milestone_count = 2));
    assert_error(TERN_ERR_ARGUMENT, "milestone 1 is 2: they may not be negative, nor fall");
    assert_null(tern_multistep_schedule(opt, .milestones = negative, .milestone_count = 1));
    assert_error(TERN_ERR_ARGUMENT, "milestone 0 is -1");
    assert_null(tern_linear_schedule(opt));
    assert_error(TERN_ERR_ARGUMENT, "'steps' is missing");
    assert_null(tern_linear_schedule(opt, 3, .start_factor = -1));
    assert_error(TERN_ERR_ARGUMENT, "start_factor = -1 and end_factor = 1");
    assert_null(tern_linear_schedule(opt, 3, .end_factor = NAN));
    assert_error(TERN_ERR_ARGUMENT, "end_factor = nan");
    assert_null(tern_custom_schedule(opt));
    assert_error(TERN_ERR_ARGUMENT, "'factor' is missing");
    assert_null(tern_cosine_schedule(opt, 5, .warmup = 2));
    assert_error(TERN_ERR_ARGUMENT, "cosine_schedule: 'warmup' is an option of warmup_schedule");
    assert_null(tern_exponential_schedule(opt, 5, .gamma = 0.9));
    assert_error(TERN_ERR_ARGUMENT,
                 "exponential_schedule: 'steps' is an option of step_schedule, ");
    assert_null(tern_step_schedule(opt, 5, .start_factor = TERN_ZERO));
    assert_error(TERN_ERR_ARGUMENT, "step_schedule: 'start_factor' is an option of linear_sch");
    assert_null(tern_cosine_schedule(NULL, 5));
    assert_error(TERN_ERR_ARGUMENT, "the optimizer is NULL");
    assert_true(tern_get_lr(opt, 0) == 0.4);
    tern_optimizer_free(opt);
}

static void test_options_of_cycles_and_plateaus_are_checked(void **unused)
{
    (void)unused;
    tern_optimizer *opt = new_optimizer();
    assert_null(tern_one_cycle_schedule(opt));
    assert_error(TERN_ERR_ARGUMENT, "steps");
    assert_null(tern_one_cycle_schedule(opt, 10, .pct_start = 1.5));
    assert_error(TERN_ERR_ARGUMENT, "pct_start = 1.5 is not in [0, 1]");
    assert_null(tern_one_cycle_schedule(opt, 10, .div_factor = -1));
    assert_error(TERN_ERR_ARGUMENT, "div_factor = -1");
    assert_null(tern_one_cycle_schedule(opt, 10, .base_momentum = 0.9, .max_momentum = 0.5));
    assert_error(TERN_ERR_ARGUMENT, "base_momentum = 0.9 and max_momentum = 0.5");
    assert_null(tern_one_cycle_schedule(NULL, 10));
    assert_error(TERN_ERR_ARGUMENT, "the optimizer is NULL");
    assert_null(tern_plateau_schedule(opt, .gamma = 1));
    assert_error(TERN_ERR_ARGUMENT, "gamma = 1 is not in [0, 1)");
    assert_null(tern_plateau_schedule(opt, .patience = -3));
    assert_error(TERN_ERR_ARGUMENT, "patience = -3");
    assert_null(tern_plateau_schedule(NULL));
    assert_error(TERN_ERR_ARGUMENT, "the optimizer is NULL");
    tern_schedule *plateau = tern_plateau_schedule(opt);
    tern_schedule_step(plateau);
    assert_error(TERN_ERR_ARGUMENT, "try tern_schedule_step_metric");
    tern_schedule *cycle = tern_one_cycle_schedule(opt, 10);
    tern_schedule_step_metric(cycle, 1);
    assert_error(TERN_ERR_ARGUMENT, "try tern_schedule_step(");
    for (int t = 0; t < 30; t++) /* past its end a cycle stays there */
        tern_schedule_step(cycle);
    assert_close(tern_get_lr(opt, 0), 0.4 / 25 / 1e4, 1e-18);
    tern_schedule_free(plateau);
    tern_schedule_free(cycle);
    tern_optimizer_free(opt);
    TERN_SCOPE;
    tern_tensor *p = tern_zeros(TERN_SHAPE(1), .requires_grad = true);
    opt = tern_adagrad(TERN_TENSORS(p));
    assert_null(tern_one_cycle_schedule(opt, 10));
    assert_error(TERN_ERR_ARGUMENT, "try .no_cycle_momentum = true");
    tern_optimizer_free(opt);
}

typedef tern_optimizer *(*make_fn)(tern_site_t site, const tern_optimizer_args *args);

/* Two steps. With a momentum that begins between them, or that is there in the second alone, the second is the
 * same as without: nothing was there before. `stores`: by way of a state, too. */
static double two_steps(make_fn make, tern_optimizer_args options, bool begins, bool stores)
{
    TERN_SCOPE;
    tern_tensor *p = tern_full(1, TERN_SCALAR_SHAPE, .dtype = TERN_F64, .requires_grad = true);
    options.size_ = sizeof options;
    options.params = TERN_TENSORS(p);
    tern_optimizer *opt = make(TERN_HERE, &options);
    tern_set_grad(p, tern_full(0.5, TERN_SCALAR_SHAPE, .dtype = TERN_F64));
    tern_step(opt);
    tern_schedule *cycle = begins ? tern_one_cycle_schedule(opt, 10) : NULL;
    tern_set_lr(opt, -1, 0.125);
    tern_state *state = tern_state_create();
    if (stores)
        tern_optimizer_store(opt, state, "optimizer");
    if (stores)
        tern_optimizer_restore(opt, state, "optimizer");
    assert_int_equal(tern_step(opt), TERN_OK);
    const double result = tern_item(p);
    assert_no_error();
    tern_state_free(state);
    tern_schedule_free(cycle);
    tern_optimizer_free(opt);
    return result;
}

static void test_a_momentum_may_begin_between_steps(void **unused)
{
    (void)unused;
    const tern_optimizer_args plain = { .lr = 0.25 }, dampened = { .lr = 0.25, .dampening = 0.5 };
    const tern_optimizer_args centered = { .lr = 0.25, .centered = true };
    for (int stores = 0; stores < 2; stores++) {
        assert_close(two_steps(tern_rmsprop_at, plain, true, stores),
                     two_steps(tern_rmsprop_at, plain, false, stores), 1e-12);
        assert_close(two_steps(tern_rmsprop_at, centered, true, stores),
                     two_steps(tern_rmsprop_at, centered, false, stores), 1e-12);
        assert_close(two_steps(tern_sgd_at, dampened, true, stores),
                     two_steps(tern_sgd_at, dampened, false, stores), 1e-12);
    }
}

static void test_a_restored_schedule_goes_on(void **unused)
{
    (void)unused;
    tern_optimizer *opt = new_optimizer();
    tern_schedule *schedule = tern_warmup_schedule(opt, 20, .warmup = 5, .min_lr = 0.01);
    for (int t = 0; t < 9; t++)
        tern_schedule_step(schedule);
    tern_state *state = tern_state_create();
    tern_schedule_store(schedule, state, "schedule");
    tern_optimizer *other = new_optimizer();
    tern_set_lr(other, -1, 0.7);
    tern_schedule *resumed = tern_warmup_schedule(other, 20, .warmup = 5, .min_lr = 0.01);
    tern_schedule_restore(resumed, state, "none");
    assert_error(TERN_ERR_FORMAT, "'none.step' is missing");
    assert_int_equal(tern_schedule_steps_done(resumed), 0);
    assert_int_equal(tern_schedule_restore(resumed, state, "schedule"), TERN_OK);
    assert_int_equal(tern_schedule_steps_done(resumed), 9);
    assert_true(tern_get_lr(other, 0) == tern_get_lr(opt, 0));
    assert_true(tern_get_lr(other, 1) == tern_get_lr(opt, 1));
    tern_state_free(state);
    tern_schedule_free(schedule);
    tern_schedule_free(resumed);
    tern_optimizer_free(opt);
    tern_optimizer_free(other);
}

/* ... and nothing changes where a number is none that a schedule stores. */
static void test_a_restore_refuses_what_no_schedule_stores(void **unused)
{
    (void)unused;
    tern_optimizer *opt = new_optimizer();
    tern_schedule *schedule = tern_plateau_schedule(opt);
    tern_state *state = tern_state_create();
    tern_schedule_store(schedule, state, "s");
    const double rates[] = { NAN, INFINITY, -1 };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        tern_state_set_number(state, "s.base_lr.1", rates[i]);
        tern_schedule_restore(schedule, state, "s");
        assert_error(TERN_ERR_FORMAT, "schedule_restore: state: 's.base_lr.1' is ");
    }
    tern_state_set_number(state, "s.base_lr.1", 3);
    const char *const counts[] = { "s.step", "s.num_bad_epochs", "s.cooldown_counter" };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        tern_state_set_int(state, counts[i], INT64_MAX);
        tern_schedule_restore(schedule, state, "s");
        assert_error(TERN_ERR_FORMAT, "is 9223372036854775807, not a count");
        tern_state_set_int(state, counts[i], 2);
    }
    assert_int_equal(tern_schedule_steps_done(schedule), 0);
    assert_true(tern_get_lr(opt, 0) == 0.4);
    assert_int_equal(tern_schedule_restore(schedule, state, "s"), TERN_OK);
    assert_int_equal(tern_schedule_steps_done(schedule), 2);
    tern_state_free(state);
    tern_schedule_free(schedule);
    tern_optimizer_free(opt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_follow_the_formulas),
        cmocka_unit_test(test_a_schedule_keeps_its_optimizer),
        cmocka_unit_test(test_a_pending_error_stops_a_schedule),
        cmocka_unit_test(test_a_factor_that_is_none_changes_nothing),
        cmocka_unit_test(test_a_restore_to_a_factor_that_is_none_changes_nothing),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_options_of_cycles_and_plateaus_are_checked),
        cmocka_unit_test(test_a_momentum_may_begin_between_steps),
        cmocka_unit_test(test_a_restored_schedule_goes_on),
        cmocka_unit_test(test_a_restore_refuses_what_no_schedule_stores),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
