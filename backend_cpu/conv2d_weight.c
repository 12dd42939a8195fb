/* The weight gradient of an f32 convolution without a column matrix (isa/conv2d_sum.c).
 *
 * Parts of the work are images or, where there are many, input channels. How many there are depends
 * on sizes alone, and they are added in order, so results are the same for any number of threads. */
#include "backend_cpu/conv2d_planes.h"

enum { SUM_PARTS = 8, MOST_SHIFTS = 7 };

typedef struct weight_plan {
    const cpu_conv *conv;
    bool by_pixels;
    int64_t plane_taps; /* KH KW */
    int64_t stride;     /* of sums, see cpu_conv_rows */
    int32_t *offset;
    cpu_conv_planes planes;
    float *staged; /* one for each part, like all below */
    int64_t parts;
    bool by_input_channels;
    int64_t part_channels; /* of a group's input channels, at most */
    int64_t sums_floats;   /* of one group in one part */
    int64_t turned_floats; /* y as [pixels][channels] where it lies by channels */
    float *sums, *turned, *bias_sums;
} weight_plan;

/* Rows of results as one long row are worth the copies, where they touch. */
static bool shifts_pay(const weight_plan *plan, const cpu_conv *conv)
{
    return plan->by_pixels && conv->attr->stride[0] == 1 && conv->kernel[1] <= MOST_SHIFTS &&
           (conv->y->stride[2] == conv->out[1] || conv->out[0] == 1);
}

static bool plan_grad_weight(weight_plan *plan, const cpu_conv *conv)
{
    const tern_view *y = conv->y;
    const tern_call *call = conv->call;
    plan->by_pixels = cpu_conv_pixels_adjacent(y) && conv->group_out <= CPU_CONV_FEW;
    plan->stride = cpu_conv_blocks(conv->group_out, CPU_CONV_LANES) * CPU_CONV_LANES;
    plan->by_input_channels = conv->group_in >= 16;
    const int64_t most = plan->by_input_channels ? conv->group_in / 4 : conv->images;
    plan->parts = cpu_conv_smaller(SUM_PARTS, most);
    plan->part_channels =
        plan->by_input_channels ? cpu_conv_blocks(conv->group_in, plan->parts) : conv->group_in;
    plan->planes = cpu_conv_planes_for(conv, plan->part_channels, shifts_pay(plan, conv));
    const int64_t taps = plan->part_channels * plan->plane_taps;
    plan->sums_floats = taps * (plan->by_pixels ? conv->group_out * CPU_CONV_LANES : plan->stride);
    plan->turned_floats = plan->by_pixels || cpu_conv_channels_adjacent(y)
                              ? 0
                              : plan->planes.block_rows * conv->out[1] * conv->group_out;
    const int64_t sums = plan->parts * conv->attr->groups * plan->sums_floats;
    plan->offset = call->host->scratch(call, taps * (int64_t)sizeof(int32_t) + 64);
    plan->sums = call->host->scratch(call, sums * 4);
    plan->staged = call->host->scratch(call, plan->parts * plan->planes.floats * 4);
    plan->turned = call->host->scratch(call, plan->parts * plan->turned_floats * 4 + 64);
    plan->bias_sums = call->host->scratch(call, plan->parts * conv->out_channels * 4);
    if (!plan->offset || !plan->sums || !plan->staged || !plan->turned || !plan->bias_sums)
        return false;
    cpu_conv_planes_offsets(&plan->planes, plan->part_channels, plan->offset);
    return true;
}

/* Rows [row, row + rows) of y as [pixels][channels]. */
static void turn_rows(const weight_plan *plan, cpu_conv_rows *r, float *turned)
{
    const cpu_conv *conv = plan->conv;
    cpu_turn_rows(turned, conv->group_out, r->y, r->y_channel, conv->group_out,
                  r->rows * conv->out[1]);
    r->y = turned;
    r->y_channel = 1;
    r->y_column = conv->group_out;
    r->y_row = conv->out[1] * conv->group_out;
}

static void sum_rows(const weight_plan *plan, int64_t part, int64_t image, int64_t group,
                     int64_t row, int64_t rows)
{
    const cpu_conv *conv = plan->conv;
    const tern_view *y = conv->y;
    int64_t first = 0, last = conv->group_in;
    if (plan->by_input_channels) {
        first = part * conv->group_in / plan->parts;
        last = (part + 1) * conv->group_in / plan->parts;
    }
    float *staged = plan->staged + part * plan->planes.floats;
    cpu_conv_planes_stage(&plan->planes, staged, image, group * conv->group_in + first,
                          last - first, row, rows);
    cpu_conv_rows r = { .x = staged,
                        .offset = plan->offset,
                        .taps = (last - first) * plan->plane_taps,
                        .run = cpu_conv_planes_run(&plan->planes),
                        .rows = rows,
                        .columns = conv->out[1],
                        .x_row = conv->attr->stride[0] * plan->planes.pitch,
                        .y = (float *)y->data + image * y->stride[0] +
                             group * conv->group_out * y->stride[1] + row * y->stride[2],
                        .y_row = y->stride[2],
                        .y_column = y->stride[3],
                        .y_channel = y->stride[1],
                        .channels = conv->group_out,
                        .sums =
                            plan->sums + (part * conv->attr->groups + group) * plan->sums_floats,
                        .stride = plan->stride };
    if (plan->planes.shifted) { /* the rows as one */
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

static void sum_bias(const weight_plan *plan, int64_t part, int64_t image, int64_t row,
                     int64_t rows)
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
                              .sums = plan->bias_sums + part * conv->out_channels };
    CPU_ISA_PICK(cpu_conv_sum_bias)(&r);
}

static void sum_parts(void *context, int64_t begin, int64_t end)
{
    const weight_plan *plan = context;
    const cpu_conv *conv = plan->conv;
    const int64_t groups = conv->attr->groups;
    for (int64_t part = begin; part < end; part++) {
        memset(plan->staged + part * plan->planes.floats, 0,
               (size_t)plan->planes.floats * sizeof(float));
        memset(plan->sums + part * groups * plan->sums_floats, 0,
               (size_t)(groups * plan->sums_floats) * sizeof(float));
        memset(plan->bias_sums + part * conv->out_channels, 0,
               (size_t)conv->out_channels * sizeof(float));
        int64_t image = 0, last = conv->images;
        if (!plan->by_input_channels) {
            image = part * conv->images / plan->parts;
            last = (part + 1) * conv->images / plan->parts;
        }
        for (; image < last; image++)
            for (int64_t row = 0; row < conv->out[0]; row += plan->planes.block_rows) {
                const int64_t rows = cpu_conv_smaller(plan->planes.block_rows, conv->out[0] - row);
                for (int64_t g = 0; g < groups; g++)
                    sum_rows(plan, part, image, g, row, rows);
                if (part == 0 || !plan->by_input_channels)
                    sum_bias(plan, part, image, row, rows);
            }
    }
}

/* Sum of one weight in one part, which has `taps` of each output channel. */
static float part_sum(const weight_plan *plan, int64_t part, int64_t group, int64_t out,
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

static void store_weight(const weight_plan *plan, int64_t group, int64_t out, int64_t channel)
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
        to[t / conv->kernel[1] * weight->stride[2] + t % conv->kernel[1] * weight->stride[3]] =
            total;
    }
}

static void store_weights(void *context, int64_t begin, int64_t end)
{
    const weight_plan *plan = context;
    const cpu_conv *conv = plan->conv;
    for (int64_t o = begin; o < end; o++)
        for (int64_t c = 0; c < conv->group_in; c++)
            store_weight(plan, o / conv->group_out, o % conv->group_out, c);
}

/* Adds the parts' sums of the bias up. */
static void store_bias(const weight_plan *plan)
{
    const int64_t channels = plan->conv->out_channels;
    float *bias = plan->conv->bias;
    for (int64_t o = 0; o < channels; o++) {
        float total = 0;
        for (int64_t p = 0; p < plan->parts; p++)
            total += plan->bias_sums[p * channels + o];
        bias[o] = total;
    }
}

bool cpu_conv_direct_grad_weight(const cpu_conv *conv)
{
    weight_plan plan = { .conv = conv, .plane_taps = conv->kernel[0] * conv->kernel[1] };
    if (!plan_grad_weight(&plan, conv))
        return false;
    cpu_parallel(conv->threads, plan.parts, 1, sum_parts, &plan);
    cpu_parallel(conv->threads, conv->out_channels, 8, store_weights, &plan);
    if (conv->bias != NULL)
        store_bias(&plan);
    return true;
}
