/* embedding and gather as a user meets them. */
#include "tests/support/check.h"

static tern_tensor *numbers(int64_t rows, int64_t columns)
{
    tern_tensor *flat = tern_arange(0, (double)(rows * columns), .dtype = TERN_F32);
    return tern_view(flat, TERN_SHAPE(rows, columns));
}

static tern_tensor *indices_2x2(void)
{
    static const int64_t rows[] = { 3, 0, 3, 1 };
    return tern_from_data(rows, .shape = TERN_SHAPE(2, 2), .dtype = TERN_I64);
}

static void expect(tern_tensor *t, const float *want, int64_t n)
{
    float got[32];
    assert_no_error();
    assert_int_equal(tern_numel(t), n);
    assert_int_equal(tern_read(t, TERN_F32, got, n * (int64_t)sizeof(float)), TERN_OK);
    for (int64_t i = 0; i < n; i++)
        assert_close(got[i], want[i], 1e-6);
}

static void test_embedding_takes_indices_of_any_shape(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *table = numbers(4, 2);
    const float want[] = { 6, 7, 0, 1, 6, 7, 2, 3 };
    tern_tensor *out = tern_embedding(table, indices_2x2());
    assert_int_equal(tern_ndim(out), 3);
    expect(out, want, 8);
    expect(tern_embedding(table, tern_cast(indices_2x2(), TERN_I32)), want, 8);
    expect(tern_embedding(table, tern_full(2, TERN_SCALAR_SHAPE, TERN_I64)), &(float[]){ 4, 5 }[0],
           2);
    assert_int_equal(tern_numel(tern_embedding(table, tern_zeros(TERN_SHAPE(0), TERN_I64))), 0);
}

static void test_embedding_gradient_adds_rows_that_were_taken_twice(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *table = tern_set_requires_grad(tern_ones(TERN_SHAPE(4, 2)), true);
    tern_tensor *factor = tern_view(numbers(1, 8), TERN_SHAPE(2, 2, 2));
    tern_backward(tern_sum(tern_mul(tern_embedding(table, indices_2x2()), factor)));
    const float want[] = { 2, 3, 6, 7, 0, 0, 0 + 4, 1 + 5 };
    expect(tern_grad_of(table), want, 8);
}

static void test_gather_picks_along_a_dimension(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(tern_clone(numbers(2, 4)), true);
    tern_tensor *picked = tern_gather(x, 1, indices_2x2());
    expect(picked, (const float[]){ 3, 0, 7, 5 }, 4);
    tern_backward(tern_sum(tern_mul(picked, picked)));
    expect(tern_grad_of(x), (const float[]){ 0, 0, 0, 6, 0, 10, 0, 14 }, 8);
    tern_tensor *across = tern_gather(tern_transpose(x, 0, 1), -2, indices_2x2());
    expect(across, (const float[]){ 3, 4, 3, 5 }, 4);
}

/* ---- derivatives ----------------------------------------------------------------------------- */

static tern_tensor *squares_of_rows(tern_tensor *const *in, void *user)
{
    (void)user;
    tern_tensor *rows = tern_embedding(in[0], indices_2x2());
    return tern_mul(rows, rows);
}

static tern_tensor *squares_of_picks(tern_tensor *const *in, void *user)
{
    (void)user;
    tern_tensor *picks = tern_gather(in[0], 0, indices_2x2());
    return tern_mul(picks, picks);
}

static void test_derivatives_agree_with_differences(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(tern_randn(TERN_SHAPE(4, 3), TERN_F64), true);
    tern_gradcheck(squares_of_rows, &x, 1, .order = 2);
    assert_no_error();
    tern_gradcheck(squares_of_picks, &x, 1, .order = 2);
    assert_no_error();
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static void test_embedding_explains_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_refused(tern_embedding(numbers(3, 2), indices_2x2()));
    assert_error(TERN_ERR_INDEX, "index 3 at position 0 is outside the table, which has 3 rows");
    assert_refused(tern_embedding(numbers(3, 2), tern_neg(indices_2x2())));
    assert_error(TERN_ERR_INDEX, "index -3 at position 0");
    assert_null(tern_embedding(numbers(3, 2), numbers(1, 1)));
    assert_error(TERN_ERR_DTYPE, "tern_cast(indices, TERN_I64)");
    assert_null(tern_embedding(tern_ones(TERN_SCALAR_SHAPE), indices_2x2()));
    assert_error(TERN_ERR_SHAPE, "0-dim");
    assert_null(tern_embedding(numbers(3, 2), NULL));
    assert_error(TERN_ERR_ARGUMENT, "input 1 is NULL");
    tern_tensor *deep = tern_zeros(TERN_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), TERN_I64);
    assert_null(tern_embedding(numbers(3, 2), deep));
    assert_error(TERN_ERR_SHAPE, "9 dimensions");
}

static void test_gather_explains_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_refused(tern_gather(numbers(2, 3), 1, indices_2x2()));
    assert_error(TERN_ERR_INDEX, check_on_cpu()
                                     ? "index 3 at position 0 is outside dimension 1, which has 3"
                                     : "index 3 at position 0 is outside its dimension, which has");
    assert_null(tern_gather(numbers(1, 4), 1, indices_2x2()));
    assert_error(TERN_ERR_SHAPE, "the index has 2 in dimension 0 where x has 1");
    assert_null(tern_gather(numbers(2, 4), 2, indices_2x2()));
    assert_error(TERN_ERR_ARGUMENT, "dimension 2 is outside -2 .. 1");
    assert_null(tern_gather(tern_flatten(numbers(2, 4), 0, 1), 0, indices_2x2()));
    assert_error(TERN_ERR_SHAPE, "x has 1 dimensions and the index 2");
    assert_null(tern_gather(numbers(2, 4), 1, numbers(2, 4)));
    assert_error(TERN_ERR_DTYPE, "tern_cast(index, TERN_I64)");
}

static void test_nothing_is_left_over(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    test_embedding_explains_mistakes(state);
    test_gather_explains_mistakes(state);
    test_embedding_gradient_adds_rows_that_were_taken_twice(state);
    assert_int_equal(tern_live_tensors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_takes_indices_of_any_shape),
        cmocka_unit_test(test_embedding_gradient_adds_rows_that_were_taken_twice),
        cmocka_unit_test(test_gather_picks_along_a_dimension),
        cmocka_unit_test(test_derivatives_agree_with_differences),
        cmocka_unit_test(test_embedding_explains_mistakes),
        cmocka_unit_test(test_gather_explains_mistakes),
        cmocka_unit_test(test_nothing_is_left_over),
    };
    return check_run(tests, NULL, NULL);
}
