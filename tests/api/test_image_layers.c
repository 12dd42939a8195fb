/* Layers of sequences, transposed convolution, normalisation by groups, and sizes: names and shapes as
 * in PyTorch's state dictionaries, results as the ops', mistakes. */
#include <math.h>
#include <string.h>

#include "tests/support/check.h"

static void expect_members(tern_module *m, const char *const *names, tern_shape_t first)
{
    assert_non_null(m);
    int count = 0;
    while (names[count])
        count++;
    const tern_tensors_t parameters = tern_parameters(m), buffers = tern_buffers(m);
    assert_int_equal(parameters.count + buffers.count, count);
    for (int i = 0; i < count; i++)
        assert_non_null(tern_module_tensor(m, names[i]));
    if (count == 0)
        return;
    const tern_tensor *t = tern_module_tensor(m, names[0]);
    assert_int_equal(tern_ndim(t), first.ndim);
    for (int d = 0; d < first.ndim; d++)
        assert_int_equal(tern_size(t, d), first.dims[d]);
}
#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void test_members_have_the_names_and_shapes_of_pytorch(void **state)
{
    (void)state;
    TERN_SCOPE;
    expect_members(tern_conv1d_layer(4, 6, 3, .groups = 2), NAMES("weight", "bias"),
                   TERN_SHAPE(6, 2, 3));
    expect_members(tern_conv1d_layer(4, 6, 3, .no_bias = true), NAMES("weight"),
                   TERN_SHAPE(6, 4, 3));
    expect_members(tern_conv_transpose1d_layer(2, 4, 3), NAMES("weight", "bias"),
                   TERN_SHAPE(2, 4, 3));
    expect_members(tern_conv_transpose2d_layer(2, 4, 3, .groups = 2), NAMES("weight", "bias"),
                   TERN_SHAPE(2, 2, 3, 3));
    expect_members(tern_group_norm_layer(2, 4), NAMES("weight", "bias"), TERN_SHAPE(4));
    expect_members(tern_rms_norm_layer(5), NAMES("weight"), TERN_SHAPE(5));
    expect_members(tern_rms_norm_layer(.shape = TERN_SHAPE(2, 5)), NAMES("weight"),
                   TERN_SHAPE(2, 5));
    expect_members(tern_instance_norm_layer(3), (const char *const[]){ NULL }, TERN_SHAPE(3));
    expect_members(tern_instance_norm_layer(3, .affine = true, .running = true),
                   NAMES("weight", "bias", "running_mean", "running_var", "num_batches_tracked"),
                   TERN_SHAPE(3));
}

static void test_initial_values_have_the_bounds_of_pytorch(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_seed(3);
    tern_module *layers[] = { tern_conv1d_layer(16, 64, 5, .groups = 2),
                              tern_conv_transpose1d_layer(64, 16, 5, .groups = 2),
                              tern_conv_transpose2d_layer(64, 8, 3) };
    const double fans[] = { 8 * 5, 8 * 5, 8 * 9 };
    for (int i = 0; i < 3; i++) {
        const double bound = 1 / sqrt(fans[i]);
        tern_tensor *weight = tern_module_tensor(layers[i], "weight");
        const double most = tern_item(tern_amax(tern_abs(weight)));
        assert_true(most <= bound && most > 0.95 * bound);
    }
}

static void expect_shape(const tern_tensor *t, tern_shape_t shape)
{
    assert_no_error();
    assert_int_equal(tern_ndim(t), shape.ndim);
    for (int d = 0; d < shape.ndim; d++)
        assert_int_equal(tern_size(t, d), shape.dims[d]);
}

/* An encoder, and a decoder that brings the sequence back to its length. */
static void test_a_network_of_them_learns(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_seed(1);
    tern_module *net = tern_sequential(
        tern_conv1d_layer(2, 8, 4, .stride = 2, .padding = 1), tern_group_norm_layer(2, 8),
        tern_relu_layer(), tern_conv_transpose1d_layer(8, 4, 4, .stride = 2, .padding = 1),
        tern_instance_norm_layer(4, .affine = true), tern_rms_norm_layer(12),
        tern_conv1d_layer(4, 2, 1));
    tern_optimizer *opt = tern_adam(tern_parameters(net), .lr = 0.01);
    tern_tensor *x = tern_randn(TERN_SHAPE(3, 2, 12)), *y = tern_randn(TERN_SHAPE(3, 2, 12));
    double first = 0, last = 0;
    for (int i = 0; i < 60; i++) {
        TERN_SCOPE;
        tern_tensor *loss = tern_mse_loss(tern_forward(net, x), y, TERN_MEAN);
        tern_backward(loss);
        tern_step(opt);
        tern_zero_grad(opt);
        last = tern_item(loss);
        first = i == 0 ? last : first;
    }
    assert_no_error();
    assert_true(last < 0.6 * first);
}

static void test_images_come_to_a_size(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 3, 9, 7));
    expect_shape(tern_forward(tern_adaptive_avg_pool2d_layer(2, 3), x), TERN_SHAPE(2, 3, 2, 3));
    expect_shape(tern_forward(tern_adaptive_max_pool2d_layer(-1, 3), x), TERN_SHAPE(2, 3, 9, 3));
    expect_shape(tern_forward(tern_upsample_layer(.scale = 2), x), TERN_SHAPE(2, 3, 18, 14));
    expect_shape(tern_forward(tern_upsample_layer(5, 4, .mode = TERN_BILINEAR), x),
                 TERN_SHAPE(2, 3, 5, 4));
    expect_shape(tern_forward(tern_conv_transpose2d_layer(3, 4, 2, .stride = 2), x),
                 TERN_SHAPE(2, 4, 18, 14));
}

/* Along a dimension whose size stays, a cell is itself: infinities stay where they are, of gradients, too. */
static void test_cells_that_stay_take_nothing_from_others(void **state)
{
    (void)state;
    TERN_SCOPE;
    const float far = INFINITY, line[] = { 1, 2, far, 4 }, twice[] = { 2, 4, far, 8 };
    const tern_dev_t device = tern_default_device();
    tern_tensor *x = tern_from_data(line, TERN_SHAPE(1, 1, 4), .device = device);
    tern_set_requires_grad(x, true);
    tern_tensor *y = tern_interpolate(x, { 4 }, .mode = TERN_LINEAR);
    tern_backward(y, .gradient = tern_detach(x));
    tern_tensor *of_x = tern_grad_of(x);
    tern_tensor *z =
        tern_set_requires_grad(tern_reshape(tern_detach(x), TERN_SHAPE(1, 1, 1, 4)), true);
    tern_tensor *two = tern_interpolate(z, { 2, 4 }, .mode = TERN_BILINEAR);
    tern_backward(two, .gradient = tern_detach(two));
    assert_no_error();
    float got[5][4];
    tern_read(y, TERN_F32, got[0], sizeof got[0]);
    tern_read(of_x, TERN_F32, got[1], sizeof got[1]);
    tern_read(two, TERN_F32, got[2], 2 * sizeof got[2]);
    tern_read(tern_grad_of(z), TERN_F32, got[4], sizeof got[4]);
    assert_no_error();
    for (int i = 0; i < 20; i++)
        assert_true(got[i / 4][i % 4] == (i < 16 ? line : twice)[i % 4]);
}

/* In evaluation a layer with running statistics uses them. */
static void test_instance_norm_keeps_statistics_when_asked(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_add(tern_randn(TERN_SHAPE(4, 2, 50)), 3);
    tern_module *m = tern_instance_norm_layer(2, .running = true, .momentum = 1);
    assert_true(fabs(tern_item(tern_mean(tern_forward(m, x)))) < 1e-4);
    assert_true(fabs(tern_item(tern_mean(tern_module_tensor(m, "running_mean"))) - 3) < 0.5);
    assert_int_equal((int64_t)tern_item(tern_module_tensor(m, "num_batches_tracked")), 0);
    tern_eval(m);
    tern_tensor *y = tern_forward(m, tern_add(x, 5));
    assert_true(tern_item(tern_mean(y)) > 3);
    assert_no_error();
}

/* Ten thousand times 0.1, summed one after the other in f32, would be off by 1e-4. */
static void test_an_average_of_all_is_a_mean(void **state)
{
    (void)state;
    TERN_SCOPE;
    for (int last = 0; last < 2; last++) {
        tern_tensor *x = tern_full(0.1, TERN_SHAPE(2, 3, 100, 100), .dtype = TERN_F32);
        x = tern_to(x, .format = last ? TERN_FORMAT_CHANNELS_LAST : TERN_FORMAT_CONTIGUOUS);
        x = tern_set_requires_grad(x, true);
        tern_tensor *y = tern_adaptive_avg_pool2d(x, { 1, 1 });
        expect_shape(y, TERN_SHAPE(2, 3, 1, 1));
        assert_true(tern_item(tern_amax(tern_abs(tern_sub(y, 0.1)))) < 1e-7);
        tern_backward(tern_sum(y));
        assert_true(tern_item(tern_amax(tern_abs(tern_sub(tern_grad_of(x), 1e-4)))) < 1e-11);
    }
    tern_tensor *row = tern_full(0.1, TERN_SHAPE(2, 10000), .dtype = TERN_F32);
    assert_true(fabs(tern_item(tern_sum(tern_adaptive_avg_pool1d(row, 1))) - 0.2) < 2e-7);
    assert_no_error();
}

static void test_layers_describe_themselves(void **state)
{
    (void)state;
    char text[400];
    tern_module_describe(tern_sequential(tern_conv1d_layer(2, 4, 3, .no_bias = true),
                                         tern_group_norm_layer(2, 4), tern_rms_norm_layer(5),
                                         tern_upsample_layer(.scale = 2),
                                         tern_adaptive_avg_pool2d_layer(1, -1)),
                         text, sizeof text);
    assert_non_null(strstr(text,
                           "in=2, out=4, kernel=3, stride=1, padding=0, dilation=1, groups=1, "
                           "no bias"));
    assert_non_null(strstr(text, "groups=2, channels=4, eps=1e-05"));
    assert_non_null(strstr(text, "size=5)"));
    assert_non_null(strstr(text, "scale=2, mode=nearest"));
    assert_non_null(strstr(text, "size=1x-1"));
}

/* An image with such a padding is more than memory or 64 bits count, its convolution a few elements: PyTorch's have
 * the values below, here it is an error where the image would have to be there as a whole. */
static void expect_right_or_no_memory(tern_tensor *y, int64_t numel, double middle)
{
    if (y == NULL) {
        assert_int_equal(tern_error_code(), TERN_ERR_OOM);
        tern_error_clear();
        return;
    }
    assert_int_equal(tern_numel(y), numel);
    tern_tensor *row = tern_reshape(y, TERN_SHAPE(numel));
    assert_close(tern_item(tern_select(row, 0, numel / 2)), middle, 0);
}

static void test_options_that_make_images_huge(void **state)
{
    (void)state;
    check_cpu_only("how images are padded is the CPU's way");
    TERN_SCOPE;
    const int32_t most = INT32_MAX;
    tern_tensor *x = tern_ones(TERN_SHAPE(1, 2, 2, 2));
    tern_tensor *one = tern_ones(TERN_SHAPE(1, 2, 1, 1)),
                *three = tern_ones(TERN_SHAPE(1, 2, 3, 3));
    tern_tensor *turned = tern_ones(TERN_SHAPE(2, 1, 1, 1));
    expect_right_or_no_memory(tern_conv2d(x, one, .stride = { most }), 1, 2);
    expect_right_or_no_memory(tern_conv2d(x, one, .stride = { most }, .padding = { most }), 9, 2);
    expect_right_or_no_memory(tern_conv2d(x, three, .dilation = { most }, .padding = { most }), 4,
                              2);
    expect_right_or_no_memory(tern_conv2d(tern_cast(x, TERN_F64), tern_cast(three, TERN_F64),
                                          .dilation = { most }, .padding = { most },
                                          .stride = { most }),
                              1, 2);
    expect_right_or_no_memory(
        tern_conv_transpose2d(x, turned, .stride = { most }, .padding = { most / 2 }), 4, 0);
    assert_no_error();
}

static void test_mistakes_are_explained(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(2, 4, 6)), *w = tern_zeros(TERN_SHAPE(4, 4, 3));
    tern_tensor *image = tern_zeros(TERN_SHAPE(1, 2, 4, 4));
    assert_null(tern_conv1d(image, w));
    assert_error(TERN_ERR_SHAPE, "expected x to be [N, C, L] or [C, L]");
    assert_null(tern_conv1d(x, image));
    assert_error(TERN_ERR_SHAPE, "expected the weight to have 3 dimensions");
    assert_null(tern_conv_transpose1d(x, w, .stride = 2, .output_padding = 2));
    assert_error(TERN_ERR_ARGUMENT,
                 "output padding must be smaller than either stride or dilation");
    assert_null(tern_conv_transpose1d(x, tern_zeros(TERN_SHAPE(3, 4, 3))));
    assert_error(TERN_ERR_SHAPE, "given transposed=1, groups=1 and weight of size [3, 4, 1, 3]");
    assert_null(tern_group_norm(x, 3));
    assert_error(TERN_ERR_SHAPE, "that groups divide, but got [2, 4, 6] and groups=3");
    assert_null(tern_instance_norm(tern_zeros(TERN_SHAPE(2, 4, 1))));
    assert_error(TERN_ERR_SHAPE, "expected more than 1 spatial element");
    assert_null(tern_rms_norm(x, .weight = tern_zeros(TERN_SHAPE(4))));
    assert_error(TERN_ERR_SHAPE, "the weight has to be [6]");
    assert_null(tern_interpolate(image));
    assert_error(TERN_ERR_ARGUMENT, "size or scale is missing");
    assert_null(tern_interpolate(image, { 3 }, .mode = TERN_LINEAR));
    assert_error(TERN_ERR_SHAPE, "got 4D input, but the mode needs 3D input");
    assert_null(tern_interpolate(image, { 3 }, .align_corners = true));
    assert_error(TERN_ERR_ARGUMENT, "align_corners can only be set");
    assert_null(tern_adaptive_avg_pool2d(image, { TERN_ZERO }));
    assert_error(TERN_ERR_ARGUMENT, "the size to make is");
    assert_null(tern_group_norm_layer(3, 4));
    assert_error(TERN_ERR_ARGUMENT, "groups = 3 must divide channels = 4");
    assert_null(tern_conv_transpose2d_layer(2, 4, 3, .output_padding = 1));
    assert_error(TERN_ERR_ARGUMENT, "'output_padding' is 1: it must be from 0 to below the stride");
    assert_null(tern_adaptive_avg_pool2d_layer(0, 1));
    assert_error(TERN_ERR_ARGUMENT, "extents are positive");
    assert_null(tern_forward(tern_group_norm_layer(2, 8), x));
    assert_error(TERN_ERR_SHAPE, "the input is not [N, 8, ...]\n    input      f32 [2, 4, 6] on ");
    assert_null(tern_forward(tern_instance_norm_layer(8), x));
    assert_error(TERN_ERR_SHAPE, "the input is not [N, 8, ...]\n    input      f32 [2, 4, 6] on ");
    assert_null(tern_forward(tern_batch_norm2d_layer(4), x));
    assert_error(TERN_ERR_SHAPE, "it takes [N, C, H, W]\n    input      f32 [2, 4, 6] on ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_have_the_names_and_shapes_of_pytorch),
        cmocka_unit_test(test_initial_values_have_the_bounds_of_pytorch),
        cmocka_unit_test(test_a_network_of_them_learns),
        cmocka_unit_test(test_images_come_to_a_size),
        cmocka_unit_test(test_cells_that_stay_take_nothing_from_others),
        cmocka_unit_test(test_instance_norm_keeps_statistics_when_asked),
        cmocka_unit_test(test_an_average_of_all_is_a_mean),
        cmocka_unit_test(test_layers_describe_themselves),
        cmocka_unit_test(test_options_that_make_images_huge),
        cmocka_unit_test(test_mistakes_are_explained),
    };
    return check_run(tests, NULL, NULL);
}
