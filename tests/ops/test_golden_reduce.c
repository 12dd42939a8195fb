/* Reductions and scans against golden vectors: forward and gradients, in f64 and in f32. */
#include <math.h>

#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

static tern_tensor *all_ones(tern_tensor *x)
{
    return tern_ones(TERN_SHAPE(2, 0), .dtype = tern_dtype(x));
}

#define BY_1(name) GOLDEN_OP(name, tern_##name(in[0], .dims = TERN_DIMS(1)))
#define NORM(name, number) GOLDEN_OP(name, tern_norm(in[0], .dims = TERN_DIMS(2), .p = number))

GOLDEN_OP(amin, tern_amin(in[0]))
GOLDEN_OP(amin_1, tern_amin(in[0], .dims = TERN_DIMS(1)))
GOLDEN_OP(amax_1, tern_amax(in[0], .dims = TERN_DIMS(1)))
GOLDEN_OP(min_1, tern_min(in[0], 1, NULL))
GOLDEN_OP(min_0, tern_min(in[0], 0, NULL))
GOLDEN_OP(argmin_2, tern_argmin(in[0], 2))
GOLDEN_OP(argmin_1, tern_argmin(in[0], 1))
GOLDEN_OP(argmax_1, tern_argmax(in[0], 1))
BY_1(any)
BY_1(all)
BY_1(logsumexp)
BY_1(prod)
GOLDEN_OP(any_none, tern_any(all_ones(in[0]), .dims = TERN_DIMS(1)))
GOLDEN_OP(all_none, tern_all(all_ones(in[0]), .dims = TERN_DIMS(1)))
GOLDEN_OP(logsumexp_none, tern_logsumexp(all_ones(in[0]), .dims = TERN_DIMS(1)))
GOLDEN_OP(prod_none, tern_prod(all_ones(in[0]), .dims = TERN_DIMS(1)))
GOLDEN_OP(std, tern_std(in[0], .dims = TERN_DIMS(2)))
GOLDEN_OP(std_1, tern_std(in[0], .dims = TERN_DIMS(1)))
GOLDEN_OP(std_all, tern_std(in[0], .no_correction = true))
GOLDEN_OP(logsumexp_dims, tern_logsumexp(in[0], .dims = TERN_DIMS(0, 2), .keepdim = true))
NORM(norm_2, 0)
NORM(norm_1, 1)
NORM(norm_3, 3)
NORM(norm_half, 0.5)
NORM(norm_between, 1.5)
NORM(norm_minus, -1)
NORM(norm_greatest, INFINITY)
NORM(norm_least, -INFINITY)
GOLDEN_OP(norm_0, tern_norm(in[0], .dims = TERN_DIMS(0, 2), .p = TERN_ZERO))
GOLDEN_OP(norm_all, tern_norm(in[0]))
GOLDEN_OP(norm_ties, tern_norm(in[0], .dims = TERN_DIMS(1), .p = INFINITY))
GOLDEN_OP(norm_3_1, tern_norm(in[0], .dims = TERN_DIMS(1), .p = 3))
GOLDEN_OP(prod_all, tern_prod(in[0]))
GOLDEN_OP(prod_dim1, tern_prod(in[0], .dims = TERN_DIMS(1), .keepdim = true))
GOLDEN_OP(cumsum, tern_cumsum(in[0], 1))
GOLDEN_OP(cumsum_last, tern_cumsum(in[0], -1))
GOLDEN_OP(cumprod, tern_cumprod(in[0], 1))
GOLDEN_OP(cumprod_0, tern_cumprod(in[0], 0))
GOLDEN_OP(cumsum_square, tern_mul(tern_cumsum(in[0], 1), tern_cumsum(in[0], 1)))

static const golden_row rows[] = {
    { "amin", "x", run_amin, 0 },
    { "amin_ties", "x", run_amin_1, 4 },
    { "amin_nan", "x", run_amin_1, 0 },
    { "amax_nan", "x", run_amax_1, 0 },
    { "min_ties", "x", run_min_1, 0 },
    { "min_keep", "x", run_min_0, 0 },
    { "argmin", "x", run_argmin_2, 0 },
    { "argmin_nan", "x", run_argmin_1, 0 },
    { "argmax_nan", "x", run_argmax_1, 0 },
    { "any", "x", run_any, 0 },
    { "all", "x", run_all, 0 },
    { "any_none", "x", run_any_none, 0 },
    { "all_none", "x", run_all_none, 0 },
    { "std", "x", run_std, 32 },
    { "std_all", "x", run_std_all, 32 },
    { "std_0", "x", run_std_1, 32 },
    { "logsumexp", "x", run_logsumexp, 16 },
    { "logsumexp_dims", "x", run_logsumexp_dims, 16 },
    { "logsumexp_inf", "x", run_logsumexp, 16 },
    { "logsumexp_none", "x", run_logsumexp_none, 0 },
    { "norm_2", "x", run_norm_2, 16 },
    { "norm_1", "x", run_norm_1, 16 },
    { "norm_3", "x", run_norm_3, 32 },
    { "norm_half", "x", run_norm_half, 64 },
    { "norm_between", "x", run_norm_between, 32 },
    { "norm_minus", "x", run_norm_minus, 64 },
    { "norm_greatest", "x", run_norm_greatest, 0 },
    { "norm_least", "x", run_norm_least, 0 },
    { "norm_0", "x", run_norm_0, 0 },
    { "norm_all", "x", run_norm_all, 32 },
    { "norm_ties", "x", run_norm_ties, 4 },
    { "prod_all", "x", run_prod_all, 32 },
    { "prod_dim1", "x", run_prod_dim1, 32 },
    { "prod_zeros", "x", run_prod, 16 },
    { "prod_none", "x", run_prod_none, 0 },
    { "cumsum", "x", run_cumsum, 16 },
    { "cumsum_last", "x", run_cumsum_last, 16 },
    { "cumsum_odd", "x", run_cumsum, 16 },
    { "cumprod", "x", run_cumprod, 32 },
    { "cumprod_0", "x", run_cumprod_0, 32 },
    { "cumprod_zeros", "x", run_cumprod, 16 },
    { "cumprod_odd", "x", run_cumprod, 16 },
};
enum { ROWS = sizeof rows / sizeof *rows };

static void test_ops_agree_with_golden_vectors(void **state)
{
    (void)state;
    golden_check_rows(rows, ROWS);
}

static void test_min_says_where(void **state)
{
    (void)state;
    TERN_SCOPE;
    const golden_row r = { "min_ties", "x", NULL, 0 };
    golden_inputs in = golden_make_inputs(&r, TERN_F32);
    tern_tensor *indices = NULL;
    tern_min(in.tensors[0], 1, &indices);
    golden_check(&r, TERN_F32, "indices", indices, golden_find(r.test, "y2"));
}

static void test_second_order_gradients(void **state)
{
    (void)state;
    golden_check_second_order("second_prod", run_prod);
    golden_check_second_order("second_cumprod", run_cumprod);
    golden_check_second_order("second_cumsum", run_cumsum_square);
    golden_check_second_order("second_std", run_std_1);
    golden_check_second_order("second_norm", run_norm_3_1);
    golden_check_second_order("second_logsumexp", run_logsumexp);
}

static tern_tensor *dtype_any(tern_tensor *x)
{
    return tern_any(x);
}
static tern_tensor *dtype_all(tern_tensor *x)
{
    return tern_all(x);
}
static tern_tensor *dtype_prod(tern_tensor *x)
{
    return tern_prod(x);
}
static tern_tensor *dtype_amin(tern_tensor *x)
{
    return tern_amin(x);
}
static tern_tensor *dtype_logsumexp(tern_tensor *x)
{
    return tern_logsumexp(x);
}
static tern_tensor *dtype_cumsum(tern_tensor *x)
{
    return tern_cumsum(x, 0);
}
static tern_tensor *dtype_cumprod(tern_tensor *x)
{
    return tern_cumprod(x, 0);
}

static void test_dtypes_of_results(void **state)
{
    (void)state;
    static const struct {
        const char *test;
        tern_tensor *(*run)(tern_tensor *x);
    } ops[] = { { "dtype_any", dtype_any },
                { "dtype_all", dtype_all },
                { "dtype_prod", dtype_prod },
                { "dtype_amin", dtype_amin },
                { "dtype_cumsum", dtype_cumsum },
                { "dtype_cumprod", dtype_cumprod },
                { "dtype_logsumexp", dtype_logsumexp } };
    TERN_SCOPE;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const golden_array *want = golden_find(ops[i].test, "y");
        assert_non_null(want);
        for (int64_t d = 0; d < want->v.numel; d++) {
            tern_tensor *x = tern_ones(TERN_SHAPE(2), .dtype = (tern_dtype_t)(d + 1));
            tern_tensor *y = ops[i].run(x);
            assert_no_error();
            assert_int_equal(tern_dtype(y), (int)want->v.data[d]);
        }
    }
}

static void test_every_case_has_a_test(void **state)
{
    (void)state;
    static const char *const elsewhere[] = { "second_", "dtype_", NULL };
    golden_check_complete(rows, ROWS, elsewhere);
}

static int open_golden(void **state)
{
    (void)state;
    return golden_open_or_say("reduce");
}

static int close_golden(void **state)
{
    (void)state;
    golden_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_agree_with_golden_vectors),
        cmocka_unit_test(test_min_says_where),
        cmocka_unit_test(test_second_order_gradients),
        cmocka_unit_test(test_dtypes_of_results),
        cmocka_unit_test(test_every_case_has_a_test),
    };
    return check_run(tests, open_golden, close_golden);
}
