/* Ops that find elements by numbers that are data themselves. The common rules are those of tern/ops.h,
 * which includes this header. Numbers count from 0; one outside its dimension is an error: at once on the
 * CPU, on a device at the next wait, and its element is passed over. */
#ifndef TERN_INDEXING_H
#define TERN_INDEXING_H

#include "tern/base.h"
#include "tern/elementwise.h"
#include "tern/shape.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- indexing ------------------------------------------------------------------------------- */

typedef struct tern_embedding_args {
    size_t size_;
    tern_tensor *weight;  /* [rows, ...] */
    tern_tensor *indices; /* i64 or i32, any shape */
    int64_t padding_idx;  /* a row whose gradient is 0; from the end where negative. Read only with `.padding = true`,
                           * so that 0 can be named; alone, 0 does nothing and another value is an error */
    bool padding;
} tern_embedding_args;
/* Rows of weight by their numbers: [indices..., ...]. torch.nn.functional.embedding. */
TERN_API tern_tensor *tern_embedding_at(tern_site_t, const tern_embedding_args *args);
#define tern_embedding(...) \
    tern_embedding_at(TERN_HERE, TERN_OPTIONS_(tern_embedding_args, __VA_ARGS__))
/* out[i][j] = x[index[i][j]][j] for dim 0, and so on; index i64 or i32, no larger than x elsewhere. A 0-dim x is
 * one element beside a 1-D index. */
TERN_API tern_tensor *tern_gather_at(tern_site_t, tern_tensor *x, int dim, tern_tensor *index);
#define tern_gather(x, dim, index) tern_gather_at(TERN_HERE, x, dim, index)
/* The elements of a dimension that index (1-D or 0-dim, i64 or i32) numbers, in its order. */
TERN_API tern_tensor *tern_index_select_at(tern_site_t, tern_tensor *x, int dim,
                                           tern_tensor *index);
#define tern_index_select(x, dim, index) tern_index_select_at(TERN_HERE, x, dim, index)

/* x with out[index[i][j]][j] = src[i][j] for dim 0, and so on; scatter_add adds. index (i64 or i32) is no
 * larger than src anywhere, and than x but along dim; src has x's dtype, or is a number that fits there
 * (see tern_full). Forms ending in _ write x. Of several values for one place the last counts on the CPU,
 * some one on a device; sums of them are added in any order there, unless
 * tern_use_deterministic_algorithms asks for one order (slower: a thread goes along dim). */
TERN_API tern_tensor *tern_scatter_at(tern_site_t, tern_tensor *x, int dim, tern_tensor *index,
                                      tern_operand src);
TERN_API tern_tensor *tern_scatter_add_at(tern_site_t, tern_tensor *x, int dim, tern_tensor *index,
                                          tern_operand src);
TERN_API tern_tensor *tern_scatter_inplace_at(tern_site_t, tern_tensor *x, int dim,
                                              tern_tensor *index, tern_operand src);
TERN_API tern_tensor *tern_scatter_add_inplace_at(tern_site_t, tern_tensor *x, int dim,
                                                  tern_tensor *index, tern_operand src);
#define tern_scatter(x, dim, index, src) \
    tern_scatter_at(TERN_HERE, x, dim, index, TERN_OPERAND(src))
#define tern_scatter_add(x, dim, index, src) \
    tern_scatter_add_at(TERN_HERE, x, dim, index, TERN_OPERAND(src))
#define tern_scatter_(x, dim, index, src) \
    tern_scatter_inplace_at(TERN_HERE, x, dim, index, TERN_OPERAND(src))
#define tern_scatter_add_(x, dim, index, src) \
    tern_scatter_add_inplace_at(TERN_HERE, x, dim, index, TERN_OPERAND(src))

/* x[i, j, ...] as in PyTorch and NumPy: one tensor of numbers (i64 or i32, from the end where negative) or
 * a mask (bool, of the next dimensions' shape) for each of x's first dimensions, NULL for a whole one. They
 * broadcast; the result has their shape in the place of the dimensions that they number, or in front when
 * those do not stand together; a 0-dim tensor is one of them, as in NumPy, while x[i, :, j] of PyTorch takes such an i
 * for a whole number first. A mask is counted first: on a device the host waits once for each. Indices of
 * the CPU are copied to a device's x in every call, masks as the numbers that they stand for; a device's
 * indices for an x elsewhere are an error.
 *   tern_index(x, NULL, i): x[:, i] */
TERN_API tern_tensor *tern_index_at(tern_site_t, tern_tensor *x, tern_tensor *const *indices,
                                    int64_t count);
#define tern_index(x, ...) \
    tern_index_at(TERN_HERE, x, TERN_TENSORS_(__VA_ARGS__), TERN_TENSOR_COUNT_(__VA_ARGS__))
/* x with x[i, j, ...] = values, which broadcast to it, or with `accumulate` += values, each as often as
 * its place is numbered. The form ending in _ writes x. Values have x's dtype, or are a number that fits
 * there, and lie where x does, or are 0-dim and the CPU's.
 *   tern_index_put(x, values, false, i, j) */
TERN_API tern_tensor *tern_index_put_at(tern_site_t, tern_tensor *x, tern_operand values,
                                        bool accumulate, tern_tensor *const *indices, int64_t count);
TERN_API tern_tensor *tern_index_put_inplace_at(tern_site_t, tern_tensor *x, tern_operand values,
                                                bool accumulate, tern_tensor *const *indices,
                                                int64_t count);
#define tern_index_put(x, values, accumulate, ...)                             \
    tern_index_put_at(TERN_HERE, x, TERN_OPERAND(values), accumulate,          \
                      TERN_TENSORS_(__VA_ARGS__), TERN_TENSOR_COUNT_(__VA_ARGS__))
#define tern_index_put_(x, values, accumulate, ...)                            \
    tern_index_put_inplace_at(TERN_HERE, x, TERN_OPERAND(values), accumulate,  \
                              TERN_TENSORS_(__VA_ARGS__), TERN_TENSOR_COUNT_(__VA_ARGS__))

/* x with source's element i along dim added to element index[i] (1-D or 0-dim, i64 or i32), as often as that is
 * named; source has x's dtype and shape, but along dim as many elements as the index. Sums are added as
 * scatter_add's. The form ending in _ writes x. */
TERN_API tern_tensor *tern_index_add_at(tern_site_t, tern_tensor *x, int dim, tern_tensor *index,
                                        tern_tensor *source);
TERN_API tern_tensor *tern_index_add_inplace_at(tern_site_t, tern_tensor *x, int dim,
                                                tern_tensor *index, tern_tensor *source);
#define tern_index_add(x, dim, index, source) tern_index_add_at(TERN_HERE, x, dim, index, source)
#define tern_index_add_(x, dim, index, source) \
    tern_index_add_inplace_at(TERN_HERE, x, dim, index, source)
/* How often each number 0, 1, ... stands in x (1-D, integers, none below 0): i64, `least` of them at least. With
 * weights (x's shape; NULL: none) the sums of those: f32 or f64 as they are, of other dtypes f64. The host reads
 * the extremes of x: it waits for a device. Not differentiable. */
TERN_API tern_tensor *tern_bincount_at(tern_site_t, tern_tensor *x, tern_tensor *weights,
                                       int64_t least);
#define tern_bincount(x, weights, least) tern_bincount_at(TERN_HERE, x, weights, least)

/* Elements along dim, each as often as `repeats` says: a number, or a tensor (1-D or 0-dim, integers) with one
 * for each, or one for all. repeat_interleave([a, b], 2, 0) is [a, a, b, b]. Of a tensor the host reads how
 * many come together: it waits for a device. A new tensor. */
TERN_API tern_tensor *tern_repeat_interleave_at(tern_site_t, tern_tensor *x, tern_operand repeats,
                                                int dim);
#define tern_repeat_interleave(x, repeats, dim) \
    tern_repeat_interleave_at(TERN_HERE, x, TERN_OPERAND(repeats), dim)

/* i64 [index..., classes]: 1 at the class (i64 or i32), else 0. classes 0: one more than the largest index,
 * which the host reads: it waits for a device. */
TERN_API tern_tensor *tern_one_hot_at(tern_site_t, tern_tensor *index, int64_t classes);
#define tern_one_hot(index, classes) tern_one_hot_at(TERN_HERE, index, classes)

/* Where the elements are that are not 0: i64 [how many, dimensions of x], in row-major order. The host
 * reads how many there are: on a device it waits, once. Not differentiable. */
TERN_API tern_tensor *tern_nonzero_at(tern_site_t, tern_tensor *x);
#define tern_nonzero(x) tern_nonzero_at(TERN_HERE, x)
/* The elements of x where mask (bool) is true, 1-D, in row-major order; both broadcast. On a device the
 * host waits once, for how many there are. */
TERN_API tern_tensor *tern_masked_select_at(tern_site_t, tern_tensor *x, tern_tensor *mask);
#define tern_masked_select(x, mask) tern_masked_select_at(TERN_HERE, x, mask)

#ifdef __cplusplus
}
#endif
#endif
