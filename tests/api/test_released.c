/* TERN_CHECK_RELEASED=1: the use of a tensor behind its scope is an error that names it and its line. The variable is
 * read once, so this program sets it for itself. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/check.h"

static tern_tensor *without_keep(double value)
{
    TERN_SCOPE;
    return tern_full(value, TERN_SHAPE(2, 3));
}

static tern_tensor *with_keep(double value)
{
    TERN_SCOPE;
    return tern_keep(tern_full(value, TERN_SHAPE(2, 3)));
}

static void test_operands_are_named(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = with_keep(1), *gone = without_keep(2);
    assert_null(tern_mul(gone, 2.0));
    assert_error(TERN_ERR_ARGUMENT, "mul: a was released: its scope has ended, or tern_release");
    assert_null(tern_add(x, gone));
    assert_non_null(strstr(tern_error_text(), "test_released.c:"));
    assert_error(TERN_ERR_ARGUMENT, "add: b was released");
    assert_null(tern_add_(gone, x));
    assert_error(TERN_ERR_ARGUMENT, "was released");
    assert_null(tern_copy(gone, x));
    assert_error(TERN_ERR_ARGUMENT, "copy: the tensor made at");
    assert_null(tern_fill(gone, 1));
    assert_error(TERN_ERR_ARGUMENT, "fill: the tensor made at");
    assert_null(tern_view(gone, TERN_SHAPE(6)));
    assert_error(TERN_ERR_ARGUMENT, "was released");
    assert_null(tern_matmul(gone, tern_transpose(x, 0, 1)));
    assert_error(TERN_ERR_ARGUMENT, "was released");
    assert_close(tern_item(tern_sum(tern_add(x, x))), 12, 0);
    assert_no_error();
}

/* Nobody has ended a scope or released it by hand. */
static void test_a_gradient_ends_where_it_is_cleared(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = tern_set_requires_grad(tern_ones(TERN_SHAPE(3)), true);
    tern_optimizer *opt = tern_sgd(TERN_TENSORS(w), .lr = 0.1);
    for (int i = 0; i < 2; i++) {
        tern_backward(tern_sum(w));
        tern_tensor *gradient = tern_grad_of(w);
        tern_zero_grad(opt);
        assert_null(i == 0 ? tern_mul(gradient, 2.0) : tern_clone(gradient));
        assert_error(TERN_ERR_ARGUMENT, "or it was a gradient that was cleared");
    }
    tern_optimizer_free(opt);
}

/* A sum that is carried through a loop: the commonest form. */
static void test_what_is_carried_out_of_a_scope(void **state)
{
    (void)state;
    tern_tensor *sum = tern_zeros(TERN_SCALAR_SHAPE);
    for (int i = 0; i < 3 && !tern_failed(); i++) {
        TERN_SCOPE;
        sum = tern_add(sum, 1.0);
    }
    assert_error(TERN_ERR_ARGUMENT, "add: a was released");
}

static void test_readers_and_roots(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *loss = NULL;
    char line[64];
    {
        TERN_SCOPE;
        tern_tensor *p = tern_set_requires_grad(tern_ones(TERN_SHAPE(3)), true);
        (void)snprintf(line, sizeof line, "test_released.c:%d was released", __LINE__ + 1);
        loss = tern_sum(tern_mul(p, p));
    }
    tern_backward(loss);
    assert_error(TERN_ERR_ARGUMENT, "backward: the tensor made at");
    (void)tern_item(loss);
    assert_error(TERN_ERR_ARGUMENT, line);
    assert_null(tern_data(loss));
    assert_error(TERN_ERR_ARGUMENT, "was released");
}

static void test_a_second_release_is_none(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    tern_tensor *t;
    {
        TERN_SCOPE;
        t = tern_retain(tern_ones(TERN_SHAPE(5)));
    }
    tern_release(t);
    tern_release(tern_retain(t));
    assert_error(TERN_ERR_ARGUMENT, "retain: the tensor made at");
    assert_int_equal(tern_live_tensors(), before);
}

static tern_tensor *same(tern_tensor *const *in, int64_t count, void *user)
{
    (void)count, (void)user;
    return in[0];
}

/* What runs no row on it: copies, views, leaves, lists, streams. */
static void test_calls_that_are_no_rows(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = with_keep(1), *gone = without_keep(2);
    const char *const words = ": the tensor made at";
    assert_null(tern_clone(gone));
    assert_error(TERN_ERR_ARGUMENT, words);
    assert_null(tern_detach(gone));
    assert_error(TERN_ERR_ARGUMENT, words);
    assert_null(tern_cast(gone, TERN_F64));
    assert_error(TERN_ERR_ARGUMENT, words);
    assert_null(tern_contiguous(gone));
    assert_error(TERN_ERR_ARGUMENT, words);
    assert_null(tern_set_requires_grad(gone, true));
    assert_error(TERN_ERR_ARGUMENT, words);
    assert_null(tern_dropout(gone, .p = 0.5, .evaluating = true));
    assert_error(TERN_ERR_ARGUMENT, words);
    assert_null(tern_checkpoint(same, &gone, 1));
    assert_error(TERN_ERR_ARGUMENT, words);
    tern_tensor_replace(x, gone);
    assert_error(TERN_ERR_ARGUMENT, words);
    tern_set_grad(x, gone);
    assert_error(TERN_ERR_ARGUMENT, words);
    tern_add_hook(gone, NULL, NULL);
    assert_error(TERN_ERR_ARGUMENT, words);
    tern_record_stream(gone, tern_current_stream(TERN_CPU));
    assert_error(TERN_ERR_ARGUMENT, words);
    tern_optimizer_free(tern_sgd(TERN_TENSORS(gone)));
    assert_error(TERN_ERR_ARGUMENT, words);
    assert_int_equal(tern_version(gone), 0);
    assert_false(tern_is_pinned(gone));
    assert_no_error();
}

static void *release(void *tensor)
{
    tern_release(tensor);
    return NULL;
}

static void test_another_thread_releases(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *t;
    {
        TERN_SCOPE;
        t = tern_retain(tern_ones(TERN_SHAPE(5)));
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release, t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(tern_neg(t));
    assert_error(TERN_ERR_ARGUMENT, "neg: x was released");
}

/* What is right stays right, and nothing is left. */
static void test_training_goes_on_as_without(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    tern_seed(3);
    tern_module *net =
        tern_sequential(tern_linear_layer(4, 8), tern_relu_layer(), tern_linear_layer(8, 1));
    tern_optimizer *opt = tern_adam(tern_parameters(net), .lr = 0.05);
    double first = 0, last = 0;
    for (int i = 0; i < 40; i++) {
        TERN_SCOPE;
        tern_tensor *x = tern_randn(TERN_SHAPE(16, 4));
        tern_tensor *loss =
            tern_mse_loss(tern_forward(net, x), tern_sum(x, TERN_DIMS(1), true), TERN_MEAN);
        tern_zero_grad(opt);
        tern_backward(loss);
        tern_step(opt);
        last = tern_item(loss);
        first = i == 0 ? last : first;
    }
    assert_no_error();
    assert_true(last < 0.5 * first);
    tern_optimizer_free(opt);
    tern_module_free(net);
    assert_int_equal(tern_live_tensors(), before);
}

int main(void)
{
    (void)setenv("TERN_CHECK_RELEASED", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operands_are_named),
        cmocka_unit_test(test_a_gradient_ends_where_it_is_cleared),
        cmocka_unit_test(test_what_is_carried_out_of_a_scope),
        cmocka_unit_test(test_readers_and_roots),
        cmocka_unit_test(test_a_second_release_is_none),
        cmocka_unit_test(test_calls_that_are_no_rows),
        cmocka_unit_test(test_another_thread_releases),
        cmocka_unit_test(test_training_goes_on_as_without),
    };
    return check_run(tests, NULL, NULL);
}
