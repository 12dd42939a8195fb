/* index_add, bincount, repeat_interleave and pixel_shuffle as a user meets them: what vectors of PyTorch do not
 * show. */
#include "tests/support/check.h"

static tern_tensor *whole(int64_t n, const int64_t *values)
{
    return tern_from_data(values, .shape = TERN_SHAPE(n), .dtype = TERN_I64);
}
#define WHOLE(n, ...) whole(n, (const int64_t[]){ __VA_ARGS__ })

static tern_tensor *grid(void)
{
    return tern_view(tern_arange(0, 6, .dtype = TERN_F32), TERN_SHAPE(2, 3));
}

#define REFUSED(call, code, words) \
    do {                           \
        assert_null(call);         \
        assert_error(code, words); \
    } while (0)

static void test_index_add_writes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = grid();
    assert_ptr_equal(tern_index_add_(x, 1, WHOLE(2, 2, 2), tern_ones(TERN_SHAPE(2, 2))), x);
    check_elements(x, (const float[]){ 0, 1, 4, 3, 4, 7 }, 6);
    check_elements(tern_index_add(x, 0, WHOLE(1, 1), tern_ones(TERN_SHAPE(1, 3))),
                   (const float[]){ 0, 1, 4, 4, 5, 8 }, 6);
    check_elements(x, (const float[]){ 0, 1, 4, 3, 4, 7 }, 6);
    tern_tensor *one = tern_full(2, TERN_SCALAR_SHAPE);
    check_elements(tern_index_add(one, 0, WHOLE(1, 0), one), (const float[]){ 4 }, 1);
}

/* As of other ops that write, what comes back is the argument, and no reference more. */
static void test_index_add_in_owned_mode(void **state)
{
    (void)state;
    const int64_t live = tern_live_tensors();
    const bool before = tern_set_owned_mode(true);
    tern_tensor *x = tern_zeros(TERN_SHAPE(2, 3)), *index = WHOLE(1, 0);
    tern_tensor *source = tern_ones(TERN_SHAPE(1, 3));
    assert_ptr_equal(tern_index_add_(x, 0, index, source), x);
    tern_tensor *sum = tern_index_add(x, 0, index, source);
    tern_tensor *const all[] = { x, index, source, sum };
    for (int i = 0; i < 4; i++)
        tern_release(all[i]);
    tern_set_owned_mode(before);
    assert_no_error();
    assert_int_equal(tern_live_tensors(), live);
}

/* PyTorch's autocast promotes what scatter_add takes, and has no class for index_add (A030, A031). */
static void test_index_add_keeps_its_dtype_in_a_region(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_cast(grid(), TERN_BF16);
    TERN_AUTOCAST(tern_device(x), TERN_F16);
    tern_tensor *sum = tern_index_add(x, 0, WHOLE(2, 1, 1), x);
    assert_int_equal(tern_dtype(sum), TERN_BF16);
    check_elements(sum, (const float[]){ 0, 1, 2, 6, 9, 12 }, 6);
}

static void test_gradients_of_what_is_written(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *source = tern_set_requires_grad(tern_ones(TERN_SHAPE(2, 3)), true);
    tern_tensor *x = tern_mul(grid(), 1.0);
    assert_non_null(tern_index_add_(x, 0, WHOLE(2, 1, 1), source));
    assert_int_equal(tern_backward(tern_sum(tern_mul(x, grid()))), TERN_OK);
    check_elements(tern_grad_of(source), (const float[]){ 3, 4, 5, 3, 4, 5 }, 6);
}

static void test_index_add_explains_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = grid(), *two = tern_ones(TERN_SHAPE(2, 2));
    REFUSED(tern_index_add(x, 1, WHOLE(3, 0, 1, 2), two), TERN_ERR_SHAPE,
            "along dimension 1 as long as the index, 3");
    if (check_on_cpu())
        REFUSED(tern_index_add(x, 1, WHOLE(2, 0, 3), two), TERN_ERR_INDEX, "index 3");
    REFUSED(tern_index_add(x, 2, WHOLE(2, 0, 1), two), TERN_ERR_ARGUMENT, "dimension 2 is outside");
    REFUSED(tern_index_add(x, 1, tern_ones(TERN_SHAPE(2)), two), TERN_ERR_DTYPE, "f32");
    REFUSED(tern_index_add(x, 1, WHOLE(2, 0, 1), tern_cast(two, TERN_F64)), TERN_ERR_DTYPE, "f64");
    check_elements(x, (const float[]){ 0, 1, 2, 3, 4, 5 }, 6);
}

static void test_bincount(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = WHOLE(4, 1, 3, 1, 0);
    check_elements(tern_bincount(tern_cast(x, TERN_U8), NULL, 0), (const float[]){ 1, 2, 0, 1 }, 4);
    tern_tensor *weights = tern_full(0.5, TERN_SHAPE(4), .dtype = TERN_F16);
    tern_tensor *sums = tern_bincount(x, weights, 5);
    assert_int_equal(tern_dtype(sums), TERN_F64);
    check_elements(sums, (const float[]){ 0.5F, 1, 0, 0.5F, 0 }, 5);
    weights = tern_set_requires_grad(tern_ones(TERN_SHAPE(4)), true);
    assert_int_equal(tern_dtype(tern_bincount(x, weights, 0)), TERN_F32);
    assert_false(tern_requires_grad(tern_bincount(x, weights, 0)));
    tern_tensor *nothing = tern_zeros(TERN_SHAPE(0), TERN_I64);
    check_elements(tern_bincount(nothing, NULL, 2), (const float[]){ 0, 0 }, 2);
    assert_int_equal(tern_numel(tern_bincount(nothing, NULL, 0)), 0);
}

static void test_bincount_explains_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = WHOLE(2, 4, -3);
    REFUSED(tern_bincount(x, NULL, 0), TERN_ERR_INDEX, "-3 is below 0");
    REFUSED(tern_bincount(tern_abs(x), tern_ones(TERN_SHAPE(3)), 0), TERN_ERR_SHAPE, "weights");
    REFUSED(tern_bincount(tern_abs(x), NULL, -1), TERN_ERR_ARGUMENT, "-1");
    REFUSED(tern_bincount(grid(), NULL, 0), TERN_ERR_DTYPE, "f32");
    REFUSED(tern_bincount(tern_cast(grid(), TERN_I64), NULL, 0), TERN_ERR_SHAPE, "1-D");
    if (check_on_cpu())
        REFUSED(tern_bincount(WHOLE(1, INT64_MAX - 1), NULL, 0), TERN_ERR_OOM, "bincount");
}

static void test_repeat_interleave(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = grid();
    tern_tensor *once = tern_repeat_interleave(x, 1, 0);
    check_elements(once, (const float[]){ 0, 1, 2, 3, 4, 5 }, 6);
    tern_fill(once, 7); /* a tensor of its own */
    check_elements(x, (const float[]){ 0, 1, 2, 3, 4, 5 }, 6);
    tern_tensor *row = tern_slice(x, 0, 0, 1); /* its rows could be one row, seen twice */
    tern_tensor *twice = tern_repeat_interleave(row, 2, 0);
    tern_fill(tern_select(twice, 0, 1), 7);
    check_elements(twice, (const float[]){ 0, 1, 2, 7, 7, 7 }, 6);
    check_elements(x, (const float[]){ 0, 1, 2, 3, 4, 5 }, 6);
    tern_tensor *times = tern_cast(WHOLE(3, 0, 2, 1), TERN_I32);
    check_elements(tern_repeat_interleave(x, times, 1), (const float[]){ 1, 1, 2, 4, 4, 5 }, 6);
    check_elements(tern_repeat_interleave(tern_select(x, 0, 1), WHOLE(1, 2), 0),
                   (const float[]){ 3, 3, 4, 4, 5, 5 }, 6);
    tern_tensor *none = tern_zeros(TERN_SHAPE(0, 3));
    assert_int_equal(
        tern_numel(tern_repeat_interleave(none, tern_zeros(TERN_SHAPE(0), TERN_I64), 0)), 0);
    assert_int_equal(tern_size(tern_repeat_interleave(x, WHOLE(2, 0, 0), 0), 0), 0);
    tern_tensor *wide = tern_ones(TERN_SHAPE(1, 1, 1, 1, 1, 1, 1, 2));
    assert_int_equal(tern_size(tern_repeat_interleave(wide, 3, -1), -1), 6);
}

static void test_repeat_interleave_explains_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = grid();
    REFUSED(tern_repeat_interleave(x, -1, 0), TERN_ERR_ARGUMENT, "-1 times");
    REFUSED(tern_repeat_interleave(x, 1.5, 0), TERN_ERR_ARGUMENT, "whole number");
    REFUSED(tern_repeat_interleave(x, WHOLE(2, 1, -2), 0), TERN_ERR_ARGUMENT, "-2 times");
    REFUSED(tern_repeat_interleave(x, WHOLE(2, 1, 1), 1), TERN_ERR_SHAPE,
            "x has 3 elements along dimension 1");
    REFUSED(tern_repeat_interleave(x, tern_ones(TERN_SHAPE(2)), 0), TERN_ERR_DTYPE, "f32");
    REFUSED(tern_repeat_interleave(x, (tern_tensor *)NULL, 0), TERN_ERR_ARGUMENT,
            "repeats is NULL");
    REFUSED(tern_repeat_interleave(tern_ones(TERN_SCALAR_SHAPE), 2, 0), TERN_ERR_SHAPE,
            "no dimensions");
    REFUSED(tern_repeat_interleave(x, INT64_MAX, 0), TERN_ERR_SHAPE, "too many");
    REFUSED(tern_repeat_interleave(x, INT64_MAX / 2, 0), TERN_ERR_SHAPE, "3");
    REFUSED(tern_repeat_interleave(x, WHOLE(2, INT64_MAX, 1), 0), TERN_ERR_SHAPE, "too many");
}

static void test_pixels_there_and_back(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_view(tern_arange(0, 8, .dtype = TERN_F32), TERN_SHAPE(4, 1, 2));
    tern_tensor *fine = tern_pixel_shuffle(x, 2);
    check_elements(fine, (const float[]){ 0, 2, 1, 3, 4, 6, 5, 7 }, 8);
    check_elements(tern_pixel_unshuffle(fine, 2), (const float[]){ 0, 1, 2, 3, 4, 5, 6, 7 }, 8);
    tern_fill(tern_pixel_shuffle(tern_view(x, TERN_SHAPE(4, 2, 1)), 1), 9);
    tern_fill(tern_pixel_shuffle(tern_view(x, TERN_SHAPE(8, 1, 1)), 2), 9);
    tern_tensor *apart = tern_slice(tern_view(x, TERN_SHAPE(8, 1, 1)), 0, 0, 8, 2);
    tern_fill(tern_pixel_shuffle(apart, 2), 9); /* the order of channels is that of pixels */
    tern_fill(tern_pixel_unshuffle(tern_permute(apart, TERN_DIMS(1, 0, 2)), 1), 9);
    check_elements(x, (const float[]){ 0, 1, 2, 3, 4, 5, 6, 7 }, 8);
}

static void test_pixels_explain_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(6, 2, 3));
    REFUSED(tern_pixel_shuffle(x, 2), TERN_ERR_SHAPE, "6 channels");
    REFUSED(tern_pixel_unshuffle(x, 2), TERN_ERR_SHAPE, "planes of 2 x 3");
    REFUSED(tern_pixel_shuffle(x, 0), TERN_ERR_ARGUMENT, "factor is 0");
    REFUSED(tern_pixel_shuffle(grid(), 2), TERN_ERR_SHAPE, "2 dimensions");
    REFUSED(tern_pixel_shuffle(x, INT64_MAX), TERN_ERR_ARGUMENT, "factor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_add_writes),
        cmocka_unit_test(test_index_add_in_owned_mode),
        cmocka_unit_test(test_index_add_keeps_its_dtype_in_a_region),
        cmocka_unit_test(test_gradients_of_what_is_written),
        cmocka_unit_test(test_index_add_explains_mistakes),
        cmocka_unit_test(test_bincount),
        cmocka_unit_test(test_bincount_explains_mistakes),
        cmocka_unit_test(test_repeat_interleave),
        cmocka_unit_test(test_repeat_interleave_explains_mistakes),
        cmocka_unit_test(test_pixels_there_and_back),
        cmocka_unit_test(test_pixels_explain_mistakes),
    };
    return check_run(tests, NULL, NULL);
}
