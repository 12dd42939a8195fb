/* conv2d kernels and their gradients against double loops: every float type, layout and instruction
 * set, with the library and without. */
#include <stdlib.h>

#include "backend_cpu/bridge.h"
#include "backend_cpu/cpu.h"
#include "tests/support/check.h"
#include "tests/support/kernel.h"

typedef struct conv_case {
    int64_t n, c, h, w, o, kh, kw;
    int64_t stride[2], padding[2], dilation[2], groups;
} conv_case;

/* How a case is run. */
typedef struct conv_way {
    tern_dtype_t dtype;
    bool x_last, weight_last, y_last; /* channels_last */
    bool bias;
    int threads;
} conv_way;

typedef struct conv_data {
    tern_attr_conv attr;
    int64_t oh, ow;
    karray x, w, b, y, gx, gw, gb;
} conv_data;

static karray image(tern_dtype_t dtype, const int64_t dims[4], uint64_t seed, bool channels_last)
{
    karray a = karray_random(dtype, 4, dims, -1, 1, seed);
    if (channels_last)
        karray_to_channels_last(&a);
    return a;
}

static int64_t extent(const conv_case *c, int d)
{
    const int64_t in = d == 0 ? c->h : c->w, kernel = d == 0 ? c->kh : c->kw;
    return (in + 2 * c->padding[d] - c->dilation[d] * (kernel - 1) - 1) / c->stride[d] + 1;
}

static conv_data data_of(const conv_case *c, const conv_way *way)
{
    conv_data d = { .attr = { .groups = c->groups } };
    for (int i = 0; i < 2; i++) {
        d.attr.stride[i] = c->stride[i];
        d.attr.padding[i] = c->padding[i];
        d.attr.dilation[i] = c->dilation[i];
    }
    d.oh = extent(c, 0);
    d.ow = extent(c, 1);
    const int64_t x[4] = { c->n, c->c, c->h, c->w },
                  w[4] = { c->o, c->c / c->groups, c->kh, c->kw };
    const int64_t y[4] = { c->n, c->o, d.oh, d.ow };
    d.x = image(way->dtype, x, 1, way->x_last);
    d.w = image(way->dtype, w, 2, way->weight_last);
    d.b = karray_random(way->dtype, 1, y + 1, -1, 1, 3);
    d.y = image(way->dtype, y, 4, way->y_last);
    d.gx = image(way->dtype, x, 5, way->x_last);
    d.gw = image(way->dtype, w, 6, false);
    d.gb = karray_random(way->dtype, 1, y + 1, -1, 1, 7);
    return d;
}

static void data_free(conv_data *d)
{
    karray_free(&d->x);
    karray_free(&d->w);
    karray_free(&d->b);
    karray_free(&d->y);
    karray_free(&d->gx);
    karray_free(&d->gw);
    karray_free(&d->gb);
}

/* ---- references ------------------------------------------------------------------------------ */

typedef struct sums {
    double *y, *gx, *gw, *gb;
} sums;

static sums sums_new(const conv_data *d)
{
    return (sums){ calloc((size_t)d->y.view.numel + 1, 8), calloc((size_t)d->x.view.numel + 1, 8),
                   calloc((size_t)d->w.view.numel + 1, 8), calloc((size_t)d->b.view.numel + 1, 8) };
}

static void sums_free(sums *s)
{
    free(s->y);
    free(s->gx);
    free(s->gw);
    free(s->gb);
}

/* All that one result takes part in; `at` is its row-major number. */
static void add_result(const conv_case *c, const conv_data *d, sums *s, int64_t at)
{
    const int64_t ow = at % d->ow, oh = at / d->ow % d->oh, o = at / (d->ow * d->oh) % c->o;
    const int64_t n = at / (d->ow * d->oh * c->o), per_group = c->c / c->groups;
    const int64_t first = o / (c->o / c->groups) * per_group;
    const double g = d->y.values[at];
    s->gb[o] += g;
    for (int64_t i = 0; i < per_group; i++)
        for (int64_t kh = 0; kh < c->kh; kh++)
            for (int64_t kw = 0; kw < c->kw; kw++) {
                const int64_t h = oh * c->stride[0] - c->padding[0] + kh * c->dilation[0];
                const int64_t w = ow * c->stride[1] - c->padding[1] + kw * c->dilation[1];
                if (h < 0 || h >= c->h || w < 0 || w >= c->w)
                    continue;
                const int64_t x = ((n * c->c + first + i) * c->h + h) * c->w + w;
                const int64_t k = ((o * per_group + i) * c->kh + kh) * c->kw + kw;
                s->y[at] += d->x.values[x] * d->w.values[k];
                s->gx[x] += g * d->w.values[k];
                s->gw[k] += g * d->x.values[x];
            }
}

static sums reference(const conv_case *c, const conv_data *d, bool bias)
{
    sums s = sums_new(d);
    for (int64_t i = 0; i < d->y.view.numel; i++) {
        add_result(c, d, &s, i);
        if (bias)
            s.y[i] += d->b.values[i / (d->oh * d->ow) % c->o];
    }
    return s;
}

static void expect(const char *what, const karray *got, const double *want, double tolerance)
{
    for (int64_t i = 0; i < got->view.numel; i++)
        kernel_expect(what, i, karray_at_place(got, i), want[i], tolerance);
}

/* ---- running --------------------------------------------------------------------------------- */

static void run(tern_kernel kernel, const conv_data *d, const conv_way *way, const karray *in0,
                const karray *in1, const karray *in2, const karray *out0, const karray *out1)
{
    const kernel_run r = { .kernel = kernel,
                           .attr = &d->attr,
                           .threads = way->threads,
                           .in = { in0, in1, in2 },
                           .n_in = kernel == cpu_conv2d ? 3 : 2,
                           .out = { out0, out1 },
                           .n_out = out1 != NULL ? 2 : 1 };
    if (kernel_call(&r) != TERN_OK)
        fail_msg("%s", kernel_message());
}

static void check(const conv_case *c, const conv_way *way)
{
    conv_data d = data_of(c, way);
    sums s = reference(c, &d, way->bias);
    const double tolerance = way->dtype == TERN_F64 ? 1e-11 : kernel_tolerance(way->dtype, 3e-5);
    run(cpu_conv2d_grad_input, &d, way, &d.y, &d.w, NULL, &d.gx, NULL);
    expect("conv2d_grad_input", &d.gx, s.gx, tolerance);
    run(cpu_conv2d_grad_weight, &d, way, &d.y, &d.x, NULL, &d.gw, &d.gb);
    expect("conv2d_grad_weight", &d.gw, s.gw, 4 * tolerance);
    expect("conv2d_grad_weight, bias", &d.gb, s.gb, 4 * tolerance);
    run(cpu_conv2d, &d, way, &d.x, &d.w, way->bias ? &d.b : NULL, &d.y, NULL);
    expect("conv2d", &d.y, s.y, tolerance);
    sums_free(&s);
    data_free(&d);
}

static const conv_case cases[] = {
    /* LeNet's */
    { 3, 1, 28, 28, 6, 5, 5, { 1, 1 }, { 2, 2 }, { 1, 1 }, 1 },
    { 3, 6, 14, 14, 16, 5, 5, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    /* few and odd channels */
    { 2, 1, 9, 33, 1, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { 2, 3, 12, 19, 7, 3, 5, { 1, 1 }, { 1, 0 }, { 1, 1 }, 1 },
    { 1, 5, 8, 50, 8, 1, 1, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    { 2, 4, 10, 11, 9, 2, 3, { 1, 1 }, { 1, 2 }, { 1, 1 }, 1 },
    { 2, 3, 9, 9, 35, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    /* stride, dilation, groups */
    { 2, 3, 13, 16, 5, 3, 3, { 2, 2 }, { 1, 1 }, { 1, 1 }, 1 },
    { 2, 2, 14, 21, 18, 3, 4, { 2, 3 }, { 0, 2 }, { 1, 1 }, 1 },
    { 2, 4, 15, 15, 10, 3, 3, { 1, 2 }, { 2, 2 }, { 2, 3 }, 2 },
    { 2, 6, 11, 12, 6, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 6 },
    { 1, 4, 12, 12, 8, 5, 5, { 3, 3 }, { 2, 2 }, { 2, 2 }, 4 },
    /* as many channels as the library wants */
    { 2, 16, 10, 10, 32, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { 2, 20, 9, 9, 24, 3, 3, { 2, 2 }, { 1, 1 }, { 1, 1 }, 1 },
    { 1, 32, 8, 8, 32, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 2 },
    { 2, 32, 7, 7, 32, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 32 },
    { 2, 24, 6, 6, 17, 1, 1, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    /* one pixel, one row, one column */
    { 2, 2, 1, 1, 3, 1, 1, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    { 2, 2, 5, 5, 12, 5, 5, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    { 1, 3, 7, 1, 4, 3, 1, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    { 1, 18, 1, 40, 20, 1, 3, { 1, 1 }, { 0, 1 }, { 1, 1 }, 1 },
};
enum { CASES = sizeof cases / sizeof *cases };

static void all_f32(void *context)
{
    (void)context;
    for (int i = 0; i < CASES; i++)
        for (int layout = 0; layout < 8; layout++) {
            const conv_way way = { TERN_F32,   layout & 1,          layout & 2,
                                   layout & 4, .bias = layout != 5, .threads = 1 + (layout & 1) };
            check(&cases[i], &way);
        }
}

static void test_conv2d_f32(void **state)
{
    (void)state;
    kernel_each_isa(all_f32, NULL);
}

static void all_others(void *context)
{
    (void)context;
    static const tern_dtype_t dtypes[] = { TERN_F64, TERN_F16, TERN_BF16 };
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < CASES; i++) {
            const conv_way way = {
                dtypes[t], i & 1, i & 2, (i + t) & 1, .bias = true, .threads = 2
            };
            check(&cases[i], &way);
        }
}

static void test_conv2d_other_dtypes(void **state)
{
    (void)state;
    kernel_each_isa(all_others, NULL);
}

/* More rows than are staged at a time, and several blocks of output channels. */
static void large(void *context)
{
    (void)context;
    static const conv_case big[] = {
        { 1, 8, 60, 70, 4, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
        { 1, 12, 90, 64, 20, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
        { 9, 2, 20, 20, 40, 3, 3, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    };
    for (int i = 0; i < 3; i++)
        for (int last = 0; last < 2; last++) {
            const conv_way way = { TERN_F32, last, false, last, .bias = true, .threads = 2 };
            check(&big[i], &way);
        }
}

static void test_conv2d_large(void **state)
{
    (void)state;
    kernel_each_isa(large, NULL);
}

static void test_conv2d_no_images(void **state)
{
    (void)state;
    const conv_case none = { 0, 3, 8, 8, 5, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 };
    const conv_way way = { TERN_F32, .bias = true, .threads = 1 };
    check(&none, &way);
    const conv_way wide = { TERN_F64, .bias = true, .threads = 1 };
    check(&none, &wide);
}

/* A pixel that is infinite reaches only the weights that saw it. */
static void infinity_stays(void *context)
{
    (void)context;
    const conv_case c = { 1, 1, 6, 20, 2, 1, 3, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 };
    const conv_way way = { TERN_F32, .threads = 1 };
    conv_data d = data_of(&c, &way);
    karray_set(&d.x, 19, 1.0 / 0.0);
    run(cpu_conv2d_grad_weight, &d, &way, &d.y, &d.x, NULL, &d.gw, &d.gb);
    assert_true(karray_at(&d.gw, 0) - karray_at(&d.gw, 0) == 0);
    assert_true(karray_at(&d.gw, 1) - karray_at(&d.gw, 1) == 0);
    assert_false(karray_at(&d.gw, 2) - karray_at(&d.gw, 2) == 0);
    data_free(&d);
}

static void test_conv2d_infinity_stays_where_it_is(void **state)
{
    (void)state;
    kernel_each_isa(infinity_stays, NULL);
}

static void test_conv2d_same_bits_twice(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const conv_way way = { TERN_F32, i, false, i, .threads = 2 };
        conv_data a = data_of(&cases[i], &way), b = data_of(&cases[i], &way);
        run(cpu_conv2d_grad_weight, &a, &way, &a.y, &a.x, NULL, &a.gw, &a.gb);
        run(cpu_conv2d_grad_weight, &b, &way, &b.y, &b.x, NULL, &b.gw, &b.gb);
        assert_memory_equal(a.gw.view.data, b.gw.view.data, (size_t)a.gw.view.numel * 4);
        data_free(&a);
        data_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv2d_f32),
        cmocka_unit_test(test_conv2d_other_dtypes),
        cmocka_unit_test(test_conv2d_large),
        cmocka_unit_test(test_conv2d_no_images),
        cmocka_unit_test(test_conv2d_infinity_stays_where_it_is),
        cmocka_unit_test(test_conv2d_same_bits_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
