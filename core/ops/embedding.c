/* embedding: rows of a table by their numbers. The gradient adds rows into zeros. */
#include "core/op_table.h"
#include "core/option.h"

/* The row that the options leave out, -1: none, -2: there is no such row. */
static int64_t padding_of(const tern_embedding_args *args)
{
    const int ndim = args->weight != NULL ? tern_ndim(args->weight) : 0;
    const int64_t rows = ndim > 0 ? tern_size(args->weight, 0) : 0;
    if (!args->padding || ndim == 0)
        return -1;
    const int64_t index = core_index_meant(args->padding_idx),
                  row = index < 0 ? index + rows : index;
    return row >= 0 && row < rows ? row : -2;
}

tern_tensor *tern_embedding_at(tern_site_t site, const tern_embedding_args *given)
{
    const tern_embedding_args *args = core_options(given);
    tern_attr_embedding attr = { .padding = padding_of(args) };
    if (!core_check_switch(site, "embedding", "padding_idx", args->padding_idx, "padding",
                           args->padding, 0))
        return NULL;
    if (attr.padding == -2) {
        tern_fail_at(site, TERN_ERR_INDEX, "embedding",
                     "padding_idx %lld is outside the table, which has %lld rows, numbered from 0",
                     (long long)args->padding_idx, (long long)tern_size(args->weight, 0));
        return NULL;
    }
    return core_op2(TERN_OP_embedding, site, &attr, args->weight, args->indices);
}

static bool check_indices(core_call *call)
{
    const tern_dtype_t dtype = (tern_dtype_t)core_view(call, 1)->dtype;
    if (dtype == TERN_I64 || dtype == TERN_I32)
        return true;
    const bool swapped = tern_dtype_is_int((tern_dtype_t)core_view(call, 0)->dtype);
    return core_fail(call, TERN_ERR_DTYPE,
                     swapped ? "tern_embedding(weight, indices): the table comes first"
                             : "tern_cast(indices, TERN_I64)",
                     "indices are %s; they have to be i64 or i32", tern_dtype_name(dtype));
}

bool rule_embedding(core_call *call)
{
    const tern_view *weight = core_view(call, 0);
    const tern_view *indices = core_view(call, 1);
    tern_attr_embedding *attr = core_attr(call);
    if (!check_indices(call))
        return false;
    if (weight->ndim < 1)
        return core_fail(call, TERN_ERR_SHAPE, NULL, "the table has no rows: it is 0-dim");
    const int ndim = indices->ndim + weight->ndim - 1;
    if (ndim > TERN_MAX_DIMS)
        return core_fail(call, TERN_ERR_SHAPE, "tern_flatten on the indices",
                         "the result would have %d dimensions, %d is the most", ndim,
                         TERN_MAX_DIMS);
    int64_t dims[TERN_MAX_DIMS];
    for (int d = 0; d < indices->ndim; d++)
        dims[d] = indices->shape[d];
    for (int d = 1; d < weight->ndim; d++)
        dims[indices->ndim + d - 1] = weight->shape[d];
    attr->rows = weight->shape[0];
    return core_out(call, 0, (tern_dtype_t)weight->dtype, ndim, dims);
}

/* (gradient, indices) -> gradient of the table, attr->size rows */
bool rule_embedding_grad(core_call *call)
{
    const tern_view *g = core_view(call, 0);
    const tern_view *indices = core_view(call, 1);
    const tern_attr_dim *attr = core_attr(call);
    if (!core_check_dtype(call, 0, DT_FLOATS) || !check_indices(call))
        return false;
    bool fits = g->ndim >= indices->ndim && g->ndim - indices->ndim < TERN_MAX_DIMS;
    for (int d = 0; fits && d < indices->ndim; d++)
        fits = g->shape[d] == indices->shape[d];
    if (!fits)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "the gradient does not begin with the indices' shape");
    int64_t dims[TERN_MAX_DIMS] = { attr->size };
    for (int d = indices->ndim; d < g->ndim; d++)
        dims[d - indices->ndim + 1] = g->shape[d];
    return core_out(call, 0, (tern_dtype_t)g->dtype, g->ndim - indices->ndim + 1, dims);
}

/* The row of padding is written afterwards: no backend has to know of it, and a second gradient passes here, too. */
void back_embedding(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_attr_embedding attr = core_ctx_attr(ctx, tern_attr_embedding);
    tern_attr_dim of_grad = { .size = attr.rows };
    tern_tensor *sums =
        core_op2(TERN_OP_embedding_grad, TERN_HERE, &of_grad, grad, core_saved_in(ctx, 1));
    if (attr.padding >= 0)
        (void)tern_fill(tern_select(sums, 0, attr.padding), 0);
    grad_in[0] = sums;
}

void back_embedding_grad(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_embedding(grad, core_saved_in(ctx, 1));
}
