/* Launchers of kernels (*.cu) that host code (*.c) calls. They choose the grid, launch, return the
 * launch's error; they never wait, allocate or print. C and C++. */
#ifndef TERN_BACKEND_CUDA_LAUNCH_H
#define TERN_BACKEND_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#include "backend_cuda/cuda.h"
#include "backend_cuda/walk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- create.cu ---- */
/* Every element of the walk becomes the number, converted to dtype. */
cudaError_t cuda_launch_fill(void *out, int dtype, const tern_number *value, const cuda_walk *walk,
                             cudaStream_t stream);
/* Elements of a row-major tensor; `first` is the number of the first. */
cudaError_t cuda_launch_arange(void *out, int dtype, const tern_attr_arange *attr, int64_t n,
                               cudaStream_t stream);

/* The same; attr->steps of them. */
cudaError_t cuda_launch_linspace(void *out, int dtype, const tern_attr_linspace *attr,
                                 cudaStream_t stream);

/* ---- remap.cu ---- */
/* One dimension of tern_attr_remap: of `size` elements, the input's of `extent`; strides in elements. */
typedef struct cuda_remap_dim {
    cuda_divisor size;
    int64_t extent, start, out_stride, in_stride;
    int32_t outside, flipped;
} cuda_remap_dim;
typedef struct cuda_remap_args {
    int64_t numel;
    int32_t ndim, dense; /* at least one dimension; dense: out is row-major */
    cuda_remap_dim dims[TERN_MAX_DIMS];
} cuda_remap_args;
cudaError_t cuda_launch_remap(void *out, const void *in, int dtype, const tern_number *value,
                              const cuda_remap_args *args, cudaStream_t stream);
/* n elements of row-major matrices; n is not 0. */
cudaError_t cuda_launch_triangle(void *out, const void *in, int64_t size, int64_t n, int64_t rows,
                                 int64_t columns, int64_t diagonal, int upper, cudaStream_t stream);

/* ---- copy.cu ---- */
/* Operands of the walk: out, in. */
cudaError_t cuda_launch_copy(void *out, int out_dtype, const void *in, int in_dtype,
                             const cuda_walk *walk, cudaStream_t stream);

/* ---- random.cu: row-major ---- */
cudaError_t cuda_launch_rand(void *out, int dtype, uint64_t seed, uint64_t draw, int64_t n,
                             cudaStream_t stream);
cudaError_t cuda_launch_randn(void *out, int dtype, uint64_t seed, uint64_t draw, int64_t n,
                              cudaStream_t stream);
/* low + whole numbers below range. */
cudaError_t cuda_launch_randint(int64_t *out, uint64_t seed, uint64_t draw, int64_t low,
                                uint64_t range, int64_t n, cudaStream_t stream);
/* 1 where a uniform is below p, else 0; a p outside [0, 1] is noted. */
cudaError_t cuda_launch_bernoulli(void *out, const void *p, int dtype, uint64_t seed, uint64_t draw,
                                  int64_t n, cuda_fault_slot *slot, cudaStream_t stream);
/* least: of a uniform in units of 2^-24 to stay. */
cudaError_t cuda_launch_dropout(void *out, uint8_t *mask, const void *x, int dtype, uint64_t seed,
                                uint64_t draw, int32_t least, double scale, int64_t n,
                                cudaStream_t stream);
cudaError_t cuda_launch_dropout_grad(void *out, const void *grad, const uint8_t *mask, int dtype,
                                     double scale, int64_t n, cudaStream_t stream);

/* Into how many chunks columns of n elements that lie beside each other are cut, a thread each, so that few columns
 * keep memory busy, too: of 64 elements or more, at most 256, and 2^17 in all. The same on every device, as sums are. */
static inline int64_t cuda_chunks_of_columns(int64_t columns, int64_t n)
{
    const int64_t wanted = (n + 63) / 64, room = (INT64_C(1) << 17) / (columns > 0 ? columns : 1);
    const int64_t most = room < 256 ? room : 256, chunks = wanted < most ? wanted : most;
    return chunks > 1 ? chunks : 1;
}

/* ---- reduce.cu ---- */
typedef enum cuda_reduction {
    CUDA_SUM,
    CUDA_MEAN,
    CUDA_VAR,
    CUDA_STD,
    CUDA_PROD,
    CUDA_NORM,
    CUDA_EXTREME, /* the greatest or least */
    CUDA_PLACE    /* and where it is */
} cuda_reduction;

typedef struct cuda_reduce_args {
    void *out;
    int64_t *place; /* CUDA_PLACE: numbers of the extremes, or NULL; `out` may be NULL then */
    const void *in;
    int in_dtype, out_dtype;
    cuda_reduction kind;
    double correction;
    double p;              /* CUDA_NORM */
    bool least;            /* the least, not the greatest */
    int64_t count;         /* elements per output */
    const cuda_walk *kept; /* operands: out, in */
    const cuda_walk *gone; /* operand: in */
    int width;             /* threads that have an output or a chunk of it: 1, a warp, or a block */
    int64_t chunks;        /* per output; more than 1: cells has kept->numel * chunks */
    void *cells;           /* of one chunk beside each other */
} cuda_reduce_args;
enum { CUDA_CELL_BYTES = 32, CUDA_WARP = 32, CUDA_BLOCK = 256 };
cudaError_t cuda_launch_reduce(const cuda_reduce_args *r, cudaStream_t stream);

/* ---- scan.cu: columns of n elements, `inner` apart ---- */
typedef enum cuda_scan_kind { CUDA_SCAN_SUM, CUDA_SCAN_PRODUCT, CUDA_SCAN_LINEAR } cuda_scan_kind;
typedef struct cuda_scan_args {
    void *out;
    const void *x, *factor; /* factor: CUDA_SCAN_LINEAR */
    int dtype;              /* i64 or a float */
    cuda_scan_kind kind;
    bool reverse;
    int64_t columns, n, inner;
    int64_t
        chunks; /* of a column; 0: a thread has a column, more than 1: parts has as many per column */
    void *parts;
} cuda_scan_args;
enum { CUDA_SCAN_CHUNK = 1 << 12, CUDA_SCAN_ROW = 1 << 10, CUDA_SCAN_PART_BYTES = 24 };
cudaError_t cuda_launch_scan(const cuda_scan_args *s, cudaStream_t stream);

/* ---- sort.cu, sort_radix.cu ---- */
typedef struct cuda_sort_args {
    void *values;
    int64_t *places;
    const void *x; /* rows of n elements, `inner` apart */
    void *scratch; /* of cuda_sort_bytes */
    int dtype, size;
    bool descending, median;
    int64_t rows, n, inner, first, count;
} cuda_sort_args;
enum {
    CUDA_SORT_TILE = 1024, /* items that a block sorts by comparing */
    CUDA_SORT_EACH = 8,
    CUDA_RADIX_LEAST = 4096 /* elements of a row that is sorted by its digits */
};
int64_t cuda_sort_bytes(const cuda_sort_args *a);
cudaError_t cuda_launch_sort(const cuda_sort_args *a, cudaStream_t stream);
/* The same, by digits. */
int64_t cuda_radix_bytes(const cuda_sort_args *a);
cudaError_t cuda_launch_radix(const cuda_sort_args *a, cudaStream_t stream);
/* sorted: rows of n; x, out: `each` per row. right: behind what is equal. */
cudaError_t cuda_launch_searchsorted(int64_t *out, const void *sorted, const void *x, int dtype,
                                     int64_t rows, int64_t n, int64_t each, bool right,
                                     cudaStream_t stream);

/* ---- gemm.cu ---- */
/* out[b][m][n] = sum over k of x[b][m][k] y[b][k][n], plus bias[n]; strides in elements. */
typedef struct cuda_gemm_args {
    void *out;
    const void *x, *y, *bias; /* bias may be NULL */
    int dtype;
    int64_t batch, m, n, k;
    int64_t out_stride[3], x_stride[3], y_stride[3]; /* batch, row, column */
    int64_t bias_stride;
} cuda_gemm_args;
cudaError_t cuda_launch_gemm(const cuda_gemm_args *g, cudaStream_t stream);

/* ---- embedding.cu, gather.cu ---- */
cudaError_t cuda_launch_embedding(void *out, const void *table, const void *indices,
                                  int index_dtype, int64_t rows, int64_t width, int64_t size,
                                  int64_t n, cuda_fault_slot *slot, cudaStream_t stream);
/* sums: rows x width, zero; f64 for f64, else f32. */
cudaError_t cuda_launch_embedding_grad(void *sums, const void *grad, int dtype, const void *indices,
                                       int index_dtype, int64_t rows, int64_t width, int64_t n,
                                       cuda_fault_slot *slot, cudaStream_t stream);
/* A walk over lines: how many elements one has, and how far apart they are. */
typedef struct cuda_gather_line {
    int64_t count, index_step, step; /* count 0: the walk is over elements */
} cuda_gather_line;
/* Operands of the walk: index, dense, sparse (its stride along the dimension is 0 in the walk). */
typedef struct cuda_gather_args {
    void *out;
    const void *in;
    const int64_t *index;
    int64_t index_start; /* what lies before it, which positions of mistakes count */
    int64_t far_stride, far_size;
    const cuda_walk *walk;
    cuda_gather_line line; /* scatters that repeat */
    cuda_fault_slot *slot;
} cuda_gather_args;
cudaError_t cuda_launch_gather(const cuda_gather_args *g, int64_t size, cudaStream_t stream);
cudaError_t cuda_launch_scatter(const cuda_gather_args *g, int64_t size, cudaStream_t stream);
/* Adds in's elements (dtype) into out: f64 for f64, f32 for other floats, i64 for i64, else i32. */
cudaError_t cuda_launch_scatter_add(const cuda_gather_args *g, int dtype, cudaStream_t stream);

/* ---- nonzero.cu: row-major ---- */
typedef struct cuda_nonzero_args {
    const void *x;
    int64_t numel, chunks;
    int64_t size; /* of an element; bits outside of mask do not count */
    uint64_t mask;
    int64_t *starts, *places;
    int32_t ndim;
    int64_t shape[TERN_MAX_DIMS];
} cuda_nonzero_args;
/* starts: chunks + 1 numbers. */
cudaError_t cuda_launch_nonzero_starts(const cuda_nonzero_args *a, cudaStream_t stream);
cudaError_t cuda_launch_nonzero(const cuda_nonzero_args *a, cudaStream_t stream);
/* out = sum (NULL: 0) size + index; one outside its dimension is noted and becomes CUDA_NOWHERE. */
cudaError_t cuda_launch_index_offset(int64_t *out, const int64_t *index, const int64_t *sum,
                                     int64_t size, int64_t n, cuda_fault_slot *slot,
                                     cudaStream_t stream);

/* ---- softmax.cu: rows of n elements, `inner` apart ---- */
typedef struct cuda_softmax_args {
    void *out;
    const void *x, *y; /* gradients: the gradient and the result */
    int dtype;
    bool logarithm;
    int64_t outer, n, inner;
} cuda_softmax_args;
cudaError_t cuda_launch_softmax(const cuda_softmax_args *s, cudaStream_t stream);
cudaError_t cuda_launch_softmax_grad(const cuda_softmax_args *s, cudaStream_t stream);

/* ---- attention.cu: operands [batch, heads, rows, columns], columns adjacent ---- */
typedef struct cuda_attention_rows {
    void *data;
    int64_t stride[3];
} cuda_attention_rows;
typedef struct cuda_attention_args {
    cuda_attention_rows q, k, v, y, grad, grad_q, grad_k, grad_v;
    const void *mask; /* or NULL */
    int64_t mask_stride[4];
    int mask_is_bool;
    void *lse;   /* real type, [batch, heads, t] */
    void *delta; /* gradients: scratch of as much */
    int dtype;
    int64_t batch, heads, groups, t, s, d, e;
    double scale, keep_scale;
    int causal;
    int drops;
    int32_t least; /* of a uniform in units of 2^-24 to stay */
    uint64_t seed, draw;
    int rows, columns; /* of a block's tile */
    /* In shared memory, of d and of e features: from row to row of the rows and of the columns. Whole 16 bytes, of
     * columns an odd number of them, so that lanes which read one each do not wait for each other. */
    int64_t row_ld[2], column_ld[2];
    int64_t apart; /* forward: keys and values have a tile each */
} cuda_attention_args;
enum {
    CUDA_ATTENTION_WARPS = 4,
    CUDA_ATTENTION_SHARED = 48 * 1024,
    CUDA_ATTENTION_WEIGHTS = 36 /* of a tile's row in shared memory: a multiple of 16 bytes */
};
cudaError_t cuda_launch_attention(const cuda_attention_args *a, int64_t shared,
                                  cudaStream_t stream);
/* Of q, and delta: the sum of gradient times result of each query. */
cudaError_t cuda_launch_attention_grad_q(const cuda_attention_args *a, int64_t shared,
                                         cudaStream_t stream);
/* Of k and v, from delta. */
cudaError_t cuda_launch_attention_grad_kv(const cuda_attention_args *a, int64_t shared,
                                          cudaStream_t stream);

/* ---- attention_half.cu: the same by tensor cores, of half types ---- */
enum { CUDA_ATTENTION_HALF_WIDEST = 128 };
/* Whether the plugin has code for a device of that capability with tensor cores that take all half types; not where
 * CUDA_FORCE_PTX_JIT=1 leaves nothing but PTX. */
int cuda_attention_half_runs(int capability);
cudaError_t cuda_launch_attention_half(const cuda_attention_args *a, cudaStream_t stream);
cudaError_t cuda_launch_attention_half_grad_q(const cuda_attention_args *a, cudaStream_t stream);
cudaError_t cuda_launch_attention_half_grad_kv(const cuda_attention_args *a, cudaStream_t stream);

/* ---- cross_entropy.cu ---- */
typedef struct cuda_loss_args {
    void *out;              /* each position's loss (dtype), or gradients of logits */
    void *lse;              /* real type */
    const void *x, *weight; /* weight may be NULL */
    const int64_t *target;
    const void *grad; /* gradients: of the loss; one per position if separate, else one */
    double *sums;     /* scratch: two totals, then loss and weight of each position */
    void *base;       /* scratch of gradients: real type, two numbers per position */
    int dtype;
    int reduction;
    int64_t blocks, classes, inner;
    double smoothing;
    int64_t ignore_index;
    cuda_fault_slot *slot;
} cuda_loss_args;
/* Each position's lse and loss; then, if not separate, the totals and the loss. */
cudaError_t cuda_launch_loss(const cuda_loss_args *l, cudaStream_t stream);
/* sums[0] = gradient of each loss, if they share one, sums[1] = weight of all classes. */
cudaError_t cuda_launch_loss_weights(const cuda_loss_args *l, cudaStream_t stream);
cudaError_t cuda_launch_loss_total(const cuda_loss_args *l, cudaStream_t stream);
/* base = what is taken off a position's logits before their exponentials are its probabilities. */
cudaError_t cuda_launch_loss_base(const cuda_loss_args *l, cudaStream_t stream);
cudaError_t cuda_launch_loss_grad(const cuda_loss_args *l, cudaStream_t stream);

/* ---- conv2d.cu: x [n, c, h, w], weight [o, c / groups, kh, kw], grad [n, o, oh, ow]; any strides ---- */
typedef struct cuda_conv_shape {
    int64_t n, c, o, groups;
    int64_t in[2], out[2], kernel[2];
    int64_t stride[2], padding[2], dilation[2];
    int64_t x_stride[4], w_stride[4], y_stride[4];
} cuda_conv_shape;
cudaError_t cuda_launch_conv2d(void *y, const void *x, const void *w, const void *bias, int dtype,
                               const cuda_conv_shape *s, cudaStream_t stream);
/* y += bias, one per channel. */
cudaError_t cuda_launch_conv2d_bias(void *y, const void *bias, int dtype, const cuda_conv_shape *s,
                                    cudaStream_t stream);
cudaError_t cuda_launch_conv2d_grad_input(void *x, const void *y, const void *w, int dtype,
                                          const cuda_conv_shape *s, cudaStream_t stream);
cudaError_t cuda_launch_conv2d_grad_weight(void *w, const void *y, const void *x, int dtype,
                                           const cuda_conv_shape *s, cudaStream_t stream);

/* ---- pool2d.cu: x [n, c, h, w], y [n, c, oh, ow]; any strides ---- */
typedef struct cuda_pool_shape {
    int64_t n, c;
    int64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
    int64_t x_stride[4], y_stride[4], index_stride[4];
    cuda_divisor out_by[2], in_by[2], c_by, stride_by[2]; /* the same extents and strides */
    int include_pad;
    int narrow_index; /* u8, else i32 */
} cuda_pool_shape;
cudaError_t cuda_launch_max_pool(void *y, void *index, const void *x, int dtype,
                                 const cuda_pool_shape *s, cudaStream_t stream);
cudaError_t cuda_launch_max_pool_grad(void *x, const void *y, const void *index, int dtype,
                                      const cuda_pool_shape *s, cudaStream_t stream);
cudaError_t cuda_launch_avg_pool(void *y, const void *x, int dtype, const cuda_pool_shape *s,
                                 cudaStream_t stream);
cudaError_t cuda_launch_avg_pool_grad(void *x, const void *y, int dtype, const cuda_pool_shape *s,
                                      cudaStream_t stream);

/* ---- resample2d.cu: x [n, c, from], y [n, c, to]; any strides ---- */
typedef struct cuda_resample_shape {
    int64_t n, c;
    int64_t from[2], to[2];
    cuda_divisor to_by[2], c_by; /* the same extents */
    int64_t x_stride[4], y_stride[4];
    double step[2];
    int mode, align_corners, transposed, strict;
    int dense; /* y is row-major without gaps */
} cuda_resample_shape;
int64_t cuda_resample_table_bytes(const cuda_resample_shape *s);
/* table: scratch of that many bytes */
cudaError_t cuda_launch_resample(void *y, const void *x, void *table, int dtype,
                                 const cuda_resample_shape *s, cudaStream_t stream);

/* ---- batch_norm.cu, layer_norm.cu: parameters are x's dtype or, `wide`, f32 beside half types ---- */
enum { CUDA_NORM_CELL_BYTES = 24 };
typedef struct cuda_norm_args {
    void *out;         /* y, or the gradient of x */
    void *mean, *rstd; /* real type: results of forward, inputs of the gradient */
    const void *x, *grad;
    const void *weight, *bias;        /* or NULL */
    void *running_mean, *running_var; /* or NULL */
    void *weight_grad, *bias_grad;
    void *sums; /* scratch of batch_norm's gradient: 2 real per channel */
    /* Channels or columns that lie beside each other are cut into chunks of rows: scratch of
     * CUDA_NORM_CELL_BYTES for each of both, where there is more than one chunk. */
    void *cells;
    int64_t chunks;
    int dtype;
    int wide, wide_running;
    int training;
    double eps, momentum;
    int images; /* batch_norm: x has more than two dimensions */
    /* batch_norm: x [n, c, inner]; channels_last: inner before c. layer_norm: n rows of c, about 0
     * where mean is NULL. */
    int64_t n, c, inner;
    int channels_last, grad_channels_last;
} cuda_norm_args;
/* mean and rstd; training, the running ones, too. */
cudaError_t cuda_launch_batch_statistics(const cuda_norm_args *a, cudaStream_t stream);
/* The result, by mean and rstd. */
cudaError_t cuda_launch_batch_norm(const cuda_norm_args *a, cudaStream_t stream);
cudaError_t cuda_launch_batch_norm_grad(const cuda_norm_args *a, cudaStream_t stream);
cudaError_t cuda_launch_layer_norm(const cuda_norm_args *a, cudaStream_t stream);
cudaError_t cuda_launch_layer_norm_grad(const cuda_norm_args *a, cudaStream_t stream);

/* ---- step.cu: operands of the walk: p, g and the state that there is ---- */
typedef struct cuda_step_args {
    void *at[CUDA_WALK_OPERANDS]; /* g is written where there is a scale */
    int dtype;
    const cuda_walk *walk;
    const float *scale, *found; /* of the scaled rows, or NULL */
    int64_t *count;             /* [2], or NULL */
} cuda_step_args;
cudaError_t cuda_launch_sgd(const cuda_step_args *s, const tern_attr_sgd *attr,
                            cudaStream_t stream);
cudaError_t cuda_launch_adam(const cuda_step_args *s, const tern_attr_adam *attr,
                             cudaStream_t stream);
/* state: square, buffer where it moves, mean where it is centered */
cudaError_t cuda_launch_rmsprop(const cuda_step_args *s, const tern_attr_rmsprop *attr, int moves,
                                int centered, cudaStream_t stream);
cudaError_t cuda_launch_adagrad(const cuda_step_args *s, const tern_attr_adagrad *attr,
                                cudaStream_t stream);
cudaError_t cuda_launch_lion(const cuda_step_args *s, const tern_attr_lion *attr,
                             cudaStream_t stream);

/* ---- cell.cu: n rows of gates of `size` elements each, all without gaps; operands as in core/ops.def ---- */
typedef struct cuda_cell_args {
    void *at[6];
    int dtype;
    int64_t n, size;
} cuda_cell_args;
cudaError_t cuda_launch_lstm_cell(const cuda_cell_args *a, cudaStream_t stream);
cudaError_t cuda_launch_lstm_cell_grad(const cuda_cell_args *a, cudaStream_t stream);
cudaError_t cuda_launch_gru_cell(const cuda_cell_args *a, cudaStream_t stream);
cudaError_t cuda_launch_gru_cell_grad(const cuda_cell_args *a, cudaStream_t stream);

/* ---- unscale.cu: all pointers are the device's ---- */
typedef struct cuda_unscale_args {
    void *g;
    int dtype;
    const cuda_walk *walk;
    const float *inverse; /* NULL: g is only looked at */
    float *found;
    int32_t *cause; /* or NULL */
    int32_t index;
} cuda_unscale_args;
cudaError_t cuda_launch_unscale(const cuda_unscale_args *a, cudaStream_t stream);
typedef struct cuda_scale_args {
    float *scale;
    int32_t *tracker;
    const float *found, *skipped; /* these and the following may be NULL */
    const int32_t *cause;
    float *log;
    int64_t log_numel;
} cuda_scale_args;
cudaError_t cuda_launch_scale_update(const cuda_scale_args *a, const tern_attr_scale *attr,
                                     cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
