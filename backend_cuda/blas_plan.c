/* A product in row-major tensors as one of column-major matrices: a row-major matrix is its
 * transpose, column-major, so that C^T = B^T A^T is asked for. */
#include "backend_cuda/blas.h"
#include "backend_cuda/kernels.h"

/* ---- types ----------------------------------------------------------------------------------- */

static bool set_types(cuda_blas_plan *p, int dtype, uint32_t numerics, int capability)
{
    p->compute = CUBLAS_COMPUTE_32F;
    p->scale_type = CUDA_R_32F;
    p->reduce_half = p->split = true;
    switch (dtype) {
    case TERN_F64:
        p->type = p->scale_type = CUDA_R_64F;
        p->compute = CUBLAS_COMPUTE_64F;
        return true;
    case TERN_F32:
        p->type = CUDA_R_32F;
        if (numerics & TERN_NUMERICS_TF32_MATMUL)
            p->compute = CUBLAS_COMPUTE_32F_FAST_TF32;
        return true;
    case TERN_F16:
        p->type = CUDA_R_16F;
        p->reduce_half = (numerics & TERN_NUMERICS_FP16_REDUCTION) != 0;
        p->split = (numerics & TERN_NUMERICS_FP16_SPLITK) != 0;
        if ((numerics & TERN_NUMERICS_FP16_ACCUMULATION) && capability >= 70) {
            p->compute = CUBLAS_COMPUTE_16F;
            p->scale_type = CUDA_R_16F;
        }
        return true;
    case TERN_BF16:
        p->type = CUDA_R_16BF;
        p->reduce_half = (numerics & TERN_NUMERICS_BF16_REDUCTION) != 0;
        p->split = (numerics & TERN_NUMERICS_BF16_SPLITK) != 0;
        return true;
    default:
        return false;
    }
}

cuda_blas_scale cuda_blas_scale_of(cudaDataType type, bool one)
{
    cuda_blas_scale scale = { .f64 = 0 };
    if (!one)
        return scale;
    if (type == CUDA_R_64F)
        scale.f64 = 1;
    else if (type == CUDA_R_32F)
        scale.f32 = 1;
    else
        scale.f16 = 0x3C00; /* 1 as f16 */
    return scale;
}

/* ---- matrices -------------------------------------------------------------------------------- */

static int64_t at_least_one(int64_t n)
{
    return n > 1 ? n : 1;
}

/* rows x columns with these steps, column-major or its transpose; false for other steps. The
 * step of a dimension of size 1 does not matter. */
static bool take(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step,
                 cuda_blas_side *out)
{
    const int64_t down = columns <= 1 ? at_least_one(rows) : column_step;
    const int64_t across = rows <= 1 ? at_least_one(columns) : row_step;
    if ((rows <= 1 || row_step == 1) && down >= at_least_one(rows)) {
        out->op = CUBLAS_OP_N;
        out->ld = down;
        return true;
    }
    out->op = CUBLAS_OP_T;
    out->ld = across;
    return (columns <= 1 || column_step == 1) && across >= at_least_one(columns);
}

/* One operand of the product as it is in memory: [batch, rows, columns]. */
typedef struct operand {
    const void *data;
    int64_t rows, columns;
    int64_t step[3]; /* batch, row, column */
} operand;

/* The operand packed, row-major, into scratch memory; a batch of one matrix stays one. */
static tern_status_t pack(const tern_call *call, int dtype, int64_t batch, operand *x)
{
    const int64_t count = x->step[0] == 0 ? 1 : batch;
    const int64_t numel = count * x->rows * x->columns;
    void *data = cuda_scratch(call, numel * cuda_dtype_size(dtype));
    if (data == NULL)
        return TERN_ERR_OOM;
    const tern_view from = { .data = (void *)(uintptr_t)x->data,
                             .numel = numel,
                             .dtype = (uint8_t)dtype,
                             .ndim = 3,
                             .dev = call->dev,
                             .shape = { count, x->rows, x->columns },
                             .stride = { x->step[0], x->step[1], x->step[2] } };
    tern_view to = from;
    to.data = data;
    to.flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE;
    to.stride[0] = x->rows * x->columns;
    to.stride[1] = x->columns;
    to.stride[2] = 1;
    tern_call copy = *call;
    copy.n_in = copy.n_out = 1;
    copy.in = (const tern_view *const[]){ &from };
    copy.out = (const tern_view *const[]){ &to };
    *x = (operand){
        data, x->rows, x->columns, { count == 1 ? 0 : to.stride[0], to.stride[1], to.stride[2] }
    };
    return cuda_copy(&copy);
}

/* The operand, or its transpose, as a side. */
static tern_status_t set_side(const tern_call *call, const cuda_gemm_args *g, operand x,
                              bool transpose, cuda_blas_side *out)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        const bool fits = transpose ? take(x.columns, x.rows, x.step[2], x.step[1], out)
                                    : take(x.rows, x.columns, x.step[1], x.step[2], out);
        out->data = x.data;
        out->stride = x.step[0];
        if (fits && out->stride >= 0)
            return TERN_OK;
        CUDA_TRY(pack(call, g->dtype, g->batch, &x));
    }
    return call->host->fail(TERN_ERR_BACKEND, "a packed matrix has no unit stride");
}

/* Into the result's rows (its transpose, column-major) or its columns. */
static bool set_result(const cuda_gemm_args *g, cuda_blas_plan *p, bool *out_transpose)
{
    cuda_blas_side side;
    *out_transpose =
        take(g->n, g->m, g->out_stride[2], g->out_stride[1], &side) && side.op == CUBLAS_OP_N;
    if (!*out_transpose &&
        !(take(g->m, g->n, g->out_stride[1], g->out_stride[2], &side) && side.op == CUBLAS_OP_N))
        return false;
    p->m = *out_transpose ? g->n : g->m;
    p->n = *out_transpose ? g->m : g->n;
    p->c = g->out;
    p->ldc = side.ld;
    p->c_stride = g->out_stride[0];
    return true;
}

bool cuda_blas_plan_make(const tern_call *call, const cuda_gemm_args *g, int capability,
                         cuda_blas_plan *out_plan, tern_status_t *out_status)
{
    enum { BIAS_ALIGNMENT = 16 }; /* the epilogue reads the bias in vectors */
    bool transpose = false;
    cuda_blas_plan *p = out_plan;
    *p = (cuda_blas_plan){ .k = g->k, .batch = g->batch };
    *out_status = TERN_OK;
    if (g->k == 0 || !set_types(p, g->dtype, call->host->numerics(), capability) ||
        !set_result(g, p, &transpose))
        return false;
    const operand x = { g->x, g->m, g->k, { g->x_stride[0], g->x_stride[1], g->x_stride[2] } };
    const operand y = { g->y, g->k, g->n, { g->y_stride[0], g->y_stride[1], g->y_stride[2] } };
    *out_status = set_side(call, g, transpose ? y : x, transpose, &p->a);
    if (*out_status == TERN_OK)
        *out_status = set_side(call, g, transpose ? x : y, transpose, &p->b);
    if (g->bias != NULL && transpose && g->batch == 1 && (g->bias_stride == 1 || g->n == 1) &&
        (uintptr_t)g->bias % BIAS_ALIGNMENT == 0)
        p->bias = g->bias;
    p->bias_apart = g->bias != NULL && p->bias == NULL;
    return true;
}
