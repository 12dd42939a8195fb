/* Scans and reductions of many elements: the pieces that they are cut into make one result. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/check.h"

enum { LONG = 20000 };

/* Numbers that repeat: small whole ones, whose sums are exact in f32. */
static tern_tensor *whole(int64_t rows, int64_t n, tern_dtype_t dtype)
{
    tern_tensor *x = tern_arange(.end = (double)(rows * n), .dtype = TERN_F64);
    tern_tensor *r = tern_mul(x, 0.37);
    r = tern_sub(tern_mul(r, 7.0), tern_cast(tern_cast(tern_mul(r, 7.0), TERN_I64), TERN_F64));
    r = tern_sub(tern_cast(tern_mul(r, 9.0), TERN_I64), 4);
    return tern_cast(tern_reshape(r, TERN_SHAPE(rows, n)), dtype);
}

static double *numbers(tern_tensor *t)
{
    double *data = malloc((size_t)tern_numel(t) * sizeof *data);
    assert_non_null(data);
    tern_read(t, TERN_F64, data, tern_numel(t) * 8);
    assert_no_error();
    return data;
}

static void check_sums(tern_tensor *x, int dim, int64_t n, int64_t stride)
{
    double *want = numbers(x), *got = numbers(tern_cumsum(x, dim));
    for (int64_t i = 0; i < tern_numel(x); i++) {
        if (i / stride % n > 0)
            want[i] += want[i - stride];
        if (want[i] != got[i])
            fail_msg("element %lld is %g, not %g", (long long)i, got[i], want[i]);
    }
    free(want);
    free(got);
}

static void test_long_sums(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_I16 };
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        TERN_SCOPE;
        tern_tensor *x = whole(2, LONG, dtypes[d]);
        check_sums(x, 1, LONG, 1);
        check_sums(tern_reshape(x, TERN_SHAPE(LONG, 2)), 0, LONG, 2);
        check_sums(tern_reshape(x, TERN_SHAPE(2, 50, 400)), 1, 50, 400);
        check_sums(tern_reshape(x, TERN_SHAPE(2 * LONG)), 0, 2 * LONG, 1);
    }
}

/* Of factors 1 and -1, with two zeros. */
static void test_long_products(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_add(tern_mul(tern_ge(whole(1, LONG, TERN_F32), 0), 2.0), -1.0);
    x = tern_reshape(tern_cast(x, TERN_F32), TERN_SHAPE(LONG));
    double *want = numbers(x), *got = numbers(tern_cumprod(x, 0));
    for (int64_t i = 0; i < LONG; i++) {
        want[i] *= i > 0 ? want[i - 1] : 1;
        assert_true(want[i] == got[i]);
    }
    assert_true(tern_item(tern_prod(x)) == want[LONG - 1]);
    free(want);
    free(got);
}

/* `runs` runs of a factor, and how long each is. */
typedef struct factor_run {
    double factor;
    int64_t count;
} factor_run;

static tern_tensor *factors_of(const factor_run *runs, int count, tern_dtype_t dtype)
{
    tern_tensor *parts[8];
    for (int i = 0; i < count; i++)
        parts[i] = tern_full(runs[i].factor, TERN_SHAPE(runs[i].count), .dtype = dtype);
    return tern_cat_at(TERN_HERE, parts, count, 0);
}

static void check_products(tern_tensor *x)
{
    double *want = numbers(x), *got = numbers(tern_cumprod(x, 0));
    for (int64_t i = 0; i < tern_numel(x); i++) {
        want[i] *= i > 0 ? want[i - 1] : 1;
        if (!(isnan(want[i]) && isnan(got[i])) && want[i] != got[i])
            fail_msg("%s: product %lld is %g, not %g", tern_dtype_name(tern_dtype(x)), (long long)i,
                     got[i], want[i]);
    }
    free(want);
    free(got);
}

/* Pieces whose own product overflows, or is 0, where the product from the first element on does not. */
static void test_products_of_pieces_overflow(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_BF16 };
    static const factor_run up[] = { { 0.5, 120 }, { 1, 136 }, { 2, 140 } };
    static const factor_run down[] = { { 2, 120 }, { 1, 136 }, { 0.5, 140 } };
    static const factor_run zero[] = { { 0, 1 }, { 1.5, 40000 } };
    static const factor_run infinite[] = { { 0, 1 }, { 1.5, 35000 }, { INFINITY, 1 }, { 1, 20 } };
    static const factor_run stays[] = { { INFINITY, 1 }, { 0.5, 900 } };
    static const factor_run stays_long[] = { { INFINITY, 1 }, { 0.5, 70000 } };
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        TERN_SCOPE;
        check_products(factors_of(up, 3, dtypes[d]));
        check_products(factors_of(down, 3, dtypes[d]));
        check_products(factors_of(zero, 2, dtypes[d]));
        check_products(factors_of(infinite, 4, dtypes[d]));
        check_products(factors_of(stays, 2, dtypes[d]));
        check_products(tern_cpu(factors_of(stays_long, 2, dtypes[d])));
    }
}

/* The gradient of a product is a recurrence, to whose running value an infinite factor makes infinity. */
static void test_an_infinite_factor_of_a_recurrence(void **state)
{
    (void)state;
    static const int64_t after[] = { 1, 300, 9000 };
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        TERN_SCOPE;
        const factor_run runs[] = { { 2, 1 }, { INFINITY, 1 }, { 3, 1 }, { 1, after[i] } };
        tern_tensor *x = factors_of(runs, 4, TERN_F32);
        tern_set_requires_grad(x, true);
        tern_backward(tern_sum(tern_cumprod(x, 0)));
        double *got = numbers(tern_grad_of(x));
        assert_true(got[0] == INFINITY && got[2] == INFINITY);
        free(got);
    }
}

static void check_gradient(const factor_run *runs, int count, tern_dtype_t dtype)
{
    tern_tensor *x = factors_of(runs, count, dtype);
    tern_set_requires_grad(x, true);
    tern_backward(tern_select(tern_cumprod(x, 0), 0, 0));
    double *got = numbers(tern_grad_of(x));
    for (int64_t i = 0; i < tern_numel(x); i++)
        if (got[i] != (i == 0))
            fail_msg("%s: gradient %lld is %g", tern_dtype_name(dtype), (long long)i, got[i]);
    free(got);
}

/* Nothing comes back from behind the first product, however large the factors there are. */
static void test_gradients_of_pieces_that_overflow(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
    static const factor_run some[] = { { 0.5, 120 }, { 2, 140 }, { 1, 252 } };
    static const factor_run many[] = { { 0.5, 2000 }, { 1.5, 35000 } };
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        TERN_SCOPE;
        if (dtypes[d] != TERN_F16) /* 2^20 */
            check_gradient(some, 3, dtypes[d]);
        check_gradient(many, 2, dtypes[d]);
    }
}

/* The gradient of a product of many: each one's is the product of the others. */
static void test_gradient_of_a_long_product(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_add(tern_mul(tern_ge(whole(1, LONG, TERN_F64), 0), 2.0), -1.0);
    x = tern_clone(tern_reshape(tern_cast(x, TERN_F64), TERN_SHAPE(LONG)));
    tern_set_requires_grad(x, true);
    tern_tensor *product = tern_prod(x);
    tern_backward(product);
    assert_no_error();
    double *factors = numbers(tern_detach(x)), *got = numbers(tern_grad_of(x));
    for (int64_t i = 0; i < LONG; i++)
        assert_true(got[i] == tern_item(product) * factors[i]);
    free(factors);
    free(got);
}

static void test_many_elements_to_one(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = whole(5, LONG, TERN_F32), *place = NULL;
    double *data = numbers(x), squares = 0;
    for (int64_t i = 0; i < 5 * LONG; i++)
        squares += data[i] * data[i];
    assert_close(tern_item(tern_norm(x)), sqrt(squares), 1e-3);
    assert_close(tern_item(tern_norm(x, .p = TERN_ZERO)),
                 tern_item(tern_sum(tern_cast(tern_ne(x, 0), TERN_I64))), 0);
    assert_true(tern_item(tern_amin(x)) == -4);
    assert_true(tern_item(tern_norm(x, .p = INFINITY)) == 4);
    const float zeros[] = { -0.0f, 0 }; /* a power of -1 tells them apart */
    tern_tensor *both = tern_from_data(zeros, TERN_SHAPE(2));
    assert_true(tern_item(tern_norm(both, .p = -1)) == 0);
    assert_true(tern_item(tern_norm(tern_cast(both, TERN_F64), .p = -3)) == 0);
    tern_tensor *least = tern_min(tern_reshape(x, TERN_SHAPE(5 * LONG)), 0, &place);
    assert_true(tern_item(least) == -4);
    const int64_t at = (int64_t)tern_item(place);
    for (int64_t i = 0; i <= at; i++)
        assert_true((data[i] == -4) == (i == at));
    assert_true(tern_item(tern_any(tern_gt(x, 3))) == 1);
    assert_true(tern_item(tern_all(tern_lt(x, 4))) == 0);
    free(data);
}

static void test_bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    const int before = tern_num_threads();
    TERN_SCOPE;
    tern_tensor *x = tern_rand(TERN_SHAPE(50000)), *y[2];
    for (int i = 0; i < 2; i++) {
        tern_set_num_threads(i == 0 ? 1 : 3);
        y[i] = tern_cumsum(x, 0);
    }
    tern_set_num_threads(before);
    assert_true(tern_item(tern_all(tern_eq(y[0], y[1]))) == 1);
    assert_no_error();
}

static void test_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(3, 0)), *i = tern_ones(TERN_SHAPE(3), .dtype = TERN_I32);
    assert_null(tern_cumsum(x, 2));
    assert_error(TERN_ERR_ARGUMENT, "cumsum");
    assert_null(tern_min(x, 1, NULL));
    assert_error(TERN_ERR_SHAPE, "extent 0");
    assert_null(tern_amin(x));
    assert_error(TERN_ERR_SHAPE, "extent 0");
    assert_null(tern_norm(x, .p = INFINITY));
    assert_error(TERN_ERR_SHAPE, "norm");
    assert_null(tern_norm(x, .p = -1));
    assert_error(TERN_ERR_SHAPE, "norm");
    assert_null(tern_norm(i));
    assert_error(TERN_ERR_DTYPE, "norm");
    assert_null(tern_std(i));
    assert_error(TERN_ERR_DTYPE, "std");
    assert_null(tern_norm(x, .p = NAN));
    assert_error(TERN_ERR_ARGUMENT, "NaN");
    assert_null(tern_any(NULL));
    assert_error(TERN_ERR_ARGUMENT, "any");
    assert_null(tern_prod(x, TERN_DIMS(0, 0)));
    assert_error(TERN_ERR_ARGUMENT, "twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_sums),
        cmocka_unit_test(test_long_products),
        cmocka_unit_test(test_products_of_pieces_overflow),
        cmocka_unit_test(test_an_infinite_factor_of_a_recurrence),
        cmocka_unit_test(test_gradients_of_pieces_that_overflow),
        cmocka_unit_test(test_gradient_of_a_long_product),
        cmocka_unit_test(test_many_elements_to_one),
        cmocka_unit_test(test_bits_do_not_depend_on_threads),
        cmocka_unit_test(test_mistakes),
    };
    return check_run(tests, NULL, NULL);
}
