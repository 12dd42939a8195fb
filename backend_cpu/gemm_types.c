/* Matrix products of integers, which wrap; and of every dtype by its way. */
#include "backend_cpu/gemm.h"

/* ---- integers -------------------------------------------------------------------------------- */

/* Unsigned arithmetic wraps as two's complement does, whatever the sign of the dtype. */
#define INTEGER_ROWS(name, type, wide)                                            \
    static void name(void *context, int64_t begin, int64_t end)                   \
    {                                                                             \
        const cpu_product *g = context;                                           \
        const type *bias = g->bias;                                               \
        for (int64_t i = begin; i < end; i++) {                                   \
            type *c = (type *)g->c + i * g->c_row;                                \
            for (int64_t j = 0; j < g->n && !g->accumulate; j++)                  \
                c[j] = bias != NULL ? bias[j] : 0;                                \
            for (int64_t p = 0; p < g->k; p++) {                                  \
                const type a = ((const type *)g->a)[i * g->a_row + p * g->a_col]; \
                const type *b = (const type *)g->b + p * g->b_row;                \
                for (int64_t j = 0; j < g->n; j++)                                \
                    c[j] = (type)(c[j] + (wide)a * b[j * g->b_col]);              \
            }                                                                     \
        }                                                                         \
    }
INTEGER_ROWS(integer_rows_8, uint8_t, uint32_t)
INTEGER_ROWS(integer_rows_16, uint16_t, uint32_t)
INTEGER_ROWS(integer_rows_32, uint32_t, uint32_t)
INTEGER_ROWS(integer_rows_64, uint64_t, uint64_t)

void cpu_gemm_i64(const cpu_product *product, void *scratch)
{
    cpu_product g = *product;
    (void)scratch;
    integer_rows_64(&g, 0, g.m);
}

static bool run_integer(int dtype, const cpu_product *product, int threads)
{
    cpu_product g = *product;
    const int64_t size = cpu_dtype_size(dtype);
    cpu_parallel(threads, g.m, 4,
                 size == 1   ? integer_rows_8
                 : size == 2 ? integer_rows_16
                 : size == 4 ? integer_rows_32
                             : integer_rows_64,
                 &g);
    return true;
}

bool cpu_product_any(const tern_call *call, int dtype, const cpu_product *product, int threads,
                     cpu_room *room)
{
    if (dtype == TERN_F32 || dtype == TERN_F64)
        return cpu_product_run(call, dtype, product, threads, room);
    if (dtype == TERN_F16 || dtype == TERN_BF16)
        return cpu_product_half(call, dtype, product, threads, room);
    return run_integer(dtype, product, threads);
}
