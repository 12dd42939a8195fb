/* See gemm_library.h. */
#include "backend_cpu/gemm_library.h"

#include <string.h>

#include "backend_cpu/gemm_way.h"

/* Leading dimension of a matrix of these strides, 0 when the library cannot take it. */
static int64_t leading(int64_t rows, int64_t columns, int64_t row, int64_t column, int *out_trans)
{
    *out_trans = column != 1;
    if (column == 1)
        return row >= columns ? row : 0;
    return row == 1 && column >= rows ? column : 0;
}

static void start_rows(const cpu_product *g, int64_t size)
{
    for (int64_t i = 0; i < g->m; i++)
        memcpy((char *)g->c + i * g->c_row * size, g->bias, (size_t)(g->n * size));
}

/* Fills in how A and B lie; NULL: no library can take the product. */
static const cpu_blas_table *library_of(const cpu_product *g, cpu_gemm_call *out_call)
{
    out_call->lda = leading(g->m, g->k, g->a_row, g->a_col, &out_call->trans_a);
    out_call->ldb = leading(g->k, g->n, g->b_row, g->b_col, &out_call->trans_b);
    return out_call->lda != 0 && out_call->ldb != 0 ? cpu_blas() : NULL;
}

bool cpu_product_suits_library(const cpu_product *g)
{
    cpu_gemm_call probe;
    return library_of(g, &probe) != NULL;
}

bool cpu_product_by_library(int dtype, const cpu_product *g, const cpu_gemm_choice *way)
{
    cpu_gemm_call lib = { .dtype = dtype == TERN_F64    ? CPU_BLAS_F64
                                   : dtype == TERN_BF16 ? CPU_BLAS_BF16
                                   : dtype == TERN_F16  ? CPU_BLAS_F16
                                                        : CPU_BLAS_F32,
                          .threads = way->threads,
                          .maker = way->maker,
                          .cut = way->cut,
                          .m = g->m,
                          .n = g->n,
                          .k = g->k,
                          .a = g->a,
                          .b = g->b,
                          .c = g->c,
                          .ldc = g->c_row,
                          .beta = g->accumulate || g->bias != NULL ? 1 : 0 };
    const cpu_blas_table *blas = library_of(g, &lib);
    if (blas == NULL)
        return false;
    if (cpu_is_half(dtype)) { /* rounded once, with the bias in the sum */
        lib.bias = g->bias;
        lib.beta = 0;
    } else if (g->bias != NULL) {
        start_rows(g, cpu_dtype_size(dtype));
    }
    const uint32_t before = cpu_flush_begin();
    const cpu_blas_status status = blas->gemm(&lib);
    cpu_flush_end(before);
    return status == CPU_BLAS_OK;
}
