/* The loops of cpu_reduce_loops for one type; included once per type, no include guard. The includer
 * defines T, ACC, NAME(x) and GREATER(x, best), true also where x is NaN and best is not.
 *
 * Sixteen accumulators side by side, which a compiler keeps in vectors. Sums add four elements in T
 * before they go to an accumulator: for f32 that is two roundings at most, everything above is f64. */
enum { NAME(LANES) = 16, NAME(UNROLLED) = 4 * NAME(LANES) };

static ACC NAME(fold)(ACC *lanes)
{
    for (int step = NAME(LANES) / 2; step > 0; step /= 2) {
        for (int j = 0; j < step; j++)
            lanes[j] += lanes[j + step];
    }
    return lanes[0];
}

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
        for (int j = 0; j < L; j++)
            lanes[j] += (ACC)((x[j] + x[j + L]) + (x[j + 2 * L] + x[j + 3 * L]));
    }
    for (; i + L <= n; i += L, x += L) {
        for (int j = 0; j < L; j++)
            lanes[j] += (ACC)x[j];
    }
    for (int j = 0; j < n - i; j++)
        lanes[j] += (ACC)x[j];
    *(ACC *)sum += NAME(fold)(lanes);
}

static void NAME(amax)(void *best, const void *data, int64_t n)
{
    const T *x = data;
    if (n < NAME(LANES)) {
        T few = *(const T *)best;
        for (int64_t k = 0; k < n; k++)
            few = GREATER(x[k], few) ? x[k] : few;
        *(T *)best = few;
        return;
    }
    T lanes[NAME(UNROLLED)];
    int64_t i = 0;
    for (int j = 0; j < NAME(UNROLLED); j++)
        lanes[j] = *(const T *)best;
    for (; i + NAME(UNROLLED) <= n; i += NAME(UNROLLED), x += NAME(UNROLLED)) {
        for (int j = 0; j < NAME(UNROLLED); j++)
            lanes[j] = GREATER(x[j], lanes[j]) ? x[j] : lanes[j];
    }
    for (int j = 0; j < n - i; j++)
        lanes[j] = GREATER(x[j], lanes[j]) ? x[j] : lanes[j];
    T greatest = lanes[0];
    for (int j = 1; j < NAME(UNROLLED); j++)
        greatest = GREATER(lanes[j], greatest) ? lanes[j] : greatest;
    *(T *)best = greatest;
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

static void NAME(amax_rows)(void *best, const void *data, int64_t columns, int64_t rows,
                            int64_t stride)
{
    T *greatest = best;
    const char *row = data;
    for (; rows > 0; rows--, row += stride) {
        const T *x = (const T *)row;
        CPU_INDEPENDENT
        for (int64_t j = 0; j < columns; j++)
            greatest[j] = GREATER(x[j], greatest[j]) ? x[j] : greatest[j];
    }
}

static void NAME(argmax_rows)(void *best, int64_t *places, const void *data, int64_t columns,
                              int64_t rows, int64_t stride, int64_t first)
{
    T *greatest = best;
    const char *row = data;
    for (int64_t r = 0; r < rows; r++, row += stride) {
        const T *x = (const T *)row;
        CPU_INDEPENDENT
        for (int64_t j = 0; j < columns; j++) {
            const bool better = GREATER(x[j], greatest[j]);
            greatest[j] = better ? x[j] : greatest[j];
            places[j] = better ? first + r : places[j];
        }
    }
}

#if SPREAD
static void NAME(spread)(double *sum, const void *data, int64_t n, double mean)
{
    enum { L = NAME(LANES) };
    const T *x = data;
    ACC lanes[L] = { 0 };
    int64_t i = 0;
    for (; i + L <= n; i += L, x += L) {
        for (int j = 0; j < L; j++)
            lanes[j] += ((ACC)x[j] - mean) * ((ACC)x[j] - mean);
    }
    for (int j = 0; j < n - i; j++)
        lanes[j] += ((ACC)x[j] - mean) * ((ACC)x[j] - mean);
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
