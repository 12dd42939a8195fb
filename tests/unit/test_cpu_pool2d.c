/* Pooling kernels and their gradients against double loops, and the rule of which cell wins. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/kernel.h"

typedef struct pool_case {
    int64_t n, c, h, w;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    bool hangs; /* the last window may: ceil mode */
} pool_case;

typedef struct pool_way {
    tern_dtype_t dtype;
    bool x_last, grad_last;
    bool count_include_pad;
    int threads;
} pool_way;

typedef struct pool_data {
    tern_attr_pool attr;
    int64_t out[2];
    karray x, y, index, g, gx;
    double *want_y, *want_at, *want_gx;
} pool_data;

static int64_t extent(const pool_case *c, int d)
{
    const int64_t in = d == 0 ? c->h : c->w, p = c->padding[d], s = c->stride[d];
    const int64_t room = in + 2 * p - c->dilation[d] * (c->kernel[d] - 1) - 1;
    int64_t count = (room + (c->hangs ? s - 1 : 0)) / s + 1;
    if (c->hangs && (count - 1) * s >= in + p)
        count--;
    return count;
}

static karray image(tern_dtype_t dtype, const int64_t dims[4], uint64_t seed, bool channels_last)
{
    const bool whole = !tern_dtype_is_float(dtype);
    karray a = karray_random(dtype, 4, dims,
                             dtype == TERN_U8 ? 0
                             : whole          ? -9
                                              : -1,
                             whole ? 9 : 1, seed);
    if (channels_last)
        karray_to_channels_last(&a);
    return a;
}

static pool_data data_of(const pool_case *c, const pool_way *way)
{
    pool_data d = { .attr = { .count_include_pad = way->count_include_pad,
                              .ceil_mode = c->hangs } };
    for (int i = 0; i < 2; i++) {
        d.attr.kernel[i] = c->kernel[i];
        d.attr.stride[i] = c->stride[i];
        d.attr.padding[i] = c->padding[i];
        d.attr.dilation[i] = c->dilation[i];
        d.out[i] = extent(c, i);
    }
    const int64_t x[4] = { c->n, c->c, c->h, c->w }, y[4] = { c->n, c->c, d.out[0], d.out[1] };
    const tern_dtype_t narrow = c->kernel[0] * c->kernel[1] <= 256 ? TERN_U8 : TERN_I32;
    d.x = image(way->dtype, x, 1, way->x_last);
    d.y = image(way->dtype, y, 2, way->x_last);
    d.index = image(narrow, y, 3, way->x_last);
    d.g = image(way->dtype, y, 4, way->grad_last);
    d.gx = image(way->dtype, x, 5, way->x_last);
    d.want_y = calloc((size_t)d.y.view.numel + 1, 8);
    d.want_at = calloc((size_t)d.y.view.numel + 1, 8);
    d.want_gx = calloc((size_t)d.x.view.numel + 1, 8);
    return d;
}

static void data_free(pool_data *d)
{
    karray_free(&d->x);
    karray_free(&d->y);
    karray_free(&d->index);
    karray_free(&d->g);
    karray_free(&d->gx);
    free(d->want_y);
    free(d->want_at);
    free(d->want_gx);
}

/* ---- references ------------------------------------------------------------------------------ */

/* x's element at cell (kh, kw) of the window of result i, or -1 outside. */
static int64_t cell(const pool_case *c, const pool_data *d, int64_t i, int64_t kh, int64_t kw)
{
    const int64_t ow = i % d->out[1], oh = i / d->out[1] % d->out[0];
    const int64_t h = oh * c->stride[0] - c->padding[0] + kh * c->dilation[0];
    const int64_t w = ow * c->stride[1] - c->padding[1] + kw * c->dilation[1];
    if (h < 0 || h >= c->h || w < 0 || w >= c->w)
        return -1;
    return (i / (d->out[0] * d->out[1]) * c->h + h) * c->w + w;
}

static void reference_max(const pool_case *c, pool_data *d)
{
    for (int64_t i = 0; i < d->y.view.numel; i++) {
        int64_t from = -1;
        double best = -INFINITY;
        for (int64_t k = 0; k < c->kernel[0] * c->kernel[1]; k++) {
            const int64_t x = cell(c, d, i, k / c->kernel[1], k % c->kernel[1]);
            if (x < 0)
                continue;
            const double v = d->x.values[x];
            if (from < 0 || v > best || isnan(v)) {
                best = v;
                from = x;
                d->want_at[i] = (double)k;
            }
        }
        d->want_y[i] = best;
        d->want_gx[from] += d->g.values[i];
    }
}

static void reference_average(const pool_case *c, const pool_way *way, pool_data *d)
{
    for (int64_t i = 0; i < d->y.view.numel; i++) {
        double sum = 0, count = 0;
        const int64_t cells = c->kernel[0] * c->kernel[1];
        for (int64_t k = 0; k < cells; k++) {
            const int64_t x = cell(c, d, i, k / c->kernel[1], k % c->kernel[1]);
            sum += x < 0 ? 0 : d->x.values[x];
            count += x >= 0;
        }
        if (way->count_include_pad) { /* the window as far as the padding goes */
            const int64_t ow = i % d->out[1], oh = i / d->out[1] % d->out[0];
            const int64_t h = c->h + 2 * c->padding[0] - oh * c->stride[0];
            const int64_t w = c->w + 2 * c->padding[1] - ow * c->stride[1];
            count = (double)((h < c->kernel[0] ? h : c->kernel[0]) *
                             (w < c->kernel[1] ? w : c->kernel[1]));
        }
        d->want_y[i] = sum / count;
        for (int64_t k = 0; k < cells; k++) {
            const int64_t x = cell(c, d, i, k / c->kernel[1], k % c->kernel[1]);
            if (x >= 0)
                d->want_gx[x] += d->g.values[i] / count;
        }
    }
}

/* ---- running --------------------------------------------------------------------------------- */

static void expect(const char *what, const karray *got, const double *want, double tolerance)
{
    for (int64_t i = 0; i < got->view.numel; i++)
        kernel_expect(what, i, karray_at_place(got, i), want[i], tolerance);
}

static void run(tern_kernel kernel, const pool_data *d, const pool_way *way, const karray *in0,
                const karray *in1, const karray *out0, const karray *out1)
{
    const kernel_run r = { .kernel = kernel,
                           .attr = &d->attr,
                           .threads = way->threads,
                           .in = { in0, in1 },
                           .n_in = 1 + (in1 != NULL),
                           .out = { out0, out1 },
                           .n_out = 1 + (out1 != NULL) };
    if (kernel_call(&r) != TERN_OK)
        fail_msg("%s", kernel_message());
}

static void check_max(const pool_case *c, const pool_way *way)
{
    pool_data d = data_of(c, way);
    reference_max(c, &d);
    run(cpu_max_pool2d, &d, way, &d.x, NULL, &d.y, &d.index);
    expect("max_pool2d", &d.y, d.want_y, 0);
    expect("max_pool2d, index", &d.index, d.want_at, 0);
    if (tern_dtype_is_float(way->dtype)) {
        run(cpu_max_pool2d_grad, &d, way, &d.g, &d.index, &d.gx, NULL);
        expect("max_pool2d_grad", &d.gx, d.want_gx, kernel_tolerance(way->dtype, 1e-6));
    }
    data_free(&d);
}

static void check_average(const pool_case *c, const pool_way *way)
{
    pool_data d = data_of(c, way);
    reference_average(c, way, &d);
    run(cpu_avg_pool2d, &d, way, &d.x, NULL, &d.y, NULL);
    expect("avg_pool2d", &d.y, d.want_y, kernel_tolerance(way->dtype, 1e-6));
    pool_way backward = *way;
    run(cpu_avg_pool2d_grad, &d, &backward, &d.g, NULL, &d.gx, NULL);
    expect("avg_pool2d_grad", &d.gx, d.want_gx, kernel_tolerance(way->dtype, 1e-6));
    data_free(&d);
}

static const pool_case cases[] = {
    { 3, 6, 28, 28, { 2, 2 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, false },
    { 2, 5, 9, 37, { 2, 2 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, false },
    { 2, 18, 7, 70, { 2, 2 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, false },
    { 2, 17, 7, 9, { 2, 2 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, true },
    { 2, 16, 9, 8, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, false },
    { 2, 3, 11, 300, { 3, 2 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, false },
    { 1, 40, 8, 8, { 3, 3 }, { 3, 1 }, { 0, 1 }, { 1, 1 }, true },
    { 2, 20, 5, 6, { 5, 6 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, false },
    { 1, 2, 20, 22, { 17, 18 }, { 2, 3 }, { 2, 0 }, { 1, 1 }, true },
    { 2, 1, 4, 4, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, false },
};
static const pool_case dilated[] = {
    { 2, 4, 12, 30, { 3, 3 }, { 2, 3 }, { 1, 1 }, { 2, 2 }, false },
    { 2, 19, 12, 13, { 2, 3 }, { 1, 2 }, { 0, 0 }, { 3, 2 }, true },
};
enum { CASES = sizeof cases / sizeof *cases };

static void all_max(void *context)
{
    (void)context;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16, TERN_U8,
                                           TERN_I8,  TERN_I16, TERN_I32, TERN_I64 };
    for (int t = 0; t < 9; t++)
        for (int way = 0; way < 4; way++) {
            const pool_way w = { dtypes[t], way & 1, way & 2, false, .threads = 2 };
            for (int i = 0; i < CASES; i++)
                check_max(&cases[i], &w);
            for (int i = 0; i < 2; i++)
                check_max(&dilated[i], &w);
        }
}

static void test_max_pool2d(void **state)
{
    (void)state;
    kernel_each_isa(all_max, NULL);
}

static void all_averages(void *context)
{
    (void)context;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
    for (int t = 0; t < 4; t++)
        for (int way = 0; way < 8; way++) {
            const pool_way w = { dtypes[t], way & 1, way & 2, way & 4, .threads = 2 };
            for (int i = 0; i < CASES; i++)
                check_average(&cases[i], &w);
        }
}

static void test_avg_pool2d(void **state)
{
    (void)state;
    kernel_each_isa(all_averages, NULL);
}

/* Among equals the first wins; NaN beats everything, a later NaN an earlier one. */
static void ties(void *context)
{
    (void)context;
    const pool_case c = { 1, 40, 4, 4, { 2, 2 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, false };
    const pool_case overlapping = { 1, 40, 5, 5, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, false };
    for (int last = 0; last < 2; last++) {
        const pool_way way = { TERN_F32, last, last, .threads = 1 };
        const pool_case *both[] = { &c, &overlapping };
        for (int k = 0; k < 2; k++) {
            pool_data d = data_of(both[k], &way);
            static const double values[] = { 1, 1, -INFINITY, NAN, 2, NAN, 2, 1, -INFINITY };
            for (int64_t i = 0; i < d.x.view.numel; i++)
                karray_set(&d.x, i, values[i * 7 / 3 % 9]);
            if (last)
                karray_to_channels_last(&d.x);
            reference_max(both[k], &d);
            run(cpu_max_pool2d, &d, &way, &d.x, NULL, &d.y, &d.index);
            expect("max_pool2d", &d.y, d.want_y, 0);
            expect("max_pool2d, index", &d.index, d.want_at, 0);
            data_free(&d);
        }
    }
}

static void test_max_pool2d_ties_and_nan(void **state)
{
    (void)state;
    kernel_each_isa(ties, NULL);
}

static void test_pool2d_no_images(void **state)
{
    (void)state;
    const pool_case none = { 0, 3, 8, 8, { 2, 2 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, false };
    const pool_way way = { TERN_F32, .threads = 1 };
    check_max(&none, &way);
    check_average(&none, &way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_max_pool2d),
        cmocka_unit_test(test_avg_pool2d),
        cmocka_unit_test(test_max_pool2d_ties_and_nan),
        cmocka_unit_test(test_pool2d_no_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
