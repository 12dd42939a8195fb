/* flip, roll, pad: copies whose element numbers are mapped dimension by dimension (tern_attr_remap). */
#include <string.h>

#include "core/compose.h"
#include "core/op_table.h"
#include "core/option.h"
#include "core/promote.h"
#include "core/rules.h"
#include "tern/amp.h"

/* Nothing moves. */
static tern_attr_remap identity(const tern_view *x)
{
    tern_attr_remap attr = { .value = { TERN_NUMBER_INT, 0, 0.0, 0 } };
    for (int d = 0; d < x->ndim; d++)
        attr.size[d] = x->shape[d];
    return attr;
}

bool rule_remap(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    const tern_attr_remap *attr = core_attr(call);
    const bool channels_last = core_view_channels_last(x) && (x->flags & TERN_VIEW_CONTIGUOUS) == 0;
    return channels_last ? core_out_image(call, 0, (tern_dtype_t)x->dtype, attr->size, true)
                         : core_out(call, 0, (tern_dtype_t)x->dtype, x->ndim, attr->size);
}

/* ---- flip -------------------------------------------------------------------------------------- */

/* The dimensions named, as bits; each may be named once. False after recording an error. */
static bool named_dims(core_call *call, const tern_dims_t *dims, int ndim, uint32_t *out_bits)
{
    *out_bits = 0;
    for (int i = 0; i < dims->ndim; i++) {
        int32_t d = dims->dims[i] > 100    ? 100
                    : dims->dims[i] < -100 ? -100
                                           : (int32_t)dims->dims[i];
        if (!core_normalise_dim(call, &d, ndim))
            return false;
        if (*out_bits & B(d))
            return core_fail(call, TERN_ERR_ARGUMENT, NULL, "dimension %d is named twice", d);
        *out_bits |= B(d);
    }
    return true;
}

tern_tensor *tern_flip_at(tern_site_t site, tern_tensor *x, tern_dims_t dims)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_flip, site, 1, &x);
    tern_tensor *out = NULL;
    uint32_t bits = 0;
    if (core_compose_check(&frame) && named_dims(&frame.call, &dims, x->view.ndim, &bits)) {
        tern_attr_remap attr = identity(&x->view);
        attr.flipped = (dims.set_ ? bits : 0xFFu) & (B(x->view.ndim) - 1);
        out = core_op1(TERN_OP_flip, site, &attr, x);
    }
    return core_compose_end(&frame, out);
}

/* It is its own inverse. */
void back_flip(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_remap attr = core_ctx_attr(ctx, tern_attr_remap);
    grad_in[0] = core_op1(TERN_OP_flip, TERN_HERE, &attr, grad);
}

/* ---- roll -------------------------------------------------------------------------------------- */

/* value modulo size, in 0 .. size - 1 */
static int64_t wrapped(int64_t value, int64_t size)
{
    const int64_t rest = size > 0 ? value % size : 0;
    return rest < 0 ? rest + size : rest;
}

static bool roll_attr(core_call *call, const tern_view *x, const tern_shape_t *shifts,
                      const tern_dims_t *dims, tern_attr_remap *attr)
{
    *attr = identity(x);
    if (shifts->ndim != dims->ndim)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "%d shifts for %d dimensions", shifts->ndim,
                         dims->ndim);
    for (int i = 0; i < dims->ndim; i++) {
        int32_t d = dims->dims[i] > 100    ? 100
                    : dims->dims[i] < -100 ? -100
                                           : (int32_t)dims->dims[i];
        if (x->ndim == 0)
            return core_fail(call, TERN_ERR_SHAPE, NULL, "a 0-dim tensor has no dimensions");
        if (!core_normalise_dim(call, &d, x->ndim))
            return false;
        attr->outside[d] = TERN_OUTSIDE_WRAP;
        attr->start[d] =
            wrapped(attr->start[d] - wrapped(shifts->dims[i], x->shape[d]), x->shape[d]);
    }
    return true;
}

tern_tensor *tern_roll_at(tern_site_t site, tern_tensor *x, tern_shape_t shifts, tern_dims_t dims)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_roll, site, 1, &x);
    tern_tensor *out = NULL;
    tern_attr_remap attr;
    if (core_compose_check(&frame)) {
        const bool flat = !dims.set_ && shifts.ndim == 1;
        tern_tensor *rolled = flat ? tern_reshape(x, TERN_SHAPE(-1)) : x;
        const tern_dims_t first = TERN_DIMS(0);
        if (rolled != NULL &&
            roll_attr(&frame.call, &rolled->view, &shifts, flat ? &first : &dims, &attr))
            out = core_op1(TERN_OP_roll, site, &attr, rolled);
        if (out != NULL && flat)
            out = tern_reshape(out, tern_shape(x));
    }
    return core_compose_end(&frame, out);
}

void back_roll(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_remap attr = core_ctx_attr(ctx, tern_attr_remap);
    for (int d = 0; d < grad->view.ndim; d++)
        attr.start[d] = wrapped(-attr.start[d], attr.size[d]);
    grad_in[0] = core_op1(TERN_OP_roll, TERN_HERE, &attr, grad);
}

/* ---- pad --------------------------------------------------------------------------------------- */

static bool bad_pad(core_call *call, int mode, int d, int64_t before, int64_t after, int64_t extent)
{
    static const char *const rules[] = {
        [TERN_PAD_CONSTANT] = "what is taken away has to be there",
        [TERN_PAD_REFLECT] =
            "a mirrored end is shorter than that, and at least one element is left",
        [TERN_PAD_REPLICATE] = "one element has to be there to repeat, and at least one is left",
        [TERN_PAD_CIRCULAR] =
            "what is taken away has to be there, and an end no longer than what is left",
    };
    return core_fail(call, TERN_ERR_SHAPE, NULL,
                     "%lld and %lld elements at the ends of dimension %d, which has %lld: %s",
                     (long long)before, (long long)after, d, (long long)extent, rules[mode]);
}

static int64_t taken(int64_t amount)
{
    return amount < 0 ? -amount : 0;
}

/* Is what is added there? A mirror and a repeated end are those of all of x, also where more is taken away
 * at the one end than x has; what is from the other end is from what is left. */
static bool pad_reaches(int mode, int64_t before, int64_t after, int64_t extent)
{
    const int64_t longer = before > after ? before : after;
    if (mode == TERN_PAD_REFLECT)
        return longer < extent;
    if (mode == TERN_PAD_REPLICATE)
        return extent > 0;
    return before >= -extent && after >= -extent &&
           (mode == TERN_PAD_CONSTANT || longer <= extent - taken(before) - taken(after));
}

/* Where x begins in the result, negative: before it. Of a repeated end no further away than the result is
 * long; from what is left of x where that is what is added. */
static int64_t pad_start(int mode, int64_t before, int64_t extent, int64_t size)
{
    if (mode == TERN_PAD_CIRCULAR)
        return before > 0 ? -before : 0;
    if (mode == TERN_PAD_REPLICATE && before < -extent)
        return extent;
    return mode == TERN_PAD_REPLICATE && before > size ? -size : -before;
}

/* The least extent of a result: of none there are no ends to mirror or repeat, as in PyTorch. */
static int64_t least_size(int mode)
{
    return mode == TERN_PAD_REFLECT || mode == TERN_PAD_REPLICATE;
}

/* One dimension's part of the attributes. */
static bool pad_dim(core_call *call, const tern_pad_args *args, int d, int64_t extent,
                    tern_attr_remap *attr)
{
    const int from_end = call->in[0]->view.ndim - 1 - d;
    const int64_t before = args->pad[2 * from_end], after = args->pad[2 * from_end + 1];
    int64_t size;
    if (before == 0 && after == 0)
        return true;
    if (__builtin_add_overflow(extent, before, &size) || __builtin_add_overflow(size, after, &size))
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "%lld and %lld elements at the ends of dimension %d, which has %lld: more "
                         "than 64 bits count",
                         (long long)before, (long long)after, d, (long long)extent);
    if (size < least_size(args->mode) || !pad_reaches(args->mode, before, after, extent))
        return bad_pad(call, args->mode, d, before, after, extent);
    static const uint8_t rules[] = { TERN_OUTSIDE_VALUE, TERN_OUTSIDE_REFLECT, TERN_OUTSIDE_NEAREST,
                                     TERN_OUTSIDE_WRAP };
    attr->outside[d] = rules[args->mode];
    attr->start[d] = pad_start(args->mode, before, extent, size);
    attr->size[d] = size;
    return true;
}

static bool pad_attr(core_call *call, const tern_pad_args *args, tern_attr_remap *attr)
{
    const tern_view *x = core_view(call, 0);
    const double value =
        args->value == (double)TERN_ZERO ? 0 : args->value; /* of -0.0 the sign stays */
    *attr = identity(x);
    attr->value = core_fill_attr(value).value;
    if (args->mode < TERN_PAD_CONSTANT || args->mode > TERN_PAD_CIRCULAR)
        return core_fail(call, TERN_ERR_ARGUMENT,
                         "TERN_PAD_CONSTANT, _REFLECT, _REPLICATE, _CIRCULAR", "%d is no mode",
                         args->mode);
    if (args->mode == TERN_PAD_CONSTANT &&
        !core_require_number(call->self, call->site, call->op->name, tern_operand_float(value),
                             (tern_dtype_t)x->dtype))
        return false;
    for (int d = 0; d < x->ndim; d++)
        if (!pad_dim(call, args, d, x->shape[d], attr))
            return false;
    for (int i = 2 * x->ndim; i < 2 * TERN_MAX_DIMS; i++)
        if (args->pad[i] != 0)
            return core_fail(call, TERN_ERR_SHAPE, NULL,
                             "pad[%d] is %lld, for a dimension that the tensor of %d does not have",
                             i, (long long)args->pad[i], x->ndim);
    return true;
}

static tern_tensor *part_of(tern_tensor *x, int d, int64_t start, int64_t length)
{
    tern_attr_slice part = { .dim = d, .start = start, .length = length, .step = 1 };
    return core_op1(TERN_OP_slice, TERN_HERE, &part, x);
}

/* What goes on at the other end goes on in what is left of x. */
static tern_tensor *what_is_left(tern_tensor *x, const tern_pad_args *args)
{
    const int ndim = x->view.ndim;
    for (int d = 0; d < ndim && x != NULL; d++) {
        const int64_t *pad = &args->pad[2 * (ndim - 1 - d)];
        const int64_t first = taken(pad[0]), last = taken(pad[1]);
        if (first > 0 || last > 0)
            x = part_of(x, d, first, x->view.shape[d] - first - last);
    }
    return x;
}

/* On the CPU PyTorch's autocast makes f32 of what it mirrors along one or two dimensions, or repeats; the
 * row has no class, since other modes stay. */
static bool pads_in_f32(const tern_tensor *x, const tern_pad_args *args)
{
    bool deep = false; /* a third dimension has ends */
    for (int i = 4; i < 2 * TERN_MAX_DIMS; i++)
        deep |= args->pad[i] != 0;
    return (x->view.dtype == TERN_F16 || x->view.dtype == TERN_BF16) &&
           x->view.dev.kind == TERN_KIND_CPU && tern_autocast_enabled(TERN_CPU) &&
           (args->mode == TERN_PAD_REPLICATE || (args->mode == TERN_PAD_REFLECT && !deep));
}

tern_tensor *tern_pad_at(tern_site_t site, const tern_pad_args *args)
{
    core_frame frame;
    args = core_options(args);
    tern_tensor *x = args->x, *out = NULL;
    tern_attr_remap attr;
    core_compose_begin(&frame, TERN_OP_pad, site, 1, &x);
    if (core_compose_check(&frame) && pad_attr(&frame.call, args, &attr)) {
        if (args->mode == TERN_PAD_CIRCULAR)
            x = what_is_left(x, args);
        else if (pads_in_f32(x, args))
            x = tern_cast(x, TERN_F32);
        out = x != NULL ? core_op1(TERN_OP_pad, site, &attr, x) : NULL;
    }
    return core_compose_end(&frame, out);
}

/* ---- pad's gradient ---------------------------------------------------------------------------- */

typedef struct pad_grad_attr {
    tern_attr_remap map;
    int64_t extents[TERN_MAX_DIMS]; /* of x */
} pad_grad_attr;

/* What lies over x along a dimension; where x was cut, zeros. Along all of them: d < 0. */
static tern_tensor *centre(tern_tensor *grad, const pad_grad_attr *attr, int only)
{
    tern_attr_remap back = identity(&grad->view);
    for (int d = 0; d < grad->view.ndim; d++)
        if (only < 0 || d == only) {
            back.start[d] = -attr->map.start[d];
            back.size[d] = attr->extents[d];
        }
    return core_op1(TERN_OP_pad, TERN_HERE, &back, grad);
}

/* Adds grad's elements from .. from + count - 1, all outside of x on one side, to where they came from. */
static bool add_outside(tern_tensor *sums, tern_tensor *grad, const pad_grad_attr *attr, int d,
                        int64_t from, int64_t count)
{
    const int64_t n = attr->extents[d], place = from + attr->map.start[d];
    if (count <= 0)
        return true;
    tern_tensor *part = part_of(grad, d, from, count);
    int64_t to = place < 0 ? place + n : place - n; /* of a wrapped one */
    if (attr->map.outside[d] == TERN_OUTSIDE_REFLECT) {
        part = tern_flip(part, TERN_DIMS(d));
        to = (place < 0 ? -place : 2 * (n - 1) - place) - (count - 1);
    } else if (attr->map.outside[d] == TERN_OUTSIDE_NEAREST) {
        part = tern_sum(part, TERN_DIMS(d), .keepdim = true);
        to = place < 0 ? 0 : n - 1;
        count = 1;
    }
    return tern_add_(part_of(sums, d, to, count), part) != NULL;
}

/* x's extent along d again. */
static tern_tensor *folded(tern_tensor *grad, const pad_grad_attr *attr, int d)
{
    tern_tensor *sums = centre(grad, attr, d);
    const int64_t size = grad->view.shape[d], start = attr->map.start[d];
    const int64_t left = start >= 0 ? 0 : -start < size ? -start : size;
    const int64_t end = attr->extents[d] - start; /* first place behind x */
    const int64_t right = end > 0 ? end : 0;
    return sums != NULL && add_outside(sums, grad, attr, d, 0, left) &&
                   add_outside(sums, grad, attr, d, right, size - right)
               ? sums
               : NULL;
}

/* Half types add up in f32. */
static tern_tensor *pad_grad_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    const pad_grad_attr *attr = tern_op_attr(ctx);
    const tern_dtype_t dtype = tern_dtype(in[0]);
    const bool half = dtype == TERN_F16 || dtype == TERN_BF16;
    tern_tensor *grad = half ? tern_cast(in[0], TERN_F32) : in[0];
    for (int d = 0; d < in[0]->view.ndim && grad != NULL; d++)
        if (attr->map.start[d] != 0 || attr->map.size[d] != attr->extents[d])
            grad = folded(grad, attr, d);
    return half && grad != NULL ? tern_cast(grad, dtype) : grad;
}

static void pad_grad_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_remap attr = core_ctx_attr(ctx, pad_grad_attr).map;
    grad_in[0] = core_op1(TERN_OP_pad, TERN_HERE, &attr, grad);
}

static const tern_op pad_grad = { .name = "pad_grad",
                                  .inputs = 1,
                                  .forward = pad_grad_forward,
                                  .backward = pad_grad_backward,
                                  .attr_size = sizeof(pad_grad_attr) };

void back_pad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    pad_grad_attr attr = { .map = core_ctx_attr(ctx, tern_attr_remap) };
    bool plain = true;
    for (int d = 0; d < x->ndim; d++) {
        attr.extents[d] = x->shape[d];
        plain = plain && attr.map.outside[d] == TERN_OUTSIDE_VALUE;
    }
    grad_in[0] =
        plain ? centre(grad, &attr, -1) : tern_apply_at(TERN_HERE, &pad_grad, &grad, &attr);
}
