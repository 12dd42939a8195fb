/* conv_transpose2d: the gradient of a convolution by its input, which is a row already, and a bias. */
#include "core/ops/image.h"

typedef struct transposed {
    tern_attr_conv attr;
    int64_t output_padding[2];
} transposed;

static bool check_operands(core_call *call, const tern_attr_conv *attr)
{
    const tern_view *x = core_view(call, 0), *weight = core_view(call, 1);
    char of_x[160], of_weight[160];
    if (x->ndim != 4 || weight->ndim != 4)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "expected x [N, C, H, W] and weight [C, out / groups, height, width]");
    core_shape_text(4, x->shape, of_x, sizeof of_x);
    core_shape_text(4, weight->shape, of_weight, sizeof of_weight);
    if (attr->groups < 1 || x->shape[1] != weight->shape[0] || x->shape[1] % attr->groups != 0 ||
        weight->numel == 0)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "given transposed=1, groups=%lld and weight of size %s, input %s does not "
                         "have the weight's %lld channels, which groups divide",
                         (long long)attr->groups, of_weight, of_x, (long long)weight->shape[0]);
    if (call->in[2] != NULL) {
        const tern_view *bias = core_view(call, 2);
        const int64_t channels = weight->shape[1] * attr->groups;
        if (bias->ndim != 1 || bias->shape[0] != channels)
            return core_fail(call, TERN_ERR_SHAPE, NULL,
                             "expected bias to be [%lld], one for each output channel",
                             (long long)channels);
        if (!core_check_same_dtype(call, 2, 0))
            return false;
    }
    return core_check_dtype(call, 0, call->op->dtypes | call->op->dtypes_cpu) &&
           core_check_same_dtype(call, 1, 0);
}

static bool check_options(core_call *call, const transposed *t)
{
    const tern_attr_conv *attr = &t->attr;
    if (!image_check_pair(call, "stride", attr->stride, 1) ||
        !image_check_pair(call, "padding", attr->padding, 0) ||
        !image_check_pair(call, "dilation", attr->dilation, 1) ||
        !image_check_pair(call, "output padding", t->output_padding, 0))
        return false;
    for (int d = 0; d < 2; d++)
        if (t->output_padding[d] >= attr->stride[d] && t->output_padding[d] >= attr->dilation[d])
            return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                             "output padding must be smaller than either stride or dilation, but "
                             "got output padding (%lld, %lld), stride (%lld, %lld) and dilation "
                             "(%lld, %lld)",
                             (long long)t->output_padding[0], (long long)t->output_padding[1],
                             (long long)attr->stride[0], (long long)attr->stride[1],
                             (long long)attr->dilation[0], (long long)attr->dilation[1]);
    return true;
}

static bool measure(core_call *call, transposed *t)
{
    const tern_view *x = core_view(call, 0), *weight = core_view(call, 1);
    tern_attr_conv *attr = &t->attr;
    attr->size[0] = x->shape[0];
    attr->size[1] = weight->shape[1] * attr->groups;
    for (int d = 0; d < 2; d++) {
        const int64_t covered = image_covered(weight->shape[2 + d], attr->dilation[d]);
        int64_t spread = 0, most = 0;
        if (__builtin_mul_overflow(x->shape[2 + d] - 1, attr->stride[d], &spread) ||
            __builtin_add_overflow(spread, covered, &most) ||
            __builtin_add_overflow(most, t->output_padding[d], &most))
            return core_fail(call, TERN_ERR_SHAPE, NULL, "the result would be too large");
        attr->size[2 + d] = most - 2 * attr->padding[d];
        if (x->shape[2 + d] < 1 || attr->size[2 + d] < 0)
            return core_fail(call, TERN_ERR_SHAPE, NULL,
                             "given input size per channel: (%lld x %lld), calculated output size "
                             "is too small",
                             (long long)x->shape[2], (long long)x->shape[3]);
    }
    return true;
}

/* A convolution whose input has that size gives x's: below the stride, more rows are not seen. None reads an
 * input without rows. */
static bool is_gradient(const transposed *t)
{
    for (int d = 0; d < 2; d++)
        if (t->output_padding[d] >= t->attr.stride[d] || t->attr.size[2 + d] == 0)
            return false;
    return true;
}

/* Else the result is found among all rows and columns: padding takes some away at both ends, output padding
 * brings some back, and zeros where there are none. */
static tern_tensor *cut_from_all(const transposed *t, tern_site_t site, tern_tensor *x,
                                 tern_tensor *weight)
{
    tern_attr_conv all = t->attr;
    int64_t before[2], after[2];
    for (int d = 0; d < 2; d++) {
        before[d] = -all.padding[d];
        after[d] = t->output_padding[d] - all.padding[d];
        all.size[2 + d] -= before[d] + after[d];
        all.padding[d] = 0;
    }
    tern_tensor *y = core_op2(TERN_OP_conv2d_grad_input, site, &all, x, weight);
    return y == NULL ? NULL : tern_pad(y, { before[1], after[1], before[0], after[0] });
}

static tern_tensor *compute(core_frame *frame, tern_site_t site, transposed *t)
{
    core_call *call = &frame->call;
    if (!core_compose_check(frame) || !core_compose_cast(frame) ||
        !check_operands(call, &t->attr) || !check_options(call, t) || !measure(call, t))
        return NULL;
    tern_tensor *y = is_gradient(t) ? core_op2(TERN_OP_conv2d_grad_input, site, &t->attr,
                                               call->in[0], call->in[1])
                                    : cut_from_all(t, site, call->in[0], call->in[1]);
    if (y == NULL || call->in[2] == NULL)
        return y;
    return tern_add(y, tern_reshape(call->in[2], TERN_SHAPE(t->attr.size[1], 1, 1)));
}

static tern_tensor *run(tern_site_t site, tern_tensor *x, const void *context)
{
    const tern_conv_transpose2d_args *args = context;
    transposed t = { .attr = { .groups = args->groups != 0 ? args->groups : 1 } };
    image_pair(t.attr.stride, args->stride, 1);
    image_pair(t.attr.padding, args->padding, 0);
    image_pair(t.attr.dilation, args->dilation, 1);
    image_pair(t.output_padding, args->output_padding, 0);
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_conv_transpose2d, site, 3,
                       (tern_tensor *[]){ x, args->weight, args->bias });
    return core_compose_end(&frame, compute(&frame, site, &t));
}

tern_tensor *tern_conv_transpose2d_at(tern_site_t site, const tern_conv_transpose2d_args *args)
{
    if (args == NULL || args->size_ < sizeof *args) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "conv_transpose2d",
                     "x and weight are missing\n  try tern_conv_transpose2d(x, weight, bias, "
                     ".stride = { 2 })");
        return NULL;
    }
    if (args->x != NULL && args->x->view.ndim == 3)
        return image_unbatched(TERN_OP_conv_transpose2d, site, args->x, run, args);
    return run(site, args->x, args);
}
