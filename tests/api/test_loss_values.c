/* Losses of values at the ends of what numbers are: what they give, and what they refuse. Also on
 * simulated devices. */
#include <math.h>

#include "tests/support/check.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distances_of_any_size_and_width),
    };
    return check_run(tests, NULL, NULL);
}
