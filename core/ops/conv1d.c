/* Convolutions of sequences: those of images one row high. */
#include "core/ops/image.h"

/* [N, C, L] or [C, L] as [N, C, 1, L] or [C, 1, L]; the weight [a, b, k] as [a, b, 1, k]. */
static bool check_shapes(core_frame *frame)
{
    core_call *call = &frame->call;
    char shape[160];
    if (!core_compose_check(frame))
        return false;
    const tern_view *x = core_view(call, 0), *weight = core_view(call, 1);
    if (x->ndim != 2 && x->ndim != 3)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "expected x to be [N, C, L] or [C, L]; it is %s",
                         core_shape_text(x->ndim, x->shape, shape, sizeof shape));
    if (weight->ndim != 3)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "expected the weight to have 3 dimensions; it is %s",
                         core_shape_text(weight->ndim, weight->shape, shape, sizeof shape));
    return true;
}

/* Else the error would show the images that they become. */
static bool check_channels(core_call *call, int64_t groups)
{
    const tern_view *x = core_view(call, 0), *weight = core_view(call, 1);
    const int64_t channels = x->shape[x->ndim - 2];
    if (groups < 1 || weight->shape[1] * groups == channels)
        return true;
    return core_fail(call, TERN_ERR_SHAPE,
                     x->shape[x->ndim - 1] == weight->shape[1] * groups
                         ? "tern_transpose(x, -1, -2) where the channels come last"
                         : NULL,
                     "x has %lld channels, and the weight takes %lld in groups=%lld",
                     (long long)channels, (long long)(weight->shape[1] * groups),
                     (long long)groups);
}

/* One number for rows of an image one row high: what it is across, and what it does to the height. */
static void along(int64_t pair[2], int64_t given, int64_t missing, int64_t across)
{
    pair[0] = across == 0 ? TERN_ZERO : across;
    pair[1] = given == 0 ? missing : given;
    pair[1] = pair[1] == 0 ? TERN_ZERO : pair[1];
}

static tern_tensor *run(core_frame *frame, tern_site_t site, const tern_conv1d_args *a)
{
    if (!check_shapes(frame) || !check_channels(&frame->call, a->groups != 0 ? a->groups : 1))
        return NULL;
    tern_conv2d_args args = { .size_ = sizeof args, .bias = a->bias, .groups = a->groups };
    args.x = tern_unsqueeze(a->x, -2);
    args.weight = tern_unsqueeze(a->weight, 2);
    along(args.stride, a->stride, 1, 1);
    along(args.padding, a->padding, 0, 0);
    along(args.dilation, a->dilation, 1, 1);
    tern_tensor *y = tern_conv2d_at(site, &args);
    return y == NULL ? NULL : tern_squeeze(y, -2);
}

tern_tensor *tern_conv1d_at(tern_site_t site, const tern_conv1d_args *args)
{
    if (args == NULL || args->size_ < sizeof *args) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "conv1d",
                     "x and weight are missing\n  try tern_conv1d(x, weight, bias, .padding = 1)");
        return NULL;
    }
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_conv1d, site, 3,
                       (tern_tensor *[]){ args->x, args->weight, args->bias });
    return core_compose_end(&frame, run(&frame, site, args));
}

static tern_tensor *run_transposed(core_frame *frame, tern_site_t site,
                                   const tern_conv_transpose1d_args *a)
{
    if (!check_shapes(frame))
        return NULL;
    tern_conv_transpose2d_args args = { .size_ = sizeof args,
                                        .bias = a->bias,
                                        .groups = a->groups };
    args.x = tern_unsqueeze(a->x, -2);
    args.weight = tern_unsqueeze(a->weight, 2);
    along(args.stride, a->stride, 1, 1);
    along(args.padding, a->padding, 0, 0);
    along(args.output_padding, a->output_padding, 0, 0);
    along(args.dilation, a->dilation, 1, 1);
    tern_tensor *y = tern_conv_transpose2d_at(site, &args);
    return y == NULL ? NULL : tern_squeeze(y, -2);
}

tern_tensor *tern_conv_transpose1d_at(tern_site_t site, const tern_conv_transpose1d_args *args)
{
    if (args == NULL || args->size_ < sizeof *args) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "conv_transpose1d",
                     "x and weight are missing\n  try tern_conv_transpose1d(x, weight, bias)");
        return NULL;
    }
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_conv_transpose1d, site, 3,
                       (tern_tensor *[]){ args->x, args->weight, args->bias });
    return core_compose_end(&frame, run_transposed(&frame, site, args));
}
