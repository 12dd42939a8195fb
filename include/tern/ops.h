/* Ops on tensors. Common rules:
 * - operands of elementwise ops broadcast, and meet in a dtype by PyTorch's promotion rules; a plain
 *   number may stand for a tensor and changes only the category (bool < int < float);
 * - all operands lie on one device, but for 0-dim CPU tensors in elementwise ops;
 * - results are new tensors of the innermost scope on the operands' device; names ending in _ write
 *   their first operand, count as a change of its version, and return it;
 * - dimensions may be negative (from the end); empty and 0-dim tensors are fine;
 * - every op is differentiable where its mathematics is, unless it says otherwise;
 * - f16 and bf16 accumulate in f32. */
#ifndef TERN_OPS_H
#define TERN_OPS_H

#include "tern/base.h"
#include "tern/op_attr.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- matrix products ------------------------------------------------------------------------ */

/* torch.matmul's rules from 1-D x 1-D to batched, broadcast N-D. */
TERN_API tern_tensor *tern_matmul_at(tern_site_t, tern_tensor *a, tern_tensor *b);
#define tern_matmul(a, b) tern_matmul_at(TERN_HERE, a, b)
/* x [..., in], weight [out, in], bias [out] or NULL -> [..., out]. */
TERN_API tern_tensor *tern_linear_at(tern_site_t, tern_tensor *x, tern_tensor *weight,
                                     tern_tensor *bias);
#define tern_linear(x, weight, bias) tern_linear_at(TERN_HERE, x, weight, bias)
/* ---- indexing ------------------------------------------------------------------------------- */

/* weight [rows, ...], indices i64 or i32 of any shape -> [indices..., ...]. */
TERN_API tern_tensor *tern_embedding_at(tern_site_t, tern_tensor *weight, tern_tensor *indices);
#define tern_embedding(weight, indices) tern_embedding_at(TERN_HERE, weight, indices)
/* out[i][j] = x[index[i][j]][j] for dim 0, and so on; index i64, no larger than x elsewhere. */
TERN_API tern_tensor *tern_gather_at(tern_site_t, tern_tensor *x, int dim, tern_tensor *index);
#define tern_gather(x, dim, index) tern_gather_at(TERN_HERE, x, dim, index)

/* ---- convolution and pooling: x [N, C, H, W] -------------------------------------------------
 * Options of two numbers are (height, width); one number counts for both: { 2 } is (2, 2), and so is
 * { 2, 0 }. The padding (2, 0) is { 2, TERN_ZERO }. */

typedef struct tern_conv2d_args {
    size_t size_;
    tern_tensor *x, *weight; /* weight [out, C / groups, kh, kw] */
    tern_tensor *bias;       /* [out] or NULL */
    int64_t stride[2], padding[2], dilation[2]; /* defaults 1, 0, 1 */
    int64_t groups;                             /* default 1 */
} tern_conv2d_args;
/* The result is channels_last on the CPU where that is faster; shape and values do not differ. */
TERN_API tern_tensor *tern_conv2d_at(tern_site_t, const tern_conv2d_args *args);
#define tern_conv2d(...) \
    tern_conv2d_at(TERN_HERE, &(tern_conv2d_args){ .size_ = sizeof(tern_conv2d_args), __VA_ARGS__ })

typedef struct tern_pool2d_args {
    size_t size_;
    tern_tensor *x;
    int64_t kernel[2];  /* required */
    int64_t stride[2];  /* default: kernel */
    int64_t padding[2], dilation[2]; /* dilation: max only */
    bool ceil_mode;
    bool exclude_pad; /* average: divide by the cells inside only */
} tern_pool2d_args;
TERN_API tern_tensor *tern_max_pool2d_at(tern_site_t, const tern_pool2d_args *args);
TERN_API tern_tensor *tern_avg_pool2d_at(tern_site_t, const tern_pool2d_args *args);
#define TERN_POOL2D_(...) &(tern_pool2d_args){ .size_ = sizeof(tern_pool2d_args), __VA_ARGS__ }
#define tern_max_pool2d(...) tern_max_pool2d_at(TERN_HERE, TERN_POOL2D_(__VA_ARGS__))
#define tern_avg_pool2d(...) tern_avg_pool2d_at(TERN_HERE, TERN_POOL2D_(__VA_ARGS__))

/* ---- normalisation, softmax, dropout --------------------------------------------------------- */

typedef struct tern_batch_norm_args {
    size_t size_;
    tern_tensor *x;                           /* [N, C] or [N, C, ...] */
    tern_tensor *weight, *bias;               /* [C] or NULL */
    tern_tensor *running_mean, *running_var;  /* [C] or NULL; written when training */
    bool training;
    double momentum; /* default 0.1 */
    double eps;      /* default 1e-5 */
} tern_batch_norm_args;
TERN_API tern_tensor *tern_batch_norm_at(tern_site_t, const tern_batch_norm_args *args);
#define tern_batch_norm(...)     \
    tern_batch_norm_at(TERN_HERE, \
                       &(tern_batch_norm_args){ .size_ = sizeof(tern_batch_norm_args), __VA_ARGS__ })

typedef struct tern_layer_norm_args {
    size_t size_;
    tern_tensor *x;
    int dims;                   /* how many last dimensions; default 1 */
    tern_tensor *weight, *bias; /* of those dimensions, or NULL */
    double eps;                 /* default 1e-5 */
} tern_layer_norm_args;
TERN_API tern_tensor *tern_layer_norm_at(tern_site_t, const tern_layer_norm_args *args);
#define tern_layer_norm(...)     \
    tern_layer_norm_at(TERN_HERE, \
                       &(tern_layer_norm_args){ .size_ = sizeof(tern_layer_norm_args), __VA_ARGS__ })

TERN_API tern_tensor *tern_softmax_at(tern_site_t, tern_tensor *x, int dim);
TERN_API tern_tensor *tern_log_softmax_at(tern_site_t, tern_tensor *x, int dim);
#define tern_softmax(x, dim) tern_softmax_at(TERN_HERE, x, dim)
#define tern_log_softmax(x, dim) tern_log_softmax_at(TERN_HERE, x, dim)

typedef struct tern_dropout_args {
    size_t size_;
    tern_tensor *x;
    double p;        /* chance of becoming 0, in [0, 1] */
    bool evaluating; /* then x itself */
    struct tern_generator *generator;
} tern_dropout_args;
TERN_API tern_tensor *tern_dropout_at(tern_site_t, const tern_dropout_args *args);
#define tern_dropout(...) \
    tern_dropout_at(TERN_HERE, &(tern_dropout_args){ .size_ = sizeof(tern_dropout_args), __VA_ARGS__ })

/* ---- one optimizer step of one parameter: one pass over memory, not differentiable ------------ */

/* p, buffer: written; buffer may be NULL when momentum is 0. */
TERN_API tern_status_t tern_sgd_step_at(tern_site_t, tern_tensor *p, tern_tensor *grad,
                                        tern_tensor *buffer, const tern_attr_sgd *options);
/* p, m, v: written; options->step counts from 1. */
TERN_API tern_status_t tern_adam_step_at(tern_site_t, tern_tensor *p, tern_tensor *grad,
                                         tern_tensor *m, tern_tensor *v,
                                         const tern_attr_adam *options);

/* What a step finds on the device instead of being told by the host; NULL: not given. */
typedef struct tern_step_scaling {
    tern_tensor *scale; /* one f32: grad is written, multiplied by its inverse */
    tern_tensor *found; /* one f32: where it is not 0 the step is left out */
    tern_tensor *count; /* i64 [2]: steps done, see tern_attr_sgd; written */
} tern_step_scaling;
TERN_API tern_status_t tern_sgd_step_scaled_at(tern_site_t, tern_tensor *p, tern_tensor *grad,
                                               tern_tensor *buffer, const tern_step_scaling *scaling,
                                               const tern_attr_sgd *options);
TERN_API tern_status_t tern_adam_step_scaled_at(tern_site_t, tern_tensor *p, tern_tensor *grad,
                                                tern_tensor *m, tern_tensor *v,
                                                const tern_step_scaling *scaling,
                                                const tern_attr_adam *options);

/* One step of torch.optim.RMSprop; p, square, buffer (NULL: no momentum) and mean (NULL: not centered) are
 * written. Here and below scaling is NULL for a plain step. */
TERN_API tern_status_t tern_rmsprop_step_at(tern_site_t, tern_tensor *p, tern_tensor *grad,
                                            tern_tensor *square, tern_tensor *buffer,
                                            tern_tensor *mean, const tern_step_scaling *scaling,
                                            const tern_attr_rmsprop *options);
/* One step of torch.optim.Adagrad; p and sum are written, options->step counts from 1. */
TERN_API tern_status_t tern_adagrad_step_at(tern_site_t, tern_tensor *p, tern_tensor *grad,
                                            tern_tensor *sum, const tern_step_scaling *scaling,
                                            const tern_attr_adagrad *options);
/* One step of Lion; p and m are written. */
TERN_API tern_status_t tern_lion_step_at(tern_site_t, tern_tensor *p, tern_tensor *grad,
                                         tern_tensor *m, const tern_step_scaling *scaling,
                                         const tern_attr_lion *options);

/* The gradient scaler's steps (tern/amp.h). grad is multiplied by `inverse` (one f32; NULL: 1), unless
 * that is 1; found (one f32) becomes 1 when an element of grad is infinite or NaN, else it stays. */
TERN_API tern_status_t tern_unscale_at(tern_site_t, tern_tensor *grad, tern_tensor *inverse,
                                       tern_tensor *found);
/* Where found is not 0: scale (one f32) times backoff, tracker (one i32) 0. Else tracker plus 1; when
 * that is the interval: scale times growth unless that overflows, tracker 0. */
TERN_API tern_status_t tern_scale_update_at(tern_site_t, tern_tensor *scale, tern_tensor *tracker,
                                            tern_tensor *found, const tern_attr_scale *options);
#define tern_unscale(grad, inverse, found) tern_unscale_at(TERN_HERE, grad, inverse, found)
#define tern_scale_update(scale, tracker, found, options) \
    tern_scale_update_at(TERN_HERE, scale, tracker, found, options)

#ifdef __cplusplus
}
#endif

#include "tern/attention.h"
#include "tern/elementwise.h"
#include "tern/loss.h"
#include "tern/indexing.h"
#include "tern/reduce.h"
#include "tern/shape.h"
#include "tern/product.h"

#endif
