/* Losses. A reduction is TERN_MEAN (what 0 stands for), TERN_SUM or TERN_NONE (one loss per element).
 * Operands of losses by element broadcast: [N, 1] against [N] is N x N losses, without the warning that
 * PyTorch gives. Half types are rounded after each step, as other ops of several steps are. */
#ifndef TERN_LOSS_H
#define TERN_LOSS_H

#include "tern/base.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

/* TERN_BATCH_MEAN: the sum by the extent of dimension 0; kl_div only. */
enum { TERN_MEAN = 1, TERN_SUM = 2, TERN_NONE = 3, TERN_BATCH_MEAN = 4 };

/* ---- of classes ------------------------------------------------------------------------------- */

typedef struct tern_cross_entropy_args {
    size_t size_;
    tern_tensor *logits;  /* [C] or [N, C] or [N, C, ...] */
    tern_tensor *target;  /* i64 or u8 class numbers: [] or [N] or [N, ...]; or probabilities of the classes,
                           * floats of the logits' shape, which take a gradient, too */
    tern_tensor *weight;  /* [C] or NULL */
    int reduction;        /* default TERN_MEAN: over the weights of the targets that count; of probabilities, over
                           * all places */
    double label_smoothing;
    int64_t ignore_index; /* the target that does not count. Read only with `.ignore = true`, so that 0 can be named;
                           * alone, 0 does nothing and another value than -100 is an error. Without `.ignore`, -100
                           * is ignored. Not for probabilities */
    bool ignore;
} tern_cross_entropy_args;
/* -log of softmax(logits) along C at the target: torch.nn.functional.cross_entropy. A target outside of
 * 0 .. C - 1 that is not ignored is an error, on a device at the next wait. PyTorch takes u8 for [] and [N]
 * alone, here it goes with all shapes and options. */
TERN_API tern_tensor *tern_cross_entropy_at(tern_site_t, const tern_cross_entropy_args *args);
#define tern_cross_entropy(...) \
    tern_cross_entropy_at(TERN_HERE, TERN_OPTIONS_(tern_cross_entropy_args, __VA_ARGS__))
/* The negative log-likelihood -weight[t] x[t] of log-probabilities x, for instance tern_log_softmax's;
 * tern_cross_entropy does both at once. torch.nn.functional.nll_loss. */
typedef struct tern_nll_loss_args {
    size_t size_;
    tern_tensor *x;       /* [C] or [N, C] or [N, C, ...] */
    tern_tensor *target;  /* i64 or u8 class numbers: [] or [N] or [N, ...] */
    tern_tensor *weight;  /* [C] or NULL; a constant */
    int reduction;        /* mean: over the weights of the targets that count */
    int64_t ignore_index; /* as cross_entropy's: read only with `.ignore = true`; without it -100 is ignored */
    bool ignore;
} tern_nll_loss_args;
TERN_API tern_tensor *tern_nll_loss_at(tern_site_t, const tern_nll_loss_args *args);
#define tern_nll_loss(...) \
    tern_nll_loss_at(TERN_HERE, TERN_OPTIONS_(tern_nll_loss_args, __VA_ARGS__))

/* Of probabilities x in [0, 1] and targets in [0, 1], of equal shapes, each element:
 *   -weight (target log x + (1 - target) log(1 - x)), logarithms not below -100 (nor in the target's
 * gradient, which is infinite at 0 and 1 in PyTorch)
 * and then mean, sum or none (0 is mean). An x or a target outside of [0, 1], NaN too, is an error on
 * the CPU that names it; a device does not wait to look: x outside gives NaN there. With logits x is
 * what goes into the sigmoid, which is exact where the other overflows, and target log x is multiplied
 * by pos_weight. weight and pos_weight broadcast. torch.nn.functional.binary_cross_entropy, and _with_logits. */
typedef struct tern_binary_cross_entropy_args {
    size_t size_;
    tern_tensor *x, *target; /* required */
    tern_tensor *weight;     /* default: 1 */
    int reduction;
    tern_tensor *pos_weight; /* with logits; default: 1 */
} tern_binary_cross_entropy_args;
TERN_API tern_tensor *tern_binary_cross_entropy_at(tern_site_t,
                                                   const tern_binary_cross_entropy_args *args);
TERN_API tern_tensor *
tern_binary_cross_entropy_with_logits_at(tern_site_t, const tern_binary_cross_entropy_args *args);
#define tern_binary_cross_entropy(...) \
    tern_binary_cross_entropy_at(TERN_HERE, \
                                 TERN_OPTIONS_(tern_binary_cross_entropy_args, __VA_ARGS__))
#define tern_binary_cross_entropy_with_logits(...) \
    tern_binary_cross_entropy_with_logits_at(TERN_HERE, \
                                             TERN_OPTIONS_(tern_binary_cross_entropy_args, __VA_ARGS__))
/* ---- of distances ------------------------------------------------------------------------------ */

/* (x - y)^2, and |x - y|. */
TERN_API tern_tensor *tern_mse_loss_at(tern_site_t, tern_tensor *x, tern_tensor *y, int reduction);
TERN_API tern_tensor *tern_l1_loss_at(tern_site_t, tern_tensor *x, tern_tensor *y, int reduction);
#define tern_mse_loss(x, y, reduction) tern_mse_loss_at(TERN_HERE, x, y, reduction)
#define tern_l1_loss(x, y, reduction) tern_l1_loss_at(TERN_HERE, x, y, reduction)

/* With d = |x - target|. smooth_l1: d^2 / (2 beta) below beta, d - beta / 2 from there on. huber: delta
 * times that, with delta for beta, in x's dtype. torch.nn.functional.smooth_l1_loss and huber_loss. */
typedef struct tern_smooth_l1_loss_args {
    size_t size_;
    tern_tensor *x, *target; /* required */
    int reduction;
    double beta; /* not negative; default 1; TERN_ZERO: tern_l1_loss */
} tern_smooth_l1_loss_args;
TERN_API tern_tensor *tern_smooth_l1_loss_at(tern_site_t, const tern_smooth_l1_loss_args *args);
typedef struct tern_huber_loss_args {
    size_t size_;
    tern_tensor *x, *target; /* required */
    int reduction;
    double delta; /* positive; default 1 */
} tern_huber_loss_args;
TERN_API tern_tensor *tern_huber_loss_at(tern_site_t, const tern_huber_loss_args *args);
#define tern_smooth_l1_loss(...) \
    tern_smooth_l1_loss_at(TERN_HERE, TERN_OPTIONS_(tern_smooth_l1_loss_args, __VA_ARGS__))
#define tern_huber_loss(...) \
    tern_huber_loss_at(TERN_HERE, TERN_OPTIONS_(tern_huber_loss_args, __VA_ARGS__))

/* target (log target - x), 0 where the target is 0, of log-probabilities x and probabilities; with
 * log_target the target is a logarithm too: e^target (target - x). torch.nn.functional.kl_div. */
typedef struct tern_kl_div_args {
    size_t size_;
    tern_tensor *x, *target; /* required */
    int reduction;           /* TERN_BATCH_MEAN: the divergence of distributions over the batch */
    bool log_target;
} tern_kl_div_args;
TERN_API tern_tensor *tern_kl_div_at(tern_site_t, const tern_kl_div_args *args);
#define tern_kl_div(...) tern_kl_div_at(TERN_HERE, TERN_OPTIONS_(tern_kl_div_args, __VA_ARGS__))

/* The cosine of the angle between the vectors along `dim`, which disappears: x y / (|x| |y|), with
 * lengths no smaller than eps (0: 1e-8). torch.nn.functional.cosine_similarity. */
TERN_API tern_tensor *tern_cosine_similarity_at(tern_site_t, tern_tensor *x, tern_tensor *y, int dim,
                                                double eps);
#define tern_cosine_similarity(x, y, dim, eps) tern_cosine_similarity_at(TERN_HERE, x, y, dim, eps)

#ifdef __cplusplus
}
#endif
#endif
