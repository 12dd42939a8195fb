/* Convolution of f32 without a column matrix: a few rows of one image at a time are staged as padded
 * planes, on which the kernels of isa/conv2d.c run. Any stride, padding, dilation and groups.
 *
 * For a weight gradient whose lanes are pixels, a plane is then copied once for each column of the
 * kernel, shifted and cut to the width of the results: rows of results, which are adjacent, follow each
 * other in the copies too, and all of them are one long row.
 *
 * Work is cut into parts of output rows (forward), of images or of input channels (weight gradient).
 * How many parts a gradient has depends on its sizes alone, and they are added in order, so results
 * are the same for any number of threads. */
#include "backend_cpu/conv2d.h"

enum {
    STAGED_FLOATS = 1 << 15, /* of one part: half of a small second-level cache */
    MOST_SHIFTS = 7,
    SUM_PARTS = 8
};

typedef struct direct_plan {
    const cpu_conv *conv;
    bool by_pixels;
    bool shifted;       /* there are shifted copies */
    int64_t plane_taps; /* KH KW */
    int64_t stride;     /* of weights and bias, see cpu_conv_rows */
    int64_t blocks;     /* by pixels: of at most CPU_CONV_FEW channels of a group */
    int64_t group_weights; /* floats */
    float *weights, *bias; /* weight gradient: bias holds sums, [parts][out_channels] */
    int32_t *offset;
    /* staged planes */
    int64_t block_rows; /* of results */
    int64_t pitch, phase, channel; /* from row to row; one set of s-th columns to the next */
    int64_t shifts_at, shift;      /* where shifted copies begin; from one to the next */
    int64_t staged_floats;
    float *staged;
    int64_t parts;
    /* weight gradient */
    bool by_input_channels;
    int64_t part_channels; /* of a group's input channels, at most */
    int64_t sums_floats;   /* of one group in one part */
    int64_t turned_floats; /* y as [pixels][channels] where it lies by channels */
    float *sums, *turned;
} direct_plan;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t blocks_of(int64_t size, int64_t block)
{
    return (size + block - 1) / block;
}

static bool channels_adjacent(const tern_view *v)
{
    return v->stride[1] == 1 || v->shape[1] == 1;
}

static bool pixels_adjacent(const tern_view *v)
{
    return v->stride[3] == 1 || v->shape[3] == 1;
}

/* ---- staging ----------------------------------------------------------------------------------- */

/* Padded rows of input that `rows` rows of results need. */
static int64_t rows_needed(const cpu_conv *conv, int64_t rows)
{
    const tern_attr_conv *a = conv->attr;
    return (rows - 1) * a->stride[0] + (conv->kernel[0] - 1) * a->dilation[0] + 1;
}

/* Floats that `rows` rows of results need, staged and shifted. */
static int64_t staged_floats(const direct_plan *plan, int64_t channels, int64_t rows)
{
    const cpu_conv *conv = plan->conv;
    const int64_t shifted = plan->shifted ? conv->kernel[1] * conv->out[1] : 0;
    return channels * rows_needed(conv, rows) * (plan->pitch * conv->attr->stride[1] + shifted);
}

/* Wants by_pixels decided. */
static void plan_planes(direct_plan *plan, int64_t channels, bool shifts)
{
    const cpu_conv *conv = plan->conv;
    const tern_attr_conv *a = conv->attr;
    plan->shifted = shifts && plan->by_pixels && a->stride[0] == 1 &&
                    conv->kernel[1] <= MOST_SHIFTS &&
                    (conv->y->stride[2] == conv->out[1] || conv->out[0] == 1);
    plan->pitch = blocks_of(conv->in[1] + 2 * a->padding[1], a->stride[1]);
    int64_t rows = 1;
    while (rows < conv->out[0] && staged_floats(plan, channels, rows + 1) <= STAGED_FLOATS)
        rows++;
    plan->block_rows = rows;
    plan->phase = rows_needed(conv, rows) * plan->pitch;
    plan->channel = plan->phase * a->stride[1];
    plan->shifts_at = channels * plan->channel + CPU_CONV_LANES;
    plan->shift = rows_needed(conv, rows) * conv->out[1];
    plan->staged_floats = (staged_floats(plan, channels, rows) + 4 * CPU_CONV_LANES) / 16 * 16;
}

/* The pixels of one row of one channel, from `from` on, `step` apart, for a stride along W. */
static void stage_row(const direct_plan *plan, float *to, const float *from, int64_t step)
{
    const cpu_conv *conv = plan->conv;
    const int64_t stride = conv->attr->stride[1], pad = conv->attr->padding[1];
    for (int64_t phase = 0; phase < stride; phase++, to += plan->phase) {
        /* first element of this phase that is a pixel: i * stride + phase >= pad */
        const int64_t first = pad > phase ? blocks_of(pad - phase, stride) : 0;
        const int64_t skipped = first * stride + phase - pad;
        const int64_t count = blocks_of(conv->in[1] - skipped, stride);
        for (int64_t i = 0; i < count; i++)
            to[first + i] = from[(skipped + i * stride) * step];
    }
}

/* `rows` rows of one channel. */
static void stage_plane(const direct_plan *plan, float *to, const float *from, int64_t rows)
{
    const cpu_conv *conv = plan->conv;
    const tern_view *x = conv->x;
    if (conv->attr->stride[1] == 1 && x->stride[3] == 1)
        CPU_ISA_PICK(cpu_copy_rows_f32)
        (to + conv->attr->padding[1], plan->pitch, from, x->stride[2], rows, conv->in[1]);
    else
        for (int64_t r = 0; r < rows; r++)
            stage_row(plan, to + r * plan->pitch, from + r * x->stride[2], x->stride[3]);
}

/* Rows of padding, of all channels. */
static void stage_zeros(const direct_plan *plan, float *to, int64_t channels, int64_t rows)
{
    for (int64_t i = 0; rows > 0 && i < channels * plan->conv->attr->stride[1]; i++)
        memset(to + i * plan->phase, 0, (size_t)(rows * plan->pitch) * sizeof *to);
}

/* Where column `k` of the kernel reads, in a staged plane. */
static int64_t column_at(const direct_plan *plan, int64_t k)
{
    const tern_attr_conv *a = plan->conv->attr;
    const int64_t column = k * a->dilation[1];
    return column % a->stride[1] * plan->phase + column / a->stride[1];
}

static void shift_plane(const direct_plan *plan, float *staged, int64_t channel, int64_t rows)
{
    const int64_t columns = plan->conv->out[1], width = plan->conv->kernel[1];
    for (int64_t k = 0; k < width; k++)
        CPU_ISA_PICK(cpu_copy_rows_f32)
        (staged + plan->shifts_at + (channel * width + k) * plan->shift, columns,
         staged + channel * plan->channel + column_at(plan, k), plan->pitch, rows, columns);
}

/* Channels [channel, channel + channels) of the rows that results [row, row + rows) need. Columns of
 * padding are zero already. */
static void stage(const direct_plan *plan, float *staged, int64_t image, int64_t channel,
                  int64_t channels, int64_t row, int64_t rows)
{
    const cpu_conv *conv = plan->conv;
    const tern_view *x = conv->x;
    const int64_t top = row * conv->attr->stride[0] - conv->attr->padding[0];
    const int64_t count = rows_needed(conv, rows), left = conv->in[0] - top;
    const int64_t begin = top < 0 ? smaller(-top, count) : 0;
    const int64_t inside = left < begin ? begin : smaller(left, count);
    const float *from = (const float *)x->data + image * x->stride[0] + channel * x->stride[1] +
                        (top + begin) * x->stride[2];
    float *to = staged + begin * plan->pitch;
    stage_zeros(plan, staged, channels, begin);
    stage_zeros(plan, staged + inside * plan->pitch, channels, count - inside);
    if (x->stride[1] == 1 && channels >= 4 && conv->attr->stride[1] == 1)
        for (int64_t r = 0; r < inside - begin; r++)
            CPU_ISA_PICK(cpu_transpose_f32)
            (to + r * plan->pitch + conv->attr->padding[1], plan->channel, from + r * x->stride[2],
             x->stride[3], conv->in[1], channels);
    else
        for (int64_t c = 0; c < channels; c++)
            stage_plane(plan, to + c * plan->channel, from + c * x->stride[1], inside - begin);
    if (plan->shifted)
        for (int64_t c = 0; c < channels; c++)
            shift_plane(plan, staged, c, count);
}

/* Where each tap of `channels` channels reads, relative to a result's first element. */
static void fill_offsets(const direct_plan *plan, int64_t channels)
{
    const cpu_conv *conv = plan->conv;
    const tern_attr_conv *a = conv->attr;
    int32_t *offset = plan->offset;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t h = 0; h < conv->kernel[0]; h++)
            for (int64_t w = 0; w < conv->kernel[1]; w++) {
                const int64_t plain = c * plan->channel + column_at(plan, w) +
                                      h * a->dilation[0] * plan->pitch;
                const int64_t cut = plan->shifts_at + (c * conv->kernel[1] + w) * plan->shift +
                                    h * a->dilation[0] * conv->out[1];
                *offset++ = (int32_t)(plan->shifted ? cut : plain);
            }
}

/* Taps of a row of the kernel lie side by side. */
static int64_t run_of(const cpu_conv *conv)
{
    const tern_attr_conv *a = conv->attr;
    return a->stride[1] == 1 && a->dilation[1] == 1 ? conv->kernel[1] : 1;
}

/* ---- forward ----------------------------------------------------------------------------------- */

/* weight[o][c][h][w] of one group at [tap][stride]; by pixels one such table for each block. */
static void pack_group(const direct_plan *plan, int64_t group)
{
    const cpu_conv *conv = plan->conv;
    const tern_view *weight = conv->weight;
    const float *from = weight->data, *bias = conv->bias;
    const int64_t taps = conv->group_in * plan->plane_taps;
    for (int64_t o = 0; o < conv->group_out; o++) {
        int64_t block = 0, lane = o;
        if (plan->by_pixels) {
            block = ((o + 1) * plan->blocks - 1) / conv->group_out;
            lane = o - block * conv->group_out / plan->blocks;
        }
        float *to = plan->weights + group * plan->group_weights + block * taps * plan->stride + lane;
        const int64_t at = group * conv->group_out + o;
        for (int64_t c = 0; c < conv->group_in; c++)
            for (int64_t h = 0; h < conv->kernel[0]; h++)
                for (int64_t w = 0; w < conv->kernel[1]; w++, to += plan->stride)
                    *to = from[at * weight->stride[0] + c * weight->stride[1] +
                               h * weight->stride[2] + w * weight->stride[3]];
        if (bias != NULL)
            plan->bias[(group * plan->blocks + block) * plan->stride + lane] = bias[at];
    }
}

static bool plan_forward(direct_plan *plan, const cpu_conv *conv)
{
    const tern_view *y = conv->y;
    const tern_call *call = conv->call;
    const int64_t groups = conv->attr->groups, taps = conv->group_in * plan->plane_taps;
    plan->by_pixels =
        pixels_adjacent(y) && !(channels_adjacent(y) && conv->group_out > CPU_CONV_FEW);
    plan_planes(plan, conv->group_in, false);
    plan->blocks = plan->by_pixels ? blocks_of(conv->group_out, CPU_CONV_FEW) : 1;
    plan->stride = plan->by_pixels
                       ? CPU_CONV_FEW
                       : blocks_of(conv->group_out, CPU_CONV_LANES) * CPU_CONV_LANES;
    plan->group_weights = plan->blocks * taps * plan->stride;
    plan->parts = conv->threads == 1 ? 1 : smaller(4 * conv->threads, conv->images * conv->out[0]);
    const int64_t weight_bytes = groups * plan->group_weights * (int64_t)sizeof(float);
    const int64_t bias_bytes = groups * plan->blocks * plan->stride * (int64_t)sizeof(float);
    plan->offset = call->host->scratch(call, taps * (int64_t)sizeof(int32_t) + 64);
    plan->weights = call->host->scratch(call, weight_bytes + 64);
    plan->bias = call->host->scratch(call, bias_bytes);
    plan->staged = call->host->scratch(call, plan->parts * plan->staged_floats * 4);
    if (!plan->offset || !plan->weights || !plan->bias || !plan->staged)
        return false;
    memset(plan->weights, 0, (size_t)weight_bytes);
    memset(plan->bias, 0, (size_t)bias_bytes);
    fill_offsets(plan, conv->group_in);
    for (int64_t g = 0; g < groups; g++)
        pack_group(plan, g);
    return true;
}

/* Rows [row, row + rows) of a group of an image, staged. */
static void forward_rows(const direct_plan *plan, const float *staged, int64_t image, int64_t group,
                         int64_t row, int64_t rows)
{
    const cpu_conv *conv = plan->conv;
    const tern_view *y = conv->y;
    cpu_conv_rows r = { .x = staged,
                        .offset = plan->offset,
                        .taps = conv->group_in * plan->plane_taps,
                        .run = run_of(conv),
                        .rows = rows,
                        .columns = conv->out[1],
                        .x_row = conv->attr->stride[0] * plan->pitch,
                        .y_row = y->stride[2],
                        .y_column = y->stride[3],
                        .y_channel = y->stride[1],
                        .stride = plan->stride };
    for (int64_t b = 0; b < plan->blocks; b++) {
        const int64_t first = b * conv->group_out / plan->blocks;
        r.channels = (b + 1) * conv->group_out / plan->blocks - first;
        r.weights = plan->weights + group * plan->group_weights + b * r.taps * plan->stride;
        r.bias = plan->bias + (group * plan->blocks + b) * plan->stride;
        r.y = (float *)y->data + image * y->stride[0] +
              (group * conv->group_out + first) * y->stride[1] + row * y->stride[2];
        if (plan->by_pixels)
            CPU_ISA_PICK(cpu_conv_by_pixels)(&r);
        else
            CPU_ISA_PICK(cpu_conv_by_channels)(&r);
    }
}

static void forward_parts(void *context, int64_t begin, int64_t end)
{
    const direct_plan *plan = context;
    const cpu_conv *conv = plan->conv;
    const int64_t total = conv->images * conv->out[0];
    for (int64_t part = begin; part < end; part++) {
        float *staged = plan->staged + part * plan->staged_floats;
        memset(staged, 0, (size_t)plan->staged_floats * sizeof *staged);
        const int64_t last = (part + 1) * total / plan->parts;
        for (int64_t at = part * total / plan->parts, rows; at < last; at += rows) {
            const int64_t image = at / conv->out[0], row = at % conv->out[0];
            rows = smaller(plan->block_rows, smaller(conv->out[0] - row, last - at));
            for (int64_t g = 0; g < conv->attr->groups; g++) {
                stage(plan, staged, image, g * conv->group_in, conv->group_in, row, rows);
                forward_rows(plan, staged, image, g, row, rows);
            }
        }
    }
}

bool cpu_conv_direct_forward(const cpu_conv *conv)
{
    direct_plan plan = { .conv = conv, .plane_taps = conv->kernel[0] * conv->kernel[1] };
    if (!plan_forward(&plan, conv))
        return false;
    cpu_parallel(conv->threads, plan.parts, 1, forward_parts, &plan);
    return true;
}

/* ---- input gradient ---------------------------------------------------------------------------- */

/* The gradient of y is the input now; a weight is found from its last tap on. */
bool cpu_conv_turned_grad_input(const cpu_conv *conv)
{
    tern_attr_conv attr = *conv->attr;
    tern_view weight = *conv->weight;
    const int64_t *s = conv->weight->stride;
    weight.data = (float *)weight.data + (conv->kernel[0] - 1) * s[2] + (conv->kernel[1] - 1) * s[3];
    weight.stride[0] = s[1];
    weight.stride[1] = s[0];
    weight.shape[0] = conv->in_channels;
    weight.shape[1] = conv->out_channels;
    cpu_conv turned = *conv;
    for (int d = 0; d < 2; d++) {
        weight.stride[2 + d] = -s[2 + d];
        attr.padding[d] = attr.dilation[d] * (conv->kernel[d] - 1) - attr.padding[d];
        turned.in[d] = conv->out[d];
        turned.out[d] = conv->in[d];
    }
    turned.attr = &attr;
    turned.weight = &weight;
    turned.bias = NULL;
    turned.x = conv->y;
    turned.y = conv->x;
    turned.in_channels = turned.group_in = conv->out_channels;
    turned.out_channels = turned.group_out = conv->in_channels;
    return cpu_conv_direct_forward(&turned);
}

/* ---- weight gradient --------------------------------------------------------------------------- */

static bool plan_grad_weight(direct_plan *plan, const cpu_conv *conv)
{
    const tern_view *y = conv->y;
    const tern_call *call = conv->call;
    plan->by_pixels = pixels_adjacent(y) && conv->group_out <= CPU_CONV_FEW;
    plan->stride = blocks_of(conv->group_out, CPU_CONV_LANES) * CPU_CONV_LANES;
    plan->by_input_channels = conv->group_in >= 16;
    const int64_t most = plan->by_input_channels ? conv->group_in / 4 : conv->images;
    plan->parts = smaller(SUM_PARTS, most);
    plan->part_channels =
        plan->by_input_channels ? blocks_of(conv->group_in, plan->parts) : conv->group_in;
    plan_planes(plan, plan->part_channels, true);
    const int64_t taps = plan->part_channels * plan->plane_taps;
    plan->sums_floats =
        taps * (plan->by_pixels ? conv->group_out * CPU_CONV_LANES : plan->stride);
    plan->turned_floats = plan->by_pixels || channels_adjacent(y)
                              ? 0
                              : plan->block_rows * conv->out[1] * conv->group_out;
    const int64_t sums = plan->parts * conv->attr->groups * plan->sums_floats;
    plan->offset = call->host->scratch(call, taps * (int64_t)sizeof(int32_t) + 64);
    plan->sums = call->host->scratch(call, sums * 4);
    plan->staged = call->host->scratch(call, plan->parts * plan->staged_floats * 4);
    plan->turned = call->host->scratch(call, plan->parts * plan->turned_floats * 4 + 64);
    plan->bias = call->host->scratch(call, plan->parts * conv->out_channels * 4);
    if (!plan->offset || !plan->sums || !plan->staged || !plan->turned || !plan->bias)
        return false;
    fill_offsets(plan, plan->part_channels);
    return true;
}

/* Rows [row, row + rows) of y as [pixels][channels]. */
static void turn_rows(const direct_plan *plan, cpu_conv_rows *r, float *turned)
{
    const cpu_conv *conv = plan->conv;
    CPU_ISA_PICK(cpu_transpose_f32)
    (turned, conv->group_out, r->y, r->y_channel, conv->group_out, r->rows * conv->out[1]);
    r->y = turned;
    r->y_channel = 1;
    r->y_column = conv->group_out;
    r->y_row = conv->out[1] * conv->group_out;
}

static void sum_rows(const direct_plan *plan, int64_t part, int64_t image, int64_t group,
                     int64_t row, int64_t rows)
{
    const cpu_conv *conv = plan->conv;
    const tern_view *y = conv->y;
    int64_t first = 0, last = conv->group_in;
    if (plan->by_input_channels) {
        first = part * conv->group_in / plan->parts;
        last = (part + 1) * conv->group_in / plan->parts;
    }
    float *staged = plan->staged + part * plan->staged_floats;
    stage(plan, staged, image, group * conv->group_in + first, last - first, row, rows);
    cpu_conv_rows r = { .x = staged,
                        .offset = plan->offset,
                        .taps = (last - first) * plan->plane_taps,
                        .run = run_of(conv),
                        .rows = rows,
                        .columns = conv->out[1],
                        .x_row = conv->attr->stride[0] * plan->pitch,
                        .y = (float *)y->data + image * y->stride[0] +
                             group * conv->group_out * y->stride[1] + row * y->stride[2],
                        .y_row = y->stride[2],
                        .y_column = y->stride[3],
                        .y_channel = y->stride[1],
                        .channels = conv->group_out,
                        .sums = plan->sums +
                                (part * conv->attr->groups + group) * plan->sums_floats,
                        .stride = plan->stride };
    if (plan->shifted) { /* the rows as one */
        r.columns *= rows;
        r.rows = 1;
    }
    if (plan->turned_floats > 0)
        turn_rows(plan, &r, plan->turned + part * plan->turned_floats);
    if (plan->by_pixels)
        CPU_ISA_PICK(cpu_conv_sum_by_pixels)(&r);
    else
        CPU_ISA_PICK(cpu_conv_sum_by_channels)(&r);
}

static void sum_bias(const direct_plan *plan, int64_t part, int64_t image, int64_t row, int64_t rows)
{
    const cpu_conv *conv = plan->conv;
    const tern_view *y = conv->y;
    const cpu_conv_rows r = { .y = (float *)y->data + image * y->stride[0] + row * y->stride[2],
                              .rows = rows,
                              .columns = conv->out[1],
                              .y_row = y->stride[2],
                              .y_column = y->stride[3],
                              .y_channel = y->stride[1],
                              .channels = conv->out_channels,
                              .sums = plan->bias + part * conv->out_channels };
    CPU_ISA_PICK(cpu_conv_sum_bias)(&r);
}

static void sum_parts(void *context, int64_t begin, int64_t end)
{
    const direct_plan *plan = context;
    const cpu_conv *conv = plan->conv;
    const int64_t groups = conv->attr->groups;
    for (int64_t part = begin; part < end; part++) {
        memset(plan->staged + part * plan->staged_floats, 0,
               (size_t)plan->staged_floats * sizeof(float));
        memset(plan->sums + part * groups * plan->sums_floats, 0,
               (size_t)(groups * plan->sums_floats) * sizeof(float));
        memset(plan->bias + part * conv->out_channels, 0,
               (size_t)conv->out_channels * sizeof(float));
        int64_t image = 0, last = conv->images;
        if (!plan->by_input_channels) {
            image = part * conv->images / plan->parts;
            last = (part + 1) * conv->images / plan->parts;
        }
        for (; image < last; image++)
            for (int64_t row = 0; row < conv->out[0]; row += plan->block_rows) {
                const int64_t rows = smaller(plan->block_rows, conv->out[0] - row);
                for (int64_t g = 0; g < groups; g++)
                    sum_rows(plan, part, image, g, row, rows);
                if (part == 0 || !plan->by_input_channels)
                    sum_bias(plan, part, image, row, rows);
            }
    }
}

/* Sum of one weight in one part, which has `taps` of each output channel. */
static float part_sum(const direct_plan *plan, int64_t part, int64_t group, int64_t out,
                      int64_t taps, int64_t tap)
{
    const int64_t groups = plan->conv->attr->groups;
    const float *sums = plan->sums + (part * groups + group) * plan->sums_floats;
    if (!plan->by_pixels)
        return sums[tap * plan->stride + out];
    const float *lanes = sums + (out * taps + tap) * CPU_CONV_LANES;
    float total[4] = { 0 };
    for (int i = 0; i < CPU_CONV_LANES; i++)
        total[i % 4] += lanes[i];
    return (total[0] + total[2]) + (total[1] + total[3]);
}

static void store_weight(const direct_plan *plan, int64_t group, int64_t out, int64_t channel)
{
    const cpu_conv *conv = plan->conv;
    const tern_view *weight = conv->weight;
    float *to = (float *)weight->data + (group * conv->group_out + out) * weight->stride[0] +
                channel * weight->stride[1];
    int64_t part = 0, parts = plan->parts, first = 0, last = conv->group_in;
    if (plan->by_input_channels) {
        part = ((channel + 1) * plan->parts - 1) / conv->group_in;
        parts = part + 1;
        first = part * conv->group_in / plan->parts;
        last = parts * conv->group_in / plan->parts;
    }
    const int64_t taps = (last - first) * plan->plane_taps;
    for (int64_t t = 0; t < plan->plane_taps; t++) {
        float total = 0;
        for (int64_t p = part; p < parts; p++)
            total += part_sum(plan, p, group, out, taps, (channel - first) * plan->plane_taps + t);
        to[t / conv->kernel[1] * weight->stride[2] + t % conv->kernel[1] * weight->stride[3]] = total;
    }
}

/* Adds the parts' sums of the bias up. */
static void store_bias(const direct_plan *plan)
{
    const int64_t channels = plan->conv->out_channels;
    float *bias = plan->conv->bias;
    for (int64_t o = 0; o < channels; o++) {
        float total = 0;
        for (int64_t p = 0; p < plan->parts; p++)
            total += plan->bias[p * channels + o];
        bias[o] = total;
    }
}

bool cpu_conv_direct_grad_weight(const cpu_conv *conv)
{
    direct_plan plan = { .conv = conv, .plane_taps = conv->kernel[0] * conv->kernel[1] };
    if (!plan_grad_weight(&plan, conv))
        return false;
    cpu_parallel(conv->threads, plan.parts, 1, sum_parts, &plan);
    for (int64_t g = 0; g < conv->attr->groups; g++)
        for (int64_t o = 0; o < conv->group_out; o++)
            for (int64_t c = 0; c < conv->group_in; c++)
                store_weight(&plan, g, o, c);
    if (conv->bias != NULL)
        store_bias(&plan);
    return true;
}
