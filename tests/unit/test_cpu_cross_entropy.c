/* The cross-entropy kernels against double loops, for every float type and instruction set. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/kernel.h"

typedef struct loss_case {
    tern_dtype_t dtype;
    int64_t n, classes, inner; /* inner 0: logits [N, C] */
    int reduction;
    double smoothing;
    bool weighted, ignoring;
    int threads;
} loss_case;

enum { IGNORED = 1 };

/* Arrays of one case, and what the kernels should make of them. */
typedef struct loss_data {
    karray x, target, weight, loss, lse, grad, gx;
    double *want_loss, *want_lse, *want_gx;
    int64_t positions, inner;
} loss_data;

static double place(const loss_data *d, int64_t classes, int64_t p, int64_t c)
{
    return d->x.values[(p / d->inner * classes + c) * d->inner + p % d->inner];
}

static double weight_of(const loss_case *c, const loss_data *d, int64_t k)
{
    return c->weighted ? d->weight.values[k] : 1;
}

static bool counts(const loss_case *c, double target)
{
    return !(c->ignoring && target == IGNORED);
}

/* loss of position p, its lse, and the gradient for a loss gradient of s */
static void reference_position(const loss_case *c, loss_data *d, int64_t p, double s)
{
    double largest = -INFINITY, sum = 0, all = 0, spread = 0;
    const double e = c->smoothing, classes = (double)c->classes;
    const double target = d->target.values[p];
    const double w = weight_of(c, d, (int64_t)target);
    for (int64_t k = 0; k < c->classes; k++)
        largest = fmax(largest, place(d, c->classes, p, k));
    for (int64_t k = 0; k < c->classes; k++)
        sum += exp(place(d, c->classes, p, k) - largest);
    const double beyond = log(sum); /* by itself: a large logit would round it */
    for (int64_t k = 0; k < c->classes; k++) {
        all += weight_of(c, d, k);
        spread += weight_of(c, d, k) * (largest - place(d, c->classes, p, k) + beyond);
    }
    const bool counted = counts(c, target);
    d->want_lse[p] = largest + beyond;
    const double below = largest - place(d, c->classes, p, (int64_t)target);
    d->want_loss[p] = counted ? (1 - e) * w * (below + beyond) + e / classes * spread : 0;
    for (int64_t k = 0; k < c->classes; k++) {
        const double probability = exp(place(d, c->classes, p, k) - largest) / sum;
        const double slope = (1 - e) * w * (probability - (k == (int64_t)target)) +
                             e / classes * (all * probability - weight_of(c, d, k));
        d->want_gx[(p / d->inner * c->classes + k) * d->inner + p % d->inner] =
            counted ? s * slope : 0;
    }
}

static double total_weight(const loss_case *c, const loss_data *d)
{
    double total = 0;
    for (int64_t p = 0; p < d->positions; p++)
        if (counts(c, d->target.values[p]))
            total += weight_of(c, d, (int64_t)d->target.values[p]);
    return total;
}

static loss_data data_of(const loss_case *c)
{
    loss_data d = { .inner = c->inner > 0 ? c->inner : 1 };
    const int64_t dims[3] = { c->n, c->classes, c->inner };
    const int64_t spots[2] = { c->n, c->inner };
    const int extra = c->inner > 0;
    const bool each = c->reduction == TERN_REDUCTION_NONE;
    const tern_dtype_t stat = c->dtype == TERN_F64 ? TERN_F64 : TERN_F32;
    d.positions = c->n * d.inner;
    d.x = karray_random(c->dtype, 2 + extra, dims, -4, 4, 1);
    d.gx = karray_filled(c->dtype, 2 + extra, dims, 7);
    d.target = karray_random(TERN_I64, 1 + extra, spots, 0, (double)c->classes, 2);
    d.weight = karray_random(c->dtype, 1, &c->classes, 0.5, 2, 3);
    d.lse = karray_filled(stat, 1 + extra, spots, 7);
    d.loss = karray_filled(c->dtype, each ? 1 + extra : 0, spots, 7);
    d.grad = karray_random(c->dtype, each ? 1 + extra : 0, spots, 0.5, 1.5, 4);
    d.want_loss = calloc((size_t)d.positions, sizeof(double));
    d.want_lse = calloc((size_t)d.positions, sizeof(double));
    d.want_gx = calloc((size_t)(d.positions * c->classes), sizeof(double));
    return d;
}

static void data_free(loss_data *d)
{
    karray *all[] = { &d->x, &d->target, &d->weight, &d->loss, &d->lse, &d->grad, &d->gx };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        karray_free(all[i]);
    free(d->want_loss);
    free(d->want_lse);
    free(d->want_gx);
}

static void run_both(const loss_case *c, loss_data *d)
{
    const tern_attr_loss attr = { .reduction = c->reduction,
                                  .label_smoothing = c->smoothing,
                                  .ignore_index = c->ignoring ? IGNORED : -100 };
    const karray *weight = c->weighted ? &d->weight : NULL;
    const kernel_run forward = { .kernel = cpu_cross_entropy,
                                 .attr = &attr,
                                 .threads = c->threads,
                                 .in = { &d->x, &d->target, weight },
                                 .n_in = 3,
                                 .out = { &d->loss, &d->lse },
                                 .n_out = 2 };
    const kernel_run backward = { .kernel = cpu_cross_entropy_grad,
                                  .attr = &attr,
                                  .threads = c->threads,
                                  .in = { &d->grad, &d->x, &d->target, weight, &d->lse },
                                  .n_in = 5,
                                  .out = { &d->gx },
                                  .n_out = 1 };
    assert_int_equal(kernel_call(&forward), TERN_OK);
    assert_int_equal(kernel_call(&backward), TERN_OK);
}

static void check_case(void *context)
{
    const loss_case *c = context;
    loss_data d = data_of(c);
    run_both(c, &d);
    const bool each = c->reduction == TERN_REDUCTION_NONE;
    const double total = c->reduction == TERN_REDUCTION_MEAN ? total_weight(c, &d) : 1;
    double sum = 0;
    for (int64_t p = 0; p < d.positions; p++) {
        reference_position(c, &d, p, d.grad.values[each ? p : 0] / total);
        sum += d.want_loss[p];
    }
    const double tolerance = kernel_tolerance(c->dtype, 4e-6);
    const double stat = c->dtype == TERN_F64 ? 1e-12 : 4e-6;
    for (int64_t p = 0; p < d.positions; p++)
        kernel_expect("lse", p, karray_at(&d.lse, p), d.want_lse[p], stat);
    for (int64_t p = 0; p < (each ? d.positions : 1); p++)
        kernel_expect("loss", p, karray_at(&d.loss, p), each ? d.want_loss[p] : sum / total,
                      tolerance);
    for (int64_t i = 0; i < d.gx.view.numel; i++)
        kernel_expect("gradient", i, karray_at(&d.gx, i), d.want_gx[i], tolerance);
    data_free(&d);
}

/* Every reduction, weighted or not, ignoring or not, smoothing or not. */
static void check_all_ways(tern_dtype_t dtype, int64_t n, int64_t classes, int64_t inner)
{
    for (int way = 0; way < 24; way++) {
        loss_case c = { dtype,          n,         classes, inner, 1 + way % 3, way & 4 ? 0.1 : 0,
                        (way & 8) != 0, way >= 16, 1 };
        kernel_each_isa(check_case, &c);
    }
}

static void test_every_option_matches_double_loops(void **state)
{
    (void)state;
    const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
    for (int i = 0; i < 4; i++) {
        check_all_ways(dtypes[i], 6, 10, 0);
        check_all_ways(dtypes[i], 3, 5, 7);
        check_all_ways(dtypes[i], 2, 3, 70);
        check_all_ways(dtypes[i], 130, 33, 0);
    }
}

static void test_every_number_of_classes_matches(void **state)
{
    (void)state;
    for (int64_t classes = 2; classes <= 70; classes++)
        check_all_ways(TERN_F32, 3, classes, 0);
    check_all_ways(TERN_F32, 2, 4099, 0);
    check_all_ways(TERN_BF16, 2, 4099, 0);
}

static void test_a_gradient_that_is_written_past_the_caches_matches(void **state)
{
    (void)state;
    loss_case c = { TERN_F32, 4100, 1024, 0, TERN_REDUCTION_SUM, 0, true, true, 1 };
    kernel_each_isa(check_case, &c);
}

static void test_two_threads_give_the_same_bits(void **state)
{
    (void)state;
    loss_case c = { TERN_F32, 5000, 65, 0, TERN_REDUCTION_MEAN, 0.1, true, true, 1 };
    loss_data one = data_of(&c);
    run_both(&c, &one);
    c.threads = 2;
    loss_data two = data_of(&c);
    run_both(&c, &two);
    assert_memory_equal(one.loss.view.data, two.loss.view.data, sizeof(float));
    assert_memory_equal(one.gx.view.data, two.gx.view.data,
                        (size_t)one.gx.view.numel * sizeof(float));
    data_free(&one);
    data_free(&two);
}

/* ---- edges ----------------------------------------------------------------------------------- */

static void test_a_target_out_of_range_is_named_and_nothing_written(void **state)
{
    (void)state;
    loss_case c = { TERN_F32, 6, 10, 0, TERN_REDUCTION_NONE, 0, false, false, 1 };
    loss_data d = data_of(&c);
    const tern_attr_loss attr = { .reduction = TERN_REDUCTION_NONE, .ignore_index = -100 };
    const kernel_run run = { .kernel = cpu_cross_entropy,
                             .attr = &attr,
                             .in = { &d.x, &d.target, NULL },
                             .n_in = 3,
                             .out = { &d.loss, &d.lse },
                             .n_out = 2 };
    const double bad[] = { 10, -1 };
    for (int i = 0; i < 2; i++) {
        karray_set(&d.target, 4, bad[i]);
        assert_int_equal(kernel_call(&run), TERN_ERR_INDEX);
        assert_non_null(strstr(kernel_message(),
                               i == 0 ? "target 10 at position 4" : "target -1 at position 4"));
        assert_non_null(strstr(kernel_message(), "10 classes"));
        for (int64_t p = 0; p < 6; p++)
            assert_true(karray_at(&d.loss, p) == 7 && karray_at(&d.lse, p) == 7);
    }
    karray_set(&d.target, 4, -100);
    assert_int_equal(kernel_call(&run), TERN_OK);
    data_free(&d);
}

static void test_a_mean_over_nothing_is_nan_and_its_gradient_zero(void **state)
{
    (void)state;
    loss_case c = { TERN_F32, 4, 3, 0, TERN_REDUCTION_MEAN, 0, false, true, 1 };
    loss_data d = data_of(&c);
    for (int64_t p = 0; p < 4; p++)
        karray_set(&d.target, p, IGNORED);
    run_both(&c, &d);
    assert_true(isnan(karray_at(&d.loss, 0)));
    for (int64_t i = 0; i < 12; i++)
        assert_true(karray_at(&d.gx, i) == 0);
    data_free(&d);
    c.n = 0;
    d = data_of(&c);
    run_both(&c, &d);
    assert_true(isnan(karray_at(&d.loss, 0)));
    data_free(&d);
}

/* Of no classes at all nothing is read: there every target is ignored. */
static void check_no_classes(void *context)
{
    loss_case *c = context;
    loss_data d = data_of(c);
    for (int64_t p = 0; p < d.positions; p++)
        karray_set(&d.target, p, IGNORED);
    run_both(c, &d);
    for (int64_t p = 0; p < d.positions; p++)
        assert_true(karray_at(&d.loss, p) == 0);
    data_free(&d);
}

static void test_no_classes(void **state)
{
    (void)state;
    for (int64_t inner = 0; inner <= 3; inner += 3) {
        loss_case c = { TERN_F32, 4, 0, inner, TERN_REDUCTION_NONE, 0, false, true, 1 };
        kernel_each_isa(check_no_classes, &c);
    }
}

static void test_infinite_logits(void **state)
{
    (void)state;
    loss_case c = { TERN_F32, 4, 3, 0, TERN_REDUCTION_NONE, 0, false, false, 1 };
    loss_data d = data_of(&c);
    for (int64_t i = 0; i < 12; i++)
        karray_set(&d.x, i, i / 3 == 3 ? -INFINITY : 0);
    for (int64_t p = 0; p < 4; p++)
        karray_set(&d.target, p, 1);
    karray_set(&d.x, 0, -INFINITY); /* another class than the target is impossible */
    karray_set(&d.x, 4, -INFINITY); /* the target is */
    karray_set(&d.x, 6, 1e30);      /* another class is certain */
    run_both(&c, &d);
    kernel_expect("loss", 0, karray_at(&d.loss, 0), log(2), 1e-6);
    kernel_expect("loss", 1, karray_at(&d.loss, 1), INFINITY, 0);
    kernel_expect("loss", 2, karray_at(&d.loss, 2), 1e30, 1e-6);
    kernel_expect("loss", 3, karray_at(&d.loss, 3), NAN, 0);
    const double want[6] = { 0, -0.5, 0.5, 0.5, -1, 0.5 };
    for (int64_t i = 0; i < 6; i++)
        kernel_expect("gradient", i, karray_at(&d.gx, i) / d.grad.values[i / 3], want[i], 1e-6);
    data_free(&d);
}

/* Rows whose sum is taken about a logit that is not the largest by far. */
static void check_late_largest(void *context)
{
    const loss_case *c = context;
    loss_data d = data_of(c);
    const int64_t n = c->classes;
    const double high[] = { 40.3, 87.1, 100.7, 3000, 40, 40 };
    for (int64_t i = 0; i < d.x.view.numel; i++)
        karray_set(&d.x, i, i / n == 4 && i % n < 32 ? -INFINITY : 0.25 * (double)(i % 7));
    for (int64_t p = 0; p < 6; p++) {
        karray_set(&d.x, p * n + n - 2, high[p]);
        karray_set(&d.target, p, (double)(n - 2));
    }
    karray_set(&d.x, n - 1, 26.8); /* a loss of 1.4e-6 */
    karray_set(&d.x, 5 * n + n - 1, NAN);
    run_both(c, &d);
    for (int64_t p = 0; p < 5; p++) {
        reference_position(c, &d, p, d.grad.values[p]);
        kernel_expect("lse", p, karray_at(&d.lse, p), d.want_lse[p], 1e-6);
        /* a logarithm in one part would lose losses below 2e-6; builds that fuse no operations
         * (sanitizers) are off by 1e-6 */
        kernel_expect("loss", p, karray_at(&d.loss, p), d.want_lse[p] - place(&d, n, p, n - 2),
                      1.2e-6);
    }
    assert_true(isnan(karray_at(&d.lse, 5)) && isnan(karray_at(&d.loss, 5)));
    data_free(&d);
}

/* One large logit and many small ones, each of which would be lost beside the sum of all. */
static void check_small_logits(void *context)
{
    const loss_case *c = context;
    loss_data d = data_of(c);
    for (int64_t i = 0; i < c->classes; i++)
        karray_set(&d.x, i, i == 0 ? 0 : -17);
    karray_set(&d.target, 0, 0);
    run_both(c, &d);
    kernel_expect("loss", 0, karray_at(&d.loss, 0), log1p((double)(c->classes - 1) * exp(-17)),
                  1e-5);
    data_free(&d);
}

static void test_many_small_logits_are_counted(void **state)
{
    (void)state;
    loss_case c = { TERN_F32, 1, 50257, 0, TERN_REDUCTION_NONE, 0, false, false, 1 };
    kernel_each_isa(check_small_logits, &c);
}

static void test_the_largest_logit_may_come_late_and_be_large(void **state)
{
    (void)state;
    const int64_t classes[] = { 40, 1027, 5000 };
    for (int i = 0; i < 3; i++) {
        loss_case c = { TERN_F32, 6, classes[i], 0, TERN_REDUCTION_NONE, 0, false, false, 1 };
        kernel_each_isa(check_late_largest, &c);
    }
}

/* Logits far from 0: what is added to all of them changes no probability. */
static void check_far_logits(void *context)
{
    const loss_case *c = context;
    static const double bases[] = { 100, -100, 1e4, -1e4, 65530, -66000, 1e7, 80, -80, 86, -86 };
    const double tolerance = kernel_tolerance(c->dtype, 1e-6);
    for (int b = 0; b < (int)(sizeof bases / sizeof *bases); b++) {
        loss_data d = data_of(c);
        for (int64_t i = 0; i < d.x.view.numel; i++)
            karray_set(&d.x, i, d.x.values[i] + (bases[b] == 1e7 && i % 2 ? 0 : bases[b]));
        run_both(c, &d);
        for (int64_t p = 0; p < d.positions; p++)
            reference_position(c, &d, p, d.grad.values[p]);
        for (int64_t p = 0; p < d.positions; p++)
            kernel_expect("loss", p, karray_at(&d.loss, p), d.want_loss[p], 2 * tolerance);
        for (int64_t i = 0; i < d.gx.view.numel; i++)
            kernel_expect("gradient", i, karray_at(&d.gx, i), d.want_gx[i], tolerance);
        data_free(&d);
    }
}

static void test_gradients_of_logits_that_are_far_from_0(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_BF16 };
    static const int64_t classes[] = { 10, 50, 200 };
    for (int i = 0; i < 36; i++) {
        loss_case c = { dtypes[i / 12],
                        6,
                        classes[i % 3],
                        i / 2 % 2 ? 5 : 0,
                        TERN_REDUCTION_NONE,
                        i / 4 % 2 ? 0.1 : 0,
                        i / 2 % 2,
                        false,
                        1 };
        kernel_each_isa(check_far_logits, &c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option_matches_double_loops),
        cmocka_unit_test(test_every_number_of_classes_matches),
        cmocka_unit_test(test_a_gradient_that_is_written_past_the_caches_matches),
        cmocka_unit_test(test_two_threads_give_the_same_bits),
        cmocka_unit_test(test_a_target_out_of_range_is_named_and_nothing_written),
        cmocka_unit_test(test_a_mean_over_nothing_is_nan_and_its_gradient_zero),
        cmocka_unit_test(test_no_classes),
        cmocka_unit_test(test_infinite_logits),
        cmocka_unit_test(test_many_small_logits_are_counted),
        cmocka_unit_test(test_the_largest_logit_may_come_late_and_be_large),
        cmocka_unit_test(test_gradients_of_logits_that_are_far_from_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
