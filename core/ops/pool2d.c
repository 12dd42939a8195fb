/* Pooling over windows of [N, C, H, W]. max_pool2d's second output says for each result which cell
 * of its window it came from (row by row from 0): u8 where the window has at most 256 cells, else
 * i32. */
#include "core/op_table.h"
#include "core/ops/image.h"
#include "core/rules.h"

/* ---- public functions ------------------------------------------------------------------------ */

static void fill_attr(tern_attr_pool *attr, const tern_pool2d_args *args)
{
    *attr =
        (tern_attr_pool){ .ceil_mode = args->ceil_mode, .count_include_pad = !args->exclude_pad };
    image_pair(attr->kernel, args->kernel, 0);
    image_pair(attr->padding, args->padding, 0);
    image_pair(attr->dilation, args->dilation, 1);
    image_pair(attr->stride,
               args->stride[0] == 0 && args->stride[1] == 0 ? args->kernel : args->stride,
               attr->kernel[0]);
}

static tern_tensor *run_max(tern_site_t site, tern_tensor *x, const void *args)
{
    tern_attr_pool attr;
    fill_attr(&attr, args);
    return core_op1(TERN_OP_max_pool2d, site, &attr, x);
}

static tern_tensor *run_avg(tern_site_t site, tern_tensor *x, const void *args)
{
    tern_attr_pool attr;
    fill_attr(&attr, args);
    return core_op1(TERN_OP_avg_pool2d, site, &attr, x);
}

static tern_tensor *run_pool(tern_op_id id, tern_site_t site, const tern_pool2d_args *args,
                             image_run *run)
{
    if (args == NULL || args->size_ < sizeof *args) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, core_op_table[id].name,
                     "x is missing\n  try tern_max_pool2d(x, .kernel = { 2 })");
        return NULL;
    }
    if (args->x != NULL && args->x->view.ndim == 3)
        return image_unbatched(id, site, args->x, run, args);
    return run(site, args->x, args);
}

tern_tensor *tern_max_pool2d_at(tern_site_t site, const tern_pool2d_args *args)
{
    return run_pool(TERN_OP_max_pool2d, site, args, run_max);
}

tern_tensor *tern_avg_pool2d_at(tern_site_t site, const tern_pool2d_args *args)
{
    if (args != NULL && args->size_ >= sizeof *args &&
        (args->dilation[0] > 1 || args->dilation[1] > 1)) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "avg_pool2d", "there is no dilation for averages");
        return NULL;
    }
    return run_pool(TERN_OP_avg_pool2d, site, args, run_avg);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static int64_t covered(const tern_attr_pool *attr, int d)
{
    return image_covered(attr->kernel[d], attr->dilation[d]);
}

static bool check_options(core_call *call, const tern_attr_pool *attr)
{
    if (attr->kernel[0] == 0)
        return core_fail(call, TERN_ERR_ARGUMENT, ".kernel = { 2 }", "the kernel size is missing");
    if (!image_check_pair(call, "kernel size", attr->kernel, 1) ||
        !image_check_pair(call, "stride", attr->stride, 1) ||
        !image_check_pair(call, "padding", attr->padding, 0) ||
        !image_check_pair(call, "dilation", attr->dilation, 1))
        return false;
    for (int d = 0; d < 2; d++)
        if (attr->padding[d] > covered(attr, d) / 2)
            return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                             "pad should be at most half of effective kernel size, but got "
                             "pad=%lld, kernel_size=%lld and dilation=%lld",
                             (long long)attr->padding[d], (long long)attr->kernel[d],
                             (long long)attr->dilation[d]);
    return true;
}

/* Results along one dimension. In ceil mode the last window may hang over, but has to start inside
 * the input or the padding before it. */
static int64_t results(const tern_attr_pool *attr, int d, int64_t size)
{
    const int64_t room = size + 2 * attr->padding[d] - covered(attr, d);
    if (room < 0 && (!attr->ceil_mode || room <= -attr->stride[d]))
        return 0;
    int64_t count = (room + (attr->ceil_mode ? attr->stride[d] - 1 : 0)) / attr->stride[d] + 1;
    if (attr->ceil_mode && (count - 1) * attr->stride[d] >= size + attr->padding[d])
        count--;
    return count;
}

static bool measure(core_call *call, const int64_t *x_dims, int64_t dims[4])
{
    const tern_attr_pool *attr = core_attr(call);
    dims[0] = x_dims[0];
    dims[1] = x_dims[1];
    for (int d = 0; d < 2; d++)
        dims[2 + d] = results(attr, d, x_dims[2 + d]);
    if (dims[2] > 0 && dims[3] > 0)
        return true;
    return core_fail(
        call, TERN_ERR_SHAPE, NULL,
        "given input size: (%lldx%lldx%lld), calculated output size: (%lldx%lldx%lld); "
        "output size is too small",
        (long long)x_dims[1], (long long)x_dims[2], (long long)x_dims[3], (long long)dims[1],
        (long long)dims[2], (long long)dims[3]);
}

static bool check_x(core_call *call, const tern_view *x)
{
    char shape[160];
    const bool empty = x->ndim == 4 && (x->shape[1] == 0 || x->shape[2] == 0 || x->shape[3] == 0);
    if (x->ndim == 4 && !empty)
        return true;
    return core_fail(call, TERN_ERR_SHAPE, NULL,
                     "expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for "
                     "input, but got: %s",
                     core_shape_text(x->ndim, x->shape, shape, sizeof shape));
}

static tern_dtype_t index_dtype(const tern_attr_pool *attr)
{
    return attr->kernel[0] * attr->kernel[1] <= 256 ? TERN_U8 : TERN_I32;
}

/* The gradient has the shape that attr->size pools to. */
static bool check_gradient(core_call *call, const tern_view *g)
{
    const tern_attr_pool *attr = core_attr(call);
    int64_t dims[4];
    if (!check_options(call, attr) || !measure(call, attr->size, dims))
        return false;
    bool fits = g->ndim == 4;
    for (int d = 0; fits && d < 4; d++)
        fits = g->shape[d] == dims[d];
    if (!fits)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "the gradient does not have the result's shape");
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

bool rule_max_pool2d(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    const tern_attr_pool *attr = core_attr(call);
    int64_t dims[4];
    if (!check_x(call, x) || !check_options(call, attr) || !measure(call, x->shape, dims))
        return false;
    if (attr->kernel[0] * attr->kernel[1] > INT32_MAX)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "the kernel has too many cells");
    const bool last = image_channels_last(x);
    return core_out_image(call, 0, (tern_dtype_t)x->dtype, dims, last) &&
           core_out_image(call, 1, index_dtype(attr), dims, last);
}

bool rule_avg_pool2d(core_call *call)
{
    const tern_view *x = core_view(call, 0);
    int64_t dims[4];
    if (!check_x(call, x) || !check_options(call, core_attr(call)) ||
        !measure(call, x->shape, dims))
        return false;
    return core_out_image(call, 0, (tern_dtype_t)x->dtype, dims, image_channels_last(x));
}

/* (gradient, index) -> gradient of x, in the index's layout */
bool rule_max_pool2d_grad(core_call *call)
{
    const tern_view *g = core_view(call, 0), *index = core_view(call, 1);
    const tern_attr_pool *attr = core_attr(call);
    if (!check_gradient(call, g) || !core_check_dtype(call, 1, B(index_dtype(attr))))
        return false;
    if (!core_view_same_shape(g, index))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "gradient and index differ in shape");
    return core_out_image(call, 0, (tern_dtype_t)g->dtype, attr->size, image_channels_last(index));
}

/* gradient -> gradient of x, in the gradient's layout */
bool rule_avg_pool2d_grad(core_call *call)
{
    const tern_view *g = core_view(call, 0);
    const tern_attr_pool *attr = core_attr(call);
    if (!check_gradient(call, g))
        return false;
    return core_out_image(call, 0, (tern_dtype_t)g->dtype, attr->size, image_channels_last(g));
}

/* ---- backward -------------------------------------------------------------------------------- */

static tern_attr_pool attr_for_gradient(tern_op_ctx *ctx)
{
    tern_attr_pool attr = core_ctx_attr(ctx, tern_attr_pool);
    const tern_view *x = core_input_view(ctx, 0);
    for (int d = 0; d < 4; d++)
        attr.size[d] = x->shape[d];
    return attr;
}

void back_max_pool2d(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_pool attr = attr_for_gradient(ctx);
    grad_in[0] = core_op2(TERN_OP_max_pool2d_grad, TERN_HERE, &attr, grad, core_saved_out(ctx, 1));
}

/* The layout that x had is worth a copy of the smaller gradient: whatever comes next has it too. */
void back_avg_pool2d(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_pool attr = attr_for_gradient(ctx);
    if (image_channels_last(core_input_view(ctx, 0)))
        grad = tern_to(grad, .format = TERN_FORMAT_CHANNELS_LAST);
    grad_in[0] = core_op1(TERN_OP_avg_pool2d_grad, TERN_HERE, &attr, grad);
}

void back_avg_pool2d_grad(tern_op_ctx *ctx, tern_tensor *u, tern_tensor **grad_in)
{
    tern_attr_pool attr = core_ctx_attr(ctx, tern_attr_pool);
    grad_in[0] = core_op1(TERN_OP_avg_pool2d, TERN_HERE, &attr, u);
}

/* [rows, columns] of row * row_step + column * column_step + start, i64. */
static tern_tensor *grid(tern_dev_t dev, int64_t rows, int64_t row_step, int64_t columns,
                         int64_t column_step, int64_t start)
{
    tern_tensor *row = core_numbers_to(dev, rows);
    tern_tensor *column = core_numbers_to(dev, columns);
    row = tern_add(tern_mul(tern_view(row, TERN_SHAPE(rows, 1)), row_step), start);
    return tern_add(row, tern_mul(column, column_step));
}

/* [count]: which windows along d have a cell inside. */
static tern_tensor *windows_inside(tern_dev_t dev, const tern_attr_pool *attr, int d, int64_t count)
{
    tern_tensor *cell =
        grid(dev, count, attr->stride[d], attr->kernel[d], attr->dilation[d], -attr->padding[d]);
    tern_tensor *inside = tern_logical_and(tern_ge(cell, 0), tern_lt(cell, attr->size[2 + d]));
    return tern_any(inside, .dims = TERN_DIMS(1));
}

/* [rows, columns]: which windows have a cell inside; NULL: all of them. Only padding and steps wider
 * than x take a window around it. */
static tern_tensor *windows_that_count(tern_dev_t dev, const tern_attr_pool *attr, int64_t rows,
                                       int64_t columns)
{
    bool may_miss = false;
    for (int d = 0; d < 2; d++)
        may_miss = may_miss || (attr->padding[d] > 0 && attr->dilation[d] > attr->size[2 + d]);
    if (!may_miss)
        return NULL;
    tern_tensor *row = windows_inside(dev, attr, 0, rows);
    tern_tensor *column = windows_inside(dev, attr, 1, columns);
    return tern_logical_and(tern_view(row, TERN_SHAPE(rows, 1)), column);
}

/* The row is linear in the gradient: it goes back from the cells that it went to. Their places in a
 * plane are the window's corner plus what the index says. */
void back_max_pool2d_grad(tern_op_ctx *ctx, tern_tensor *u, tern_tensor **grad_in)
{
    const tern_attr_pool attr = core_ctx_attr(ctx, tern_attr_pool);
    tern_tensor *index = core_saved_in(ctx, 1);
    if (index == NULL)
        return;
    const tern_shape_t shape = tern_shape(index);
    const int64_t *dims = shape.dims, width = attr.size[3];
    const tern_dev_t dev = tern_device(index);
    tern_tensor *corner = grid(dev, dims[2], attr.stride[0] * width, dims[3], attr.stride[1],
                               -(attr.padding[0] * width + attr.padding[1]));
    tern_tensor *cell =
        grid(dev, attr.kernel[0], attr.dilation[0] * width, attr.kernel[1], attr.dilation[1], 0);
    cell = tern_embedding(tern_reshape(cell, TERN_SHAPE(attr.kernel[0] * attr.kernel[1])),
                          tern_cast(index, TERN_I64));
    tern_tensor *place = tern_add(cell, corner);
    tern_tensor *counts = windows_that_count(dev, &attr, dims[2], dims[3]);
    if (counts != NULL)
        place = tern_where(counts, place, 0);
    place = tern_reshape(place, TERN_SHAPE(dims[0], dims[1], dims[2] * dims[3]));
    tern_tensor *planes = tern_reshape(u, TERN_SHAPE(dims[0], dims[1], attr.size[2] * width));
    grad_in[0] = tern_reshape(tern_gather(planes, 2, place), shape);
    if (counts != NULL)
        grad_in[0] = tern_where(counts, grad_in[0], 0.0);
}
