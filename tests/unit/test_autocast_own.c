/* Autocast: ops of one's own, and what tern_amp_explain says. Rows A033, A038-A040. */
#include "tests/support/check.h"

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    tern_amp_reset();
    return 0;
}

static tern_tensor *filled(tern_dtype_t dtype)
{
    return tern_mul(tern_ones(TERN_SHAPE(4, 4), .dtype = dtype), 0.5);
}

static tern_tensor *weight(void)
{
    return tern_set_requires_grad(tern_mul(tern_ones(TERN_SHAPE(4, 4)), 0.25), true);
}

/* ---- ops of one's own ---------------------------------------------------------------------------- */

static tern_dtype_t seen_dtype, back_dtype;
static bool seen_on, back_on;

static tern_tensor *own_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    seen_dtype = tern_dtype(in[0]);
    seen_on = tern_autocast_enabled(TERN_CPU);
    tern_save(ctx, in[0]);
    return tern_mul(in[0], 2);
}

static void own_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)tern_saved(ctx, 0);
    back_on = tern_autocast_enabled(TERN_CPU);
    back_dtype = tern_autocast_dtype(TERN_CPU);
    grad_in[0] = tern_mul(grad, 2);
}

static const tern_op as_it_comes = {
    .name = "as_it_comes", .inputs = 1, .forward = own_forward, .backward = own_backward
};
static const tern_op wants_f32 = { .name = "wants_f32",
                                   .inputs = 1,
                                   .forward = own_forward,
                                   .backward = own_backward,
                                   .cast_cpu = TERN_CAST_F32,
                                   .cast_cuda = TERN_CAST_F32 };
static const tern_op wants_low = { .name = "wants_low",
                                   .inputs = 1,
                                   .forward = own_forward,
                                   .backward = own_backward,
                                   .cast_cpu = TERN_CAST_LOW };
static const tern_op unsafe = { .name = "unsafe_loss",
                                .inputs = 1,
                                .forward = own_forward,
                                .backward = own_backward,
                                .cast_cpu = TERN_CAST_BANNED,
                                .cast_advice = "unsafe_loss_with_logits, which is safe" };

static void test_an_op_of_ones_own_replays_the_setting(void **state) /* A038, A040 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = weight(), *y;
    {
        TERN_AUTOCAST(TERN_CPU, TERN_F16);
        y = tern_apply(&as_it_comes, x);
    }
    assert_true(seen_on);
    assert_int_equal(seen_dtype, TERN_F32);
    tern_backward(tern_sum(y));
    assert_true(back_on);
    assert_int_equal(back_dtype, TERN_F16);
    assert_false(tern_autocast_enabled(TERN_CPU));
    assert_int_equal(tern_autocast_dtype(TERN_CPU), TERN_BF16);
    y = tern_apply(&as_it_comes, x);
    {
        TERN_AUTOCAST(TERN_CPU, TERN_BF16);
        tern_backward(tern_sum(y));
    }
    assert_false(back_on);
    assert_no_error();
}

/* ---- what backward runs again -------------------------------------------------------------------- */

static tern_tensor *linear_of(tern_tensor *const *in, int64_t count, void *user)
{
    (void)count;
    (void)user;
    return tern_tanh(tern_linear(in[0], in[1], NULL));
}

static tern_tensor *matmul_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    tern_save(ctx, in[1]);
    return tern_matmul(in[0], in[1]);
}
static void matmul_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_matmul(grad, tern_saved(ctx, 0)); /* casts the weight */
}

/* Casts of weights that backward makes outside of regions are let go, as at the end of a region. */
static void test_backward_leaves_no_cached_casts(void **state)
{
    (void)state;
    static const tern_op op = { "own_matmul", .inputs = 2, .forward = matmul_forward,
                                .backward = matmul_backward };
    const tern_dev_t dev = tern_default_device();
    for (int own = 0; own < 2; own++) {
        const int64_t before = tern_live_tensors();
        {
            TERN_SCOPE;
            tern_tensor *x = tern_ones(TERN_SHAPE(4, 4), .requires_grad = true), *y;
            tern_tensor *w = tern_full(0.25, TERN_SHAPE(4, 4), .requires_grad = true);
            tern_tensor *const in[] = { x, w };
            {
                TERN_AUTOCAST(dev, TERN_BF16);
                y = own ? tern_apply(&op, x, w)
                        : tern_checkpoint(.fn = linear_of, .inputs = in, .count = 2);
            }
            tern_backward(tern_sum(tern_cast(y, TERN_F32)));
            assert_no_error();
            assert_non_null(tern_grad_of(x));
        }
        assert_int_equal(tern_live_tensors(), before);
    }
}

static void test_an_op_of_ones_own_states_its_class(void **state) /* A039 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = weight();
    {
        TERN_AUTOCAST(TERN_CPU, TERN_BF16);
        tern_tensor *low = tern_apply(&wants_low, x);
        assert_int_equal(seen_dtype, TERN_BF16);
        assert_false(seen_on);
        assert_true(tern_autocast_enabled(TERN_CPU));
        tern_tensor *y = tern_apply(&wants_f32, low);
        assert_int_equal(tern_dtype(y), TERN_F32);
        tern_backward(tern_sum(y));
        assert_false(back_on);
        assert_int_equal(tern_dtype(tern_grad_of(x)), TERN_F32);
        assert_close(tern_item(tern_amax(tern_grad_of(x))), 4, 0);
    }
    tern_apply(&wants_low, x); /* outside: no casting at all */
    assert_int_equal(seen_dtype, TERN_F32);
    assert_no_error();
}

static void test_a_banned_op_is_an_error_with_advice(void **state) /* A033 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = filled(TERN_F32);
    assert_non_null(tern_apply(&unsafe, x));
    TERN_AUTOCAST(TERN_CPU, TERN_F16);
    assert_null(tern_apply(&unsafe, x));
    assert_error(TERN_ERR_DTYPE, "unsafe to autocast");
    assert_null(tern_apply(&unsafe, x));
    assert_error(TERN_ERR_DTYPE, "try unsafe_loss_with_logits");
}

/* ---- explaining ---------------------------------------------------------------------------------- */

static void test_explain_lists_ops_dtypes_and_casts(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = weight(), *x = filled(TERN_F32);
    {
        TERN_AUTOCAST(TERN_CPU, TERN_BF16);
        tern_softmax(tern_matmul(x, w), 1);
        tern_matmul(x, w);
    }
    char text[2048];
    const int64_t whole = tern_amp_explain(text, sizeof text);
    assert_int_equal(whole, strlen(text));
    assert_non_null(strstr(text, "gemm               cpu   bf16  low"));
    assert_non_null(strstr(text, "softmax            cpu   bf16  as it comes"));
    assert_non_null(strstr(text, "computed in f32"));
    assert_int_equal(tern_amp_counted().calls, 3);
    assert_int_equal(tern_amp_counted().casts, 3);
    char cut[32];
    assert_int_equal(tern_amp_explain(cut, sizeof cut), whole);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_int_equal(tern_amp_explain(NULL, 0), whole);
    tern_amp_reset();
    assert_int_equal(tern_amp_counted().calls, 0);
}

/* The largest of row 0 of the weight, seen through a product of a region: ones times w. */
static double seen(tern_tensor *w)
{
    tern_tensor *ones = tern_ones(TERN_SHAPE(1, tern_size(w, 0)));
    return tern_item(tern_select(tern_view(tern_matmul(ones, w), TERN_SHAPE(-1)), 0, 0));
}

static tern_tensor *detached_leaf(tern_tensor *t)
{
    return tern_set_requires_grad(tern_detach(t), true);
}

/* The same object and the same memory, read another way: in another order, from another place, in another
 * shape. */
static void test_a_weight_that_shows_other_elements_is_cast_anew(void **state)
{
    (void)state;
    TERN_SCOPE;
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    tern_tensor *all = tern_view(tern_arange(0, 18, .dtype = TERN_F32), TERN_SHAPE(2, 3, 3));
    tern_tensor *w = detached_leaf(tern_select(all, 0, 0));
    assert_close(seen(w), 0 + 3 + 6, 0);
    tern_tensor_replace(w, tern_detach(tern_transpose(w, 0, 1)));
    assert_close(seen(w), 0 + 1 + 2, 0);
    tern_tensor_replace(w, tern_detach(tern_select(all, 0, 1)));
    assert_close(seen(w), 9 + 12 + 15, 0);
    tern_tensor_replace(w, tern_detach(tern_view(tern_select(all, 0, 1), TERN_SHAPE(9, 1))));
    assert_close(seen(w), 9 * (9 + 17) / 2, 0);
    assert_int_equal(tern_amp_counted().cached, 0);
    assert_close(seen(w), 9 * (9 + 17) / 2, 0);
    assert_int_equal(tern_amp_counted().cached, 1);
    assert_no_error();
}

/* The memory that the weight had is given back, and the next of that size has its address. */
static void test_a_weight_in_memory_that_was_given_back_is_cast_anew(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 2, 64, 512 }; /* in a tensor, from a thread's lists, large */
    for (int i = 0; i < 3; i++) {
        TERN_SCOPE;
        const tern_shape_t shape = TERN_SHAPE(sizes[i], sizes[i]);
        const double rows = (double)sizes[i];
        TERN_AUTOCAST(TERN_CPU, TERN_BF16);
        tern_tensor *w = tern_full(1, shape, .requires_grad = true);
        for (int round = 1; round < 9; round++) {
            assert_close(seen(w), rows * round, 0);
            for (int k = round; k < round + 2; k++) { /* the first makes place for the second */
                TERN_SCOPE;
                tern_tensor_replace(w, tern_full(k == round ? -1 : k, shape));
            }
        }
        assert_no_error();
    }
}

static void test_many_weights_and_ops_fit_the_tables(void **state)
{
    (void)state;
    TERN_SCOPE;
    enum { MANY = 200 };
    tern_tensor *x = filled(TERN_F32), *w[MANY];
    for (int i = 0; i < MANY; i++)
        w[i] = weight();
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MANY; i++)
            tern_matmul(x, w[i]);
    assert_int_equal(tern_amp_counted().cached, MANY);
    static tern_op ops[MANY];
    for (int i = 0; i < MANY; i++) {
        ops[i] = as_it_comes;
        tern_apply(&ops[i], x);
    }
    assert_int_equal(tern_amp_counted().calls, 2 * MANY + 2 * MANY);
    assert_no_error();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, clear, clear)
    const struct CMUnitTest tests[] = {
        CASE(test_an_op_of_ones_own_replays_the_setting),
        CASE(test_backward_leaves_no_cached_casts),
        CASE(test_an_op_of_ones_own_states_its_class),
        CASE(test_a_banned_op_is_an_error_with_advice),
        CASE(test_explain_lists_ops_dtypes_and_casts),
        CASE(test_many_weights_and_ops_fit_the_tables),
        CASE(test_a_weight_that_shows_other_elements_is_cast_anew),
        CASE(test_a_weight_in_memory_that_was_given_back_is_cast_anew),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 || failed;
}
