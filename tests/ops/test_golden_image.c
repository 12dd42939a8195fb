/* Images in other sizes and normalisation by groups, against golden vectors: tests/golden/make_image.py. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

/* clang-format off */
GOLDEN_OP(conv1d, tern_conv1d(in[0], in[1], in[2]))
GOLDEN_OP(conv1d_options, tern_conv1d(in[0], in[1], in[2], .stride = 2, .padding = 2, .dilation = 2, .groups = 2))
GOLDEN_OP(transpose1d, tern_conv_transpose1d(in[0], in[1], in[2], 2, 1, 1))
GOLDEN_OP(transpose1d_wide,
          tern_conv_transpose1d(in[0], in[1], in[2], 1, 1, 2, .dilation = 3))
GOLDEN_OP(transpose2d_wide, tern_conv_transpose2d(in[0], in[1], in[2], { 2, 1 }, { 3, TERN_ZERO },
                                                  { 1, 3 }, 1, { 2, 4 }))
GOLDEN_OP(transpose2d, tern_conv_transpose2d(in[0], in[1], in[2]))
GOLDEN_OP(transpose2d_options,
          tern_conv_transpose2d(in[0], in[1], in[2], { 2, 3 }, { 1, 2 }, { 1, TERN_ZERO }, 2, { 1, 2 }))
GOLDEN_OP(adaptive_avg, tern_adaptive_avg_pool2d(in[0], { 3, 2 }))
GOLDEN_OP(adaptive_avg_even, tern_adaptive_avg_pool2d(in[0], { 2, 3 }))
GOLDEN_OP(adaptive_avg_keep, tern_adaptive_avg_pool2d(in[0], { -1, 2 }))
GOLDEN_OP(adaptive_avg_larger, tern_adaptive_avg_pool2d(in[0], { 5, 4 }))
GOLDEN_OP(adaptive_max, tern_adaptive_max_pool2d(in[0], { 3, 2 }))
GOLDEN_OP(adaptive_max_even, tern_adaptive_max_pool2d(in[0], { 2, 3 }))
GOLDEN_OP(adaptive_avg1d, tern_adaptive_avg_pool1d(in[0], 4))
GOLDEN_OP(adaptive_max1d, tern_adaptive_max_pool1d(in[0], 4))
#define SIZES(name, ...)                                                                \
    GOLDEN_OP(name##_size, tern_interpolate(in[0], { 7, 5 }, __VA_ARGS__))               \
    GOLDEN_OP(name##_less, tern_interpolate(in[0], { 3, 2 }, __VA_ARGS__))               \
    GOLDEN_OP(name##_scale, tern_interpolate(in[0], .scale = { 1.5, 2.25 }, __VA_ARGS__)) \
    GOLDEN_OP(name##_shrink, tern_interpolate(in[0], .scale = { 0.6 }, __VA_ARGS__))
SIZES(nearest, .mode = TERN_NEAREST)
SIZES(exact, .mode = TERN_NEAREST_EXACT)
SIZES(bilinear, .mode = TERN_BILINEAR)
SIZES(corners, .mode = TERN_BILINEAR, .align_corners = true)
GOLDEN_OP(corners_one, tern_interpolate(in[0], { 1 }, .mode = TERN_BILINEAR, .align_corners = true))
GOLDEN_OP(linear, tern_interpolate(in[0], { 9 }, .mode = TERN_LINEAR))
GOLDEN_OP(nearest_line, tern_interpolate(in[0], .scale = { 2 }))
GOLDEN_OP(pixel_shuffle, tern_pixel_shuffle(in[0], 2))
GOLDEN_OP(pixel_shuffle_3, tern_pixel_shuffle(in[0], 3))
GOLDEN_OP(pixel_unshuffle, tern_pixel_unshuffle(in[0], 2))
GOLDEN_OP(pixel_unshuffle_more, tern_pixel_unshuffle(in[0], 3))
GOLDEN_OP(group, tern_group_norm(in[0], 2, in[1], in[2]))
GOLDEN_OP(group_plain, tern_group_norm(in[0], 3, .eps = 0.5))
GOLDEN_OP(group_bias, tern_group_norm(in[0], 1, NULL, in[1]))
GOLDEN_OP(instance, tern_instance_norm(in[0], in[1], in[2]))
GOLDEN_OP(instance_plain, tern_instance_norm(in[0], .eps = 0.5))
GOLDEN_OP(instance_running, tern_instance_norm(in[0], in[1], in[2], in[3], in[4], .use_running = true))
GOLDEN_OP(rms, tern_rms_norm(in[0], 1, in[1], 1e-3))
GOLDEN_OP(rms_two, tern_rms_norm(in[0], 2, in[1], 1e-3))
GOLDEN_OP(rms_plain, tern_rms_norm(in[0], .eps = 0.5))
GOLDEN_OP(second_rms, tern_rms_norm(in[0], .eps = 1e-3))
GOLDEN_OP(second_group, tern_group_norm(in[0], 2))
GOLDEN_OP(second_transpose2d,
          tern_conv_transpose2d(tern_mul(in[0], in[0]), tern_ones(TERN_SHAPE(2, 1, 2, 2), TERN_F64)))

#define SIZE_ROWS(name)                        \
    { #name "_size", "x", run_##name##_size, 32 }, { #name "_less", "x", run_##name##_less, 32 }, \
    { #name "_scale", "x", run_##name##_scale, 32 }, { #name "_shrink", "x", run_##name##_shrink, 32 }
static const golden_row rows[] = {
    { "conv1d", "x w", run_conv1d, 64 },
    { "conv1d_options", "x w b", run_conv1d_options, 64 },
    { "conv1d_one", "x w b", run_conv1d, 64 },
    { "transpose1d", "x w b", run_transpose1d, 64 },
    { "transpose1d_wide", "x w b", run_transpose1d_wide, 64 },
    { "transpose2d_wide", "x w b", run_transpose2d_wide, 64 },
    { "transpose2d", "x w", run_transpose2d, 64 },
    { "transpose2d_options", "x w b", run_transpose2d_options, 64 },
    { "transpose2d_one", "x w b", run_transpose2d, 64 },
    { "adaptive_avg", "x", run_adaptive_avg, 8 },
    { "adaptive_avg_even", "x", run_adaptive_avg_even, 8 },
    { "adaptive_avg_keep", "x", run_adaptive_avg_keep, 8 },
    { "adaptive_avg_larger", "x", run_adaptive_avg_larger, 8 },
    { "adaptive_max", "x", run_adaptive_max, 4 },
    { "adaptive_max_ties", "x", run_adaptive_max, 4 },
    { "adaptive_max_even", "x", run_adaptive_max_even, 4 },
    { "adaptive_avg1d", "x", run_adaptive_avg1d, 8 },
    { "adaptive_max1d", "x", run_adaptive_max1d, 4 },
    SIZE_ROWS(nearest),
    SIZE_ROWS(exact),
    SIZE_ROWS(bilinear),
    SIZE_ROWS(corners),
    { "corners_one", "x", run_corners_one, 8 },
    { "linear", "x", run_linear, 32 },
    { "nearest_line", "x", run_nearest_line, 8 },
    { "pixel_shuffle", "x", run_pixel_shuffle, 0 },
    { "pixel_shuffle_3", "x", run_pixel_shuffle_3, 0 },
    { "pixel_unshuffle", "x", run_pixel_unshuffle, 0 },
    { "pixel_unshuffle_more", "x", run_pixel_unshuffle_more, 0 },
    { "group", "x w b", run_group, 64 },
    { "group_plain", "x", run_group_plain, 64 },
    { "group_bias", "x b", run_group_bias, 64 },
    { "instance", "x w b", run_instance, 64 },
    { "instance_plain", "x", run_instance_plain, 64 },
    { "instance_running", "x w b m v", run_instance_running, 64 },
    { "rms", "x w", run_rms, 64 },
    { "rms_two", "x w", run_rms_two, 64 },
    { "rms_plain", "x", run_rms_plain, 64 },
    GOLDEN_SECOND_ORDER("rms", run_second_rms),
    GOLDEN_SECOND_ORDER("group", run_second_group),
    GOLDEN_SECOND_ORDER("transpose2d", run_second_transpose2d),
};
/* clang-format on */

/* Running statistics become the mean over samples of what each sample made of them. */
static void test_instance_norm_updates_running_statistics(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const golden_row row = { "instance_updates", "x m v", NULL, 64 };
    const golden_inputs in = golden_make_inputs(&row, TERN_F64);
    tern_tensor *const *t = in.tensors;
    tern_tensor *y =
        tern_instance_norm(t[0], .running_mean = t[1], .running_var = t[2], .momentum = 0.25);
    golden_check(row.test, "y", y, 1e-11);
    golden_check(row.test, "m2", t[1], 1e-11);
    golden_check(row.test, "v2", t[2], 1e-11);
}

int main(void)
{
    golden_use("image", rows, sizeof rows / sizeof *rows, "instance_updates");
    const struct CMUnitTest tests[] = {
        GOLDEN_TESTS,
        cmocka_unit_test(test_instance_norm_updates_running_statistics),
    };
    return check_run(tests, golden_setup, golden_teardown);
}
