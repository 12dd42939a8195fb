/* softmax and log_softmax kernels against double loops, for every float type and instruction
 * set. */
#include <float.h>
#include <math.h>

#include "tests/support/check.h"
#include "tests/support/kernel.h"

static const tern_dtype_t floats[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
enum { FLOATS = 4 };

/* y, gradient or NULL, result; all [outer, n, inner]: one line of n elements at `first`. */
static void line_reference(const double *x, const double *g, double *out, int64_t n, int64_t inner,
                           bool logarithm)
{
    double largest = -INFINITY, sum = 0, dot = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, x[i * inner]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i * inner] - largest);
    for (int64_t i = 0; i < n; i++) {
        const double y = x[i * inner] - largest - log(sum);
        out[i * inner] = logarithm ? y : exp(x[i * inner] - largest) / sum;
    }
    for (int64_t i = 0; g != NULL && i < n; i++)
        dot += logarithm ? g[i * inner] : g[i * inner] * x[i * inner];
    for (int64_t i = 0; g != NULL && i < n; i++)
        out[i * inner] = logarithm ? g[i * inner] - exp(x[i * inner]) * dot
                                   : x[i * inner] * (g[i * inner] - dot);
}

typedef struct softmax_case {
    tern_dtype_t dtype;
    int64_t outer, n, inner;
    bool logarithm, gradient;
} softmax_case;

static tern_kernel kernel_of(const softmax_case *c)
{
    if (c->gradient)
        return c->logarithm ? cpu_log_softmax_grad : cpu_softmax_grad;
    return c->logarithm ? cpu_log_softmax : cpu_softmax;
}

static void check_case(void *context)
{
    const softmax_case *c = context;
    const int64_t dims[3] = { c->outer, c->n, c->inner };
    const int64_t numel = c->outer * c->n * c->inner;
    const tern_attr_dim attr = { .dim = 1 };
    karray x = karray_random(c->dtype, 3, dims, -3, 3, 1);
    karray g = karray_random(c->dtype, 3, dims, -1, 1, 2);
    karray out = karray_filled(c->dtype, 3, dims, 7);
    const kernel_run run = { .kernel = kernel_of(c),
                             .attr = &attr,
                             .in = { c->gradient ? &g : &x, &x },
                             .n_in = c->gradient ? 2 : 1,
                             .out = { &out },
                             .n_out = 1 };
    assert_int_equal(kernel_call(&run), TERN_OK);
    double *want = out.values;
    for (int64_t line = 0; line < c->outer * c->inner; line++) {
        const int64_t first = line / c->inner * c->n * c->inner + line % c->inner;
        line_reference(x.values + first, c->gradient ? g.values + first : NULL, want + first, c->n,
                       c->inner, c->logarithm);
    }
    /* gradients scale with the sums in them, and with exp(3) */
    const double growth = c->gradient ? 4 * (1 + sqrt((double)c->n)) : 1;
    const double tolerance = kernel_tolerance(c->dtype, 2e-6) * growth;
    for (int64_t i = 0; i < numel; i++)
        kernel_expect("softmax", i, karray_at(&out, i), want[i], tolerance);
    karray_free(&x);
    karray_free(&g);
    karray_free(&out);
}

static void check_all_ways(int64_t outer, int64_t n, int64_t inner)
{
    for (int i = 0; i < FLOATS * 4; i++) {
        softmax_case c = { floats[i % FLOATS], outer, n, inner, i / FLOATS % 2, i / FLOATS / 2 };
        kernel_each_isa(check_case, &c);
    }
}

static void test_rows_of_every_length_match_double_loops(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 70; n++)
        check_all_ways(3, n, 1);
    for (int64_t n = 124; n <= 140; n += 2)
        check_all_ways(3, n, 1);
    check_all_ways(2, 2047, 1);
    check_all_ways(2, 2049, 1);
    check_all_ways(2, 5003, 1);
}

static void test_rows_longer_than_caches_match(void **state)
{
    (void)state;
    softmax_case c = { TERN_F32, 2, 70001, 1, false, false };
    kernel_each_isa(check_case, &c);
    c.logarithm = true;
    kernel_each_isa(check_case, &c);
}

/* y = softmax of x along `dim`, or its logarithm. */
static void run_along(int dim, bool logarithm, karray *x, karray *y)
{
    const tern_attr_dim attr = { .dim = dim };
    const kernel_run run = { .kernel = logarithm ? cpu_log_softmax : cpu_softmax,
                             .attr = &attr,
                             .in = { x },
                             .n_in = 1,
                             .out = { y },
                             .n_out = 1 };
    assert_int_equal(kernel_call(&run), TERN_OK);
}

/* One large term and many small ones, each of which would be lost beside the sum of all. */
static void check_small_ones(void *context)
{
    const softmax_case *c = context;
    const int64_t dims[3] = { 1, c->n, c->inner };
    karray x = karray_filled(TERN_F32, 3, dims, -17), y = karray_filled(TERN_F32, 3, dims, 7);
    for (int64_t i = 0; i < c->inner; i++)
        karray_set(&x, i, 0);
    run_along(1, false, &x, &y);
    const double want = 1 / (1 + (double)(c->n - 1) * exp(-17));
    for (int64_t i = 0; i < c->inner; i++)
        kernel_expect("softmax", i, karray_at(&y, i), want, 4e-5);
    karray_free(&x);
    karray_free(&y);
}

static void test_many_small_terms_are_counted(void **state)
{
    (void)state;
    for (int64_t inner = 1; inner <= 8; inner += 7) {
        softmax_case c = { TERN_F32, 1, 50257, inner, false, false };
        kernel_each_isa(check_small_ones, &c);
    }
}

static void test_results_that_are_written_past_the_caches_match(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        softmax_case c = { TERN_F32, 4100, 1024, 1, way & 1, way >= 2 };
        kernel_each_isa(check_case, &c);
    }
}

static void test_inner_dimensions_of_every_width_match(void **state)
{
    (void)state;
    for (int64_t inner = 2; inner <= 35; inner++)
        check_all_ways(2, 5, inner);
    check_all_ways(3, 9, 130);
}

/* ---- special values -------------------------------------------------------------------------- */

enum { ROW = 200, WIDE = 4100 }; /* one block, several */

typedef struct special {
    int64_t n;
    double fill, at_3, want_0, want_3;
    bool logarithm;
} special;

static void check_special(void *context)
{
    const special *s = context;
    for (int inner = 1; inner <= 2; inner++) {
        const int64_t dims[2] = { s->n, inner };
        karray x = karray_filled(TERN_F32, 2, dims, s->fill);
        karray y = karray_filled(TERN_F32, 2, dims, 7);
        karray_set(&x, 3 * inner, s->at_3);
        run_along(0, s->logarithm, &x, &y);
        kernel_expect("special", 0, karray_at(&y, 0), s->want_0, 1e-6);
        kernel_expect("special", 3, karray_at(&y, 3 * inner), s->want_3, 1e-6);
        karray_free(&x);
        karray_free(&y);
    }
}

static void test_infinities_and_nan_come_out_as_in_pytorch(void **state)
{
    (void)state;
    special cases[] = {
        { 7, 0, -INFINITY, 1.0 / 6, 0, false },
        { 7, 0, -INFINITY, -log(6), -INFINITY, true },
        { 40, -INFINITY, 2, 0, 1, false },
        { WIDE, -INFINITY, 2, 0, 1, false },
        { WIDE, -INFINITY, 2, -INFINITY, 0, true },
        { 7, -INFINITY, -INFINITY, NAN, NAN, false },
        { WIDE, -INFINITY, -INFINITY, NAN, NAN, false },
        { WIDE, -INFINITY, -INFINITY, NAN, NAN, true },
        { 40, 0, NAN, NAN, NAN, false },
        { WIDE, -INFINITY, NAN, NAN, NAN, true },
        { 40, 0, INFINITY, NAN, NAN, true },
        { 40, -1e30, 1e30, 0, 1, false },
        { 40, 1e30, 1e30, 1.0 / 40, 1.0 / 40, false },
        { ROW, -INFINITY, 2, -INFINITY, 0, true },
        { ROW, -INFINITY, -INFINITY, NAN, NAN, true },
        { ROW, 0, NAN, NAN, NAN, true },
        { ROW, 0, INFINITY, NAN, NAN, true },
        { ROW, -1e30, 1e30, -2e30, 0, true },
        { ROW, 1e30, 1e30, -log(ROW), -log(ROW), true },
        { ROW, 65535, 65535, -log(ROW), -log(ROW), true },
        { ROW, -65537, -65539, -log(ROW - 1 + exp(-2)), -2 - log(ROW - 1 + exp(-2)), true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        kernel_each_isa(check_special, &cases[i]);
}

/* Beside what is far below them all, one is certain, two or four are as likely: exactly. */
static void check_certain(void *context)
{
    const int64_t n = *(const int64_t *)context;
    static const double levels[] = { 0, 0.3, -7.77, 63.1, 1234.567, -70000.5 };
    for (int i = 0; i < 6 * 3 * 2; i++) {
        const double level = levels[i % 6];
        const int64_t alike = 1 << i / 6 % 3;
        const bool logarithm = i / 18 == 1;
        karray x = karray_filled(TERN_F32, 1, &n, level - 20000);
        karray y = karray_filled(TERN_F32, 1, &n, 7);
        for (int64_t k = 0; k < alike; k++)
            karray_set(&x, n - 1 - k, level);
        run_along(0, logarithm, &x, &y);
        const double want = logarithm ? -log((double)alike) : 1 / (double)alike;
        for (int64_t k = 0; k < alike; k++)
            kernel_expect("certain", k, karray_at(&y, n - 1 - k), (double)(float)want,
                          alike > 1 && logarithm ? 1.2e-7 : 0);
        karray_free(&x);
        karray_free(&y);
    }
}

static void test_what_is_certain_is_exactly_so(void **state)
{
    (void)state;
    int64_t lengths[] = { 5, 20, 33, 100, ROW, 1024, WIDE };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        kernel_each_isa(check_certain, &lengths[i]);
}

/* Terms from 1 down to less than any number, which are 0; those that would be denormal may be, none is more. */
static void check_small_terms(void *context)
{
    const int64_t n = *(const int64_t *)context;
    karray x = karray_filled(TERN_F32, 1, &n, 0);
    karray y = karray_filled(TERN_F32, 1, &n, 7);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        karray_set(&x, i,
                   i % 3 == 0   ? -(double)i / 16
                   : i % 3 == 1 ? -80 - (double)i / 128
                                : -1e38);
        sum += exp(karray_at(&x, i));
    }
    run_along(0, false, &x, &y);
    for (int64_t i = 0; i < n; i++) {
        const double want = exp(karray_at(&x, i)) / sum, got = karray_at(&y, i);
        const double most = want > 0 ? (double)FLT_MIN : 0;
        if (!(fabs(got - want) <= want * 1e-6 ||
              (want < (double)FLT_MIN && got >= 0 && got <= most)))
            fail_msg("term of %.9g: %.9g, not %.9g", karray_at(&x, i), got, want);
    }
    karray_free(&x);
    karray_free(&y);
}

static void test_small_terms_are_right_or_0(void **state)
{
    (void)state;
    int64_t n = 2048; /* a row of one pass */
    kernel_each_isa(check_small_terms, &n);
    n = 512; /* so little is done at once, without denormals flushed */
    kernel_each_isa(check_small_terms, &n);
}

static void test_empty_and_0_dim(void **state)
{
    (void)state;
    const tern_attr_dim attr = { .dim = 0 };
    karray x = karray_filled(TERN_F32, 0, NULL, 3);
    karray y = karray_filled(TERN_F32, 0, NULL, 7);
    const kernel_run one = {
        .kernel = cpu_softmax, .attr = &attr, .in = { &x }, .n_in = 1, .out = { &y }, .n_out = 1
    };
    assert_int_equal(kernel_call(&one), TERN_OK);
    assert_true(karray_at(&y, 0) == 1);
    karray none = karray_filled(TERN_F32, 2, (int64_t[]){ 3, 0 }, 0);
    const kernel_run empty = { .kernel = cpu_log_softmax,
                               .attr = &attr,
                               .in = { &none },
                               .n_in = 1,
                               .out = { &none },
                               .n_out = 1 };
    assert_int_equal(kernel_call(&empty), TERN_OK);
    karray_free(&x);
    karray_free(&y);
    karray_free(&none);
}

static void test_two_threads_give_the_same_bits(void **state)
{
    (void)state;
    const int64_t dims[2] = { 3000, 101 };
    const tern_attr_dim attr = { .dim = 1 };
    karray x = karray_random(TERN_F32, 2, dims, -3, 3, 5);
    karray y[2];
    for (int i = 0; i < 2; i++) {
        y[i] = karray_filled(TERN_F32, 2, dims, 7);
        const kernel_run run = { .kernel = cpu_softmax,
                                 .attr = &attr,
                                 .threads = i + 1,
                                 .in = { &x },
                                 .n_in = 1,
                                 .out = { &y[i] },
                                 .n_out = 1 };
        assert_int_equal(kernel_call(&run), TERN_OK);
    }
    assert_memory_equal(y[0].view.data, y[1].view.data, (size_t)x.view.numel * sizeof(float));
    karray_free(&x);
    karray_free(&y[0]);
    karray_free(&y[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_every_length_match_double_loops),
        cmocka_unit_test(test_rows_longer_than_caches_match),
        cmocka_unit_test(test_many_small_terms_are_counted),
        cmocka_unit_test(test_results_that_are_written_past_the_caches_match),
        cmocka_unit_test(test_inner_dimensions_of_every_width_match),
        cmocka_unit_test(test_infinities_and_nan_come_out_as_in_pytorch),
        cmocka_unit_test(test_what_is_certain_is_exactly_so),
        cmocka_unit_test(test_small_terms_are_right_or_0),
        cmocka_unit_test(test_empty_and_0_dim),
        cmocka_unit_test(test_two_threads_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
