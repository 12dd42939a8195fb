/* Pooling: layouts, unbatched images, PyTorch's rules of size, errors, gradients. Values are tested
 * in test_conformance.c and tests/unit/test_cpu_pool2d.c. */
#include <math.h>

#include "tests/support/check.h"

static void test_pool2d_keeps_the_layout(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 20, 8, 8), .requires_grad = true);
    tern_tensor *last = tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST);
    assert_true(tern_is_contiguous(tern_max_pool2d(x, { 2 })));
    assert_true(tern_is_channels_last(tern_max_pool2d(last, { 2 })));
    assert_true(tern_is_contiguous(tern_avg_pool2d(x, { 2 })));
    assert_true(tern_is_channels_last(tern_avg_pool2d(last, { 2 })));
    assert_true(tern_is_channels_last(tern_adaptive_max_pool2d(last, { 3 }))); /* uneven windows */
    assert_true(tern_is_channels_last(tern_adaptive_avg_pool2d(last, { 3 })));
    assert_no_error();
}

static void test_pool2d_of_one_image(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_arange(.end = 32, .dtype = TERN_F32);
    x = tern_view(x, TERN_SHAPE(2, 4, 4));
    tern_tensor *y = tern_max_pool2d(x, { 2 }), *mean = tern_avg_pool2d(x, { 4 });
    assert_no_error();
    assert_int_equal(tern_ndim(y), 3);
    assert_close(tern_item(tern_amax(y)), 31, 0);
    assert_close(tern_item(tern_select(tern_reshape(mean, TERN_SHAPE(2)), 0, 0)), 7.5, 0);
}

/* In ceil mode the last window has to start inside the input or the padding before it. */
static void test_pool2d_sizes_in_ceil_mode(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1, 1, 5, 6));
    tern_tensor *y = tern_max_pool2d(x, { 2 }, .ceil_mode = true);
    assert_int_equal(tern_size(y, 2), 3);
    assert_int_equal(tern_size(y, 3), 3);
    y = tern_max_pool2d(x, { 2 }, .stride = { 3 }, .ceil_mode = true);
    assert_int_equal(tern_size(y, 2), 2);
    assert_int_equal(tern_size(y, 3), 2);
    y = tern_avg_pool2d(x, { 3 }, .stride = { 2 }, .padding = { 1 }, .ceil_mode = true);
    assert_no_error();
    assert_int_equal(tern_size(y, 2), 3);
}

static void test_pool2d_names_bad_options(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1, 2, 4, 4));
    assert_null(tern_max_pool2d(x));
    assert_error(TERN_ERR_ARGUMENT, "the kernel size is missing");
    assert_null(tern_max_pool2d(x, { 2 }, .padding = { 2 }));
    assert_error(TERN_ERR_ARGUMENT, "pad should be at most half of effective kernel size");
    assert_null(tern_max_pool2d(x, { -2 }));
    assert_error(TERN_ERR_ARGUMENT, "kernel size is (-2, -2)");
    assert_null(tern_max_pool2d(x, { 2 }, .stride = { -1 }));
    assert_error(TERN_ERR_ARGUMENT, "stride is (-1, -1)");
    assert_null(tern_avg_pool2d(x, { 2 }, .dilation = { 2 }));
    assert_error(TERN_ERR_ARGUMENT, "no dilation");
    assert_null(tern_max_pool2d_at(TERN_HERE, NULL));
    assert_error(TERN_ERR_ARGUMENT, "x is missing");
}

static void test_pool2d_names_what_does_not_fit(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_null(tern_max_pool2d(tern_ones(TERN_SHAPE(1, 2, 4, 4)), { 5 }));
    assert_error(TERN_ERR_SHAPE, "output size is too small");
    assert_null(tern_avg_pool2d(tern_ones(TERN_SHAPE(4, 4)), { 2 }));
    assert_error(TERN_ERR_SHAPE, "expected 3D or 4D");
    assert_null(tern_max_pool2d(tern_ones(TERN_SHAPE(1, 0, 4, 4)), { 2 }));
    assert_error(TERN_ERR_SHAPE, "expected 3D or 4D");
    assert_null(tern_avg_pool2d(tern_ones(TERN_SHAPE(1, 1, 4, 4), .dtype = TERN_I32), { 2 }));
    assert_error(TERN_ERR_DTYPE, "i32");
    assert_null(tern_max_pool2d(NULL, { 2 }));
    assert_error(TERN_ERR_ARGUMENT, "x is NULL");
}

/* Of several NaN in a window the last counts, as in max_pool2d; of equal values the first. */
static void test_adaptive_windows_with_nan(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const float values[] = { NAN, NAN, 3, 3, 2, NAN, 1, 3, 1, 2, 0, 0, 0, 2, 2 };
    static const float want[] = { 0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0, 0, 0, 0, 0 };
    tern_tensor *x = tern_from_data(values, TERN_SHAPE(1, 1, 3, 5));
    tern_set_requires_grad(x, true);
    tern_backward(tern_sum(tern_adaptive_max_pool2d(x, { 2, 3 })));
    assert_no_error();
    tern_tensor *grad = tern_cpu(tern_grad_of(x));
    const float *got = tern_data(grad);
    for (int i = 0; i < 15; i++)
        assert_close(got[i], want[i], 0);
}

static void test_pool2d_of_no_images(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(0, 2, 4, 4), .requires_grad = true);
    tern_backward(tern_sum(tern_avg_pool2d(tern_max_pool2d(x, { 2 }), { 2 })));
    assert_no_error();
    assert_int_equal(tern_numel(tern_grad_of(x)), 0);
}

/* Padding may be half of the dilated kernel, so that a window steps over all of x: as in PyTorch its
 * maximum is the lowest value. (There its gradient is written outside of x; here it goes nowhere.) */
static void test_max_pool2d_of_windows_without_cells(void **state)
{
    (void)state;
    static const struct {
        tern_dtype_t dtype;
        double lowest;
    } kinds[] = {
        { TERN_F32, -INFINITY },  { TERN_F64, -INFINITY }, { TERN_F16, -INFINITY },
        { TERN_BF16, -INFINITY }, { TERN_U8, 0 },          { TERN_I8, INT8_MIN },
        { TERN_I16, INT16_MIN },  { TERN_I32, INT32_MIN }, { TERN_I64, (double)INT64_MIN }
    };
    TERN_SCOPE;
    for (int k = 0; k < 9; k++)
        for (int last = 0; last < 2; last++) {
            const double no = kinds[k].lowest, want[9] = { 4, no, 3, no, no, no, 2, no, 1 };
            tern_tensor *x = tern_arange(.start = 1, .end = 5, .dtype = kinds[k].dtype);
            x = tern_expand(tern_view(x, TERN_SHAPE(1, 1, 2, 2)), TERN_SHAPE(2, 16, 2, 2));
            x = tern_to(x, .format = last ? TERN_FORMAT_CHANNELS_LAST : TERN_FORMAT_CONTIGUOUS);
            tern_tensor *one = tern_max_pool2d(x, { 2 }, .padding = { 1 }, .dilation = { 3 });
            assert_true(tern_item(tern_amax(tern_cast(one, TERN_F64))) == no);
            tern_tensor *y =
                tern_max_pool2d(x, { 4 }, .stride = { 1 }, .padding = { 5 }, .dilation = { 3 });
            y = tern_cast(tern_select(tern_select(y, 0, 1), 0, 15), TERN_F64);
            assert_no_error();
            for (int i = 0; i < 9; i++)
                assert_true(tern_item(tern_select(tern_select(y, 0, i / 3), 0, i % 3)) == want[i]);
        }
}

/* Only what is inside is walked: this is over at once. */
static void test_pool2d_of_vast_windows(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t most = INT32_MAX, half = INT32_MAX / 2;
    const tern_dev_t dev = tern_default_device();
    for (int last = 0; last < 2; last++)
        for (int d = 0; d < 3; d++) {
            const tern_dtype_t dtype = (tern_dtype_t[]){ TERN_F32, TERN_F64, TERN_BF16 }[d];
            tern_tensor *x = tern_arange(.end = 12, .dtype = dtype, .device = dev);
            x = tern_reshape(x, TERN_SHAPE(1, 1, 3, 4));
            x = tern_expand(x, TERN_SHAPE(2, 2, 3, 4));
            x = tern_to(x, .format = last ? TERN_FORMAT_CHANNELS_LAST : TERN_FORMAT_CONTIGUOUS);
            x = tern_set_requires_grad(x, true);
            tern_tensor *mean = tern_avg_pool2d(x, { most, most }, .stride = { 1 },
                                                .padding = { half, half }, .exclude_pad = true);
            assert_no_error();
            assert_int_equal(tern_size(mean, 3), 4);
            tern_tensor *off = tern_abs(tern_sub(tern_cast(mean, TERN_F64), 5.5));
            assert_close(tern_item(tern_amax(off)), 0, 1e-6);
            tern_tensor *grad = NULL;
            tern_grad(tern_sum(mean), &x, 1, &grad);
            off = tern_abs(tern_sub(tern_cast(grad, TERN_F64), 1.0));
            assert_close(tern_item(tern_amax(off)), 0, dtype == TERN_BF16 ? 0.04 : 1e-6);
            tern_tensor *row =
                tern_max_pool2d(x, { 1, most }, .stride = { 1, 1 }, .padding = { 0, half });
            assert_close(tern_item(tern_sum(tern_cast(row, TERN_F64))), 4 * 4 * (3 + 7 + 11), 0);
            tern_grad(tern_sum(row), &x, 1, &grad);
            assert_close(tern_item(tern_sum(tern_cast(grad, TERN_F64))), 48, 0);
            tern_tensor *ends = tern_select(grad, 3, 3);
            assert_close(tern_item(tern_amin(tern_cast(ends, TERN_F64))), 4, 0);
            assert_no_error();
        }
}

/* Each result's gradient goes to the cell that it came from, and that of a window without cells
 * nowhere; the same places give the gradient of the gradient. */
static void test_max_pool2d_gradients_of_windows_without_cells(void **state)
{
    (void)state;
    static const double to[4] = { 9, 7, 3, 1 }, back[9] = { 40, 0, 30, 0, 0, 0, 20, 0, 10 };
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
    TERN_SCOPE;
    const tern_dev_t dev = tern_default_device();
    for (int k = 0; k < 4; k++)
        for (int last = 0; last < 2; last++) {
            const tern_memory_format_t format =
                last ? TERN_FORMAT_CHANNELS_LAST : TERN_FORMAT_CONTIGUOUS;
            const tern_shape_t of_x = TERN_SHAPE(2, 16, 2, 2), of_y = TERN_SHAPE(2, 16, 3, 3);
            tern_tensor *x = tern_arange(.start = 1, .end = 5, .dtype = dtypes[k], .device = dev);
            x = tern_expand(tern_view(x, TERN_SHAPE(1, 1, 2, 2)), of_x);
            x = tern_set_requires_grad(tern_to(x, .format = format), true);
            tern_tensor *g = tern_arange(.start = 1, .end = 10, .dtype = dtypes[k], .device = dev);
            g = tern_expand(tern_view(g, TERN_SHAPE(1, 1, 3, 3)), of_y);
            g = tern_set_requires_grad(tern_to(g, .format = format), true);
            tern_tensor *y =
                tern_max_pool2d(x, { 4 }, .stride = { 1 }, .padding = { 5 }, .dilation = { 3 });
            tern_tensor *grad = NULL, *again = NULL;
            tern_grad(y, &x, 1, &grad, .gradient = g, .create_graph = true);
            tern_grad(grad, &g, 1, &again, .gradient = tern_mul(tern_detach(x), 10));
            assert_no_error();
            for (int64_t i = 0; i < 32 * 4; i++)
                assert_close(tern_item(tern_select(tern_reshape(grad, TERN_SHAPE(-1)), 0, i)),
                             to[i % 4], 0);
            for (int64_t i = 0; i < 32 * 9; i++)
                assert_close(tern_item(tern_select(tern_reshape(again, TERN_SHAPE(-1)), 0, i)),
                             back[i % 9], 0);
        }
}

/* ---- gradients ------------------------------------------------------------------------------- */

typedef struct pool_options {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode, exclude_pad, channels_last;
} pool_options;

static tern_pool2d_args args_of(tern_tensor *x, const pool_options *o)
{
    if (o->channels_last)
        x = tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST);
    return (tern_pool2d_args){ .size_ = sizeof(tern_pool2d_args),
                               .x = x,
                               .kernel = { o->kernel[0], o->kernel[1] },
                               .stride = { o->stride[0], o->stride[1] },
                               .padding = { o->padding[0], o->padding[1] },
                               .dilation = { o->dilation[0], o->dilation[1] },
                               .ceil_mode = o->ceil_mode,
                               .exclude_pad = o->exclude_pad };
}

/* Cubed, so that the second derivative is not 0. */
static tern_tensor *max_pool(tern_tensor *const *in, void *user)
{
    const tern_pool2d_args args = args_of(in[0], user);
    return tern_pow(tern_max_pool2d_at(TERN_HERE, &args), 3.0);
}

static tern_tensor *avg_pool(tern_tensor *const *in, void *user)
{
    const tern_pool2d_args args = args_of(in[0], user);
    return tern_pow(tern_avg_pool2d_at(TERN_HERE, &args), 3.0);
}

/* exp: 0 of a window without cells. */
static tern_tensor *max_pool_exp(tern_tensor *const *in, void *user)
{
    const tern_pool2d_args args = args_of(in[0], user);
    return tern_exp(tern_max_pool2d_at(TERN_HERE, &args));
}

static void check_gradients(tern_gradcheck_fn fn, pool_options options)
{
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 3, 6, 7), .dtype = TERN_F64, .requires_grad = true);
    tern_gradcheck(fn, &x, 1, .user = &options, .order = 2);
    assert_no_error();
}

static void test_pool2d_gradients_of_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    for (int last = 0; last < 2; last++) {
        check_gradients(max_pool, (pool_options){ .kernel = { 2 }, .channels_last = last });
        check_gradients(max_pool, (pool_options){ .kernel = { 3, 2 },
                                                  .stride = { 1, 2 },
                                                  .padding = { 1, 1 },
                                                  .dilation = { 1, 2 },
                                                  .ceil_mode = true,
                                                  .channels_last = last });
        check_gradients(avg_pool, (pool_options){ .kernel = { 2 }, .channels_last = last });
        check_gradients(avg_pool, (pool_options){ .kernel = { 3 },
                                                  .stride = { 2 },
                                                  .padding = { 1 },
                                                  .ceil_mode = true,
                                                  .exclude_pad = true,
                                                  .channels_last = last });
        check_gradients(max_pool_exp, (pool_options){ .kernel = { 4, 2 },
                                                      .stride = { 1 },
                                                      .padding = { 9, 1 },
                                                      .dilation = { 7, 1 },
                                                      .channels_last = last });
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool2d_keeps_the_layout),
        cmocka_unit_test(test_pool2d_of_one_image),
        cmocka_unit_test(test_pool2d_sizes_in_ceil_mode),
        cmocka_unit_test(test_pool2d_names_bad_options),
        cmocka_unit_test(test_pool2d_names_what_does_not_fit),
        cmocka_unit_test(test_pool2d_of_no_images),
        cmocka_unit_test(test_max_pool2d_of_windows_without_cells),
        cmocka_unit_test(test_max_pool2d_gradients_of_windows_without_cells),
        cmocka_unit_test(test_pool2d_of_vast_windows),
        cmocka_unit_test(test_pool2d_gradients_of_gradients),
        cmocka_unit_test(test_adaptive_windows_with_nan),
    };
    return check_run(tests, NULL, NULL);
}
