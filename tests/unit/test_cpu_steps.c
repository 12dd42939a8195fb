/* Steps of SGD and Adam against loops in double precision: dtypes, layouts of the gradient, options. */
#include <math.h>

#include "backend_cpu/cpu.h"
#include "tern/op_attr.h"
#include "tests/support/check.h"
#include "tests/support/karray_layout.h"

typedef struct step_case {
    tern_dtype_t dtype;
    karray_layout layout; /* of the gradient */
    int64_t n;
    bool adam;
    tern_attr_sgd sgd;
    tern_attr_adam adam_attr;
} step_case;

static void sgd_reference(const tern_attr_sgd *a, double *p, double g, double *b)
{
    g = (a->maximize ? -g : g) + a->weight_decay * *p;
    if (a->momentum != 0) {
        *b = a->first ? g : a->momentum * *b + (1 - a->dampening) * g;
        g = a->nesterov ? g + a->momentum * *b : *b;
    }
    *p -= a->lr * g;
}

static void adam_reference(const tern_attr_adam *a, double *p, double g, double *m, double *v)
{
    const double step = (double)a->step;
    g = a->maximize ? -g : g;
    if (a->decoupled)
        *p *= 1 - a->lr * a->weight_decay;
    else
        g += a->weight_decay * *p;
    *m = a->beta1 * *m + (1 - a->beta1) * g;
    *v = a->beta2 * *v + (1 - a->beta2) * g * g;
    const double denominator = sqrt(*v) / sqrt(1 - pow(a->beta2, step)) + a->eps;
    *p -= a->lr / (1 - pow(a->beta1, step)) * *m / denominator;
}

static void check_step(void *context)
{
    const step_case *c = context;
    const bool buffer = c->adam || c->sgd.momentum != 0;
    const int64_t dims[2] = { c->n, 3 };
    karray p = karray_random(c->dtype, 2, dims, -1, 1, 1);
    karray g = karray_random(c->dtype, 2, dims, -1, 1, 2);
    karray m = karray_random(c->dtype, 2, dims, -1, 1, 3);
    karray v = karray_random(c->dtype, 2, dims, 0, 1, 4);
    karray_relayout(&g, c->layout);
    const kernel_run run = { .kernel = c->adam ? cpu_adam_step : cpu_sgd_step,
                             .threads = 2,
                             .attr = c->adam ? (const void *)&c->adam_attr : &c->sgd,
                             .in = { &p, &g, buffer ? &m : NULL, &v },
                             .n_in = c->adam ? 4 : 3 };
    assert_int_equal(kernel_call(&run), TERN_OK);
    const double tolerance = kernel_tolerance(c->dtype, 1e-6);
    for (int64_t i = 0; i < p.view.numel; i++) {
        if (c->adam)
            adam_reference(&c->adam_attr, &p.values[i], g.values[i], &m.values[i], &v.values[i]);
        else
            sgd_reference(&c->sgd, &p.values[i], g.values[i], &m.values[i]);
        kernel_expect("parameter", i, karray_at(&p, i), p.values[i], tolerance);
        kernel_expect("buffer", i, karray_at(&m, i), m.values[i], tolerance);
        kernel_expect("squares", i, karray_at(&v, i), v.values[i], tolerance);
    }
    karray_free(&p);
    karray_free(&g);
    karray_free(&m);
    karray_free(&v);
}

static void check_steps(step_case c)
{
    static const int64_t sizes[] = { 1, 11, 700, 60001 };
    for (int dtype = TERN_F16; dtype <= TERN_F64; dtype++) {
        for (int k = 0; k < 4; k++) {
            c.dtype = (tern_dtype_t)dtype;
            c.n = sizes[k];
            c.layout = k == 2 ? KARRAY_REVERSED : k == 1 ? KARRAY_GAPS : KARRAY_ROW_MAJOR;
            kernel_each_isa(check_step, &c);
        }
    }
}

static void test_sgd(void **state)
{
    (void)state;
    check_steps((step_case){ .sgd = { .lr = 0.1 } });
    check_steps((step_case){ .sgd = { .lr = 0.1, .weight_decay = 0.01, .maximize = 1 } });
    check_steps((step_case){ .sgd = { .lr = 0.1, .momentum = 0.9, .first = 1 } });
    check_steps((step_case){ .sgd = { .lr = 0.1, .momentum = 0.9, .dampening = 0.2 } });
    check_steps(
        (step_case){ .sgd = { .lr = 0.1, .momentum = 0.9, .nesterov = 1, .weight_decay = 0.01 } });
}

/* The buffer of a first step may hold anything. */
static void test_first_step_does_not_read_the_buffer(void **state)
{
    (void)state;
    const int64_t n = 50;
    const tern_attr_sgd attr = { .lr = 0.5, .momentum = 0.9, .first = 1 };
    karray p = karray_filled(TERN_F32, 1, &n, 1), g = karray_filled(TERN_F32, 1, &n, 1);
    karray b = karray_filled(TERN_F32, 1, &n, NAN);
    const kernel_run run = {
        .kernel = cpu_sgd_step, .attr = &attr, .in = { &p, &g, &b }, .n_in = 3
    };
    assert_int_equal(kernel_call(&run), TERN_OK);
    for (int64_t i = 0; i < n; i++)
        assert_true(karray_at(&p, i) == 0.5 && karray_at(&b, i) == 1);
    karray_free(&p);
    karray_free(&g);
    karray_free(&b);
}

static void test_adam(void **state)
{
    (void)state;
    const tern_attr_adam plain = {
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .step = 3
    };
    tern_attr_adam attr = plain;
    check_steps((step_case){ .adam = true, .adam_attr = attr });
    attr.weight_decay = 0.1;
    check_steps((step_case){ .adam = true, .adam_attr = attr });
    attr.decoupled = 1;
    attr.maximize = 1;
    attr.step = 1;
    check_steps((step_case){ .adam = true, .adam_attr = attr });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_first_step_does_not_read_the_buffer),
        cmocka_unit_test(test_adam),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
