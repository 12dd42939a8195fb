/* The input gradient of an f32 convolution of few input channels: what each result gives is added
 * into a padded channels_last image (isa/conv2d_scatter.c), whose inner part is then copied out. */
#include "backend_cpu/conv2d.h"

typedef struct scatter_plan {
    const cpu_conv *conv;
    int64_t run, padded_run, stride; /* of the weights, see cpu_conv_scatter */
    float *weights;
    int64_t pitch, image_floats; /* of a padded image */
    float *images;               /* one for each part */
    int64_t parts;
} scatter_plan;

/* weight[o][c][h][w] at [o][h][w][c], rows of the kernel padded with 0. */
static void pack_weights(const scatter_plan *plan)
{
    const cpu_conv *conv = plan->conv;
    const tern_view *weight = conv->weight;
    const float *from = weight->data;
    memset(plan->weights, 0, (size_t)(conv->out_channels * plan->stride) * sizeof(float));
    for (int64_t o = 0; o < conv->out_channels; o++)
        for (int64_t h = 0; h < conv->kernel[0]; h++)
            for (int64_t w = 0; w < conv->kernel[1]; w++)
                for (int64_t c = 0; c < conv->in_channels; c++)
                    plan->weights[o * plan->stride + h * plan->padded_run + w * conv->in_channels +
                                  c] = from[o * weight->stride[0] + c * weight->stride[1] +
                                            h * weight->stride[2] + w * weight->stride[3]];
}

static void scatter_image(const scatter_plan *plan, float *image, int64_t index)
{
    const cpu_conv *conv = plan->conv;
    const tern_attr_conv *a = conv->attr;
    const tern_view *y = conv->y;
    memset(image, 0, (size_t)plan->image_floats * sizeof *image);
    const cpu_conv_scatter s = { .x = image,
                                 .x_row = a->stride[0] * plan->pitch,
                                 .x_column = a->stride[1] * conv->in_channels,
                                 .kernel_rows = conv->kernel[0],
                                 .kernel_row = a->dilation[0] * plan->pitch,
                                 .run = plan->run,
                                 .padded_run = plan->padded_run,
                                 .y = (const float *)y->data + index * y->stride[0],
                                 .rows = conv->out[0],
                                 .columns = conv->out[1],
                                 .y_row = y->stride[2],
                                 .y_column = y->stride[3],
                                 .y_channel = y->stride[1],
                                 .channels = conv->out_channels,
                                 .weights = plan->weights,
                                 .stride = plan->stride };
    CPU_ISA_PICK(cpu_conv_scatter_rows)(&s);
}

/* The inner part of a padded image. */
static void copy_out(const scatter_plan *plan, const float *image, int64_t index)
{
    const cpu_conv *conv = plan->conv;
    const tern_view *x = conv->x;
    const int64_t channels = conv->in_channels, width = conv->in[1], height = conv->in[0];
    float *to = (float *)x->data + index * x->stride[0];
    const float *from =
        image + conv->attr->padding[0] * plan->pitch + conv->attr->padding[1] * channels;
    const bool last = x->stride[1] == 1 && x->stride[3] == channels;
    if (!last && plan->pitch == width * channels) { /* all rows are one */
        cpu_turn_rows(to, x->stride[1], from, channels, width * height, channels);
        return;
    }
    for (int64_t h = 0; h < height; h++, from += plan->pitch, to += x->stride[2])
        if (last)
            memcpy(to, from, (size_t)(width * channels) * sizeof *to);
        else
            cpu_turn_rows(to, x->stride[1], from, channels, width, channels);
}

static void scatter_parts(void *context, int64_t begin, int64_t end)
{
    const scatter_plan *plan = context;
    const cpu_conv *conv = plan->conv;
    for (int64_t part = begin; part < end; part++) {
        float *image = plan->images + part * plan->image_floats;
        const int64_t last = (part + 1) * conv->images / plan->parts;
        for (int64_t i = part * conv->images / plan->parts; i < last; i++) {
            scatter_image(plan, image, i);
            copy_out(plan, image, i);
        }
    }
}

bool cpu_conv_scatter_grad_input(const cpu_conv *conv)
{
    const int64_t *pad = conv->attr->padding;
    scatter_plan plan = { .conv = conv, .run = conv->kernel[1] * conv->in_channels };
    plan.padded_run = (plan.run + CPU_CONV_LANES - 1) / CPU_CONV_LANES * CPU_CONV_LANES;
    plan.stride = conv->kernel[0] * plan.padded_run;
    plan.pitch = (conv->in[1] + 2 * pad[1]) * conv->in_channels;
    plan.image_floats =
        cpu_times(plan.pitch, conv->in[0] + 2 * pad[0]) / CPU_CONV_LANES * CPU_CONV_LANES +
        2 * CPU_CONV_LANES;
    plan.parts = conv->threads == 1 ? 1 : 4 * conv->threads;
    if (plan.parts > conv->images)
        plan.parts = conv->images;
    const tern_call *call = conv->call;
    plan.weights = call->host->scratch(call, conv->out_channels * plan.stride * 4);
    plan.images = call->host->scratch(call, cpu_times(4 * plan.parts, plan.image_floats));
    if (plan.weights == NULL || plan.images == NULL)
        return false;
    pack_weights(&plan);
    cpu_parallel(conv->threads, plan.parts, 1, scatter_parts, &plan);
    return true;
}
