/* Convolution of f32 without a column matrix: rows of an image are staged as planes, on which the
 * kernels of isa/conv2d.c run. Any stride, padding, dilation and groups. Parts of the work are
 * ranges of rows of results. */
#include "backend_cpu/conv2d_planes.h"

typedef struct direct_plan {
    const cpu_conv *conv;
    bool by_pixels;
    int64_t plane_taps;    /* KH KW */
    int64_t stride;        /* of weights and bias, see cpu_conv_rows */
    int64_t blocks;        /* by pixels: of at most CPU_CONV_FEW channels of a group */
    int64_t group_weights; /* floats */
    float *weights, *bias;
    int32_t *offset;
    cpu_conv_planes planes;
    float *staged; /* one for each part */
    int64_t parts;
} direct_plan;

/* ---- forward --------------------------------------------------------------------------------- */

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
        float *to =
            plan->weights + group * plan->group_weights + block * taps * plan->stride + lane;
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
    plan->by_pixels = cpu_conv_pixels_adjacent(y) &&
                      !(cpu_conv_channels_adjacent(y) && conv->group_out > CPU_CONV_FEW);
    plan->planes = cpu_conv_planes_for(conv, conv->group_in, false);
    plan->blocks = plan->by_pixels ? cpu_conv_blocks(conv->group_out, CPU_CONV_FEW) : 1;
    plan->stride = plan->by_pixels
                       ? CPU_CONV_FEW
                       : cpu_conv_blocks(conv->group_out, CPU_CONV_LANES) * CPU_CONV_LANES;
    plan->group_weights = plan->blocks * taps * plan->stride;
    plan->parts =
        conv->threads == 1 ? 1 : cpu_conv_smaller(4 * conv->threads, conv->images * conv->out[0]);
    const int64_t weight_bytes = groups * plan->group_weights * (int64_t)sizeof(float);
    const int64_t bias_bytes = groups * plan->blocks * plan->stride * (int64_t)sizeof(float);
    plan->offset = call->host->scratch(call, taps * (int64_t)sizeof(int32_t) + 64);
    plan->weights = call->host->scratch(call, weight_bytes + 64);
    plan->bias = call->host->scratch(call, bias_bytes);
    plan->staged = call->host->scratch(call, plan->parts * plan->planes.floats * 4);
    if (!plan->offset || !plan->weights || !plan->bias || !plan->staged)
        return false;
    memset(plan->weights, 0, (size_t)weight_bytes);
    memset(plan->bias, 0, (size_t)bias_bytes);
    cpu_conv_planes_offsets(&plan->planes, conv->group_in, plan->offset);
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
                        .run = cpu_conv_planes_run(&plan->planes),
                        .rows = rows,
                        .columns = conv->out[1],
                        .x_row = conv->attr->stride[0] * plan->planes.pitch,
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
        float *staged = plan->staged + part * plan->planes.floats;
        memset(staged, 0, (size_t)plan->planes.floats * sizeof *staged);
        const int64_t last = (part + 1) * total / plan->parts;
        for (int64_t at = part * total / plan->parts, rows; at < last; at += rows) {
            const int64_t image = at / conv->out[0], row = at % conv->out[0];
            rows = cpu_conv_smaller(plan->planes.block_rows,
                                    cpu_conv_smaller(conv->out[0] - row, last - at));
            for (int64_t g = 0; g < conv->attr->groups; g++) {
                cpu_conv_planes_stage(&plan->planes, staged, image, g * conv->group_in,
                                      conv->group_in, row, rows);
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

/* ---- input gradient -------------------------------------------------------------------------- */

/* The gradient of y is the input now; a weight is found from its last tap on. */
bool cpu_conv_turned_grad_input(const cpu_conv *conv)
{
    tern_attr_conv attr = *conv->attr;
    tern_view weight = *conv->weight;
    const int64_t *s = conv->weight->stride;
    weight.data =
        (float *)weight.data + (conv->kernel[0] - 1) * s[2] + (conv->kernel[1] - 1) * s[3];
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
