/* scaled_dot_product_attention and its gradient: one kernel forward; backward one for the queries and one
 * for the keys, so that each result has one writer and sums have one order. */
#include <math.h>

#include "backend_cuda/cuda.h"
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

static cuda_attention_rows rows_of(const tern_view *v)
{
    return (cuda_attention_rows){ v->data, { v->stride[0], v->stride[1], v->stride[2] } };
}

static void set_ld(cuda_attention_args *a)
{
    const int64_t wide = a->dtype == TERN_F64 ? 2 : 4; /* elements of 16 bytes */
    const int64_t features[2] = { a->d, a->e };
    for (int i = 0; i < 2; i++) {
        const int64_t packs = (features[i] + wide - 1) / wide;
        a->row_ld[i] = packs * wide;
        a->column_ld[i] = (packs % 2 != 0 ? packs : packs + 1) * wide;
    }
}

static cuda_attention_args args_of(const tern_attr_attention *attr, const tern_view *q,
                                   const tern_view *k, const tern_view *v, const tern_view *mask)
{
    cuda_attention_args a = { .q = rows_of(q),
                              .k = rows_of(k),
                              .v = rows_of(v),
                              .dtype = q->dtype,
                              .batch = q->shape[0],
                              .heads = q->shape[1],
                              .groups = k->shape[1],
                              .t = q->shape[2],
                              .s = k->shape[2],
                              .d = q->shape[3],
                              .e = v->shape[3],
                              .scale = attr->scale,
                              .keep_scale = attr->p < 1.0 ? 1.0 / (1.0 - attr->p) : 0.0,
                              .causal = attr->causal,
                              .drops = attr->p > 0.0,
                              .least = (int32_t)ceil(attr->p * 0x1p24),
                              .seed = attr->seed,
                              .draw = attr->call };
    set_ld(&a);
    if (mask != NULL) {
        a.mask = mask->data;
        a.mask_is_bool = mask->dtype == TERN_BOOL;
        for (int d = 0; d < 4; d++)
            a.mask_stride[d] = mask->stride[d];
    }
    return a;
}

/* Elements of shared memory that a row of a tile and a column of it take; `apart`: what a column takes more where two
 * tiles need not share their memory, 0: they never do. */
typedef struct tile_needs {
    int64_t row, column, apart;
} tile_needs;

/* The largest tile that fits; its bytes, or 0 after recording that there is none. */
static int64_t choose_tile(const tern_call *call, cuda_attention_args *a, tile_needs needs)
{
    /* rows: 8, 4 or 1 for each warp */
    static const int tiles[][2] = { { 32, 32 }, { 16, 32 }, { 16, 16 }, { 16, 8 }, { 4, 32 },
                                    { 4, 16 },  { 4, 8 },   { 4, 4 },   { 4, 1 } };
    const int64_t size = a->dtype == TERN_F64 ? 8 : 4;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        a->rows = tiles[i][0];
        a->columns = tiles[i][1];
        const int64_t bytes = (a->rows * needs.row + a->columns * needs.column) * size;
        const int64_t more = a->columns * needs.apart * size;
        a->apart = more > 0 && bytes + more <= CUDA_ATTENTION_SHARED;
        if (bytes <= CUDA_ATTENTION_SHARED)
            return a->apart ? bytes + more : bytes;
    }
    (void)call->host->fail(
        TERN_ERR_UNSUPPORTED,
        "heads of %lld and %lld features do not fit in a block's memory; use more "
        "and narrower heads",
        (long long)a->d, (long long)a->e);
    return 0;
}

/* Whether tensor cores take it. */
static bool by_halves(const tern_call *call, const cuda_attention_args *a)
{
    const int64_t narrow = a->d < a->e ? a->d : a->e, wide = a->d < a->e ? a->e : a->d;
    if ((a->dtype != TERN_F16 && a->dtype != TERN_BF16) || narrow == 0 ||
        wide > CUDA_ATTENTION_HALF_WIDEST)
        return false;
    const cuda_device *d = cuda_device_enter(call->dev.index);
    return d != NULL && d->has_mma;
}

tern_status_t cuda_scaled_dot_product_attention(const tern_call *call)
{
    cudaStream_t stream = NULL;
    cuda_attention_args a = args_of(call->attr, call->in[0], call->in[1], call->in[2], call->in[3]);
    const int64_t k_ld = a.column_ld[0], v_ld = a.column_ld[1], widest = k_ld > v_ld ? k_ld : v_ld;
    a.y = rows_of(call->out[0]);
    a.lse = call->out[1]->data;
    if (call->out[1]->numel == 0)
        return TERN_OK;
    if (by_halves(call, &a)) {
        CUDA_TRY(cuda_enter(call, &stream));
        return cuda_launched(call, cuda_launch_attention_half(&a, stream),
                             "scaled_dot_product_attention");
    }
    const int64_t shared = choose_tile(
        call, &a,
        (tile_needs){ a.row_ld[0] + a.e + CUDA_ATTENTION_WEIGHTS, widest, k_ld + v_ld - widest });
    if (shared == 0)
        return TERN_ERR_UNSUPPORTED;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, cuda_launch_attention(&a, shared, stream),
                         "scaled_dot_product_attention");
}

static tern_status_t grad_of_queries(const tern_call *call, cuda_attention_args *a,
                                     cudaStream_t stream)
{
    if (a->batch * a->heads * a->t == 0)
        return TERN_OK;
    if (by_halves(call, a))
        return cuda_launched(call, cuda_launch_attention_half_grad_q(a, stream),
                             "scaled_dot_product_attention_grad");
    const int64_t shared =
        choose_tile(call, a,
                    (tile_needs){ a->row_ld[0] + a->row_ld[1] + a->d + CUDA_ATTENTION_WEIGHTS,
                                  a->column_ld[0] + a->column_ld[1], 0 });
    if (shared == 0)
        return TERN_ERR_UNSUPPORTED;
    return cuda_launched(call, cuda_launch_attention_grad_q(a, shared, stream),
                         "scaled_dot_product_attention_grad");
}

static tern_status_t grad_of_keys(const tern_call *call, cuda_attention_args *a,
                                  cudaStream_t stream)
{
    if (call->out[1]->numel + call->out[2]->numel == 0)
        return TERN_OK;
    if (by_halves(call, a))
        return cuda_launched(call, cuda_launch_attention_half_grad_kv(a, stream),
                             "scaled_dot_product_attention_grad");
    const int64_t shared = choose_tile(
        call, a,
        (tile_needs){ a->row_ld[0] + a->row_ld[1] + a->d + a->e + 2 * CUDA_ATTENTION_WEIGHTS,
                      a->column_ld[0] + a->column_ld[1] + 2, 0 });
    if (shared == 0)
        return TERN_ERR_UNSUPPORTED;
    return cuda_launched(call, cuda_launch_attention_grad_kv(a, shared, stream),
                         "scaled_dot_product_attention_grad");
}

tern_status_t cuda_scaled_dot_product_attention_grad(const tern_call *call)
{
    cudaStream_t stream = NULL;
    cuda_attention_args a = args_of(call->attr, call->in[1], call->in[2], call->in[3], call->in[4]);
    a.grad = rows_of(call->in[0]);
    a.y = rows_of(call->in[5]);
    a.lse = call->in[6]->data;
    a.grad_q = rows_of(call->out[0]);
    a.grad_k = rows_of(call->out[1]);
    a.grad_v = rows_of(call->out[2]);
    if (call->out[0]->numel + call->out[1]->numel + call->out[2]->numel == 0)
        return TERN_OK;
    if (call->in[6]->numel > 0 &&
        (a.delta = cuda_scratch(call, call->in[6]->numel * cuda_dtype_size(call->in[6]->dtype))) ==
            NULL)
        return TERN_ERR_OOM;
    CUDA_TRY(cuda_enter(call, &stream));
    CUDA_TRY(grad_of_queries(call, &a, stream));
    return grad_of_keys(call, &a, stream);
}
