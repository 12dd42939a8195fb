/* Every layer: how it describes itself, what it refuses to be made of, and that activations are their ops. */
#include <stdio.h>

#include "tests/support/check.h"

/* The first line of its description; the layer is freed with the suite. */
static void assert_described(tern_module *layer, const char *wanted)
{
    char text[512];
    assert_no_error();
    tern_module_describe(layer, text, sizeof text);
    const size_t length = strlen(wanted);
    if (strncmp(text, wanted, length) != 0 || text[length] != '\n')
        fail_msg("wanted '%s', got '%s'", wanted, text);
    tern_module_free(layer);
}

static void test_layers_describe_themselves(void **state)
{
    (void)state;
    assert_described(
        tern_conv2d_layer(2, 4, 3, .padding = 1),
        "conv2d(in=2, out=4, kernel=3x3, stride=1x1, padding=1x1, dilation=1x1, groups=1)");
    assert_described(tern_batch_norm1d_layer(3, .no_running = true),
                     "batch_norm1d(features=3, eps=1e-05, momentum=0.1, no running statistics)");
    assert_described(tern_batch_norm2d_layer(3, .no_affine = true),
                     "batch_norm2d(features=3, eps=1e-05, momentum=0.1, no weight)");
    assert_described(
        tern_instance_norm_layer(3),
        "instance_norm(features=3, eps=1e-05, momentum=0.1, no weight, no running statistics)");
    assert_described(tern_group_norm_layer(2, 4), "group_norm(groups=2, channels=4, eps=1e-05)");
    assert_described(tern_layer_norm_layer(7), "layer_norm(size=7, eps=1e-05)");
    assert_described(tern_rms_norm_layer(7), "rms_norm(size=7)");
    assert_described(tern_rms_norm_layer(7, .eps = -0.0), "rms_norm(size=7, eps=0)");
    assert_null(tern_layer_norm_layer(.shape = { 7, 7, { 0 } }));
    assert_error(TERN_ERR_ARGUMENT, "layer_norm_layer: 'shape' is bare numbers");
    tern_shape_t wide = TERN_SHAPE(2);
    wide.ndim = 1 << 20;
    assert_null(tern_layer_norm_layer(.shape = wide, .no_affine = true));
    assert_error(TERN_ERR_SHAPE, "'shape' has 1048576 dimensions; a tensor has 0 to 8");
    wide.ndim = TERN_MAX_DIMS + 1; /* what TERN_SHAPE of so many makes, beside a warning */
    assert_null(tern_rms_norm_layer(.shape = wide, .no_affine = true));
    assert_error(TERN_ERR_SHAPE, "'shape' has 9 dimensions");
    assert_described(tern_layer_norm_layer(7, .eps = -0.0), "layer_norm(size=7, eps=0)");
    assert_described(tern_batch_norm1d_layer(3, .eps = -0.0, .momentum = -0.0),
                     "batch_norm1d(features=3, eps=0, momentum=0)");
    assert_described(tern_embedding_layer(5, 6), "embedding(rows=5, size=6)");
    assert_described(tern_embedding_layer(5, 6, .padding_idx = TERN_ZERO, .padding = true),
                     "embedding(rows=5, size=6, padding_idx=0)");
    assert_described(tern_embedding_layer(5, 6, .padding_idx = -5, .padding = true),
                     "embedding(rows=5, size=6, padding_idx=0)");
    assert_described(tern_dropout_layer(0.25), "dropout(p=0.25)");
    assert_described(tern_softmax_layer(-1), "softmax(dim=-1)");
    assert_described(tern_log_softmax_layer(1), "log_softmax(dim=1)");
    assert_described(tern_flatten_layer(), "flatten(dims 1 to -1)");
    assert_described(tern_max_pool2d_layer(2), "max_pool2d(kernel=2x2, stride=2x2, padding=0x0)");
    assert_described(tern_avg_pool2d_layer(3, .stride = 1, .padding = 1),
                     "avg_pool2d(kernel=3x3, stride=1x1, padding=1x1)");
    assert_described(tern_upsample_layer(.scale = 2), "upsample(scale=2, mode=nearest)");
    assert_described(tern_upsample_layer(.height = 4, .width = 5, .mode = TERN_BILINEAR),
                     "upsample(size=4x5, mode=bilinear)");
    assert_described(tern_adaptive_avg_pool2d_layer(2, -1), "adaptive_avg_pool2d(size=2x-1)");
    assert_described(tern_multihead_attention_layer(8, 2, .causal = true),
                     "multihead_attention(width=8, heads=2, dropout=0, causal");
    assert_described(tern_transformer_encoder_layer(8, 2, .hidden = 16, .gelu = true),
                     "transformer_encoder(width=8, heads=2, hidden=16, dropout=0.1, gelu");
    assert_described(tern_lstm_layer(3, 4), "lstm(in=3, hidden=4, layers=1)");
}

/* What PyTorch's repr names where it is not the default, and the rest of what changes results. */
static void test_layers_name_options_that_are_not_defaults(void **state)
{
    (void)state;
    assert_described(tern_conv_transpose2d_layer(2, 4, 3, .stride = 2, .output_padding = 1),
                     "conv_transpose2d(in=2, out=4, kernel=3, stride=2, padding=0, dilation=1, "
                     "groups=1, output_padding=1)");
    assert_described(tern_conv_transpose1d_layer(2, 4, 3, .no_bias = true),
                     "conv_transpose1d(in=2, out=4, kernel=3, stride=1, padding=0, dilation=1, "
                     "groups=1, no bias)");
    assert_described(tern_layer_norm_layer(7, .no_affine = true),
                     "layer_norm(size=7, eps=1e-05, no weight)");
    assert_described(tern_layer_norm_layer(.shape = TERN_SHAPE(2, 7), .no_bias = true),
                     "layer_norm(size=2x7, eps=1e-05, no bias)");
    assert_described(tern_rms_norm_layer(7, .no_affine = true), "rms_norm(size=7, no weight)");
    assert_described(tern_max_pool2d_layer(3, .stride = 2, .dilation_w = 2, .ceil_mode = true),
                     "max_pool2d(kernel=3x3, stride=2x2, padding=0x0, dilation=1x2, ceil mode)");
    assert_described(tern_avg_pool2d_layer(3, .exclude_pad = true, .padding = 1),
                     "avg_pool2d(kernel=3x3, stride=3x3, padding=1x1, exclude pad)");
    assert_described(tern_upsample_layer(.scale = 2, .mode = TERN_BILINEAR, .align_corners = true),
                     "upsample(scale=2, mode=bilinear, align corners)");
    assert_described(tern_gru_layer(3, 4, 2, .dropout = 0.25, .no_bias = true),
                     "gru(in=3, hidden=4, layers=2, dropout=0.25, no bias)");
    assert_described(tern_multihead_attention_layer(8, 2, .key_width = 3),
                     "multihead_attention(width=8, heads=2, dropout=0, key_width=3, value_width=8");
}

typedef tern_tensor *(*unary_fn)(tern_tensor *x);

static tern_tensor *f_gelu(tern_tensor *x)
{
    return tern_gelu(x);
}
static tern_tensor *f_gelu_tanh(tern_tensor *x)
{
    return tern_gelu_tanh(x);
}
static tern_tensor *f_relu(tern_tensor *x)
{
    return tern_relu(x);
}
static tern_tensor *f_sigmoid(tern_tensor *x)
{
    return tern_sigmoid(x);
}
static tern_tensor *f_silu(tern_tensor *x)
{
    return tern_silu(x);
}
static tern_tensor *f_tanh(tern_tensor *x)
{
    return tern_tanh(x);
}
static tern_tensor *f_relu6(tern_tensor *x)
{
    return tern_relu6(x);
}
static tern_tensor *f_hardswish(tern_tensor *x)
{
    return tern_hardswish(x);
}
static tern_tensor *f_mish(tern_tensor *x)
{
    return tern_mish(x);
}
static tern_tensor *f_leaky_relu(tern_tensor *x)
{
    return tern_leaky_relu(x);
}
static tern_tensor *f_leaky_relu_steep(tern_tensor *x)
{
    return tern_leaky_relu(x, .slope = 0.2);
}
static tern_tensor *f_softmax(tern_tensor *x)
{
    return tern_softmax(x, 1);
}
static tern_tensor *f_log_softmax(tern_tensor *x)
{
    return tern_log_softmax(x, 1);
}

static void test_activations_are_their_ops(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_seed(4);
    const struct {
        tern_module *layer;
        unary_fn op;
    } pairs[] = {
        { tern_gelu_layer(), f_gelu },
        { tern_gelu_tanh_layer(), f_gelu_tanh },
        { tern_relu_layer(), f_relu },
        { tern_sigmoid_layer(), f_sigmoid },
        { tern_silu_layer(), f_silu },
        { tern_tanh_layer(), f_tanh },
        { tern_relu6_layer(), f_relu6 },
        { tern_hardswish_layer(), f_hardswish },
        { tern_mish_layer(), f_mish },
        { tern_leaky_relu_layer(0), f_leaky_relu },
        { tern_leaky_relu_layer(0.2), f_leaky_relu_steep },
        { tern_softmax_layer(1), f_softmax },
        { tern_log_softmax_layer(1), f_log_softmax },
    };
    tern_tensor *x = tern_randn(TERN_SHAPE(3, 5));
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        tern_tensor *same = tern_eq(tern_forward(pairs[i].layer, x), pairs[i].op(x));
        assert_true(tern_item(tern_all(same)) == 1);
        tern_module_free(pairs[i].layer);
    }
    assert_no_error();
}

#define REFUSED(layer, words)                   \
    do {                                        \
        assert_null(layer);                     \
        assert_error(TERN_ERR_ARGUMENT, words); \
    } while (0)

static void test_options_that_no_layer_can_have(void **state)
{
    (void)state;
    REFUSED(tern_conv2d_layer(3, 4, 3, .padding = -1), "'padding' is -1");
    REFUSED(tern_conv2d_layer(3, 4, 3, .groups = 2), "groups = 2 must divide in = 3 and out = 4");
    REFUSED(tern_conv1d_layer(3, 4, 3, .groups = 2), "groups = 2 must divide in = 3 and out = 4");
    REFUSED(tern_conv1d_layer(3, 4, 3, .padding = -2), "'padding' is -2");
    REFUSED(tern_conv_transpose2d_layer(3, 4, 3, .output_padding = 1), "below the stride of 1");
    REFUSED(tern_batch_norm2d_layer(0), "features");
    REFUSED(tern_group_norm_layer(3, 4), "groups");
    REFUSED(tern_embedding_layer(5, -1), "size");
    REFUSED(tern_embedding_layer(5, 6, .padding_idx = 5, .padding = true), "padding_idx 5");
    REFUSED(tern_dropout_layer(1.5), "p = 1.5 is not in [0, 1]");
    REFUSED(tern_max_pool2d_layer(2, .exclude_pad = true), "for average pooling only");
    REFUSED(tern_avg_pool2d_layer(2, .dilation = 2), "for max pooling only");
    REFUSED(tern_upsample_layer(.scale = 2, .height = 4), "either a height (and width) or a scale");
    REFUSED(tern_upsample_layer(.scale = 2, .width = 5), "either a height (and width) or a scale");
    REFUSED(tern_multihead_attention_layer(8, 3), "heads");
    REFUSED(tern_lstm_layer(3, 0), "hidden");
    REFUSED(tern_sequential(tern_relu_layer(), NULL), "NULL");
    const int64_t huge = INT64_C(1) << 62; /* of which an lstm has four: 2^64 */
    assert_null(tern_lstm_layer(3, huge));
    assert_error(TERN_ERR_SHAPE, "lstm_layer: a tensor cannot have the shape");
    assert_null(tern_multihead_attention_layer(huge, 1));
    assert_error(TERN_ERR_SHAPE, "multihead_attention_layer: a tensor cannot have the shape");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_describe_themselves),
        cmocka_unit_test(test_layers_name_options_that_are_not_defaults),
        cmocka_unit_test(test_activations_are_their_ops),
        cmocka_unit_test(test_options_that_no_layer_can_have),
    };
    return check_run(tests, NULL, NULL);
}
