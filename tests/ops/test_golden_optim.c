/* Optimizers, schedules, averages of weights and clipping against golden vectors (optim.txt, golden.txt). */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

#include <math.h>

static void check_close(const char *test, const char *name, tern_tensor *t, const value *wanted,
                        int64_t first)
{
    assert_no_error();
    value got = value_of(t);
    for (int64_t i = 0; i < got.numel; i++) {
        const double want = wanted->data[first + i];
        if (!(fabs(got.data[i] - want) <= 1e-11 * fmax(1, fabs(want))))
            fail_msg("%s: %s[%lld] is %.15g, not %.15g", test, name, (long long)i, got.data[i],
                     want);
    }
    value_free(&got);
}

/* ---- optimizers ------------------------------------------------------------------------------- */

/* Steps through the case's gradients; y holds the parameter after each, s the state after the last. */
static void check_optimizer(const char *test, tern_optimizer *opt, tern_tensor *p,
                            const char *const *states)
{
    const value *g = &golden_need(test, "g")->v, *path = &golden_need(test, "y")->v;
    tern_tensor *grads = golden_tensor(test, "g", TERN_F64);
    assert_no_error();
    for (int64_t step = 0; step < g->dims[0]; step++) {
        TERN_SCOPE;
        tern_set_grad(p, tern_clone(tern_select(grads, 0, step)));
        tern_step(opt);
        check_close(test, "parameter", p, path, step * tern_numel(p));
    }
    static const char *const names[] = { "s", "s2", "s3" };
    for (int s = 0; states[s] != NULL; s++)
        check_close(test, states[s], tern_optimizer_state(opt, p, states[s]),
                    &golden_need(test, names[s])->v, 0);
    tern_optimizer_free(opt);
}

#define STATES(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NO_STATES ((const char *const[]){ NULL })
#define OPTIMIZER(test, kind, states, ...)                                                 \
    do {                                                                                   \
        TERN_SCOPE;                                                                        \
        tern_tensor *p = tern_set_requires_grad(golden_tensor(test, "p", TERN_F64), true); \
        check_optimizer(test, kind(TERN_TENSORS(p), __VA_ARGS__), p, states);              \
    } while (0)

static void test_sgd_and_adam_take_the_same_steps(void **state)
{
    (void)state;
    OPTIMIZER("optimizer_sgd", tern_sgd, NO_STATES, .lr = 0.1);
    OPTIMIZER("optimizer_sgd_momentum", tern_sgd, NO_STATES, .lr = 0.1, .momentum = 0.9,
              .dampening = 0.25);
    OPTIMIZER("optimizer_sgd_nesterov", tern_sgd, NO_STATES, .lr = 0.1, .momentum = 0.9,
              .nesterov = true, .weight_decay = 0.01);
    OPTIMIZER("optimizer_sgd_maximize", tern_sgd, NO_STATES, .lr = 0.1, .momentum = 0.5,
              .maximize = true, .weight_decay = 0.1);
    OPTIMIZER("optimizer_adam", tern_adam, NO_STATES, .lr = 0.01);
    OPTIMIZER("optimizer_adam_decay", tern_adam, NO_STATES, .lr = 0.01, .weight_decay = 0.1,
              .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6);
    OPTIMIZER("optimizer_adamw", tern_adamw, NO_STATES, .lr = 0.01, .weight_decay = 0.1);
    OPTIMIZER("optimizer_adamw_maximize", tern_adamw, NO_STATES, .lr = 0.01, .maximize = true);
}

static void test_rmsprop_takes_the_same_steps(void **state)
{
    (void)state;
    OPTIMIZER("optimizer_rmsprop", tern_rmsprop, STATES("square_avg"), .maximize = false);
    OPTIMIZER("optimizer_rmsprop_decay", tern_rmsprop, STATES("square_avg"), .lr = 0.05,
              .alpha = 0.9, .eps = 1e-4, .weight_decay = 0.1);
    OPTIMIZER("optimizer_rmsprop_momentum", tern_rmsprop, STATES("square_avg", "momentum_buffer"),
              .lr = 0.02, .momentum = 0.9, .maximize = true);
    OPTIMIZER("optimizer_rmsprop_centered", tern_rmsprop, STATES("square_avg", "grad_avg"),
              .lr = 0.02, .alpha = 0.5, .centered = true);
    OPTIMIZER("optimizer_rmsprop_both", tern_rmsprop,
              STATES("square_avg", "momentum_buffer", "grad_avg"), .lr = 0.02, .alpha = 0.8,
              .centered = true, .momentum = 0.5, .weight_decay = 0.01);
}

static void test_adagrad_takes_the_same_steps(void **state)
{
    (void)state;
    OPTIMIZER("optimizer_adagrad", tern_adagrad, STATES("sum"), .maximize = false);
    OPTIMIZER("optimizer_adagrad_decay", tern_adagrad, STATES("sum"), .lr = 0.1, .lr_decay = 0.25,
              .weight_decay = 0.1);
    OPTIMIZER("optimizer_adagrad_started", tern_adagrad, STATES("sum"), .lr = 0.1,
              .initial_accumulator_value = 0.5, .eps = 1e-3, .maximize = true);
}

/* ---- schedules -------------------------------------------------------------------------------- */

typedef tern_optimizer *(*make_fn)(tern_site_t site, const tern_optimizer_args *args);

static tern_optimizer *optimizer(make_fn make, double rate)
{
    tern_tensor *p = tern_zeros(TERN_SHAPE(1), .requires_grad = true);
    const tern_optimizer_args args = { .size_ = sizeof args,
                                       .params = TERN_TENSORS(p),
                                       .lr = rate };
    return make(TERN_HERE, &args);
}

static void check_schedule(const char *test, tern_schedule *schedule, tern_optimizer *opt)
{
    assert_no_error();
    const value *rates = &golden_need(test, "y")->v;
    for (int64_t t = 0; t < rates->numel; t++) {
        assert_close(tern_get_lr(opt, 0), rates->data[t], 1e-11);
        tern_schedule_step(schedule);
    }
    tern_schedule_free(schedule);
    tern_optimizer_free(opt);
}

static void test_schedules_give_the_same_rates(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_optimizer *opt = optimizer(tern_sgd_at, 0.5);
    check_schedule("schedule_step", tern_step_schedule(opt, .steps = 3), opt);
    opt = optimizer(tern_sgd_at, 0.5);
    check_schedule("schedule_exponential", tern_exponential_schedule(opt, .gamma = 0.9), opt);
}

/* Beyond its last step PyTorch's cosine turns back up; tern's stays at the end. */
static void test_cosine_gives_the_same_rates(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_optimizer *opt = optimizer(tern_sgd_at, 0.5);
    check_schedule("schedule_cosine", tern_cosine_schedule(opt, .steps = 9, .min_lr = 0.05), opt);
}

static double momentum_of(const tern_optimizer *opt, const char *name)
{
    double momentum = NAN;
    tern_state *state = tern_state_create();
    tern_optimizer_store(opt, state, NULL);
    tern_state_get_number(state, name, &momentum);
    tern_state_free(state);
    return momentum;
}

/* Halfway the schedule goes on in another object, made anew, by its state. */
static void check_cycle(const char *test, make_fn make, tern_schedule_args args)
{
    TERN_SCOPE;
    const value *rates = &golden_need(test, "y")->v, *momenta = &golden_need(test, "momentum")->v;
    const char *name = make == tern_sgd_at ? "param_groups.0.momentum" : "param_groups.0.beta1";
    args.size_ = sizeof args;
    args.opt = optimizer(make, 0.5);
    args.steps = 20;
    tern_schedule *schedule = tern_one_cycle_schedule_at(TERN_HERE, &args);
    for (int64_t t = 0; t < rates->numel; t++) {
        if (t == rates->numel / 2) {
            tern_state *state = tern_state_create();
            tern_schedule_store(schedule, state, "rate");
            tern_schedule_free(schedule);
            tern_optimizer_free(args.opt);
            args.opt = optimizer(make, 0.25);
            schedule = tern_one_cycle_schedule_at(TERN_HERE, &args);
            tern_schedule_restore(schedule, state, "rate");
            tern_state_free(state);
        }
        assert_close(tern_get_lr(args.opt, 0), rates->data[t], 1e-11);
        assert_close(momentum_of(args.opt, name), momenta->data[t], 1e-11);
        tern_schedule_step(schedule);
    }
    assert_no_error();
    tern_schedule_free(schedule);
    tern_optimizer_free(args.opt);
}

static void test_one_cycle_gives_the_same_rates(void **state)
{
    (void)state;
    const tern_schedule_args linear = {
        .linear = true, .pct_start = 0.5, .div_factor = 10, .final_div_factor = 100
    };
    const tern_schedule_args three = {
        .three_phase = true, .pct_start = 0.4, .base_momentum = 0.5, .max_momentum = 0.9
    };
    const tern_schedule_args three_linear = {
        .three_phase = true, .pct_start = 0.4, .linear = true, .no_cycle_momentum = true
    };
    check_cycle("one_cycle_cos_sgd", tern_sgd_at, (tern_schedule_args){ .steps = 0 });
    check_cycle("one_cycle_cos_adam", tern_adam_at, (tern_schedule_args){ .steps = 0 });
    check_cycle("one_cycle_linear_sgd", tern_sgd_at, linear);
    check_cycle("one_cycle_linear_adam", tern_adam_at, linear);
    check_cycle("one_cycle_three_sgd", tern_sgd_at, three);
    check_cycle("one_cycle_three_adam", tern_adam_at, three);
    check_cycle("one_cycle_three_linear_sgd", tern_sgd_at, three_linear);
    check_cycle("one_cycle_three_linear_adam", tern_adam_at, three_linear);
}

static void check_plateau(const char *test, tern_schedule_args args)
{
    TERN_SCOPE;
    const value *rates = &golden_need(test, "y")->v, *metrics = &golden_need(test, "m")->v;
    args.size_ = sizeof args;
    args.opt = optimizer(tern_sgd_at, 0.5);
    tern_schedule *schedule = tern_plateau_schedule_at(TERN_HERE, &args);
    for (int64_t t = 0; t < rates->numel; t++) {
        if (t == 7) {
            tern_state *state = tern_state_create();
            tern_schedule_store(schedule, state, "rate");
            tern_schedule_free(schedule);
            tern_optimizer_free(args.opt);
            args.opt = optimizer(tern_sgd_at, 0.25);
            schedule = tern_plateau_schedule_at(TERN_HERE, &args);
            tern_schedule_restore(schedule, state, "rate");
            assert_int_equal(tern_schedule_steps_done(schedule), t);
            tern_state_free(state);
        }
        assert_close(tern_get_lr(args.opt, 0), rates->data[t], 1e-11);
        tern_schedule_step_metric(schedule, metrics->data[t]);
    }
    assert_no_error();
    tern_schedule_free(schedule);
    tern_optimizer_free(args.opt);
}

static void test_plateau_gives_the_same_rates(void **state)
{
    (void)state;
    check_plateau("plateau_plain", (tern_schedule_args){ .patience = 2 });
    check_plateau(
        "plateau_abs",
        (tern_schedule_args){ .patience = 1, .threshold = 0.06, .absolute = true, .gamma = 0.5 });
    check_plateau(
        "plateau_max",
        (tern_schedule_args){ .maximize = true, .patience = 2, .gamma = 0.5, .cooldown = 2 });
    check_plateau("plateau_max_abs", (tern_schedule_args){ .maximize = true,
                                                           .patience = TERN_ZERO,
                                                           .gamma = 0.5,
                                                           .threshold = 0.5,
                                                           .absolute = true });
    check_plateau(
        "plateau_least",
        (tern_schedule_args){ .patience = TERN_ZERO, .gamma = 0.5, .min_lr = 0.06, .eps = 0.01 });
}

/* ---- averages, clipping ------------------------------------------------------------------------ */

/* In the middle the average goes on in another object, by its state. */
static void test_averages_are_the_same(void **state)
{
    (void)state;
    TERN_SCOPE;
    const value *path = &golden_need("ema", "y")->v;
    tern_tensor *weights = golden_tensor("ema", "w", TERN_F64);
    tern_tensor *p = tern_zeros(TERN_SHAPE(5), .dtype = TERN_F64, .requires_grad = true);
    tern_ema *ema = tern_ema_create(TERN_TENSORS(p), .decay = 0.75);
    for (int64_t t = 0; t < path->dims[0]; t++) {
        tern_set_grad_enabled(false);
        tern_copy(p, tern_select(weights, 0, t));
        tern_set_grad_enabled(true);
        tern_ema_update(ema);
        check_close("ema", "average", tern_ema_averages(ema).tensors[0], path, 5 * t);
        if (t == 2) {
            tern_state *saved = tern_state_create();
            tern_ema_store(ema, saved, "ema");
            tern_ema_free(ema);
            ema = tern_ema_create(TERN_TENSORS(p), .decay = 0.75);
            tern_ema_restore(ema, saved, "ema");
            tern_state_free(saved);
        }
    }
    tern_ema_free(ema);
}

static void test_clipping_by_value_is_the_same(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *p = tern_zeros(TERN_SHAPE(7), .dtype = TERN_F64, .requires_grad = true);
    tern_set_grad(p, golden_tensor("clip_value", "g", TERN_F64));
    tern_clip_grad_value(TERN_TENSORS(p), 1.25);
    golden_check("clip_value", "y", tern_grad_of(p), 1e-11);
}

static void check_clip(const char *test, double norm_type)
{
    TERN_SCOPE;
    tern_tensor *a = tern_set_requires_grad(tern_clone(golden_tensor(test, "a", TERN_F64)), true);
    tern_tensor *b = tern_set_requires_grad(tern_clone(golden_tensor(test, "b", TERN_F64)), true);
    tern_set_grad(a, golden_tensor(test, "a", TERN_F64));
    tern_set_grad(b, golden_tensor(test, "b", TERN_F64));
    tern_tensor *norm =
        tern_clip_grad_norm(TERN_TENSORS(a, b), .max_norm = 1.5, .norm_type = norm_type);
    golden_check(test, "y", norm, 1e-11);
    golden_check(test, "ya", tern_grad_of(a), 1e-11);
    golden_check(test, "yb", tern_grad_of(b), 1e-11);
}

static void test_clipping_gives_the_same_norms(void **state)
{
    (void)state;
    check_clip("clip_1", 1);
    check_clip("clip_2", 2);
    check_clip("clip_inf", INFINITY);
}

static int open_both(void **state)
{
    (void)state;
    return golden_ready("golden") && golden_ready("optim") ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd_and_adam_take_the_same_steps),
        cmocka_unit_test(test_rmsprop_takes_the_same_steps),
        cmocka_unit_test(test_adagrad_takes_the_same_steps),
        cmocka_unit_test(test_schedules_give_the_same_rates),
        cmocka_unit_test(test_cosine_gives_the_same_rates),
        cmocka_unit_test(test_one_cycle_gives_the_same_rates),
        cmocka_unit_test(test_plateau_gives_the_same_rates),
        cmocka_unit_test(test_averages_are_the_same),
        cmocka_unit_test(test_clipping_gives_the_same_norms),
        cmocka_unit_test(test_clipping_by_value_is_the_same),
    };
    return check_run(tests, open_both, golden_teardown);
}
