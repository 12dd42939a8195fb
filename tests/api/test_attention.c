/* Attention: dropout, masks that hide everything, layout, what is held in memory, and mistakes. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/check.h"

static tern_tensor *draw(tern_shape_t shape, tern_dtype_t dtype)
{
    tern_tensor *t = tern_randn(shape, .dtype = dtype);
    return tern_set_requires_grad(t, true);
}

static void expect_near(tern_tensor *a, tern_tensor *b, double tolerance)
{
    const double off = tern_item(tern_amax(tern_abs(tern_sub(a, b))));
    assert_no_error();
    if (!(off <= tolerance))
        fail_msg("off by %g", off);
}

/* Softmax, dropout and products one by one, from the same call of the generator. */
static tern_tensor *by_steps(tern_tensor *const in[3], tern_generator *generator, double p)
{
    tern_tensor *scores = tern_matmul(in[0], tern_transpose(in[1], -1, -2));
    tern_tensor *weights = tern_softmax(tern_mul(scores, 1 / sqrt(8)), -1);
    return tern_matmul(tern_dropout(weights, p, .generator = generator), in[2]);
}

static void test_dropout_drops_what_a_dropout_of_the_weights_drops(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *in[3] = { draw(TERN_SHAPE(2, 3, 70, 8), TERN_F32),
                           draw(TERN_SHAPE(2, 3, 133, 8), TERN_F32),
                           draw(TERN_SHAPE(2, 3, 133, 8), TERN_F32) };
    tern_generator *here = tern_generator_create(5), *there = tern_generator_create(5);
    tern_tensor *y =
        tern_scaled_dot_product_attention(in[0], in[1], in[2], .dropout = 0.3, .generator = here);
    tern_tensor *want = by_steps(in, there, 0.3);
    expect_near(y, want, 1e-5);
    tern_tensor *g = tern_randn(tern_shape(y)), *fused[3], *steps[3], *made[3];
    tern_grad(y, in, 3, fused, g, .retain_graph = true);
    tern_grad(y, in, 3, made, g, .create_graph = true);
    tern_grad(want, in, 3, steps, g);
    for (int i = 0; i < 3; i++) {
        expect_near(fused[i], steps[i], 2e-5);
        expect_near(made[i], steps[i], 2e-5);
        assert_true(tern_requires_grad(made[i]));
    }
    tern_tensor *whole =
        tern_scaled_dot_product_attention(in[0], in[1], in[2], .dropout = 0.3, .evaluating = true);
    expect_near(whole, by_steps(in, there, 0), 1e-5);
    tern_generator_free(here);
    tern_generator_free(there);
}

/* Scores of 0: each query sees the mean of all values. */
static void test_a_scale_of_zero(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *q = draw(TERN_SHAPE(2, 3, 7, 8), TERN_F32);
    tern_tensor *v = draw(TERN_SHAPE(2, 3, 7, 8), TERN_F32);
    const double zeros[] = { -0.0, TERN_ZERO };
    for (int i = 0; i < 2; i++) {
        tern_tensor *y = tern_scaled_dot_product_attention(q, q, v, .scale = zeros[i]);
        expect_near(y, tern_mean(v, TERN_DIMS(2), .keepdim = true), 1e-6);
    }
}

static void test_all_dropped_is_zero(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *q = draw(TERN_SHAPE(1, 2, 5, 4), TERN_F32);
    tern_tensor *y = tern_scaled_dot_product_attention(q, q, q, .dropout = 1);
    assert_true(tern_item(tern_sum(tern_abs(y))) == 0);
    tern_backward(tern_sum(y));
    assert_true(tern_item(tern_sum(tern_abs(tern_grad_of(q)))) == 0);
}

/* Query 1 sees nothing, by a mask of either kind: its result and gradient are 0, and nothing is NaN. */
static void test_queries_that_see_nothing_give_zeros(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        TERN_SCOPE;
        tern_tensor *q = draw(TERN_SHAPE(1, 2, 3, 4), TERN_F32);
        tern_tensor *k = draw(TERN_SHAPE(1, 2, 5, 4), TERN_F32);
        tern_tensor *row = tern_unsqueeze(tern_arange(.end = 3), 1);
        tern_tensor *sees = tern_expand(tern_ne(row, 1), TERN_SHAPE(3, 5));
        tern_tensor *mask = kind == 0 ? sees : tern_where(sees, 0.0, -INFINITY);
        if (kind == 2) /* made of simple ops */
            mask = tern_set_requires_grad(tern_clone(mask), true);
        tern_tensor *y = tern_scaled_dot_product_attention(q, k, k, mask);
        assert_true(tern_item(tern_sum(tern_abs(tern_select(y, 2, 1)))) == 0);
        tern_backward(tern_sum(tern_mul(y, y)));
        tern_tensor *gq = tern_grad_of(q);
        assert_true(tern_item(tern_sum(tern_abs(tern_select(gq, 2, 1)))) == 0);
        assert_true(isfinite(tern_item(tern_sum(tern_abs(gq)))));
        assert_true(isfinite(tern_item(tern_sum(tern_abs(tern_grad_of(k))))));
        assert_true(tern_item(tern_sum(tern_abs(gq))) > 0);
    }
}

static void test_no_keys_give_zeros(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *q = draw(TERN_SHAPE(1, 2, 3, 4), TERN_F32);
    tern_tensor *k = draw(TERN_SHAPE(1, 2, 0, 4), TERN_F32);
    tern_tensor *y = tern_scaled_dot_product_attention(q, k, k);
    assert_true(tern_item(tern_sum(tern_abs(y))) == 0);
    tern_backward(tern_sum(y));
    assert_true(tern_item(tern_sum(tern_abs(tern_grad_of(q)))) == 0);
    assert_int_equal(tern_numel(tern_grad_of(k)), 0);
    tern_tensor *none = tern_scaled_dot_product_attention(k, q, q);
    assert_int_equal(tern_numel(none), 0);
    assert_no_error();
}

/* Heads that were split off [N, T, heads, size] come back beside each other, without a copy. */
static void test_result_lies_as_the_queries_do(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = draw(TERN_SHAPE(2, 5, 3, 3, 4), TERN_F32);
    tern_tensor *parts = tern_permute(x, TERN_DIMS(2, 0, 3, 1, 4));
    tern_tensor *y =
        tern_scaled_dot_product_attention(tern_select(parts, 0, 0), tern_select(parts, 0, 1),
                                          tern_select(parts, 0, 2), .causal = true);
    tern_tensor *flat = tern_view(tern_transpose(y, 1, 2), TERN_SHAPE(2, 5, 12));
    assert_non_null(flat);
    tern_tensor *copies[3];
    for (int i = 0; i < 3; i++)
        copies[i] = tern_contiguous(tern_select(parts, 0, i));
    expect_near(y,
                tern_scaled_dot_product_attention(copies[0], copies[1], copies[2], .causal = true),
                1e-6);
    tern_backward(tern_sum(tern_mul(flat, flat)));
    assert_no_error();
}

/* in[i] as it lies and without gaps are the same to the result and to gradients. */
static void expect_layout_is_no_matter(tern_tensor *const in[3])
{
    tern_tensor *close[3], *y, *z, *here[3], *there[3];
    for (int i = 0; i < 3; i++)
        close[i] = tern_set_requires_grad(tern_contiguous(tern_detach(in[i])), true);
    y = tern_scaled_dot_product_attention(in[0], in[1], in[2]);
    z = tern_scaled_dot_product_attention(close[0], close[1], close[2]);
    expect_near(y, z, 1e-5);
    tern_tensor *g = tern_randn(tern_shape(z));
    tern_grad(y, in, 3, here, g);
    tern_grad(z, close, 3, there, g);
    for (int i = 0; i < 3; i++)
        expect_near(here[i], there[i], 1e-5);
}

/* Rows of features are written as one, wherever another dimension has the stride 1. */
static void test_another_dimension_may_have_the_stride_1(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *q = tern_transpose(draw(TERN_SHAPE(2, 5, 3, 1), TERN_F32), 1, 2);
    tern_tensor *k = draw(TERN_SHAPE(2, 3, 4, 1), TERN_F32);
    tern_tensor *v = draw(TERN_SHAPE(2, 3, 4, 4), TERN_F32);
    expect_layout_is_no_matter((tern_tensor *const[]){ q, k, v });
    tern_tensor *wide = draw(TERN_SHAPE(1, 1, 5, 8), TERN_F32);
    tern_tensor *windows = tern_unfold(draw(TERN_SHAPE(1, 1, 14), TERN_F32), 2, 8, 1);
    tern_tensor *seven = draw(TERN_SHAPE(1, 1, 7, 8), TERN_F32);
    expect_layout_is_no_matter((tern_tensor *const[]){ wide, windows, seven });
    tern_tensor *others = tern_unfold(draw(TERN_SHAPE(1, 1, 14), TERN_F32), 2, 8, 1);
    expect_layout_is_no_matter((tern_tensor *const[]){ windows, seven, others });
    expect_layout_is_no_matter((tern_tensor *const[]){ wide, seven, windows });
}

static void test_scores_are_not_held_in_memory(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t t =
        check_on_cpu() ? 1024 : 512; /* the CPU has scratch for some blocks a thread */
    tern_tensor *q = draw(TERN_SHAPE(1, 2, t, 8), TERN_BF16);
    const tern_dev_t dev = tern_device(q);
    tern_memory_reset_peak(dev);
    const int64_t before = tern_memory(dev).peak_allocated_bytes;
    tern_tensor *y = tern_scaled_dot_product_attention(q, q, q);
    tern_backward(tern_sum(y));
    assert_no_error();
    assert_true(tern_memory(dev).peak_allocated_bytes - before < t * t);
}

/* ---- large scores ------------------------------------------------------------------------------- */

/* Query i is 3000 times key i * 7 modulo what it sees, all keys are as long: scores of 3e3 to 2e4, of which one
 * has all of the weight. Its score less the row's logarithm is 0 where backward rounds scores as forward did;
 * else some 5e-4 of the gradients are lost in f32. */
static void one_key_has_all(tern_dtype_t dtype, const int64_t n[4], bool causal, bool masked)
{
    TERN_SCOPE;
    tern_tensor *keys = tern_randn(TERN_SHAPE(n[1], n[2]), .dtype = TERN_F64), *grads[3];
    keys =
        tern_mul(keys, tern_rsqrt(tern_mean(tern_mul(keys, keys), TERN_DIMS(1), .keepdim = true)));
    tern_tensor *value = tern_randn(TERN_SHAPE(1, 1, n[1], n[3]), .dtype = dtype);
    tern_tensor *g = tern_randn(TERN_SHAPE(1, 1, n[0], n[3]), .dtype = dtype);
    int64_t *picks = calloc((size_t)n[0], sizeof *picks);
    for (int64_t i = 0; i < n[0]; i++)
        picks[i] = i * 7 % (causal && i + 1 < n[1] ? i + 1 : n[1]);
    tern_tensor *at = tern_from_data(picks, TERN_SHAPE(n[0]), TERN_I64);
    tern_tensor *query = tern_mul(tern_index_select(keys, 0, at), 3000);
    tern_tensor *picked =
        tern_eq(tern_reshape(tern_arange(0, (double)n[1]), TERN_SHAPE(-1, 1)), at);
    tern_tensor *want = tern_matmul(tern_cast(picked, TERN_F64),
                                    tern_cast(tern_view(g, TERN_SHAPE(n[0], n[3])), TERN_F64));
    tern_tensor *mask = masked ? tern_randn(TERN_SHAPE(n[0], n[1]), .dtype = dtype) : NULL;
    tern_tensor *in[3] = { tern_view(tern_cast(query, dtype), TERN_SHAPE(1, 1, n[0], n[2])),
                           tern_view(tern_cast(keys, dtype), TERN_SHAPE(1, 1, n[1], n[2])), value };
    for (int i = 0; i < 3; i++)
        in[i] = tern_set_requires_grad(tern_detach(in[i]), true);
    tern_tensor *y =
        tern_scaled_dot_product_attention(in[0], in[1], in[2], .mask = mask, .causal = causal);
    assert_int_equal(tern_grad(y, in, 3, grads, g), TERN_OK);
    const double unit = dtype == TERN_F64 ? 1e-14 : 4e-7,
                 most = tern_item(tern_amax(tern_abs(want)));
    expect_near(tern_view(tern_cast(grads[2], TERN_F64), TERN_SHAPE(n[1], n[3])), want,
                unit * most);
    expect_near(y, tern_view(tern_index_select(in[2], 2, at), tern_shape(y)), 0);
    free(picks);
}

static void test_gradients_of_large_scores(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = { /* queries, keys, features of these, of values */
                                        { 7, 5, 8, 8 },
                                        { 64, 64, 24, 16 },
                                        { 100, 200, 40, 24 },
                                        { 133, 150, 64, 9 },
                                        { 70, 9, 300, 3 }
    };
    tern_seed(11);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int way = 0; way < 3; way++)
            for (int wide = 0; wide < 2; wide++)
                one_key_has_all(wide ? TERN_F64 : TERN_F32, sizes[i], way == 1, way == 2);
}

/* A view of what was written since: nobody has asked it whether it needs a gradient. */
static void test_a_mask_that_came_to_need_a_gradient(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *bias = tern_full(0.1, TERN_SHAPE(3, 6), .requires_grad = true);
    tern_tensor *base = tern_zeros(TERN_SHAPE(3, 6)), *mask = tern_slice(base, 1, 0, 3);
    (void)tern_add_(base, bias);
    tern_tensor *q = draw(TERN_SHAPE(1, 1, 3, 4), TERN_F32);
    tern_backward(tern_sum(tern_square(tern_scaled_dot_product_attention(q, q, q, mask))));
    assert_no_error();
    assert_non_null(tern_grad_of(bias));
    assert_true(tern_item(tern_norm(tern_grad_of(bias))) > 1e-3);
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *q = draw(TERN_SHAPE(1, 2, 3, 4), TERN_F32);
    tern_tensor *wide = draw(TERN_SHAPE(1, 2, 3, 5), TERN_F32);
    assert_null(tern_scaled_dot_product_attention(q, NULL, q));
    assert_error(TERN_ERR_ARGUMENT, "k is NULL");
    assert_null(tern_scaled_dot_product_attention(q, wide, q));
    assert_error(TERN_ERR_SHAPE, "queries have 4 features (q's last dimension) and keys 5");
    assert_null(tern_scaled_dot_product_attention(q, q, draw(TERN_SHAPE(1, 2, 4, 4), TERN_F32)));
    assert_error(TERN_ERR_SHAPE, "3 keys need as many values; v has 4");
    tern_tensor *three = draw(TERN_SHAPE(1, 3, 3, 4), TERN_F32);
    assert_null(tern_scaled_dot_product_attention(q, three, three));
    assert_error(TERN_ERR_SHAPE, "2 heads of q cannot share 3 heads of k and v evenly");
    assert_null(tern_scaled_dot_product_attention(q, q, q, tern_zeros(TERN_SHAPE(2, 3))));
    assert_error(TERN_ERR_SHAPE, "the mask does not broadcast to [1, 2, 3, 3]");
    assert_null(tern_scaled_dot_product_attention(q, q, q, .dropout = 1.5));
    assert_error(TERN_ERR_ARGUMENT, "dropout is 1.5");
    assert_null(tern_scaled_dot_product_attention(q, q, q, .scale = NAN));
    assert_error(TERN_ERR_ARGUMENT, "scale is nan");
    assert_null(tern_scaled_dot_product_attention(q, q, tern_cast(q, TERN_F64)));
    assert_error(TERN_ERR_DTYPE, "f64");
    tern_tensor *line = draw(TERN_SHAPE(4), TERN_F32);
    assert_null(tern_scaled_dot_product_attention(line, q, q));
    assert_error(TERN_ERR_SHAPE, "two dimensions or more");
    tern_tensor *one = tern_select(q, 0, 0), *of_three = tern_select(three, 0, 0);
    assert_null(tern_scaled_dot_product_attention(one, one, of_three));
    assert_error(TERN_ERR_SHAPE, "k has 2 heads and v 3");
    assert_null(
        tern_scaled_dot_product_attention(one, one, one, tern_zeros(TERN_SHAPE(5, 2, 3, 3))));
    assert_non_null(strstr(tern_error_text(), "\n    mask      f32  [5, 2, 3, 3] "));
    assert_error(TERN_ERR_SHAPE, "the mask does not broadcast to [1, 2, 3, 3]");
    tern_tensor *deep = tern_reshape(three, TERN_SHAPE(1, 3, 1, 3, 4));
    assert_null(tern_scaled_dot_product_attention(deep, deep, deep, tern_zeros(TERN_SHAPE(2, 3))));
    assert_error(TERN_ERR_SHAPE, "the mask does not broadcast to [1, 3, 1, 3, 3]");
}

/* ---- layers ---- */

static void test_layers_drop_in_training_alone(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *m = tern_transformer_encoder_layer(8, 2, 16);
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 3, 8));
    tern_eval(m);
    tern_tensor *y = tern_forward(m, x);
    expect_near(y, tern_forward(m, x), 0);
    tern_train(m);
    const double off = tern_item(tern_amax(tern_abs(tern_sub(y, tern_forward(m, x)))));
    assert_true(off > 1e-3);
    assert_int_equal(tern_parameters(m).count, 12);
    tern_module_free(m);
}

static void test_mistakes_of_layers_are_named(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_null(tern_multihead_attention_layer(8, 3));
    assert_error(TERN_ERR_ARGUMENT, "3 heads do not divide a width of 8");
    assert_null(tern_multihead_attention_layer(8));
    assert_error(TERN_ERR_ARGUMENT, "'heads' is missing");
    assert_null(tern_transformer_encoder_layer(8, 2, .dropout = 2));
    assert_error(TERN_ERR_ARGUMENT, "dropout = 2 is not in [0, 1]");
    tern_module *m = tern_multihead_attention_layer(8, 2);
    tern_tensor *x = tern_zeros(TERN_SHAPE(2, 3, 8));
    assert_null(tern_forward(m, tern_select(x, 0, 0)));
    assert_non_null(strstr(tern_error_text(), "\n    query      f32 [3, 8] on "));
    assert_error(TERN_ERR_SHAPE, "the query has 2 dimensions");
    tern_args args = TERN_ARGS(x, NULL, NULL, NULL, tern_zeros(TERN_SHAPE(2, 3)));
    assert_null(tern_forward_args(m, &args));
    assert_non_null(strstr(tern_error_text(), "\n    padding    f32 [2, 3] on "));
    assert_error(TERN_ERR_SHAPE, "the padding mask has to be bool [2, 3]");
    tern_tensor *there = tern_ones(TERN_SHAPE(2, 3), TERN_BOOL);
    tern_args whole = TERN_ARGS(x, NULL, NULL, tern_ones(TERN_SHAPE(3, 3), TERN_I64), there);
    assert_null(tern_forward_args(m, &whole));
    assert_non_null(strstr(tern_error_text(), "\n    mask       i64 [3, 3] on "));
    assert_error(TERN_ERR_DTYPE, "the mask has to be bool, or a float that is added to the scores");
    tern_module *decoder = tern_transformer_decoder_layer(8, 2);
    assert_null(tern_forward(decoder, x));
    assert_error(TERN_ERR_ARGUMENT, "the memory is missing");
    tern_module_free(m);
    tern_module_free(decoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout_drops_what_a_dropout_of_the_weights_drops),
        cmocka_unit_test(test_a_scale_of_zero),
        cmocka_unit_test(test_all_dropped_is_zero),
        cmocka_unit_test(test_queries_that_see_nothing_give_zeros),
        cmocka_unit_test(test_no_keys_give_zeros),
        cmocka_unit_test(test_result_lies_as_the_queries_do),
        cmocka_unit_test(test_another_dimension_may_have_the_stride_1),
        cmocka_unit_test(test_scores_are_not_held_in_memory),
        cmocka_unit_test(test_gradients_of_large_scores),
        cmocka_unit_test(test_a_mask_that_came_to_need_a_gradient),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_layers_drop_in_training_alone),
        cmocka_unit_test(test_mistakes_of_layers_are_named),
    };
    return check_run(tests, NULL, NULL);
}
