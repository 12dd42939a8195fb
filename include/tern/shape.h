/* Ops that change shape and order of elements: views of one storage, and copies that join, repeat or
 * move. The common rules are those of tern/ops.h, which includes this header. */
#ifndef TERN_SHAPE_H
#define TERN_SHAPE_H

#include "tern/base.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- views: share the storage --------------------------------------------------------------- */

/* One dimension may be -1. view: an error when it needs a copy; reshape: copies then. */
TERN_API tern_tensor *tern_view_at(tern_site_t, tern_tensor *x, tern_shape_t shape);
TERN_API tern_tensor *tern_reshape_at(tern_site_t, tern_tensor *x, tern_shape_t shape);
TERN_API tern_tensor *tern_permute_at(tern_site_t, tern_tensor *x, tern_dims_t order);
TERN_API tern_tensor *tern_transpose_at(tern_site_t, tern_tensor *x, int dim0, int dim1);
/* Dimension `from` comes to stand at `to`; the others keep their order. */
TERN_API tern_tensor *tern_movedim_at(tern_site_t, tern_tensor *x, int from, int to);
typedef struct tern_slice_args {
    size_t size_;
    tern_tensor *x;
    int dim;
    int64_t start, end; /* negative counts from the end; end 0 means to the end, TERN_ZERO to 0 */
    int64_t step;       /* default 1, positive */
} tern_slice_args;
/* x[..., start:end:step, ...]; bounds clamp as Python's do. */
TERN_API tern_tensor *tern_slice_at(tern_site_t, const tern_slice_args *args);
/* One index of a dimension, which disappears. */
TERN_API tern_tensor *tern_select_at(tern_site_t, tern_tensor *x, int dim, int64_t index);
TERN_API tern_tensor *tern_squeeze_at(tern_site_t, tern_tensor *x, int dim);
TERN_API tern_tensor *tern_unsqueeze_at(tern_site_t, tern_tensor *x, int dim);
/* Extents of 1 grow without copying; -1 keeps an extent; new dimensions come first. */
TERN_API tern_tensor *tern_expand_at(tern_site_t, tern_tensor *x, tern_shape_t shape);
/* Dimensions first..last become one. */
TERN_API tern_tensor *tern_flatten_at(tern_site_t, tern_tensor *x, int first, int last);
/* Windows of `size` elements that begin `step` apart along a dimension, which counts them; a last
 * dimension counts within each. What is left over at the end is in none. size 0 .. extent, step > 0. */
TERN_API tern_tensor *tern_unfold_at(tern_site_t, tern_tensor *x, int dim, int64_t size,
                                     int64_t step);
/* The same data without history. */
TERN_API tern_tensor *tern_detach_at(tern_site_t, tern_tensor *x);
#define tern_view(x, ...) tern_view_at(TERN_HERE, x, __VA_ARGS__)
#define tern_reshape(x, ...) tern_reshape_at(TERN_HERE, x, __VA_ARGS__)
#define tern_permute(x, ...) tern_permute_at(TERN_HERE, x, __VA_ARGS__)
#define tern_transpose(x, dim0, dim1) tern_transpose_at(TERN_HERE, x, dim0, dim1)
#define tern_movedim(x, from, to) tern_movedim_at(TERN_HERE, x, from, to)
#define tern_slice(...) tern_slice_at(TERN_HERE, TERN_OPTIONS_(tern_slice_args, __VA_ARGS__))
#define tern_select(x, dim, index) tern_select_at(TERN_HERE, x, dim, index)
#define tern_squeeze(x, dim) tern_squeeze_at(TERN_HERE, x, dim)
#define tern_unsqueeze(x, dim) tern_unsqueeze_at(TERN_HERE, x, dim)
#define tern_expand(x, ...) tern_expand_at(TERN_HERE, x, __VA_ARGS__)
#define tern_flatten(x, first, last) tern_flatten_at(TERN_HERE, x, first, last)
#define tern_unfold(x, dim, size, step) tern_unfold_at(TERN_HERE, x, dim, size, step)
#define tern_detach(x) tern_detach_at(TERN_HERE, x)

/* Parts of x along a dimension, in order: views, written to out_parts, which has room for `room`. They
 * give how many there are, or -1 after an error, when nothing is written; too little room is one.
 *   split: of `size` each, the last may be shorter
 *   split_sizes: of the extents sizes[0 .. count - 1], whose sum is that of x
 *   chunk: `chunks` of equal size but for the last; fewer where the size, rounded up, allows no more
 *   unbind: every index, without the dimension */
TERN_API int64_t tern_split_at(tern_site_t, tern_tensor *x, int64_t size, int dim,
                               tern_tensor **out_parts, int64_t room);
TERN_API int64_t tern_split_sizes_at(tern_site_t, tern_tensor *x, const int64_t *sizes,
                                     int64_t count, int dim, tern_tensor **out_parts, int64_t room);
TERN_API int64_t tern_chunk_at(tern_site_t, tern_tensor *x, int64_t chunks, int dim,
                               tern_tensor **out_parts, int64_t room);
TERN_API int64_t tern_unbind_at(tern_site_t, tern_tensor *x, int dim, tern_tensor **out_parts,
                                int64_t room);
#define tern_split(x, size, dim, out_parts, room) \
    tern_split_at(TERN_HERE, x, size, dim, out_parts, room)
#define tern_split_sizes(x, sizes, count, dim, out_parts, room) \
    tern_split_sizes_at(TERN_HERE, x, sizes, count, dim, out_parts, room)
#define tern_chunk(x, chunks, dim, out_parts, room) \
    tern_chunk_at(TERN_HERE, x, chunks, dim, out_parts, room)
#define tern_unbind(x, dim, out_parts, room) tern_unbind_at(TERN_HERE, x, dim, out_parts, room)

/* ---- joining -------------------------------------------------------------------------------- */

/* Along an existing dimension (cat) or a new one (stack); `count` tensors. */
TERN_API tern_tensor *tern_cat_at(tern_site_t, tern_tensor *const *tensors, int64_t count, int dim);
TERN_API tern_tensor *tern_stack_at(tern_site_t, tern_tensor *const *tensors, int64_t count,
                                    int dim);
#define TERN_TENSORS_(...) TERN_ARRAY_(tern_tensor *, __VA_ARGS__)
#define TERN_TENSOR_COUNT_(...) TERN_ARRAY_COUNT_(tern_tensor *, __VA_ARGS__)
#define tern_cat(dim, ...) \
    tern_cat_at(TERN_HERE, TERN_TENSORS_(__VA_ARGS__), TERN_TENSOR_COUNT_(__VA_ARGS__), dim)
#define tern_stack(dim, ...) \
    tern_stack_at(TERN_HERE, TERN_TENSORS_(__VA_ARGS__), TERN_TENSOR_COUNT_(__VA_ARGS__), dim)

/* ---- copies with the elements elsewhere ------------------------------------------------------- */

/* x side by side, times[d] times along dimension d; further dimensions come first. A new tensor. */
TERN_API tern_tensor *tern_repeat_at(tern_site_t, tern_tensor *x, tern_shape_t times);
#define tern_repeat(x, ...) tern_repeat_at(TERN_HERE, x, __VA_ARGS__)

/* The order of elements turned around along each of `dims`; not given, (tern_dims_t){ 0 }: along all. */
TERN_API tern_tensor *tern_flip_at(tern_site_t, tern_tensor *x, tern_dims_t dims);
/* Elements move shifts[k] places on along dims[k]; those that leave at one end come back at the other.
 * A dimension may be named more than once. dims not given: one shift, in row-major order. */
TERN_API tern_tensor *tern_roll_at(tern_site_t, tern_tensor *x, tern_shape_t shifts,
                                   tern_dims_t dims);
#define tern_flip(x, ...) tern_flip_at(TERN_HERE, x, __VA_ARGS__)
#define tern_roll(x, shifts, ...) tern_roll_at(TERN_HERE, x, shifts, __VA_ARGS__)

/* The last two dimensions as a matrix: what is on and below (tril), on and above (triu) a diagonal;
 * zeros elsewhere. diagonal 0 is the main one, 1 the one above it. */
TERN_API tern_tensor *tern_tril_at(tern_site_t, tern_tensor *x, int64_t diagonal);
TERN_API tern_tensor *tern_triu_at(tern_site_t, tern_tensor *x, int64_t diagonal);
#define tern_tril(x, diagonal) tern_tril_at(TERN_HERE, x, diagonal)
#define tern_triu(x, diagonal) tern_triu_at(TERN_HERE, x, diagonal)

enum {
    TERN_PAD_CONSTANT = 0,
    TERN_PAD_REFLECT = 1,   /* mirrored, the outermost element once; less than the extent */
    TERN_PAD_REPLICATE = 2, /* the outermost element */
    TERN_PAD_CIRCULAR = 3   /* from the other end of what is left; at most that */
};
typedef struct tern_pad_args {
    size_t size_;
    tern_tensor *x;
    /* How many elements are added before and after the last dimension, before and after the one in
     * front of it, and so on; negative: taken away, of mirrored and repeated ends also more than there is,
     * but for one element of the result. torch.nn.functional.pad's order. */
    int64_t pad[2 * TERN_MAX_DIMS];
    int mode;     /* TERN_PAD_*: what is added */
    double value; /* TERN_PAD_CONSTANT */
} tern_pad_args;
TERN_API tern_tensor *tern_pad_at(tern_site_t, const tern_pad_args *args);
#define tern_pad(...) tern_pad_at(TERN_HERE, TERN_OPTIONS_(tern_pad_args, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
