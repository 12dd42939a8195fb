/* Scalar references in double precision, written from the definitions of the ops and sharing nothing
 * with the library. Results are owned by the caller. */
#ifndef TESTS_REF_REF_H
#define TESTS_REF_REF_H

#include "tests/support/value.h"

/* Row-major offset of index `at` in a value that broadcasts to it (missing and unit dims repeat). */
int64_t ref_place(const value *v, int ndim, const int64_t *at);
/* Counts `at` up in row-major order; false after the last, and where there is none: a loop with its end
 * last runs once there, in the element that value_new has to spare. What reads elsewhere asks first. */
bool ref_next(int ndim, const int64_t *dims, int64_t *at);

value ref_map(const value *a, double (*f)(double));
/* Broadcasts. */
value ref_map2(const value *a, const value *b, double (*f)(double, double));

/* fold over the dims whose bit is set, which disappear: count, then state machine of `step` */
value ref_sum(const value *a, uint32_t dims);
value ref_mean(const value *a, uint32_t dims);
value ref_var(const value *a, uint32_t dims, double correction);
value ref_amax(const value *a, uint32_t dims);
value ref_argmax(const value *a, int dim);

value ref_prod(const value *a, uint32_t dims);
value ref_amin(const value *a, uint32_t dims);
value ref_argmin(const value *a, int dim);
value ref_norm(const value *a, uint32_t dims, double p);
value ref_logsumexp(const value *a, uint32_t dims);
/* y[t] = y[t - 1] factor[t] + a[t] (factor NULL: 1), or y[t - 1] a[t]; reverse: from the last on */
value ref_scan(const value *a, const value *factor, int dim, bool product, bool reverse);

/* Sorted along a dimension, equal ones in the order they had: values, or where they were. */
value ref_order(const value *x, int dim, bool descending, bool places);
/* Elements first .. first + count of a dimension. */
value ref_part(const value *x, int dim, int64_t first, int64_t count);
/* The different elements, sorted. */
value ref_unique(const value *x);

/* a [B, M, K] x b [B, K, N]; batch extents of 1 repeat; ndim 2 or 3. */
value ref_matmul(const value *a, const value *b);
/* One or two operands (b NULL: one), letters only, each a different dimension or the same extent. */
value ref_einsum(const char *equation, const value *a, const value *b);
/* x [N, C, H, W], w [O, C/groups, kh, kw], bias [O] or data NULL */
value ref_conv2d(const value *x, const value *w, const value *bias, const int64_t stride[2],
                 const int64_t padding[2], const int64_t dilation[2], int64_t groups);
/* mode 0: max, 1: average over cells inside, 2: average over the whole window */
value ref_pool2d(const value *x, const int64_t kernel[2], const int64_t stride[2],
                 const int64_t padding[2], int mode);
value ref_softmax(const value *x, int dim, bool logarithm);
/* logits [N, C, S], target [N, S], weight [C] or data NULL; reduction as TERN_MEAN, ... */
value ref_cross_entropy(const value *x, const value *target, const value *weight, int reduction,
                        double smoothing, int64_t ignore);
/* `each` (freed or returned) after a reduction: TERN_MEAN, ... */
value ref_reduced_loss(value each, int reduction);
/* x [N, C, S...], target [N, S...], weight [C] or data NULL */
value ref_nll_loss(const value *x, const value *target, const value *weight, int reduction,
                   int64_t ignore);
/* of rows: x [N, C], y [N, C] or [C] -> [N] */
value ref_cosine_similarity(const value *x, const value *y);
/* normalises over the last `dims` dimensions */
value ref_layer_norm(const value *x, int dims, const value *weight, const value *bias, double eps);
/* normalises per channel (dim 1) with the batch's own statistics */
value ref_batch_norm(const value *x, const value *weight, const value *bias, double eps);

/* ---- ref_image.c ---- */
/* x [N, C, H, W], w [C, O / groups, kh, kw]: each x is spread by the weight */
value ref_conv_transpose2d(const value *x, const value *w, const value *bias,
                           const int64_t stride[2], const int64_t padding[2],
                           const int64_t output_padding[2], int64_t groups);
/* the largest (mode 0) or the mean (1) of windows floor(i H / n) .. ceil((i + 1) H / n) */
value ref_adaptive_pool2d(const value *x, const int64_t size[2], int mode);
/* corners: the outermost cells keep their places */
value ref_bilinear(const value *x, const int64_t size[2], bool corners);
/* of u8: columns first, then rows, each by weights of 16 bits and rounded, as PyTorch's */
value ref_bilinear_bytes(const value *x, const int64_t size[2], bool corners);
value ref_nearest(const value *x, const int64_t size[2], double shift);
/* the gradient: `size` is that of what was interpolated */
value ref_bilinear_grad(const value *g, const int64_t size[2]);
/* channels of each sample in groups; weight, bias: data NULL where there is none */
value ref_group_norm(const value *x, int64_t groups, const value *weight, const value *bias,
                     double eps);
value ref_rms_norm(const value *x, int dims, const value *weight, double eps);
/* (gradient, x, weight, 1 / root) of rows */
value ref_rms_norm_grad(const value *in);

/* ---- ref_shape.c ---- */
/* out[at...] = x[from...] where `where` finds a place, else 0. */
typedef bool (*ref_finds)(const value *x, const int64_t *at, int64_t *from, const void *user);
value ref_taken(const value *x, int ndim, const int64_t *dims, ref_finds where, const void *user);
value ref_unfold(const value *x, int dim, int64_t size, int64_t step);
value ref_repeat(const value *x, int ndim, const int64_t *times);
value ref_flip(const value *x, uint32_t dims);
value ref_roll(const value *x, const int64_t *shifts); /* one for each dimension */
value ref_pad(const value *x, const int64_t *before, const int64_t *after, int mode); /* zeros */
value ref_triangle(const value *x, int64_t diagonal, bool upper);

/* ---- ref_attention.c ---- */
/* q [B, H, T, D], k [B, G, S, D], v [B, G, S, E]; mask broadcasts to [B, H, T, S], or data NULL. */
typedef struct ref_heads {
    const value *q, *k, *v, *mask;
    bool additive; /* the mask is added, else 0 hides */
    bool causal;
    double scale;
} ref_heads;
value ref_attend(const ref_heads *a);
/* Gradient of q, k or v (which: 0, 1, 2). */
value ref_attend_grad(const ref_heads *a, const value *grad, int which);

#endif
