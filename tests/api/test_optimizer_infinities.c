/* Steps of parameters, gradients and states that are infinite: what torch.optim leaves out, because its
 * factor is 0, makes no NaN here. Expected values are those of torch.optim's formulas by hand. */
#include <math.h>

#include "tests/support/check.h"

enum { SIZE = 70, STATES = 3 };
#define INF INFINITY

typedef struct step_row {
    const char *name;
    tern_status_t (*step)(tern_tensor *p, tern_tensor *g, tern_tensor *const *s, bool scaled);
    double p, g, state[STATES];        /* before; NAN: there is none */
    double want_p, want_state[STATES]; /* after */
} step_row;

static const tern_step_scaling nothing = { .scale = NULL };

static tern_status_t sgd(tern_tensor *p, tern_tensor *g, tern_tensor *const *s, bool scaled,
                         tern_attr_sgd o)
{
    o.lr = 0.5;
    return scaled ? tern_sgd_step_scaled_at(TERN_HERE, p, g, s[0], &nothing, &o)
                  : tern_sgd_step_at(TERN_HERE, p, g, s[0], &o);
}
static tern_status_t sgd_plain(tern_tensor *p, tern_tensor *g, tern_tensor *const *s, bool scaled)
{
    return sgd(p, g, s, scaled, (tern_attr_sgd){ .dampening = 0.5 });
}
static tern_status_t sgd_moves(tern_tensor *p, tern_tensor *g, tern_tensor *const *s, bool scaled)
{
    return sgd(p, g, s, scaled, (tern_attr_sgd){ .momentum = 0.5 });
}
static tern_status_t sgd_decays(tern_tensor *p, tern_tensor *g, tern_tensor *const *s, bool scaled)
{
    return sgd(p, g, s, scaled, (tern_attr_sgd){ .weight_decay = 0.5 });
}

static tern_status_t adam_of(tern_tensor *p, tern_tensor *g, tern_tensor *const *s, bool scaled,
                             double beta1)
{
    const tern_attr_adam o = { .lr = 0.5, .beta1 = beta1, .beta2 = 0.5, .eps = 1e-8, .step = 2 };
    return scaled ? tern_adam_step_scaled_at(TERN_HERE, p, g, s[0], s[1], &nothing, &o)
                  : tern_adam_step_at(TERN_HERE, p, g, s[0], s[1], &o);
}
static tern_status_t adam(tern_tensor *p, tern_tensor *g, tern_tensor *const *s, bool scaled)
{
    return adam_of(p, g, s, scaled, 0.75);
}
/* Generative adversarial networks use that: the moment is the gradient. */
static tern_status_t adam_without_beta1(tern_tensor *p, tern_tensor *g, tern_tensor *const *s,
                                        bool scaled)
{
    return adam_of(p, g, s, scaled, 0);
}

static tern_status_t rmsprop_of(tern_tensor *p, tern_tensor *g, tern_tensor *const *s, bool scaled,
                                double momentum)
{
    const tern_attr_rmsprop o = { .lr = 0.5, .alpha = 0.75, .momentum = momentum };
    return tern_rmsprop_step_at(TERN_HERE, p, g, s[0], s[1], s[2], scaled ? &nothing : NULL, &o);
}
static tern_status_t rmsprop(tern_tensor *p, tern_tensor *g, tern_tensor *const *s, bool scaled)
{
    return rmsprop_of(p, g, s, scaled, 0);
}
static tern_status_t rmsprop_moves(tern_tensor *p, tern_tensor *g, tern_tensor *const *s,
                                   bool scaled)
{
    return rmsprop_of(p, g, s, scaled, 0.5);
}

static tern_status_t adagrad(tern_tensor *p, tern_tensor *g, tern_tensor *const *s, bool scaled)
{
    const tern_attr_adagrad o = { .lr = 0.5, .step = 1 };
    return tern_adagrad_step_at(TERN_HERE, p, g, s[0], scaled ? &nothing : NULL, &o);
}

static tern_status_t lion(tern_tensor *p, tern_tensor *g, tern_tensor *const *s, bool scaled)
{
    const tern_attr_lion o = { .lr = 0.5, .beta1 = 0.75, .beta2 = 0.5 };
    return tern_lion_step_at(TERN_HERE, p, g, s[0], scaled ? &nothing : NULL, &o);
}

/* clang-format off */
#define NONE NAN
static const step_row rows[] = {
    { "sgd: no decay of infinity", sgd_plain, INF, 1, { NONE, NONE, NONE }, INF, { NONE, NONE, NONE } },
    { "sgd: decay of infinity", sgd_decays, INF, 1, { NONE, NONE, NONE }, NAN, { NONE, NONE, NONE } },
    { "sgd: no momentum, no buffer", sgd_plain, 2, 1, { INF, NONE, NONE }, 1.5, { INF, NONE, NONE } },
    { "sgd: the buffer has no infinity", sgd_moves, INF, 1, { 2, NONE, NONE }, INF, { 2, NONE, NONE } },
    { "sgd: an infinite gradient", sgd_moves, 2, INF, { 1, NONE, NONE }, -INF, { INF, NONE, NONE } },
    { "adam: no decay of infinity", adam, INF, 2, { 2, 4, NONE }, INF, { 2, 4, NONE } },
    /* 65472 + (g - 65472) is 0 in f32 */
    { "adam: the gradient alone", adam_without_beta1, 2, 0x1p-10, { 65472, 1, NONE },
      1.99940201, { 0x1p-10, 0.5, NONE } },
    { "rmsprop: no decay of infinity", rmsprop, INF, 2, { 4, NONE, NONE }, INF, { 4, NONE, NONE } },
    { "rmsprop: no momentum, no buffer", rmsprop, 2, 2, { 4, INF, NONE }, 1.5, { 4, INF, NONE } },
    { "rmsprop: and a mean behind it", rmsprop, 2, 2, { 13.0 / 3, INF, 0 }, 1.5, { 4.25, INF, 0.5 } },
    { "rmsprop: a momentum", rmsprop_moves, INF, 2, { 4, 2, NONE }, INF, { 4, 2, NONE } },
    { "adagrad: no decay of infinity", adagrad, INF, 2, { 5, NONE, NONE }, INF, { 9, NONE, NONE } },
    { "lion: no decay of infinity", lion, INF, 1, { 1, NONE, NONE }, INF, { 1, NONE, NONE } },
    { "lion: an infinite mean has a sign", lion, 2, 1, { -INF, NONE, NONE }, 2.5, { -INF, NONE, NONE } },
};
/* clang-format on */

static tern_tensor *filled(double value, tern_dtype_t dtype)
{
    return isnan(value) ? NULL : tern_full(value, TERN_SHAPE(SIZE), .dtype = dtype);
}

static void expect(const step_row *row, const char *what, tern_tensor *t, double want, double eps)
{
    if (t == NULL)
        return;
    double values[SIZE];
    assert_int_equal(tern_read(t, TERN_F64, values, sizeof values), TERN_OK);
    for (int i = 0; i < SIZE; i++) {
        const double v = values[i];
        const bool same = isnan(want)   ? isnan(v)
                          : isinf(want) ? isinf(v) && signbit(v) == signbit(want)
                                        : fabs(v - want) <= eps * fabs(want);
        if (!same)
            fail_msg("%s, %s, element %d of %s: %g, not %g", row->name,
                     tern_dtype_name(tern_dtype(t)), i, what, v, want);
    }
}

static void check_row(const step_row *row, tern_dtype_t dtype, bool scaled)
{
    TERN_SCOPE;
    const double eps = dtype == TERN_BF16 ? 0.008 : dtype == TERN_F16 ? 0.001 : 1e-6;
    tern_tensor *p = filled(row->p, dtype), *g = filled(row->g, dtype), *s[STATES];
    for (int k = 0; k < STATES; k++)
        s[k] = filled(row->state[k], dtype);
    assert_int_equal(row->step(p, g, s, scaled), TERN_OK);
    expect(row, "the parameter", p, row->want_p, eps);
    for (int k = 0; k < STATES; k++)
        expect(row, "the state", s[k], row->want_state[k], eps);
}

static void test_terms_without_a_factor_are_left_out(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_F16, TERN_BF16, TERN_F32, TERN_F64 };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int d = 0; d < 4; d++)
            for (int scaled = 0; scaled < 2; scaled++)
                check_row(&rows[r], dtypes[d], scaled != 0);
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terms_without_a_factor_are_left_out),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
