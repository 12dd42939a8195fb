/* Images of integers against golden vectors, tests/golden/make_image_integers.py. As PyTorch's, kernels of
 * devices take none of them, and say so. */
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
};

static void test_devices_refuse_what_the_cpu_alone_takes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TERN_SCOPE;
        golden_inputs in = golden_make_inputs(&rows[i], TERN_F64);
        assert_no_error();
        assert_null(rows[i].run(in.tensors));
        assert_error(TERN_ERR_UNSUPPORTED, "has no kernel for this op in ");
    }
}

int main(void)
{
    golden_use("image_integers", rows, sizeof rows / sizeof *rows, "");
    if (!check_device_ready())
        return 1;
    if (check_on_cpu()) {
        const struct CMUnitTest tests[] = { GOLDEN_TESTS };
        return check_run(tests, golden_setup, golden_teardown);
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        test_devices_refuse_what_the_cpu_alone_takes) };
    return check_run(tests, golden_setup, golden_teardown);
}
