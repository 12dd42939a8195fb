/* Attributes of ops, as kernels and backward rules see them (tern_call.attr). Plain data: a record
 * of a call copies them by size. "dim" is normalised to 0 .. ndim-1 before a kernel sees it. */
#ifndef TERN_OP_ATTR_H
#define TERN_OP_ATTR_H

#include "tern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A number of the caller's: kind says which member holds it. */
enum { TERN_NUMBER_FLOAT = 1, TERN_NUMBER_INT = 2, TERN_NUMBER_BOOL = 3 };
typedef struct tern_number {
    int32_t kind;
    int32_t reserved;
    double f;  /* valid for every kind */
    int64_t i; /* valid for INT and BOOL */
} tern_number;

/* Elementwise ops with up to two numbers, p and q of elementwise.def: i-members hold for integer dtypes,
 * f-members for floats. */
typedef struct tern_attr_numbers {
    double f[2];
    int64_t i[2];
    int32_t kind;  /* clamp: the highest kind (TERN_NUMBER_*) of a limit that promotes, or 0 */
    int32_t given; /* clamp: 1: the least is given, 2: the greatest */
} tern_attr_numbers;

/* copy: optional, and of no meaning to kernels; the library's part between devices reads it */
typedef struct tern_attr_copy {
    bool non_blocking;
    bool replaces; /* what comes was not made of what was there */
} tern_attr_copy;

/* fill: out = value */
typedef struct tern_attr_fill {
    tern_number value;
} tern_attr_fill;

/* arange: out[i] = start + i * step; i-members hold for integer dtypes, f-members for floats */
typedef struct tern_attr_arange {
    double f_start, f_step;
    int64_t i_start, i_step;
} tern_attr_arange;

/* linspace: steps >= 1 values from start to end. Those of the first half count from the start, the others
 * from the end, each product rounded before it is added (no FMA); integers are cut towards zero. */
typedef struct tern_attr_linspace {
    double start, end;
    int64_t steps;
} tern_attr_linspace;

/* rand (uniform in [0, 1)), randn (mean 0, deviation 1), randperm: Philox 4x32-10 keyed by
 * (seed, call, element); see docs/design/random.md */
typedef struct tern_attr_random {
    uint64_t seed;
    uint64_t call;
} tern_attr_random;

/* randint: low + a whole number below range. bernoulli(p), with tern_attr_random: 1 where a uniform number
 * is below p, else 0. */
typedef struct tern_attr_randint {
    tern_attr_random draw;
    int64_t low;
    uint64_t range;
} tern_attr_randint;

/* dropout(x) -> y, mask: keeps an element with probability 1 - p and divides it by that */
typedef struct tern_attr_dropout {
    uint64_t seed;
    uint64_t call;
    double p;
} tern_attr_dropout;

/* Reductions: bit d of `dims` is set where dimension d is reduced (all bits 0 never happens). */
typedef struct tern_attr_reduce {
    uint32_t dims;
    int32_t keepdim;
    double correction; /* var, std: divides by n - correction */
} tern_attr_reduce;

/* norm: (sum of |x|^p)^(1/p); p = 0 counts what is not 0, infinities take the greatest or least |x|. */
typedef struct tern_attr_vector_norm {
    uint32_t dims; /* as tern_attr_reduce */
    int32_t keepdim;
    double p;
} tern_attr_vector_norm;

/* cumsum, cumprod, linear_scan; reverse: from the last element on. */
typedef struct tern_attr_scan {
    int32_t dim;
    int32_t reverse;
} tern_attr_scan;

/* sort: elements first .. first + count of the order and their places. `all` and `median` let the rule set
 * both; a median is the first NaN where there is one. */
typedef struct tern_attr_sort {
    int32_t dim;
    int32_t descending;
    int32_t all, median;
    int64_t first, count;
} tern_attr_sort;

/* searchsorted; right: behind what is equal. */
typedef struct tern_attr_search {
    int32_t right;
    int32_t reserved;
} tern_attr_search;

/* Ops along one dimension: softmax, argmax, max, gather, index_select, scatter and so on. index_offset(i,
 * sum?) -> sum size + i, where i counts from the end when it is negative. `size` is the extent of that
 * dimension in the input where a gradient has to be made of a smaller one (gather_grad), or the
 * rows of the table (embedding_grad). */
typedef struct tern_attr_dim {
    int32_t dim;
    int32_t keepdim;
    int64_t size;
} tern_attr_dim;

/* embedding: the table's rows, and the one without a gradient, or -1 */
typedef struct tern_attr_embedding {
    int32_t unused[2]; /* rows lie where tern_attr_dim has `size` */
    int64_t rows, padding;
} tern_attr_embedding;

/* conv2d and its gradients; pairs are (height, width) */
typedef struct tern_attr_conv {
    int64_t stride[2], padding[2], dilation[2];
    int64_t groups;
    int64_t size[4]; /* gradients: the shape to make (input's or weight's) */
} tern_attr_conv;

typedef struct tern_attr_pool {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int32_t ceil_mode, count_include_pad;
    int64_t size[4]; /* gradients: the input's shape */
} tern_attr_pool;

/* layer_norm, rms_norm: the last `dims` dimensions are normalised. batch_norm: dimension 1 is kept. */
typedef struct tern_attr_norm {
    double eps;
    double momentum; /* batch_norm: weight of the new statistics */
    int32_t dims;
    int32_t training;
} tern_attr_norm;

/* resample2d: results are sums of neighbouring cells of x, weighted per dimension by `mode`; `transposed`
 * is its gradient: x has the results' extents then, and `size` is what they were made of. `strict`, for nearest: a
 * step that was given also counts where results are as many as cells, or twice as many. */
enum {
    TERN_RESAMPLE_NEAREST = 1,
    TERN_RESAMPLE_NEAREST_EXACT = 2,
    TERN_RESAMPLE_LINEAR = 3,
    TERN_RESAMPLE_AVERAGE = 4
};
typedef struct tern_attr_resample {
    int64_t size[2]; /* (height, width) to make */
    double step[2];  /* cells from one result to the next; 0: by the extents */
    int32_t mode, align_corners;
    int32_t transposed, strict;
} tern_attr_resample;

enum { TERN_REDUCTION_MEAN = 1, TERN_REDUCTION_SUM = 2, TERN_REDUCTION_NONE = 3 };
typedef struct tern_attr_loss {
    int32_t reduction;
    int32_t reserved;
    double label_smoothing;
    int64_t ignore_index;
} tern_attr_loss;

/* gather_grad(gradient, index): adds into zeros of the shape `x` along `dim` */
typedef struct tern_attr_gather_grad {
    int32_t dim;
    int32_t ndim;
    int64_t dims[TERN_MAX_DIMS];
} tern_attr_gather_grad;

/* nonzero(x, starts) -> places: `count` is the last of starts, which nonzero_starts(x) gives: i64, how many
 * elements of x's row-major order are not 0 in front of each TERN_NONZERO_CHUNK, and in all. */
enum { TERN_NONZERO_CHUNK = 4096 };
typedef struct tern_attr_nonzero {
    int64_t count;
} tern_attr_nonzero;

/* Views: the shape asked for (view, expand), the order (permute) or the range (slice). */
typedef struct tern_attr_shape {
    int32_t ndim;
    int64_t dims[TERN_MAX_DIMS];
} tern_attr_shape;
typedef struct tern_attr_slice {
    int32_t dim;
    int64_t start, length, step;
} tern_attr_slice;
/* unfold: windows of `size` along `dim`, `step` apart */
typedef struct tern_attr_unfold {
    int32_t dim;
    int64_t size, step;
} tern_attr_unfold;

/* scaled_dot_product_attention(q, k, v, mask?) -> y, log of the sum of exponentials, and its gradients.
 * Dropout: the weight of query t and key s of head h of batch b is element ((b heads + h) T + t) S + s of
 * draw (seed, call), as in a dropout of all of them. */
typedef struct tern_attr_attention {
    double scale;
    double p; /* 0: no dropout */
    uint64_t seed, call;
    int32_t causal, reserved;
} tern_attr_attention;

/* flip, roll, pad: element i of dimension d, of size[d], is the input's element i + start[d], or
 * counted from the other end where bit d of `flipped` is set (start is 0 then). What stands for places
 * outside of the input: `value`, or the element that is found by reflection at the ends (less than an
 * extent outside), that is nearest, or by going on at the other end (start is inside then). */
enum { TERN_OUTSIDE_VALUE = 0, TERN_OUTSIDE_REFLECT, TERN_OUTSIDE_NEAREST, TERN_OUTSIDE_WRAP };
typedef struct tern_attr_remap {
    uint32_t flipped;
    uint8_t outside[TERN_MAX_DIMS]; /* TERN_OUTSIDE_* */
    int64_t start[TERN_MAX_DIMS], size[TERN_MAX_DIMS];
    tern_number value;
} tern_attr_remap;

/* tril: of the last two dimensions what lies on or below the diagonal that begins `diagonal` columns
 * to the right of the first element, and zeros. triu: on or above. */
typedef struct tern_attr_triangle {
    int64_t diagonal;
} tern_attr_triangle;

/* sgd_step(p, g, buf?): torch.optim.SGD. `first`: the momentum buffer starts as the gradient.
 * sgd_step_scaled(p, g, buf?, scale?, found?, count?) first multiplies g, which is written, by 1 / scale,
 * and does nothing where found is not 0. count (i64 [2]) is the number of steps done so far, on the
 * device: count[turn] is read, count[1 - turn] written, so that no thread waits for another; where it is
 * given it says what `first` says. */
typedef struct tern_attr_sgd {
    double lr, momentum, dampening, weight_decay;
    int32_t nesterov, maximize, first, turn;
} tern_attr_sgd;

/* adam_step(p, g, m, v): torch.optim.Adam; decoupled: AdamW's weight decay. step counts from 1.
 * adam_step_scaled(p, g, m, v, scale?, found?, count?): see above; count stands for step. */
typedef struct tern_attr_adam {
    double lr, beta1, beta2, eps, weight_decay;
    int64_t step;
    int32_t decoupled, maximize;
    int32_t turn, reserved;
} tern_attr_adam;

/* rmsprop_step(p, g, square, buffer?, mean?): torch.optim.RMSprop, with a momentum where there is a
 * buffer and momentum is not 0, centered where there is a mean. _scaled: ..., scale?, found?, count?, as
 * above. */
typedef struct tern_attr_rmsprop {
    double lr, alpha, momentum, eps, weight_decay;
    int32_t maximize, turn;
} tern_attr_rmsprop;

/* adagrad_step(p, g, sum): torch.optim.Adagrad. step counts from 1.
 * adagrad_step_scaled(p, g, sum, scale?, found?, count?): count stands for step. */
typedef struct tern_attr_adagrad {
    double lr, lr_decay, eps, weight_decay;
    int64_t step;
    int32_t maximize, turn;
} tern_attr_adagrad;

/* lion_step(p, g, m): Chen et al. 2023, algorithm 2. _scaled(p, g, m, scale?, found?, count?). */
typedef struct tern_attr_lion {
    double lr, beta1, beta2, weight_decay;
    int32_t maximize, turn;
} tern_attr_lion;

/* unscale(g, inverse?, found, cause?): without inverse g is only looked at. cause (i32) becomes `index`
 * where an element is not finite and it was larger before. */
typedef struct tern_attr_unscale {
    int64_t index;
} tern_attr_unscale;

/* scale_update(scale, tracker, found?, skipped?, cause?, log?): torch._amp_update_scale_; found may be
 * left out when `keep` leaves scale and tracker alone. log (f32 [3 n + 2]): at 3 slot come skipped, the
 * new scale and cause; skipped is added to the last but one, the last becomes cause where skipped > 0. */
typedef struct tern_attr_scale {
    double growth, backoff;
    int64_t interval;
    int64_t slot;
    int32_t keep, reserved;
} tern_attr_scale;

#ifdef __cplusplus
}
#endif
#endif
