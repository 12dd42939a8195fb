/* conv2d: layouts, unbatched images, what it says about what it does not take, gradients. Values
 * are tested in test_conformance.c and tests/unit/test_cpu_conv2d.c. */
#include "tests/support/check.h"

static double distance(tern_tensor *a, tern_tensor *b)
{
    return tern_item(tern_amax(tern_abs(tern_sub(a, b))));
}

static void test_conv2d_of_one_image(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(3, 9, 8)), *w = tern_randn(TERN_SHAPE(12, 3, 3, 3));
    tern_tensor *y = tern_conv2d(x, w, .padding = { 1 });
    tern_tensor *batch = tern_conv2d(tern_unsqueeze(x, 0), w, .padding = { 1 });
    assert_no_error();
    assert_int_equal(tern_ndim(y), 3);
    assert_close(distance(y, tern_squeeze(batch, 0)), 0, 0);
}

static void test_conv2d_does_not_depend_on_layout(void **state)
{
    (void)state;
    TERN_SCOPE;
    for (int64_t channels = 2; channels <= 32; channels *= 4) {
        tern_tensor *x = tern_randn(TERN_SHAPE(2, channels, 9, 8));
        tern_tensor *w = tern_randn(TERN_SHAPE(20, channels, 3, 3));
        tern_tensor *a = tern_conv2d(x, w);
        tern_tensor *b = tern_conv2d(tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST),
                                     tern_to(w, .format = TERN_FORMAT_CHANNELS_LAST));
        assert_no_error();
        assert_true(!check_on_cpu() || tern_is_channels_last(a));
        assert_close(distance(a, b), 0, 1e-4);
    }
}

/* Few channels without a bias go another way than the rest where that is faster; f64 goes neither. */
static void test_conv2d_of_few_channels_agrees_with_f64(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const int64_t cases[][4] = { { 16, 16, 1, 1 }, { 16, 32, 0, 2 }, { 32, 17, 2, 0 } };
    for (int i = 0; i < 3; i++) {
        const int64_t *c = cases[i];
        const int64_t above = c[2] ? c[2] : TERN_ZERO, beside = c[3] ? c[3] : TERN_ZERO;
        tern_tensor *x = tern_randn(TERN_SHAPE(3, c[0], 9, 8));
        tern_tensor *w = tern_randn(TERN_SHAPE(c[1], c[0], 3, 3));
        tern_tensor *wide = tern_conv2d(tern_cast(x, TERN_F64), tern_cast(w, TERN_F64),
                                        .padding = { above, beside });
        for (int last = 0; last < 2; last++) {
            const tern_memory_format_t format =
                last ? TERN_FORMAT_CHANNELS_LAST : TERN_FORMAT_CONTIGUOUS;
            tern_tensor *y = tern_conv2d(tern_to(x, .format = format), tern_to(w, .format = format),
                                         .padding = { above, beside });
            assert_no_error();
            assert_close(distance(tern_cast(y, TERN_F64), wide), 0, 1e-4);
        }
    }
}

/* By columns and a product as deep as one of its blocks, with more columns than that: what it packs is more
 * than for a product that is as wide in every direction. */
static void test_conv2d_f64_of_many_channels(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(1, 64, 9, 8)),
                *w = tern_randn(TERN_SHAPE(300, 64, 2, 2));
    tern_tensor *y = tern_conv2d(x, w);
    tern_tensor *wide = tern_conv2d(tern_cast(x, TERN_F64), tern_cast(w, TERN_F64));
    assert_no_error();
    assert_close(distance(tern_cast(y, TERN_F64), wide), 0, 1e-3);
}

static void test_conv2d_a_missing_second_takes_the_first(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(1, 2, 11, 13)), *w = tern_randn(TERN_SHAPE(3, 2, 3, 3));
    tern_tensor *y = tern_conv2d(x, w, .stride = { 2 }, .padding = { 1 }, .dilation = { 2 });
    assert_no_error();
    assert_int_equal(tern_size(y, 2), (11 + 2 - 4 - 1) / 2 + 1);
    assert_int_equal(tern_size(y, 3), (13 + 2 - 4 - 1) / 2 + 1);
    y = tern_conv2d(x, w, .stride = { 1, 3 });
    assert_int_equal(tern_size(y, 3), (13 - 3) / 3 + 1);
}

static void test_conv2d_of_no_images(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = tern_randn(TERN_SHAPE(3, 2, 3, 3), .requires_grad = true);
    tern_tensor *y = tern_conv2d(tern_zeros(TERN_SHAPE(0, 2, 5, 5)), w);
    tern_backward(tern_sum(y));
    assert_no_error();
    assert_int_equal(tern_numel(y), 0);
    assert_close(tern_item(tern_amax(tern_abs(tern_grad_of(w)))), 0, 0);
}

static void test_conv2d_names_what_does_not_fit(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 3, 8, 8)), *w = tern_ones(TERN_SHAPE(4, 3, 3, 3));
    assert_null(tern_conv2d(x, tern_ones(TERN_SHAPE(4, 2, 3, 3))));
    assert_error(TERN_ERR_SHAPE, "to have 2 channels, but got 3 channels instead");
    assert_null(tern_conv2d(x, tern_ones(TERN_SHAPE(4, 3, 9, 3))));
    assert_error(TERN_ERR_SHAPE, "padded input size per channel: (8 x 8), kernel size: (9 x 3)");
    assert_null(tern_conv2d(x, w, tern_ones(TERN_SHAPE(3))));
    assert_error(TERN_ERR_SHAPE, "expected bias to be [4], one for each output channel");
    assert_null(tern_conv2d(tern_ones(TERN_SHAPE(8, 8)), w));
    assert_error(TERN_ERR_SHAPE, "[N, C, H, W] or [C, H, W]");
    assert_null(tern_conv2d(x, tern_ones(TERN_SHAPE(4, 3, 3))));
    assert_error(TERN_ERR_SHAPE, "expected the weight");
    assert_null(tern_conv2d(x, tern_cast(w, TERN_F64)));
    assert_error(TERN_ERR_DTYPE, "x and weight have different dtypes: f32 and f64");
    assert_null(tern_conv2d(x, tern_ones(TERN_SHAPE(0, 3, 3, 3))));
    assert_error(TERN_ERR_SHAPE, "is empty");
    assert_null(tern_conv2d(x, NULL));
    assert_error(TERN_ERR_ARGUMENT, "weight is NULL");
}

static void assert_image_size(tern_tensor *y, int64_t height, int64_t width)
{
    assert_no_error();
    assert_int_equal(tern_size(y, -2), height);
    assert_int_equal(tern_size(y, -1), width);
}

/* One number is for both dimensions; a zero that is meant beside another number is TERN_ZERO. */
/* Rows of an expanded kernel so far apart that what they cover leaves 64 bits. */
static void test_conv2d_of_kernels_beyond_counting(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1, 1, 3, 3));
    tern_tensor *tall =
        tern_expand(tern_ones(TERN_SHAPE(1)), TERN_SHAPE(1, 1, INT64_C(1) << 33, 1));
    assert_null(
        tern_conv2d(x, tall, .dilation = { INT32_MAX, 1 }, .stride = { INT32_MAX, INT32_MAX }));
    assert_error(TERN_ERR_SHAPE, "the kernel can't be greater");
    assert_null(tern_conv_transpose2d(x, tall, .dilation = { INT32_MAX, 1 }));
    assert_error(TERN_ERR_SHAPE, "too large");
}

/* Padding may take all rows away, as in PyTorch, but not more. */
static void test_conv_transpose2d_of_no_rows(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const struct {
        int64_t stride[2], padding[2], output_padding[2], dilation[2], height, width;
    } rows[] = {
        { { 3, 3 }, { 2, TERN_ZERO }, { 0 }, { 1, 1 }, 0, 4 },
        { { 3, 3 }, { TERN_ZERO, 2 }, { 0 }, { 1, 1 }, 4, 0 },
        { { 3, 3 }, { 2, 2 }, { 0 }, { 1, 1 }, 0, 0 },
        { { 1, 7 }, { 1, 7 }, { TERN_ZERO, 6 }, { 1, 8 }, 0, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int last = 0; last < 2; last++) {
            tern_tensor *in[3] = { tern_ones(TERN_SHAPE(2, 6, 2, 2)),
                                   tern_ones(TERN_SHAPE(6, 2, 1, 1)), tern_ones(TERN_SHAPE(4)) };
            in[0] = last ? tern_to(in[0], .format = TERN_FORMAT_CHANNELS_LAST) : in[0];
            for (int k = 0; k < 3; k++)
                tern_set_requires_grad(in[k], true);
            tern_conv_transpose2d_args args = {
                .size_ = sizeof args, .x = in[0], .weight = in[1], .bias = in[2], .groups = 2
            };
            memcpy(args.stride, rows[i].stride, sizeof args.stride);
            memcpy(args.padding, rows[i].padding, sizeof args.padding);
            memcpy(args.output_padding, rows[i].output_padding, sizeof args.output_padding);
            memcpy(args.dilation, rows[i].dilation, sizeof args.dilation);
            tern_tensor *y = tern_conv_transpose2d_at(TERN_HERE, &args);
            assert_image_size(y, rows[i].height, rows[i].width);
            assert_int_equal(tern_size(y, 1), 4);
            tern_backward(tern_sum(y));
            assert_no_error();
            for (int k = 0; k < 3; k++)
                assert_true(tern_item(tern_sum(tern_abs(tern_grad_of(in[k])))) == 0);
        }
    tern_tensor *x = tern_ones(TERN_SHAPE(6, 2)), *w = tern_ones(TERN_SHAPE(6, 2, 1));
    assert_int_equal(tern_size(tern_conv_transpose1d(x, w, .stride = 3, .padding = 2), 1), 0);
    assert_null(tern_conv_transpose1d(x, w, .stride = 2, .padding = 2));
    assert_error(TERN_ERR_SHAPE, "calculated output size is too small");
}

static void test_a_padding_of_height_alone(void **state)
{
    (void)state;
    TERN_SCOPE;
    char text[400];
    tern_tensor *x = tern_ones(TERN_SHAPE(1, 1, 8, 8)), *w = tern_ones(TERN_SHAPE(1, 1, 3, 3));
    assert_image_size(tern_conv2d(x, w, .padding = { 1 }), 8, 8);
    assert_image_size(tern_conv2d(x, w, .padding = { 1, TERN_ZERO }), 8, 6);
    assert_image_size(tern_conv2d(x, w, .padding = { TERN_ZERO, 1 }), 6, 8);
    assert_image_size(tern_conv2d(x, w, .padding = { 0, 1 }), 6, 8);
    assert_image_size(tern_max_pool2d(x, { 2 }, .padding = { 1, TERN_ZERO }), 5, 4);
    assert_image_size(tern_avg_pool2d(x, { 2 }, .padding = { 1, TERN_ZERO }), 5, 4);
    assert_null(tern_conv2d(x, w, .stride = { 2, TERN_ZERO }));
    assert_error(TERN_ERR_ARGUMENT, "stride is (2, 0)");
    tern_module *conv = tern_conv2d_layer(1, 1, 3, .padding = 1, .padding_w = TERN_ZERO);
    assert_image_size(tern_forward(conv, x), 8, 6);
    assert_non_null(strstr(tern_module_describe(conv, text, sizeof text), "padding=1x0"));
    assert_image_size(tern_forward(tern_conv2d_layer(1, 1, 3, .padding_w = 1), x), 6, 8);
    assert_image_size(
        tern_forward(tern_max_pool2d_layer(2, .padding = 1, .padding_w = TERN_ZERO), x), 5, 4);
    assert_null(tern_conv2d_layer(1, 1, 3, .padding = 1, .padding_w = -1));
    assert_error(TERN_ERR_ARGUMENT, "'padding' is 1, -1");
    assert_null(tern_max_pool2d_layer(2, .padding = 1, .padding_w = -1));
    assert_error(TERN_ERR_ARGUMENT, "'padding' must be from 0");
    assert_int_equal(tern_numel(tern_slice(tern_arange(0, 5), 0, .end = TERN_ZERO)), 0);
}

static void test_conv2d_names_bad_options(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 3, 8, 8)), *w = tern_ones(TERN_SHAPE(4, 3, 3, 3));
    assert_null(tern_conv2d(x, w, .stride = { -1 }));
    assert_error(TERN_ERR_ARGUMENT, "stride is (-1, -1)");
    assert_null(tern_conv2d(x, w, .padding = { -1, 0 }));
    assert_error(TERN_ERR_ARGUMENT, "padding is (-1, -1)");
    assert_null(tern_conv2d(x, w, .dilation = { 1, -2 }));
    assert_error(TERN_ERR_ARGUMENT, "dilation is (1, -2)");
    assert_null(tern_conv2d(x, w, .padding = { INT64_MAX }));
    assert_error(TERN_ERR_ARGUMENT, "too large");
    assert_null(tern_conv2d(x, w, .groups = -1));
    assert_error(TERN_ERR_ARGUMENT, "groups is -1");
    assert_null(tern_conv2d(x, w, .groups = 3));
    assert_error(TERN_ERR_SHAPE, "groups do not divide");
    assert_null(tern_conv2d_at(TERN_HERE, NULL));
    assert_error(TERN_ERR_ARGUMENT, "x and weight are missing");
}

/* ---- gradients ------------------------------------------------------------------------------- */

static tern_tensor *plain(tern_tensor *const *in, void *user)
{
    (void)user;
    return tern_conv2d(in[0], in[1], in[2]);
}

static tern_tensor *with_options(tern_tensor *const *in, void *user)
{
    (void)user;
    return tern_conv2d(in[0], in[1], in[2], .stride = { 2, 1 }, .padding = { 1, 2 },
                       .dilation = { 1, 2 }, .groups = 2);
}

static tern_tensor *one_image(tern_tensor *const *in, void *user)
{
    (void)user;
    return tern_conv2d(tern_select(in[0], 0, 0), in[1], in[2], .padding = { 1 });
}

static tern_tensor *f64(tern_shape_t shape)
{
    return tern_randn(shape, .dtype = TERN_F64, .requires_grad = true);
}

static void check_gradients(tern_gradcheck_fn fn, int64_t in, int64_t out, int64_t groups)
{
    tern_tensor *inputs[3] = { f64(TERN_SHAPE(2, in, 5, 6)),
                               f64(TERN_SHAPE(out, in / groups, 3, 2)), f64(TERN_SHAPE(out)) };
    tern_gradcheck(fn, inputs, 3, .order = 2);
    assert_no_error();
}

static void test_conv2d_gradients_of_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    check_gradients(plain, 2, 3, 1);
    check_gradients(plain, 2, 10, 1);
    check_gradients(with_options, 4, 6, 2);
    check_gradients(one_image, 3, 2, 1);
}

/* Only what is asked for is computed: of a bias alone, or of a weight alone. */
static void test_conv2d_gradient_of_one_input(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 1, 4, 4)), *w = tern_ones(TERN_SHAPE(3, 1, 3, 3));
    tern_tensor *b = tern_zeros(TERN_SHAPE(3), .requires_grad = true);
    tern_backward(tern_sum(tern_conv2d(x, w, b)));
    assert_no_error();
    assert_close(tern_item(tern_select(tern_grad_of(b), 0, 1)), 8, 0);
    tern_set_requires_grad(w, true);
    tern_backward(tern_sum(tern_conv2d(x, w)));
    assert_no_error();
    assert_close(tern_item(tern_sum(tern_grad_of(w))), 3 * 9 * 8, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv2d_of_one_image),
        cmocka_unit_test(test_conv2d_does_not_depend_on_layout),
        cmocka_unit_test(test_conv2d_of_few_channels_agrees_with_f64),
        cmocka_unit_test(test_conv2d_f64_of_many_channels),
        cmocka_unit_test(test_conv2d_a_missing_second_takes_the_first),
        cmocka_unit_test(test_conv2d_of_no_images),
        cmocka_unit_test(test_conv2d_names_what_does_not_fit),
        cmocka_unit_test(test_conv2d_of_kernels_beyond_counting),
        cmocka_unit_test(test_a_padding_of_height_alone),
        cmocka_unit_test(test_conv2d_names_bad_options),
        cmocka_unit_test(test_conv2d_gradients_of_gradients),
        cmocka_unit_test(test_conv2d_gradient_of_one_input),
        cmocka_unit_test(test_conv_transpose2d_of_no_rows),
    };
    return check_run(tests, NULL, NULL);
}
