/* Backwards of a part of a graph, and backwards inside others: what runs, and what it leaves as it was. */
#include "tests/support/leaves.h"

static tern_tensor *counted(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t;
    (void)grad;
    ++*(int *)user;
    return NULL;
}

/* ---- tern_grad: nodes that lead to no input ------------------------------------------------------ */

static void test_what_lies_behind_the_inputs_does_not_run(void **state)
{
    (void)state;
    TERN_SCOPE;
    int calls = 0;
    tern_tensor *w = leaf(3), *square = tern_mul(w, w), *h = tern_mul(square, 2), *got[1];
    tern_add_hook(square, counted, &calls);
    tern_backward(tern_sum(h)); /* frees what leads to h */
    assert_int_equal(calls, 1);
    assert_int_equal(tern_grad(tern_sum(tern_mul(h, h)), &h, 1, got), TERN_OK);
    assert_close(first(got[0]), 36, 0);
    assert_int_equal(calls, 1);
    assert_int_equal(tern_grad(tern_sum(tern_mul(h, h)), &h, 1, got), TERN_OK);
    assert_close(first(got[0]), 36, 0);
}

/* What was saved there stays, for a backward that comes to it. */
static void test_what_did_not_run_keeps_what_it_saved(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = leaf(3), *v = leaf(2), *h = tern_mul(w, w), *aside = tern_mul(v, v), *got[2];
    tern_tensor *y = tern_sum(tern_add(tern_mul(h, 5), aside));
    assert_int_equal(tern_grad(y, &h, 1, got), TERN_OK);
    assert_close(first(got[0]), 5, 0);
    tern_backward(tern_sum(tern_add(h, aside)));
    assert_no_error();
    assert_close(first(tern_grad_of(w)), 6, 0);
    assert_close(first(tern_grad_of(v)), 4, 0);
}

static void test_inputs_before_and_behind_each_other(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = leaf(3), *h = tern_mul(w, w), *g = tern_mul(h, h), *got[3];
    tern_tensor *y = tern_sum(tern_add(tern_mul(g, h), w));
    tern_tensor *const in[] = { g, w, h };
    assert_int_equal(tern_grad(y, in, 3, got, .retain_graph = true), TERN_OK);
    assert_close(first(got[0]), 9, 0);
    assert_close(first(got[1]), 6 * 243 + 1, 0);
    assert_close(first(got[2]), 243, 0);
    tern_tensor *unused = leaf(1), *none[1];
    assert_int_equal(tern_grad(y, &unused, 1, none, .allow_unused = true), TERN_OK);
    assert_null(none[0]);
    tern_backward(y); /* nothing ran, so nothing was freed */
    assert_no_error();
    assert_close(first(tern_grad_of(w)), 6 * 243 + 1, 0);
}

/* ---- one gradient for several inputs -------------------------------------------------------------- */

static tern_tensor *sum_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    (void)ctx;
    return tern_add(tern_add(in[0], in[1]), in[2]);
}
static void shared_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = grad_in[1] = grad_in[2] = grad;
}
static void half_shared_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = grad_in[2] = tern_mul(grad, 1);
    grad_in[1] = tern_mul(grad, 1);
}

/* The first two inputs are one tensor, whose gradient is added up, a leaf or not. */
static void test_a_gradient_of_several_inputs_stays_as_it_is(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const tern_op ops[] = {
        { "sum3", .inputs = 3, .forward = sum_forward, .backward = shared_backward },
        { "sum3", .inputs = 3, .forward = sum_forward, .backward = half_shared_backward },
    };
    for (int i = 0; i < 8; i++) {
        tern_tensor *x = leaf(1), *z = leaf(3);
        tern_tensor *h = (i & 2) != 0 ? tern_mul(x, 2) : x, *k = (i & 4) != 0 ? tern_mul(z, 2) : z;
        tern_backward(tern_sum(tern_mul(tern_apply(&ops[i & 1], h, h, k), 1)));
        assert_no_error();
        assert_close(first(tern_grad_of(x)), h != x ? 4 : 2, 0);
        assert_close(first(tern_grad_of(z)), k != z ? 2 : 1, 0);
    }
}

/* ---- what hooks and ops of one's own return ------------------------------------------------------- */

static tern_tensor *returns(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t;
    (void)grad;
    return user;
}

static void test_what_a_hook_returns_has_to_fit(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(1);
    tern_tensor *wrong[] = { tern_ones(TERN_SHAPE(1), TERN_F64),
                             tern_ones(TERN_SHAPE(2, 1), TERN_F64), tern_ones(TERN_SHAPE(2)) };
    for (int i = 0; i < 3; i++) {
        tern_tensor *y = tern_view(tern_mul(x, 1), TERN_SHAPE(2));
        tern_add_hook(y, returns, wrong[i]);
        assert_int_equal(tern_backward(tern_sum(tern_mul(y, 2))), TERN_ERR_GRAD);
        assert_error(TERN_ERR_GRAD, i == 0 ? "view: a hook returned a gradient [1] on c"
                                    : i == 1
                                        ? "view: a hook returned a gradient [2, 1] on c"
                                        : "a hook returned a gradient of f32 for a result of f64");
        assert_null(tern_grad_of(x));
    }
}

/* Which input's gradient is wrong, and how. */
typedef struct wrong {
    int32_t input;
    tern_dtype_t dtype;
    int64_t extent;
} wrong;

static void wrong_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const wrong *w = tern_op_attr(ctx);
    grad_in[0] = grad_in[1] = grad_in[2] = grad;
    grad_in[w->input] = tern_ones(TERN_SHAPE(w->extent), .dtype = w->dtype);
}

/* Also where the input is no leaf; another dtype is cast. */
static void test_what_a_backward_function_returns_has_to_fit(void **state)
{
    (void)state;
    static const tern_op op = { "wrong", .inputs = 3, .forward = sum_forward,
                                .backward = wrong_backward, .attr_size = sizeof(wrong) };
    for (int i = 0; i < 3; i++)
        for (int fits = 0; fits < 2; fits++) {
            TERN_SCOPE;
            tern_tensor *x = leaf(1), *in[3];
            for (int k = 0; k < 3; k++)
                in[k] = tern_view(tern_mul(x, 1), TERN_SHAPE(2));
            const wrong how = { i, fits ? TERN_F32 : TERN_F64, fits ? 2 : 1 };
            tern_backward(tern_sum(tern_apply_at(TERN_HERE, &op, in, &how)));
            if (fits) {
                assert_no_error();
                assert_close(first(tern_grad_of(x)), 3, 0);
            } else {
                assert_error(TERN_ERR_GRAD, "wrong: backward returned a gradient [1] on c");
                assert_null(tern_grad_of(x));
            }
        }
}

/* ---- gradients of gradients through ops of one's own --------------------------------------------- */

static tern_tensor *exp_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    tern_tensor *y = tern_exp(in[0]);
    tern_save(ctx, y);
    return y;
}
static tern_tensor *exp_view_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    tern_tensor *y = tern_view(tern_exp(in[0]), tern_shape(in[0]));
    tern_save(ctx, y); /* an alias of it is handed out */
    return y;
}
static void exp_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_saved(ctx, 0));
}
static tern_tensor *apply_op(tern_tensor *const *in, int64_t count, void *op)
{
    (void)count;
    return tern_apply((const tern_op *)op, in[0]);
}

static void test_a_saved_result_has_its_history(void **state)
{
    (void)state;
    TERN_SCOPE;
    static tern_op ops[] = {
        { "own_exp", .inputs = 1, .forward = exp_forward, .backward = exp_backward },
        { "own_exp_view", .inputs = 1, .forward = exp_view_forward, .backward = exp_backward },
    };
    for (int i = 0; i < 4; i++) {
        tern_tensor *x = leaf(0.5), *got[1], *again[1];
        tern_tensor *y =
            i < 2 ? tern_apply(&ops[i], x)
                  : tern_checkpoint(.fn = apply_op, .inputs = &x, .count = 1, .user = &ops[i - 2]);
        tern_grad(tern_sum(tern_mul(y, x)), &x, 1, got, .create_graph = true);
        assert_no_error();
        tern_grad(tern_sum(got[0]), &x, 1, again);
        assert_no_error();
        assert_close(first(again[0]), 2.5 * 1.6487212707, 1e-6); /* (x + 2) e^x */
    }
}

/* ---- inside another backward -------------------------------------------------------------------- */

static tern_tensor *silu_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    tern_save(ctx, in[0]);
    return tern_silu(in[0]);
}
/* Computes again, and takes the gradient of that. */
static void silu_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const bool grad_mode = tern_set_grad_enabled(true);
    tern_tensor *x = tern_saved(ctx, 0);
    tern_grad(tern_silu(x), &x, 1, grad_in, .gradient = grad);
    tern_set_grad_enabled(grad_mode);
}
static const tern_op own_silu = { "own_silu", .inputs = 1, .forward = silu_forward,
                                  .backward = silu_backward };

static void test_a_backward_function_may_take_gradients_of_what_it_saved(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = leaf(1.5), *v = leaf(1.5);
    tern_backward(tern_sum(tern_silu(tern_exp(tern_mul(v, v)))));
    for (int i = 0; i < 2; i++) {
        tern_set_grad(w, NULL);
        tern_tensor *h = tern_exp(tern_mul(w, w)), *y = tern_apply(&own_silu, h);
        if (i == 1)
            y = tern_sub(tern_add(y, h), h); /* the node waits for others, too */
        tern_backward(tern_sum(y));
        assert_no_error();
        assert_non_null(tern_grad_of(w));
        assert_close(first(tern_grad_of(w)), first(tern_grad_of(v)), 1e-9);
    }
}

typedef struct inner {
    tern_tensor *root, *in;
    double got;
    bool retain, inside;
} inner;

static tern_tensor *takes_gradient(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t;
    (void)grad;
    inner *i = user;
    tern_tensor *got[1];
    if (i->inside) /* the inner backward comes here, too */
        return NULL;
    i->inside = true;
    i->got = tern_grad(i->root, &i->in, 1, got, .retain_graph = i->retain) == TERN_OK
                 ? first(got[0])
                 : -1;
    tern_error_clear();
    return NULL;
}

static tern_tensor *times_ten(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t;
    (void)user;
    return tern_mul(grad, 10);
}

/* The leaf waits for a part of its gradient while a hook asks for one of the same leaf. */
static void test_hooks_of_leaves_inside_another_backward(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = leaf(1);
    tern_add_hook(w, times_ten, NULL);
    tern_tensor *a = tern_mul(w, 2), *b = tern_mul(w, 3), *c = tern_exp(tern_mul(b, 0));
    inner i = { .root = tern_sum(tern_mul(w, w)), .in = w };
    tern_add_hook(c, takes_gradient, &i);
    tern_backward(tern_sum(tern_add(tern_mul(a, 1), tern_add(c, b))));
    assert_no_error();
    assert_close(i.got, 20, 0);
    assert_close(first(tern_grad_of(w)), 50, 0);
}

/* Over the very nodes that the outer one runs, has on its list and has gradients in; and where the inner one fails. */
static void test_the_same_nodes_inside_another_backward(void **state)
{
    (void)state;
    for (int retain = 0; retain < 2; retain++)
        for (int at = 0; at < 3; at++) {
            TERN_SCOPE;
            tern_tensor *w = leaf(2), *h = tern_mul(w, w), *a = tern_mul(h, h), *b = tern_mul(h, 3);
            tern_tensor *sum = tern_add(a, b), *y = tern_sum(tern_mul(sum, h));
            tern_tensor *const where[] = { sum, b, h };
            inner i = { .root = y, .in = w, .retain = true };
            tern_add_hook(where[at], takes_gradient, &i);
            tern_backward(y, .retain_graph = retain != 0);
            assert_no_error();
            /* (h^2 + 3 h) h = w^6 + 3 w^4 */
            assert_close(first(tern_grad_of(w)), 6 * 32 + 12 * 8, 0);
            /* where the outer one has freed nodes the inner one fails, and the outer goes on */
            assert_close(i.got, retain != 0 ? 6 * 32 + 12 * 8 : -1, 0);
        }
}

/* A linear layer drops its input as soon as it has used it: not in a backward inside the one that needs it, too. */
static void test_an_inner_backward_leaves_what_the_outer_one_needs(void **state)
{
    (void)state;
    for (int retain = 0; retain < 2; retain++) {
        TERN_SCOPE;
        tern_tensor *x = tern_full(3, TERN_SHAPE(1, 1), .requires_grad = true);
        tern_tensor *w = tern_full(2, TERN_SHAPE(1, 1), .requires_grad = true);
        tern_tensor *y = tern_linear(x, w, NULL);
        inner i = { .root = tern_sum(y), .in = w };
        tern_add_hook(y, takes_gradient, &i);
        tern_backward(tern_sum(y), .retain_graph = retain != 0);
        assert_no_error();
        assert_close(i.got, 3, 0);
        assert_close(tern_item(tern_grad_of(w)), 3, 0);
        assert_close(tern_item(tern_grad_of(x)), 2, 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_what_lies_behind_the_inputs_does_not_run),
        TEST(test_what_did_not_run_keeps_what_it_saved),
        TEST(test_inputs_before_and_behind_each_other),
        TEST(test_a_gradient_of_several_inputs_stays_as_it_is),
        TEST(test_what_a_hook_returns_has_to_fit),
        TEST(test_what_a_backward_function_returns_has_to_fit),
        TEST(test_a_saved_result_has_its_history),
        TEST(test_a_backward_function_may_take_gradients_of_what_it_saved),
        TEST(test_hooks_of_leaves_inside_another_backward),
        TEST(test_the_same_nodes_inside_another_backward),
        TEST(test_an_inner_backward_leaves_what_the_outer_one_needs),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
