/* Staging of rows of images for the kernels of isa/conv2d.c and isa/conv2d_sum.c. */
#include "backend_cpu/conv2d_planes.h"

enum { STAGED_FLOATS = 1 << 15 }; /* half of a small second-level cache */

/* Padded rows of input that `rows` rows of results need. */
static int64_t rows_needed(const cpu_conv *conv, int64_t rows)
{
    const tern_attr_conv *a = conv->attr;
    return (rows - 1) * a->stride[0] + (conv->kernel[0] - 1) * a->dilation[0] + 1;
}

/* Floats that `rows` rows of results need, staged and shifted. */
static int64_t floats_for(const cpu_conv_planes *planes, int64_t channels, int64_t rows)
{
    const cpu_conv *conv = planes->conv;
    const int64_t shifted = planes->shifted ? conv->kernel[1] * conv->out[1] : 0;
    return channels * rows_needed(conv, rows) * (planes->pitch * conv->attr->stride[1] + shifted);
}

cpu_conv_planes cpu_conv_planes_for(const cpu_conv *conv, int64_t channels, bool shifted)
{
    const tern_attr_conv *a = conv->attr;
    cpu_conv_planes p = { .conv = conv, .shifted = shifted };
    p.pitch = cpu_conv_blocks(conv->in[1] + 2 * a->padding[1], a->stride[1]);
    int64_t rows = 1;
    while (rows < conv->out[0] && floats_for(&p, channels, rows + 1) <= STAGED_FLOATS)
        rows++;
    p.block_rows = rows;
    p.phase = rows_needed(conv, rows) * p.pitch;
    p.channel = p.phase * a->stride[1];
    p.shifts_at = channels * p.channel + CPU_CONV_LANES;
    p.shift = rows_needed(conv, rows) * conv->out[1];
    p.floats = (floats_for(&p, channels, rows) + 4 * CPU_CONV_LANES) / 16 * 16;
    return p;
}

/* The pixels of one row of one channel, from `from` on, `step` apart, for a stride along W. */
static void stage_row(const cpu_conv_planes *planes, float *to, const float *from, int64_t step)
{
    const cpu_conv *conv = planes->conv;
    const int64_t stride = conv->attr->stride[1], pad = conv->attr->padding[1];
    for (int64_t phase = 0; phase < stride; phase++, to += planes->phase) {
        /* first element of this phase that is a pixel: i * stride + phase >= pad */
        const int64_t first = pad > phase ? cpu_conv_blocks(pad - phase, stride) : 0;
        const int64_t skipped = first * stride + phase - pad;
        const int64_t count = cpu_conv_blocks(conv->in[1] - skipped, stride);
        for (int64_t i = 0; i < count; i++)
            to[first + i] = from[(skipped + i * stride) * step];
    }
}

/* `rows` rows of one channel. */
static void stage_plane(const cpu_conv_planes *planes, float *to, const float *from, int64_t rows)
{
    const cpu_conv *conv = planes->conv;
    const tern_view *x = conv->x;
    if (conv->attr->stride[1] == 1 && x->stride[3] == 1)
        cpu_copy_rows(to + conv->attr->padding[1], planes->pitch, from, x->stride[2], rows,
                      conv->in[1]);
    else
        for (int64_t r = 0; r < rows; r++)
            stage_row(planes, to + r * planes->pitch, from + r * x->stride[2], x->stride[3]);
}

/* Rows of padding, of all channels. */
static void stage_zeros(const cpu_conv_planes *planes, float *to, int64_t channels, int64_t rows)
{
    for (int64_t i = 0; rows > 0 && i < channels * planes->conv->attr->stride[1]; i++)
        memset(to + i * planes->phase, 0, (size_t)(rows * planes->pitch) * sizeof *to);
}

/* Where column `k` of the kernel reads, in a staged plane. */
static int64_t column_at(const cpu_conv_planes *planes, int64_t k)
{
    const tern_attr_conv *a = planes->conv->attr;
    const int64_t column = k * a->dilation[1];
    return column % a->stride[1] * planes->phase + column / a->stride[1];
}

static void shift_plane(const cpu_conv_planes *planes, float *staged, int64_t channel, int64_t rows)
{
    const int64_t columns = planes->conv->out[1], width = planes->conv->kernel[1];
    for (int64_t k = 0; k < width; k++)
        cpu_copy_rows(staged + planes->shifts_at + (channel * width + k) * planes->shift, columns,
                      staged + channel * planes->channel + column_at(planes, k), planes->pitch,
                      rows, columns);
}

/* Columns of padding stay 0. */
void cpu_conv_planes_stage(const cpu_conv_planes *planes, float *staged, int64_t image,
                           int64_t channel, int64_t channels, int64_t row, int64_t rows)
{
    const cpu_conv *conv = planes->conv;
    const tern_view *x = conv->x;
    const int64_t top = row * conv->attr->stride[0] - conv->attr->padding[0];
    const int64_t count = rows_needed(conv, rows), left = conv->in[0] - top;
    const int64_t begin = top < 0 ? cpu_conv_smaller(-top, count) : 0;
    const int64_t inside = left < begin ? begin : cpu_conv_smaller(left, count);
    const float *from = (const float *)x->data + image * x->stride[0] + channel * x->stride[1] +
                        (top + begin) * x->stride[2];
    float *to = staged + begin * planes->pitch;
    stage_zeros(planes, staged, channels, begin);
    stage_zeros(planes, staged + inside * planes->pitch, channels, count - inside);
    if (x->stride[1] == 1 && channels >= 4 && conv->attr->stride[1] == 1)
        for (int64_t r = 0; r < inside - begin; r++)
            cpu_turn_rows(to + r * planes->pitch + conv->attr->padding[1], planes->channel,
                          from + r * x->stride[2], x->stride[3], conv->in[1], channels);
    else
        for (int64_t c = 0; c < channels; c++)
            stage_plane(planes, to + c * planes->channel, from + c * x->stride[1], inside - begin);
    if (planes->shifted)
        for (int64_t c = 0; c < channels; c++)
            shift_plane(planes, staged, c, count);
}

void cpu_conv_planes_offsets(const cpu_conv_planes *planes, int64_t channels, int32_t *out_offsets)
{
    const cpu_conv *conv = planes->conv;
    const tern_attr_conv *a = conv->attr;
    int32_t *offset = out_offsets;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t h = 0; h < conv->kernel[0]; h++)
            for (int64_t w = 0; w < conv->kernel[1]; w++) {
                const int64_t plain =
                    c * planes->channel + column_at(planes, w) + h * a->dilation[0] * planes->pitch;
                const int64_t cut = planes->shifts_at + (c * conv->kernel[1] + w) * planes->shift +
                                    h * a->dilation[0] * conv->out[1];
                *offset++ = (int32_t)(planes->shifted ? cut : plain);
            }
}

int64_t cpu_conv_planes_run(const cpu_conv_planes *planes)
{
    const tern_attr_conv *a = planes->conv->attr;
    const bool touch = a->stride[1] == 1 && a->dilation[1] == 1 && !planes->shifted;
    return touch ? planes->conv->kernel[1] : 1;
}
