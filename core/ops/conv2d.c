/* conv2d and its gradients, which are convolutions too: each one's backward function is made of the
 * other two rows. */
#include "core/op_table.h"
#include "core/ops/image.h"
#include "core/tape.h"

/* ---- the public function --------------------------------------------------------------------- */

static tern_tensor *run_batched(tern_site_t site, tern_tensor *x, const void *context)
{
    const tern_conv2d_args *args = context;
    tern_attr_conv attr = { .groups = args->groups != 0 ? args->groups : 1 };
    image_pair(attr.stride, args->stride, 1);
    image_pair(attr.padding, args->padding, 0);
    image_pair(attr.dilation, args->dilation, 1);
    return core_op3(TERN_OP_conv2d, site, &attr, x, args->weight, args->bias);
}

tern_tensor *tern_conv2d_at(tern_site_t site, const tern_conv2d_args *args)
{
    if (args == NULL || args->size_ < sizeof *args) {
        tern_fail_at(
            site, TERN_ERR_ARGUMENT, "conv2d",
            "x and weight are missing\n  try tern_conv2d(x, weight, bias, .padding = { 1 })");
        return NULL;
    }
    if (args->x != NULL && args->x->view.ndim == 3)
        return image_unbatched(TERN_OP_conv2d, site, args->x, run_batched, args);
    return run_batched(site, args->x, args);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool check_options(core_call *call, const tern_attr_conv *attr)
{
    if (attr->groups < 1)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "groups is %lld; the least is 1",
                         (long long)attr->groups);
    return image_check_pair(call, "stride", attr->stride, 1) &&
           image_check_pair(call, "padding", attr->padding, 0) &&
           image_check_pair(call, "dilation", attr->dilation, 1);
}

#define LAST_TO_FRONT "tern_permute(x, TERN_DIMS(0, 3, 1, 2)) where the channels come last"

static bool check_weight(core_call *call, const tern_view *x, const tern_view *weight,
                         int64_t groups)
{
    char shape[160], of_x[160];
    core_shape_text(weight->ndim, weight->shape, shape, sizeof shape);
    core_shape_text(x->ndim, x->shape, of_x, sizeof of_x);
    if (weight->numel == 0)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "the weight %s is empty", shape);
    if (weight->shape[0] % groups != 0)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "given groups=%lld, the weight %s has %lld output channels, which groups "
                         "do not divide",
                         (long long)groups, shape, (long long)weight->shape[0]);
    const bool last_are_channels = x->shape[3] == weight->shape[1] * groups;
    if (weight->shape[1] * groups != x->shape[1])
        return core_fail(call, TERN_ERR_SHAPE, last_are_channels ? LAST_TO_FRONT : NULL,
                         "given groups=%lld, weight of size %s, expected input %s to have %lld "
                         "channels, but got %lld channels instead",
                         (long long)groups, shape, of_x, (long long)(weight->shape[1] * groups),
                         (long long)x->shape[1]);
    return core_check_same_dtype(call, 1, 0);
}

static bool check_bias(core_call *call, int64_t channels)
{
    if (call->in[2] == NULL)
        return true;
    const tern_view *bias = core_view(call, 2);
    if (bias->ndim != 1 || bias->shape[0] != channels)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "expected bias to be [%lld], one for each output channel",
                         (long long)channels);
    return core_check_same_dtype(call, 2, 0);
}

static int64_t covered(const tern_attr_conv *attr, const tern_view *weight, int d)
{
    return image_covered(weight->shape[2 + d], attr->dilation[d]);
}

/* The result's shape; false after an error when the kernel does not fit into the padded input. */
static bool measure(core_call *call, const tern_attr_conv *attr, const tern_view *x,
                    const tern_view *weight, int64_t dims[4])
{
    int64_t padded[2];
    for (int d = 0; d < 2; d++)
        padded[d] = x->shape[2 + d] + 2 * attr->padding[d];
    if (padded[0] < covered(attr, weight, 0) || padded[1] < covered(attr, weight, 1))
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "calculated padded input size per channel: (%lld x %lld), kernel size: "
                         "(%lld x %lld); the kernel can't be greater than the actual input size",
                         (long long)padded[0], (long long)padded[1],
                         (long long)covered(attr, weight, 0), (long long)covered(attr, weight, 1));
    dims[0] = x->shape[0];
    dims[1] = weight->shape[0];
    for (int d = 0; d < 2; d++)
        dims[2 + d] = (padded[d] - covered(attr, weight, d)) / attr->stride[d] + 1;
    return true;
}

/* With few channels on both sides the CPU works on rows of planes, else on pixels of channels;
 * elsewhere results follow their input. */
static bool prefers_channels_last(const core_call *call, const tern_view *like, int64_t in,
                                  int64_t out)
{
    enum { FEW_CHANNELS = 8 };
    if (call->dev.kind != TERN_KIND_CPU)
        return image_channels_last(like);
    return in > FEW_CHANNELS || out > FEW_CHANNELS;
}

/* ---- rows ------------------------------------------------------------------------------------ */

bool rule_conv2d(core_call *call)
{
    const tern_view *x = core_view(call, 0), *weight = core_view(call, 1);
    const tern_attr_conv *attr = core_attr(call);
    if (x->ndim != 4)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "expected x to be [N, C, H, W] or [C, H, W]; it has %d dimensions",
                         x->ndim);
    if (weight->ndim != 4)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "expected the weight to be [out, in / groups, height, width]; it has %d "
                         "dimensions",
                         weight->ndim);
    int64_t dims[4];
    if (!check_options(call, attr) || !check_weight(call, x, weight, attr->groups) ||
        !check_bias(call, weight->shape[0]) || !measure(call, attr, x, weight, dims))
        return false;
    return core_out_image(call, 0, (tern_dtype_t)x->dtype, dims,
                          prefers_channels_last(call, x, x->shape[1], dims[1]));
}

/* Do gradient, x and weight of these shapes belong together? */
static bool check_gradient(core_call *call, const tern_view *g, const int64_t *x_dims,
                           const int64_t *weight_dims)
{
    const tern_attr_conv *attr = core_attr(call);
    tern_view x = { .ndim = 4 }, weight = { .ndim = 4 };
    for (int d = 0; d < 4; d++) {
        x.shape[d] = x_dims[d];
        weight.shape[d] = weight_dims[d];
    }
    int64_t dims[4];
    if (!check_options(call, attr) || !measure(call, attr, &x, &weight, dims))
        return false;
    bool fits = g->ndim == 4 && weight.shape[1] * attr->groups == x.shape[1] &&
                weight.shape[0] % attr->groups == 0;
    for (int d = 0; fits && d < 4; d++)
        fits = g->shape[d] == dims[d];
    if (!fits)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "the gradient does not have the result's shape");
    return true;
}

/* (gradient, weight) -> gradient of x */
bool rule_conv2d_grad_input(core_call *call)
{
    const tern_view *g = core_view(call, 0), *weight = core_view(call, 1);
    const tern_attr_conv *attr = core_attr(call);
    if (weight->ndim != 4 || !core_check_same_dtype(call, 1, 0))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "the weight does not have 4 dimensions");
    if (!check_gradient(call, g, attr->size, weight->shape))
        return false;
    return core_out_image(call, 0, (tern_dtype_t)g->dtype, attr->size,
                          prefers_channels_last(call, g, attr->size[1], attr->size[1]));
}

/* (gradient, x) -> gradients of weight and bias */
bool rule_conv2d_grad_weight(core_call *call)
{
    const tern_view *g = core_view(call, 0), *x = core_view(call, 1);
    const tern_attr_conv *attr = core_attr(call);
    if (x->ndim != 4 || !core_check_same_dtype(call, 1, 0))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "x does not have 4 dimensions");
    if (!check_gradient(call, g, x->shape, attr->size))
        return false;
    const tern_dtype_t dtype = (tern_dtype_t)g->dtype;
    return core_out(call, 0, dtype, 4, attr->size) && core_out(call, 1, dtype, 1, attr->size);
}

/* ---- backward -------------------------------------------------------------------------------- */

static void set_size(tern_attr_conv *attr, const tern_view *v)
{
    for (int d = 0; d < 4; d++)
        attr->size[d] = v->shape[d];
}

static tern_tensor *input_gradient(tern_attr_conv attr, const tern_view *x, tern_tensor *g,
                                   tern_tensor *weight)
{
    set_size(&attr, x);
    return core_op2(TERN_OP_conv2d_grad_input, TERN_HERE, &attr, g, weight);
}

/* out_bias may be NULL. */
static tern_tensor *weight_gradient(tern_attr_conv attr, const tern_view *weight, tern_tensor *g,
                                    tern_tensor *x, tern_tensor **out_bias)
{
    set_size(&attr, weight);
    tern_tensor *gradient = NULL;
    tern_tensor **out[2] = { &gradient, out_bias };
    core_opn(TERN_OP_conv2d_grad_weight, TERN_HERE, &attr, 2, (tern_tensor *[]){ g, x }, 2, out);
    return gradient;
}

/* x goes before its gradient, which is as large, is made. */
void back_conv2d(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_attr_conv attr = core_ctx_attr(ctx, tern_attr_conv);
    const bool bias = tern_needs_grad(ctx, 2);
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = weight_gradient(attr, core_input_view(ctx, 1), grad, core_saved_in(ctx, 0),
                                     bias ? &grad_in[2] : NULL);
    else if (bias)
        grad_in[2] = tern_sum(grad, .dims = TERN_DIMS(0, 2, 3));
    core_saved_done(ctx, 0);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = input_gradient(attr, core_input_view(ctx, 0), grad, core_saved_in(ctx, 1));
}

/* u is the gradient of x's gradient, which is linear in the gradient g and in the weight. */
void back_conv2d_grad_input(tern_op_ctx *ctx, tern_tensor *u, tern_tensor **grad_in)
{
    tern_attr_conv attr = core_ctx_attr(ctx, tern_attr_conv);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = core_op3(TERN_OP_conv2d, TERN_HERE, &attr, u, core_saved_in(ctx, 1), NULL);
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = weight_gradient(attr, core_input_view(ctx, 1), core_saved_in(ctx, 0), u, NULL);
}

/* u, ub: gradients of weight's and bias's gradients, which are linear in g and in x. */
void back_conv2d_grad_weight(tern_op_ctx *ctx, tern_tensor *u, tern_tensor **grad_in)
{
    tern_attr_conv attr = core_ctx_attr(ctx, tern_attr_conv);
    tern_tensor *ub = tern_output_grad(ctx, 1);
    const tern_view *g = core_input_view(ctx, 0);
    if (tern_needs_grad(ctx, 0) && u != NULL)
        grad_in[0] = core_op3(TERN_OP_conv2d, TERN_HERE, &attr, core_saved_in(ctx, 1), u, ub);
    else if (tern_needs_grad(ctx, 0) && ub != NULL)
        grad_in[0] = tern_expand(tern_view(ub, TERN_SHAPE(1, g->shape[1], 1, 1)),
                                 TERN_SHAPE(g->shape[0], g->shape[1], g->shape[2], g->shape[3]));
    if (tern_needs_grad(ctx, 1) && u != NULL)
        grad_in[1] = input_gradient(attr, core_input_view(ctx, 1), core_saved_in(ctx, 0), u);
}
