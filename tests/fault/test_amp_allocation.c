/* Every allocation of a step in f16 with a gradient scaler fails in turn: nothing is leaked, parameters are
 * all updated or none, and the next step works. Tables of autocast and the name of a parameter that overflowed are done without. */
#include "tern/debug.h"
#include "tests/support/params.h"

enum { PARAMS = 4, FLOATS = 8 * 16 + 16 + 16 * 4 + 4 };

typedef struct model {
    tern_module *net;
    tern_optimizer *opt;
    tern_tensor *x, *y;
    double size;          /* of the loss: infinite gradients are skipped */
    float values[FLOATS]; /* of the parameters, when they were last looked at */
} model;

/* What tern_scaler_step said. */
static tern_status_t step(const model *m, tern_grad_scaler *scaler)
{
    TERN_SCOPE;
    tern_tensor *loss;
    {
        TERN_AUTOCAST(TERN_CPU, TERN_F16);
        loss = tern_cross_entropy(tern_forward(m->net, m->x), m->y);
    }
    tern_backward(tern_scaler_scale(scaler, tern_mul(loss, m->size)));
    tern_scaler_unscale(scaler, m->opt);
    tern_clip_grad_norm(tern_optimizer_params(m->opt, -1), .max_norm = 1);
    const tern_status_t status = tern_scaler_step(scaler, m->opt);
    tern_scaler_update(scaler);
    tern_zero_grad(m->opt);
    return status;
}

/* After an error in the middle of an iteration. */
static void begin_anew(const model *m, tern_grad_scaler *scaler)
{
    tern_error_clear();
    tern_zero_grad(m->opt);
    if (tern_scaler_update_count(scaler) > 0)
        tern_scaler_update(scaler, .new_scale = 16);
    assert_no_error();
}

/* With a scaler of its own, whose state is made in the step. False when k was not reached. */
static bool fail_at(model *m, int64_t k, int64_t *errors)
{
    const int64_t live = tern_live_tensors();
    tern_amp_reset();
    tern_debug_fail_allocation(k);
    tern_grad_scaler *scaler = tern_grad_scaler_create(.init_scale = 16);
    const tern_status_t status = scaler != NULL ? step(m, scaler) : TERN_ERR_OOM;
    const bool reached = tern_debug_allocations_left() <= 0;
    tern_debug_fail_allocation(0);
    *errors += tern_failed();
    if (tern_failed() && tern_error_code() != TERN_ERR_OOM)
        fail_msg("allocation %lld: %s", (long long)k, tern_error_text());
    tern_error_clear();
    if (scaler != NULL)
        begin_anew(m, scaler);
    tern_grad_scaler_free(scaler);
    if (tern_live_tensors() > live)
        fail_msg("allocation %lld leaks %lld tensors", (long long)k,
                 (long long)(tern_live_tensors() - live));
    const int64_t changed = params_changed(m->opt, m->values, FLOATS);
    if (changed != (status == TERN_OK && m->size <= 1 ? PARAMS : 0))
        fail_msg("allocation %lld: tern_scaler_step gave %s, and %lld parameters changed",
                 (long long)k, tern_status_name(status), (long long)changed);
    assert_false(tern_autocast_enabled(TERN_CPU));
    return reached;
}

static void fail_each(double size)
{
    tern_seed(5);
    model m = { .size = size };
    m.net = tern_sequential(tern_linear_layer(8, 16), tern_relu_layer(), tern_linear_layer(16, 4));
    m.opt = tern_adam(tern_parameters(m.net), .lr = 1e-2);
    m.x = tern_retain(tern_randn(TERN_SHAPE(6, 8)));
    m.y = tern_retain(tern_argmax(tern_randn(TERN_SHAPE(6, 4)), 1));
    tern_grad_scaler *warm = tern_grad_scaler_create();
    m.size = 1;
    step(&m, warm); /* optimizer state exists from here on */
    tern_grad_scaler_free(warm);
    assert_no_error();
    m.size = size;
    params_changed(m.opt, m.values, FLOATS);
    int64_t k = 1, errors = 0;
    while (fail_at(&m, k, &errors))
        k++;
    print_message("%lld allocations, %lld of them errors\n", (long long)k - 1, (long long)errors);
    assert_true(errors > 40 && errors < k);
    tern_release(m.x);
    tern_release(m.y);
    tern_optimizer_free(m.opt);
    tern_module_free(m.net);
}

static void test_each_allocation_of_a_scaled_step_may_fail(void **state)
{
    (void)state;
    fail_each(1);
}

static void test_each_allocation_of_a_skipped_step_may_fail(void **state)
{
    (void)state;
    fail_each(1e38);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_of_a_scaled_step_may_fail),
        cmocka_unit_test(test_each_allocation_of_a_skipped_step_may_fail),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
