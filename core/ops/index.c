/* index, index_put: by lists of tensors of numbers. These become one number of a row for each place,
 * index_select and scatter do the rest. one_hot. */
#include <string.h>

#include "core/compose.h"
#include "core/op_table.h"
#include "core/promote.h"
#include "core/rules.h"

typedef struct lookup {
    tern_tensor *index[TERN_MAX_DIMS]; /* of x's dimensions; NULL: whole */
    int first, count;                  /* the first that is numbered, how many are */
    bool together;
    tern_shape_t places; /* in which the indices meet */
} lookup;

/* ---- reading the list -------------------------------------------------------------------------- */

/* The error shows the operand, which is no input of the call: the row's second. */
static bool elsewhere(const core_call *call, tern_op_id row, tern_tensor *t)
{
    core_call shown = *call;
    shown.op = &core_op_table[row];
    shown.n_in = 2;
    shown.in[1] = t;
    return core_mixed_devices(&shown);
}

/* As in PyTorch the CPU's indices come to a device's x; others lie where x does. */
static bool may_come(const tern_view *x, const tern_tensor *index)
{
    return index->view.dev.kind == TERN_KIND_CPU || tern_dev_equal(index->view.dev, x->dev);
}

/* A mask of dimensions d, d + 1, ... becomes numbers for each, where the mask is: the host waits for no device
 * to count its own. */
static bool take_mask(core_call *call, const tern_view *x, tern_tensor *mask, int d, lookup *l)
{
    char whole[160], part[160];
    const tern_view *m = &mask->view;
    bool fits = m->ndim > 0 && d + m->ndim <= x->ndim;
    for (int k = 0; fits && k < m->ndim; k++)
        fits = m->shape[k] == x->shape[d + k];
    if (!fits)
        return core_fail(call, TERN_ERR_INDEX, NULL,
                         "a mask of shape %s for dimension %d and on of %s",
                         core_shape_text(m->ndim, m->shape, part, sizeof part), d,
                         core_shape_text(x->ndim, x->shape, whole, sizeof whole));
    tern_tensor *where = tern_to(tern_nonzero(mask), x->dev);
    for (int k = 0; where != NULL && k < m->ndim; k++)
        l->index[d + k] = tern_select(where, 1, k);
    return where != NULL;
}

static bool take_one(core_call *call, const tern_view *x, tern_tensor *index, int *d, lookup *l)
{
    const tern_dtype_t dtype = tern_dtype(index);
    if (!may_come(x, index))
        return elsewhere(call, TERN_OP_index, index);
    if (dtype == TERN_BOOL) {
        const int from = *d;
        *d += index->view.ndim;
        return take_mask(call, x, index, from, l);
    }
    if (dtype != TERN_I64 && dtype != TERN_I32)
        return core_fail(call, TERN_ERR_DTYPE, "tern_cast(index, TERN_I64)",
                         "the index of dimension %d is %s; it has to be i64, i32 or bool", *d,
                         tern_dtype_name(dtype));
    if (*d >= x->ndim)
        return core_fail(call, TERN_ERR_INDEX, NULL, "more indices than the %d dimensions of x",
                         x->ndim);
    l->index[(*d)++] = tern_to(index, x->dev, .dtype = TERN_I64);
    return !tern_failed();
}

/* In which shape all meet, and how they stand. */
static bool meet(core_call *call, lookup *l)
{
    tern_view shape = { 0 };
    int last = -1;
    for (int d = 0; d < TERN_MAX_DIMS; d++) {
        if (l->index[d] == NULL)
            continue;
        if (l->count++ == 0) {
            l->first = d;
            shape = l->index[d]->view;
        } else if (!core_broadcast(call, &shape, &l->index[d]->view, &l->places.ndim,
                                   l->places.dims)) {
            return false;
        } else {
            shape.ndim = (uint8_t)l->places.ndim;
            memcpy(shape.shape, l->places.dims, sizeof l->places.dims);
        }
        last = d;
    }
    l->places.set_ = TERN_GIVEN_;
    l->places.ndim = shape.ndim;
    memcpy(l->places.dims, shape.shape, sizeof l->places.dims);
    l->together = last - l->first + 1 == l->count;
    return true;
}

static bool read_list(core_call *call, tern_tensor *const *indices, int64_t count, lookup *l)
{
    const tern_view *x = core_view(call, 0);
    int d = 0;
    memset(l, 0, sizeof *l);
    for (int64_t i = 0; indices != NULL && i < count; i++) {
        if (indices[i] == NULL && d < x->ndim)
            d++;
        else if (indices[i] == NULL)
            return core_fail(call, TERN_ERR_INDEX, NULL, "more indices than the %d dimensions of x",
                             x->ndim);
        else if (!take_one(call, x, indices[i], &d, l))
            return false;
    }
    if (!meet(call, l))
        return false;
    if (l->count == 0)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "at least one index is needed");
    if (x->ndim - l->count + l->places.ndim > TERN_MAX_DIMS)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "the result would have more than %d dimensions", TERN_MAX_DIMS);
    return !tern_failed();
}

/* ---- rows -------------------------------------------------------------------------------------- */

/* 1-D: for each place the number of what is taken, in the dimensions that are numbered as one. */
static tern_tensor *numbers_of(const lookup *l, const tern_view *x)
{
    tern_tensor *sum = NULL;
    for (int d = 0; d < x->ndim; d++) {
        if (l->index[d] == NULL)
            continue;
        tern_attr_dim attr = { .dim = d, .size = x->shape[d] };
        sum = core_op2(TERN_OP_index_offset, TERN_HERE, &attr, tern_expand(l->index[d], l->places),
                       sum);
        if (sum == NULL)
            return NULL;
    }
    return tern_reshape(sum, TERN_SHAPE(-1));
}

/* The numbered dimensions first; where one alone is, it stays. */
static void front_order(const lookup *l, int ndim, tern_dims_t *order)
{
    *order = (tern_dims_t){ .set_ = TERN_GIVEN_ };
    for (int d = 0; d < ndim; d++)
        if (l->index[d] != NULL)
            order->dims[order->ndim++] = d;
    for (int d = 0; d < ndim; d++)
        if (l->index[d] == NULL)
            order->dims[order->ndim++] = d;
}

/* x with the numbered dimensions as one, at *out_dim. */
static tern_tensor *as_rows(const lookup *l, tern_tensor *x, int *out_dim)
{
    tern_dims_t order;
    *out_dim = l->count == 1 ? l->first : 0;
    if (l->count == 1)
        return x;
    front_order(l, x->view.ndim, &order);
    tern_shape_t rows = { .set_ = TERN_GIVEN_, .ndim = 1, .dims = { 1 } };
    for (int k = 0; k < order.ndim; k++) {
        const int64_t extent = x->view.shape[order.dims[k]];
        if (k < l->count)
            rows.dims[0] *= extent;
        else
            rows.dims[rows.ndim++] = extent;
    }
    return tern_reshape(tern_permute(x, order), rows);
}

/* Rows' shape with the places in the dimension's stead. */
static tern_shape_t placed_shape(const lookup *l, const tern_view *rows, int dim)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_ };
    for (int d = 0; d < rows->ndim; d++) {
        if (d != dim) {
            shape.dims[shape.ndim++] = rows->shape[d];
            continue;
        }
        for (int k = 0; k < l->places.ndim; k++)
            shape.dims[shape.ndim++] = l->places.dims[k];
    }
    return shape;
}

/* Where each dimension of the result stands among [places, others]. */
static bool moves_places(const lookup *l, int ndim, tern_dims_t *out_order)
{
    const int places = l->places.ndim;
    *out_order = (tern_dims_t){ .set_ = TERN_GIVEN_, .ndim = ndim };
    for (int d = 0; d < ndim; d++)
        out_order->dims[d] = d < l->first ? places + d : d < l->first + places ? d - l->first : d;
    return l->count > 1 && l->together && l->first > 0;
}

static tern_tensor *taken(const lookup *l, tern_tensor *x)
{
    int dim;
    tern_dims_t order;
    tern_tensor *rows = as_rows(l, x, &dim);
    if (rows == NULL)
        return NULL;
    tern_tensor *some = tern_index_select(rows, dim, numbers_of(l, &x->view));
    tern_tensor *out = tern_reshape(some, placed_shape(l, &rows->view, dim));
    return out != NULL && moves_places(l, out->view.ndim, &order) ? tern_permute(out, order) : out;
}

tern_tensor *tern_index_at(tern_site_t site, tern_tensor *x, tern_tensor *const *indices,
                           int64_t count)
{
    core_frame frame;
    lookup l;
    tern_tensor *out = NULL;
    core_compose_begin(&frame, TERN_OP_index, site, 1, &x);
    if (core_compose_check(&frame) && read_list(&frame.call, indices, count, &l))
        out = taken(&l, x);
    return core_compose_end(&frame, out);
}

/* ---- index_put --------------------------------------------------------------------------------- */

static tern_dims_t inverse(const tern_dims_t *order)
{
    tern_dims_t back = { .set_ = TERN_GIVEN_, .ndim = order->ndim };
    for (int d = 0; d < order->ndim; d++)
        back.dims[order->dims[d]] = d;
    return back;
}

/* Values in the shape of the rows that they go to. */
static tern_tensor *values_as_rows(const lookup *l, tern_tensor *values, const tern_view *rows,
                                   int dim)
{
    tern_dims_t order;
    tern_shape_t shape = placed_shape(l, rows, dim), result = shape;
    const bool moves = moves_places(l, shape.ndim, &order);
    for (int d = 0; moves && d < shape.ndim; d++)
        result.dims[d] = shape.dims[order.dims[d]];
    values = tern_expand(values, result);
    if (moves && values != NULL)
        values = tern_permute(values, inverse(&order));
    tern_shape_t flat = { .set_ = TERN_GIVEN_, .ndim = rows->ndim };
    for (int d = 0; d < rows->ndim; d++)
        flat.dims[d] = rows->shape[d];
    flat.dims[dim] = 1;
    for (int k = 0; k < l->places.ndim; k++)
        flat.dims[dim] *= l->places.dims[k];
    return values != NULL ? tern_reshape(values, flat) : NULL;
}

/* The rows that were put in where they came from. */
static tern_tensor *from_rows(const lookup *l, tern_tensor *rows, const tern_view *x)
{
    tern_dims_t order;
    if (l->count == 1 || rows == NULL)
        return rows;
    front_order(l, x->ndim, &order);
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = x->ndim };
    for (int d = 0; d < x->ndim; d++)
        shape.dims[d] = x->shape[order.dims[d]];
    return tern_contiguous(tern_permute(tern_reshape(rows, shape), inverse(&order)));
}

/* One dimension may be written where it is; several come back in a copy. */
static tern_tensor *put(const lookup *l, tern_tensor *x, tern_tensor *values, bool accumulate,
                        bool writes)
{
    int dim;
    tern_tensor *rows = as_rows(l, x, &dim);
    tern_tensor *from = rows != NULL ? values_as_rows(l, values, &rows->view, dim) : NULL;
    tern_tensor *numbers = from != NULL ? numbers_of(l, &x->view) : NULL;
    if (numbers == NULL)
        return NULL;
    numbers = core_spread_index(numbers, dim, &from->view);
    if (writes)
        return accumulate ? tern_scatter_add_(x, dim, numbers, from)
                          : tern_scatter_(x, dim, numbers, from);
    tern_tensor *out = accumulate ? tern_scatter_add(rows, dim, numbers, from)
                                  : tern_scatter(rows, dim, numbers, from);
    return from_rows(l, out, &x->view);
}

/* Behind the frame, when its views of x are gone: x may need a gradient. */
static tern_tensor *written(tern_site_t site, tern_tensor *x, tern_tensor *with)
{
    if (with == NULL)
        return NULL;
    tern_copy_args args = { .size_ = sizeof args, .dst = x, .src = with };
    tern_tensor *out = tern_copy_at(site, &args);
    if (core_self()->owned_mode)
        tern_release(with);
    else
        tern_drop(with);
    return out;
}

static tern_tensor *value_tensor(core_call *call, tern_tensor *x, tern_operand values)
{
    tern_tensor *t = values.value_.tensor;
    if (values.kind_ != 0)
        return core_require_number(call->self, call->site, call->op->name, values, tern_dtype(x))
                   ? core_number_like(x, values)
                   : NULL;
    if (t == NULL)
        core_fail(call, TERN_ERR_ARGUMENT, NULL, "the values are NULL");
    else if (t->view.dtype != x->view.dtype)
        core_fail(call, TERN_ERR_DTYPE, "tern_cast on the values", "x is %s and the values are %s",
                  tern_dtype_name(tern_dtype(x)), tern_dtype_name(tern_dtype(t)));
    else if (tern_dev_equal(t->view.dev, x->view.dev))
        return t;
    else if (core_is_host_scalar(t))
        return tern_to(t, x->view.dev);
    else
        elsewhere(call, TERN_OP_index_put, t);
    return NULL;
}

/* In a region x and the values may meet in another dtype, but not where x is written. */
static bool cast_both(core_frame *frame, tern_tensor **x, tern_operand *values)
{
    core_call *call = &frame->call;
    if (values->kind_ != 0 || values->value_.tensor == NULL)
        return true;
    call->in[call->n_in++] = values->value_.tensor;
    if (!core_compose_cast(frame))
        return false;
    *x = call->in[0];
    values->value_.tensor = call->in[1];
    return true;
}

static tern_tensor *index_put(tern_site_t site, tern_tensor *x, tern_operand values,
                              bool accumulate, tern_tensor *const *indices, int64_t count,
                              bool writes)
{
    core_frame frame;
    lookup l;
    tern_tensor *out = NULL;
    core_compose_begin(&frame, TERN_OP_index_put, site, 1, &x);
    if (core_compose_check(&frame) && (writes || cast_both(&frame, &x, &values))) {
        tern_tensor *t = value_tensor(&frame.call, x, values);
        const uint8_t autocast = frame.call.self->autocast;
        frame.call.self->autocast = 0; /* what is to be cast has been */
        if (!tern_failed() && read_list(&frame.call, indices, count, &l)) {
            const bool aside = writes && l.count > 1;
            tern_tensor *before = aside ? core_compose_before(&frame, x) : x;
            if (before != NULL)
                out = put(&l, before, t, accumulate, writes && !aside);
        }
        frame.call.self->autocast = autocast;
    }
    if (writes && (out == NULL || out == x)) {
        (void)core_compose_end(&frame, NULL);
        return out;
    }
    out = core_compose_end(&frame, out);
    return writes ? written(site, x, out) : out;
}

tern_tensor *tern_index_put_at(tern_site_t site, tern_tensor *x, tern_operand values,
                               bool accumulate, tern_tensor *const *indices, int64_t count)
{
    return index_put(site, x, values, accumulate, indices, count, false);
}

tern_tensor *tern_index_put_inplace_at(tern_site_t site, tern_tensor *x, tern_operand values,
                                       bool accumulate, tern_tensor *const *indices, int64_t count)
{
    return index_put(site, x, values, accumulate, indices, count, true);
}

/* (numbers, sum?) -> sum size + numbers */
bool rule_index_offset(core_call *call)
{
    const tern_view *index = core_view(call, 0);
    if (call->in[1] != NULL && !core_view_same_shape(index, core_view(call, 1)))
        return core_fail(call, TERN_ERR_SHAPE, NULL, "numbers and sums differ in shape");
    return core_out(call, 0, TERN_I64, index->ndim, index->shape);
}

/* ---- one_hot ----------------------------------------------------------------------------------- */

static bool count_classes(core_call *call, tern_tensor *index, int64_t *classes)
{
    if (*classes == 0 && index->view.numel == 0)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                         "the number of classes cannot be told from an empty index");
    if (*classes == 0) {
        const int64_t most = tern_item_int(tern_amax(index));
        *classes = most < INT64_MAX ? most + 1 : most; /* in either case too many */
    }
    if (tern_failed())
        return false;
    if (*classes < 1 || index->view.ndim == TERN_MAX_DIMS)
        return core_fail(call, *classes < 1 ? TERN_ERR_INDEX : TERN_ERR_SHAPE, NULL,
                         "%lld classes, and an index of %d dimensions", (long long)*classes,
                         index->view.ndim);
    return true;
}

tern_tensor *tern_one_hot_at(tern_site_t site, tern_tensor *index, int64_t classes)
{
    core_frame frame;
    tern_tensor *out = NULL;
    core_compose_begin(&frame, TERN_OP_one_hot, site, 1, &index);
    if (core_compose_check(&frame) && core_check_dtype(&frame.call, 0, B(TERN_I64) | B(TERN_I32)) &&
        count_classes(&frame.call, index, &classes)) {
        tern_shape_t shape = tern_shape(index);
        shape.dims[shape.ndim++] = classes;
        out = tern_zeros(shape, TERN_I64, tern_device(index));
        if (out != NULL)
            out = tern_scatter_(out, -1, tern_unsqueeze(index, -1), 1);
    }
    return core_compose_end(&frame, out);
}
