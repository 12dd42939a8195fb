/* Convolution, pooling and other sizes of images: x [N, C, H, W]; [C, H, W] is a batch of one.
 *
 * Options of two numbers are (height, width); one number counts for both: { 2 } is (2, 2), and so is
 * { 2, 0 }. The padding (2, 0) is { 2, TERN_ZERO }. */
#ifndef TERN_IMAGE_H
#define TERN_IMAGE_H

#include "tern/base.h"
#include "tern/op_attr.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- convolution ------------------------------------------------------------------------------ */

typedef struct tern_conv2d_args {
    size_t size_;
    tern_tensor *x, *weight; /* weight [out, C / groups, kh, kw] */
    tern_tensor *bias;       /* [out] or NULL */
    int64_t stride[2], padding[2], dilation[2]; /* defaults 1, 0, 1 */
    int64_t groups;                             /* default 1 */
} tern_conv2d_args;
/* -> [N, out, H', W'], H' = (H + 2 padding - dilation (kh - 1) - 1) / stride + 1, of x's dtype: floats and,
 * on the CPU, integers, which wrap. Of a contiguous x, too, the result is channels_last on the CPU where that is
 * faster; shape and values do not differ, but strides may: tern_reshape, not tern_view; tern_contiguous before
 * tern_data. */
TERN_API tern_tensor *tern_conv2d_at(tern_site_t, const tern_conv2d_args *args);
#define tern_conv2d(...) tern_conv2d_at(TERN_HERE, TERN_OPTIONS_(tern_conv2d_args, __VA_ARGS__))

typedef struct tern_conv1d_args {
    size_t size_;
    tern_tensor *x, *weight; /* x [N, C, L] or [C, L]; weight [out, C / groups, k] */
    tern_tensor *bias;       /* [out] or NULL */
    int64_t stride, padding, dilation; /* defaults 1, 0, 1 */
    int64_t groups;                    /* default 1 */
} tern_conv1d_args;
/* The same along L: [N, out, L'] or [out, L']. */
TERN_API tern_tensor *tern_conv1d_at(tern_site_t, const tern_conv1d_args *args);
#define tern_conv1d(...) tern_conv1d_at(TERN_HERE, TERN_OPTIONS_(tern_conv1d_args, __VA_ARGS__))

/* The gradient of a convolution by its input, as an op: x is spread by the stride; floats and, on the CPU, i64.
 * Results are (H - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1 high, which may be 0. */
typedef struct tern_conv_transpose2d_args {
    size_t size_;
    tern_tensor *x, *weight; /* weight [C, out / groups, kh, kw] */
    tern_tensor *bias;       /* [out] or NULL */
    int64_t stride[2], padding[2]; /* defaults 1, 0 */
    int64_t output_padding[2];     /* default 0; below the stride or the dilation */
    int64_t groups;                /* default 1 */
    int64_t dilation[2];           /* default 1 */
} tern_conv_transpose2d_args;
TERN_API tern_tensor *tern_conv_transpose2d_at(tern_site_t, const tern_conv_transpose2d_args *args);
#define tern_conv_transpose2d(...) \
    tern_conv_transpose2d_at(TERN_HERE, TERN_OPTIONS_(tern_conv_transpose2d_args, __VA_ARGS__))

typedef struct tern_conv_transpose1d_args {
    size_t size_;
    tern_tensor *x, *weight; /* x [N, C, L] or [C, L]; weight [C, out / groups, k] */
    tern_tensor *bias;       /* [out] or NULL */
    int64_t stride, padding, output_padding; /* defaults 1, 0, 0 */
    int64_t groups, dilation;                /* defaults 1, 1 */
} tern_conv_transpose1d_args;
/* The same along L. */
TERN_API tern_tensor *tern_conv_transpose1d_at(tern_site_t, const tern_conv_transpose1d_args *args);
#define tern_conv_transpose1d(...) \
    tern_conv_transpose1d_at(TERN_HERE, TERN_OPTIONS_(tern_conv_transpose1d_args, __VA_ARGS__))

/* ---- pooling ---------------------------------------------------------------------------------- */

typedef struct tern_pool2d_args {
    size_t size_;
    tern_tensor *x;
    int64_t kernel[2];  /* required */
    int64_t stride[2];  /* default: kernel */
    /* padding: at most half of what the kernel covers, also where dilation makes that more than half of the kernel,
     * PyTorch's limit; dilation: max only */
    int64_t padding[2], dilation[2];
    bool ceil_mode;
    bool exclude_pad; /* average: divide by the cells inside only */
} tern_pool2d_args;
/* The largest element, or the mean, of each window: [N, C, H', W'], H' as a convolution's, rounded up with
 * ceil_mode. max takes integers, too, and its gradient goes to the first of equals; the mean takes i64 on the
 * CPU, where sums wrap and what is behind the point is dropped. The largest of a window that steps over all
 * of x (dilation) is -infinity, or the dtype's lowest value. */
TERN_API tern_tensor *tern_max_pool2d_at(tern_site_t, const tern_pool2d_args *args);
TERN_API tern_tensor *tern_avg_pool2d_at(tern_site_t, const tern_pool2d_args *args);
#define tern_max_pool2d(...) \
    tern_max_pool2d_at(TERN_HERE, TERN_OPTIONS_(tern_pool2d_args, __VA_ARGS__))
#define tern_avg_pool2d(...) \
    tern_avg_pool2d_at(TERN_HERE, TERN_OPTIONS_(tern_pool2d_args, __VA_ARGS__))

/* Windows that part x evenly, so that the result has `size`; window i of n covers cells from
 * floor(i H / n) to ceil((i + 1) H / n). x [N, C, H, W] or [C, H, W]; 1d: [N, C, L] or [C, L]. */
typedef struct tern_adaptive_pool2d_args {
    size_t size_;
    tern_tensor *x;
    int64_t size[2]; /* required; -1: as x */
} tern_adaptive_pool2d_args;
TERN_API tern_tensor *tern_adaptive_avg_pool2d_at(tern_site_t, const tern_adaptive_pool2d_args *args);
TERN_API tern_tensor *tern_adaptive_max_pool2d_at(tern_site_t, const tern_adaptive_pool2d_args *args);
TERN_API tern_tensor *tern_adaptive_avg_pool1d_at(tern_site_t, tern_tensor *x, int64_t size);
TERN_API tern_tensor *tern_adaptive_max_pool1d_at(tern_site_t, tern_tensor *x, int64_t size);
#define tern_adaptive_avg_pool2d(...) \
    tern_adaptive_avg_pool2d_at(TERN_HERE, TERN_OPTIONS_(tern_adaptive_pool2d_args, __VA_ARGS__))
#define tern_adaptive_max_pool2d(...) \
    tern_adaptive_max_pool2d_at(TERN_HERE, TERN_OPTIONS_(tern_adaptive_pool2d_args, __VA_ARGS__))
#define tern_adaptive_avg_pool1d(x, size) tern_adaptive_avg_pool1d_at(TERN_HERE, x, size)
#define tern_adaptive_max_pool1d(x, size) tern_adaptive_max_pool1d_at(TERN_HERE, x, size)

/* ---- other sizes ------------------------------------------------------------------------------ */

/* TERN_LINEAR is for [N, C, L], TERN_BILINEAR for [N, C, H, W], the others for both. TERN_NEAREST takes
 * the cell at floor(i in / out), as PyTorch's "nearest"; TERN_NEAREST_EXACT the one that is nearest. */
enum { TERN_NEAREST = 1, TERN_NEAREST_EXACT = 2, TERN_LINEAR = 3, TERN_BILINEAR = 4 };
typedef struct tern_interpolate_args {
    size_t size_;
    tern_tensor *x;
    int64_t size[2];    /* of the result: (height, width), or the length; this, or: */
    double scale[2];    /* times as large, rounded down; places are computed with it as given, but where TERN_NEAREST
                         * makes as many rows or columns of an image as there are, or twice as many: as PyTorch */
    int mode;           /* default TERN_NEAREST */
    bool align_corners; /* linear: the first and last cells keep their places */
} tern_interpolate_args;
/* torch.nn.functional.interpolate. The gradient is deterministic on every device, and goes to the cells that were
 * taken (PyTorch's CPU gradient of [N, C, L] ignores a scale where images do). Floats and u8: the nearest
 * modes on every device, the linear ones on the CPU, rounded after each dimension, as PyTorch does. */
TERN_API tern_tensor *tern_interpolate_at(tern_site_t, const tern_interpolate_args *args);
#define tern_interpolate(...) \
    tern_interpolate_at(TERN_HERE, TERN_OPTIONS_(tern_interpolate_args, __VA_ARGS__))

/* Channels as pixels, for sub-pixel convolution: x [..., C f f, H, W] -> [..., C, H f, W f], where pixel (i, j) of
 * each f by f lies in channel c f f + i f + j. pixel_unshuffle is the way back. Any dtype; new tensors. */
TERN_API tern_tensor *tern_pixel_shuffle_at(tern_site_t, tern_tensor *x, int64_t factor);
TERN_API tern_tensor *tern_pixel_unshuffle_at(tern_site_t, tern_tensor *x, int64_t factor);
#define tern_pixel_shuffle(x, factor) tern_pixel_shuffle_at(TERN_HERE, x, factor)
#define tern_pixel_unshuffle(x, factor) tern_pixel_unshuffle_at(TERN_HERE, x, factor)

#ifdef __cplusplus
}
#endif
#endif
