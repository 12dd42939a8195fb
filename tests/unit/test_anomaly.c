/* Anomaly mode: the op whose backward made the first NaN, by the line of its forward. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "core/thread.h"
#include "tests/support/check.h"

static tern_tensor *leaf(double v)
{
    return tern_full(v, TERN_SHAPE(3), .requires_grad = true);
}

static void test_the_line_of_the_op_is_named(void **state)
{
    (void)state;
    TERN_SCOPE;
    TERN_ANOMALY;
    assert_true(tern_anomaly_enabled());
    tern_tensor *x = leaf(0);
    char wanted[96];
    snprintf(wanted, sizeof wanted, "test_anomaly.c:%d: sqrt: backward made NaN of the gradient",
             __LINE__ + 1);
    tern_tensor *root = tern_sqrt(tern_mul(x, 2));
    tern_backward(tern_sum(tern_mul(tern_add(root, 1), 0.0)));
    assert_error(TERN_ERR_GRAD, wanted);
    assert_null(tern_grad_of(x));
}

static void test_off_by_default_and_at_the_end_of_the_block(void **state)
{
    (void)state;
    TERN_SCOPE;
    {
        TERN_ANOMALY;
    }
    assert_false(tern_anomaly_enabled());
    tern_tensor *x = leaf(0);
    tern_backward(tern_sum(tern_mul(tern_sqrt(x), 0.0)));
    assert_no_error();
    assert_true(isnan(tern_item(tern_sum(tern_grad_of(x)))));
}

static void test_gradients_without_nan_are_as_ever(void **state)
{
    (void)state;
    TERN_SCOPE;
    TERN_ANOMALY;
    tern_tensor *x = leaf(2), *g[1], *h[1];
    tern_tensor *y = tern_sum(tern_mul(tern_exp(x), x));
    tern_grad(y, &x, 1, g, .create_graph = true);
    tern_grad(tern_sum(g[0]), &x, 1, h);
    assert_no_error();
    assert_close(tern_item(tern_sum(h[0])), 3 * 4 * exp(2.0), 1e-4);
    assert_false(tern_set_anomaly(false) == false);
}

/* As by a thread that ends in the middle of a call, in a hook. */
static void *leave_modes(void *unused)
{
    tern_thread *self = core_self();
    (void)tern_set_anomaly(true);
    self->in_backward = true;
    self->backward = (struct backward_engine *)(void *)self; /* on a stack that is gone */
    self->calling = "conv1d";
    self->site = self->backward_site = "elsewhere:1";
    self->message_code = TERN_ERR_SHAPE;
    return unused;
}

static void *ask_modes(void *out)
{
    const tern_thread *self = core_self();
    *(bool *)out = tern_anomaly_enabled() || self->in_backward || self->backward != NULL ||
                   self->checkpoint != NULL || self->calling != NULL || self->site != NULL ||
                   self->backward_site != NULL || self->message_code != TERN_OK;
    return NULL;
}

static void test_a_new_thread_has_no_modes_of_one_that_ended(void **state)
{
    (void)state;
    pthread_t thread;
    bool inherits = true;
    assert_int_equal(pthread_create(&thread, NULL, leave_modes, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(pthread_create(&thread, NULL, ask_modes, &inherits), 0);
    pthread_join(thread, NULL);
    assert_false(inherits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_thread_has_no_modes_of_one_that_ended),
        cmocka_unit_test(test_the_line_of_the_op_is_named),
        cmocka_unit_test(test_off_by_default_and_at_the_end_of_the_block),
        cmocka_unit_test(test_gradients_without_nan_are_as_ever),
    };
    return check_run(tests, NULL, NULL);
}
