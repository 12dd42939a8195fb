/* Division with a whole quotient, bits and truth, and what is written in place: PyTorch's rules. */
#include <limits.h>
#include <math.h>

#include "tests/support/between.h"
#include "tests/support/check.h"

static tern_tensor *whole(const int64_t *data, int64_t n, tern_dtype_t dtype)
{
    return tern_cast(tern_from_data(data, .shape = TERN_SHAPE(n), .dtype = TERN_I64), dtype);
}

static tern_tensor *real(const float *data, int64_t n)
{
    return tern_from_data(data, .shape = TERN_SHAPE(n));
}

static void assert_whole(tern_tensor *t, const int64_t *want)
{
    int64_t got[64];
    assert_no_error();
    assert_between(tern_numel(t), 1, 64);
    tern_read(t, TERN_I64, got, 8 * tern_numel(t));
    for (int64_t i = 0; i < tern_numel(t); i++)
        assert_int_equal(got[i], want[i]);
}

static const tern_dtype_t integers[] = { TERN_U8, TERN_I8, TERN_I16, TERN_I32, TERN_I64 };
enum { INTEGERS = sizeof integers / sizeof *integers };

/* ---- division ---------------------------------------------------------------------------------- */

typedef tern_tensor *(*binary_fn)(tern_site_t, tern_operand, tern_operand);
typedef tern_tensor *(*inplace_fn)(tern_site_t, tern_tensor *, tern_operand);

/* As PyTorch: an error on the CPU, some value on a device. */
static void check_zero(tern_tensor *a, tern_operand b, binary_fn divide, inplace_fn divide_inplace)
{
    static const int64_t before[] = { 7, 9, 1 };
    const bool cpu = tern_device(a).kind == TERN_KIND_CPU;
    for (int way = 0; way < 2; way++) {
        tern_tensor *out = way == 0 ? divide(TERN_HERE, tern_operand_tensor(a), b)
                                    : divide_inplace(TERN_HERE, a, b);
        if (cpu) {
            assert_null(out);
            assert_error(TERN_ERR_ARGUMENT, "an integer is divided by zero");
            assert_whole(a, before);
        } else {
            assert_non_null(out);
        }
    }
}

static void test_integers_by_zero_end_no_program(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const int64_t a[] = { 7, 9, 1 }, b[] = { 2, 0, 3 };
    static const binary_fn divide[] = { tern_floor_div_at, tern_remainder_at, tern_fmod_at };
    static const inplace_fn inplace[] = { tern_floor_div_inplace_at, tern_remainder_inplace_at,
                                          tern_fmod_inplace_at };
    for (int k = 0; k < INTEGERS; k++)
        for (int op = 0; op < 3; op++) {
            const tern_operand zero = tern_operand_int(0);
            const tern_operand some = tern_operand_tensor(whole(b, 3, integers[k]));
            check_zero(whole(a, 3, integers[k]), zero, divide[op], inplace[op]);
            check_zero(whole(a, 3, integers[k]), some, divide[op], inplace[op]);
        }
}

/* In every layout, and among many elements. */
static void test_a_zero_is_found_wherever_it_lies(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = tern_ones(TERN_SHAPE(70, 301), TERN_I32);
    if (tern_device(a).kind != TERN_KIND_CPU)
        return;
    tern_tensor *b = tern_ones(TERN_SHAPE(301, 70), TERN_I32);
    assert_non_null(tern_floor_div(a, tern_transpose(b, 0, 1)));
    tern_fill(tern_select(tern_select(b, 0, 300), 0, 69), 0);
    assert_null(tern_floor_div(a, tern_transpose(b, 0, 1)));
    assert_error(TERN_ERR_ARGUMENT, "divided by zero");
    tern_tensor *column = tern_arange(0, 70, 1, TERN_I32);
    assert_null(tern_floor_div(a, tern_unsqueeze(column, 1)));
    assert_error(TERN_ERR_ARGUMENT, "divided by zero");
    /* nothing is divided */
    assert_non_null(tern_floor_div(tern_slice(a, .end = TERN_ZERO), 0));
    assert_no_error();
}

static void test_the_most_negative_by_minus_one_wraps(void **state)
{
    (void)state;
    TERN_SCOPE;
    for (int k = 1; k < INTEGERS; k++) {
        const int bits = 8 * (int)tern_dtype_size(integers[k]);
        const int64_t lowest = INT64_MIN >> (64 - bits), zero = 0;
        tern_tensor *a = whole(&lowest, 1, integers[k]);
        assert_whole(tern_floor_div(a, -1), &lowest);
        assert_whole(tern_remainder(a, -1), &zero);
        assert_whole(tern_fmod(a, -1), &zero);
    }
}

static void test_quotients_that_f32_cannot_hold(void **state)
{
    (void)state;
    TERN_SCOPE;
    enum { N = 37 };
    float x[N], y[N], got[N];
    for (int i = 0; i < N; i++) {
        x[i] = (i % 2 ? -1.0f : 1.0f) * ldexpf(1.2345f + 0.01f * (float)i, i * 4 - 20);
        y[i] = i % 3 ? 0.37f : -1.9e-3f;
    }
    tern_read(tern_fmod(real(x, N), real(y, N)), TERN_F32, got, sizeof got);
    assert_no_error();
    for (int i = 0; i < N; i++)
        if (got[i] != fmodf(x[i], y[i]) || signbit(got[i]) != signbit(x[i]))
            fail_msg("%a by %a leaves %a, not %a", x[i], y[i], got[i], fmodf(x[i], y[i]));
}

static void test_zeros_keep_their_signs(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const float x[] = { 0.0f, -0.0f, 6, -6 }, y[] = { 3, 3, 3, 3 };
    float fmods[4], quotients[4];
    tern_read(tern_fmod(real(x, 4), real(y, 4)), TERN_F32, fmods, sizeof fmods);
    tern_read(tern_floor_div(real(x, 4), -1e30), TERN_F32, quotients, sizeof quotients);
    assert_no_error();
    for (int i = 0; i < 4; i++)
        assert_int_equal(signbit(fmods[i]) != 0, i % 2);
    assert_true(signbit(quotients[0]) && !signbit(quotients[1]));
    assert_close(quotients[2], -1, 0);
    assert_close(quotients[3], 0, 0);
}

/* ---- dtypes ------------------------------------------------------------------------------------- */

static void test_dtypes_of_results(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *i = tern_ones(TERN_SHAPE(2), TERN_I32), *h = tern_ones(TERN_SHAPE(2), TERN_F16);
    tern_tensor *b = tern_ones(TERN_SHAPE(2), TERN_BOOL), *u = tern_ones(TERN_SHAPE(2), TERN_U8);
    assert_int_equal(tern_dtype(tern_floor_div(i, 2)), TERN_I32);
    assert_int_equal(tern_dtype(tern_floor_div(i, 2.5)), TERN_F32);
    assert_int_equal(tern_dtype(tern_remainder(u, i)), TERN_I32);
    assert_int_equal(tern_dtype(tern_atan2(i, i)), TERN_F32);
    assert_int_equal(tern_dtype(tern_hypot(h, h)), TERN_F16);
    assert_int_equal(tern_dtype(tern_logical_and(h, i)), TERN_BOOL);
    assert_int_equal(tern_dtype(tern_bitwise_or(b, u)), TERN_U8);
    assert_int_equal(tern_dtype(tern_bitwise_xor(b, (bool)1)), TERN_BOOL);
    assert_no_error();
    assert_null(tern_hypot(i, i));
    assert_error(TERN_ERR_DTYPE, "hypot");
    assert_null(tern_bitwise_and(i, 1.5));
    assert_error(TERN_ERR_DTYPE, "bitwise_and");
    assert_null(tern_bitwise_left_shift(b, b));
    assert_error(TERN_ERR_DTYPE, "bitwise_left_shift");
    assert_null(tern_remainder(b, b));
    assert_error(TERN_ERR_DTYPE, "remainder");
}

/* ---- in place ----------------------------------------------------------------------------------- */

/* i8 and i64 meet in i64: 100 by 300 is 0 there, and 2 where 300 has become 44. */
static void test_numbers_of_every_c_type(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_full(3, TERN_SCALAR_SHAPE), *i = tern_cast(x, TERN_I64);
    assert_true(tern_item(tern_add(x, 0.5L)) == 3.5);
    assert_int_equal(tern_dtype(tern_add(i, 0.5L)), TERN_F32);
    assert_true(tern_item(tern_mul(x, UINT64_MAX)) == (double)(3 * 0x1p64f));
    assert_true(tern_item(tern_mul(x, ULLONG_MAX)) == (double)(3 * 0x1p64f));
    assert_int_equal(tern_dtype(tern_add(i, (size_t)2)), TERN_I64);
    assert_int_equal(tern_item_int(tern_add(i, (uint64_t)INT64_MAX - 3)), INT64_MAX);
    assert_true(tern_item(tern_add(x, 1u << 31)) == 0x1p31); /* 3 is less than a bit of f32 there */
    assert_true(tern_item(tern_add(x, 'a')) == 100);
    assert_int_equal(tern_dtype(tern_add(tern_gt(x, 1), (bool)true)), TERN_BOOL);
    assert_no_error();
}

static void test_null_is_a_missing_tensor_not_a_zero(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2));
    void *same = x;
    assert_null(tern_add(NULL, x));
    assert_error(TERN_ERR_ARGUMENT, "add: a is NULL");
    assert_null(tern_mul(x, NULL));
    assert_error(TERN_ERR_ARGUMENT, "mul: b is NULL");
    assert_true(tern_item(tern_sum(tern_add(same, x))) == 4);
    assert_no_error();
}

static void test_integers_in_place_are_computed_where_they_meet(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const int64_t a[] = { 100, -100 }, b[] = { 300, 300 };
    static const int64_t quotients[] = { 0, -1 }, rests[] = { 100, 200 - 256 };
    tern_tensor *x = whole(a, 2, TERN_I8);
    assert_ptr_equal(tern_floor_div_(x, whole(b, 2, TERN_I64)), x);
    assert_int_equal(tern_dtype(x), TERN_I8);
    assert_whole(x, quotients);
    assert_whole(tern_remainder_(whole(a, 2, TERN_I8), whole(b, 2, TERN_I64)), rests);
}

static void test_truth_in_place_is_0_and_1(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const int64_t ones[] = { 1, 0, 1 };
    static const float a[] = { 2.5f, 0, NAN }, b[] = { 1, 1, 1 };
    tern_tensor *x = real(a, 3);
    assert_ptr_equal(tern_logical_and_(x, real(b, 3)), x);
    assert_int_equal(tern_dtype(x), TERN_F32);
    assert_whole(x, ones);
    assert_whole(tern_gt_(whole(ones, 3, TERN_U8), 0.5), ones);
    assert_whole(tern_eq_(real(b, 3), tern_ones(TERN_SHAPE(1), TERN_I32)),
                 (const int64_t[]){ 1, 1, 1 });
    assert_null(tern_lt_(real(b, 1), real(b, 3)));
    assert_error(TERN_ERR_SHAPE, "lt: the result has another shape");
    assert_null(tern_lt_(NULL, 1));
    assert_error(TERN_ERR_ARGUMENT, "lt: a is NULL");
}

static void test_what_cannot_be_held_in_place(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *i = tern_ones(TERN_SHAPE(2), TERN_I32), *b = tern_ones(TERN_SHAPE(2), TERN_BOOL);
    assert_null(tern_remainder_(i, 2.5));
    assert_error(TERN_ERR_DTYPE, "remainder: the result is f32");
    assert_null(tern_atan2_(i, i));
    assert_error(TERN_ERR_DTYPE, "atan2: the result is f32");
    assert_null(tern_atan2_(i, tern_cast(i, TERN_I64)));
    assert_error(TERN_ERR_DTYPE, "atan2: the result is f32");
    assert_null(tern_div_(i, tern_cast(i, TERN_I64)));
    assert_error(TERN_ERR_DTYPE, "div: the result is f32");
    assert_null(tern_div_(i, 2));
    assert_error(TERN_ERR_DTYPE, "div: the result is f32");
    assert_null(tern_bitwise_or_(b, i));
    assert_error(TERN_ERR_DTYPE, "bitwise_or: the result is i32");
    assert_null(tern_pow_(i, -1));
    assert_error(TERN_ERR_ARGUMENT, "pow: integers have no negative integer powers");
    assert_non_null(tern_pow_(i, 3));
    assert_non_null(tern_bitwise_and_(b, (bool)1));
    assert_no_error();
}

/* PyTorch's results: neither u8 nor f16 can be the number. */
static void test_numbers_are_not_wrapped_where_floats_are_made(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *u = tern_full(200, TERN_SHAPE(1), TERN_U8);
    tern_tensor *s = tern_full(1000, TERN_SHAPE(1), TERN_I16);
    tern_tensor *i = tern_full(7, TERN_SHAPE(1), TERN_I32);
    assert_close(tern_item(tern_div(u, 256)), 0.78125, 0);
    assert_close(tern_item(tern_div(u, -1)), -200, 0);
    assert_close(tern_item(tern_div(1000, u)), 5, 0);
    assert_close(tern_item(tern_div(s, 60000)), 1.0 / 60, 1e-8);
    assert_close(tern_item(tern_div(i, 1LL << 32)), ldexp(7, -32), 0);
    assert_close(tern_item(tern_atan2(u, 300)), 0.588002603547568, 1e-7);
    assert_close(tern_item(tern_atan2(300, u)), 0.982793723247329, 1e-7);
    assert_int_equal(tern_dtype(tern_div(u, 256)), TERN_F32);
    assert_int_equal(tern_dtype(tern_div(tern_gt(u, 1), 256)), TERN_F32);
    assert_no_error();
}

static void test_a_number_over_half_types_stays_f32(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *h = tern_set_requires_grad(tern_full(100, TERN_SHAPE(1), TERN_F16), true);
    tern_tensor *quotient = tern_div(70000.0, h);
    assert_int_equal(tern_dtype(quotient), TERN_F16);
    assert_close(tern_item(quotient), 700, 0);
    tern_backward(quotient);
    assert_close(tern_item(tern_grad_of(h)), -7, 0);
    assert_close(tern_item(tern_div(257, tern_full(0.5, TERN_SHAPE(1), TERN_BF16))), 514, 2);
    assert_null(tern_div(2, (tern_tensor *)NULL));
    assert_error(TERN_ERR_ARGUMENT, "div: b is NULL");
}

static void expect_half(tern_tensor *t, const float *want)
{
    assert_no_error();
    assert_int_equal(tern_dtype_size(tern_dtype(t)), 2);
    check_elements(tern_cast(t, TERN_F32), want, 3);
}

/* 0.1 is no half number: quotients by its rounded self may be whole where these are below. */
static void test_a_divisor_of_whole_quotients_stays_f32(void **state)
{
    (void)state;
    TERN_SCOPE;
    const float values[] = { 1, 3, 7 }, want[] = { 9, 29, 69 };
    for (int k = 0; k < 2; k++) {
        tern_tensor *h = tern_cast(real(values, 3), k == 0 ? TERN_F16 : TERN_BF16);
        tern_tensor *tenth = tern_full(0.1, TERN_SCALAR_SHAPE, .device = TERN_CPU);
        expect_half(tern_floor_div(h, 0.1), want);
        expect_half(tern_floor_div(h, tenth), want);
        expect_half(tern_floor_div(h, tern_cast(tenth, TERN_F64)), want);
        expect_half(tern_floor_div_(tern_clone(h), 0.1), want);
        expect_half(tern_floor_div_(tern_clone(h), tenth), want);
        expect_half(tern_floor_div(h, 70000), (const float[]){ 0, 0, 0 });
        expect_half(tern_floor_div(7.5, h), (const float[]){ 7, 2, 1 });
    }
}

/* ---- three operands ----------------------------------------------------------------------------- */

static tern_tensor *ones(tern_dtype_t dtype)
{
    return tern_ones(TERN_SHAPE(3), dtype);
}

static void test_three_operands_meet_at_once(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *i = ones(TERN_I64), *f = ones(TERN_F32), *h = ones(TERN_F16);
    tern_tensor *number = tern_full(1, TERN_SCALAR_SHAPE, TERN_F64);
    assert_int_equal(tern_dtype(tern_addcmul(f, i, ones(TERN_F64), 2)), TERN_F64);
    assert_int_equal(tern_dtype(tern_addcmul(h, f, f, 1)), TERN_F32);
    assert_int_equal(tern_dtype(tern_addcmul(i, number, f, 1)), TERN_F32);
    assert_int_equal(tern_dtype(tern_lerp(h, h, number)), TERN_F16);
    assert_whole(tern_addcmul(i, i, i, 0.5), (const int64_t[]){ 1, 1, 1 });
    assert_no_error();
    assert_null(tern_addcmul(ones(TERN_BOOL), ones(TERN_BOOL), ones(TERN_BOOL), 1));
    assert_error(TERN_ERR_DTYPE, "addcmul");
    assert_null(tern_addcdiv(f, i, i, 1));
    assert_error(TERN_ERR_DTYPE, "addcdiv: integers are not divided by integers");
    assert_null(tern_addcmul(f, f, f, f));
    assert_error(TERN_ERR_ARGUMENT, "addcmul: the factor is a tensor");
    assert_null(tern_lerp(f, NULL, 0.5));
    assert_error(TERN_ERR_ARGUMENT, "lerp: end is NULL");
    assert_null(tern_lerp(f, tern_ones(TERN_SHAPE(2)), 0.5));
    assert_error(TERN_ERR_SHAPE, "do not broadcast");
}

/* PyTorch's results: the weight is 0.3 in f32, not in f16. */
static void test_half_types_are_weighed_in_f32(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const float x[] = { 1, 3, 1000 }, end[] = { 2, 7, 1001 };
    static const float want[] = { 1.2998046875f, 4.19921875f, 1000.5f };
    float got[3];
    tern_tensor *a = tern_cast(real(x, 3), TERN_F16), *b = tern_cast(real(end, 3), TERN_F16);
    tern_read(tern_lerp(a, b, 0.3), TERN_F32, got, sizeof got);
    assert_memory_equal(got, want, sizeof got);
    tern_read(tern_lerp_(a, b, 0.3), TERN_F32, got, sizeof got);
    assert_no_error();
    assert_memory_equal(got, want, sizeof got);
}

static void test_three_operands_in_place(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *h = ones(TERN_F16), *f = ones(TERN_F32), *i = ones(TERN_I64);
    assert_ptr_equal(tern_addcmul_(h, f, f, 2), h);
    assert_int_equal(tern_dtype(h), TERN_F16);
    assert_whole(h, (const int64_t[]){ 3, 3, 3 });
    assert_ptr_equal(tern_addcdiv_(f, h, h, -1), f);
    assert_whole(f, (const int64_t[]){ 0, 0, 0 });
    assert_null(tern_addcmul_(i, f, f, 1));
    assert_error(TERN_ERR_DTYPE, "addcmul: the result is f32, which a tensor of i64 cannot take");
    assert_null(tern_addcmul_(tern_ones(TERN_SHAPE(1)), f, f, 1));
    assert_error(TERN_ERR_SHAPE, "addcmul: the result has");
    assert_null(tern_lerp_(NULL, f, 1));
    assert_error(TERN_ERR_ARGUMENT, "lerp: x is NULL");
    tern_tensor *leaf = tern_set_requires_grad(ones(TERN_F32), true);
    assert_null(tern_masked_fill_(leaf, ones(TERN_BOOL), 1));
    assert_error(TERN_ERR_GRAD, "masked_fill");
}

/* Backward sees what was there before. */
static void test_gradients_through_what_is_written(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(tern_full(2, TERN_SHAPE(3)), true);
    tern_tensor *end = tern_set_requires_grad(tern_full(10, TERN_SHAPE(3)), true);
    tern_tensor *w = tern_set_requires_grad(tern_full(0.25, TERN_SHAPE(3)), true);
    tern_backward(tern_sum(tern_lerp_(tern_mul(x, 2), end, w)));
    assert_no_error();
    assert_close(tern_item(tern_sum(tern_grad_of(x))), 3 * 1.5, 1e-6);
    assert_close(tern_item(tern_sum(tern_grad_of(end))), 3 * 0.25, 1e-6);
    assert_close(tern_item(tern_sum(tern_grad_of(w))), 3 * 6, 1e-6);
}

/* What is saved of it is a copy, or the graph would hold itself. */
static void test_what_is_written_may_be_an_operand_again(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t live = tern_live_tensors();
    {
        TERN_SCOPE;
        tern_tensor *w = tern_ones(TERN_SHAPE(3), .requires_grad = true);
        tern_tensor *x = tern_mul(w, 2), *y = tern_mul(w, 2);
        (void)tern_lerp_(x, x, 0.5);
        (void)tern_lerp_(y, w, y);
        assert_no_error();
    }
    assert_int_equal(tern_live_tensors(), live);
}

enum { ADDCMUL_A, ADDCMUL_B, ADDCDIV_A, ADDCDIV_B, CLAMP_MIN, CLAMP_MAX, AGAIN_COUNT };

static tern_tensor *written_again(int which, tern_tensor *x, tern_tensor *three)
{
    switch (which) {
    case ADDCMUL_A:
        return tern_addcmul_(x, x, three, 2);
    case ADDCMUL_B:
        return tern_addcmul_(x, three, x, 2);
    case ADDCDIV_A:
        return tern_addcdiv_(x, x, three, 2);
    case ADDCDIV_B:
        return tern_addcdiv_(x, three, x, 2);
    case CLAMP_MIN:
        return tern_clamp_(x, x, three);
    default:
        return tern_clamp_(x, three, x);
    }
}

/* The same with its gradients: of w = 1 and x = 4 w. */
static void test_gradients_of_what_is_an_operand_again(void **state)
{
    (void)state;
    static const double want[AGAIN_COUNT] = { 28, 28, 4 + 8 / 3.0, 4 - 24 / 16.0, 0, 4 };
    TERN_SCOPE;
    const int64_t live = tern_live_tensors();
    for (int which = 0; which < AGAIN_COUNT; which++) {
        TERN_SCOPE;
        tern_tensor *w = tern_ones(TERN_SHAPE(3), .requires_grad = true);
        tern_tensor *three = tern_full(3, TERN_SHAPE(3), .requires_grad = true);
        (void)written_again(which, tern_mul(w, 4), three);
        tern_backward(tern_sum(written_again(which, tern_mul(w, 4), three)));
        assert_no_error();
        assert_close(tern_item(tern_mean(tern_grad_of(w))), want[which], 1e-6);
    }
    assert_int_equal(tern_live_tensors(), live);
}

/* PyTorch's gradients, to the signs of zeros: 0 at the origin, and where the squares underflow. */
static void test_the_gradient_of_an_angle_at_the_origin(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const float y[] = { 0, -0.0f, 1e-30f, 3 }, x[] = { 0, 0, 1e-30f, -4 };
    static const float want_y[] = { 0, 0, 0, -0.16f }, want_x[] = { -0.0f, 0, -0.0f, -0.12f };
    float got[2][4], slope[4];
    tern_tensor *a = tern_set_requires_grad(real(y, 4), true);
    tern_tensor *b = tern_set_requires_grad(real(x, 4), true);
    tern_tensor *g = tern_set_requires_grad(tern_ones(TERN_SHAPE(4)), true);
    tern_tensor *of[2] = { NULL };
    tern_grad(tern_atan2(a, b), (tern_tensor *[]){ a, b }, 2, of, .gradient = g,
              .create_graph = true);
    assert_no_error();
    tern_read(of[0], TERN_F32, got[0], sizeof got[0]);
    tern_read(of[1], TERN_F32, got[1], sizeof got[1]);
    for (int i = 0; i < 4; i++) {
        assert_close(got[0][i], want_y[i], 1e-7);
        assert_close(got[1][i], want_x[i], 1e-7);
        assert_int_equal(signbit(got[0][i]) != 0, signbit(want_y[i]) != 0);
        assert_int_equal(signbit(got[1][i]) != 0, signbit(want_x[i]) != 0);
    }
    /* the second derivative by the gradient: PyTorch has it at the origin too */
    tern_backward(tern_sum(of[0]));
    tern_read(tern_grad_of(g), TERN_F32, slope, sizeof slope);
    assert_no_error();
    for (int i = 0; i < 4; i++)
        assert_close(slope[i], want_y[i], 1e-7);
}

/* PyTorch's gradients of the divisor: by infinities and by 0. */
static void test_the_gradient_of_a_divisor_at_the_ends(void **state)
{
    (void)state;
    TERN_SCOPE;
    enum { N = 8 };
    const float far = INFINITY, x[N] = { -1, 1, 5, -5, -5, 0, 7, -7 };
    const float y[N] = { far, -far, 0, 0, -0.0f, 0, 2, 2 };
    const float want[2][N] = { { 1, 1, -far, far, -far, NAN, -3, 4 },
                               { 0, 0, -far, far, -far, NAN, -3, 3 } };
    for (int k = 0; k < 2; k++) {
        tern_tensor *b = tern_set_requires_grad(real(y, N), true);
        tern_tensor *rest = k == 0 ? tern_remainder(real(x, N), b) : tern_fmod(real(x, N), b);
        tern_backward(rest, .gradient = tern_ones_like(rest));
        float got[N];
        tern_read(tern_grad_of(b), TERN_F32, got, sizeof got);
        assert_no_error();
        for (int i = 0; i < N; i++)
            if (isnan(want[k][i]) ? !isnan(got[i]) : got[i] != want[k][i])
                fail_msg("%d: %g of %g by %g", k, (double)got[i], (double)x[i], (double)y[i]);
    }
}

/* The gradients of both need what came in, not what came out. */
static void test_what_is_left_over_may_change(void **state)
{
    (void)state;
    TERN_SCOPE;
    for (int k = 0; k < 2; k++) {
        tern_tensor *x = tern_full(-7, TERN_SHAPE(2), .requires_grad = true);
        tern_tensor *y = tern_full(2, TERN_SHAPE(2), .requires_grad = true);
        tern_backward(tern_sum(tern_add_(k == 0 ? tern_remainder(x, y) : tern_fmod(x, y), 1)));
        assert_no_error();
        assert_close(tern_item(tern_mean(tern_grad_of(x))), 1, 0);
        assert_close(tern_item(tern_mean(tern_grad_of(y))), k == 0 ? 4 : 3, 0);
    }
}

static void test_masked_fill_and_its_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const int64_t bits[] = { 1, 0, 1 };
    tern_tensor *mask = whole(bits, 3, TERN_BOOL), *u = ones(TERN_U8), *h = ones(TERN_F16);
    assert_whole(tern_masked_fill(u, mask, -1), (const int64_t[]){ 255, 1, 255 });
    assert_whole(tern_masked_fill(ones(TERN_I32), mask, 2.5), (const int64_t[]){ 2, 1, 2 });
    assert_whole(tern_masked_fill_(u, mask, tern_full(7, TERN_SCALAR_SHAPE, TERN_F32)),
                 (const int64_t[]){ 7, 1, 7 });
    assert_int_equal(tern_dtype(tern_masked_fill(h, mask, -INFINITY)), TERN_F16);
    assert_int_equal(tern_ndim(tern_masked_fill(h, tern_ones(TERN_SHAPE(2, 1), TERN_BOOL), 0)), 2);
    assert_no_error();
    assert_null(tern_masked_fill(u, mask, 300));
    assert_error(TERN_ERR_ARGUMENT, "masked_fill: 300 is beyond what u8 can be");
    assert_null(tern_masked_fill(h, mask, 1e6));
    assert_error(TERN_ERR_ARGUMENT, "1e+06 is beyond what f16 can be");
    assert_null(tern_masked_fill(h, u, 0));
    assert_error(TERN_ERR_DTYPE, "the mask is u8; it has to be bool");
    assert_null(tern_masked_fill(h, mask, h));
    assert_error(TERN_ERR_SHAPE, "the value has 1 dimensions");
    assert_null(tern_masked_fill(h, mask, (tern_tensor *)NULL));
    assert_error(TERN_ERR_ARGUMENT, "the value is NULL");
    assert_null(tern_masked_fill(h, NULL, 0));
    assert_error(TERN_ERR_ARGUMENT, "mask is NULL");
    assert_null(tern_masked_fill_(h, tern_ones(TERN_SHAPE(2, 1), TERN_BOOL), 0));
    assert_error(TERN_ERR_SHAPE, "masked_fill: the result has another shape");
}

/* As PyTorch refuses them, and takes what is beside them. */
static void test_numbers_that_no_element_can_be(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const int64_t zero[] = { 0, 0, 0 };
    tern_tensor *u = ones(TERN_U8), *h = ones(TERN_F16), *i = whole(zero, 3, TERN_I64);
    assert_null(tern_full(300, TERN_SHAPE(2), TERN_I8));
    assert_error(TERN_ERR_ARGUMENT, "full: 300 is beyond what i8 can be");
    assert_null(tern_full(NAN, TERN_SHAPE(2), TERN_I64));
    assert_error(TERN_ERR_ARGUMENT, "full: nan is beyond what i64 can be");
    assert_null(tern_full(1e300, TERN_SHAPE(2)));
    assert_error(TERN_ERR_ARGUMENT, "beyond what f32 can be");
    assert_null(tern_fill(u, -256));
    assert_error(TERN_ERR_ARGUMENT, "fill: -256 is beyond what u8 can be");
    assert_null(tern_where(tern_gt(u, 0), u, 300));
    assert_error(TERN_ERR_ARGUMENT, "where: 300 is beyond what u8 can be");
    assert_null(tern_where(tern_gt(u, 0), 300, u));
    assert_error(TERN_ERR_ARGUMENT, "where: 300 is beyond what u8 can be");
    assert_null(tern_scatter(u, 0, i, 300));
    assert_error(TERN_ERR_ARGUMENT, "scatter: 300 is beyond what u8 can be");
    assert_null(tern_scatter_add_(h, 0, i, 1e6));
    assert_error(TERN_ERR_ARGUMENT, "scatter_add: 1e+06 is beyond what f16 can be");
    assert_null(tern_index_put_(u, 300, false, i));
    assert_error(TERN_ERR_ARGUMENT, "index_put: 300 is beyond what u8 can be");
    assert_whole(u, (const int64_t[]){ 1, 1, 1 });
    assert_whole(tern_fill(u, -1), (const int64_t[]){ 255, 255, 255 });
    assert_whole(tern_full(2.7, TERN_SHAPE(1), TERN_I8), (const int64_t[]){ 2 });
    assert_whole(tern_full(300, TERN_SHAPE(1), TERN_BOOL), (const int64_t[]){ 1 });
    assert_whole(tern_full((double)INT64_MIN, TERN_SHAPE(1), TERN_I64),
                 (const int64_t[]){ INT64_MIN });
    assert_int_equal(tern_dtype(tern_where(tern_gt(u, 0), u, 300.5)), TERN_F32);
    assert_true(isinf(tern_item(tern_amax(tern_where(tern_gt(u, 0), 1e6, h)))));
    assert_true(isinf(tern_item(tern_full(INFINITY, TERN_SCALAR_SHAPE, TERN_F16))));
    assert_no_error();
}

/* What is written is the caller's already. */
static void test_nothing_is_owned_twice(void **state)
{
    (void)state;
    const bool before = tern_set_owned_mode(true);
    tern_tensor *x = ones(TERN_F32), *mask = ones(TERN_BOOL);
    assert_ptr_equal(tern_masked_fill_(x, mask, 2), x);
    assert_ptr_equal(tern_addcmul_(x, x, x, 2), x);
    assert_ptr_equal(tern_gt_(x, 1), x);
    tern_release(tern_masked_fill(x, mask, 2));
    tern_release(tern_lerp(x, x, 0.5));
    assert_int_equal(tern_live_tensors(), 2);
    tern_release(x);
    tern_release(mask);
    assert_int_equal(tern_live_tensors(), 0);
    tern_set_owned_mode(before);
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_by_zero_end_no_program),
        cmocka_unit_test(test_a_zero_is_found_wherever_it_lies),
        cmocka_unit_test(test_the_most_negative_by_minus_one_wraps),
        cmocka_unit_test(test_quotients_that_f32_cannot_hold),
        cmocka_unit_test(test_zeros_keep_their_signs),
        cmocka_unit_test(test_dtypes_of_results),
        cmocka_unit_test(test_numbers_of_every_c_type),
        cmocka_unit_test(test_null_is_a_missing_tensor_not_a_zero),
        cmocka_unit_test(test_integers_in_place_are_computed_where_they_meet),
        cmocka_unit_test(test_truth_in_place_is_0_and_1),
        cmocka_unit_test(test_what_cannot_be_held_in_place),
        cmocka_unit_test(test_numbers_are_not_wrapped_where_floats_are_made),
        cmocka_unit_test(test_a_number_over_half_types_stays_f32),
        cmocka_unit_test(test_a_divisor_of_whole_quotients_stays_f32),
        cmocka_unit_test(test_three_operands_meet_at_once),
        cmocka_unit_test(test_half_types_are_weighed_in_f32),
        cmocka_unit_test(test_three_operands_in_place),
        cmocka_unit_test(test_gradients_through_what_is_written),
        cmocka_unit_test(test_what_is_written_may_be_an_operand_again),
        cmocka_unit_test(test_gradients_of_what_is_an_operand_again),
        cmocka_unit_test(test_the_gradient_of_an_angle_at_the_origin),
        cmocka_unit_test(test_the_gradient_of_a_divisor_at_the_ends),
        cmocka_unit_test(test_what_is_left_over_may_change),
        cmocka_unit_test(test_masked_fill_and_its_mistakes),
        cmocka_unit_test(test_numbers_that_no_element_can_be),
        cmocka_unit_test(test_nothing_is_owned_twice),
    };
    return check_run(tests, NULL, NULL);
}
