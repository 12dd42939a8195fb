/* Conversions and promotion against golden vectors. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

/* ---- conversions ------------------------------------------------------------------------------ */

static void check_cast(const char *test, tern_dtype_t from, tern_dtype_t to)
{
    TERN_SCOPE;
    tern_tensor *x = golden_tensor(test, "x", TERN_F64);
    golden_check(test, "y", tern_cast(tern_cast(x, from), to), 1e-11);
}

static void test_conversions_round_alike(void **state)
{
    (void)state;
    check_cast("cast_float16", TERN_F32, TERN_F16);
    check_cast("cast_bfloat16", TERN_F32, TERN_BF16);
    check_cast("cast_int", TERN_F32, TERN_I32);
    check_cast("cast_bool", TERN_F32, TERN_BOOL);
    check_cast("cast_uint8", TERN_I64, TERN_U8);
    check_cast("cast_int8", TERN_I64, TERN_I8);
    check_cast("cast_int16", TERN_I64, TERN_I16);
}

/* ---- promotion -------------------------------------------------------------------------------- */

enum { DTYPES = 10 };

static tern_tensor *one(int dtype, bool is_zero_dim)
{
    tern_tensor *t = tern_ones(TERN_SHAPE(1), .dtype = (tern_dtype_t)dtype);
    return is_zero_dim ? tern_select(t, 0, 0) : t;
}

/* The dtype, or 0 for an error, which is cleared. */
static int dtype_of(tern_tensor *t)
{
    const int dtype = tern_failed() ? 0 : (int)tern_dtype(t);
    tern_error_clear();
    return dtype;
}

typedef tern_tensor *(*binary_fn)(tern_tensor *a, tern_tensor *b);
typedef tern_tensor *(*number_fn)(tern_tensor *a, int number);
typedef tern_tensor *(*unary_fn)(tern_tensor *a);

static void check_dtype(const char *test, int64_t at, int got)
{
    const int want = (int)golden_need(test, "y")->v.data[at];
    if (got != want)
        fail_msg("%s[%lld] is %s, not %s", test, (long long)at,
                 got ? tern_dtype_name((tern_dtype_t)got) : "an error",
                 want ? tern_dtype_name((tern_dtype_t)want) : "an error");
}

static void check_binary(const char *test, binary_fn run, bool is_zero_dim)
{
    for (int a = 1; a <= DTYPES; a++) {
        for (int b = 1; b <= DTYPES; b++) {
            TERN_SCOPE;
            check_dtype(test, (a - 1) * DTYPES + b - 1,
                        dtype_of(run(one(a, false), one(b, is_zero_dim))));
        }
    }
}

/* Numbers true, 2 and 2.5, in this order. */
static void check_number(const char *test, number_fn run, bool is_zero_dim)
{
    for (int a = 1; a <= DTYPES; a++) {
        for (int number = 0; number < 3; number++) {
            TERN_SCOPE;
            check_dtype(test, (a - 1) * 3 + number, dtype_of(run(one(a, is_zero_dim), number)));
        }
    }
}

static void check_unary(const char *test, unary_fn run)
{
    for (int a = 1; a <= DTYPES; a++) {
        TERN_SCOPE;
        check_dtype(test, a - 1, dtype_of(run(one(a, false))));
    }
}

static tern_tensor *add(tern_tensor *a, tern_tensor *b)
{
    return tern_add(a, b);
}

static tern_tensor *divide(tern_tensor *a, tern_tensor *b)
{
    return tern_div(a, b);
}

static tern_tensor *power(tern_tensor *a, tern_tensor *b)
{
    return tern_pow(a, b);
}

static tern_tensor *add_number(tern_tensor *a, int number)
{
    return number == 0 ? tern_add(a, (bool)true) : number == 1 ? tern_add(a, 2) : tern_add(a, 2.5);
}

static tern_tensor *divide_number(tern_tensor *a, int number)
{
    return number == 0 ? tern_div(a, (bool)true) : number == 1 ? tern_div(a, 2) : tern_div(a, 2.5);
}

static tern_tensor *exponential(tern_tensor *a)
{
    return tern_exp(a);
}

static tern_tensor *total(tern_tensor *a)
{
    return tern_sum(a);
}

static tern_tensor *absolute(tern_tensor *a)
{
    return tern_abs(a);
}

static tern_tensor *negative(tern_tensor *a)
{
    return tern_neg(a);
}

static tern_tensor *rectified(tern_tensor *a)
{
    return tern_relu(a);
}

static void test_dtypes_meet_as_in_pytorch(void **state)
{
    (void)state;
    check_binary("promote_add", add, false);
    check_binary("promote_div", divide, false);
    check_binary("promote_pow", power, false);
    check_binary("promote_zero_dim", add, true);
    check_number("promote_number", add_number, false);
    check_number("promote_number_div", divide_number, false);
    check_number("promote_number_zero_dim", add_number, true);
    check_unary("promote_exp", exponential);
    check_unary("promote_sum", total);
    check_unary("promote_abs", absolute);
    check_unary("promote_neg", negative);
    check_unary("promote_relu", rectified);
}

int main(void)
{
    golden_use("golden", NULL, 0, "");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversions_round_alike),
        cmocka_unit_test(test_dtypes_meet_as_in_pytorch),
    };
    return check_run(tests, golden_setup, golden_teardown);
}
