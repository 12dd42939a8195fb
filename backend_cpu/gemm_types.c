/* Matrix products of the types that libraries do not have. Half types are converted to f32, summed
 * there and rounded once; integers wrap. */
#include "backend_cpu/gemm.h"

/* Rows of half types are converted in blocks of about this many elements. */
enum { HALF_ELEMENTS = 1 << 22 };

/* ---- half types ------------------------------------------------------------------------------ */

typedef struct to_f32 {
    cpu_convert_fn convert;
    float *out;
    const char *in;
    int64_t row, column; /* strides of `in`, elements */
    int64_t columns;
} to_f32;

static void convert_rows(void *context, int64_t begin, int64_t end)
{
    const to_f32 *t = context;
    for (int64_t i = begin; i < end; i++) {
        float *out = t->out + i * t->columns;
        const char *in = t->in + i * t->row * 2;
        if (t->column == 1)
            t->convert(out, in, t->columns);
        else
            for (int64_t j = 0; j < t->columns; j++)
                t->convert(out + j, in + j * t->column * 2, 1);
    }
}

/* A matrix of a half type as dense f32 in the order that reads it contiguously; strides follow. */
static void widen(float *out, int dtype, const void **data, int64_t rows, int64_t columns,
                  int64_t *row, int64_t *column, int threads)
{
    const bool transposed = *row == 1 && *column != 1;
    to_f32 t = { .convert = cpu_converter(TERN_F32, dtype), .out = out, .in = *data };
    t.row = transposed ? *column : *row;
    t.column = transposed ? *row : *column;
    t.columns = transposed ? rows : columns;
    cpu_parallel(threads, transposed ? columns : rows, 16, convert_rows, &t);
    *data = out;
    *row = transposed ? 1 : columns;
    *column = transposed ? rows : 1;
}

void cpu_widen_b(const cpu_wide_product *wide, int dtype, cpu_product *g, int threads)
{
    widen(wide->b, dtype, &g->b, g->k, g->n, &g->b_row, &g->b_col, threads);
    if (g->bias != NULL) {
        cpu_to_f32(wide->bias, g->bias, dtype, g->n);
        g->bias = wide->bias;
    }
}

void cpu_widen_a(const cpu_wide_product *wide, int dtype, cpu_product *g, int threads)
{
    widen(wide->a, dtype, &g->a, g->m, g->k, &g->a_row, &g->a_col, threads);
    g->c = wide->c;
    g->c_row = g->n;
}

typedef struct from_f32 {
    cpu_convert_fn convert;
    const cpu_product *from, *to;
} from_f32;

static void narrow_rows(void *context, int64_t begin, int64_t end)
{
    const from_f32 *t = context;
    for (int64_t i = begin; i < end; i++)
        t->convert((char *)t->to->c + i * t->to->c_row * 2,
                   (const float *)t->from->c + i * t->from->c_row, t->to->n);
}

void cpu_narrow_c(const cpu_product *f, int dtype, const cpu_product *g, int threads)
{
    from_f32 t = { cpu_converter(dtype, TERN_F32), f, g };
    cpu_parallel(threads, g->m, 16, narrow_rows, &t);
}

/* All rows of a product whose B is in f32 already: some of A at a time. */
static bool run_rows(const tern_call *call, int dtype, const cpu_wide_product *wide,
                     const cpu_product *g, int64_t block, int threads, cpu_product_room *room)
{
    for (int64_t m0 = 0; m0 < g->m; m0 += block) {
        const int64_t end = m0 + block < g->m ? m0 + block : g->m;
        const cpu_product rows = cpu_product_part(g, dtype, true, m0, end);
        cpu_product f = rows;
        cpu_widen_a(wide, dtype, &f, threads);
        if (!cpu_product_run(call, TERN_F32, &f, threads, room))
            return false;
        cpu_narrow_c(&f, dtype, &rows, threads);
    }
    return true;
}

static int64_t at_most(int64_t all, int64_t most)
{
    return all < most ? all : most;
}

/* Columns of B and rows of A at a time, so that neither has to be there in f32 as a whole. */
static bool run_half(const tern_call *call, int dtype, const cpu_product *product, int threads,
                     cpu_product_room *room)
{
    const cpu_product *p = product;
    if (p->m == 0 || p->n == 0)
        return true;
    const int64_t columns = at_most(p->n, HALF_ELEMENTS / (p->k + 1) + 1);
    const int64_t widest = p->k > columns ? p->k : columns;
    const int64_t block = at_most(p->m, HALF_ELEMENTS / widest + 1);
    const cpu_wide_product wide = { cpu_room_take(call, &room->a, block * p->k * 4 + 64),
                                    cpu_room_take(call, &room->b, columns * p->k * 4 + 64),
                                    cpu_room_take(call, &room->c, block * columns * 4 + 64),
                                    cpu_room_take(call, &room->bias, columns * 4 + 64) };
    if (wide.a == NULL || wide.b == NULL || wide.c == NULL || wide.bias == NULL)
        return false;
    for (int64_t n0 = 0; n0 < p->n; n0 += columns) {
        /* rows of A convert once more for each part of B: little beside their product */
        const int64_t end = at_most(p->n, n0 + columns);
        cpu_product part = cpu_product_part(p, dtype, false, n0, end);
        cpu_widen_b(&wide, dtype, &part, threads);
        /* its B and bias are f32, its A and C are still `dtype`: rows move by their sizes */
        if (!run_rows(call, dtype, &wide, &part, block, threads, room))
            return false;
    }
    return true;
}

/* ---- integers -------------------------------------------------------------------------------- */

/* Unsigned arithmetic wraps as two's complement does, whatever the sign of the dtype. */
#define INTEGER_ROWS(name, type, wide)                                            \
    static void name(void *context, int64_t begin, int64_t end)                   \
    {                                                                             \
        const cpu_product *g = context;                                           \
        const type *bias = g->bias;                                               \
        for (int64_t i = begin; i < end; i++) {                                   \
            type *c = (type *)g->c + i * g->c_row;                                \
            for (int64_t j = 0; j < g->n; j++)                                    \
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
                     cpu_product_room *room)
{
    if (dtype == TERN_F32 || dtype == TERN_F64)
        return cpu_product_run(call, dtype, product, threads, room);
    if (dtype == TERN_F16 || dtype == TERN_BF16)
        return run_half(call, dtype, product, threads, room);
    return run_integer(dtype, product, threads);
}
