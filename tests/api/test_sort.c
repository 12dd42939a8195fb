/* Sorting of many elements, of all dtypes, of rows that would be slow for a quadratic way; drawing. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/check.h"

enum { LONG = 30011 };

static const tern_dtype_t dtypes[] = { TERN_U8,  TERN_I8,   TERN_I16, TERN_I32, TERN_I64,
                                       TERN_F16, TERN_BF16, TERN_F32, TERN_F64 };
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static double *numbers(tern_tensor *t)
{
    double *data = malloc((size_t)tern_numel(t) * sizeof *data);
    assert_non_null(data);
    tern_read(t, TERN_F64, data, tern_numel(t) * (int64_t)sizeof *data);
    assert_no_error();
    return data;
}

/* Values follow each other, equal ones in the order they had, and each place is there once. */
static void check_order(tern_tensor *x, bool descending)
{
    const int64_t n = tern_numel(x);
    tern_tensor *places = NULL, *sorted = tern_sort(x, 0, descending, &places);
    double *from = numbers(x), *to = numbers(sorted), *at = numbers(places);
    char *seen = calloc((size_t)n, 1);
    assert_non_null(seen);
    for (int64_t i = 0; i < n; i++) {
        const int64_t place = (int64_t)at[i];
        assert_true(place >= 0 && place < n && !seen[place]);
        seen[place] = 1;
        assert_true(from[place] == to[i]);
        if (i > 0 && to[i] == to[i - 1])
            assert_true(at[i] > at[i - 1]);
        else if (i > 0)
            assert_true((to[i] > to[i - 1]) != descending);
    }
    free(from);
    free(to);
    free(at);
    free(seen);
}

static void test_every_dtype(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPES; d++) {
        TERN_SCOPE;
        tern_seed(5);
        tern_tensor *x = tern_mul(tern_randn(TERN_SHAPE(5003)), 40.0);
        if (dtypes[d] == TERN_U8)
            x = tern_abs(x);
        x = tern_cast(x, dtypes[d]);
        check_order(x, false);
        check_order(x, true);
        check_order(tern_slice(x, .end = 700), true);
        check_order(tern_slice(x, .end = 33), false);
    }
}

/* Sorted already, falling, all equal, two values: what quadratic ways are slow at. */
static void test_long_rows_in_any_order(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *up = tern_arange(.end = LONG, .dtype = TERN_F32);
    check_order(up, true);
    check_order(tern_neg(up), false);
    check_order(tern_zeros(TERN_SHAPE(LONG)), true);
    check_order(tern_cast(tern_gt(tern_rand(TERN_SHAPE(LONG)), 0.5), TERN_F64), false);
}

/* Parts of the order are parts of the whole one. */
static void test_parts_of_the_order(void **state)
{
    (void)state;
    static const int64_t counts[] = { 1, 7, 100, 3000, 10000, LONG };
    TERN_SCOPE;
    tern_seed(8);
    tern_tensor *x = tern_reshape(tern_rand(TERN_SHAPE(2, LONG)), TERN_SHAPE(2, LONG));
    x = tern_div(tern_cast(tern_mul(x, 1e4), TERN_I64), 8); /* with ties */
    tern_tensor *places, *some;
    tern_tensor *all = tern_argsort(x, 1, true);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        (void)tern_topk(x, counts[i], 1, true, &places);
        some = tern_slice(all, .dim = 1, .end = counts[i]);
        assert_true(tern_item(tern_all(tern_eq(places, some))) == 1);
    }
    (void)tern_median(x, 1, &places);
    some = tern_select(tern_argsort(x, 1, false), 1, (LONG - 1) / 2);
    assert_true(tern_item(tern_all(tern_eq(places, some))) == 1);
    assert_no_error();
}

static void test_no_elements_of_a_single_number(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_full(5, .shape = TERN_SCALAR_SHAPE, .requires_grad = true);
    for (int64_t k = 0; k < 2; k++) {
        tern_tensor *place = NULL, *most = tern_topk(x, k, 0, true, &place);
        assert_int_equal(tern_ndim(most), 0);
        assert_true(tern_item(most) == 5);
        assert_int_equal(tern_item_int(place), 0);
        tern_backward(most);
    }
    assert_true(tern_item(tern_grad_of(x)) == 2);
    assert_int_equal(tern_size(tern_topk(tern_ones(TERN_SHAPE(2, 3)), 0, 1, true, NULL), 1), 0);
    assert_no_error();
}

static void test_same_with_any_threads(void **state)
{
    (void)state;
    const int before = tern_num_threads();
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(64, 3000)), *y[2];
    for (int i = 0; i < 2; i++) {
        tern_set_num_threads(i == 0 ? 1 : 3);
        y[i] = tern_argsort(x, 1, false);
    }
    tern_set_num_threads(before);
    assert_true(tern_item(tern_all(tern_eq(y[0], y[1]))) == 1);
}

static void test_unique_of_many(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_cast(tern_mul(tern_rand(TERN_SHAPE(50, 1000)), 700.0), TERN_I32);
    tern_tensor *inverse = NULL, *counts = NULL, *values = tern_unique(x, &inverse, &counts);
    assert_no_error();
    tern_tensor *back = tern_gather(values, 0, tern_reshape(inverse, TERN_SHAPE(-1)));
    back = tern_reshape(back, TERN_SHAPE(50, 1000));
    assert_true(tern_item(tern_all(tern_eq(back, x))) == 1);
    assert_true(tern_item(tern_sum(counts)) == 50000);
    values = tern_unique(tern_zeros(TERN_SHAPE(2, 0)), &inverse, &counts);
    assert_int_equal(tern_numel(values), 0);
    assert_int_equal(tern_ndim(inverse), 2);
}

/* A caller who wants neither may hand in one place for both: what is left there is the counts, once. */
static void test_unique_into_one_place(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_from_data(((const float[]){ 3, 1, 3, 3 }), TERN_SHAPE(4));
    const int64_t live = tern_live_tensors();
    for (int along = 0; along < 2; along++) {
        TERN_SCOPE;
        tern_tensor *both = NULL;
        tern_tensor *values =
            along ? tern_unique_dim(x, 0, &both, &both) : tern_unique(x, &both, &both);
        assert_no_error();
        assert_int_equal(tern_numel(values), 2);
        assert_true(tern_item(tern_select(both, 0, 1)) == 3);
    }
    assert_int_equal(tern_live_tensors(), live);
}

static void test_unique_parts(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_cast(tern_mul(tern_rand(TERN_SHAPE(3, 2000, 2)), 4.0), TERN_U8);
    tern_tensor *inverse = NULL, *counts = NULL, *parts = tern_unique_dim(x, 1, &inverse, &counts);
    assert_no_error();
    assert_true(tern_item(tern_all(tern_eq(tern_index_select(parts, 1, inverse), x))) == 1);
    assert_true(tern_item(tern_sum(counts)) == 2000);
    assert_int_equal(tern_size(tern_unique_dim(parts, 1, NULL, NULL), 1), tern_size(parts, 1));
    const float odd[] = { 1, NAN, 0, 1, 1, NAN, 0, 1 };
    parts = tern_unique_dim(tern_from_data(odd, TERN_SHAPE(4, 2)), 0, NULL, &counts);
    assert_int_equal(tern_size(parts, 0), 3); /* each NaN is another */
    assert_true(tern_item(tern_select(counts, 0, 0)) == 2);
    assert_null(tern_unique_dim(x, 3, &inverse, NULL));
    assert_null(inverse);
    assert_error(TERN_ERR_ARGUMENT, "unique: 3 is no dimension of a tensor [3, 2000, 2]");
    assert_null(tern_unique_dim(x, INT_MIN, NULL, NULL));
    assert_error(TERN_ERR_ARGUMENT, "unique: -2147483648 is no dimension of a tensor");
    assert_null(tern_unique_dim(tern_zeros(TERN_SHAPE(2, 0)), 0, NULL, NULL));
    assert_error(TERN_ERR_SHAPE, "the parts along dimension 0 of a tensor [2, 0] have no elements");
    assert_null(tern_unique_dim(tern_sum(x), 0, NULL, NULL));
    assert_error(TERN_ERR_ARGUMENT, "unique: 0 is no dimension");
    assert_null(tern_unique_dim(NULL, 0, NULL, NULL));
    assert_error(TERN_ERR_ARGUMENT, "unique: x is NULL");
}

/* Draws follow the weights: chances of 1 / 10 to 4 / 10, none of a weight of 0. */
static void test_draws_follow_weights(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    TERN_SCOPE;
    tern_seed(3);
    const float numbers_of[] = { 1, 2, 0, 3, 4 };
    const int64_t classes[] = { 0, 1, 3, 4 };
    tern_tensor *weights = tern_from_data(numbers_of, TERN_SHAPE(5));
    tern_tensor *drawn = tern_multinomial(weights, MANY, .replacement = true);
    for (int64_t k = 0; k < 5; k++) {
        const double share = tern_item(tern_sum(tern_eq(drawn, k))) / MANY;
        assert_close(share, tern_item(tern_select(weights, 0, k)) / 10, 0.02);
    }
    tern_tensor *rows = tern_expand(weights, TERN_SHAPE(3000, 5));
    drawn = tern_multinomial(rows, 4);
    assert_true(tern_item(tern_any(tern_eq(drawn, 2))) == 0);
    const double first = tern_item(tern_sum(tern_eq(tern_select(drawn, 1, 0), 4))) / 3000;
    assert_close(first, 0.4, 0.04);
    tern_tensor *sorted = tern_sort(drawn, 1, false, NULL);
    tern_tensor *each = tern_eq(sorted, tern_from_data(classes, TERN_SHAPE(4), .dtype = TERN_I64));
    assert_true(tern_item(tern_all(each)) == 1);
    assert_no_error();
}

/* Of 300 rows of 1001 classes some go at a time (AT_ONCE of multinomial.c, for each thread): what is drawn is what one
 * call of each op draws, to the last row. */
static void test_draws_of_many_rows(void **state)
{
    (void)state;
    TERN_SCOPE;
    enum { ROWS = 300, CLASSES = 1001 };
    tern_set_num_threads(1);
    tern_tensor *x = tern_rand(TERN_SHAPE(ROWS, CLASSES)), *places;
    tern_tensor *sums = tern_cumsum(tern_cast(x, TERN_F64), 1);
    tern_generator *generator = tern_generator_create(5);
    tern_tensor *u = tern_rand(TERN_SHAPE(ROWS, 3), .dtype = TERN_F64, .generator = generator);
    tern_tensor *wanted =
        tern_searchsorted(sums, tern_mul(u, tern_slice(sums, 1, CLASSES - 1, CLASSES)), true);
    tern_generator_set_state(generator, 5, 0);
    tern_tensor *drawn = tern_multinomial(x, 3, .replacement = true, .generator = generator);
    assert_true(tern_equal(drawn, wanted));
    u = tern_rand(TERN_SHAPE(ROWS, CLASSES), .dtype = TERN_F64, .generator = generator);
    tern_tensor *times = tern_div(tern_cast(x, TERN_F64), tern_neg(tern_log(tern_sub(1.0, u))));
    (void)tern_topk(times, 4, 1, true, &places);
    tern_generator_set_state(generator, 5, 1);
    drawn = tern_multinomial(x, 4, .generator = generator);
    assert_true(tern_equal(drawn, places));
    /* what is refused draws nothing: weights of the last row are checked before the first is drawn from */
    tern_fill(tern_slice(x, 0, ROWS - 1, ROWS), 0);
    assert_null(tern_multinomial(x, 3, .generator = generator));
    assert_error(TERN_ERR_ARGUMENT, "the weights of a row add up to 0");
    uint64_t seed, call;
    tern_generator_state(generator, &seed, &call);
    assert_int_equal(call, 2);
    tern_generator_free(generator);
    assert_no_error();
}

/* Sums leave f64 where weights do not. */
static void test_weights_of_the_largest_numbers(void **state)
{
    (void)state;
    TERN_SCOPE;
    const float large[] = { 3e38f, 0, 3e38f };
    tern_tensor *x = tern_from_data(large, TERN_SHAPE(3));
    tern_tensor *drawn = tern_multinomial(x, 2);
    assert_true(tern_item(tern_sum(drawn)) == 2);
    assert_null(tern_multinomial(tern_full(1e308, TERN_SHAPE(3), .dtype = TERN_F64), 1));
    assert_error(TERN_ERR_ARGUMENT, "the greatest 1e+308");
    const double largest[] = { 0, 1e308, 0 };
    drawn = tern_multinomial(tern_from_data(largest, TERN_SHAPE(3)), 1);
    assert_true(tern_item(drawn) == 1);
    assert_null(tern_multinomial(tern_mul(x, INFINITY), 1, .replacement = true));
    assert_error(TERN_ERR_ARGUMENT, "finite");
}

/* NaN is greater than all, also than itself where its place is behind what is equal. */
static int64_t place_of(double x, const double *sorted, int64_t n, bool right)
{
    int64_t before = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool equal = sorted[i] == x || (isnan(sorted[i]) && isnan(x));
        before += equal ? right : !isnan(sorted[i]) && (isnan(x) || sorted[i] < x);
    }
    return before;
}

static void check_search(tern_dtype_t dtype, int64_t n, bool right)
{
    static const double values[] = { 3, -0.0, 1, NAN, 0, 7, INFINITY, 2, -5, 5, 3, -INFINITY, 100 };
    const bool floats = tern_dtype_is_float(dtype), bytes = dtype == TERN_U8;
    double from[62], *at = from + 41;
    for (int i = 0; i < 62; i++) {
        const double value = values[i * 7 % 13];
        from[i] = floats ? value : !isfinite(value) ? 4 : bytes ? fabs(value) : value;
    }
    tern_tensor *row = tern_cast(tern_from_data(from, TERN_SHAPE(n)), dtype);
    tern_tensor *x = tern_cast(tern_from_data(at, TERN_SHAPE(21)), dtype);
    tern_tensor *sorted = tern_sort(row, 0, false, NULL);
    double *rows = numbers(sorted), *places = numbers(tern_searchsorted(sorted, x, right));
    for (int i = 0; i < 21; i++)
        assert_int_equal(places[i], place_of(at[i], rows, n, right));
    free(rows);
    free(places);
}

static void test_places_in_rows_of_any_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = { 0, 1, 2, 3, 4, 6, 15, 16, 17, 41 };
    for (int k = 0; k < DTYPES; k++)
        for (int i = 0; i < 10; i++) {
            TERN_SCOPE;
            check_search(dtypes[k], lengths[i], false);
            check_search(dtypes[k], lengths[i], true);
        }
    TERN_SCOPE; /* several rows, more than are searched at once */
    tern_tensor *sorted = tern_sort(tern_rand(TERN_SHAPE(3, 700)), 1, false, NULL);
    tern_tensor *x = tern_rand(TERN_SHAPE(3, 21));
    tern_tensor *less = tern_lt(tern_unsqueeze(sorted, 1), tern_unsqueeze(x, 2));
    assert_true(tern_item(tern_all(tern_eq(tern_searchsorted(sorted, x, false),
                                           tern_sum(less, TERN_DIMS(2))))) == 1);
}

static void test_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(3, 4)), *none = tern_ones(TERN_SHAPE(3, 0)), *places;
    assert_null(tern_topk(x, 5, 1, true, &places));
    assert_null(places);
    assert_error(TERN_ERR_ARGUMENT, "topk: 5 elements are wanted of dimension 1, which has 4");
    assert_null(tern_topk(x, -1, 1, true, NULL));
    assert_error(TERN_ERR_ARGUMENT, "topk");
    assert_null(tern_sort(x, 2, false, NULL));
    assert_error(TERN_ERR_ARGUMENT, "sort");
    assert_null(tern_median(none, 1, NULL));
    assert_error(TERN_ERR_SHAPE, "median");
    assert_null(tern_median_all(tern_cast(none, TERN_I32)));
    assert_error(TERN_ERR_SHAPE, "median");
    assert_null(tern_unique(NULL, NULL, NULL));
    assert_error(TERN_ERR_ARGUMENT, "unique");
    assert_null(tern_searchsorted(x, tern_ones(TERN_SHAPE(2, 4)), false));
    assert_error(TERN_ERR_SHAPE, "searchsorted");
    assert_null(tern_multinomial(x, 5));
    assert_error(TERN_ERR_ARGUMENT, "5 of 4 classes");
    assert_null(tern_multinomial(tern_neg(x), 2));
    assert_error(TERN_ERR_ARGUMENT, "at least 0");
    assert_null(tern_multinomial(tern_mul(x, (double)NAN), 2));
    assert_error(TERN_ERR_ARGUMENT, "finite");
    assert_null(tern_multinomial(tern_mul(x, 0.0), 2));
    assert_error(TERN_ERR_ARGUMENT, "add up to 0");
    assert_null(tern_multinomial(tern_cast(x, TERN_I32), 2));
    assert_error(TERN_ERR_DTYPE, "multinomial: weights is i32");
    assert_null(tern_multinomial(tern_ones(TERN_SCALAR_SHAPE), 1));
    assert_error(TERN_ERR_SHAPE, "multinomial");
}

/* As tensors with dimensions and without meet: 0.1 of f32 is above that of f64. */
static void test_places_by_two_dtypes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *sorted = tern_from_data(((float[]){ 0.1F, 1 }), TERN_SHAPE(2));
    tern_tensor *x = tern_from_data(((double[]){ 0.1 }), TERN_SHAPE(1));
    assert_int_equal(tern_item_int(tern_searchsorted(sorted, x, true)), 0);
    tern_tensor *first = tern_slice(sorted, .end = 1);
    assert_int_equal(tern_item_int(tern_searchsorted(x, first, true)), 1);
    x = tern_select(x, 0, 0);
    assert_int_equal(tern_item_int(tern_searchsorted(sorted, x, true)), 1);
    sorted = tern_from_data(((uint8_t[]){ 1, 2 }), TERN_SHAPE(2));
    tern_tensor *wide = tern_from_data(((int64_t[]){ 257, -1 }), TERN_SHAPE(2));
    tern_tensor *places = tern_searchsorted(sorted, wide, false);
    assert_int_equal(tern_item_int(tern_select(places, 0, 0)), 2);
    assert_int_equal(tern_item_int(tern_select(places, 0, 1)), 0);
    sorted = tern_cast(sorted, TERN_BOOL);
    assert_null(tern_searchsorted(sorted, sorted, true));
    assert_error(TERN_ERR_DTYPE, "searchsorted: sorted is bool");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dtype),
        cmocka_unit_test(test_long_rows_in_any_order),
        cmocka_unit_test(test_parts_of_the_order),
        cmocka_unit_test(test_no_elements_of_a_single_number),
        cmocka_unit_test(test_same_with_any_threads),
        cmocka_unit_test(test_unique_of_many),
        cmocka_unit_test(test_unique_into_one_place),
        cmocka_unit_test(test_unique_parts),
        cmocka_unit_test(test_draws_follow_weights),
        cmocka_unit_test(test_draws_of_many_rows),
        cmocka_unit_test(test_weights_of_the_largest_numbers),
        cmocka_unit_test(test_places_in_rows_of_any_length),
        cmocka_unit_test(test_places_by_two_dtypes),
        cmocka_unit_test(test_mistakes),
    };
    return check_run(tests, NULL, NULL);
}
