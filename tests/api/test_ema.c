/* Averages of weights: what an update, a swap and a restore do, and what they refuse. */
#include "tests/support/check.h"

#include "tests/support/files.h"

static tern_tensor *parameter(double value)
{
    return tern_full(value, TERN_SHAPE(3), .dtype = TERN_F32, .requires_grad = true);
}

static void set(tern_tensor *t, double value)
{
    TERN_NO_GRAD;
    tern_fill(t, value);
}

static double first(tern_tensor *t)
{
    TERN_SCOPE;
    return tern_item(tern_select(tern_detach(t), 0, 0));
}

static void test_an_update_goes_towards_the_weights(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *p = parameter(1);
    tern_ema *ema = tern_ema_create(TERN_TENSORS(p), .decay = 0.75);
    assert_true(first(tern_ema_averages(ema).tensors[0]) == 1);
    set(p, 2); /* the first update copies */
    assert_int_equal(tern_ema_update(ema), TERN_OK);
    assert_true(first(tern_ema_averages(ema).tensors[0]) == 2);
    set(p, 6);
    tern_ema_update(ema);
    assert_true(first(tern_ema_averages(ema).tensors[0]) == 3);
    assert_true(first(p) == 6);
    assert_string_equal(tern_ema_averages(ema).names[0], "0");
    assert_no_error();
    tern_ema_free(ema);
}

/* The parameter stays the same object, with its gradient and optimizer. */
static void test_a_swap_goes_there_and_back(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *p = parameter(1);
    tern_optimizer *opt = tern_sgd(TERN_TENSORS(p), .lr = 0.5);
    tern_ema *ema = tern_ema_create(TERN_TENSORS(p));
    set(p, 5);
    tern_set_grad(p, tern_ones(TERN_SHAPE(3)));
    assert_int_equal(tern_ema_swap(ema), TERN_OK);
    assert_true(first(p) == 1);
    assert_true(tern_requires_grad(p));
    assert_int_equal(tern_ema_update(ema), TERN_ERR_STATE);
    assert_error(TERN_ERR_STATE, "try tern_ema_swap(ema) first");
    assert_int_equal(tern_ema_swap(ema), TERN_OK);
    assert_true(first(p) == 5);
    tern_step(opt);
    assert_true(first(p) == 4.5);
    assert_no_error();
    tern_ema_free(ema);
    tern_optimizer_free(opt);
}

/* Also where the average had as many versions as the weight. */
static void test_a_swap_before_backward_is_noticed(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *p = parameter(1);
    tern_ema *ema = tern_ema_create(TERN_TENSORS(p));
    tern_tensor *average = tern_ema_averages(ema).tensors[0];
    set(p, 5);
    while (tern_version(average) < tern_version(p))
        set(average, 1);
    tern_tensor *y = tern_sum(tern_mul(p, p));
    tern_ema_swap(ema);
    tern_backward(y, .retain_graph = true);
    assert_error(TERN_ERR_GRAD,
                 "mul: b (f32 [3]), which backward needs, was changed in place or given "
                 "other memory (module_to, ema_swap) after it was saved\n"
                 "  try that change (an optimizer's step, a load, a move) before that forward");
    tern_ema_swap(ema); /* as where PyTorch copies there and back */
    tern_backward(y);
    assert_error(TERN_ERR_GRAD, "or given other memory");
    tern_ema_free(ema);
}

static void test_a_restore_goes_on_and_refuses_what_does_not_fit(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *a = parameter(1), *b = parameter(7);
    tern_ema *ema = tern_ema_create(TERN_TENSORS(a), .decay = 0.5);
    tern_ema_update(ema);
    tern_state *state = tern_state_create();
    assert_int_equal(tern_ema_store(ema, state, "ema"), TERN_OK);
    tern_state_save(state, file_path("ema"));
    tern_state_free(state);
    state = tern_state_load(file_path("ema"));
    tern_ema *other = tern_ema_create(TERN_TENSORS(b), .decay = 0.5);
    assert_int_equal(tern_ema_restore(other, state, "ema"), TERN_OK);
    tern_ema_update(other); /* the second one: (1 + 7) / 2 */
    assert_true(first(tern_ema_averages(other).tensors[0]) == 4);
    assert_int_not_equal(tern_ema_restore(other, state, "none"), TERN_OK);
    tern_error_clear();
    tern_tensor *wide = tern_ones(TERN_SHAPE(4), .requires_grad = true);
    tern_ema *third = tern_ema_create(TERN_TENSORS(wide));
    assert_int_equal(tern_ema_restore(third, state, "ema"), TERN_ERR_STATE);
    assert_error(TERN_ERR_STATE, "'ema.average.0' has another shape");
    tern_state_free(state);
    tern_ema_free(ema);
    tern_ema_free(other);
    tern_ema_free(third);
}

static void test_options_are_checked(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *p = parameter(1);
    assert_null(tern_ema_create(TERN_TENSORS(p), .decay = 1.5));
    assert_error(TERN_ERR_ARGUMENT, "decay = 1.5 is not in [0, 1]");
    assert_null(tern_ema_create(.decay = 0.5));
    assert_error(TERN_ERR_ARGUMENT, "the list of parameters is empty");
    assert_null(tern_ema_create(TERN_TENSORS(NULL)));
    assert_error(TERN_ERR_ARGUMENT, "parameter 0 is NULL");
    assert_null(tern_ema_create(TERN_TENSORS(p, p)));
    assert_error(TERN_ERR_ARGUMENT, "parameter 1 is there twice");
    tern_tensor *const both[] = { p, p };
    const char *const names[] = { "head.weight", "tail.weight" };
    assert_null(tern_ema_create((tern_tensors_t){ both, names, 2 }));
    assert_error(TERN_ERR_ARGUMENT, "parameter 'tail.weight' is there twice");
    assert_null(tern_ema_create(TERN_TENSORS(tern_mul(p, 2.0))));
    assert_error(TERN_ERR_ARGUMENT, "parameter 0 is not a leaf");
    assert_null(tern_ema_create(TERN_TENSORS(tern_arange(.end = 3))));
    assert_error(TERN_ERR_ARGUMENT, "parameter 0 is not of a float dtype");
    assert_int_equal(tern_ema_update(NULL), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "the average is NULL");
    tern_ema_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_update_goes_towards_the_weights),
        cmocka_unit_test(test_a_swap_goes_there_and_back),
        cmocka_unit_test(test_a_swap_before_backward_is_noticed),
        cmocka_unit_test(test_a_restore_goes_on_and_refuses_what_does_not_fit),
        cmocka_unit_test(test_options_are_checked),
    };
    return check_run(tests, NULL, NULL);
}
