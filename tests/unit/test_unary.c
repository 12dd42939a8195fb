/* Ops of one operand: in-place forms, options, limits and their errors. Values and gradients are in
 * tests/ops. */
#include <math.h>

#include "tests/support/check.h"

static tern_tensor *vector(const float *values, int64_t n)
{
    return tern_from_data(values, TERN_SHAPE(n), TERN_F32);
}

static void assert_values(tern_tensor *t, const double *want, int64_t n)
{
    assert_non_null(t);
    const double *got = tern_data(tern_cpu(tern_contiguous(tern_cast(t, TERN_F64))));
    for (int64_t i = 0; i < n; i++)
        assert_true(got[i] == want[i] || fabs(got[i] - want[i]) < 1e-6 ||
                    (isnan(got[i]) && isnan(want[i])));
}

/* ---- in place ---------------------------------------------------------------------------------- */

typedef struct pair {
    tern_tensor *(*fresh)(tern_site_t, tern_tensor *);
    tern_tensor *(*inplace)(tern_site_t, tern_tensor *);
} pair;
#define PAIR(name)                                 \
    {                                              \
        tern_##name##_at, tern_##name##_inplace_at \
    }
static const pair pairs[] = {
    PAIR(neg),        PAIR(abs),   PAIR(sign),      PAIR(square), PAIR(floor), PAIR(ceil),
    PAIR(round),      PAIR(trunc), PAIR(frac),      PAIR(exp),    PAIR(expm1), PAIR(log),
    PAIR(log1p),      PAIR(log2),  PAIR(log10),     PAIR(sqrt),   PAIR(rsqrt), PAIR(reciprocal),
    PAIR(sin),        PAIR(cos),   PAIR(tan),       PAIR(asin),   PAIR(acos),  PAIR(atan),
    PAIR(sinh),       PAIR(cosh),  PAIR(tanh),      PAIR(erf),    PAIR(relu),  PAIR(sigmoid),
    PAIR(relu6),      PAIR(gelu),  PAIR(gelu_tanh), PAIR(silu),   PAIR(mish),  PAIR(hardswish),
    PAIR(logsigmoid),
};

/* The same bits, in the same tensor, and the same gradient: what backward reads was there before. */
static void test_in_place_is_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        TERN_SCOPE;
        tern_seed(3);
        tern_tensor *x = tern_add(tern_mul(tern_rand(TERN_SHAPE(5, 7)), 0.9), 0.05);
        tern_tensor *a = tern_set_requires_grad(tern_clone(x), true);
        tern_tensor *b = tern_set_requires_grad(tern_clone(x), true);
        tern_tensor *y = pairs[i].fresh(TERN_HERE, tern_transpose(tern_mul(a, 1.0), 0, 1));
        tern_tensor *copy = tern_clone(tern_transpose(tern_mul(b, 1.0), 0, 1));
        assert_ptr_equal(pairs[i].inplace(TERN_HERE, copy), copy);
        const float *want = tern_data(tern_cpu(tern_contiguous(y)));
        const float *got = tern_data(tern_cpu(tern_contiguous(copy)));
        for (int64_t k = 0; k < 35; k++)
            assert_true(want[k] == got[k]);
        assert_int_equal(tern_backward(tern_sum(y), NULL), TERN_OK);
        assert_int_equal(tern_backward(tern_sum(copy), NULL), TERN_OK);
        want = tern_data(tern_cpu(tern_contiguous(tern_grad_of(a))));
        got = tern_data(tern_cpu(tern_contiguous(tern_grad_of(b))));
        for (int64_t k = 0; k < 35; k++)
            assert_true(want[k] == got[k]);
    }
}

static void test_in_place_keeps_the_dtype(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *whole = tern_full(3, TERN_SHAPE(4), TERN_I32);
    assert_ptr_equal(tern_square_(whole), whole);
    assert_values(whole, (double[]){ 9, 9, 9, 9 }, 4);
    assert_null(tern_exp_(whole));
    assert_error(TERN_ERR_DTYPE, "the result is f32, which a tensor of i32 cannot take in place");
    assert_null(tern_clamp_(whole, 0, 4.5));
    assert_error(TERN_ERR_DTYPE, "cannot take in place");
    assert_values(whole, (double[]){ 9, 9, 9, 9 }, 4);
    tern_tensor *x = vector((float[]){ 0, 2, -1 }, 3);
    assert_ptr_equal(tern_logical_not_(x), x);
    assert_int_equal(tern_dtype(x), TERN_F32);
    assert_values(x, (double[]){ 1, 0, 0 }, 3);
}

static void test_in_place_on_what_cannot_change(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *leaf = tern_set_requires_grad(tern_ones(TERN_SHAPE(3)), true);
    assert_null(tern_sin_(leaf));
    assert_error(TERN_ERR_GRAD, "a leaf that requires a gradient cannot be changed in place");
    assert_null(tern_sin_(tern_expand(tern_ones(TERN_SHAPE(1)), TERN_SHAPE(4))));
    assert_error(TERN_ERR_ARGUMENT, "share one place in memory");
    assert_null(tern_sin_(NULL));
    assert_error(TERN_ERR_ARGUMENT, "sin: x is NULL");
    assert_null(tern_logical_not_(NULL));
    assert_error(TERN_ERR_ARGUMENT, "x is NULL");
    assert_null(tern_elu(NULL));
    assert_error(TERN_ERR_ARGUMENT, "elu: x is NULL");
}

/* ---- limits ------------------------------------------------------------------------------------ */

/* Values and gradients are PyTorch 2.15's. */
static void test_limits_may_be_tensors(void **state)
{
    (void)state;
    TERN_SCOPE;
    const float values[] = { -1, 0, 1, 2, 3 }, lows[] = { 0, 0, 0, 0, 5 };
    tern_tensor *x = tern_set_requires_grad(tern_from_data(values, TERN_SHAPE(5)), true);
    tern_tensor *low = tern_set_requires_grad(tern_from_data(lows, TERN_SHAPE(5)), true);
    tern_tensor *high = tern_set_requires_grad(tern_full(2, TERN_SHAPE(1)), true);
    tern_tensor *y = tern_clamp(x, low, high);
    assert_values(y, (double[]){ 0, 0, 1, 2, 2 }, 5);
    tern_backward(tern_sum(y));
    assert_values(tern_grad_of(x), (double[]){ 0, 0.5, 1, 0.5, 0 }, 5);
    assert_values(tern_grad_of(low), (double[]){ 1, 0.5, 0, 0, 0 }, 5);
    assert_values(tern_grad_of(high), (double[]){ 1.5 }, 1);
    assert_values(tern_clamp_max(x, high), (double[]){ -1, 0, 1, 2, 2 }, 5);
    tern_tensor *whole = tern_full(1, TERN_SHAPE(2), TERN_I64);
    assert_values(tern_clamp(whole, tern_full(1.5, TERN_SHAPE(1)), 9), (double[]){ 1.5, 1.5 }, 2);
}

static void test_limits_in_place(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = vector((float[]){ -1, 0, 1, 2, 3 }, 5);
    tern_tensor *low = tern_set_requires_grad(vector((float[]){ 0, 0, 0, 0, 5 }, 5), true);
    tern_tensor *y = tern_mul(x, 1); /* who made it comes to know */
    assert_ptr_equal(tern_clamp_(y, low, 2), y);
    assert_values(y, (double[]){ 0, 0, 1, 2, 2 }, 5);
    tern_backward(tern_sum(y));
    assert_values(tern_grad_of(low), (double[]){ 1, 0.5, 0, 0, 0 }, 5);
    assert_null(tern_clamp_(x, tern_zeros(TERN_SHAPE(2, 5)), 3));
    assert_error(TERN_ERR_SHAPE, "clamp: the limits have more elements");
    tern_tensor *whole = tern_full(1, TERN_SHAPE(2), TERN_I64);
    assert_null(tern_clamp_min_(whole, tern_full(1.5, TERN_SHAPE(1))));
    assert_error(TERN_ERR_DTYPE, "the result is f32, which a tensor of i64 cannot take in place");
    assert_values(whole, (double[]){ 1, 1 }, 2);
    assert_null(tern_clamp_min_(tern_set_requires_grad(x, true), tern_zeros(TERN_SHAPE(1))));
    assert_error(TERN_ERR_GRAD, "a leaf that requires a gradient");
    assert_null(tern_clamp_min_(NULL, low));
    assert_error(TERN_ERR_ARGUMENT, "clamp: x is NULL");
    tern_tensor *none = NULL;
    assert_null(tern_clamp(whole, none, none));
    assert_error(TERN_ERR_ARGUMENT, "clamp: both limits are NULL");
    assert_null(tern_clamp_(whole, none, none));
    assert_error(TERN_ERR_ARGUMENT, "clamp: both limits are NULL");
    assert_null(tern_clamp_max(whole, none));
    assert_error(TERN_ERR_ARGUMENT, "clamp: both limits are NULL");
    assert_values(tern_clamp(whole, none, 0), (double[]){ 0, 0 }, 2);
}

static void test_numbers_promote_in_clamp(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *whole = tern_full(3, TERN_SHAPE(2), TERN_I8);
    tern_tensor *truth = tern_full(1, TERN_SHAPE(2), TERN_BOOL);
    tern_tensor *half = tern_full(3, TERN_SHAPE(2), TERN_BF16);
    assert_int_equal(tern_dtype(tern_clamp(whole, 0, 2)), TERN_I8);
    assert_int_equal(tern_dtype(tern_clamp(whole, 0, 2.5)), TERN_F32);
    assert_int_equal(tern_dtype(tern_clamp_min(truth, 2)), TERN_I64);
    assert_int_equal(tern_dtype(tern_clamp_max(half, 2.5)), TERN_BF16);
    assert_values(tern_clamp(whole, 0, 2.5), (double[]){ 2.5, 2.5 }, 2);
    assert_values(tern_clamp_min(whole, -1000), (double[]){ 3, 3 }, 2);
    assert_values(tern_clamp_max(whole, 1000), (double[]){ 3, 3 }, 2);
    assert_values(tern_clamp_min(tern_full(3, TERN_SHAPE(2), TERN_U8), -1), (double[]){ 3, 3 }, 2);
}

/* A limit that the half type does not hold is its nearest value, for the gradient, too. */
static void test_half_limits_are_rounded(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(tern_full(0.1, TERN_SHAPE(2), TERN_F16), true);
    tern_tensor *y = tern_clamp_max(x, 0.1); /* 0.1 in f16 is 0.09998, below 0.1 */
    assert_int_equal(tern_backward(y, tern_ones(TERN_SHAPE(2), TERN_F16)), TERN_OK);
    assert_values(tern_grad_of(x), (double[]){ 0, 0 }, 2);
}

/* As PyTorch's: what is not strictly within the limits that were given has none, infinite ones, too. */
static void test_gradients_at_infinite_limits(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_operand none = TERN_NO_LIMIT_;
    const struct {
        tern_operand min, max;
        double want[5];
    } rows[] = {
        { TERN_OPERAND((double)-INFINITY), none, { 0, 1, 1, 1, 0 } },
        { none, TERN_OPERAND((double)INFINITY), { 1, 1, 1, 0, 0 } },
        { TERN_OPERAND((double)-INFINITY), TERN_OPERAND(1.0), { 0, 1, 0, 0, 0 } },
        { TERN_OPERAND(0.0), TERN_OPERAND((double)INFINITY), { 0, 1, 1, 0, 0 } },
        { TERN_OPERAND(0.0), none, { 0, 1, 1, 1, 0 } },
        { none, TERN_OPERAND(1.0), { 1, 1, 0, 0, 0 } },
        { TERN_OPERAND((double)NAN), none, { 0, 0, 0, 0, 0 } },
        { none, TERN_OPERAND((double)NAN), { 0, 0, 0, 0, 0 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int writes = 0; writes < 2; writes++) {
            tern_tensor *x = vector((float[]){ -INFINITY, 0.5F, 2, INFINITY, NAN }, 5), *y;
            tern_set_requires_grad(x, true);
            y = writes ? tern_clamp_inplace_at(TERN_HERE, tern_clone(x), rows[i].min, rows[i].max)
                       : tern_clamp_at(TERN_HERE, x, rows[i].min, rows[i].max);
            assert_int_equal(tern_backward(y, tern_ones(TERN_SHAPE(5))), TERN_OK);
            assert_values(tern_grad_of(x), rows[i].want, 5);
        }
}

/* Vectors flush denormal numbers, and x ln 2 is one. */
static void test_the_gradient_of_log2_near_the_least_number(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t n = 1 << 16;
    tern_tensor *x = tern_full(1.52e-38, TERN_SHAPE(n), .requires_grad = true);
    assert_int_equal(tern_backward(tern_sum(tern_log2(x))), TERN_OK);
    const double largest = tern_item(tern_amax(tern_grad_of(x)));
    assert_close(largest / 9.4914e37, 1, 1e-3);
}

static void test_limits_that_cannot_be(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *whole = tern_full(3, TERN_SHAPE(2), TERN_I8);
    assert_null(tern_clamp_min(whole, 300));
    assert_error(TERN_ERR_ARGUMENT, "clamp: no i8 is as large as 300");
    assert_null(tern_clamp_max(whole, -129));
    assert_error(TERN_ERR_ARGUMENT, "clamp: no i8 is as small as -129");
    assert_null(tern_hardtanh(whole, .min = 2, .max = 1));
    assert_error(TERN_ERR_ARGUMENT, "hardtanh: min is 2, which is above max, 1");
    assert_null(tern_hardtanh(whole, .max = (double)NAN));
    assert_error(TERN_ERR_ARGUMENT, "hardtanh: min is -1 and max nan; neither may be NaN");
    assert_null(tern_clamp(tern_full(1, TERN_SHAPE(2), TERN_BOOL), (bool)false, (bool)true));
    assert_error(TERN_ERR_DTYPE, "clamp: x is bool");
}

/* x and both limits meet at once: between two 0-dim limits of a higher kind the wider one counts. */
static void test_limits_meet_together(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_full(300, TERN_SHAPE(2), TERN_I16);
    tern_tensor *low = tern_full(0, TERN_SCALAR_SHAPE, TERN_F16);
    tern_tensor *high = tern_full(256.0625, TERN_SCALAR_SHAPE, TERN_F64);
    assert_int_equal(tern_dtype(tern_clamp(x, low, high)), TERN_F64);
    assert_values(tern_clamp(x, low, high), (double[]){ 256.0625, 256.0625 }, 2);
    tern_tensor *truth = tern_full(1, TERN_SHAPE(2), TERN_BOOL);
    low = tern_full(0, TERN_SCALAR_SHAPE, TERN_I8);
    high = tern_full(4, TERN_SCALAR_SHAPE, TERN_I16);
    assert_int_equal(tern_dtype(tern_clamp(truth, low, high)), TERN_I16);
    x = tern_set_requires_grad(vector((float[]){ -1, 0.5F, 3 }, 3), true);
    tern_backward(tern_sum(tern_clamp(x, low, tern_full(2, TERN_SCALAR_SHAPE, TERN_F64))));
    assert_values(tern_grad_of(x), (double[]){ 0, 1, 0 }, 3);
}

/* Layouts without gaps stay, others become row-major. */
static void test_layouts(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_transpose(tern_ones(TERN_SHAPE(3, 4)), 0, 1);
    assert_int_equal(tern_stride(tern_isnan(x), 0), 1);
    assert_int_equal(tern_dtype(tern_isnan(x)), TERN_BOOL);
    assert_int_equal(tern_stride(tern_clamp(x, 0, 1), 0), 1);
    assert_int_equal(tern_numel(tern_sin(tern_ones(TERN_SHAPE(0, 3)))), 0);
    assert_values(tern_elu(vector((float[]){ -1, 2 }, 2), .alpha = -0.0), (double[]){ 0, 2 }, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_place_is_the_same),
        cmocka_unit_test(test_in_place_keeps_the_dtype),
        cmocka_unit_test(test_in_place_on_what_cannot_change),
        cmocka_unit_test(test_numbers_promote_in_clamp),
        cmocka_unit_test(test_limits_may_be_tensors),
        cmocka_unit_test(test_limits_in_place),
        cmocka_unit_test(test_half_limits_are_rounded),
        cmocka_unit_test(test_limits_that_cannot_be),
        cmocka_unit_test(test_limits_meet_together),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_gradients_at_infinite_limits),
        cmocka_unit_test(test_the_gradient_of_log2_near_the_least_number),
    };
    return check_run(tests, NULL, NULL);
}
