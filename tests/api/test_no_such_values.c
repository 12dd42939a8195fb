/* A number that names none of an enum's values is an error of the call that was given it, and so are numbers
 * that are not finite where only finite ones make sense, and factors and ends that no element can be; settings without an error stay as they are. */
#include <math.h>
#include <stdio.h>

#include "tests/support/check.h"

/* The call is an error of this line, with both numbers that are beyond the enum. */
#define REFUSED(call)                                                                     \
    do {                                                                                  \
        const int values_[] = { -1, 99 };                                                 \
        for (int k_ = 0; k_ < 2; k_++) {                                                  \
            const int bad = values_[k_];                                                  \
            char line_[32];                                                               \
            (void)(call);                                                                 \
            (void)snprintf(line_, sizeof line_, "%s:%d: ", "no_such_values.c", __LINE__); \
            if (!tern_failed() || strstr(tern_error_text(), line_) == NULL)               \
                fail_msg("line %d with %d: '%s'", __LINE__, bad, tern_error_text());      \
            tern_error_clear();                                                           \
        }                                                                                 \
    } while (0)

#define DTYPE ((tern_dtype_t)bad)
#define FORMAT ((tern_memory_format_t)bad)

static tern_tensor *ones(void)
{
    return tern_ones(TERN_SHAPE(2, 3));
}

static void test_dtypes(void **state)
{
    (void)state;
    TERN_SCOPE;
    double number = 1;
    REFUSED(tern_zeros(TERN_SHAPE(2), .dtype = DTYPE));
    REFUSED(tern_randint(0, 2, TERN_SHAPE(2), .dtype = DTYPE));
    REFUSED(tern_randperm(2, .dtype = DTYPE));
    REFUSED(tern_arange(0, 2, .dtype = DTYPE));
    REFUSED(tern_linspace(0, 2, 3, .dtype = DTYPE));
    REFUSED(tern_eye(2, .dtype = DTYPE));
    REFUSED(tern_from_data(&number, TERN_SHAPE(1), .dtype = DTYPE));
    REFUSED(tern_from_memory(&number, NULL, NULL, TERN_SHAPE(1), .dtype = DTYPE));
    tern_tensor *x = ones(), *to = NULL;
    REFUSED(to = tern_cast(x, DTYPE));
    assert_null(to);
    REFUSED(tern_sum(x, .dtype = DTYPE));
    REFUSED(tern_logsumexp(x, .dtype = DTYPE));
    REFUSED(tern_norm(x, .dtype = DTYPE));
    REFUSED(tern_read(x, DTYPE, &number, sizeof number));
    REFUSED(tern_set_default_dtype(DTYPE));
    REFUSED(tern_set_autocast_dtype(TERN_CPU, DTYPE));
    assert_int_equal(tern_promote((tern_dtype_t)99, TERN_F32), TERN_DTYPE_NONE);
}

static void test_formats(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = ones(), *to = NULL;
    tern_module *m = tern_linear_layer(3, 2);
    REFUSED(tern_empty(TERN_SHAPE(1, 2, 3, 4), .format = FORMAT));
    REFUSED(to = tern_to(x, .format = FORMAT));
    REFUSED(to = tern_to(tern_ones(TERN_SHAPE(1, 2, 3, 4)), .format = FORMAT, .copy = true));
    assert_null(to);
    REFUSED(tern_module_to(m, .format = FORMAT));
    REFUSED(tern_module_to(m, .dtype = DTYPE));
    tern_module_free(m);
}

static void test_reductions(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = ones(), *y = ones(), *at = tern_zeros(TERN_SHAPE(2), .dtype = TERN_I64);
    REFUSED(tern_mse_loss(x, y, bad));
    REFUSED(tern_l1_loss(x, y, bad));
    REFUSED(tern_smooth_l1_loss(x, y, bad));
    REFUSED(tern_huber_loss(x, y, bad));
    REFUSED(tern_kl_div(x, y, bad));
    REFUSED(tern_binary_cross_entropy(x, y, .reduction = bad));
    REFUSED(tern_binary_cross_entropy_with_logits(x, y, .reduction = bad));
    REFUSED(tern_nll_loss(x, at, .reduction = bad));
    REFUSED(tern_cross_entropy(x, at, .reduction = bad));
    REFUSED(tern_cross_entropy(x, y, .reduction = bad));
}

static void test_modes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *image = tern_ones(TERN_SHAPE(1, 2, 4, 4));
    REFUSED(tern_pad(image, { 1, 1 }, .mode = bad));
    REFUSED(tern_interpolate(image, { 2 }, .mode = bad));
    REFUSED(tern_upsample_layer(.scale = 2, .mode = bad));
    REFUSED(tern_autocast_begin(TERN_CPU, .cache = bad));
    REFUSED(tern_mnist("/nowhere", (tern_split_t)bad));
    REFUSED(tern_cifar10("/nowhere", (tern_split_t)bad));
    tern_text *text = tern_text_from_bytes("a text of letters", 17);
    REFUSED(tern_text_windows(text, 2, .split = bad));
    assert_true(isnan(tern_init_gain(99, 0)));
}

static tern_tensor *square(tern_tensor *const *in, void *user)
{
    (void)user;
    return tern_mul(in[0], in[0]);
}

static bool fetch(void *user, int64_t index, void *x, void *y)
{
    (void)user, (void)index, (void)x, (void)y;
    return true;
}

static void test_others(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2), .dtype = TERN_F64, .requires_grad = true);
    REFUSED(tern_gradcheck(square, &x, 1, .order = bad));
    REFUSED(tern_dataset_from_callback(2, fetch, TERN_SHAPE(2), .x_dtype = DTYPE));
    REFUSED(tern_dataset_from_callback(2, fetch, TERN_SHAPE(2), .y_dtype = DTYPE));
    REFUSED(tern_ones(TERN_SHAPE(2), .device = TERN_DEV_(bad, 0)));
    REFUSED(tern_dev_set(TERN_DEV_(bad, 0)));
    REFUSED(tern_linear_layer(3, 2, .dtype = DTYPE));
    REFUSED(tern_batch_norm2d_layer(3, .dtype = DTYPE));
    REFUSED(tern_lstm_layer(3, 2, .dtype = DTYPE));
}

static void test_settings_stay(void **state)
{
    (void)state;
    tern_set_sync_debug_mode(TERN_SYNC_WARN);
    tern_set_sync_debug_mode((tern_sync_debug_t)9);
    assert_int_equal(tern_sync_debug_mode(), TERN_SYNC_WARN);
    tern_set_sync_debug_mode(TERN_SYNC_DEFAULT);
    tern_set_oom_policy(TERN_OOM_CPU);
    tern_set_oom_policy((tern_oom_policy_t)9);
    assert_int_equal(tern_get_oom_policy(), TERN_OOM_CPU);
    tern_set_oom_policy(TERN_OOM_ERROR);
}

static void test_normalisation(void **state)
{
    (void)state;
    tern_dataset *digits = tern_digits(4, 1);
    const double inf = (double)INFINITY, bad[] = { (double)NAN, inf, -inf };
    for (int i = 0; i < 3; i++) {
        assert_null(tern_dataset_normalize(digits, .mean = { bad[i] }));
        assert_error(TERN_ERR_ARGUMENT, "scale, means and deviations have to be finite");
        assert_null(tern_dataset_normalize(digits, .deviation = { bad[i] }));
        assert_error(TERN_ERR_ARGUMENT, "scale, means and deviations have to be finite");
        assert_null(tern_dataset_normalize(digits, .scale = bad[i]));
        assert_error(TERN_ERR_ARGUMENT, "scale, means and deviations have to be finite");
    }
    assert_non_null(tern_dataset_normalize(digits, .mean = { 0.5 }, .deviation = { 0.5 }));
    tern_dataset_free(digits);
}

static void test_factors_and_ends(void **state)
{
    (void)state;
    TERN_SCOPE;
    const double nan = (double)NAN, inf = (double)INFINITY;
    tern_tensor *i = tern_ones(TERN_SHAPE(2, 2), .dtype = TERN_I8),
                *f = tern_ones(TERN_SHAPE(2, 2));
    assert_null(tern_addcmul(i, i, i, 300));
    assert_error(TERN_ERR_ARGUMENT, "addcmul: 300 is beyond what i8 can be");
    assert_null(tern_addcmul_(i, i, i, nan));
    assert_error(TERN_ERR_ARGUMENT, "addcmul: nan is beyond what i8 can be");
    assert_null(tern_addcdiv(f, f, f, 1e39));
    assert_error(TERN_ERR_ARGUMENT, "addcdiv: 1e+39 is beyond what f32 can be");
    assert_non_null(tern_addcmul(i, f, i, 300));
    assert_non_null(tern_addcmul(tern_cast(f, TERN_F16), i, i, 1e6));
    assert_null(tern_addmm(i, i, i, .beta = nan));
    assert_error(TERN_ERR_ARGUMENT, "addmm: nan is beyond what i8 can be");
    assert_null(tern_addmm(i, i, i, .alpha = 200));
    assert_error(TERN_ERR_ARGUMENT, "addmm: 200 is beyond what i8 can be");
    assert_non_null(tern_addmm(f, f, f, .alpha = inf, .beta = nan));
    assert_null(tern_linspace(0, 300, 3, .dtype = TERN_U8));
    assert_error(TERN_ERR_ARGUMENT, "linspace: start and end have to be numbers that the dtype");
    assert_null(tern_linspace(-1e39, 0, 3));
    assert_error(TERN_ERR_ARGUMENT, "linspace: start and end have to be numbers that the dtype");
    assert_non_null(tern_linspace(0, inf, 3));
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes),        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_reductions),    cmocka_unit_test(test_modes),
        cmocka_unit_test(test_others),        cmocka_unit_test(test_settings_stay),
        cmocka_unit_test(test_normalisation), cmocka_unit_test(test_factors_and_ends),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
