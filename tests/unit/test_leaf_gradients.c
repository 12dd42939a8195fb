/* What a leaf gets from a backward: a gradient of its own, dense, of its dtype, after its hooks, once. */
#include <math.h>
#include <stdio.h>

#include "tests/support/check.h"

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

static tern_tensor *leaf(double value)
{
    return tern_full(value, TERN_SHAPE(4), .requires_grad = true);
}

static double first(tern_tensor *t)
{
    double values[4];
    tern_read(t, TERN_F64, values, sizeof values);
    return values[0];
}

static void test_recorded_gradients_are_nobody_elses(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = leaf(1), *b = leaf(2), *c = tern_add(a, b);
    tern_backward(tern_sum(tern_mul(c, c)), .create_graph = true);
    assert_no_error();
    assert_ptr_not_equal(tern_data_ptr(tern_grad_of(a)), tern_data_ptr(tern_grad_of(b)));
    tern_clip_grad_norm(TERN_TENSORS(a, b), 2.0);
    assert_close(first(tern_grad_of(a)), 2 / sqrt(8), 1e-5);
    assert_close(first(tern_grad_of(b)), 2 / sqrt(8), 1e-5);
    tern_set_grad(a, NULL); /* which holds the graph that holds the leaf */
    tern_set_grad(b, NULL);
    tern_tensor *w = leaf(1), *z = leaf(1), *g = tern_full(3, TERN_SHAPE(4));
    tern_backward(tern_add(w, z), g, .create_graph = true);
    tern_backward(tern_mul(w, 2.0), g);
    assert_true(first(tern_grad_of(w)) == 9 && first(tern_grad_of(z)) == 3 && first(g) == 3);
    assert_no_error();
}

static void test_recorded_gradients_are_dense(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = leaf(1);
    tern_optimizer *opt = tern_sgd(TERN_TENSORS(w), .lr = 0.1);
    tern_backward(tern_sum(w), .create_graph = true);
    assert_int_equal(tern_stride(tern_grad_of(w), 0), 1);
    tern_backward(tern_sum(w));
    assert_true(first(tern_grad_of(w)) == 2);
    tern_backward(tern_sum(tern_mul(w, w)), .create_graph = true);
    assert_true(tern_requires_grad(tern_grad_of(w)));
    tern_zero_grad(opt, .in_place = true);
    assert_true(first(tern_grad_of(w)) == 0);
    assert_false(tern_requires_grad(tern_grad_of(w)));
    assert_no_error();
    tern_optimizer_free(opt);
}

/* What recorded gradients have of a graph goes on being differentiable. */
static void test_a_copied_gradient_has_its_history(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = leaf(3), *second;
    tern_backward(tern_sum(tern_mul(tern_mul(w, w), w)), .create_graph = true);
    tern_grad(tern_sum(tern_grad_of(w)), &w, 1, &second);
    assert_no_error();
    assert_true(first(tern_grad_of(w)) == 27 && first(second) == 18);
    tern_set_grad(w, NULL);
}

static int calls;

static tern_tensor *at_most_one(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t, (void)user;
    calls++;
    return tern_minimum(grad, 1.0);
}
static void count_complete(tern_tensor *t, void *user)
{
    (void)t;
    ++*(int *)user;
}

static void test_a_hook_sees_the_whole_gradient_once(void **state)
{
    (void)state;
    TERN_SCOPE;
    int complete = 0;
    tern_tensor *w = leaf(1), *out;
    tern_add_hook(w, at_most_one, NULL);
    tern_add_accumulated_hook(w, count_complete, &complete);
    calls = 0;
    tern_backward(tern_sum(tern_add(tern_mul(w, -3.0), tern_mul(w, 3.5))));
    assert_int_equal(calls, 1);
    assert_int_equal(complete, 1);
    assert_true(first(tern_grad_of(w)) == 0.5);
    tern_backward(tern_sum(tern_mul(tern_mul(w, w), w)), .create_graph = true); /* 3, cut to 1 */
    assert_true(first(tern_grad_of(w)) == 1.5 && calls == 2);
    tern_grad(tern_sum(tern_add(tern_mul(w, 3.0), w)), &w, 1, &out);
    assert_true(first(out) == 1 && calls == 3 && complete == 2);
    tern_set_grad(w, NULL);
    assert_no_error();
}

static void test_a_leaf_that_is_the_root_has_its_hooks(void **state)
{
    (void)state;
    TERN_SCOPE;
    int complete = 0;
    tern_tensor *w = leaf(1);
    tern_add_hook(w, at_most_one, NULL);
    tern_add_accumulated_hook(w, count_complete, &complete);
    calls = 0;
    tern_backward(w, tern_full(5, TERN_SHAPE(4)));
    assert_true(first(tern_grad_of(w)) == 1 && calls == 1 && complete == 1);
    tern_tensor *v = leaf(1), *g = tern_full(5, TERN_SHAPE(4), .requires_grad = true), *of_g;
    tern_backward(v, g, .create_graph = true);
    tern_backward(v, g, .create_graph = true);
    tern_grad(tern_sum(tern_grad_of(v)), &g, 1, &of_g);
    assert_no_error();
    assert_true(first(tern_grad_of(v)) == 10 && first(of_g) == 2);
}

static tern_tensor *shrink(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t, (void)user;
    return tern_sum(grad);
}

static void test_what_fails_leaves_nothing_behind(void **state)
{
    (void)state;
    const int64_t live = tern_live_tensors();
    {
        TERN_SCOPE;
        tern_tensor *w = leaf(1), *e = tern_exp(w);
        tern_add_hook(w, at_most_one, NULL);
        tern_tensor *y = tern_sum(tern_add(e, tern_mul(w, 3.0)));
        tern_mul_(tern_detach(e), 2.0);
        tern_backward(y); /* after the product has delivered */
        assert_error(TERN_ERR_GRAD, "changed in place");
        assert_null(tern_grad_of(w));
        tern_tensor *v = leaf(1);
        tern_add_hook(v, shrink, NULL);
        tern_backward(tern_sum(tern_mul(v, 2.0)));
        assert_error(TERN_ERR_GRAD, "a hook returned a gradient []");
        assert_null(tern_grad_of(v));
    }
    assert_int_equal(tern_live_tensors(), live);
}

static tern_tensor *tripled(tern_op_ctx *ctx, tern_tensor **in)
{
    (void)ctx;
    return tern_mul(in[0], 3.0);
}
static void wide_gradient(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = tern_cast(tern_mul(grad, 3.0), TERN_F64);
}

static void test_a_gradient_has_the_leafs_dtype(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const tern_op op = { "triple", .inputs = 1, .forward = tripled,
                                .backward = wide_gradient };
    tern_tensor *wide = tern_full(1, TERN_SHAPE(4), .dtype = TERN_F64);
    tern_tensor *a = leaf(1), *b = leaf(1), *c = leaf(1), *out;
    tern_backward(tern_add(a, a), wide);
    tern_backward(b, wide);
    tern_backward(tern_sum(tern_apply(&op, c)));
    tern_grad(tern_mul(a, 2.0), &a, 1, &out, .gradient = wide);
    assert_no_error();
    assert_int_equal(tern_dtype(tern_grad_of(a)), TERN_F32);
    assert_int_equal(tern_dtype(tern_grad_of(b)), TERN_F32);
    assert_int_equal(tern_dtype(tern_grad_of(c)), TERN_F32);
    assert_int_equal(tern_dtype(out), TERN_F32);
    assert_true(first(tern_grad_of(a)) == 2 && first(tern_grad_of(c)) == 3 && first(out) == 2);
}

static tern_tensor *ask_with(tern_tensor **out_kept)
{
    TERN_SCOPE;
    tern_tensor *g = tern_full(5, TERN_SHAPE(4)), *grads[2];
    {
        TERN_SCOPE;
        tern_tensor *in[] = { leaf(1), leaf(1) };
        tern_grad(tern_add(in[0], in[1]), in, 2, grads, .gradient = g);
        assert_no_error();
        assert_ptr_not_equal(grads[0], grads[1]);
        *out_kept = tern_keep(tern_keep(grads[1]));
    }
    return tern_keep(g);
}

/* g passes an addition unchanged. It stays in its scope, whatever becomes of what tern_grad returns. */
static void test_a_given_gradient_stays_in_its_scope(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *kept, *g = ask_with(&kept);
    assert_true(tern_in_scope(g) && tern_in_scope(kept));
    (void)tern_full(7, TERN_SHAPE(4)), (void)tern_full(7, TERN_SHAPE(4));
    assert_true(first(g) == 5 && first(kept) == 5);
    tern_drop(kept);
    assert_true(first(g) == 5);
    assert_no_error();
}

/* The errors show both, shape and device. */
static void test_gradients_that_are_given_have_to_fit(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = tern_ones(TERN_SHAPE(2, 3), .requires_grad = true), *y = tern_mul(w, w);
    char here[TERN_DEV_NAME_BYTES];
    (void)tern_dev_name(tern_device(w), here);
    assert_int_equal(tern_set_grad(w, tern_ones(TERN_SHAPE(3, 2))), TERN_ERR_SHAPE);
    assert_non_null(strstr(tern_error_text(), "[3, 2]"));
    assert_non_null(strstr(tern_error_text(), here));
    assert_error(TERN_ERR_SHAPE, "the gradient has another shape than the tensor");
    assert_int_equal(tern_set_grad(w, tern_ones(TERN_SHAPE(2, 3), TERN_F64)), TERN_ERR_DTYPE);
    assert_error(TERN_ERR_DTYPE, "the gradient has another dtype than the tensor");
    assert_int_equal(tern_backward(y, tern_ones(TERN_SHAPE(6))), TERN_ERR_SHAPE);
    assert_non_null(strstr(tern_error_text(), "[6]"));
    assert_error(TERN_ERR_SHAPE, "the gradient has another shape than the root");
    if (!check_on_cpu()) {
        tern_tensor *far = tern_ones(TERN_SHAPE(2, 3), .device = TERN_CPU);
        assert_int_equal(tern_set_grad(w, far), TERN_ERR_DEVICE);
        assert_error(TERN_ERR_DEVICE, "the gradient lies on another device than the tensor");
        assert_int_equal(tern_backward(y, far), TERN_ERR_DEVICE);
        assert_error(TERN_ERR_DEVICE, "the gradient lies on another device than the root");
    }
    assert_null(tern_grad_of(w));
    assert_int_equal(tern_backward(y, tern_ones(TERN_SHAPE(2, 3))),
                     TERN_OK); /* nothing was freed */
    assert_close(tern_item(tern_sum(tern_grad_of(w))), 12, 0);
}

static void fail_at_the_end(tern_tensor *leaf, void *user)
{
    (void)leaf;
    (void)user;
    tern_fail(TERN_ERR_STATE, "mine", "the hook failed");
}

/* Nothing comes after the hook that would look for errors. */
static void test_backward_fails_where_the_last_hook_does(void **state)
{
    (void)state;
    TERN_SCOPE;
    for (int as_root = 0; as_root < 2; as_root++) {
        tern_tensor *x = tern_ones(TERN_SCALAR_SHAPE, .requires_grad = true);
        tern_add_accumulated_hook(x, fail_at_the_end, NULL);
        assert_int_equal(tern_backward(as_root ? x : tern_mul(x, 2)), TERN_ERR_STATE);
        assert_error(TERN_ERR_STATE, "the hook failed");
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_recorded_gradients_are_nobody_elses),
        TEST(test_recorded_gradients_are_dense),
        TEST(test_a_copied_gradient_has_its_history),
        TEST(test_a_hook_sees_the_whole_gradient_once),
        TEST(test_a_leaf_that_is_the_root_has_its_hooks),
        TEST(test_what_fails_leaves_nothing_behind),
        TEST(test_a_gradient_has_the_leafs_dtype),
        TEST(test_a_given_gradient_stays_in_its_scope),
        TEST(test_gradients_that_are_given_have_to_fit),
        TEST(test_backward_fails_where_the_last_hook_does),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
