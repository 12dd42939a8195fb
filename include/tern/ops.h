/* Ops on tensors. Common rules:
 * - operands of elementwise ops broadcast, and meet in a dtype by PyTorch's promotion rules; a plain
 *   number may stand for a tensor and changes only the category (bool < int < float);
 * - all operands lie on one device, but for 0-dim CPU tensors in elementwise ops and CPU indices of tern_index;
 * - results are new tensors of the innermost scope on the operands' device; names ending in _ write
 *   their first operand, count as a change of its version, and return it; another operand that lies in the same memory
 *   is read as it was before the call, where PyTorch refuses operands that overlap in part;
 * - dimensions may be negative (from the end); empty and 0-dim tensors are fine;
 * - every op is differentiable where its mathematics is, unless it says otherwise;
 * - f16 and bf16 accumulate in f32;
 * - on the CPU denormal operands and results (f32 below 1.18e-38) may count as 0, in casts, comparisons and extremes,
 *   too, as after torch.set_flush_denormal(True): they do in calls of more than some hundred elements and wherever
 *   elements do not lie side by side. Devices keep them. */
#ifndef TERN_OPS_H
#define TERN_OPS_H

#include "tern/base.h"
#include "tern/op_attr.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- softmax, dropout ------------------------------------------------------------------------ */

/* exp(x - the largest) over its sum along `dim`, and the logarithm of that. Floats; same shape. */
TERN_API tern_tensor *tern_softmax_at(tern_site_t, tern_tensor *x, int dim);
TERN_API tern_tensor *tern_log_softmax_at(tern_site_t, tern_tensor *x, int dim);
#define tern_softmax(x, dim) tern_softmax_at(TERN_HERE, x, dim)
#define tern_log_softmax(x, dim) tern_log_softmax_at(TERN_HERE, x, dim)

typedef struct tern_dropout_args {
    size_t size_;
    tern_tensor *x;
    double p;        /* required: chance of becoming 0, in [0, 1]. 0, also not given, returns x itself, where
                      * PyTorch's default is 0.5 */
    bool evaluating; /* then x itself */
    struct tern_generator *generator;
} tern_dropout_args;
/* Elements become 0 with chance p, the others grow by 1 / (1 - p). Row-major, also where PyTorch keeps x's layout:
 * what is drawn for an element does not depend on how x lies in memory. */
TERN_API tern_tensor *tern_dropout_at(tern_site_t, const tern_dropout_args *args);
#define tern_dropout(...) tern_dropout_at(TERN_HERE, TERN_OPTIONS_(tern_dropout_args, __VA_ARGS__))

/* ---- one optimizer step of one parameter: one pass over memory, not differentiable ------------ */

/* p, buffer: written; where momentum is 0 buffer is not touched and may be NULL. As in torch.optim, a term
 * whose factor (momentum, weight_decay) is 0 is left out in every step: infinities there make no NaN. */
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
#include "tern/image.h"
#include "tern/loss.h"
#include "tern/norm.h"
#include "tern/indexing.h"
#include "tern/reduce.h"
#include "tern/shape.h"
#include "tern/product.h"
#include "tern/recurrent.h"

#endif
