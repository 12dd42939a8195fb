/* Convolution in two dimensions: what its files share.
 *
 *   conv2d.c          the kernels: which way each call takes
 *   conv2d_library.c  the library where it is fast, else
 *   conv2d_direct.c   f32 without a column matrix (conv2d_planes.c, isa/conv2d.c)
 *   conv2d_weight.c   its weight gradient (isa/conv2d_sum.c)
 *   conv2d_scatter.c  its input gradient for few channels (isa/conv2d_scatter.c), else
 *   conv2d_columns.c  every geometry by a column matrix and a product, f64 and integers, too
 *   conv2d_half.c     half types: f32's kernels on some channels and images at a time
 *
 * Letters: N images, C channels in and O out (both of all groups), H x W pixels in, OH x OW out,
 * KH x KW taps. Pairs are (height, width). */
#ifndef TERN_BACKEND_CPU_CONV2D_H
#define TERN_BACKEND_CPU_CONV2D_H

#include "backend_cpu/cpu.h"
#include "tern/op_attr.h"

/* One convolution and its tensors; in a gradient's place stands the tensor that it belongs to.
 * x [N, C, H, W], weight [O, C / groups, KH, KW], y [N, O, OH, OW]; each row-major or
 * channels_last. bias [O]: adjacent elements, or NULL. */
typedef struct cpu_conv {
    const tern_call *call;
    const tern_attr_conv *attr;
    const tern_view *x, *weight, *y;
    void *bias;
    int64_t images, in_channels, out_channels;
    int64_t in[2], out[2], kernel[2];
    int64_t group_in, group_out; /* channels of one group */
    int threads;
} cpu_conv;

typedef enum cpu_conv_outcome {
    CPU_CONV_DONE,
    CPU_CONV_NOT_DONE, /* no library, or no fast kernel in it: another way does all of it */
    CPU_CONV_NO_MEMORY
} cpu_conv_outcome;
/* By the library, in the dtype of the tensors (f32, bf16, f16). `pass` is bridge.h's cpu_conv_pass; the
 * gradient of weights includes that of the bias. */
cpu_conv_outcome cpu_conv_library_forward(const cpu_conv *conv);
cpu_conv_outcome cpu_conv_library(const cpu_conv *conv, int pass);

/* False: there was no scratch, and the host has said so. */
bool cpu_conv_direct_forward(const cpu_conv *conv);
/* Without groups: by a forward pass over the gradient with the kernel turned round, for stride 1
 * and no more padding than the kernel covers; or by adding up what each result gives, for
 * adjacent taps and few input channels. */
bool cpu_conv_turned_grad_input(const cpu_conv *conv);
bool cpu_conv_scatter_grad_input(const cpu_conv *conv);
bool cpu_conv_direct_grad_weight(const cpu_conv *conv); /* and bias's, unless that is NULL */
/* As the kernels, for half types with elements in each operand. */
tern_status_t cpu_conv2d_half(const tern_call *call);
tern_status_t cpu_conv2d_grad_input_half(const tern_call *call);
tern_status_t cpu_conv2d_grad_weight_half(const tern_call *call);
bool cpu_conv_columns_forward(const cpu_conv *conv);
bool cpu_conv_columns_grad_input(const cpu_conv *conv);
bool cpu_conv_columns_grad_weight(const cpu_conv *conv); /* and bias's, unless that is NULL */

/* ---- inner kernels, on staged planes (conv2d_planes.h) --------------------------------------- */

/* Outputs are computed CPU_CONV_LANES channels at a time or, where there are few, in blocks of up
 * to CPU_CONV_FEW channels with pixels of a row as lanes. */
enum { CPU_CONV_LANES = 16, CPU_CONV_FEW = 8 };

typedef struct cpu_conv_rows {
    const float *x;        /* staged, at the first of the rows */
    const int32_t *offset; /* of each tap */
    int64_t taps;
    int64_t run;           /* so many taps each have adjacent offsets; divides taps */
    int64_t rows, columns; /* of results */
    int64_t x_row;         /* from one row of results to the next */
    float *y;              /* forward: written; weight gradient: read */
    int64_t y_row, y_column, y_channel;
    int64_t channels; /* out */
    /* by channels: weights [taps][stride], bias [stride], sums [taps][stride]; stride is channels
     * rounded up to CPU_CONV_LANES. By pixels: weights [taps][CPU_CONV_FEW], bias [CPU_CONV_FEW],
     * sums [channels][taps][CPU_CONV_LANES]. */
    const float *weights, *bias;
    float *sums;
    int64_t stride;
} cpu_conv_rows;

/* y = bias + weights * x. by_channels: y_channel is 1. by_pixels: y_column is 1 and there are at
 * most CPU_CONV_FEW channels; it reads up to CPU_CONV_LANES elements of x beyond a row. */
CPU_ISA_DECLARE(void, cpu_conv_by_channels, const cpu_conv_rows *rows);
CPU_ISA_DECLARE(void, cpu_conv_by_pixels, const cpu_conv_rows *rows);
/* sums += x * y over the rows. */
CPU_ISA_DECLARE(void, cpu_conv_sum_by_channels, const cpu_conv_rows *rows);
CPU_ISA_DECLARE(void, cpu_conv_sum_by_pixels, const cpu_conv_rows *rows);

/* sums[c] += all of y's channel c over the rows; adjacent are channels or pixels. */
CPU_ISA_DECLARE(void, cpu_conv_sum_bias, const cpu_conv_rows *rows);

/* Adds the input gradient of some rows of one image to x, which is padded and channels_last, with
 * CPU_CONV_LANES elements behind it. A run is a row of the kernel, [KW][C]. */
typedef struct cpu_conv_scatter {
    float *x;                        /* at the first row's first pixel */
    int64_t x_row, x_column;         /* from one row or pixel of y to the next */
    int64_t kernel_rows, kernel_row; /* KH; elements of x from one to the next */
    int64_t run, padded_run;         /* KW C; rounded up to CPU_CONV_LANES */
    const float *y;
    int64_t rows, columns, y_row, y_column, y_channel, channels;
    const float *weights; /* [channels][stride]: kernel_rows rows of padded_run */
    int64_t stride;
} cpu_conv_scatter;
CPU_ISA_DECLARE(void, cpu_conv_scatter_rows, const cpu_conv_scatter *scatter);

/* out[r * out_row + c] = in[r * in_row + c] */
CPU_ISA_DECLARE(void, cpu_copy_rows_f32, float *out, int64_t out_row, const float *in,
                int64_t in_row, int64_t rows, int64_t columns);

static inline void cpu_copy_rows(float *out, int64_t out_row, const float *in, int64_t in_row,
                                 int64_t rows, int64_t columns)
{
    CPU_ISA_PICK(cpu_copy_rows_f32)(out, out_row, in, in_row, rows, columns);
}

/* out[c * out_row + r] = in[r * in_row + c]. For the few rows and columns of staging this is faster
 * than cpu_transpose, which is made for large matrices. */
CPU_ISA_DECLARE(void, cpu_turn_rows_f32, float *out, int64_t out_row, const float *in,
                int64_t in_row, int64_t rows, int64_t columns);

static inline void cpu_turn_rows(float *out, int64_t out_row, const float *in, int64_t in_row,
                                 int64_t rows, int64_t columns)
{
    CPU_ISA_PICK(cpu_turn_rows_f32)(out, out_row, in, in_row, rows, columns);
}

#endif
