/* The loops of cpu_reduce_loops for one type; included once per type, no include guard. The
 * includer defines T, ACC, ODD (a signed integer as long as T), NAME(x), LESS(a, b), NOT_A_NUMBER, and
 * OWN_VECTORS as 1 where it has NAME(sum), NAME(prod), NAME(best_greatest) and NAME(best_least) of its own.
 *
 * Sixteen accumulators side by side, which a compiler keeps in vectors. Sums add four elements in T
 * before they go to an accumulator: for f32 two roundings at most, everything above is f64. */
enum { NAME(LANES) = 16, NAME(UNROLLED) = 4 * NAME(LANES) };

static ACC NAME(fold)(ACC *lanes)
{
    for (int step = NAME(LANES) / 2; step > 0; step /= 2) {
        for (int j = 0; j < step; j++)
            lanes[j] += lanes[j + step];
    }
    return lanes[0];
}

#if !OWN_VECTORS
static void NAME(sum)(void *sum, const void *data, int64_t n)
{
    enum { L = NAME(LANES) };
    const T *x = data;
    if (n < L) {
        ACC few = 0;
        for (int64_t k = 0; k < n; k++)
            few += (ACC)x[k];
        *(ACC *)sum += few;
        return;
    }
    ACC lanes[L] = { 0 };
    int64_t i = 0;
    for (; i + NAME(UNROLLED) <= n; i += NAME(UNROLLED), x += NAME(UNROLLED)) {
        /* backwards: compilers load the last operand first, and prefetchers look forwards */
        for (int j = 0; j < L; j++)
            lanes[j] += (ACC)((x[j + 3 * L] + x[j + 2 * L]) + (x[j + L] + x[j]));
    }
    for (; i + L <= n; i += L, x += L) {
        for (int j = 0; j < L; j++)
            lanes[j] += (ACC)x[j];
    }
    for (int j = 0; j < n - i; j++)
        lanes[j] += (ACC)x[j];
    *(ACC *)sum += NAME(fold)(lanes);
}
#endif

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
static void NAME(prod)(void *product, const void *data, int64_t n)
{
    enum { L = 2 * NAME(LANES) };
    const T *x = data;
    ACC lanes[L], all = *(ACC *)product;
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
    *(ACC *)product = all * lanes[0];
}
#endif

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
/* The mean rounded to T adds its own error's square to each term: nothing against a spread that T
 * can hold. */
static void NAME(spread)(double *sum, const void *data, int64_t n, double exact_mean)
{
    enum { L = NAME(LANES) };
    const T *x = data, mean = (T)exact_mean;
    ACC lanes[L] = { 0 };
    int64_t i = 0;
    for (; i + NAME(UNROLLED) <= n; i += NAME(UNROLLED), x += NAME(UNROLLED)) {
        for (int j = 0; j < L; j++) {
            const T a = x[j] - mean, b = x[j + L] - mean;
            const T c = x[j + 2 * L] - mean, d = x[j + 3 * L] - mean;
            lanes[j] += (ACC)((a * a + b * b) + (c * c + d * d));
        }
    }
    for (; i + L <= n; i += L, x += L) {
        for (int j = 0; j < L; j++)
            lanes[j] += (ACC)((x[j] - mean) * (x[j] - mean));
    }
    for (int j = 0; j < n - i; j++)
        lanes[j] += (ACC)((x[j] - mean) * (x[j] - mean));
    *sum += NAME(fold)(lanes);
}

static void NAME(spread_rows)(double *sums, const void *data, int64_t columns, int64_t rows,
                              int64_t stride, const double *means)
{
    const char *row = data;
    for (; rows > 0; rows--, row += stride) {
        const T *x = (const T *)row;
        CPU_INDEPENDENT
        for (int64_t j = 0; j < columns; j++)
            sums[j] += ((double)x[j] - means[j]) * ((double)x[j] - means[j]);
    }
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
