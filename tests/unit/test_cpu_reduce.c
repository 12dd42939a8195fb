/* Reductions against loops in double precision: dtypes, layouts, dims, sizes
 * around chunks, special values, repeatability. */
#include <math.h>
#include <stdlib.h>

#include "backend_cpu/cpu.h"
#include "tern/op_attr.h"
#include "tests/support/check.h"
#include "tests/support/karray_layout.h"

enum { SUM, MEAN, VAR, NORM, AMAX, MAX, ARGMAX, KINDS };
static const char *const kind_names[] = { "sum", "mean", "var", "norm", "amax", "max", "argmax" };
static const tern_kernel kernels[] = { cpu_sum,  cpu_mean, cpu_var,   cpu_norm,
                                       cpu_amax, cpu_max,  cpu_argmax };

/* ---- references ------------------------------------------------------------------------------ */

/* Number of the output element that element i of `v` goes to, kept dims in row-major order. */
static int64_t group_of(const tern_view *v, int64_t i, uint32_t dims)
{
    int64_t group = 0, step = 1;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (!(dims >> d & 1)) {
            group += i % v->shape[d] * step;
            step *= v->shape[d];
        }
        i /= v->shape[d];
    }
    return group;
}

/* Value (first `groups`) and place (second) of each output element. */
static double *reference(const karray *x, int kind, uint32_t dims, int64_t groups,
                         double correction)
{
    double *value = calloc((size_t)groups * 4, sizeof *value);
    double *place = value + groups, *mean = value + 2 * groups, *count = value + 3 * groups;
    assert_non_null(value);
    for (int64_t i = 0; i < x->view.numel; i++) {
        const int64_t g = group_of(&x->view, i, dims);
        const double v = x->values[i];
        const bool greater = count[g] == 0 || v > value[g] || (isnan(v) && !isnan(value[g]));
        if (kind >= AMAX && greater) {
            value[g] = v;
            place[g] = count[g];
        } else if (kind < AMAX) {
            value[g] += kind == NORM ? v * v : v;
        }
        mean[g] += v;
        count[g]++;
    }
    for (int64_t g = 0; g < groups; g++) {
        mean[g] /= count[g];
        value[g] = kind == MEAN   ? mean[g]
                   : kind == VAR  ? 0
                   : kind == NORM ? sqrt(value[g])
                                  : value[g];
    }
    for (int64_t i = 0; kind == VAR && i < x->view.numel; i++) {
        const int64_t g = group_of(&x->view, i, dims);
        value[g] += (x->values[i] - mean[g]) * (x->values[i] - mean[g]) / (count[g] - correction);
    }
    return value;
}

/* ---- one call -------------------------------------------------------------------------------- */

typedef struct setting {
    int kind;
    karray x, out[2];
    uint32_t dims;
    double correction, tolerance;
    int threads;
    int64_t groups;
} setting;

static tern_dtype_t result_dtype(int kind, tern_dtype_t dtype)
{
    if (kind == ARGMAX || (kind == SUM && !tern_dtype_is_float(dtype)))
        return TERN_I64;
    return dtype;
}

static void prepare(setting *s, bool keepdim)
{
    int64_t dims[TERN_MAX_DIMS];
    int ndim = 0;
    s->groups = 1;
    for (int d = 0; d < s->x.view.ndim; d++) {
        const bool gone = (s->dims >> d & 1) != 0;
        if (!gone || keepdim)
            dims[ndim++] = gone ? 1 : s->x.view.shape[d];
        s->groups *= gone ? 1 : s->x.view.shape[d];
    }
    const tern_dtype_t dtype = result_dtype(s->kind, (tern_dtype_t)s->x.view.dtype);
    s->out[0] = karray_filled(dtype, ndim, dims, 1);
    s->out[1] = karray_filled(TERN_I64, ndim, dims, 1);
}

static void run_setting(setting *s)
{
    int dim = 0;
    while (dim < 7 && !(s->dims >> dim & 1))
        dim++;
    const tern_attr_reduce many = { .dims = s->dims,
                                    .correction = s->correction,
                                    .keepdim = s->out[0].view.ndim == s->x.view.ndim };
    const tern_attr_dim one = { .dim = dim, .keepdim = many.keepdim };
    const tern_attr_vector_norm norm = { .dims = s->dims, .keepdim = many.keepdim, .p = 2 };
    const kernel_run run = { .kernel = kernels[s->kind],
                             .threads = s->threads,
                             .attr = s->kind >= MAX    ? (const void *)&one
                                     : s->kind == NORM ? (const void *)&norm
                                                       : &many,
                             .in = { &s->x },
                             .n_in = 1,
                             .out = { &s->out[0], &s->out[1] },
                             .n_out = s->kind == MAX ? 2 : 1 };
    assert_int_equal(kernel_call(&run), TERN_OK);
}

static void check_setting(void *context)
{
    setting *s = context;
    double *want = reference(&s->x, s->kind, s->dims, s->groups, s->correction);
    run_setting(s);
    const double tolerance = s->kind >= AMAX || !tern_dtype_is_float((tern_dtype_t)s->x.view.dtype)
                                 ? 0
                                 : kernel_tolerance((tern_dtype_t)s->x.view.dtype, s->tolerance);
    for (int64_t g = 0; g < s->groups; g++) {
        kernel_expect(kind_names[s->kind], g, karray_at(&s->out[0], g),
                      want[s->kind == ARGMAX ? s->groups + g : g], tolerance);
        if (s->kind == MAX)
            kernel_expect("place of max", g, karray_at(&s->out[1], g), want[s->groups + g], 0);
    }
    free(want);
}

static void free_setting(setting *s)
{
    karray_free(&s->x);
    karray_free(&s->out[0]);
    karray_free(&s->out[1]);
}

static bool accepts(int kind, int dtype)
{
    return (kind != MEAN && kind != VAR && kind != NORM) ||
           tern_dtype_is_float((tern_dtype_t)dtype);
}

/* ---- dtypes, dims, layouts ------------------------------------------------------------------- */

static void check_dims(int kind, tern_dtype_t dtype, karray_layout layout, uint32_t dims)
{
    const int64_t shape[3] = { 7, 10, 37 };
    setting s = { .kind = kind, .dims = dims, .correction = 1, .tolerance = 1e-6 };
    s.x = karray_random(dtype, 3, shape, 0, dtype == TERN_BOOL ? 2 : 9, dims + 1);
    karray_relayout(&s.x, layout);
    prepare(&s, dims % 2 == 0);
    kernel_each_isa(check_setting, &s);
    free_setting(&s);
}

static void test_all_dims_dtypes_and_layouts(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int dtype = TERN_BOOL; dtype < TERN_DTYPES; dtype++) {
            for (int layout = 0; layout < KARRAY_LAYOUTS && accepts(kind, dtype); layout++) {
                for (uint32_t dims = 1; dims < 8; dims++) {
                    const bool single = (dims & (dims - 1)) == 0;
                    if (kind < MAX || single)
                        check_dims(kind, (tern_dtype_t)dtype, (karray_layout)layout, dims);
                }
            }
        }
    }
}

static void test_sizes_around_vectors(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int64_t n = 2; n < 200; n += n < 20 ? 1 : 23) {
            const int64_t shapes[2][2] = { { 3, n }, { n, 3 } };
            for (int across = 0; across < 2; across++) {
                setting s = {
                    .kind = kind, .dims = across ? 1 : 2, .correction = 1, .tolerance = 1e-6
                };
                s.x = karray_random(TERN_F32, 2, shapes[across], -1, 1, 7);
                prepare(&s, false);
                kernel_each_isa(check_setting, &s);
                free_setting(&s);
            }
        }
    }
}

/* Rows are taken many at a time, those of half types and small integers as many as fit in a buffer of 512. */
static void test_many_rows(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_BF16,
                                           TERN_I64, TERN_U8,  TERN_BOOL };
    static const int64_t shapes[][2] = { { 700, 2 },  { 600, 9 },  { 257, 16 }, { 130, 31 },
                                         { 37, 100 }, { 21, 171 }, { 7, 300 },  { 5, 512 },
                                         { 3, 513 },  { 3, 700 } };
    for (int kind = 0; kind < KINDS; kind++)
        for (int dtype = 0; dtype < 6; dtype++)
            for (size_t i = 0;
                 i < sizeof shapes / sizeof *shapes && accepts(kind, (int)dtypes[dtype]); i++) {
                setting s = { .kind = kind, .dims = 2, .correction = 1, .tolerance = 1e-6 };
                const bool whole = !tern_dtype_is_float(dtypes[dtype]);
                const double high = dtypes[dtype] == TERN_BOOL ? 2 : whole ? 9 : 1;
                s.x = karray_random(dtypes[dtype], 2, shapes[i], whole ? 0 : -1, high, 7);
                prepare(&s, false);
                kernel_each_isa(check_setting, &s);
                free_setting(&s);
            }
}

static void test_expanded_inputs(void **state)
{
    (void)state;
    const int64_t shape[3] = { 5, 8, 30 };
    for (int dim = 0; dim < 3; dim++) {
        for (uint32_t dims = 1; dims < 8; dims++) {
            setting s = { .kind = SUM, .dims = dims, .tolerance = 1e-6 };
            s.x = karray_random(TERN_F32, 3, shape, -1, 1, 7);
            karray_repeat(&s.x, dim);
            prepare(&s, false);
            kernel_each_isa(check_setting, &s);
            free_setting(&s);
        }
    }
}

/* ---- large ----------------------------------------------------------------------------------- */

static void check_large(int kind, int ndim, const int64_t *shape, uint32_t dims)
{
    setting s = { .kind = kind, .dims = dims, .correction = 0, .tolerance = 1e-6, .threads = 2 };
    s.x = karray_random(TERN_F32, ndim, shape, 0.05, 0.15, 9);
    if (kind >= AMAX) /* ties far apart */
        for (int64_t i = 0; i < s.x.view.numel; i += 70001)
            karray_set(&s.x, i, 0.5);
    prepare(&s, false);
    check_setting(&s);
    const size_t bytes = (size_t)(s.groups * tern_dtype_size((tern_dtype_t)s.out[0].view.dtype));
    char *before = malloc(bytes);
    memcpy(before, s.out[0].view.data, bytes);
    s.threads = 1;
    run_setting(&s);
    assert_memory_equal(before, s.out[0].view.data, bytes);
    free(before);
    free_setting(&s);
}

static void test_large_reductions_in_chunks_repeat_with_any_threads(void **state)
{
    (void)state;
    const int64_t line = 10000019, tall[2] = { 30011, 70 }, wide[2] = { 3, 700001 };
    for (int kind = 0; kind < KINDS; kind++) {
        check_large(kind, 1, &line, 1);
        check_large(kind, 2, tall, 1);
        check_large(kind, 2, wide, 2);
    }
}

static void test_equal_elements_add_up_without_drift(void **state)
{
    (void)state;
    const int64_t n = 10000000;
    setting s = { .kind = SUM, .dims = 1, .tolerance = 1e-7 };
    s.x = karray_filled(TERN_F32, 1, &n, 0.1);
    prepare(&s, false);
    kernel_each_isa(check_setting, &s);
    free_setting(&s);
}

/* ---- special cases --------------------------------------------------------------------------- */

static void check_nan(int kind, uint32_t dims, int64_t at)
{
    const int64_t shape[2] = { 70, 90 };
    setting s = { .kind = kind, .dims = dims, .tolerance = 1e-6 };
    s.x = karray_random(TERN_F32, 2, shape, -1, 1, 9);
    karray_set(&s.x, at, NAN);
    karray_set(&s.x, at + 91, NAN);
    karray_set(&s.x, 5, INFINITY);
    prepare(&s, false);
    kernel_each_isa(check_setting, &s);
    free_setting(&s);
}

static void test_nan_is_the_greatest_and_the_first_counts(void **state)
{
    (void)state;
    for (int kind = AMAX; kind < KINDS; kind++) {
        for (uint32_t dims = 1; dims < 3; dims++) {
            check_nan(kind, dims, 0);
            check_nan(kind, dims, 89);
            check_nan(kind, dims, 3000);
        }
    }
}

/* Widened and packed rows come in pieces: of equals in two of them the first counts. */
static void test_ties_between_pieces_of_a_row(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_I32, TERN_BF16, TERN_F32 };
    const int64_t shape[2] = { 3, 2000 };
    for (int k = 0; k < 3; k++) {
        for (int layout = 0; layout < KARRAY_LAYOUTS; layout++) {
            setting s = { .kind = MAX, .dims = 2 };
            s.x = karray_filled(dtypes[k], 2, shape, 1);
            karray_set(&s.x, 2003, 5);
            karray_set(&s.x, 3500, 5);
            karray_relayout(&s.x, (karray_layout)layout);
            prepare(&s, false);
            kernel_each_isa(check_setting, &s);
            free_setting(&s);
        }
    }
}

static void test_all_equal_and_all_infinite(void **state)
{
    (void)state;
    const int64_t shape[2] = { 70, 90 };
    for (uint32_t dims = 1; dims < 3; dims++) {
        setting s = { .kind = MAX, .dims = dims };
        s.x = karray_filled(TERN_F32, 2, shape, -INFINITY);
        prepare(&s, false);
        kernel_each_isa(check_setting, &s);
        free_setting(&s);
    }
}

static void test_nothing_to_reduce(void **state)
{
    (void)state;
    const int64_t shape[2] = { 3, 0 };
    const double want[] = { 0, NAN, NAN, 0 };
    for (int kind = SUM; kind <= NORM; kind++) {
        setting s = { .kind = kind, .dims = 2, .correction = 1 };
        s.x = karray_filled(TERN_F32, 2, shape, 0);
        prepare(&s, false);
        run_setting(&s);
        for (int i = 0; i < 3; i++)
            kernel_expect(kind_names[kind], i, karray_at(&s.out[0], i), want[kind], 0);
        free_setting(&s);
    }
}

static void test_one_element_and_variance_of_one(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        setting s = { .kind = kind, .dims = kind >= MAX ? 0 : 1, .correction = 1 };
        const int64_t one = 1;
        s.x = karray_filled(TERN_F32, kind >= MAX ? 0 : 1, &one, 4);
        prepare(&s, false);
        run_setting(&s);
        kernel_expect(kind_names[kind], 0, karray_at(&s.out[0], 0),
                      kind == VAR      ? NAN
                      : kind == ARGMAX ? 0
                                       : 4,
                      0);
        free_setting(&s);
    }
}

/* f32's range is that of results, not of squares; nor are means rounded to it. */
typedef struct spread_case {
    tern_dtype_t dtype;
    double a, b;
    karray_layout layout;
} spread_case;

static void check_spread(void *context)
{
    const spread_case *c = context;
    const int64_t shape[2] = { 5002, 3 }, columns = 3;
    const tern_attr_reduce attr = { .dims = 1, .correction = 1 };
    karray x = karray_filled(c->dtype, 2, shape, 0);
    karray out = karray_filled(c->dtype, 1, &columns, 7);
    for (int64_t i = 0; i < x.view.numel; i++)
        karray_set(&x, i, i / columns % 2 ? c->a : c->b);
    const double apart = fabs(x.values[0] - x.values[columns]) / 2;
    karray_relayout(&x, c->layout);
    const kernel_run run = {
        .kernel = cpu_std, .attr = &attr, .in = { &x }, .n_in = 1, .out = { &out }, .n_out = 1
    };
    assert_int_equal(kernel_call(&run), TERN_OK);
    for (int64_t i = 0; i < columns; i++)
        kernel_expect("std", i, karray_at(&out, i) / (apart * sqrt(5002.0 / 5001)), 1,
                      kernel_tolerance(c->dtype, 1e-6));
    karray_free(&x);
    karray_free(&out);
}

static void check_wide_spread(tern_dtype_t dtype, double a, double b)
{
    for (int layout = 0; layout < KARRAY_LAYOUTS; layout++) {
        spread_case c = { dtype, a, b, (karray_layout)layout };
        kernel_each_isa(check_spread, &c);
    }
}

static void test_deviations_at_the_ends_of_the_range(void **state)
{
    (void)state;
    check_wide_spread(TERN_F32, 1e20, -1e20);
    check_wide_spread(TERN_F32, 3e38, 2.9e38);
    check_wide_spread(TERN_F32, 1e-24, -1e-24);
    check_wide_spread(TERN_F32, 16777216, 16777218);
    check_wide_spread(TERN_F32, 5, 7);
    check_wide_spread(TERN_BF16, 1e20, -1e20);
    check_wide_spread(TERN_BF16, 1e-30, 2e-30);
}

/* The same of norms, of rows and columns: blocks of 4096 elements, the last one of few. */
static void check_norm_at_the_end(void *context)
{
    const spread_case *c = context;
    const int64_t shapes[2][2] = { { 2, 8200 }, { 8200, 2 } }, two = 2;
    for (int across = 0; across < 2; across++) {
        const tern_attr_vector_norm attr = { .dims = across ? 1 : 2, .p = 2 };
        karray x = karray_filled(c->dtype, 2, shapes[across], 0);
        karray out = karray_filled(c->dtype, 1, &two, 7);
        double sum = 0; /* of squares beside those of the largest */
        for (int64_t i = 0; i < x.view.numel; i++)
            karray_set(&x, i, i % 2 ? c->a : c->b);
        for (int64_t i = 0; i < 8200; i++)
            sum += pow(x.values[across ? 2 * i : i] / x.values[0], 2);
        karray_relayout(&x, c->layout);
        const kernel_run run = {
            .kernel = cpu_norm, .attr = &attr, .in = { &x }, .n_in = 1, .out = { &out }, .n_out = 1
        };
        assert_int_equal(kernel_call(&run), TERN_OK);
        kernel_expect("norm", across, karray_at(&out, 0) / (fabs(x.values[0]) * sqrt(sum)), 1,
                      kernel_tolerance(c->dtype, 1e-6));
        karray_free(&x);
        karray_free(&out);
    }
}

static void test_norms_at_the_ends_of_the_range(void **state)
{
    (void)state;
    static const double pairs[][2] = { { 1e30, -1e30 }, { 1e20, 3e20 }, { 1e-24, -2e-24 } };
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_BF16 };
    for (int d = 0; d < 2; d++)
        for (int p = 0; p < 3; p++)
            for (int layout = 0; layout < KARRAY_LAYOUTS; layout++) {
                spread_case c = { dtypes[d], pairs[p][0], pairs[p][1], (karray_layout)layout };
                kernel_each_isa(check_norm_at_the_end, &c);
            }
}

/* Squares that leave f64 are infinite, and so is the deviation: not NaN. */
static void test_deviations_beyond_f64(void **state)
{
    (void)state;
    const int64_t n = 10, none = 0;
    const tern_attr_reduce attr = { .dims = 1, .correction = 1 };
    for (int i = 0; i < 20; i++) {
        karray x = karray_filled(TERN_F64, 1, &n, 0), out = karray_filled(TERN_F64, 0, &none, 7);
        for (int64_t j = 0; j < n; j++)
            karray_set(&x, j, 1e200 * (1 + 0.013 * (double)((i + 1) * (j + 3) % 17)));
        const kernel_run run = {
            .kernel = cpu_std, .attr = &attr, .in = { &x }, .n_in = 1, .out = { &out }, .n_out = 1
        };
        assert_int_equal(kernel_call(&run), TERN_OK);
        assert_true(isinf(karray_at(&out, 0)));
        karray_free(&x);
        karray_free(&out);
    }
}

/* An infinity has no distance from the mean that it makes: NaN, in its column alone. */
static void check_infinite_spread(void *context)
{
    const spread_case *c = context;
    const int64_t shape[2] = { 70, 3 }, columns = 3;
    const tern_attr_reduce attr = { .dims = 1, .correction = 1 };
    karray x = karray_filled(c->dtype, 2, shape, 0);
    karray out = karray_filled(c->dtype, 1, &columns, 7);
    for (int64_t i = 0; i < x.view.numel; i++)
        karray_set(&x, i, i == 31 ? c->a : i == 61 ? c->b : (double)(i % 5));
    karray_relayout(&x, c->layout);
    const kernel_run run = {
        .kernel = cpu_var, .attr = &attr, .in = { &x }, .n_in = 1, .out = { &out }, .n_out = 1
    };
    assert_int_equal(kernel_call(&run), TERN_OK);
    for (int64_t i = 0; i < columns; i++)
        assert_int_equal(isnan(karray_at(&out, i)) != 0, i == 1);
    karray_free(&x);
    karray_free(&out);
}

static void test_infinities_have_no_spread(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
    static const double pairs[][2] = { { INFINITY, 1 }, { -INFINITY, INFINITY }, { 1, -INFINITY } };
    for (int d = 0; d < 4; d++)
        for (int p = 0; p < 3; p++)
            for (int layout = 0; layout < KARRAY_LAYOUTS; layout++) {
                spread_case c = { dtypes[d], pairs[p][0], pairs[p][1], (karray_layout)layout };
                kernel_each_isa(check_infinite_spread, &c);
            }
}

static void test_integer_sums_wrap(void **state)
{
    (void)state;
    const int64_t n = 4;
    setting s = { .kind = SUM, .dims = 1 };
    s.x = karray_filled(TERN_I64, 1, &n, 0);
    for (int i = 0; i < n; i++)
        ((int64_t *)s.x.view.data)[i] = INT64_MAX;
    prepare(&s, false);
    run_setting(&s);
    assert_true(*(int64_t *)s.out[0].view.data == -4);
    free_setting(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_dims_dtypes_and_layouts),
        cmocka_unit_test(test_sizes_around_vectors),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_expanded_inputs),
        cmocka_unit_test(test_large_reductions_in_chunks_repeat_with_any_threads),
        cmocka_unit_test(test_equal_elements_add_up_without_drift),
        cmocka_unit_test(test_nan_is_the_greatest_and_the_first_counts),
        cmocka_unit_test(test_ties_between_pieces_of_a_row),
        cmocka_unit_test(test_all_equal_and_all_infinite),
        cmocka_unit_test(test_nothing_to_reduce),
        cmocka_unit_test(test_one_element_and_variance_of_one),
        cmocka_unit_test(test_deviations_at_the_ends_of_the_range),
        cmocka_unit_test(test_norms_at_the_ends_of_the_range),
        cmocka_unit_test(test_deviations_beyond_f64),
        cmocka_unit_test(test_infinities_have_no_spread),
        cmocka_unit_test(test_integer_sums_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
