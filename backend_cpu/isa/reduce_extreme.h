/* The loops of cpu_extreme_loops for one type and one order; included for each, no include guard. The
 * includer defines what reduce_type.h needs for the type, and BEST(x), BEYOND(x, most) and REPLACES(x,
 * most), which is true also where x is NaN and `most` is not. */

#if !OWN_VECTORS
/* Lanes ignore NaN, for which one instruction is enough; whether there was one is kept beside. */
static T BEST(row_best)(T before, const T *x, int64_t n)
{
    enum { L = NAME(LANES) };
    T lanes[NAME(UNROLLED)], most;
    ODD odd[L] = { 0 }, any = 0;
    int64_t i = 0;
    for (int j = 0; j < NAME(UNROLLED); j++)
        lanes[j] = before;
    for (; i + NAME(UNROLLED) <= n; i += NAME(UNROLLED)) {
        /* so many operations wait for a line that the CPU itself does not look far enough ahead */
        for (size_t line = 0; line < NAME(UNROLLED) * sizeof(T); line += 64)
            __builtin_prefetch((const char *)(x + i) + 4096 + line);
        for (int j = 0; j < NAME(UNROLLED); j++)
            lanes[j] = BEYOND(x[i + j], lanes[j]) ? x[i + j] : lanes[j];
        for (int j = 0; j < L; j++)
            odd[j] |= !SAME(x[i + j], x[i + j]) | !SAME(x[i + j + L], x[i + j + L]) |
                      !SAME(x[i + j + 2 * L], x[i + j + 2 * L]) |
                      !SAME(x[i + j + 3 * L], x[i + j + 3 * L]);
    }
    for (int step = NAME(UNROLLED) / 2; i > 0 && step > 0; step /= 2) {
        for (int j = 0; j < step; j++)
            lanes[j] = BEYOND(lanes[j + step], lanes[j]) ? lanes[j + step] : lanes[j];
    }
    most = lanes[0];
    for (int j = 0; j < L; j++)
        any |= odd[j];
    for (; i < n; i++) {
        most = BEYOND(x[i], most) ? x[i] : most;
        any |= !SAME(x[i], x[i]);
    }
    return any ? NOT_A_NUMBER : most;
}
#endif

static void BEST(best)(void *best, const void *data, int64_t n, int64_t rows, int64_t stride)
{
    T *most = best;
    const char *row = data;
    for (; rows > 0; rows--, row += stride, most++)
        *most = BEST(row_best)(*most, (const T *)row, n);
}

static void BEST(best_rows)(void *best, const void *data, int64_t columns, int64_t rows,
                            int64_t stride)
{
    T *most = best;
    const char *row = data;
    for (; rows > 0; rows--, row += stride) {
        const T *x = (const T *)row;
        CPU_INDEPENDENT
        for (int64_t j = 0; j < columns; j++)
            most[j] = REPLACES(x[j], most[j]) ? x[j] : most[j];
    }
}

static void BEST(place_rows)(void *best, int64_t *places, const void *data, int64_t columns,
                             int64_t rows, int64_t stride, int64_t first)
{
    T *most = best;
    const char *row = data;
    for (int64_t r = 0; r < rows; r++, row += stride) {
        const T *x = (const T *)row;
        CPU_INDEPENDENT
        for (int64_t j = 0; j < columns; j++) {
            const bool better = REPLACES(x[j], most[j]);
            most[j] = better ? x[j] : most[j];
            places[j] = better ? first + r : places[j];
        }
    }
}
