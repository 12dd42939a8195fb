/* Views and copies with elements in other places, as a user meets them. */
#include <math.h>

#include "tests/support/check.h"

static tern_tensor *numbers(int64_t rows, int64_t columns)
{
    tern_tensor *flat = tern_arange(0, (double)(rows * columns), .dtype = TERN_F32);
    return tern_view(flat, TERN_SHAPE(rows, columns));
}

/* ---- parts --------------------------------------------------------------------------------------- */

static void test_parts_are_views(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(2, 5), *parts[5];
    assert_int_equal(tern_split(x, 2, 1, parts, 5), 3);
    check_elements(parts[0], (const float[]){ 0, 1, 5, 6 }, 4);
    check_elements(parts[2], (const float[]){ 4, 9 }, 2);
    assert_true(tern_shares_storage(parts[1], x));
    assert_int_equal(tern_chunk(x, 4, -1, parts, 5), 3); /* of 2: a fourth would be empty */
    assert_int_equal(tern_unbind(x, 0, parts, 5), 2);
    check_elements(parts[1], (const float[]){ 5, 6, 7, 8, 9 }, 5);
    assert_int_equal(tern_ndim(parts[1]), 1);
}

static void test_parts_of_an_empty_dimension(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(3, 0)), *parts[4];
    assert_int_equal(tern_split(x, 0, 1, parts, 4), 1);
    assert_int_equal(tern_split(x, 2, 1, parts, 4), 1);
    assert_int_equal(tern_chunk(x, 3, 1, parts, 4), 3);
    assert_int_equal(tern_size(parts[2], 0), 3);
    assert_int_equal(tern_unbind(x, 1, parts, 4), 0);
    assert_no_error();
}

static void test_parts_that_cannot_be(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(2, 5), *parts[4];
    const int64_t short_of[] = { 2, 2 }, beyond[] = { 2, 4 }, negative[] = { -1, 6 };
    check_refusal(tern_split(x, 1, 1, parts, 4) >= 0, "5 parts and room for 4");
    check_refusal(tern_split(x, 0, 1, parts, 4) >= 0, "has to be positive");
    check_refusal(tern_split(x, 1, 2, parts, 4) >= 0, "dimension 2");
    check_refusal(tern_split(NULL, 1, 1, parts, 4) >= 0, "NULL");
    check_refusal(tern_split(tern_zeros(TERN_SCALAR_SHAPE), 1, 0, parts, 4) >= 0, "0-dim");
    check_refusal(tern_split_sizes(x, short_of, 2, 1, parts, 4) >= 0, "leave 1 of 5");
    check_refusal(tern_split_sizes(x, beyond, 2, 1, parts, 4) >= 0, "size 1 is 4");
    check_refusal(tern_split_sizes(x, negative, 2, 1, parts, 4) >= 0, "size 0 is -1");
    check_refusal(tern_split_sizes(x, NULL, 0, 1, parts, 4) >= 0, "at least one size");
    check_refusal(tern_chunk(x, 0, 1, parts, 4) >= 0, "at least 1");
    check_refusal(tern_unbind(x, 1, parts, 4) >= 0, "room for 4");
}

static void test_parts_belong_to_who_owns_results(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(2, 4), *parts[4];
    const int64_t before = tern_live_tensors();
    const bool owned = tern_set_owned_mode(true);
    assert_int_equal(tern_unbind(x, 1, parts, 4), 4);
    tern_set_owned_mode(owned);
    for (int i = 0; i < 4; i++)
        tern_release(parts[i]);
    assert_int_equal(tern_live_tensors(), before);
}

/* ---- windows ------------------------------------------------------------------------------------- */

static void test_windows_share_elements(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(tern_clone(numbers(1, 6)), true);
    tern_tensor *windows = tern_unfold(x, 1, 3, 1);
    assert_true(tern_shares_storage(windows, x));
    check_elements(windows, (const float[]){ 0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5 }, 12);
    tern_backward(tern_sum(windows));
    check_elements(tern_grad_of(x), (const float[]){ 1, 2, 3, 3, 2, 1 }, 6);
}

static void test_windows_that_cannot_be(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(2, 5);
    assert_int_equal(tern_size(tern_unfold(x, 1, 0, 2), 1), 3); /* windows of nothing */
    check_refusal(tern_unfold(x, 1, 6, 1) != NULL, "windows of 6 elements");
    check_refusal(tern_unfold(x, 1, -1, 1) != NULL, "windows of -1 elements");
    check_refusal(tern_unfold(x, 1, 2, 0) != NULL, "step positive");
    check_refusal(tern_unfold(x, 3, 2, 1) != NULL, "dimension 3");
    check_refusal(tern_unfold(tern_zeros(TERN_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), 0, 1, 1) != NULL,
                  "8");
    check_refusal(tern_add_(tern_unfold(x, 1, 3, 1), 1) != NULL, "share one place");
    assert_non_null(tern_add_(tern_unfold(x, 1, 2, 2), 1)); /* windows apart may be written */
}

/* Expanded tensors have numbers of elements whose sums and products leave 64 bits. */
static void test_what_numbers_of_elements_cannot_count(void **state)
{
    (void)state;
    TERN_SCOPE;
    double room[1];
    tern_tensor *many = tern_expand(tern_ones(TERN_SHAPE(1)), TERN_SHAPE(INT64_C(1) << 61));
    assert_int_not_equal(tern_read(many, TERN_F64, room, 8), TERN_OK);
    check_refusal(false, "the memory has 8");
    tern_tensor *u = tern_expand(tern_ones(TERN_SHAPE(1), TERN_U8), TERN_SHAPE(INT64_C(1) << 62));
    check_refusal(tern_cat(0, u, u, u, u) != NULL, "too large");
    check_refusal(tern_cat(0, u, u) != NULL, "too large");
    check_refusal(tern_stack(0, u, u, u, u) != NULL, "cannot have the shape");
    check_refusal(tern_unfold(u, 0, INT64_C(1) << 40, 1) != NULL, "too large");
    check_refusal(tern_repeat(u, TERN_SHAPE(4)) != NULL, "too many elements");
    check_refusal(tern_one_hot(tern_full(0x1p53, TERN_SHAPE(1025), TERN_I64), 0) != NULL,
                  "cannot have the shape");
    check_refusal(tern_outer(u, u) != NULL, "");
    check_refusal(tern_arange(0, 9e18) != NULL, "");
    check_refusal(tern_linspace(0, 1, .steps = INT64_MAX) != NULL, "");
    check_refusal(tern_randperm(INT64_MIN) != NULL, "cannot have the shape");
}

static void test_which_tensors_meet_themselves(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(2, 5);
    assert_false(tern_overlaps_itself(NULL));
    assert_false(tern_overlaps_itself(x));
    assert_false(tern_overlaps_itself(tern_transpose(x, 0, 1)));
    assert_false(tern_overlaps_itself(tern_slice(x, 1, 0, 5, 2)));
    assert_false(tern_overlaps_itself(tern_unfold(x, 1, 2, 2)));
    assert_true(tern_overlaps_itself(tern_unfold(x, 1, 3, 1)));
    assert_true(tern_overlaps_itself(tern_expand(x, TERN_SHAPE(3, 2, 5))));
    assert_false(tern_overlaps_itself(tern_expand(x, TERN_SHAPE(1, 2, 5))));
    assert_false(tern_overlaps_itself(tern_expand(numbers(1, 1), TERN_SHAPE(0, 1))));
    assert_no_error();
}

/* ---- repeat, movedim ----------------------------------------------------------------------------- */

static void test_repeat_copies(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(1, 2);
    check_elements(tern_repeat(x, TERN_SHAPE(2, 2)), (const float[]){ 0, 1, 0, 1, 0, 1, 0, 1 }, 8);
    tern_tensor *same = tern_repeat(x, TERN_SHAPE(1, 1));
    assert_false(tern_shares_storage(same, x));
    assert_false(tern_shares_storage(tern_repeat(tern_ones(TERN_SHAPE(1)), TERN_SHAPE(3)), x));
    assert_true(tern_is_contiguous(tern_repeat(tern_ones(TERN_SHAPE(1)), TERN_SHAPE(3))));
    tern_tensor *none = tern_repeat(x, TERN_SHAPE(3, 0, 1));
    assert_int_equal(tern_size(none, 1), 0);
    assert_false(tern_shares_storage(none, x));
    none = numbers(0, 2);
    assert_false(tern_shares_storage(tern_repeat(none, TERN_SHAPE(2, 2)), none));
    tern_tensor *leaf = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    assert_non_null(tern_exp_(tern_repeat(leaf, TERN_SHAPE(0))));
    assert_int_equal(tern_numel(tern_repeat(tern_ones(TERN_SCALAR_SHAPE), TERN_SHAPE(4))), 4);
    check_refusal(tern_repeat(x, TERN_SHAPE(2)) != NULL, "for 2 dimensions");
    check_refusal(tern_repeat(x, TERN_SHAPE(-1, 2)) != NULL, "negative");
    check_refusal(tern_repeat(x, TERN_SHAPE(INT64_MAX, 2)) != NULL, "too many");
}

static void test_repeat_of_eight_dimensions(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_reshape(numbers(1, 2), TERN_SHAPE(1, 1, 1, 2, 1, 1, 1, 1));
    tern_tensor *out = tern_repeat(x, TERN_SHAPE(2, 2, 2, 2, 2, 2, 2, 2));
    assert_int_equal(tern_numel(out), 512);
    assert_close(tern_item(tern_sum(out)), 256, 0);
    check_elements(
        tern_reshape(tern_slice(tern_reshape(out, TERN_SHAPE(-1)), 0, 0, 64, 16), TERN_SHAPE(4)),
        (const float[]){ 0, 1, 0, 1 }, 4);
}

static void test_movedim_keeps_the_order_of_the_others(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(2, 3, 4, 5));
    const tern_shape_t back = tern_shape(tern_movedim(x, 0, 2)),
                       front = tern_shape(tern_movedim(x, -1, 1));
    assert_memory_equal(back.dims, ((const int64_t[]){ 3, 4, 2, 5 }), 4 * sizeof(int64_t));
    assert_memory_equal(front.dims, ((const int64_t[]){ 2, 5, 3, 4 }), 4 * sizeof(int64_t));
    check_refusal(tern_movedim(x, 4, 0) != NULL, "dimension 4");
    check_refusal(tern_movedim(x, 0, -5) != NULL, "dimension -5");
}

/* ---- flip, roll, triangles ----------------------------------------------------------------------- */

static void test_flip_and_roll(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(2, 3);
    check_elements(tern_flip(x, TERN_DIMS(1)), (const float[]){ 2, 1, 0, 5, 4, 3 }, 6);
    check_elements(tern_flip(x, (tern_dims_t){ 0 }), (const float[]){ 5, 4, 3, 2, 1, 0 }, 6);
    check_elements(tern_roll(x, TERN_SHAPE(1), (tern_dims_t){ 0 }),
                   (const float[]){ 5, 0, 1, 2, 3, 4 }, 6);
    check_elements(tern_roll(x, TERN_SHAPE(-1), TERN_DIMS(-1)), (const float[]){ 1, 2, 0, 4, 5, 3 },
                   6);
    check_elements(tern_roll(x, TERN_SHAPE(INT64_MIN), TERN_DIMS(0)),
                   (const float[]){ 0, 1, 2, 3, 4, 5 }, 6);
    assert_int_equal(
        tern_numel(tern_roll(tern_zeros(TERN_SHAPE(0, 3)), TERN_SHAPE(5), TERN_DIMS(0))), 0);
    assert_false(tern_shares_storage(tern_flip(tern_ones(TERN_SCALAR_SHAPE), TERN_DIMS(0)), x));
    check_refusal(tern_flip(x, TERN_DIMS(0, -2)) != NULL, "named twice");
    check_refusal(tern_flip(x, TERN_DIMS(2)) != NULL, "dimension 2");
    check_refusal(tern_roll(x, TERN_SHAPE(1, 2), TERN_DIMS(0)) != NULL, "2 shifts for 1");
    check_refusal(tern_roll(x, TERN_SHAPE(1), TERN_DIMS(-3)) != NULL, "dimension -3");
    check_refusal(tern_roll(tern_ones(TERN_SCALAR_SHAPE), TERN_SHAPE(1), TERN_DIMS(0)) != NULL,
                  "0-dim");
}

static void test_a_channels_last_image_stays_one(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x =
        tern_to(tern_randn(TERN_SHAPE(2, 3, 4, 5)), .format = TERN_FORMAT_CHANNELS_LAST);
    assert_true(tern_is_channels_last(tern_flip(x, TERN_DIMS(3))));
    assert_true(tern_is_channels_last(tern_pad(x, { 1, 1, 1, 1 })));
    assert_true(tern_is_channels_last(tern_roll(x, TERN_SHAPE(1), TERN_DIMS(2))));
}

static void test_triangles(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(2, 3);
    check_elements(tern_tril(x, 0), (const float[]){ 0, 0, 0, 3, 4, 0 }, 6);
    check_elements(tern_triu(tern_transpose(x, 0, 1), 0), (const float[]){ 0, 3, 0, 4, 0, 0 }, 6);
    check_elements(tern_tril(x, INT64_MAX), (const float[]){ 0, 1, 2, 3, 4, 5 }, 6);
    check_elements(tern_triu(x, INT64_MAX), (const float[]){ 0, 0, 0, 0, 0, 0 }, 6);
    check_elements(tern_tril(x, INT64_MIN), (const float[]){ 0, 0, 0, 0, 0, 0 }, 6);
    assert_int_equal(tern_numel(tern_tril(tern_zeros(TERN_SHAPE(0, 3)), 0)), 0);
    assert_int_equal(tern_numel(tern_tril(tern_zeros(TERN_SHAPE(3, 0)), 0)), 0);
    check_refusal(tern_tril(tern_zeros(TERN_SHAPE(3)), 0) != NULL, "at least 2");
}

/* ---- pad ----------------------------------------------------------------------------------------- */

static void test_pad(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(1, 4);
    check_elements(tern_pad(x, { 1, 2 }, .value = -1), (const float[]){ -1, 0, 1, 2, 3, -1, -1 },
                   7);
    check_elements(tern_pad(tern_cast(x, TERN_I64), { 1, 0 }, .value = 2.5),
                   (const float[]){ 2, 0, 1, 2, 3 }, 5);
    check_elements(tern_pad(x, { 3, 1 }, TERN_PAD_REFLECT),
                   (const float[]){ 3, 2, 1, 0, 1, 2, 3, 2 }, 8);
    check_elements(tern_pad(x, { -3, -1 }), NULL, 0);
    check_elements(tern_pad(tern_zeros(TERN_SHAPE(0)), { 1, 1 }, .value = 3),
                   (const float[]){ 3, 3 }, 2);
    tern_tensor *bytes = tern_cast(x, TERN_U8);
    check_refusal(tern_pad(bytes, { 1, 0 }, .value = 300) != NULL, "300 is beyond what u8 can be");
    check_refusal(tern_pad(bytes, { 1, 0 }, .value = NAN) != NULL, "beyond what u8 can be");
    check_refusal(tern_pad(tern_cast(x, TERN_I64), { 1, 0 }, .value = 1e19) != NULL,
                  "beyond what i64 can be");
    tern_tensor *same = tern_pad(x, { 0 });
    assert_false(tern_shares_storage(same, x));
    check_refusal(
        tern_pad(x, { 4, 0 }, TERN_PAD_REFLECT) != NULL,
        "4 and 0 elements at the ends of dimension 1, which has 4: a mirrored end is shorter than "
        "that, and at least one element is left");
    check_refusal(tern_pad(x, { 5, 0 }, TERN_PAD_CIRCULAR) != NULL, "no longer");
    check_refusal(tern_pad(x, { -2, 3 }, TERN_PAD_CIRCULAR) != NULL, "no longer than what is left");
    check_refusal(tern_pad(x, { -3, -2 }, TERN_PAD_CIRCULAR) != NULL, "-3 and -2 elements");
    check_refusal(tern_pad(x, { -4, 4 }, TERN_PAD_CIRCULAR) != NULL, "-4 and 4 elements");
    check_refusal(tern_pad(x, { -5, 5 }) != NULL,
                  "which has 4: what is taken away has to be there");
    check_refusal(tern_pad(x, { -8, 3 }, TERN_PAD_REFLECT) != NULL, "-8 and 3 elements");
    check_refusal(tern_pad(x, { INT64_MIN, INT64_MIN }, TERN_PAD_REPLICATE) != NULL,
                  "elements at the");
    check_refusal(tern_pad(x, { -3, -2 }) != NULL, "-3 and -2 elements");
    check_refusal(tern_pad(tern_zeros(TERN_SHAPE(0)), { 1, 1 }, TERN_PAD_REPLICATE) != NULL,
                  "has 0: one element has to be there to repeat");
    check_refusal(tern_pad(x, { INT64_MAX, INT64_MAX }) != NULL,
                  "which has 4: more than 64 bits count");
    check_refusal(tern_pad(x, { 0, 0, 0, 0, 1 }) != NULL, "pad[4] is 1");
    check_refusal(tern_pad(x, { 1 }, .mode = 7) != NULL, "7 is no mode");
    check_refusal(tern_pad(NULL, { 1 }) != NULL, "NULL");
}

/* Each as PyTorch 2.15 has it. */
static void test_pad_takes_away_and_adds(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = numbers(1, 5);
    check_elements(tern_pad(x, { -1, 2 }, TERN_PAD_CIRCULAR), (const float[]){ 1, 2, 3, 4, 1, 2 },
                   6);
    check_elements(tern_pad(x, { 2, -1 }, TERN_PAD_CIRCULAR), (const float[]){ 2, 3, 0, 1, 2, 3 },
                   6);
    check_elements(tern_pad(x, { -2, 3 }, TERN_PAD_CIRCULAR), (const float[]){ 2, 3, 4, 2, 3, 4 },
                   6);
    check_elements(tern_pad(x, { -1, -1 }, TERN_PAD_CIRCULAR), (const float[]){ 1, 2, 3 }, 3);
    check_elements(tern_pad(x, { -2, -3 }, TERN_PAD_CIRCULAR), NULL, 0);
    check_elements(tern_pad(x, { -7, 4 }, TERN_PAD_REFLECT), (const float[]){ 1, 0 }, 2);
    check_elements(tern_pad(x, { 4, -8 }, TERN_PAD_REFLECT), (const float[]){ 4 }, 1);
    check_elements(tern_pad(x, { -6, 6 }, TERN_PAD_REPLICATE), (const float[]){ 4, 4, 4, 4, 4 }, 5);
    check_elements(tern_pad(x, { 8, -9 }, TERN_PAD_REPLICATE), (const float[]){ 0, 0, 0, 0 }, 4);
    check_elements(tern_pad(x, { INT64_MIN, INT64_MAX }, TERN_PAD_REPLICATE), /* -1 in all */
                   (const float[]){ 4, 4, 4, 4 }, 4);
    check_refusal(tern_pad(x, { INT64_MAX - 5, -INT64_MAX }, TERN_PAD_REPLICATE) != NULL,
                  "at least one");
    check_refusal(tern_pad(x, { -2, -3 }, TERN_PAD_REPLICATE) != NULL, "at least one");
    check_refusal(tern_pad(x, { -5, 0 }, TERN_PAD_REFLECT) != NULL, "-5 and 0 elements");
    const struct {
        int64_t before, after;
        int mode;
        float grad[5];
    } rows[] = {
        { -1, 2, TERN_PAD_CIRCULAR, { 0, 6, 8, 3, 4 } },
        { 2, -1, TERN_PAD_CIRCULAR, { 3, 4, 6, 8, 0 } },
        { -6, 4, TERN_PAD_REFLECT, { 3, 2, 1, 0, 0 } },
        { 3, -7, TERN_PAD_REFLECT, { 0, 0, 0, 1, 0 } },
        { -7, 8, TERN_PAD_REPLICATE, { 0, 0, 0, 0, 21 } },
        { 8, -7, TERN_PAD_REPLICATE, { 21, 0, 0, 0, 0 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        x = tern_set_requires_grad(tern_clone(numbers(1, 5)), true);
        tern_tensor *y = tern_pad(x, { rows[i].before, rows[i].after }, rows[i].mode);
        tern_backward(y, tern_reshape(tern_add(numbers(1, tern_numel(y)), 1), tern_shape(y)));
        check_elements(tern_grad_of(x), rows[i].grad, 5);
    }
}

/* As much is put before an extent of 1 as is taken behind it: the one element is gone. */
static void test_pad_moves_a_single_element_out(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_reshape(numbers(1, 3), TERN_SHAPE(3, 1));
    check_elements(tern_pad(x, { 1, -1 }, .value = 9), (const float[]){ 9, 9, 9 }, 3);
    check_elements(tern_pad(x, { -1, 1 }, .value = 9), (const float[]){ 9, 9, 9 }, 3);
    tern_set_requires_grad(x, true);
    tern_tensor *moved = tern_pad(x, { -1, 1, 1, -1 }, TERN_PAD_REPLICATE);
    check_elements(moved, (const float[]){ 0, 0, 1 }, 3);
    tern_backward(moved, tern_reshape(tern_add(numbers(1, 3), 1), TERN_SHAPE(3, 1)));
    check_elements(tern_grad_of(x), (const float[]){ 3, 3, 0 }, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_views),
        cmocka_unit_test(test_parts_of_an_empty_dimension),
        cmocka_unit_test(test_parts_that_cannot_be),
        cmocka_unit_test(test_parts_belong_to_who_owns_results),
        cmocka_unit_test(test_windows_share_elements),
        cmocka_unit_test(test_windows_that_cannot_be),
        cmocka_unit_test(test_what_numbers_of_elements_cannot_count),
        cmocka_unit_test(test_which_tensors_meet_themselves),
        cmocka_unit_test(test_repeat_copies),
        cmocka_unit_test(test_repeat_of_eight_dimensions),
        cmocka_unit_test(test_movedim_keeps_the_order_of_the_others),
        cmocka_unit_test(test_flip_and_roll),
        cmocka_unit_test(test_a_channels_last_image_stays_one),
        cmocka_unit_test(test_triangles),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_pad_takes_away_and_adds),
        cmocka_unit_test(test_pad_moves_a_single_element_out),
    };
    return check_run(tests, NULL, NULL);
}
