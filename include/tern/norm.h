/* Normalisation. Parameters have the dtype of x or, beside half types, f32. */
#ifndef TERN_NORM_H
#define TERN_NORM_H

#include "tern/base.h"
#include "tern/op_attr.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

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
#define tern_batch_norm(...) \
    tern_batch_norm_at(TERN_HERE, TERN_OPTIONS_(tern_batch_norm_args, __VA_ARGS__))

typedef struct tern_layer_norm_args {
    size_t size_;
    tern_tensor *x;
    int dims;                   /* how many last dimensions; default 1 */
    tern_tensor *weight, *bias; /* of those dimensions, or NULL */
    double eps;                 /* default 1e-5 */
} tern_layer_norm_args;
TERN_API tern_tensor *tern_layer_norm_at(tern_site_t, const tern_layer_norm_args *args);
#define tern_layer_norm(...) \
    tern_layer_norm_at(TERN_HERE, TERN_OPTIONS_(tern_layer_norm_args, __VA_ARGS__))

typedef struct tern_group_norm_args {
    size_t size_;
    tern_tensor *x;             /* [N, C, ...] */
    int64_t groups;             /* required: divides C */
    tern_tensor *weight, *bias; /* [C] or NULL */
    double eps;                 /* default 1e-5 */
} tern_group_norm_args;
/* Each group of channels of each sample to mean 0 and deviation 1. As in PyTorch a batch of one sample with one
 * value per group, of which nothing would be left, is an error. */
TERN_API tern_tensor *tern_group_norm_at(tern_site_t, const tern_group_norm_args *args);
#define tern_group_norm(...) \
    tern_group_norm_at(TERN_HERE, TERN_OPTIONS_(tern_group_norm_args, __VA_ARGS__))

typedef struct tern_instance_norm_args {
    size_t size_;
    tern_tensor *x;                          /* [N, C, ...], at least 3 dimensions */
    tern_tensor *weight, *bias;              /* [C] or NULL */
    tern_tensor *running_mean, *running_var; /* [C] or NULL; written, by the mean over N */
    bool use_running; /* normalises by the running statistics instead of each sample's own */
    double momentum;  /* default 0.1 */
    double eps;       /* default 1e-5 */
} tern_instance_norm_args;
/* Each channel of each sample to mean 0 and deviation 1. */
TERN_API tern_tensor *tern_instance_norm_at(tern_site_t, const tern_instance_norm_args *args);
#define tern_instance_norm(...) \
    tern_instance_norm_at(TERN_HERE, TERN_OPTIONS_(tern_instance_norm_args, __VA_ARGS__))

typedef struct tern_rms_norm_args {
    size_t size_;
    tern_tensor *x;
    int dims;            /* how many last dimensions; default 1 */
    tern_tensor *weight; /* of those dimensions, or NULL */
    double eps;          /* default: the epsilon of f32, of f64 for f64 */
} tern_rms_norm_args;
/* x / sqrt(mean(x^2) + eps), times the weight. */
TERN_API tern_tensor *tern_rms_norm_at(tern_site_t, const tern_rms_norm_args *args);
#define tern_rms_norm(...) \
    tern_rms_norm_at(TERN_HERE, TERN_OPTIONS_(tern_rms_norm_args, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
