/* Parameters, buffers and children of layers that others take the place of: layers use what they have now. */
#include "tests/support/check.h"
#include "tern/transformer.h"

/* Memory that a tensor let go of holds something else, also where nobody looks for its use after that. */
static void use_freed_memory(int64_t numel)
{
    for (int i = 0; i < 8; i++)
        assert_non_null(tern_full(7, TERN_SHAPE(numel)));
}

static double sum_of(tern_tensor *t)
{
    assert_no_error();
    return tern_item(tern_sum(t));
}

static void test_a_head_uses_the_weight_of_an_embedding(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *table = tern_embedding_layer(5, 3);
    tern_module *head = tern_linear_layer(3, 5, .no_bias = true);
    tern_tensor *weight = tern_module_tensor(table, "weight");
    assert_ptr_equal(tern_module_add_parameter(head, "weight", weight), weight);
    use_freed_memory(15);
    tern_init_constant(weight, 2);
    tern_tensor *y = tern_forward(head, tern_ones(TERN_SHAPE(1, 3)));
    assert_close(sum_of(y), 5 * 3 * 2, 1e-6);
    tern_backward(tern_sum(y));
    assert_close(sum_of(tern_grad_of(weight)), 15, 1e-6);
    tern_module_free(table); /* the head's as well */
    assert_close(sum_of(tern_forward(head, tern_ones(TERN_SHAPE(1, 3)))), 30, 1e-6);
    tern_module_free(head);
}

static void test_a_bias_is_left_out_and_comes_back(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    char text[80];
    tern_module *layers[] = { tern_linear_layer(2, 2), tern_linear_layer(2, 2, .no_bias = true) };
    tern_tensor *x = tern_zeros(TERN_SHAPE(1, 2));
    for (int i = 0; i < 2; i++) {
        tern_module_add_parameter(layers[i], "bias", NULL);
        use_freed_memory(2);
        assert_true(sum_of(tern_forward(layers[i], x)) == 0);
        assert_int_equal(tern_parameters(layers[i]).count, 1);
        assert_non_null(strstr(tern_module_describe(layers[i], text, sizeof text), "no bias"));
        tern_module_add_parameter(layers[i], "bias", tern_full(3, TERN_SHAPE(2)));
        assert_true(sum_of(tern_forward(layers[i], x)) == 6);
        tern_module_free(layers[i]);
    }
}

/* ---- every layer ------------------------------------------------------------------------------ */

enum { MOST_NAMES = 2, SAMPLES = 15 };

typedef struct sample {
    tern_module *layer;
    tern_tensor *x, *key;             /* key: the second input, or NULL */
    const char *wanted[MOST_NAMES];   /* without these it cannot run */
    const char *optional[MOST_NAMES]; /* without these it can */
} sample;

#define ATTENTION(...) tern_multihead_attention_layer(4, 2, __VA_ARGS__)
#define INSTANCE tern_instance_norm_layer(4, .affine = true, .running = true)

static void make_samples(sample out[SAMPLES])
{
    tern_tensor *rows = tern_randn(TERN_SHAPE(2, 3, 4)), *keys = tern_randn(TERN_SHAPE(2, 3, 5));
    tern_tensor *image = tern_randn(TERN_SHAPE(2, 4, 5, 5));
    const sample all[SAMPLES] = {
        { tern_linear_layer(4, 3), rows, NULL, { "weight" }, { "bias" } },
        { tern_conv1d_layer(3, 2, 3), rows, NULL, { "weight" }, { "bias" } },
        { tern_conv2d_layer(4, 3, 3), image, NULL, { "weight" }, { "bias" } },
        { tern_conv_transpose1d_layer(3, 2, 3), rows, NULL, { "weight" }, { "bias" } },
        { tern_conv_transpose2d_layer(4, 3, 3), image, NULL, { "weight" }, { "bias" } },
        { tern_layer_norm_layer(4), rows, NULL, { NULL }, { "weight", "bias" } },
        { tern_rms_norm_layer(4), rows, NULL, { NULL }, { "weight" } },
        { tern_group_norm_layer(2, 4), image, NULL, { NULL }, { "weight", "bias" } },
        { INSTANCE, image, NULL, { "running_var" }, { "bias", "weight" } },
        { tern_batch_norm2d_layer(4), image, NULL, { "running_mean" }, { "weight", "bias" } },
        { tern_rnn_layer(4, 3), rows, NULL, { "weight_ih_l0" }, { "bias_hh_l0", "bias_ih_l0" } },
        { tern_lstm_layer(4, 3), rows, NULL, { "weight_hh_l0" }, { "bias_ih_l0" } },
        { tern_gru_layer(4, 3), rows, NULL, { "weight_hh_l0" }, { "bias_ih_l0" } },
        { ATTENTION(.dropout = 0), rows, NULL, { "in_proj_weight" }, { "in_proj_bias" } },
        { ATTENTION(.key_width = 5), rows, keys, { "k_proj_weight" }, { "in_proj_bias" } },
    };
    assert_no_error();
    memcpy(out, all, sizeof all);
    for (int i = 0; i < SAMPLES; i++)
        tern_eval(out[i].layer);
}

static tern_tensor *run(const sample *s)
{
    tern_args args = TERN_ARGS(s->x, s->key, s->key ? s->x : NULL);
    return tern_forward_args(s->layer, &args);
}

/* How far results are from each other. */
static double distance(tern_tensor *a, tern_tensor *b)
{
    return sum_of(tern_abs(tern_sub(a, b)));
}

static void put(const sample *s, const char *name, tern_tensor *t)
{
    if (strncmp(name, "running", 7) == 0)
        tern_module_add_buffer(s->layer, name, t);
    else
        tern_module_add_parameter(s->layer, name, t);
}

/* Another tensor counts as the same values in the tensor that was there. */
static void check_replaced(const sample *s, const char *name)
{
    TERN_SCOPE;
    TERN_NO_GRAD;
    tern_tensor *old = tern_retain(tern_module_tensor(s->layer, name));
    tern_tensor *other = tern_add(old, tern_rand(tern_shape(old)));
    tern_tensor *before = run(s);
    put(s, name, other);
    tern_tensor *with_other = run(s);
    assert_true(distance(before, with_other) > 1e-3);
    tern_copy(old, other);
    put(s, name, old);
    assert_true(distance(with_other, run(s)) == 0);
    tern_release(old);
}

static void check_wanted(const sample *s, const char *name)
{
    TERN_SCOPE;
    tern_tensor *old = tern_retain(tern_module_tensor(s->layer, name));
    put(s, name, NULL);
    use_freed_memory(tern_numel(old));
    assert_null(run(s));
    assert_error(TERN_ERR_ARGUMENT, "");
    put(s, name, old);
    assert_non_null(run(s));
    assert_no_error();
    tern_release(old);
}

/* Of another shape: an error, not memory that is not its own. */
static void check_misfit(const sample *s, const char *name)
{
    TERN_SCOPE;
    tern_tensor *old = tern_retain(tern_module_tensor(s->layer, name));
    tern_shape_t shape = tern_shape(old);
    for (int change = -1; change <= 1; change += 2) {
        shape.dims[0] = tern_size(old, 0) + change;
        put(s, name, tern_ones(shape));
        assert_null(run(s));
        assert_error(TERN_ERR_SHAPE, "");
    }
    put(s, name, old);
    tern_release(old);
}

static tern_tensor *slope_of(const sample *s, tern_tensor *y)
{
    tern_set_grad(s->x, NULL);
    tern_backward(tern_sum(tern_mul(y, y)));
    return tern_clone(tern_grad_of(s->x));
}

/* One that is left out counts as zeros, a weight as ones; gradients too. */
static void check_optional(const sample *s, const char *name)
{
    TERN_SCOPE;
    tern_set_requires_grad(s->x, true);
    tern_init_constant(tern_module_tensor(s->layer, name), strcmp(name, "weight") == 0);
    tern_tensor *y = run(s), *slope = slope_of(s, y);
    put(s, name, NULL);
    tern_tensor *without = run(s);
    assert_close(distance(y, without), 0, 1e-4); /* of all elements; a GPU's sums differ */
    assert_close(distance(slope, slope_of(s, without)), 0, 1e-4);
    assert_null(tern_module_tensor(s->layer, name));
}

static void test_layers_use_what_they_have_now(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    sample all[SAMPLES];
    make_samples(all);
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < MOST_NAMES && all[i].wanted[k]; k++) {
            check_replaced(&all[i], all[i].wanted[k]);
            check_wanted(&all[i], all[i].wanted[k]);
            check_misfit(&all[i], all[i].wanted[k]);
        }
        for (int k = 0; k < MOST_NAMES && all[i].optional[k]; k++)
            check_replaced(&all[i], all[i].optional[k]);
        for (int k = 0; k < MOST_NAMES && all[i].optional[k]; k++)
            check_optional(&all[i], all[i].optional[k]);
        tern_module_free(all[i].layer);
    }
}

/* ---- children --------------------------------------------------------------------------------- */

/* Two layers that differ in all of their parameters. */
static void make_two(tern_module *out[2], bool decoder)
{
    for (int i = 0; i < 2; i++) {
        out[i] = decoder ? tern_transformer_decoder_layer(4, 2, .hidden = 8)
                         : tern_transformer_encoder_layer(4, 2, .hidden = 8);
        assert_no_error();
        tern_eval(out[i]);
        const tern_tensors_t all = tern_parameters(out[i]);
        for (int64_t k = 0; k < all.count; k++)
            tern_init_uniform(all.tensors[k], -1, 1);
    }
}

static tern_tensor *run_with(tern_module *layer, tern_tensor *x, bool decoder)
{
    tern_args args = TERN_ARGS(x, decoder ? x : NULL);
    return tern_forward_args(layer, &args);
}

static void check_children(bool decoder)
{
    TERN_SCOPE;
    tern_module *two[2];
    make_two(two, decoder);
    tern_tensor *x = tern_randn(TERN_SHAPE(1, 3, 4)), *y = run_with(two[0], x, decoder);
    for (int64_t i = 0; i < tern_module_child_count(two[1]); i++) {
        tern_module *old = tern_module_child(two[0], i);
        tern_module_add_child(two[0], tern_module_child_name(two[1], i),
                              tern_module_child(two[1], i));
        tern_module_free(old); /* nobody's any more */
        tern_tensor *next = run_with(two[0], x, decoder);
        assert_true(distance(y, next) > 1e-3);
        y = next;
    }
    assert_true(distance(y, run_with(two[1], x, decoder)) == 0);
    tern_backward(tern_sum(tern_mul(y, y)));
    const tern_tensors_t all = tern_parameters(two[0]);
    for (int64_t i = 0; i < all.count; i++)
        assert_non_null(tern_grad_of(all.tensors[i]));
    tern_module_free(two[1]);
    tern_module_free(two[0]);
    assert_no_error();
}

static void test_layers_run_the_children_that_they_have_now(void **unused)
{
    (void)unused;
    check_children(false);
    check_children(true);
}

static void test_attention_ends_with_the_projection_that_it_has_now(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *attention = tern_multihead_attention_layer(4, 2);
    tern_module *old = tern_module_find(attention, "out_proj");
    tern_tensor *x = tern_randn(TERN_SHAPE(1, 3, 4));
    tern_module *wide = tern_module_add_child(attention, "out_proj", tern_linear_layer(4, 6));
    tern_module_free(old);
    assert_int_equal(tern_size(tern_forward(attention, x), 2), 6);
    tern_init_constant(tern_module_tensor(wide, "weight"), 0);
    tern_init_constant(tern_module_tensor(wide, "bias"), 2);
    assert_true(sum_of(tern_forward(attention, x)) == 3 * 6 * 2);
    tern_module_free(attention);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_head_uses_the_weight_of_an_embedding),
        cmocka_unit_test(test_a_bias_is_left_out_and_comes_back),
        cmocka_unit_test(test_layers_use_what_they_have_now),
        cmocka_unit_test(test_layers_run_the_children_that_they_have_now),
        cmocka_unit_test(test_attention_ends_with_the_projection_that_it_has_now),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
