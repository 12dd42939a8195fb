/* States of optimizers: what they hold, that runs go on from them bit for bit, and what is refused. */
#include "tests/support/check.h"

#include <math.h>

#include "tests/support/files.h"

enum { SIZE = 4, STEPS = 7 };

typedef tern_optimizer *(*make_fn)(tern_site_t site, const tern_optimizer_args *args);

/* Neither small nor regular. */
static void set_gradient(tern_tensor *p, int step)
{
    TERN_SCOPE;
    tern_tensor *place = tern_arange(0, SIZE, 1, .dtype = TERN_F64);
    tern_set_grad(p, tern_sin(tern_add(place, 1.7 * step)));
}

static tern_tensor *new_parameter(void)
{
    return tern_full(0.75, TERN_SHAPE(SIZE), TERN_F64, .requires_grad = true);
}

/* Half of the steps, a file, and the other half elsewhere end where all steps in one go end. */
static void continue_from_file(make_fn make, tern_optimizer_args options)
{
    TERN_SCOPE;
    tern_tensor *whole = new_parameter();
    tern_tensor *resumed = new_parameter();
    options.size_ = sizeof options;
    options.params = TERN_TENSORS(whole);
    tern_optimizer *one = make(TERN_HERE, &options);
    tern_state *state = tern_state_create();
    for (int step = 0; step < STEPS; step++) {
        if (step == 3) {
            TERN_NO_GRAD;
            tern_copy(resumed, whole);
            tern_optimizer_store(one, state, "optimizer");
            tern_state_save(state, file_path("optimizer"));
        }
        set_gradient(whole, step);
        tern_step(one);
    }
    tern_optimizer_args bare = { .size_ = sizeof bare, .params = TERN_TENSORS(resumed) };
    tern_optimizer *two = make(TERN_HERE, &bare);
    tern_state *back = tern_state_load(file_path("optimizer"));
    assert_int_equal(tern_optimizer_restore(two, back, "optimizer"), TERN_OK);
    assert_true(tern_get_lr(two, 0) == options.lr);
    for (int step = 3; step < STEPS; step++) {
        set_gradient(resumed, step);
        tern_step(two);
    }
    double expected[SIZE];
    double there[SIZE];
    tern_read(whole, TERN_F64, expected, sizeof expected);
    tern_read(resumed, TERN_F64, there, sizeof there);
    assert_no_error();
    assert_memory_equal(expected, there, sizeof expected);
    tern_state_free(state);
    tern_state_free(back);
    tern_optimizer_free(one);
    tern_optimizer_free(two);
}

static void test_a_restored_optimizer_goes_on_bit_for_bit(void **unused)
{
    (void)unused;
    continue_from_file(tern_sgd_at, (tern_optimizer_args){ .lr = 0.1 });
    continue_from_file(tern_sgd_at,
                       (tern_optimizer_args){
                           .lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01 });
    continue_from_file(tern_adam_at, (tern_optimizer_args){ .lr = 0.02, .beta1 = 0.8 });
    continue_from_file(tern_rmsprop_at, (tern_optimizer_args){ .lr = 0.02, .alpha = 0.8 });
    continue_from_file(tern_rmsprop_at,
                       (tern_optimizer_args){ .lr = 0.02, .momentum = 0.5, .centered = true });
    continue_from_file(
        tern_adagrad_at,
        (tern_optimizer_args){ .lr = 0.02, .lr_decay = 0.1, .initial_accumulator_value = 0.2 });
    continue_from_file(tern_lion_at, (tern_optimizer_args){ .lr = 0.02, .beta2 = 0.9 });
    continue_from_file(tern_adamw_at, (tern_optimizer_args){ .lr = 0.02, .weight_decay = 0.2 });
}

/* A step of an optimizer made by `make` under a cycle of momenta from 0, at each step a state and back. */
static void restore_along_a_cycle(make_fn make, tern_optimizer_args options)
{
    TERN_SCOPE;
    tern_tensor *plain = new_parameter(), *restored = new_parameter();
    options.size_ = sizeof options;
    options.params = TERN_TENSORS(plain);
    tern_optimizer *one = make(TERN_HERE, &options);
    options.params = TERN_TENSORS(restored);
    tern_optimizer *two = make(TERN_HERE, &options);
    tern_schedule *cycle = tern_one_cycle_schedule(one, 10, .base_momentum = TERN_ZERO);
    tern_schedule *other = tern_one_cycle_schedule(two, 10, .base_momentum = TERN_ZERO);
    for (int step = 0; step < 10; step++) {
        set_gradient(plain, step);
        set_gradient(restored, step);
        tern_step(one);
        tern_step(two);
        tern_state *state = tern_state_create();
        tern_optimizer_store(two, state, "optimizer");
        assert_int_equal(tern_optimizer_restore(two, state, "optimizer"), TERN_OK);
        tern_state_free(state);
        tern_schedule_step(cycle);
        tern_schedule_step(other);
    }
    double expected[SIZE], there[SIZE];
    tern_read(plain, TERN_F64, expected, sizeof expected);
    tern_read(restored, TERN_F64, there, sizeof there);
    assert_no_error();
    assert_memory_equal(expected, there, sizeof expected);
    tern_schedule_free(cycle);
    tern_schedule_free(other);
    tern_optimizer_free(one);
    tern_optimizer_free(two);
}

static void take_steps(tern_optimizer *opt, tern_ema *ema, tern_tensor *p, int from, int to)
{
    for (int step = from; step < to; step++) {
        set_gradient(p, step);
        tern_step(opt);
        tern_ema_update(ema);
    }
}

/* A clone is what was there, also when training has gone on, and also the second time. */
static void test_a_clone_goes_back_within_a_program(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *p = new_parameter();
    tern_optimizer *opt = tern_adam(TERN_TENSORS(p), .lr = 0.1);
    tern_ema *ema = tern_ema_create(TERN_TENSORS(p));
    take_steps(opt, ema, p, 0, 2);
    tern_state *now = tern_state_create();
    tern_state_set(now, "p", p);
    tern_optimizer_store(opt, now, "o");
    tern_ema_store(ema, now, "e");
    tern_state *then = tern_state_clone(now);
    assert_no_error();
    double ends[3][2][SIZE];
    for (int i = 0; i < 3; i++) {
        take_steps(opt, ema, p, 2, STEPS);
        tern_read(p, TERN_F64, ends[i][0], sizeof ends[i][0]);
        tern_read(tern_ema_averages(ema).tensors[0], TERN_F64, ends[i][1], sizeof ends[i][1]);
        TERN_NO_GRAD;
        tern_copy(p, tern_state_get(then, "p"));
        tern_optimizer_restore(opt, then, "o");
        tern_ema_restore(ema, then, "e");
        assert_no_error();
    }
    assert_memory_equal(ends[0], ends[1], sizeof ends[0]);
    assert_memory_equal(ends[0], ends[2], sizeof ends[0]);
    tern_state_free(now);
    tern_state_free(then);
    tern_ema_free(ema);
    tern_optimizer_free(opt);
}

static void test_state_is_restored_also_while_no_step_needs_it(void **unused)
{
    (void)unused;
    restore_along_a_cycle(tern_sgd_at, (tern_optimizer_args){ .momentum = 0.9 });
    restore_along_a_cycle(tern_sgd_at, (tern_optimizer_args){ .momentum = 0.9, .nesterov = true });
    restore_along_a_cycle(tern_rmsprop_at, (tern_optimizer_args){ .momentum = 0.9 });
    restore_along_a_cycle(tern_rmsprop_at, (tern_optimizer_args){ .centered = true });
    restore_along_a_cycle(tern_adam_at, (tern_optimizer_args){ .beta1 = 0.9 });
}

/* A state of adam over one parameter after one step. */
static tern_state *one_step_of_adam(void)
{
    TERN_SCOPE;
    tern_tensor *p = new_parameter();
    tern_optimizer *opt = tern_adam(TERN_TENSORS(p), 0.25);
    set_gradient(p, 0);
    tern_step(opt);
    tern_state *state = tern_state_create();
    tern_optimizer_store(opt, state, "o");
    tern_optimizer_free(opt);
    assert_no_error();
    return state;
}

/* As another program may write it; tern leaves it out. */
static void test_a_switch_that_is_off_is_read_as_off(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *p = new_parameter();
    tern_optimizer *opt = tern_rmsprop(TERN_TENSORS(p));
    tern_state *state = tern_state_create();
    set_gradient(p, 0);
    tern_step(opt);
    tern_optimizer_store(opt, state, "o");
    tern_state_set_int(state, "o.param_groups.0.centered", 0);
    assert_int_equal(tern_optimizer_restore(opt, state, "o"), TERN_OK);
    set_gradient(p, 1);
    assert_int_equal(tern_step(opt), TERN_OK);
    assert_null(tern_optimizer_state(opt, p, "grad_avg"));
    assert_no_error();
    tern_state_free(state);
    tern_optimizer_free(opt);
}

static void test_a_state_has_torchs_names(void **unused)
{
    (void)unused;
    tern_state *state = one_step_of_adam();
    int64_t step = 0;
    double lr = 0;
    tern_state_get_int(state, "o.state.0.step", &step);
    tern_state_get_number(state, "o.param_groups.0.lr", &lr);
    assert_no_error();
    assert_true(step == 1 && lr == 0.25);
    assert_non_null(tern_state_get(state, "o.state.0.exp_avg"));
    assert_non_null(tern_state_get(state, "o.state.0.exp_avg_sq"));
    assert_string_equal(tern_state_text(state, "o.kind"), "adam");
    tern_state_free(state);
}

/* Each restore fails for a reason of its own, and leaves rate and state as they were (T051). */
static void test_a_restore_that_does_not_fit_changes_nothing(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_state *state = one_step_of_adam();
    tern_tensor *p = new_parameter();
    tern_tensor *q = new_parameter();
    tern_optimizer *other = tern_adamw(TERN_TENSORS(p));
    tern_optimizer_restore(other, state, "o");
    assert_error(TERN_ERR_STATE, "'o.kind' is adam, not adamw");
    tern_optimizer *two = tern_adam(TERN_TENSORS(p, q));
    tern_optimizer_restore(two, state, "o");
    assert_error(TERN_ERR_STATE, "group 0 has 1 parameters there and 2 here");
    tern_optimizer *groups = tern_adam(TERN_TENSORS(p)), *saved = tern_adam(TERN_TENSORS(p));
    tern_add_group(groups, TERN_TENSORS(q));
    tern_optimizer_restore(groups, state, "o"); /* two groups, and one there */
    assert_error(TERN_ERR_FORMAT, "'o.param_groups.1.lr' is missing");
    tern_optimizer_store(groups, state, "two");
    tern_optimizer_restore(saved, state, "two");
    assert_error(TERN_ERR_STATE, "more groups of parameters than the optimizer's 1");
    tern_optimizer *opt = tern_adam(TERN_TENSORS(p), 0.5);
    tern_optimizer_restore(opt, state, "nowhere");
    assert_error(TERN_ERR_STATE, "'nowhere.kind' is missing: no optimizer is stored");
    tern_state_set(state, "o.state.0.exp_avg_sq", tern_ones(TERN_SHAPE(3), TERN_F64));
    tern_optimizer_restore(opt, state, "o");
    assert_error(TERN_ERR_STATE, "has another shape than its parameter");
    tern_state_set(state, "o.state.0.exp_avg_sq", tern_ones(TERN_SHAPE(SIZE), TERN_F64));
    tern_state_set_number(state, "o.param_groups.0.lr", NAN);
    tern_optimizer_restore(opt, state, "o");
    assert_error(TERN_ERR_ARGUMENT, "lr = nan");
    tern_state_set_number(state, "o.param_groups.0.lr", 1);
    tern_state_set_int(state, "o.state.0.step", INT64_MAX);
    tern_optimizer_restore(opt, state, "o");
    assert_error(TERN_ERR_FORMAT, "'o.state.0.step' is 9223372036854775807, not a count");
    tern_state_set_int(state, "o.state.0.step", 1);
    tern_state_set_int(state, "o.state.lost.step", 3);
    tern_optimizer_restore(opt, state, "o");
    assert_error(TERN_ERR_STATE, "1 entries of 'o.state.' belong to no parameter");
    assert_true(tern_get_lr(opt, 0) == 0.5);
    assert_null(tern_optimizer_state(opt, p, "exp_avg"));
    tern_optimizer *const all[] = { other, two, groups, saved, opt };
    for (int i = 0; i < 5; i++)
        tern_optimizer_free(all[i]);
    tern_state_free(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_restored_optimizer_goes_on_bit_for_bit),
        cmocka_unit_test(test_a_clone_goes_back_within_a_program),
        cmocka_unit_test(test_state_is_restored_also_while_no_step_needs_it),
        cmocka_unit_test(test_a_switch_that_is_off_is_read_as_off),
        cmocka_unit_test(test_a_state_has_torchs_names),
        cmocka_unit_test(test_a_restore_that_does_not_fit_changes_nothing),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
