/* The loops of cpu_reduce_loops for one type; included once per type, no include guard. The
 * includer defines T, ACC, ODD (a signed integer as long as T), NAME(x), LESS(a, b), NOT_A_NUMBER, NAME(row_sum), and
 * OWN_VECTORS as 1 where it has NAME(spread_block), NAME(squares_block), NAME(row_prod), NAME(row_best_greatest) and
 * NAME(row_best_least) of its own.
 *
 * Sixteen accumulators side by side, which a compiler keeps in vectors. Sums add four elements in T
 * before they go to an accumulator: for f32 two roundings at most, everything above is f64. */
enum { NAME(LANES) = 16, NAME(UNROLLED) = 4 * NAME(LANES) };

static void NAME(sum)(void *sums, const void *data, int64_t n, int64_t rows, int64_t stride)
{
    ACC *sum = sums;
    const char *row = data;
    for (; rows > 0; rows--, row += stride)
        *sum++ += NAME(row_sum)((const T *)row, n);
}

static int64_t NAME(find)(const void *value, const void *data, int64_t n)
{
    const T *x = data, wanted = *(const T *)value;
    const bool number = SAME(wanted, wanted);
    int64_t i = 0;
    for (; i + NAME(UNROLLED) <= n; i += NAME(UNROLLED)) {
        int found = 0;
        for (int j = 0; j < NAME(UNROLLED); j++)
            found |= number ? SAME(x[i + j], wanted) : !SAME(x[i + j], x[i + j]);
        if (found)
            break;
    }
    while (i < n && !(number ? SAME(x[i], wanted) : !SAME(x[i], x[i])))
        i++;
    return i;
}

static void NAME(sum_rows)(void *sums, const void *data, int64_t columns, int64_t rows,
                           int64_t stride)
{
    ACC *sum = sums;
    const char *row = data;
    for (; rows >= 4; rows -= 4, row += 4 * stride) {
        const T *a = (const T *)row, *b = (const T *)(row + stride);
        const T *c = (const T *)(row + 2 * stride), *d = (const T *)(row + 3 * stride);
        CPU_INDEPENDENT
        for (int64_t j = 0; j < columns; j++)
            sum[j] += (ACC)((a[j] + b[j]) + (c[j] + d[j]));
    }
    for (; rows > 0; rows--, row += stride) {
        const T *x = (const T *)row;
        CPU_INDEPENDENT
        for (int64_t j = 0; j < columns; j++)
            sum[j] += (ACC)x[j];
    }
}

#if !OWN_VECTORS
static ACC NAME(row_prod)(const T *x, int64_t n)
{
    enum { L = 2 * NAME(LANES) };
    ACC lanes[L];
    int64_t i = 0;
    for (int j = 0; j < L; j++)
        lanes[j] = 1;
    for (; i + L <= n; i += L, x += L) {
        for (int j = 0; j < L; j++)
            lanes[j] *= (ACC)x[j];
    }
    for (int j = 0; j < n - i; j++)
        lanes[j] *= (ACC)x[j];
    for (int step = L / 2; step > 0; step /= 2) {
        for (int j = 0; j < step; j++)
            lanes[j] *= lanes[j + step];
    }
    return lanes[0];
}
#endif

static void NAME(prod)(void *products, const void *data, int64_t n, int64_t rows, int64_t stride)
{
    ACC *product = products;
    const char *row = data;
    for (; rows > 0; rows--, row += stride)
        *product++ *= NAME(row_prod)((const T *)row, n);
}

static void NAME(prod_rows)(void *products, const void *data, int64_t columns, int64_t rows,
                            int64_t stride)
{
    ACC *product = products;
    const char *row = data;
    for (; rows > 0; rows--, row += stride) {
        const T *x = (const T *)row;
        CPU_INDEPENDENT
        for (int64_t j = 0; j < columns; j++)
            product[j] *= (ACC)x[j];
    }
}

#if SPREAD
static ACC NAME(fold)(ACC *lanes)
{
    for (int step = NAME(LANES) / 2; step > 0; step /= 2) {
        for (int j = 0; j < step; j++)
            lanes[j] += lanes[j + step];
    }
    return lanes[0];
}

enum { NAME(SPREAD_BLOCK) = 4096 }; /* fit in the first-level cache */

#if !OWN_VECTORS
TILE_INLINE void NAME(spread_line)(ACC *squares, T *away, const T *x, int64_t n, T about)
{
    for (int64_t j = 0; j < n; j++) {
        const T a = x[j] - about;
        squares[j] += (ACC)(a * a);
        away[j] += a;
    }
}

static void NAME(spread_block)(cpu_spread *out, const T *x, int64_t n, T about)
{
    enum { L = NAME(LANES) };
    ACC squares[L] = { 0 }, all = 0;
    T away[L] = { 0 };
    int64_t i = 0;
    for (; i + NAME(UNROLLED) <= n; i += NAME(UNROLLED), x += NAME(UNROLLED)) {
        for (int j = 0; j < L; j++) {
            const T a = x[j] - about, b = x[j + L] - about;
            const T c = x[j + 2 * L] - about, d = x[j + 3 * L] - about;
            squares[j] += (ACC)((a * a + b * b) + (c * c + d * d));
            away[j] += (a + b) + (c + d);
        }
    }
    for (; i + L <= n; i += L, x += L)
        NAME(spread_line)(squares, away, x, L, about);
    NAME(spread_line)(squares, away, x, n - i, about);
    for (int j = 0; j < L; j++)
        all += (ACC)away[j];
    *out = (cpu_spread){ NAME(fold)(squares), all };
}

static double NAME(squares_block)(const T *x, int64_t n)
{
    cpu_spread sum;
    NAME(spread_block)(&sum, x, n, 0);
    return sum.squares;
}
#endif

static void NAME(spread_wide)(cpu_spread *out, const T *x, int64_t n, double about)
{
    enum { L = NAME(LANES) };
    double squares[L] = { 0 }, away[L] = { 0 };
    int64_t i = 0;
    for (; i + NAME(UNROLLED) <= n; i += NAME(UNROLLED), x += NAME(UNROLLED)) {
        for (int j = 0; j < L; j++) {
            const double a = (double)x[j] - about, b = (double)x[j + L] - about;
            const double c = (double)x[j + 2 * L] - about, d = (double)x[j + 3 * L] - about;
            squares[j] += (a * a + b * b) + (c * c + d * d);
            away[j] += (a + b) + (c + d);
        }
    }
    for (; i < n; i++, x++) {
        const double a = (double)*x - about;
        squares[0] += a * a;
        away[0] += a;
    }
    *out = (cpu_spread){ NAME(fold)(squares), NAME(fold)(away) };
}

/* Squares of T; again as f64, from the first-level cache, those of a block that leave T's range: above
 * 2^-100 on average, what T's smallest numbers lose is nothing beside the sum. */
static bool NAME(leaves_range)(double squares, int64_t n)
{
    return sizeof(T) < sizeof(double) &&
           !(squares >= 0x1p-100 * (double)n && squares < (double)INFINITY);
}

static void NAME(spread)(cpu_spread *sum, const void *data, int64_t n, double about)
{
    const T *x = data;
    for (int64_t i = 0; i < n; i += NAME(SPREAD_BLOCK)) {
        const int64_t m = n - i < NAME(SPREAD_BLOCK) ? n - i : NAME(SPREAD_BLOCK);
        cpu_spread part;
        NAME(spread_block)(&part, x + i, m, (T)about);
        if (NAME(leaves_range)(part.squares, m))
            NAME(spread_wide)(&part, x + i, m, about);
        sum->squares += part.squares;
        sum->away += part.away;
    }
}

static double NAME(row_squares)(const T *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += NAME(SPREAD_BLOCK)) {
        const int64_t m = n - i < NAME(SPREAD_BLOCK) ? n - i : NAME(SPREAD_BLOCK);
        cpu_spread part = { NAME(squares_block)(x + i, m), 0 };
        if (NAME(leaves_range)(part.squares, m))
            NAME(spread_wide)(&part, x + i, m, 0);
        sum += part.squares;
    }
    return sum;
}

static void NAME(squares)(double *sums, const void *data, int64_t n, int64_t rows, int64_t stride)
{
    const char *row = data;
    for (; rows > 0; rows--, row += stride)
        *sums++ += NAME(row_squares)((const T *)row, n);
}

TILE_INLINE void NAME(spread_at)(double *squares, double *away, int64_t j, double a, double b)
{
    squares[j] += a * a + b * b;
    if (away != NULL)
        away[j] += a + b;
}

TILE_INLINE void NAME(spread_all_rows)(double *squares, double *away, const void *data,
                                       int64_t columns, int64_t rows, int64_t stride,
                                       const double *about)
{
    const char *row = data;
    for (; rows >= 2; rows -= 2, row += 2 * stride) {
        const T *x = (const T *)row, *y = (const T *)(row + stride);
        CPU_INDEPENDENT
        for (int64_t j = 0; j < columns; j++)
            NAME(spread_at)(squares, away, j, (double)x[j] - about[j], (double)y[j] - about[j]);
    }
    if (rows > 0) {
        const T *x = (const T *)row;
        CPU_INDEPENDENT
        for (int64_t j = 0; j < columns; j++)
            NAME(spread_at)(squares, away, j, (double)x[j] - about[j], 0);
    }
}

static void NAME(spread_rows)(double *squares, double *away, const void *data, int64_t columns,
                              int64_t rows, int64_t stride, const double *about)
{
    if (away == NULL)
        NAME(spread_all_rows)(squares, NULL, data, columns, rows, stride, about);
    else
        NAME(spread_all_rows)(squares, away, data, columns, rows, stride, about);
}
#endif

#define BEST(x) NAME(x##_greatest)
#define BEYOND(x, most) LESS(most, x)
#define REPLACES(x, most) (BEYOND(x, most) | (!SAME(x, x) & SAME(most, most)))
#include "backend_cpu/isa/reduce_extreme.h"
#undef BEST
#undef BEYOND

#define BEST(x) NAME(x##_least)
#define BEYOND(x, most) LESS(x, most)
#include "backend_cpu/isa/reduce_extreme.h"
#undef BEST
#undef BEYOND
#undef REPLACES
