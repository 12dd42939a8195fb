/* Pooling to a size: windows that part x evenly. Where all are alike it is plain pooling. */
#include "core/op_table.h"
#include "core/ops/image.h"

/* The windows of x [..., H, W] for a size: kernel and stride where all are of one length and evenly apart,
 * else false. */
static bool windows(const tern_tensor *x, const int64_t size[2], int64_t kernel[2],
                    int64_t stride[2])
{
    const int ndim = tern_ndim(x);
    for (int d = 0; d < 2; d++) {
        const int64_t extent = tern_size(x, ndim - 2 + d), count = size[d];
        stride[d] = extent / count;
        kernel[d] = (extent + count - 1) / count;
        for (int64_t i = 1; extent % count != 0 && i < count; i++) {
            const int64_t begin = i * extent / count;
            const int64_t end = ((i + 1) * extent + count - 1) / count;
            if (stride[d] == 0 || begin != i * stride[d] || end - begin != kernel[d])
                return false;
        }
    }
    return true;
}

/* One window of all, which has too many elements to be summed one after the other. */
static tern_tensor *whole_mean(tern_tensor *x)
{
    const bool last = image_channels_last(&x->view);
    tern_tensor *y = tern_mean(x, .dims = TERN_DIMS(-2, -1), .keepdim = true);
    return y != NULL && last ? tern_to(y, .format = TERN_FORMAT_CHANNELS_LAST) : y;
}

static tern_tensor *average(tern_site_t site, tern_tensor *x, const void *context)
{
    const int64_t *size = context;
    int64_t kernel[2], stride[2];
    if (size[0] == 1 && size[1] == 1)
        return whole_mean(x);
    if (windows(x, size, kernel, stride))
        return tern_avg_pool2d(x, .kernel = { kernel[0], kernel[1] },
                               .stride = { stride[0], stride[1] });
    tern_attr_resample attr = { .size = { size[0], size[1] }, .mode = TERN_RESAMPLE_AVERAGE };
    return core_op1(TERN_OP_resample2d, site, &attr, x);
}

/* The largest of each of `count` windows along a dimension of x [N, C, H, W]: few, for sizes are small. */
static tern_tensor *largest_along(tern_tensor *x, int dim, int64_t count)
{
    enum { MOST = 64 };
    const int64_t extent = tern_size(x, dim);
    tern_tensor *parts[MOST], *out = NULL;
    int64_t kernel[2] = { 1, 1 };
    int used = 0;
    for (int64_t i = 0; i < count && !tern_failed(); i++) {
        const int64_t begin = i * extent / count, end = ((i + 1) * extent + count - 1) / count;
        tern_tensor *window = tern_slice(x, dim, begin == 0 ? TERN_ZERO : begin, end);
        kernel[dim - 2] = end - begin;
        parts[used++] = tern_max_pool2d(window, .kernel = { kernel[0], kernel[1] });
        if (used == MOST || i + 1 == count) {
            if (out != NULL) {
                tern_tensor *joined = tern_cat_at(TERN_HERE, parts, used, dim);
                out = tern_cat(dim, out, joined);
            } else {
                out = tern_cat_at(TERN_HERE, parts, used, dim);
            }
            used = 0;
        }
    }
    return tern_failed() ? NULL : out;
}

/* Of equal values the first counts, row by row, and of several NaN the last: columns first, then rows. */
static tern_tensor *largest(tern_site_t site, tern_tensor *x, const void *context)
{
    const int64_t *size = context;
    int64_t kernel[2], stride[2];
    (void)site;
    if (windows(x, size, kernel, stride))
        return tern_max_pool2d(x, .kernel = { kernel[0], kernel[1] },
                               .stride = { stride[0], stride[1] });
    const int ndim = tern_ndim(x);
    const bool last = image_channels_last(&x->view);
    x = largest_along(x, ndim - 1, size[1]);
    x = x == NULL ? NULL : largest_along(x, ndim - 2, size[0]);
    return x != NULL && last ? tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST) : x;
}

/* x [N, C, H, W] or [C, H, W] */
static tern_tensor *pool(core_frame *frame, tern_site_t site, tern_tensor *x,
                         const int64_t given[2], image_run *run)
{
    core_call *call = &frame->call;
    char shape[160];
    int64_t size[2];
    if (!core_compose_check(frame) || !core_check_dtype(call, 0, DT_FLOATS))
        return NULL;
    const int ndim = tern_ndim(x);
    bool is_sound = ndim == 3 || ndim == 4;
    for (int d = ndim == 4 ? 1 : 0; is_sound && d < ndim; d++)
        is_sound = tern_size(x, d) > 0;
    if (!is_sound) {
        core_fail(call, TERN_ERR_SHAPE, NULL,
                  "expected [N, C, H, W] or [C, H, W], empty in N only, got %s",
                  core_shape_text(ndim, x->view.shape, shape, sizeof shape));
        return NULL;
    }
    image_pair(size, given, 0);
    for (int d = 0; d < 2; d++) {
        size[d] = size[d] == -1 ? tern_size(x, ndim - 2 + d) : size[d];
        if (size[d] < 1 || size[d] > INT32_MAX) {
            core_fail(call, TERN_ERR_ARGUMENT, "{ 7, 7 }; -1 is the input's own",
                      "the size to make is (%lld, %lld)", (long long)size[0], (long long)size[1]);
            return NULL;
        }
    }
    if (ndim == 4)
        return run(site, x, size);
    tern_tensor *y = run(site, tern_unsqueeze(x, 0), size);
    return y == NULL ? NULL : tern_squeeze(y, 0);
}

static tern_tensor *pool2d(tern_op_id id, tern_site_t site, const tern_adaptive_pool2d_args *args,
                           image_run *run)
{
    if (args == NULL || args->size_ < sizeof *args) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, core_op_table[id].name,
                     "x is missing\n  try tern_adaptive_avg_pool2d(x, { 7 })");
        return NULL;
    }
    core_frame frame;
    core_compose_begin(&frame, id, site, 1, (tern_tensor *[]){ args->x });
    return core_compose_end(&frame, pool(&frame, site, args->x, args->size, run));
}

/* x [N, C, L] or [C, L] as images one row high. */
static tern_tensor *pool1d(tern_op_id id, tern_site_t site, tern_tensor *x, int64_t size,
                           image_run *run)
{
    core_frame frame;
    core_compose_begin(&frame, id, site, 1, (tern_tensor *[]){ x });
    tern_tensor *y = NULL;
    if (core_compose_check(&frame) && (tern_ndim(x) == 2 || tern_ndim(x) == 3)) {
        const int64_t pair[2] = { 1, size == 0 ? TERN_ZERO : size };
        y = pool(&frame, site, tern_unsqueeze(x, -2), pair, run);
        y = y == NULL ? NULL : tern_squeeze(y, -2);
    } else if (!tern_failed()) {
        core_fail(&frame.call, TERN_ERR_SHAPE, NULL, "expected [N, C, L] or [C, L]");
    }
    return core_compose_end(&frame, y);
}

tern_tensor *tern_adaptive_avg_pool2d_at(tern_site_t site, const tern_adaptive_pool2d_args *args)
{
    return pool2d(TERN_OP_adaptive_avg_pool2d, site, args, average);
}

tern_tensor *tern_adaptive_max_pool2d_at(tern_site_t site, const tern_adaptive_pool2d_args *args)
{
    return pool2d(TERN_OP_adaptive_max_pool2d, site, args, largest);
}

tern_tensor *tern_adaptive_avg_pool1d_at(tern_site_t site, tern_tensor *x, int64_t size)
{
    return pool1d(TERN_OP_adaptive_avg_pool1d, site, x, size, average);
}

tern_tensor *tern_adaptive_max_pool1d_at(tern_site_t site, tern_tensor *x, int64_t size)
{
    return pool1d(TERN_OP_adaptive_max_pool1d, site, x, size, largest);
}
