/* Elementwise ops, reductions, joins and products as a program uses them, and PyTorch's corner cases. */
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>

static double at(tern_tensor *t, int64_t i)
{
    return tern_item(tern_select(tern_flatten(t, 0, -1), 0, i));
}

/* All elements, row-major, within 1e-5. */
static void check_values(tern_tensor *t, const double *expected, int64_t count)
{
    assert_no_error();
    assert_int_equal(tern_numel(t), count);
    for (int64_t i = 0; i < count; i++) {
        const double value = at(t, i);
        if (isnan(expected[i]) || isinf(expected[i]))
            assert_true(isnan(expected[i]) ? isnan(value) : value == expected[i]);
        else
            assert_close(value, expected[i], 1e-5);
    }
}
#define assert_values(t, ...)                        \
    check_values(t, (const double[]){ __VA_ARGS__ }, \
                 (int64_t)(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)))

static tern_tensor *row(const float *values, int64_t count)
{
    return tern_from_data(values, TERN_SHAPE(count));
}
#define ROW(...)                        \
    row((const float[]){ __VA_ARGS__ }, \
        (int64_t)(sizeof((const float[]){ __VA_ARGS__ }) / sizeof(float)))

/* A leaf with the values of t, and the gradient of sum(y) with respect to one. */
static tern_tensor *leaf(tern_tensor *t)
{
    return tern_set_requires_grad(tern_clone(tern_detach(t)), true);
}
static tern_tensor *grad_of_sum(tern_tensor *y, tern_tensor *x)
{
    assert_int_equal(tern_backward(tern_sum(y)), TERN_OK);
    return tern_grad_of(x);
}

/* ---- elementwise ------------------------------------------------------------------------------- */

static void test_operands_broadcast(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *column = tern_reshape(ROW(10, 20), TERN_SHAPE(2, 1));
    assert_values(tern_add(column, ROW(1, 2, 3)), 11, 12, 13, 21, 22, 23);
    assert_values(tern_where(tern_gt(column, 15.0), ROW(1, 2), -1.0), -1, -1, 1, 2);
    assert_int_equal(tern_numel(tern_mul(tern_empty(TERN_SHAPE(0, 3)), ROW(1, 2, 3))), 0);
    assert_null(tern_add(ROW(1, 2), ROW(1, 2, 3)));
    assert_error(TERN_ERR_SHAPE,
                 "add: shapes [2] and [3] do not broadcast: 2 and 3 in dimension -1");
}

static void test_numbers_stand_on_either_side(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = ROW(1, 2, 4);
    assert_values(tern_sub(1, x), 0, -1, -3);
    assert_values(tern_div(1.0, x), 1, 0.5, 0.25);
    assert_values(tern_pow(2, x), 2, 4, 16);
    assert_values(tern_maximum(x, 3), 3, 3, 4);
    assert_values(tern_ge(x, 2), 0, 1, 1);
    assert_null(tern_pow(tern_arange(0, 3), -1));
    assert_error(TERN_ERR_ARGUMENT, "negative integer powers");
    tern_tensor *none = NULL;
    assert_null(tern_add(none, 1.0));
    assert_error(TERN_ERR_ARGUMENT, "add: a is NULL");
    assert_null(tern_sub(tern_gt(x, 0), tern_gt(x, 1)));
    assert_error(TERN_ERR_DTYPE, "a is bool");
    assert_null(tern_where(x, x, x));
    assert_error(TERN_ERR_DTYPE, "the condition is f32");
}

static void test_in_place_writes_the_first_operand(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = ROW(1, 2, 3);
    const uint32_t version = tern_version(x);
    assert_ptr_equal(tern_add_(x, ROW(1, 1, 1)), x);
    assert_ptr_equal(tern_mul_(x, 2), x);
    assert_ptr_equal(tern_sub_(x, x), x);
    assert_int_equal(tern_version(x), version + 3);
    assert_values(x, 0, 0, 0);
    assert_null(tern_add_(x, tern_ones(TERN_SHAPE(2, 3))));
    assert_error(TERN_ERR_SHAPE, "the result has the shape [2, 3]");
    assert_null(tern_add_(tern_expand(ROW(1), TERN_SHAPE(3)), x));
    assert_error(TERN_ERR_ARGUMENT, "share one place in memory");
    assert_null(tern_add_(NULL, x));
    assert_error(TERN_ERR_ARGUMENT, "NULL");
}

/* Operands that overlap the destination in another order are read before it is written. */
static void test_in_place_reads_overlapping_operands_first(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_reshape(ROW(1, 2, 3, 4), TERN_SHAPE(2, 2));
    tern_add_(x, tern_transpose(x, 0, 1));
    assert_values(x, 2, 5, 5, 8);
    tern_tensor *y = ROW(1, 2, 3, 4);
    tern_copy(tern_slice(y, 0, 1), tern_slice(y, 0, 0, 3));
    assert_values(y, 1, 1, 2, 3);
    tern_mul_(y, tern_select(y, 0, 3));
    assert_values(y, 3, 3, 6, 9);
}

static void test_gradients_at_corners(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(ROW(-1, 0, 2)), *t = ROW(-1, 1, 2), *zero = leaf(ROW(0));
    assert_values(grad_of_sum(tern_relu(x), x), 0, 0, 1);
    x = leaf(x);
    assert_values(grad_of_sum(tern_abs(x), x), -1, 0, 1);
    x = leaf(x);
    assert_values(grad_of_sum(tern_sign(x), x), 0, 0, 0);
    x = leaf(x);
    assert_values(grad_of_sum(tern_maximum(x, t), x), 0.5, 0, 0.5);
    x = leaf(x);
    assert_values(grad_of_sum(tern_minimum(t, x), x), 0.5, 1, 0.5);
    x = leaf(x);
    assert_values(grad_of_sum(tern_pow(x, 2), x), -2, 0, 4);
    assert_values(grad_of_sum(tern_sqrt(zero), zero), (double)INFINITY);
    zero = leaf(ROW(0));
    assert_values(grad_of_sum(tern_pow(zero, 0), zero), 0);
    zero = leaf(ROW(0));
    tern_tensor *power = leaf(ROW(0));
    assert_values(grad_of_sum(tern_pow(zero, power), power), 0);
    assert_values(tern_grad_of(zero), 0);
}

static void test_gradients_have_the_operands_shape_and_dtype(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *bias = leaf(ROW(1, 2, 3)),
                *scale = tern_full(2, TERN_SCALAR_SHAPE, .dtype = TERN_F64);
    tern_set_requires_grad(scale, true);
    tern_tensor *x = tern_ones(TERN_SHAPE(4, 3));
    assert_int_equal(tern_backward(tern_sum(tern_mul(tern_add(x, bias), scale))), TERN_OK);
    assert_values(tern_grad_of(bias), 8, 8, 8);
    assert_int_equal(tern_dtype(tern_grad_of(scale)), TERN_F64);
    assert_int_equal(tern_ndim(tern_grad_of(scale)), 0);
    assert_values(tern_grad_of(scale), 4 * 9);
}

static void test_new_values_stop_the_gradient(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(ROW(1, 2)), *y = tern_mul(x, 3.0);
    tern_fill(y, 5.0);
    assert_true(tern_requires_grad(y)); /* as PyTorch's */
    assert_values(grad_of_sum(y, x), 0, 0);
    tern_tensor *z = tern_zeros(TERN_SHAPE(2));
    tern_copy(z, tern_mul(x, 4.0));
    assert_values(grad_of_sum(z, x), 4, 4);
    assert_null(tern_add_(x, 1.0));
    assert_error(TERN_ERR_GRAD, "a leaf");
}

/* ---- reductions -------------------------------------------------------------------------------- */

static void test_reductions_over_any_dimensions(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_reshape(tern_arange(0, 24, .dtype = TERN_F32), TERN_SHAPE(2, 3, 4));
    assert_values(tern_sum(x, TERN_DIMS(0, 2)), 60, 92, 124);
    assert_int_equal(tern_size(tern_sum(x, TERN_DIMS(-2), .keepdim = true), 1), 1);
    assert_values(tern_mean(x), 11.5);
    assert_values(tern_amax(x, TERN_DIMS(1)), 8, 9, 10, 11, 20, 21, 22, 23);
    assert_values(tern_var(tern_select(x, 0, 0), TERN_DIMS(1)), 5.0 / 3, 5.0 / 3, 5.0 / 3);
    assert_values(tern_var(tern_select(x, 0, 0), TERN_DIMS(1), .no_correction = true), 1.25, 1.25,
                  1.25);
    assert_null(tern_sum(x, TERN_DIMS(1, -2)));
    assert_error(TERN_ERR_ARGUMENT, "sum: dimension 1 is named twice");
    assert_null(tern_sum(x, .dims = { 1, true, { 0 } })); /* as tern_sum(x, 1, true) */
    assert_error(TERN_ERR_ARGUMENT, "sum: bare numbers are no list of dimensions");
    assert_null(tern_norm(x, .dims = { -1, 0, { 0 } }));
    assert_error(TERN_ERR_ARGUMENT, "norm: bare numbers are no list of dimensions");
    assert_null(tern_sum(x, TERN_DIMS(3)));
    assert_error(TERN_ERR_ARGUMENT, "dimension 3 is outside -3 .. 2");
}

static void test_reductions_choose_their_dtype(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *bytes = tern_full(200, TERN_SHAPE(3), .dtype = TERN_U8);
    assert_int_equal(tern_dtype(tern_sum(bytes)), TERN_I64);
    assert_values(tern_sum(bytes), 600);
    assert_int_equal(tern_dtype(tern_sum(bytes, .dtype = TERN_U8)), TERN_U8);
    assert_values(tern_sum(bytes, .dtype = TERN_U8), 600 - 512);
    assert_values(tern_sum(tern_gt(bytes, 1)), 3);
    assert_int_equal(tern_dtype(tern_sum(ROW(1, 2), .dtype = TERN_F64)), TERN_F64);
    assert_null(tern_mean(bytes));
    assert_error(TERN_ERR_DTYPE, "mean: the input is u8");
    assert_values(tern_mean(bytes, .dtype = TERN_F32), 200);
    /* elements beyond a half type, or between its numbers, whose mean is one of them */
    assert_values(tern_mean(ROW(100000, -99996), .dtype = TERN_F16), 2);
    assert_values(tern_mean(ROW(257, 259, 252), .dtype = TERN_BF16), 256);
}

/* The mean of nothing passes nothing on, and nothing comes back to its gradient: 0, not NaN. */
static void test_second_derivatives_of_the_mean_of_nothing(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(2, 0), .requires_grad = true), *of_x, *of_go;
    tern_tensor *go = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    tern_grad(tern_mean(x, TERN_DIMS(1)), &x, 1, &of_x, .gradient = go, .create_graph = true);
    tern_grad(of_x, &go, 1, &of_go, .gradient = tern_zeros(TERN_SHAPE(2, 0)));
    assert_values(of_go, 0, 0);
}

static void test_reductions_of_nothing(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *none = tern_empty(TERN_SHAPE(0, 3));
    assert_values(tern_sum(none, TERN_DIMS(0)), 0, 0, 0);
    assert_values(tern_mean(none), (double)NAN);
    assert_values(tern_var(ROW(1)), (double)NAN);
    assert_int_equal(tern_numel(tern_amax(none, TERN_DIMS(1))), 0);
    assert_null(tern_amax(none));
    assert_error(TERN_ERR_SHAPE, "amax: dimension 0 has extent 0");
    assert_null(tern_max(none, 0, NULL));
    assert_error(TERN_ERR_SHAPE, "max: dimension 0");
    assert_null(tern_argmax(none, 0));
    assert_error(TERN_ERR_SHAPE, "argmax: dimension 0");
    assert_values(tern_sum(tern_ones(TERN_SCALAR_SHAPE)), 1);
    assert_values(tern_amax(tern_ones(TERN_SCALAR_SHAPE), TERN_DIMS(-1)), 1);
}

static void test_ties_share_or_the_first_wins(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(ROW(3, 1, 3, 3)), *places = NULL;
    assert_values(grad_of_sum(tern_amax(x), x), 1.0 / 3, 0, 1.0 / 3, 1.0 / 3);
    x = leaf(x);
    tern_tensor *largest = tern_max(x, 0, &places);
    assert_values(places, 0);
    assert_int_equal(tern_dtype(places), TERN_I64);
    assert_false(tern_requires_grad(places));
    assert_values(grad_of_sum(largest, x), 1, 0, 0, 0);
    assert_values(tern_argmax(x, 0), 0);
}

static void test_ties_at_infinity_and_nan_share_the_middle(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(ROW(-INFINITY, -INFINITY, 1));
    assert_values(grad_of_sum(tern_median_all(x), x), 0.5, 0.5, 0);
    x = leaf(ROW(NAN, 1, 2));
    tern_tensor *middle = tern_median_all(x);
    assert_true(isnan(tern_item(middle)));
    assert_values(grad_of_sum(middle, x), 1, 0, 0);
    x = leaf(ROW(2, 1, 1, 5));
    assert_values(grad_of_sum(tern_median_all(x), x), 0, 0.5, 0.5, 0);
    assert_int_equal(tern_dtype(tern_median_all(tern_arange(0, 3))), TERN_I64);
    assert_close(tern_item(tern_median_all(tern_full(3, TERN_SCALAR_SHAPE))), 3, 0);
    assert_no_error();
}

/* An infinite element's own gradient is NaN, that of the others 0, as PyTorch's. */
static void test_logsumexp_beside_infinity(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const tern_dtype_t dtypes[] = { TERN_F16, TERN_BF16, TERN_F32, TERN_F64 };
    for (int i = 0; i < 4; i++) {
        tern_tensor *x = leaf(tern_cast(ROW(100, INFINITY, -INFINITY), dtypes[i]));
        tern_tensor *y = tern_logsumexp(x);
        assert_values(y, (double)INFINITY);
        assert_values(grad_of_sum(y, x), 0, (double)NAN, 0);
        x = leaf(tern_cast(ROW(-INFINITY, 1), dtypes[i]));
        y = tern_logsumexp(x);
        assert_values(y, 1);
        assert_values(grad_of_sum(y, x), 0, 1);
        x = leaf(tern_cast(ROW(-INFINITY, -INFINITY), dtypes[i]));
        y = tern_logsumexp(x);
        assert_values(y, -(double)INFINITY);
        assert_values(grad_of_sum(y, x), (double)NAN, (double)NAN);
    }
}

/* More ties than f16 counts: each gets 60000 / 70000. */
static void test_many_ties_share_in_f16(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t n = 70000;
    for (int k = 0; k < 3; k++) {
        tern_tensor *x = tern_ones(TERN_SHAPE(n), TERN_F16, .requires_grad = true), *grad = NULL;
        tern_tensor *y = k == 0   ? tern_amax(x)
                         : k == 1 ? tern_norm(x, .p = (double)INFINITY)
                                  : tern_median_all(x);
        tern_grad(tern_mul(y, tern_full(60000, TERN_SCALAR_SHAPE, TERN_F16)), &x, 1, &grad);
        assert_no_error();
        assert_int_equal(tern_dtype(grad), TERN_F16);
        assert_close(tern_item(tern_select(grad, 0, n - 1)), 60000.0 / 70000, 1e-3);
    }
}

/* As PyTorch's, but that those of p = 2 are NaN there. */
static void test_norms_of_zeros_have_second_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const double ps[] = { 2, 3, 4 }, wanted[] = { 0.22908085, 0.15286699, 0.07666025 };
    for (size_t k = 0; k < sizeof ps / sizeof *ps; k++) {
        tern_tensor *x = leaf(tern_stack(0, ROW(0, 0, 0), ROW(1, -2, 3))), *first = NULL;
        tern_tensor *norms = tern_norm(x, .p = ps[k], .dims = TERN_DIMS(1));
        tern_grad(tern_sum(norms), &x, 1, &first, .create_graph = true);
        tern_tensor *second = grad_of_sum(first, x);
        assert_no_error();
        assert_values(tern_select(second, 0, 0), 0, 0, 0);
        assert_close(tern_item(tern_select(tern_select(second, 0, 1), 0, 0)), wanted[k], 1e-6);
    }
}

/* ---- joining ----------------------------------------------------------------------------------- */

static void test_cat_and_stack(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = ROW(1, 2), *b = tern_cast(ROW(3), TERN_I64);
    tern_tensor *joined = tern_cat(0, a, b, tern_empty(TERN_SHAPE(0)));
    assert_int_equal(tern_dtype(joined), TERN_F32);
    assert_values(joined, 1, 2, 3);
    assert_values(tern_stack(1, a, tern_mul(a, 10)), 1, 10, 2, 20);
    assert_values(tern_stack(0, tern_sum(a), tern_sum(b)), 3, 3);
    assert_null(tern_cat(0, a, tern_ones(TERN_SHAPE(2, 2))));
    assert_error(TERN_ERR_SHAPE, "cat: tensors[1] of shape [2, 2] does not fit beside [2]");
    assert_null(tern_cat(0, tern_sum(a)));
    assert_error(TERN_ERR_SHAPE, "tern_stack");
    assert_null(tern_stack(3, a, a));
    assert_error(TERN_ERR_ARGUMENT, "stack: dimension 3");
    assert_null(tern_cat(0, a, NULL));
    assert_error(TERN_ERR_ARGUMENT, "tensors[1] is NULL");
    assert_null(tern_cat_at(TERN_HERE, NULL, 0, 0));
    assert_error(TERN_ERR_ARGUMENT, "at least one tensor");
}

static void test_cat_of_many_tensors_has_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *parts[30];
    for (int i = 0; i < 30; i++)
        parts[i] = leaf(ROW((float)i));
    tern_tensor *weights = tern_arange(0, 30, .dtype = TERN_F32);
    tern_tensor *joined = tern_cat_at(TERN_HERE, parts, 30, 0);
    assert_values(tern_sub(joined, weights), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_int_equal(tern_backward(tern_sum(tern_mul(joined, weights))), TERN_OK);
    for (int i = 0; i < 30; i++)
        assert_values(tern_grad_of(parts[i]), i);
}

/* ---- products ---------------------------------------------------------------------------------- */

/* Compares with the sum over a broadcast product. */
static void check_matmul(tern_shape_t a_shape, tern_shape_t b_shape, tern_shape_t expected)
{
    tern_tensor *a = tern_randn(a_shape, .dtype = TERN_F64),
                *b = tern_randn(b_shape, .dtype = TERN_F64);
    tern_tensor *out = tern_matmul(a, b);
    assert_no_error();
    assert_int_equal(tern_ndim(out), expected.ndim);
    for (int d = 0; d < expected.ndim; d++)
        assert_int_equal(tern_size(out, d), expected.dims[d]);
    tern_tensor *left = tern_unsqueeze(a, -1);
    tern_tensor *right = b_shape.ndim == 1 ? tern_unsqueeze(b, -1) : b;
    if (a_shape.ndim > 1)
        right = tern_unsqueeze(right, -3);
    tern_tensor *reference = tern_sum(tern_mul(left, right), TERN_DIMS(-2));
    tern_tensor *error = tern_abs(tern_sub(tern_reshape(reference, expected), out));
    if (tern_numel(out) > 0)
        assert_true(tern_item(tern_amax(error)) < 1e-12);
    assert_no_error();
}

static void test_matmul_from_vectors_to_batches(void **state)
{
    (void)state;
    TERN_SCOPE;
    check_matmul(TERN_SHAPE(3), TERN_SHAPE(3), TERN_SCALAR_SHAPE);
    check_matmul(TERN_SHAPE(2, 3), TERN_SHAPE(3), TERN_SHAPE(2));
    check_matmul(TERN_SHAPE(3), TERN_SHAPE(3, 4), TERN_SHAPE(4));
    check_matmul(TERN_SHAPE(2, 3), TERN_SHAPE(3, 4), TERN_SHAPE(2, 4));
    check_matmul(TERN_SHAPE(5, 2, 3), TERN_SHAPE(3, 4), TERN_SHAPE(5, 2, 4));
    check_matmul(TERN_SHAPE(5, 2, 3), TERN_SHAPE(3), TERN_SHAPE(5, 2));
    check_matmul(TERN_SHAPE(3), TERN_SHAPE(5, 3, 4), TERN_SHAPE(5, 4));
    check_matmul(TERN_SHAPE(2, 3), TERN_SHAPE(5, 3, 4), TERN_SHAPE(5, 2, 4));
    check_matmul(TERN_SHAPE(6, 1, 2, 3), TERN_SHAPE(5, 3, 4), TERN_SHAPE(6, 5, 2, 4));
    check_matmul(TERN_SHAPE(5, 2, 3), TERN_SHAPE(1, 3, 4), TERN_SHAPE(5, 2, 4));
    check_matmul(TERN_SHAPE(0, 2, 3), TERN_SHAPE(3, 4), TERN_SHAPE(0, 2, 4));
    check_matmul(TERN_SHAPE(2, 0), TERN_SHAPE(0, 4), TERN_SHAPE(2, 4));
}

static void test_matmul_says_what_does_not_fit(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = tern_ones(TERN_SHAPE(2, 3));
    assert_null(tern_matmul(a, tern_ones(TERN_SHAPE(4, 5))));
    assert_error(TERN_ERR_SHAPE, "matmul: inner sizes differ: [2, 3] x [4, 5], 3 and 4");
    assert_null(tern_matmul(a, tern_ones(TERN_SHAPE(3, 5), .dtype = TERN_F64)));
    assert_error(TERN_ERR_DTYPE, "matmul: a and b have different dtypes: f32 and f64");
    assert_null(tern_matmul(a, tern_ones(TERN_SCALAR_SHAPE)));
    assert_error(TERN_ERR_SHAPE, "at least one dimension");
    assert_null(tern_matmul(tern_ones(TERN_SHAPE(2, 2, 3)), tern_ones(TERN_SHAPE(4, 3, 2))));
    assert_error(TERN_ERR_SHAPE, "do not broadcast");
    assert_null(tern_matmul(a, NULL));
    assert_error(TERN_ERR_ARGUMENT, "matmul: b is NULL");
}

/* ---- reading, owned results ----------------------------------------------------------------------- */

static void test_reading_converts(void **state)
{
    (void)state;
    TERN_SCOPE;
    int32_t whole[4];
    tern_tensor *x = tern_transpose(tern_reshape(ROW(1, 2, 3, 4), TERN_SHAPE(2, 2)), 0, 1);
    assert_int_equal(tern_read(leaf(x), TERN_I32, whole, sizeof whole), TERN_OK);
    assert_int_equal(whole[1], 3);
    assert_int_equal(tern_read(x, TERN_I32, whole, 15), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "4 elements of i32 take 16 bytes; the memory has 15");
    assert_true(isnan(tern_item(x)));
    assert_error(TERN_ERR_SHAPE, "item: a tensor of shape [2, 2] has not one element but 4");
    char text[200], expected[200], dev[TERN_DEV_NAME_BYTES];
    (void)tern_dev_name(tern_default_device(), dev);
    (void)snprintf(expected, sizeof expected, "f32 [2, 2] %s\n  [[1, 3],\n   [2, 4]]", dev);
    assert_string_equal(tern_describe(x, text, sizeof text), expected);
    (void)snprintf(expected, sizeof expected, "i64 [100] %s\n  [0, 1, 2, ..., 97, 98, 99]", dev);
    assert_string_equal(tern_describe(tern_arange(0, 100), text, sizeof text), expected);
}

/* In owned mode the one reference of a result is the caller's, also where the result is an input. */
static void test_owned_mode_gives_one_reference(void **state)
{
    (void)state;
    const bool before = tern_set_owned_mode(true);
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 3)), *same = tern_contiguous(x);
    assert_ptr_equal(same, x);
    assert_null(tern_matmul(x, x));
    assert_error(TERN_ERR_SHAPE, "matmul");
    tern_tensor *results[] = { tern_sum(x, TERN_DIMS(1)), tern_select(x, 0, 1),
                               tern_mse_loss(x, x, 0), tern_cat(0, x, same),
                               tern_reshape(x, TERN_SHAPE(6)) };
    assert_int_equal(tern_live_tensors(), 1 + 5);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        tern_release(results[i]);
    tern_release(same);
    same = tern_dropout(x, .p = 0.5, .evaluating = true);
    assert_ptr_equal(same, x);
    tern_release(same);
    same = tern_dropout(x, .p = TERN_ZERO);
    assert_ptr_equal(same, x);
    tern_release(same);
    assert_int_equal(tern_live_tensors(), 1);
    tern_release(x);
    assert_int_equal(tern_live_tensors(), 0);
    tern_set_owned_mode(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operands_broadcast),
        cmocka_unit_test(test_numbers_stand_on_either_side),
        cmocka_unit_test(test_in_place_writes_the_first_operand),
        cmocka_unit_test(test_in_place_reads_overlapping_operands_first),
        cmocka_unit_test(test_gradients_at_corners),
        cmocka_unit_test(test_gradients_have_the_operands_shape_and_dtype),
        cmocka_unit_test(test_new_values_stop_the_gradient),
        cmocka_unit_test(test_reductions_over_any_dimensions),
        cmocka_unit_test(test_reductions_choose_their_dtype),
        cmocka_unit_test(test_second_derivatives_of_the_mean_of_nothing),
        cmocka_unit_test(test_reductions_of_nothing),
        cmocka_unit_test(test_ties_share_or_the_first_wins),
        cmocka_unit_test(test_ties_at_infinity_and_nan_share_the_middle),
        cmocka_unit_test(test_many_ties_share_in_f16),
        cmocka_unit_test(test_norms_of_zeros_have_second_gradients),
        cmocka_unit_test(test_cat_and_stack),
        cmocka_unit_test(test_cat_of_many_tensors_has_gradients),
        cmocka_unit_test(test_matmul_from_vectors_to_batches),
        cmocka_unit_test(test_matmul_says_what_does_not_fit),
        cmocka_unit_test(test_reading_converts),
        cmocka_unit_test(test_owned_mode_gives_one_reference),
        cmocka_unit_test(test_logsumexp_beside_infinity),
    };
    return check_run(tests, NULL, NULL);
}
