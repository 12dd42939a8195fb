/* Losses of values at the ends of what numbers are: what they give, and what they refuse. Also on
 * simulated devices. */
#include <math.h>

#include "tests/support/check.h"

/* ---- probabilities ----------------------------------------------------------------------------- */

/* `count` elements of 0.5, of which one is `odd`. */
static tern_tensor *halves_but(int64_t count, int64_t at, double odd, tern_dtype_t dtype)
{
    tern_tensor *t = tern_full(0.5, TERN_SHAPE(count), dtype, tern_default_device());
    tern_fill(tern_select(t, 0, at), odd);
    return t;
}

static void expect_improbable(tern_tensor *x, tern_tensor *target, const char *text)
{
    assert_no_error();
    tern_tensor *loss = tern_binary_cross_entropy(x, target, .reduction = TERN_NONE);
    if (tern_default_device().kind == TERN_KIND_CPU) {
        assert_null(loss);
        assert_error(TERN_ERR_ARGUMENT, text);
        return;
    }
    assert_non_null(loss); /* a device does not wait to look */
    assert_no_error();
}

/* As PyTorch on the CPU, of x and of the target; -0, 0 and 1 are probabilities. */
static void test_what_is_no_probability_is_refused(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_BF16, TERN_F16 };
    const double outside[] = { 1.5, -0.25, (double)INFINITY, (double)NAN, 1.0078125, -1e-6 };
    for (int d = 0; d < 4; d++)
        for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
            tern_tensor *fine = halves_but(3000, 7, -0.0, dtypes[d]);
            tern_tensor *bad = halves_but(3000, 2999, outside[i], dtypes[d]);
            expect_improbable(
                bad, fine, "at position 2999 of x is no probability in [0, 1]\n  try tern_binary");
            /* which no other loss takes */
            expect_improbable(fine, bad,
                              "at position 2999 of target is no probability in [0, 1]\n    x ");
            tern_tensor *even = tern_slice(bad, .start = 1, .step = 2);
            expect_improbable(even, even, "at position 1499 of x is no probability");
            tern_tensor *one = tern_slice(bad, .start = 2999);
            expect_improbable(one, one, "at position 0 of x is no probability");
        }
    expect_improbable(halves_but(9, 4, 1.5, TERN_F32), halves_but(9, 4, 1, TERN_F32), "1.5 at");
    assert_close(tern_item(tern_binary_cross_entropy(halves_but(2, 0, -0.0, TERN_F32),
                                                     halves_but(2, 0, 1, TERN_F32))),
                 (100 + log(2)) / 2, 1e-4);
    assert_no_error();
}

/* ---- distances --------------------------------------------------------------------------------- */

/* A loss of one distance, its slope and its curvature. */
typedef struct distance_case {
    double d, width, loss, slope, curvature;
    bool huber;
} distance_case;

static void expect_distance(const distance_case *c, tern_dtype_t dtype)
{
    TERN_SCOPE;
    const tern_dev_t dev = tern_default_device();
    tern_tensor *x = tern_set_requires_grad(tern_full(c->d, TERN_SHAPE(3), dtype, dev), true);
    tern_tensor *zero = tern_zeros(TERN_SHAPE(3), dtype, dev),
                *one = tern_ones(TERN_SHAPE(3), dtype, dev);
    const double width = c->width == 0 ? -0.0 : c->width;
    tern_tensor *loss = c->huber
                            ? tern_huber_loss(x, zero, .reduction = TERN_NONE, .delta = width)
                            : tern_smooth_l1_loss(x, zero, .reduction = TERN_NONE, .beta = width);
    assert_no_error();
    tern_tensor *slope = NULL, *curvature = NULL;
    tern_grad(loss, &x, 1, &slope, .gradient = one, .create_graph = true);
    assert_no_error();
    if (tern_requires_grad(slope))
        tern_grad(slope, &x, 1, &curvature, .gradient = one);
    assert_no_error();
    const double epsilon = dtype == TERN_F64 ? 1e-15 : 3e-7;
    assert_close(tern_item(tern_select(loss, 0, 1)), c->loss, epsilon * fabs(c->loss));
    assert_close(tern_item(tern_select(slope, 0, 1)), c->slope, epsilon * fabs(c->slope));
    if (curvature != NULL)
        assert_close(tern_item(tern_select(curvature, 0, 1)), c->curvature,
                     epsilon * fabs(c->curvature));
}

static void test_distances_of_any_size_and_width(void **state)
{
    (void)state;
    static const distance_case cases[] = {
        { 1e30, 1e10, 1e30, 1, 0, false },
        { -1e38, 3, 1e38, -1, 0, false },
        { 1e25, 1e30, 5e19, 1e-5, 1e-30, false },
        { 1e20, 1e-30, 1e20, 1, 0, false },
        { 0, 1e-40, 0, 0, 0, false },
        { 2, 1e-40, 2, 1, 0, false },
        { -5, 1e-50, 5, -1, 0, false },
        { 0, 0, 0, 0, 0, false },
        { -3, 0, 3, -1, 0, false },
        { 2, (double)INFINITY, 0, 0, 0, false },
        { 0.5, 0.3, 0.35, 1, 0, false },
        { 1e15, 1e18, 5e29, 1e15, 1, true },
        { -1e30, 1, 1e30, -1, 0, true },
        { 2, (double)INFINITY, 2, 2, 1, true },
        { -1e-3, 0.3, 5e-7, -1e-3, 1, true },
        { 2, 0.3, 0.555, 0.3, 0, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_distance(&cases[i], TERN_F32);
        if (cases[i].d != 0 || cases[i].width == 0)
            expect_distance(&cases[i], TERN_F64);
    }
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(tern_full((double)NAN, TERN_SHAPE(1)), true);
    tern_backward(tern_smooth_l1_loss(x, tern_zeros(TERN_SHAPE(1)), .reduction = TERN_SUM));
    assert_true(isnan(tern_item(tern_grad_of(x))));
    assert_no_error();
}

/* PyTorch's: of operands of several dtypes, one of which is 0-dim, and of truth. */
static void test_dtypes_of_distances(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_dtype_t dtypes[] = { TERN_BF16, TERN_F32, TERN_F64, TERN_BOOL };
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            for (int flat = 0; flat < 3; flat++) {
                tern_tensor *x = tern_ones(flat == 1 ? TERN_SCALAR_SHAPE : TERN_SHAPE(3), dtypes[i],
                                           tern_default_device());
                tern_tensor *y = tern_zeros(flat == 2 ? TERN_SCALAR_SHAPE : TERN_SHAPE(3),
                                            dtypes[j], tern_default_device());
                tern_set_requires_grad(x, true);
                const tern_dtype_t meet = tern_promote(dtypes[i], dtypes[j]);
                tern_tensor *squares = tern_mse_loss(x, y, TERN_MEAN),
                            *huber = tern_huber_loss(x, y);
                tern_tensor *smooth = tern_smooth_l1_loss(x, y);
                assert_no_error();
                assert_int_equal(tern_dtype(squares), meet);
                assert_int_equal(tern_dtype(smooth), meet);
                assert_int_equal(tern_dtype(huber), dtypes[i]);
                assert_close(tern_item(huber), 0.5, 0);
                tern_tensor *lines = tern_l1_loss(x, y, TERN_MEAN);
                if (dtypes[j] == TERN_BOOL) {
                    assert_error(TERN_ERR_DTYPE, "is bool");
                    continue;
                }
                assert_int_equal(tern_dtype(lines), meet);
                tern_backward(lines);
                assert_close(tern_item(tern_sum(tern_grad_of(x))), 1, 1e-2);
            }
}

/* ---- classes ----------------------------------------------------------------------------------- */

/* A weight of class 0 that is not finite is not that of an ignored target. */
static void test_ignored_targets_take_no_weight(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_dev_t device = tern_default_device();
    const double weights[] = { (double)INFINITY, (double)NAN };
    for (int i = 0; i < 2; i++) {
        const float logs[] = { -1, -2, -1, -2 }, both[] = { (float)weights[i], 3 };
        tern_tensor *x = tern_from_data(logs, TERN_SHAPE(2, 2), .device = device);
        tern_tensor *weight = tern_from_data(both, TERN_SHAPE(2), .device = device);
        tern_tensor *target =
            tern_from_data(((int64_t[]){ 1, -100 }), TERN_SHAPE(2), TERN_I64, .device = device);
        tern_set_requires_grad(x, true);
        tern_tensor *loss = tern_nll_loss(x, target, weight, TERN_SUM);
        assert_close(tern_item(loss), 6, 0);
        tern_backward(loss);
        assert_no_error();
        check_elements(tern_grad_of(x), (float[]){ 0, -3, 0, 0 }, 4);
        assert_close(tern_item(tern_nll_loss(x, target, weight)), 2, 0);
    }
}

/* ---- angles ------------------------------------------------------------------------------------ */

/* Rows of two, f64 on their way in. */
static tern_tensor *row(const double *values, tern_dtype_t dtype)
{
    tern_tensor *wide = tern_from_data(values, TERN_SHAPE(1, 2), .dtype = TERN_F64);
    tern_tensor *t = tern_to(tern_cast(wide, dtype), .device = tern_default_device());
    return tern_set_requires_grad(t, true);
}

static double at(tern_tensor *t, int64_t i)
{
    return tern_item(tern_select(tern_reshape(t, TERN_SHAPE(-1)), 0, i));
}

static void expect_angle(const double x[2], const double y[2], double eps, double cosine,
                         const double slopes[4], tern_dtype_t dtype)
{
    TERN_SCOPE;
    tern_tensor *in[] = { row(x, dtype), row(y, dtype) }, *of[2], *again[2];
    tern_tensor *out = tern_cosine_similarity(in[0], in[1], 1, eps);
    tern_tensor *one = tern_ones(TERN_SHAPE(1), dtype, tern_default_device());
    tern_grad(out, in, 2, of, .gradient = one, .create_graph = true);
    assert_no_error();
    const double epsilon = dtype == TERN_F64 ? 1e-13 : 2e-6;
    assert_close(at(out, 0), cosine, epsilon);
    const double largest = fmax(fmax(fabs(slopes[0]), fabs(slopes[1])), 1e-300);
    const double other = fmax(fmax(fabs(slopes[2]), fabs(slopes[3])), 1e-300);
    for (int i = 0; i < 4; i++)
        assert_close(at(of[i / 2], i % 2), slopes[i], epsilon * (i < 2 ? largest : other));
    tern_grad(tern_sum(tern_add(of[0], of[1])), in, 2, again);
    assert_no_error();
    for (int i = 0; i < 4; i++)
        assert_true(dtype == TERN_F32 || isfinite(at(again[i / 2], i % 2)));
}

/* PyTorch's numbers, below eps, too, where the slope is that of the length all the same. Of vectors of
 * length 0 its second derivatives are NaN; here they are numbers. */
static void test_angles_of_vectors_of_any_length(void **state)
{
    (void)state;
    const double long1[] = { 1e20, 2e20 }, three[] = { 3, 4 }, none[] = { 0, 0 }, two[] = { 1, 2 };
    const double tiny[] = { 1e-9, 0 }, ones[] = { 1, 1 }, half[] = { 0.3, 0.4 };
    const bool cpu = tern_default_device().kind == TERN_KIND_CPU;
    for (int d = 0; d < 2; d++) {
        const tern_dtype_t dtype = d == 0 ? TERN_F64 : TERN_F32;
        const double far[] = { 7.155417527999321e-22, -3.57770876399967e-22, -0.02862167011199729,
                               0.02146625258399798 };
        if (cpu || dtype == TERN_F64) /* devices add squares in f32, as PyTorch does everywhere */
            expect_angle(long1, three, 0, 0.9838699100999075, far, dtype);
        expect_angle(none, two, 0, 0, (double[]){ 44721359.549995795, 89442719.09999159, 0, 0 },
                     dtype);
        expect_angle(none, none, 0, 0, (double[]){ 0, 0, 0, 0 }, dtype);
        expect_angle(tiny, ones, 0, 0.07071067811865475,
                     (double[]){ 63639610.306789264, 70710678.11865474, 0.03535533905932738,
                                 -0.03535533905932738 },
                     dtype);
        expect_angle(half, ones, 3, 0.07777777777777777,
                     (double[]){ 0.09555555555555555, 0.09037037037037036, 0.015000935302570993,
                                 0.026112046413682106 },
                     dtype);
    }
    const double short1[] = { 1e-25, 2e-25 };
    expect_angle(short1, ones, 1e-30, 0.9486832980505137,
                 (double[]){ 1.2649110640673517e24, -6.324555320336756e23, -0.1581138830084189,
                             0.158113883008419 },
                 TERN_F64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_probability_is_refused),
        cmocka_unit_test(test_distances_of_any_size_and_width),
        cmocka_unit_test(test_dtypes_of_distances),
        cmocka_unit_test(test_ignored_targets_take_no_weight),
        cmocka_unit_test(test_angles_of_vectors_of_any_length),
    };
    return check_run(tests, NULL, NULL);
}
