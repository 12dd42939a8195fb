/* Staged planes of an f32 convolution: some rows of one image, channels apart, padded with zeros,
 * and for a stride s along W cut into s planes of every s-th column, so that neighbouring results
 * read neighbouring elements. A tap is then an offset.
 *
 * Where pixels are lanes and rows of results touch, there may be shifted planes too: one for each
 * column of the kernel, cut to the width of the results, so that all rows of results are one long
 * row. */
#ifndef TERN_BACKEND_CPU_CONV2D_PLANES_H
#define TERN_BACKEND_CPU_CONV2D_PLANES_H

#include "backend_cpu/conv2d.h"

typedef struct cpu_conv_planes {
    const cpu_conv *conv;
    bool shifted;
    int64_t block_rows; /* rows of results that are staged at a time */
    int64_t pitch, phase,
        channel;              /* from row to row; one set of s-th columns to the next; channels */
    int64_t shifts_at, shift; /* where shifted planes begin; from one to the next */
    int64_t floats;           /* of all; all are 0 before the first use */
} cpu_conv_planes;

/* Planes of `channels` channels. */
cpu_conv_planes cpu_conv_planes_for(const cpu_conv *conv, int64_t channels, bool shifted);
/* Stages channels [channel, channel + channels) of what results [row, row + rows) need. */
void cpu_conv_planes_stage(const cpu_conv_planes *planes, float *staged, int64_t image,
                           int64_t channel, int64_t channels, int64_t row, int64_t rows);
/* Where each tap of `channels` channels reads, relative to a result's first element. */
void cpu_conv_planes_offsets(const cpu_conv_planes *planes, int64_t channels, int32_t *out_offsets);
/* So many taps each lie side by side. */
int64_t cpu_conv_planes_run(const cpu_conv_planes *planes);

static inline int64_t cpu_conv_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t cpu_conv_blocks(int64_t size, int64_t block)
{
    return (size + block - 1) / block;
}

static inline bool cpu_conv_channels_adjacent(const tern_view *v)
{
    return v->stride[1] == 1 || v->shape[1] == 1;
}

static inline bool cpu_conv_pixels_adjacent(const tern_view *v)
{
    return v->stride[3] == 1 || v->shape[3] == 1;
}

#endif
