/* Images of integers against golden vectors, tests/golden/make_image_integers.py. As PyTorch's, devices take
 * none of them but bytes that are moved and not blended, and say so. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

/* clang-format off */
GOLDEN_OP(conv2d, tern_conv2d(in[0], in[1], in[2], .padding = { 1 }))
GOLDEN_OP(conv2d_options, tern_conv2d(in[0], in[1], in[2], .stride = { 2, 1 }, .padding = { TERN_ZERO, 2 },
                                      .dilation = { 1, 2 }, .groups = 2))
GOLDEN_OP(conv2d_channels, tern_conv2d(in[0], in[1]))
GOLDEN_OP(conv2d_plain, tern_conv2d(in[0], in[1], in[2]))
#define NARROW(name, dtype)                                                                   \
    GOLDEN_OP(conv2d_##name, tern_conv2d(tern_cast(in[0], dtype), tern_cast(in[1], dtype),    \
                                         tern_cast(in[2], dtype)))
NARROW(u8, TERN_U8)
NARROW(i8, TERN_I8)
NARROW(i16, TERN_I16)
NARROW(i32, TERN_I32)
GOLDEN_OP(conv1d, tern_conv1d(in[0], in[1], .stride = 2))
GOLDEN_OP(transpose2d, tern_conv_transpose2d(in[0], in[1], in[2], { 2 }, { 1 }, { 1 }, 2))
GOLDEN_OP(transpose1d, tern_conv_transpose1d(in[0], in[1]))
GOLDEN_OP(average, tern_avg_pool2d(in[0], { 2 }))
GOLDEN_OP(average_pad, tern_avg_pool2d(in[0], { 3 }, .stride = { 2 }, .padding = { 1 }))
GOLDEN_OP(average_exclude, tern_avg_pool2d(in[0], { 3 }, .stride = { 2 }, .padding = { 1 }, .ceil_mode = true,
                                           .exclude_pad = true))
#define BYTES(...) tern_interpolate(tern_cast(in[0], TERN_U8), __VA_ARGS__)
#define SIZES(name, ...)                                             \
    GOLDEN_OP(name##_size, BYTES({ 7, 5 }, __VA_ARGS__))             \
    GOLDEN_OP(name##_less, BYTES({ 3, 2 }, __VA_ARGS__))             \
    GOLDEN_OP(name##_scale, BYTES(.scale = { 1.5, 2.25 }, __VA_ARGS__)) \
    GOLDEN_OP(name##_keep, BYTES(.scale = { 1.2 }, __VA_ARGS__))
SIZES(nearest, .mode = TERN_NEAREST)
SIZES(exact, .mode = TERN_NEAREST_EXACT)
SIZES(bilinear, .mode = TERN_BILINEAR)
SIZES(corners, .mode = TERN_BILINEAR, .align_corners = true)
#define SIZE_ROWS(name)                                                                       \
    { #name "_size", "x", run_##name##_size, 0 }, { #name "_less", "x", run_##name##_less, 0 }, \
    { #name "_scale", "x", run_##name##_scale, 0 }, { #name "_keep", "x", run_##name##_keep, 0 }
/* clang-format on */

static const golden_row rows[] = {
    { "conv2d", "x w b", run_conv2d, 0 },
    { "conv2d_options", "x w b", run_conv2d_options, 0 },
    { "conv2d_channels", "x w", run_conv2d_channels, 0 },
    { "conv2d_wraps", "x w b", run_conv2d_plain, 0 },
    { "conv2d_uint8", "x w b", run_conv2d_u8, 0 },
    { "conv2d_int8", "x w b", run_conv2d_i8, 0 },
    { "conv2d_int16", "x w b", run_conv2d_i16, 0 },
    { "conv2d_int32", "x w b", run_conv2d_i32, 0 },
    { "conv1d", "x w", run_conv1d, 0 },
    { "transpose2d", "x w b", run_transpose2d, 0 },
    { "transpose1d", "x w", run_transpose1d, 0 },
    { "average", "x", run_average, 0 },
    { "average_pad", "x", run_average_pad, 0 },
    { "average_exclude", "x", run_average_exclude, 0 },
    SIZE_ROWS(bilinear),
    SIZE_ROWS(corners),
    SIZE_ROWS(nearest),
    SIZE_ROWS(exact),
};
enum { EVERYWHERE = 8 }; /* the last rows: bytes that are moved as they are */

/* A batch large enough for several threads, in both layouts, beside its images one by one. */
static void check_batch(tern_tensor *x, tern_tensor *(*run)(tern_tensor *))
{
    tern_tensor *all = run(x), *last = run(tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST));
    assert_no_error();
    assert_int_equal(tern_item_int(tern_all(tern_eq(all, last))), 1);
    for (int64_t i = 0; i < tern_size(x, 0); i++) {
        tern_tensor *one = run(tern_select(x, 0, i));
        assert_int_equal(tern_item_int(tern_all(tern_eq(tern_select(all, 0, i), one))), 1);
    }
    assert_no_error();
}

static tern_tensor *blend(tern_tensor *x)
{
    return tern_interpolate(tern_ndim(x) == 3 ? tern_unsqueeze(x, 0) : x, { 150, 170 },
                            .mode = TERN_BILINEAR);
}
static tern_tensor *average(tern_tensor *x)
{
    return tern_avg_pool2d(x, { 3 }, .stride = { 2 }, .padding = { 1 });
}
static tern_tensor *convolve(tern_tensor *x)
{
    tern_tensor *w = tern_arange(.start = -60, .end = 48, .dtype = tern_dtype(x));
    return tern_conv2d(x, tern_reshape(w, TERN_SHAPE(4, 3, 3, 3)), .padding = { 1 });
}

static void test_batches_are_their_images(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_shape_t shape = TERN_SHAPE(6, 3, 120, 110);
    check_batch(tern_randint(0, 256, shape, TERN_U8), blend);
    check_batch(tern_randint(-100, 100, shape, TERN_I64), average);
    check_batch(tern_randint(-100, 100, shape, TERN_I64), convolve);
    check_batch(tern_randint(-100, 100, shape, TERN_I8), convolve);
}

/* Neither averages of windows nor gradients are of bytes. */
static void test_what_is_not_of_integers(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *bytes = tern_ones(TERN_SHAPE(1, 2, 5, 5), TERN_U8);
    assert_null(tern_adaptive_avg_pool2d(bytes, { 2 }));
    assert_error(TERN_ERR_DTYPE, "x is u8; accepted are: f16 bf16 f32 f64");
    assert_null(tern_avg_pool2d(bytes, { 2 }));
    assert_error(TERN_ERR_DTYPE, "x is u8; accepted are: i64 f16 bf16 f32 f64");
    assert_null(tern_conv2d(bytes, tern_ones(TERN_SHAPE(1, 2, 3, 3))));
    assert_error(TERN_ERR_DTYPE, "x and weight have different dtypes: u8 and f32");
    assert_null(tern_conv_transpose2d(bytes, tern_ones(TERN_SHAPE(2, 1, 3, 3), TERN_U8)));
    assert_error(TERN_ERR_DTYPE, "x is u8; accepted are: i64 f16 bf16 f32 f64");
}

static bool runs_everywhere(const golden_row *row)
{
    return row >= rows + sizeof rows / sizeof *rows - EVERYWHERE;
}

static void test_devices_refuse_what_the_cpu_alone_takes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TERN_SCOPE;
        golden_inputs in = golden_make_inputs(&rows[i], TERN_F64);
        assert_no_error();
        tern_tensor *y = rows[i].run(in.tensors);
        if (runs_everywhere(&rows[i])) {
            assert_int_equal(tern_dtype(y), TERN_U8);
            golden_check(rows[i].test, "y", y, 0);
            continue;
        }
        assert_null(y);
        assert_error(TERN_ERR_UNSUPPORTED, "has no kernel for this op in ");
    }
}

int main(void)
{
    golden_use("image_integers", rows, sizeof rows / sizeof *rows, "");
    if (!check_device_ready())
        return 1;
    if (check_on_cpu()) {
        const struct CMUnitTest tests[] = { GOLDEN_TESTS,
                                            cmocka_unit_test(test_batches_are_their_images),
                                            cmocka_unit_test(test_what_is_not_of_integers) };
        return check_run(tests, golden_setup, golden_teardown);
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        test_devices_refuse_what_the_cpu_alone_takes) };
    return check_run(tests, golden_setup, golden_teardown);
}
