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

static void test_embedding_row_of_padding_has_no_gradient(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *table = tern_set_requires_grad(tern_clone(numbers(4, 2)), true);
    tern_tensor *factor = tern_view(numbers(1, 8), TERN_SHAPE(2, 2, 2));
    tern_tensor *rows = tern_embedding(table, indices_2x2(), .padding_idx = 3, .padding = true);
    expect(rows, (const float[]){ 6, 7, 0, 1, 6, 7, 2, 3 }, 8);
    tern_backward(tern_sum(tern_mul(rows, factor)));
    expect(tern_grad_of(table), (const float[]){ 2, 3, 6, 7, 0, 0, 0, 0 }, 8);

    /* A table that something else uses too keeps that gradient. */
    tern_set_grad(table, NULL);
    rows = tern_embedding(table, indices_2x2(), .padding_idx = 3, .padding = true);
    tern_backward(tern_add(tern_sum(tern_mul(rows, factor)), tern_sum(table)));
    expect(tern_grad_of(table), (const float[]){ 3, 4, 7, 8, 1, 1, 1, 1 }, 8);
}

static void test_embedding_row_of_padding_has_no_second_gradient(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(tern_cast(numbers(4, 2), TERN_F64), true);
    tern_tensor *rows = tern_embedding(x, indices_2x2(), .padding_idx = -1, .padding = true);
    tern_tensor *g = NULL;
    tern_grad(tern_sum(tern_mul(rows, rows)), &x, 1, &g, .create_graph = true);
    expect(tern_cast(g, TERN_F32), (const float[]){ 0, 2, 4, 6, 0, 0, 0, 0 }, 8);
    tern_tensor *second = NULL;
    tern_grad(tern_sum(g), &x, 1, &second);
    expect(tern_cast(second, TERN_F32), (const float[]){ 2, 2, 2, 2, 0, 0, 0, 0 }, 8);
}

static void test_embedding_layer_with_padding(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *layer = tern_embedding_layer(4, 2, .padding_idx = -1, .padding = true);
    tern_tensor *weight = tern_parameters(layer).tensors[0];
    expect(tern_select(weight, 0, 3), (const float[]){ 0, 0 }, 2);
    assert_true(tern_item(tern_select(tern_select(weight, 0, 0), 0, 0)) != 0);
    tern_backward(tern_sum(tern_forward(layer, indices_2x2())));
    expect(tern_grad_of(weight), (const float[]){ 1, 1, 1, 1, 0, 0, 0, 0 }, 8);
    tern_module_free(layer);
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
    tern_tensor *z = tern_set_requires_grad(tern_clone(numbers(2, 4)), true);
    picked = tern_gather(z, 1, tern_cast(indices_2x2(), TERN_I32));
    expect(picked, (const float[]){ 3, 0, 7, 5 }, 4);
    tern_backward(tern_sum(tern_mul(picked, picked)));
    expect(tern_grad_of(z), (const float[]){ 0, 0, 0, 6, 0, 10, 0, 14 }, 8);
    assert_null(tern_gather(z, 1, tern_cast(indices_2x2(), TERN_I16)));
    assert_error(TERN_ERR_DTYPE, "the index is i16; it has to be i64 or i32");
}

static void test_gather_from_one_element(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_full(5, TERN_SCALAR_SHAPE, .requires_grad = true);
    tern_tensor *twice = tern_zeros(TERN_SHAPE(2), TERN_I64), *y = tern_gather(x, -1, twice);
    expect(y, (const float[]){ 5, 5 }, 2);
    tern_backward(tern_sum(y));
    assert_int_equal(tern_ndim(tern_grad_of(x)), 0);
    expect(tern_grad_of(x), (const float[]){ 2 }, 1);
    assert_int_equal(tern_numel(tern_gather(x, 0, tern_zeros(TERN_SHAPE(0), TERN_I64))), 0);
    assert_null(tern_gather(x, 0, tern_zeros(TERN_SHAPE(1, 1), TERN_I64)));
    assert_error(TERN_ERR_SHAPE, "gather: x has 0 dimensions and the index 2");
    assert_null(tern_gather(x, 1, twice));
    assert_error(TERN_ERR_ARGUMENT, "gather: ");
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

/* Of several wrong indices a device names whichever its threads found first. */
static void assert_outside(const char *text)
{
    assert_error(TERN_ERR_INDEX, check_on_cpu() ? text : " at position ");
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static void test_embedding_explains_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_refused(tern_embedding(numbers(3, 2), indices_2x2()));
    assert_outside("index 3 at position 0 is outside the table, which has 3 rows");
    assert_refused(tern_embedding(numbers(3, 2), tern_neg(indices_2x2())));
    assert_outside("index -3 at position 0");
    assert_null(tern_embedding(numbers(3, 2), numbers(1, 1)));
    assert_error(TERN_ERR_DTYPE, "tern_cast(indices, TERN_I64)");
    assert_null(tern_embedding(tern_ones(TERN_SCALAR_SHAPE), indices_2x2()));
    assert_error(TERN_ERR_SHAPE, "0-dim");
    assert_null(tern_embedding(numbers(3, 2), NULL));
    assert_error(TERN_ERR_ARGUMENT, "indices is NULL");
    assert_null(tern_embedding(numbers(4, 2), indices_2x2(), .padding_idx = 4, .padding = true));
    assert_error(TERN_ERR_INDEX, "padding_idx 4 is outside the table, which has 4 rows");
    assert_null(tern_embedding(numbers(4, 2), indices_2x2(), .padding_idx = -5, .padding = true));
    assert_error(TERN_ERR_INDEX, "padding_idx -5 is outside the table, which has 4 rows");
    tern_tensor *deep = tern_zeros(TERN_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), TERN_I64);
    assert_null(tern_embedding(numbers(3, 2), deep));
    assert_error(TERN_ERR_SHAPE, "9 dimensions");
}

static void test_gather_explains_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_refused(tern_gather(numbers(2, 3), 1, indices_2x2()));
    assert_outside("index 3 at position 0 is outside dimension 1, which has 3");
    assert_null(tern_gather(numbers(1, 4), 1, indices_2x2()));
    assert_error(TERN_ERR_SHAPE, "the index has 2 in dimension 0 where x has 1");
    assert_null(tern_gather(numbers(2, 4), 2, indices_2x2()));
    assert_error(TERN_ERR_ARGUMENT, "dimension 2 is outside -2 .. 1");
    assert_null(tern_gather(tern_flatten(numbers(2, 4), 0, 1), 0, indices_2x2()));
    assert_error(TERN_ERR_SHAPE, "x has 1 dimensions and the index 2");
    assert_null(tern_gather(numbers(2, 4), 1, numbers(2, 4)));
    assert_error(TERN_ERR_DTYPE, "tern_cast(index, TERN_I64)");
}

/* ---- index_select, scatter ------------------------------------------------------------------- */

static void test_index_select(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(2, 3),
                *index = tern_from_data(((const int64_t[]){ 2, 0 }), TERN_SHAPE(2), TERN_I64);
    expect(tern_index_select(x, 1, index), (const float[]){ 2, 0, 5, 3 }, 4);
    expect(tern_index_select(tern_transpose(x, 0, 1), 0, index), (const float[]){ 2, 5, 0, 3 }, 4);
    expect(tern_index_select(x, 0, tern_ones(TERN_SCALAR_SHAPE, TERN_I32)),
           (const float[]){ 3, 4, 5 }, 3);
    assert_int_equal(tern_numel(tern_index_select(x, 0, tern_zeros(TERN_SHAPE(0), TERN_I64))), 0);
    expect(
        tern_index_select(tern_full(7, TERN_SCALAR_SHAPE), 0, tern_zeros(TERN_SHAPE(1), TERN_I64)),
        (const float[]){ 7 }, 1);
    assert_refused(tern_index_select(x, 0, index));
    assert_outside("index 2 at position 0 is outside");
    assert_refused(tern_index_select(x, 0, tern_neg(tern_ones(TERN_SHAPE(2), TERN_I64))));
    assert_outside("index -1 at position 0");
    tern_tensor *second = tern_from_data(((const int64_t[]){ 0, 5 }), TERN_SHAPE(2), TERN_I64);
    assert_refused(tern_index_select(x, 0, second)); /* the index's place, not the result's */
    assert_outside("index 5 at position 1 is outside dimension 0, which has 2\n");
    if (tern_device(x).kind == TERN_KIND_CPU) { /* a device launches nothing then */
        assert_null(tern_index_select(tern_zeros(TERN_SHAPE(2, 0, 2)), 2, index));
        assert_error(TERN_ERR_INDEX, "index 2 at position 0 is outside dimension 2, which has 2");
    }
    tern_tensor *empty = tern_index_select(tern_zeros(TERN_SHAPE(0, 3)), 1, index);
    assert_int_equal(tern_size(empty, 1), 2);
    assert_null(tern_index_select(x, 0, indices_2x2()));
    assert_error(TERN_ERR_SHAPE, "1-D or 0-dim");
    assert_null(tern_index_select(x, 0, tern_ones(TERN_SHAPE(1))));
    assert_error(TERN_ERR_DTYPE, "has to be i64");
}

static void test_scatter(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(2, 4)), *index = indices_2x2();
    expect(tern_scatter(x, 1, index, numbers(2, 2)), (const float[]){ 1, 0, 0, 0, 0, 3, 0, 2 }, 8);
    expect(tern_scatter_add(x, 1, tern_zeros(TERN_SHAPE(2, 2), TERN_I32), 2),
           (const float[]){ 4, 0, 0, 0, 4, 0, 0, 0 }, 8);
    expect(x, (const float[]){ 0, 0, 0, 0, 0, 0, 0, 0 }, 8);
    assert_ptr_equal(tern_scatter_(x, 1, index, numbers(3, 3)), x);
    expect(x, (const float[]){ 1, 0, 0, 0, 0, 4, 0, 3 }, 8);
    expect(
        tern_scatter_add_(tern_transpose(x, 0, 1), 0, tern_zeros(TERN_SHAPE(1, 2), TERN_I64), 1.0),
        (const float[]){ 2, 1, 0, 4, 0, 0, 0, 3 }, 8);
    tern_tensor *small = tern_zeros(TERN_SHAPE(2), TERN_U8),
                *twice = tern_zeros(TERN_SHAPE(2), TERN_I64);
    expect(tern_cast(tern_scatter_add(small, 0, twice, 200), TERN_F32), (const float[]){ 144, 0 },
           2);
    expect(tern_cast(tern_scatter_add(tern_cast(small, TERN_BOOL), 0, twice, true), TERN_F32),
           (const float[]){ 1, 0 }, 2);
}

static tern_tensor *whole(const int64_t *values, int64_t n)
{
    return tern_from_data(values, TERN_SHAPE(n), TERN_I64);
}

/* What is read lies under what is written: it counts as it was before. */
static void test_operands_that_are_written_over_are_read_first(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *next = whole((const int64_t[]){ 1, 2, 3, 4, 5, 0 }, 6);
    tern_tensor *x = tern_arange(0, 6), *y = tern_arange(0, 6), *z = tern_arange(0, 6);
    expect(tern_scatter_(x, 0, next, x), (const float[]){ 5, 0, 1, 2, 3, 4 }, 6);
    expect(tern_scatter_add_(y, 0, next, y), (const float[]){ 5, 1, 3, 5, 7, 9 }, 6);
    expect(tern_scatter_(z, 0, whole((const int64_t[]){ 1, 2, 3 }, 3), tern_slice(z, 0, 0, 3)),
           (const float[]){ 0, 0, 1, 2, 4, 5 }, 6);
    tern_tensor *i = whole((const int64_t[]){ 1, 2, 3, 0 }, 4);
    expect(tern_cast(tern_scatter_(i, 0, i, 7), TERN_F32), (const float[]){ 7, 7, 7, 7 }, 4);
    tern_tensor *j = whole((const int64_t[]){ 1, 2, 3, 0 }, 4);
    expect(tern_cast(tern_index_put_(j, 9, false, j), TERN_F32), (const float[]){ 9, 9, 9, 9 }, 4);
    tern_tensor *v = tern_arange(0, 6);
    expect(
        tern_index_put_(v, tern_slice(v, 0, 0, 3), false, whole((const int64_t[]){ 1, 2, 3 }, 3)),
        (const float[]){ 0, 0, 1, 2, 4, 5 }, 6);
    tern_tensor *w = tern_arange(0, 6);
    expect(tern_index_put_(w, tern_select(w, 0, 5), true, next),
           (const float[]){ 5, 6, 7, 8, 9, 10 }, 6);
}

/* The copy is recorded: both ways of x into the result count. */
static void test_gradients_through_a_source_that_is_written_over(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *leaf = tern_set_requires_grad(tern_ones(TERN_SHAPE(3)), true);
    tern_tensor *x = tern_mul(leaf, 2);
    tern_scatter_add_(x, 0, whole((const int64_t[]){ 1, 1, 2 }, 3), x);
    tern_backward(tern_sum(tern_mul(x, tern_arange(1, 4))));
    expect(tern_grad_of(leaf), (const float[]){ 2 + 4, 4 + 4, 6 + 6 }, 3);
}

/* Two tensors over one array of the caller's have two storages. */
static void test_what_is_read_lies_where_it_is_written(void **state)
{
    (void)state;
    TERN_SCOPE;
    float memory[4] = { 1, 2, 3, 4 };
    const tern_dev_t cpu = TERN_CPU;
    tern_tensor *to = tern_from_memory(memory + 1, NULL, NULL, TERN_SHAPE(3), .device = cpu);
    tern_tensor *from = tern_from_memory(memory, NULL, NULL, TERN_SHAPE(3), .device = cpu);
    tern_tensor *order = tern_arange(0, 3, .device = cpu);
    tern_scatter_(to, 0, order, from);
    expect(to, (const float[]){ 1, 2, 3 }, 3);
    tern_index_add_(to, 0, order, from);
    expect(to, (const float[]){ 2, 3, 5 }, 3);
    tern_index_put_(to, from, false, order);
    expect(to, (const float[]){ 1, 2, 3 }, 3);
    assert_no_error();
}

static void test_scatter_explains_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(2, 3)), *index = indices_2x2();
    assert_refused(tern_scatter_(x, 1, index, 1));
    assert_outside("index 3 at position 0 is outside");
    if (check_on_cpu()) /* nothing was written */
        expect(x, (const float[]){ 0, 0, 0, 0, 0, 0 }, 6);
    assert_null(tern_scatter(x, 1, index, numbers(2, 1)));
    assert_error(TERN_ERR_SHAPE, "src is smaller than the index");
    assert_null(tern_scatter(x, 1, index, tern_cast(numbers(2, 2), TERN_F64)));
    assert_error(TERN_ERR_DTYPE, "x is f32 and src f64");
    assert_null(tern_scatter(numbers(1, 4), 1, index, 1));
    assert_error(TERN_ERR_SHAPE, "the index has 2 in dimension 0");
    assert_null(tern_scatter(x, 1, index, (tern_tensor *)NULL));
    assert_error(TERN_ERR_ARGUMENT, "src is NULL");
    assert_null(tern_scatter(NULL, 1, index, 1));
    assert_error(TERN_ERR_ARGUMENT, "x is NULL");
    assert_null(
        tern_scatter_(tern_expand(tern_zeros(TERN_SHAPE(1, 4)), TERN_SHAPE(2, 4)), 1, index, 1));
    assert_error(TERN_ERR_ARGUMENT, "share one place");
    assert_null(tern_scatter_(tern_ones(TERN_SHAPE(2, 4), .requires_grad = true), 1, index, 1));
    assert_error(TERN_ERR_GRAD, "a leaf");
}

/* ---- index, index_put ------------------------------------------------------------------------ */

static void test_index_put_writes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(2, 3));
    tern_tensor *i = tern_from_data(((const int64_t[]){ 0, -1, 0 }), TERN_SHAPE(3), TERN_I64);
    assert_ptr_equal(tern_index_put_(x, 2, false, NULL, tern_slice(i, 0, 1)), x);
    expect(x, (const float[]){ 2, 0, 2, 2, 0, 2 }, 6);
    assert_ptr_equal(tern_index_put_(x, 1, true, i, tern_zeros(TERN_SCALAR_SHAPE, TERN_I64)), x);
    expect(x, (const float[]){ 4, 0, 2, 3, 0, 2 }, 6);
    expect(tern_index_put(x, 9, false, tern_gt(x, 2.5)), (const float[]){ 9, 0, 2, 9, 0, 2 }, 6);
    assert_int_equal(tern_numel(tern_index(x, tern_gt(x, 100))), 0);
    tern_tensor *y = tern_set_requires_grad(tern_ones(TERN_SHAPE(2, 3)), true);
    tern_tensor *z =
        tern_index_put_(tern_mul(y, 2), 5, false, tern_zeros(TERN_SHAPE(1), TERN_I64), i);
    tern_backward(tern_sum(z));
    expect(tern_grad_of(y), (const float[]){ 0, 2, 0, 2, 2, 2 }, 6);
}

static void test_index_explains_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(2, 3), *one = tern_ones(TERN_SHAPE(1), TERN_I64);
    assert_refused(tern_index(x, tern_mul(one, 2)));
    assert_outside("index 2 at position 0 is outside");
    assert_refused(tern_index_put(x, 1, false, NULL, tern_mul(one, -4)));
    assert_outside("index -4 at position 0 is outside");
    assert_null(tern_index(x, one, one, one));
    assert_error(TERN_ERR_INDEX, "more indices than the 2 dimensions");
    assert_null(tern_index(x, one, NULL, NULL));
    assert_error(TERN_ERR_INDEX, "more indices than the 2 dimensions");
    assert_null(tern_index(x, NULL, NULL));
    assert_error(TERN_ERR_ARGUMENT, "at least one index");
    assert_null(tern_index(x, tern_zeros(TERN_SHAPE(3), TERN_BOOL)));
    assert_error(TERN_ERR_INDEX, "a mask of shape [3]");
    assert_null(tern_index(x, x));
    assert_error(TERN_ERR_DTYPE, "i64, i32 or bool");
    assert_null(
        tern_index(x, tern_zeros(TERN_SHAPE(2), TERN_I64), tern_zeros(TERN_SHAPE(3), TERN_I64)));
    assert_error(TERN_ERR_SHAPE, "do not broadcast");
    assert_null(tern_index_put(x, one, false, one));
    assert_error(TERN_ERR_DTYPE, "the values are i64");
    assert_null(tern_index_put(x, tern_ones(TERN_SHAPE(5)), false, one));
    assert_error(TERN_ERR_SHAPE, "cannot be expanded");
}

/* ---- results whose size depends on data ------------------------------------------------------- */

static void test_nonzero_and_masked_select(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(2, 2);
    expect(tern_cast(tern_nonzero(x), TERN_F32), (const float[]){ 0, 1, 1, 0, 1, 1 }, 6);
    expect(tern_cast(tern_nonzero(tern_transpose(x, 0, 1)), TERN_F32),
           (const float[]){ 0, 1, 1, 0, 1, 1 }, 6);
    tern_tensor *scalar = tern_nonzero(tern_ones(TERN_SCALAR_SHAPE));
    assert_int_equal(tern_size(scalar, 0), 1);
    assert_int_equal(tern_size(scalar, 1), 0);
    assert_int_equal(tern_size(tern_nonzero(tern_zeros(TERN_SCALAR_SHAPE)), 0), 0);
    assert_int_equal(tern_size(tern_nonzero(tern_zeros(TERN_SHAPE(0, 3))), 1), 2);
    tern_tensor *many = tern_nonzero(tern_ones(TERN_SHAPE(3, 70001), TERN_BOOL));
    assert_int_equal(tern_size(many, 0), 210003);
    assert_close(tern_item(tern_slice(tern_select(many, 1, 1), 0, -1)), 70000, 0);
    expect(tern_masked_select(x, tern_gt(x, 1.5)), (const float[]){ 2, 3 }, 2);
    assert_int_equal(tern_numel(tern_masked_select(x, tern_gt(x, 9))), 0);
    assert_null(tern_masked_select(x, x));
    assert_error(TERN_ERR_DTYPE, "accepted are: bool");
    assert_null(tern_masked_select(x, tern_zeros(TERN_SHAPE(3), TERN_BOOL)));
    assert_error(TERN_ERR_SHAPE, "do not broadcast");
}

static void test_one_hot(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *index = tern_from_data(((const int64_t[]){ 2, 0 }), TERN_SHAPE(2), TERN_I64);
    expect(tern_cast(tern_one_hot(index, 0), TERN_F32), (const float[]){ 0, 0, 1, 1, 0, 0 }, 6);
    assert_int_equal(tern_size(tern_one_hot(tern_cast(index, TERN_I32), 5), 1), 5);
    assert_int_equal(tern_size(tern_one_hot(tern_zeros(TERN_SHAPE(0), TERN_I64), 3), 1), 3);
    assert_refused(tern_one_hot(index, 2));
    assert_outside("index 2 at position 0 is outside");
    assert_refused(tern_one_hot(tern_neg(index), 3));
    assert_error(TERN_ERR_INDEX, "index -2");
    assert_null(tern_one_hot(tern_zeros(TERN_SHAPE(0), TERN_I64), 0));
    assert_error(TERN_ERR_ARGUMENT, "empty index");
    assert_null(tern_one_hot(numbers(1, 1), 3));
    assert_error(TERN_ERR_DTYPE, "accepted are: i32 i64");
}

static void test_sums_repeat_where_that_is_asked_for(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(300, 7)),
                *index = tern_randint(0, 3, TERN_SHAPE(300, 7));
    tern_use_deterministic_algorithms(true);
    tern_tensor *first = tern_scatter_add(tern_zeros(TERN_SHAPE(3, 7)), 0, index, x);
    tern_tensor *flat = tern_set_requires_grad(tern_zeros(TERN_SHAPE(3, 7)), true);
    tern_backward(tern_sum(tern_mul(tern_gather(flat, 0, index), x)));
    tern_use_deterministic_algorithms(false);
    float sums[21], want[21] = { 0 }, values[2100];
    int64_t places[2100];
    assert_int_equal(tern_read(x, TERN_F32, values, sizeof values), TERN_OK);
    assert_int_equal(tern_read(index, TERN_I64, places, sizeof places), TERN_OK);
    for (int i = 0; i < 2100; i++) /* in the order of the index */
        want[places[i] * 7 + i % 7] += values[i];
    assert_int_equal(tern_read(first, TERN_F32, sums, sizeof sums), TERN_OK);
    assert_memory_equal(sums, want, sizeof sums);
    assert_int_equal(tern_read(tern_grad_of(flat), TERN_F32, sums, sizeof sums), TERN_OK);
    assert_memory_equal(sums, want, sizeof sums);
}

/* Of equal indices the last one's value stays, where that is asked for. */
static void test_writes_repeat_where_that_is_asked_for(void **state)
{
    (void)state;
    TERN_SCOPE;
    float out[3];
    tern_tensor *index = tern_zeros(TERN_SHAPE(500, 3), TERN_I64);
    tern_tensor *lines = tern_arange(0, 1500);
    tern_use_deterministic_algorithms(true);
    tern_tensor *written = tern_scatter(tern_zeros(TERN_SHAPE(2, 3)), 0, index,
                                        tern_cast(tern_view(lines, TERN_SHAPE(500, 3)), TERN_F32));
    tern_tensor *one =
        tern_scatter(tern_zeros(TERN_SCALAR_SHAPE), 0, tern_zeros(TERN_SCALAR_SHAPE, TERN_I64),
                     tern_full(7, TERN_SCALAR_SHAPE));
    tern_use_deterministic_algorithms(false);
    assert_int_equal(tern_read(tern_select(written, 0, 0), TERN_F32, out, sizeof out), TERN_OK);
    for (int i = 0; i < 3; i++)
        assert_true(out[i] == (float)(1497 + i));
    assert_close(tern_item(one), 7, 0);
}

static void test_nothing_is_left_over(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    test_embedding_explains_mistakes(state);
    test_gather_explains_mistakes(state);
    test_scatter_explains_mistakes(state);
    test_index_put_writes(state);
    test_index_explains_mistakes(state);
    test_nonzero_and_masked_select(state);
    test_one_hot(state);
    test_embedding_gradient_adds_rows_that_were_taken_twice(state);
    assert_int_equal(tern_live_tensors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_takes_indices_of_any_shape),
        cmocka_unit_test(test_embedding_gradient_adds_rows_that_were_taken_twice),
        cmocka_unit_test(test_embedding_row_of_padding_has_no_gradient),
        cmocka_unit_test(test_embedding_row_of_padding_has_no_second_gradient),
        cmocka_unit_test(test_embedding_layer_with_padding),
        cmocka_unit_test(test_gather_picks_along_a_dimension),
        cmocka_unit_test(test_derivatives_agree_with_differences),
        cmocka_unit_test(test_embedding_explains_mistakes),
        cmocka_unit_test(test_gather_explains_mistakes),
        cmocka_unit_test(test_index_select),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_operands_that_are_written_over_are_read_first),
        cmocka_unit_test(test_gradients_through_a_source_that_is_written_over),
        cmocka_unit_test(test_what_is_read_lies_where_it_is_written),
        cmocka_unit_test(test_scatter_explains_mistakes),
        cmocka_unit_test(test_index_put_writes),
        cmocka_unit_test(test_index_explains_mistakes),
        cmocka_unit_test(test_nonzero_and_masked_select),
        cmocka_unit_test(test_one_hot),
        cmocka_unit_test(test_sums_repeat_where_that_is_asked_for),
        cmocka_unit_test(test_writes_repeat_where_that_is_asked_for),
        cmocka_unit_test(test_nothing_is_left_over),
        cmocka_unit_test(test_gather_from_one_element),
    };
    return check_run(tests, NULL, NULL);
}
