/* Writing tensors with a history and views of them: each case as PyTorch 2.15 does it. */
#include <math.h>

#include "tests/support/check.h"

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

static tern_tensor *numbers(const double *v, int64_t n)
{
    return tern_from_data(v, TERN_SHAPE(n), TERN_F64);
}
#define NUMBERS(...) numbers((double[]){ __VA_ARGS__ }, TERN_COUNT_(__VA_ARGS__))

/* 1 2 3 4 */
static tern_tensor *leaf(void)
{
    return tern_set_requires_grad(NUMBERS(1, 2, 3, 4), true);
}
static tern_tensor *doubled(tern_tensor *x)
{
    return tern_mul(x, 2);
}
static tern_tensor *two(tern_tensor *t)
{
    return tern_slice(t, 0, 0, 2);
}

static void check(tern_tensor *t, int n, const double *wanted)
{
    double got[8] = { 0 };
    assert_no_error();
    assert_non_null(t);
    assert_int_equal(tern_numel(t), n);
    assert_int_equal(tern_read(t, TERN_F64, got, (int64_t)sizeof got[0] * n), TERN_OK);
    for (int i = 0; i < n; i++)
        assert_close(got[i], wanted[i], 1e-12);
}
#define assert_values(t, ...) check(t, TERN_COUNT_(__VA_ARGS__), (double[]){ __VA_ARGS__ })
#define assert_gradient(root, x, ...)                \
    do {                                             \
        (void)tern_backward(tern_sum(root));         \
        assert_values(tern_grad_of(x), __VA_ARGS__); \
    } while (0)

/* ---- what is an error ---------------------------------------------------------------------------- */

static void test_leaves_and_their_views(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf();
    assert_null(tern_add_(x, 1));
    assert_error(TERN_ERR_GRAD, "a leaf that requires a gradient cannot be changed");
    assert_null(tern_add_(two(x), 1));
    assert_error(TERN_ERR_GRAD, "a view of a leaf that requires a gradient");
    assert_null(tern_add_(tern_view(x, TERN_SHAPE(2, 2)), 1));
    assert_error(TERN_ERR_GRAD, "a view of a leaf");
    tern_tensor *plain = tern_zeros(TERN_SHAPE(4), TERN_F64);
    tern_tensor *v = tern_set_requires_grad(two(plain), true);
    assert_non_null(tern_mul_(plain, 2));
    assert_true(tern_requires_grad(v) && !tern_requires_grad(plain));
    assert_null(tern_mul_(v, 2));
    assert_error(TERN_ERR_GRAD, "a leaf that requires a gradient");
    assert_values(plain, 0, 0, 0, 0);
}

/* A leaf may be a view of what requires no gradient: what is written through its own views would be lost for it. */
static void test_a_leaf_that_is_a_view(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *plain = tern_ones(TERN_SHAPE(6), TERN_F64);
    tern_tensor *before = tern_slice(plain, 0, 0, 2);
    tern_tensor *y = tern_set_requires_grad(tern_view(plain, TERN_SHAPE(3, 2)), true);
    tern_tensor *row = tern_select(y, 0, 0);
    tern_tensor *const views[] = { row, tern_select(row, 0, 1), tern_flatten(y, 0, 1) };
    for (int i = 0; i < 3; i++) {
        assert_null(tern_mul_(views[i], 2));
        assert_error(TERN_ERR_GRAD, "a view of a leaf that requires a gradient");
    }
    assert_non_null(tern_mul_(before, 2)); /* no gradient takes part, as in PyTorch */
    assert_non_null(tern_mul_(tern_select(tern_detach(y), 0, 0), 2));
    assert_true(tern_is_leaf(y));
    assert_values(tern_flatten(tern_detach(y), 0, 1), 4, 4, 1, 1, 1, 1);
    {
        TERN_NO_GRAD;
        assert_non_null(tern_mul_(tern_select(y, 0, 2), 3));
    }
    (void)tern_backward(tern_sum(tern_square(y)));
    assert_values(tern_flatten(tern_grad_of(y), 0, 1), 8, 8, 2, 2, 6, 6);
}

/* Also of ops that are made of others: in TERN_NO_GRAD a leaf is memory like any other. */
static void test_leaves_are_written_in_no_grad(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *p = tern_set_requires_grad(tern_full(3, TERN_SHAPE(2)), true);
    tern_tensor *mask = tern_from_data(((const bool[]){ true, false }), TERN_SHAPE(2), TERN_BOOL);
    tern_tensor *wide = tern_full(2, TERN_SHAPE(2), TERN_F64);
    {
        TERN_NO_GRAD;
        tern_masked_fill_(p, mask, 1);
        check_elements(p, (const float[]){ 1, 3 }, 2);
        tern_add_(p, wide);
        check_elements(p, (const float[]){ 3, 5 }, 2);
        tern_clamp_min_(p, tern_full(4, TERN_SHAPE(2)));
        check_elements(p, (const float[]){ 4, 5 }, 2);
        tern_gt_(tern_slice(p, 0, 0, 1), 3);
        check_elements(p, (const float[]){ 1, 5 }, 2);
        assert_no_error();
    }
    assert_null(tern_masked_fill_(p, mask, 1));
    assert_error(TERN_ERR_GRAD, "a leaf that requires a gradient cannot be changed in place");
}

static void test_views_made_in_no_grad(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = doubled(x), *plain = tern_zeros(TERN_SHAPE(4), TERN_F64);
    tern_tensor *v, *w, *u, *deep;
    {
        TERN_NO_GRAD;
        v = two(y);
        w = two(plain);
        u = two(x);
    }
    deep = tern_unsqueeze(v, 0);
    tern_tensor *const forbidden[] = { v, u, deep };
    for (int i = 0; i < 3; i++) {
        assert_null(tern_mul_(forbidden[i], 3));
        assert_true(
            strstr(tern_error_text(), i == 1 ? "a view of a leaf" : "made in TERN_NO_GRAD"));
        tern_error_clear();
    }
    assert_null(tern_mul_(w, two(x)));
    assert_error(TERN_ERR_GRAD, "made in TERN_NO_GRAD");
    assert_non_null(tern_add_(w, 1)); /* no gradient takes part */
    assert_values(plain, 1, 1, 0, 0);
    {
        TERN_NO_GRAD;
        tern_mul_(v, 3);
        tern_mul_(u, 3);
    }
    assert_gradient(y, x, 2, 2, 2, 2);
    assert_values(x, 3, 6, 3, 4);
}

static void test_what_was_saved_is_guarded(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = tern_exp(x);
    tern_mul_(y, 2);
    tern_backward(tern_sum(y));
    assert_error(TERN_ERR_GRAD, "changed in place once");
    y = doubled(x);
    tern_tensor *z = tern_mul(y, y);
    tern_add_(tern_slice(y, 0, 0, 1), 1);
    tern_backward(tern_sum(z));
    assert_error(TERN_ERR_GRAD, "changed in place once");
    y = tern_exp(x);
    tern_mul_(tern_detach(y), 3); /* one storage, one version */
    tern_backward(tern_sum(y));
    assert_error(TERN_ERR_GRAD, "changed in place once");
    y = doubled(x);
    tern_mul_(y, y);
    tern_backward(tern_sum(y));
    assert_error(TERN_ERR_GRAD, "in place");
    y = doubled(x);
    tern_mul_(two(y), two(y));
    tern_backward(tern_sum(y));
    assert_error(TERN_ERR_GRAD, "in place");
    tern_add_(tern_detach(x), 1); /* x and its product with itself */
    tern_tensor *square = tern_mul(x, x);
    tern_add_(tern_detach(x), 1);
    tern_backward(tern_sum(square));
    assert_error(TERN_ERR_GRAD, "changed in place once");
    assert_null(tern_mul_(tern_expand(doubled(tern_slice(x, 0, 0, 1)), TERN_SHAPE(3)), 2));
    assert_true(tern_failed());
}

/* ---- gradients ----------------------------------------------------------------------------------- */

static void test_a_view_is_written_and_the_owner_used(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = doubled(x), *v = two(y);
    tern_mul_(v, 3);
    assert_gradient(tern_mul(y, NUMBERS(1, 10, 100, 1000)), x, 6, 60, 200, 2000);
}

static void test_a_view_is_written_and_used(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = doubled(x), *v = two(y);
    tern_mul_(v, 3);
    assert_false(tern_is_leaf(v));
    assert_values(v, 6, 12);
    assert_gradient(v, x, 6, 6, 0, 0);
}

static void test_the_owner_is_written_and_a_view_used(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = doubled(x), *v = two(y);
    tern_mul_(y, 3);
    assert_gradient(v, x, 6, 6, 0, 0);
}

static void test_used_before_and_after(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = doubled(x), *v = two(y), *z = tern_mul(v, 1);
    tern_mul_(v, 3);
    assert_gradient(tern_add(tern_sum(z), tern_sum(y)), x, 8, 8, 2, 2);
}

static void test_views_of_views(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = doubled(x), *v = two(y);
    tern_mul_(tern_slice(v, 0, 0, 1), 5);
    assert_values(v, 10, 4);
    assert_gradient(y, x, 10, 2, 2, 2);
    x = leaf();
    y = doubled(x);
    v = two(y);
    tern_mul_(tern_slice(v, 0, 0, 1), 5);
    assert_gradient(v, x, 10, 2, 0, 0);
    x = leaf();
    y = doubled(x);
    tern_tensor *factors = tern_view(NUMBERS(1, 2, 3, 4), TERN_SHAPE(2, 2));
    tern_mul_(tern_transpose(tern_view(y, TERN_SHAPE(2, 2)), 0, 1), factors);
    assert_gradient(y, x, 2, 6, 4, 8);
}

static void test_plain_memory_gets_a_history(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *b = tern_zeros(TERN_SHAPE(4), TERN_F64);
    tern_tensor *other = tern_slice(b, 0, 2, 4);
    tern_copy(two(b), two(x));
    assert_true(tern_requires_grad(b) && tern_requires_grad(other));
    assert_gradient(b, x, 1, 1, 0, 0);
    x = leaf();
    b = tern_zeros(TERN_SHAPE(4), TERN_F64);
    tern_tensor *v = two(b);
    assert_false(tern_requires_grad(v));
    tern_copy(b, x);
    assert_true(tern_requires_grad(v));
    assert_gradient(v, x, 1, 1, 0, 0);
}

static void test_many_writes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(NUMBERS(1, 1, 1, 1), true);
    tern_tensor *b = tern_zeros(TERN_SHAPE(4), TERN_F64);
    tern_copy(two(b), two(x));
    tern_fill(tern_slice(b, 0, 2, 4), 5);
    tern_mul_(tern_slice(b, 0, 0, 1), 3);
    tern_tensor *w = tern_view(b, TERN_SHAPE(2, 2));
    tern_add_(b, x);
    tern_mul_(tern_select(w, 0, 0), 2);
    assert_gradient(b, x, 8, 4, 1, 1);
}

static void test_columns_in_a_loop(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(NUMBERS(1, 2, 3), true);
    tern_tensor *y = tern_zeros(TERN_SHAPE(3, 2), TERN_F64);
    for (int i = 0; i < 2; i++)
        tern_copy(tern_select(y, 1, i), tern_mul(x, i + 1));
    assert_gradient(tern_mul(y, y), x, 10, 20, 30);
}

static void test_constants_stop_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = doubled(x);
    tern_fill(two(y), 0);
    assert_gradient(y, x, 0, 0, 2, 2);
    x = leaf();
    y = doubled(x);
    tern_fill(y, 0);
    assert_true(tern_requires_grad(y));
    assert_gradient(y, x, 0, 0, 0, 0);
    x = leaf();
    y = doubled(x);
    tern_copy(y, tern_zeros(TERN_SHAPE(4), TERN_F64));
    assert_gradient(y, x, 0, 0, 0, 0);
    x = leaf();
    y = doubled(x);
    tern_fill(tern_slice(y, 0, 1, 3), 7);
    assert_gradient(y, x, 2, 0, 0, 2);
}

/* What was there has a gradient, of zeros: also where what comes has a history. */
static void test_what_is_replaced_has_zeros(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *w = leaf(), *u = leaf(), *y = doubled(x), *g[2];
    tern_copy(y, tern_mul(w, 3));
    assert_gradient(y, x, 0, 0, 0, 0);
    assert_values(tern_grad_of(w), 3, 3, 3, 3);
    y = doubled(x);
    tern_tensor *v = two(y), *z = tern_add(y, 1), *one = tern_set_requires_grad(NUMBERS(1), true);
    tern_copy(y, one); /* broadcast */
    assert_gradient(tern_add(tern_sum(v), tern_sum(z)), x, 2, 2, 2, 2);
    assert_values(tern_grad_of(one), 2);
    x = leaf();
    y = doubled(x);
    tern_copy(y, tern_cast(w, TERN_F16));
    tern_copy(y, u);
    assert_gradient(y, u, 1, 1, 1, 1);
    assert_values(tern_grad_of(x), 0, 0, 0, 0);
    assert_values(tern_grad_of(w), 3, 3, 3, 3);
    x = leaf();
    y = doubled(x);
    tern_copy(y, tern_mul(y, 3)); /* one way leads on, the other ends */
    assert_gradient(y, x, 6, 6, 6, 6);
    y = doubled(x);
    tern_copy(y, tern_mul(tern_mul(w, w), w));
    tern_grad(tern_sum(y), (tern_tensor *[]){ x, w }, 2, g, .create_graph = true);
    assert_values(g[0], 0, 0, 0, 0);
    assert_false(tern_requires_grad(g[0]));
    tern_grad(tern_sum(g[1]), &w, 1, g);
    assert_values(g[0], 6, 12, 18, 24);
    x = tern_set_requires_grad(NUMBERS(0, 1), true);
    y = tern_log(x);
    tern_copy(y, NUMBERS(5, 5)); /* zeros go on: 0 / 0 is what PyTorch has, too */
    (void)tern_backward(tern_sum(y));
    assert_true(isnan(tern_item(tern_slice(tern_grad_of(x), 0, 0, 1))));
    assert_values(tern_slice(tern_grad_of(x), 0, 1, 2), 0);
}

static void test_detached_memory_is_its_own(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = doubled(x), *d = tern_detach(y);
    tern_mul_(d, 3);
    assert_values(y, 6, 12, 18, 24);
    assert_gradient(y, x, 2, 2, 2, 2);
    x = leaf();
    y = doubled(x);
    d = tern_detach(y);
    tern_add_(d, x);
    assert_true(tern_requires_grad(d));
    assert_gradient(y, x, 2, 2, 2, 2);
    assert_gradient(d, x, 3, 3, 3, 3); /* added to the two of before */
}

static void test_views_whose_elements_lie_on_each_other(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = doubled(x);
    tern_tensor *v = tern_expand(tern_slice(y, 0, 0, 1), TERN_SHAPE(3));
    tern_mul_(y, 3);
    assert_gradient(v, x, 18, 0, 0, 0);
    x = leaf();
    y = doubled(x);
    v = tern_unfold(y, 0, 3, 1);
    tern_mul_(y, 3);
    assert_gradient(v, x, 6, 12, 12, 6);
}

static void test_gradients_of_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = doubled(x), *g[1], *h[1];
    tern_mul_(two(y), 3);
    tern_grad(tern_sum(tern_mul(y, y)), &x, 1, g, .create_graph = true);
    assert_values(g[0], 72, 144, 24, 32);
    tern_grad(tern_sum(tern_mul(g[0], g[0])), &x, 1, h);
    assert_values(h[0], 10368, 20736, 384, 512);
}

static void test_another_dtype(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = tern_cast(doubled(x), TERN_F16);
    tern_mul_(two(y), NUMBERS(2, 3));
    assert_int_equal(tern_dtype(y), TERN_F16);
    assert_gradient(y, x, 4, 6, 2, 2);
}

/* ---- who sees which gradient --------------------------------------------------------------------- */

static int hooked;
static double seen[4];

static tern_tensor *listen(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t, (void)user;
    hooked++;
    (void)tern_read(grad, TERN_F64, seen, sizeof seen);
    return NULL;
}

static void test_hooks_belong_to_what_was_there(void **state)
{
    (void)state;
    TERN_SCOPE;
    hooked = 0;
    tern_tensor *x = leaf(), *y = doubled(x), *v = two(y);
    tern_add_hook(v, listen, NULL);
    tern_mul_(v, 3);
    assert_gradient(y, x, 6, 6, 2, 2);
    assert_int_equal(hooked, 0);
    x = leaf();
    y = doubled(x);
    tern_add_hook(y, listen, NULL);
    tern_mul_(two(y), 3);
    assert_gradient(y, x, 6, 6, 2, 2);
    assert_int_equal(hooked, 1);
    assert_memory_equal(seen, ((double[]){ 3, 3, 1, 1 }), sizeof seen);
}

static tern_tensor *change(int which, tern_tensor *v)
{
    const bool mask[] = { true, false };
    const int64_t two_places[] = { 0, 1 };
    tern_tensor *w = NUMBERS(0.5, 0.5), *zero = tern_zeros(TERN_SHAPE(2), TERN_I64);
    tern_tensor *places = tern_from_data(two_places, TERN_SHAPE(2), TERN_I64);
    switch (which) {
    case 0:
        return tern_clamp_(v, -50, 50);
    case 1:
        return tern_clamp_(v, NUMBERS(-50), NUMBERS(50));
    case 2:
        return tern_pow_(v, 2.0);
    case 3:
        return tern_lerp_(v, w, 0.5);
    case 4:
        return tern_addcmul_(v, w, w, 1);
    case 5:
        return tern_addcdiv_(v, w, w, 1);
    case 6:
        return tern_masked_fill_(v, tern_from_data(mask, TERN_SHAPE(2), TERN_BOOL), 1);
    case 7:
        return tern_hypot_(v, w);
    case 8:
        return tern_atan2_(v, w);
    case 9:
        return tern_silu_(v);
    case 10:
        return tern_elu_(v);
    case 11:
        return tern_square_(v);
    case 12:
        return tern_mul_(v, w); /* of a wider dtype */
    case 13:
        return tern_mul_(two(v), 3);
    default:
        return tern_index_put_(tern_unsqueeze(v, 0), 1, false, zero, places);
    }
}

/* Also where an op reads what it overwrites from a copy, or computes aside. */
static void test_hooks_of_views_where_a_copy_is_read(void **state)
{
    (void)state;
    for (int which = 0; which < 15; which++) {
        TERN_SCOPE;
        double wanted[4];
        for (int hooks = 0; hooks < 2; hooks++) {
            tern_tensor *x = leaf(), *y = tern_cast(doubled(x), which == 12 ? TERN_F32 : TERN_F64);
            tern_tensor *v = two(y);
            hooked = 0;
            if (hooks)
                tern_add_hook(v, listen, NULL);
            assert_non_null(change(which, v));
            tern_backward(tern_sum(tern_mul(y, NUMBERS(1, 10, 100, 1000))));
            assert_no_error();
            if (hooks)
                check(tern_grad_of(x), 4, wanted);
            else
                (void)tern_read(tern_grad_of(x), TERN_F64, wanted, sizeof wanted);
            assert_int_equal(hooked, 0);
        }
    }
}

/* Of the same view as another operand it is what that op is made of. */
static void test_a_hook_of_a_view_that_is_added_to_itself(void **state)
{
    (void)state;
    TERN_SCOPE;
    hooked = 0;
    tern_tensor *x = leaf(), *y = doubled(x), *v = two(y);
    tern_add_hook(v, listen, NULL);
    tern_add_(v, v);
    assert_gradient(y, x, 4, 4, 2, 2);
    assert_int_equal(hooked, 1);
}

static void test_a_hook_hears_of_what_is_replaced(void **state)
{
    (void)state;
    TERN_SCOPE;
    hooked = 0;
    tern_tensor *x = leaf(), *y = doubled(x);
    tern_add_hook(y, listen, NULL);
    tern_copy(y, tern_mul(leaf(), 3));
    assert_gradient(y, x, 0, 0, 0, 0);
    assert_int_equal(hooked, 1);
    assert_memory_equal(seen, ((double[]){ 0, 0, 0, 0 }), sizeof seen);
}

static void test_a_view_is_not_what_its_owner_is_made_of(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(), *y = doubled(x), *v = two(y), *g[1];
    tern_grad(tern_sum(y), &v, 1, g, .allow_unused = true);
    assert_null(g[0]);
    y = doubled(x);
    v = two(y);
    tern_mul_(v, 3);
    tern_grad(tern_sum(y), &v, 1, g, .allow_unused = true, .retain_graph = true);
    assert_no_error();
    assert_null(g[0]);
    tern_grad(tern_sum(v), &x, 1, g);
    assert_values(g[0], 6, 6, 0, 0);
}

/* tern_tensor_replace gives the owner other memory: its views keep theirs, and are none any more. */
static void test_views_of_memory_that_was_replaced(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *t = tern_zeros(TERN_SHAPE(6)), *w = tern_ones(TERN_SHAPE(6));
    tern_set_requires_grad(w, true);
    tern_tensor *v = tern_slice(t, 0, 1, 3), *written = tern_slice(t, 0, 3, 5);
    assert_int_equal(tern_tensor_replace(t, tern_full(5, TERN_SHAPE(6))), TERN_OK);
    tern_tensor *alone = tern_slice(w, 0, 4, 6);
    tern_add_(written, alone); /* with nothing written to the owner before */
    assert_false(tern_requires_grad(t));
    tern_add_(t, w);
    check_elements(tern_detach(t), (const float[]){ 6, 6, 6, 6, 6, 6 }, 6);
    assert_false(tern_requires_grad(v));
    check_elements(v, (const float[]){ 0, 0 }, 2);
    tern_backward(tern_add(tern_sum(t), tern_sum(written)));
    check_elements(tern_grad_of(w), (const float[]){ 1, 1, 1, 1, 2, 2 }, 6);
    assert_no_error();
}

static void test_nothing_is_left_alive(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    {
        TERN_SCOPE;
        tern_tensor *x = leaf(), *y = doubled(x), *v = two(y);
        tern_mul_(v, 3);
        tern_mul_(y, 3);
        tern_requires_grad(v);
        tern_add_(v, 1);
        tern_backward(tern_sum(v));
        assert_no_error();
    }
    assert_int_equal(tern_live_tensors(), before);
}

#define TEST(name) cmocka_unit_test_setup(name, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_leaves_and_their_views),
        TEST(test_a_leaf_that_is_a_view),
        TEST(test_leaves_are_written_in_no_grad),
        TEST(test_views_made_in_no_grad),
        TEST(test_what_was_saved_is_guarded),
        TEST(test_a_view_is_written_and_the_owner_used),
        TEST(test_a_view_is_written_and_used),
        TEST(test_the_owner_is_written_and_a_view_used),
        TEST(test_used_before_and_after),
        TEST(test_views_of_views),
        TEST(test_plain_memory_gets_a_history),
        TEST(test_many_writes),
        TEST(test_columns_in_a_loop),
        TEST(test_constants_stop_gradients),
        TEST(test_what_is_replaced_has_zeros),
        TEST(test_detached_memory_is_its_own),
        TEST(test_views_whose_elements_lie_on_each_other),
        TEST(test_gradients_of_gradients),
        TEST(test_another_dtype),
        TEST(test_hooks_belong_to_what_was_there),
        TEST(test_hooks_of_views_where_a_copy_is_read),
        TEST(test_a_hook_of_a_view_that_is_added_to_itself),
        TEST(test_a_hook_hears_of_what_is_replaced),
        TEST(test_a_view_is_not_what_its_owner_is_made_of),
        TEST(test_views_of_memory_that_was_replaced),
        TEST(test_nothing_is_left_alive),
    };
    return check_run(tests, NULL, NULL);
}
