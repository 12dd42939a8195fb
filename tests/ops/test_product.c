/* Products: what an equation or a shape that does not fit is told, how many copies are made, NaN that
 * stays out, and what autocast does. Values are in opinfo_einsum.c and test_golden_product.c. */
#include <math.h>
#include <stdio.h>

#include "tests/support/check.h"

static tern_tensor *ones(int64_t a, int64_t b)
{
    return tern_ones(TERN_SHAPE(a, b));
}

static void test_equations_that_make_no_sense(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = ones(2, 3), *v = tern_ones(TERN_SHAPE(3));
    const struct {
        const char *equation, *message;
    } wrong[] = {
        { "ij,jk", "fewer parts than operands" },
        { "ij.,j->i", "takes letters" },
        { "i1,j->i", "takes letters" },
        { "...i...,j->i", "takes letters" },
        { "ij,j-i", "has to be followed by" },
        { "ij,j->i,", "goes on after the result" },
        { "ij,j->ii", "letter i stands there twice" },
        { "ij,j->k", "letter k is in no operand" },
        { "i,j->i", "2 dimensions and its part 1" },
        { "ijk,j->i", "its part 3 letters" },
        { "ij,i->j", "called i have 2 and 3" },
        { "ii,i->i", "the diagonal i of operand 0" },
        { "ij,j,k", "more parts than operands" },
        { "abcdefghi,j->", "more letters than a" },
    };
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        if (strcmp(wrong[k].equation, "ij,jk") == 0) /* one operand too few for the text */
            assert_null(tern_einsum("ij", x, v));
        else
            assert_null(tern_einsum(wrong[k].equation, x, v));
        assert_true(tern_failed());
        if (strstr(tern_error_text(), wrong[k].message) == NULL)
            fail_msg("%s: %s", wrong[k].equation, tern_error_text());
        tern_error_clear();
    }
    assert_null(tern_einsum("i,i,i", v, v, v));
    assert_error(TERN_ERR_ARGUMENT, "3 were given");
    assert_null(tern_einsum_at(TERN_HERE, NULL, &v, 1));
    assert_error(TERN_ERR_ARGUMENT, "needs an equation");
    assert_null(tern_einsum("i,i->", v, tern_cast(v, TERN_F64)));
    assert_error(TERN_ERR_DTYPE, "different dtypes: f32 and f64");
    assert_null(tern_einsum("ij,j->i", x, NULL));
    assert_error(TERN_ERR_ARGUMENT, "NULL");
}

static void test_results_of_too_many_dimensions(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1, 1, 1, 1, 1));
    assert_null(tern_einsum("abcde,fghij", x, x));
    assert_error(TERN_ERR_SHAPE, "more than 8 dimensions");
    assert_null(tern_einsum("...,fghij->...fghij", x, x));
    assert_error(TERN_ERR_SHAPE, "more than 8 dimensions");
}

static void test_shapes_that_do_not_fit(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = ones(2, 3), *v = tern_ones(TERN_SHAPE(3));
    tern_tensor *batch = tern_ones(TERN_SHAPE(2, 3, 4));
    assert_null(tern_bmm(batch, batch));
    assert_error(TERN_ERR_SHAPE, "[B, M, K] and [B, K, N]");
    assert_null(tern_bmm(tern_cast(batch, TERN_BOOL), tern_cast(batch, TERN_BOOL)));
    assert_error(TERN_ERR_DTYPE, "a is bool");
    assert_null(tern_dot(v, tern_ones(TERN_SHAPE(4))));
    assert_error(TERN_ERR_SHAPE, "1-D and of one length");
    assert_null(tern_dot(v, tern_cast(v, TERN_F64)));
    assert_error(TERN_ERR_DTYPE, "different dtypes: f32 and f64");
    assert_null(tern_outer(x, v));
    assert_error(TERN_ERR_SHAPE, "1-D");
    assert_null(tern_addmm(v, x, x));
    assert_error(TERN_ERR_SHAPE, "[M, K] and [K, N]");
    assert_null(tern_addmm(tern_ones(TERN_SHAPE(4)), x, ones(3, 3)));
    assert_error(TERN_ERR_SHAPE, "does not broadcast to the product's shape [2, 3]");
    assert_null(tern_addmm(tern_cast(v, TERN_F64), x, ones(3, 3)));
    assert_error(TERN_ERR_DTYPE, "different dtypes: f64 and f32");
}

/* What no gradient needs is not kept: it may change, and goes. Bit i of `which`: operand i has a gradient. */
static void test_addmm_keeps_what_gradients_need(void **state)
{
    (void)state;
    for (int which = 1; which < 8; which++) {
        TERN_SCOPE;
        tern_tensor *in[3], *leaves[3];
        for (int i = 0; i < 3; i++) {
            leaves[i] = tern_full(i + 2, TERN_SHAPE(2, 2), .requires_grad = (which >> i) & 1);
            in[i] = tern_mul(leaves[i], 1);
        }
        tern_tensor *y = tern_addmm(in[0], in[1], in[2], .beta = 2, .alpha = 0.5);
        {
            TERN_NO_GRAD;
            tern_fill(in[0], 0);
            if (!(which & 4))
                tern_fill(in[1], 0);
            if (!(which & 2))
                tern_fill(in[2], 0);
        }
        tern_backward(tern_sum(y));
        assert_no_error();
        static const double want[3] = { 2, 4, 3 };
        for (int i = 0; i < 3; i++)
            if ((which >> i) & 1)
                assert_close(tern_item(tern_mean(tern_grad_of(leaves[i]))), want[i], 0);
    }
}

static void test_a_factor_of_zero_keeps_nan_out(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *nan = tern_full((double)NAN, TERN_SHAPE(2, 2)), *one = ones(2, 2);
    tern_tensor *t = tern_addmm(nan, one, one, .beta = -0.0);
    assert_true(tern_item(tern_sum(t)) == 8);
    t = tern_addmm(one, nan, one, .alpha = -0.0, .beta = 3);
    assert_true(tern_item(tern_sum(t)) == 12);
    tern_tensor *whole = tern_cast(one, TERN_I32);
    t = tern_addmm(whole, whole, whole, .beta = 2.5);
    assert_int_equal(tern_dtype(t), TERN_I32);
    assert_true(tern_item(tern_sum(t)) == 16);
    assert_no_error();
}

/* What is summed is i64, but one element of two operands is not summed: as PyTorch's. */
static void test_one_element_is_not_summed(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = tern_full(3, TERN_SHAPE(4), TERN_I32),
                *one = tern_full(2, TERN_SHAPE(1), TERN_I32);
    tern_tensor *t = tern_einsum("a,e->a", a, one);
    assert_no_error();
    assert_int_equal(tern_dtype(t), TERN_I32);
    assert_true(tern_item(tern_sum(t)) == 24);
    t = tern_einsum("...a,a...b->a", tern_full(3, TERN_SHAPE(2, 1), TERN_I16),
                    tern_full(2, TERN_SHAPE(1, 2, 1), TERN_I16));
    assert_no_error();
    assert_int_equal(tern_dtype(t), TERN_I16);
    assert_true(tern_item(tern_sum(t)) == 12);
    t = tern_einsum("ae,be->ab", tern_reshape(a, TERN_SHAPE(4, 1)),
                    tern_full(2, TERN_SHAPE(2, 1), TERN_I16));
    assert_no_error();
    assert_int_equal(tern_dtype(t), TERN_I32);
    assert_true(tern_item(tern_sum(t)) == 48);
    assert_int_equal(tern_dtype(tern_einsum("ae->a", tern_reshape(a, TERN_SHAPE(4, 1)))), TERN_I64);
    assert_int_equal(tern_dtype(tern_einsum("a,->", one, tern_sum(a))), TERN_I64);
    assert_int_equal(tern_dtype(tern_einsum("a,->", one, tern_cast(tern_sum(a), TERN_I32))),
                     TERN_I32);
    assert_no_error();
}

static int64_t bytes_so_far(void)
{
    return tern_memory_stats(tern_default_device()).allocated_bytes.allocated;
}

/* Contiguous operands in a good order are views for one product: it needs what matmul needs. */
static void test_operands_that_need_no_copy_get_none(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *q = tern_randn(TERN_SHAPE(4, 64, 32)), *k = tern_randn(TERN_SHAPE(4, 48, 32));
    const int64_t start = bytes_so_far();
    tern_matmul(q, tern_transpose(k, 1, 2));
    const int64_t between = bytes_so_far();
    tern_einsum("bqd,bkd->bqk", q, k);
    const int64_t end = bytes_so_far();
    assert_no_error();
    assert_int_equal(end - between, between - start);
}

static tern_dtype_t in_region(tern_tensor *t)
{
    assert_no_error();
    return tern_dtype(t);
}

static void test_autocast(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = ones(3, 3), *v = tern_ones(TERN_SHAPE(3));
    tern_tensor *batch = tern_ones(TERN_SHAPE(2, 3, 3));
    const tern_dtype_t low = tern_autocast_dtype(tern_default_device());
    TERN_AUTOCAST(tern_default_device());
    assert_int_equal(in_region(tern_bmm(batch, batch)), low);
    assert_int_equal(in_region(tern_addmm(v, x, x)), low);
    assert_int_equal(in_region(tern_addmm(v, x, x, .beta = 2)), low);
    assert_int_equal(in_region(tern_dot(v, v)), TERN_F32);
    assert_int_equal(in_region(tern_outer(v, v)), TERN_F32);
    assert_int_equal(in_region(tern_einsum("ij,jk->ik", x, x)), low);
    /* A027: on CUDA all of it is low, whatever it is made of */
    assert_int_equal(in_region(tern_einsum("ij,ij->ij", x, x)), check_on_cpu() ? TERN_F32 : low);
    assert_int_equal(in_region(tern_einsum("ij->i", x)), check_on_cpu() ? TERN_F32 : low);
    assert_int_equal(in_region(tern_einsum("ij,k->k", x, v)), check_on_cpu() ? TERN_F32 : low);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equations_that_make_no_sense),
        cmocka_unit_test(test_results_of_too_many_dimensions),
        cmocka_unit_test(test_shapes_that_do_not_fit),
        cmocka_unit_test(test_addmm_keeps_what_gradients_need),
        cmocka_unit_test(test_a_factor_of_zero_keeps_nan_out),
        cmocka_unit_test(test_operands_that_need_no_copy_get_none),
        cmocka_unit_test(test_autocast),
        cmocka_unit_test(test_one_element_is_not_summed),
    };
    return check_run(tests, NULL, NULL);
}
