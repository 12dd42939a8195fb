/* embedding, gather, index_select, scatter and gradients. Bad indices are found by the kernels and reported at the next
 * wait. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"
#include "tern/error.h"

/* ---- embedding ------------------------------------------------------------------------------- */

tern_status_t cuda_embedding(const tern_call *call)
{
    cudaStream_t stream = NULL;
    cuda_fault_slot *slot = NULL;
    const tern_view *table = call->in[0], *indices = call->in[1], *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter_noting(call, &stream, &slot));
    return cuda_launched(
        call,
        cuda_launch_embedding(out->data, table->data, indices->data, indices->dtype,
                              table->shape[0], out->numel / indices->numel,
                              cuda_dtype_size(table->dtype), indices->numel, slot, stream),
        "embedding");
}

/* ---- gather ---------------------------------------------------------------------------------- */

/* Part `i` of a gather or scatter, of all that it returns. The sparse operand as the walk sees it: the index's shape,
 * no step along its own dimension. The order is that of the dense one's memory. */
static int64_t plan_gather(cuda_gather_args *g, cuda_walk_part *part, int64_t i, int dim,
                           const tern_view *index, const tern_view *dense, const tern_view *sparse)
{
    tern_view shaped = *index;
    for (int d = 0; d < index->ndim; d++)
        shaped.stride[d] = d == dim ? 0 : sparse->stride[d];
    const tern_view *const views[3] = { dense, index, &shaped };
    cuda_walk_plan(3, views, i, part);
    for (int d = 0; d < part->walk.ndim; d++) {
        const int64_t step = part->walk.stride[d][0];
        part->walk.stride[d][0] = part->walk.stride[d][1];
        part->walk.stride[d][1] = step;
    }
    g->index_start = part->offset[1];
    g->index = (const int64_t *)index->data + g->index_start;
    g->walk = &part->walk;
    g->far_stride = index->ndim > 0 ? sparse->stride[dim] : 0;
    g->far_size = index->ndim > 0 ? sparse->shape[dim] : 1;
    return cuda_walk_parts(3, views);
}

static void *element(const tern_view *view, int64_t i)
{
    return view->data != NULL ? (char *)view->data + i * cuda_dtype_size(view->dtype) : NULL;
}

static tern_status_t gather(const tern_call *call, const tern_view *index, const char *name)
{
    cudaStream_t stream = NULL;
    cuda_fault_slot *slot = NULL;
    const tern_view *in = call->in[0], *out = call->out[0];
    const int dim = ((const tern_attr_dim *)call->attr)->dim;
    int64_t i = 0, parts;
    if (out->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter_noting(call, &stream, &slot));
    do {
        cuda_walk_part part;
        cuda_gather_args g = { .slot = slot };
        parts = plan_gather(&g, &part, i, dim, index, out, in);
        g.out = element(out, part.offset[0]);
        g.in = element(in, part.offset[2]);
        CUDA_TRY(
            cuda_launched(call, cuda_launch_gather(&g, cuda_dtype_size(in->dtype), stream), name));
    } while (++i < parts);
    return TERN_OK;
}

tern_status_t cuda_gather(const tern_call *call)
{
    return gather(call, call->in[1], "gather");
}

/* The index in the result's shape, repeated along all dimensions but its own. */
tern_status_t cuda_index_select(const tern_call *call)
{
    const int dim = ((const tern_attr_dim *)call->attr)->dim;
    const tern_view *out = call->out[0];
    tern_view index = *call->in[1];
    const int64_t step = index.ndim > 0 ? index.stride[0] : 0;
    index.ndim = out->ndim;
    index.numel = out->numel;
    index.flags = 0;
    for (int d = 0; d < out->ndim; d++) {
        index.shape[d] = out->shape[d];
        index.stride[d] = d == dim ? step : 0;
    }
    return gather(call, &index, "index_select");
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* A thread for each line along `dim`, where results have to repeat. */
static int64_t plan_lines(cuda_gather_args *g, cuda_walk_part *part, int64_t i, int dim,
                          const tern_view *index, const tern_view *dense, const tern_view *sparse)
{
    tern_view numbers = *index, values = *dense, places = *sparse;
    if (index->ndim == 0) {
        g->line = (cuda_gather_line){ .count = 1 };
        return plan_gather(g, part, i, 0, index, dense, sparse);
    }
    numbers.numel = index->numel / index->shape[dim];
    numbers.shape[dim] = values.shape[dim] = places.shape[dim] = 1;
    const int64_t parts = plan_gather(g, part, i, dim, &numbers, &values, &places);
    g->far_size = sparse->shape[dim];
    g->line = (cuda_gather_line){ .count = index->shape[dim],
                                  .index_step = index->stride[dim],
                                  .step = dense->stride[dim] };
    return parts;
}

static bool repeats(const tern_call *call)
{
    return (call->host->numerics() & TERN_NUMERICS_DETERMINISTIC) != 0;
}

/* Writes src's elements to `to`, or adds them. */
static tern_status_t scatter(const tern_call *call, int dim, const tern_view *index,
                             const tern_view *src, const tern_view *to, bool adds, const char *name)
{
    cudaStream_t stream = NULL;
    cuda_fault_slot *slot = NULL;
    int64_t i = 0, parts;
    if (src->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter_noting(call, &stream, &slot));
    do {
        cuda_walk_part part;
        cuda_gather_args g = { .slot = slot };
        parts = (repeats(call) ? plan_lines : plan_gather)(&g, &part, i, dim, index, src, to);
        g.in = element(src, part.offset[0]);
        g.out = element(to, part.offset[2]);
        const cudaError_t code = adds
                                     ? cuda_launch_scatter_add(&g, src->dtype, stream)
                                     : cuda_launch_scatter(&g, cuda_dtype_size(src->dtype), stream);
        CUDA_TRY(cuda_launched(call, code, name));
    } while (++i < parts);
    return TERN_OK;
}

static tern_status_t copy_to(const tern_call *call, const tern_view *out, const tern_view *from)
{
    const tern_view *in[1] = { from }, *to[1] = { out };
    tern_call copy = *call;
    copy.n_in = copy.n_out = 1;
    copy.in = in;
    copy.out = to;
    return cuda_copy(&copy);
}

static bool is_same(const tern_view *a, const tern_view *b)
{
    bool same = a->data == b->data;
    for (int d = 0; d < a->ndim; d++)
        same = same && (a->stride[d] == b->stride[d] || a->shape[d] == 1);
    return same;
}

/* What the device adds a dtype in. */
static int sum_dtype(int dtype)
{
    switch (dtype) {
    case TERN_F64:
    case TERN_I64:
        return dtype;
    case TERN_F32:
    case TERN_F16:
    case TERN_BF16:
        return TERN_F32;
    default:
        return TERN_I32;
    }
}

/* Where is added: the output, or scratch memory of the wider dtype in the output's order. */
static tern_status_t sums_view(const tern_call *call, tern_view *sums)
{
    const tern_view *out = call->out[0];
    *sums = *out;
    sums->dtype = (uint8_t)sum_dtype(out->dtype);
    if (sums->dtype == out->dtype)
        return TERN_OK;
    int64_t stride = 1;
    for (int d = out->ndim - 1; d >= 0; d--) {
        sums->stride[d] = stride;
        stride *= out->shape[d];
    }
    sums->flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE;
    sums->data = cuda_scratch(call, out->numel * cuda_dtype_size(sums->dtype));
    return sums->data != NULL ? TERN_OK : TERN_ERR_OOM;
}

/* The same, zero. */
static tern_status_t zero_sums(const tern_call *call, tern_view *sums)
{
    cudaStream_t stream = NULL;
    CUDA_TRY(sums_view(call, sums));
    CUDA_TRY(cuda_enter(call, &stream));
    const size_t bytes = (size_t)(sums->numel * cuda_dtype_size(sums->dtype));
    return cuda_check(call->dev.index, cudaMemsetAsync(sums->data, 0, bytes, stream),
                      "cudaMemsetAsync");
}

tern_status_t cuda_gather_grad(const tern_call *call)
{
    tern_view sums;
    const tern_view *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    CUDA_TRY(zero_sums(call, &sums));
    CUDA_TRY(scatter(call, ((const tern_attr_gather_grad *)call->attr)->dim, call->in[1],
                     call->in[0], &sums, true, "gather_grad"));
    return sums.data == out->data ? TERN_OK : copy_to(call, out, &sums);
}

tern_status_t cuda_scatter_add(const tern_call *call)
{
    tern_view sums;
    const tern_view *x = call->in[0], *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    CUDA_TRY(sums_view(call, &sums));
    if (sums.data != out->data || !is_same(out, x))
        CUDA_TRY(copy_to(call, &sums, x));
    CUDA_TRY(scatter(call, ((const tern_attr_dim *)call->attr)->dim, call->in[1], call->in[2],
                     &sums, true, "scatter_add"));
    return sums.data == out->data ? TERN_OK : copy_to(call, out, &sums);
}

tern_status_t cuda_scatter(const tern_call *call)
{
    const tern_view *out = call->out[0];
    if (out->numel > 0 && !is_same(out, call->in[0]))
        CUDA_TRY(copy_to(call, out, call->in[0]));
    return scatter(call, ((const tern_attr_dim *)call->attr)->dim, call->in[1], call->in[2], out,
                   false, "scatter");
}

/* ---- gradient of embedding ------------------------------------------------------------------- */

/* Indices of the table's rows as i64 [n, width], each repeated along its row. */
static tern_status_t row_numbers(const tern_call *call, int64_t width, tern_view *out)
{
    const tern_view *indices = call->in[1];
    tern_view wide = *indices;
    if (indices->dtype != TERN_I64) {
        wide.dtype = TERN_I64;
        wide.data = cuda_scratch(call, indices->numel * (int64_t)sizeof(int64_t));
        if (wide.data == NULL)
            return TERN_ERR_OOM;
        CUDA_TRY(copy_to(call, &wide, indices));
    }
    *out = wide;
    out->ndim = 2;
    out->numel = indices->numel * width;
    out->flags = 0;
    out->shape[0] = indices->numel;
    out->shape[1] = width;
    out->stride[0] = 1;
    out->stride[1] = 0;
    return TERN_OK;
}

static tern_view as_rows(const tern_view *view, int64_t rows, int64_t width)
{
    tern_view v = *view;
    v.ndim = 2;
    v.shape[0] = rows;
    v.shape[1] = width;
    v.stride[0] = width;
    v.stride[1] = 1;
    return v;
}

/* A thread goes along the rows of its column, in order. */
static tern_status_t add_rows_in_order(const tern_call *call, const tern_view *to)
{
    tern_view numbers;
    const int64_t n = call->in[1]->numel, width = call->in[0]->numel / n;
    CUDA_TRY(row_numbers(call, width, &numbers));
    const tern_view rows = as_rows(call->in[0], n, width);
    const tern_view sums = as_rows(to, to->shape[0], width);
    return scatter(call, 0, &numbers, &rows, &sums, true, "embedding_grad");
}

static tern_status_t add_rows(const tern_call *call, const tern_view *to)
{
    cudaStream_t stream = NULL;
    cuda_fault_slot *slot = NULL;
    const tern_view *grad = call->in[0], *indices = call->in[1];
    CUDA_TRY(cuda_enter_noting(call, &stream, &slot));
    return cuda_launched(call,
                         cuda_launch_embedding_grad(to->data, grad->data, grad->dtype,
                                                    indices->data, indices->dtype, to->shape[0],
                                                    grad->numel / indices->numel, indices->numel,
                                                    slot, stream),
                         "embedding_grad");
}

tern_status_t cuda_embedding_grad(const tern_call *call)
{
    tern_view sums;
    const tern_view *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    CUDA_TRY(zero_sums(call, &sums));
    if (call->in[0]->numel > 0)
        CUDA_TRY(repeats(call) ? add_rows_in_order(call, &sums) : add_rows(call, &sums));
    return sums.data == out->data ? TERN_OK : copy_to(call, out, &sums);
}
