/* Reductions over dimensions and scans along one. Included by tern/ops.h, whose rules hold here. */
#ifndef TERN_REDUCE_H
#define TERN_REDUCE_H

#include "tern/base.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tern_reduce_args {
    size_t size_;
    tern_tensor *x;
    tern_dims_t dims; /* default: all */
    bool keepdim;
    double correction;  /* var, std only; default 1 */
    bool no_correction; /* var, std only: divides by n */
    tern_dtype_t dtype; /* sum, prod, mean, logsumexp: dtype of the result */
} tern_reduce_args;

/* Integers and bool give i64. prod of nothing is 1. */
TERN_API tern_tensor *tern_sum_at(tern_site_t, const tern_reduce_args *args);
TERN_API tern_tensor *tern_prod_at(tern_site_t, const tern_reduce_args *args);
#define tern_sum(...) tern_sum_at(TERN_HERE, TERN_OPTIONS_(tern_reduce_args, __VA_ARGS__))
#define tern_prod(...) tern_prod_at(TERN_HERE, TERN_OPTIONS_(tern_reduce_args, __VA_ARGS__))

/* Floats only. std has no gradient where it is 0. With a correction of n or more var and std are infinite, or NaN, and
 * so are their gradients (PyTorch's of given dims are finite there). */
TERN_API tern_tensor *tern_mean_at(tern_site_t, const tern_reduce_args *args);
TERN_API tern_tensor *tern_var_at(tern_site_t, const tern_reduce_args *args);
TERN_API tern_tensor *tern_std_at(tern_site_t, const tern_reduce_args *args);
#define tern_mean(...) tern_mean_at(TERN_HERE, TERN_OPTIONS_(tern_reduce_args, __VA_ARGS__))
#define tern_var(...) tern_var_at(TERN_HERE, TERN_OPTIONS_(tern_reduce_args, __VA_ARGS__))
#define tern_std(...) tern_std_at(TERN_HERE, TERN_OPTIONS_(tern_reduce_args, __VA_ARGS__))

/* The largest and the smallest value; NaN is both. Gradients of ties are shared equally. */
TERN_API tern_tensor *tern_amax_at(tern_site_t, const tern_reduce_args *args);
TERN_API tern_tensor *tern_amin_at(tern_site_t, const tern_reduce_args *args);
#define tern_amax(...) tern_amax_at(TERN_HERE, TERN_OPTIONS_(tern_reduce_args, __VA_ARGS__))
#define tern_amin(...) tern_amin_at(TERN_HERE, TERN_OPTIONS_(tern_reduce_args, __VA_ARGS__))

/* Is any element, are all elements, not 0? bool, but u8 of u8; of nothing false and true. */
TERN_API tern_tensor *tern_any_at(tern_site_t, const tern_reduce_args *args);
TERN_API tern_tensor *tern_all_at(tern_site_t, const tern_reduce_args *args);
#define tern_any(...) tern_any_at(TERN_HERE, TERN_OPTIONS_(tern_reduce_args, __VA_ARGS__))
#define tern_all(...) tern_all_at(TERN_HERE, TERN_OPTIONS_(tern_reduce_args, __VA_ARGS__))

/* log(sum(exp(x))), without overflow. Integers become the default float. */
TERN_API tern_tensor *tern_logsumexp_at(tern_site_t, const tern_reduce_args *args);
#define tern_logsumexp(...) \
    tern_logsumexp_at(TERN_HERE, TERN_OPTIONS_(tern_reduce_args, __VA_ARGS__))

typedef struct tern_norm_args {
    size_t size_;
    tern_tensor *x;   /* floats */
    tern_dims_t dims; /* default: all */
    double p;         /* default 2; 0 is TERN_ZERO; INFINITY and -INFINITY are fine */
    bool keepdim;
    tern_dtype_t dtype; /* in which it is computed; default: x's */
} tern_norm_args;
/* (sum of |x|^p)^(1/p): torch.linalg.vector_norm. p = 0 counts what is not 0; infinities give the largest
 * and the smallest |x|, whose ties share the gradient. The gradient is 0 where the norm is, and so is, from
 * p = 2 on, its gradient. Devices add the squares of f32 in f32, which overflow above 1.8e19, as PyTorch's. */
TERN_API tern_tensor *tern_norm_at(tern_site_t, const tern_norm_args *args);
#define tern_norm(...) tern_norm_at(TERN_HERE, TERN_OPTIONS_(tern_norm_args, __VA_ARGS__))

/* Largest (smallest) value along a dimension and, in *out_indices (NULL: not wanted), the first place of
 * it, i64. The dimension disappears. The gradient goes to that place. */
TERN_API tern_tensor *tern_max_at(tern_site_t, tern_tensor *x, int dim, tern_tensor **out_indices);
TERN_API tern_tensor *tern_min_at(tern_site_t, tern_tensor *x, int dim, tern_tensor **out_indices);
/* Place of the first largest (smallest) value along a dimension, i64. */
TERN_API tern_tensor *tern_argmax_at(tern_site_t, tern_tensor *x, int dim);
TERN_API tern_tensor *tern_argmin_at(tern_site_t, tern_tensor *x, int dim);
#define tern_max(x, dim, out_indices) tern_max_at(TERN_HERE, x, dim, out_indices)
#define tern_min(x, dim, out_indices) tern_min_at(TERN_HERE, x, dim, out_indices)
#define tern_argmax(x, dim) tern_argmax_at(TERN_HERE, x, dim)
#define tern_argmin(x, dim) tern_argmin_at(TERN_HERE, x, dim)

/* Sum (product) of all elements up to each along a dimension; integers and bool give i64. */
TERN_API tern_tensor *tern_cumsum_at(tern_site_t, tern_tensor *x, int dim);
TERN_API tern_tensor *tern_cumprod_at(tern_site_t, tern_tensor *x, int dim);
#define tern_cumsum(x, dim) tern_cumsum_at(TERN_HERE, x, dim)
#define tern_cumprod(x, dim) tern_cumprod_at(TERN_HERE, x, dim)

/* ---- order: along a dimension. NaN is greater than all, equal elements keep their order ---------- */

/* Sorted values and, in *out_indices (NULL: not wanted), where they were, i64. Gradients go there. */
TERN_API tern_tensor *tern_sort_at(tern_site_t, tern_tensor *x, int dim, bool descending,
                                   tern_tensor **out_indices);
TERN_API tern_tensor *tern_argsort_at(tern_site_t, tern_tensor *x, int dim, bool descending);
#define tern_sort(x, dim, descending, out_indices) \
    tern_sort_at(TERN_HERE, x, dim, descending, out_indices)
#define tern_argsort(x, dim, descending) tern_argsort_at(TERN_HERE, x, dim, descending)
/* The k largest (else smallest) values, sorted, and where they were; of a 0-dim tensor its one value,
 * for k of 0 and 1. */
TERN_API tern_tensor *tern_topk_at(tern_site_t, tern_tensor *x, int64_t k, int dim, bool largest,
                                   tern_tensor **out_indices);
#define tern_topk(x, k, dim, largest, out_indices) \
    tern_topk_at(TERN_HERE, x, k, dim, largest, out_indices)
/* The middle of the order, of two the lower, and its place; NaN where there is one. The dimension
 * disappears, the gradient goes to the place. */
TERN_API tern_tensor *tern_median_at(tern_site_t, tern_tensor *x, int dim, tern_tensor **out_indices);
#define tern_median(x, dim, out_indices) tern_median_at(TERN_HERE, x, dim, out_indices)
/* Of all elements; ties share the gradient. NaN of an empty tensor of floats. */
TERN_API tern_tensor *tern_median_all_at(tern_site_t, tern_tensor *x);
#define tern_median_all(x) tern_median_all_at(TERN_HERE, x)

/* The different elements, sorted, each NaN one of its own. *out_inverse: of each element of x the number of
 * its value; *out_counts: how often each value occurs (NULL: not wanted). Not differentiable. Waits for
 * a device, since the shape depends on the data. */
TERN_API tern_tensor *tern_unique_at(tern_site_t, tern_tensor *x, tern_tensor **out_inverse,
                                     tern_tensor **out_counts);
#define tern_unique(x, out_inverse, out_counts) \
    tern_unique_at(TERN_HERE, x, out_inverse, out_counts)
/* The different parts of x along a dimension in lexicographic order (torch.unique(x, dim=...)); the inverse has
 * a number for each part. A part that holds a NaN is one of its own. */
TERN_API tern_tensor *tern_unique_dim_at(tern_site_t, tern_tensor *x, int dim,
                                         tern_tensor **out_inverse, tern_tensor **out_counts);
#define tern_unique_dim(x, dim, out_inverse, out_counts) \
    tern_unique_dim_at(TERN_HERE, x, dim, out_inverse, out_counts)

/* Where each element of x belongs in `sorted`, whose last dimension is sorted: in front of what is equal, or
 * (right) behind. sorted has one dimension, or x's but for the last. They meet in a dtype as binary ops do.
 * i64, of x's shape. */
TERN_API tern_tensor *tern_searchsorted_at(tern_site_t, tern_tensor *sorted, tern_tensor *x,
                                           bool right);
#define tern_searchsorted(sorted, x, right) tern_searchsorted_at(TERN_HERE, sorted, x, right)

typedef struct tern_multinomial_args {
    size_t size_;
    tern_tensor *weights; /* [classes] or [rows, classes]: floats, at least 0, each row with one above */
    int64_t count;        /* how many to draw of each row */
    bool replacement;     /* a class may be drawn again */
    struct tern_generator *generator; /* default: the thread's */
} tern_multinomial_args;
/* Classes drawn with chances in proportion to their weights, i64 [count] or [rows, count]; the same on all
 * devices. Waits for a device, to check the weights. */
TERN_API tern_tensor *tern_multinomial_at(tern_site_t, const tern_multinomial_args *args);
#define tern_multinomial(...) \
    tern_multinomial_at(TERN_HERE, TERN_OPTIONS_(tern_multinomial_args, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
