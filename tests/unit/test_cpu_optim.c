/* Steps of RMSprop, Adagrad and Lion against loops in double precision: dtypes, layouts of the gradient,
 * every instruction set. */
#include <math.h>

#include "backend_cpu/cpu.h"
#include "tern/op_attr.h"
#include "tests/support/check.h"
#include "tests/support/karray_layout.h"

enum { OPERANDS = 5 };

typedef struct step_case {
    tern_dtype_t dtype;
    karray_layout layout; /* of the gradient */
    int64_t n;
    tern_kernel kernel;
    const void *attr;
    bool state[3]; /* which of the state there is */
    void (*reference)(const void *attr, double *p, double g, double *state[3]);
} step_case;

static void rmsprop_reference(const void *attr, double *p, double g, double *state[3])
{
    const tern_attr_rmsprop *a = attr;
    g = (a->maximize ? -g : g) + a->weight_decay * *p;
    *state[0] = a->alpha * *state[0] + (1 - a->alpha) * g * g;
    double spread = *state[0];
    if (state[2] != NULL) {
        *state[2] = a->alpha * *state[2] + (1 - a->alpha) * g;
        spread -= *state[2] * *state[2];
    }
    double move = g / (sqrt(spread) + a->eps);
    if (state[1] != NULL)
        move = *state[1] = a->momentum * *state[1] + move;
    *p -= a->lr * move;
}

static void adagrad_reference(const void *attr, double *p, double g, double *state[3])
{
    const tern_attr_adagrad *a = attr;
    g = (a->maximize ? -g : g) + a->weight_decay * *p;
    *state[0] += g * g;
    *p -= a->lr / (1 + (double)(a->step - 1) * a->lr_decay) * g / (sqrt(*state[0]) + a->eps);
}

static void lion_reference(const void *attr, double *p, double g, double *state[3])
{
    const tern_attr_lion *a = attr;
    g = a->maximize ? -g : g;
    const double blend = a->beta1 * *state[0] + (1 - a->beta1) * g;
    *p -= a->lr * ((blend > 0) - (blend < 0) + a->weight_decay * *p);
    *state[0] = a->beta2 * *state[0] + (1 - a->beta2) * g;
}

/* Squares are above the squares of means, so that no difference is small. */
static void check_step(void *context)
{
    const step_case *c = context;
    const int64_t dims[2] = { c->n, 3 };
    karray p = karray_random(c->dtype, 2, dims, -1, 1, 1);
    karray g = karray_random(c->dtype, 2, dims, -1, 1, 2);
    karray s[3] = { karray_random(c->dtype, 2, dims, 0.5, 1, 3),
                    karray_random(c->dtype, 2, dims, -1, 1, 4),
                    karray_random(c->dtype, 2, dims, -0.5, 0.5, 5) };
    karray_relayout(&g, c->layout);
    const kernel_run run = { .kernel = c->kernel,
                             .threads = 2,
                             .attr = c->attr,
                             .in = { &p, &g, &s[0], c->state[1] ? &s[1] : NULL,
                                     c->state[2] ? &s[2] : NULL },
                             .n_in = OPERANDS };
    assert_int_equal(kernel_call(&run), TERN_OK);
    const double tolerance = kernel_tolerance(c->dtype, 1e-6);
    for (int64_t i = 0; i < p.view.numel; i++) {
        double *state[3];
        for (int k = 0; k < 3; k++)
            state[k] = c->state[k] ? &s[k].values[i] : NULL;
        c->reference(c->attr, &p.values[i], g.values[i], state);
        kernel_expect("parameter", i, karray_at(&p, i), p.values[i], tolerance);
        for (int k = 0; k < 3; k++)
            kernel_expect("state", i, karray_at(&s[k], i), s[k].values[i], tolerance);
    }
    karray_free(&p);
    karray_free(&g);
    for (int k = 0; k < 3; k++)
        karray_free(&s[k]);
}

static void check_steps(step_case c)
{
    static const int64_t sizes[] = { 1, 11, 700, 20001 };
    for (int dtype = TERN_F16; dtype <= TERN_F64; dtype++) {
        for (int k = 0; k < 4; k++) {
            c.dtype = (tern_dtype_t)dtype;
            c.n = sizes[k];
            c.layout = k == 2 ? KARRAY_REVERSED : k == 1 ? KARRAY_GAPS : KARRAY_ROW_MAJOR;
            kernel_each_isa(check_step, &c);
        }
    }
}

static void test_rmsprop(void **state)
{
    (void)state;
    const tern_attr_rmsprop attr = {
        .lr = 0.1, .alpha = 0.9, .momentum = 0.8, .eps = 0.01, .weight_decay = 0.01, .maximize = 1
    };
    for (int form = 0; form < 4; form++)
        check_steps((step_case){ .kernel = cpu_rmsprop_step,
                                 .attr = &attr,
                                 .state = { true, form & 1, form & 2 },
                                 .reference = rmsprop_reference });
}

static void test_adagrad(void **state)
{
    (void)state;
    const tern_attr_adagrad attr = {
        .lr = 0.1, .lr_decay = 0.25, .eps = 0.01, .weight_decay = 0.01, .step = 3
    };
    check_steps((step_case){ .kernel = cpu_adagrad_step,
                             .attr = &attr,
                             .state = { true },
                             .reference = adagrad_reference });
}

static void test_lion(void **state)
{
    (void)state;
    const tern_attr_lion attr = { .lr = 0.125, .beta1 = 0.5, .beta2 = 0.75, .weight_decay = 0.125 };
    check_steps((step_case){
        .kernel = cpu_lion_step, .attr = &attr, .state = { true }, .reference = lion_reference });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rmsprop),
        cmocka_unit_test(test_adagrad),
        cmocka_unit_test(test_lion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
