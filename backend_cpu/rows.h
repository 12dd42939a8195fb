/* Kernels over rows that are compiled once per instruction set (backend_cpu/isa/): softmax, losses,
 * normalisation. Arrays are row-major without gaps; dtype is that of the arrays typed `void`.
 * What is typed `stat` is float, or double where dtype is f64. */
#ifndef TERN_BACKEND_CPU_ROWS_H
#define TERN_BACKEND_CPU_ROWS_H

#include "backend_cpu/cpu.h"

/* Runs a kernel's ranges: at once where there is little to do, else on threads where they pay, with
 * denormals flushed. bytes and flops as for cpu_threads. */
enum { CPU_ROWS_AT_ONCE = 1 << 13 };
static inline void cpu_rows_run(const tern_call *call, int64_t bytes, int64_t flops, int64_t count,
                                int64_t grain, cpu_range_fn run, void *context)
{
    if (bytes < CPU_ROWS_AT_ONCE)
        run(context, 0, count);
    else
        cpu_parallel(cpu_threads(call, bytes, flops), count, grain, run, context);
}

/* How many rows of n elements make a range worth handing out. */
static inline int64_t cpu_rows_grain(int64_t n)
{
    return n >= 4096 ? 1 : 4096 / (n > 0 ? n : 1);
}

/* Is the element type of a float dtype narrower than what it is computed in? */
static inline bool cpu_is_half(int dtype)
{
    return dtype == TERN_F16 || dtype == TERN_BF16;
}

static inline int64_t cpu_stat_size(int dtype)
{
    return dtype == TERN_F64 ? (int64_t)sizeof(double) : (int64_t)sizeof(float);
}

/* A parameter as stat: its own memory, or widened into scratch. NULL stays NULL. False: no memory,
 * recorded. */
bool cpu_stat_of(const tern_call *call, const tern_view *view, const void **out_stat);
static inline double cpu_stat_at(const void *stat, int dtype, int64_t i)
{
    return dtype == TERN_F64 ? ((const double *)stat)[i] : (double)((const float *)stat)[i];
}
static inline void cpu_stat_set(void *stat, int dtype, int64_t i, double value)
{
    if (dtype == TERN_F64)
        ((double *)stat)[i] = value;
    else
        ((float *)stat)[i] = (float)value;
}
/* out[j] = sum of stat[k * step + j] over k = 0 .. count - 1, in that order, in double; out has the
 * dtype of `out`. */
void cpu_stat_add_up(const tern_view *out, const void *stat, int dtype, int64_t count,
                     int64_t step);

/* ---- softmax: x, y [outer, n, inner] along n ------------------------------------------------- */

typedef struct cpu_softmax_args {
    const void *x; /* gradients: the gradient of y */
    const void *y; /* gradients: the result of forward */
    void *out;
    int64_t n, inner;
    int dtype;
    bool log;
    bool stream; /* write past the caches where that is possible */
} cpu_softmax_args;

/* For inner == 1: rows begin .. end. */
CPU_ISA_DECLARE(void, cpu_softmax_rows, const cpu_softmax_args *args, int64_t begin, int64_t end);
CPU_ISA_DECLARE(void, cpu_softmax_grad_rows, const cpu_softmax_args *args, int64_t begin,
                int64_t end);
/* For any inner: columns first .. first + width of outer block `block`. */
CPU_ISA_DECLARE(void, cpu_softmax_columns, const cpu_softmax_args *args, int64_t block,
                int64_t first, int64_t width);
CPU_ISA_DECLARE(void, cpu_softmax_grad_columns, const cpu_softmax_args *args, int64_t block,
                int64_t first, int64_t width);

/* ---- cross-entropy: logits [blocks, classes, inner], target and lse [blocks, inner] ---------- */

/* A unit is what one call works on: up to CPU_LOSS_UNIT rows where inner == 1, else as many columns
 * of one block. Targets have been checked. */
enum { CPU_LOSS_UNIT = 64 };

typedef struct cpu_loss_args {
    const void *x;
    const int64_t *target;
    const void *weight; /* stat [classes] or NULL: 1 each */
    void *lse;          /* stat; forward writes it */
    void *out;          /* forward: losses by position, or NULL: only summed; backward: gradient */
    const void *grad;   /* backward: gradients by position, or NULL: `scale` is all of it */
    double scale;
    double smoothing;
    double weight_sum; /* of all classes */
    int64_t blocks, classes, inner;
    int64_t ignore_index;
    int dtype;
    bool stream; /* backward: write past the caches where that is possible */
} cpu_loss_args;

static inline int64_t cpu_loss_units(const cpu_loss_args *args)
{
    return args->inner == 1 ? (args->blocks + CPU_LOSS_UNIT - 1) / CPU_LOSS_UNIT
                            : args->blocks * ((args->inner + CPU_LOSS_UNIT - 1) / CPU_LOSS_UNIT);
}

/* Writes lse and losses of units begin .. end; gives the sum of the losses. */
CPU_ISA_DECLARE(double, cpu_loss_units_forward, const cpu_loss_args *args, int64_t begin,
                int64_t end);
CPU_ISA_DECLARE(void, cpu_loss_units_backward, const cpu_loss_args *args, int64_t begin,
                int64_t end);

/* ---- normalisation --------------------------------------------------------------------------- */

/* Rows of n elements. Parameters and statistics are stat. */
typedef struct cpu_layer_norm_args {
    const void *x;
    const void *weight; /* [n] or NULL: 1 */
    const void *bias;   /* [n] or NULL: 0 */
    const void *grad;   /* backward: gradient of y */
    void *mean;         /* [rows]; forward writes it; NULL: rows are taken about 0 */
    void *rstd;         /* [rows]: 1 / deviation; forward writes it */
    void *out;          /* forward: y; backward: gradient of x */
    double eps;
    int64_t n;
    int dtype;
    bool stream;   /* write past the caches where that is possible */
    bool outgrows; /* all arrays together are larger than the caches */
} cpu_layer_norm_args;

CPU_ISA_DECLARE(void, cpu_layer_norm_rows, const cpu_layer_norm_args *args, int64_t begin,
                int64_t end);
/* Adds to the gradients of weight and bias, stat [n]. */
CPU_ISA_DECLARE(void, cpu_layer_norm_grad_rows, const cpu_layer_norm_args *args, int64_t begin,
                int64_t end, void *weight_grad, void *bias_grad);

/* A block of one channel (`planes`: count pieces of n contiguous elements, `stride` apart; mean
 * and so on are one stat) or of all (`columns`: count rows of n, without gaps; arrays of n
 * stat). */
typedef struct cpu_norm_block {
    const void *x;
    const void *grad;
    void *out;
    int64_t count, n, stride;
    const void *mean;
    const void *scale; /* of (x - mean) forward, of the gradient backward */
    const void *shift; /* forward: added; backward: subtracted */
    const void *slope; /* backward: of (x - mean), subtracted */
    int dtype;
    bool stream; /* write past the caches where that is possible */
} cpu_norm_block;

/* Mean and sum of squared distances from it. Reads the block twice: it should fit in a cache. */
CPU_ISA_DECLARE(void, cpu_planes_moments, const cpu_norm_block *block, void *mean, void *m2);
CPU_ISA_DECLARE(void, cpu_columns_moments, const cpu_norm_block *block, void *mean, void *m2);
/* out = (x - mean) scale + shift */
CPU_ISA_DECLARE(void, cpu_planes_apply, const cpu_norm_block *block);
CPU_ISA_DECLARE(void, cpu_columns_apply, const cpu_norm_block *block);
/* Sums of the gradient and of gradient (x - mean). */
CPU_ISA_DECLARE(void, cpu_planes_sums, const cpu_norm_block *block, void *sum, void *product);
CPU_ISA_DECLARE(void, cpu_columns_sums, const cpu_norm_block *block, void *sum, void *product);
/* out = grad scale - shift - (x - mean) slope */
CPU_ISA_DECLARE(void, cpu_planes_grad, const cpu_norm_block *block);
CPU_ISA_DECLARE(void, cpu_columns_grad, const cpu_norm_block *block);

/* ---- indexing and dropout -------------------------------------------------------------------- */

/* out[n] = sum of the rows of n elements numbered rows[0 .. count - 1], in that order; sums are
 * stat. */
CPU_ISA_DECLARE(void, cpu_rows_gather_sum, int dtype, void *out, const void *table, int64_t n,
                const int64_t *rows, int64_t count);

/* mask[i]: do the top 24 bits of element first + i of the draw reach `least`? first is a
 * multiple of CPU_DROPOUT_GRAIN. */
enum { CPU_DROPOUT_GRAIN = 64 };
CPU_ISA_DECLARE(void, cpu_dropout_mask, uint8_t *mask, uint64_t seed, uint64_t call, int64_t first,
                int64_t n, int32_t least);
/* y = x scale where mask, else 0; y may be x. */
CPU_ISA_DECLARE(void, cpu_dropout_apply_f32, float *y, const float *x, const uint8_t *mask,
                float scale, int64_t n);
CPU_ISA_DECLARE(void, cpu_dropout_apply_f64, double *y, const double *x, const uint8_t *mask,
                double scale, int64_t n);

#endif
