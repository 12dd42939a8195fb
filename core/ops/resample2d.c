/* Images of another size: interpolation, and averages over windows that part an image evenly. Both are
 * linear and separable, and so is their gradient, which the same row computes transposed. */
#include "core/op_table.h"
#include "core/ops/image.h"

/* ---- the row --------------------------------------------------------------------------------- */

static bool check_extent(core_call *call, const char *name, int64_t extent)
{
    if (extent < 1)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "%s is %lld; it has to be positive", name,
                         (long long)extent);
    return extent <= INT32_MAX ||
           core_fail(call, TERN_ERR_SHAPE, NULL, "%s is %lld: too large", name, (long long)extent);
}

bool rule_resample2d(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    const tern_attr_resample *attr = core_attr(call);
    char shape[160];
    if (x->ndim != 4)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "expected [N, C, H, W], got %s",
                         core_shape_text(x->ndim, x->shape, shape, sizeof shape));
    if (!check_extent(call, "the height of x", x->shape[2]) ||
        !check_extent(call, "the width of x", x->shape[3]) ||
        !check_extent(call, "the height to make", attr->size[0]) ||
        !check_extent(call, "the width to make", attr->size[1]))
        return false;
    /* bytes have no gradient, nor, as in PyTorch, averages */
    if ((attr->transposed || attr->mode == TERN_RESAMPLE_AVERAGE) &&
        !core_check_dtype(call, 0, call->op->dtypes))
        return false;
    const int64_t dims[4] = { x->shape[0], x->shape[1], attr->size[0], attr->size[1] };
    return core_out_image(call, 0, (tern_dtype_t)x->dtype, dims, image_channels_last(x));
}

void back_resample2d(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_resample attr = core_ctx_attr(ctx, tern_attr_resample);
    const tern_view *x = core_input_view(ctx, 0);
    attr.size[0] = x->shape[2];
    attr.size[1] = x->shape[3];
    attr.transposed = !attr.transposed;
    grad_in[0] = core_op1(TERN_OP_resample2d, TERN_HERE, &attr, grad);
}

/* ---- interpolate ----------------------------------------------------------------------------- */

/* Sizes and steps from what was given; false after an error. */
static bool measure(core_call *call, const tern_interpolate_args *a, const tern_view *x,
                    tern_attr_resample *attr)
{
    const bool has_size = a->size[0] != 0, has_scale = a->scale[0] != 0;
    if (has_size == has_scale)
        return core_fail(call, TERN_ERR_ARGUMENT, ".size = { 64 } or .scale = { 2 }",
                         has_size ? "size and scale are both given" : "size or scale is missing");
    for (int d = 0; d < 2; d++) {
        const int64_t extent = x->shape[x->ndim - 2 + d];
        if (x->ndim == 3 && d == 0) {
            attr->size[0] = 1;
            continue;
        }
        const int i = x->ndim == 3 || (has_size ? a->size[1] == 0 : a->scale[1] == 0) ? 0 : d;
        attr->size[d] = a->size[i];
        if (has_scale) {
            if (!(a->scale[i] > 0) || a->scale[i] * (double)extent > INT32_MAX)
                return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                                 "scale is %g; it has to be positive, and the result not too large",
                                 a->scale[i]);
            attr->size[d] = (int64_t)((double)extent * a->scale[i]);
            attr->step[d] = 1 / a->scale[i];
        }
    }
    return true;
}

static bool choose_mode(core_call *call, const tern_interpolate_args *a, int ndim,
                        tern_attr_resample *attr)
{
    static const int32_t modes[] = { TERN_RESAMPLE_NEAREST, TERN_RESAMPLE_NEAREST,
                                     TERN_RESAMPLE_NEAREST_EXACT, TERN_RESAMPLE_LINEAR,
                                     TERN_RESAMPLE_LINEAR };
    if (a->mode < 0 || a->mode > TERN_BILINEAR)
        return core_fail(call, TERN_ERR_ARGUMENT, "TERN_NEAREST or TERN_BILINEAR", "%d is no mode",
                         a->mode);
    if (ndim != 3 && ndim != 4)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "expected [N, C, H, W] or [N, C, L]");
    if ((a->mode == TERN_LINEAR && ndim != 3) || (a->mode == TERN_BILINEAR && ndim != 4))
        return core_fail(call, TERN_ERR_SHAPE, ndim == 3 ? "TERN_LINEAR" : "TERN_BILINEAR",
                         "got %dD input, but the mode needs %dD input", ndim,
                         a->mode == TERN_LINEAR ? 3 : 4);
    attr->mode = modes[a->mode];
    attr->align_corners = a->align_corners;
    return !a->align_corners || attr->mode == TERN_RESAMPLE_LINEAR ||
           core_fail(call, TERN_ERR_ARGUMENT, NULL,
                     "align_corners can only be set with linear and bilinear modes");
}

static tern_tensor *interpolate(core_frame *frame, tern_site_t site, const tern_interpolate_args *a)
{
    tern_attr_resample attr = { .mode = 0 };
    if (!core_compose_check(frame) || !core_compose_cast(frame))
        return NULL;
    tern_tensor *x = frame->call.in[0];
    const int ndim = x->view.ndim;
    if (!choose_mode(&frame->call, a, ndim, &attr) || !measure(&frame->call, a, &x->view, &attr))
        return NULL;
    /* devices have no kernel for bytes; where they are only moved, f32 leaves them what they are */
    const bool by_f32 = x->view.dtype == TERN_U8 && frame->call.dev.kind != TERN_KIND_CPU &&
                        attr.mode != TERN_RESAMPLE_LINEAR;
    x = by_f32 ? tern_cast(x, TERN_F32) : x;
    attr.strict = ndim == 3; /* PyTorch's shortcuts are those of images */
    tern_tensor *y =
        core_op1(TERN_OP_resample2d, site, &attr, ndim == 4 ? x : tern_unsqueeze(x, 2));
    if (y != NULL && ndim == 3)
        y = tern_squeeze(y, 2);
    return y != NULL && by_f32 ? tern_cast(y, TERN_U8) : y;
}

tern_tensor *tern_interpolate_at(tern_site_t site, const tern_interpolate_args *args)
{
    if (args == NULL || args->size_ < sizeof *args) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "interpolate",
                     "x is missing\n  try tern_interpolate(x, .scale = { 2 })");
        return NULL;
    }
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_interpolate, site, 1, (tern_tensor *[]){ args->x });
    return core_compose_end(&frame, interpolate(&frame, site, args));
}
