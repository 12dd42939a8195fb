/* pixel_shuffle, pixel_unshuffle: pixels from channels, and back. Views of [images, C, f, f, H, W], and a copy. */
#include "core/compose.h"
#include "core/op_table.h"

typedef struct pixels {
    int64_t images, channels; /* as pixel_shuffle leaves them */
    int64_t height, width;    /* of the smaller plane */
    int64_t factor;
} pixels;

/* What both functions ask of x, and its extents as they are. */
static bool read_pixels(core_call *call, int64_t factor, pixels *p)
{
    const tern_view *x = core_view(call, 0);
    if (x->ndim < 3)
        return core_fail(call, TERN_ERR_SHAPE, "tern_unsqueeze(x, 0)",
                         "x has %d dimensions; at least 3 are needed, [C, H, W]", x->ndim);
    if (factor < 1 || factor > INT32_MAX)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "the factor is %lld; it has to be %s",
                         (long long)factor, factor < 1 ? "positive" : "below 2^31");
    const int64_t *last = x->shape + x->ndim - 3;
    *p = (pixels){ 1, last[0], last[1], last[2], factor };
    for (int d = 0; d < x->ndim - 3; d++)
        p->images *= x->shape[d];
    return true;
}

static bool split_channels(core_call *call, pixels *p)
{
    const int64_t square = p->factor * p->factor, channels = p->channels;
    p->channels = channels / square;
    return channels % square == 0 ||
           core_fail(call, TERN_ERR_SHAPE, NULL,
                     "%lld channels are no multiple of %lld, the pixels that one becomes",
                     (long long)channels, (long long)square);
}

static bool split_planes(core_call *call, pixels *p)
{
    const int64_t height = p->height, width = p->width;
    p->height /= p->factor;
    p->width /= p->factor;
    return (height % p->factor == 0 && width % p->factor == 0) ||
           core_fail(call, TERN_ERR_SHAPE, NULL,
                     "planes of %lld x %lld cannot be cut into squares of %lld", (long long)height,
                     (long long)width, (long long)p->factor);
}

/* x in the order of `moved`, as planes [..., channels, height, width]. */
static tern_tensor *planes(const tern_view *x, tern_tensor *moved, int64_t channels, int64_t height,
                           int64_t width)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = x->ndim };
    for (int d = 0; d < x->ndim - 3; d++)
        shape.dims[d] = x->shape[d];
    int64_t *last = shape.dims + x->ndim - 3;
    last[0] = channels;
    last[1] = height;
    last[2] = width;
    return core_reshape_copy(moved, shape);
}

tern_tensor *tern_pixel_shuffle_at(tern_site_t site, tern_tensor *x, int64_t factor)
{
    core_frame frame;
    core_call *call = &frame.call;
    pixels p;
    tern_tensor *out = NULL;
    core_compose_begin(&frame, TERN_OP_pixel_shuffle, site, 1, &x);
    if (core_compose_check(&frame) && read_pixels(call, factor, &p) && split_channels(call, &p)) {
        const int64_t f = p.factor;
        tern_tensor *parts =
            tern_reshape(x, TERN_SHAPE(p.images, p.channels, f, f, p.height, p.width));
        tern_tensor *moved = tern_permute(parts, TERN_DIMS(0, 1, 4, 2, 5, 3));
        out = planes(&x->view, moved, p.channels, p.height * f, p.width * f);
    }
    return core_compose_end(&frame, out);
}

tern_tensor *tern_pixel_unshuffle_at(tern_site_t site, tern_tensor *x, int64_t factor)
{
    core_frame frame;
    core_call *call = &frame.call;
    pixels p;
    tern_tensor *out = NULL;
    core_compose_begin(&frame, TERN_OP_pixel_unshuffle, site, 1, &x);
    if (core_compose_check(&frame) && read_pixels(call, factor, &p) && split_planes(call, &p)) {
        const int64_t f = p.factor;
        tern_tensor *parts =
            tern_reshape(x, TERN_SHAPE(p.images, p.channels, p.height, f, p.width, f));
        tern_tensor *moved = tern_permute(parts, TERN_DIMS(0, 1, 3, 5, 2, 4));
        out = planes(&x->view, moved, p.channels * f * f, p.height, p.width);
    }
    return core_compose_end(&frame, out);
}
