/* What the list of a thread's scopes holds after tensors were dropped, kept and moved, and at the end. */
#include <pthread.h>

#include "core/thread.h"
#include "tests/support/check.h"

static int64_t top(void)
{
    return core_self()->scope.top;
}

static void test_a_loop_that_drops_what_it_makes_keeps_no_places(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *first = tern_ones(TERN_SHAPE(4));
    const int64_t before = top();
    for (int i = 0; i < 1000; i++) {
        tern_tensor *a = tern_ones(TERN_SHAPE(4)), *b = tern_neg(a);
        tern_drop(a);
        assert_int_equal(top(), before + 2);
        tern_drop(b);
        assert_int_equal(top(), before);
    }
    assert_true(tern_in_scope(first));
}

static void test_a_state_that_moves_on_keeps_no_places(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t before = top();
    tern_tensor *h = tern_ones(TERN_SHAPE(4));
    for (int i = 0; i < 1000; i++) {
        TERN_SCOPE;
        tern_tensor *next = tern_keep(tern_neg(h));
        tern_drop(h);
        h = next;
    }
    assert_int_equal(top(), before + 1);
    assert_true(tern_in_scope(h));
    assert_close(tern_item(tern_mean(h)), 1, 0);
}

/* The inner scope begins where it began: what comes after is still its own. */
static void test_a_tensor_dropped_from_outside_leaves_the_inner_scope_whole(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t live = tern_live_tensors();
    tern_tensor *outer = tern_ones(TERN_SHAPE(4));
    {
        TERN_SCOPE;
        tern_drop(outer);
        tern_drop(tern_ones(TERN_SHAPE(4)));
        tern_tensor *inner = tern_ones(TERN_SHAPE(4));
        assert_true(tern_in_scope(inner));
    }
    assert_int_equal(tern_live_tensors(), live);
}

/* The loop's scope ends with the outer one; its own end comes when the function returns. */
static tern_tensor *leave_early(void)
{
    tern_scope outer = tern_scope_begin();
    for (;;) {
        TERN_SCOPE;
        (void)tern_ones(TERN_SHAPE(4));
        tern_scope_end(&outer);
        return tern_ones(TERN_SHAPE(4));
    }
}

static void test_a_scope_that_has_ended_ends_nothing(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t live = tern_live_tensors();
    tern_tensor *left = leave_early();
    assert_int_equal(tern_live_tensors(), live + 1);
    assert_true(tern_in_scope(left));
    tern_scope twice = tern_scope_begin(), none = { 0 };
    tern_scope_end(&twice);
    tern_scope_end(&twice);
    tern_scope_end(&none);
    assert_true(tern_in_scope(left));
}

static tern_tensor *newest;

static tern_tensor *drop_newest(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t, (void)grad, (void)user;
    tern_drop(newest);
    newest = NULL;
    return NULL;
}

static void test_a_hook_may_drop_the_newest_tensor_of_a_scope(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(4), .requires_grad = true);
    tern_tensor *y = tern_mul(x, x);
    assert_int_equal(tern_add_hook(y, drop_newest, NULL), TERN_OK);
    tern_tensor *loss = tern_sum(tern_mul(y, y));
    const int64_t live = tern_live_tensors();
    newest = tern_ones(TERN_SHAPE(4));
    assert_int_equal(tern_backward(loss), TERN_OK);
    assert_null(newest);
    assert_true(tern_live_tensors() <= live + 1); /* the gradient */
    assert_close(tern_item(tern_mean(tern_grad_of(x))), 4, 0);
}

static void test_finish_releases_what_was_kept_outside_of_any_scope(void **state)
{
    (void)state;
    assert_int_equal(top(), 0);
    const int64_t live = tern_live_tensors();
    tern_keep(tern_keep(tern_ones(TERN_SHAPE(4))));
    {
        TERN_SCOPE; /* what moves out of it stays until the end */
        tern_keep(tern_keep(tern_ones(TERN_SHAPE(4))));
    }
    assert_int_equal(tern_live_tensors(), live + 2);
    assert_int_equal(tern_finish(), 0);
    assert_int_equal(tern_live_tensors(), live);
    assert_int_equal(top(), 0);
}

static void *keep_outside(void *unused)
{
    tern_keep(tern_ones(TERN_SHAPE(4)));
    return unused;
}

static void test_a_thread_s_end_releases_what_was_kept_outside_of_any_scope(void **state)
{
    (void)state;
    const int64_t live = tern_live_tensors();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, keep_outside, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(tern_live_tensors(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_loop_that_drops_what_it_makes_keeps_no_places),
        cmocka_unit_test(test_a_state_that_moves_on_keeps_no_places),
        cmocka_unit_test(test_a_tensor_dropped_from_outside_leaves_the_inner_scope_whole),
        cmocka_unit_test(test_a_scope_that_has_ended_ends_nothing),
        cmocka_unit_test(test_a_hook_may_drop_the_newest_tensor_of_a_scope),
        cmocka_unit_test(test_finish_releases_what_was_kept_outside_of_any_scope),
        cmocka_unit_test(test_a_thread_s_end_releases_what_was_kept_outside_of_any_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
