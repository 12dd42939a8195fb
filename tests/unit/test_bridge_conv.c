/* Convolutions of the bridge against loops in double precision; no reference kernel is ever taken.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_cpu/bridge.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const cpu_blas_table *blas_or_skip(void)
{
    const cpu_blas_table *blas = cpu_blas();
    cpu_blas_info info = { 0 };
    if (blas)
        blas->info(&info);
    if (!info.onednn_version) {
        print_message("skipped: no bridge with oneDNN\n");
        skip();
    }
    return blas;
}

typedef struct tensors {
    float *x, *w, *bias, *y; /* in the caller's layouts */
    size_t x_count, w_count, y_count;
    int64_t out_h, out_w;
} tensors;

static float *random_floats(size_t count, uint64_t state)
{
    float *data = malloc(count * sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (float)(int32_t)(state >> 32) / 2147483648.0f;
    }
    return data;
}

static float *nan_floats(size_t count)
{
    float *data = malloc(count * sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        data[i] = NAN;
    return data;
}

static int64_t out_size(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation)
{
    return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

static tensors make_tensors(const cpu_conv2d_shape *s)
{
    tensors t;
    t.out_h = out_size(s->in_h, s->kernel_h, s->stride_h, s->pad_h, s->dilation_h);
    t.out_w = out_size(s->in_w, s->kernel_w, s->stride_w, s->pad_w, s->dilation_w);
    t.x_count = (size_t)(s->batch * s->in_channels * s->in_h * s->in_w);
    t.w_count =
        (size_t)(s->out_channels * (s->in_channels / s->groups) * s->kernel_h * s->kernel_w);
    t.y_count = (size_t)(s->batch * s->out_channels * t.out_h * t.out_w);
    t.x = random_floats(t.x_count, 1);
    t.w = random_floats(t.w_count, 2);
    t.bias = random_floats((size_t)s->out_channels, 3);
    t.y = random_floats(t.y_count, 4);
    return t;
}

static void free_tensors(tensors *t)
{
    free(t->x);
    free(t->w);
    free(t->bias);
    free(t->y);
}

/* ------------------------------------------------------------------ the reference */

/* Where an image element lies; c_count, h_count, w_count are the sizes of the image. */
typedef struct image {
    int64_t format;
    int64_t c_count, h_count, w_count;
} image;

static int64_t at_image(image m, int64_t n, int64_t c, int64_t h, int64_t w)
{
    if (m.format == CPU_CONV_NHWC)
        return ((n * m.h_count + h) * m.w_count + w) * m.c_count + c;
    return ((n * m.c_count + c) * m.h_count + h) * m.w_count + w;
}

static int64_t at_weight(const cpu_conv2d_shape *s, int64_t o, int64_t i, int64_t h, int64_t w)
{
    int64_t in = s->in_channels / s->groups;
    if (s->weights == CPU_CONV_OHWI)
        return ((o * s->kernel_h + h) * s->kernel_w + w) * in + i;
    return ((o * in + i) * s->kernel_h + h) * s->kernel_w + w;
}

/* The results of all passes, in double precision. */
typedef struct results {
    double *y, *dx, *dw, *db;
} results;

typedef struct place {
    int64_t n, o, h, w; /* of y */
} place;

static void add_window(const cpu_conv2d_shape *s, const tensors *t, place p, results *r)
{
    image x_image = { s->format, s->in_channels, s->in_h, s->in_w };
    image y_image = { s->format, s->out_channels, t->out_h, t->out_w };
    int64_t in = s->in_channels / s->groups;
    int64_t first = p.o / (s->out_channels / s->groups) * in;
    int64_t y = at_image(y_image, p.n, p.o, p.h, p.w);
    r->y[y] = (double)t->bias[p.o];
    r->db[p.o] += (double)t->y[y];
    for (int64_t tap = 0; tap < in * s->kernel_h * s->kernel_w; tap++) {
        int64_t i = tap / (s->kernel_h * s->kernel_w);
        int64_t kh = tap / s->kernel_w % s->kernel_h;
        int64_t kw = tap % s->kernel_w;
        int64_t h = p.h * s->stride_h - s->pad_h + kh * s->dilation_h;
        int64_t w = p.w * s->stride_w - s->pad_w + kw * s->dilation_w;
        if (h < 0 || h >= s->in_h || w < 0 || w >= s->in_w)
            continue;
        int64_t x = at_image(x_image, p.n, first + i, h, w);
        int64_t weight = at_weight(s, p.o, i, kh, kw);
        r->y[y] += (double)t->x[x] * (double)t->w[weight];
        r->dx[x] += (double)t->y[y] * (double)t->w[weight];
        r->dw[weight] += (double)t->y[y] * (double)t->x[x];
    }
}

static results reference(const cpu_conv2d_shape *s, const tensors *t)
{
    results r = { calloc(t->y_count, sizeof(double)), calloc(t->x_count, sizeof(double)),
                  calloc(t->w_count, sizeof(double)),
                  calloc((size_t)s->out_channels, sizeof(double)) };
    assert_true(r.y && r.dx && r.dw && r.db);
    place p;
    for (p.n = 0; p.n < s->batch; p.n++)
        for (p.o = 0; p.o < s->out_channels; p.o++)
            for (p.h = 0; p.h < t->out_h; p.h++)
                for (p.w = 0; p.w < t->out_w; p.w++)
                    add_window(s, t, p, &r);
    return r;
}

static void free_results(results *r)
{
    free(r->y);
    free(r->dx);
    free(r->dw);
    free(r->db);
}

/* ------------------------------------------------------------------ passes */

/* `terms`: how many products one element sums. */
static void check(const char *what, const float *got, const double *want, size_t count,
                  double terms)
{
    double tolerance = 4e-6 * (1 + sqrt(terms));
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - want[i]) <= tolerance))
            fail_msg("%s[%zu] is %.9g, not %.9g", what, i, (double)got[i], want[i]);
}

static cpu_conv2d_call call_of(const cpu_conv2d_shape *s, const tensors *t, cpu_conv_pass pass)
{
    cpu_conv2d_call call;
    memset(&call, 0, sizeof call);
    call.shape = *s;
    call.pass = pass;
    call.threads = 2;
    call.x = t->x;
    call.w = t->w;
    call.bias = t->bias;
    call.y = t->y;
    return call;
}

static void check_forward(const cpu_conv2d_shape *s, const tensors *t, const results *r)
{
    double terms = (double)(t->w_count / (size_t)s->out_channels);
    cpu_conv2d_call call = call_of(s, t, CPU_CONV_FORWARD);
    float *y = nan_floats(t->y_count);
    call.y = y;
    assert_int_equal(cpu_blas()->conv2d(&call), CPU_BLAS_OK);
    check("y", y, r->y, t->y_count, terms);
    free(y);
}

static void check_backward_data(const cpu_conv2d_shape *s, const tensors *t, const results *r)
{
    double terms = (double)(s->out_channels / s->groups * s->kernel_h * s->kernel_w);
    cpu_conv2d_call call = call_of(s, t, CPU_CONV_BACKWARD_DATA);
    float *dx = nan_floats(t->x_count);
    call.x = dx;
    assert_int_equal(cpu_blas()->conv2d(&call), CPU_BLAS_OK);
    check("dx", dx, r->dx, t->x_count, terms);
    free(dx);
}

static void check_backward_weights(const cpu_conv2d_shape *s, const tensors *t, const results *r)
{
    double terms = (double)(t->out_h * t->out_w * s->batch);
    size_t channels = (size_t)s->out_channels;
    cpu_conv2d_call call = call_of(s, t, CPU_CONV_BACKWARD_WEIGHTS);
    float *dw = nan_floats(t->w_count);
    float *db = nan_floats(channels);
    call.w = dw;
    call.bias = db;
    assert_int_equal(cpu_blas()->conv2d(&call), CPU_BLAS_OK);
    check("dw", dw, r->dw, t->w_count, terms);
    check("db", db, r->db, channels, terms);
    memset(dw, 0x7f, t->w_count * sizeof *dw);
    call.bias = NULL;
    assert_int_equal(cpu_blas()->conv2d(&call), CPU_BLAS_OK);
    check("dw without bias", dw, r->dw, t->w_count, terms);
    free(dw);
    free(db);
}

typedef struct layer {
    int64_t n, c, h, w, o, kh, kw, stride, pad, dilation, groups;
} layer;

static cpu_conv2d_shape shape_of(const layer *l, int64_t format, int64_t weights)
{
    cpu_conv2d_shape s;
    memset(&s, 0, sizeof s);
    s.format = format;
    s.weights = weights;
    s.dtype = CPU_BLAS_F32;
    s.batch = l->n;
    s.in_channels = l->c;
    s.in_h = l->h;
    s.in_w = l->w;
    s.out_channels = l->o;
    s.kernel_h = l->kh;
    s.kernel_w = l->kw;
    s.stride_h = s.stride_w = l->stride;
    s.pad_h = s.pad_w = l->pad;
    s.dilation_h = s.dilation_w = l->dilation;
    s.groups = l->groups;
    return s;
}

static void check_layer(const layer *l, int64_t format, int64_t weights)
{
    cpu_conv2d_shape s = shape_of(l, format, weights);
    tensors t = make_tensors(&s);
    results r = reference(&s, &t);
    check_forward(&s, &t, &r);
    check_backward_data(&s, &t, &r);
    check_backward_weights(&s, &t, &r);
    free_results(&r);
    free_tensors(&t);
}

/* ------------------------------------------------------------------ tests */

static const layer odd_layers[] = {
    { 2, 1, 9, 7, 3, 3, 3, 1, 1, 1, 1 },    { 1, 3, 8, 11, 5, 5, 3, 2, 2, 1, 1 },
    { 3, 6, 14, 14, 16, 5, 5, 1, 0, 1, 1 }, { 2, 16, 9, 9, 32, 3, 3, 2, 1, 1, 1 },
    { 2, 8, 12, 10, 12, 3, 3, 1, 2, 2, 1 }, { 2, 12, 7, 7, 8, 1, 1, 1, 0, 1, 1 },
    { 2, 32, 6, 5, 32, 3, 3, 1, 1, 1, 32 }, { 1, 8, 9, 9, 24, 3, 3, 1, 1, 1, 4 },
    { 1, 17, 5, 5, 19, 2, 2, 1, 0, 1, 1 },  { 2, 32, 8, 8, 48, 3, 3, 1, 1, 1, 2 },
    { 1, 4, 20, 3, 4, 7, 1, 3, 0, 1, 1 },   { 1, 5, 1, 1, 7, 1, 1, 1, 0, 1, 1 },
};

static void test_conv_matches_loops_in_every_layout(void **state)
{
    (void)state;
    blas_or_skip();
    for (size_t i = 0; i < sizeof odd_layers / sizeof *odd_layers; i++)
        for (int bits = 0; bits < 4; bits++)
            check_layer(&odd_layers[i], bits & 1 ? CPU_CONV_NCHW : CPU_CONV_NHWC,
                        bits & 2 ? CPU_CONV_OHWI : CPU_CONV_OIHW);
}

/* LeNet, a CNN for MNIST and the layers of ResNet-20, where oneDNN used carelessly takes `ref`. */
static const layer known_layers[] = {
    { 64, 1, 28, 28, 6, 5, 5, 1, 2, 1, 1 },    { 64, 6, 14, 14, 16, 5, 5, 1, 0, 1, 1 },
    { 64, 1, 28, 28, 32, 3, 3, 1, 1, 1, 1 },   { 64, 32, 14, 14, 64, 3, 3, 1, 1, 1, 1 },
    { 64, 32, 26, 26, 32, 3, 3, 1, 0, 1, 1 },  { 128, 3, 32, 32, 16, 3, 3, 1, 1, 1, 1 },
    { 128, 16, 32, 32, 16, 3, 3, 1, 1, 1, 1 }, { 128, 16, 32, 32, 32, 3, 3, 2, 1, 1, 1 },
    { 128, 32, 16, 16, 32, 3, 3, 1, 1, 1, 1 }, { 128, 32, 16, 16, 64, 3, 3, 2, 1, 1, 1 },
    { 128, 64, 8, 8, 64, 3, 3, 1, 1, 1, 1 },   { 128, 16, 32, 32, 32, 1, 1, 2, 0, 1, 1 },
};

static void test_no_reference_kernel_is_chosen(void **state)
{
    (void)state;
    const cpu_blas_table *blas = blas_or_skip();
    for (size_t i = 0; i < sizeof known_layers / sizeof *known_layers; i++) {
        for (int bits = 0; bits < 12; bits++) {
            cpu_conv2d_call call;
            memset(&call, 0, sizeof call);
            call.shape =
                shape_of(&known_layers[i], bits & 1 ? CPU_CONV_NCHW : CPU_CONV_NHWC, CPU_CONV_OIHW);
            call.threads = bits & 2 ? 2 : 1;
            call.pass = (cpu_conv_pass)(CPU_CONV_FORWARD + bits / 4);
            const char *kernel = blas->conv2d_kernel(&call);
            assert_non_null(kernel);
            assert_null(strstr(kernel, "ref"));
        }
    }
    blas->release_thread();
}

static void test_weights_key_saves_the_reorder(void **state)
{
    (void)state;
    const cpu_blas_table *blas = blas_or_skip();
    const layer l = { 2, 32, 10, 10, 64, 3, 3, 1, 1, 1, 1 };
    cpu_conv2d_shape s = shape_of(&l, CPU_CONV_NHWC, CPU_CONV_OIHW);
    tensors t = make_tensors(&s);
    results r = reference(&s, &t);
    cpu_conv2d_call call = call_of(&s, &t, CPU_CONV_FORWARD);
    cpu_blas_stats before;
    cpu_blas_stats after;
    call.threads = 1; /* counters are per thread */
    call.weights_key = 7;
    assert_int_equal(blas->conv2d(&call), CPU_BLAS_OK);
    blas->stats(&before);
    assert_int_equal(blas->conv2d(&call), CPU_BLAS_OK);
    check("y", t.y, r.y, t.y_count, 288);
    blas->stats(&after);
    assert_int_equal(after.weight_reorders, before.weight_reorders);
    assert_int_equal(after.primitives_created, before.primitives_created);
    for (size_t i = 0; i < t.w_count; i++)
        t.w[i] = -t.w[i];
    call.weights_key = 8;
    assert_int_equal(blas->conv2d(&call), CPU_BLAS_OK);
    for (size_t i = 0; i < t.y_count; i++)
        r.y[i] = 2 * (double)t.bias[i % 64] - r.y[i];
    check("y of new weights", t.y, r.y, t.y_count, 288);
    call.weights_key = 0;
    assert_int_equal(blas->conv2d(&call), CPU_BLAS_OK);
    check("y without a key", t.y, r.y, t.y_count, 288);
    free_results(&r);
    free_tensors(&t);
}

static void test_cache_is_bounded(void **state)
{
    (void)state;
    const cpu_blas_table *blas = blas_or_skip();
    cpu_blas_stats stats;
    for (int64_t n = 1; n <= 70; n++) {
        const layer l = { n, 8, 6, 6, 8, 3, 3, 1, 1, 1, 1 };
        cpu_conv2d_call call;
        memset(&call, 0, sizeof call);
        call.shape = shape_of(&l, CPU_CONV_NHWC, CPU_CONV_OIHW);
        call.pass = CPU_CONV_FORWARD;
        call.threads = 1;
        assert_non_null(blas->conv2d_kernel(&call));
    }
    blas->stats(&stats);
    assert_true(stats.primitives_cached <= 64);
    blas->release_thread();
    blas->stats(&stats);
    assert_int_equal(stats.primitives_cached, 0);
    assert_int_equal(stats.scratch_bytes, 0);
}

static void test_impossible_shapes_are_unsupported(void **state)
{
    (void)state;
    const cpu_blas_table *blas = blas_or_skip();
    const layer layers[] = { { 1, 3, 4, 4, 2, 5, 5, 1, 0, 1, 1 },
                             { 1, 3, 8, 8, 4, 3, 3, 1, 0, 1, 2 },
                             { 0, 3, 8, 8, 4, 3, 3, 1, 0, 1, 1 },
                             { 1, 3, 8, 8, 4, 3, 3, 0, 0, 1, 1 } };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        cpu_conv2d_call call;
        memset(&call, 0, sizeof call);
        call.shape = shape_of(&layers[i], CPU_CONV_NHWC, CPU_CONV_OIHW);
        call.pass = CPU_CONV_FORWARD;
        call.threads = 1;
        assert_int_equal(blas->conv2d(&call), CPU_BLAS_UNSUPPORTED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_matches_loops_in_every_layout),
        cmocka_unit_test(test_no_reference_kernel_is_chosen),
        cmocka_unit_test(test_weights_key_saves_the_reorder),
        cmocka_unit_test(test_cache_is_bounded),
        cmocka_unit_test(test_impossible_shapes_are_unsupported),
    };
    return cmocka_run_group_tests_name("bridge_conv", tests, NULL, NULL);
}
