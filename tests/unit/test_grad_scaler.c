/* The gradient scaler: what the golden sequences do not show. Rows A041-A080; steps that the
 * device leaves out: test_scaler_steps.c. */
#include <math.h>
#include <stdio.h>

#include "tests/support/check.h"
#include "tests/support/files.h"
#include "tests/support/scaler.h"

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

/* ---- making it ----------------------------------------------------------------------------------- */

static void test_defaults_and_their_checks(void **state) /* A041, A042, A072 */
{
    (void)state;
    tern_grad_scaler *s = tern_grad_scaler_create();
    assert_true(tern_scaler_enabled(s));
    assert_close(tern_scaler_get_scale(s), 65536, 0); /* A071 */
    assert_close(tern_scaler_growth_factor(s), 2, 0);
    assert_close(tern_scaler_backoff_factor(s), 0.5, 0);
    assert_int_equal(tern_scaler_growth_interval(s), 2000);
    tern_scaler_set_growth_factor(s, 0.5);
    assert_close(tern_scaler_growth_factor(s), 0.5, 0);
    tern_grad_scaler_free(s);
    assert_null(tern_grad_scaler_create(.growth_factor = 1));
    assert_error(TERN_ERR_ARGUMENT, "growth_factor = 1: it must be > 1.0");
    assert_null(tern_grad_scaler_create(.backoff_factor = 1));
    assert_error(TERN_ERR_ARGUMENT, "backoff_factor = 1: it must be < 1.0");
    s = tern_grad_scaler_create(.backoff_factor = -0.0, .growth_interval = -5, .init_scale = -1);
    assert_close(tern_scaler_backoff_factor(s), 0, 0);
    tern_grad_scaler_free(s);
    s = tern_grad_scaler_create(.growth_factor = 1, .disabled = true);
    assert_false(tern_scaler_enabled(s));
    assert_close(tern_scaler_get_scale(s), 1, 0);
    tern_grad_scaler_free(s);
    tern_grad_scaler_free(NULL);
    assert_no_error();
}

static char last_warning[256];

static void listen(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)site, (void)user;
    if (level == TERN_LOG_WARNING)
        (void)snprintf(last_warning, sizeof last_warning, "%s", text);
}

static void test_without_cuda_a_cuda_scaler_is_disabled(void **state) /* A043 */
{
    (void)state;
    check_cpu_only("there is a CUDA device");
    tern_log_set_callback(listen, NULL);
    tern_grad_scaler *s = tern_grad_scaler_create(.device = TERN_CUDA(0));
    tern_log_set_callback(NULL, NULL);
    assert_false(tern_scaler_enabled(s));
    assert_non_null(strstr(last_warning, "no CUDA device"));
    tern_grad_scaler_free(s);
}

/* ---- scaling ------------------------------------------------------------------------------------- */

static void test_scaling_promotes_as_mul_does(void **state) /* A044, A045 */
{
    (void)state;
    TERN_SCOPE;
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8);
    tern_tensor *loss = tern_ones(TERN_SCALAR_SHAPE, .dtype = TERN_F16);
    assert_int_equal(tern_dtype(tern_scaler_scale(s, loss)), TERN_F32);
    tern_tensor *wide = tern_ones(TERN_SHAPE(2), .dtype = TERN_F16);
    assert_int_equal(tern_dtype(tern_scaler_scale(s, wide)), TERN_F16);
    assert_close(tern_item(tern_scaler_scale(s, loss)), 8, 0);
    assert_null(tern_scaler_scale(s, NULL));
    assert_error(TERN_ERR_ARGUMENT, "loss 0 is NULL");
    assert_null(tern_scaler_scale(NULL, loss));
    assert_error(TERN_ERR_ARGUMENT, "the scaler is NULL");
    tern_grad_scaler_free(s);
}

/* What creating one gave where an option was refused. */
static void test_no_scaler_at_all(void **state)
{
    (void)state;
    tern_scaler_event event;
    assert_false(tern_scaler_enabled(NULL));
    assert_int_equal(tern_scaler_update_count(NULL), 0);
    assert_int_equal(tern_scaler_skip_count(NULL), 0);
    assert_null(tern_scaler_overflowed(NULL));
    assert_int_equal(tern_scaler_history(NULL, &event, 1), 0);
    assert_true(tern_scaler_growth_factor(NULL) == 0);
    assert_true(tern_scaler_backoff_factor(NULL) == 0);
    assert_int_equal(tern_scaler_growth_interval(NULL), 0);
    tern_scaler_set_growth_factor(NULL, 3);
    tern_scaler_set_backoff_factor(NULL, 0.25);
    tern_scaler_set_growth_interval(NULL, 3);
    assert_no_error();
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8);
    assert_int_equal(tern_scaler_history(s, NULL, 3), 0);
    assert_no_error();
    const tern_tensors_t none = { NULL, NULL, 2 };
    tern_tensor *scaled[2];
    assert_int_equal(tern_scaler_scale_all(s, none, scaled), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "the list of losses or results is NULL");
    tern_grad_scaler_free(s);
}

static void test_a_list_is_scaled_one_by_one(void **state) /* A046 */
{
    (void)state;
    TERN_SCOPE;
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8);
    tern_tensor *out[2];
    tern_tensor *a = tern_full(2, TERN_SCALAR_SHAPE), *b = tern_full(3, TERN_SHAPE(1));
    assert_int_equal(tern_scaler_scale_all(s, TERN_TENSORS(a, b), out), TERN_OK);
    assert_close(tern_item(out[0]), 16, 0);
    assert_close(tern_item(out[1]), 24, 0);
    tern_tensor *list[3] = { a, b, NULL }; /* scaled where they are */
    assert_int_equal(tern_scaler_scale_all(s, ((tern_tensors_t){ list, NULL, 3 }), list),
                     TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "loss 2 is NULL");
    assert_true(list[0] == a && list[1] == b);
    assert_int_equal(tern_scaler_scale_all(s, ((tern_tensors_t){ list, NULL, 2 }), list), TERN_OK);
    assert_close(tern_item(list[0]), 16, 0);
    assert_close(tern_item(list[1]), 24, 0);
    tern_grad_scaler_free(s);
    s = tern_grad_scaler_create(.disabled = true); /* A076 */
    assert_ptr_equal(tern_scaler_scale(s, a), a);
    tern_grad_scaler_free(s);
    assert_no_error();
}

/* ---- unscaling ----------------------------------------------------------------------------------- */

static void test_the_kernel_checks_and_multiplies(void **state) /* A054, A055 */
{
    (void)state;
    TERN_SCOPE;
    const float data[] = { 1, 2, NAN, 4, INFINITY, 6 };
    tern_tensor *half = tern_full(0.5, TERN_SCALAR_SHAPE), *one = tern_full(1, TERN_SCALAR_SHAPE);
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_BF16, TERN_F16 };
    for (int i = 0; i < 4; i++) {
        tern_tensor *found = tern_zeros(TERN_SCALAR_SHAPE);
        tern_tensor *g = tern_from_data(data, .shape = TERN_SHAPE(6));
        g = tern_cast(g, dtypes[i]);
        tern_unscale(tern_slice(g, 0, 0, 2), half, found);
        assert_close(tern_item(found), 0, 0);
        assert_close(scaler_first(g), 0.5, 0);
        tern_unscale(tern_slice(g, 0, 1, 0, 2), one, found); /* 2 4 6 with gaps */
        assert_close(tern_item(found), 0, 0);
        tern_unscale(tern_slice(g, 0, 2, 3), half, found);
        assert_close(tern_item(found), 1, 0);
        tern_unscale(tern_slice(g, 0, 0, 2), half, found); /* stays */
        assert_close(tern_item(found), 1, 0);
        found = tern_zeros(TERN_SCALAR_SHAPE);
        tern_unscale(tern_slice(g, 0, 4, 5), one, found);
        assert_close(tern_item(found), 1, 0);
        assert_true(isinf(tern_item(tern_select(g, 0, 4))));
    }
    tern_tensor *g = tern_ones(TERN_SHAPE(2));
    tern_unscale(g, g, half);
    assert_error(TERN_ERR_SHAPE, "1 / scale has to be one element of f32");
    tern_unscale(g, half, tern_zeros(TERN_SCALAR_SHAPE, .dtype = TERN_F64));
    assert_error(TERN_ERR_DTYPE, "the flag has to be one element of f32");
    tern_unscale(tern_expand(half, TERN_SHAPE(4)), half, one);
    assert_error(TERN_ERR_ARGUMENT, "share one place");
    tern_unscale(tern_zeros(TERN_SHAPE(0)), half, one);
    assert_no_error();
}

static void test_large_gradients_are_shared_by_threads(void **state)
{
    (void)state;
    TERN_SCOPE;
    enum { N = 1 << 20 };
    tern_tensor *g = tern_ones(TERN_SHAPE(N)), *found = tern_zeros(TERN_SCALAR_SHAPE);
    tern_unscale(g, tern_full(0.25, TERN_SCALAR_SHAPE), found);
    assert_close(tern_item(found), 0, 0);
    assert_close(tern_item(tern_sum(g)), N / 4, 0);
    tern_fill(tern_slice(g, 0, N - 1, N), -INFINITY);
    tern_unscale(g, tern_full(0.25, TERN_SCALAR_SHAPE), found);
    assert_close(tern_item(found), 1, 0);
}

static void test_f16_gradients_are_refused_before_anything(void **state) /* A050, A051 */
{
    (void)state;
    TERN_SCOPE;
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8);
    tern_tensor *p = scaler_parameter(1), *unused = scaler_parameter(1);
    tern_tensor *half = tern_ones(TERN_SHAPE(3), .dtype = TERN_F16, .requires_grad = true);
    tern_optimizer *opt = tern_sgd(TERN_TENSORS(p, unused, half), .lr = 0.5);
    scaler_backward(s, p, 1);
    scaler_backward(s, half, 1);
    tern_scaler_unscale(s, opt);
    assert_error(TERN_ERR_DTYPE, "attempting to unscale f16 gradients: that of parameter '2'");
    assert_close(scaler_first(tern_grad_of(p)), 8, 0);
    tern_set_grad(half, NULL);
    tern_scaler_step(s, opt); /* the failed call counts for nothing */
    assert_no_error();
    assert_close(scaler_first(p), 0.5, 0);
    assert_close(scaler_first(unused), 1, 0);
    tern_optimizer_free(opt);
    tern_grad_scaler_free(s);
}

static void test_other_dtypes_are_taken(void **state) /* A049, A050 */
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_BF16 };
    for (int i = 0; i < 3; i++) {
        TERN_SCOPE;
        tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 3);
        tern_tensor *p = tern_ones(TERN_SHAPE(3), .dtype = dtypes[i], .requires_grad = true);
        tern_optimizer *opt = tern_sgd(TERN_TENSORS(p), .lr = 0.5);
        tern_scaler_scale(s, p);
        tern_set_grad(p, tern_full(3, TERN_SHAPE(3), .dtype = dtypes[i]));
        tern_scaler_unscale(s, opt);
        assert_no_error();
        const double product = 3 * (double)(float)(1 / 3.0);
        const double want = dtypes[i] == TERN_F64 ? product : 1;
        assert_close(scaler_first(tern_grad_of(p)), want, 0);
        tern_optimizer_free(opt);
        tern_grad_scaler_free(s);
    }
}

/* ---- updating ------------------------------------------------------------------------------------ */

static void test_two_thousand_clean_updates_double_the_scale(void **state) /* A064, A066 */
{
    (void)state;
    tern_grad_scaler *s = tern_grad_scaler_create();
    tern_tensor *p = tern_retain(scaler_parameter(0));
    tern_optimizer *opt = scaler_sgd(p);
    for (int i = 1; i <= 2001; i++) {
        TERN_SCOPE;
        scaler_backward(s, p, i == 2001 ? INFINITY : 1e-3);
        tern_scaler_step(s, opt);
        tern_scaler_update(s);
        tern_zero_grad(opt);
        if (i == 1999)
            assert_close(tern_scaler_get_scale(s), 65536, 0);
        if (i == 2000)
            assert_close(tern_scaler_get_scale(s), 131072, 0);
    }
    assert_close(tern_scaler_get_scale(s), 65536, 0);
    assert_no_error();
    tern_optimizer_free(opt);
    tern_release(p);
    tern_grad_scaler_free(s);
}

static void test_a_new_scale_may_be_a_tensor(void **state) /* A070 */
{
    (void)state;
    TERN_SCOPE;
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8);
    tern_scaler_scale(s, scaler_parameter(1));
    tern_tensor *scale = tern_full(32, TERN_SHAPE(1));
    tern_scaler_update(s, .new_scale_tensor = scale);
    tern_fill(scale, 7); /* copied, not shared */
    assert_close(tern_scaler_get_scale(s), 32, 0);
    tern_scaler_update(s, .new_scale_tensor = tern_ones(TERN_SHAPE(2)));
    assert_error(TERN_ERR_ARGUMENT, "has to be one element");
    tern_scaler_update(s, .new_scale_tensor = tern_ones(TERN_SHAPE(1), .requires_grad = true));
    assert_error(TERN_ERR_ARGUMENT, "requires no gradient");
    tern_scaler_update(s, .new_scale = 1e39);
    assert_error(TERN_ERR_ARGUMENT, "scaler_update: in fill: 1e+39 is beyond what f32 can be");
    assert_close(tern_scaler_get_scale(s), 32, 0);
    tern_scaler_update(s, .new_scale_tensor = scale, .new_scale = 3);
    assert_error(TERN_ERR_ARGUMENT, "new_scale and new_scale_tensor are both given");
    tern_scaler_update(s, .new_scale = -0.0);
    assert_close(tern_scaler_get_scale(s), 0, 0);
    tern_scaler_update(s, .new_scale = 5);
    tern_scaler_update(s, .new_scale = TERN_ZERO);
    assert_close(tern_scaler_get_scale(s), 0, 0);
    tern_grad_scaler_free(s);
}

static void test_states_travel_through_files(void **state) /* A073, A074 */
{
    (void)state;
    TERN_SCOPE;
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 64, .growth_interval = 7);
    tern_grad_scaler *off = tern_grad_scaler_create(.disabled = true);
    tern_tensor *p = scaler_parameter(1);
    tern_optimizer *opt = scaler_sgd(p);
    scaler_backward(s, p, 1);
    tern_scaler_step(s, opt);
    tern_scaler_update(s);
    tern_state *put = tern_state_create();
    tern_scaler_store(s, put, "amp.scaler");
    tern_scaler_store(off, put, "off");
    assert_int_equal(tern_state_tensors(put).count, 5);
    tern_state_save(put, file_path("scaler.safetensors"));
    tern_state *got = tern_state_load(file_path("scaler.safetensors"));
    tern_grad_scaler *other = tern_grad_scaler_create();
    tern_scaler_restore(other, got, "off");
    assert_error(TERN_ERR_STATE, "possibly because it was saved from a disabled one");
    tern_scaler_restore_at(TERN_HERE, other, got, "amp.scaler", true);
    assert_close(tern_scaler_get_scale(other), 65536, 0);
    tern_scaler_restore(other, got, "amp.scaler");
    assert_close(tern_scaler_get_scale(other), 64, 0);
    assert_int_equal(tern_scaler_growth_interval(other), 7);
    tern_scaler_restore(off, got, "nothing"); /* disabled: nothing happens */
    assert_no_error();
    tern_scaler_update(s, .new_scale = 2);
    tern_scaler_restore(s, got, "amp.scaler"); /* into tensors that are there */
    assert_close(tern_scaler_get_scale(s), 64, 0);
    tern_optimizer_free(opt);
    tern_state_free(put);
    tern_state_free(got);
    tern_grad_scaler_free(s);
    tern_grad_scaler_free(off);
    tern_grad_scaler_free(other);
}

/* ---- loops ---------------------------------------------------------------------------------------- */

/* Penalty 0.5 |d loss / dp|^2 on loss = sum(p^3): of p, 3 p^2 + 18 p^3. */
static void test_a_gradient_penalty(void **state) /* A079 */
{
    (void)state;
    TERN_SCOPE;
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 1024);
    tern_tensor *p = scaler_parameter(0.5), *slope;
    tern_optimizer *opt = scaler_sgd(p);
    tern_tensor *loss = tern_sum(tern_mul(p, tern_mul(p, p)));
    tern_grad(tern_scaler_scale(s, loss), &p, 1, &slope, .create_graph = true);
    slope = tern_mul(slope, 1 / tern_scaler_get_scale(s));
    tern_tensor *penalty = tern_mul(tern_sum(tern_mul(slope, slope)), 0.5);
    tern_backward(tern_scaler_scale(s, tern_add(loss, penalty)));
    tern_scaler_unscale(s, opt);
    assert_no_error();
    assert_close(scaler_first(tern_grad_of(p)), 3 * 0.25 + 18 * 0.125, 1e-5);
    tern_optimizer_free(opt);
    tern_grad_scaler_free(s);
}

/* The least number above 0 that f16 has is 6e-8. */
static double trained_in_f16(bool scaling)
{
    TERN_SCOPE;
    tern_grad_scaler *s = tern_grad_scaler_create(.disabled = !scaling);
    tern_tensor *w = tern_full(1, TERN_SHAPE(4, 4), .requires_grad = true), *loss;
    tern_optimizer *opt = tern_sgd(TERN_TENSORS(w), .lr = 1e6);
    {
        TERN_AUTOCAST(tern_default_device(), TERN_F16);
        tern_tensor *y = tern_matmul(tern_full(1e-4, TERN_SHAPE(4, 4)), w);
        loss = tern_mul(tern_sum(y, .dtype = TERN_F32), 1e-5);
    }
    tern_backward(tern_scaler_scale(s, loss));
    tern_scaler_step(s, opt);
    const double moved = 1 - scaler_first(tern_reshape(w, TERN_SHAPE(-1)));
    tern_scaler_update(s);
    tern_optimizer_free(opt);
    tern_grad_scaler_free(s);
    return moved;
}

static void test_f16_without_the_scaler_loses_small_gradients(void **state)
{
    (void)state;
    const double exact = 4 * 1e-4 * 1e-5 * 1e6;
    assert_close(trained_in_f16(true), exact, 0.01 * exact);
    assert_close(trained_in_f16(false), 0, 0);
    assert_no_error();
}

static void test_a_skip_names_its_parameter(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const char *const names[] = { "body.weight", "body.bias", "head.weight" };
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 8, .growth_interval = 2);
    tern_tensor *p[] = { scaler_parameter(1), scaler_parameter(1), scaler_parameter(1) };
    tern_optimizer *opt = tern_sgd(((tern_tensors_t){ p, names, 3 }), .lr = 0.5);
    const double slopes[4][3] = { { 1, 1, 1 }, { 1, INFINITY, NAN }, { 1, 1, 1 }, { 1, 1, NAN } };
    assert_null(tern_scaler_overflowed(s));
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 3; k++)
            scaler_backward(s, p[k], slopes[i][k]);
        tern_scaler_step(s, opt);
        assert_int_equal(tern_scaler_skipped(s, opt), i % 2 == 1);
        tern_scaler_update(s);
        tern_zero_grad(opt);
    }
    assert_no_error();
    assert_string_equal(tern_scaler_overflowed(s), "head.weight");
    assert_int_equal(tern_scaler_skip_count(s), 2);
    assert_int_equal(tern_scaler_update_count(s), 4);
    tern_scaler_event events[8];
    assert_int_equal(tern_scaler_history(s, events, 8), 4);
    assert_string_equal(events[0].parameter, "");
    assert_string_equal(events[1].parameter, "body.bias");
    assert_int_equal(events[1].skipped, 1);
    assert_close(events[1].scale, 4, 0);
    assert_int_equal(events[3].update, 4);
    assert_close(events[3].scale, 2, 0);
    assert_int_equal(tern_scaler_history(s, events, 1), 1);
    assert_int_equal(events[0].update, 4);
    tern_optimizer_free(opt);
    tern_grad_scaler_free(s);
}

static void test_the_history_keeps_the_last(void **state)
{
    (void)state;
    tern_grad_scaler *s = tern_grad_scaler_create(.init_scale = 1, .growth_interval = 1);
    tern_tensor *p = tern_retain(scaler_parameter(1));
    tern_scaler_scale(s, p);
    for (int i = 0; i < TERN_SCALER_EVENTS + 10; i++)
        tern_scaler_update(s, .new_scale = i + 1);
    static tern_scaler_event events[TERN_SCALER_EVENTS + 10];
    assert_int_equal(tern_scaler_history(s, events, TERN_SCALER_EVENTS + 10), TERN_SCALER_EVENTS);
    assert_int_equal(tern_scaler_history(s, NULL, 3), 0);
    assert_int_equal(tern_scaler_history(s, events, -1), 0);
    assert_int_equal(events[0].update, 11);
    assert_close(events[TERN_SCALER_EVENTS - 1].scale, TERN_SCALER_EVENTS + 10, 0);
    tern_release(p);
    tern_grad_scaler_free(s);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, clear, clear)
    const struct CMUnitTest tests[] = {
        CASE(test_defaults_and_their_checks),
        CASE(test_without_cuda_a_cuda_scaler_is_disabled),
        CASE(test_scaling_promotes_as_mul_does),
        CASE(test_no_scaler_at_all),
        CASE(test_a_list_is_scaled_one_by_one),
        CASE(test_the_kernel_checks_and_multiplies),
        CASE(test_large_gradients_are_shared_by_threads),
        CASE(test_f16_gradients_are_refused_before_anything),
        CASE(test_other_dtypes_are_taken),
        CASE(test_two_thousand_clean_updates_double_the_scale),
        CASE(test_a_new_scale_may_be_a_tensor),
        CASE(test_states_travel_through_files),
        CASE(test_a_gradient_penalty),
        CASE(test_f16_without_the_scaler_loses_small_gradients),
        CASE(test_a_skip_names_its_parameter),
        CASE(test_the_history_keeps_the_last),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 || failed;
}
