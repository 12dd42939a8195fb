/* binary_cross_entropy, of probabilities and of logits, as a user meets it. */
#include <math.h>

#include "tests/support/check.h"

static tern_tensor *three(const float *values)
{
    return tern_from_data(values, .shape = TERN_SHAPE(3), .device = tern_default_device());
}

static void test_certain_probabilities_have_finite_losses(void **state)
{
    (void)state;
    TERN_SCOPE;
    const float x[] = { 0, 1, 1 }, t[] = { 1, 0, 1 };
    tern_tensor *p = tern_set_requires_grad(three(x), true);
    tern_tensor *each = tern_binary_cross_entropy(p, three(t), .reduction = TERN_NONE);
    assert_close(tern_item(tern_select(each, 0, 0)), 100, 1e-4);
    assert_close(tern_item(tern_select(each, 0, 1)), 100, 1e-4);
    assert_close(tern_item(tern_select(each, 0, 2)), 0, 0);
    tern_backward(tern_sum(each));
    tern_tensor *g = tern_grad_of(p);
    assert_close(tern_item(tern_select(g, 0, 0)), -1e12, 1e6);
    assert_close(tern_item(tern_select(g, 0, 2)), 0, 0);
    const float near[] = { 1e-6f, 0.5f, 1 };
    tern_tensor *small = tern_binary_cross_entropy(
        three(near), tern_zeros(TERN_SHAPE(3), .device = tern_default_device()),
        .reduction = TERN_NONE);
    assert_close(tern_item(tern_select(small, 0, 0)), 1.0000005e-6, 1e-12);
    assert_no_error();
}

static void test_logits_of_any_size(void **state)
{
    (void)state;
    TERN_SCOPE;
    const float x[] = { -1000, 1000, 0 }, t[] = { 1, 1, 0.25f }, w[] = { 3, 3, 3 };
    tern_tensor *each =
        tern_binary_cross_entropy_with_logits(three(x), three(t), .reduction = TERN_NONE);
    assert_close(tern_item(tern_select(each, 0, 0)), 1000, 1e-3);
    assert_close(tern_item(tern_select(each, 0, 1)), 0, 1e-30);
    assert_close(tern_item(tern_select(each, 0, 2)), log(2), 1e-6);
    tern_tensor *more = tern_binary_cross_entropy_with_logits(
        three(x), three(t), .pos_weight = three(w), .reduction = TERN_SUM);
    assert_close(tern_item(more), 3000 + (0.75 + 3 * 0.25) * log(2), 1e-2);
    assert_no_error();
}

/* As PyTorch's: of an infinite logit, losses at 0, 0.5 and 1, also with a weight of the positive. */
static void test_infinite_logits(void **state)
{
    (void)state;
    TERN_SCOPE;
    const float x[] = { INFINITY, INFINITY, INFINITY }, t[] = { 0, 0.5f, 1 }, w[] = { 2, 0.5f, 0 };
    for (int weighted = 0; weighted < 2; weighted++) {
        tern_tensor *logit = tern_set_requires_grad(three(x), true);
        tern_tensor *each = tern_binary_cross_entropy_with_logits(
            logit, three(t), .pos_weight = weighted ? three(w) : NULL, .reduction = TERN_NONE);
        for (int i = 0; i < 2; i++)
            assert_true(tern_item(tern_select(each, 0, i)) == (double)INFINITY);
        assert_true(isnan(tern_item(tern_select(each, 0, 2))));
        tern_backward(each, tern_ones(TERN_SHAPE(3), .device = tern_device(each)));
        for (int i = 0; i < 3; i++)
            assert_close(tern_item(tern_select(tern_grad_of(logit), 0, i)), 1 - 0.5 * i, 0);
        tern_tensor *wide = tern_cast(three(x), TERN_F64);
        each = tern_binary_cross_entropy_with_logits(wide, tern_cast(three(t), TERN_F64),
                                                     .reduction = TERN_NONE);
        assert_true(tern_item(tern_select(each, 0, 0)) == (double)INFINITY);
    }
    assert_no_error();
}

static void test_mistakes_with_binary_targets(void **state)
{
    (void)state;
    TERN_SCOPE;
    const float x[] = { 0.5f, 0.5f, 0.5f };
    assert_null(tern_binary_cross_entropy(
        three(x), tern_ones(TERN_SHAPE(1), .device = tern_default_device())));
    assert_error(TERN_ERR_SHAPE, "x and target differ in shape");
    assert_null(tern_binary_cross_entropy(three(x), three(x), .pos_weight = three(x)));
    assert_error(TERN_ERR_ARGUMENT, "pos_weight belongs to logits");
    assert_null(tern_binary_cross_entropy(three(x), three(x), .reduction = 9));
    assert_error(TERN_ERR_ARGUMENT, "9 is no reduction");
    assert_null(tern_binary_cross_entropy(three(x)));
    assert_error(TERN_ERR_ARGUMENT, "target is NULL");
}

/* A033: f32 in regions of the CPU, refused in those of a device, with PyTorch's advice. */
static void test_probabilities_are_unsafe_in_f16(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_dev_t dev = tern_default_device();
    const float x[] = { 0.5f, 0.25f, 0.5f };
    TERN_AUTOCAST(dev, TERN_F16);
    tern_tensor *low = tern_cast(three(x), TERN_F16);
    assert_int_equal(tern_dtype(tern_binary_cross_entropy_with_logits(low, low)), TERN_F32);
    if (dev.kind == TERN_KIND_CPU) {
        assert_int_equal(tern_dtype(tern_binary_cross_entropy(low, low)), TERN_F32);
        return;
    }
    assert_null(tern_binary_cross_entropy(low, low));
    assert_error(TERN_ERR_DTYPE, "tern_binary_cross_entropy_with_logits, which is safe");
    TERN_AUTOCAST(dev, .disabled = true);
    assert_non_null(tern_binary_cross_entropy(low, low));
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certain_probabilities_have_finite_losses),
        cmocka_unit_test(test_logits_of_any_size),
        cmocka_unit_test(test_infinite_logits),
        cmocka_unit_test(test_mistakes_with_binary_targets),
        cmocka_unit_test(test_probabilities_are_unsafe_in_f16),
    };
    return check_run(tests, NULL, NULL);
}
