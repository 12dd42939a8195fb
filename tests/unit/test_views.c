/* Views share storage, keep strides where they exist, and say when they do not. */
#include "tests/support/check.h"

#include "core/rules.h"

static tern_tensor *counting(tern_shape_t shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    return tern_reshape(tern_arange(0, (double)count), shape);
}

static int64_t at(tern_tensor *t, int64_t i, int64_t j)
{
    return tern_item_int(tern_select(tern_select(t, 0, i), 0, j));
}

static void test_reshape_shares_when_strides_allow(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = counting(TERN_SHAPE(2, 3, 4));
    assert_true(tern_shares_storage(x, tern_reshape(x, TERN_SHAPE(6, -1))));
    tern_tensor *swapped = tern_transpose(x, 0, 1); /* [3, 2, 4] */
    assert_true(tern_shares_storage(x, tern_view(swapped, TERN_SHAPE(3, 2, 2, 2))));
    assert_false(tern_shares_storage(x, tern_reshape(swapped, TERN_SHAPE(6, 4))));
    assert_null(tern_view(swapped, TERN_SHAPE(6, 4)));
    assert_error(TERN_ERR_SHAPE, "tern_reshape");
    assert_int_equal(at(tern_reshape(swapped, TERN_SHAPE(6, 4)), 1, 0), 12);
}

static void test_shapes_that_do_not_fit_are_errors(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = counting(TERN_SHAPE(2, 3));
    assert_null(tern_view(x, TERN_SHAPE(4, 2)));
    assert_error(TERN_ERR_SHAPE, "view: the shape [4, 2] does not fit 6 elements");
    assert_null(tern_reshape(x, TERN_SHAPE(-1, 4)));
    assert_error(TERN_ERR_SHAPE, "reshape: the shape [-1, 4]");
    assert_null(tern_reshape(x, TERN_SHAPE(-1, -1)));
    assert_error(TERN_ERR_SHAPE, "does not fit");
    assert_null(tern_reshape(tern_empty(TERN_SHAPE(0, 3)), TERN_SHAPE(0, -1)));
    assert_error(TERN_ERR_SHAPE, "does not fit");
    assert_null(tern_reshape(x, TERN_SHAPE(1LL << 40, 1LL << 40)));
    assert_error(TERN_ERR_SHAPE, "does not fit");
    assert_null(tern_reshape(x, (tern_shape_t){ 0 }));
    assert_error(TERN_ERR_SHAPE, "no shape was given");
    assert_null(tern_reshape(NULL, TERN_SHAPE(1)));
    assert_error(TERN_ERR_ARGUMENT, "reshape: x is NULL");
}

static void test_strides_of_extents_of_one_do_not_matter(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_slice(counting(TERN_SHAPE(4, 6)), 1, 1, 5); /* [4, 4], strides 6 1 */
    tern_tensor *y = tern_view(x, TERN_SHAPE(1, 2, 1, 2, 4, 1));
    assert_no_error();
    assert_true(tern_shares_storage(x, y));
    assert_int_equal(tern_stride(y, 1), 12);
    assert_int_equal(tern_stride(y, 3), 6);
    assert_int_equal(tern_stride(y, 4), 1);
    assert_int_equal(at(tern_view(y, TERN_SHAPE(4, 4)), 2, 3), 16);
}

static void test_expanded_dimensions_merge_and_split(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_expand(counting(TERN_SHAPE(3)), TERN_SHAPE(2, 4, -1));
    assert_int_equal(tern_stride(x, 0), 0);
    tern_tensor *y = tern_view(x, TERN_SHAPE(8, 3));
    assert_no_error();
    assert_int_equal(tern_stride(y, 0), 0);
    assert_int_equal(at(y, 7, 2), 2);
    assert_null(tern_expand(counting(TERN_SHAPE(3)), TERN_SHAPE(4)));
    assert_error(TERN_ERR_SHAPE, "[3] cannot be expanded to [4]");
    assert_null(tern_expand(counting(TERN_SHAPE(3)), TERN_SHAPE(-1, 3)));
    assert_error(TERN_ERR_SHAPE, "cannot be expanded");
}

static void test_permute_and_transpose(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = counting(TERN_SHAPE(2, 3, 4));
    tern_tensor *y = tern_permute(x, TERN_DIMS(-1, 0, 1));
    assert_int_equal(tern_size(y, 0), 4);
    assert_int_equal(tern_size(y, 2), 3);
    assert_int_equal(tern_item_int(tern_select(tern_select(tern_select(y, 0, 3), 0, 1), 0, 2)), 23);
    assert_null(tern_permute(x, TERN_DIMS(0, 1)));
    assert_error(TERN_ERR_SHAPE, "an order of 2 dimensions");
    assert_null(tern_permute(x, TERN_DIMS(0, 1, 1)));
    assert_error(TERN_ERR_ARGUMENT, "twice");
    assert_null(tern_transpose(x, 0, 3));
    assert_error(TERN_ERR_ARGUMENT, "transpose: dimension 3 is outside -3 .. 2");
    assert_int_equal(tern_ndim(tern_transpose(tern_ones(TERN_SCALAR_SHAPE), 0, -1)), 0);
}

static void check_slice(tern_tensor *x, int64_t start, int64_t end, int64_t step, int64_t count,
                        int64_t first)
{
    tern_tensor *part = tern_slice(x, 0, start, end, step);
    assert_no_error();
    assert_int_equal(tern_size(part, 0), count);
    if (count > 0)
        assert_int_equal(tern_item_int(tern_select(part, 0, 0)), first);
}

static void test_slice_bounds_clamp_as_in_python(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = counting(TERN_SHAPE(10));
    check_slice(x, 2, 5, 0, 3, 2);
    check_slice(x, -3, 0, 1, 3, 7);
    check_slice(x, -100, 100, 3, 4, 0);
    check_slice(x, 5, 5, 1, 0, 0);
    check_slice(x, 8, 3, 1, 0, 0);
    check_slice(x, 1, -1, 4, 2, 1);
    check_slice(x, 100, 0, 1, 0, 0);
    assert_null(tern_slice(x, 0, 0, 0, -1));
    assert_error(TERN_ERR_ARGUMENT, "the step is -1");
    assert_null(tern_slice(x, 1, 0, 1));
    assert_error(TERN_ERR_ARGUMENT, "dimension 1");
    assert_null(tern_slice(NULL, 0, 0, 1));
    assert_error(TERN_ERR_ARGUMENT, "slice: x is NULL");
    assert_null(tern_slice(tern_ones(TERN_SCALAR_SHAPE), 0));
    assert_error(TERN_ERR_SHAPE, "0-dim");
}

static void test_select_squeeze_unsqueeze_flatten(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = counting(TERN_SHAPE(2, 1, 3));
    assert_int_equal(tern_ndim(tern_squeeze(x, 1)), 2);
    assert_int_equal(tern_ndim(tern_squeeze(x, 0)), 3);
    assert_int_equal(tern_size(tern_unsqueeze(x, -1), 3), 1);
    assert_int_equal(tern_size(tern_flatten(x, 0, -1), 0), 6);
    assert_int_equal(tern_ndim(tern_flatten(tern_ones(TERN_SCALAR_SHAPE), 0, -1)), 1);
    assert_int_equal(tern_item_int(tern_select(tern_flatten(x, 0, -1), 0, -1)), 5);
    assert_null(tern_select(x, 2, 3));
    assert_error(TERN_ERR_INDEX, "select: index 3 is outside dimension 2 of extent 3");
    assert_null(tern_unsqueeze(x, 4));
    assert_error(TERN_ERR_ARGUMENT, "unsqueeze: dimension 4");
    assert_null(tern_flatten(x, 2, 0));
    assert_error(TERN_ERR_ARGUMENT, "flatten");
}

static void test_empty_tensors_have_every_view(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_transpose(tern_empty(TERN_SHAPE(0, 3)), 0, 1);
    assert_int_equal(tern_numel(tern_view(x, TERN_SHAPE(7, 0, 2))), 0);
    assert_int_equal(tern_numel(tern_expand(tern_empty(TERN_SHAPE(1, 0)), TERN_SHAPE(4, 0))), 0);
    assert_int_equal(tern_size(tern_slice(x, 0, 1, 2), 0), 1);
    assert_no_error();
}

static void test_dense_strides_keep_the_order_of_dimensions(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_empty(TERN_SHAPE(2, 3, 4, 5), .format = TERN_FORMAT_CHANNELS_LAST);
    tern_tensor *part = tern_slice(x, 3, 0, 2); /* not dense */
    assert_true(tern_is_channels_last(x));
    assert_true(tern_is_channels_last(tern_clone(part)));
    assert_true(tern_is_channels_last(tern_cast(part, TERN_F64)));
    assert_true(tern_is_contiguous(tern_contiguous(part)));
    assert_true(tern_is_contiguous(tern_to(x, .format = TERN_FORMAT_CONTIGUOUS)));
    assert_true(tern_is_channels_last(tern_relu(x)));
    assert_true(tern_is_channels_last(tern_add(tern_ones(TERN_SHAPE(3, 1, 1)), x)));
    tern_tensor *expanded = tern_expand(tern_ones(TERN_SHAPE(3, 1)), TERN_SHAPE(3, 2));
    assert_true(tern_is_contiguous(tern_clone(expanded)));
}

static void test_detach_shares_data_but_no_history(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    tern_tensor *y = tern_detach(tern_mul(x, 2.0));
    assert_false(tern_requires_grad(y));
    assert_true(tern_is_leaf(y));
    assert_true(tern_shares_storage(x, tern_detach(x)));
}

/* Overlapping parts of a result, whose gradients meet in one tensor: weight[i] is what element i of x is
 * multiplied by in all. The first part's zeros take the other parts, and lie as the result does. */
static void test_parts_of_a_result_add_up_their_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(3, 4), .requires_grad = true);
    tern_tensor *y = tern_transpose(tern_mul(x, 1.0), 0, 1); /* [4, 3] */
    tern_tensor *first = tern_slice(y, 0, 0, 3), *last = tern_slice(y, 0, 1, 4, .step = 2);
    tern_tensor *sum = tern_add(tern_sum(tern_mul(first, 2.0)), tern_sum(tern_mul(last, 10.0)));
    sum = tern_add(sum, tern_sum(tern_mul(tern_select(y, 1, 2), 100.0)));
    tern_tensor *third = tern_mul(tern_select(y, 0, 0), tern_select(y, 0, 0)); /* of second order */
    sum = tern_add(sum, tern_sum(third));
    const double wanted[3][4] = { { 4, 12, 2, 10 }, { 4, 12, 2, 10 }, { 104, 112, 102, 110 } };
    tern_tensor *grads[3];
    tern_grad(sum, &x, 1, grads, .retain_graph = true);
    tern_grad(sum, &x, 1, grads + 1, .retain_graph = true);
    tern_grad(sum, &x, 1, grads + 2, .create_graph = true);
    assert_no_error();
    for (int g = 0; g < 3; g++)
        for (int i = 0; i < 12; i++) {
            tern_tensor *row = tern_select(grads[g], 0, i / 4);
            assert_close(tern_item(tern_select(row, 0, i % 4)), wanted[i / 4][i % 4], 0);
        }
    tern_tensor *second = NULL;
    tern_grad(tern_sum(grads[2]), &x, 1, &second);
    assert_no_error();
    assert_close(tern_item(tern_sum(second)), 3 * 2, 0);
}

/* A gradient on its way through another shape is still nobody else's: gelu's goes into its memory. */
/* What reshape copied is nobody's view: written through a view of its own, it keeps its place in the graph. */
static void test_a_reshape_that_copies_owns_its_memory(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(3, 4), .requires_grad = true), *grad;
    tern_tensor *y = tern_reshape(tern_transpose(tern_mul(x, 2), 0, 1), TERN_SHAPE(-1));
    tern_tensor *v = tern_slice(y, .end = 3);
    tern_mul_(v, 3);
    assert_int_equal(tern_grad(tern_sum(v), &y, 1, &grad), TERN_OK);
    assert_close(tern_item(tern_sum(grad)), 3, 0);
    tern_backward(tern_sum(y));
    assert_close(tern_item(tern_sum(tern_grad_of(x))), 3 * 6 + 9 * 2, 0);
    tern_tensor *z;
    {
        TERN_NO_GRAD;
        z = tern_reshape(tern_transpose(x, 0, 1), TERN_SHAPE(-1));
    }
    tern_mul_(z, tern_slice(y, .end = 1)); /* no view that was made without a record */
    assert_no_error();
    assert_true(tern_requires_grad(z));
}

/* ---- results that end in a view of what they were computed in -------------------------------------- */

static tern_tensor *result_matmul(tern_tensor *x)
{
    return tern_matmul(x, tern_ones(TERN_SHAPE(4, 5)));
}
static tern_tensor *result_vector(tern_tensor *x)
{
    return tern_matmul(x, tern_ones(TERN_SHAPE(4)));
}
static tern_tensor *result_broadcast(tern_tensor *x)
{
    return tern_matmul(tern_ones(TERN_SHAPE(5, 1, 2, 4)), x);
}
static tern_tensor *result_dot(tern_tensor *x)
{
    tern_tensor *row = tern_select(tern_select(x, 0, 0), 0, 0);
    return tern_dot(row, tern_ones(TERN_SHAPE(4)));
}
static tern_tensor *result_linear(tern_tensor *x)
{
    return tern_linear(x, tern_ones(TERN_SHAPE(5, 4)), tern_ones(TERN_SHAPE(5)));
}
static tern_tensor *result_index(tern_tensor *x)
{
    return tern_index(x, NULL, tern_from_data(((int64_t[]){ 0, 1 }), TERN_SHAPE(2)));
}
static tern_tensor *result_repeat(tern_tensor *x)
{
    return tern_repeat(x, TERN_SHAPE(2, 1, 1));
}
static tern_tensor *result_roll(tern_tensor *x)
{
    return tern_roll(x, TERN_SHAPE(1), (tern_dims_t){ 0 });
}
static tern_tensor *result_logsumexp(tern_tensor *x)
{
    return tern_logsumexp(x, TERN_DIMS(1));
}
static tern_tensor *result_conv1d(tern_tensor *x)
{
    return tern_conv1d(x, tern_ones(TERN_SHAPE(5, 4, 3)));
}
static tern_tensor *result_conv_transpose1d(tern_tensor *x)
{
    return tern_conv_transpose1d(x, tern_ones(TERN_SHAPE(4, 5, 3)));
}
static tern_tensor *result_shuffle(tern_tensor *x)
{
    return tern_pixel_shuffle(tern_permute(tern_unsqueeze(x, 0), TERN_DIMS(0, 2, 1, 3)), 2);
}
static tern_tensor *result_group_norm(tern_tensor *x)
{
    return tern_group_norm(x, 2);
}
static tern_tensor *result_interpolate(tern_tensor *x)
{
    return tern_interpolate(x, .scale = { 2 });
}
static tern_tensor *result_einsum(tern_tensor *x)
{
    return tern_einsum("ijk->i", x);
}

static const struct {
    const char *name;
    tern_tensor *(*make)(tern_tensor *x);
} results[] = {
    { "matmul", result_matmul },
    { "vector", result_vector },
    { "broadcast", result_broadcast },
    { "dot", result_dot },
    { "linear", result_linear },
    { "index", result_index },
    { "repeat", result_repeat },
    { "roll", result_roll },
    { "logsumexp", result_logsumexp },
    { "conv1d", result_conv1d },
    { "conv_transpose1d", result_conv_transpose1d },
    { "shuffle", result_shuffle },
    { "group_norm", result_group_norm },
    { "interpolate", result_interpolate },
    { "einsum", result_einsum },
};

static tern_tensor *count(tern_tensor *t, tern_tensor *grad, void *user)
{
    (void)t, (void)grad;
    ++*(int *)user;
    return NULL;
}

/* No tensor of the program's is behind them (their _base is None in PyTorch): a hook stays with what comes of them, a
 * leaf made of one is not written through its views, and one made without a record may be written. */
static void test_results_that_are_no_views(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        TERN_SCOPE;
        print_message("%s\n", results[i].name);
        int called = 0;
        tern_tensor *x = tern_randn(TERN_SHAPE(2, 4, 4), .requires_grad = true), *y, *two;
        y = results[i].make(x);
        tern_add_hook(y, count, &called);
        tern_add_(y, 1);
        tern_backward(tern_sum(y));
        assert_no_error();
        assert_int_equal(called, 1);
        {
            TERN_NO_GRAD;
            y = results[i].make(x);
        }
        two = tern_full(2, TERN_SCALAR_SHAPE, .requires_grad = true);
        tern_mul_(y, two);
        assert_no_error();
        assert_true(tern_requires_grad(y) && !tern_is_leaf(y));
        y = tern_set_requires_grad(tern_reshape(results[i].make(tern_detach(x)), TERN_SHAPE(-1)),
                                   true);
        assert_null(tern_mul_(tern_slice(y, 0, 0, 1), 2));
        assert_error(TERN_ERR_GRAD, "a view of a leaf that requires a gradient");
    }
}

/* Views of what was given stay views, also where a composed function makes them. */
static void test_views_of_an_operand_stay_views(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        TERN_SCOPE;
        int called = 0;
        tern_tensor *x = tern_ones(TERN_SHAPE(2, 3), .requires_grad = true), *y = tern_mul(x, 2);
        tern_tensor *v = which == 0   ? tern_reshape(y, TERN_SHAPE(3, 2))
                         : which == 1 ? tern_flatten(y, 0, 1)
                         : which == 2 ? tern_einsum("ij->ji", y)
                                      : tern_movedim(y, 0, 1);
        tern_add_hook(v, count, &called);
        tern_mul_(v, 3);
        tern_backward(tern_sum(y));
        assert_no_error();
        assert_int_equal(called, 0);
        assert_close(tern_item(tern_sum(tern_grad_of(x))), 36, 0);
        {
            TERN_NO_GRAD;
            v = tern_flatten(y, 0, 1);
        }
        assert_null(tern_mul_(v, 3));
        assert_error(TERN_ERR_GRAD, "made in TERN_NO_GRAD");
    }
}

static void test_a_gradient_keeps_its_memory_through_a_view(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t bytes = 4 * 256 * 512;
    const tern_dev_t dev = tern_default_device();
    tern_tensor *x = tern_set_requires_grad(tern_ones(TERN_SHAPE(256, 512)), true);
    tern_tensor *w = tern_ones(TERN_SHAPE(512, 256));
    tern_tensor *y = tern_reshape(tern_gelu(x), TERN_SHAPE(512, 256));
    tern_tensor *loss = tern_sum(tern_mul(y, w));
    assert_no_error();
    tern_memory_reset_peak(dev);
    const int64_t before = tern_memory(dev).allocated_bytes;
    tern_backward(loss);
    assert_no_error();
    assert_true(tern_memory(dev).peak_allocated_bytes - before < bytes + bytes / 2);
    assert_close(tern_item(tern_select(tern_select(tern_grad_of(x), 0, 255), 0, 511)), 1.0833155,
                 1e-5);
}

static tern_tensor *after_many(tern_tensor *last)
{
    tern_tensor *list[40];
    for (int i = 0; i < 39; i++)
        list[i] = tern_ones(TERN_SHAPE(1));
    list[39] = last;
    return tern_cat_at(TERN_HERE, list, 40, 0);
}

/* The view was made before what it shares memory with got a history. Which: an op that expands it; one that takes
 * a 0-dim operand as a number; one that writes its first operand where no gradient reads that; a long list. */
static void test_history_that_came_through_other_tensors(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        TERN_SCOPE;
        tern_tensor *w = tern_full(1, TERN_SHAPE(3), .requires_grad = true);
        tern_tensor *b = tern_zeros(TERN_SHAPE(3)), *x = tern_ones(TERN_SHAPE(4)), *y = NULL;
        tern_tensor *v =
            which == 1 ? tern_select(b, 0, 0) : tern_slice(b, .start = TERN_ZERO, .end = 1);
        tern_add_(b, w);
        if (which == 0)
            y = tern_add(v, tern_ones(TERN_SHAPE(4, 1)));
        else if (which == 1)
            y = tern_mul(x, v);
        else if (which == 2)
            y = tern_lerp_(x, tern_full(2, TERN_SHAPE(4)), v);
        else
            y = tern_mul(after_many(v), 4);
        tern_backward(tern_sum(y));
        assert_no_error();
        assert_non_null(tern_grad_of(w));
        assert_close(tern_item(tern_select(tern_grad_of(w), 0, 0)), 4, 0);
        assert_close(tern_item(tern_select(tern_grad_of(w), 0, 1)), 0, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reshape_shares_when_strides_allow),
        cmocka_unit_test(test_shapes_that_do_not_fit_are_errors),
        cmocka_unit_test(test_strides_of_extents_of_one_do_not_matter),
        cmocka_unit_test(test_expanded_dimensions_merge_and_split),
        cmocka_unit_test(test_permute_and_transpose),
        cmocka_unit_test(test_slice_bounds_clamp_as_in_python),
        cmocka_unit_test(test_select_squeeze_unsqueeze_flatten),
        cmocka_unit_test(test_empty_tensors_have_every_view),
        cmocka_unit_test(test_dense_strides_keep_the_order_of_dimensions),
        cmocka_unit_test(test_detach_shares_data_but_no_history),
        cmocka_unit_test(test_parts_of_a_result_add_up_their_gradients),
        cmocka_unit_test(test_a_reshape_that_copies_owns_its_memory),
        cmocka_unit_test(test_history_that_came_through_other_tensors),
        cmocka_unit_test(test_results_that_are_no_views),
        cmocka_unit_test(test_views_of_an_operand_stay_views),
        cmocka_unit_test(test_a_gradient_keeps_its_memory_through_a_view),
    };
    return check_run(tests, NULL, NULL);
}
