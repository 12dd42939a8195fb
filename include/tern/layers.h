/* Layers: modules that hold one op each, with PyTorch's names, defaults and initial values.
 *
 * tern_linear_layer(784, 10, .no_bias = true): required values first, options by name, as their order is not
 * PyTorch's. Each call returns a new module, NULL on failure. Common options: device and dtype of the
 * parameters (default: the thread's), generator of the initial values (default: the thread's). Layers with a dropout
 * of their own draw from that generator in training, too: it has to live as long as they do. */
#ifndef TERN_LAYERS_H
#define TERN_LAYERS_H

#include "tern/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tern_linear_layer_args {
    size_t size_;
    int64_t in, out; /* required */
    bool no_bias;
    tern_dev_t device;
    tern_dtype_t dtype;
    tern_generator *generator;
} tern_linear_layer_args;
/* x [..., in] -> [..., out]. weight [out, in] and bias [out], both from U(-d, d), d = in^-1/2. */
TERN_API tern_module *tern_linear_layer_at(tern_site_t site, const tern_linear_layer_args *args);
#define TERN_LAYER_(kind, ...) \
    tern_##kind##_layer_at(TERN_HERE, TERN_OPTIONS_(tern_##kind##_layer_args, __VA_ARGS__))
#define tern_linear_layer(...) TERN_LAYER_(linear, __VA_ARGS__)

/* One number counts for height and width; a second member, where given, for the width. */
typedef struct tern_conv2d_layer_args {
    size_t size_;
    int64_t in, out, kernel;           /* required */
    int64_t stride, padding, dilation; /* defaults 1, 0, 1 */
    int64_t groups;                    /* default 1 */
    int64_t kernel_w, stride_w, dilation_w;
    int64_t padding_w; /* TERN_ZERO: none, though padding is given */
    bool no_bias;
    tern_dev_t device;
    tern_dtype_t dtype;
    tern_generator *generator;
} tern_conv2d_layer_args;
/* x [N, in, H, W] -> [N, out, H', W'], H' = (H + 2 padding - dilation (kernel - 1) - 1) / stride + 1.
 * weight [out, in / groups, kernel, kernel] and bias [out], from U(-d, d), d = fan_in^-1/2. */
TERN_API tern_module *tern_conv2d_layer_at(tern_site_t site, const tern_conv2d_layer_args *args);
#define tern_conv2d_layer(...) TERN_LAYER_(conv2d, __VA_ARGS__)

typedef struct tern_conv1d_layer_args {
    size_t size_;
    int64_t in, out, kernel;           /* required */
    int64_t stride, padding, dilation; /* defaults 1, 0, 1 */
    int64_t groups;                    /* default 1 */
    bool no_bias;
    tern_dev_t device;
    tern_dtype_t dtype;
    tern_generator *generator;
} tern_conv1d_layer_args;
/* x [N, in, L] -> [N, out, L']. weight [out, in / groups, kernel] and bias [out], as conv2d's. */
TERN_API tern_module *tern_conv1d_layer_at(tern_site_t site, const tern_conv1d_layer_args *args);
#define tern_conv1d_layer(...) TERN_LAYER_(conv1d, __VA_ARGS__)

typedef struct tern_conv_transpose_layer_args {
    size_t size_;
    int64_t in, out, kernel;           /* required */
    int64_t stride, padding, dilation; /* defaults 1, 0, 1; for height and width */
    int64_t output_padding;            /* default 0; below the stride or the dilation */
    int64_t groups;                    /* default 1 */
    bool no_bias;
    tern_dev_t device;
    tern_dtype_t dtype;
    tern_generator *generator;
} tern_conv_transpose_layer_args;
/* x [N, in, L] -> [N, out, (L - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1]; 2d:
 * the same of height and width. weight [in, out / groups, kernel (, kernel)] and bias [out], from
 * U(-d, d), d = (out / groups * kernel (* kernel))^-1/2. */
TERN_API tern_module *tern_conv_transpose1d_layer_at(tern_site_t site,
                                                     const tern_conv_transpose_layer_args *args);
TERN_API tern_module *tern_conv_transpose2d_layer_at(tern_site_t site,
                                                     const tern_conv_transpose_layer_args *args);
#define tern_conv_transpose1d_layer(...)      \
    tern_conv_transpose1d_layer_at(TERN_HERE, \
                                   TERN_OPTIONS_(tern_conv_transpose_layer_args, __VA_ARGS__))
#define tern_conv_transpose2d_layer(...)      \
    tern_conv_transpose2d_layer_at(TERN_HERE, \
                                   TERN_OPTIONS_(tern_conv_transpose_layer_args, __VA_ARGS__))

typedef struct tern_batch_norm_layer_args {
    size_t size_;
    int64_t features; /* required: C */
    double eps;       /* default 1e-5 */
    double momentum;  /* weight of the new statistics; default 0.1 */
    bool no_affine;   /* neither weight nor bias */
    bool no_running;  /* no running statistics: those of the batch in evaluation, too */
    tern_dev_t device;
    tern_dtype_t dtype;
} tern_batch_norm_layer_args;
/* 1d: x [N, C] or [N, C, L]; 2d: [N, C, H, W]. weight 1, bias 0; buffers running_mean 0, running_var 1
 * and num_batches_tracked, which training updates. */
TERN_API tern_module *tern_batch_norm1d_layer_at(tern_site_t site,
                                                 const tern_batch_norm_layer_args *args);
TERN_API tern_module *tern_batch_norm2d_layer_at(tern_site_t site,
                                                 const tern_batch_norm_layer_args *args);
#define tern_batch_norm1d_layer(...) \
    tern_batch_norm1d_layer_at(TERN_HERE, TERN_OPTIONS_(tern_batch_norm_layer_args, __VA_ARGS__))
#define tern_batch_norm2d_layer(...) \
    tern_batch_norm2d_layer_at(TERN_HERE, TERN_OPTIONS_(tern_batch_norm_layer_args, __VA_ARGS__))

typedef struct tern_layer_norm_layer_args {
    size_t size_;
    int64_t size;       /* extent of the last dimension; or: */
    tern_shape_t shape; /* extents of the last dimensions */
    double eps;         /* default 1e-5 */
    bool no_affine;
    bool no_bias;
    tern_dev_t device;
    tern_dtype_t dtype;
} tern_layer_norm_layer_args;
/* Normalises the last dimensions. weight 1, bias 0. */
TERN_API tern_module *tern_layer_norm_layer_at(tern_site_t site,
                                               const tern_layer_norm_layer_args *args);
#define tern_layer_norm_layer(...) TERN_LAYER_(layer_norm, __VA_ARGS__)

typedef struct tern_rms_norm_layer_args {
    size_t size_;
    int64_t size;       /* extent of the last dimension; or: */
    tern_shape_t shape; /* extents of the last dimensions */
    double eps;         /* default: the epsilon of f32, of f64 for f64 */
    bool no_affine;
    tern_dev_t device;
    tern_dtype_t dtype;
} tern_rms_norm_layer_args;
/* Divides the last dimensions by the root of their mean square. weight 1. */
TERN_API tern_module *tern_rms_norm_layer_at(tern_site_t site,
                                             const tern_rms_norm_layer_args *args);
#define tern_rms_norm_layer(...) TERN_LAYER_(rms_norm, __VA_ARGS__)

typedef struct tern_group_norm_layer_args {
    size_t size_;
    int64_t groups, channels; /* required; groups divide channels */
    double eps;               /* default 1e-5 */
    bool no_affine;
    tern_dev_t device;
    tern_dtype_t dtype;
} tern_group_norm_layer_args;
/* Normalises each group of channels of each sample of [N, channels, ...]. weight 1, bias 0. */
TERN_API tern_module *tern_group_norm_layer_at(tern_site_t site,
                                               const tern_group_norm_layer_args *args);
#define tern_group_norm_layer(...) TERN_LAYER_(group_norm, __VA_ARGS__)

typedef struct tern_instance_norm_layer_args {
    size_t size_;
    int64_t features; /* required: C */
    double eps;       /* default 1e-5 */
    double momentum;  /* default 0.1 */
    bool affine;      /* weight 1 and bias 0; not by default, as in PyTorch */
    bool running;     /* keeps running statistics, and evaluates by them; not by default */
    tern_dev_t device;
    tern_dtype_t dtype;
} tern_instance_norm_layer_args;
/* Normalises each channel of each sample of [N, features, ...]. */
TERN_API tern_module *tern_instance_norm_layer_at(tern_site_t site,
                                                  const tern_instance_norm_layer_args *args);
#define tern_instance_norm_layer(...) TERN_LAYER_(instance_norm, __VA_ARGS__)

typedef struct tern_embedding_layer_args {
    size_t size_;
    int64_t rows, size; /* required */
    tern_dev_t device;
    tern_dtype_t dtype;
    tern_generator *generator;
    int64_t padding_idx; /* read only with `padding`; from the end where negative */
    bool padding;
} tern_embedding_layer_args;
/* Indices (i64, i32) of any shape -> [..., size]. weight [rows, size] from N(0, 1). The row of padding
 * begins as zeros and gets no gradient. padding_idx is read only with `.padding = true`, so that 0 can be
 * named; alone, 0 does nothing and another value is an error. torch.nn.Embedding. */
TERN_API tern_module *tern_embedding_layer_at(tern_site_t site,
                                              const tern_embedding_layer_args *args);
#define tern_embedding_layer(...) TERN_LAYER_(embedding, __VA_ARGS__)

/* Recurrent layers, one above the other. */
typedef struct tern_rnn_layer_args {
    size_t size_;
    int64_t in, hidden; /* required */
    int64_t layers;     /* default 1 */
    double dropout;     /* in training, of what goes from one layer to the next */
    bool bidirectional; /* a second direction from the end: results are 2 hidden wide */
    bool batch_first;   /* x and y are [N, L, ...]; states are not */
    bool no_bias;
    bool relu; /* rnn alone: in place of tanh */
    tern_dev_t device;
    tern_dtype_t dtype;
    tern_generator *generator; /* of the initial values, and of dropout */
} tern_rnn_layer_args;
/* tern_forward(m, x), or tern_forward_args with in: x [L, N, in] ([L, in] for one sequence), h0, and of an
 * lstm c0, [layers directions, N, hidden], NULL: zeros; out: y [L, N, directions hidden], h and c after the
 * last step. Parameters weight_ih_l0 [gates hidden, in], weight_hh_l0, bias_ih_l0, bias_hh_l0, ..._reverse, all
 * from U(-d, d), d = hidden^-1/2. Gates: lstm i, f, g, o; gru r, z, n. Any order of gradients. */
TERN_API tern_module *tern_rnn_layer_at(tern_site_t site, const tern_rnn_layer_args *args);
TERN_API tern_module *tern_lstm_layer_at(tern_site_t site, const tern_rnn_layer_args *args);
TERN_API tern_module *tern_gru_layer_at(tern_site_t site, const tern_rnn_layer_args *args);
#define tern_rnn_layer(...) \
    tern_rnn_layer_at(TERN_HERE, TERN_OPTIONS_(tern_rnn_layer_args, __VA_ARGS__))
#define tern_lstm_layer(...) \
    tern_lstm_layer_at(TERN_HERE, TERN_OPTIONS_(tern_rnn_layer_args, __VA_ARGS__))
#define tern_gru_layer(...) \
    tern_gru_layer_at(TERN_HERE, TERN_OPTIONS_(tern_rnn_layer_args, __VA_ARGS__))

/* In training an element becomes 0 with chance p, the others grow by 1 / (1 - p). The generator is
 * the thread's when NULL. */
TERN_API tern_module *tern_dropout_layer_at(tern_site_t site, double p, tern_generator *generator);
#define tern_dropout_layer(p) tern_dropout_layer_at(TERN_HERE, p, NULL)

/* The op of that name (tern/elementwise.h, tern/ops.h) on x of any shape. */
TERN_API tern_module *tern_relu_layer_at(tern_site_t site);
TERN_API tern_module *tern_gelu_layer_at(tern_site_t site);
TERN_API tern_module *tern_gelu_tanh_layer_at(tern_site_t site);
TERN_API tern_module *tern_silu_layer_at(tern_site_t site);
TERN_API tern_module *tern_tanh_layer_at(tern_site_t site);
TERN_API tern_module *tern_sigmoid_layer_at(tern_site_t site);
TERN_API tern_module *tern_relu6_layer_at(tern_site_t site);
TERN_API tern_module *tern_hardswish_layer_at(tern_site_t site);
TERN_API tern_module *tern_mish_layer_at(tern_site_t site);
/* slope: 0 is the default, 0.01 */
TERN_API tern_module *tern_leaky_relu_layer_at(tern_site_t site, double slope);
TERN_API tern_module *tern_softmax_layer_at(tern_site_t site, int dim);
TERN_API tern_module *tern_log_softmax_layer_at(tern_site_t site, int dim);
/* tern_flatten(x, first, last). */
TERN_API tern_module *tern_flatten_layer_at(tern_site_t site, int first, int last);
#define tern_relu_layer() tern_relu_layer_at(TERN_HERE)
#define tern_gelu_layer() tern_gelu_layer_at(TERN_HERE)
#define tern_gelu_tanh_layer() tern_gelu_tanh_layer_at(TERN_HERE)
#define tern_silu_layer() tern_silu_layer_at(TERN_HERE)
#define tern_tanh_layer() tern_tanh_layer_at(TERN_HERE)
#define tern_sigmoid_layer() tern_sigmoid_layer_at(TERN_HERE)
#define tern_relu6_layer() tern_relu6_layer_at(TERN_HERE)
#define tern_hardswish_layer() tern_hardswish_layer_at(TERN_HERE)
#define tern_mish_layer() tern_mish_layer_at(TERN_HERE)
#define tern_leaky_relu_layer(slope) tern_leaky_relu_layer_at(TERN_HERE, slope)
#define tern_softmax_layer(dim) tern_softmax_layer_at(TERN_HERE, dim)
#define tern_log_softmax_layer(dim) tern_log_softmax_layer_at(TERN_HERE, dim)
/* All dimensions but the first become one. */
#define tern_flatten_layer() tern_flatten_layer_at(TERN_HERE, 1, -1)

typedef struct tern_pool2d_layer_args {
    size_t size_;
    int64_t kernel;   /* required */
    int64_t stride;   /* default: kernel */
    int64_t padding;  /* default 0 */
    int64_t dilation; /* max only; default 1 */
    int64_t kernel_w, stride_w, dilation_w;
    int64_t padding_w; /* TERN_ZERO: none, though padding is given */
    bool ceil_mode;
    bool exclude_pad; /* average: divides by the cells inside only */
} tern_pool2d_layer_args;
/* tern_max_pool2d and tern_avg_pool2d (tern/image.h). */
TERN_API tern_module *tern_max_pool2d_layer_at(tern_site_t site,
                                               const tern_pool2d_layer_args *args);
TERN_API tern_module *tern_avg_pool2d_layer_at(tern_site_t site,
                                               const tern_pool2d_layer_args *args);
#define tern_max_pool2d_layer(...) \
    tern_max_pool2d_layer_at(TERN_HERE, TERN_OPTIONS_(tern_pool2d_layer_args, __VA_ARGS__))
#define tern_avg_pool2d_layer(...) \
    tern_avg_pool2d_layer_at(TERN_HERE, TERN_OPTIONS_(tern_pool2d_layer_args, __VA_ARGS__))

/* To one size, whatever x has: (height, width), -1: as x. */
TERN_API tern_module *tern_adaptive_avg_pool2d_layer_at(tern_site_t site, int64_t height,
                                                        int64_t width);
TERN_API tern_module *tern_adaptive_max_pool2d_layer_at(tern_site_t site, int64_t height,
                                                        int64_t width);
#define tern_adaptive_avg_pool2d_layer(height, width) \
    tern_adaptive_avg_pool2d_layer_at(TERN_HERE, height, width)
#define tern_adaptive_max_pool2d_layer(height, width) \
    tern_adaptive_max_pool2d_layer_at(TERN_HERE, height, width)

typedef struct tern_upsample_layer_args {
    size_t size_;
    int64_t height, width; /* this, or: */
    double scale;
    int mode; /* default TERN_NEAREST */
    bool align_corners;
} tern_upsample_layer_args;
/* tern_interpolate as a layer. */
TERN_API tern_module *tern_upsample_layer_at(tern_site_t site,
                                             const tern_upsample_layer_args *args);
#define tern_upsample_layer(...) TERN_LAYER_(upsample, __VA_ARGS__)

/* Modules one after the other, named "0", "1", ... */
TERN_API tern_module *tern_sequential_at(tern_site_t site, tern_module *const *modules,
                                         int64_t count);
#ifndef __cplusplus
/* The leading NULL lets the list be empty. */
#define tern_sequential(...)                                                         \
    tern_sequential_at(TERN_HERE, TERN_ARRAY_(tern_module *, NULL, __VA_ARGS__) + 1, \
                       TERN_ARRAY_COUNT_(tern_module *, NULL, __VA_ARGS__) - 1)
#else
#define tern_sequential(...)                                               \
    tern_sequential_at(TERN_HERE, TERN_ARRAY_(tern_module *, __VA_ARGS__), \
                       TERN_ARRAY_COUNT_(tern_module *, __VA_ARGS__))
#endif
/* Appends; name NULL: the next number that is free; one that is taken is an error. Returns the module that
 * was added. */
TERN_API tern_module *tern_sequential_add_at(tern_site_t site, tern_module *sequential,
                                             const char *name, tern_module *module);
#define tern_sequential_add(sequential, name, module) \
    tern_sequential_add_at(TERN_HERE, sequential, name, module)

#ifdef __cplusplus
}
#endif
#endif
