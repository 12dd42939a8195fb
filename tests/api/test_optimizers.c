/* Optimizers against torch.optim's formulas in scalar double arithmetic, and steps that fail. */
#include "tests/support/check.h"

#include <math.h>

enum { SIZE = 4, STEPS = 7 };

/* Gradient of element i before a step: neither small nor regular. */
static double gradient_at(int step, int i)
{
    return 0.3 * sin(1.7 * step + 2.3 * i) + 0.1 * (i - 1);
}

static void set_gradient(tern_tensor *p, int step)
{
    TERN_SCOPE;
    double values[SIZE];
    for (int i = 0; i < SIZE; i++)
        values[i] = gradient_at(step, i);
    tern_set_grad(p, tern_from_data(values, TERN_SHAPE(SIZE), TERN_F64));
}

static tern_tensor *new_parameter(void)
{
    const double values[SIZE] = { 1, -2, 0.5, 3 };
    return tern_from_data(values, TERN_SHAPE(SIZE), TERN_F64, .requires_grad = true);
}

typedef struct scalar {
    double p, m, v; /* value; momentum or first moment; second moment */
    int t;          /* steps done */
} scalar;

/* ---- references ------------------------------------------------------------------------------- */

static void sgd_reference(scalar *s, double grad, const tern_optimizer_args *o)
{
    double g = (o->maximize ? -grad : grad) + o->weight_decay * s->p;
    if (o->momentum != 0) {
        s->m = s->t == 0 ? g : o->momentum * s->m + (1 - o->dampening) * g;
        g = o->nesterov ? g + o->momentum * s->m : s->m;
    }
    s->p -= o->lr * g;
    s->t++;
}

static void adam_step(scalar *s, double g, const tern_optimizer_args *o)
{
    s->t++;
    s->m = o->beta1 * s->m + (1 - o->beta1) * g;
    s->v = o->beta2 * s->v + (1 - o->beta2) * g * g;
    const double m = s->m / (1 - pow(o->beta1, s->t));
    const double v = s->v / (1 - pow(o->beta2, s->t));
    s->p -= o->lr * m / (sqrt(v) + o->eps);
}

static void adam_reference(scalar *s, double grad, const tern_optimizer_args *o)
{
    adam_step(s, (o->maximize ? -grad : grad) + o->weight_decay * s->p, o);
}

static void adamw_reference(scalar *s, double grad, const tern_optimizer_args *o)
{
    s->p *= 1 - o->lr * o->weight_decay;
    adam_step(s, o->maximize ? -grad : grad, o);
}

/* Chen et al. 2023, algorithm 2, as it is written there. */
static void lion_reference(scalar *s, double grad, const tern_optimizer_args *o)
{
    const double g = o->maximize ? -grad : grad;
    const double c = o->beta1 * s->m + (1 - o->beta1) * g;
    s->p -= o->lr * ((c > 0) - (c < 0) + o->weight_decay * s->p);
    s->m = o->beta2 * s->m + (1 - o->beta2) * g;
    s->t++;
}

typedef tern_optimizer *(*make_fn)(tern_site_t site, const tern_optimizer_args *args);
typedef void (*reference_fn)(scalar *s, double grad, const tern_optimizer_args *options);

/* STEPS steps of both; `full` has every option that the reference reads. */
static void compare(make_fn make, reference_fn reference, tern_optimizer_args given,
                    const tern_optimizer_args *full)
{
    TERN_SCOPE;
    tern_tensor *p = new_parameter();
    given.size_ = sizeof given;
    given.params = TERN_TENSORS(p);
    tern_optimizer *opt = make(TERN_HERE, &given);
    assert_no_error();
    scalar expected[SIZE] = { { 0 } };
    double values[SIZE];
    tern_read(p, TERN_F64, values, sizeof values);
    for (int i = 0; i < SIZE; i++)
        expected[i].p = values[i];
    for (int step = 0; step < STEPS; step++) {
        set_gradient(p, step);
        assert_int_equal(tern_step(opt), TERN_OK);
        tern_read(p, TERN_F64, values, sizeof values);
        for (int i = 0; i < SIZE; i++) {
            reference(&expected[i], gradient_at(step, i), full);
            assert_close(values[i], expected[i].p, 1e-12);
        }
    }
    tern_optimizer_free(opt);
}

static void compare_same(make_fn make, reference_fn reference, tern_optimizer_args options)
{
    compare(make, reference, options, &options);
}

static void test_sgd_follows_the_formula(void **unused)
{
    (void)unused;
    const tern_optimizer_args cases[] = {
        { .lr = 0.1 },
        { .lr = 0.1, .weight_decay = 0.02 },
        { .lr = 0.1, .momentum = 0.9 },
        { .lr = 0.1, .momentum = 0.9, .dampening = 0.3 },
        { .lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.02 },
        { .lr = 0.1, .momentum = 0.5, .weight_decay = 0.02, .maximize = true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        compare_same(tern_sgd_at, sgd_reference, cases[i]);
}

static void test_adam_follows_the_formula(void **unused)
{
    (void)unused;
    const tern_optimizer_args plain = { .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
    compare(tern_adam_at, adam_reference, (tern_optimizer_args){ .lr = 0 }, &plain);
    const tern_optimizer_args options = {
        .lr = 0.05, .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-4, .maximize = true
    };
    compare_same(tern_adam_at, adam_reference, options);
}

static void test_adamw_follows_the_formula(void **unused)
{
    (void)unused;
    const tern_optimizer_args plain = {
        .lr = 1e-3, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
    };
    compare(tern_adamw_at, adamw_reference, (tern_optimizer_args){ .lr = 0 }, &plain);
    const tern_optimizer_args options = {
        .lr = 0.05, .weight_decay = 0.3, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-4
    };
    compare_same(tern_adamw_at, adamw_reference, options);
    const double zeros[] = { -0.0, TERN_ZERO }; /* no decay, where nothing would mean 0.01 */
    for (int i = 0; i < 2; i++) {
        tern_optimizer_args none = options, reference = options;
        none.weight_decay = zeros[i];
        reference.weight_decay = 0;
        compare(tern_adamw_at, adamw_reference, none, &reference);
    }
}

static void test_lion_follows_its_paper(void **unused)
{
    (void)unused;
    const tern_optimizer_args plain = { .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99 };
    compare(tern_lion_at, lion_reference, (tern_optimizer_args){ .lr = 0 }, &plain);
    const tern_optimizer_args options = {
        .lr = 0.05, .weight_decay = 0.3, .beta1 = 0.8, .beta2 = 0.95, .maximize = true
    };
    compare_same(tern_lion_at, lion_reference, options);
}

/* What is not finite shows: neither a sign nor a clamped variance hides it. */
static void test_a_gradient_that_is_nan_reaches_the_parameter(void **unused)
{
    (void)unused;
    const make_fn makes[] = { tern_lion_at, tern_rmsprop_at, tern_adagrad_at };
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        TERN_SCOPE;
        tern_tensor *p = new_parameter();
        const tern_optimizer_args args = { .size_ = sizeof args,
                                           .params = TERN_TENSORS(p),
                                           .centered = makes[i] == tern_rmsprop_at };
        tern_optimizer *opt = makes[i](TERN_HERE, &args);
        tern_set_grad(p, tern_full(NAN, TERN_SHAPE(SIZE), .dtype = TERN_F64));
        assert_int_equal(tern_step(opt), TERN_OK);
        assert_true(isnan(tern_item(tern_sum(p))));
        tern_optimizer_free(opt);
    }
}

/* A step that the flag leaves out does not count; the one after it is the first. */
static void test_scaled_steps_count_what_they_do(void **unused)
{
    (void)unused;
    const make_fn makes[] = { tern_lion_at, tern_rmsprop_at, tern_adagrad_at };
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        TERN_SCOPE;
        tern_tensor *plain = new_parameter(), *scaled = new_parameter();
        tern_optimizer_args args = { .size_ = sizeof args, .params = TERN_TENSORS(plain) };
        args.lr_decay = makes[i] == tern_adagrad_at ? 0.5 : 0;
        tern_optimizer *one = makes[i](TERN_HERE, &args);
        args.params = TERN_TENSORS(scaled);
        tern_optimizer *two = makes[i](TERN_HERE, &args);
        tern_tensor *scale = tern_full(4, TERN_SCALAR_SHAPE, .dtype = TERN_F32);
        for (int step = 0; step < STEPS; step++) {
            const bool out = step == 0 || step == 3;
            tern_tensor *found = tern_full(out, TERN_SCALAR_SHAPE, .dtype = TERN_F32);
            set_gradient(plain, step);
            set_gradient(scaled, step);
            tern_mul_(tern_grad_of(scaled), 4.0);
            assert_int_equal(tern_step_scaled(two, scale, found), TERN_OK);
            if (!out)
                tern_step(one);
        }
        double expected[SIZE], there[SIZE];
        tern_read(plain, TERN_F64, expected, sizeof expected);
        tern_read(scaled, TERN_F64, there, sizeof there);
        assert_no_error();
        assert_memory_equal(expected, there, sizeof expected);
        tern_optimizer_free(one);
        tern_optimizer_free(two);
    }
}

/* ---- groups ----------------------------------------------------------------------------------- */

static void test_groups_have_rates_of_their_own(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *a = new_parameter();
    tern_tensor *b = new_parameter();
    const double before = tern_item(tern_select(a, 0, 0));
    tern_optimizer *opt = tern_sgd(TERN_TENSORS(a), 0.1, .momentum = 0.5);
    tern_add_group(opt, TERN_TENSORS(b), .lr = 0.01);
    assert_int_equal(tern_group_count(opt), 2);
    assert_true(tern_get_lr(opt, 0) == 0.1 && tern_get_lr(opt, 1) == 0.01);
    assert_true(isnan(tern_get_lr(opt, 2)));
    set_gradient(a, 0);
    set_gradient(b, 0);
    tern_step(opt);
    assert_no_error();
    const double moved_a = tern_item(tern_select(a, 0, 0)) - before;
    const double moved_b = tern_item(tern_select(b, 0, 0)) - before;
    assert_close(moved_a, -0.1 * gradient_at(0, 0), 1e-15);
    assert_close(moved_b, -0.01 * gradient_at(0, 0), 1e-15);
    assert_non_null(tern_optimizer_state(opt, b, "momentum_buffer")); /* inherited */
    assert_int_equal(tern_optimizer_params(opt, 1).count, 1);
    assert_ptr_equal(tern_optimizer_params(opt, -1).tensors[1], b);
    tern_set_lr(opt, -1, 0.5);
    assert_true(tern_get_lr(opt, 0) == 0.5 && tern_get_lr(opt, 1) == 0.5);
    tern_optimizer_free(opt);
}

/* ---- steps that fail, gradients that are dropped ---------------------------------------------- */

/* b moves to f32 but its state stays f64: a, which comes first, must not have been stepped. */
static void test_a_step_that_fails_updates_nothing(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *a = new_parameter();
    tern_tensor *b = new_parameter();
    double before[SIZE];
    double after[SIZE];
    tern_optimizer *opt = tern_adam(TERN_TENSORS(a, b), 0.1);
    set_gradient(a, 0);
    set_gradient(b, 0);
    tern_step(opt);
    tern_tensor_replace(b, tern_cast(tern_detach(b), TERN_F32));
    tern_set_grad(b, tern_ones(TERN_SHAPE(SIZE), TERN_F32));
    tern_read(a, TERN_F64, before, sizeof before);
    assert_no_error();
    assert_int_equal(tern_step(opt), TERN_ERR_STATE);
    assert_non_null(strstr(tern_error_text(), "state      f64 [4] on "));
    assert_non_null(strstr(tern_error_text(), ", made at "));
    assert_non_null(strstr(tern_error_text(), "\n  try tern_optimizer_move(opt)"));
    assert_error(TERN_ERR_STATE, "exp_avg of parameter '1' does not fit it");
    tern_read(a, TERN_F64, after, sizeof after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(tern_optimizer_move(opt), TERN_OK);
    assert_int_equal(tern_step(opt), TERN_OK);
    tern_read(a, TERN_F64, after, sizeof after);
    assert_true(before[0] != after[0]);
    tern_optimizer_free(opt);
}

static void expect_untouched(tern_tensor *p)
{
    double value[SIZE];
    tern_read(p, TERN_F64, value, sizeof value);
    assert_no_error();
    for (int i = 0; i < SIZE; i++)
        assert_true(value[i] == 1);
}

/* As many elements are not the same shape. */
static void test_state_of_another_shape_is_found_before_anything_is_written(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *a = tern_ones(TERN_SHAPE(SIZE), .requires_grad = true);
    tern_tensor *b = tern_ones(TERN_SHAPE(2, 3), .requires_grad = true);
    tern_optimizer *opt = tern_adam(TERN_TENSORS(a, b), 0.1);
    tern_set_grad(b, tern_ones(TERN_SHAPE(2, 3)));
    assert_int_equal(tern_step(opt), TERN_OK);
    tern_tensor_replace(b, tern_ones(TERN_SHAPE(3, 2)));
    tern_set_grad(a, tern_ones(TERN_SHAPE(SIZE)));
    tern_set_grad(b, tern_ones(TERN_SHAPE(3, 2)));
    assert_int_equal(tern_step(opt), TERN_ERR_STATE);
    assert_null(strstr(tern_error_text(), "tern_optimizer_move")); /* it keeps the shape */
    assert_error(TERN_ERR_STATE, "exp_avg of parameter '1' does not fit it");
    expect_untouched(a);
    tern_optimizer_free(opt);
}

/* A gradient that is divided by the scale, or becomes zeros, where it lies has to be one that can be written. */
static void test_gradients_that_cannot_be_written_are_found_first(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *a = tern_ones(TERN_SHAPE(SIZE), .requires_grad = true);
    tern_tensor *b = tern_ones(TERN_SHAPE(2, 3), .requires_grad = true);
    tern_tensor *scale = tern_ones(TERN_SHAPE(1)), *found = tern_zeros(TERN_SHAPE(1));
    tern_optimizer *opt = tern_sgd(TERN_TENSORS(a, b), 0.1);
    tern_set_grad(a, tern_ones(TERN_SHAPE(SIZE)));
    tern_set_grad(b, tern_expand(tern_ones(TERN_SHAPE(2, 1)), TERN_SHAPE(2, 3)));
    assert_int_equal(tern_step_scaled(opt, scale, found), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "parameter '1', which is written, share one place");
    expect_untouched(a);
    assert_int_equal(tern_zero_grad(opt, .in_place = true), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "zero_grad: elements of the gradient of parameter '1'");
    assert_true(tern_item(tern_sum(tern_grad_of(a))) == SIZE);
    assert_int_equal(tern_step_scaled(opt, NULL, found), TERN_OK); /* nothing to divide by */
    tern_set_grad(b, tern_transpose(tern_ones(TERN_SHAPE(3, 2)), 0, 1));
    assert_int_equal(tern_step_scaled(opt, scale, found), TERN_OK);
    tern_optimizer_free(opt);
}

static void test_parameters_without_gradients_stay(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *a = new_parameter();
    tern_tensor *b = new_parameter();
    tern_optimizer *opt = tern_adamw(TERN_TENSORS(a, b), 0.1);
    set_gradient(a, 0);
    tern_step(opt);
    assert_no_error();
    assert_true(tern_item(tern_select(a, 0, 0)) != 1);
    assert_true(tern_item(tern_select(b, 0, 0)) == 1);
    assert_null(tern_optimizer_state(opt, b, "exp_avg"));
    assert_non_null(tern_optimizer_state(opt, a, "exp_avg_sq"));
    assert_null(tern_optimizer_state(opt, a, "other"));
    tern_fail(TERN_ERR_STATE, "test", "pending");
    const uint32_t version = tern_version(a);
    assert_int_equal(tern_step(opt), TERN_ERR_STATE);
    tern_error_clear();
    assert_int_equal(tern_version(a), version);
    tern_optimizer_free(opt);
}

static void test_zero_grad_drops_or_zeroes(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *p = new_parameter();
    tern_tensor *without = new_parameter();
    tern_optimizer *opt = tern_sgd(TERN_TENSORS(p, without));
    set_gradient(p, 0);
    tern_tensor *grad = tern_grad_of(p);
    const int64_t before = tern_live_tensors();
    tern_set_owned_mode(true);
    tern_zero_grad(opt, .in_place = true);
    tern_set_owned_mode(false);
    assert_ptr_equal(tern_grad_of(p), grad);
    assert_true(tern_item(tern_amax(tern_abs(grad))) == 0);
    assert_null(tern_grad_of(without));
    tern_zero_grad(opt);
    assert_no_error();
    assert_null(tern_grad_of(p));
    assert_true(tern_live_tensors() <=
                before + 1); /* two results of the scope, one gradient less */
    tern_zero_grad(NULL);
    assert_error(TERN_ERR_ARGUMENT, "the optimizer is NULL");
    tern_optimizer_free(opt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd_follows_the_formula),
        cmocka_unit_test(test_adam_follows_the_formula),
        cmocka_unit_test(test_adamw_follows_the_formula),
        cmocka_unit_test(test_lion_follows_its_paper),
        cmocka_unit_test(test_a_gradient_that_is_nan_reaches_the_parameter),
        cmocka_unit_test(test_scaled_steps_count_what_they_do),
        cmocka_unit_test(test_groups_have_rates_of_their_own),
        cmocka_unit_test(test_a_step_that_fails_updates_nothing),
        cmocka_unit_test(test_state_of_another_shape_is_found_before_anything_is_written),
        cmocka_unit_test(test_gradients_that_cannot_be_written_are_found_first),
        cmocka_unit_test(test_parameters_without_gradients_stay),
        cmocka_unit_test(test_zero_grad_drops_or_zeroes),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
