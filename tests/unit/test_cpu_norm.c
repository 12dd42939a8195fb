/* layer_norm and batch_norm kernels against double loops, for every float type, layout and
 * instruction set. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/kernel.h"
#include "tests/support/sanitizer.h"

static const tern_dtype_t floats[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
enum { FLOATS = 4 };

/* What a case has in common: x [N, C, S...], statistics by group. */
typedef struct norm_case {
    tern_dtype_t dtype, parameter_dtype;
    int ndim;
    int64_t dims[4];
    bool batch; /* batch_norm, else layer_norm over the last dimension */
    bool evaluating, channels_last, grad_channels_last, plain;
    double mean; /* of x, beside a deviation of about 1 */
    int threads;
} norm_case;

typedef struct norm_data {
    karray x, w, b, running_mean, running_var, g, y, mean, rstd, gx, gw, gb;
    int64_t groups, parameters, numel, per_group;
    int32_t *group, *parameter; /* by element of x */
} norm_data;

/* Of each element of x: whose statistics, and which parameters, it takes. */
static void number_elements(const norm_case *c, norm_data *d)
{
    int64_t inner = 1;
    for (int k = 2; k < c->ndim; k++)
        inner *= c->dims[k];
    d->group = calloc((size_t)d->numel + 1, sizeof *d->group);
    d->parameter = calloc((size_t)d->numel + 1, sizeof *d->parameter);
    assert_non_null(d->group);
    assert_non_null(d->parameter);
    for (int64_t i = 0; i < d->numel; i++) {
        d->group[i] = (int32_t)(c->batch ? i / inner % c->dims[1] : i / d->parameters);
        d->parameter[i] = c->batch ? d->group[i] : (int32_t)(i % d->parameters);
    }
}

static norm_data data_of(const norm_case *c)
{
    norm_data d;
    const tern_dtype_t stat = c->dtype == TERN_F64 ? TERN_F64 : TERN_F32;
    d.x = karray_random(c->dtype, c->ndim, c->dims, c->mean - 2, c->mean + 2, 1);
    d.numel = d.x.view.numel;
    d.parameters = c->batch ? c->dims[1] : c->dims[c->ndim - 1];
    d.groups = c->batch ? c->dims[1] : d.numel / c->dims[c->ndim - 1];
    d.per_group = d.groups > 0 ? d.numel / d.groups : 0;
    number_elements(c, &d);
    d.g = karray_random(c->dtype, c->ndim, c->dims, -1, 1, 2);
    d.y = karray_filled(c->dtype, c->ndim, c->dims, 7);
    d.gx = karray_filled(c->dtype, c->ndim, c->dims, 7);
    d.w = karray_random(c->parameter_dtype, 1, &d.parameters, 0.5, 2, 3);
    d.b = karray_random(c->parameter_dtype, 1, &d.parameters, -1, 1, 4);
    d.running_mean = karray_random(c->parameter_dtype, 1, &d.parameters, -1, 1, 5);
    d.running_var = karray_random(c->parameter_dtype, 1, &d.parameters, 0.5, 2, 6);
    d.mean = karray_filled(stat, 1, &d.groups, 7);
    d.rstd = karray_filled(stat, 1, &d.groups, 7);
    d.gw = karray_filled(c->parameter_dtype, 1, &d.parameters, 7);
    d.gb = karray_filled(c->parameter_dtype, 1, &d.parameters, 7);
    if (c->channels_last) {
        karray_to_channels_last(&d.x);
        karray_to_channels_last(&d.y);
        karray_to_channels_last(&d.gx);
    }
    if (c->grad_channels_last)
        karray_to_channels_last(&d.g);
    return d;
}

static void data_free(norm_data *d)
{
    karray *all[] = { &d->x, &d->w,    &d->b,    &d->running_mean, &d->running_var, &d->g,
                      &d->y, &d->mean, &d->rstd, &d->gx,           &d->gw,          &d->gb };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        karray_free(all[i]);
    free(d->group);
    free(d->parameter);
}

static void run_both(const norm_case *c, norm_data *d)
{
    const tern_attr_norm attr = {
        .eps = 1e-5, .momentum = 0.1, .dims = 1, .training = !c->evaluating
    };
    const karray *w = c->plain ? NULL : &d->w;
    const karray *b = c->plain ? NULL : &d->b;
    const kernel_run forward = { .kernel = c->batch ? cpu_batch_norm : cpu_layer_norm,
                                 .attr = &attr,
                                 .threads = c->threads,
                                 .in = { &d->x, w, b, &d->running_mean, &d->running_var },
                                 .n_in = c->batch ? 5 : 3,
                                 .out = { &d->y, &d->mean, &d->rstd },
                                 .n_out = 3 };
    const kernel_run backward = { .kernel = c->batch ? cpu_batch_norm_grad : cpu_layer_norm_grad,
                                  .attr = &attr,
                                  .threads = c->threads,
                                  .in = { &d->g, &d->x, w, &d->mean, &d->rstd },
                                  .n_in = 5,
                                  .out = { &d->gx, &d->gw, &d->gb },
                                  .n_out = 3 };
    assert_int_equal(kernel_call(&forward), TERN_OK);
    assert_int_equal(kernel_call(&backward), TERN_OK);
}

/* ---- reference ------------------------------------------------------------------------------- */

/* By group: mean, variance, and of the gradient: sum of h, sum of h xh. */
typedef struct group_sums {
    double mean, variance, h, hx;
} group_sums;

static group_sums *statistics(const norm_case *c, const norm_data *d)
{
    group_sums *s = calloc((size_t)d->groups, sizeof *s);
    const double n = (double)d->per_group;
    for (int64_t i = 0; i < d->numel; i++)
        s[d->group[i]].mean += d->x.values[i] / n;
    for (int64_t i = 0; i < d->numel; i++) {
        const double away = d->x.values[i] - s[d->group[i]].mean;
        s[d->group[i]].variance += away * away / n;
    }
    for (int64_t k = 0; c->evaluating && k < d->groups; k++) {
        s[k].mean = d->running_mean.values[k];
        s[k].variance = d->running_var.values[k];
    }
    return s;
}

static double normalised(const norm_data *d, const group_sums *s, int64_t i)
{
    const group_sums *group = &s[d->group[i]];
    return (d->x.values[i] - group->mean) / sqrt(group->variance + 1e-5);
}

static double weight_of(const norm_case *c, const norm_data *d, int64_t i)
{
    return c->plain ? 1 : d->w.values[d->parameter[i]];
}

static void check_forward(const norm_case *c, const norm_data *d, const group_sums *s,
                          double tolerance)
{
    for (int64_t i = 0; i < d->numel; i++) {
        const double bias = c->plain ? 0 : d->b.values[d->parameter[i]];
        kernel_expect("y", i, karray_at_place(&d->y, i),
                      normalised(d, s, i) * weight_of(c, d, i) + bias, tolerance);
    }
    const double n = (double)d->per_group;
    for (int64_t k = 0; c->batch && k < d->groups; k++) {
        const double step = c->evaluating ? 0 : 0.1;
        const double old_mean = d->running_mean.values[k], old_var = d->running_var.values[k];
        const double unbiased = s[k].variance * n / (n - 1);
        kernel_expect("running mean", k, karray_at(&d->running_mean, k),
                      old_mean + step * (s[k].mean - old_mean), tolerance);
        kernel_expect("running variance", k, karray_at(&d->running_var, k),
                      old_var + step * (unbiased - old_var), tolerance);
    }
}

static void check_backward(const norm_case *c, const norm_data *d, group_sums *s, double tolerance)
{
    double *gw = calloc((size_t)d->parameters, sizeof *gw);
    double *gb = calloc((size_t)d->parameters, sizeof *gb);
    for (int64_t i = 0; i < d->numel; i++) {
        const double g = d->g.values[i];
        const double xh = normalised(d, s, i);
        gw[d->parameter[i]] += g * xh;
        gb[d->parameter[i]] += g;
        s[d->group[i]].h += g * weight_of(c, d, i);
        s[d->group[i]].hx += g * weight_of(c, d, i) * xh;
    }
    const double n = (double)d->per_group;
    for (int64_t i = 0; i < d->numel; i++) {
        const group_sums *group = &s[d->group[i]];
        const double centred = group->h / n + normalised(d, s, i) * group->hx / n;
        const double h = d->g.values[i] * weight_of(c, d, i) - (c->evaluating ? 0 : centred);
        kernel_expect("gradient", i, karray_at_place(&d->gx, i), h / sqrt(group->variance + 1e-5),
                      tolerance);
    }
    const double growth = sqrt((double)(d->numel / d->parameters + 1));
    for (int64_t k = 0; k < d->parameters; k++) {
        kernel_expect("weight's gradient", k, karray_at(&d->gw, k), gw[k], tolerance * growth);
        kernel_expect("bias's gradient", k, karray_at(&d->gb, k), gb[k], tolerance * growth);
    }
    free(gw);
    free(gb);
}

static void check_case(void *context)
{
    const norm_case *c = context;
    norm_data d = data_of(c);
    group_sums *s = statistics(c, &d);
    run_both(c, &d);
    /* x itself carries an error of its last bit, which a large mean makes visible */
    const double f32 = 4e-6 * (1 + fabs(c->mean) / 4);
    const double tolerance = kernel_tolerance(c->dtype, f32) * (c->dtype == TERN_F64 ? 10 : 1);
    check_forward(c, &d, s, tolerance * 2);
    check_backward(c, &d, s, tolerance * 4);
    free(s);
    data_free(&d);
}

/* ---- layer_norm ------------------------------------------------------------------------------ */

static void test_layer_norm_rows_of_every_length_match(void **state)
{
    (void)state;
    for (int64_t n = 2; n <= 70; n++)
        for (int i = 0; i < FLOATS; i++) {
            norm_case c = { floats[i], floats[i], 2, { 5, n }, .plain = n % 5 == 0 };
            kernel_each_isa(check_case, &c);
        }
    const int64_t lengths[] = { 128, 1000, 4096, 4097, 9001 };
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < FLOATS; i++) {
            norm_case c = { floats[i], floats[i], 2, { 3, lengths[k] }, .batch = false };
            kernel_each_isa(check_case, &c);
        }
}

static void test_layer_norm_of_many_rows_and_f32_parameters(void **state)
{
    (void)state;
    norm_case many = { TERN_F32, TERN_F32, 2, { 1000, 33 }, .batch = false };
    kernel_each_isa(check_case, &many);
    norm_case mixed = { TERN_BF16, TERN_F32, 2, { 300, 20 }, .batch = false };
    kernel_each_isa(check_case, &mixed);
    norm_case shifted = { TERN_F32, TERN_F32, 2, { 20, 5000 }, .mean = 1000 };
    kernel_each_isa(check_case, &shifted);
}

/* ---- batch_norm ------------------------------------------------------------------------------ */

/* Each `stride`-th of the dtypes, in training or not, with parameters or without. */
static void check_batch_ways(int ndim, int64_t n, int64_t channels, int64_t h, int64_t w,
                             int stride)
{
    for (int way = 0; way < 4 * FLOATS; way += stride) {
        norm_case c = { floats[way / 4],        floats[way / 4], ndim,
                        { n, channels, h, w },  .batch = true,   .evaluating = (way & 1) != 0,
                        .plain = (way & 2) != 0 };
        kernel_each_isa(check_case, &c);
        if (ndim < 4)
            continue;
        c.channels_last = true;
        kernel_each_isa(check_case, &c);
        c.grad_channels_last = true;
        kernel_each_isa(check_case, &c);
        c.channels_last = false;
        kernel_each_isa(check_case, &c);
    }
}

static void check_batch(int ndim, int64_t n, int64_t channels, int64_t h, int64_t w)
{
    check_batch_ways(ndim, n, channels, h, w, 1);
}

static void test_batch_norm_of_every_number_of_channels_matches(void **state)
{
    (void)state;
    for (int64_t channels = 1; channels <= 20; channels++) {
        check_batch(2, 9, channels, 1, 1);
        check_batch(4, 3, channels, 5, 7);
    }
    check_batch(2, 12, 130, 1, 1);
    check_batch(2, 700, 65, 1, 1);
    check_batch(3, 4, 6, 33, 1);
    check_batch(4, 1, 3, 3, 3);
    check_batch(4, 5, 70, 1, 2);
}

static void test_batch_norm_of_large_images_matches(void **state)
{
    (void)state;
    /* planes longer than a block, columns of several slabs */
    check_batch_ways(4, 2, 3, 150, 130, RUNS_ARE_SHORT ? 3 : 1);
    norm_case shifted = { TERN_F32, TERN_F32, 4, { 8, 6, 40, 40 }, .batch = true, .mean = 1000 };
    kernel_each_isa(check_case, &shifted);
    shifted.channels_last = true;
    kernel_each_isa(check_case, &shifted);
}

static void test_results_that_are_written_past_the_caches_match(void **state)
{
    (void)state;
    norm_case rows = { TERN_F32, TERN_F32, 2, { 4100, 1024 }, .batch = false };
    kernel_each_isa(check_case, &rows);
    norm_case images = { TERN_F32, TERN_F32, 4, { 20, 16, 128, 104 }, .batch = true };
    kernel_each_isa(check_case, &images);
    images.channels_last = images.grad_channels_last = true;
    kernel_each_isa(check_case, &images);
}

static void test_batch_norm_takes_f32_parameters_beside_half_types(void **state)
{
    (void)state;
    norm_case c = { TERN_F16, TERN_F32, 4, { 4, 6, 5, 5 }, .batch = true };
    kernel_each_isa(check_case, &c);
    c.evaluating = true;
    kernel_each_isa(check_case, &c);
}

static void test_an_empty_batch_leaves_running_statistics_alone(void **state)
{
    (void)state;
    norm_case c = { TERN_F32, TERN_F32, 2, { 0, 3 }, .batch = true };
    norm_data d = data_of(&c);
    run_both(&c, &d);
    for (int64_t k = 0; k < 3; k++) {
        assert_true(karray_at(&d.running_mean, k) == d.running_mean.values[k]);
        assert_true(karray_at(&d.running_var, k) == d.running_var.values[k]);
        assert_true(karray_at(&d.gw, k) == 0 && karray_at(&d.gb, k) == 0);
    }
    data_free(&d);
}

static void check_threads(norm_case c)
{
    norm_data data[2];
    for (int i = 0; i < 2; i++) {
        c.threads = i + 1;
        data[i] = data_of(&c);
        run_both(&c, &data[i]);
    }
    const size_t bytes = (size_t)data[0].numel * sizeof(float);
    const size_t few = (size_t)data[0].parameters * sizeof(float);
    assert_memory_equal(data[0].y.view.data, data[1].y.view.data, bytes);
    assert_memory_equal(data[0].gx.view.data, data[1].gx.view.data, bytes);
    assert_memory_equal(data[0].gw.view.data, data[1].gw.view.data, few);
    assert_memory_equal(data[0].gb.view.data, data[1].gb.view.data, few);
    data_free(&data[0]);
    data_free(&data[1]);
}

static void test_two_threads_give_the_same_bits(void **state)
{
    (void)state;
    check_threads((norm_case){ TERN_F32, TERN_F32, 2, { 3000, 100 }, .batch = false });
    check_threads((norm_case){ TERN_F32, TERN_F32, 4, { 16, 16, 32, 32 }, .batch = true });
    check_threads((norm_case){ TERN_F32,
                               TERN_F32,
                               4,
                               { 16, 16, 32, 32 },
                               .batch = true,
                               .channels_last = true,
                               .grad_channels_last = true });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_norm_rows_of_every_length_match),
        cmocka_unit_test(test_layer_norm_of_many_rows_and_f32_parameters),
        cmocka_unit_test(test_batch_norm_of_every_number_of_channels_matches),
        cmocka_unit_test(test_batch_norm_of_large_images_matches),
        cmocka_unit_test(test_results_that_are_written_past_the_caches_match),
        cmocka_unit_test(test_batch_norm_takes_f32_parameters_beside_half_types),
        cmocka_unit_test(test_an_empty_batch_leaves_running_statistics_alone),
        cmocka_unit_test(test_two_threads_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
