/* TERN_ZERO is 0 in options whose default is 0, too (guide, section 1). */
#include "tests/support/check.h"

static const double zeros[] = { 0, -0.0, TERN_ZERO };

static double total(tern_tensor *t)
{
    const double found = tern_item(tern_sum(t));
    assert_no_error();
    return found;
}

static void test_numbers_of_ranges_and_borders(void **state)
{
    (void)state;
    TERN_SCOPE;
    for (int i = 0; i < 3; i++) {
        const double zero = zeros[i];
        tern_tensor *one = tern_ones(TERN_SHAPE(2));
        assert_close(total(tern_pad(one, { 1, 2 }, .value = zero)), 2, 0);
        assert_close(total(tern_linspace(zero, 1, 3)), 1.5, 0);
        assert_close(total(tern_linspace(1, zero, 3)), 1.5, 0);
        assert_close(total(tern_arange(zero, 3)), 3, 0);
        assert_close(total(tern_arange(-3, zero)), -6, 0);
    }
}

static void test_chances_and_smoothing(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1, 2, 4));
    tern_tensor *target = tern_zeros(TERN_SHAPE(2), TERN_I64);
    for (int i = 0; i < 3; i++) {
        const double zero = zeros[i];
        assert_close(total(tern_scaled_dot_product_attention(x, x, x, .dropout = zero)), 8, 1e-6);
        assert_close(total(tern_cross_entropy(tern_squeeze(x, 0), target, .label_smoothing = zero)),
                     1.3862943611, 1e-6);
        tern_module *lstm = tern_lstm_layer(4, 4, .layers = 2, .dropout = zero);
        tern_module *heads = tern_multihead_attention_layer(4, 2, .dropout = zero);
        assert_non_null(tern_forward(lstm, x));
        assert_non_null(tern_forward(heads, x));
        tern_module_free(lstm);
        tern_module_free(heads);
    }
    assert_no_error();
}

static void test_rates(void **state)
{
    (void)state;
    TERN_SCOPE;
    for (int i = 0; i < 3; i++) {
        tern_tensor *w = tern_ones(TERN_SHAPE(2), .requires_grad = true);
        tern_optimizer *opt = tern_sgd(TERN_TENSORS(w), .lr = 1);
        tern_schedule *s = tern_cosine_schedule(opt, 2, .min_lr = zeros[i]);
        tern_schedule *t =
            tern_warmup_schedule(opt, 2, .warmup = i == 2 ? TERN_ZERO : 0, .min_lr = zeros[i]);
        assert_no_error();
        tern_schedule_step(t);
        assert_close(tern_get_lr(opt, 0), 0.5, 1e-12);
        tern_schedule_free(s);
        tern_schedule_free(t);
        tern_optimizer_free(opt);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_ranges_and_borders),
        cmocka_unit_test(test_chances_and_smoothing),
        cmocka_unit_test(test_rates),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
