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
GOLDEN_OP(min_1, tern_min(in[0], 1, &golden_second))
GOLDEN_OP(min_0, tern_min(in[0], 0, &golden_second))
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
    GOLDEN_SECOND_ORDER("prod", run_prod),
    GOLDEN_SECOND_ORDER("cumprod", run_cumprod),
    GOLDEN_SECOND_ORDER("cumsum", run_cumsum_square),
    GOLDEN_SECOND_ORDER("std", run_std_1),
    GOLDEN_SECOND_ORDER("norm", run_norm_3_1),
    GOLDEN_SECOND_ORDER("logsumexp", run_logsumexp),
};

/* ---- dtypes of results ---------------------------------------------------------------------------- */

GOLDEN_OP(dtype_any, tern_any(in[0]))
GOLDEN_OP(dtype_all, tern_all(in[0]))
GOLDEN_OP(dtype_prod, tern_prod(in[0]))
GOLDEN_OP(dtype_amin, tern_amin(in[0]))
GOLDEN_OP(dtype_logsumexp, tern_logsumexp(in[0]))
GOLDEN_OP(dtype_cumsum, tern_cumsum(in[0], 0))
GOLDEN_OP(dtype_cumprod, tern_cumprod(in[0], 0))

static void test_dtypes_of_results(void **state)
{
    (void)state;
    static const struct {
        const char *test;
        golden_fn run;
    } ops[] = { { "dtype_any", run_dtype_any },
                { "dtype_all", run_dtype_all },
                { "dtype_prod", run_dtype_prod },
                { "dtype_amin", run_dtype_amin },
                { "dtype_cumsum", run_dtype_cumsum },
                { "dtype_cumprod", run_dtype_cumprod },
                { "dtype_logsumexp", run_dtype_logsumexp } };
    TERN_SCOPE;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const golden_array *want = golden_need(ops[i].test, "y");
        for (int64_t d = 0; d < want->v.numel; d++) {
            tern_tensor *x = tern_ones(TERN_SHAPE(2), .dtype = (tern_dtype_t)(d + 1));
            tern_tensor *y = ops[i].run(&x);
            assert_no_error();
            assert_int_equal(tern_dtype(y), (int)want->v.data[d]);
        }
    }
}

int main(void)
{
    golden_use("reduce", rows, sizeof rows / sizeof *rows, "dtype_");
    const struct CMUnitTest tests[] = {
        GOLDEN_TESTS,
        cmocka_unit_test(test_dtypes_of_results),
    };
    return check_run(tests, golden_setup, golden_teardown);
}
