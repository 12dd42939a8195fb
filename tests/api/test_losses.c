/* cross_entropy as a user meets it: shapes, options, gradients, mistakes. */
#include <math.h>

#include "tests/support/check.h"

static const float logits_2x3[] = { 1, 2, 3, 1, 0, -1 };
static const int64_t target_2[] = { 2, 1 };

static tern_tensor *logits(void)
{
    return tern_from_data(logits_2x3, .shape = TERN_SHAPE(2, 3));
}

static tern_tensor *target(void)
{
    return tern_from_data(target_2, .shape = TERN_SHAPE(2), .dtype = TERN_I64);
}

/* log(1 + e^-1 + e^-2): what each row's largest logit lacks to the log of the sum */
static double tail(void)
{
    return log(1 + exp(-1) + exp(-2));
}

static void test_reductions_and_weights(void **state)
{
    (void)state;
    TERN_SCOPE;
    const double first = tail(), second = 1 + tail();
    const float w[] = { 0.5f, 2, 3 };
    tern_tensor *weight = tern_from_data(w, .shape = TERN_SHAPE(3));
    assert_close(tern_item(tern_cross_entropy(logits(), target())), (first + second) / 2, 1e-6);
    assert_close(tern_item(tern_cross_entropy(logits(), target(), .reduction = TERN_SUM)),
                 first + second, 1e-6);
    tern_tensor *each = tern_cross_entropy(logits(), target(), .reduction = TERN_NONE);
    assert_int_equal(tern_ndim(each), 1);
    assert_close(tern_item(tern_select(each, 0, 1)), second, 1e-6);
    assert_close(tern_item(tern_cross_entropy(logits(), target(), weight)),
                 (3 * first + 2 * second) / 5, 1e-6);
    assert_no_error();
}

static void test_smoothing_and_ignored_targets(void **state)
{
    (void)state;
    TERN_SCOPE;
    const double even = 1 + tail(); /* mean over the classes of the negative log-likelihood */
    tern_tensor *smooth = tern_cross_entropy(logits(), target(), .label_smoothing = 0.2);
    assert_close(tern_item(smooth), 0.8 * (0.5 + tail()) + 0.2 * even, 1e-6);
    tern_tensor *some = tern_cross_entropy(logits(), target(), .ignore = true, .ignore_index = 1);
    assert_close(tern_item(some), tail(), 1e-6);
    const int64_t usual[] = { -100, 1 };
    tern_tensor *half = tern_from_data(usual, .shape = TERN_SHAPE(2), .dtype = TERN_I64);
    assert_close(tern_item(tern_cross_entropy(logits(), half)), 1 + tail(), 1e-6);
    tern_tensor *nothing = tern_slice(half, .end = 1);
    assert_true(isnan(tern_item(tern_cross_entropy(tern_slice(logits(), .end = 1), nothing))));
    assert_no_error();
}

static void test_one_row_and_many_dimensions(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *row = tern_select(logits(), 0, 0);
    tern_tensor *one = tern_cross_entropy(row, tern_select(target(), 0, 0));
    assert_close(tern_item(one), tail(), 1e-6);
    /* [2, 3] seen as [1, 3, 2, 1] of other strides */
    tern_tensor *image = tern_view(tern_transpose(logits(), 0, 1), TERN_SHAPE(1, 3, 2, 1));
    tern_tensor *places = tern_view(target(), TERN_SHAPE(1, 2, 1));
    tern_tensor *each = tern_cross_entropy(image, places, .reduction = TERN_NONE);
    assert_no_error();
    assert_int_equal(tern_ndim(each), 3);
    assert_close(tern_item(tern_sum(each)), 1 + 2 * tail(), 1e-6);
}

static void test_backward_gives_probabilities_less_one_at_the_target(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(logits(), true);
    tern_backward(tern_cross_entropy(x, target()));
    assert_no_error();
    float got[6];
    tern_read(tern_grad_of(x), TERN_F32, got, sizeof got);
    for (int i = 0; i < 6; i++) {
        const double largest = i < 3 ? 3 : 1;
        const double probability = exp(logits_2x3[i] - largest - tail());
        assert_close(got[i], (probability - (i % 3 == target_2[i / 3])) / 2, 1e-6);
    }
}

/* u8 is what i64 is: with every option, 200 as ignored class, and no wrap of -100 to a class. */
static void check_same_loss(tern_tensor *x, tern_tensor *classes, tern_tensor *weight,
                            double smoothing)
{
    const tern_dtype_t dtypes[] = { TERN_I64, TERN_U8 };
    float loss[2], grad[2][24];
    const int64_t bytes = tern_numel(x) * (int64_t)sizeof(float);
    for (int i = 0; i < 2; i++) {
        tern_tensor *t = tern_cast(classes, dtypes[i]);
        tern_tensor *leaf = tern_set_requires_grad(tern_clone(x), true);
        tern_tensor *both =
            tern_cross_entropy(leaf, t, weight, .label_smoothing = smoothing,
                               .ignore = weight != NULL, .ignore_index = weight != NULL ? 200 : 0);
        both = tern_add(both, tern_nll_loss(leaf, t, weight, .ignore = weight != NULL,
                                            .ignore_index = weight != NULL ? 200 : 0));
        tern_backward(both);
        assert_no_error();
        loss[i] = (float)tern_item(both);
        tern_read(tern_grad_of(leaf), TERN_F32, grad[i], bytes);
    }
    assert_memory_equal(&loss[0], &loss[1], sizeof loss[0]);
    assert_memory_equal(grad[0], grad[1], (size_t)bytes);
}

static void test_class_numbers_of_u8(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t some[] = { 200, 0, 2, 1, 200, 2, 0, 1 };
    tern_seed(5);
    tern_tensor *weight = tern_add(tern_rand(TERN_SHAPE(3)), 0.5);
    tern_tensor *classes = tern_from_data(some, .shape = TERN_SHAPE(2, 4), .dtype = TERN_I64);
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 3, 4));
    check_same_loss(x, classes, weight, 0);
    check_same_loss(x, classes, weight, 0.2);
    tern_tensor *column = tern_select(classes, 1, 1), *rows = tern_select(x, 2, 1);
    check_same_loss(rows, tern_select(classes, 1, 3), NULL, 0);
    check_same_loss(rows, tern_abs(tern_sub(column, 1)), NULL, 0.2);
    check_same_loss(tern_select(rows, 0, 0), tern_select(tern_select(classes, 0, 0), 0, 2), NULL,
                    0);
    assert_null(tern_cross_entropy(rows, tern_cast(column, TERN_I32)));
    assert_error(TERN_ERR_DTYPE, "the target is i32; class numbers are i64 or u8");
    assert_null(tern_nll_loss(rows, tern_cast(column, TERN_I8)));
    assert_error(TERN_ERR_DTYPE, "the target is i8; class numbers are i64 or u8");
}

/* What is added to all logits changes no probability, nor its precision. */
static void expect_gradient_at(double base, tern_shape_t shape, tern_tensor *classes)
{
    tern_tensor *x = tern_add(tern_mul(tern_randn(shape), 3), base), *grads[2];
    for (int i = 0; i < 2; i++) {
        tern_tensor *leaf =
            tern_set_requires_grad(tern_cast(tern_clone(x), i ? TERN_F64 : TERN_F32), true);
        tern_grad(tern_cross_entropy(leaf, classes, .reduction = TERN_SUM), &leaf, 1, &grads[i]);
    }
    tern_tensor *off = tern_sub(tern_cast(grads[0], TERN_F64), grads[1]);
    assert_no_error();
    assert_close(tern_item(tern_amax(tern_abs(off))), 0, 4e-6);
}

static void test_gradients_of_large_logits(void **state)
{
    (void)state;
    static const double bases[] = { 0, 60, -500, 1e4, -1e6, 1e7 };
    for (int i = 0; i < 6; i++) {
        TERN_SCOPE;
        tern_seed(7);
        tern_tensor *classes = tern_randint(0, 50, TERN_SHAPE(64));
        expect_gradient_at(bases[i], TERN_SHAPE(64, 50), classes);
        expect_gradient_at(bases[i], TERN_SHAPE(16, 50, 4), tern_view(classes, TERN_SHAPE(16, 4)));
    }
}

/* ---- second order ---------------------------------------------------------------------------- */

typedef struct loss_options {
    tern_tensor *target, *weight;
    int reduction;
    double smoothing;
} loss_options;

static tern_tensor *loss_of(tern_tensor *const *in, void *user)
{
    const loss_options *o = user;
    return tern_cross_entropy(in[0], o->target, o->weight, o->reduction, o->smoothing,
                              .ignore = true, .ignore_index = 1);
}

static void check_orders(tern_shape_t shape, tern_shape_t target_shape)
{
    tern_tensor *x = tern_set_requires_grad(tern_randn(shape, TERN_F64), true);
    tern_tensor *classes = tern_cast(tern_mul(tern_rand(target_shape), 4), TERN_I64);
    tern_tensor *weight = tern_add(tern_rand(TERN_SHAPE(4), TERN_F64), 0.5);
    for (int way = 0; way < 12; way++) {
        loss_options o = { classes, way & 1 ? weight : NULL, 1 + way % 3, way >= 6 ? 0.1 : 0 };
        tern_gradcheck(loss_of, &x, 1, &o, .order = 2);
        assert_no_error();
    }
}

static void test_first_and_second_derivatives_agree_with_differences(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_seed(3);
    check_orders(TERN_SHAPE(5, 4), TERN_SHAPE(5));
    check_orders(TERN_SHAPE(2, 4, 3), TERN_SHAPE(2, 3));
    check_orders(TERN_SHAPE(4), TERN_SCALAR_SHAPE);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

/* Values of torch.nn.functional.cross_entropy's formula in double precision. */
static double soft_loss(const double *w, double smoothing, int row)
{
    static const double p[2][3] = { { 0.5, 0.25, 0.25 }, { 0, 1, 0.5 } };
    const double log_sum =
        log(exp(logits_2x3[3 * row]) + exp(logits_2x3[3 * row + 1]) + exp(logits_2x3[3 * row + 2]));
    double loss = 0;
    for (int c = 0; c < 3; c++)
        loss += w[c] * (p[row][c] * (1 - smoothing) + smoothing / 3) *
                (log_sum - (double)logits_2x3[3 * row + c]);
    return loss;
}

static tern_tensor *probabilities(void)
{
    const float p[] = { 0.5f, 0.25f, 0.25f, 0, 1, 0.5f };
    return tern_from_data(p, .shape = TERN_SHAPE(2, 3));
}

static void test_probabilities_of_classes(void **state)
{
    (void)state;
    TERN_SCOPE;
    const double one[] = { 1, 1, 1 }, w[] = { 0.5, 2, 3 };
    const float w32[] = { 0.5f, 2, 3 };
    tern_tensor *weight = tern_from_data(w32, .shape = TERN_SHAPE(3)), *p = probabilities();
    assert_close(tern_item(tern_cross_entropy(logits(), p)),
                 (soft_loss(one, 0, 0) + soft_loss(one, 0, 1)) / 2, 1e-6);
    assert_close(tern_item(tern_cross_entropy(logits(), p, weight, .label_smoothing = 0.3)),
                 (soft_loss(w, 0.3, 0) + soft_loss(w, 0.3, 1)) / 2, 2e-6);
    assert_close(tern_item(tern_cross_entropy(logits(), p, weight, .reduction = TERN_SUM)),
                 soft_loss(w, 0, 0) + soft_loss(w, 0, 1), 2e-6);
    tern_tensor *each = tern_cross_entropy(logits(), p, .reduction = TERN_NONE);
    assert_int_equal(tern_ndim(each), 1);
    assert_close(tern_item(tern_select(each, 0, 1)), soft_loss(one, 0, 1), 1e-6);
    tern_tensor *row =
        tern_cross_entropy(tern_select(logits(), 0, 1), tern_select(p, 0, 1), weight);
    assert_int_equal(tern_ndim(row), 0);
    assert_close(tern_item(row), soft_loss(w, 0, 1), 2e-6);
    /* places: [N, C, 2] of two equal columns */
    tern_tensor *x2 = tern_stack(2, logits(), logits()), *p2 = tern_stack(2, p, p);
    each = tern_cross_entropy(x2, p2, weight, .reduction = TERN_NONE);
    assert_int_equal(tern_ndim(each), 2);
    assert_close(tern_item(tern_select(tern_select(each, 0, 1), 0, 1)), soft_loss(w, 0, 1), 2e-6);
    assert_no_error();
}

static tern_tensor *soft_of(tern_tensor *const *in, void *user)
{
    return tern_cross_entropy(in[0], in[1], user, .label_smoothing = 0.1);
}

static void test_probabilities_have_gradients_and_rules(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(tern_cast(logits(), TERN_F64), true);
    tern_tensor *p = tern_set_requires_grad(tern_cast(probabilities(), TERN_F64), true);
    tern_tensor *weight = tern_add(tern_arange(0, 3, .dtype = TERN_F64), 0.5);
    tern_gradcheck(soft_of, (tern_tensor *const[]){ x, p }, 2, weight, .order = 2);
    {
        TERN_AUTOCAST(tern_default_device(), TERN_BF16);
        tern_tensor *half = tern_cast(logits(), TERN_BF16);
        assert_int_equal(tern_dtype(tern_cross_entropy(half, probabilities())), TERN_F32);
    }
    assert_no_error();
    assert_null(tern_cross_entropy(x, p, .ignore = true, .ignore_index = 1));
    assert_error(TERN_ERR_ARGUMENT, "class 1 cannot be ignored");
    assert_null(tern_cross_entropy(x, p, tern_ones(TERN_SHAPE(2), TERN_F64)));
    assert_error(TERN_ERR_SHAPE, "3 classes need a weight [3]");
    assert_null(tern_cross_entropy(target(), tern_cast(target(), TERN_F32)));
    assert_error(TERN_ERR_DTYPE, "logits is i64");
    assert_null(tern_cross_entropy(logits(), tern_cast(target(), TERN_F32)));
    assert_error(TERN_ERR_DTYPE, "probabilities of classes have the logits' shape");
}

static void test_wrong_targets_are_explained(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t beyond[] = { 2, 7 };
    tern_tensor *bad = tern_from_data(beyond, .shape = TERN_SHAPE(2), .dtype = TERN_I64);
    assert_refused(tern_cross_entropy(logits(), bad));
    assert_error(TERN_ERR_INDEX, "target 7 at position 1 is no class; there are 3 classes");
    assert_null(tern_cross_entropy(logits(), tern_cast(target(), TERN_F32)));
    assert_error(TERN_ERR_DTYPE, "tern_cast(target, TERN_I64)");
    assert_null(tern_cross_entropy(logits(), tern_zeros(TERN_SHAPE(2, 3), TERN_I64)));
    assert_error(TERN_ERR_SHAPE, "tern_argmax(target, 1)");
    assert_null(tern_cross_entropy(logits(), tern_zeros(TERN_SHAPE(3), TERN_I64)));
    assert_error(TERN_ERR_SHAPE, "the target has to be [");
    assert_null(tern_cross_entropy(logits()));
    assert_error(TERN_ERR_ARGUMENT, "target is NULL");
}

static void test_wrong_options_are_explained(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_null(tern_cross_entropy(logits(), target(), .ignore_index = 1));
    assert_error(TERN_ERR_ARGUMENT, "try .ignore_index = 1, .ignore = true");
    assert_null(tern_nll_loss(logits(), target(), .ignore_index = 2));
    assert_error(TERN_ERR_ARGUMENT, "ignore_index = 2 counts only beside ignore = true");
    assert_null(tern_embedding(tern_ones(TERN_SHAPE(3, 2)), target(), .padding_idx = 1));
    assert_error(TERN_ERR_ARGUMENT, "padding_idx = 1 counts only beside padding = true");
    assert_null(tern_embedding(tern_ones(TERN_SHAPE(3, 2)), target(), .padding_idx = TERN_ZERO));
    assert_error(TERN_ERR_ARGUMENT, "padding_idx = 0 counts only beside padding = true");
    assert_non_null(tern_embedding(tern_ones(TERN_SHAPE(3, 2)), target(), .padding_idx = TERN_ZERO,
                                   .padding = true));
    assert_null(tern_embedding_layer(3, 2, .padding_idx = 1));
    assert_error(TERN_ERR_ARGUMENT, "padding_idx = 1 counts only beside padding = true");
    tern_tensor *zeroth = tern_cross_entropy(logits(), target(), .ignore = true);
    assert_close(tern_item(tern_cross_entropy(logits(), target(), .ignore = true,
                                              .ignore_index = TERN_ZERO)),
                 tern_item(zeroth), 0);
    assert_null(tern_cross_entropy(logits(), target(), .reduction = 9));
    assert_error(TERN_ERR_ARGUMENT, "9 is no reduction");
    assert_null(tern_cross_entropy(logits(), target(), .label_smoothing = 1.5));
    assert_error(TERN_ERR_ARGUMENT, "label_smoothing is 1.5");
    assert_null(tern_cross_entropy(logits(), target(), tern_ones(TERN_SHAPE(2))));
    assert_error(TERN_ERR_SHAPE, "3 classes need a weight [3]");
    assert_null(tern_cross_entropy(logits(), target(), tern_ones(TERN_SHAPE(3), TERN_F64)));
    assert_error(TERN_ERR_DTYPE, "logits and weight have different dtypes: f32 and f64");
    assert_null(tern_cross_entropy(target(), target()));
    assert_error(TERN_ERR_DTYPE, "cross_entropy");
    tern_tensor *x = tern_set_requires_grad(logits(), true);
    tern_tensor *weight = tern_set_requires_grad(tern_ones(TERN_SHAPE(3)), true);
    tern_backward(tern_cross_entropy(x, target(), weight));
    assert_error(TERN_ERR_GRAD, "class weights are constants");
}

static void test_nothing_is_left_over(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    test_wrong_targets_are_explained(state);
    test_wrong_options_are_explained(state);
    test_backward_gives_probabilities_less_one_at_the_target(state);
    assert_int_equal(tern_live_tensors(), before);
}

/* ---- other losses --------------------------------------------------------------------------- */

static void test_options_of_other_losses_are_checked(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = logits(), *whole = tern_cast(x, TERN_I32);
    assert_null(tern_l1_loss(x, x, 4));
    assert_error(TERN_ERR_ARGUMENT, "l1_loss: 4 is no reduction");
    assert_null(tern_l1_loss(x, NULL, 0));
    assert_error(TERN_ERR_ARGUMENT, "l1_loss: y is NULL");
    assert_null(tern_smooth_l1_loss(x, x, .beta = -0.5));
    assert_error(TERN_ERR_ARGUMENT, "beta is -0.5; it has to be 0, which is the l1 loss, or");
    assert_null(tern_smooth_l1_loss(x, x, .beta = (double)NAN));
    assert_error(TERN_ERR_ARGUMENT, "beta is nan");
    assert_null(tern_huber_loss(x, x, .delta = -0.0));
    assert_error(TERN_ERR_ARGUMENT, "huber_loss: delta is 0; it has to be positive");
    assert_null(tern_huber_loss(x, x, .delta = -2));
    assert_error(TERN_ERR_ARGUMENT, "huber_loss: delta is -2; it has to be positive");
    assert_null(tern_kl_div(x, whole));
    assert_error(TERN_ERR_DTYPE, "kl_div");
    assert_null(tern_nll_loss(x, tern_cast(target(), TERN_F32)));
    assert_error(TERN_ERR_DTYPE, "nll_loss: the target is f32; class numbers are i64 or u8");
    assert_null(tern_nll_loss(x, x));
    assert_error(TERN_ERR_DTYPE, "nll_loss");
    assert_null(tern_nll_loss(x, tern_slice(target(), .end = 1)));
    assert_error(TERN_ERR_SHAPE, "one class number per row");
    assert_null(tern_nll_loss(x, target(), target()));
    assert_error(TERN_ERR_SHAPE, "3 classes need a weight [3]");
    assert_null(tern_cosine_similarity(x, x, 2, 0));
    assert_error(TERN_ERR_ARGUMENT, "cosine_similarity");
    assert_null(tern_cosine_similarity(x, tern_slice(x, .dim = 1, .end = 2), 1, 0));
    assert_error(TERN_ERR_SHAPE, "do not broadcast");
}

static void test_class_numbers_outside_are_found(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t beyond[] = { 2, 7 };
    tern_tensor *bad = tern_from_data(beyond, .shape = TERN_SHAPE(2), .dtype = TERN_I64);
    (void)tern_nll_loss(logits(), bad);
    (void)tern_dev_synchronize(tern_default_device());
    assert_error(TERN_ERR_INDEX, "7");
}

/* A program of an older header: its structs end before ours do, and what lies behind them is not read. */
static void test_shorter_options_are_none(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = logits(), *same = logits();
#define SHORTER(name, type, ...)                                        \
    do {                                                                \
        const type short_ = { .size_ = sizeof(type) - 8, __VA_ARGS__ }; \
        assert_null(tern_##name##_at(TERN_HERE, &short_));              \
        assert_error(TERN_ERR_ARGUMENT, #name);                         \
    } while (0)
    SHORTER(nll_loss, tern_nll_loss_args, .x = x, .target = target());
    SHORTER(binary_cross_entropy, tern_binary_cross_entropy_args, .x = x, .target = same);
    SHORTER(binary_cross_entropy_with_logits, tern_binary_cross_entropy_args, .x = x,
            .target = same);
    SHORTER(smooth_l1_loss, tern_smooth_l1_loss_args, .x = x, .target = same);
    SHORTER(huber_loss, tern_huber_loss_args, .x = x, .target = same);
    SHORTER(kl_div, tern_kl_div_args, .x = x, .target = same);
    SHORTER(sum, tern_reduce_args, .x = x);
    SHORTER(norm, tern_norm_args, .x = x);
#undef SHORTER
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions_and_weights),
        cmocka_unit_test(test_smoothing_and_ignored_targets),
        cmocka_unit_test(test_one_row_and_many_dimensions),
        cmocka_unit_test(test_backward_gives_probabilities_less_one_at_the_target),
        cmocka_unit_test(test_class_numbers_of_u8),
        cmocka_unit_test(test_gradients_of_large_logits),
        cmocka_unit_test(test_first_and_second_derivatives_agree_with_differences),
        cmocka_unit_test(test_probabilities_of_classes),
        cmocka_unit_test(test_probabilities_have_gradients_and_rules),
        cmocka_unit_test(test_wrong_targets_are_explained),
        cmocka_unit_test(test_options_of_other_losses_are_checked),
        cmocka_unit_test(test_class_numbers_outside_are_found),
        cmocka_unit_test(test_wrong_options_are_explained),
        cmocka_unit_test(test_nothing_is_left_over),
        cmocka_unit_test(test_shorter_options_are_none),
    };
    return check_run(tests, NULL, NULL);
}
