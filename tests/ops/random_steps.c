/* See random_steps.h. */
#include "tests/ops/random_steps.h"

#include <stdlib.h>

#include "core/call.h"
#include "core/op_table.h"

/* clang-format off */
static const char *const kind_names[GRAPH_KINDS] = {
    [GRAPH_SWAP] = "transpose",     [GRAPH_SLICE] = "slice",     [GRAPH_FLAT] = "flatten",
    [GRAPH_GROW] = "unsqueeze",     [GRAPH_MATMUL] = "matmul",   [GRAPH_INNER] = "einsum",
    [GRAPH_CAT] = "cat",            [GRAPH_WHERE] = "where",     [GRAPH_WRITE] = "write",
    [GRAPH_NORM] = "layer_norm",    [GRAPH_SORT] = "sort",       [GRAPH_CONV2D] = "conv2d",
    [GRAPH_CONV1D] = "conv1d",      [GRAPH_CONV_SPREAD] = "conv_transpose2d",
    [GRAPH_MAX_POOL] = "max_pool2d",                [GRAPH_AVG_POOL] = "avg_pool2d",
    [GRAPH_MAX_ADAPTIVE] = "adaptive_max_pool2d",   [GRAPH_AVG_ADAPTIVE] = "adaptive_avg_pool2d",
    [GRAPH_RESIZE] = "bilinear",    [GRAPH_RESIZE_NEAREST] = "nearest",
    [GRAPH_SELECT] = "index_select", [GRAPH_GATHER] = "gather",  [GRAPH_SCATTER] = "scatter",
    [GRAPH_SCATTER_ADD] = "scatter_add",            [GRAPH_EMBED] = "embedding",
    [GRAPH_PUT] = "index_put",      [GRAPH_FILL] = "masked_fill", [GRAPH_PICK] = "masked_select",
};
/* clang-format on */

const char *graph_step_name(const graph_step *s)
{
    return kind_names[s->kind] != NULL ? kind_names[s->kind] : core_op_table[s->id].name;
}

/* ---- what steps number -------------------------------------------------------------------------- */

static int64_t times(tern_shape_t shape)
{
    int64_t numel = 1;
    for (int d = 0; d < shape.ndim; d++)
        numel *= shape.dims[d];
    return numel;
}

/* (first + pace k) modulo size for each k of a shape. */
static tern_tensor *numbers(tern_shape_t shape, int64_t first, int64_t pace, int64_t size,
                            tern_dev_t dev)
{
    const int64_t numel = times(shape);
    int64_t *data = malloc((size_t)(numel > 0 ? numel : 1) * sizeof *data);
    if (data == NULL || size < 1 || numel < 1) {
        free(data);
        return NULL;
    }
    for (int64_t k = 0; k < numel; k++)
        data[k] = (first + pace * k) % size;
    tern_tensor *t = tern_from_data(data, shape, TERN_I64, .device = dev);
    free(data);
    return t;
}

/* t's elements in row-major order, from the start again where they do not suffice. */
static tern_tensor *elements(tern_tensor *t, tern_shape_t shape)
{
    tern_tensor *index = numbers(TERN_SHAPE(times(shape)), 0, 1, tern_numel(t), tern_device(t));
    if (index == NULL)
        return NULL;
    return tern_reshape(tern_index_select(tern_reshape(t, TERN_SHAPE(-1)), 0, index), shape);
}

static tern_tensor *image(tern_tensor *t, int ndim)
{
    while (t != NULL && tern_ndim(t) < ndim)
        t = tern_unsqueeze(t, 0);
    return t != NULL && tern_ndim(t) == ndim ? t : NULL;
}

/* a's extents, but `count` along dim. */
static tern_shape_t shape_along(const tern_tensor *a, int dim, int64_t count)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = tern_ndim(a) };
    for (int d = 0; d < shape.ndim; d++)
        shape.dims[d] = d == dim ? count : tern_size(a, d);
    return shape;
}

/* ---- steps of each family ------------------------------------------------------------------------ */

static tern_tensor *written(tern_tensor *a, tern_tensor *b, const int64_t *n)
{
    tern_tensor *y = tern_clone(a);
    tern_tensor *part = tern_slice(y, (int)n[0], n[1], n[2]);
    return tern_mul_(part, b) != NULL ? y : NULL;
}

static tern_tensor *run_row(const graph_step *s, tern_tensor *a, tern_tensor *b)
{
    const tern_op_id id = (tern_op_id)s->id;
    const uint32_t dims = s->n[0] < 0 ? 0 : 1u << s->n[0]; /* a triangle's number may be negative */
    tern_attr_reduce reduce = { .dims = dims, .keepdim = (int)s->n[1], .correction = 1 };
    tern_attr_dim along = { .dim = (int)s->n[0] };
    tern_attr_scan scan = { .dim = (int)s->n[0] };
    tern_attr_triangle part = { .diagonal = s->n[0] };
    switch (s->kind) {
    case GRAPH_ROW1:
        return core_op1(id, TERN_HERE, NULL, a);
    case GRAPH_ROW2:
        return core_op2(id, TERN_HERE, NULL, a, b);
    case GRAPH_REDUCE:
        return core_op1(id, TERN_HERE, &reduce, a);
    case GRAPH_ALONG:
        return core_op1(id, TERN_HERE, &along, a);
    case GRAPH_SCAN:
        return core_op1(id, TERN_HERE, &scan, a);
    default:
        return core_op1(id, TERN_HERE, &part, a);
    }
}

static tern_tensor *run_shape(const graph_step *s, tern_tensor *a, tern_tensor *b, tern_tensor *c)
{
    const int64_t *n = s->n;
    switch (s->kind) {
    case GRAPH_SWAP:
        return tern_transpose(a, (int)n[0], (int)n[1]);
    case GRAPH_SLICE:
        return tern_slice(a, (int)n[0], n[1], n[2], n[3]);
    case GRAPH_FLAT:
        return tern_reshape(a, TERN_SHAPE(-1));
    case GRAPH_GROW:
        return tern_unsqueeze(a, (int)n[0]);
    case GRAPH_MATMUL:
        return tern_matmul(a, b);
    case GRAPH_INNER:
        return tern_einsum("...i,...i->...", a, b);
    case GRAPH_CAT:
        return tern_cat((int)n[0], a, b);
    case GRAPH_WHERE:
        return tern_where(tern_gt(a, b), c, a);
    case GRAPH_WRITE:
        return written(a, b, n);
    case GRAPH_SORT:
        return tern_sort(a, (int)n[0], n[1] != 0, NULL);
    default:
        return tern_size(a, -1) > 2 ? tern_layer_norm(a) : NULL; /* of two, signs are left */
    }
}

static tern_tensor *run_convolution(const graph_step *s, tern_tensor *a, tern_tensor *b,
                                    tern_tensor *c)
{
    const int64_t *n = s->n;
    tern_tensor *x = image(a, s->kind == GRAPH_CONV1D ? 3 : 4);
    if (x == NULL)
        return NULL;
    const int64_t in = tern_size(x, 1), groups = n[5] != 0 && in % 2 == 0 ? 2 : 1;
    const int64_t out = n[0] * groups;
    tern_tensor *bias = elements(c, TERN_SHAPE(out));
    if (s->kind == GRAPH_CONV1D)
        return tern_conv1d(x, elements(b, TERN_SHAPE(out, in / groups, n[1])), bias, .stride = n[2],
                           .padding = n[3], .dilation = n[4], .groups = groups);
    if (s->kind == GRAPH_CONV2D)
        return tern_conv2d(x, elements(b, TERN_SHAPE(out, in / groups, n[1], n[1])), bias,
                           .stride = { n[2] }, .padding = { n[3] }, .dilation = { n[4] },
                           .groups = groups);
    return tern_conv_transpose2d(x, elements(b, TERN_SHAPE(in, n[0], n[1], n[1])), bias,
                                 .stride = { n[2] }, .padding = { n[3] },
                                 .output_padding = { n[4] }, .groups = groups);
}

static tern_tensor *run_image(const graph_step *s, tern_tensor *a, tern_tensor *b, tern_tensor *c)
{
    const int64_t *n = s->n;
    if (s->kind <= GRAPH_CONV_SPREAD)
        return run_convolution(s, a, b, c);
    tern_tensor *x = image(a, 4);
    if (x == NULL)
        return NULL;
    switch (s->kind) {
    case GRAPH_MAX_POOL:
        return tern_max_pool2d(x, { n[0] }, .stride = { n[1] }, .padding = { n[2] },
                               .dilation = { n[3] }, .ceil_mode = n[4] != 0);
    case GRAPH_AVG_POOL:
        return tern_avg_pool2d(x, { n[0] }, .stride = { n[1] }, .padding = { n[2] },
                               .exclude_pad = n[3] != 0, .ceil_mode = n[4] != 0);
    case GRAPH_MAX_ADAPTIVE:
        return tern_adaptive_max_pool2d(x, { n[0], n[1] });
    case GRAPH_AVG_ADAPTIVE:
        return tern_adaptive_avg_pool2d(x, { n[0], n[1] });
    case GRAPH_RESIZE:
        return tern_interpolate(x, { n[0], n[1] }, .mode = TERN_BILINEAR,
                                .align_corners = n[2] != 0);
    default:
        return tern_interpolate(x, { n[0], n[1] }, .mode = TERN_NEAREST);
    }
}

static tern_tensor *run_index(const graph_step *s, tern_tensor *a, tern_tensor *b)
{
    const int64_t *n = s->n, count = n[1];
    if (tern_ndim(a) == 0)
        return NULL;
    const int dim = s->kind == GRAPH_EMBED || s->kind == GRAPH_PUT ? 0 : (int)n[0];
    const int64_t size = tern_size(a, dim);
    const tern_dev_t dev = tern_device(a);
    const tern_shape_t flat = TERN_SHAPE(count), full = shape_along(a, dim, count);
    switch (s->kind) {
    case GRAPH_SELECT:
        return tern_index_select(a, dim, numbers(flat, n[2], n[3], size, dev));
    case GRAPH_GATHER:
        return tern_gather(a, dim, numbers(full, n[2], n[3], size, dev));
    case GRAPH_SCATTER_ADD:
        return tern_scatter_add(a, dim, numbers(full, n[2], n[3], size, dev), elements(b, full));
    case GRAPH_EMBED:
        return tern_embedding(a, numbers(flat, n[2], n[3], size, dev));
    case GRAPH_PUT:
        return tern_index_put(a, tern_mean(b), true, numbers(flat, n[2], n[3], size, dev));
    default:
        break;
    }
    if (count > size) /* places have to differ */
        return NULL;
    tern_shape_t line = { .set_ = TERN_GIVEN_, .ndim = tern_ndim(a) };
    for (int d = 0; d < line.ndim; d++)
        line.dims[d] = d == dim ? count : 1;
    tern_tensor *index = tern_expand(tern_reshape(numbers(flat, n[2], 1, size, dev), line), full);
    return tern_scatter(a, dim, index, elements(b, full));
}

static tern_tensor *run_mask(const graph_step *s, tern_tensor *a)
{
    const tern_shape_t shape = tern_shape(a);
    tern_tensor *mask = tern_eq(numbers(shape, s->n[2], 1, s->n[3], tern_device(a)), 0);
    return s->kind == GRAPH_FILL ? tern_masked_fill(a, mask, (double)s->n[1])
                                 : tern_masked_select(a, mask);
}

tern_tensor *graph_step_run(const graph_step *s, tern_tensor *const *t)
{
    tern_tensor *a = t[s->from[0]], *b = t[s->from[1]], *c = t[s->from[2]];
    if (s->kind < GRAPH_SWAP)
        return run_row(s, a, b);
    if (s->kind < GRAPH_CONV2D)
        return run_shape(s, a, b, c);
    if (s->kind < GRAPH_SELECT)
        return run_image(s, a, b, c);
    return s->kind < GRAPH_FILL ? run_index(s, a, b) : run_mask(s, a);
}
