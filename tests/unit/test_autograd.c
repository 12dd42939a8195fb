/* The tape: accumulation, hooks, in-place damage, freed graphs, deep graphs, gradients of gradients. */
#include <math.h>

#include "tests/support/leaves.h"

static void test_shared_inputs_accumulate(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(3);
    tern_tensor *y = tern_add(tern_mul(x, x), tern_mul(x, 2));
    tern_backward(tern_sum(y));
    assert_no_error();
    assert_close(first(tern_grad_of(x)), 8, 0);
    tern_backward(tern_sum(tern_mul(x, 5))); /* a second backward adds */
    assert_close(first(tern_grad_of(x)), 13, 0);
}

static void test_add_of_two_leaves_gives_each_its_own_gradient(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = leaf(1), *b = leaf(2);
    tern_backward(tern_add(a, b), tern_ones(TERN_SHAPE(2), TERN_F64));
    assert_no_error();
    assert_false(tern_shares_storage(tern_grad_of(a), tern_grad_of(b)));
    tern_backward(tern_sum(a));
    assert_close(first(tern_grad_of(a)), 2, 0);
    assert_close(first(tern_grad_of(b)), 1, 0);
}

/* As in PyTorch: what counts is the leaf's flag when backward comes to it. */
static void test_a_leaf_that_was_frozen_since_gets_nothing(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = tern_set_requires_grad(tern_ones(TERN_SHAPE(2)), true);
    tern_tensor *b = tern_set_requires_grad(tern_ones(TERN_SHAPE(2)), true);
    tern_tensor *loss = tern_sum(tern_mul(a, b));
    tern_set_requires_grad(b, false);
    tern_backward(loss);
    assert_no_error();
    check_elements(tern_grad_of(a), (const float[]){ 1, 1 }, 2);
    assert_null(tern_grad_of(b));
}

/* Frozen and then written it has a history: what it was has no gradient, as in PyTorch. A view finds out late. */
static void test_a_leaf_that_was_changed_since_is_none(void **state)
{
    (void)state;
    for (int view = 0; view < 2; view++) {
        TERN_SCOPE;
        tern_tensor *w = tern_ones(TERN_SHAPE(2), .requires_grad = true);
        tern_tensor *plain = tern_ones(TERN_SHAPE(2)), *other = tern_ones(TERN_SHAPE(2));
        tern_tensor *p = view ? tern_slice(plain, 0, 0, 2) : plain, *grads[2];
        tern_set_requires_grad(p, true);
        tern_set_requires_grad(other, true);
        tern_tensor *loss = tern_sum(tern_mul(tern_mul(p, 2), other));
        tern_set_requires_grad(p, false);
        tern_add_(plain, w);
        tern_backward(loss, .retain_graph = true);
        assert_error(TERN_ERR_GRAD, "an input that was a leaf (made at ");
        assert_null(tern_grad_of(p));
        assert_null(tern_grad_of(other));
        tern_grad(loss, (tern_tensor *[]){ p, other }, 2, grads, .retain_graph = true);
        assert_error(TERN_ERR_GRAD, "does not depend on input 0");
        tern_grad(loss, (tern_tensor *[]){ p, other }, 2, grads, .allow_unused = true);
        assert_no_error();
        assert_null(grads[0]);
        check_elements(grads[1], (const float[]){ 2, 2 }, 2);
        tern_backward(tern_sum(p)); /* as what it is now */
        assert_no_error();
        check_elements(tern_grad_of(w), (const float[]){ 1, 1 }, 2);
    }
}

static void test_given_gradient_is_not_taken_over(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = leaf(1), *g = tern_ones(TERN_SHAPE(2), TERN_F64);
    tern_backward(tern_add(a, 0), g);
    tern_backward(tern_sum(a));
    assert_no_error();
    assert_close(first(g), 1, 0);
}

static void test_no_grad_records_nothing(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(3);
    {
        TERN_NO_GRAD;
        assert_false(tern_requires_grad(tern_mul(x, x)));
    }
    assert_true(tern_requires_grad(tern_mul(x, x)));
    assert_false(tern_requires_grad(tern_detach(tern_mul(x, x))));
}

static void test_in_place_damage_is_found(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(3), *w = tern_ones(TERN_SHAPE(2), TERN_F64);
    tern_tensor *y = tern_mul(x, w);
    tern_add_(w, 1);
    tern_backward(tern_sum(y));
    assert_error(TERN_ERR_GRAD, "changed in place once");
    assert_null(tern_add_(x, 1));
    assert_error(TERN_ERR_GRAD, "leaf");
}

static void test_in_place_on_a_result_is_recorded(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(3), *y = tern_mul(x, 2);
    tern_mul_(y, 5);
    tern_backward(tern_sum(y));
    assert_no_error();
    assert_close(first(tern_grad_of(x)), 10, 0);
}

/* Backward sees what was there before, as in PyTorch. */
static void test_in_place_keeps_what_backward_reads(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(3), *y = tern_mul(x, 2), *w = leaf(4);
    tern_mul_(y, w);
    tern_backward(tern_sum(y));
    assert_no_error();
    assert_close(first(tern_grad_of(x)), 8, 0);
    assert_close(first(tern_grad_of(w)), 6, 0);
    tern_tensor *narrow = leaf(3), *h = tern_cast(narrow, TERN_F32), *wide = leaf(4);
    tern_mul_(h, wide); /* computed in f64 */
    tern_backward(tern_sum(h));
    assert_no_error();
    assert_close(first(tern_grad_of(narrow)), 4, 0);
    assert_close(first(tern_grad_of(wide)), 3, 0);
    tern_tensor *base = leaf(2), *z = tern_mul(base, 1), *power = leaf(3);
    tern_pow_(z, power);
    tern_backward(tern_sum(z));
    assert_no_error();
    assert_close(first(tern_grad_of(base)), 12, 1e-5);
    assert_close(first(tern_grad_of(power)), 8 * log(2), 1e-5);
}

static void test_a_freed_graph_is_an_error(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(3), *y = tern_sum(tern_mul(x, x));
    assert_int_equal(tern_backward(y, .retain_graph = true), TERN_OK);
    assert_int_equal(tern_backward(y), TERN_OK);
    assert_close(first(tern_grad_of(x)), 12, 0);
    tern_backward(y);
    assert_error(TERN_ERR_GRAD, "second time");
}

static tern_tensor *doubled(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t;
    ++*(int *)user;
    return tern_mul(grad, 2);
}
static void counted(tern_tensor *t, void *user)
{
    assert_non_null(tern_grad_of(t));
    ++*(int *)user;
}

static void test_hooks_see_and_change_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    int calls = 0, complete = 0;
    tern_tensor *x = leaf(3), *y = tern_mul(x, x);
    tern_add_hook(y, doubled, &calls);
    tern_add_accumulated_hook(x, counted, &complete);
    tern_backward(tern_sum(y));
    assert_no_error();
    assert_int_equal(calls, 1);
    assert_int_equal(complete, 1); /* once, although x is used twice */
    assert_close(first(tern_grad_of(x)), 12, 0);
    tern_add_hook(x, doubled, &calls);
    tern_backward(tern_sum(tern_mul(x, 1)));
    assert_int_equal(calls, 2);
    assert_close(first(tern_grad_of(x)), 14, 0);
}

static void test_gradients_of_chosen_tensors(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(3), *unused = leaf(1), *y = tern_mul(x, x), *z = tern_sum(tern_mul(y, 4));
    tern_tensor *wanted[] = { x, y }, *got[2];
    assert_int_equal(tern_grad(z, wanted, 2, got, .retain_graph = true), TERN_OK);
    assert_close(first(got[0]), 24, 0);
    assert_close(first(got[1]), 4, 0);
    assert_null(tern_grad_of(x));
    tern_tensor *other[] = { unused }, *none[1];
    assert_int_equal(tern_grad(z, other, 1, none, .retain_graph = true), TERN_ERR_GRAD);
    assert_error(TERN_ERR_GRAD, "does not depend");
    assert_int_equal(tern_grad(z, other, 1, none, .allow_unused = true, .retain_graph = true),
                     TERN_OK);
    assert_null(none[0]);
    (void)tern_matmul(x, tern_ones(TERN_SHAPE(7, 2)));
    got[0] = got[1] = z;
    assert_int_not_equal(tern_grad(z, wanted, 2, got), TERN_OK); /* an error is pending */
    assert_true(got[0] == NULL && got[1] == NULL);
    tern_error_clear();
}

static void test_gradients_of_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(3), *y = tern_sum(tern_mul(tern_mul(x, x), x)), *in[] = { x }, *g[1];
    assert_int_equal(tern_grad(y, in, 1, g, .create_graph = true), TERN_OK);
    assert_close(first(g[0]), 27, 0);
    tern_backward(tern_sum(g[0]));
    assert_no_error();
    assert_close(first(tern_grad_of(x)), 18, 0);
}

static void test_a_million_nodes_do_not_recurse(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(1), *y = tern_retain(tern_mul(x, 1));
    const int nodes =
        check_on_cpu() ? 1000000 : 20000; /* the walk is the same; devices are slower */
    for (int i = 0; i < nodes; i++) {
        TERN_SCOPE;
        tern_tensor *next = tern_retain(tern_add(y, 0));
        tern_release(y);
        y = next;
    }
    tern_backward(tern_sum(y));
    tern_release(y);
    assert_no_error();
    assert_close(first(tern_grad_of(x)), 1, 0);
}

static void test_gradient_may_be_a_view_of_a_buffer(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(3), *buffer = tern_zeros(TERN_SHAPE(5), TERN_F64);
    assert_int_equal(tern_set_grad(x, tern_slice(buffer, 0, 1, 3)), TERN_OK);
    tern_backward(tern_sum(tern_mul(x, x)));
    assert_no_error();
    double v[5];
    tern_read(buffer, TERN_F64, v, sizeof v);
    assert_close(v[0] + v[3] + v[4], 0, 0);
    assert_close(v[1], 6, 0);
}

static void test_roots_are_checked(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(3);
    tern_backward(tern_mul(x, x));
    assert_error(TERN_ERR_GRAD, "one element");
    tern_backward(tern_sum(tern_ones(TERN_SHAPE(2))));
    assert_error(TERN_ERR_GRAD, "does not require a gradient");
    tern_backward(NULL);
    assert_error(TERN_ERR_ARGUMENT, "NULL");
    assert_null(tern_set_requires_grad(tern_ones(TERN_SHAPE(2), TERN_I64), true));
    assert_error(TERN_ERR_DTYPE, "i64");
}

/* A copy over a buffer goes on from what was there, as in PyTorch; a detached one begins anew. */
static void test_a_buffer_written_again_has_the_history_of_before(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = leaf(3), *buffer = tern_zeros(tern_shape(w), .dtype = tern_dtype(w));
    tern_copy(buffer, tern_mul(w, w));
    assert_int_equal(tern_backward(tern_sum(buffer)), TERN_OK);
    tern_copy(buffer, tern_mul(w, w));
    tern_backward(tern_sum(buffer));
    assert_error(
        TERN_ERR_GRAD,
        "backward goes through the graph a second time, and what it needs was freed by the "
        "first\n  try .retain_graph = true in the first call, or tern_detach what is carried");
    tern_set_grad(w, NULL);
    for (int step = 0; step < 3; step++) {
        buffer = tern_detach(buffer);
        tern_copy(buffer, tern_mul(w, w));
        assert_int_equal(tern_backward(tern_sum(buffer)), TERN_OK);
    }
    assert_close(first(tern_grad_of(w)), 3 * 6, 0);
    assert_no_error();
}

static tern_tensor *wrong_square_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    tern_save(ctx, in[0]);
    return tern_mul(in[0], in[0]);
}
static void wrong_square_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_saved(ctx, 0)); /* forgets the 2 */
}
static tern_tensor *apply_wrong(tern_tensor *const *in, void *user)
{
    (void)user;
    static const tern_op op = { "wrong_square", .inputs = 1, .forward = wrong_square_forward,
                                .backward = wrong_square_backward };
    return tern_apply(&op, in[0]);
}

static void infinite_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)tern_saved(ctx, 0);
    grad_in[0] = tern_mul(grad, (double)INFINITY);
}
static tern_tensor *apply_infinite(tern_tensor *const *in, void *user)
{
    (void)user;
    static const tern_op op = { "infinite", .inputs = 1, .forward = wrong_square_forward,
                                .backward = infinite_backward };
    return tern_apply(&op, in[0]);
}
static tern_tensor *apply_nothing(tern_tensor *const *in, void *user)
{
    (void)in, (void)user;
    return NULL;
}

static void test_gradcheck_takes_no_infinity_and_no_nothing(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *in[] = { leaf(3) };
    for (int fast = 0; fast < 2; fast++) {
        tern_gradcheck(apply_infinite, in, 1, .fast_mode = fast != 0);
        assert_error(TERN_ERR_GRAD, fast != 0 ? "along a random direction" : "backward gives inf");
        tern_gradcheck(apply_nothing, in, 1, .fast_mode = fast != 0);
        assert_error(TERN_ERR_STATE, "gradcheck: the function returned NULL");
    }
}

static void test_gradcheck_finds_a_wrong_gradient(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *in[] = { leaf(3) };
    assert_int_equal(tern_gradcheck(apply_wrong, in, 1), TERN_ERR_GRAD);
    assert_error(TERN_ERR_GRAD, "input 0, element 0");
    in[0] = tern_detach(in[0]);
    assert_int_equal(tern_gradcheck(apply_wrong, in, 1), TERN_ERR_GRAD);
    assert_error(TERN_ERR_GRAD, "no input requires a gradient");
}

/* The wrong gradient lies in one of many elements. */
static void one_wrong_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *two =
        tern_full(2, tern_shape(grad), .dtype = tern_dtype(grad), .device = tern_device(grad));
    tern_fill(tern_select(two, 0, 700), 2.1);
    grad_in[0] = tern_mul(tern_mul(grad, two), tern_saved(ctx, 0));
}
static tern_tensor *apply_one_wrong(tern_tensor *const *in, void *user)
{
    (void)user;
    static const tern_op op = { "one_wrong", .inputs = 1, .forward = wrong_square_forward,
                                .backward = one_wrong_backward };
    return tern_apply(&op, in[0]);
}
static tern_tensor *cubes(tern_tensor *const *in, void *calls)
{
    ++*(int *)calls;
    return tern_mul(tern_mul(in[0], in[0]), tern_mul(in[0], in[1]));
}

/* What it makes belongs to its scopes, also where results are the caller's. */
static void test_gradcheck_leaves_nothing_in_owned_mode(void **state)
{
    (void)state;
    TERN_SCOPE;
    int calls = 0;
    tern_tensor *const in[] = { leaf(2), leaf(3) };
    const int64_t before = tern_live_tensors();
    assert_false(tern_set_owned_mode(true));
    for (int fast = 0; fast < 2; fast++)
        assert_int_equal(tern_gradcheck(cubes, in, 2, &calls, .order = 2, .fast_mode = fast != 0),
                         TERN_OK);
    assert_true(tern_set_owned_mode(false));
    assert_int_equal(tern_live_tensors(), before);
}

static void test_gradcheck_along_one_direction(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_seed(5);
    int calls = 0;
    tern_tensor *in[] = { tern_randn(TERN_SHAPE(1000), .dtype = TERN_F64, .requires_grad = true),
                          tern_randn(TERN_SHAPE(1000), .dtype = TERN_F64, .requires_grad = true) };
    assert_int_equal(tern_gradcheck(cubes, in, 2, &calls, .order = 2, .fast_mode = true), TERN_OK);
    assert_int_equal(calls, 2 * (1 + 2 * 2)); /* for each order: once, and twice for each input */
    assert_int_equal(tern_gradcheck(apply_one_wrong, in, 1, .fast_mode = true), TERN_ERR_GRAD);
    assert_error(TERN_ERR_GRAD, "input 0, along a random direction");
    assert_int_equal(tern_gradcheck(apply_one_wrong, in, 1), TERN_ERR_GRAD);
    assert_error(TERN_ERR_GRAD, "input 0, element 700");
}

static tern_tensor *identity_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    (void)ctx;
    return tern_mul(in[0], 1);
}
static void one_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = tern_sum(grad);
}

static void test_a_gradient_of_another_shape_is_an_error(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const tern_op op = { "bad", .inputs = 1, .forward = identity_forward,
                                .backward = one_backward };
    tern_backward(tern_sum(tern_apply(&op, leaf(3))));
    assert_error(TERN_ERR_GRAD, "bad: backward returned a gradient [] on c"); /* cpu, cuda:0 */
}

static tern_tensor *widened(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t, (void)user;
    return tern_cast(grad, TERN_F64);
}

static void test_a_hook_of_a_leaf_keeps_the_dtype(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(3), .requires_grad = true);
    tern_add_hook(x, widened, NULL);
    tern_backward(tern_sum(tern_mul(x, 3)));
    assert_error(TERN_ERR_GRAD, "a hook returned a gradient of f64 for an input of f32");
    assert_null(tern_grad_of(x));
    tern_set_grad(x, x);
    assert_error(TERN_ERR_GRAD, "a tensor cannot be its own gradient");
}

static void test_hooks_and_gradients_want_the_right_tensors(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(3), *y = tern_mul(x, x), *grads[2];
    tern_add_hook(x, NULL, NULL);
    assert_error(TERN_ERR_ARGUMENT, "a hook needs a function");
    tern_add_hook(tern_ones(TERN_SHAPE(2)), doubled, NULL);
    assert_error(TERN_ERR_ARGUMENT, "a tensor that requires a gradient");
    tern_add_accumulated_hook(x, NULL, NULL);
    assert_error(TERN_ERR_ARGUMENT, "the function is NULL");
    tern_add_accumulated_hook(y, NULL, NULL);
    assert_error(TERN_ERR_GRAD, "only leaves are allowed");
    tern_set_grad(y, tern_ones(TERN_SHAPE(3)));
    assert_error(TERN_ERR_GRAD, "only leaves are allowed");
    tern_grad(tern_sum(y), NULL, 1, grads);
    assert_error(TERN_ERR_ARGUMENT, "inputs and out_grads are needed");
    tern_grad(tern_sum(y), (tern_tensor *const[]){ NULL }, 1, grads);
    assert_error(TERN_ERR_GRAD, "grad: input 0 is NULL");
    char text[200];
    (void)snprintf(text, sizeof text,
                   "input 1 (made at %s:%d) does not require a gradient\n  try "
                   "tern_set_requires_grad",
                   __FILE__, __LINE__ + 1);
    tern_grad(tern_sum(y), ((tern_tensor *const[]){ x, tern_ones(TERN_SHAPE(3)) }), 2, grads);
    assert_error(TERN_ERR_GRAD, text);
    tern_backward(y, tern_ones(TERN_SHAPE(4)));
    assert_error(TERN_ERR_SHAPE, "the gradient has another shape than the root");
}

static void test_ops_of_ones_own_are_checked(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const tern_op nothing = { "nothing", .inputs = 1 };
    static const tern_op wide = { "wide", .inputs = 9, .forward = identity_forward };
    static const tern_op heavy = { "heavy", .inputs = 1, .forward = identity_forward,
                                   .attr_size = 4000 };
    static const char attributes[4000];
    static const tern_op one = { "one", .inputs = 1, .forward = identity_forward };
    static const tern_op three = { "three", .inputs = 3, .forward = identity_forward };
    tern_tensor *x = leaf(3);
    assert_null(tern_apply(NULL, x));
    assert_error(TERN_ERR_ARGUMENT, "the op or its inputs are NULL");
    assert_null(tern_apply(&wide, x, x, x, x, x, x, x, x, x));
    assert_error(TERN_ERR_ARGUMENT, "more than 8 inputs");
    assert_null(tern_apply_at(TERN_HERE, &heavy, &x, attributes));
    assert_error(TERN_ERR_ARGUMENT, "attributes of more than");
    assert_null(tern_apply(&nothing, x));
    assert_error(TERN_ERR_ARGUMENT, "neither forward nor rule");
    assert_null(tern_apply(&one, (tern_tensor *)NULL));
    assert_error(TERN_ERR_ARGUMENT, "input 0 is NULL");
    assert_null(tern_apply(&three, NULL, x, x));
    assert_non_null(strstr(tern_error_text(), "input 2   f64  [2]"));
    assert_error(TERN_ERR_ARGUMENT, "input 0 is NULL");
}

static void test_nothing_is_left_alive(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    {
        TERN_SCOPE;
        tern_tensor *x = leaf(3), *y = tern_sigmoid(tern_mul(x, x));
        tern_backward(tern_sum(y), .retain_graph = true);
        (void)tern_exp(y); /* a graph that nobody walks */
    }
    assert_int_equal(tern_live_tensors(), before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_shared_inputs_accumulate),
        TEST(test_add_of_two_leaves_gives_each_its_own_gradient),
        TEST(test_a_leaf_that_was_frozen_since_gets_nothing),
        TEST(test_a_leaf_that_was_changed_since_is_none),
        TEST(test_given_gradient_is_not_taken_over),
        TEST(test_no_grad_records_nothing),
        TEST(test_in_place_damage_is_found),
        TEST(test_in_place_on_a_result_is_recorded),
        TEST(test_in_place_keeps_what_backward_reads),
        TEST(test_a_freed_graph_is_an_error),
        TEST(test_hooks_see_and_change_gradients),
        TEST(test_gradients_of_chosen_tensors),
        TEST(test_gradients_of_gradients),
        TEST(test_a_million_nodes_do_not_recurse),
        TEST(test_gradient_may_be_a_view_of_a_buffer),
        TEST(test_roots_are_checked),
        TEST(test_a_buffer_written_again_has_the_history_of_before),
        TEST(test_gradcheck_finds_a_wrong_gradient),
        TEST(test_gradcheck_takes_no_infinity_and_no_nothing),
        TEST(test_gradcheck_leaves_nothing_in_owned_mode),
        TEST(test_gradcheck_along_one_direction),
        TEST(test_a_gradient_of_another_shape_is_an_error),
        TEST(test_a_hook_of_a_leaf_keeps_the_dtype),
        TEST(test_hooks_and_gradients_want_the_right_tensors),
        TEST(test_ops_of_ones_own_are_checked),
        TEST(test_nothing_is_left_alive),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
